"""Row work in this process: `RowBlocks` on threads, with E in memory, or in a spool where that would take too much.

E is public among the participants, so that those who share a process share one of it: what comes a second time is
compared and let go.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from mpfedxgb.config import Resources
from mpfedxgb.data.spool import Spool, check_spool, tidy
from mpfedxgb.errors import FrameError, NoRoomError
from mpfedxgb.machine import give_back
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.protocols.row_blocks import (
    Besides,
    Bits,
    Matrix,
    RowLayout,
    Tile,
    combined,
    difference,
    expanded,
    share_key,
    tiles_times,
)
from mpfedxgb.ring.kernels import U64, Threads
from mpfedxgb.ring.prg import Source
from mpfedxgb.units import bytes_text

_log = logging.getLogger("mpfedxgb.spool")


class TileStore(Protocol):
    """Where tiles of E are until the end of a training."""

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Keep a tile; where one is already, it has to be the same."""
        ...

    def tiles(self, owner: int, tiles: Sequence[Tile]) -> Iterator[U64]:
        """Yield tiles of one block."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...


class MemoryTileStore:
    """Tiles in memory, as they came in their frames."""

    def __init__(self) -> None:
        self._tiles: dict[tuple[int, int], U64] = {}

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Keep a tile (see TileStore); of two who come at once, one is the first."""
        _refuse_other(self._tiles.setdefault((owner, tile.start), values), values)

    def tiles(self, owner: int, tiles: Sequence[Tile]) -> Iterator[U64]:
        """Yield tiles (see TileStore)."""
        for tile in tiles:
            yield self._tiles[owner, tile.start]

    def close(self) -> None:
        """Let go of everything (see TileStore)."""
        self._tiles.clear()


class SpoolTileStore:
    """Tiles in a file, one matrix after the other, each as it is laid out: read in order, once for each level."""

    def __init__(self, spool: Spool, layouts: Mapping[int, RowLayout]) -> None:
        self._spool, self._starts, place = spool, {}, 0
        for owner, layout in layouts.items():
            self._starts[owner] = place
            place += layout.octets
        self._written: set[int] = set()
        self._changing = threading.Lock()

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Keep a tile (see TileStore)."""
        start = self._starts[owner] + tile.start
        with self._changing:
            if start not in self._written:
                self._spool.write(start, values)
                self._written.add(start)
                return
        _refuse_other(self._spool.read(start, tile.shape), values)

    def tiles(self, owner: int, tiles: Sequence[Tile]) -> Iterator[U64]:
        """Yield tiles (see TileStore)."""
        for tile in tiles:
            yield self._spool.read(self._starts[owner] + tile.start, tile.shape)

    def close(self) -> None:
        """Delete the file (see TileStore)."""
        self._spool.close()


def _refuse_other(kept: U64, values: U64) -> None:
    """Raise FrameError if two participants were sent different tiles of what all of them should have."""
    if kept is not values and not np.array_equal(kept, values):
        raise FrameError(
            "participants were sent different parts of a matrix; one of the others has changed it", parameter="matrix"
        )


def kept(here: Collection[int], layouts: Mapping[int, RowLayout]) -> dict[int, RowLayout]:
    """Return the matrices of which a process keeps E, those that some participant here does not own; and shares."""
    participants = {role for role in here if role != COORDINATOR}
    shares = {share_key(role) for role in participants}
    return {key: layout for key, layout in layouts.items() if (key in shares if key < 0 else participants - {key})}


def matrix_bytes(here: Collection[int], layouts: Mapping[int, RowLayout]) -> int:
    """Return the bytes of E and of shares that a process keeps, in which some roles run: one of each."""
    return sum(layout.octets for layout in kept(here, layouts).values())


class Storage:
    """What the roles of one process keep of E, within the resources of that process.

    `here` are the roles that run in it; only one if it does not say. Where it is, the first role that knows the sizes
    decides for all of them; they are public, so that all would decide alike.
    """

    def __init__(self, resources: Resources | None = None, here: Collection[int] | None = None) -> None:
        self.resources = Resources() if resources is None else resources
        self._here = here
        self._store: TileStore | None = None if self.resources.max_memory else MemoryTileStore()
        self._deciding = threading.Lock()
        self._expected = 0

    def __enter__(self) -> Self:
        # This run may need no spool, and one that was killed may have left its own.
        if self.resources.spool is not None:
            tidy(self.resources.spool)
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @property
    def store(self) -> TileStore:
        """Where E is."""
        assert self._store is not None, "what is kept has been declared before"
        return self._store

    def expect(self, role: int, layouts: Mapping[int, RowLayout], besides: Besides) -> None:
        """Decide where E will be (see RowBlocks)."""
        with self._deciding:
            if not self._expected:
                self._store = self._decide([role] if self._here is None else self._here, layouts, besides)

    def _decide(self, here: Collection[int], layouts: Mapping[int, RowLayout], besides: Besides) -> TileStore:
        matrices, rest = matrix_bytes(here, layouts), besides(here)
        self._expected = matrices + rest
        if is_in_memory(self.resources, matrices, rest):
            return MemoryTileStore()
        assert self.resources.spool is not None
        spool = Spool(self.resources.spool, matrices)
        _log.info("the masked matrices of %s are kept in the spool", bytes_text(matrices))
        return SpoolTileStore(spool, kept(here, layouts))

    def close(self) -> None:
        """Let go of E; a spool is deleted."""
        with self._deciding:
            if self._store is not None:
                self._store.close()
        give_back(self._expected)


def is_in_memory(resources: Resources, matrices: int, besides: int) -> bool:
    """Return whether a process keeps E, `matrices` bytes, in memory beside what else it takes, or in its spool.

    Raises NoRoomError, with figures and remedies, if neither will do. Makes and sends nothing.
    """
    limit, folder = resources.max_memory, resources.spool
    if limit is None or matrices + besides <= limit:
        return True
    needed = f"this training takes {bytes_text(matrices + besides)} of memory"
    there, fewer = f", and max_memory is {bytes_text(limit)}", "take fewer rows, columns, categories or bins (max_bin)"
    if not matrices or besides > limit:
        kept_here = f"; {bytes_text(besides)} of it no spool can take" if matrices else ""
        raise NoRoomError(
            needed,
            f"{there}{kept_here}; raise max_memory, lower max_depth, or {fewer}",
            parameter="max_memory",
            value=needed,
        )
    if folder is None:
        free = f"name a folder with {bytes_text(matrices)} free in spool"
        raise NoRoomError(
            needed, f"{there}; {free}, raise max_memory, or {fewer}", parameter="max_memory", value=needed
        )
    check_spool(folder, matrices)
    return False


OWN_BLOCKS = 16
"""Blocks of the own matrix that are worked through at once: sums over its bins are cheap beside those over rows."""


@dataclass(frozen=True, slots=True, eq=False)
class _Own:
    layout: RowLayout
    matrix: Matrix
    mask: Source | None


@dataclass(frozen=True, slots=True, eq=False)
class _Received:
    layout: RowLayout
    key: int


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

    def expect(self, role: int, layouts: Mapping[int, RowLayout], besides: Besides) -> None:
        """Make sure that there will be room (see RowBlocks)."""
        self._storage.expect(role, layouts, besides)

    def own(self, owner: int, layout: RowLayout, matrix: Matrix, mask: Source | None) -> None:
        """Take in the own matrix (see RowBlocks)."""
        self._held[owner] = _Own(layout, matrix, mask)

    def published(self, owner: int) -> Iterator[U64]:
        """Yield E of the own matrix (see RowBlocks), some tiles ahead of who takes it."""
        held = self._owned(owner)
        stream = held.mask
        assert stream is not None, "what has no mask is not published"

        yield from self._threads.ahead(lambda tile: difference(held.matrix, tile, stream), held.layout.all_tiles())

    def receive(self, owner: int, layout: RowLayout, key: int | None = None) -> None:
        """Make room for E (see RowBlocks)."""
        self._held[owner] = _Received(layout, owner if key is None else key)

    def put(self, owner: int, tile: Tile, values: U64) -> None:
        """Take in a tile of E (see RowBlocks)."""
        held = self._held[owner]
        assert isinstance(held, _Received), "room is made before"
        self._storage.store.put(held.key, tile, values)

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
            return tiles_times(tiles, self._tiles(held, block, tiles), vectors)

        return self._threads.total(block_times, range(held.layout.blocks), shape)

    def _tiles(self, held: _Received | _Expanded, block: int, tiles: Sequence[Tile]) -> Iterator[U64]:
        """Return E or A in the tiles of a block."""
        if isinstance(held, _Received):
            return self._storage.store.tiles(held.key, tiles)
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
        assert isinstance(held, _Own), "only its owner has a matrix in the clear"
        return held
