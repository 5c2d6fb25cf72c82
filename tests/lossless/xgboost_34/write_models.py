"""Write models.jsonl: small models of XGBoost 3.4.1, which needs Python 3.12 or newer.

    PYTHONPATH=tests python tests/lossless/xgboost_34/write_models.py

Each is a training that both sides can repeat: no samples of rows or columns, and no float32 tie among its splits, which
another seed avoids. The families of `FAMILIES` say what is difficult about them, and which rule of XGBoost before 3.4
would grow other trees; tests/lossless/test_recorded_models.py holds an older xgboost to that as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import xgboost

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.testing.comparison import LIGHT_ROOT, NO_HESSIAN, ends_a_node
from mpfedxgb.testing.parity import compare_with_xgboost
from mpfedxgb.testing.rounding import float32_gradients
from support.recorded_models import LOSSES, Recorded, cuts_of, splits_of, their_trees, write_models

ROWS = 40
VERSION = "3.4.1"

FAMILIES: dict[str, tuple[str, str, dict[str, Any], str, int]] = {
    "classes": ("binary", "binary:logistic", {}, "", 3),
    "classes, no least hessian": ("binary", "binary:logistic", {"min_child_weight": 0.0}, "", 3),
    "classes, no lambda": ("binary", "binary:logistic", {"min_child_weight": 0.0, "reg_lambda": 0.0}, "", 3),
    "classes, gamma": ("binary", "binary:logistic", {"gamma": 0.3}, "", 2),
    "classes, row weights": ("weighted binary", "binary:logistic", {"min_child_weight": 0.0}, "", 3),
    "classes, light root": ("binary", "binary:logistic", {"min_child_weight": 30.0, "base_score": 0.2}, LIGHT_ROOT, 4),
    "saturated classes": ("binary", "binary:logistic", {"learning_rate": 8.0, "min_child_weight": 0.0}, "", 3),
    "numbers": ("numbers", "reg:squarederror", {}, "", 3),
    "numbers, no lambda": ("numbers", "reg:squarederror", {"min_child_weight": 0.0, "reg_lambda": 0.0}, "", 3),
    "numbers, row weights": ("weighted numbers", "reg:squarederror", {"min_child_weight": 0.0}, "", 3),
    "numbers, light root": (
        "numbers",
        "reg:squarederror",
        {"min_child_weight": 50.0, "base_score": 9.0},
        LIGHT_ROOT,
        4,
    ),
    "several classes": ("several", "multi:softprob", {"min_child_weight": 0.2}, "", 4),
    "several classes, light roots": (
        "several",
        "multi:softprob",
        {"min_child_weight": 30.0, "base_score": 0.5},
        LIGHT_ROOT,
        2,
    ),
    "parallel trees": ("binary", "binary:logistic", {"num_parallel_tree": 3}, "", 2),
    "several classes, parallel trees": (
        "several",
        "multi:softprob",
        {"min_child_weight": 0.2, "num_parallel_tree": 2},
        "",
        2,
    ),
    "counts": ("counts", "count:poisson", {"max_delta_step": 0.0}, "", 3),
    "outliers": ("numbers", "reg:pseudohubererror", {"min_child_weight": 0.0, "base_score": 0.5}, "", 3),
    "shares": ("shares", "reg:logistic", {"min_child_weight": 0.2}, "", 2),
    "classes, raw margins": ("binary", "binary:logitraw", {}, "", 2),
    "classes, hinge": ("binary", "binary:hinge", {}, "", 2),
    "classes, L1": ("weighted binary", "binary:logistic", {"reg_alpha": 0.8}, "", 2),
    "numbers, L1 and clipped": ("numbers", "reg:squarederror", {"reg_alpha": 1.0, "max_delta_step": 0.9}, "", 3),
    "counts, clipped": ("counts", "count:poisson", {"max_delta_step": 0.7}, "", 2),
    "classes, constrained": ("binary", "binary:logistic", {"monotone_constraints": {"a": 1, "b": 1, "c": -1}}, "", 4),
    "numbers, constrained": (
        "weighted numbers",
        "reg:squarederror",
        {"monotone_constraints": {"a": -1, "b": 1}},
        "",
        3,
    ),
    "several classes, constrained": (
        "several",
        "multi:softprob",
        {"monotone_constraints": {"b": 1, "c": 1}, "min_child_weight": 0.2},
        "",
        2,
    ),
    "classes, constrained, L1 and clipped": (
        "binary",
        "binary:logistic",
        {"monotone_constraints": {"a": 1, "b": -1}, "reg_alpha": 0.4, "max_delta_step": 0.7},
        "",
        4,
    ),
    "several classes, likeliest": ("several", "multi:softmax", {"min_child_weight": 0.2}, "", 2),
    "logarithms": ("counts", "reg:squaredlogerror", {}, "", 2),
    "amounts": ("weighted amounts", "reg:gamma", {}, "", 2),
    "claims": ("counts", "reg:tweedie", {"tweedie_variance_power": 1.2}, "", 2),
    "outliers, slope": ("weighted numbers", "reg:pseudohubererror", {"huber_slope": 2.5, "base_score": 0.5}, "", 2),
    "absolute error": ("numbers", "reg:absoluteerror", {}, "", 2),
    "absolute error, row weights": ("weighted numbers", "reg:absoluteerror", {}, "", 2),
    "quantile": ("numbers", "reg:quantileerror", {"quantile_alpha": 0.8}, "", 2),
    "quantile, row weights": ("weighted numbers", "reg:quantileerror", {"quantile_alpha": 0.3}, "", 2),
    "several quantiles": ("numbers", "reg:quantileerror", {"quantile_alpha": [0.2, 0.5, 0.8]}, "", 2),
    "ranks": ("ranks", "rank:ndcg", {"min_child_weight": 0.1}, "", 2),
    "ranks, row weights": ("weighted ranks", "rank:pairwise", {"lambdarank_num_pair_per_sample": 3}, "", 2),
    "hits": ("hits", "rank:map", {"min_child_weight": 0.0, "lambdarank_normalization": False}, "", 2),
    "times": ("times", "survival:aft", {"aft_loss_distribution": "normal"}, "", 2),
    "hazards": ("weighted hazards", "survival:cox", {"min_child_weight": 0.1}, "", 2),
    "custom, heavy sides": ("numbers", "huber", {"min_child_weight": 1.0}, "", 2),
    "custom, sides of no hessian": ("numbers", "huber", {"min_child_weight": 0.0}, NO_HESSIAN, 4),
    "custom, sides of no hessian, no lambda": ("numbers", "huber", {"min_child_weight": 0.0, "reg_lambda": 0.0}, "", 2),
    "custom, rows of no hessian": ("numbers", "partly_flat", {"min_child_weight": 0.0}, NO_HESSIAN, 3),
    "custom, tiny hessians": ("numbers", "steep", {"min_child_weight": 0.0}, "", 1),
    "custom, no hessian at all": ("numbers", "flat", {"min_child_weight": 0.0}, "", 1),
    "custom, no hessian at all, heavy sides": ("numbers", "flat", {}, "", 1),
}
"""Labels, objective, parameters beside the usual ones, the older rule that is met, and how many models."""


def table_of(rng: np.random.Generator) -> pd.DataFrame:
    """Return columns with ties, missing values and categories."""
    a, b, c = np.round(rng.normal(size=(3, ROWS)), 1)
    a[rng.random(ROWS) < 0.15] = np.nan
    words = rng.choice(np.array(["x", "y", "z"], object), ROWS)
    words[rng.random(ROWS) < 0.1] = None
    return pd.DataFrame({"a": a, "b": b, "c": np.abs(c), "w": words})


def labels_of(rng: np.random.Generator, table: pd.DataFrame, kind: str) -> Any:
    """Return labels that depend on the columns."""
    signal = table["b"] + 2 * (table["a"].fillna(0.7) > 0.3) + (table["w"] == "y") + 0.3 * rng.normal(size=ROWS)
    if kind.endswith("binary"):
        return (signal > signal.median()).astype(int)
    if kind == "several":
        return pd.Series(np.digitize(signal, signal.quantile([0.4, 0.75])))
    if kind.endswith(("ranks", "hits")):
        return pd.Series(np.digitize(signal, signal.quantile([0.4, 0.6, 0.8])) // (3 if kind == "hits" else 1))
    if kind == "times":
        time = np.exp(np.clip(signal, -2, 2)).round(3)
        kinds = rng.integers(0, 3, ROWS)
        return np.stack([np.where(kinds == 1, 0, time), np.where(kinds == 2, np.inf, time * (1 + (kinds == 1)))], 1)
    if kind.endswith("hazards"):
        return (np.exp(np.clip(signal, -2, 2)) * rng.choice([-1, 1, 1], ROWS)).round(2)
    if kind == "shares":
        return (1 / (1 + np.exp(-signal))).round(2)
    if kind.endswith("amounts"):
        return np.exp(np.clip(signal, -2, 2)).round(3)
    if kind == "counts":
        return pd.Series(rng.poisson(np.exp(np.clip(signal, -2, 2))))
    return (3 * signal).round(2)


def candidates(name: str) -> Iterator[Recorded]:
    """Yield trainings of a family, seed after seed, without cuts and trees."""
    kind, objective, more, rule, _ = FAMILIES[name]
    for seed in range(200):
        rng = np.random.default_rng([seed, *name.encode()])
        table = table_of(rng)
        y = labels_of(rng, table, kind)
        weight = rng.choice([0.0, 0.5, 1.0, 2.0], ROWS).tolist() if kind.startswith("weighted") else None
        params = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "gamma": float(rng.choice([0.0, 0.05])), **more}
        columns = {str(c): [None if pd.isna(v) else v for v in table[c].tolist()] for c in table}
        qid = [row // 5 for row in range(ROWS)] if objective.startswith("rank:") else None
        if qid is not None and weight is not None:
            weight = [weight[5 * group] + 0.5 for group in qid]
        labels = [[low, None if np.isinf(high) else high] for low, high in y] if np.ndim(y) == 2 else y.tolist()
        yield Recorded(name, rule, objective, params, columns, labels, weight, {}, [], qid)


def record(one: Recorded) -> Recorded | None:
    """Return a training with its cuts and xgboost's trees; None if it has a tie, or only leaves where splits belong."""
    model = one.fit(security="none")
    weight = None if one.weight is None else np.array(one.weight)
    parity = compare_with_xgboost(model, one.table, one.labels, weight, qid=one.qid)
    assert parity.same_trees, (one.name, parity.difference)
    cuts = cuts_of(model)
    trees = their_trees(parity.booster, one.table, cuts)
    wants_splits = one.rule != LIGHT_ROOT and not one.name.startswith("custom, no hessian")
    if parity.ties or parity.rounded_leaves or (wants_splits and splits_of(trees[0]) is None):
        return None
    made = replace(one, cuts=cuts, trees=trees)
    return None if one.rule == NO_HESSIAN and not meets_no_hessian(made) else made


def meets_no_hessian(one: Recorded) -> bool:
    """Return whether the older rule would leave a split of the first tree, whose margins are all 0, a leaf."""
    params = TrainParams(objective="custom", min_child_weight=0.0, reg_lambda=one.params.get("reg_lambda", 1.0))
    loss = params.loss.with_function(LOSSES[one.objective])
    margins = np.zeros((1, ROWS))
    now = float32_gradients(params, loss, np.array(one.y), None, margins, margins)
    conditions = [
        (one.table.columns.get_loc(c), k, None, m)
        for c, e in one.cuts.items()
        for k in range(1, len(e) + 1)
        for m in (False, True)
    ]
    lefts = [goes_left(condition, one) for condition in conditions]

    def meets(tree: Any, rows: Any) -> bool:
        if isinstance(tree, float):
            return False
        left = goes_left(tree[:4], one)
        least = sum(now.sums(0, rows & side).score(now.reg_lambda).value for side in (left, ~left))
        if ends_a_node(params, now, 0, rows, lefts, 1.001 * least):
            return True
        return meets(tree[4], rows & left) or meets(tree[5], rows & ~left)

    return meets(one.trees[0], np.ones(ROWS, bool))


def goes_left(condition: Sequence[Any], one: Recorded) -> Any:
    """Return which rows go left by a recorded condition."""
    column, bins, category, missing_left = condition
    values = one.table.iloc[:, column]
    if category is not None:
        return np.where(values.isna(), missing_left, values.cat.codes != category).astype(bool)
    codes = np.searchsorted(one.cuts[values.name], values.to_numpy(np.float32), side="left")
    return np.where(values.isna(), missing_left, codes < bins).astype(bool)


def main() -> None:
    """Record every family."""
    if xgboost.__version__ != VERSION:
        sys.exit(f"xgboost {xgboost.__version__} is installed, and the records are of {VERSION}")
    models = []
    for name, (*_, count) in FAMILIES.items():
        found = list(islice((made for made in map(record, candidates(name)) if made is not None), count))
        assert len(found) == count, name
        models += [replace(made, name=f"{name}, {number}") for number, made in enumerate(found)]
    write_models(models)


if __name__ == "__main__":
    main()
