"""Row work in this process: `RowBlocks` on threads, with E in memory or in a spool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mpfedxgb.protocols.row_blocks import (
    Bits,
    Matrix,
    RowLayout,
    Tile,
    combined,
    difference,
    expanded,
    tiles_times,
)
from mpfedxgb.protocols.storage import Storage
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.prg import Source
from mpfedxgb.ring.threads import Threads

OWN_BLOCKS = 16
"""Blocks of the own matrix that are worked through at once: sums over its bins are cheap beside those over rows."""


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    layout: RowLayout
    matrix: Matrix
    mask: Source


@dataclass(frozen=True, slots=True, eq=False)
class _Received:
    layout: RowLayout


@dataclass(frozen=True, slots=True, eq=False)
class _Expanded:
    layout: RowLayout
    mask: Source
    kept: dict[int, list[U64]] | None


class LocalRows:
    """`RowBlocks` of one role in this process. E is where the storage has it, which roles of one process may share."""

    def __init__(self, storage: Storage | None = None) -> None:
        self._storage = Storage() if storage is None else storage
        self._threads = Threads(self._storage.resources.threads)
        self._held: dict[int, _Own | _Received | _Expanded] = {}

    def __repr__(self) -> str:
        return f"LocalRows({len(self._held)} matrices)"

    @property
    def threads(self) -> Threads:
        """Return this role's threads (see RowBlocks)."""
        return self._threads

    def expect(self, role: int, layouts: Mapping[int, RowLayout], besides: Mapping[int, int]) -> None:
        """Make sure that there will be room (see RowBlocks)."""
        self._storage.expect(role, layouts, besides)

    def own(self, owner: int, layout: RowLayout, matrix: Matrix, mask: Source) -> None:
        """Take in the own matrix (see RowBlocks)."""
        self._held[owner] = _Own(layout, matrix, mask)

    def published(self, owner: int) -> Iterator[U64]:
        """Yield E of the own matrix (see RowBlocks), some tiles ahead of who takes it."""
        held = self._owned(owner)

        def tile_of_E(tile: Tile) -> U64:
            (mask,) = expanded(held.mask, [tile])
            return difference(held.matrix, tile, mask)

        yield from self._threads.ahead(tile_of_E, held.layout.all_tiles())

    def receive(self, owner: int, layout: RowLayout) -> None:
        """Make room for E (see RowBlocks)."""
        self._held[owner] = _Received(layout)

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Take in a tile of E (see RowBlocks)."""
        self._storage.shelf.put(owner, tile, values)

    def expand(self, owner: int, layout: RowLayout, mask: Source, keep: bool) -> None:
        """Take in the stream of A (see RowBlocks)."""
        self._held[owner] = _Expanded(layout, mask, {} if keep else None)

    def times(self, owner: int, added: Sequence[U64], taken: Sequence[U64] = ()) -> U64:
        """Return the product with a matrix (see RowBlocks)."""
        held = self._held[owner]
        shape = (len(added[0]), held.layout.columns)
        if isinstance(held, _Own):
            matrix = held.matrix
            runs = held.layout.runs(OWN_BLOCKS)
            return self._threads.total(lambda rows: matrix.times(combined(added, taken, rows), rows), runs, shape)

        def block_times(block: int) -> U64:
            tiles = held.layout.tiles(block)
            vectors = combined(added, taken, held.layout.rows_of(block))
            return tiles_times(tiles, self._tiles(owner, held, block, tiles), vectors)

        return self._threads.total(block_times, range(held.layout.blocks), shape)

    def _tiles(self, owner: int, held: _Received | _Expanded, block: int, tiles: Sequence[Tile]) -> Iterator[U64]:
        """Return E or A in the tiles of a block."""
        if isinstance(held, _Received):
            return self._storage.shelf.tiles(owner, tiles)
        if held.kept is None:
            return expanded(held.mask, tiles)
        if block not in held.kept:
            held.kept[block] = list(expanded(held.mask, tiles))
        return iter(held.kept[block])

    def column(self, owner: int, index: int) -> Bits:
        """Return a column of the own matrix (see RowBlocks)."""
        held = self._owned(owner)
        return np.asarray(held.matrix.tile(slice(index, index + 1), slice(0, held.layout.rows))[0])

    def close(self) -> None:
        """Let go of this role's matrices; E goes with its storage (see RowBlocks)."""
        self._held.clear()
        self._threads.close()

    def _owned(self, owner: int) -> _Own:
        held = self._held[owner]
        assert isinstance(held, _Own), "only its owner has a matrix in the plain"
        return held
