"""Trees in the making and trees as they are kept."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from mpfedxgb.tree import Dummy, GrownLeaf, GrownSplit, GrownTree, Leaf, Split
from mpfedxgb.tree.nodes import Outline, outline
from support.whole_trees import random_tree


def grown() -> GrownTree:
    """Return a tree of three splits: P2 at the root, P1 and P2 below."""
    tree = GrownTree()
    left, right = tree.split(0, owner=2, candidate=5, flipped=True)
    tree.split(right, owner=1, candidate=-1, flipped=False)
    tree.split(left, owner=2, candidate=0, flipped=False)
    for place, node in enumerate((3, 4, 5, 6)):
        tree.close(node, place)
    return tree


def test_nodes_are_numbered_as_they_come() -> None:
    """A split names its two children, numbered in the order in which nodes are split."""
    tree = grown()

    assert tree.nodes == [
        GrownSplit(2, 5, True, 1, 2),
        GrownSplit(2, 0, False, 5, 6),
        GrownSplit(1, -1, False, 3, 4),
        GrownLeaf(0),
        GrownLeaf(1),
        GrownLeaf(2),
        GrownLeaf(3),
    ]


def test_undecided_nodes_are_none() -> None:
    """A new tree is one node without a fate; a split makes two more."""
    tree = GrownTree()
    assert tree.nodes == [None]

    assert tree.split(0, 1, 3, False) == (1, 2)
    assert tree.nodes[1:] == [None, None]


def test_owners_of_paths() -> None:
    """Per leaf the owners of all splits above it; none above a single leaf."""
    assert grown().path_owners() == {0: {1, 2}, 1: {1, 2}, 2: {2}, 3: {2}}
    single = GrownTree()
    single.close(0, 7)
    assert single.path_owners() == {7: set()}


def test_leaves_and_owners_in_the_order_of_nodes() -> None:
    """Places of leaves as their nodes are numbered, however they were closed; every owner of a split once."""
    tree = GrownTree()
    left, right = tree.split(0, owner=3, candidate=-1, flipped=False)
    tree.close(right, 0)
    inner, other = tree.split(left, owner=3, candidate=2, flipped=True)
    tree.close(other, 4)
    tree.close(inner, 9)

    assert tree.leaf_places() == [0, 9, 4]
    assert tree.outline(5) == Outline(5, leaves=3, owners=(3,))
    assert grown().leaf_places() == [0, 1, 2, 3]
    assert grown().outline(0) == Outline(0, leaves=4, owners=(1, 2))
    single = GrownTree()
    single.close(0, 7)
    assert single.leaf_places() == [7]
    assert single.outline(0) == Outline(0, leaves=1, owners=())


def test_kept_nodes_do_not_change() -> None:
    """What is kept is frozen; a dummy has an owner and children, and a gain that only the active participant knows."""
    for node in (Leaf(3), Dummy(2, 1, 2), Split("age", 4.5, None, True, False, 1, 2)):
        with pytest.raises((FrozenInstanceError, TypeError)):
            node.left = 9  # type: ignore[union-attr, misc] # it is to fail
    assert set(Dummy.__slots__) == {"owner", "left", "right", "gain"}
    assert Dummy(2, 1, 2).gain is None


def test_public_outline_is_the_same_for_all() -> None:
    """Every participant's view has the same class, number of leaves and owners."""
    tree = random_tree(np.random.default_rng(3), [1, 2, 3], 4)
    owners = {node[0] for node in tree.nodes if not isinstance(node, Leaf)}
    leaves = sum(isinstance(node, Leaf) for node in tree.nodes)

    for m in (1, 2, 3):
        assert outline(tree.view(m), 5, m) == Outline(5, leaves, tuple(sorted(owners)))
