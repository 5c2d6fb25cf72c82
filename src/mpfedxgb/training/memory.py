"""What a training takes of a machine: the arrays that are there at once when most are, by role.

All of it follows from public sizes, and nearly all of it is E and row vectors. With N training rows, K trees in a round
and a depth of D, the largest level whose children need g and h has K 2^(D-2) nodes; g and h of that many nodes take

    u = 16 N K 2^(D-2) bytes

(twice that if leaves need them too: nobody may see the weights, or columns have directions). While these nodes are
split a participant
has masked values and masks of the parents (2 u) and of the children (4 u), and the opened sums (u); the active one also
the frame that it sends them in (u). The coordinator has masks of parents (u) and children (2 u), and everyone's part of
the left ones (M u). E takes 8 bytes for every row and candidate of the others, in memory or in the spool; roles of one
process share it. A coordinator that brings columns has no E and adds its own columns; of its matrix each participant
has a share of its own, as large as E. Of every candidate of the last level's nodes each role has `candidate_bytes`:
in a process of its own all that it has at its worst moment, and less where roles share a process, since those moments
do not meet; over several trees one role's moment does meet what the others usually have. What Python and its
libraries take to begin with is in `BASE`.

Where nobody sees a row, margins and labels stay from round to round, and before a tree grows, g and h are computed of
them on secrets, a chunk of rows after the other. Log-loss takes most where a table's bits are brought into the ring,
nearly all of it at the coordinator, and at a participant in a process of its own in the frame that they come in. That
comes to the memory of levels, which is kept from tree to tree (`Scratch`), three quarters of it in a training of one
tree; either that or the widest level is the most.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import Resources
from mpfedxgb.modes.choose import mode_of
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.row_blocks import RowLayout, share_key
from mpfedxgb.protocols.share import KEPT_BYTES
from mpfedxgb.protocols.storage import matrix_bytes
from mpfedxgb.training.checkpoint import KEPT
from mpfedxgb.tree.level import TableSizes

BASE = 150_000_000
"""Bytes of a role's process that has imported everything and compiled its kernels."""

_LIBRARIES = 30_000_000
"""What pandas and scikit-learn take besides, which a simulation is called by."""

_WORKING = 3_000_000
"""What a role takes besides, whatever the sizes: tiles on their way, heaps that stay half empty."""


class _OfCandidate(NamedTuple):
    """Bytes that a role has at once of a candidate of a node while the best are looked for, as measured.

    At the coordinator and at a participant in processes of their own, and at each of several roles of one.
    """

    coordinator: int
    participant: int
    together: int


_FREE, _PENALISED = _OfCandidate(1080, 1000, 620), _OfCandidate(1040, 1850, 1230)
_CLIPPED, _CONSTRAINED = _OfCandidate(2750, 3500, 2540), _OfCandidate(3550, 4700, 3350)
"""26 numbers of 192 bits together; with bounds of weights, numbers have 256."""

_NODE = 120
"""Bytes of a kept node, as text."""

_PAIR = 16
"""Bytes of g and h of one row, or of their masks."""


def peak_bytes(role: int, params: TrainParams, sizes: TableSizes, in_spool: bool = False) -> int:
    """Return how much memory a role takes at most, in a process of its own; pages of a spool do not count."""
    frame = mode_of(params).working(role, params, sizes).frame
    return BASE + training_bytes([role], params, sizes, in_spool) + frame


def simulation_bytes(params: TrainParams, sizes: TableSizes, in_spool: bool = False) -> int:
    """Return how much memory all roles of a simulation take together; they share one E."""
    return BASE + _LIBRARIES + training_bytes(range(sizes.participants + 1), params, sizes, in_spool)


def training_bytes(here: Collection[int], params: TrainParams, sizes: TableSizes, in_spool: bool = False) -> int:
    """Return what a training takes in a process in which some roles run, more than was there before."""
    matrices = 0 if in_spool else matrix_bytes(here, layouts_of(sizes))
    return matrices + bytes_besides(params, sizes, here)


def goes_to_spool(here: Collection[int], params: TrainParams, sizes: TableSizes, resources: Resources) -> bool:
    """Return whether the E of a process in which some roles run is kept in its spool."""
    limit = resources.max_memory
    return limit is not None and resources.spool is not None and training_bytes(here, params, sizes) > limit


def layouts_of(sizes: TableSizes) -> dict[int, RowLayout]:
    """Return how the matrix of every owner lies, by the key under which it is kept; of a coordinator's all shares."""
    layouts = {m: RowLayout(sizes.columns[m - 1], sizes.rows) for m in sizes.owners if m <= sizes.participants}
    if own := sizes.columns_of(COORDINATOR):
        layouts |= {share_key(m): RowLayout(own, sizes.rows) for m in range(ACTIVE, sizes.participants + 1)}
    return layouts


def _mask_bytes(sizes: TableSizes) -> int:
    """Return the bytes of the masks A of all matrices that are published."""
    return sum(layout.octets for key, layout in layouts_of(sizes).items() if key > 0)


def keeps_masks(sizes: TableSizes) -> bool:
    """Return whether the coordinator keeps the masks of all matrices, once they are expanded."""
    return _mask_bytes(sizes) <= KEPT_BYTES


def candidate_bytes(role: int, params: TrainParams, roles: int) -> int:
    """Return what a role has of a candidate of a node while the best are looked for, as one of `roles` of a process."""
    if params.constrained:
        of = _CONSTRAINED
    elif params.largest_step:
        of = _CLIPPED
    else:
        of = _PENALISED if params.reg_alpha else _FREE
    alone = of.coordinator if role == COORDINATOR else of.participant
    if roles == 1:
        return alone
    return of.together + (max(0, alone - of.together) // roles if params.n_estimators > 1 else 0)


def bytes_besides(params: TrainParams, sizes: TableSizes, here: Collection[int]) -> int:
    """Return what the roles of a process take besides E: row vectors, own columns, at the coordinator kept masks."""
    masks = _mask_bytes(sizes) if keeps_masks(sizes) else 0
    candidates = sum(sizes.columns) * params.trees_per_round << max(0, params.max_depth - 1)
    every = 0
    for role in here:
        working = mode_of(params).working(role, params, sizes)
        own = _bins(role, params, sizes) + leaf_bytes(role, params, sizes) + (masks if role == COORDINATOR else 0)
        vectors = _vectors(role, params, sizes)
        kept = vectors if params.n_estimators > 1 else vectors * 3 // 4  # the memory of levels, for the next tree
        most = max(vectors, kept + working.gradients)
        gains = candidate_bytes(role, params, len(here)) * candidates
        if params.constrained:  # its last level takes the most when children are made, after the gains
            most = max(most, most // 2 + gains)
        else:
            most += gains
        every += most + working.carried + own + _WORKING
    return every


def disk_bytes(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return about how much a role's checkpoints and model take on disk at most: margins, and everybody's trees."""
    if role == COORDINATOR and not sizes.coordinator_owns:
        return 0
    nodes = params.n_estimators * params.trees_per_round << (params.max_depth + 1)
    return margin_bytes(role, params, sizes) + leaf_bytes(role, params, sizes) + 2 * _NODE * nodes


def leaf_bytes(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return how much the leaves that P_1 keeps of every row and tree take where trees are left out of rounds."""
    keeps = role == ACTIVE and params.drops_trees
    return 2 * sizes.all_rows * params.n_estimators * params.trees_per_round if keeps else 0


def margin_bytes(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return how much the margins that P_1 keeps, or everyone shares of, take on disk, however trees turn out."""
    keeps = role == ACTIVE or (params.facts.hides_rows and role != COORDINATOR)
    return (KEPT + 1) * 8 * sizes.all_rows * params.outputs if keeps else 0


def _vectors(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return the bytes of row vectors where the last level but one splits, and of the rows inside each node."""
    in_leaves = params.facts.shares_leaf_weights or params.constrained
    splitting = params.trees_per_round << max(0, params.max_depth - (1 if in_leaves else 2))
    each = sizes.participants + 3 if role == COORDINATOR else 8 if role == ACTIVE else 7
    members = 4 * params.trees_per_round * (1 << params.max_depth) * sizes.packed
    return splitting * _PAIR * each * sizes.rows + members


def _bins(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return the bytes of a role's own columns and bins, of about as many as its candidates tell."""
    features = -(-sizes.columns_of(role) // max(1, params.max_bin - 1))
    return features * (4 * sizes.all_rows + (1 if params.max_bin < 256 else 2) * sizes.rows)
