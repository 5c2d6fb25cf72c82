"""What a training takes of a machine: the arrays that are there at once when most are, by role.

All of it follows from public sizes. What Python and its libraries take to begin with is in `BASE`.
"""

from __future__ import annotations

from mpfedxgb.boosting.checkpoint import KEPT
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.protocols.private_matrix import KEPT_BYTES
from mpfedxgb.tree.level import TableSizes

BASE = 150_000_000
"""Bytes of a process that has imported everything and compiled its kernels."""

_NODE = 120
"""Bytes of a kept node, as text."""

_PAIR = 16
"""Bytes of g and h of one row, or of their masks."""


def peak_bytes(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return how much memory a role takes at most, in a process of its own."""
    return BASE + _vectors(role, params, sizes) + _matrices(role, sizes) + _bins(role, params, sizes)


def simulation_bytes(params: TrainParams, sizes: TableSizes) -> int:
    """Return how much memory all roles of a simulation take together; they share E as far as they get it in one frame.

    What an auxiliary publishes reaches the active participant in one frame and the others in another.
    """
    roles = range(len(sizes.columns) + 1)
    alone = sum(_vectors(role, params, sizes) + _bins(role, params, sizes) for role in roles)
    copies = [1 if m == 1 or len(sizes.columns) == 2 else 2 for m in range(1, len(sizes.columns) + 1)]
    shared = sum(8 * sizes.rows * count * copy for count, copy in zip(sizes.columns, copies, strict=True))
    return BASE + alone + shared + _matrices(COORDINATOR, sizes)


def disk_bytes(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return about how much a role's checkpoints and model take on disk at most: margins, and everybody's trees."""
    if role == COORDINATOR:
        return 0
    nodes = params.n_estimators * params.trees_per_round << (params.max_depth + 1)
    return margin_bytes(role, params, sizes) + 2 * _NODE * nodes


def margin_bytes(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return how much the margins that P_1 keeps take on disk, from the first rounds on, however trees turn out."""
    return (KEPT + 1) * 8 * sizes.all_rows * params.trees_per_round if role == ACTIVE else 0


def _vectors(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return the bytes of g and h, masked, and of their masks, where the last level but one splits.

    Per row and node that splits: at a participant the parent's (2), its part of the left child's sum and what comes
    of it (2), both children's (4); at the coordinator everyone's part of the left child's mask, the parent's mask (1),
    both children's (2), and what is dealt (1).
    """
    splitting = params.trees_per_round * max(1, 1 << max(0, params.max_depth - 2))
    each = len(sizes.columns) + 4 if role == COORDINATOR else 8
    members = 4 * params.trees_per_round * (1 << params.max_depth) * sizes.packed
    return splitting * _PAIR * each * sizes.rows + members


def _matrices(role: int, sizes: TableSizes) -> int:
    """Return the bytes of the others' E; at the coordinator, of A if it is kept."""
    if role == COORDINATOR:
        whole = 8 * sizes.rows * sum(sizes.columns)
        return whole if whole <= KEPT_BYTES else 0
    return 8 * sizes.rows * (sum(sizes.columns) - sizes.columns[role - 1])


def _bins(role: int, params: TrainParams, sizes: TableSizes) -> int:
    """Return the bytes of a participant's own columns and bins, of about as many as its candidates tell."""
    if role == COORDINATOR:
        return 0
    features = -(-sizes.columns[role - 1] // max(1, params.max_bin - 1))
    return features * (4 * sizes.all_rows + (1 if params.max_bin < 256 else 2) * sizes.rows)
