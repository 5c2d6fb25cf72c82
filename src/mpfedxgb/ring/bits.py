"""The bits of ring elements: digits, top bits, shifts, and packing."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U8
from mpfedxgb.ring.ring import BIT, PACKED, Data


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
        raise DoesNotFitError(f"a digit has 1, 2 or 4 bits, not {digit}")
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
        raise DoesNotFitError(f"cannot shift an element of {ring} by {places} places")
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
