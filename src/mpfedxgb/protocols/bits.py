"""Hidden bits put to use: opened bits, selection, and the child update (Algorithm 3, lines 32-34).

An opened bit is a masked secret over {0, 1}: m_b = b ^ rho. In a ring, b = m_b + (1 - 2 m_b) rho is affine in rho, so a
product of bits and one value is a public combination of products of rho's and the value's mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import mul

import numpy as np

from mpfedxgb.party.party import Party, Spec
from mpfedxgb.protocols.multiply import multiply
from mpfedxgb.protocols.opening import open_masked, open_masked_batch
from mpfedxgb.protocols.secret import Secret, Shares, to_shares
from mpfedxgb.protocols.share import share
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, Ring, Shape


@dataclass(frozen=True, slots=True, eq=False)
class Bit:
    """Masked bits. Where each mask is one participant's alone (`owned`), the dealer is saved a share."""

    secret: Secret
    owned: bool = False

    @property
    def shape(self) -> Shape:
        """Shape of the array of bits."""
        return self.secret.shape

    def __getitem__(self, index: object) -> Bit:
        return Bit(self.secret[index], self.owned)

    def __invert__(self) -> Bit:
        """Return 1 - b: the same mask over the flipped public bit. Local."""
        return Bit(self.secret + 1, self.owned)


def open_bit(party: Party, shares: Shares) -> Bit:
    """Turn shared bits into opened bits, m_b = b ^ rho.

    Rounds: 1. Sent: one bit each by each auxiliary. Reveals: nothing.
    """
    party.step("open bit")
    return Bit(open_masked(party, shares))


def share_bit(party: Party, owner: int, shape: Shape, values: RingArray | None = None) -> Bit:
    """Put bits of one participant into the computation, masked by itself (SHR of s_L, line 30 of Algorithm 3).

    Rounds: 1. Sent: one bit each by the owner (passed on by the active participant). Reveals: nothing.
    """
    return Bit(share(party, owner, BIT, shape, values), owned=True)


def both(party: Party, x: Secret, y: Secret) -> Secret:
    """Return x AND y of masked bits, single or packed.

    Rounds: 1. Sent: the bits of the result by each auxiliary. Reveals: nothing.
    """
    return multiply(party, x, y)


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """base + value where all `bits` are 1; the latter added up along `axis`, if one is given. Shapes broadcast."""

    bits: tuple[Bit, ...]
    value: Secret
    base: Secret | None = None
    axis: int | None = None


def gated_sums(party: Party, batch: Sequence[Gated], name: str = "gated sum") -> list[Secret]:
    """Return base + (product of bits) * value, for a batch of any rings and shapes in one round.

    1. For every subset S of the bits, the coordinator deals [prod_S rho] and [prod_S rho * lam]. The first is not
       needed for a single bit whose mask its owner knows: the owner holds all of it.
    2. Everyone combines them with the public bits and the public masked value; the sums are opened under fresh masks.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    shares = gated_shares(party, batch, name)
    return open_masked_batch(party, shares)


def gated_shares(party: Party, batch: Sequence[Gated], name: str = "gated sum") -> list[Shares]:
    """Return base + (product of bits) * value as additive shares: `gated_sums` without its opening.

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    party.step(name)
    rhos = _Rhos(batch)
    rhos.dealt = party.deal(rhos.specs, rhos.compute)
    parts = []
    for gated in batch:
        shape = np.broadcast_shapes(gated.value.shape, *(b.shape for b in gated.bits))
        part = RingArray.hidden(gated.value.ring, shape) if party.is_coordinator else rhos.part(party, gated)
        party.meter.now.products += part.size * len(gated.bits)
        if gated.axis is not None:
            part = part.sum(gated.axis)
        if gated.base is not None:
            part = part + to_shares(party, gated.base).part
        parts.append(Shares(part))
    return parts


def select(party: Party, bit: Bit, pairs: Sequence[tuple[Secret, Secret]]) -> list[Secret]:
    """Return, for each pair, the first where the bit is 0 and the second where it is 1.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    return gated_sums(party, [Gated((bit,), b - a, a) for a, b in pairs], name="select")


def bit_times(party: Party, bit: Bit, x: Secret) -> Secret:
    """Return b x: the child update, where b says which rows of the node go left and x holds its g and h.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    return gated_sums(party, [Gated((bit,), x)], name="bit times")[0]


class _Rhos:
    """The products of bit masks, with and without a value's mask, that a batch needs dealt; each of them once."""

    def __init__(self, batch: Sequence[Gated]) -> None:
        self.specs: list[Spec] = []
        self.dealt: list[RingArray] = []
        self._recipes: list[tuple[Ring, tuple[Bit, ...], Secret | None]] = []
        self._where: dict[tuple[object, ...], int] = {}
        for gated in batch:
            for places in _subsets(len(gated.bits)):
                bits = tuple(gated.bits[i] for i in places)
                if not _is_owned(bits):
                    self._want(gated.value.ring, bits, None)
                self._want(gated.value.ring, bits, gated.value)

    def _want(self, ring: Ring, bits: tuple[Bit, ...], value: Secret | None) -> None:
        key = _key(ring, bits, value)
        if key not in self._where:
            self._where[key] = len(self.specs)
            shapes = [b.shape for b in bits] + ([] if value is None else [value.shape])
            self.specs.append((ring, np.broadcast_shapes(*shapes)))
            self._recipes.append((ring, bits, value))

    def compute(self) -> list[RingArray]:
        """Return the values to deal (the coordinator's)."""
        values = []
        for ring, bits, value in self._recipes:
            product = reduce(mul, [b.secret.mask for b in bits]).cast(ring)
            values.append(product if value is None else product * value.mask)
        return values

    def part(self, party: Party, gated: Gated) -> RingArray:
        """Return this participant's share of (product of bits) * (m - lam)."""
        ring, value = gated.value.ring, gated.value
        publics = [b.secret.masked.cast(ring) for b in gated.bits]
        signs = [1 - (p + p) for p in publics]
        plain = value.masked - value.mask if party.is_active else -value.mask
        part = plain * reduce(mul, publics)
        for places in _subsets(len(gated.bits)):
            bits = tuple(gated.bits[i] for i in places)
            alone = bits[0].secret.mask.cast(ring) if _is_owned(bits) else self._share(ring, bits, None)
            factors = [s if i in places else p for i, (p, s) in enumerate(zip(publics, signs, strict=True))]
            part = part + (alone * value.masked - self._share(ring, bits, value)) * reduce(mul, factors)
        return part

    def _share(self, ring: Ring, bits: tuple[Bit, ...], value: Secret | None) -> RingArray:
        return self.dealt[self._where[_key(ring, bits, value)]]


def _is_owned(bits: tuple[Bit, ...]) -> bool:
    return len(bits) == 1 and bits[0].owned


def _key(ring: Ring, bits: tuple[Bit, ...], value: Secret | None) -> tuple[object, ...]:
    return (ring, *(id(b) for b in bits), None if value is None else id(value))


def _subsets(count: int) -> list[tuple[int, ...]]:
    """Return all subsets of places but the empty one (of places, since a bit may stand at two of them)."""
    return [subset for n in range(1, count + 1) for subset in combinations(range(count), n)]
