"""Comparison with the `xgboost` package on the same bins: whether the trees are the same, and if not, where and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.models import to_booster
from mpfedxgb.api.settings import value_of
from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.join import Joined, join
from mpfedxgb.boosting.labels import read_groups, weights_of_groups
from mpfedxgb.boosting.objective import Floats, Origin
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.xgboost_json import feature_names
from mpfedxgb.data.table import is_text
from mpfedxgb.errors import UserError
from mpfedxgb.testing.comparison import Comparison, Edges, has_older_rules, leaves_out_at_random


@dataclass(frozen=True, slots=True, eq=False)
class Parity:
    """How a federated model compares with `xgboost` on the same bins and parameters.

    `difference` names the first place where the trees part, or is empty. `ties` names nodes where they part because
    XGBoost's two best scores are a float32 tie, or each model's split is the better one by its own rounding of g and h,
    or the better split has a side of just min_child_weight, which a sum may miss, or scores are beyond float32; trees
    for which g or h is beyond float32; and nodes at which an installed XGBoost before 3.4 goes by its own rules
    (comparison.py). From there on nothing is compared. Leaf differences are relative, and count beyond what rounding
    alone explains (rounding.py): each leaf is held to its own model's g and h. `rounded_leaves` are those that differ
    by more than 1e-5 for that reason, and `margin_resolution` is what rounding makes of the margin where that is most.
    """

    trees: int
    compared_trees: int
    difference: str
    ties: list[str]
    max_leaf_difference: float
    rounded_leaves: int
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

    def predict(self, X: pd.DataFrame, **options: Any) -> npt.NDArray[Any]:
        """Return xgboost's predictions for raw rows; options as Booster.predict takes them."""
        return np.asarray(self.booster.predict(_matrix(_binned(X, self.columns, self.edges)), **options))


def compare_with_xgboost(
    model: FedXGBClassifier | FedXGBRegressor,
    X: pd.DataFrame,
    y: Any,
    sample_weight: Any = None,
    base_margin: Any = None,
    qid: Any = None,
) -> Parity:
    """Train `xgboost` (hist) on the columns binned by the model's own cuts, a bin each, and compare tree by tree.

    X holds the columns of all participants under the names the joined model uses; y, sample_weight, base_margin
    and qid are those passed to `fit`; weights of groups are by row.
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
    beside: npt.NDArray[Any] | None = None
    if labels.ndim == 2:
        labels, beside = labels.T.astype(np.float64)
    weight = None if sample_weight is None else np.asarray(sample_weight, np.float64)
    binned = _binned(X, columns, edges)
    data = _matrix(binned)
    data.set_label(labels)
    if beside is not None:
        data.set_info(label_lower_bound=labels, label_upper_bound=beside)
    groups = None if qid is None else read_groups(np.asarray(qid), Origin("qid"))
    if groups is not None:
        data.set_info(qid=groups)
    raw = _matrix_of_codes(X[columns])
    if weight is not None:
        of_groups = weight if groups is None else weight[np.unique(groups, return_index=True)[1]]
        data.set_weight(of_groups)
        weight = weight if groups is None else weights_of_groups(weight, groups, Origin("sample_weight"))
    if base_margin is not None:
        data.set_base_margin(base_margin)
        raw.set_base_margin(base_margin)
    loss = joined.params.loss.with_function(model.objective if callable(model.objective) else None)
    loss = loss.with_beside(beside if groups is None else groups)
    if loss.draws:
        text = "lambdarank_pair_method='mean' draws pairs at random, as xgboost does from other numbers; use 'topk'"
        raise UserError(text, "refused", "lambdarank_pair_method", "mean")
    if loss.averages and has_older_rules(xgboost.__version__):
        text = (
            f"xgboost {xgboost.__version__} has another algorithm for {loss.name}, which replaces leaf weights; the "
            "trees follow XGBoost 3.4: install xgboost 3.4 or newer, which needs Python 3.12, to compare"
        )
        raise UserError(text, "version", "xgboost", xgboost.__version__)
    older = has_older_rules(xgboost.__version__)
    _refuse_drawn_drops(joined.params)
    directions = _directions(model, joined)
    if older:
        _refuse_other_gains(joined.params)
    known = Labels(labels.astype(np.float64), weight, scale_pos_weight=value_of(model, "scale_pos_weight"))
    y64, weight = known.y, known.row_weights
    start = None if base_margin is None else np.asarray(base_margin, np.float64).reshape(len(y64), -1).T

    seen: list[Floats] = []  # the margins of a custom objective, round by round

    def gradients(margins: Any, _: Any) -> Any:
        seen.append(margins.astype(np.float64)[None])
        return [part[0] for part in loss.gradients(y64, margins.astype(np.float64)[None], weight)]

    rounds = len(joined.trees) // joined.params.trees_per_round
    params = _parameters(model, joined) | ({"monotone_constraints": tuple(directions)} if any(directions) else {})
    booster = xgboost.train(params, data, rounds, obj=gradients if loss.is_custom else None)
    ours = to_booster(replace(joined, best_iteration=None))  # with the rounds that early stopping gave up, as theirs
    comparison = Comparison(joined, columns, edges, binned, y64, weight, loss, older, start, directions)
    comparison.run(json.loads(booster.save_raw("json").decode()), lambda t: _margins_before(booster, data, seen, t))
    margins = booster.predict(data, output_margin=True)
    return Parity(
        trees=len(joined.trees),
        compared_trees=comparison.compared,
        difference=comparison.difference,
        ties=comparison.ties,
        max_leaf_difference=comparison.leaf_difference,
        rounded_leaves=comparison.rounded_leaves,
        max_margin_difference=float(np.abs(margins - ours.predict(raw, output_margin=True)).max()),
        largest_margin=float(np.abs(margins).max()),
        margin_resolution=float(comparison.apart.max()),
        booster=booster,
        edges=edges,
        columns=columns,
    )


def _dropping(params: TrainParams) -> dict[str, Any]:
    """Return what makes `xgboost` leave trees out, before 3.4 too."""
    names = ("rate_drop", "skip_drop", "one_drop", "sample_type", "normalize_type")
    return {"booster": "dart"} | {name: getattr(params, name) for name in names} if params.drops_trees else {}


def _refuse_drawn_drops(params: TrainParams) -> None:
    """Raise UserError if dart draws trees at random: xgboost draws others."""
    if leaves_out_at_random(params):
        text = "trees are left out at random, and xgboost others; compare with rate_drop=1 or 0"
        raise UserError(text, "mode", "rate_drop", params.rate_drop)


def _directions(model: FedXGBClassifier | FedXGBRegressor, joined: Joined) -> list[int]:
    """Return the direction of every column of a joined model."""
    known: dict[str, dict[str, int]] = getattr(model, "monotone_constraints_", {})  # a loaded model has none
    by_owner = [known.get(name, {}) for name in joined.participants]
    return [by_owner[owner - 1].get(feature.name, 0) for owner, feature in joined.features]


def has_other_gains(params: TrainParams) -> bool:
    """Return whether an xgboost before 3.4 leaves the L1 penalty out of gains, as it does where weights are clipped."""
    return bool(params.reg_alpha and (params.largest_step or params.constrained))


def _refuse_other_gains(params: TrainParams) -> None:
    """Raise UserError if an older xgboost has other gains."""
    if has_other_gains(params):
        text = (
            "gains of clipped weights know of no reg_alpha before xgboost 3.4, which the trees follow; install 3.4 or "
            "newer, which needs Python 3.12, to compare"
        )
        raise UserError(text, "version", "xgboost")


def xgboost_parameters(params: TrainParams) -> dict[str, Any]:
    """Return the parameters with which `xgboost` grows the same trees on the numbers of the bins."""
    return {
        "objective": params.objective,
        "tree_method": "hist",
        "max_bin": max(256, params.max_bin),
        "max_depth": params.max_depth,
        "eta": params.learning_rate,
        "lambda": params.reg_lambda,
        "alpha": params.reg_alpha,
        "max_delta_step": params.largest_step,
        "gamma": params.gamma,
        "min_child_weight": params.min_child_weight,
        "max_cat_to_onehot": 100_000,
        "num_parallel_tree": params.num_parallel_tree,
        "nthread": 1,
        **_dropping(params),
    }


def _parameters(model: FedXGBClassifier | FedXGBRegressor, joined: Joined) -> dict[str, Any]:
    params = joined.params
    out = xgboost_parameters(params)
    if params.loss.is_custom:  # xgboost gets g and h, and takes its margins as they are
        out |= {"objective": params.loss.exported_as, "base_score": 0.0}
    if model.base_score is not None:
        out["base_score"] = model.base_score
    if (scale := value_of(model, "scale_pos_weight")) != 1:
        out["scale_pos_weight"] = scale
    return params.loss.xgboost_parameters(params.num_class) | out


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


def _matrix_of_codes(frame: pd.DataFrame) -> Any:
    """Return rows with categories as codes, which are those of our model; not every xgboost can match all words."""
    import xgboost

    kinds = ["c" if isinstance(dtype, pd.CategoricalDtype) else "float" for dtype in frame.dtypes]
    table = frame.copy(deep=False)
    for name in (name for name, kind in zip(frame.columns, kinds, strict=True) if kind == "c"):
        table[name] = frame[name].cat.codes.where(frame[name].notna())
    return xgboost.DMatrix(table, feature_types=kinds, enable_categorical=True)


def _margins_before(booster: Any, data: Any, seen: list[Floats], round_: int) -> tuple[Floats, bool]:
    """Return xgboost's margins before a round, not the first, and whether they are known to the last bit."""
    if seen:
        return seen[round_], True
    margins = booster.predict(data, output_margin=True, iteration_range=(0, round_))
    return np.asarray(margins, np.float64).reshape(data.num_row(), -1).T, False
