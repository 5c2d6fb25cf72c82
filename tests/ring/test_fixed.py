"""The single rounding from real numbers to integers, against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.ring.ring import decode_fixed, encode_fixed
from support.property_tests import examples
from support.refusals import refused

many = examples(200)


@many
@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(-100, 100))
def test_encode_rounds_the_exact_product_once(value: float, fraction_bits: int) -> None:
    """The integer is value * 2^f rounded to the nearest, ties to even; what does not fit is refused."""
    exact = round(Fraction(value) * Fraction(2) ** fraction_bits)
    if abs(exact) > 1 << 62:
        with refused(DoesNotFitError, "range", "fraction_bits"):
            encode_fixed([value], fraction_bits)
    else:
        assert encode_fixed([value], fraction_bits).tolist() == [exact]


@many
@given(st.floats(-1, 1, width=32), st.integers(0, 38))
def test_the_error_is_half_a_unit(value: float, fraction_bits: int) -> None:
    """Decoding gives the value back to within 2^-(f+1)."""
    back = decode_fixed(encode_fixed([value], fraction_bits), fraction_bits)[0]
    assert abs(Fraction(float(back)) - Fraction(value)) <= Fraction(1, 2 ** (fraction_bits + 1))


@many
@given(st.integers(-(1 << 53), 1 << 53), st.integers(-30, 60))
def test_integers_survive(number: int, fraction_bits: int) -> None:
    """What a double holds exactly goes out and in unchanged."""
    values = decode_fixed(np.array([number]), fraction_bits)
    assert values.dtype == np.float64
    assert encode_fixed(values, fraction_bits).tolist() == [number]


def test_halves_go_to_even() -> None:
    """Rounding is NumPy's and IEEE's."""
    assert encode_fixed([0.5, 1.5, 2.5, -0.5, -1.5], 0).tolist() == [0, 2, 2, 0, -2]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    """One such value among many is enough; the message does not show the others."""
    with refused(DoesNotFitError, "type", "values") as caught:
        encode_fixed([4711.0, bad], 8)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("limit", [1, 100, (1 << 53) + 1, (1 << 62) - 1, 1 << 62, 1 << 63, 1 << 70])
def test_the_limit_is_exact(limit: int) -> None:
    """A magnitude of at most the limit passes, the next double above is refused, even where doubles are sparse."""
    inside = float(limit)
    if inside > min(limit, (1 << 63) - 1):
        inside = float(np.nextafter(min(inside, 2.0**63), 0))
    outside = float(np.nextafter(inside, np.inf)) if inside >= 1 << 53 else inside + 1
    assert encode_fixed([inside, -inside], 0, limit).tolist() == [int(inside), -int(inside)]
    for value in (outside, -outside):
        with pytest.raises(DoesNotFitError):
            encode_fixed([0.0, value], 0, limit)


def test_overflow_is_refused_without_a_warning() -> None:
    """A product beyond the largest double does not fit, and says no more than that."""
    with refused(DoesNotFitError, "range", "fraction_bits", 100):
        encode_fixed([1e300], 100)


def test_the_message_names_the_room_there_is() -> None:
    """It says how many bits there are and what to do, never the value."""
    with refused(DoesNotFitError, "range", "fraction_bits", 0) as caught:
        encode_fixed([4711.0], 0, 100)
    assert "4711" not in str(caught.value)


@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0), (2, 3, 4)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    """Scalars, empty and n-d arrays."""
    encoded = encode_fixed(np.full(shape, 1.25), 2)
    assert encoded.shape == shape
    assert encoded.dtype == np.int64
    assert (encoded == 5).all()
    assert decode_fixed(encoded, 2).shape == shape
    assert (decode_fixed(encoded, 2) == 1.25).all()
