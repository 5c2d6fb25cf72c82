"""However the columns are dealt, the joined trees are the oracle's, bit for bit, with every option."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import FedXGBClassifier, FedXGBRanker, FedXGBRegressor, join
from mpfedxgb.boosting.objectives import NAMED
from plain_boosting import plain_trees
from support.property_tests import examples
from support.small_problems import Problem, problem_for, small_problem

KINDS = ("binary", "regression", "counts", "classes")


def fit(problem: Problem, **params: Any) -> FedXGBClassifier | FedXGBRegressor:
    """Train the estimator that goes with a problem."""
    if problem.kind in ("binary", "classes"):
        model: FedXGBClassifier | FedXGBRegressor = FedXGBClassifier(**params)
    elif problem.qid is not None:
        ranker = FedXGBRanker(**params)
        return ranker.fit(problem.tables, problem.y, qid=problem.qid, sample_weight=problem.weight)
    else:
        params.setdefault("objective", "count:poisson" if problem.kind == "counts" else None)
        model = FedXGBRegressor(**params)
    return model.fit(problem.tables, problem.y, sample_weight=problem.weight)


def assert_lossless(problem: Problem, **params: Any) -> FedXGBClassifier | FedXGBRegressor:
    """Train, and compare with the oracle tree by tree, leaf weights included."""
    model = fit(problem, **params)
    expected = plain_trees(model, problem.tables, problem.y, problem.weight, qid=problem.qid)
    for number, (ours, theirs) in enumerate(zip(join(model.partial_models_).trees, expected, strict=True)):
        assert ours == theirs, f"tree {number}"
    return model


@examples(30)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    participants=st.integers(2, 5),
    weighted=st.booleans(),
    max_depth=st.integers(1, 4),
    gamma=st.sampled_from([0.0, 1e-6, 0.3, 1.0]),
    reg_lambda=st.sampled_from([0.0, 0.4, 1.0]),
    min_child_weight=st.sampled_from([0.0, 1.0, 3.0]),
    max_bin=st.sampled_from([2, 5, 32]),
    learning_rate=st.sampled_from([0.3, 1.0]),
    first_layer_mask=st.booleans(),
    samples=st.sampled_from([(1.0, 1.0), (0.7, 1.0), (1.0, 0.5), (0.6, 0.6)]),
    num_parallel_tree=st.sampled_from([1, 1, 1, 2, 3]),
    colsample_bylevel=st.sampled_from([1.0, 1.0, 0.6]),
    colsample_bynode=st.sampled_from([1.0, 1.0, 0.6]),
    booster=st.sampled_from(["gbtree", "gbtree", "dart"]),
    reg_alpha=st.sampled_from([0.0, 0.0, 0.3, 2.0]),
    max_delta_step=st.sampled_from([0.0, 0.0, 0.05, 0.7]),
)
def test_joined_trees_are_the_oracles(
    seed: int, kind: str, participants: int, weighted: bool, samples: tuple[float, float], **params: Any
) -> None:
    """Random tables, objectives and options: every split and every leaf weight is the oracle's."""
    problem = small_problem(seed, kind, rows=60, participants=participants, weighted=weighted)
    subsample, colsample = samples
    params |= {"rate_drop": 0.4, "one_drop": True} if params["booster"] == "dart" else {}
    assert_lossless(
        problem, n_estimators=2, subsample=subsample, colsample_bytree=colsample, random_state=seed, **params
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("participants", [2, 3, 8])
def test_many_participants_give_the_same_trees(kind: str, participants: int) -> None:
    """The number of participants changes nothing but the owners."""
    assert_lossless(small_problem(1, kind, participants=participants), n_estimators=2)


@pytest.mark.parametrize("weight", [1e-9, 1e9])
@pytest.mark.parametrize("reg_lambda", [0.0, 1.0])
def test_extreme_weights_stay_exact(weight: float, reg_lambda: float) -> None:
    """Weights of nine orders of magnitude either way still give the oracle's trees."""
    problem = small_problem(5, "binary", rows=80)
    scaled = Problem(problem.tables, problem.y, np.asarray(weight * (1.0 + np.arange(80) % 3), np.float64), "binary")
    assert_lossless(scaled, n_estimators=2, reg_lambda=reg_lambda, min_child_weight=0.0)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_extreme_labels_stay_exact(scale: float) -> None:
    """Labels of very small or large size only move the private scale."""
    problem = small_problem(6, "regression", rows=80)
    assert_lossless(Problem(problem.tables, problem.y * scale / 1000, None, "regression"), n_estimators=3)


@pytest.mark.parametrize(("size", "warned"), [(1e-6, True), (1e-4, True), (1e-2, False), (1.0, False), (0.0, False)])
def test_labels_that_leave_few_digits_are_told(size: float, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Leaf weights in steps of 2^-32 are coarse for labels of 1e-6: the log says so, and names no label."""
    y = 7 + size * np.sin(np.arange(40))
    FedXGBRegressor(n_estimators=1).fit(np.arange(80.0).reshape(40, 2), y)

    assert ("fewer than six digits; multiply the labels" in caplog.text) == warned


def test_one_row_leaves() -> None:
    """With no weight limit and full depth, leaves of a single row come out right."""
    problem = small_problem(7, "regression", rows=16)
    model = assert_lossless(problem, n_estimators=2, max_depth=6, min_child_weight=0.0, reg_lambda=0.0, max_bin=32)
    sizes = [len(tree) for tree in join(model.partial_models_).trees]
    assert max(sizes) >= 2 * 10 - 1


@pytest.mark.parametrize("options", [{}, {"colsample_bytree": 0.5}, {"first_layer_mask": True, "subsample": 0.5}])
def test_constant_columns_make_single_leaves(options: dict[str, Any]) -> None:
    """Where nobody has anything to split by, a tree is one leaf and the prediction is the base score's."""
    problem = small_problem(8, "binary", rows=40)
    flat = {name: table.assign(**dict.fromkeys(table.columns, 1.0)) for name, table in problem.tables.items()}
    model = assert_lossless(Problem(flat, problem.y, None, "binary"), n_estimators=2, random_state=1, **options)
    assert [len(tree) for tree in join(model.partial_models_).trees] == [1, 1]
    if "subsample" not in options:
        assert np.allclose(model.predict_proba(flat)[:, 1], problem.y.mean(), atol=1e-6)


@pytest.mark.parametrize("objective", NAMED)
@examples(3)
@given(
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    reg_lambda=st.sampled_from([0.0, 1.0]),
    min_child_weight=st.sampled_from([0.0, 1.0]),
    security=st.sampled_from(["strict", "none"]),
    subsample=st.sampled_from([0.7, 1.0]),
)
def test_every_objective_is_exact(objective: str, seed: int, weighted: bool, **params: Any) -> None:
    """Each by the protocols and in the clear, with and without weights, samples and lambda."""
    problem = problem_for(objective, seed, rows=60, weighted=weighted)
    assert_lossless(problem, objective=objective, n_estimators=2, random_state=seed, **params)


@pytest.mark.parametrize(("security", "topology"), [("strict", "star"), ("strict", "mesh"), ("none", "star")])
@pytest.mark.parametrize(
    ("objective", "more"),
    [
        ("rank:ndcg", {"lambdarank_pair_method": "mean", "lambdarank_num_pair_per_sample": 2}),
        ("rank:map", {"lambdarank_pair_method": "mean", "lambdarank_normalization": False}),
        ("rank:ndcg", {"ndcg_exp_gain": False, "lambdarank_num_pair_per_sample": 3}),
        ("reg:quantileerror", {"quantile_alpha": [0.2, 0.5, 0.9]}),
        ("survival:aft", {"aft_loss_distribution": "extreme", "aft_loss_distribution_scale": 0.7}),
    ],
    ids=["random pairs", "random pairs of two", "top pairs", "quantiles", "extreme times"],
)
def test_parameters_of_objectives_are_exact(objective: str, more: dict[str, Any], topology: str, security: str) -> None:
    """Pairs that are drawn at random by a key, several trees a round, distributions; over both topologies."""
    problem = problem_for(objective, 11, rows=60, weighted=True)
    options = {"random_state": 5, "subsample": 0.8, "security": security, "topology": topology}
    assert_lossless(problem, objective=objective, n_estimators=3, **options, **more)


@pytest.mark.parametrize("security", ["none", "strict"])
@examples(12)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(KINDS),
    weighted=st.booleans(),
    reg_lambda=st.sampled_from([0.0, 0.4, 1.0]),
    reg_alpha=st.sampled_from([0.0, 0.5]),
    max_delta_step=st.sampled_from([0.0, 0.5]),
    min_child_weight=st.sampled_from([0.0, 1.0]),
    constrained=st.booleans(),
    subsample=st.sampled_from([0.7, 1.0]),
)
def test_bounded_weights_are_exact(
    security: str, seed: int, kind: str, weighted: bool, max_delta_step: float, constrained: bool, **params: Any
) -> None:
    """L1, clipped weights and directions of columns, in all combinations."""
    problem = small_problem(seed, kind, rows=60, participants=3, weighted=weighted)
    rng = np.random.default_rng(seed)
    directions = {
        name: {column: int(rng.integers(-1, 2)) for column in table.select_dtypes("number")}
        for name, table in problem.tables.items()
    }
    assert_lossless(
        problem,
        n_estimators=2,
        security=security,
        max_delta_step=max_delta_step * (1000 if kind == "regression" else 1),
        monotone_constraints=directions if constrained else None,
        random_state=seed,
        **params,
    )


def test_custom_objective_is_exact() -> None:
    """A callable that returns (g, h) is trained on like the built-in losses."""

    def squared(y: Any, margin: Any) -> Any:
        return margin - y, np.ones_like(y)

    assert_lossless(small_problem(9, "regression"), n_estimators=2, objective=squared)


@examples(15)
@given(
    seed=st.integers(0, 10**6),
    reg_lambda=st.sampled_from([0.0, 1.0]),
    gamma=st.sampled_from([0.0, 0.3]),
    colsample=st.sampled_from([1.0, 0.5]),
    first_layer_mask=st.booleans(),
)
def test_custom_hessians_of_zero_are_exact(
    seed: int, reg_lambda: float, gamma: float, colsample: float, first_layer_mask: bool
) -> None:
    """A loss without curvature far from the label: sides without hessian are the oracle's affair too."""

    def huber(y: Any, margin: Any) -> Any:
        return np.clip(margin - y, -1000, 1000), (np.abs(margin - y) < 1000).astype(float)

    assert_lossless(
        small_problem(seed, "regression", rows=60),
        n_estimators=2,
        max_depth=4,
        objective=huber,
        min_child_weight=0.0,
        reg_lambda=reg_lambda,
        gamma=gamma,
        colsample_bytree=colsample,
        first_layer_mask=first_layer_mask,
        random_state=seed,
    )


def test_margins_of_training_rows_are_the_sums_of_their_leaves() -> None:
    """Joint prediction of the training rows repeats what the active participant computed while training."""
    problem = small_problem(10, "binary")
    model = fit(problem, n_estimators=4)
    assert isinstance(model, FedXGBClassifier)
    booster = model.to_xgboost()
    import xgboost

    whole = problem.whole[booster.feature_names]
    theirs = booster.predict(xgboost.DMatrix(whole, enable_categorical=True), output_margin=True)
    assert np.abs(model.decision_function(problem.tables) - theirs).max() < 1e-6
