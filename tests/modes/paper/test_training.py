"""Trainings in the paper's way: strict's trees and the oracle's, leaf weights within epsilon, models kept as shares."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting.join import JoinedTree
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.cli import main
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.party.entries import Entry
from mpfedxgb.tree import Dummy, Leaf, Split
from mpfedxgb.tree.leaf import WEIGHT_BITS
from plain_boosting import plain_trees
from support.property_tests import examples
from support.refusals import refused
from support.small_problems import Problem, small_problem
from support.toy_tables import labels, margins_by_hand, people

Model = FedXGBClassifier | FedXGBRegressor

PARTICIPANTS = (2, 3, 4, 6)
KINDS = ("binary", "regression")
QUICK: dict[str, Any] = {"n_estimators": 2, "max_depth": 3, "max_bin": 8, "min_child_weight": 0.0}


def fit(problem: Problem, security: str = "paper", eval_set: Any = None, **params: Any) -> Model:
    """Train the estimator that goes with a problem."""
    kind = FedXGBClassifier if problem.kind == "binary" else FedXGBRegressor
    model: Model = kind(security=security, **(QUICK | params))
    return model.fit(problem.tables, problem.y, eval_set=eval_set)


@lru_cache(maxsize=16)
def both_ways(kind: str, participants: int) -> tuple[Problem, Model, Model]:
    """Return a problem and what strict and paper make of it; once for all tests."""
    problem = small_problem(participants + 1, kind, rows=40, participants=participants)
    depth = 2 if participants == 6 else 3
    strict, paper = (fit(problem, security, insecure_seed=3, max_depth=depth) for security in ("strict", "paper"))
    return problem, strict, paper


EVERY_WAY = pytest.mark.parametrize(
    ("kind", "participants"), [(kind, participants) for kind in KINDS for participants in PARTICIPANTS]
)


def largest_gradient(problem: Problem) -> float:
    """Return what epsilon is measured by: 1, as |g| is at most 1 in classification; in regression the largest |g|."""
    return 1.0 if problem.kind == "binary" else float(np.abs(problem.y - problem.y.mean()).max())


def splits(tree: JoinedTree) -> list[Any]:
    """Return a joined tree without what its leaves hold, and without gains, which nobody knows in the paper's way."""
    return [None if isinstance(node, Leaf) else replace(node, gain=None) for node in tree]


def weights(tree: JoinedTree) -> list[int]:
    """Return the leaf weights of a joined tree, in units of 2^-32."""
    return [node.weight for node in tree if isinstance(node, Leaf) and node.weight is not None]


def assert_lossless(model: Model, problem: Problem) -> None:
    """Compare every tree with the oracle's on the same integers: all splits, and leaf weights within epsilon."""
    ours = join(model.partial_models_).trees
    expected = plain_trees(model, problem.tables, problem.y, followed=ours)
    epsilon = model.learning_rate * model.leaf_epsilon * largest_gradient(problem)
    for number, (mine, theirs) in enumerate(zip(ours, expected, strict=True)):
        assert splits(mine) == splits(theirs), f"tree {number}"
        errors = np.subtract(weights(mine), weights(theirs))
        assert np.abs(errors).max() <= epsilon * 2**WEIGHT_BITS + 2, f"tree {number}"


# The same trees


@examples(8)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    participants=st.sampled_from(PARTICIPANTS),
    max_depth=st.integers(1, 4),
    gamma=st.sampled_from([0.0, 0.3]),
    reg_lambda=st.sampled_from([0.4, 1.0]),
    max_bin=st.sampled_from([2, 6]),
    binning=st.sampled_from(["quantile", "paper"]),
    learning_rate=st.sampled_from([0.3, 1.0]),
    first_layer_mask=st.booleans(),
    subsample=st.sampled_from([1.0, 0.6]),
    leaf_epsilon=st.sampled_from([1e-3, 1e-6]),
)
def test_joined_trees_are_the_oracles(seed: int, kind: str, participants: int, **params: Any) -> None:
    """Ties, equal and constant columns, missing values, categories, with every option: each split is the oracle's."""
    problem = small_problem(seed, kind, rows=40, participants=participants)
    assert_lossless(fit(problem, random_state=seed, **params), problem)


@EVERY_WAY
def test_trees_are_those_of_strict(kind: str, participants: int) -> None:
    """Split by split, over several rounds; leaf weights and joint predictions are within a few epsilons."""
    problem, strict, paper = both_ways(kind, participants)
    one, two = (join(model.partial_models_) for model in (strict, paper))
    unit = largest_gradient(problem)

    assert_lossless(paper, problem)
    assert [splits(tree) for tree in two.trees] == [splits(tree) for tree in one.trees]
    assert {node.gain for tree in two.trees for node in tree if not isinstance(node, Leaf)} == {None}
    assert sum(len(tree) for tree in two.trees) > 2 * 5
    assert len({node.owner for tree in two.trees for node in tree if not isinstance(node, Leaf)}) > 1
    for mine, theirs in zip(two.trees, one.trees, strict=True):  # the gradients of later trees differ a little
        assert np.abs(np.subtract(weights(mine), weights(theirs))).max() < 3 * 1e-6 * unit * 2**WEIGHT_BITS
    assert two.base_margin == one.base_margin
    margins = _margins(paper, problem)
    np.testing.assert_allclose(margins, _margins(strict, problem), rtol=0, atol=1e-5 * unit)
    np.testing.assert_allclose(margins, margins_by_hand(two, problem.tables)[0], rtol=0, atol=1e-8 * unit)
    if isinstance(paper, FedXGBClassifier):
        shares = paper.predict_proba(problem.tables)
        np.testing.assert_allclose(shares[:, 1], 1 / (1 + np.exp(-np.array(margins))))
        np.testing.assert_allclose(shares.sum(axis=1), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_sets_and_early_stopping(kind: str) -> None:
    """Evaluation rows are scored on the way, two sets, one with its categories in another order; rounds end alike."""
    problem = small_problem(3, kind, rows=60, participants=2)
    later = small_problem(11, kind, rows=60, participants=2)
    tables = {name: table.iloc[:25] for name, table in problem.tables.items()}
    for name, table in tables.items():
        if "colour" in table:
            tables[name] = table.assign(colour=table["colour"].cat.reorder_categories(["red", "blue", "green"]))
    rng = np.random.default_rng(1)
    eval_set = [(problem.tables, problem.y), (tables, rng.permutation(later.y[:25]))]
    strict, paper = (
        fit(problem, security, eval_set, n_estimators=5, max_depth=2, early_stopping_rounds=1, insecure_seed=1)
        for security in ("strict", "paper")
    )

    assert 1 <= len(paper.partial_models_[0].trees) < 5
    assert_lossless(paper, problem)
    assert paper.best_iteration_ == strict.best_iteration_
    for name, metrics in strict.evals_result_.items():
        for metric, values in metrics.items():
            np.testing.assert_allclose(paper.evals_result_[name][metric], values, rtol=1e-5)
    used = join(paper.partial_models_)
    assert used.best_iteration == paper.best_iteration_
    assert used.best_iteration is not None
    by_hand = margins_by_hand(used, problem.tables, trees=used.best_iteration + 1)[0]
    found = paper.decision_function(problem.tables) if isinstance(paper, FedXGBClassifier) else None
    np.testing.assert_allclose(paper.predict(problem.tables) if found is None else found, by_hand, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("why", ["nothing to split by", "nothing to gain"])
def test_single_leaves(kind: str, why: str) -> None:
    """A tree of one leaf: its weight is shared and scored like any other's, and is what strict's is."""
    problem = small_problem(8, kind, rows=30)
    if why == "nothing to split by":
        flat = {name: table.assign(**dict.fromkeys(table.columns, 1.0)) for name, table in problem.tables.items()}
        problem = Problem(flat, problem.y, None, kind)
    params: dict[str, Any] = {"gamma": 1e29, "base_score": 0.3}
    strict, paper = (fit(problem, security, **params) for security in ("strict", "paper"))

    assert_lossless(paper, problem)
    assert [len(tree) for tree in paper.partial_models_[0].trees] == [1, 1]
    np.testing.assert_allclose(
        np.asarray(_margins(paper, problem)),
        np.asarray(_margins(strict, problem)),
        atol=1e-5 * largest_gradient(problem),
    )
    assert len(set(_margins(paper, problem))) == 1


def _margins(model: Model, problem: Problem) -> list[float]:
    """Return the margins of the training rows."""
    found = model.decision_function if isinstance(model, FedXGBClassifier) else model.predict
    return list(found(problem.tables).tolist())


@pytest.mark.parametrize("mask", [False, True])
def test_participants_without_anything_to_split_by(mask: bool) -> None:
    """One has constant columns only; with the mask it is the active one, and nobody may split the root."""
    problem = small_problem(4, "binary", rows=40)
    poor = "P1" if mask else "P2"
    tables = dict(problem.tables) | {poor: pd.DataFrame({"same": np.ones(40), "again": np.zeros(40)})}
    changed = Problem(tables, problem.y, None, "binary")
    model = fit(changed, first_layer_mask=mask)

    assert_lossless(model, changed)
    assert [len(tree) == 1 for tree in model.partial_models_[0].trees] == [mask, mask]


# Numbers


def test_rows_outside_the_first_sample_count() -> None:
    """One scale of g serves all trees, so an outlier that joins later must fit it from the beginning."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.normal(size=60)
    y[7] = 1000.0
    tables = {"P1": pd.DataFrame(X[:, :2]).add_prefix("a"), "P2": pd.DataFrame(X[:, 2:]).add_prefix("b")}
    problem = Problem(tables, y, None, "regression")
    joined_later = 0
    for seed in (2, 4):
        model = fit(problem, subsample=0.5, random_state=seed, n_estimators=3, max_depth=2, leaf_epsilon=1e-3)
        assert_lossless(model, problem)
        heaviest = [max(abs(w) for w in weights(tree)) for tree in join(model.partial_models_).trees]
        joined_later += heaviest[0] < 10 * 2**WEIGHT_BITS < max(heaviest)
    assert joined_later


def test_residuals_that_grow_too_much_are_refused() -> None:
    """Where a rate of learning makes residuals grow, there is no room for them; the message says what to do."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 4)), rng.normal(size=40)
    model = FedXGBRegressor(
        security="paper", learning_rate=2.5, base_score=0.0, leaf_epsilon=1e-3, **(QUICK | {"n_estimators": 8})
    )
    with refused(UserError, "range", "residual"):
        model.fit(X, y)


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_labels_of_any_size(scale: float) -> None:
    """Small and large labels only move the private scale of the weights, which the active participant's model tells."""
    problem = small_problem(6, "regression", rows=40)
    changed = Problem(problem.tables, problem.y * scale, None, "regression")
    model = fit(changed, max_depth=2)
    ours = join(model.partial_models_).trees
    expected = plain_trees(model, changed.tables, changed.y, followed=ours)

    for mine, theirs in zip(ours, expected, strict=True):
        assert splits(mine) == splits(theirs)
        allowed = 1e-6 * largest_gradient(changed) * 2**WEIGHT_BITS + 2
        assert np.abs(np.subtract(weights(mine), weights(theirs), dtype=np.float64)).max() <= allowed
    bits = [part.leaf_scale_bits for part in model.partial_models_]
    assert bits[1:] == [WEIGHT_BITS] * 2
    assert bits[0] != WEIGHT_BITS


# Models


@pytest.mark.parametrize("kind", KINDS)
def test_every_participant_keeps_shares(kind: str) -> None:
    """Nobody has a weight or a cover, all have a share of each; shares look random and only their sum is small."""
    _, _, paper = both_ways(kind, 3)
    parts = paper.partial_models_
    shares = [[node.share for tree in part.trees for node in tree if isinstance(node, Leaf)] for part in parts]

    for part in parts:
        for node in (node for tree in part.trees for node in tree):
            if isinstance(node, Leaf):
                assert (node.weight, node.cover) == (None, None)
                assert node.share is not None
            else:
                assert isinstance(node, (Split, Dummy))
                assert isinstance(node, Dummy) or not node.flipped, "the paper tosses no coin"
    sizes = [max(abs(share) for share in mine if share is not None) for mine in shares]
    assert min(sizes) > 1 << 58
    total = np.sum(np.array(shares, object), axis=0) % (1 << 64)
    assert all(min(v, (1 << 64) - v) < 1 << 50 for v in total.tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_saved_models_predict_the_same(kind: str, tmp_path: Path) -> None:
    """Files of all participants, read back, are the model that was written, to the bit."""
    problem, _, paper = both_ways(kind, 3)
    paths = paper.save_model(tmp_path)
    loaded = type(paper)().load_model(tmp_path)

    assert loaded.partial_models_ == paper.partial_models_
    assert _margins(loaded, problem) == _margins(paper, problem)
    assert all('"share"' in path.read_text() and '"leaf"' not in path.read_text() for path in paths)


@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_predicts_the_same(kind: str) -> None:
    """The joined model is one that the xgboost package loads."""
    import xgboost

    problem, _, paper = both_ways(kind, 3)
    booster = paper.to_xgboost()
    whole = problem.whole[booster.feature_names]
    theirs = booster.predict(xgboost.DMatrix(whole, enable_categorical=True), output_margin=True)

    np.testing.assert_allclose(_margins(paper, problem), theirs, atol=2e-6 * largest_gradient(problem))


def test_importance() -> None:
    """Splits are counted as ever; cover is known to nobody."""
    _, strict, paper = both_ways("binary", 3)
    for name, counts in strict.feature_importance("weight").items():
        pd.testing.assert_series_equal(paper.feature_importance("weight")[name], counts)
    with refused(SettingsError, "mode", "kind", "cover"):
        paper.feature_importance("cover")


# What is refused

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "min_child_weight": (
        {"min_child_weight": 1.0},
        r"min_child_weight=1\.0 .*; set it to 0: .*, or use security='strict'",
    ),
    "reg_lambda": ({"reg_lambda": 0.0}, r"reg_lambda=0\.0 .*; set it above 0: .*, or use security='strict'"),
    "colsample": ({"colsample_bytree": 0.5}, r"colsample_bytree=0\.5 .*; set it to 1: .*, or use security='strict'"),
    "forest": ({"num_parallel_tree": 2}, r"num_parallel_tree=2 does not go with .*; set it to 1: .*"),
    "poisson": (
        {"objective": "count:poisson"},
        r"objective='count:poisson' is not covered by security='paper'; "
        r"use binary:logistic or reg:squarederror, or security='strict'",
    ),
    "own loss": (
        {"objective": lambda y, margin: (margin - y, margin * 0 + 1)},
        "a callable objective is not covered by security='paper'",
    ),
    "epsilon": ({"leaf_epsilon": 1e-12}, r"leaf_epsilon=1e-12 is out of range; it is at least 1e-09 and at most 1"),
    "mode": ({"security": "printed"}, r"security='printed' is not known; it is one of strict, sealed, paper"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_settings_that_do_not_go_with_the_paper(what: str) -> None:
    """Refused before anything runs, naming parameter, value and remedy."""
    params, message = REFUSED[what]
    problem = small_problem(0, "counts", rows=20)
    model = FedXGBRegressor(**({"security": "paper", **QUICK} | params))
    with pytest.raises(SettingsError, match=message):
        model.fit(problem.tables, problem.y)


def test_classes_and_weights_are_refused() -> None:
    """More than two classes, and rows of different weight, are beyond the paper's algorithms."""
    problem = small_problem(0, "classes", rows=30)
    model = FedXGBClassifier(security="paper", **QUICK)
    with refused(SettingsError, "mode", "objective", "multi:softprob"):
        model.fit(problem.tables, problem.y)
    with refused(SettingsError, "mode", "weighted", True):
        model.fit(problem.tables, problem.y > 0, sample_weight=np.linspace(1, 2, 30))


def test_default_parameters_of_strict_are_refused_by_name() -> None:
    """XGBoost's default min_child_weight of 1 is among what does not go; nothing is changed in silence."""
    with refused(SettingsError, "mode", "min_child_weight", 1.0):
        TrainParams(security="paper")
    assert TrainParams(security="paper", min_child_weight=0).facts.opens_comparisons
    assert not TrainParams().facts.opens_comparisons


# The command line


def command(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Run a command as the installed script does and return its exit code."""
    monkeypatch.setattr(sys, "argv", ["mpfedxgb", *map(str, words)])
    try:
        main()
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return 0


def test_simulate_on_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """`simulate --security paper --binning paper` writes shares, tells what it revealed, and scores like the API."""
    X = people()
    y = labels(X, "binary")
    X.assign(label=y).to_csv(tmp_path / "people.csv", index=False)
    words = ["simulate", tmp_path / "people.csv", "--label", "label", "--out", tmp_path / "out", "--trees", 2]
    words += ["--max-depth", 2, "--security", "paper", "--binning", "paper", "--participants", 3, "--json"]

    assert command(monkeypatch, *words) != 0
    assert "min_child_weight=1.0 does not go with security='paper'; set it to 0" in capsys.readouterr().err
    assert command(monkeypatch, *words, "--min-child-weight", 0) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["params"]["security"], record["params"]["binning"]) == ("paper", "paper")
    assert Entry.NUMERATOR in json.dumps(record["ledger"])
    parts = [PartialModel.load(path) for path in sorted((tmp_path / "out").glob("P*.json"))]
    assert [(part.params.security, part.params.binning) for part in parts] == [("paper", "paper")] * 3

    assert command(monkeypatch, "show", tmp_path / "out") == 0
    assert "leaf shared among all" in capsys.readouterr().out
    scores = tmp_path / "scores.csv"
    assert (
        command(monkeypatch, "predict", tmp_path / "out", tmp_path / "people.csv", "--drop", "label", "--out", scores)
        == 0
    )
    from_disk = FedXGBClassifier().load_model(tmp_path / "out")
    read = pd.read_csv(tmp_path / "people.csv").drop(columns="label").astype({"city": "category"})
    by_api = FedXGBClassifier(
        participants=3, n_estimators=2, max_depth=2, min_child_weight=0.0, security="paper", binning="paper"
    ).fit(read, y)
    told = pd.read_csv(scores)["class_yes"]
    np.testing.assert_allclose(told, from_disk.predict_proba(read)[:, 1])
    np.testing.assert_allclose(told, by_api.predict_proba(read)[:, 1], atol=1e-5)
