"""The exponential in integers: its table, its error over the whole range, and that nothing leaves 64 bits."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.exponential import (
    ENTRY_BITS,
    FACTOR_PLACES,
    FACTOR_SHIFT,
    SMALLEST_RATE,
    TOP_BITS,
    VALUE_PLACES,
    WIDTH,
    Exponential,
    exponential,
)
from mpfedxgb.sigmoid import PLACES, SEGMENTS
from support.property_tests import examples

RATES = [1.0, 0.5, float(np.float32(1.3)) - 1, 2 - float(np.float32(1.3)), 0.7501, float(SMALLEST_RATE)]
DIGEST = "abbfc0ed4b826b7420d37007e5afede6e2aa4eb1a7bc6f7a3cb32636e5e0dfa5"
ERRORS = {1.0: 2.0**-22.4}
"""What may be missing of exp beside a unit, relative to it: of a rate of 1, and of all others."""
LARGEST_ERROR = 2.0**-20.6


def errors_of(f: Exponential, x: npt.NDArray[Any], places: int = PLACES) -> npt.NDArray[Any]:
    """Return by how much e is off beyond one unit, relative to exp."""
    true = np.exp(f.rate * np.ldexp(x.astype(np.float64), -PLACES))
    off = np.abs(np.ldexp(f.at(x, places).astype(np.float64), -places) - true)
    return np.asarray((off - 2.0**-places) / true)


def in_every_segment(f: Exponential) -> npt.NDArray[Any]:
    """Return numbers of all segments: both ends, the middle and random places."""
    half = 1 << (f.remainder_bits - 1)
    inside = np.random.default_rng(14).integers(0, 2 * half, (SEGMENTS, 200))
    ends = np.broadcast_to([0, 1, half - 1, half, half + 1, 2 * half - 1], (SEGMENTS, 6))
    return np.asarray(f.low + np.arange(SEGMENTS)[:, None] * 2 * half + np.concatenate([ends, inside], axis=1))


def test_the_table_is_the_one_of_all_models() -> None:
    """A change of one bit would change what models say: another table needs another name."""
    f = exponential(1.0)
    words = f.words
    assert words.dtype == np.uint64
    assert words.shape == (SEGMENTS,)
    assert int(words.max()).bit_length() == ENTRY_BITS, "no bit is idle"
    assert hashlib.sha256(words.astype("<u8").tobytes()).hexdigest() == DIGEST
    assert (f.low, f.remainder_bits, f.linear, f.square) == (-803 << 19, 19, 8796361457664, 1 << 18)
    assert not f.table.flags.writeable


@pytest.mark.parametrize("rate", RATES)
def test_the_error_is_as_stated_everywhere(rate: float) -> None:
    """In all segments, at 24 places and at fewer; below the range, where e is 0, exp is less than a unit."""
    f = exponential(rate)
    x = in_every_segment(f)
    assert np.exp(rate * np.ldexp(float(f.low), -PLACES)) < 0.7 * 2.0**-PLACES
    for places in (PLACES, 12):
        assert errors_of(f, x, places).max() < ERRORS.get(rate, LARGEST_ERROR)


@pytest.mark.parametrize("rate", RATES)
def test_the_range_is_as_stated(rate: float) -> None:
    """24 wide or more, up to just below 2^10; narrower segments would not do."""
    f = exponential(rate)
    width = Fraction(rate) * f.width / (1 << PLACES)
    assert WIDTH <= width < 2 * WIDTH
    top = float(f.at(np.array(f.low + f.width - 1), 0))
    segment = rate * 2.0 ** (f.remainder_bits - PLACES)
    assert 2**TOP_BITS * np.exp(-segment - 1e-3) < top <= 2**TOP_BITS
    assert int(f.at(np.array(f.low + f.width - 1))) < 1 << (TOP_BITS + PLACES)


@pytest.mark.parametrize("rate", RATES)
def test_outside_it_is_what_it_is_at_the_ends(rate: float) -> None:
    """0 below, and in the first segment; at the top what is there."""
    f = exponential(rate)
    below = np.array([-(1 << 62), f.low - 1, f.low, f.low + (1 << f.remainder_bits) - 1])
    assert set(f.at(below).tolist()) == {0}
    above = np.array([f.low + f.width - 1, f.low + f.width, 1 << 62])
    assert len(set(f.at(above).tolist())) == 1
    assert f.at(above).all()


@pytest.mark.parametrize("rate", RATES)
def test_everything_fits_62_bits(rate: float) -> None:
    """What is rounded off, with the half that is added, in every segment and at every distance, in Python's integers.

    A t + B t^2 has its vertex outside of a segment, so it is largest at an end.
    """
    f = exponential(rate)
    half = 1 << (f.remainder_bits - 1)
    assert f.linear > 2 * f.square * half
    bent = [f.linear * t + f.square * t * t for t in (-half, half - 1)]
    assert max(map(abs, bent)) + (1 << (FACTOR_SHIFT - 1)) < 1 << 62
    q = (1 << FACTOR_PLACES) + ((bent[1] + (1 << (FACTOR_SHIFT - 1))) >> FACTOR_SHIFT)
    assert int(f.table.max()) * q + (1 << (VALUE_PLACES - 1)) < 1 << 62


@examples(200)
@given(
    x=st.integers(-(1 << 62), (1 << 62) - 1) | st.integers(-(1 << 29), 1 << 28),
    rate=st.sampled_from(RATES),
    places=st.integers(8, PLACES),
)
def test_it_is_the_formula_in_pythons_integers(x: int, rate: float, places: int) -> None:
    """Nothing wraps around."""
    f = exponential(rate)
    X = min(max(x, f.low), f.low + f.width - 1) - f.low
    s, t = divmod(X, 1 << f.remainder_bits)
    t -= 1 << (f.remainder_bits - 1)
    bent = Fraction(f.linear * t + f.square * t * t, 1 << FACTOR_SHIFT)
    q = (1 << FACTOR_PLACES) + (2 * bent + 1) // 2
    v = Fraction(int(f.table[s]) * q, 1 << VALUE_PLACES)
    assert f.at(np.array([x]), places)[0] == (2 * v * (1 << places) + 1) // 2
