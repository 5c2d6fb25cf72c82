"""SecureBuild: the trees of one round, level by level, all nodes of a level in one batch (Algorithm 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.reveal import NOBODY
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares
from mpfedxgb.tree import paper as paper_split
from mpfedxgb.tree.level import Level, Round, SplitData, TreeRules, aggregate_buckets, select_nodes
from mpfedxgb.tree.nodes import GrownTree
from mpfedxgb.tree.split import best_splits, children


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The trees of one round as this role saw them, and the rows inside each leaf, still secret: (leaves, packed).

    Where nobody may see the weights also G and H of each leaf, as secret: (leaves, 2).
    """

    trees: list[GrownTree]
    members: Secret
    totals: Secret | None = None


def grow(party: Party, data: SplitData, roots: Level, round_: Round, rules: TreeRules) -> Grown:
    """Return this role's view of the trees of one round, grown from their roots.

    The weights of all leaves (lines 5 and 43) follow together, when the round is updated.
    """
    trees = [GrownTree() for _ in roots.nodes]
    leaves, level = _Leaves(trees, with_totals=rules.sums_in_leaves), roots
    find = paper_split.best_splits if rules.is_paper else best_splits
    for depth in range(rules.max_depth if data.matrices else 0):
        party.observer.on_progress(f"level {depth + 1} of {rules.max_depth}")
        level = _with_sums(party, data, level)  # 9-13
        best = find(party, data, level, round_, rules, depth)  # 3, 8, 14-20
        leaves.close(select_nodes(level, np.flatnonzero(best.owner == NOBODY).tolist()))  # 42, 44
        splitting = np.flatnonzero(best.owner != NOBODY).tolist()
        level = select_nodes(level, splitting)
        if not level.nodes:
            break
        splits = [(int(best.owner[i]), int(best.local[i])) for i in splitting]
        level = children(party, data, level, splits, trees, round_.label, rules, depth)  # 21-36
    leaves.close(level)  # 4, 6
    return leaves.grown()


def _with_sums(party: Party, data: SplitData, level: Level) -> Level:
    """Return the level with the bucket sums of its nodes: computed for left children, parent - left for right ones."""
    assert level.fresh is not None
    sums: Shares = aggregate_buckets(party, data, level.fresh)
    if level.sums is not None:
        sums = concatenate_shares([sums, level.sums - sums], axis=0)
    return Level(level.nodes, level.members, level.gh, sums)


class _Leaves:
    """Leaves in the order in which they close."""

    def __init__(self, trees: list[GrownTree], with_totals: bool) -> None:
        self.trees, self.with_totals = trees, with_totals
        self.members: list[Secret] = []
        self.totals: list[Secret] = []
        self.count = 0

    def close(self, level: Level) -> None:
        """Turn all nodes of a level, or of a part of one, into leaves."""
        if not level.nodes:
            return
        for tree, node in level.nodes:
            self.trees[tree].close(node, self.count)
            self.count += 1
        self.members.append(level.members)
        if self.with_totals:
            assert level.gh is not None
            self.totals.append(level.gh.sum())

    def grown(self) -> Grown:
        """Return the finished trees."""
        totals = concatenate(self.totals, axis=0) if self.with_totals else None
        return Grown(self.trees, concatenate(self.members, axis=0), totals)
