"""Leaves with `security="strict"`: the active participant learns which of its rows share a leaf.

(The paper restores every row's per-tree prediction at the active participant, which tells it the same partition.)
"""

from __future__ import annotations

from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.ring.array import unpack_data
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.leaf import Members, record_own_paths
from mpfedxgb.tree.level import TableSizes


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
