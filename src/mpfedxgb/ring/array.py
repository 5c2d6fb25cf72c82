"""Arrays over a ring, and their absence.

A `RingArray` is a shaped block of ring elements with wrapping `+`, `-` and `*`. One that is *hidden* has a ring and
a shape but no content: it stands, in the coordinator's run of the program, for what the coordinator must not know.
Arithmetic with something hidden is hidden; asking for the content is an error.

The bits of ring elements: digits, top bits, shifts, and packing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError, SecretError
from mpfedxgb.ring.kernels import U8
from mpfedxgb.ring.ring import BIT, PACKED, Data, Ring, Shape

Index = Any
Integers = npt.NDArray[Any]


class RingArray:
    """A block of elements of one ring; never changed after it is made."""

    __slots__ = ("_data", "ring", "shape")

    def __init__(self, ring: Ring, data: Data) -> None:
        self.ring = ring
        self._data: Data | None = data
        self.shape: Shape = data.shape[:-1] if ring.limbs else data.shape

    @staticmethod
    def hidden(ring: Ring, shape: Shape) -> RingArray:
        """Return an array whose content this role does not have."""
        array = RingArray.__new__(RingArray)
        array.ring, array.shape, array._data = ring, shape, None
        return array

    @staticmethod
    def zeros(ring: Ring, shape: Shape) -> RingArray:
        """Return zeros; they take no memory."""
        return RingArray(ring, ring.zeros(shape))

    @staticmethod
    def encode(ring: Ring, values: npt.ArrayLike) -> RingArray:
        """Return public integers as ring elements; negative ones wrap.

        Raises DoesNotFitError for what is not an integer, or lies outside [-2^(k-1), 2^k).
        """
        array = np.asarray(values)
        if array.dtype.kind == "f" and not isinstance(values, np.ndarray):
            array = np.asarray(values, object)  # NumPy turns [2**63, -1] into floats; true floats are refused below
        if array.dtype == bool:
            array = array.astype(np.uint8)
        if array.size == 0:
            array = array.astype(np.int64)
        if array.dtype.kind not in "iuO":
            raise DoesNotFitError(
                f"only integers have a place in a ring, not {array.dtype}", "type", "array", str(array.dtype)
            )
        if array.dtype.kind == "O":
            foreign = {type(v).__name__ for v in array.flat if not isinstance(v, (int, np.integer))}
            if foreign:
                text = f"only integers have a place in a ring, not {', '.join(sorted(foreign))}"
                raise DoesNotFitError(text, "type", "values", sorted(foreign))
        _check_range(array, ring)
        if ring.limbs:
            return RingArray(ring, _to_limbs(array, ring.limbs))
        if array.dtype.kind == "O":
            array = np.array([int(v) % (1 << 64) for v in array.flat], np.uint64).reshape(array.shape)
        # The detour over 64 bits makes negative numbers wrap instead of raising.
        return RingArray(ring, ring.reduce(array.astype(np.uint64).astype(ring.dtype)))

    @property
    def is_hidden(self) -> bool:
        """Whether this role lacks the content."""
        return self._data is None

    @property
    def data(self) -> Data:
        """The raw content; raises if it is hidden."""
        if self._data is None:
            raise SecretError("the coordinator does not hold this value; it only follows its shape", parameter="value")
        return self._data

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        """Number of logical axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"RingArray({self.ring}, shape={self.shape}{', hidden' if self.is_hidden else ''})"

    def __reduce__(self) -> Any:
        raise SecretError("ring elements are not pickled; send them in a frame", parameter="pickle")

    def __bool__(self) -> bool:
        raise SecretError("ring elements have no truth value", parameter="truth")

    __hash__ = None  # type: ignore[assignment] # arrays compare element by element, so they cannot be keys
    __array_ufunc__ = None  # NumPy arrays have to be encoded first; otherwise x * array were an array of RingArrays

    def __add__(self, other: RingArray | int) -> RingArray:
        return self._combine(other, self.ring.add)

    def __sub__(self, other: RingArray | int) -> RingArray:
        return self._combine(other, self.ring.sub)

    def __mul__(self, other: RingArray | int) -> RingArray:
        return self._combine(other, self.ring.mul)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: int) -> RingArray:
        return RingArray(self.ring, self.ring.constant(other)) - self

    def __neg__(self) -> RingArray:
        return self if self._data is None else RingArray(self.ring, self.ring.neg(self._data))

    def add_in_place(self, other: RingArray) -> None:
        """Add elements of the same ring and shape to this array itself, which nobody else may hold."""
        if other.ring != self.ring or other.shape != self.shape:
            raise DoesNotFitError(f"cannot add {other} to {self} in place", "mismatch", "ring in place")
        if self._data is not None:
            self.ring.add_to(self._data, other.data)

    def _combine(self, other: RingArray | int, operation: Any) -> RingArray:
        if isinstance(other, RingArray):
            if other.ring is not self.ring and other.ring != self.ring:
                raise DoesNotFitError(
                    f"cannot combine {self.ring} with {other.ring}; cast one of them first", "mismatch", "ring"
                )
            if self._data is None or other._data is None:
                shape = self.shape
                if other.shape != shape:
                    shape = np.broadcast_shapes(shape, other.shape)
                return RingArray.hidden(self.ring, shape)
            return RingArray(self.ring, operation(self._data, other._data))
        if not isinstance(other, (int, np.integer)):
            return NotImplemented
        if self._data is None:
            return self
        return RingArray(self.ring, operation(self._data, self.ring.constant(int(other))))

    def __getitem__(self, index: Index) -> RingArray:
        """Return part of the array, by any NumPy index over the logical axes."""
        if self._data is None:
            return RingArray.hidden(self.ring, np.broadcast_to(np.uint8(0), self.shape)[index].shape)
        if self.ring.limbs:
            index = index if isinstance(index, tuple) else (index,)
            for part in index:
                if part is Ellipsis:
                    index = (*index, slice(None))
                    break
            else:
                index = (*index, Ellipsis)
        return RingArray(self.ring, np.asarray(self._data[index]))

    def sum(self, axis: int = -1) -> RingArray:
        """Return the sum along one axis."""
        axis = range(self.ndim)[axis]
        if self._data is None:
            return RingArray.hidden(self.ring, self.shape[:axis] + self.shape[axis + 1 :])
        return RingArray(self.ring, self.ring.total(self._data, axis))

    def reshape(self, *shape: int) -> RingArray:
        """Return the same elements in another shape (-1 as in NumPy)."""
        if self._data is None:
            return RingArray.hidden(self.ring, np.broadcast_to(np.uint8(0), self.shape).reshape(shape).shape)
        # NumPy cannot infer -1 beside the limb axis when there are no elements, so the logical shape settles it.
        logical = np.broadcast_to(np.uint8(0), self.shape).reshape(shape).shape if -1 in shape else shape
        return RingArray(self.ring, self._data.reshape(logical + self.ring.tail))

    def broadcast_to(self, shape: Shape) -> RingArray:
        """Return a read-only view in a larger shape."""
        if self.shape == shape:
            return self
        if self._data is None:
            dummy = np.broadcast_to(np.uint8(0), self.shape)
            return RingArray.hidden(self.ring, np.broadcast_to(dummy, shape).shape)
        data = self._data
        if self.ring.limbs:  # keep the limb axis last while the logical axes grow on the left
            data = data.reshape((1,) * (len(shape) - self.ndim) + data.shape)
        return RingArray(self.ring, np.broadcast_to(data, shape + self.ring.tail))

    def cast(self, ring: Ring) -> RingArray:
        """Return the elements, read as numbers in [0, 2^k), in another ring (reduced where it is narrower)."""
        if ring == self.ring:
            return self
        if self._data is None:
            return RingArray.hidden(ring, self.shape)
        data = self._data
        if ring.limbs:
            out = np.zeros((*self.shape, ring.limbs), np.uint64)
            if self.ring.limbs:
                shared = min(ring.limbs, self.ring.limbs)
                out[..., :shared] = data[..., :shared]
            else:
                out[..., 0] = data
            return RingArray(ring, out)
        low = data[..., 0] if self.ring.limbs else data
        return RingArray(ring, ring.reduce(low.astype(ring.dtype)))

    def where(self, bits: npt.NDArray[np.uint8]) -> RingArray:
        """Return the elements where a bit is 1, and zero elsewhere; shapes broadcast."""
        keep = bits.reshape(bits.shape + (1,) * len(self.ring.tail)) != 0
        return RingArray(self.ring, np.where(keep, self.data, self.ring.dtype.type(0)))

    def words(self) -> npt.NDArray[np.uint64]:
        """Return the elements as contiguous rows of 64-bit words, (size, words), for a kernel."""
        data = self.data
        if data.dtype != np.uint64 or not data.flags.c_contiguous:
            data = np.ascontiguousarray(data, np.uint64)
        return data.reshape(self.size, self.ring.words)

    @staticmethod
    def from_words(ring: Ring, shape: Shape, words: npt.NDArray[np.uint64]) -> RingArray:
        """Return what a kernel has written, (size, words), reduced into the ring."""
        data = words.reshape(shape + ring.tail)
        return RingArray(ring, data if ring.bits >= 64 else ring.reduce(data.astype(ring.dtype)))

    def decode(self) -> Integers:
        """Return the elements as signed integers in [-2^(k-1), 2^(k-1)) (bits as 0 and 1).

        int64 for rings of up to 64 bits, Python integers in an object array beyond.
        """
        data, bits = self.data, self.ring.bits
        if self.ring.bitwise or bits == 1:
            return data.astype(np.int64)
        if self.ring.limbs:
            return _from_limbs(data, bits)
        if bits == 64:
            return data.astype(np.int64)
        signed = data.astype(np.int64)
        return np.asarray(signed - ((signed >> (bits - 1)) << bits))


def _check_range(array: Integers, ring: Ring) -> None:
    if array.size == 0:
        return
    low, high = int(array.min()), int(array.max())
    if low < -(1 << (ring.bits - 1)) or high >= 1 << ring.bits or (ring.bitwise and low < 0):
        raise DoesNotFitError(
            f"an integer does not fit {ring}", parameter=str(ring)
        )  # all roles would learn how large it is


def _to_limbs(array: Integers, limbs: int) -> Data:
    out = np.empty((*array.shape, limbs), np.uint64)
    if array.dtype.kind == "O":
        width = 8 * limbs
        blob = b"".join((int(v) % (1 << (8 * width))).to_bytes(width, "little") for v in array.flat)
        out[...] = np.frombuffer(blob, "<u8").reshape(out.shape)
        return out
    out[..., 0] = array.astype(np.uint64)
    negative = array < 0 if array.dtype.kind == "i" else np.zeros(array.shape, bool)
    out[..., 1:] = np.where(negative, np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0))[..., None]
    return out


def _from_limbs(data: Data, bits: int) -> Integers:
    out = np.empty(data.shape[:-1], object)
    raw = np.ascontiguousarray(data).astype("<u8").tobytes()
    width = bits // 8
    for i in range(out.size):
        out.flat[i] = int.from_bytes(raw[i * width : (i + 1) * width], "little", signed=True)
    return out


def concatenate(arrays: Sequence[RingArray], axis: int = -1) -> RingArray:
    """Join arrays of one ring along an existing logical axis."""
    ring, axis = arrays[0].ring, range(arrays[0].ndim)[axis]
    if any(a.is_hidden for a in arrays):
        lengths, shape = [a.shape[axis] for a in arrays], arrays[0].shape
        return RingArray.hidden(ring, (*shape[:axis], sum(lengths), *shape[axis + 1 :]))
    return RingArray(ring, np.concatenate([a.data for a in arrays], axis=axis))


def stack(arrays: Sequence[RingArray], axis: int = 0) -> RingArray:
    """Join arrays of one ring and shape along a new logical axis."""
    ring, axis = arrays[0].ring, range(arrays[0].ndim + 1)[axis]
    if any(a.is_hidden for a in arrays):
        shape = list(arrays[0].shape)
        shape.insert(axis, len(arrays))
        return RingArray.hidden(ring, tuple(shape))
    return RingArray(ring, np.stack([a.data for a in arrays], axis=axis))


def top_bit(x: RingArray) -> RingArray:
    """Return the most significant bit of every element."""
    return bit_at(x, x.ring.bits - 1)


def bit_at(x: RingArray, place: int) -> RingArray:
    """Return one bit of every element; the lowest is at place 0."""
    if x.is_hidden:
        return RingArray.hidden(BIT, x.shape)
    word = x.data[..., place // 64] if x.ring.limbs else x.data
    return RingArray(BIT, np.asarray((word >> word.dtype.type(place % 64) & word.dtype.type(1)).astype(np.uint8)))


def signs(x: RingArray) -> npt.NDArray[np.int64]:
    """Return -1, 0 or 1 for every element, read as a signed integer."""
    nonzero = (x.data != 0).any(axis=-1) if x.ring.limbs else x.data != 0
    return np.asarray(np.where(top_bit(x).data == 1, -1, nonzero), np.int64)


def low_digits(x: RingArray, low: int, digit: int) -> U8:
    """Return the lowest `low` bits of every element as digits of `digit` bits, most significant first.

    x of shape S gives uint8 of shape S + (ceil(low / digit),); the first digit may have fewer bits.
    """
    if digit not in (1, 2, 4):
        raise DoesNotFitError(f"a digit has 1, 2 or 4 bits, not {digit}", "choice", "digit", digit)
    count = -(-low // digit)
    data = x.data.astype(x.data.dtype.newbyteorder("<"), copy=False)
    if not x.ring.limbs:
        data = data[..., None]
    octets = np.ascontiguousarray(data).view(np.uint8)
    per = 8 // digit
    octets = octets[..., : -(-count // per)]
    shifts = np.arange(0, 8, digit, dtype=np.uint8)
    digits = (octets[..., None] >> shifts) & np.uint8((1 << digit) - 1)
    digits = digits.reshape(*octets.shape[:-1], octets.shape[-1] * per)[..., :count]
    if low % digit:
        digits[..., -1] &= np.uint8((1 << (low % digit)) - 1)
    return np.ascontiguousarray(digits[..., ::-1])


def shift_right(x: RingArray, places: int) -> RingArray:
    """Return every element, read as a number in [0, 2^k), divided by 2^places and rounded down."""
    if x.is_hidden:
        return x
    ring = x.ring
    if not 0 <= places < ring.bits:
        raise DoesNotFitError(f"cannot shift an element of {ring} by {places} places", parameter="places", value=places)
    if not ring.limbs:
        return RingArray(ring, np.asarray(x.data >> x.data.dtype.type(places)))
    words, rest = divmod(places, 64)
    out = np.zeros(x.data.shape, np.uint64)
    kept: Any = x.data[..., words:]
    out[..., : ring.limbs - words] = kept >> np.uint64(rest)
    if rest:
        out[..., : ring.limbs - words - 1] |= kept[..., 1:] << np.uint64(64 - rest)
    return RingArray(ring, out)


def low_bits(x: RingArray, bits: int) -> RingArray:
    """Return the lowest `bits` bits of every element, read as a number in [0, 2^k)."""
    return x if x.is_hidden else RingArray(x.ring, np.asarray(x.data & x.ring.constant((1 << bits) - 1)))


def pack(bits: npt.NDArray[Any]) -> RingArray:
    """Return 0/1 values (..., n) packed into (..., ceil(n / 8)) elements of eight bits, lowest bit first."""
    return RingArray(PACKED, np.packbits(bits.astype(np.uint8), axis=-1, bitorder="little"))


def unpack(x: RingArray, count: int) -> RingArray:
    """Return the first `count` bits of packed elements (..., ceil(count / 8)) as single bits (..., count)."""
    if x.is_hidden:
        return RingArray.hidden(BIT, (*x.shape[:-1], count))
    return RingArray(BIT, unpack_data(x.data, count))


def unpack_data(data: Data, count: int) -> U8:
    """Return the first `count` bits of packed bytes (..., ceil(count / 8)) as bytes 0 and 1 (..., count)."""
    return np.unpackbits(data.astype(np.uint8, copy=False), axis=-1, count=count, bitorder="little")
