"""Every kind of ring, and its elements as Python integers: what the ring tests are held against."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide

Ints = npt.NDArray[Any]
"""An object array of Python integers in [0, 2^k)."""

TINY = [Ring(bits) for bits in range(1, 9)]
WIDE = [wide(limbs) for limbs in (2, 3, 4)]
BITWISE = [BIT, Ring(3, bitwise=True), PACKED]
ALL_RINGS = [*TINY, Ring(9), Ring(40), Ring(63), VECTOR, *WIDE, *BITWISE]

rings = st.sampled_from(ALL_RINGS)
shapes = st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)


def object_array(values: list[int], shape: tuple[int, ...]) -> Ints:
    """Return Python integers in an object array of a shape."""
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def edges(ring: Ring) -> list[int]:
    """Return the elements that are most telling: extremes, every other bit, and both sides of limb boundaries."""
    top = 1 << ring.bits
    found = {0, 1, top - 1, top // 2, top // 2 - 1, top // 3}
    found |= {(1 << place) + off for place in range(32, ring.bits, 32) for off in (-1, 0, 1)}
    return sorted(found)


def elements(ring: Ring) -> st.SearchStrategy[int]:
    """Return a strategy for one element, in [0, 2^k), with a taste for carries and extremes."""
    return st.one_of(st.sampled_from(edges(ring)), st.integers(0, (1 << ring.bits) - 1))


@st.composite
def integers(draw: st.DrawFn, ring: Ring, shape: tuple[int, ...]) -> Ints:
    """Draw integers in [0, 2^k) of a shape."""
    size = int(np.prod(shape, dtype=np.int64))
    return object_array(draw(st.lists(elements(ring), min_size=size, max_size=size)), shape)


@st.composite
def ring_and_integers(draw: st.DrawFn, among: st.SearchStrategy[Ring] = rings) -> tuple[Ring, Ints]:
    """Draw a ring and integers in it, of any shape: (), empty, 1-d, n-d."""
    ring = draw(among)
    return ring, draw(integers(ring, draw(shapes)))


@st.composite
def ring_and_two(draw: st.DrawFn) -> tuple[Ring, Ints, Ints]:
    """Draw a ring and two arrays of integers whose shapes broadcast."""
    ring = draw(rings)
    both = draw(st_numpy.mutually_broadcastable_shapes(num_shapes=2, min_side=0, max_side=3, max_dims=3))
    left, right = both.input_shapes
    return ring, draw(integers(ring, left)), draw(integers(ring, right))


def from_ints(ring: Ring, ints: Ints) -> RingArray:
    """Build ring elements word by word, without `RingArray.encode`."""
    if not ring.limbs:
        return RingArray(ring, np.array([int(v) for v in ints.flat], ring.dtype).reshape(ints.shape))
    words = [[(int(v) >> (64 * j)) & 0xFFFFFFFFFFFFFFFF for j in range(ring.limbs)] for v in ints.flat]
    return RingArray(ring, np.array(words, np.uint64).reshape(*ints.shape, ring.limbs))


def to_ints(x: RingArray) -> Ints:
    """Read ring elements word by word, without `RingArray.decode`; the storage has to be as the ring says."""
    ring = x.ring
    assert x.data.dtype == ring.dtype
    assert x.data.shape == x.shape + ring.tail
    if not ring.limbs:
        values = [int(v) for v in x.data.flat]
    else:
        words = x.data.reshape(x.size, ring.limbs)
        values = [sum(int(word) << (64 * j) for j, word in enumerate(row)) for row in words]
    assert all(0 <= v < 1 << ring.bits for v in values)
    return object_array(values, x.shape)


def same(x: RingArray, expected: Any) -> bool:
    """Tell whether ring elements are these integers, in shape and value."""
    wanted = np.asarray(expected, object)
    found = to_ints(x)
    return found.shape == wanted.shape and found.ravel().tolist() == wanted.ravel().tolist()
