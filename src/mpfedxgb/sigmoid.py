"""The logistic function in integers: a quadratic in each of 1,024 segments, for `security="sealed"`.

Margins F and probabilities p are in units of u = 2^-24. F is held to [-16, 16), cut into a segment s and the distance t
from its centre, and p is v = c0[s] + c1[s] t + c2[s] t^2, exact at 2^-60, rounded to 2^-24 (half goes up):

    x = min(max(F, -2^28), 2^28 - 1) + 2^28     s = x >> 19     t = (x mod 2^19) - 2^18
    v = c0[s] 2^34 + c1[s] t 2^16 + c2[s] t^2   p = (v + 2^35) >> 36

The table is a part of the protocol: p is computed from it alone, in the clear and on shares. It comes of `decimal`,
whose results are the same on every machine, and of integers.

**Error.** |p u - sigma(F u)| <= 0.994 u inside, and < u outside; 0.9902 u is the largest of all 2^29 inputs
(benchmarks/sigmoid_error.py). The last rounding has 0.5 of it, and 0.333 is what a quadratic over 1/32 leaves of the
cubic term at F = 0. Of the scales that were tried (25 to 28 places of c0, 19 to 22 of c1, 10 to 14 of c2) none with
fewer than 53 bits stays within u.

**Range.** sigma(-16) is 1.89 u, so that p = u is within u of it and of all that is below. The first and the last
segment are flat, p = u and 1 - u, and these are the values outside, too; p and p (1 - p) are never 0. Holding F to
[-32, 32) instead would take a bit more of s and twice the table, and make no error smaller.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from functools import cache

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
U64 = npt.NDArray[np.uint64]

PLACES = 24
"""Binary places of F and of p."""

SEGMENT_BITS = 10
REMAINDER_BITS = 19
"""Bits of F in a segment, which is 2^-5 wide."""

SEGMENTS = 1 << SEGMENT_BITS
LIMIT = 1 << (SEGMENT_BITS + REMAINDER_BITS - 1)
"""F is held to [-LIMIT, LIMIT): -16 to 16."""

HALF_SEGMENT = 1 << (REMAINDER_BITS - 1)

C0_PLACES, C1_PLACES, C2_PLACES = 26, 20, 12

VALUE_PLACES = C2_PLACES + 2 * PLACES
"""Binary places of v, 60: those of c2 t^2."""

C0_SHIFT = VALUE_PLACES - C0_PLACES
C1_SHIFT = VALUE_PLACES - C1_PLACES - PLACES
DROPPED_BITS = VALUE_PLACES - PLACES
"""Places of v that are rounded away. 0 < v < 2^60 for every segment and t, so that v + 2^35 fits 61 bits."""


@dataclass(frozen=True, slots=True)
class Field:
    """Where a coefficient is in a segment's word: its lowest bit, how many there are, and two's complement or not."""

    first: int
    width: int
    is_signed: bool


FIELDS = (Field(0, 26, False), Field(26, 18, False), Field(44, 9, True))
"""Those of c0, c1 and c2."""

WORD_BITS = FIELDS[-1].first + FIELDS[-1].width

_STEPS = 16
"""Sixteenths of a segment at whose ends the fit is judged."""


def sigmoid(F: I64) -> I64:
    """Return p = sigma(F), both in units of 2^-24; any shape, any F."""
    x = np.clip(F, -LIMIT, LIMIT - 1) + LIMIT
    s, t = x >> REMAINDER_BITS, (x & (2 * HALF_SEGMENT - 1)) - HALF_SEGMENT
    c0, c1, c2 = (c[s] for c in coefficients())
    v = (c0 << C0_SHIFT) + ((c1 * t) << C1_SHIFT) + c2 * t * t
    return np.asarray((v + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS, np.int64)


@cache
def words() -> U64:
    """Return the table as a word of WORD_BITS bits per segment (SEGMENTS,), its fields as FIELDS says."""
    packed = np.zeros(SEGMENTS, np.uint64)
    for c, at in zip(coefficients(), FIELDS, strict=True):
        packed |= (c & ((1 << at.width) - 1)).astype(np.uint64) << np.uint64(at.first)
    packed.flags.writeable = False
    return packed


@cache
def coefficients() -> tuple[I64, I64, I64]:
    """Return c0, c1 and c2 (SEGMENTS,) at scales of 2^-26, 2^-20 and 2^-12.

    Of the integers about the interpolating ones those are taken whose largest error is smallest, c0 last, in the middle
    of the errors that c1 and c2 leave. The lower half is the upper one's mirror image: sigma(-z) = 1 - sigma(z).
    """
    half = SEGMENTS // 2
    f, t = _samples(half), np.arange(-_STEPS // 2, _STEPS // 2 + 1) * (2 * HALF_SEGMENT // _STEPS)
    low, middle, high = f[:, 1], f[:, _STEPS // 2], f[:, -2]  # near the nodes of Chebyshev, 0 and +-0.87
    a = int(t[-2])
    slope = ((high - low) // (2 * a)) >> C1_SHIFT
    bend = (high - 2 * middle + low) // (2 * a * a)
    best: tuple[I64, I64, I64, I64] | None = None
    for i in (-1, 0, 1, 2):
        for k in (-1, 0, 1, 2):
            c1, c2 = slope + i, bend + k
            left = f - ((c1[:, None] * t) << C1_SHIFT) - c2[:, None] * t * t
            c0 = (left.max(axis=1) + left.min(axis=1) + (1 << C0_SHIFT)) >> (C0_SHIFT + 1)
            error = np.abs(left - (c0 << C0_SHIFT)[:, None]).max(axis=1)
            now = (error, c0, c1, c2)
            best = now if best is None else _smaller(now, best)
    assert best is not None
    _, c0, c1, c2 = best
    one = 1 << (C0_PLACES - PLACES)  # one unit of p
    c0[-1], c1[-1], c2[-1] = (1 << (C0_PLACES - 1)) - one, 0, 0
    centre = 1 << (C0_PLACES - 1)
    table = (
        np.concatenate([centre - c0[::-1], centre + c0]),
        np.concatenate([c1[::-1], c1]),
        np.concatenate([-c2[::-1], c2]),
    )
    for c in table:
        c.flags.writeable = False
    return table


def _smaller(now: tuple[I64, I64, I64, I64], best: tuple[I64, I64, I64, I64]) -> tuple[I64, I64, I64, I64]:
    """Return, segment by segment, the one whose first number is smaller; the older one of equals."""
    better = now[0] < best[0]
    error, c0, c1, c2 = (np.where(better, a, b) for a, b in zip(now, best, strict=True))
    return error, c0, c1, c2


def _samples(half: int) -> I64:
    """Return sigma - 1/2 in units of 2^-60, (half, _STEPS + 1): ends and sixteenths of the segments from 0 upwards.

    exp(-z) is a product of equal factors, to 50 digits, of which the 10,000 roundings take four.
    """
    with localcontext(Context(prec=50, rounding=ROUND_HALF_EVEN)):
        width = Decimal(2 * HALF_SEGMENT) / (1 << PLACES)
        factor, e = (-width / _STEPS).exp(), Decimal(1)
        f = []
        for _ in range(half * _STEPS + 1):
            f.append(int(((1 - e) / (1 + e) * (1 << (VALUE_PLACES - 1))).to_integral_value()))
            e *= factor
    of_grid = np.array(f, np.int64)
    return np.stack([of_grid[k : k + half * _STEPS : _STEPS] for k in range(_STEPS + 1)], axis=1)
