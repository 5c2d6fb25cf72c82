"""The exponential in integers: a table of 1,024 segments and one quadratic for all, for `security="sealed"`.

Of x in units of u = 2^-24 it is e = exp(rate x) in units of 2^-places. x is held to [low, high), cut into a segment s
and the distance t from its centre. exp(a + b) = exp(a) exp(b), so a segment has one number E[s], and all share a
quadratic:

    X = min(max(x, low), high - 1) - low     s = X >> r     t = (X mod 2^r) - 2^(r - 1)
    q = 2^25 + ((A t + B t^2 + 2^41) >> 42)     v = E[s] q     e = (v + 2^(50 - places)) >> (51 - places)

q is 1 + (1 + a^2 / 8) z + z^2 / 2 for z = rate t and |z| <= a, the quadratic that is nearest to exp(z). E, at 2^-26,
comes of `decimal`, as the sigmoid's table does: results are the same on every machine.

**Range.** exp(rate high) is just below 2^10. A segment is the narrowest power of two with which the range has a width
of 24 or more in rate x: below it exp is less than 0.7 u, and e is 0 there and in the first segment. Above, e is what it
is at high - 1. Units are to be chosen so that 2^10 is far above all that has to be distinguished.

**Error.** |e 2^-places - exp(rate x)| is at most 2^-places and, relative to exp(rate x), 2^-22.4 for a rate of 1, or
2^-20.6 for any from 2^-5 to 1: a^3 / 24 is what a quadratic leaves of the cubic term, with a = 1/64 for a rate of 1 and
below 3/128 for others (benchmarks/sigmoid_error.py looks at every x).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import cache

import numpy as np

from mpfedxgb.sigmoid import I64, PLACES, SEGMENT_BITS, SEGMENTS, U64

TOP_BITS = 10
"""e is below 2^10."""

WIDTH = 24
"""How wide the range is at least, in rate x."""

ENTRY_PLACES = 26
ENTRY_BITS = ENTRY_PLACES + TOP_BITS
FACTOR_PLACES = 25
FACTOR_SHIFT = 42
"""Places of A t + B t^2, below 2^62, that are rounded away for q."""

VALUE_PLACES = ENTRY_PLACES + FACTOR_PLACES
"""Binary places of v, which is below 2^62."""

SMALLEST_RATE = Fraction(1, 32)
"""Of a smaller rate B would have too few bits."""


@dataclass(frozen=True, slots=True, eq=False)
class Exponential:
    """exp(rate x): what its table and its quadratic are made of, as the module says."""

    rate: float
    low: int
    remainder_bits: int
    linear: int
    square: int
    table: I64 = field(repr=False)

    @property
    def width(self) -> int:
        """How many x there are in the range."""
        return SEGMENTS << self.remainder_bits

    @property
    def words(self) -> U64:
        """Return the table, a word of ENTRY_BITS bits per segment."""
        return self.table.astype(np.uint64)

    def at(self, x: I64, places: int = PLACES) -> I64:
        """Return exp(rate x) in units of 2^-places, for x in units of 2^-24; any shape, any x."""
        v, dropped = self.product_at(x), VALUE_PLACES - places
        return np.asarray((v + (1 << (dropped - 1))) >> dropped, np.int64)

    def product_at(self, x: I64) -> I64:
        """Return v, exp(rate x) in units of 2^-51, before it is rounded."""
        half = 1 << (self.remainder_bits - 1)
        X = np.clip(x, self.low, self.low + self.width - 1) - self.low
        t = (X & (2 * half - 1)) - half
        bent = self.linear * t + self.square * t * t
        q = (1 << FACTOR_PLACES) + ((bent + (1 << (FACTOR_SHIFT - 1))) >> FACTOR_SHIFT)
        return np.asarray(self.table[X >> self.remainder_bits] * q, np.int64)


@cache
def exponential(rate: float) -> Exponential:
    """Return the table of exp(rate x), for a rate from SMALLEST_RATE to 1."""
    exact = Fraction(rate)
    assert SMALLEST_RATE <= exact <= 1, rate
    bits = PLACES - SEGMENT_BITS
    while exact * (1 << bits) < WIDTH << (PLACES - SEGMENT_BITS):
        bits += 1
    with localcontext(Context(prec=50, rounding=ROUND_HALF_EVEN)):
        step = Decimal(rate) * (1 << bits) / (1 << PLACES)  # a segment, in rate x
        above = int((TOP_BITS * Decimal(2).ln() - Decimal("1e-5")) / step)
        value, factor = (-(SEGMENTS - above - Decimal("0.5")) * step).exp(), step.exp()
        table = [0]
        for _ in range(1, SEGMENTS):
            value *= factor
            table.append(int((value * (1 << ENTRY_PLACES)).to_integral_value()))
    a = exact * (1 << bits) / (2 << PLACES)
    entries = np.array(table, np.int64)
    entries.flags.writeable = False
    return Exponential(
        rate=rate,
        low=-(SEGMENTS - above) << bits,
        remainder_bits=bits,
        linear=round(exact * (1 + a * a / 8) * (1 << (FACTOR_SHIFT + FACTOR_PLACES - PLACES))),
        square=round(exact * exact * (1 << (FACTOR_SHIFT + FACTOR_PLACES - 2 * PLACES - 1))),
        table=entries,
    )
