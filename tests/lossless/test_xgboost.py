"""The joined trees are those of the xgboost package on the same bins: the second opinion."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

import parity
from experiments.data import ADULT_COLUMNS, ADULT_WORDS
from mpfedxgb import FedXGBClassifier, FedXGBRanker, FedXGBRegressor, join
from mpfedxgb.boosting.join import JoinedSplit
from mpfedxgb.errors import UserError
from mpfedxgb.testing.comparison import LIGHT_ROOT, NO_HESSIAN
from mpfedxgb.testing.parity import Parity, compare_with_xgboost
from mpfedxgb.tree import Leaf
from support.data_sets import data_or_sample, whole_data
from support.refusals import refused
from support.small_problems import problem_for, small_problem
from support.xgboost_versions import IS_3_4

LEAF = 1e-5


def assert_same(parity: Parity, compared: int = 1) -> None:
    """Hold a comparison to the promise: same splits, leaves within 1e-5, margins within 1e-6 of the largest."""
    assert parity.same_trees, parity.difference
    assert parity.compared_trees >= compared, parity.ties
    assert parity.max_leaf_difference < LEAF
    if not parity.ties:
        assert parity.max_margin_difference <= max(1e-6 * parity.largest_margin, 1e-4)


@pytest.mark.parametrize("seed", range(32))
def test_small_random_tables(seed: int) -> None:
    """Empty bins, complementary columns, missing values, weights, several gammas and lambdas, depth 3 and 6."""
    rng = np.random.default_rng(1000 + seed)
    kind = ["binary", "regression", "classes", "counts"][seed % 4]
    problem = small_problem(
        seed, kind, rows=400, participants=int(rng.integers(2, 4)), weighted=bool(rng.random() < 0.4)
    )
    params: dict[str, Any] = {
        "n_estimators": 2,
        "max_depth": int(rng.choice([3, 6])),
        "gamma": float(rng.choice([0, 0.3, 1.0])),
        "reg_lambda": float(rng.choice([0, 0.4, 1.0])),
        "min_child_weight": float(rng.choice([0, 1, 2])),
        "max_bin": int(rng.choice([4, 10])),
    }
    if kind in ("binary", "classes"):
        model: Any = FedXGBClassifier(**params)
    else:
        model = FedXGBRegressor(objective="count:poisson" if kind == "counts" else None, **params)
    model.fit(problem.tables, problem.y, sample_weight=problem.weight)
    assert_same(compare_with_xgboost(model, problem.whole, problem.y, problem.weight), compared=0)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_pseudo_huber_error(seed: int, weighted: bool) -> None:
    """Labels with outliers, whose hessians are a thousandth of the others'; exported, xgboost predicts the same."""
    problem = small_problem(50 + seed, "regression", rows=400, participants=3, weighted=weighted)
    y = problem.y / 500 + np.where(np.arange(400) % 40, 0, 10)
    model = FedXGBRegressor(objective="reg:pseudohubererror", n_estimators=3, max_depth=4, max_bin=10)
    model.fit(problem.tables, y, sample_weight=problem.weight)
    assert_same(compare_with_xgboost(model, problem.whole, y, problem.weight), compared=3)

    booster = model.to_xgboost()
    data = xgboost.DMatrix(problem.whole[booster.feature_names], enable_categorical=True)
    np.testing.assert_allclose(booster.predict(data), model.predict(problem.tables), rtol=1e-5, atol=1e-5)
    content = json.loads(booster.save_raw("json"))["learner"]["objective"]
    assert content == {"name": "reg:pseudohubererror", "pseudo_huber_param": {"huber_slope": "1"}}


OBJECTIVES: dict[str, dict[str, Any]] = {
    "binary:logitraw": {},
    "binary:hinge": {},
    "multi:softmax": {},
    "reg:logistic": {},
    "reg:squaredlogerror": {},
    "reg:gamma": {},
    "reg:tweedie": {"tweedie_variance_power": 1.2},
    "reg:pseudohubererror": {"huber_slope": 2.5},
    "reg:absoluteerror": {},
    "reg:quantileerror": {"quantile_alpha": [0.2, 0.8]},
    "rank:ndcg": {"lambdarank_num_pair_per_sample": 5},
    "rank:pairwise": {"lambdarank_normalization": False},
    "rank:map": {"lambdarank_score_normalization": False},
    "survival:aft": {"aft_loss_distribution": "logistic", "aft_loss_distribution_scale": 0.8},
    "survival:cox": {},
}
"""Objectives besides the usual ones, and their parameters."""


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_other_objectives(objective: str, weighted: bool) -> None:
    """The same trees where xgboost has the same algorithm; exported, it predicts the same in any case."""
    problem = problem_for(objective, 60, rows=400, weighted=weighted)
    y, qid = problem.y, problem.qid
    params: dict[str, Any] = {"n_estimators": 3, "max_depth": 4, "max_bin": 10, "security": "none"}
    numbers = FedXGBRegressor if qid is None else FedXGBRanker
    model: Any = (numbers if problem.kind == "regression" else FedXGBClassifier)(
        objective=objective, **params, **OBJECTIVES[objective]
    )
    model.fit(problem.tables, y, sample_weight=problem.weight, **({} if qid is None else {"qid": qid}))
    if model.partial_models_[0].params.loss.averages and not IS_3_4:
        with refused(UserError, "version", "xgboost"):
            compare_with_xgboost(model, problem.whole, y, problem.weight)
    else:
        assert_same(compare_with_xgboost(model, problem.whole, y, problem.weight, qid=qid), compared=1)

    booster = model.to_xgboost()
    data = xgboost.DMatrix(problem.whole[booster.feature_names], enable_categorical=True)
    ours = model.decision_function(problem.tables) if objective == "binary:logitraw" else model.predict(problem.tables)
    np.testing.assert_allclose(booster.predict(data), ours, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["binary", "regression"])
@pytest.mark.parametrize("seed", [1, 2])
def test_sealed(kind: str, seed: int) -> None:
    """At 24 places on secrets, too: same splits without ties, margins within 1e-5 of the largest."""
    problem = small_problem(seed, kind, rows=300)
    result = parity.run(parity.Case("small", problem.whole, problem.y, {}, kind == "regression"), 10, "sealed")
    assert result["same"], result
    assert result["compared"] == 10


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("present", ["cdef", "abef", "abcd", "bd", "a", "f"])
def test_categories_that_no_training_row_has(present: str, missing: float) -> None:
    """Declared categories that are absent at the start, in the middle and at the end split what they split there.

    Below the last present one they can set missing values apart from all others; beyond it they cannot.
    """
    rng = np.random.default_rng(5)
    letters = rng.choice(np.array(list(present), object), 400)
    gone = rng.random(400) < missing
    chance = np.where(gone, 0.9, np.where(letters == present[0], 0.35, 0.15))
    letters[gone] = None
    X = pd.DataFrame({"x": rng.normal(size=400), "letter": pd.Categorical(letters, categories=list("abcdef"))})
    y = (rng.random(400) < chance).astype(int)

    model = FedXGBClassifier(participants=[["x"], ["letter"]], n_estimators=2, max_depth=4, max_bin=4).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y), compared=2)


@pytest.mark.parametrize("depth", [3, 5])
def test_adult(depth: int) -> None:
    """Two thousand rows of Adult, 108 one-hot columns, four participants."""
    frame = pd.read_csv(data_or_sample("adult_onehot108.csv.gz"), nrows=2000)
    X, y = frame.drop(columns="label"), frame["label"]
    X = X.loc[:, X.nunique() > 1]
    model = FedXGBClassifier(participants=[0.1, 0.2, 0.3, 0.4], n_estimators=3, max_depth=depth, max_bin=10).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y))


def test_credit_with_missing_values() -> None:
    """Three thousand rows of Give Me Some Credit as they are, missing values and all."""
    frame = pd.read_csv(whole_data("give_me_some_credit.csv.gz"), index_col=0, nrows=3000)
    X, y = frame.drop(columns="SeriousDlqin2yrs"), frame["SeriousDlqin2yrs"]
    model = FedXGBClassifier(participants=3, n_estimators=3, max_bin=10, gamma=0.5).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y))


def test_california_housing() -> None:
    """Regression on labels of up to 5e5, with a categorical column and missing values."""
    frame = pd.read_csv(whole_data("california_housing.csv.gz")).sample(2000, random_state=0)
    X = frame.drop(columns=["median_house_value", "ocean_proximity"]).assign(
        ocean_proximity=frame["ocean_proximity"].astype("category")
    )
    model = FedXGBRegressor(participants=3, n_estimators=3, max_bin=10).fit(X, frame["median_house_value"])
    assert_same(compare_with_xgboost(model, X, frame["median_house_value"]))


def test_dry_bean() -> None:
    """Seven classes, one tree each per round."""
    frame = pd.read_csv(data_or_sample("dry_bean.csv.gz")).sample(frac=1, random_state=0).head(1500)
    X, y = frame.drop(columns="Class"), frame["Class"]
    model = FedXGBClassifier(participants=3, n_estimators=2, max_depth=2, max_bin=6).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y))


@pytest.mark.parametrize("max_bin", [300, 1000])
def test_more_bins_than_xgboosts_default(max_bin: int) -> None:
    """Beyond 256 bins xgboost is told to keep a bin for each as well."""
    rng = np.random.default_rng(2)
    X = pd.DataFrame(rng.normal(size=(1200, 2)), columns=["a", "b"])
    y = np.sin(40 * X["a"]) + X["b"]
    model = FedXGBRegressor(n_estimators=2, max_depth=5, max_bin=max_bin, min_child_weight=5).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y), compared=2)


def test_a_side_of_just_the_least_weight_is_a_tie() -> None:
    """min_child_weight is float32 in xgboost: a bit above 1 is 1 there, and one row is enough."""
    X = pd.DataFrame({"a": np.arange(20.0), "b": np.arange(20.0) % 3})
    y = np.where(X["a"] == 0, 100.0, X["b"])
    model = FedXGBRegressor(n_estimators=1, min_child_weight=1 + 1e-8).fit(X, y)
    parity = compare_with_xgboost(model, X, y)

    assert parity.same_trees, parity.difference
    assert len(parity.ties) == 1
    assert "min_child_weight" in parity.ties[0]
    heavy_sides = np.where(X["a"] < 10, 50.0, X["b"])  # labels of another model, whose best split is no such case
    assert not compare_with_xgboost(model, X, heavy_sides).same_trees


def huber(y: Any, margin: Any) -> Any:
    """Return g and h of a loss without curvature far from the label."""
    return np.clip(margin - y, -1, 1), (np.abs(margin - y) < 1).astype(float)


def assert_same_but_for_older_rules(parity: Parity, trees: int, rule: str) -> None:
    """Assert that all trees are those of an xgboost of 3.4 or later, or up to one that an older one's rule explains."""
    if IS_3_4:
        assert_same(parity, compared=trees)
        return
    assert parity.same_trees, parity.difference
    assert all(tie.endswith(rule) for tie in parity.ties)
    assert parity.ties or parity.compared_trees == trees


@pytest.mark.parametrize("reg_lambda", [0.0, 1.0])
@pytest.mark.parametrize("gamma", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_hessians_of_zero(seed: int, gamma: float, reg_lambda: float) -> None:
    """A split with a side of no hessian is void, and the best of the others is made; before 3.4 it may end the node."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(300, 2)).round(1), columns=["a", "b"])
    y = np.where(X["a"] > 0, 3 * X["a"], 0) + rng.normal(size=300)
    params: dict[str, Any] = {"n_estimators": 4, "max_depth": 5, "max_bin": 16, "gamma": gamma}
    model = FedXGBRegressor(objective=huber, min_child_weight=0, reg_lambda=reg_lambda, **params).fit(X, y)
    assert_same_but_for_older_rules(compare_with_xgboost(model, X, y), 4, NO_HESSIAN)


def test_hessians_that_only_round_to_zero() -> None:
    """However small beside others, a hessian above 0 makes a side."""

    def squared(y: Any, margin: Any) -> Any:
        h = np.where(y > 0, 1.0, 1e-12)
        return (margin - y) * h + (y <= 0), h

    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 5})
    y = np.where(X["a"] < 20, 0.0, 1.0 + X["b"])
    model = FedXGBRegressor(objective=squared, min_child_weight=0, n_estimators=2).fit(X, y)
    parity = compare_with_xgboost(model, X, y)

    assert_same(parity, compared=2)
    root = join(model.partial_models_).trees[0][0]
    assert isinstance(root, JoinedSplit)
    assert root.feature == "a"


@pytest.mark.parametrize("kind", ["binary", "regression", "classes", "counts"])
@pytest.mark.parametrize("gamma", [0.0, 0.5])
def test_importances_of_the_exported_model(kind: str, gamma: float) -> None:
    """Weight, gain and cover, means and totals, are those of xgboost's own training on the same bins."""
    problem = small_problem(3, kind, rows=400, participants=2, weighted=kind == "regression")
    params: dict[str, Any] = {"n_estimators": 2, "max_depth": 3, "gamma": gamma, "min_child_weight": 2.0}
    if kind in ("binary", "classes"):
        model: Any = FedXGBClassifier(**params)
    else:
        model = FedXGBRegressor(objective="count:poisson" if kind == "counts" else None, **params)
    model.fit(problem.tables, problem.y, sample_weight=problem.weight)
    parity = compare_with_xgboost(model, problem.whole, problem.y, problem.weight)
    assert_same(parity, compared=2)
    assert not parity.ties

    for importance in ("weight", "gain", "cover", "total_gain", "total_cover"):
        theirs = parity.booster.get_score(importance_type=importance)
        ours = model.to_xgboost().get_score(importance_type=importance)
        assert theirs
        assert ours == pytest.approx(theirs, rel=1e-4), importance


@pytest.mark.parametrize("min_child_weight", [1.0, 100.0, 400.0])
def test_a_root_lighter_than_min_child_weight(min_child_weight: float) -> None:
    """The only leaf of a tree has its weight all the same; before 3.4 it weighs nothing."""
    problem = small_problem(7, "binary", rows=300, participants=2)
    model = FedXGBClassifier(
        n_estimators=2, max_depth=2, min_child_weight=min_child_weight, base_score=0.3, gamma=1e6
    ).fit(problem.tables, problem.y)
    joined = join(model.partial_models_)

    assert [len(tree) for tree in joined.trees] == [1, 1]
    assert all(tree[0].weight for tree in joined.trees)  # type: ignore[union-attr] # leaves
    parity = compare_with_xgboost(model, problem.whole, problem.y)
    if min_child_weight == 1:
        assert_same(parity, compared=2)
    else:
        assert_same_but_for_older_rules(parity, 2, LIGHT_ROOT)
        assert IS_3_4 or parity.compared_trees == 1


def test_horse_colic() -> None:
    """Three hundred cases of which every column but a few has gaps, up to four values of five."""
    frame = pd.read_csv(data_or_sample("horse_colic.csv.gz"), na_values="?")
    X = frame.loc[:, "surgery":"total_protein"].drop(columns="hospital_number")
    model = FedXGBClassifier(participants=4, n_estimators=3, max_depth=4, max_bin=16, gamma=0.1)
    model.fit(X, frame["surgical_lesion"])
    assert_same(compare_with_xgboost(model, X, frame["surgical_lesion"]), compared=3)


def test_hours_of_adult() -> None:
    """Regression on columns of words, some of them missing: hours per week from Adult as published."""
    frame = pd.read_csv(
        data_or_sample("adult.data.csv.gz"),
        names=list(ADULT_COLUMNS),
        skipinitialspace=True,
        na_values="?",
        nrows=2000,
    )
    X = frame.drop(columns=["hours-per-week", "fnlwgt"])
    X = X.assign(**{name: X[name].astype("category") for name in (*ADULT_WORDS, "class")})
    model = FedXGBRegressor(participants=3, n_estimators=3, max_depth=4, max_bin=12).fit(X, frame["hours-per-week"])
    assert_same(compare_with_xgboost(model, X, frame["hours-per-week"]))


def test_weights_beside_a_custom_objective() -> None:
    """Sample weights multiply g and h of a loss of one's own, in the comparison too."""
    problem = small_problem(11, "regression", rows=300, participants=2, weighted=True)
    y = problem.y / 1000
    model = FedXGBRegressor(objective=huber, n_estimators=3, max_bin=10)
    model.fit(problem.tables, y, sample_weight=problem.weight)
    assert_same(compare_with_xgboost(model, problem.whole, y, problem.weight), compared=3)


def test_columns_of_text() -> None:
    """Texts are categories in the comparison as they are in training, missing ones too."""
    rng = np.random.default_rng(8)
    words = rng.choice(np.array(["red", "green", "blue", None], object), 300)
    X = pd.DataFrame({"x": rng.normal(size=300), "colour": words})
    y = X["x"] + (X["colour"] == "green") * 2
    model = FedXGBRegressor(n_estimators=3, max_bin=10).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y), compared=3)


def test_leaves_of_small_sums() -> None:
    """Where G is nearly 0, xgboost's leaf is made of what float32 leaves of 1 - p: rounding explains that much."""
    X = pd.DataFrame({"a": np.arange(1000.0), "b": np.arange(1000.0) % 7})
    y = np.arange(1000) % 40 != 0
    model = FedXGBClassifier(n_estimators=3, max_depth=1, max_bin=2, gamma=1e6, reg_lambda=0).fit(X, y)
    assert_same(compare_with_xgboost(model, X, y), compared=3)


def test_leaves_of_small_hessians() -> None:
    """Hessians far below the largest have few digits here; the comparison allows for that, and for no more."""
    X = pd.DataFrame({"a": np.arange(60.0), "b": np.arange(60.0) % 7})
    y = np.where(X["a"] < 50, X["b"] / 10, 50.0)
    params: dict[str, Any] = {"n_estimators": 1, "learning_rate": 1.0, "reg_lambda": 0.0, "min_child_weight": 0.0}
    model = FedXGBRegressor(objective="reg:pseudohubererror", base_score=0.0, **params).fit(X, y)
    parity = compare_with_xgboost(model, X, y)

    assert parity.same_trees
    assert parity.max_leaf_difference < LEAF
    assert parity.rounded_leaves > 0
    assert 1e-4 < parity.max_margin_difference <= parity.margin_resolution < 0.1 * parity.largest_margin

    for place, node in enumerate(model.partial_models_[0].trees[0]):  # whatever its hessians, one that is off is found
        if isinstance(node, Leaf):
            off = compare_with_xgboost(with_another_leaf(model, place), X, y)
            assert off.max_leaf_difference > LEAF, place


def with_another_leaf(model: Any, place: int) -> Any:
    """Return a model whose leaf in this place of the first tree is larger by a ten-thousandth."""
    active = model.partial_models_[0]
    leaf = active.trees[0][place]
    assert isinstance(leaf, Leaf)
    assert leaf.weight is not None
    changed = replace(leaf, weight=leaf.weight + leaf.weight // 10_000)
    tree = (*active.trees[0][:place], changed, *active.trees[0][place + 1 :])
    parts = [replace(active, trees=(tree, *active.trees[1:])), *model.partial_models_[1:]]
    return type(model).from_parts(parts, model.cut_points_, **model.get_params())


def test_a_leaf_that_rounding_does_not_explain() -> None:
    """One leaf weight of an ordinary model, changed by a ten-thousandth, is found."""
    problem = small_problem(3, "binary", rows=400, participants=2)
    model = FedXGBClassifier(n_estimators=2).fit(problem.tables, problem.y)
    parity = compare_with_xgboost(model, problem.whole, problem.y)
    assert_same(parity, compared=2)
    assert parity.rounded_leaves == 0

    place = next(i for i, node in enumerate(model.partial_models_[0].trees[0]) if isinstance(node, Leaf))
    changed = with_another_leaf(model, place)
    assert compare_with_xgboost(changed, problem.whole, problem.y).max_leaf_difference > LEAF


def test_gradients_beyond_float32() -> None:
    """Counts that a first step overshoots by far: where e^margin is beyond float32 the comparison ends, and says so."""
    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 3})
    y = np.where(X["a"] < 5, 100.0, 1.0)
    model = FedXGBRegressor(
        objective="count:poisson", base_score=0.9, learning_rate=1.0, n_estimators=3, reg_lambda=0, max_delta_step=0
    )
    parity = compare_with_xgboost(model.fit(X, y), X, y)

    assert_same(parity)
    assert parity.compared_trees == 1
    assert parity.ties == ["tree 1: g or h is beyond float32, so xgboost cannot go on"]


def test_scores_that_rounding_cannot_tell() -> None:
    """A hessian a billionth of the largest is a step of the integers here: its split scores less, which is a tie."""

    def steep(y: Any, margin: Any) -> Any:
        return margin - y, np.where(y == 1, 1e-9, 1.0)

    X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) % 5})
    y = np.where(X["a"] == 0, 1.0, np.where(X["b"] == 3, 5_000.0, 2.0))
    params: dict[str, Any] = {"n_estimators": 1, "max_depth": 1, "max_bin": 64, "reg_lambda": 0, "min_child_weight": 0}
    model = FedXGBRegressor(objective=steep, **params).fit(X, y)
    parity = compare_with_xgboost(model, X, y)

    assert parity.same_trees, parity.difference
    assert len(parity.ties) == 1
    assert "rounding of g and h explains it" in parity.ties[0]

    halves = FedXGBRegressor(objective=steep, **params).fit(X, np.where(X["a"] < 20, 2.0, 9.0))  # no good split of y
    assert "first 20 bins" in compare_with_xgboost(halves, X, y).difference


def test_a_start_that_xgboost_rounds() -> None:
    """Weights added up one by one in float32 move where xgboost starts, by so much that the first leaf shows it."""
    weight = np.where(np.arange(190) < 3, 1.0, 1e-4 * (1 + np.arange(190) % 3))
    X = pd.DataFrame({"a": np.ones(190), "b": np.zeros(190)})
    y = np.arange(190) % 3
    model = FedXGBClassifier(n_estimators=2, learning_rate=0.01, reg_lambda=1e-6).fit(X, y, sample_weight=weight)
    parity = compare_with_xgboost(model, X, y, weight)
    assert_same(parity, compared=6)

    other = np.where(np.arange(190) < 3, 1.0, 2e-3)  # weights of another training
    assert "training starts from" in compare_with_xgboost(model, X, y * (np.arange(190) > 60), other).difference


@pytest.mark.parametrize("kind", ["binary", "regression", "classes", "counts"])
def test_rounding_explains_little_of_ordinary_trainings(kind: str) -> None:
    """Whatever the size of labels and the number of rounds, margins are known to five digits or more."""
    problem = small_problem(12, kind, rows=300, participants=2)
    if kind in ("binary", "classes"):
        model: Any = FedXGBClassifier(n_estimators=6)
    else:
        model = FedXGBRegressor(objective="count:poisson" if kind == "counts" else None, n_estimators=6)
    parity = compare_with_xgboost(model.fit(problem.tables, 1000 * problem.y), problem.whole, 1000 * problem.y)

    assert_same(parity, compared=6)
    assert parity.margin_resolution < 1e-5 * parity.largest_margin
