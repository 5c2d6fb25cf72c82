"""DART at the active participant: which trees rounds leave out, and how they are scaled, as the oracle and xgboost do.

Whole trainings are the oracle's in strict and none, and the exported model predicts the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, PartialModel, join
from mpfedxgb.boosting.dart import scales_after, trees_to_drop
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.reference import RefDart
from mpfedxgb.testing.comparison import SHARED_RATE, has_older_rules
from mpfedxgb.testing.parity import compare_with_xgboost
from plain_boosting import plain_trees
from support.refusals import refused
from support.small_problems import Problem, small_problem
from support.small_trainings import models, training_of

SMALL: dict[str, Any] = {"n_estimators": 5, "max_depth": 2, "max_bin": 6, "random_state": 3}
DROPS: dict[str, Mapping[str, Any]] = {
    "some": {"rate_drop": 0.5},
    "one at least": {"rate_drop": 0.0, "one_drop": True, "normalize_type": "forest"},
    "weighted": {"rate_drop": 0.95, "sample_type": "weighted", "skip_drop": 0.01},
    "all": {"rate_drop": 1.0},
}


def dart(**params: Any) -> TrainParams:
    """Return parameters of a training."""
    return TrainParams(booster="dart", **params)


def as_reference(params: TrainParams) -> RefDart:
    """Return the oracle's form of them."""
    kinds = params.sample_type == "weighted", params.normalize_type == "forest"
    return RefDart(params.rate_drop, params.skip_drop, params.one_drop, *kinds, params.learning_rate)


@pytest.mark.parametrize("sample_type", ["uniform", "weighted"])
@pytest.mark.parametrize("normalize_type", ["tree", "forest"])
def test_rounds_are_the_oracles(sample_type: str, normalize_type: str) -> None:
    """Forty rounds after each other, of one tree and of several, with every chance and learning rate."""
    rng = np.random.default_rng(5)
    for new in (1, 3):
        scales: tuple[float, ...] = ()
        for _ in range(40):
            params = dart(
                rate_drop=float(rng.choice([0.0, 0.1, 0.7, 1.0])),
                skip_drop=float(rng.choice([0.0, 0.3, 1.0])),
                one_drop=bool(rng.random() < 0.5),
                learning_rate=float(rng.choice([1e-3, 0.3, 1.0, 7.0])),
                sample_type=sample_type,
                normalize_type=normalize_type,
            )
            drawn = rng.random(len(scales) + 2)
            chosen = trees_to_drop(params, scales, drawn)
            assert chosen == as_reference(params).left_out(scales, drawn.tolist())
            expected = as_reference(params).rescaled(scales, chosen, new)
            scales = scales_after(params, scales, chosen, new)
            assert list(scales) == expected
            assert all(0 <= scale <= 1 for scale in scales)


RECORDED = [
    ("tree", 1, [0.66411984, 0.66411984, 0.4017925, 0.29598716, 0.2375297]),
    ("tree", 2, [0.8095097, 0.40475485, 0.22362708, 0.15691166, 0.12180268]),
    ("forest", 3, [0.46650743, 0.46650743, 0.564474, 0.6830135, 0.8264463]),
]
"""weight_drop of xgboost 3.4.1 after five rounds, with rate_drop=1 and eta=0.21; all trees of a round have the same."""


@pytest.mark.parametrize(("normalize_type", "new", "expected"), RECORDED)
def test_scales_are_those_of_xgboost_34(normalize_type: str, new: int, expected: list[float]) -> None:
    """To the last bit, whatever is installed; an older xgboost divides the learning rate by the trees of a round."""
    params = dart(rate_drop=1.0, learning_rate=0.21, normalize_type=normalize_type)
    scales: tuple[float, ...] = ()
    for _ in expected:
        scales = scales_after(params, scales, range(len(scales)), new)
    assert scales == tuple(float(np.float32(scale)) for scale in expected for _ in range(new))


def test_what_is_left_out() -> None:
    """Chances of 0 and 1 are certain; a skipped round leaves nothing out; the first round has nothing to leave out."""
    scales, low, high = (1.0, 0.5, 0.25), np.zeros(5), np.full(5, 1 - 2.0**-53)
    assert trees_to_drop(dart(rate_drop=1.0), scales, high) == [0, 1, 2]
    assert trees_to_drop(dart(rate_drop=0.0), scales, low) == []
    assert trees_to_drop(dart(rate_drop=1.0, skip_drop=1.0, one_drop=True), scales, high) == []
    assert trees_to_drop(dart(rate_drop=1.0, one_drop=True), (), low[:2]) == []
    assert trees_to_drop(dart(one_drop=True), scales, high) == [2]
    assert trees_to_drop(dart(one_drop=True, sample_type="weighted"), scales, np.full(5, 0.6)) == [1]


@pytest.mark.parametrize("normalize_type", ["tree", "forest"])
@pytest.mark.parametrize(("kind", "parallel"), [("binary", 1), ("regression", 2), ("classes", 1), ("classes", 2)])
def test_parity_with_all_trees_left_out(kind: str, parallel: int, normalize_type: str) -> None:
    """Nothing is drawn at random then: xgboost's trees, and its weight_drop to the last bit."""
    problem = small_problem(4, kind)
    params = SMALL | {"n_estimators": 12, "num_parallel_tree": parallel, "learning_rate": 0.21}
    model = fit(problem, **params, rate_drop=1.0, normalize_type=normalize_type, security="none")
    parity = compare_with_xgboost(model, problem.whole, problem.y)
    assert parity.same_trees, parity.difference
    assert parity.compared_trees == parity.trees
    if has_older_rules(xgboost.__version__) and model.partial_models_[0].params.trees_per_round > 1:
        assert parity.ties == [f"scales of trees: {SHARED_RATE}"]
        return
    assert not parity.ties
    assert parity.max_margin_difference <= 1e-6 * max(1.0, parity.largest_margin)


def test_another_scale_is_a_difference() -> None:
    """The comparison looks at scales, and refuses to compare trees left out at random."""
    problem = small_problem(4, "binary")
    model = fit(problem, **SMALL, rate_drop=1.0, security="none")
    first = model.partial_models_[0]
    assert first.tree_scales is not None
    model.partial_models_[0] = replace(first, tree_scales=(*first.tree_scales[:-1], 0.5))
    assert "scaled" in compare_with_xgboost(model, problem.whole, problem.y).difference
    drawn = fit(problem, **SMALL, rate_drop=0.5, security="none")
    with refused(UserError, "mode", "rate_drop"):
        compare_with_xgboost(drawn, problem.whole, problem.y)


def fit(problem: Problem, **params: Any) -> FedXGBClassifier | FedXGBRegressor:
    """Train with booster="dart"."""
    kind = FedXGBRegressor if problem.kind == "regression" else FedXGBClassifier
    model: FedXGBClassifier | FedXGBRegressor = kind(booster="dart", **params)
    return model.fit(problem.tables, problem.y, problem.weight, eval_set=[(problem.tables, problem.y)])


@pytest.mark.parametrize("drops", DROPS)
@pytest.mark.parametrize(
    ("kind", "topology", "more"),
    [
        ("binary", "star", {"eval_metric": ["logloss"]}),
        ("regression", "mesh", {"subsample": 0.7, "eval_metric": ["rmse"]}),
        ("classes", "star", {"num_parallel_tree": 2, "colsample_bynode": 0.6, "eval_metric": ["mlogloss"]}),
    ],
)
def test_trainings_are_the_oracles(kind: str, topology: str, more: Mapping[str, Any], drops: str) -> None:
    """In strict and none alike; scoring adds up what training did, and so does xgboost from the exported model."""
    problem = small_problem(7, kind, rows=50, weighted=True)
    params = {**SMALL, **more, **DROPS[drops], "topology": topology, "n_estimators": 3}
    models = [fit(problem, **params, security=security) for security in ("strict", "none")]
    strict, plain = (join(model.partial_models_) for model in models)
    assert list(strict.trees) == plain_trees(models[0], problem.tables, problem.y, problem.weight)
    assert (strict.trees, strict.tree_scales) == (plain.trees, plain.tree_scales)
    assert models[0].evals_result_ == models[1].evals_result_
    assert set(strict.tree_scales or ()) != {1.0}

    margins = models[0].predict(problem.tables, output_margin=True)
    assert (margins == models[1].predict(problem.tables, output_margin=True)).all()
    again = fit(problem, **params, security="none").predict(problem.tables, output_margin=True)
    assert (again == margins).all()
    exported = models[0].to_xgboost()
    theirs = exported.predict(coded(problem, models[0]), output_margin=True)
    np.testing.assert_allclose(
        np.reshape(theirs, np.shape(margins)), margins, rtol=2e-6, atol=2e-6 * np.abs(margins).max()
    )


def coded(problem: Problem, model: Any) -> xgboost.DMatrix:
    """Return rows as the Booster takes them."""
    whole = pd.concat(list(problem.tables.values()), axis=1)
    return xgboost.DMatrix(whole, enable_categorical=True)


def test_metrics_are_those_of_predictions() -> None:
    """Of all trees, as they are scaled after each round."""
    problem = small_problem(7, "binary", rows=90)
    for rounds in (1, 3, 5):
        model = fit(problem, **SMALL | {"n_estimators": rounds}, rate_drop=0.5, eval_metric="logloss", security="none")
        p = model.predict_proba(problem.tables)[:, 1]
        loss = -np.log(np.where(problem.y == model.classes_[1], p, 1 - p)).mean()
        assert model.evals_result_["validation_0"]["logloss"][-1] == pytest.approx(loss, rel=1e-9)


def test_early_stopping_predicts_up_to_the_best_round() -> None:
    """With the scales after the last one, as in XGBoost."""
    rng = np.random.default_rng(2)
    X, y = pd.DataFrame(rng.normal(size=(90, 4))).add_prefix("c"), rng.integers(0, 2, 90)
    model = FedXGBClassifier(
        booster="dart", rate_drop=0.5, max_depth=3, max_bin=8, n_estimators=20, early_stopping_rounds=2,
        random_state=1, security="none",
    ).fit(X, y, eval_set=[(X[::-1].reset_index(drop=True), y)])  # fmt: skip
    active, best = model.partial_models_[0], model.best_iteration
    assert best + 3 == len(active.trees) < 20
    booster = model.to_xgboost()
    kept = json.loads(booster.save_raw("json"))["learner"]["gradient_booster"]
    written = kept.get("weight_drop") or kept["model"]["weight_drop"]  # since 3.4
    assert written == pytest.approx((active.tree_scales or ())[: best + 1])
    margins = model.decision_function(X)
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X), output_margin=True), margins, rtol=1e-5, atol=1e-6)
    for chosen in ((0, 0), (0, best + 1)):
        assert (model.decision_function(X, chosen) == margins).all()
    assert (model.decision_function(X, (0, len(active.trees))) != margins).any()


@pytest.mark.parametrize("chosen", [(0, 2), (1, 3), (2, 0)])
def test_parts_of_the_rounds_are_refused(chosen: tuple[int, int]) -> None:
    """Since their scales belong to all rounds together."""
    problem = small_problem(7, "binary", rows=60)
    model = fit(problem, **SMALL | {"n_estimators": 3}, rate_drop=0.5, security="none")
    with refused(SettingsError, "mode", "iteration_range"):
        model.predict(problem.tables, chosen)
    assert (model.predict(problem.tables, (0, 3)) == model.predict(problem.tables)).all()


@pytest.mark.parametrize("security", ["strict", "none"])
def test_no_training_goes_on_from_a_model(security: str) -> None:
    """Its trees would have to be left out, of rows whose leaves nobody knows."""
    problem = small_problem(7, "binary", rows=60)
    params = SMALL | {"booster": "dart", "rate_drop": 0.5, "n_estimators": 1, "security": security}
    model = FedXGBClassifier(**params).fit(problem.tables, problem.y)
    with refused(SettingsError, "mode", "rate_drop"):
        FedXGBClassifier(**params).fit(problem.tables, problem.y, xgb_model=model)


@pytest.mark.parametrize("security", ["sealed", "paper"])
def test_modes_in_which_nobody_knows_what_trees_add(security: str) -> None:
    """Refused by name, if any tree could be left out; and so are boosters that there are not."""
    dropping: tuple[dict[str, Any], ...] = ({"rate_drop": 0.1}, {"one_drop": True})
    for own in dropping:
        with refused(SettingsError, "mode", *own):
            dart(security=security, min_child_weight=0.0, **own)
    assert not dart(security=security, min_child_weight=0.0, skip_drop=0.5).drops_trees
    with refused(SettingsError, "choice", "booster"):
        TrainParams(booster="gblinear")
    with refused(SettingsError, "range", "rate_drop"):
        dart(rate_drop=1.1)


def test_files_keep_scales_at_the_active_participant(tmp_path: Path) -> None:
    """No other part has them, and a part with others than its trees ask for is damaged."""
    problem = small_problem(7, "binary", rows=60)
    model = fit(problem, **SMALL, rate_drop=0.5, one_drop=1)
    model.save_model(tmp_path)
    loaded = FedXGBClassifier().load_model(tmp_path)
    assert loaded.partial_models_ == model.partial_models_
    assert (loaded.predict(problem.tables) == model.predict(problem.tables)).all()
    active, *others = model.partial_models_
    assert active.tree_scales is not None
    assert all(part.tree_scales is None and "tree_scales" not in part.to_json() for part in others)
    for wrong in (None, active.tree_scales[1:], (*active.tree_scales[1:], 1.5), (*active.tree_scales[1:], -0.5)):
        with refused(UserError, "damaged", "somewhere"):
            PartialModel.from_json(replace(active, tree_scales=wrong).to_json(), "somewhere")
    with refused(UserError, "damaged", "somewhere"):
        PartialModel.from_json(replace(others[0], tree_scales=active.tree_scales).to_json(), "somewhere")


def test_leaving_trees_out_sends_nothing_more() -> None:
    """Every role's ledger, message rounds and bytes are those of gbtree; with no tree left out, trees are too."""
    plain = training_of("binary", 3)
    params = replace(plain.params, booster="dart", rate_drop=1.0, skip_drop=1.0)
    ours, theirs = (training.run(seed=5) for training in (replace(plain, params=params), plain))
    for role in plain.roster.roles:
        assert list(ours.ledgers[role]) == list(theirs.ledgers[role])
        ours_sent, theirs_sent = (run.meters[role].total("train") for run in (ours, theirs))
        assert replace(ours_sent, seconds=0.0) == replace(theirs_sent, seconds=0.0)
    assert join(models(ours)).trees == join(models(theirs)).trees
