"""Comparisons on bits: as `compare`, a few rounds more and a fraction of the bytes.

Both numbers are cut into digits of four bits. The coordinator deals each digit of its number as one-hot *bits*, XOR
shared, in which everyone looks up its shares of "equal" and "less" at the public digit. Neighbouring digits then become
one: less = XOR_i less_i prod_{j above i} equal_j, equal = prod_i equal_i, a polynomial of bits opened under fresh masks.
When one digit is left, its "less" is the answer. All of it is computed on planes, 64 comparisons and more at a time.

One-hot tables: Ishai, Kushilevitz, Meldgaard, Orlandi, Paskin-Cherniavsky, "On the Power of Correlated Randomness in
Secure Computation" (TCC 2013).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from math import prod

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import open_shares
from mpfedxgb.protocols.polynomials import Polynomials, polynomials
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U8, U64
from mpfedxgb.ring.planes import as_octets, as_words, look_up_digits, octets_of, one_hot_planes, plane_bits, planes_of
from mpfedxgb.ring.ring import BIT, PACKED

DIGIT = 4
"""Bits per digit: with three, the tables shrink by less than the groups grow."""

MOST_IN_A_GROUP = 10
"""Digits that become one at a time; what is dealt for a group doubles with every digit."""


def negative_by_bits(party: Party, x: Secret, bits: int, rounds: int = 2, digit: int = DIGIT) -> Shares:
    """Return shared bits, 1 where x < 0, for |x| < 2^(bits - 1): only the lowest `bits` bits are looked at.

    1. The coordinator deals the one-hot digits of the mask's lowest bits - 1 bits, its next bit, and for every group of
       digits the products of the group's fresh masks. Everyone looks up its shares at the public digits.
    2. In every round, all "less" and "equal" that are left are opened under their masks, and groups become one.

    With m = x + r: the top bit of x is top(m) ^ top(r) ^ [low(m) < low(r)]; the tops are added to the first "less".

    Rounds: `rounds`, and fewer where so many are not needed. Sent: two bits per digit, and then per group of digits, by
    each auxiliary. Reveals: nothing.
    """
    if not 2 <= bits <= x.ring.bits:
        raise DoesNotFitError(f"a sign is one of 2 to {x.ring.bits} bits of {x.ring}, not of {bits}")
    party.step("negative by bits")
    count = prod(x.shape)
    party.meter.now.comparisons += count
    layout, octets = comparison(bits - 1, rounds, digit), octets_of(count)
    masks = party.fresh(PACKED, (layout.masks, octets))
    (dealt,) = party.deal(
        [(PACKED, (layout.dealt, octets))],
        lambda: [RingArray(PACKED, layout.deal(planes_of(x.mask, bits), masks.data))],
    )
    if party.is_coordinator:
        for level in layout.levels:
            open_shares(party, [RingArray.hidden(PACKED, (level.variables, octets))])
        return Shares(RingArray.hidden(BIT, x.shape))
    active = int(party.is_active)
    shares = layout.look_up(active, planes_of(x.masked, bits), dealt.data)
    for place, level in enumerate(layout.levels):
        mask = masks.data[layout.mask_places[place] : layout.mask_places[place + 1]]
        (opened,) = open_shares(party, [RingArray(PACKED, as_octets(shares, octets) ^ mask)])
        products = dealt.data[layout.dealt_places[place] : layout.dealt_places[place + 1]]
        shares = level.evaluate(active, mask, products, opened.data)
    return Shares(RingArray(BIT, plane_bits(shares[0], count).reshape(x.shape)))


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Sizes and local parts of comparing numbers of so many bits: the tables, then one level of groups per round.

    Dealt are, in this order: the tables, the flip of the answer, the products of each level.
    """

    bits: int
    digit: int
    levels: tuple[Polynomials, ...]
    tables: int
    mask_places: tuple[int, ...]
    dealt_places: tuple[int, ...]

    @property
    def masks(self) -> int:
        """Planes of fresh masks."""
        return self.mask_places[-1]

    @property
    def dealt(self) -> int:
        """Planes that are dealt."""
        return self.dealt_places[-1]

    def deal(self, number: U64, masks: U8) -> U8:
        """Return what the coordinator deals, from its number (bits + 1, W), of which the last is the flip, and masks."""
        out, factors = np.empty((self.dealt, number.shape[1]), np.uint64), as_words(masks)
        one_hot_planes(number[: self.bits], self.digit, out[: self.tables])
        out[self.tables] = number[self.bits]
        for level, (first, last), (low, high) in zip(
            self.levels, pairwise(self.mask_places), pairwise(self.dealt_places), strict=True
        ):
            level.products(factors[first:last], out[low:high])
        return as_octets(out, masks.shape[1])

    def look_up(self, constant: int, number: U64, dealt: U8) -> U64:
        """Return shares of "less" and "equal" at the digits of the public number (bits + 1, W), flipped by its last."""
        out = np.empty((2 * -(-self.bits // self.digit) - 1, number.shape[1]), np.uint64)
        tables = as_words(dealt[: self.tables + 1])
        look_up_digits(number[: self.bits], tables[: self.tables], self.digit, out)
        out[0] ^= tables[self.tables]
        if constant:
            out[0] ^= number[self.bits]
        return out


@lru_cache(maxsize=64)
def comparison(bits: int, rounds: int, digit: int = DIGIT) -> Comparison:
    """Return the cheapest layout for numbers of so many bits in so many rounds, or fewer."""
    if bits < 1 or rounds < 1:
        raise DoesNotFitError(f"a comparison has 1 bit and 1 round or more, not {bits} and {rounds}")
    sizes = grouping(-(-bits // digit), rounds)
    if sizes is None:
        raise DoesNotFitError(
            f"numbers of {bits} bits are not compared in {rounds} rounds, {MOST_IN_A_GROUP} digits to a group; give more"
        )
    levels = tuple(_level(level) for level in sizes)
    tables = sum(1 << min(digit, bits - low) for low in range(0, bits, digit))
    return Comparison(
        bits,
        digit,
        levels,
        tables,
        tuple(accumulate((level.variables for level in levels), initial=0)),
        tuple(accumulate((level.dealt for level in levels), initial=tables + 1)),
    )


Grouping = tuple[tuple[int, ...], ...]
"""Per round, how many digits each group has, from the top."""


@lru_cache(maxsize=1024)
def grouping(digits: int, rounds: int) -> Grouping | None:
    """Return the groups for which least is dealt; None where so few rounds are not enough."""
    if digits == 1:
        return ()
    if rounds == 0 or digits > MOST_IN_A_GROUP**rounds:
        return None
    best: tuple[int, Grouping] | None = None
    for groups in range(1, digits):
        size, larger = divmod(digits, groups)
        level = (size,) * (groups - larger) + (size + 1,) * larger
        rest = grouping(groups, rounds - 1) if max(level) <= MOST_IN_A_GROUP else None
        if rest is not None:
            cost = sum(_dealt_for(each) for each in (level, *rest))
            if best is None or cost < best[0]:
                best = cost, (level, *rest)
    return None if best is None else best[1]


def _dealt_for(level: tuple[int, ...]) -> int:
    """Return the products dealt for groups of so many digits; the lowest has no "equal" to pass on."""
    *upper, last = level
    return sum(2 * (2**g - 1 - g) for g in upper) + 2**last - 1 - last + 2 ** (last - 1) - last


def _level(sizes: tuple[int, ...]) -> Polynomials:
    """Return "less" and "equal" of groups of digits; variable 2 i is "less" of digit i, and 2 i + 1 its "equal"."""
    outputs, first, digits = [], 0, sum(sizes)
    for size in sizes:
        above, less = 0, []
        for i in range(first, first + size):
            less.append(above | 1 << (2 * i))
            above |= 1 << (2 * i + 1)
        outputs.append(less)
        first += size
        if first < digits:
            outputs.append([above])
    return polynomials(2 * digits - 1, outputs)
