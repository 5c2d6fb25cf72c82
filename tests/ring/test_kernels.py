"""The compiled loops against Python integers, and what they promise about threads and the first use."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from mpfedxgb.ring import kernels
from support.property_tests import examples

U64 = npt.NDArray[np.uint64]
WRAP = 1 << 64

some = examples(60)
sizes = st.integers(0, 5)
words = st.one_of(st.sampled_from([0, 1, WRAP - 1, 1 << 63, (1 << 32) - 1, 1 << 32]), st.integers(0, WRAP - 1))


def random_words(seed: int, *shape: int) -> U64:
    """Return words that wrap in every product; test data, nobody's secret."""
    return np.random.default_rng(seed).integers(0, WRAP, shape, np.uint64, endpoint=False)


def dense(matrix: U64, vectors: U64, before: U64) -> list[Any]:
    """Return before + vectors @ matrix.T with Python integers."""
    product = before.astype(object)
    for i in range(matrix.shape[1]):
        product = product + np.multiply.outer(vectors[:, i].astype(object), matrix[:, i].astype(object))
    return list((product % WRAP).tolist())


def split(values: list[int], limbs: int) -> U64:
    """Return integers as rows of words."""
    return np.array([[value >> (64 * j) & (WRAP - 1) for j in range(limbs)] for value in values], np.uint64)


# Dense product


@some
@given(sizes, sizes, sizes, st.data())
def test_dense_add_at_any_small_size(columns: int, rows: int, count: int, data: st.DataObject) -> None:
    """Even, odd and zero sizes, with values that wrap, added to what is there."""
    matrix, vectors, out = (
        data.draw(st_numpy.arrays(np.uint64, shape, elements=words))
        for shape in ((columns, rows), (count, rows), (count, columns))
    )
    wanted = dense(matrix, vectors, out)
    kernels.dense_add(matrix, vectors, out)
    assert out.tolist() == wanted


@pytest.mark.parametrize("rows", [kernels.DENSE_ROWS - 1, kernels.DENSE_ROWS, 2 * kernels.DENSE_ROWS + 7])
@pytest.mark.parametrize(("columns", "count"), [(1, 1), (2, 3), (5, 2)])
def test_dense_add_over_tiles(rows: int, columns: int, count: int) -> None:
    """The seams between tiles neither lose nor repeat a row."""
    matrix, vectors = random_words(rows, columns, rows), random_words(columns, count, rows)
    out = random_words(count, count, columns)
    wanted = dense(matrix, vectors, out)
    kernels.dense_add(matrix, vectors, out)
    assert out.tolist() == wanted


def test_dense_add_in_tiles_of_columns_is_the_whole() -> None:
    """Adding up over slices of rows gives the product of the whole, as the callers do it."""
    matrix, vectors = random_words(1, 3, 100), random_words(2, 2, 100)
    whole, parts = np.zeros((2, 3), np.uint64), np.zeros((2, 3), np.uint64)
    kernels.dense_add(matrix, vectors, whole)
    for low in range(0, 100, 33):
        rows = slice(low, low + 33)
        kernels.dense_add(np.ascontiguousarray(matrix[:, rows]), np.ascontiguousarray(vectors[:, rows]), parts)
    np.testing.assert_array_equal(parts, whole)


def test_rows_of_the_dense_product_are_loaded_as_vectors() -> None:
    """No word is looked up by itself, which takes four times as long: an index that might be negative makes it so."""
    dense_add = numba.njit(nogil=True)(kernels.dense_add.py_func)  # type: ignore[attr-defined] # numba's
    small = np.ones((4, 8), np.uint64)
    dense_add(small, small, np.zeros((4, 4), np.uint64))
    (assembly,) = dense_add.inspect_asm().values()
    assert "mul" in assembly
    assert "gather" not in assembly


# Histograms


@some
@given(sizes, st.integers(0, 40), st.integers(1, 5), sizes, st.sampled_from([np.uint8, np.uint16]), st.data())
def test_histogram_add(
    features: int, rows: int, bins: int, count: int, kind: type[np.unsignedinteger[Any]], data: st.DataObject
) -> None:
    """Every feature's bins add up their rows, for several vectors at once, on top of what is there."""
    binned = data.draw(st_numpy.arrays(kind, (features, rows), elements=st.integers(0, bins - 1)))
    vectors = data.draw(st_numpy.arrays(np.uint64, (rows, count), elements=words))
    out = data.draw(st_numpy.arrays(np.uint64, (features, bins, count), elements=words))
    wanted = out.astype(object)
    for f in range(features):
        for i in range(rows):
            wanted[f, binned[f, i]] = (wanted[f, binned[f, i]] + vectors[i].astype(object)) % WRAP
    kernels.histogram_add(binned, vectors, out)
    assert out.tolist() == wanted.tolist()


def test_histogram_add_with_many_bins() -> None:
    """Bin numbers beyond a byte count where they belong."""
    binned = np.array([[0, 300, 65535, 300]], np.uint16)
    out = np.zeros((1, 65536, 1), np.uint64)
    kernels.histogram_add(binned, np.array([[1], [2], [3], [WRAP - 1]], np.uint64), out)
    assert (out[0, 0, 0], out[0, 300, 0], out[0, 65535, 0], int(out.sum())) == (1, 1, 3, 5)


# Comparison tables


@some
@given(st.integers(1, 5), st.sampled_from([2, 4, 16]), st.data())
def test_digit_terms(digits: int, base: int, data: st.DataObject) -> None:
    """Shares of one-hot digits give shares of t_i = 2 sum_{j above i} (1 - eq_j) + lt_i, modulo 256."""
    values = st.lists(st.integers(0, base - 1), min_size=digits, max_size=digits)
    public, hidden = data.draw(values), data.draw(values)
    first = data.draw(st_numpy.arrays(np.uint8, (1, digits, base)))
    one_hot = np.zeros((1, digits, base), np.uint8)
    one_hot[0, range(digits), hidden] = 1
    total = np.zeros((1, digits), np.uint8)
    for public_share, tables in ((1, first), (0, one_hot - first)):
        out = np.empty((1, digits), np.uint8)
        kernels.digit_terms(np.array([public], np.uint8), tables, public_share, out)
        total += out
    wanted, above = [], 0
    for m, r in zip(public, hidden, strict=True):
        wanted.append(2 * above + (m < r))
        above += m != r
    assert total[0].tolist() == wanted


@some
@given(st.integers(1, 4), st.data())
def test_flip_and_look_up_bits(count: int, data: st.DataObject) -> None:
    """Bits that were flipped an odd number of times are found; the others are not."""
    places = data.draw(st_numpy.arrays(np.int64, (count, 3), elements=st.integers(0, 31)))
    asked = data.draw(st_numpy.arrays(np.int64, (count, 2), elements=st.integers(0, 31)))
    tables = np.zeros((count, 4), np.uint8)
    kernels.flip_bits(tables, places)
    found = np.empty(count, np.uint8)
    kernels.look_up_bits(tables, asked, found)
    for row in range(count):
        number = 0
        for place in places[row].tolist():
            number ^= 1 << place
        assert int.from_bytes(tables[row].tobytes(), "little") == number
        assert found[row] == ((number >> int(asked[row, 0])) ^ (number >> int(asked[row, 1]))) & 1


@some
@given(st.integers(1, 3), st.sampled_from([1, 2, 3, 4]), st.data())
def test_gate(count: int, limbs: int, data: st.DataObject) -> None:
    """The roles' shares of (product of bits) * value add up to it, for bits b_i = m_i ^ rho_i, modulo 2^(64 L)."""
    wrap = 1 << (64 * limbs)
    numbers = st.integers(0, wrap - 1)
    public, rho = (data.draw(st.lists(st.integers(0, 1), min_size=count, max_size=count)) for _ in range(2))
    value, mask = data.draw(numbers), data.draw(numbers)
    subsets = [[i for i in range(count) if place >> i & 1] for place in range(1, 1 << count)]
    alone = [math.prod(rho[i] for i in subset) for subset in subsets]
    shared = [value, *alone, *(product * mask for product in alone)]
    first = data.draw(st.lists(numbers, min_size=len(shared), max_size=len(shared)))
    total = 0
    for shares in (first, [(whole - part) % wrap for whole, part in zip(shared, first, strict=True)]):
        plain, alone_share, with_mask = shares[:1], shares[1 : 1 << count], shares[1 << count :]
        out = np.empty((1, limbs), np.uint64)
        kernels.gate(
            np.array(public, np.uint8).reshape(count, 1),
            split([(value + mask) % wrap], limbs),
            split(plain, limbs),
            split(alone_share, limbs)[None],
            split(with_mask, limbs)[None],
            out,
        )
        total += sum(int(word) << (64 * j) for j, word in enumerate(out[0]))
    bit = math.prod(m ^ r for m, r in zip(public, rho, strict=True))
    assert total % wrap == bit * value


# Threads


def seen_half_done(kernel: Callable[[], None], half_done: Callable[[], bool]) -> bool:
    """Run a kernel in a thread and tell whether Python code of this thread ever saw its result half done."""
    thread = threading.Thread(target=kernel)
    thread.start()
    seen = False
    while thread.is_alive():
        seen = seen or half_done()
        time.sleep(0.0005)
    thread.join()
    return seen


def test_dense_add_lets_other_threads_run() -> None:
    """The main thread reads tile sums that are neither nothing nor everything: it ran while the kernel did."""
    rows = 192 * kernels.DENSE_ROWS
    matrix = np.ones((64, rows), np.uint64)
    kernels.dense_add(matrix[:1, :1].copy(), matrix[:1, :1].copy(), np.zeros((1, 1), np.uint64))
    for _ in range(10):  # a busy machine may not schedule this thread in time once, but not ten times
        out = np.zeros((64, 64), np.uint64)
        if seen_half_done(
            lambda out=out: kernels.dense_add(matrix, matrix, out),  # type: ignore[misc]
            lambda out=out: 0 < int(out[0, 0]) < rows,  # type: ignore[misc]
        ):
            break
    else:
        pytest.fail("no Python code ran while the dense kernel did")
    np.testing.assert_array_equal(out, rows)


def test_histogram_add_lets_other_threads_run() -> None:
    """The main thread sees the first feature's sums before the last feature's: it ran while the kernel did."""
    features, rows = 64, 1 << 18
    bins, vectors = np.zeros((features, rows), np.uint8), np.ones((rows, 2), np.uint64)
    kernels.histogram_add(bins[:1, :1].copy(), vectors[:1].copy(), np.zeros((1, 1, 2), np.uint64))
    for _ in range(10):
        out = np.zeros((features, 1, 2), np.uint64)
        if seen_half_done(
            lambda out=out: kernels.histogram_add(bins, vectors, out),  # type: ignore[misc]
            lambda out=out: int(out[0, 0, 0]) > 0 and int(out[-1, 0, 1]) == 0,  # type: ignore[misc]
        ):
            break
    else:
        pytest.fail("no Python code ran while the histogram kernel did")
    np.testing.assert_array_equal(out, rows)


def test_every_kernel_is_compiled_alike() -> None:
    """All kernels release the GIL and are cached; none is left out of the warm-up."""
    compiled = {name: value for name, value in vars(kernels).items() if hasattr(value, "targetoptions")}
    assert {"wide_add", "wide_mul", "dense_add", "histogram_add"} <= set(compiled)
    kernels.warm_up()
    for name, kernel in compiled.items():
        assert kernel.targetoptions["nogil"], name
        assert type(kernel._cache).__name__ == "FunctionCache", name
        assert kernel.signatures, name


# First use


def _double(x: int) -> int:
    return 2 * x


def test_compiling_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """However many kernels have to be compiled, and however often they are asked for."""
    made = [numba.njit(nogil=True)(_double) for _ in range(2)]
    monkeypatch.setattr(kernels, "_is_warm", False)
    monkeypatch.setattr(kernels, "_KERNELS", [(kernel, [(numba.int64,), (numba.uint64,)]) for kernel in made])
    kernels.warm_up()
    kernels.warm_up()
    assert [len(kernel.signatures) for kernel in made] == [2, 2]
    assert [record.getMessage().split()[0] for record in caplog.records] == ["compiling"]


def test_loading_is_not_called_compiling(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """However long it takes on a busy machine."""
    numba.njit(nogil=True, cache=True)(_double).compile((numba.int64,))
    again = numba.njit(nogil=True, cache=True)(_double)
    monkeypatch.setattr(kernels, "_is_warm", False)
    monkeypatch.setattr(kernels, "_KERNELS", [(again, [(numba.int64,)])])
    kernels.warm_up()
    assert again.signatures
    assert not caplog.records


def test_a_failed_first_use_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error while compiling is not taken for success."""

    def fail() -> None:
        raise OSError("disk full")

    monkeypatch.setattr(kernels, "_is_warm", False)
    monkeypatch.setattr(kernels, "_compile_all", fail)
    for _ in range(2):
        with pytest.raises(OSError, match="disk full"):
            kernels.warm_up()
