"""Small gradients keep their digits: those of classes that are nearly separable, and of rare ones in large tables."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.api.estimators import FedXGBClassifier
from mpfedxgb.boosting.join import JoinedTree, join
from mpfedxgb.boosting.objectives.classes import sigmoid
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

ROUNDS = 30
UNIT = 2.0**-WEIGHT_BITS


def leaf_of(tree: JoinedTree, row: npt.NDArray[np.float32], names: list[str]) -> int:
    """Return the number of the leaf that a row ends in."""
    number = 0
    while not isinstance(node := tree[number], Leaf):
        assert node.threshold is not None
        number = node.left if row[names.index(node.feature)] <= np.float32(node.threshold) else node.right
    return number


@pytest.mark.parametrize("reg_lambda", [0.0, 0.001])
def test_leaves_of_late_rounds_are_right(reg_lambda: float) -> None:
    """After 30 rounds g is below 1e-5, and leaves are as exact as in the first.

    Rounding moves g by at most 2^-30 of the largest, h by 2^-22 of the largest or 2^-24 lambda.
    """
    X = np.random.default_rng(3).integers(0, 6, (80, 4)).astype(np.float64)
    y = (X[:, 2] > 2).astype(np.float64)
    model = FedXGBClassifier(
        n_estimators=ROUNDS, max_depth=2, max_bin=8, learning_rate=1.0, reg_lambda=reg_lambda, min_child_weight=0.0
    ).fit(X, y)
    joined = join(model.partial_models_)
    names = [feature.name for _, feature in joined.features]

    margins = np.full(len(y), joined.base_margin[0])
    for tree in joined.trees:
        p = sigmoid(margins)
        g, h = p - y, np.maximum(p * (1 - p), 1e-16)
        leaves = np.array([leaf_of(tree, row, names) for row in X.astype(np.float32)])
        for number in set(leaves.tolist()):
            node, inside = tree[number], leaves == number
            assert isinstance(node, Leaf)
            assert node.weight is not None
            n, G, H = inside.sum(), g[inside].sum(), h[inside].sum() + reg_lambda
            off_g, off_h = n * 2.0**-30 * np.abs(g).max(), n * max(2.0**-22 * h.max(), 2.0**-24 * reg_lambda)
            allowed = (off_g + abs(G / H) * off_h) / H + UNIT
            assert abs(node.weight * UNIT + G / H) <= allowed
            margins[inside] += node.weight * UNIT
    assert np.abs(g).max() < 1e-5


@pytest.mark.parametrize("weighted", [False, True])
def test_a_rare_class_in_a_table_beyond_192_bits(weighted: bool) -> None:
    """Every h is 0.0004, far below lambda, and 100,000 of them are not: leaves are right to a part in 10 million."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 8, (100_000, 2)).astype(np.float64)
    y = (rng.random(len(X)) < np.where(X[:, 0] < 2, 1.2e-3, 1.5e-4)).astype(np.float64)
    weight = np.where(X[:, 1] < 4, 1.0, 0.7) if weighted else None
    model = FedXGBClassifier(n_estimators=1, max_depth=2, max_bin=8, security="none", base_score=0.0004)
    joined = join(model.fit(X, y, sample_weight=weight).partial_models_)
    names = [feature.name for _, feature in joined.features]

    p = float(sigmoid(np.array(joined.base_margin))[0])
    w = np.ones(len(X)) if weight is None else weight
    leaf = {tuple(cell): leaf_of(joined.trees[0], cell, names) for cell in np.unique(X, axis=0).astype(np.float32)}
    leaves = np.array([leaf[tuple(row)] for row in X.astype(np.float32)])
    assert len(joined.trees[0]) > 1
    for number in set(leaves.tolist()):
        node, inside = joined.trees[0][number], leaves == number
        assert isinstance(node, Leaf)
        assert node.weight is not None
        exact = -0.3 * math.fsum(w[inside] * (p - y[inside])) / (math.fsum(w[inside] * p * (1 - p)) + 1)
        assert node.weight * UNIT == pytest.approx(exact, rel=1e-7, abs=UNIT)
