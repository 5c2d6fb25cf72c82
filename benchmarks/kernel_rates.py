"""The compiled kernels on one core, against what this machine can do at most and against NumPy doing the same.

NumPy is timed twice: as one would write the formula, and in the fastest of several ways, on whatever memory layout
suits it best. All of its ways give the same exact result, except that its random generators are not secure. A limit is
a probe: a loop that does nothing but what the kernel cannot do without. Kernel, probes and NumPy take turns, so that a
busy moment of the machine hits all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numba
import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from mpfedxgb.ring import RingArray, kernels, wide
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.prg import KEY_BYTES, Stream
from plain_table import table

Job = Callable[[], object]
Probe = tuple[Job, float]
"""A job, and the amount of a kernel's work it stands for."""

WIDE = wide(3)
COLUMNS = 90
VECTORS = 2
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@dataclass(frozen=True)
class KernelRow:
    """How fast one kernel is; the limits are in the same unit, and `limited_by` names the lowest of them."""

    name: str
    size: str
    rate: float
    unit: str
    limits: dict[str, float]
    limited_by: str
    share_of_limit: float
    numpy: str
    ratio_to_numpy: float
    numpy_best_layout: str
    ratio_to_numpy_best_layout: float


@dataclass(frozen=True)
class Contest:
    """A kernel that does `work` units, its limits, and its rivals in NumPy, of which the first is the natural one."""

    name: str
    size: str
    work: float
    unit: str
    job: Job
    limits: dict[str, Probe]
    rivals: dict[str, Job]

    def row(self, repeat: int) -> KernelRow:
        """Let all take turns `repeat` times, after one turn that is not counted, and compare their best times."""
        jobs = [self.job, *(job for job, _ in self.limits.values()), *self.rivals.values()]
        rate, *others = (1 / seconds for seconds in _best_seconds(jobs, repeat))
        rate *= self.work
        limits = {name: units * r for (name, (_, units)), r in zip(self.limits.items(), others, strict=False)}
        rivals = {name: self.work * r for name, r in zip(self.rivals, others[len(limits) :], strict=True)}
        limited_by = min(limits, key=limits.__getitem__)
        natural, best = next(iter(rivals)), max(rivals, key=rivals.__getitem__)
        return KernelRow(
            name=self.name,
            size=self.size,
            rate=rate,
            unit=self.unit,
            limits=limits,
            limited_by=limited_by,
            share_of_limit=rate / limits[limited_by],
            numpy=natural,
            ratio_to_numpy=rate / rivals[natural],
            numpy_best_layout=best,
            ratio_to_numpy_best_layout=rate / rivals[best],
        )


def _best_seconds(jobs: list[Job], repeat: int) -> list[float]:
    best = [float("inf")] * len(jobs)
    for turn in range(repeat + 1):
        for i, job in enumerate(jobs):
            begin = time.perf_counter()
            job()
            if turn > 0:
                best[i] = min(best[i], time.perf_counter() - begin)
    return best


def kernel_rows(repeat: int, quick: bool) -> Iterator[KernelRow]:
    """Measure every kernel."""
    kernels.warm_up()
    scale = 10 if quick else 1
    contests = (
        prg(2**20 // scale),
        dense("dense", 10_000 // scale),
        dense("dense_large", 100_000 // scale),
        histogram(50_000 // scale),
        wide_mul(50_000 // scale),
    )
    for contest in contests:
        yield contest.row(repeat)


@numba.njit(nogil=True)
def _multiply_add(rounds: int, a: U64, x: U64) -> None:
    for _ in range(rounds):
        s = t = u = v = np.uint64(0)
        s1 = t1 = u1 = v1 = np.uint64(0)
        s2 = t2 = u2 = v2 = np.uint64(0)
        s3 = t3 = u3 = v3 = np.uint64(0)
        for i in range(x.shape[1]):
            s += a[0, i] * x[0, i]
            t += a[0, i] * x[1, i]
            u += a[0, i] * x[2, i]
            v += a[0, i] * x[3, i]
            s1 += a[1, i] * x[0, i]
            t1 += a[1, i] * x[1, i]
            u1 += a[1, i] * x[2, i]
            v1 += a[1, i] * x[3, i]
            s2 += a[2, i] * x[0, i]
            t2 += a[2, i] * x[1, i]
            u2 += a[2, i] * x[2, i]
            v2 += a[2, i] * x[3, i]
            s3 += a[3, i] * x[0, i]
            t3 += a[3, i] * x[1, i]
            u3 += a[3, i] * x[2, i]
            v3 += a[3, i] * x[3, i]
        # No round can be left out, since it changes the next.
        x[0, 0] += s ^ t ^ u ^ v ^ s1 ^ t1 ^ u1 ^ v1 ^ s2 ^ t2 ^ u2 ^ v2 ^ s3 ^ t3 ^ u3 ^ v3


@numba.njit(nogil=True)
def _read(words: U64) -> np.uint64:
    total = np.uint64(0)
    for word in words:
        total ^= word
    return total


def multiply_adds(count: int, work: float) -> Probe:
    """Return the probe of `count` multiply-adds on operands that stay in the first-level cache."""
    length = 256
    rounds, (a, x) = -(-count // (16 * length)), _words(2, 4, length)
    return lambda: _multiply_add(rounds, a, x), work * rounds * 16 * length / count


def reading(work: float, *arrays: U64) -> Probe:
    """Return the probe of reading arrays once, wherever in the memory they are."""
    return lambda: [_read(array.reshape(-1)) for array in arrays], work


def encryption(count: int, work: float) -> Probe:
    """Return the probe of AES in counter mode, over and over into one buffer that stays in the cache."""
    zeros, buffer = bytes(1 << 16), bytearray(1 << 16)
    update, calls = Cipher(algorithms.AES(bytes(16)), modes.CTR(bytes(16))).encryptor().update_into, count >> 16
    return lambda: [update(zeros, buffer) for _ in range(calls)], work * (calls << 16) / count


def _words(*shape: int) -> U64:
    return np.random.default_rng(7).integers(0, 2**64 - 1, shape, np.uint64, endpoint=True)


def prg(count: int) -> Contest:
    """Expand key streams, a megabyte at a time."""
    stream, pcg, sfc = Stream(bytes(KEY_BYTES)), np.random.default_rng(7), np.random.Generator(np.random.SFC64(7))
    return Contest(
        "prg",
        f"{count >> 10} KiB",
        count / 1e9,
        "GB/s",
        lambda: stream.octets(count),
        limits={"AES": encryption(count, count / 1e9)},
        rivals={
            "Generator.integers": lambda: pcg.integers(0, 2**64 - 1, count // 8, np.uint64, endpoint=True),
            "Generator.bytes": lambda: pcg.bytes(count),
            "SFC64 integers": lambda: sfc.integers(0, 2**64 - 1, count // 8, np.uint64, endpoint=True),
        },
    )


def dense(name: str, rows: int) -> Contest:
    """Compute E^T lam for two vectors: E is (rows, columns) as the formula has it, E_T lies as the kernel wants it."""
    E_T, lam_T = _words(COLUMNS, rows), _words(VECTORS, rows)
    E, lam = np.ascontiguousarray(E_T.T), np.ascontiguousarray(lam_T.T)
    out, count = np.zeros((VECTORS, COLUMNS), np.uint64), rows * COLUMNS * VECTORS
    return Contest(
        name,
        f"{rows:,} x {COLUMNS}, {VECTORS} vectors",
        count / 1e9,
        "G multiply-adds/s",
        lambda: kernels.dense_add(E_T, lam_T, out),
        limits={"multiply-adds": multiply_adds(count, count / 1e9), "reading E": reading(count / 1e9, E_T)},
        rivals={
            "E.T @ lam": lambda: E.T @ lam,
            "lam_T @ E": lambda: lam_T @ E,
            "E_T @ lam": lambda: E_T @ lam,
            "E_T @ lam_T.T": lambda: E_T @ lam_T.T,
            "einsum of E_T, lam_T": lambda: np.einsum("vn,cn->vc", lam_T, E_T),
        },
    )


def histogram(rows: int) -> Contest:
    """Add g and h up by bin."""
    features, bins = 10, 10
    places = np.random.default_rng(7).integers(0, bins, (features, rows)).astype(np.uint8)
    g_h, out = _words(rows, VECTORS), np.zeros((features, bins, VECTORS), np.uint64)
    columns, count = np.ascontiguousarray(g_h.T), features * rows * VECTORS

    def add_at() -> None:
        for f in range(features):
            np.add.at(out[f], places[f], g_h)

    def add_at_by_column() -> None:
        sums = np.zeros((features, VECTORS, bins), np.uint64)
        for f in range(features):
            for v in range(VECTORS):
                np.add.at(sums[f, v], places[f], columns[v])

    def bincount_of_halves() -> None:  # floats hold sums of 32-bit halves exactly, up to 2^21 rows
        for half in (columns & _LOW, columns >> _HALF):
            weights = half.astype(np.float64)
            for f in range(features):
                for v in range(VECTORS):
                    np.bincount(places[f], weights[v], bins)

    return Contest(
        "histogram",
        f"{features} x {rows:,}, {bins} bins, {VECTORS} vectors",
        count / 1e9,
        "G additions/s",
        lambda: kernels.histogram_add(places, g_h, out),
        limits={"reading g, h": reading(count / 1e9, *[g_h] * features)},
        rivals={
            "np.add.at": add_at,
            "np.add.at by column": add_at_by_column,
            "np.bincount of halves": bincount_of_halves,
        },
    )


def wide_mul(count: int) -> Contest:
    """Multiply modulo 2^192."""
    limbs = WIDE.limbs
    a, b = _words(count, limbs), _words(count, limbs)
    out = np.empty_like(a)
    x, y = RingArray(WIDE, a).decode(), RingArray(WIDE, b).decode()
    halves = [np.ascontiguousarray(z.view(np.uint32).T).astype(np.uint64) for z in (a, b)]
    multiplications = count * 4 * limbs * (limbs + 1) // 2  # four 32-bit products for each pair of limbs that counts
    return Contest(
        "wide_mul",
        f"{count:,} of {WIDE.bits} bits",
        count / 1e6,
        "M products/s",
        lambda: kernels.wide_mul(a, b, out),
        limits={"multiply-adds": multiply_adds(multiplications, count / 1e6), "reading": reading(count / 1e6, a, b)},
        rivals={
            "Python integers": lambda: x * y % (1 << WIDE.bits),
            "32-bit limbs": lambda: _multiply_halves(*halves),
        },
    )


def _multiply_halves(a: U64, b: U64) -> U64:
    """Multiply numbers given as 32-bit limbs (limb, number) the way NumPy can: all numbers, one pair of limbs."""
    limbs = len(a)
    sums = np.zeros((limbs + 1, a.shape[1]), np.uint64)
    for i in range(limbs):
        for j in range(limbs - i):
            product = a[i] * b[j]
            sums[i + j] += product & _LOW
            sums[i + j + 1] += product >> _HALF
    for i in range(limbs):
        sums[i + 1] += sums[i] >> _HALF
        sums[i] &= _LOW
    return sums[:limbs]


def limits_line(rows: list[KernelRow]) -> str:
    """Return what the machine can do, in words."""
    limits = {row.name: row.limits for row in rows}
    memory = limits["dense_large"]["reading E"] * 8 / VECTORS  # each word of E serves every vector
    return (
        f"One core reads {memory:.1f} GB/s from memory, encrypts {limits['prg']['AES']:.1f} GB/s "
        f"and does {limits['dense']['multiply-adds']:.1f} G multiply-adds/s."
    )


def kernel_table(rows: list[KernelRow]) -> str:
    """Return the kernels for a reader."""
    header = ["kernel", "size", "rate", "limit", "reached", "x NumPy", "as written", "x NumPy", "at its best"]
    cells = [
        [
            r.name,
            r.size,
            f"{r.rate:.2f} {r.unit}",
            f"{r.limits[r.limited_by]:.2f} ({r.limited_by})",
            f"{r.share_of_limit:.0%}",
            f"{r.ratio_to_numpy:.1f}",
            r.numpy,
            f"{r.ratio_to_numpy_best_layout:.1f}",
            r.numpy_best_layout,
        ]
        for r in rows
    ]
    title = "Kernels on one core, against the limit measured in this run and against NumPy"
    return table(title, header, cells, left=(0, 1, 6, 8))
