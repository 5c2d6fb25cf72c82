"""The compiled loops: everything that would be too slow, or impossible, as a NumPy expression.

All of them release the GIL, are compiled at first use and cached beside this file (or in the user's cache
folder where this one is read-only), so an installation compiles once. Arithmetic wraps modulo 2^64.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

_F = TypeVar("_F", bound=Callable[..., Any])
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)

DENSE_ROWS = 1024
"""Rows per tile of the dense kernel: four matrix rows of a tile fit the first-level cache."""


_KERNELS: list[tuple[Any, tuple[Any, ...]]] = []


def reads(kind: Any, axes: int) -> Any:
    """Return the type of a contiguous input, taken as read-only, since arrays that came in a frame are."""
    return numba.types.Array(kind, axes, "C", readonly=True)


def writes(kind: Any, axes: int) -> Any:
    """Return the type of a contiguous output."""
    return numba.types.Array(kind, axes, "C")


_u8, _u16, _u32, _u64, _i64 = (numba.uint8, numba.uint16, numba.uint32, numba.uint64, numba.int64)
_R1, _R2, _R3, _W1, _W2, _W3 = (f(_u64, n) for f in (reads, writes) for n in (1, 2, 3))


def compiled(*signatures: tuple[Any, ...]) -> Callable[[_F], _F]:
    """Register a kernel and the types it is compiled for by `warm_up`; before that, it is compiled as it is called."""

    def register(function: _F) -> _F:
        try:
            dispatcher = numba.njit(nogil=True, cache=True)(function)
        except RuntimeError:  # nowhere to keep compiled code: a read-only installation without a home folder
            dispatcher = numba.njit(nogil=True)(function)
        _KERNELS.append((dispatcher, signatures))
        return cast(_F, dispatcher)

    return register


@compiled((_R2, _R2, _W2))
def wide_add(a: U64, b: U64, out: U64) -> None:
    """Write a + b, element by element over little-endian limbs; all arrays (n, L)."""
    for i in range(out.shape[0]):
        carry = _ZERO
        for j in range(out.shape[1]):
            s = a[i, j] + carry
            c1 = _ONE if s < carry else _ZERO
            t = s + b[i, j]
            c2 = _ONE if t < s else _ZERO
            out[i, j] = t
            carry = c1 + c2


@compiled((_R2, _R2, _W2))
def wide_sub(a: U64, b: U64, out: U64) -> None:
    """Write a - b, element by element over little-endian limbs; all arrays (n, L)."""
    for i in range(out.shape[0]):
        borrow = _ZERO
        for j in range(out.shape[1]):
            s = a[i, j] - borrow
            b1 = _ONE if a[i, j] < borrow else _ZERO
            t = s - b[i, j]
            b2 = _ONE if s < b[i, j] else _ZERO
            out[i, j] = t
            borrow = b1 + b2


@compiled((_R2, _W2))
def wide_neg(a: U64, out: U64) -> None:
    """Write -a, element by element over little-endian limbs; both arrays (n, L)."""
    for i in range(out.shape[0]):
        carry = _ONE
        for j in range(out.shape[1]):
            t = ~a[i, j] + carry
            carry = _ONE if carry == _ONE and t == _ZERO else _ZERO
            out[i, j] = t


@compiled((_R2, _R2, _W2))
def wide_mul(a: U64, b: U64, out: U64) -> None:
    """Write a * b modulo 2^(64 L), schoolbook over limbs; all arrays (n, L)."""
    limbs = out.shape[1]
    for i in range(out.shape[0]):
        for j in range(limbs):
            out[i, j] = _ZERO
        for j in range(limbs):
            x0 = a[i, j] & _LOW
            x1 = a[i, j] >> _HALF
            carry = _ZERO
            for k in range(limbs - j):
                y0 = b[i, k] & _LOW
                y1 = b[i, k] >> _HALF
                p00 = x0 * y0
                p01 = x0 * y1
                p10 = x1 * y0
                middle = (p00 >> _HALF) + (p01 & _LOW) + (p10 & _LOW)
                low = (p00 & _LOW) | (middle << _HALF)
                high = x1 * y1 + (p01 >> _HALF) + (p10 >> _HALF) + (middle >> _HALF)
                s = out[i, j + k] + low
                c1 = _ONE if s < low else _ZERO
                t = s + carry
                c2 = _ONE if t < carry else _ZERO
                out[i, j + k] = t
                carry = high + c1 + c2


@compiled((_R3, _W2))
def wide_sum(a: U64, out: U64) -> None:
    """Add up the middle axis: a (n, m, L) into out (n, L)."""
    limbs = out.shape[1]
    for i in range(a.shape[0]):
        for j in range(limbs):
            out[i, j] = _ZERO
        for k in range(a.shape[1]):
            carry = _ZERO
            for j in range(limbs):
                s = out[i, j] + carry
                c1 = _ONE if s < carry else _ZERO
                t = s + a[i, k, j]
                c2 = _ONE if t < s else _ZERO
                out[i, j] = t
                carry = c1 + c2


@compiled((_R2, _R2, _W2))
def dense_add(matrix: U64, vectors: U64, out: U64) -> None:
    """Add vectors @ matrix.T modulo 2^64 to out.

    matrix (C, N), vectors (V, N), out (V, C). Tiled over N, four matrix rows by four vectors in registers, or by two
    where no more are left: a word that is loaded once serves four products.
    """
    columns, rows = matrix.shape
    count = vectors.shape[0]
    for low in range(0, rows, DENSE_ROWS):
        high = min(rows, low + DENSE_ROWS)
        for c in range(0, columns, 4):
            v = 0
            while count - v > 2:
                _four_by_four(matrix, vectors, out, c, v, low, high)
                v += 4
            if v < count:
                _four_by_two(matrix, vectors, out, c, v, low, high)


@compiled((_R2, _R2, _W2, _i64, _i64, _i64, _i64))
def _four_by_four(matrix: U64, vectors: U64, out: U64, c: int, v: int, low: int, high: int) -> None:
    """Add what four matrix rows and vectors give over some of N; where there are fewer, the last one is repeated."""
    last, end = matrix.shape[0] - 1, vectors.shape[0] - 1
    c1, c2, c3 = min(c + 1, last), min(c + 2, last), min(c + 3, last)
    v1, v2, v3 = min(v + 1, end), min(v + 2, end), min(v + 3, end)
    s00 = s01 = s02 = s03 = _ZERO
    s10 = s11 = s12 = s13 = _ZERO
    s20 = s21 = s22 = s23 = _ZERO
    s30 = s31 = s32 = s33 = _ZERO
    for i in range(low, high):
        p, q, r, s = matrix[c, i], matrix[c1, i], matrix[c2, i], matrix[c3, i]
        w, x, y, z = vectors[v, i], vectors[v1, i], vectors[v2, i], vectors[v3, i]
        s00 += p * w
        s01 += p * x
        s02 += p * y
        s03 += p * z
        s10 += q * w
        s11 += q * x
        s12 += q * y
        s13 += q * z
        s20 += r * w
        s21 += r * x
        s22 += r * y
        s23 += r * z
        s30 += s * w
        s31 += s * x
        s32 += s * y
        s33 += s * z
    sums = ((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33))
    for k in range(min(4, matrix.shape[0] - c)):
        for j in range(min(4, vectors.shape[0] - v)):
            out[v + j, c + k] += sums[k][j]


@compiled((_R2, _R2, _W2, _i64, _i64, _i64, _i64))
def _four_by_two(matrix: U64, vectors: U64, out: U64, c: int, v: int, low: int, high: int) -> None:
    """Add what four matrix rows and two vectors give over some of N (see `_four_by_four`)."""
    last = matrix.shape[0] - 1
    c1, c2, c3 = min(c + 1, last), min(c + 2, last), min(c + 3, last)
    v1 = min(v + 1, vectors.shape[0] - 1)
    s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = _ZERO
    for i in range(low, high):
        p, q, r, s = matrix[c, i], matrix[c1, i], matrix[c2, i], matrix[c3, i]
        x, y = vectors[v, i], vectors[v1, i]
        s00 += p * x
        s01 += p * y
        s10 += q * x
        s11 += q * y
        s20 += r * x
        s21 += r * y
        s30 += s * x
        s31 += s * y
    sums = ((s00, s01), (s10, s11), (s20, s21), (s30, s31))
    for k in range(min(4, matrix.shape[0] - c)):
        for j in range(min(2, vectors.shape[0] - v)):
            out[v + j, c + k] += sums[k][j]


@compiled(*((reads(kind, 2), _R2, _W3) for kind in (_u8, _u16, _u32)))
def histogram_add(bins: npt.NDArray[np.unsignedinteger[Any]], vectors: U64, out: U64) -> None:
    """Add, for every feature and bin, the sum of each vector over the rows in that bin, modulo 2^64.

    bins (F, N), vectors (N, V) row by row so that one row's values share a cache line, out (F, K, V).
    """
    for f in range(bins.shape[0]):
        for i in range(bins.shape[1]):
            k = bins[f, i]
            for v in range(vectors.shape[1]):
                out[f, k, v] += vectors[i, v]


@compiled((reads(_u8, 2), reads(_u8, 3), _i64, writes(_u8, 2)))
def digit_terms(digits: U8, tables: U8, constant: int, out: U8) -> None:
    """Write one role's share of t_i = 2 sum_{j above i} (1 - eq_j) + lt_i for every digit, modulo 256.

    digits (n, D) of the public number, most significant first; tables (n, D, B) this role's share of the
    one-hot digits of the hidden number; constant 1 for the role that adds public terms, else 0; out (n, D).
    """
    base = tables.shape[2]
    for i in range(digits.shape[0]):
        above = np.uint8(0)
        for j in range(digits.shape[1]):
            d = digits[i, j]
            less = np.uint8(0)
            for v in range(d + 1, base):
                less += tables[i, j, v]
            out[i, j] = np.uint8(2 * above + less)
            above = np.uint8(above + constant - tables[i, j, d])


@compiled((reads(_u8, 2), reads(_i64, 2), writes(_u8, 1)))
def look_up_bits(tables: U8, places: I64, out: U8) -> None:
    """Write the XOR of the bits of each packed table at the given places: tables (n, W/8), places (n, D), out (n)."""
    for i in range(places.shape[0]):
        bit = np.uint8(0)
        for j in range(places.shape[1]):
            place = places[i, j]
            bit ^= (tables[i, place >> 3] >> np.uint8(place & 7)) & np.uint8(1)
        out[i] = bit


@compiled((writes(_u8, 2), reads(_i64, 2)))
def flip_bits(tables: U8, places: I64) -> None:
    """Flip the bits of each packed table at the given places, in place: tables (n, W/8), places (n, D)."""
    for i in range(places.shape[0]):
        for j in range(places.shape[1]):
            place = places[i, j]
            tables[i, place >> 3] ^= np.uint8(1) << np.uint8(place & 7)


@compiled((reads(_u8, 2), _R2, _R2, _R3, _R3, _W2))
def gate(bits: U8, masked: U64, plain: U64, alone: U64, with_mask: U64, out: U64) -> None:
    """Write one role's share of (product of bits) * value, for bits b_i = m_i + (1 - 2 m_i) rho_i, modulo 2^(64 L).

    bits (k, n) are the public m_i; masked and plain (n, L) the public masked value and this role's share of the value;
    alone and with_mask (n, 2^k - 1, L) its shares of the products of rho over each subset of bits (bit i of the place
    plus one says whether b_i is in it), and of the same times the value's mask. out (n, L).

    The factor of a subset is the product of m_i outside and 1 - 2 m_i inside it: 0, 1 or -1.
    """
    k, n = bits.shape
    limbs = out.shape[1]
    if k == 1 and limbs == 1:  # sums over leaves: one bit, one word, many rows
        for e in range(n):
            product = alone[e, 0, 0] * masked[e, 0] - with_mask[e, 0, 0]
            out[e, 0] = plain[e, 0] - product if bits[0, e] else product
        return
    full = (1 << k) - 1
    factor = np.empty((1, limbs), np.uint64)
    term = np.empty((1, limbs), np.uint64)
    for e in range(n):
        ones = 0
        for i in range(k):
            ones |= int(bits[i, e]) << i
        for j in range(limbs):
            factor[0, j] = _ZERO
            term[0, j] = plain[e, j] if ones == full else _ZERO
        for place in range(full):
            subset = place + 1
            if (full & ~subset) & ~ones:
                continue
            odd = 0
            for i in range(k):
                odd ^= (subset & ones) >> i & 1
            if odd:
                wide_sub(factor, alone[e, place : place + 1], factor)
                wide_add(term, with_mask[e, place : place + 1], term)
            else:
                wide_add(factor, alone[e, place : place + 1], factor)
                wide_sub(term, with_mask[e, place : place + 1], term)
        wide_mul(factor, masked[e : e + 1], out[e : e + 1])
        wide_add(out[e : e + 1], term, out[e : e + 1])


_warm = threading.Lock()
_is_warm = False


def warm_up() -> None:
    """Compile or load every kernel now, once per process; say so in the log if something has to be compiled."""
    global _is_warm
    with _warm:
        if not _is_warm:
            _compile_all()
            _is_warm = True


def _say_compiling() -> None:
    logging.getLogger("mpfedxgb").warning(
        "compiling the arithmetic kernels for this machine; this happens once per installation and takes some seconds"
    )


def _compile_all() -> None:
    said = False
    for dispatcher, signatures in _KERNELS:
        for signature in signatures:
            dispatcher.compile(signature)
            if not said and dispatcher.stats.cache_misses:  # the first of many
                _say_compiling()
                said = True
        dispatcher.disable_compile()
