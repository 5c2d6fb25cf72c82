"""What a worker does with the rows that it holds: module-level functions of arrays, plain numbers and keys of steps.

A worker knows no seed, no other party and no protocol. It is told where its rows lie, in the matrix and so in the key
stream of A, and gives back sums over its rows and bits of its rows. Nothing here raises: Dask would write the arguments
of a task that fails into the worker's log, keys and masked values among them.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

import numpy as np

from mpfedxgb.data.binning import BinRanges, Bits, Codes, Edges, bin_codes
from mpfedxgb.data.files import ParquetRows
from mpfedxgb.data.table import Column
from mpfedxgb.errors import UNKNOWN, MpfedxgbError, kind_of
from mpfedxgb.protocols.row_blocks import RowLayout, Tile, expanded, tiles_times
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.prg import Stream

Run = tuple[int, int]
"""Consecutive blocks: the first one, and how many."""

Size = tuple[int, int, int, int]
"""The numbers of a `RowLayout`."""

Ranges = tuple[Any, ...]
"""The arrays of `BinRanges`."""

Outcome = tuple[bool, Any]
"""Whether a task was done, and its result; or else the kind of its error and a text without data."""


def version() -> str:
    """Return what has to be the same in the role's process and on its workers, so that both compute the same."""
    python = ".".join(platform.python_version_tuple()[:2])
    return f"mpfedxgb {installed('mpfedxgb')}, numpy {np.__version__}, Python {python}"


def attempt(function: Callable[..., Any], arguments: Sequence[Any]) -> Outcome:
    """Return a function's result, or what went wrong: the kind of the error, and its text where that is our own."""
    try:
        return True, function(*arguments)
    except Exception as error:
        kind = kind_of(error)
        name = type(error).__name__ if kind == UNKNOWN else kind
        return False, (name, str(error) if isinstance(error, MpfedxgbError) else "")


def read_bins(
    path: str,
    footer: str,
    names: Sequence[str],
    categories: Sequence[tuple[str, ...] | None],
    edges: Sequence[Edges],
    counts: Sequence[int],
    first: int,
    stop: int,
) -> Codes:
    """Return the bins of some own rows, read from the file that has all of them in order."""
    nothing = np.empty(0, np.float32)
    columns = [Column(name, nothing, words) for name, words in zip(names, categories, strict=True)]
    return bin_codes(ParquetRows(Path(path), footer).part("a worker", columns, slice(first, stop)), edges, counts)


def trouble(outcome: Outcome) -> Any:
    """Return what went wrong in a task whose result stays here; None if nothing did."""
    return None if outcome[0] else outcome[1]


def result(outcome: Outcome) -> Any:
    """Return what such a task has given."""
    return outcome[1]


def times_bins(ranges: Ranges, codes: Sequence[Codes], vectors: Sequence[U64]) -> U64:
    """Return the sum over runs of own rows: vectors (V, rows of the run) times the candidate columns."""
    own = BinRanges(*ranges)
    out = np.zeros((len(vectors[0]), len(own)), np.uint64)
    for some, there in zip(codes, vectors, strict=True):
        out += own.left_sums(some, there)
    return out


def column_bits(ranges: Ranges, index: int, codes: Sequence[Codes]) -> list[Bits]:
    """Return which own rows go left by one candidate, run by run."""
    own = BinRanges(*ranges)
    return [np.ascontiguousarray(own.bits(some, slice(index, index + 1))[0]) for some in codes]


def masked_bins(ranges: Ranges, size: Size, run: Run, key: bytes, codes: Codes) -> list[U64]:
    """Return E = B - A over a run of own rows, in tiles; A is expanded from where the run begins in its stream."""
    own, layout, out = BinRanges(*ranges), RowLayout(*size), []
    before = layout.rows_of(*run).start
    for tiles in _tiles(layout, run):
        here = slice(tiles[0].rows.start - before, tiles[0].rows.stop - before)
        for tile, mask in zip(tiles, expanded(Stream(key), tiles), strict=True):
            out.append(own.bits(codes[:, here], tile.columns).astype(np.uint64) - mask)
    return out


def times_tiles(size: Size, runs: Sequence[Run], kept: Sequence[Sequence[U64]], vectors: Sequence[U64]) -> U64:
    """Return the sum over runs: vectors (V, rows of the run) times the tiles of E that are kept here."""
    layout, out = RowLayout(*size), np.zeros((len(vectors[0]), size[0]), np.uint64)
    for run, values, there in zip(runs, kept, vectors, strict=True):
        left = iter(values)
        for tiles, some in _blocks(layout, run, there):
            out += tiles_times(tiles, (next(left) for _ in tiles), some)
    return out


def times_stream(size: Size, runs: Sequence[Run], key: bytes, vectors: Sequence[U64]) -> U64:
    """Return the sum over runs: vectors (V, rows of the run) times A, expanded from where each block begins."""
    layout, out = RowLayout(*size), np.zeros((len(vectors[0]), size[0]), np.uint64)
    for run, there in zip(runs, vectors, strict=True):
        for tiles, some in _blocks(layout, run, there):
            out += tiles_times(tiles, expanded(Stream(key), tiles), some)
    return out


def _tiles(layout: RowLayout, run: Run) -> list[list[Tile]]:
    return [layout.tiles(block) for block in range(run[0], run[0] + run[1])]


def _blocks(layout: RowLayout, run: Run, vectors: U64) -> list[tuple[list[Tile], U64]]:
    """Return the tiles of each block of a run, and the vectors over its rows."""
    before = layout.rows_of(*run).start
    return [
        (tiles, np.ascontiguousarray(vectors[:, tiles[0].rows.start - before : tiles[0].rows.stop - before]))
        for tiles in _tiles(layout, run)
    ]
