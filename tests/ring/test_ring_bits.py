"""The bits of ring elements against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from mpfedxgb.errors import DoesNotFitError, SecretError
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from mpfedxgb.ring.array import low_digits, pack, shift_right, signs, top_bit, unpack, unpack_data
from support.property_tests import examples
from support.refusals import refused
from support.ring_strategies import ALL_RINGS, Ints, edges, from_ints, object_array, ring_and_integers, same, shapes

many = examples(80)


def extremes(ring: Ring) -> Ints:
    """Return the elements whose bits are most telling."""
    return object_array(edges(ring), (-1,))


@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_top_bit_of_the_extremes(ring: Ring) -> None:
    """Exactly the elements from 2^(k-1) on have it."""
    a = extremes(ring)
    bits = top_bit(from_ints(ring, a))
    assert bits.ring == BIT
    assert same(bits, [int(v) >> (ring.bits - 1) for v in a])


@many
@given(ring_and_integers())
def test_top_bit(case: tuple[Ring, Ints]) -> None:
    """The top bit is v >> (k - 1), for every shape; that of something hidden is hidden."""
    ring, a = case
    assert same(top_bit(from_ints(ring, a)), np.asarray(a >> (ring.bits - 1), object))
    hidden = top_bit(RingArray.hidden(ring, a.shape))
    assert (hidden.ring, hidden.shape, hidden.is_hidden) == (BIT, a.shape, True)


@pytest.mark.parametrize("ring", [VECTOR, Ring(3), wide(2), wide(3), wide(4)], ids=repr)
def test_signs_of_the_extremes(ring: Ring) -> None:
    """From 2^(k-1) on an element is read as negative; only zero has no sign, whichever limb holds the ones."""
    a = [0, 1, 2, (1 << (ring.bits - 1)) - 1, 1 << (ring.bits - 1), (1 << ring.bits) - 1]
    a += [1 << place for place in range(ring.bits)]
    found = signs(from_ints(ring, object_array(a, (-1,))))
    assert found.dtype == np.int64
    assert found.tolist() == [0 if v == 0 else -1 if v >> (ring.bits - 1) else 1 for v in a]


@many
@given(ring_and_integers())
def test_signs(case: tuple[Ring, Ints]) -> None:
    """Of any shape, as Python has them after reading an element as signed."""
    ring, a = case
    expected = [0 if v == 0 else -1 if v >> (ring.bits - 1) else 1 for v in a.ravel().tolist()]
    found = signs(from_ints(ring, a))
    assert found.shape == a.shape
    assert found.ravel().tolist() == expected


@many
@given(ring_and_integers(), st.sampled_from([1, 2, 4]), st.data())
def test_low_digits(case: tuple[Ring, Ints], digit: int, data: st.DataObject) -> None:
    """Digits come most significant first; the first may be short, and together they are v mod 2^low."""
    ring, a = case
    low = data.draw(st.integers(0, ring.bits))
    digits = low_digits(from_ints(ring, a), low, digit)
    count = -(-low // digit)
    assert digits.dtype == np.uint8
    assert digits.shape == (*a.shape, count)
    for index in np.ndindex(*a.shape):
        wanted = [(int(a[index]) % (1 << low)) >> (digit * place) for place in reversed(range(count))]
        assert digits[index].tolist() == [v % (1 << digit) for v in wanted]


@pytest.mark.parametrize("digit", [1, 2, 4])
@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_low_digits_of_the_extremes(ring: Ring, digit: int) -> None:
    """However many bits are asked for, the digits spell v mod 2^low: nothing above shows through."""
    a = extremes(ring)
    for low in range(ring.bits + 1):
        digits = low_digits(from_ints(ring, a), low, digit).astype(object)
        count = -(-low // digit)
        assert digits.shape == (len(a), count)
        places = object_array([1 << (digit * place) for place in reversed(range(count))], (-1,))
        assert (digits * places).sum(axis=1).tolist() == [v % (1 << low) for v in a], low


def test_low_digits_of_a_view() -> None:
    """Slices, broadcasts and reversed arrays are read as they look, not as they lie in memory."""
    for ring in (VECTOR, wide(3), Ring(5)):
        x = from_ints(ring, object_array([3, 7, 9, 17, 21, 30], (2, 3)))
        for view, wanted in ((x[:, ::-1], [[9, 7, 3], [30, 21, 17]]), (x[0].broadcast_to((2, 3)), [[3, 7, 9]] * 2)):
            digits = low_digits(view, 5, 1)
            assert (digits @ [16, 8, 4, 2, 1]).tolist() == wanted


@pytest.mark.parametrize("digit", [0, 3, 8])
def test_digits_of_other_widths_are_refused(digit: int) -> None:
    """A digit has 1, 2 or 4 bits."""
    with refused(DoesNotFitError, "choice", "digit", digit):
        low_digits(RingArray.zeros(VECTOR, (1,)), 8, digit)


def test_digits_of_something_hidden_are_refused() -> None:
    """The coordinator has no digits of what it does not hold."""
    with pytest.raises(SecretError):
        low_digits(RingArray.hidden(VECTOR, (1,)), 8, 4)


@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_every_shift_of_the_extremes(ring: Ring) -> None:
    """Every number of places, across every limb boundary."""
    a = extremes(ring)
    for places in range(ring.bits):
        assert same(shift_right(from_ints(ring, a), places), a >> places), places


@many
@given(ring_and_integers(), st.data())
def test_shift_right(case: tuple[Ring, Ints], data: st.DataObject) -> None:
    """`shift_right` divides the unsigned number by 2^places, rounding down, and stays in the ring."""
    ring, a = case
    places = data.draw(st.integers(0, ring.bits - 1))
    shifted = shift_right(from_ints(ring, a), places)
    assert shifted.ring == ring
    assert same(shifted, np.asarray(a >> places, object))
    assert shift_right(RingArray.hidden(ring, a.shape), places).is_hidden


@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_shifts_out_of_range_are_refused(ring: Ring) -> None:
    """There are k - 1 places to go, and none backwards."""
    for places in (-1, ring.bits):
        with refused(DoesNotFitError, "range", "places", places):
            shift_right(RingArray.zeros(ring, (1,)), places)


@many
@given(
    st_numpy.arrays(
        np.uint8,
        st_numpy.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=20),
        elements={"min_value": 0, "max_value": 1},
    )
)
def test_pack_and_unpack_are_inverse(bits: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> None:
    """Eight bits to an element along the last axis, lowest first; the last element is filled up with zeros."""
    count = bits.shape[-1]
    packed = pack(bits)
    assert packed.ring == PACKED
    assert packed.shape == (*bits.shape[:-1], -(-count // 8))
    for index in np.ndindex(*packed.shape):
        eight = bits[index[:-1]][8 * index[-1] : 8 * index[-1] + 8]
        assert int(packed.data[index]) == sum(int(bit) << place for place, bit in enumerate(eight))
    single = unpack(packed, count)
    assert single.ring == BIT
    assert same(single, bits.astype(object))
    hidden = unpack(RingArray.hidden(PACKED, packed.shape), count)
    assert (hidden.ring, hidden.shape, hidden.is_hidden) == (BIT, bits.shape, True)


@many
@given(shapes.filter(lambda shape: len(shape) > 0), st.data())
def test_unpack_data_takes_a_part(shape: tuple[int, ...], data: st.DataObject) -> None:
    """The first `count` bits are those of the whole."""
    octets = data.draw(st_numpy.arrays(np.uint8, shape))
    count = data.draw(st.integers(0, 8 * shape[-1]))
    part = unpack_data(octets, count)
    assert part.shape == (*shape[:-1], count)
    for index in np.ndindex(*shape[:-1]):
        number = int.from_bytes(octets[index].tobytes(), "little")
        assert part[index].tolist() == [(number >> place) & 1 for place in range(count)]


def test_packed_bits_xor_and_and_as_single_bits_do() -> None:
    """The two bitwise rings compute the same, eight at a time or one by one."""
    bits = np.array([[0, 0, 1, 1, 0, 1, 1, 0, 1], [0, 1, 0, 1, 1, 1, 0, 0, 1]], np.uint8)
    a, b = pack(bits[0]), pack(bits[1])
    assert same(unpack(a + b, 9), (bits[0] ^ bits[1]).astype(object))
    assert same(unpack(a * b, 9), (bits[0] & bits[1]).astype(object))
