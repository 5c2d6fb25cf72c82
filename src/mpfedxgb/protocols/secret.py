"""What is computed on: masked secrets and additive shares (section 3.3, with one mask per value).

A `Secret` x is held as m_x = x + lam_x, known to every participant, and lam_x, of which each participant holds a share
and the coordinator the whole. `Shares` are plain additive shares that nobody has masked yet. Sums, differences,
public factors, slices and reshapes are local, on both; what sends is a function that takes the party first.

Masks that belong to values instead of to products, so that only results are opened: Ben-Efraim, Nielsen, Omri,
"Turbospeedz: Double Your Online SPDZ!" (ACNS 2019); Patra, Schneider, Suresh, Yalame, "ABY2.0" (USENIX Security 2021).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError, SecretError
from mpfedxgb.party.party import Party
from mpfedxgb.ring import array as ring_array
from mpfedxgb.ring.array import Index, RingArray
from mpfedxgb.ring.ring import Ring, Shape


class Guarded:
    """Refuses to be tested, compared, looped over, hashed or pickled; its repr shows ring and shape only."""

    __slots__ = ()

    ring: Ring
    shape: Shape

    __array_ufunc__ = None  # NumPy would otherwise make an array of secrets out of array * secret

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.ring}, shape={self.shape})"

    def __bool__(self) -> NoReturn:
        raise SecretError(
            "a secret has no truth value; compare it with a protocol and reveal the answer", parameter="truth"
        )

    def __eq__(self, other: object) -> NoReturn:
        raise SecretError("secrets are compared with a protocol, not with ==", parameter="equality")

    def __iter__(self) -> NoReturn:
        raise SecretError("a secret is not looped over; slice it", parameter="loop")

    def __reduce__(self) -> NoReturn:
        raise SecretError("a secret is never pickled", parameter="pickle")

    __hash__ = None  # type: ignore[assignment] # what cannot be compared cannot be a key


class Secret(Guarded):
    """A masked value: `masked` (hidden at the coordinator) and this role's part `mask` of the mask."""

    __slots__ = ("mask", "masked", "ring", "shape")

    def __init__(self, masked: RingArray, mask: RingArray) -> None:
        self.masked, self.mask = masked, mask
        self.ring, self.shape = masked.ring, masked.shape

    def __add__(self, other: Secret | RingArray | int) -> Secret:
        """Add a secret, or a public value (which only shifts the masked value)."""
        if isinstance(other, Secret):
            return Secret(self.masked + other.masked, self.mask + other.mask)
        masked = self.masked + other
        return Secret(masked, self.mask.broadcast_to(masked.shape))

    def __sub__(self, other: Secret | RingArray | int) -> Secret:
        """Subtract a secret or a public value."""
        if isinstance(other, Secret):
            return Secret(self.masked - other.masked, self.mask - other.mask)
        masked = self.masked - other
        return Secret(masked, self.mask.broadcast_to(masked.shape))

    def __neg__(self) -> Secret:
        return Secret(-self.masked, -self.mask)

    def __rsub__(self, other: RingArray | int) -> Secret:
        return -self + other

    def __mul__(self, factor: int) -> Secret:
        """Multiply by an integer that all roles know, the coordinator too; products of secrets talk: see `multiply`."""
        if not isinstance(factor, int):
            kind = type(factor).__name__
            raise SecretError(
                f"only an int scales a secret locally, not a {kind}; call multiply(party, x, y)", "type", "factor", kind
            )
        return Secret(self.masked * factor, self.mask * factor)

    __radd__ = __add__
    __rmul__ = __mul__

    def scaled(self, factors: RingArray) -> Secret:
        """Multiply elementwise by numbers that all roles know, the coordinator too."""
        return Secret(self.masked * factors, self.mask * factors)

    def __getitem__(self, index: Index) -> Secret:
        return Secret(self.masked[index], self.mask[index])

    def sum(self, axis: int = -1) -> Secret:
        """Return the sum along one axis."""
        return Secret(self.masked.sum(axis), self.mask.sum(axis))

    def reshape(self, *shape: int) -> Secret:
        """Return the same elements in another shape."""
        return Secret(self.masked.reshape(*shape), self.mask.reshape(*shape))

    def broadcast_to(self, shape: Shape) -> Secret:
        """Return a view in a larger shape."""
        return Secret(self.masked.broadcast_to(shape), self.mask.broadcast_to(shape))


class Shares(Guarded):
    """Additive shares of a value: `part` is this participant's; the coordinator has none (hidden)."""

    __slots__ = ("part", "ring", "shape")

    def __init__(self, part: RingArray) -> None:
        self.part = part
        self.ring, self.shape = part.ring, part.shape

    def __add__(self, other: Shares) -> Shares:
        return Shares(self.part + other.part)

    def __sub__(self, other: Shares) -> Shares:
        return Shares(self.part - other.part)

    def __neg__(self) -> Shares:
        return Shares(-self.part)

    def __mul__(self, factor: RingArray | int) -> Shares:
        """Multiply by a value that the participants know."""
        return Shares(self.part * factor)

    __rmul__ = __mul__

    def __getitem__(self, index: Index) -> Shares:
        return Shares(self.part[index])

    def sum(self, axis: int = -1) -> Shares:
        """Return the sum along one axis."""
        return Shares(self.part.sum(axis))

    def reshape(self, *shape: int) -> Shares:
        """Return the same elements in another shape."""
        return Shares(self.part.reshape(*shape))


def to_shares(party: Party, x: Secret) -> Shares:
    """Return a secret as additive shares: -lam of each participant, and m from the active one. Local."""
    if party.is_symbolic:
        return Shares(RingArray.hidden(x.ring, x.shape))
    return public_shares(party, x.masked) - Shares(x.mask) if party.public_share else Shares(-x.mask)


def public_shares(party: Party, values: RingArray) -> Shares:
    """Return shares of a value that the participants know: the active one holds it, the others hold zero. Local."""
    if values.is_hidden or party.public_share == 1:
        return Shares(values)
    return Shares(values * party.public_share if party.public_share else RingArray.zeros(values.ring, values.shape))


def add_public(party: Party, part: RingArray, term: Callable[[], RingArray]) -> RingArray:
    """Return a role's part plus its share of a public term, which is not computed where that share is 0. Local."""
    return part + public_shares(party, term()).part if party.public_share else part


def public_secret(party: Party, ring: Ring, values: npt.ArrayLike) -> Secret:
    """Return integers that all roles know as a secret with mask zero. Local."""
    known = RingArray.encode(ring, values)
    zero = RingArray.zeros(ring, known.shape)
    return Secret(RingArray.hidden(ring, known.shape) if party.is_dealer else known, zero)


def reduced(x: Secret, ring: Ring) -> Secret:
    """Return a secret modulo a narrower ring: masked value and mask, each reduced. Local."""
    if x.ring.bitwise or ring.bitwise or ring.bits > x.ring.bits:
        raise DoesNotFitError(
            f"{x} is not reduced to {ring}, which is not narrower; lift it instead", parameter="ring", value=str(ring)
        )
    return Secret(x.masked.cast(ring), x.mask.cast(ring))


def concatenate(secrets: Sequence[Secret], axis: int = -1) -> Secret:
    """Join secrets along an existing axis. Local."""
    return Secret(
        ring_array.concatenate([x.masked for x in secrets], axis),
        ring_array.concatenate([x.mask for x in secrets], axis),
    )


def stack(secrets: Sequence[Secret], axis: int = 0) -> Secret:
    """Join secrets along a new axis. Local."""
    return Secret(
        ring_array.stack([x.masked for x in secrets], axis), ring_array.stack([x.mask for x in secrets], axis)
    )


def concatenate_shares(shares: Sequence[Shares], axis: int = -1) -> Shares:
    """Join shares along an existing axis. Local."""
    return Shares(ring_array.concatenate([x.part for x in shares], axis))
