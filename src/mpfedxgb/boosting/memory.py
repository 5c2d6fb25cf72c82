"""How much memory a role takes in a training, before anything is sent: a formula over the public sizes.

Nearly all of it is row vectors. With N training rows, K trees in a round and a depth of D, the largest level whose
children need g and h has K 2^(D-2) nodes; one array of g and h of that many nodes takes

    u = 16 N K 2^(D-2) bytes

(twice that in the paper's way, whose leaves need them too).

While these nodes are split a participant has masked values and masks of the parents (2 u) and of the children (4 u),
and the opened sums (u); the active one also the frame that it sends them in (u). The coordinator has masks of parents
(u) and children (2 u), and everyone's part of the left ones (M u). E takes 8 bytes for every row and candidate of the
others, in memory or in the spool.
"""

from __future__ import annotations

from collections.abc import Collection

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.private_matrix import KEPT_BYTES
from mpfedxgb.protocols.row_blocks import RowLayout
from mpfedxgb.protocols.storage import matrix_bytes
from mpfedxgb.tree.level import TableSizes

_PARTICIPANT = 7
_ACTIVE = 8
_WORKING = 12_000_000
"""What a role takes besides, whatever the sizes: tiles on their way, tournaments, heaps that stay half empty."""


def layouts_of(sizes: TableSizes) -> dict[int, RowLayout]:
    """Return how the matrix of every owner lies."""
    return {m: RowLayout(sizes.columns[m - 1], sizes.rows) for m in sizes.owners}


def keeps_masks(sizes: TableSizes) -> bool:
    """Return whether the coordinator keeps the masks of all matrices, once they are expanded."""
    return sum(layout.octets for layout in layouts_of(sizes).values()) <= KEPT_BYTES


def bytes_besides(sizes: TableSizes, params: TrainParams) -> dict[int, int]:
    """Return what every role takes besides E: the row vectors of the largest level, and at the coordinator A."""
    u = 16 * sizes.rows * params.trees_per_round << max(0, params.max_depth - (1 if params.is_paper else 2))
    participants = range(ACTIVE, len(sizes.columns) + 1)
    masks = sum(layout.octets for layout in layouts_of(sizes).values()) if keeps_masks(sizes) else 0
    out = {COORDINATOR: (3 + len(participants)) * u + masks + _WORKING}
    for m in participants:
        out[m] = (_ACTIVE if m == ACTIVE else _PARTICIPANT) * u + _WORKING
    return out


def peak_bytes(sizes: TableSizes, params: TrainParams, here: Collection[int], in_spool: bool = False) -> int:
    """Return the peak of a process in which some roles run: the coordinator 0, the active participant 1, or others.

    All of them for a simulation, one for a role of a federation. Pages of a spool that are mapped do not count.
    """
    besides = bytes_besides(sizes, params)
    matrices = 0 if in_spool else matrix_bytes(here, layouts_of(sizes))
    return matrices + sum(besides[role] for role in here)
