"""Matrices in blocks of rows: every block by itself, and all of them together what the whole matrix is."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import Resources
from mpfedxgb.protocols import BitMatrix, LocalRows, RowLayout, Storage, row_blocks
from mpfedxgb.ring import VECTOR
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.prg import Stream
from support.property_tests import examples

KEY = bytes(range(32))
OWNER = 2
sizes = st.tuples(st.integers(0, 12), st.integers(0, 50))


def layout_of(columns: int, rows: int) -> RowLayout:
    """Return a layout in blocks of 8 rows, and tiles of 4 columns."""
    return RowLayout(columns, rows, block_rows=8, tile_bytes=1)


def some_bits(columns: int, rows: int) -> npt.NDArray[np.uint8]:
    """Return a random 0/1 matrix, always the same."""
    return np.random.default_rng(columns + 100 * rows).integers(0, 2, (columns, rows)).astype(np.uint8)


def some_vectors(rows: int, count: int = 3) -> U64:
    """Return random words, always the same."""
    return np.random.default_rng(rows).integers(0, 1 << 64, (count, rows), np.uint64)


def whole_mask(layout: RowLayout) -> U64:
    """Return A, laid out by hand from the whole stream: blocks of 8 rows, each column by column."""
    words = iter(Stream(KEY).elements(VECTOR, (layout.columns * layout.rows,)).data)
    out = np.zeros((layout.columns, layout.rows), np.uint64)
    for first in range(0, layout.rows, 8):
        for column in range(layout.columns):
            for row in range(first, min(layout.rows, first + 8)):
                out[column, row] = next(words)
    return out


@examples(60)
@given(sizes)
def test_tiles_cover_a_matrix_once_in_the_order_of_its_stream(size: tuple[int, int]) -> None:
    """No entry is left out or comes twice, and each tile starts where the one before it ends."""
    layout = layout_of(*size)
    seen, place = np.zeros(size, int), 0
    for tile in layout.all_tiles():
        assert tile.start == place
        place += 8 * tile.shape[0] * tile.shape[1]
        seen[tile.columns, tile.rows] += 1

    assert (seen == 1).all()
    assert place == layout.octets == 8 * size[0] * size[1]


@examples(60)
@given(sizes, st.randoms(use_true_random=False))
def test_every_block_of_a_mask_is_expanded_by_itself(size: tuple[int, int], order: random.Random) -> None:
    """Blocks of A in any order are the blocks of the whole A."""
    layout = layout_of(*size)
    wanted, blocks = whole_mask(layout), list(range(layout.blocks))
    order.shuffle(blocks)

    for block in blocks:
        tiles = layout.tiles(block)
        for tile, values in zip(tiles, row_blocks.expanded(Stream(KEY), tiles), strict=True):
            np.testing.assert_array_equal(values, wanted[tile.columns, tile.rows], strict=True)


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("limit", [None, 1], ids=["memory", "spool"])
@examples(40)
@given(sizes, st.integers(0, 1), st.booleans())
def test_row_work_of_all_roles_is_that_of_whole_matrices(
    limit: int | None, jobs: int, size: tuple[int, int], extra: int, keep: bool
) -> None:
    """E is B - A; products with A, B and E, twice, are those with whole matrices; columns are those of B.

    Wherever E is, and on any number of threads.
    """
    with TemporaryDirectory() as folder, Storage(Resources(jobs, limit, Path(folder))) as storage:
        storage.expect(1, {1: layout_of(3, 5), OWNER: layout_of(*size)}, lambda here: 0)
        owner, other, coordinator = LocalRows(Storage(Resources(jobs))), LocalRows(storage), LocalRows()
        check_row_work(owner, other, coordinator, size, extra, keep)
        for rows in (owner, other, coordinator):
            rows.close()


def check_row_work(
    owner: LocalRows, other: LocalRows, coordinator: LocalRows, size: tuple[int, int], extra: int, keep: bool
) -> None:
    """Publish a matrix and compare all that is computed of it."""
    layout, bits, mask = layout_of(*size), some_bits(*size), Stream(KEY)
    A, x, y = whole_mask(layout), some_vectors(size[1]), some_vectors(size[1])[::-1]
    owner.own(OWNER, layout, BitMatrix(bits), mask)
    other.receive(OWNER, layout)
    coordinator.expand(OWNER, layout, mask, keep)
    for tile, values in zip(layout.all_tiles(), owner.published(OWNER), strict=True):
        other.put(OWNER, tile, values)

    added, taken = [x, y][: 1 + extra], [y][:extra]
    total = x + y - y if extra else x
    for _ in range(2):
        for rows, matrix in ((owner, bits.astype(np.uint64)), (other, bits - A), (coordinator, A)):
            np.testing.assert_array_equal(rows.times(OWNER, added, taken), total @ matrix.T, strict=True)
    for index in range(size[0]):
        np.testing.assert_array_equal(owner.column(OWNER, index), bits[index])


def test_nothing_is_left_after_the_end() -> None:
    """A closed place has let go of its matrices."""
    rows = LocalRows()
    rows.receive(OWNER, layout_of(1, 1))
    rows.close()

    with pytest.raises(KeyError):
        rows.times(OWNER, [some_vectors(1)])
    assert repr(rows) == "LocalRows(0 matrices)"
