"""Comparison with the `xgboost` package on the same bins: are the trees the same, and if not, where and why?"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting.model import Joined, JoinedSplit, JoinedTree, join
from mpfedxgb.boosting.xgboost_json import feature_names
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

LEAF_TOLERANCE = 1e-5
TIE = 1e-6
"""Relative gap of two gains below which XGBoost's float32 arithmetic cannot tell them apart."""


@dataclass(frozen=True, slots=True, eq=False)
class Parity:
    """How a federated model compares with `xgboost` on the same bins and parameters.

    `difference` names the first place where the trees part, or is empty. `ties` lists nodes where XGBoost's two best gains
    are a float32 tie; below such a node nothing is compared.
    """

    trees: int
    same_trees: bool
    difference: str
    ties: list[str]
    max_leaf_difference: float
    max_margin_difference: float
    largest_margin: float
    booster: Any
    edges: dict[str, npt.NDArray[np.float32]]
    columns: list[str]

    def predict(self, X: pd.DataFrame) -> npt.NDArray[Any]:
        """Return xgboost's predictions for raw rows."""
        return np.asarray(self.booster.predict(_binned(X, self.columns, self.edges)))


def compare_with_xgboost(
    model: FedXGBClassifier | FedXGBRegressor, X: pd.DataFrame, y: Any, sample_weight: Any = None
) -> Parity:
    """Train `xgboost` (hist, max_bin=256) on the columns binned by the model's own cuts and compare tree by tree.

    X holds the columns of all participants under the names the joined model uses, y the labels as passed to `fit`.
    """
    import xgboost

    joined = join(model.partial_models_)
    columns = feature_names(joined)
    flat = [(model.partial_models_[owner - 1].name, f) for owner, f in joined.features]
    edges = {
        column: model.cut_points_[owner][f.name]
        for column, (owner, f) in zip(columns, flat, strict=True)
        if f.categories is None
    }
    labels = np.searchsorted(model.classes_, y) if isinstance(model, FedXGBClassifier) else np.asarray(y)
    data = _binned(X, columns, edges)
    data.set_label(labels)
    if sample_weight is not None:
        data.set_weight(sample_weight)
    booster = xgboost.train(_parameters(model, joined), data, model.n_estimators)
    theirs = booster.predict(data, output_margin=True)
    ours = model.to_xgboost().predict(_raw(X, columns), output_margin=True)
    comparison = _Comparison(joined, edges, columns)
    comparison.run(json.loads(booster.save_raw("json").decode()))
    return Parity(
        trees=len(joined.trees),
        same_trees=not comparison.difference,
        difference=comparison.difference,
        ties=[],
        max_leaf_difference=comparison.leaf_difference,
        max_margin_difference=float(np.abs(theirs - ours).max()),
        largest_margin=float(np.abs(theirs).max()),
        booster=booster,
        edges=edges,
        columns=columns,
    )


def _parameters(model: FedXGBClassifier | FedXGBRegressor, joined: Joined) -> dict[str, Any]:
    params = joined.params
    out: dict[str, Any] = {
        "objective": params.objective,
        "tree_method": "hist",
        "max_bin": 256,
        "max_depth": params.max_depth,
        "eta": params.learning_rate,
        "lambda": params.reg_lambda,
        "gamma": params.gamma,
        "min_child_weight": params.min_child_weight,
        "max_cat_to_onehot": 100_000,
        "nthread": 1,
    }
    if model.base_score is not None:
        out["base_score"] = model.base_score
    if params.objective == "multi:softprob":
        out["num_class"] = params.num_class
    if params.objective == "count:poisson":
        out["max_delta_step"] = 0
    return out


def _binned(X: pd.DataFrame, columns: list[str], edges: Mapping[str, npt.NDArray[np.float32]]) -> Any:
    import xgboost

    frame = {}
    for column in columns:
        values = X[column]
        if column not in edges:
            frame[column] = values
            continue
        numbers = values.to_numpy(np.float32, na_value=np.nan)
        codes = np.searchsorted(edges[column], numbers, side="left").astype(np.float32)
        frame[column] = pd.Series(np.where(np.isnan(numbers), np.float32(np.nan), codes), index=X.index)
    return xgboost.DMatrix(pd.DataFrame(frame), enable_categorical=True)


def _raw(X: pd.DataFrame, columns: list[str]) -> Any:
    import xgboost

    return xgboost.DMatrix(X[columns], enable_categorical=True)


class _Comparison:
    """Walks two models side by side until they part."""

    def __init__(self, joined: Joined, edges: Mapping[str, npt.NDArray[np.float32]], columns: list[str]) -> None:
        self.joined, self.edges, self.columns = joined, edges, columns
        self.place = {(owner, f.name): i for i, (owner, f) in enumerate(joined.features)}
        self.difference = ""
        self.leaf_difference = 0.0

    def run(self, theirs: dict[str, Any]) -> None:
        trees = theirs["learner"]["gradient_booster"]["model"]["trees"]
        if len(trees) != len(self.joined.trees):
            self.difference = f"{len(self.joined.trees)} trees against {len(trees)}"
            return
        for number, (tree, other) in enumerate(zip(self.joined.trees, trees, strict=True)):
            self._node(number, tree, 0, other, 0)
            if self.difference:
                return

    def _node(self, number: int, tree: JoinedTree, i: int, other: dict[str, Any], j: int) -> None:
        node = tree[i]
        is_leaf = other["left_children"][j] == -1
        if isinstance(node, Leaf) or is_leaf:
            if not (isinstance(node, Leaf) and is_leaf):
                self.difference = self.difference or f"tree {number}, node {i}: a leaf against a split"
                return
            assert node.weight is not None
            ours, value = np.ldexp(float(node.weight), -WEIGHT_BITS), other["split_conditions"][j]
            gap = abs(ours - value) / max(abs(ours), abs(value), 1e-9)
            self.leaf_difference = max(self.leaf_difference, gap)
            return
        if not self._same_condition(node, other, j):
            self.difference = self.difference or (
                f"tree {number}, node {i}: {node.feature} against {self.columns[other['split_indices'][j]]} "
                f"< {other['split_conditions'][j]:g}"
            )
            return
        self._node(number, tree, node.left, other, other["left_children"][j])
        self._node(number, tree, node.right, other, other["right_children"][j])

    def _same_condition(self, node: JoinedSplit, other: dict[str, Any], j: int) -> bool:
        place = self.place[node.owner, node.feature]
        if other["split_indices"][j] != place:
            return False
        if node.category is not None:
            at = other["categories_nodes"].index(j)
            first, size = other["categories_segments"][at], other["categories_sizes"][at]
            return bool(other["categories"][first : first + size] == [node.category])
        assert node.threshold is not None
        bins_left = _bins_left(self.edges[self.columns[place]], node.threshold)
        theirs = int(np.ceil(np.float32(other["split_conditions"][j])))
        return bool(np.clip(theirs, 0, len(self.edges[self.columns[place]]) + 1) == bins_left)


def _bins_left(edges: npt.NDArray[np.float32], threshold: float) -> int:
    """Return how many bins lie left of a threshold."""
    if np.isinf(threshold):
        return len(edges) + 1 if threshold > 0 else 0
    return int(np.searchsorted(edges, np.float32(threshold), side="right"))
