"""Comparison with the `xgboost` package on the same bins: whether the trees are the same, and if not, where and why."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.models import to_booster
from mpfedxgb.api.rounding import FLOAT32, RoundedGradients, rounded_gradients
from mpfedxgb.boosting.join import Joined, JoinedSplit, JoinedTree, join
from mpfedxgb.boosting.objective import Floats, Objective
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.xgboost_json import feature_names
from mpfedxgb.data.table import is_text
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

TIE = 1e-6
"""Relative gap of two scores below which XGBoost's float32 arithmetic cannot tell them apart."""

Edges = Mapping[str, npt.NDArray[np.float32]]
Rows = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Parity:
    """How a federated model compares with `xgboost` on the same bins and parameters.

    `difference` names the first place where the trees part, or is empty. `ties` names nodes where they part because
    XGBoost's two best scores are a float32 tie, or nearer than the rounding of g and h can tell, or the better split
    has a side of just min_child_weight, which a sum may miss; and trees for which g or h is beyond float32. From there
    on nothing is compared. Leaf differences are relative, and count beyond what rounding alone explains (rounding.py);
    `margin_resolution` is that for the margin of the row where it is largest.
    """

    trees: int
    compared_trees: int
    difference: str
    ties: list[str]
    max_leaf_difference: float
    max_margin_difference: float
    largest_margin: float
    margin_resolution: float
    booster: Any
    edges: Edges
    columns: list[str]

    @property
    def same_trees(self) -> bool:
        """Whether nothing but float32 ties sets the trees apart."""
        return not self.difference

    def predict(self, X: pd.DataFrame) -> npt.NDArray[Any]:
        """Return xgboost's predictions for raw rows."""
        return np.asarray(self.booster.predict(_matrix(_binned(X, self.columns, self.edges))))


def compare_with_xgboost(
    model: FedXGBClassifier | FedXGBRegressor, X: pd.DataFrame, y: Any, sample_weight: Any = None
) -> Parity:
    """Train `xgboost` (hist) on the columns binned by the model's own cuts, a bin each, and compare tree by tree.

    X holds the columns of all participants under the names the joined model uses, y and sample_weight are those passed
    to `fit`.
    """
    import xgboost

    joined = join(model.partial_models_)
    columns = feature_names(joined)
    X = _with_categories(X, columns, joined)
    edges = {
        column: model.cut_points_[joined.participants[owner - 1]][f.name]
        for column, (owner, f) in zip(columns, joined.features, strict=True)
        if f.categories is None
    }
    labels = np.searchsorted(model.classes_, y) if isinstance(model, FedXGBClassifier) else np.asarray(y)
    weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
    binned = _binned(X, columns, edges)
    data = _matrix(binned)
    data.set_label(labels)
    if weight is not None:
        data.set_weight(weight)
    loss = joined.params.loss.with_function(model.objective if callable(model.objective) else None)
    y64 = labels.astype(np.float64)

    def gradients(margins: Any, _: Any) -> Any:
        parts = loss.gradients(y64, margins.astype(np.float64)[None])
        return [part[0] if weight is None else part[0] * weight for part in parts]  # xgboost leaves weights to it

    rounds = len(joined.trees) // joined.params.trees_per_round
    booster = xgboost.train(_parameters(model, joined), data, rounds, obj=gradients if loss.is_custom else None)
    ours = to_booster(replace(joined, best_iteration=None))  # with the rounds that early stopping gave up, as theirs
    raw = _matrix(X[columns])
    comparison = _Comparison(joined, columns, edges, binned, y64, weight, ours, raw, loss)
    comparison.run(json.loads(booster.save_raw("json").decode()))
    margins = booster.predict(data, output_margin=True)
    return Parity(
        trees=len(joined.trees),
        compared_trees=comparison.compared,
        difference=comparison.difference,
        ties=comparison.ties,
        max_leaf_difference=comparison.leaf_difference(),
        max_margin_difference=float(np.abs(margins - ours.predict(raw, output_margin=True)).max()),
        largest_margin=float(np.abs(margins).max()),
        margin_resolution=float(comparison.margin_errors.max()),
        booster=booster,
        edges=edges,
        columns=columns,
    )


def xgboost_parameters(params: TrainParams) -> dict[str, Any]:
    """Return the parameters with which `xgboost` grows the same trees on the numbers of the bins."""
    return {
        "objective": params.objective,
        "tree_method": "hist",
        "max_bin": max(256, params.max_bin),
        "max_depth": params.max_depth,
        "eta": params.learning_rate,
        "lambda": params.reg_lambda,
        "gamma": params.gamma,
        "min_child_weight": params.min_child_weight,
        "max_cat_to_onehot": 100_000,
        "nthread": 1,
    }


def _parameters(model: FedXGBClassifier | FedXGBRegressor, joined: Joined) -> dict[str, Any]:
    params = joined.params
    out = xgboost_parameters(params)
    if params.loss.is_custom:  # xgboost gets g and h, and takes its margins as they are
        out |= {"objective": params.loss.exported_as, "base_score": 0.0}
    if model.base_score is not None:
        out["base_score"] = model.base_score
    return out | params.loss.xgboost_parameters(params.num_class)


def _with_categories(X: pd.DataFrame, columns: list[str], joined: Joined) -> pd.DataFrame:
    """Return X with texts as categories, in the order of the model's codes."""
    kinds = {
        column: pd.CategoricalDtype(list(f.categories))
        for column, (_, f) in zip(columns, joined.features, strict=True)
        if f.categories is not None and is_text(X[column])
    }
    return X.astype(kinds)


def _binned(X: pd.DataFrame, columns: list[str], edges: Edges) -> pd.DataFrame:
    """Return the columns with numbers replaced by the numbers of their bins."""
    frame = {}
    for column in columns:
        frame[column] = X[column]
        if column in edges:
            numbers = X[column].to_numpy(np.float32, na_value=np.nan)
            codes = np.searchsorted(edges[column], numbers, side="left").astype(np.float32)
            frame[column] = pd.Series(np.where(np.isnan(numbers), np.float32(np.nan), codes), index=X.index)
    return pd.DataFrame(frame)


def _matrix(frame: pd.DataFrame) -> Any:
    import xgboost

    return xgboost.DMatrix(frame, enable_categorical=True)


@dataclass(frozen=True, slots=True)
class _Condition:
    """A split on binned columns: rows in the first `bins` bins, or not of `category`, go left."""

    column: int
    bins: int
    category: int | None
    missing_left: bool


class _Comparison:
    """Walks two models side by side, and judges where they part."""

    def __init__(
        self,
        joined: Joined,
        columns: list[str],
        edges: Edges,
        binned: pd.DataFrame,
        y: Floats,
        weight: Floats | None,
        ours: Any,
        raw: Any,
        loss: Objective,
    ) -> None:
        self.joined, self.columns, self.edges, self.y, self.weight = joined, columns, edges, y, weight
        self.ours, self.raw, self.loss = ours, raw, loss
        self.place = {(owner, f.name): i for i, (owner, f) in enumerate(joined.features)}
        self.codes = [
            np.where(c.isna(), np.nan, c.cat.codes) if isinstance(c.dtype, pd.CategoricalDtype) else c.to_numpy()
            for c in (binned[column] for column in columns)
        ]
        self.difference = ""
        self.ties: list[str] = []
        self.compared = 0
        self.margin_errors = np.zeros((joined.params.trees_per_round, len(y)))
        self._leaves: list[tuple[float, float, float]] = []
        self._now: RoundedGradients

    def run(self, theirs: dict[str, Any]) -> None:
        """Compare all trees, or those up to the end of the first round with a tie."""
        trees = theirs["learner"]["gradient_booster"]["model"]["trees"]
        if len(trees) != len(self.joined.trees):
            self.difference = f"{len(self.joined.trees)} trees against {len(trees)}"
            return
        self._start(theirs["learner"]["learner_model_param"]["base_score"])
        if self.difference:
            return
        per_round = self.joined.params.trees_per_round
        for number, (tree, other) in enumerate(zip(self.joined.trees, trees, strict=True)):
            if number % per_round == 0:
                if self.ties:
                    return
                self._now = self._gradients(number // per_round)
                if not self._now.fit_float32:
                    self.ties.append(f"tree {number}: g or h is beyond float32, so xgboost cannot go on")
                    return
            self._node(number, tree, 0, other, 0, np.ones(len(self.y), bool))
            if self.difference:
                return
            self.compared += 1

    def _start(self, base_score: str) -> None:
        """Compare where training starts; xgboost adds up in float32, so each row may cost it a rounding."""
        ours = np.array(self.joined.base_margin)
        theirs = np.broadcast_to(self.loss.link.to_margin(np.atleast_1d(json.loads(base_score))), ours.shape)
        self.margin_errors += np.abs(ours - theirs)[:, None]
        largest = max(1.0, float(np.abs(ours).max()), float(np.abs(self.y).max()))
        if np.abs(ours - theirs).max() > FLOAT32 * len(self.y) * largest:
            self.difference = f"training starts from {ours}, xgboost's from {theirs}"

    def leaf_difference(self) -> float:
        """Return the largest relative difference of two leaves, beyond what rounding alone explains."""
        if not self._leaves:
            return 0.0
        a, b, resolution = np.array(self._leaves).T
        beyond = np.maximum(np.abs(a - b) - resolution, 0)
        return float((beyond / np.maximum(np.maximum(np.abs(a), np.abs(b)), 1e-30)).max())

    def _leaf(self, number: int, weight: int, theirs: float, rows: Rows, is_root: bool) -> None:
        """Compare two leaves of the same rows; their margins may be off from now on by as much as the leaves."""
        params, class_ = self.joined.params, number % self.joined.params.trees_per_round
        ours = float(np.ldexp(float(weight), -WEIGHT_BITS))
        error = self._now.sums(class_, rows).leaf_error(params.reg_lambda, params.learning_rate) + 2.0**-WEIGHT_BITS
        self.margin_errors[class_, rows] += error
        self._leaves.append((ours, theirs, error))
        if is_root and abs(ours - theirs) > error + max(1e-5, 1e-3 * abs(theirs)):
            self.difference = f"tree {number} is a single leaf of {ours:.9g}, xgboost's one of {theirs:.9g}"

    def _node(self, number: int, tree: JoinedTree, i: int, other: dict[str, Any], j: int, rows: Rows) -> None:
        node, is_leaf = tree[i], other["left_children"][j] == -1
        if isinstance(node, Leaf) and is_leaf:
            assert node.weight is not None
            self._leaf(number, node.weight, float(other["split_conditions"][j]), rows, is_root=i == 0)
            return
        mine = None if isinstance(node, Leaf) else self._ours(node)
        yours = None if is_leaf else self._theirs(other, j)
        if mine != yours or isinstance(node, Leaf):
            self._judge(f"tree {number}, node {i}", number, mine, yours, rows)
            return
        assert mine is not None
        left = rows & self._left(mine)
        self._node(number, tree, node.left, other, other["left_children"][j], left)
        self._node(number, tree, node.right, other, other["right_children"][j], rows & ~left)

    def _ours(self, node: JoinedSplit) -> _Condition:
        column = self.place[node.owner, node.feature]
        if node.category is not None:
            return self._condition(column, 0, node.category, node.missing_left)
        assert node.threshold is not None
        edges = self.edges[self.columns[column]]
        bins = int(np.searchsorted(edges, np.float32(min(node.threshold, 3.4e38)), side="right"))
        return self._condition(column, len(edges) + 1 if np.isposinf(node.threshold) else bins, None, node.missing_left)

    def _theirs(self, other: dict[str, Any], j: int) -> _Condition:
        column, missing_left = other["split_indices"][j], bool(other["default_left"][j])
        if other["split_type"][j]:
            at = other["categories_nodes"].index(j)
            return self._condition(column, 0, other["categories"][other["categories_segments"][at]], missing_left)
        bins = int(np.ceil(np.clip(other["split_conditions"][j], 0, len(self.edges[self.columns[column]]) + 1)))
        return self._condition(column, bins, None, missing_left)

    def _condition(self, column: int, bins: int, category: int | None, missing_left: bool) -> _Condition:
        # Where a column has no missing values in training, the default side means nothing.
        return _Condition(column, bins, category, missing_left and bool(np.isnan(self.codes[column]).any()))

    def _left(self, condition: _Condition) -> Rows:
        codes = self.codes[condition.column]
        present = codes < condition.bins if condition.category is None else codes != condition.category
        return np.where(np.isnan(codes), condition.missing_left, present)

    def _judge(self, where: str, number: int, mine: _Condition | None, yours: _Condition | None, rows: Rows) -> None:
        """Decide whether rounding can make two splits of one node a tie, by their scores in double precision."""
        class_ = number % self.joined.params.trees_per_round
        (a, a_least, a_most), (b, b_least, b_most) = (self._score(c, class_, rows) for c in (mine, yours))
        text = f"{where}: {self._describe(mine)} scores {a:.9g}, xgboost's {self._describe(yours)} {b:.9g}"
        if abs(a - b) <= TIE * max(abs(a), abs(b)):
            self.ties.append(f"{text}; float32 cannot tell them apart")
        elif max(a_least, b_least) <= min(a_most, b_most):
            self.ties.append(f"{text}; rounding of g and h explains it")
        elif self._is_at_minimum(mine if a > b else yours, class_, rows):
            self.ties.append(f"{text}; the better one has a side of min_child_weight")
        else:
            self.difference = self.difference or text

    def _score(self, condition: _Condition | None, class_: int, rows: Rows) -> Floats:
        """Return the score of a split or, with gamma, of none, and the least and the most that it may be."""
        params = self.joined.params
        sides = [rows] if condition is None else [rows & self._left(condition), rows & ~self._left(condition)]
        scores = [self._now.sums(class_, side).score(params.reg_lambda) for side in sides if side.any()]
        return np.asarray(np.sum(scores, axis=0) + (max(params.gamma, 1e-6) if condition is None else 0.0))

    def _is_at_minimum(self, condition: _Condition | None, class_: int, rows: Rows) -> bool:
        """Return whether a side is so near to min_child_weight that rounding decides whether it is allowed."""
        least = self.joined.params.min_child_weight
        if condition is None or least == 0:
            return False
        left = self._left(condition)
        sums = [self._now.sums(class_, rows & side) for side in (left, ~left)]
        return any(abs(side.H - least) < TIE * least + side.off_h for side in sums)

    def _gradients(self, round_: int) -> RoundedGradients:
        """Return g and h of a round, from the margins before it."""
        margins = np.array(self.joined.base_margin)[:, None] + np.zeros(len(self.y))
        if round_:
            known = self.ours.predict(self.raw, output_margin=True, iteration_range=(0, round_))
            margins = np.asarray(known, np.float64).reshape(len(self.y), -1).T
        return rounded_gradients(self.joined.params, self.loss, self.y, self.weight, margins, self.margin_errors)

    def _describe(self, condition: _Condition | None) -> str:
        if condition is None:
            return "leaf"
        what = f"first {condition.bins} bins" if condition.category is None else f"not category {condition.category}"
        return f"{self.columns[condition.column]} ({what}{', missing' if condition.missing_left else ''})"
