"""SecureFit and SecureBuild: the trees of one round, level by level, a level's nodes in a batch (Algorithms 2, 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares, public_secret
from mpfedxgb.protocols.tag import NOBODY
from mpfedxgb.ring.ring import PACKED
from mpfedxgb.tree.histogram import aggregate_buckets
from mpfedxgb.tree.level import Level, Round, SplitData, TreeRules, select_nodes
from mpfedxgb.tree.nodes import GrownTree
from mpfedxgb.tree.paper import split as paper_split
from mpfedxgb.tree.split import best_splits, children


@dataclass(frozen=True, slots=True, eq=False)
class Grown:
    """The trees of one round as this role saw them, and the rows inside each leaf, still secret: (leaves, packed).

    In the paper's way also G and H of each leaf, as secret: (leaves, 2).
    """

    trees: list[GrownTree]
    members: Secret
    totals: Secret | None = None


def grow(party: Party, data: SplitData, gh: Secret, round_: Round, rules: TreeRules) -> Grown:
    """Return this role's view of the trees of one round; gh (trees, 2, rows) holds their gradients (Algorithm 3)."""
    trees = [GrownTree() for _ in range(gh.shape[0])]
    leaves = _Leaves(trees)
    find = paper_split.best_splits if rules.is_paper else best_splits
    everyone = np.full((len(trees), data.sizes.packed), 255, np.uint8)
    level = Level([(tree, 0) for tree in range(len(trees))], public_secret(party, PACKED, everyone), gh)
    for depth in range(rules.max_depth if data.matrices else 0):  # 4-7
        party.on_progress(f"level {depth + 1} of {rules.max_depth}")
        level = _with_sums(party, data, level)  # 3, 9
        best = find(party, data, level, round_, rules, rules.first_layer_mask and depth == 0)  # 8, 10-20
        leaves.close(level, [i for i, owner in enumerate(best.owner) if owner == NOBODY])  # 42-44
        split = [i for i, owner in enumerate(best.owner) if owner != NOBODY]
        if not split:
            break
        chosen = [(int(best.owner[i]), int(best.local[i])) for i in split]
        last = depth == rules.max_depth - 1
        level = select_nodes(level, split)
        level = children(party, data, level, chosen, trees, round_.label, last, rules.is_paper)  # 21-36
    else:
        leaves.close(level, range(len(level.nodes)))  # 5-6
    totals = concatenate(leaves.totals, axis=0) if rules.is_paper else None
    return Grown(trees, concatenate(leaves.members, axis=0), totals)


def _with_sums(party: Party, data: SplitData, level: Level) -> Level:
    """Return the level with the bucket sums of its nodes: computed for left children, parent - left for right ones."""
    assert level.gh is not None
    if level.sums is None:
        return Level(level.nodes, level.members, level.gh, aggregate_buckets(party, data, level.gh))
    n = len(level.nodes) // 2
    left = aggregate_buckets(party, data, level.gh[:n])
    sums: Shares = concatenate_shares([left, level.sums - left], axis=0)
    return Level(level.nodes, level.members, level.gh, sums)


class _Leaves:
    """Leaves in the order in which they close."""

    def __init__(self, trees: list[GrownTree]) -> None:
        self.trees = trees
        self.members: list[Secret] = []
        self.totals: list[Secret] = []
        self.count = 0

    def close(self, level: Level, which: list[int] | range) -> None:
        if not len(which):
            return
        for i in which:
            tree, node = level.nodes[i]
            self.trees[tree].close(node, self.count)
            self.count += 1
        chosen = np.array(which, np.int64)
        self.members.append(level.members[chosen])
        if level.gh is not None:
            self.totals.append(level.gh.sum()[chosen])
