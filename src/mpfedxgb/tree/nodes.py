"""Trees as they are grown (owner and index of each split) and as they are kept (Leaf, Split, Dummy; section 4.2).

Nodes are numbered level by level from the root, as XGBoost numbers them; a split names its two children. All roles know
a tree's outline, and nobody but the owner more of a split.

What a participant computes alone when rows are scored: the leaves that its own splits leave reachable (section 4.5).

The local indicator vectors s_m of Eq. 13, and the leaf weights, or shares of them, that the participant keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.table import Table


@dataclass(frozen=True, slots=True)
class Outline:
    """The public shape of one tree: its class, number of leaves, and the owners of its splits."""

    class_index: int
    leaves: int
    owners: tuple[int, ...]


Used = Sequence[tuple[int, Outline]]
"""The trees to score, each with its number in the model."""


@dataclass(frozen=True, slots=True)
class GrownSplit:
    """A split as one role saw it: its owner; for the owner the candidate, and whether "left" means its right side."""

    owner: int
    candidate: int
    flipped: bool
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class GrownLeaf:
    """A leaf; `place` counts the leaves of a level-wise batch in the order in which their rows are revealed."""

    place: int


GrownNode = GrownSplit | GrownLeaf


@dataclass(slots=True)
class GrownTree:
    """One tree in the making; None stands for a node whose fate is not decided yet."""

    nodes: list[GrownNode | None] = field(default_factory=lambda: [None])

    def split(self, node: int, owner: int, candidate: int, flipped: bool) -> tuple[int, int]:
        """Turn a node into a split and return the numbers of its new children."""
        left = len(self.nodes)
        self.nodes[node] = GrownSplit(owner, candidate, flipped, left, left + 1)
        self.nodes += [None, None]
        return left, left + 1

    def close(self, node: int, place: int) -> None:
        """Turn a node into a leaf."""
        self.nodes[node] = GrownLeaf(place)

    def leaf_places(self) -> list[int]:
        """Return the leaves' places in the order of their nodes."""
        return [node.place for node in self.nodes if isinstance(node, GrownLeaf)]

    def outline(self, class_index: int) -> Outline:
        """Return the public shape."""
        owners = {node.owner for node in self.nodes if isinstance(node, GrownSplit)}
        return Outline(class_index, len(self.leaf_places()), tuple(sorted(owners)))

    def path_owners(self) -> dict[int, set[int]]:
        """Return, per leaf place, the owners of the splits above it."""
        above: list[set[int]] = [set() for _ in self.nodes]
        leaves = {}
        for number, node in enumerate(self.nodes):
            if isinstance(node, GrownSplit):
                above[node.left] = above[node.right] = above[number] | {node.owner}
            elif isinstance(node, GrownLeaf):
                leaves[node.place] = above[number]
        return leaves


@dataclass(frozen=True, slots=True)
class Leaf:
    """A kept leaf; its weight, in units of 2^-32, and its cover (sum of hessians), at the active participant only.

    In the paper's way every participant has a `share` of the weight modulo 2^64 instead, and nobody the weight.
    """

    weight: int | None
    cover: float | None = None
    share: int | None = None


@dataclass(frozen=True, slots=True)
class Split:
    """A kept split of this participant.

    Rows with x <= threshold, or of another category than `category`, or with a missing value if `missing_left`, go to
    the first child; the first child is `left`, unless the split is `flipped`. Its `gain`, at the active participant.
    """

    feature: str
    threshold: float | None
    category: int | None
    missing_left: bool
    flipped: bool
    left: int
    right: int
    gain: float | None = None


@dataclass(frozen=True, slots=True)
class Dummy:
    """A kept split of somebody else: its owner and the children, and its `gain` at the active participant."""

    owner: int
    left: int
    right: int
    gain: float | None = None


Node = Leaf | Split | Dummy
Tree = tuple[Node, ...]


def outline(tree: Tree, class_index: int, role: int) -> Outline:
    """Return the public shape of a tree as a participant keeps it."""
    owners = {node.owner if isinstance(node, Dummy) else role for node in tree if not isinstance(node, Leaf)}
    return Outline(class_index, sum(isinstance(node, Leaf) for node in tree), tuple(sorted(owners)))


Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, eq=False)
class Scorer:
    """A participant's own part of a model, for scoring: its trees and its columns, with the table to score.

    `holds_shares` says that every participant has a share of the leaf weights; otherwise the active one has them.
    `takes_all` says that only sums over all trees may be revealed, as sealed models have it. `parallel` trees of a
    round belong to one class, side by side.
    """

    trees: Sequence[Tree]
    table: Table
    holds_shares: bool = False
    takes_all: bool = False
    parallel: int = 1
    walks: dict[tuple[int, ...], Walk] = field(default_factory=dict, repr=False)
    """What is prepared for trees that were asked for together."""

    def of(self, table: Table) -> Scorer:
        """Return the same for other rows; what is prepared for its trees is shared."""
        return replace(self, table=table)

    def marks(self, trees: Sequence[int], rows: slice) -> Bits:
        """Return s_m of some rows, (leaves of those trees, rows)."""
        chosen = tuple(trees)
        if chosen not in self.walks:
            self.walks[chosen] = Walk([self.trees[i] for i in chosen])
        return self.walks[chosen].reachable(self.table, rows)

    def weights(self, used: Used) -> npt.NDArray[np.int64]:
        """Return what this participant keeps of the weights of all leaves in use: the weights, or its shares."""
        leaves = [node for i, _ in used for node in self.trees[i] if isinstance(node, Leaf)]
        return np.array([leaf.share if self.holds_shares else _weight(leaf) for leaf in leaves], np.int64)

    def leaf_numbers(self, used: Used) -> npt.NDArray[np.int64]:
        """Return the numbers of all leaves in use, each in its own tree."""
        return np.array(
            [number for i, _ in used for number, node in enumerate(self.trees[i]) if isinstance(node, Leaf)], np.int64
        )

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


class Walk:
    """Trees as a participant keeps them, as arrays: all of them are walked at once, level by level.

    One row through 100 trees is some thousand nodes; node by node that takes longer than all messages of a batch.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        roots = np.cumsum([0, *map(len, trees)])
        self._nodes, self._roots = int(roots[-1]), roots[:-1]
        nodes = [(int(root), node) for root, tree in zip(roots[:-1], trees, strict=True) for node in tree]
        splits = [(number, root, node) for number, (root, node) in enumerate(nodes) if isinstance(node, Split)]
        dummies = [(number, root, node) for number, (root, node) in enumerate(nodes) if isinstance(node, Dummy)]
        self._leaves = np.array([i for i, (_, node) in enumerate(nodes) if isinstance(node, Leaf)], np.int64)
        self._names = sorted({split.feature for _, _, split in splits})
        place = {name: i for i, name in enumerate(self._names)}
        own = [split for _, _, split in splits]
        self._feature = np.array([place[split.feature] for split in own], np.int64)
        self._sides = Sides.of(own)
        depth = np.zeros(self._nodes, np.int64)
        for number, (root, node) in enumerate(nodes):
            if not isinstance(node, Leaf):
                depth[[root + node.left, root + node.right]] = depth[number] + 1
        children = [(s.right, s.left) if s.flipped else (s.left, s.right) for s in own]
        first = np.array([[n, r + a, r + b] for (n, r, _), (a, b) in zip(splits, children, strict=True)], np.int64)
        both = np.array([[n, r + d.left, r + d.right] for n, r, d in dummies], np.int64)
        first, both = first.reshape(-1, 3), both.reshape(-1, 3)
        levels = range(int(depth.max(initial=0)))
        self._own = [(chosen := np.flatnonzero(depth[first[:, 0]] == d), *first[chosen].T) for d in levels]
        self._others = [both[depth[both[:, 0]] == d].T for d in levels]

    def reachable(self, table: Table, rows: slice) -> Bits:
        """Return which leaves this participant's splits leave open, (leaves, rows): at a Dummy, both sides are."""
        columns = {column.name: column.values[rows] for column in table.columns}
        count = len(range(*rows.indices(table.rows)))
        values = np.array([columns[name] for name in self._names], np.float32).reshape(len(self._names), count)
        goes_first = self._sides.goes_first(values[self._feature])
        is_open = np.empty((self._nodes, count), bool)
        is_open[self._roots] = True
        for (splits, here, first, second), (dummy, left, right) in zip(self._own, self._others, strict=True):
            is_open[first] = is_open[here] & goes_first[splits]
            is_open[second] = is_open[here] & ~goes_first[splits]
            is_open[left] = is_open[right] = is_open[dummy]
        return is_open[self._leaves].astype(np.uint8)


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """What goes to the first child at some splits, an entry of each array for each."""

    threshold: npt.NDArray[np.float32]
    """Of splits by a threshold; NaN for others."""
    category: npt.NDArray[np.float32]
    """Of splits by a category; NaN for others."""
    missing_left: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, splits: Sequence[Split]) -> Sides:
        """Return the sides of some splits."""
        return cls(
            np.array([np.nan if s.threshold is None else s.threshold for s in splits], np.float32),
            np.array([np.nan if s.category is None else s.category for s in splits], np.float32),
            np.array([s.missing_left for s in splits], bool),
        )

    def goes_first(self, values: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
        """Return which values, (splits, rows), go to their split's first child."""
        by_category = ~np.isnan(self.category)[:, None] & (values != self.category[:, None])
        present = (values <= self.threshold[:, None]) | by_category
        return np.where(np.isnan(values), self.missing_left[:, None], present)


def goes_first(split: Split, values: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Return which values go to a split's first child."""
    first: npt.NDArray[np.bool_] = Sides.of([split]).goes_first(values[None])[0]
    return first
