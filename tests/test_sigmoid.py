"""The logistic function in integers: its table, its error over the whole range, and that nothing leaves 64 bits."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import sigmoid as table
from mpfedxgb.sigmoid import (
    DROPPED_BITS,
    FIELDS,
    HALF_SEGMENT,
    LIMIT,
    PLACES,
    REMAINDER_BITS,
    SEGMENTS,
    VALUE_PLACES,
    WORD_BITS,
    sigmoid,
)
from support.property_tests import examples

ONE = 1 << PLACES
DIGEST = "c693de0b3f845eb142997965f1642decb0d4a9eb321a5cd2d621788cd69b8f5f"
SAMPLES = 256


def exact(F: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return sigma(F) in units of 2^-24, as doubles: right to 2^-28 of a unit."""
    return np.asarray(ONE / (1 + np.exp(-np.ldexp(F.astype(np.float64), -PLACES))))


def segment_by_segment(t: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the margins at these distances from the centre of every segment, (segments, distances)."""
    return np.asarray(np.arange(SEGMENTS)[:, None] * (2 * HALF_SEGMENT) - LIMIT + HALF_SEGMENT + t)


def test_the_table_is_the_one_of_all_models() -> None:
    """A change of one bit would change what models say: whoever wants that needs another name for it."""
    words = table.words()
    assert words.dtype == np.uint64
    assert words.shape == (SEGMENTS,)
    assert hashlib.sha256(words.astype("<u8").tobytes()).hexdigest() == DIGEST


def test_words_hold_the_coefficients() -> None:
    """Each in its field, with its sign; nothing is above the last field."""
    assert int(table.words().max()) >> WORD_BITS == 0
    for c, at in zip(table.coefficients(), FIELDS, strict=True):
        raw = (table.words() >> np.uint64(at.first)).astype(np.int64) & ((1 << at.width) - 1)
        if at.is_signed:
            raw = np.where(raw >> (at.width - 1), raw - (1 << at.width), raw)
        assert (raw == c).all()
        assert int(np.abs(c).max()).bit_length() == at.width - at.is_signed, "no bit is idle"
    assert [at.first for at in FIELDS] == [0, FIELDS[0].width, FIELDS[0].width + FIELDS[1].width]


def test_the_table_cannot_be_written_to() -> None:
    """It is computed once and shared by all who ask."""
    assert not any(c.flags.writeable for c in (*table.coefficients(), table.words()))


def test_the_error_is_below_a_unit_everywhere() -> None:
    """Before rounding by 0.494 at most, between the samples too, since the error bends by less than 2^-8."""
    c0, c1, c2 = (c[1:-1, None].astype(np.float64) for c in table.coefficients())
    t = np.linspace(-HALF_SEGMENT, HALF_SEGMENT, SAMPLES + 1)
    scales = (PLACES - table.C0_PLACES, -table.C1_PLACES, -table.C2_PLACES - PLACES)
    quadratic = sum(np.ldexp(c * t**k, scale) for k, (c, scale) in enumerate(zip((c0, c1, c2), scales, strict=True)))
    z = segment_by_segment(t)[1:-1]
    bend = np.ldexp(c2, 1 - table.C2_PLACES) - _second_derivative(np.ldexp(z, -PLACES))
    assert np.abs(bend).max() < 2.0**-8
    between = 2.0**-8 * (2.0**-5 / SAMPLES) ** 2 / 8 * ONE
    assert np.abs(quadratic - exact(z)).max() + between < 0.494
    flat = exact(np.array([-LIMIT, -LIMIT + 2 * HALF_SEGMENT]))
    assert ((flat > 1) & (flat < 2)).all(), "p = 1 in the first segment is within a unit, and so is it below"


def _second_derivative(z: npt.NDArray[Any]) -> npt.NDArray[Any]:
    p = 1 / (1 + np.exp(-z))
    return np.asarray(p * (1 - p) * (1 - 2 * p))


def test_rounded_values_are_within_a_unit() -> None:
    """At both ends, the middle and random places of every segment."""
    inside = np.random.default_rng(14).integers(-HALF_SEGMENT, HALF_SEGMENT, (SEGMENTS, 500))
    ends = np.broadcast_to([-HALF_SEGMENT, -HALF_SEGMENT + 1, -1, 0, 1, HALF_SEGMENT - 1], (SEGMENTS, 6))
    F = segment_by_segment(np.concatenate([ends, inside], axis=1))
    p = sigmoid(F)
    assert np.abs(p - exact(F)).max() < 0.9941
    assert (p.min(), p.max()) == (1, ONE - 1)


def test_everything_fits_61_bits() -> None:
    """0 < v < 2^60 in every segment: at its ends, and at the vertex where it has one, in Python's integers."""
    for c0, c1, c2 in zip(*(c.tolist() for c in table.coefficients()), strict=True):
        ts = [-HALF_SEGMENT, HALF_SEGMENT - 1]
        if c2 and abs(vertex := round(Fraction(-c1 << table.C1_SHIFT, 2 * c2))) < HALF_SEGMENT:
            ts.append(vertex)
        for t in ts:
            v = (c0 << table.C0_SHIFT) + ((c1 * t) << table.C1_SHIFT) + c2 * t * t
            assert 0 < v < 1 << VALUE_PLACES
            assert 1 <= (v + (1 << (DROPPED_BITS - 1))) >> DROPPED_BITS < ONE
            assert abs((c1 * t) << table.C1_SHIFT) < 1 << 53


def test_outside_it_is_what_it_is_at_the_ends() -> None:
    """Both ends are flat, so clamping the margin and choosing the value come to the same."""
    below = np.array([-LIMIT, -LIMIT - 1, -(1 << 61), -(1 << 63), -LIMIT + 2 * HALF_SEGMENT - 1])
    above = np.array([LIMIT - 1, LIMIT, 1 << 61, (1 << 63) - 1, LIMIT - 2 * HALF_SEGMENT])
    assert set(sigmoid(below).tolist()) == {1}
    assert set(sigmoid(above).tolist()) == {ONE - 1}


def test_it_is_its_own_mirror_image() -> None:
    """sigma(-z) = 1 - sigma(z), in the table exactly, in p up to the half that is rounded up; sigma(0) = 1/2."""
    c0, c1, c2 = table.coefficients()
    assert (c0 + c0[::-1] == 1 << table.C0_PLACES).all()
    assert (c1 == c1[::-1]).all()
    assert (c2 == -c2[::-1]).all()
    F = np.random.default_rng(15).integers(-LIMIT, LIMIT, 100_000)
    F = F[F % (2 * HALF_SEGMENT) != 0]
    assert set((sigmoid(F) + sigmoid(-F) - ONE).tolist()) == {0, 1}
    assert sigmoid(np.array(0)) == ONE // 2


@examples(200)
@given(F=st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-LIMIT - 5, LIMIT + 5))
def test_it_is_the_formula_in_pythons_integers(F: int) -> None:
    """Nothing wraps around."""
    x = min(max(F, -LIMIT), LIMIT - 1) + LIMIT
    s, t = x >> REMAINDER_BITS, x % (1 << REMAINDER_BITS) - HALF_SEGMENT
    c0, c1, c2 = (int(c[s]) for c in table.coefficients())
    v = Fraction(c0, 1 << 26) + Fraction(c1 * t, 1 << 44) + Fraction(c2 * t * t, 1 << 60)
    assert sigmoid(np.array([F]))[0] == (2 * v * ONE + 1) // 2
