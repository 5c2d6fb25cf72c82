"""Comparisons: is a public number less than one the coordinator knows? Hence the sign of any secret.

Both numbers are cut into digits of four bits. The coordinator deals each digit of its number as a shared one-hot table,
in which everyone looks up its shares of "equal" and "less" at the public digit. From the top,
t_i = 2 * (number of digits above i that differ) + less_i is 1 at the deciding digit only. t_i is opened under a mask
rho_i, and a second dealt table, one-hot in rho_i, turns "t_i = 1" into a shared bit.

Both are one-time truth tables: Ishai, Kushilevitz, Meldgaard, Orlandi, Paskin-Cherniavsky, "On the Power of Correlated
Randomness in Secure Computation" (TCC 2013).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.protocols.opening import Pending, Steps, open_pending
from mpfedxgb.protocols.secret import Secret, Shares, public_shares
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray, bit_at, low_digits
from mpfedxgb.ring.kernels import I64, U8
from mpfedxgb.ring.ring import BIT, PACKED, Ring, Shape

DIGIT = 4
"""Bits per digit: 16 entries per one-hot table balance dealer bytes against the number of digits."""

_MAX_DIGITS = 128
"""t_i <= 2 i + 1 has to fit a byte."""


@dataclass(frozen=True, slots=True)
class _Plan:
    """Sizes for comparing numbers of a given width: number of digits, and per digit the table of t_i and its place."""

    digits: int
    base: int
    ring: Ring
    sizes: U8
    places: I64
    packed: int

    @property
    def clip(self) -> U8:
        """Per digit, the mask that reduces modulo its table size."""
        return (self.sizes - np.uint8(1)).astype(np.uint8)


@lru_cache(maxsize=64)
def _plan(bits: int, digit: int) -> _Plan:
    """Lay the tables out: t_i <= 2 i + 1 at the i-th digit from the top, so its table has the next power of two."""
    count = -(-bits // digit)
    if not 1 <= count <= _MAX_DIGITS:
        text = f"a comparison has 1 to {_MAX_DIGITS} digits, not {count} ({bits} bits by {digit})"
        raise DoesNotFitError(text, parameter="digits", value=count)
    sizes = np.array([1 << (2 * i + 1).bit_length() for i in range(count)], np.int64)
    places = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    modulus = Ring(int(sizes[-1]).bit_length() - 1)
    return _Plan(count, 1 << digit, modulus, sizes.astype(np.uint8), places, -(-int(sizes.sum()) // 8))


def negative(party: Party, x: Secret, digit: int = DIGIT, bits: int | None = None) -> Shares:
    """Return shared bits, 1 where x < 0, for |x| < 2^(bits - 1); without `bits`, those of the ring.

    With m = x + r: the top bit of x is top(m) ^ top(r) ^ [low(m) < low(r)]. The mask of any secret serves as r.

    Rounds: 1. Sent: one byte per digit by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [comparing_with_zero(party, x, digit, bits)])[0]


def comparing_with_zero(party: Party, x: Secret, digit: int = DIGIT, bits: int | None = None) -> Pending[Shares]:
    """Prepare `negative` up to its opening. Rounds: 0."""
    low = (x.ring.bits if bits is None else bits) - 1
    flip = bit_at(x.mask, low) if party.is_dealer else RingArray.hidden(BIT, x.shape)
    less, top = _comparing(party, x, low, flip, digit), public_shares(party, bit_at(x.masked, low))
    return Pending(less.part, lambda tau: less.finish(tau) + top, less.clip)


def less_than(party: Party, x: Secret, bits: int, flip: RingArray | None = None, digit: int = DIGIT) -> Shares:
    """Return shared bits, 1 where the low `bits` bits of x's masked value are less than those of its mask.

    1. The coordinator deals the one-hot digits of the mask and, for a fresh rho_i per digit, the one-hot bits of rho_i.
    2. Everyone looks up its share of t_i and adds its share of rho_i; the sums tau_i are opened. Shares and sums are
       reduced modulo the size of the i-th table *before* they are sent: an opened number is never wider than its mask.
    3. Everyone looks up its share of [rho_i = tau_i - 1] and adds over the digits.

    `flip` (the coordinator's) is added to the answer on the way. Rounds: 1. Sent: one byte per digit by each auxiliary.
    Reveals: nothing.
    """
    return open_pending(party, [_comparing(party, x, bits, flip, digit)])[0]


def _comparing(party: Party, x: Secret, bits: int, flip: RingArray | None, digit: int) -> Pending[Shares]:
    """Prepare `less_than` up to its opening."""
    party.step("less than")
    plan, shape = _plan(bits, digit), x.shape
    party.count(comparisons=prod(shape))
    rho = party.fresh(plan.ring, (*shape, plan.digits))

    def deal_tables() -> list[RingArray]:
        return [_one_hot_digits(x.mask, bits, digit, plan), _one_hot_masks(rho, flip, plan)]

    one_hot, look_up = party.deal(  # one-time truth tables (Ishai et al. 2013), of single digits
        [(plan.ring, (*shape, plan.digits, plan.base)), (PACKED, (*shape, plan.packed))], deal_tables
    )
    if party.is_symbolic:
        answer = Shares(RingArray.hidden(BIT, shape))
        return Pending(RingArray.hidden(plan.ring, rho.shape), lambda _: answer, lambda total: _clipped(total, plan))
    part = _masked_terms(plan, low_digits(x.masked, bits, digit), one_hot, rho, party.public_share)
    return Pending(
        part,
        lambda tau: Shares(RingArray(BIT, _look_up(plan, look_up, tau).reshape(shape))),
        lambda total: _clipped(total, plan),
    )


def _masked_terms(plan: _Plan, digits: U8, one_hot: RingArray, rho: RingArray, public_share: int) -> RingArray:
    """Return one participant's share of t_i + rho_i of every digit, reduced to the size of its table."""
    t = np.empty((rho.size // plan.digits, plan.digits), np.uint8)
    tables = np.ascontiguousarray(one_hot.data).reshape(-1, plan.digits, plan.base)
    kernels.digit_terms(digits.reshape(t.shape), tables, public_share, t)
    return _clipped(RingArray(plan.ring, (t + rho.data.reshape(t.shape)).reshape(rho.shape)), plan)


def _look_up(plan: _Plan, table: RingArray, tau: RingArray) -> U8:
    """Return one participant's share of [rho_i = tau_i - 1], added over the digits."""
    digits = tau.data.reshape(-1, plan.digits)
    places = ((digits - np.uint8(1)) & plan.clip).astype(np.int64) + plan.places
    bit = np.empty(len(digits), np.uint8)
    kernels.look_up_bits(np.ascontiguousarray(table.data).reshape(-1, plan.packed), places, bit)
    return bit


@dataclass(frozen=True, slots=True)
class ByteSigns:
    """The signs of numbers of `bits` bits, as a part of a larger step: the comparison above, in one round."""

    bits: int
    rounds: int = 1
    opens: str = "digits"

    @property
    def _sizes(self) -> _Plan:
        return _plan(self.bits - 1, DIGIT)

    def fresh(self, count: int) -> list[Spec]:
        """Return what is drawn for `count` signs."""
        return [(self._sizes.ring, (count, self._sizes.digits))]

    def opened(self, count: int) -> list[list[Spec]]:
        """Return what each round opens for `count` signs."""
        return [self.fresh(count)]

    def clip(self, total: RingArray) -> RingArray:
        """Reduce sums of digits to the sizes of their tables, the width of their masks."""
        return _clipped(total, self._sizes)

    def dealt(self, count: int) -> list[Spec]:
        """Return what is dealt for `count` signs."""
        plan = self._sizes
        return [(plan.ring, (count, plan.digits, plan.base)), (PACKED, (count, plan.packed))]

    def deal(self, mask: RingArray, fresh: Sequence[RingArray]) -> list[RingArray]:
        """Return what the coordinator deals, from the masks of the numbers (count)."""
        plan = self._sizes
        one_hot = _one_hot_digits(mask, self.bits - 1, DIGIT, plan)
        return [one_hot, _one_hot_masks(fresh[0], bit_at(mask, self.bits - 1), plan)]

    def steps(
        self, public_share: int, masked: RingArray, fresh: Sequence[RingArray], dealt: Sequence[RingArray]
    ) -> Steps:
        """Yield what has to be opened, take it opened, and return this participant's shares as a plane (1, B)."""
        plan = self._sizes
        part = _masked_terms(plan, low_digits(masked, self.bits - 1, DIGIT), dealt[0], fresh[0], public_share)
        tau = yield part, self.clip
        answer = _look_up(plan, dealt[1], tau)
        if public_share:
            answer ^= bit_at(masked, self.bits - 1).data
        return np.packbits(answer, bitorder="little").reshape(1, -1)


def _clipped(digits: RingArray, plan: _Plan) -> RingArray:
    return digits if digits.is_hidden else RingArray(plan.ring, digits.data & plan.clip)


def _one_hot_digits(mask: RingArray, bits: int, digit: int, plan: _Plan) -> RingArray:
    digits = low_digits(mask, bits, digit)
    table = (digits[..., None] == np.arange(plan.base, dtype=np.uint8)).astype(np.uint8)
    return RingArray(plan.ring, table)


def _one_hot_masks(rho: RingArray, flip: RingArray | None, plan: _Plan) -> RingArray:
    shape: Shape = rho.shape[:-1]
    places = (rho.data.reshape(-1, plan.digits) & plan.clip).astype(np.int64) + plan.places
    table = np.zeros((len(places), plan.packed), np.uint8)
    kernels.flip_bits(table, places)
    if flip is not None:
        # The first table has two entries, and exactly one entry of it is looked up: flipping both flips the answer.
        table[:, 0] ^= flip.data.reshape(-1) * np.uint8(3)
    return RingArray(PACKED, table.reshape(*shape, plan.packed))
