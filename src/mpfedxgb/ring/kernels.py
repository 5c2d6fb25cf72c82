"""The compiled loops: everything that would be too slow, or impossible, as a NumPy expression.

All of them release the GIL, are compiled at first use and cached beside this file (or in the user's cache
folder where this one is read-only), so an installation compiles once. Arithmetic wraps modulo 2^64.

Threads for the compiled loops: pieces of row work, done by several threads at once.

Kernels release the interpreter's lock, so that threads of one process use several cores. Sums are modulo
2^k, where the order makes no difference: any number of threads gives the same numbers.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.extending import intrinsic

from mpfedxgb.ring.scratch import Scratch

T = TypeVar("T")
R = TypeVar("R")


class Threads:
    """`count` threads; with one, the caller does everything itself. Threads start with the first work for them.

    Row work comes again and again in the same sizes: beside them is the memory for it, `scratch`, for two in turns.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.scratch = (Scratch(), Scratch())
        self._pool: ThreadPoolExecutor | None = None

    def __repr__(self) -> str:
        return f"Threads({self.count})"

    def total(self, work: Callable[[T], U64], pieces: Sequence[T], shape: tuple[int, int]) -> U64:
        """Return the sum of work(piece) over all pieces, modulo 2^64; pieces are begun in order."""
        rest = iter(pieces)  # its next() is one step under the interpreter's lock, so that no piece is taken twice

        def add_up() -> U64:
            out = np.zeros(shape, np.uint64)
            for piece in rest:
                out += work(piece)
            return out

        threads = min(self.count, len(pieces))
        if threads <= 1:
            return add_up()
        running = [self._started().submit(add_up) for _ in range(threads)]
        out = running[0].result()
        for one in running[1:]:
            out += one.result()
        return out

    def ahead(self, work: Callable[[T], R], pieces: Iterable[T]) -> Iterator[R]:
        """Yield work(piece) for all pieces, in order, with as many begun ahead as there are threads."""
        if self.count == 1:
            yield from map(work, pieces)
            return
        begun: deque[Future[R]] = deque()
        for piece in pieces:
            begun.append(self._started().submit(work, piece))
            if len(begun) > self.count:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()

    def close(self) -> None:
        """Let the threads end, and keep no memory."""
        for scratch in self.scratch:
            scratch.close()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None

    def _started(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count, thread_name_prefix="rows")
        return self._pool


U64 = npt.NDArray[np.uint64]
U8 = npt.NDArray[np.uint8]
I64 = npt.NDArray[np.int64]

_F = TypeVar("_F", bound=Callable[..., Any])
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


def _upper_half(typing_context: Any, x: Any, y: Any) -> Any:
    """Generate code for the upper 64 bits of x * y, which a processor has beside the lower ones."""

    def generate(context: Any, builder: Any, signature: Any, words: Any) -> Any:
        x, y = (builder.zext(word, ir.IntType(128)) for word in words)
        return builder.trunc(builder.lshr(builder.mul(x, y), ir.IntType(128)(64)), ir.IntType(64))

    return _u64(_u64, _u64), generate


_high_word: Any = intrinsic(_upper_half)


@compiled((_R2, _R2, _W2))
def wide_mul(a: U64, b: U64, out: U64) -> None:
    """Write a * b modulo 2^(64 L), limb by limb of the product; all arrays (n, L), out neither of the others."""
    limbs = out.shape[1]
    for i in range(out.shape[0]):
        x, y, product = a[i], b[i], out[i]
        low = middle = high = _ZERO
        for c in range(limbs):
            for j in range(c + 1):
                term = x[j] * y[c - j]
                low += term
                above = _high_word(x[j], y[c - j]) + (_ONE if low < term else _ZERO)  # at most 2^64 - 1
                middle += above
                high += _ONE if middle < above else _ZERO
            product[c] = low
            low, middle, high = middle, high, _ZERO


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
    last, end = columns - 1, count - 1
    for low in range(0, rows, DENSE_ROWS):
        high = min(rows, low + DENSE_ROWS)
        for c in range(0, columns, 4):
            # Where there are fewer than four, the last one is repeated. As slices, whose index begins at 0, they are
            # loaded as vectors: an index that might be below 0 counts from the end in Python, and is looked up.
            p = matrix[c, low:high]
            q = matrix[min(c + 1, last), low:high]
            r = matrix[min(c + 2, last), low:high]
            s = matrix[min(c + 3, last), low:high]
            for v in range(0, count, 4):
                w, x = vectors[v, low:high], vectors[min(v + 1, end), low:high]
                if count - v > 2:
                    y, z = vectors[min(v + 2, end), low:high], vectors[min(v + 3, end), low:high]
                    sums = _four_by_four(p, q, r, s, w, x, y, z)
                    for k in range(min(4, columns - c)):
                        for j in range(min(4, count - v)):
                            out[v + j, c + k] += sums[k][j]
                else:
                    pairs = _four_by_two(p, q, r, s, w, x)
                    for k in range(min(4, columns - c)):
                        for j in range(count - v):
                            out[v + j, c + k] += pairs[k][j]


@compiled((_R1,) * 8)
def _four_by_four(p: U64, q: U64, r: U64, s: U64, w: U64, x: U64, y: U64, z: U64) -> tuple[tuple[np.uint64, ...], ...]:
    """Return the products of each of four rows with each of four vectors."""
    p0 = p1 = p2 = p3 = _ZERO
    q0 = q1 = q2 = q3 = _ZERO
    r0 = r1 = r2 = r3 = _ZERO
    s0 = s1 = s2 = s3 = _ZERO
    for i in range(len(p)):
        p0 += p[i] * w[i]
        p1 += p[i] * x[i]
        p2 += p[i] * y[i]
        p3 += p[i] * z[i]
        q0 += q[i] * w[i]
        q1 += q[i] * x[i]
        q2 += q[i] * y[i]
        q3 += q[i] * z[i]
        r0 += r[i] * w[i]
        r1 += r[i] * x[i]
        r2 += r[i] * y[i]
        r3 += r[i] * z[i]
        s0 += s[i] * w[i]
        s1 += s[i] * x[i]
        s2 += s[i] * y[i]
        s3 += s[i] * z[i]
    return (p0, p1, p2, p3), (q0, q1, q2, q3), (r0, r1, r2, r3), (s0, s1, s2, s3)


@compiled((_R1,) * 6)
def _four_by_two(p: U64, q: U64, r: U64, s: U64, w: U64, x: U64) -> tuple[tuple[np.uint64, ...], ...]:
    """Return the products of each of four rows with each of two vectors."""
    p0 = p1 = q0 = q1 = r0 = r1 = s0 = s1 = _ZERO
    for i in range(len(p)):
        p0 += p[i] * w[i]
        p1 += p[i] * x[i]
        q0 += q[i] * w[i]
        q1 += q[i] * x[i]
        r0 += r[i] * w[i]
        r1 += r[i] * x[i]
        s0 += s[i] * w[i]
        s1 += s[i] * x[i]
    return (p0, p1), (q0, q1), (r0, r1), (s0, s1)


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
def digit_terms(digits: U8, tables: U8, public_share: int, out: U8) -> None:
    """Write one role's share of t_i = 2 sum_{j above i} (1 - eq_j) + lt_i for every digit, modulo 256.

    digits (n, D) of the public number, most significant first; tables (n, D, B) this role's share of the
    one-hot digits of the hidden number; public_share its share of public terms, 1 or 0; out (n, D).
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
            above = np.uint8(above + public_share - tables[i, j, d])


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
