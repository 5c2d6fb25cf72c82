"""How much a participant's own features matter, as far as it may know."""

from __future__ import annotations

import pandas as pd

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.tree.nodes import Leaf, Node, Split, Tree


def split_counts(model: PartialModel) -> pd.Series[float]:
    """Return how many splits use each feature of a participant."""
    counts = _zeros(model)
    for tree in model.trees:
        for node in tree:
            if isinstance(node, Split):
                counts[node.feature] += 1
    return counts


def mean_cover(model: PartialModel) -> pd.Series[float]:
    """Return the mean sum of hessians in the nodes that each of the active participant's features splits."""
    return _mean(model, [_covers(tree) for tree in model.trees])


def mean_gain(model: PartialModel) -> pd.Series[float]:
    """Return the mean gain of the splits on each of the active participant's features."""
    return _mean(model, [[_gain(node) for node in tree] for tree in model.trees])


def _gain(node: Node) -> float:
    return 0.0 if isinstance(node, Leaf) or node.gain is None else node.gain


def _mean(model: PartialModel, worth: list[list[float]]) -> pd.Series[float]:
    """Return the mean worth, listed by tree and node, of the splits on each feature."""
    totals = _zeros(model)
    for tree, values in zip(model.trees, worth, strict=True):
        for node, value in zip(tree, values, strict=True):
            if isinstance(node, Split):
                totals[node.feature] += value
    means: pd.Series[float] = totals / split_counts(model).clip(lower=1)
    return means


def _covers(tree: Tree) -> list[float]:
    """Return the sum of hessians of every node, from those of the leaves; children follow their parents."""
    covers = [0.0] * len(tree)
    for number in reversed(range(len(tree))):
        node = tree[number]
        if isinstance(node, Leaf):
            covers[number] = node.cover or 0.0
        else:
            covers[number] = covers[node.left] + covers[node.right]
    return covers


def _zeros(model: PartialModel) -> pd.Series[float]:
    return pd.Series(0.0, index=[feature.name for feature in model.features])
