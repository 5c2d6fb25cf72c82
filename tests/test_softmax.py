"""The softmax in integers: its table, its error over the whole range, and that nothing leaves 64 bits."""

from __future__ import annotations

import hashlib
import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import softmax as table
from mpfedxgb.exponential import TOP_BITS, VALUE_PLACES
from mpfedxgb.sigmoid import PLACES
from mpfedxgb.softmax import (
    C0_PLACES,
    C0_SHIFT,
    C1_SHIFT,
    DROPPED_BITS,
    FIELDS,
    MOST_CLASSES,
    POWER_BITS,
    PRODUCT_PLACES,
    REMAINDER_BITS,
    SUM_BITS,
    WORD_BITS,
    hessian,
    reciprocal,
    softmax,
)
from sigmoid_error import error_of_softmax
from support.property_tests import examples

ONE = 1 << PLACES
DIGEST = "5112018be7494593259a3fd5419b511ed8865563571ad107e52d680788c8be2d"
COUNTS = (1, 2, 3, 4, 5, 17, MOST_CLASSES)
ERROR, ERROR_OF_H, ERROR_OF_R = 2.3, 3.2, 6.2


def test_the_table_is_the_one_of_all_models() -> None:
    """A change of one bit would change what models say; the table of fewer segments is the beginning of one of more."""
    words = table.words(16)
    assert words.dtype == np.uint64
    assert words.shape == (1 << 16,)
    assert hashlib.sha256(words.astype("<u8").tobytes()).hexdigest() == DIGEST
    for bits in range(9, 16):
        assert (table.words(bits) == words[: 1 << bits]).all()


def test_words_hold_the_coefficients() -> None:
    """Each in its field, with its sign; nothing is above the last field."""
    words = table.words(16)
    assert int(words.max()) >> WORD_BITS == 0
    for c, at in zip(table.coefficients(16), FIELDS, strict=True):
        raw = (words >> np.uint64(at.first)).astype(np.int64) & ((1 << at.width) - 1)
        if at.is_signed:
            raw = np.where(raw >> (at.width - 1), raw - (1 << at.width), raw)
        assert (raw == c).all()
        assert not c.flags.writeable


def sums_of(classes: int) -> npt.NDArray[Any]:
    """Return sums in every segment: both ends, the middle, and random places."""
    half = 1 << (REMAINDER_BITS - 1)
    segments = np.arange(1 << table.segment_bits(classes))[:, None] << REMAINDER_BITS
    inside = np.random.default_rng(3).integers(0, 2 * half, (len(segments), 1 << (18 - table.segment_bits(classes))))
    ends = np.broadcast_to([0, 1, half - 1, half, half + 1, 2 * half - 1], (len(segments), 6))
    return np.asarray((1 << SUM_BITS) + segments + np.concatenate([ends, inside], axis=1))


@pytest.mark.parametrize("classes", COUNTS)
def test_reciprocals_are_as_near_as_stated(classes: int) -> None:
    """In every segment; and where one class has most, S R is never so far above 1 that its P could be more."""
    S = sums_of(classes)
    R = reciprocal(S, classes)
    assert np.abs(R - np.ldexp(1.0, 2 * SUM_BITS + C0_PLACES - SUM_BITS) / S).max() < ERROR_OF_R
    assert (S * R)[S < 2 << SUM_BITS].max() <= (1 << (SUM_BITS + C0_PLACES)) * (1 + 2.0**-26.5)


@pytest.mark.parametrize("classes", COUNTS)
def test_everything_fits_62_bits(classes: int) -> None:
    """What is rounded off, with the half that is added, in Python's integers: exponentials, their sum, R and e R."""
    f, top = table.powers(), table.top(classes)
    assert f.low < top < f.low + f.width - 1
    largest = int(f.product_at(np.array(top)))
    m = TOP_BITS - table.class_bits(classes)
    assert 1 << (VALUE_PLACES + m) <= largest < (1 << (VALUE_PLACES + m)) * (1 + 2.0**-19)
    near = np.arange(top - (1 << 22), top + 1, 97)
    most = max(largest, int(f.product_at(near).max()))
    assert classes * most + (1 << (table.sum_places(classes) - 1)) < 1 << 62
    S = (classes * most) >> table.sum_places(classes)
    assert 1 << (REMAINDER_BITS + table.segment_bits(classes)) > S - (1 << SUM_BITS), "it lies in the table"
    c0, c1, c2 = (int(np.abs(c).max()) for c in table.coefficients(table.segment_bits(classes)))
    t = 1 << (REMAINDER_BITS - 1)
    assert (c0 << C0_SHIFT) + (c1 * t << C1_SHIFT) + c2 * t * t + (1 << (DROPPED_BITS - 1)) < 1 << 62
    e = (most >> table.power_places(classes)) + 1
    assert e < (1 << POWER_BITS) * (1 + 2.0**-18)
    assert (e << C0_PLACES) + (1 << (PRODUCT_PLACES - 1)) < 1 << 62


@pytest.mark.parametrize("classes", COUNTS[:-1])
def test_the_error_is_as_stated(classes: int) -> None:
    """Of P and of h, for margins that are near each other, far apart and beyond the range."""
    of_p, of_h = error_of_softmax(classes, 60_000, seed=classes)
    assert of_p < ERROR
    assert of_h < ERROR_OF_H


def test_two_classes_at_every_distance() -> None:
    """P is the sigmoid of the difference: all segments of the exponential, at both ends, the middle and between."""
    segment = np.arange(-(31 << PLACES), 0, 1 << 18)
    d = (segment[:, None] + np.array([0, 1, 7, 1 << 16, (1 << 17) + 5, (1 << 18) - 1])).ravel()
    P = softmax(np.stack([np.zeros_like(d), d]))
    exact = ONE / (1 + np.exp(np.ldexp(d.astype(np.float64), -PLACES)))
    assert np.abs(P[0] - exact).max() < ERROR
    assert np.abs(P[1] - (ONE - exact)).max() < ERROR
    assert np.abs(hessian(P) - 2 * exact * (1 - exact / ONE)).max() < ERROR_OF_H


@pytest.mark.parametrize("classes", COUNTS)
def test_probabilities_are_no_less_than_0_and_no_more_than_1(classes: int) -> None:
    """One class alone has all, equal margins the same; far below the largest there is nothing, and h is 0 there."""
    alone = np.full((classes, 2), -(1 << 60))
    alone[0], alone[-1, 1] = 0, 0
    P = softmax(alone)
    assert P[0, 0] == ONE
    assert P.min() >= 0
    assert not hessian(P)[:, 0].any()
    rng = np.random.default_rng(classes)
    for size in (0, 1, 1 << 20, 1 << 27, 1 << 61):
        P = softmax(rng.integers(-size, size + 1, (classes, 500)))
        assert 0 <= P.min() <= P.max() <= ONE
        if size == 0:
            assert np.abs(P - ONE / classes).max() < 1
        h = hessian(P)
        assert 0 <= h.min() <= h.max() <= ONE // 2


@examples(200)
@given(
    margins=st.lists(st.integers(-(1 << 60), 1 << 60) | st.integers(-(1 << 28), 1 << 28), min_size=1, max_size=20),
    shift=st.integers(-(1 << 60), 1 << 60),
)
def test_it_is_the_formula_in_pythons_integers(margins: list[int], shift: int) -> None:
    """Nothing wraps around, and only differences count."""
    K, f = len(margins), table.powers()
    b = max(1, math.ceil(math.log2(K)))
    v = []
    for F in margins:
        x = F - max(margins) + table.top(K)
        v.append(int(f.product_at(np.array(x))) if x >= f.low else 0)
    e = [_round(Fraction(one, 1 << (31 - b))) for one in v]
    S = _round(Fraction(sum(v), 1 << (35 - b)))
    s, t = divmod(S - (1 << 26), 1 << 18)
    t -= 1 << 17
    c0, c1, c2 = (int(c[s]) for c in table.coefficients(8 + b))
    R = _round(Fraction((c0 << 30) + (c1 * t << 14) + c2 * t * t, 1 << 30))
    P = [_round(Fraction(one * R, 1 << 36)) for one in e]
    assert softmax(np.array(margins)).tolist() == P
    if max(map(abs, margins)) < 1 << 60:
        assert softmax(np.array(margins) + shift).tolist() == P
    assert hessian(np.array(P)).tolist() == [_round(Fraction(2 * p * (ONE - p), ONE)) for p in P]


def _round(x: Fraction) -> int:
    return math.floor(x + Fraction(1, 2))


def test_probabilities_rise_with_the_margin() -> None:
    """But for the steps between segments, which are within the error."""
    d = np.arange(-(1 << 28), 0, 12_345)
    P = softmax(np.stack([np.zeros_like(d), d, d]))[1].tolist()
    assert all(after - before > -2 * ERROR for before, after in pairwise(P))
