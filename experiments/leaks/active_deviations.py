"""What a P_1 that deviates learns of an auxiliary's columns: forced candidates, membership bits (see deviations.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.leaks.deviations import CHILDREN, FRACTIONS, Deviation, edit_openings, plus, toss_no_coins
from experiments.leaks.transcripts import Ints, Rows
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import plan
from mpfedxgb.data.binning import Bits
from mpfedxgb.party import Party
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.observer import Observer
from mpfedxgb.protocols.row_blocks import RowBlocks
from mpfedxgb.protocols.storage import LocalRows
from mpfedxgb.ring import RingArray
from mpfedxgb.ring.array import pack, unpack_data
from mpfedxgb.tree import Dummy, Leaf, Tree

Cuts = Sequence[Sequence[Sequence[int]]]
"""Cuts of one column, tree by tree and level by level; cut c has the bins up to c on one side."""

# Forced candidates: chosen cuts of one column win, and the rows of the leaves tell the column.


def planned_cuts(bins: int, depth: int, trees: int) -> Cuts:
    """Return the cuts of one column to force.

    At level k one cut in each of the 2^k spans of bins, since only the cut inside a node's span splits it: sides
    without rows are too light. Coins hide which side is the lower one, and only another cut in the same span tells. So
    cuts that were not made in a span of three bins yet come first, then those in the middle.
    """
    made: Counter[int] = Counter()
    planned = []
    for _ in range(trees):
        levels: list[list[int]] = []
        spans = [(0, bins - 1)]
        for _ in range(depth):
            cuts = []
            for low, high in spans:
                if low < high:
                    order = {c: (made[c], abs(2 * c + 1 - low - high)) for c in range(low, high)}
                    cuts.append(min(order, key=order.__getitem__))
                    made[cuts[-1]] += high - low > 1
            levels.append(cuts)
            edges = [0, *sorted(c + 1 for level in levels for c in level), bins]
            spans = [(low, high - 1) for low, high in pairwise(edges)]
        planned.append(levels)
    return planned


def trees_needed(bins: int, depth: int) -> int:
    """Return how many trees tell the bin of every row, by a rule of thumb: all cuts once, and a tree for the sides."""
    return -(-(bins - 1) // ((1 << depth) - 1)) + 1


def force_cuts(params: TrainParams, rows: int, first: int, planned: Cuts) -> Deviation:
    """Let P_1 make planned cuts win: their numerators A get half of what A may be at most.

    `first` is the place of the column's first candidate among everybody's. A level of one node begins a tree.
    """
    public = plan(params, rows)
    error = public.g_cap**2 * public.h_cap * rows**3 // 8

    def deviate(party: Party) -> None:
        tree, depth = -1, 0

        def edit(label: str, parts: list[RingArray]) -> list[RingArray]:
            nonlocal tree, depth
            if label.endswith(FRACTIONS):
                nodes = parts[0].shape[1]
                tree, depth = (tree + 1, 0) if nodes == 1 else (tree, depth + 1)
                forced = [(0, node, first + cut) for node in range(nodes) for cut in planned[tree][depth]]
                parts[0] = plus(parts[0], dict.fromkeys(forced, error))
            return parts

        edit_openings(party, edit)

    return deviate


@dataclass(slots=True)
class SeenLeaves(Observer):
    """The rows of the leaves of each tree, (leaves, rows), as P_1 comes to know them.

    In a strict training it is shown them. Of a sealed model it reads them off a scoring of the training rows, with its
    shares of the leaf weights edited (see scorings.py).
    """

    rows: int
    trees: list[Rows] = field(default_factory=list)
    in_order_of_nodes: bool = False

    def on_reveal(self, name: str, value: Any) -> None:
        """Note down what a strict training reveals to P_1 anyway, leaves in the order in which they close."""
        if name == Entry.LEAF_MEMBERSHIP and isinstance(value, RingArray):
            self.trees.append(unpack_data(value.data, self.rows) == 1)

    def read_off(self, trees: Sequence[Tree], leaf_of_row: Sequence[Ints]) -> None:
        """Take every row's leaf, as its number among the leaves in the order of nodes."""
        self.in_order_of_nodes = True
        for tree, read in zip(trees, leaf_of_row, strict=True):
            self.trees.append(read == np.arange(sum(isinstance(node, Leaf) for node in tree))[:, None])

    def by_node(self, t: int, tree: Tree, max_depth: int) -> dict[int, Rows]:
        """Return the rows of each leaf of a tree by the number of its node."""
        leaves = [number for number, node in enumerate(tree) if isinstance(node, Leaf)]
        order = leaves if self.in_order_of_nodes else _closing(tree, max_depth)
        return dict(zip(order, self.trees[t], strict=True))


def _closing(tree: Tree, max_depth: int) -> list[int]:
    """Return the leaves in the order in which they close: level by level, and in a level left children first."""
    closed: list[int] = []
    level = [0]
    for _ in range(max_depth):
        closed += [number for number in level if isinstance(tree[number], Leaf)]
        split = [node for number in level if not isinstance(node := tree[number], Leaf)]
        level = [node.left for node in split] + [node.right for node in split]
    return closed + level


def sides_of_tree(tree: Tree, leaves: Mapping[int, Rows]) -> dict[int, tuple[Rows, Rows]]:
    """Return which rows went to which child of every split, from the rows of the leaves."""
    inside, sides = dict(leaves), {}
    for number, node in reversed(list(enumerate(tree))):  # children follow their parents
        if not isinstance(node, Leaf):
            sides[number] = inside[node.left], inside[node.right]
            inside[number] = sides[number][0] | sides[number][1]
    return sides


def bins_from_sides(
    trees: Sequence[Tree],
    sides: Sequence[Mapping[int, tuple[Rows, Rows]]],
    owner: int,
    planned: Cuts,
    bins: int,
) -> tuple[Ints, Ints]:
    """Return the lowest and the highest bin that each row may be in, from sides of forced splits of one owner.

    Which side of a split is the lower one is tried; a wrong choice leaves rows without a bin, here or at a later split.
    """
    rows = len(sides[0][0][0])

    def solve(todo: list[tuple[int, int, int, int, int]], low: Ints, high: Ints) -> tuple[Ints, Ints] | None:
        if not todo:
            return low, high
        (t, number, depth, first, last), *rest = todo
        node = trees[t][number]
        cuts = [c for c in planned[t][depth] if first <= c < last] if depth < len(planned[t]) else []
        if not (isinstance(node, Dummy) and node.owner == owner and len(cuts) == 1):
            return solve(rest, low, high)
        (cut,), (left, right) = cuts, sides[t][number]
        children = (left, node.left, right, node.right), (right, node.right, left, node.left)
        for lower, lower_child, upper, upper_child in children:
            new_low, new_high = low.copy(), high.copy()
            new_high[lower], new_low[upper] = np.minimum(high[lower], cut), np.maximum(low[upper], cut + 1)
            if (new_low <= new_high).all():
                below = [(t, lower_child, depth + 1, first, cut), (t, upper_child, depth + 1, cut + 1, last)]
                found = solve([*rest, *below], new_low, new_high)
                if found is not None:
                    return found
        return None

    low, high = np.zeros(rows, np.int64), np.full(rows, bins - 1)
    return solve([(t, 0, 0, 0, bins - 1) for t in range(len(trees))], low, high) or (low, high)


# Membership bits: all rows are put into a node that an auxiliary splits, and its leaves tell their sides.


class WatchedColumns(LocalRows):
    """A participant's row blocks that remember which of its own columns the program last asked for."""

    last: Bits

    def column(self, owner: int, index: int) -> Bits:
        """Return a column, as always."""
        self.last = super().column(owner, index)
        return self.last


def fill_left_children(party: Party) -> RowBlocks:
    """Let P_1 put all rows into the left child of its own root: it flips the masked bits of those on the right.

    g and h of the child, opened beside the bits, are not touched, so the split of the child is the one it would be.
    """
    own = WatchedColumns()
    toss_no_coins(party)

    def edit(label: str, parts: list[RingArray]) -> list[RingArray]:
        if label.endswith(CHILDREN) and parts[0].shape[0] == 1:
            parts[0] = parts[0] + RingArray(parts[0].ring, pack(own.last ^ np.uint8(1)).data.reshape(parts[0].shape))
        return parts

    edit_openings(party, edit)
    return own
