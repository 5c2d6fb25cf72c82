"""Leaves with `security="strict"`: the active participant learns which of its rows share a leaf.

(The paper restores every row's per-tree prediction at the active participant, which tells it the same partition.)
"""

from __future__ import annotations

from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.ring.array import unpack_data
from mpfedxgb.tree.constrained import held_offset, held_weights
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.leaf import Members, record_own_paths
from mpfedxgb.tree.level import TableSizes, TreeRules


def reveal_leaves(party: Party, grown: Grown, sizes: TableSizes) -> Members | None:
    """Return which rows are in which leaf, (leaves, rows), to the active participant; None to the others.

    Rounds: 1. Sent: a bit per row and leaf by each auxiliary. Reveals: LEAF_MEMBERSHIP to the active participant; and
    what the tree's shape implies, OWN_PATH, is written down for the owners of whole paths.
    """
    with party.phase("leaves"):
        value = reveal(party, grown.members, ACTIVE, Entry.LEAF_MEMBERSHIP, len(grown.trees) * sizes.all_rows)
        for tree in grown.trees:
            record_own_paths(party, tree)
        return None if value.is_hidden else unpack_data(value.data, sizes.all_rows)


def reveal_held(party: Party, grown: Grown, rules: TreeRules) -> list[int | None] | None:
    """Return at which bound each leaf weight is held, None for those within theirs, to the active participant.

    None to the others, and where columns have no directions. Weights that no bound holds it computes as always.

    Rounds: 1 and those of `held_weights`. Sent: an element per leaf by each auxiliary. Reveals: HELD_WEIGHT to the
    active participant.
    """
    if grown.bounds is None:
        return None
    assert grown.totals is not None
    assert grown.constants is not None
    with party.phase("leaves"):
        shares = held_weights(party, grown.totals, grown.bounds, grown.constants, rules)
        value = reveal(party, shares, ACTIVE, Entry.HELD_WEIGHT, shares.shape[0])
    if value.is_hidden:
        return None
    return [number - held_offset(rules) if number else None for number in value.decode().tolist()]
