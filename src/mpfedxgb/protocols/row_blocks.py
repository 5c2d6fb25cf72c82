"""Where the row blocks of a role's matrices live, and the row work that is done there, block by block.

A matrix lies in blocks of `block_rows` rows, and a block column by column (`RowLayout`). E is sent, A is expanded and a
file is written in this one order, so that the place of a block in the stream of A, or in a file, follows from its
number: every block of every matrix can be expanded and multiplied by itself, where it is. A block travels in
tiles of whole columns of it.

A role asks one object for all its row work, `RowBlocks`, and does not know where the blocks are:

    before all        expect            what there will be: what does not fit is refused here, before anything is sent
    publishing        own, published    the owner hands in B and the stream of A, and is given the tiles of E
                      receive, put      another participant hands in the tiles of E, as they come; or of its share
                                        of a coordinator's own matrix, which nobody else has
                      expand            the coordinator hands in the stream of A
    products          times             what this role has of a matrix (E, A or B) times vectors
    splits            column            one column of the own matrix: which rows go left

All of it is sums over rows modulo 2^64, so that it does not matter who adds up which blocks, or in which order.
`LocalRows` does the work in this process.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import TUNING
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.ring import kernels
from mpfedxgb.ring.kernels import U64, Threads
from mpfedxgb.ring.prg import Source
from mpfedxgb.ring.ring import VECTOR

Bits = npt.NDArray[np.uint8]

Besides = Callable[[Collection[int]], int]
"""From the roles of a process to the bytes that they take beside matrices."""

WORD = VECTOR.element_bytes


_PIECE = 1 << 19
"""Bytes of a mask that are expanded at a time on the way to E."""


def share_key(participant: int) -> int:
    """Return under which key a participant's share of a coordinator's own matrix is kept; E is under its owner's."""
    return -participant


class Matrix(Protocol):
    """What an owner brings: a 0/1 matrix of candidate columns by rows, and the fast way to multiply with it."""

    def tile(self, columns: slice, rows: slice) -> Bits:
        """Return some columns over some rows as 0/1 values, (columns, rows)."""
        ...

    def times(self, vectors: U64, rows: slice) -> U64:
        """Return vectors over some rows, (V, rows), times the matrix there, modulo 2^64: (V, columns)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BitMatrix:
    """A `Matrix` held as plain 0/1 values (columns, rows)."""

    bits: Bits = field(repr=False)

    def tile(self, columns: slice, rows: slice) -> Bits:
        """Return a part (see Matrix)."""
        return self.bits[columns, rows]

    def times(self, vectors: U64, rows: slice) -> U64:
        """Return the product (see Matrix)."""
        out = np.zeros((len(vectors), len(self.bits)), np.uint64)
        kernels.dense_add(self.bits[:, rows].astype(np.uint64), np.ascontiguousarray(vectors), out)
        return out


@dataclass(frozen=True, slots=True)
class Tile:
    """Where a tile lies: its block, its columns and rows, and the bytes of the matrix before it."""

    block: int
    columns: slice
    rows: slice
    start: int

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and rows of the tile."""
        return self.columns.stop - self.columns.start, self.rows.stop - self.rows.start


@dataclass(frozen=True, slots=True)
class RowLayout:
    """How a matrix is laid out: block of rows by block of rows, each of them column by column.

    How large blocks and tiles are (see Tuning) stands here in plain numbers, as workers are sent them.
    """

    columns: int
    rows: int
    block_rows: int = TUNING.block_rows
    tile_bytes: int = TUNING.tile_bytes

    @property
    def blocks(self) -> int:
        """Number of blocks; the last one may be shorter than the others."""
        return -(-self.rows // self.block_rows) if self.columns else 0

    @property
    def octets(self) -> int:
        """Bytes of the whole matrix."""
        return self.start(self.rows)

    def start(self, row: int) -> int:
        """Return the bytes of the matrix before the block that begins with a row."""
        return WORD * self.columns * row

    def rows_of(self, block: int, count: int = 1) -> slice:
        """Return the rows of a block, or of several that follow each other."""
        first = block * self.block_rows
        return slice(first, min(self.rows, first + count * self.block_rows))

    def runs(self, count: int) -> list[slice]:
        """Return the rows of all blocks, in runs of `count` blocks."""
        return [self.rows_of(block, count) for block in range(0, self.blocks, count)]

    def tiles(self, block: int) -> list[Tile]:
        """Return the tiles of a block, in order."""
        rows = self.rows_of(block)
        count = rows.stop - rows.start
        width = max(4, self.tile_bytes // (WORD * max(1, min(self.rows, self.block_rows))))
        before = self.start(rows.start)
        return [
            Tile(block, slice(first, min(self.columns, first + width)), rows, before + WORD * count * first)
            for first in range(0, self.columns, width)
        ]

    def all_tiles(self) -> Iterator[Tile]:
        """Yield the tiles of all blocks, in order."""
        for block in range(self.blocks):
            yield from self.tiles(block)


class RowBlocks(Protocol):
    """What a role asks of the place where the row blocks of its matrices live; matrices are identified by their owner.

    Vectors come as arrays (V, rows) over all rows, to be added up or taken off, so that nobody makes a sum of all rows
    where that of a block will do.
    """

    @property
    def threads(self) -> Threads:
        """The threads of this role itself, for what it computes over rows beside its matrices."""
        ...

    def expect(self, role: int, layouts: Mapping[int, RowLayout], besides: Besides) -> None:
        """Make sure that there will be room, for a role: matrices by key, and what is taken besides.

        Raises NoRoomError, with figures and remedies.
        """
        ...

    def own(self, owner: int, layout: RowLayout, matrix: Matrix, mask: Source | None) -> None:
        """Take in the own matrix B, and the stream of its mask A; the coordinator's has none."""
        ...

    def published(self, owner: int) -> Iterator[U64]:
        """Yield E = B - A of the own matrix, tile by tile."""
        ...

    def receive(self, owner: int, layout: RowLayout, key: int | None = None) -> None:
        """Make room for E of another participant; or under a `key` for what is not the same at all (`share_key`)."""
        ...

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Take in a tile of E, which nobody changes any more."""
        ...

    def expand(self, owner: int, layout: RowLayout, mask: Source, keep: bool) -> None:
        """Take in the stream of A, at the coordinator; `keep` A from the first product on."""
        ...

    def times(self, owner: int, added: Sequence[U64], taken: Sequence[U64] = ()) -> U64:
        """Return the sum of some vectors, less that of others, times what there is of a matrix: (V, columns)."""
        ...

    def column(self, owner: int, index: int) -> Bits:
        """Return a column of the own matrix, 0/1 values of all rows."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


# The work on one block, for the party that has it


def expanded(mask: Source, tiles: Sequence[Tile]) -> Iterator[U64]:
    """Yield A in the tiles of a block, from where that begins in the stream."""
    source = mask.again(tiles[0].start) if tiles else mask
    for tile in tiles:
        yield np.ascontiguousarray(source.elements(VECTOR, tile.shape).data, np.uint64)


def difference(matrix: Matrix, tile: Tile, mask: Source) -> U64:
    """Return a tile of E = B - A, of the stream of A.

    A few columns of A at a time: what they take stays in the cache, and is freed and taken again, so that E alone needs
    new pages of memory.
    """
    columns, rows = tile.shape
    stream, out = mask.again(tile.start), np.empty(tile.shape, np.uint64)
    step = max(1, _PIECE // (WORD * max(1, rows)))
    for first in range(0, columns, step):
        some = slice(first, min(columns, first + step))
        place = slice(tile.columns.start + first, tile.columns.start + some.stop)
        bits = matrix.tile(place, tile.rows)
        if bits.shape != (some.stop - first, rows):
            raise DoesNotFitError(f"a tile of {bits.shape} was brought instead of {tile.shape}", "mismatch", "tile")
        np.subtract(bits, stream.elements(VECTOR, bits.shape).data, out=out[some])
    return out


def combined(added: Sequence[U64], taken: Sequence[U64], rows: slice) -> U64:
    """Return the sum of vectors, less that of others, over some rows; contiguous, as kernels take them."""
    out = np.ascontiguousarray(added[0][:, rows])
    for vectors in added[1:]:
        out = out + vectors[:, rows]
    for vectors in taken:
        out = out - vectors[:, rows]
    return out


def tiles_times(tiles: Sequence[Tile], values: Iterator[U64], vectors: U64) -> U64:
    """Return vectors (V, rows of a block) times the block's tiles: (V, columns)."""
    pieces = [np.zeros((len(vectors), tile.shape[0]), np.uint64) for tile in tiles]
    for piece, tile in zip(pieces, values, strict=True):
        kernels.dense_add(tile, vectors, piece)
    return np.concatenate(pieces, axis=1)
