"""SecureAggBucket: participants' private 0/1 matrices times secret vectors, without a round (section 4.2, line 9).

The owner o of a matrix publishes E = B - A once, where A is expanded from the seed it has in common with the
coordinator. Of the mask lam of a vector x it knows its own part lam^o, so

    B x = B (m - lam^o) - (E + A) (lam - lam^o):

the owner's plain histogram, a dense product of each of the others with its own part of the mask, and a dense product of
the coordinator, dealt. Where the owner made the mask alone, as the active participant that of g and h at the root, the
histogram is all. What each role computes over rows is done where its row blocks live (`row_blocks`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.row_blocks import Matrix, RowBlocks, RowLayout
from mpfedxgb.protocols.rows import RowVectors
from mpfedxgb.protocols.secret import Shares, concatenate_shares
from mpfedxgb.protocols.share import publish
from mpfedxgb.protocols.storage import LocalRows
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.ring import VECTOR

KEPT_BYTES = 1 << 28
"""The coordinator keeps the A of all matrices of a training, once expanded, if together they take no more than this."""


@dataclass(frozen=True, slots=True, eq=False)
class PrivateMatrix:
    """A published matrix, and where this role has its part of it: B at the owner, A at the coordinator, E elsewhere."""

    owner: int
    columns: int
    rows: int
    held: RowBlocks = field(repr=False)


def publish_matrix(
    party: Party,
    owner: int,
    columns: int,
    rows: int,
    plain: Matrix | None = None,
    keep: bool = False,
    held: RowBlocks | None = None,
) -> PrivateMatrix:
    """Put one participant's 0/1 matrix (columns, rows) into the computation.

    1. The owner expands A tile by tile, and publishes E = B - A.

    `held` is where this role's row blocks live, in memory if it does not say; `keep` lets the coordinator hold A from
    the first product on.

    Rounds: 1 per tile. Sent: 8 columns * rows bytes by the owner to each receiver (in a star, an auxiliary's E is
    passed on by the active participant). Reveals: nothing.
    """
    step = f"matrix of {party.roster.name(owner)}"
    party.step(step)
    layout, source = RowLayout(columns, rows), party.source_of(owner, "A")
    held = LocalRows() if held is None else held
    own: Iterator[U64] = iter(())
    if source is None:
        held.receive(owner, layout)
    elif party.is_dealer:
        held.expand(owner, layout, source, keep)
    elif plain is None:
        raise DoesNotFitError(f"{party.name} has to bring a matrix of {columns} columns and {rows} rows")
    else:
        held.own(owner, layout, plain, source)
        own = held.published(owner)
    for tile in party.one_per_cost_class(layout.all_tiles(), lambda tile: tile.shape):
        party.step(step)
        values = RingArray.hidden(VECTOR, tile.shape)
        if party.has_values_of(owner):
            values = RingArray(VECTOR, next(own))
        (values,) = publish(party, owner, [values])
        if source is None and not values.is_hidden:
            # Kept as it came in its frame: where participants share a process, those who got one frame share it.
            held.put(owner, tile, np.asarray(values.data, np.uint64))
    return PrivateMatrix(owner, columns, rows, held)


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
        return [-_times(m, rest) for m, rest in zip(matrices, others, strict=True) if rest]

    dealt = iter(party.deal(specs, products)) if specs else iter(())
    pieces = []
    for matrix, rest in zip(matrices, others, strict=True):
        part = next(dealt) if rest else RingArray.zeros(VECTOR, (count, matrix.columns))
        mine = [x.parts[party.role]] if party.role in x.parts else []
        if party.is_symbolic:
            part = RingArray.hidden(VECTOR, part.shape)
        elif party.role == matrix.owner:
            part = part + _times(matrix, [x.masked], mine)
        elif mine:
            part = part - _times(matrix, mine)
        pieces.append(Shares(part))
    return concatenate_shares(pieces)


def _times(matrix: PrivateMatrix, added: Sequence[RingArray], taken: Sequence[RingArray] = ()) -> RingArray:
    """Return the sum of some vectors, less that of others, times what this role has of a matrix."""
    return RingArray(VECTOR, matrix.held.times(matrix.owner, _words(added), _words(taken)))


def _words(vectors: Sequence[RingArray]) -> list[U64]:
    return [np.asarray(one.data, np.uint64) for one in vectors]
