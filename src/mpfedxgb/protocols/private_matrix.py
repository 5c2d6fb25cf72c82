"""SecureAggBucket: one participant's private 0/1 matrix times secret vectors, without a round (section 4.2, line 9).

The owner publishes E = B - A once, where A is expanded from the seed it has in common with the coordinator. Then
B x = B m_x - E lam_x - A lam_x: the owner's plain histogram, a dense product of each participant with its own mask
share, and a dense product of the coordinator, dealt. A is never held: it is expanded again, tile by tile.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.protocols.share import publish
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.prg import Source
from mpfedxgb.ring.ring import VECTOR

TILE_BYTES = 1 << 20
"""Size of the tiles in which A is expanded and E is sent: small enough to stay in a core's cache."""


class Matrix(Protocol):
    """What an owner brings: a 0/1 matrix of candidate columns by rows, and the fast way to multiply with it."""

    def tile(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Return the columns first..last-1 as 0/1 values, (last - first, rows)."""
        ...

    def times(self, vectors: U64) -> U64:
        """Return vectors (V, rows) times the matrix, modulo 2^64: (V, columns)."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class BitMatrix:
    """A `Matrix` held as plain 0/1 values (columns, rows)."""

    bits: npt.NDArray[np.uint8] = field(repr=False)

    def tile(self, first: int, last: int) -> npt.NDArray[np.uint8]:
        """Return some columns (see Matrix)."""
        return self.bits[first:last]

    def times(self, vectors: U64) -> U64:
        """Return the product (see Matrix)."""
        out = np.zeros((len(vectors), len(self.bits)), np.uint64)
        kernels.dense_add(self.bits.astype(np.uint64), np.ascontiguousarray(vectors), out)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class PrivateMatrix:
    """A published matrix: E at the participants, the stream of A at the coordinator, B at the owner."""

    owner: int
    columns: int
    rows: int
    difference: U64 | None = field(repr=False)
    source: Source | None = field(repr=False)
    plain: Matrix | None = field(repr=False)


def publish_matrix(party: Party, owner: int, columns: int, rows: int, plain: Matrix | None = None) -> PrivateMatrix:
    """Put one participant's 0/1 matrix (columns, rows) into the computation.

    1. The owner expands A tile by tile, and publishes E = B - A.

    Rounds: 1 per tile. Sent: 8 columns * rows bytes by the owner to each receiver (an auxiliary's E is passed on by the
    active participant). Reveals: nothing.
    """
    party.step(f"matrix of {party.roster.name(owner)}")
    source = party.source_of(owner, "A")
    if party.is_coordinator:
        for _ in _tiles(columns, rows):
            party.step(f"matrix of {party.roster.name(owner)}")
        return PrivateMatrix(owner, columns, rows, None, source, None)
    if party.role == owner and plain is None:
        raise DoesNotFitError(f"{party.name} has to bring a matrix of {columns} columns and {rows} rows")
    difference = np.empty((columns, rows), np.uint64)
    for first, last in _tiles(columns, rows):
        party.step(f"matrix of {party.roster.name(owner)}")
        tile = RingArray.hidden(VECTOR, (last - first, rows))
        if plain is not None and source is not None:
            bits = plain.tile(first, last)
            if bits.shape != tile.shape:
                raise DoesNotFitError(f"{party.name} brought a tile of {bits.shape} instead of {tile.shape}")
            tile = RingArray(VECTOR, bits.astype(np.uint64)) - source.elements(VECTOR, tile.shape)
        difference[first:last] = publish(party, owner, [tile])[0].data
    return PrivateMatrix(owner, columns, rows, difference, None, plain)


def matrix_times(party: Party, matrix: PrivateMatrix, x: Secret) -> Shares:
    """Return shares of the matrix times each of the secret vectors x (V, rows): (V, columns).

    1. The coordinator deals -A lam_x.
    2. Everyone adds -E lam_x for its share of the mask; the owner adds B m_x.

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    if x.ring != VECTOR or x.shape[1:] != (matrix.rows,):
        raise DoesNotFitError(f"a matrix of {matrix.rows} rows takes vectors (V, {matrix.rows}) of {VECTOR}, not {x}")
    party.step(f"matrix product of {party.roster.name(matrix.owner)}")
    spec = (VECTOR, (x.shape[0], matrix.columns))
    (part,) = party.deal([spec], lambda: [-_expanded_times(matrix, x.mask.data)])
    if party.is_coordinator:
        return Shares(RingArray.hidden(*spec))
    if x.mask.data.any():  # who did not mask the vector has nothing to multiply
        assert matrix.difference is not None
        part = part - _dense(matrix.difference, x.mask.data)
    if party.role == matrix.owner:
        assert matrix.plain is not None
        part = part + RingArray(VECTOR, matrix.plain.times(x.masked.data))
    return Shares(part)


def _dense(matrix: U64, vectors: npt.NDArray[np.unsignedinteger]) -> RingArray:
    out = np.zeros((len(vectors), len(matrix)), np.uint64)
    kernels.dense_add(matrix, np.ascontiguousarray(vectors, np.uint64), out)
    return RingArray(VECTOR, out)


def _expanded_times(matrix: PrivateMatrix, vectors: npt.NDArray[np.unsignedinteger]) -> RingArray:
    """Return A times the vectors, expanding A tile by tile (the coordinator's part)."""
    assert matrix.source is not None
    source, lam = matrix.source.again(), np.ascontiguousarray(vectors, np.uint64)
    out = np.zeros((len(lam), matrix.columns), np.uint64)
    for first, last in _tiles(matrix.columns, matrix.rows):
        tile = source.elements(VECTOR, (last - first, matrix.rows)).data
        piece = np.zeros((len(lam), last - first), np.uint64)
        kernels.dense_add(np.ascontiguousarray(tile, np.uint64), lam, piece)
        out[:, first:last] = piece
    return RingArray(VECTOR, out)


def _tiles(columns: int, rows: int) -> list[tuple[int, int]]:
    step = max(2, TILE_BYTES // (8 * max(rows, 1)))
    return [(first, min(columns, first + step)) for first in range(0, columns, step)]
