"""Integers into a ring and out again: extremes, every type, and refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.ring import BIT, VECTOR, Ring, RingArray, wide
from support.property_tests import examples
from support.refusals import ANY, refused
from support.ring_strategies import (
    ALL_RINGS,
    WIDE,
    Ints,
    from_ints,
    object_array,
    ring_and_integers,
    rings,
    same,
    shapes,
)

many = examples(100)
some = examples(50)


def signed(ring: Ring, value: int) -> int:
    """Return an element as `decode` reads it."""
    if ring.bitwise or ring.bits == 1 or value < 1 << (ring.bits - 1):
        return value
    return value - (1 << ring.bits)


@many
@given(ring_and_integers())
def test_encode_and_decode_are_inverse(case: tuple[Ring, Ints]) -> None:
    """Signed integers survive; int64 comes out of rings up to 64 bits, Python integers beyond."""
    ring, a = case
    values = object_array([signed(ring, int(v)) for v in a.flat], a.shape)
    assert same(RingArray.encode(ring, values), a)
    assert same(RingArray.encode(ring, a), a)
    decoded = from_ints(ring, a).decode()
    assert decoded.dtype == (object if ring.limbs else np.int64)
    assert decoded.shape == a.shape
    assert decoded.ravel().tolist() == values.ravel().tolist()


@some
@given(
    rings,
    st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.bool_]),
    st.data(),
)
def test_encode_takes_every_integer_type(ring: Ring, kind: type[np.generic], data: st.DataObject) -> None:
    """NumPy integers and booleans of any width are read by value; the caller's array is left alone."""
    array: npt.NDArray[Any] = data.draw(st_numpy.arrays(kind, shapes))
    values = [int(v) for v in array.flat]
    fits = all((0 if ring.bitwise else -(1 << (ring.bits - 1))) <= v < 1 << ring.bits for v in values)
    if not fits:
        with pytest.raises(DoesNotFitError):
            RingArray.encode(ring, array)
        return
    before = array.copy()
    encoded = RingArray.encode(ring, array)
    assert same(encoded, object_array([v % (1 << ring.bits) for v in values], array.shape))
    assert not np.shares_memory(encoded.data, array)
    np.testing.assert_array_equal(array, before)


@pytest.mark.parametrize("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("ring", [VECTOR, *WIDE], ids=repr)
def test_encode_takes_the_extremes_of_every_type(ring: Ring, kind: type[np.integer[Any]]) -> None:
    """Negative numbers fill all limbs, large unsigned ones only the first."""
    low, high = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    encoded = RingArray.encode(ring, np.array([low, low // 2, 0, high // 2, high], kind))
    assert same(encoded, [v % (1 << ring.bits) for v in (low, low // 2, 0, high // 2, high)])


@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_encode_refuses_what_is_one_too_large(ring: Ring) -> None:
    """The range is [-2^(k-1), 2^k), for bits [0, 2^k), and both ends are exact."""
    low, high = (0 if ring.bitwise else -(1 << (ring.bits - 1))), (1 << ring.bits) - 1
    assert same(RingArray.encode(ring, [low, high]), [low % (1 << ring.bits), high])
    assert same(RingArray.encode(ring, low), low % (1 << ring.bits))
    for value in (low - 1, high + 1):
        with refused(DoesNotFitError, "range", repr(ring)):
            RingArray.encode(ring, [0, value])


@pytest.mark.parametrize(
    "values",
    [1.0, [1.5], np.ones(2), np.array([1.5, 2], object), np.array([None]), ["7"], np.array([1 + 0j]), [1, 2.0]],
    ids=repr,
)
@pytest.mark.parametrize("ring", [VECTOR, wide(2), BIT], ids=repr)
def test_encode_refuses_what_is_no_integer(ring: Ring, values: Any) -> None:
    """Floats are never cut to integers on the way, not even inside object arrays."""
    with refused(DoesNotFitError, "type", ANY):
        RingArray.encode(ring, values)


@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_nothing_is_encoded_to_nothing(ring: Ring) -> None:
    """Empty lists have no type of their own, and are taken."""
    nothings: list[npt.ArrayLike] = [[], [[], []], np.empty((0, 3))]
    for values in nothings:
        encoded = RingArray.encode(ring, values)
        assert encoded.shape == np.shape(values)
        assert encoded.decode().shape == np.shape(values)
