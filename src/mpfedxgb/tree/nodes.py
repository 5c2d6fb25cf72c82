"""Trees as they are grown (owner and index of each split) and as they are kept (Leaf, Split, Dummy; section 4.2).

Nodes are numbered level by level from the root, as XGBoost numbers them; a split names its two children. All roles know
a tree's outline, and nobody but the owner more of a split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


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
    """A kept split of one's own.

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
