"""What a participant computes alone when rows are scored: the leaves that its own splits leave reachable (section 4.5).

The local indicator vectors s_m of Eq. 13, and the leaf weights, or shares of them, that the participant keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.table import Table
from mpfedxgb.tree.nodes import Dummy, Leaf, Node, Outline, Split, Tree, Used

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A participant's own part of a model, for scoring: its trees and its columns, with the table to score.

    `holds_shares` says that leaf weights are shared among all participants; otherwise they are the active one's.
    `takes_all` says that only sums over all trees may be told, as sealed models have it.
    """

    trees: Sequence[Tree]
    table: Table
    holds_shares: bool = False
    takes_all: bool = False

    def marks(self, trees: Sequence[int], rows: slice) -> Bits:
        """Return s_m of some rows, (leaves of those trees, rows)."""
        return np.concatenate([reachable(self.trees[i], self.table, rows) for i in trees])

    def weights(self, used: Used) -> npt.NDArray[np.int64]:
        """Return what this participant keeps of the weights of all leaves in use: the weights, or its shares."""
        leaves = [node for i, _ in used for node in self.trees[i] if isinstance(node, Leaf)]
        return np.array([leaf.share if self.holds_shares else _weight(leaf) for leaf in leaves], np.int64)

    def single_leaves(self, outlines: Sequence[Outline], classes: int) -> npt.NDArray[np.int64]:
        """Return what trees without a split add to every row of their class, (classes,)."""
        total = np.zeros(classes, np.int64)
        for tree, outline in zip(self.trees, outlines, strict=False):
            if not outline.owners:
                total[outline.class_index] += _weight(tree[0])
        return total


def _weight(node: Node) -> int:
    assert isinstance(node, Leaf)
    assert node.weight is not None
    return node.weight


def reachable(tree: Tree, table: Table, rows: slice) -> Bits:
    """Return which leaves one's own splits leave open, (leaves, rows): at a Dummy, both sides are."""
    columns = {column.name: column.values[rows] for column in table.columns}
    count = len(range(*rows.indices(table.rows)))
    open_ = {0: np.ones(count, bool)}
    leaves = []
    for number, node in enumerate(tree):
        here = open_.pop(number)
        if isinstance(node, Leaf):
            leaves.append(here)
        elif isinstance(node, Dummy):
            open_[node.left] = open_[node.right] = here
        else:
            first = goes_first(node, columns[node.feature])
            left, right = (node.right, node.left) if node.flipped else (node.left, node.right)
            open_[left], open_[right] = here & first, here & ~first
    return np.array(leaves, np.uint8)


def goes_first(split: Split, values: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return which values go to a split's first child."""
    if split.category is not None:
        present = values != split.category
    else:
        assert split.threshold is not None
        present = values <= np.float32(split.threshold)
    return np.where(np.isnan(values), split.missing_left, present)
