"""SecureAggBucket: participants' private 0/1 matrices times secret vectors, without a round (section 4.2, line 9).

The owner o of a matrix publishes E = B - A once, where A is expanded from the seed it has in common with the
coordinator. Of the mask lam of a vector x it knows its own part lam^o, so

    B x = B (m - lam^o) - (E + A) (lam - lam^o):

the owner's plain histogram, a dense product of each of the others with its own part of the mask, and a dense product of
the coordinator, dealt. Where the owner made the mask alone, as the active participant that of g and h at the root, the
histogram is all. E and A lie in tiles, some columns by a block of rows each, so that the vectors of a block stay in the
cache while all columns pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.secret import Shares, concatenate_shares
from mpfedxgb.protocols.share import publish
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.prg import Source
from mpfedxgb.ring.ring import VECTOR

TILE_BYTES = 1 << 20
"""Size of the tiles in which A is expanded and E is sent and kept."""

TILE_ROWS = 1 << 12
"""Rows of a tile: sixteen vectors of so many rows take half of a core's second-level cache."""

KEPT_BYTES = 1 << 28
"""The coordinator keeps the A of all matrices of a training, once expanded, if together they take no more than this."""


class Matrix(Protocol):
    """What an owner brings: a 0/1 matrix of candidate columns by rows, and the fast way to multiply with it."""

    def tile(self, columns: slice, rows: slice) -> npt.NDArray[np.uint8]:
        """Return some columns over some rows as 0/1 values, (columns, rows)."""
        ...

    def times(self, vectors: U64) -> U64:
        """Return vectors (V, rows) times the matrix, modulo 2^64: (V, columns)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BitMatrix:
    """A `Matrix` held as plain 0/1 values (columns, rows)."""

    bits: npt.NDArray[np.uint8] = field(repr=False)

    def tile(self, columns: slice, rows: slice) -> npt.NDArray[np.uint8]:
        """Return a part (see Matrix)."""
        return self.bits[columns, rows]

    def times(self, vectors: U64) -> U64:
        """Return the product (see Matrix)."""
        out = np.zeros((len(vectors), len(self.bits)), np.uint64)
        kernels.dense_add(self.bits.astype(np.uint64), np.ascontiguousarray(vectors), out)
        return out


class MatrixMask:
    """A of one matrix, at the coordinator: expanded anew for every product, or kept from the first one on."""

    def __init__(self, source: Source, keep: bool) -> None:
        self._source = source
        self._kept: list[U64] | None = [] if keep else None

    def tiles(self, places: Sequence[Place]) -> Iterable[U64]:
        """Return the tiles of A, in order."""
        if self._kept is None:
            return self._expand(places)
        if not self._kept:
            self._kept += self._expand(places)
        return self._kept

    def _expand(self, places: Sequence[Place]) -> Iterator[U64]:
        source = self._source.again()
        for place in places:
            yield np.ascontiguousarray(source.elements(VECTOR, place.shape).data, np.uint64)


@dataclass(frozen=True, slots=True, eq=False)
class PrivateMatrix:
    """A published matrix: tiles of E at all participants but the owner, A at the coordinator, B at the owner."""

    owner: int
    columns: int
    rows: int
    difference: tuple[U64, ...] = field(repr=False)
    mask: MatrixMask | None = field(repr=False)
    plain: Matrix | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tile lies in its matrix."""

    columns: slice
    rows: slice

    @property
    def shape(self) -> tuple[int, int]:
        """Columns and rows of the tile."""
        return self.columns.stop - self.columns.start, self.rows.stop - self.rows.start


def publish_matrix(
    party: Party, owner: int, columns: int, rows: int, plain: Matrix | None = None, keep: bool = False
) -> PrivateMatrix:
    """Put one participant's 0/1 matrix (columns, rows) into the computation.

    1. The owner expands A tile by tile, and publishes E = B - A.

    `keep` lets the coordinator hold A from the first product on.

    Rounds: 1 per tile. Sent: 8 columns * rows bytes by the owner to each receiver (an auxiliary's E is passed on by the
    active participant). Reveals: nothing.
    """
    step = f"matrix of {party.roster.name(owner)}"
    party.step(step)
    source = party.source_of(owner, "A")
    if party.role == owner and plain is None and not party.follows_shapes:
        raise DoesNotFitError(f"{party.name} has to bring a matrix of {columns} columns and {rows} rows")
    difference = []
    for place in party.alike(_places(columns, rows), lambda place: place.shape):
        party.step(step)
        tile = RingArray.hidden(VECTOR, place.shape)
        if plain is not None and source is not None and party.role == owner:
            bits = plain.tile(place.columns, place.rows)
            if bits.shape != tile.shape:
                raise DoesNotFitError(f"{party.name} brought a tile of {bits.shape} instead of {tile.shape}")
            tile = RingArray(VECTOR, bits.astype(np.uint64)) - source.elements(VECTOR, tile.shape)
        (tile,) = publish(party, owner, [tile])
        if party.role != owner and not party.follows_shapes:
            # Kept as it came in its frame: where participants share a process, those who got one frame share it.
            difference.append(np.asarray(tile.data, np.uint64))
    mask = MatrixMask(source, keep) if party.is_coordinator and source is not None else None
    return PrivateMatrix(owner, columns, rows, tuple(difference), mask, plain if party.role == owner else None)


def matrices_times(party: Party, matrices: Sequence[PrivateMatrix], x: RowVectors) -> Shares:
    """Return shares of several owners' matrices times each of the secret vectors x (V, rows): (V, all their columns).

    1. For each matrix the coordinator deals -A times what the parts of the mask add up to without the owner's; nothing
       where the others have none.
    2. The owner adds B (m - lam^o) for its own part of the mask, everyone else -E lam^p for its.

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    for matrix in matrices:
        if x.masked.ring != VECTOR or x.masked.shape[1:] != (matrix.rows,):
            wanted = f"vectors (V, {matrix.rows}) of {VECTOR}"
            raise DoesNotFitError(f"a matrix of {matrix.rows} rows takes {wanted}, not {x.masked}")
    party.step("matrix products")
    count = x.masked.shape[0]
    others = [[part for m, part in x.parts.items() if m != matrix.owner] for matrix in matrices]
    specs = [(VECTOR, (count, m.columns)) for m, rest in zip(matrices, others, strict=True) if rest]

    def products() -> list[RingArray]:
        return [-_masked_times(m, rest) for m, rest in zip(matrices, others, strict=True) if rest]

    dealt = iter(party.deal(specs, products)) if specs else iter(())
    pieces = []
    for matrix, rest in zip(matrices, others, strict=True):
        part = next(dealt) if rest else RingArray.zeros(VECTOR, (count, matrix.columns))
        if party.follows_shapes:
            part = RingArray.hidden(VECTOR, part.shape)
        elif party.role == matrix.owner:
            part = part + _owned_times(party, matrix, x)
        elif party.role in x.parts:
            part = part - _tiles_times(matrix, matrix.difference, x.parts[party.role])
        pieces.append(Shares(part))
    return concatenate_shares(pieces)


def _owned_times(party: Party, matrix: PrivateMatrix, x: RowVectors) -> RingArray:
    """Return B (m - lam^o), the owner's part."""
    assert matrix.plain is not None
    known = x.masked - x.parts[party.role] if party.role in x.parts else x.masked
    return RingArray(VECTOR, matrix.plain.times(np.asarray(known.data, np.uint64)))


def _masked_times(matrix: PrivateMatrix, parts: Sequence[RingArray]) -> RingArray:
    """Return A times the sum of some parts of a mask, the coordinator's part."""
    assert matrix.mask is not None
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    return _tiles_times(matrix, matrix.mask.tiles(_places(matrix.columns, matrix.rows)), whole)


def _tiles_times(matrix: PrivateMatrix, tiles: Iterable[U64], vectors: RingArray) -> RingArray:
    """Return vectors (V, rows) times a matrix in tiles, (V, columns)."""
    out = np.zeros((vectors.shape[0], matrix.columns), np.uint64)
    left = iter(tiles)
    for _, places in groupby(_places(matrix.columns, matrix.rows), key=lambda place: place.rows.start):
        block = None
        for place in places:
            if block is None:  # the vectors of a block of rows stay in the cache while all columns pass
                block = np.ascontiguousarray(vectors.data[:, place.rows], np.uint64)
            piece = np.zeros((len(block), place.shape[0]), np.uint64)
            kernels.dense_add(next(left), block, piece)
            out[:, place.columns] += piece
    return RingArray(VECTOR, out)


def _places(columns: int, rows: int) -> list[Place]:
    """Return the tiles of a matrix in the order of its stream: block of rows by block of rows, all columns of each."""
    width = max(4, TILE_BYTES // (8 * max(1, min(rows, TILE_ROWS))))
    return [
        Place(slice(first, min(columns, first + width)), slice(row, min(rows, row + TILE_ROWS)))
        for row in range(0, rows, TILE_ROWS)
        for first in range(0, columns, width)
    ]
