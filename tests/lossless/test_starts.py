"""Rows that begin at margins of their own, and positives that weigh more: the oracle's trees, and xgboost's numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRanker, FedXGBRegressor, join
from mpfedxgb.boosting.objectives import NAMED, OBJECTIVES
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.testing.parity import compare_with_xgboost
from plain_boosting import plain_trees
from plain_sealed import answer_to, joined_weights
from support.refusals import ANY, Expected, refused
from support.small_problems import Problem, problem_for, small_problem

Model = FedXGBClassifier | FedXGBRegressor
ROWS = 70
SMALL: dict[str, Any] = {"n_estimators": 3, "max_depth": 2, "max_bin": 6}


def starts_of(problem: Problem) -> Any:
    """Return margins for all rows, one for each class where there are several."""
    classes = len(np.unique(problem.y)) if problem.kind == "classes" else 1
    drawn = np.random.default_rng(3).normal(size=(ROWS, classes))
    return drawn if classes > 1 else drawn[:, 0]


def model_for(problem: Problem, **params: Any) -> Model:
    """Return the estimator that goes with a problem."""
    return (FedXGBRegressor if problem.kind == "regression" else FedXGBClassifier)(**SMALL | params)


@pytest.mark.parametrize(
    ("kind", "security", "topology"),
    [
        (kind, security, topology)
        for kind in ("binary", "regression", "classes")
        for security, topology in (("strict", "star"), ("strict", "mesh"), ("none", "star"), ("sealed", "mesh"))
        if (kind, security) != ("classes", "sealed")  # of which there is none
    ],
)
def test_trees_are_the_oracles_and_xgboosts(kind: str, security: str, topology: str) -> None:
    """With margins, with scale_pos_weight and with both, beside row weights; predictions are the exported model's."""
    problem = small_problem(11, kind, rows=ROWS, weighted=True)
    if kind == "regression":  # XGBoost asks for a label of 1, here a fifth of them
        problem = Problem(problem.tables, np.where(np.arange(ROWS) % 5, problem.y / 1000, 1.0), problem.weight, kind)
    starts = starts_of(problem)
    options = [(starts, 1.0)] if kind == "classes" else [(None, 3.0), (starts, 3.0)]
    for margins, scale in options:
        model = model_for(problem, security=security, topology=topology, scale_pos_weight=scale)
        model.fit(problem.tables, problem.y, problem.weight, base_margin=margins)

        if security == "sealed":
            answer = answer_to(model, problem.tables, problem.y, problem.weight, base_margin=margins)
            assert joined_weights(model.partial_models_) == answer.weights
            assert list(join(model.partial_models_).trees) == answer.trees
        else:
            expected = plain_trees(model, problem.tables, problem.y, problem.weight, base_margin=margins)
            assert list(join(model.partial_models_).trees) == expected
        parity = compare_with_xgboost(model, problem.whole, problem.y, problem.weight, margins)
        assert parity.same_trees, parity.difference
        assert parity.compared_trees == len(join(model.partial_models_).trees)
        assert parity.max_leaf_difference < 1e-5
        assert parity.max_margin_difference <= 1e-5 * parity.largest_margin
        predict = model.predict if isinstance(model, FedXGBRegressor) else model.decision_function
        ours, at = predict(problem.tables, base_margin=margins), {} if margins is None else {"base_margin": margins}
        binned = xgboost.DMatrix(problem.whole, enable_categorical=True, **at)
        np.testing.assert_allclose(ours, model.to_xgboost().predict(binned, output_margin=True), rtol=1e-5, atol=1e-5)
        if margins is not None:  # the rest of a prediction is the trees', the same wherever rows start
            rest = predict(problem.tables) - join(model.partial_models_).base_margin
            np.testing.assert_allclose(ours - margins, np.squeeze(rest), rtol=0, atol=1e-12)


@pytest.mark.parametrize("objective", [name for name in NAMED if OBJECTIVES[name].scales_positives])
def test_where_training_starts_is_xgboosts(objective: str) -> None:
    """With scale_pos_weight XGBoost fits a leaf to the weighed rows; scales of 0 and of next to 1 are no exception."""
    problem = problem_for(objective, 5, rows=ROWS)
    y = np.maximum(problem.y, 0.1) if objective == "reg:gamma" else problem.y
    y = np.where(np.arange(ROWS) % 4, y, 1)
    kind = FedXGBClassifier if OBJECTIVES[objective].has_classes else FedXGBRegressor
    for scale in (0.0, 0.3, 1.0000001, 8.0):
        model = kind(**SMALL | {"n_estimators": 1}, objective=objective, scale_pos_weight=scale, security="none")
        parity = compare_with_xgboost(model.fit(problem.tables, y), problem.whole, y)
        assert parity.same_trees, (scale, parity.difference)


def test_losses_that_do_not_scale_positives_refuse_it() -> None:
    """XGBoost passes over it in silence, or with a warning."""
    X, two = np.arange(80.0).reshape(40, 2), np.arange(40) % 2
    labels = {"multi": np.arange(40) % 3, "binary": two, "rank": two}
    for name in NAMED:
        if OBJECTIVES[name].scales_positives:
            continue
        kind = FedXGBClassifier if OBJECTIVES[name].has_classes else FedXGBRegressor
        groups = {"qid": np.arange(40) // 10} if name.startswith("rank:") else {}
        model: Any = (FedXGBRanker if groups else kind)(objective=name)
        y = np.arange(40) % 3 if name.startswith("multi:") else labels.get(name.partition(":")[0], 1 + two)
        y = np.column_stack([y, y]) if name == "survival:aft" else y
        with refused(SettingsError, "choice", "scale_pos_weight", 2.0):
            model.set_params(scale_pos_weight=2.0).fit(X, y, **groups)
        model.set_params(scale_pos_weight=1.0, n_estimators=1, security="none").fit(X, y, **groups)


def test_evaluation_rows_begin_at_their_own_margins() -> None:
    """Metrics are xgboost's own; one set has margins, another begins at base_score."""
    problem = small_problem(12, "binary", rows=ROWS)
    starts, later = starts_of(problem), np.linspace(-2, 2, 30)
    X, more = problem.whole[["c0", "c1", "c2"]].fillna(0.0), problem.whole[["c0", "c1", "c2"]].fillna(0.0)[:30]
    sets: dict[str, Any] = {"eval_set": [(X, problem.y), (more, problem.y[:30])], "base_margin_eval_set": [None, later]}
    shared: dict[str, Any] = {"n_estimators": 4, "max_depth": 2, "eval_metric": ["logloss", "auc"], "max_bin": 256}
    ours = FedXGBClassifier(**shared, security="none").fit(X, problem.y, base_margin=starts, **sets)
    theirs = xgboost.XGBClassifier(**shared, tree_method="hist")
    theirs.fit(X, problem.y, base_margin=starts, **sets, verbose=False)
    for name, metrics in theirs.evals_result().items():
        for metric, values in metrics.items():
            np.testing.assert_allclose(ours.evals_result_[name][metric], values, rtol=1e-4)
    strict = FedXGBClassifier(**shared).fit(X, problem.y, base_margin=starts, **sets)
    assert strict.evals_result_ == ours.evals_result_


def test_going_on_from_a_model_keeps_the_margins() -> None:
    """2 + 2 rounds are 4, if both fits get them."""
    problem = small_problem(13, "binary", rows=ROWS)
    starts = starts_of(problem)
    first, whole = (model_for(problem, n_estimators=n, security="none") for n in (2, 4))
    first.fit(problem.tables, problem.y, base_margin=starts)
    whole.fit(problem.tables, problem.y, base_margin=starts)
    more = model_for(problem, n_estimators=2, security="none")
    more.fit(problem.tables, problem.y, base_margin=starts, xgb_model=first)
    assert join(more.partial_models_).trees == join(whole.partial_models_).trees


def test_margins_follow_their_rows() -> None:
    """A frame of margins is held to the index, or put in order by the ids, as labels are."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(30, 3)), columns=list("abc"))
    y, starts = np.arange(30) % 3, pd.DataFrame(rng.normal(size=(30, 3)))
    settings: dict[str, Any] = {"n_estimators": 1, "max_depth": 1, "security": "none"}
    plain = FedXGBClassifier(**settings).fit(X, y, base_margin=starts.to_numpy())
    ids = X.assign(who=[f"p{i:02}" for i in range(30)])
    turned = starts.set_axis(pd.Index(ids["who"], name="who")).iloc[::-1]
    by_id = FedXGBClassifier(**settings, id="who").fit(ids, y, base_margin=turned)
    assert join(by_id.partial_models_).trees == join(plain.partial_models_).trees
    np.testing.assert_array_equal(
        by_id.predict_proba(ids, base_margin=turned), plain.predict_proba(X, base_margin=starts)
    )
    with refused(DataError, "mismatch", "base_margin", "X"):
        plain.predict_proba(X, base_margin=starts.iloc[::-1])


@pytest.mark.parametrize(
    ("margins", "expected"),
    [
        (np.zeros(9), ("mismatch", "base_margin", ANY)),
        (np.zeros((20, 2)), ("mismatch", "base_margin", ANY)),
        (np.full(20, np.nan), ("value", "base_margin", None)),
        (["much"] * 20, ("type", "base_margin", None)),
        (np.full(20, 1e9), ("range", "base_margin", None)),
    ],
)
def test_margins_that_cannot_be_used(margins: Any, expected: Expected) -> None:
    """The message names argument, value and remedy; a sealed log-loss has room for log-odds up to 128."""
    X, y = np.arange(40.0).reshape(20, 2), np.arange(20) % 2
    with refused(DataError, *expected):
        FedXGBClassifier().fit(X, y, base_margin=margins)
    with refused(DataError, *expected):
        FedXGBClassifier(n_estimators=1, security="none").fit(X, y).predict(X, base_margin=margins)
    with pytest.raises(Exception, match="base_margin holds numbers beyond 128"):
        FedXGBClassifier(n_estimators=1, security="sealed").fit(X, y, base_margin=np.full(20, 129.0))


def test_a_federated_table_brings_them() -> None:
    """To training, evaluation and scoring, in the rows that are taken of it."""
    problem = small_problem(14, "binary", rows=ROWS)
    starts, model = starts_of(problem), model_for(problem, security="none")
    table = FederatedTable(problem.tables, problem.y, base_margin=starts)
    model.fit(table[:50], eval_set={"later": (table[50:], problem.y[50:])})
    first, rest = ({name: t[rows] for name, t in problem.tables.items()} for rows in (slice(50), slice(50, None)))
    plain = model_for(problem, security="none")
    later: dict[str, Any] = {"eval_set": [(rest, problem.y[50:])], "base_margin_eval_set": [starts[50:]]}
    plain.fit(first, problem.y[:50], base_margin=starts[:50], **later)
    assert join(model.partial_models_).trees == join(plain.partial_models_).trees
    assert model.evals_result_["later"] == plain.evals_result_["validation_0"]
    np.testing.assert_array_equal(model.predict_proba(table[50:]), plain.predict_proba(rest, base_margin=starts[50:]))
