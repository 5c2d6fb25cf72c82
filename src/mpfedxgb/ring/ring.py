"""Which integers a value lives in: Z_2^k with its storage and its raw arithmetic on NumPy arrays.

Three kinds of storage serve every need: one byte (k <= 8), one word (k <= 64), or L words per element, least
significant first, on a trailing axis (k = 64 L). `bitwise` rings hold k independent bits per element: their
addition is XOR and their product AND, so that every protocol written for a ring also works on bits.

Fixed point: the single rounding from real numbers to integers, and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.ring import kernels

Data = npt.NDArray[np.unsignedinteger[Any]]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Ring:
    """The integers modulo 2^bits, or `bits` independent bits where `bitwise`.

    Raw data of logical shape S is an array of shape S, or S + (limbs,) for rings wider than 64 bits.
    """

    bits: int
    bitwise: bool = False

    def __post_init__(self) -> None:
        """Refuse widths that have no storage."""
        if not (1 <= self.bits <= 64 or self.bits in (128, 192, 256)):
            raise DoesNotFitError(
                f"a ring has 1 to 64, 128, 192 or 256 bits, not {self.bits}", parameter="bits", value=self.bits
            )
        if self.bitwise and self.bits > 8:
            text = f"a bitwise ring packs at most 8 bits into an element, not {self.bits}"
            raise DoesNotFitError(text, parameter="packed bits", value=self.bits)

    def __repr__(self) -> str:
        return f"Z_2^{self.bits}" if not self.bitwise else f"bits[{self.bits}]"

    @cached_property
    def limbs(self) -> int:
        """Words per element of a wide ring; 0 for the others, which have no limb axis."""
        return self.bits // 64 if self.bits > 64 else 0

    @cached_property
    def words(self) -> int:
        """Words per element as kernels see it: one for all rings up to 64 bits."""
        return max(1, self.limbs)

    @cached_property
    def tail(self) -> Shape:
        """What raw data has behind the logical shape."""
        return (self.limbs,) if self.limbs else ()

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Storage type."""
        return np.dtype(np.uint8 if self.bits <= 8 else np.uint64)

    @cached_property
    def element_bytes(self) -> int:
        """Bytes per element in memory."""
        return self.dtype.itemsize * self.words

    @cached_property
    def _clip(self) -> Any:
        """The mask that keeps data inside a ring narrower than its storage; None if storage wraps by itself."""
        if self.bits in (8, 64) or self.limbs:
            return None
        return self.dtype.type((1 << self.bits) - 1)

    def reduce(self, data: Data) -> Data:
        """Bring raw data back into the ring."""
        return np.asarray(data if self._clip is None else data & self._clip)

    def reduce_in_place(self, data: Data) -> Data:
        """Bring raw data back into the ring, writing over it."""
        return data if self._clip is None else np.bitwise_and(data, self._clip, out=data)

    def holds(self, data: Data) -> bool:
        """Return whether raw data lies inside the ring."""
        return self._clip is None or not data.size or bool(data.max() <= self._clip)

    def add(self, a: Data, b: Data) -> Data:
        """Return a + b."""
        if self.bitwise:
            return np.asarray(a ^ b)
        if self.limbs:
            return self._by_limbs(kernels.wide_add, a, b)
        return self.reduce_in_place(np.asarray(np.add(a, b)))

    def add_to(self, a: Data, b: Data) -> None:
        """Add b to a, which is of the same shape, in place."""
        if self.bitwise:
            np.bitwise_xor(a, b, out=a)
        elif self.limbs:
            assert a.flags.c_contiguous  # or the rows were a copy
            rows = a.reshape(-1, self.limbs)
            kernels.wide_add(rows, _rows(b, a.shape, self.limbs), rows)
        else:
            self.reduce_in_place(np.add(a, b, out=a))

    def sub(self, a: Data, b: Data) -> Data:
        """Return a - b."""
        if self.bitwise:
            return np.asarray(a ^ b)
        if self.limbs:
            return self._by_limbs(kernels.wide_sub, a, b)
        return self.reduce_in_place(np.asarray(np.subtract(a, b)))

    def neg(self, a: Data) -> Data:
        """Return -a."""
        if self.bitwise:
            return a
        if self.limbs:
            out = np.empty(a.shape, np.uint64)
            kernels.wide_neg(_rows(a, a.shape, self.limbs), out.reshape(-1, self.limbs))
            return out
        return self.reduce(np.negative(a))

    def mul(self, a: Data, b: Data) -> Data:
        """Return a * b."""
        if self.bitwise:
            return np.asarray(a & b)
        if self.limbs:
            return self._by_limbs(kernels.wide_mul, a, b)
        return self.reduce_in_place(np.asarray(np.multiply(a, b)))

    def total(self, data: Data, axis: int) -> Data:
        """Return the sum along a (non-negative) logical axis."""
        if self.bitwise:
            return np.asarray(np.bitwise_xor.reduce(data, axis=axis))
        if not self.limbs:
            return self.reduce(np.add.reduce(data, axis=axis, dtype=self.dtype))
        moved = np.moveaxis(data, axis, -2)
        out = np.empty(moved.shape[:-2] + self.tail, np.uint64)
        flat = np.ascontiguousarray(moved).reshape(out.size // self.limbs, moved.shape[-2], self.limbs)
        kernels.wide_sum(flat, out.reshape(-1, self.limbs))
        return out

    def _by_limbs(self, kernel: Callable[..., None], a: Data, b: Data) -> Data:
        shape = a.shape if a.shape == b.shape else np.broadcast_shapes(a.shape, b.shape)
        out = np.empty(shape, np.uint64)
        kernel(_rows(a, shape, self.limbs), _rows(b, shape, self.limbs), out.reshape(-1, self.limbs))
        return out

    def constant(self, value: int) -> Data:
        """Return the raw data of one public integer (shape () logically)."""
        value %= 1 << self.bits
        if self.limbs:
            return np.array([(value >> (64 * i)) & 0xFFFFFFFFFFFFFFFF for i in range(self.limbs)], np.uint64)
        return np.array(value, self.dtype)

    def zeros(self, shape: Shape) -> Data:
        """Return a read-only array of zeros that takes no memory."""
        return np.broadcast_to(np.zeros((), self.dtype), shape + self.tail)


def _rows(data: Data, shape: Shape, limbs: int) -> Data:
    if data.shape != shape:
        data = np.broadcast_to(data, shape)
    if not data.flags.c_contiguous:
        data = np.ascontiguousarray(data)
    return data.reshape(-1, limbs)


VECTOR = Ring(64)
"""Row vectors and histogram sums: NumPy's uint64 wraps for free."""

BIT = Ring(1, bitwise=True)
"""One bit per element in memory, packed eight to a byte on the wire."""

PACKED = Ring(8, bitwise=True)
"""Eight bits per element: row memberships and look-up tables."""


def wide(limbs: int) -> Ring:
    """Return the wide ring of L = 2, 3 or 4 limbs: everything after the histograms."""
    if limbs not in (2, 3, 4):
        raise DoesNotFitError(
            f"a wide ring has 2, 3 or 4 limbs of 64 bits, not {limbs}", parameter="limbs", value=limbs
        )
    return Ring(64 * limbs)


_LARGEST = 1 << 62
_INT64 = (1 << 63) - 1


def encode_fixed(values: npt.ArrayLike, fraction_bits: int, limit: int | None = None) -> npt.NDArray[np.int64]:
    """Return rint(values * 2^fraction_bits) as integers.

    Parameters
    ----------
    values : array of float
    fraction_bits : int
        May be negative for values beyond 2^62.
    limit : int or None
        Largest magnitude allowed for a result; 2^62 if None.

    Raises
    ------
    DoesNotFitError
        If a value is not finite, or its integer is larger than the limit.
    """
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise DoesNotFitError("a value is not a finite number, so it has no fixed-point form", "type", "values")
    with np.errstate(over="ignore"):  # infinity is refused below
        scaled = np.rint(np.ldexp(array, fraction_bits))
    bound = _LARGEST if limit is None else min(limit, _INT64)
    if scaled.size and float(np.abs(scaled).max()) > bound:
        text = (
            f"with {fraction_bits} fraction bits a value needs more than the {bound.bit_length()} bits there are; "
            "use fewer fraction bits or scale the values down"
        )
        raise DoesNotFitError(text, parameter="fraction_bits", value=fraction_bits)
    return scaled.astype(np.int64)


def decode_fixed(values: npt.NDArray[np.signedinteger], fraction_bits: int) -> npt.NDArray[np.float64]:
    """Return integers / 2^fraction_bits as floats."""
    return np.ldexp(np.asarray(values, np.float64), -fraction_bits)
