"""The softmax in integers: exponentials over their sum, by a table of reciprocals, for `security="sealed"`.

Margins F_k and probabilities P_k of K classes, up to 256, are in units of u = 2^-24. With M the largest margin of a
row, v_k is exp(F_k - M) as `mpfedxgb.exponential` has it, not yet rounded, for an argument that is moved up: at F_k = M
it is just above 2^m, m = 10 - b, for the least b > 0 with K <= 2^b, so that all of a row keep within 2^62 in sum.

    v_k = 2^51 exp(F_k - M + top)     e_k = round(v_k / 2^(21 + m))     S = round((v_1 + ... + v_K) / 2^(25 + m))
    x = S - 2^26     s = x >> 18     t = (x mod 2^18) - 2^17
    R = round((c0[s] 2^30 + c1[s] t 2^14 + c2[s] t^2) / 2^30)     P_k = round(e_k R / 2^36)

x is in [0, 2^(26 + b)), and a segment is 2^-8 of the largest exponential wide: R is 2^56 / S, within 6.2 units.

**Error.** |P_k - P| <= 2.3 u for the softmax P of the same margins. The exponentials have 1.52 of it: of relative
errors d_k up to 2^-22.4 come P_k (d_k - sum P_j d_j), no more than 2 P_k (1 - P_k) of the largest. The last rounding
has a half, R and S the rest. h = 2 P_k (1 - P_k), rounded once more, is within 3.2 u (benchmarks/sigmoid_error.py
--classes K).

**Range.** Below -30 from the largest margin, or nearer where K is large, e_k is 0, which is within u / 16 of it.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from mpfedxgb.exponential import TOP_BITS, VALUE_PLACES, Exponential, exponential
from mpfedxgb.sigmoid import I64, PLACES, U64, Field

MOST_CLASSES = 256
"""A table of 2^16 segments serves as many."""

POWER_BITS = 30
"""e_k is 2^30 for the largest margin."""

SUM_BITS = 26
"""S is 2^26 or more."""

REMAINDER_BITS = 18
"""Bits of S in a segment."""

C0_PLACES, C1_PLACES, C2_PLACES = 30, 20, 8

RECIPROCAL_PLACES = 2 * SUM_BITS + C2_PLACES
"""Binary places of what R is before it is rounded: those of c2 t^2."""

C0_SHIFT = RECIPROCAL_PLACES - C0_PLACES
C1_SHIFT = RECIPROCAL_PLACES - C1_PLACES - SUM_BITS
DROPPED_BITS = RECIPROCAL_PLACES - C0_PLACES
"""Places of it that are rounded away."""

PRODUCT_PLACES = POWER_BITS + C0_PLACES - PLACES
"""Places of e_k R that are rounded away."""

FIELDS = (Field(0, 30, False), Field(30, 21, True), Field(51, 9, False))
"""Those of c0, c1 and c2 in a segment's word."""

WORD_BITS = FIELDS[-1].first + FIELDS[-1].width

_MOVED = 16
"""What `top` is above m ln 2, in units of a margin: more than the error of the exponential, so that S is not below."""


def class_bits(classes: int) -> int:
    """Return b."""
    assert 1 <= classes <= MOST_CLASSES, classes
    return max(1, (classes - 1).bit_length())


def segment_bits(classes: int) -> int:
    """Return how many bits the number of a segment has."""
    return class_bits(classes) + SUM_BITS - REMAINDER_BITS


def top(classes: int) -> int:
    """Return the argument of the exponential at the largest margin."""
    return math.ceil((TOP_BITS - class_bits(classes)) * math.log(2.0) * (1 << PLACES)) + _MOVED


def power_places(classes: int) -> int:
    """Return the places of v_k that are rounded away for e_k."""
    return VALUE_PLACES + TOP_BITS - class_bits(classes) - POWER_BITS


def sum_places(classes: int) -> int:
    """Return the places of the sum of all v_k that are rounded away for S."""
    return VALUE_PLACES + TOP_BITS - class_bits(classes) - SUM_BITS


def powers() -> Exponential:
    """Return the table of the exponentials."""
    return exponential(1.0)


def softmax(F: I64) -> I64:
    """Return P_k (classes, ...) of margins F_k (classes, ...), both in units of 2^-24; no two are 2^62 apart."""
    classes, f = len(F), powers()
    x = F - F.max(axis=0) + top(classes)
    v = np.where(x < f.low, 0, f.product_at(x))
    e, S = (rounded(a, places) for a, places in ((v, power_places(classes)), (v.sum(axis=0), sum_places(classes))))
    return rounded(e * reciprocal(S, classes), PRODUCT_PLACES)


def hessian(P: I64) -> I64:
    """Return h = 2 P (1 - P), rounded."""
    return rounded(P * ((1 << PLACES) - P), PLACES - 1)


def reciprocal(S: I64, classes: int) -> I64:
    """Return R = 2^56 / S."""
    x = S - (1 << SUM_BITS)
    s, t = x >> REMAINDER_BITS, (x & ((1 << REMAINDER_BITS) - 1)) - (1 << (REMAINDER_BITS - 1))
    c0, c1, c2 = (c[s] for c in coefficients(segment_bits(classes)))
    return rounded((c0 << C0_SHIFT) + ((c1 * t) << C1_SHIFT) + c2 * t * t, DROPPED_BITS)


def rounded(numbers: I64, places: int) -> I64:
    """Return numbers / 2^places, halves going up."""
    return np.asarray((numbers + (1 << (places - 1))) >> places, np.int64)


@cache
def words(bits: int) -> U64:
    """Return the table of 2^bits segments, a word of WORD_BITS bits each, its fields as FIELDS says."""
    packed = np.zeros(1 << bits, np.uint64)
    for c, at in zip(coefficients(bits), FIELDS, strict=True):
        packed |= (c & ((1 << at.width) - 1)).astype(np.uint64) << np.uint64(at.first)
    packed.flags.writeable = False
    return packed


@cache
def coefficients(bits: int) -> tuple[I64, I64, I64]:
    """Return c0, c1 and c2 of 2^bits segments at scales of 2^-30, 2^-20 and 2^-8.

    They come of integers alone. Of 1/a + t' + ..., for a segment's centre a, c2 is 1/a^3 and c1 is -1/a^2; c0 is in the
    middle of the errors that these leave at both ends, the centre and halfway.
    """
    half = 1 << (REMAINDER_BITS - 1)
    steps = [-half, -half // 2, 0, half // 2, half - 1]
    table: list[tuple[int, int, int]] = []
    for s in range(1 << bits):
        a = (1 << SUM_BITS) + (s << REMAINDER_BITS) + half
        ends = [(1 << (RECIPROCAL_PLACES + SUM_BITS)) // (a + t) for t in steps]
        # the slope of the chord, which takes the cubic term in, at both ends alike
        slope = _nearest((ends[-1] - ends[0]) // (steps[-1] - steps[0]), 1 << C1_SHIFT)
        bend = _nearest(1 << (3 * SUM_BITS + C2_PLACES), a**3)
        left = [end - (slope * t << C1_SHIFT) - bend * t * t for end, t in zip(ends, steps, strict=True)]
        table.append((_nearest(min(left) + max(left), 2 << C0_SHIFT), slope, bend))
    columns = np.array(table, np.int64).T.copy()
    columns.flags.writeable = False
    return columns[0], columns[1], columns[2]


def _nearest(a: int, b: int) -> int:
    return (2 * a + b) // (2 * b)
