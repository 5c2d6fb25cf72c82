"""Rings and their arrays against Python integers."""

from __future__ import annotations

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from mpfedxgb.errors import DoesNotFitError, SecretError
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, concatenate, stack, wide
from support.property_tests import examples
from support.refusals import refused
from support.ring_strategies import (
    ALL_RINGS,
    BITWISE,
    WIDE,
    Ints,
    edges,
    from_ints,
    integers,
    object_array,
    ring_and_integers,
    ring_and_two,
    rings,
    same,
    shapes,
    to_ints,
)

Binary = Callable[[Any, Any], Any]

many = examples(100)
some = examples(50)


def expected(ring: Ring, operation: Binary, a: Any, b: Any) -> Ints:
    """Return what Python integers say: XOR and AND in bitwise rings, wrapping arithmetic in the others."""
    if ring.bitwise:
        operation = operator.and_ if operation is operator.mul else operator.xor
        return np.asarray(operation(a, b), object)
    return np.asarray(operation(a, b) % (1 << ring.bits), object)


# Rings


@pytest.mark.parametrize("bits", [0, -1, 65, 127, 129, 320])
def test_widths_without_storage_are_refused(bits: int) -> None:
    """A ring has 1 to 64, 128, 192 or 256 bits."""
    with refused(DoesNotFitError, "range", "bits"):
        Ring(bits)


@pytest.mark.parametrize("bits", [9, 64, 128])
def test_bitwise_rings_fit_a_byte(bits: int) -> None:
    """Bits are packed into single bytes only."""
    with refused(DoesNotFitError, "range", "packed bits"):
        Ring(bits, bitwise=True)


@pytest.mark.parametrize("limbs", [0, 1, 5])
def test_wide_has_two_to_four_limbs(limbs: int) -> None:
    """`wide` knows L = 2, 3, 4."""
    with refused(DoesNotFitError, "range", "limbs", limbs):
        wide(limbs)


def test_storage_follows_the_width() -> None:
    """One byte up to 8 bits, one word up to 64, L words beyond."""
    assert [Ring(bits).element_bytes for bits in (1, 8, 9, 64, 128, 192, 256)] == [1, 1, 8, 8, 16, 24, 32]
    assert [Ring(bits).tail for bits in (8, 64, 128, 256)] == [(), (), (2,), (4,)]
    assert (repr(VECTOR), repr(wide(3)), repr(PACKED)) == ("Z_2^64", "Z_2^192", "bits[8]")
    assert Ring(8) != PACKED
    assert Ring(64) == VECTOR


# Arithmetic


@many
@given(ring_and_two(), st.sampled_from([operator.add, operator.sub, operator.mul]))
def test_binary_operators_are_those_of_the_integers(case: tuple[Ring, Ints, Ints], operation: Binary) -> None:
    """+, - and * wrap modulo 2^k (are XOR and AND on bits), for all shapes that broadcast."""
    ring, a, b = case
    result = operation(from_ints(ring, a), from_ints(ring, b))
    assert result.ring == ring
    assert same(result, expected(ring, operation, a, b))


@many
@given(
    ring_and_integers(), st.integers(-(1 << 260), 1 << 260), st.sampled_from([operator.add, operator.sub, operator.mul])
)
def test_integers_join_from_either_side(case: tuple[Ring, Ints], number: int, operation: Binary) -> None:
    """A public integer of any size is reduced first, left or right of the operator."""
    ring, a = case
    reduced = number % (1 << ring.bits)
    assert same(operation(from_ints(ring, a), number), expected(ring, operation, a, reduced))
    assert same(operation(number, from_ints(ring, a)), expected(ring, operation, reduced, a))


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul])
@pytest.mark.parametrize("ring", ALL_RINGS, ids=repr)
def test_all_pairs_of_edges(ring: Ring, operation: Binary) -> None:
    """Extremes and limb boundaries, each with each: every carry there is."""
    a = object_array(edges(ring), (-1, 1))
    b = a.reshape(-1)
    assert same(operation(from_ints(ring, a), from_ints(ring, b)), expected(ring, operation, a, b))


@many
@given(ring_and_integers(), st.data())
def test_addition_in_place(case: tuple[Ring, Ints], data: st.DataObject) -> None:
    """It is addition, into the array that was there; the other stays as it was."""
    ring, a = case
    b = data.draw(integers(ring, a.shape))
    own, other = from_ints(ring, a), from_ints(ring, b)
    place = own.data
    own.add_in_place(other)
    assert own.data is place
    assert same(own, expected(ring, operator.add, a, b))
    assert same(other, b)


def test_what_cannot_be_added_in_place() -> None:
    """Another ring, another shape, or what is hidden to one that is not; what is hidden stays so."""
    three = RingArray.zeros(VECTOR, (3,))
    for foreign in (RingArray.zeros(PACKED, (3,)), RingArray.zeros(VECTOR, (1,))):
        with refused(DoesNotFitError, "mismatch", "ring in place"):
            three.add_in_place(foreign)
    hidden = RingArray.hidden(VECTOR, (3,))
    hidden.add_in_place(three)
    assert hidden.is_hidden
    with pytest.raises(SecretError):
        RingArray.encode(VECTOR, np.arange(3)).add_in_place(hidden)


@some
@given(ring_and_integers())
def test_negation(case: tuple[Ring, Ints]) -> None:
    """-x is 0 - x."""
    ring, a = case
    assert same(-from_ints(ring, a), expected(ring, operator.sub, 0, a))


@pytest.mark.parametrize("ring", [ring for ring in ALL_RINGS if not ring.bitwise], ids=repr)
def test_extremes_wrap(ring: Ring) -> None:
    """The largest element plus one is zero, its square is one; scalars wrap without a warning, as arrays do."""
    top = from_ints(ring, object_array([(1 << ring.bits) - 1], ()))
    assert same(top + 1, 0)
    assert same(top * top, 1 % (1 << ring.bits))
    assert same(top + top + 2, 0)
    assert same(0 - top, 1)


@many
@given(ring_and_integers(), st.data())
def test_sum_along_any_axis(case: tuple[Ring, Ints], data: st.DataObject) -> None:
    """`sum` is the wrapping sum (the XOR of bits), along every axis, from either end."""
    ring, a = case
    if a.ndim == 0:
        a = a.reshape(1)
    axis = data.draw(st.integers(-a.ndim, a.ndim - 1))
    wanted: Any = np.zeros(np.delete(a.shape, axis), object)
    for part in np.moveaxis(a, axis, 0):
        wanted = expected(ring, operator.add, wanted, part)
    assert same(from_ints(ring, a).sum(axis), wanted)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [((), -1), ((2,), 1), ((2, 3), -3)])
def test_sum_along_an_axis_that_is_not_there(shape: tuple[int, ...], axis: int, hidden: bool) -> None:
    """There is no silent wrap-around of axes."""
    x = RingArray.hidden(VECTOR, shape) if hidden else RingArray.zeros(VECTOR, shape)
    with pytest.raises(IndexError):
        x.sum(axis)


def test_rings_do_not_mix() -> None:
    """Two rings meet only after a cast, even where the storage is the same."""
    with refused(DoesNotFitError, "mismatch", "ring"):
        RingArray.zeros(VECTOR, (2,)) + RingArray.zeros(Ring(63), (2,))
    with refused(DoesNotFitError, "mismatch", "ring"):
        RingArray.hidden(PACKED, (2,)) * RingArray.zeros(Ring(8), (2,))


@pytest.mark.parametrize("foreign", [1.5, "1", None, np.ones(2), np.ones(2, np.int64)])
def test_only_integers_and_ring_arrays_join(foreign: Any) -> None:
    """Floats and bare NumPy arrays are refused from both sides; they have to be encoded first."""
    x = RingArray.zeros(VECTOR, (2,))
    with pytest.raises(TypeError):
        x + foreign
    with pytest.raises(TypeError):
        foreign * x


def test_numpy_integers_join() -> None:
    """A NumPy integer is an integer."""
    x: Any = RingArray.encode(wide(2), [1, 2])
    assert same(np.int64(-3) + x, [(1 << 128) - 2, (1 << 128) - 1])
    assert same(x * np.uint8(3), [3, 6])


# Shape


@many
@given(ring_and_integers(), st.data())
def test_basic_indices(case: tuple[Ring, Ints], data: st.DataObject) -> None:
    """Integers, slices, Ellipsis and new axes select as in NumPy, over the logical axes only."""
    ring, a = case
    index = data.draw(st_numpy.basic_indices(a.shape, allow_newaxis=True))
    assert same(from_ints(ring, a)[index], a[index])
    assert RingArray.hidden(ring, a.shape)[index].shape == np.asarray(a[index], object).shape


@some
@given(rings, st.data())
def test_fancy_indices(ring: Ring, data: st.DataObject) -> None:
    """Integer arrays and masks select as in NumPy, alone, beside integers, and around Ellipsis."""
    shape = data.draw(st_numpy.array_shapes(min_dims=2, max_dims=3, min_side=1, max_side=4))
    a = data.draw(integers(ring, shape))
    rows = data.draw(st_numpy.integer_array_indices(shape[:1]))[0]
    last = data.draw(st_numpy.integer_array_indices(shape[-1:]))[0]
    mask = data.draw(st_numpy.arrays(bool, shape))
    indices: list[Any] = [rows, (..., last), (rows, ...), (0, ..., last), (slice(None), 0), mask, [0, -1], (None, rows)]
    x, hidden = from_ints(ring, a), RingArray.hidden(ring, shape)
    for index in indices:
        assert same(x[index], a[index]), index
        assert hidden[index].shape == np.asarray(a[index], object).shape, index


@some
@given(ring_and_integers())
def test_reshape(case: tuple[Ring, Ints]) -> None:
    """`reshape` keeps the order of elements and infers -1."""
    ring, a = case
    for shape in ((a.size,), (1, a.size, 1), (*a.shape, 1), (-1,), (1, -1), a.shape[::-1]):
        assert same(from_ints(ring, a).reshape(*shape), a.reshape(shape))
        assert RingArray.hidden(ring, a.shape).reshape(*shape).shape == a.reshape(shape).shape


@pytest.mark.parametrize("ring", [VECTOR, wide(3)], ids=repr)
def test_reshape_infers_in_empty_arrays(ring: Ring) -> None:
    """-1 is inferred beside the limb axis even where there is no element."""
    assert RingArray.zeros(ring, (0, 3)).reshape(3, -1).shape == (3, 0)
    assert RingArray.zeros(ring, (0, 3)).reshape(-1).shape == (0,)


@some
@given(rings, st.data())
def test_broadcast_to(ring: Ring, data: st.DataObject) -> None:
    """`broadcast_to` repeats as NumPy does, and refuses what NumPy refuses, hidden or not."""
    a = data.draw(integers(ring, data.draw(shapes)))
    shape = data.draw(shapes)
    x, hidden = from_ints(ring, a), RingArray.hidden(ring, a.shape)
    try:
        wanted = np.broadcast_to(a, shape)
    except ValueError:
        with pytest.raises(ValueError, match=r"broadcast|operand"):
            x.broadcast_to(shape)
        with pytest.raises(ValueError, match=r"broadcast|operand"):
            hidden.broadcast_to(shape)
        return
    assert same(x.broadcast_to(shape), wanted)
    assert hidden.broadcast_to(shape).shape == shape


@some
@given(rings, rings, st.data())
def test_cast(ring: Ring, other: Ring, data: st.DataObject) -> None:
    """`cast` reads elements as numbers in [0, 2^k) and reduces them where the other ring is narrower."""
    a = data.draw(integers(ring, data.draw(shapes)))
    cast = from_ints(ring, a).cast(other)
    assert cast.ring == other
    assert same(cast, a % (1 << other.bits))
    hidden = RingArray.hidden(ring, a.shape).cast(other)
    assert (hidden.ring, hidden.shape, hidden.is_hidden) == (other, a.shape, True)


@some
@given(rings, st.data())
def test_concatenate_and_stack(ring: Ring, data: st.DataObject) -> None:
    """Arrays are joined along old and new logical axes; one hidden part hides the whole."""
    a = data.draw(integers(ring, data.draw(st_numpy.array_shapes(min_dims=1, max_dims=3, min_side=0, max_side=3))))
    b = data.draw(integers(ring, a.shape))
    x, y, hidden = from_ints(ring, a), from_ints(ring, b), RingArray.hidden(ring, a.shape)
    for axis in range(-a.ndim, a.ndim):
        assert same(concatenate([x, y], axis), np.concatenate([a, b], axis))
        assert concatenate([x, hidden], axis).shape == np.concatenate([a, b], axis).shape
    for axis in range(-a.ndim - 1, a.ndim + 1):
        assert same(stack([x, y], axis), np.stack([a, b], axis))
        joined = stack([hidden, y], axis)
        assert joined.is_hidden
        assert joined.shape == np.stack([a, b], axis).shape


@some
@given(rings, st.data())
def test_where(ring: Ring, data: st.DataObject) -> None:
    """Elements stay where the bit is 1 and are zero elsewhere, for all shapes that broadcast."""
    both = data.draw(st_numpy.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3))
    a = data.draw(integers(ring, both.input_shapes[0]))
    bits = data.draw(st_numpy.arrays(np.uint8, both.input_shapes[1], elements=st.integers(0, 1)))
    kept = from_ints(ring, a).where(bits)
    assert kept.ring == ring
    assert same(kept, np.where(bits == 1, a, 0))


@some
@given(ring_and_integers())
def test_words_for_a_kernel(case: tuple[Ring, Ints]) -> None:
    """Rows of contiguous words, least significant first, and back; what is too wide for the ring is reduced."""
    ring, a = case
    words = from_ints(ring, a).words()
    width = max(1, ring.limbs)
    assert words.shape == (a.size, width)
    assert words.dtype == np.uint64
    assert words.flags.c_contiguous
    numbers = [sum(int(word) << (64 * j) for j, word in enumerate(row)) for row in words]
    assert numbers == a.ravel().tolist()
    assert same(RingArray.from_words(ring, a.shape, words), a)
    full = np.full((a.size, width), 0xFFFFFFFFFFFFFFFF, np.uint64)
    assert same(RingArray.from_words(ring, a.shape, full), np.full(a.shape, (1 << ring.bits) - 1, object))


def test_zeros_take_no_memory() -> None:
    """A million zeros are one zero seen a million times."""
    for ring in (VECTOR, wide(4), BIT):
        zeros = RingArray.zeros(ring, (1000, 1000))
        assert same(zeros[3, :5], [0] * 5)
        assert not any(zeros.data.strides)
        assert not zeros.data.flags.writeable


def test_size_and_ndim() -> None:
    """The limb axis is no axis of the array."""
    for shape, size in (((), 1), ((0, 3), 0), ((2, 3), 6)):
        x = RingArray.zeros(wide(3), shape)
        assert (x.shape, x.ndim, x.size) == (shape, len(shape), size)


# Hidden arrays


@many
@given(ring_and_two(), st.sampled_from([operator.add, operator.sub, operator.mul]))
def test_arithmetic_with_something_hidden_is_hidden(case: tuple[Ring, Ints, Ints], operation: Binary) -> None:
    """One hidden side hides the result, whose shape is nevertheless right."""
    ring, a, b = case
    x, y = from_ints(ring, a), from_ints(ring, b)
    hidden_x, hidden_y = RingArray.hidden(ring, x.shape), RingArray.hidden(ring, y.shape)
    shape = np.broadcast_shapes(a.shape, b.shape)
    for result in (operation(hidden_x, y), operation(x, hidden_y), operation(hidden_x, hidden_y)):
        assert (result.ring, result.shape, result.is_hidden) == (ring, shape, True)
    for result in (operation(hidden_x, 3), operation(3, hidden_x), -hidden_x):
        assert (result.ring, result.shape, result.is_hidden) == (ring, a.shape, True)
    for axis in range(a.ndim):
        assert hidden_x.sum(axis).shape == x.sum(axis).shape


def test_hidden_content_cannot_be_asked_for() -> None:
    """`data` and `decode` raise; the text of the error has no content to give away."""
    hidden = RingArray.hidden(VECTOR, (2, 3))
    assert hidden.is_hidden
    assert (hidden.shape, hidden.size, hidden.ndim) == ((2, 3), 6, 2)
    with refused(SecretError, "secret", "value"):
        _ = hidden.data
    with pytest.raises(SecretError):
        hidden.decode()


# What elements refuse


@pytest.mark.parametrize("ring", [VECTOR, *WIDE, *BITWISE], ids=repr)
def test_elements_are_not_printed(ring: Ring) -> None:
    """`repr` and `str` show ring and shape, never content."""
    x = RingArray.encode(ring, [1] * 3)
    assert repr(x) == str(x) == f"RingArray({ring}, shape=(3,))"
    assert repr(RingArray.hidden(ring, (3,))) == f"RingArray({ring}, shape=(3,), hidden)"
    secret = RingArray.encode(VECTOR, [123456789])
    assert "123456789" not in f"{secret} {[secret]!r}"


def test_elements_have_no_truth_value() -> None:
    """`if x` is an error, hidden or not."""
    for x in (RingArray.encode(VECTOR, 1), RingArray.hidden(VECTOR, ())):
        with refused(SecretError, "secret", "truth"):
            bool(x)


def test_elements_are_not_pickled_or_copied() -> None:
    """Pickle and copy are refused, hidden or not."""
    for x in (RingArray.encode(VECTOR, [1, 2]), RingArray.hidden(VECTOR, (2,))):
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with refused(SecretError, "secret", "pickle"):
                pickle.dumps(x, protocol)
        with pytest.raises(SecretError):
            copy.deepcopy(x)


def test_elements_are_no_keys() -> None:
    """Arrays cannot be hashed."""
    with pytest.raises(TypeError):
        hash(RingArray.encode(VECTOR, [1]))


def test_the_strategies_read_what_they_build() -> None:
    """The reference of these tests is checked by hand once."""
    x = RingArray(wide(2), np.array([[1, 2]], np.uint64))
    assert to_ints(x).tolist() == [1 + (2 << 64)]
    assert same(from_ints(wide(2), object_array([1 + (2 << 64)], (1,))), [1 + (2 << 64)])
