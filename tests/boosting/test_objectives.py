"""Losses: gradients against finite differences and xgboost's own, starting margins against xgboost's."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xgboost

from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.objectives import CUSTOM, NAMED, OBJECTIVES, sigmoid, softmax
from mpfedxgb.errors import DataError, UserError, public_reason

ROWS = 12
CLASSES = 3


def labels(objective: str, seed: int = 0) -> Floats:
    """Return labels that go with an objective, all classes among them."""
    rng = np.random.default_rng(seed)
    if objective == "binary:logistic":
        return np.array([0, 1] * (ROWS // 2), np.float64)
    if objective == "multi:softprob":
        return np.array([0, 1, 2, 2] * (ROWS // 4), np.float64)
    if objective == "count:poisson":
        return np.arange(ROWS, dtype=np.float64) % 5
    return rng.normal(size=ROWS) * 10


def margins(objective: str, seed: int = 1) -> Floats:
    """Return margins (trees, rows)."""
    trees = CLASSES if objective == "multi:softprob" else 1
    return np.random.default_rng(seed).normal(size=(trees, ROWS))


LOSSES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "binary:logistic": lambda y, m: np.logaddexp(0, m[0]) - y * m[0],
    "reg:squarederror": lambda y, m: (m[0] - y) ** 2 / 2,
    "count:poisson": lambda y, m: np.exp(m[0]) - y * m[0],
    "reg:pseudohubererror": lambda y, m: np.sqrt(1 + (m[0] - y) ** 2) - 1,
    "multi:softprob": lambda y, m: np.logaddexp.reduce(m, axis=0) - m[y.astype(int), np.arange(ROWS)],
}
OBJECTIVE = pytest.mark.parametrize("objective", LOSSES)


def test_every_objective_is_compared() -> None:
    """None is left out below."""
    assert set(LOSSES) == set(NAMED)


@OBJECTIVE
def test_gradients_are_derivatives(objective: str) -> None:
    """The slope of the loss is g, its curvature h (twice that for softmax, as XGBoost has it)."""
    y, m, loss, step = labels(objective), margins(objective), LOSSES[objective], 1e-4
    g, h = OBJECTIVES[objective].gradients(y, m)

    for k in range(len(m)):
        e = np.zeros_like(m)
        e[k] = step
        up, here, down = (loss(y, m + s * e) for s in (1, 0, -1))
        np.testing.assert_allclose(g[k], (up - down) / (2 * step), atol=1e-6)
        curvature = (up - 2 * here + down) / step**2
        np.testing.assert_allclose(h[k], curvature * (2 if objective == "multi:softprob" else 1), atol=1e-5, rtol=1e-5)


def parameters(objective: str, **more: Any) -> dict[str, Any]:
    """Return xgboost's parameters for an objective."""
    classes = {"num_class": CLASSES} if objective == "multi:softprob" else {}
    steps = {"max_delta_step": 0} if objective == "count:poisson" else {}
    return {"objective": objective, "tree_method": "hist", "nthread": 1, **classes, **steps, **more}


def xgboost_gradients(objective: str, y: Floats, m: Floats) -> tuple[Floats, Floats]:
    """Return what xgboost computes: a tree with a leaf per row has -g / h for weights and h for cover."""
    data = xgboost.DMatrix(np.arange(ROWS, dtype=np.float64)[:, None], y)
    data.set_base_margin(m.T if len(m) > 1 else m[0])
    options = {"max_depth": 0, "eta": 1, "lambda": 0, "min_child_weight": 0}
    booster = xgboost.train(parameters(objective, **options), data, 1)
    trees = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    places = booster.predict(data, pred_leaf=True).astype(int).reshape(ROWS, -1).T
    assert all(len(set(place.tolist())) == ROWS for place in places), "every row needs a leaf of its own"
    h = np.array([np.array(tree["sum_hessian"])[place] for tree, place in zip(trees, places, strict=True)])
    w = np.array([np.array(tree["base_weights"])[place] for tree, place in zip(trees, places, strict=True)])
    return -w * h, h


@OBJECTIVE
def test_gradients_are_xgboosts(objective: str) -> None:
    """The same g and h as xgboost, row by row, to float32."""
    y, m = labels(objective), margins(objective)
    ours, theirs = OBJECTIVES[objective].gradients(y, m), xgboost_gradients(objective, y, m)

    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-6)


@OBJECTIVE
@pytest.mark.parametrize("weighted", [False, True])
def test_unset_base_score_is_xgboosts(objective: str, weighted: bool) -> None:
    """Boosting starts where xgboost starts, with and without weights."""
    y = labels(objective)
    if objective == "reg:squarederror":
        y = y + 40  # a mean that is not zero
    weight = np.random.default_rng(2).random(ROWS) + 0.1 if weighted else None
    ours = OBJECTIVES[objective].base_margin(y, weight, None, len(margins(objective)))

    if objective != "multi:softprob":
        ours = OBJECTIVES[objective].transform(ours[:, None])[:, 0]
    np.testing.assert_allclose(ours, xgboost_base_score(objective, y, weight), rtol=2e-6, atol=2e-7)


def xgboost_base_score(objective: str, y: Floats, weight: Floats | None) -> Floats:
    """Return what xgboost starts from, after a round of training."""
    data = xgboost.DMatrix(np.zeros((ROWS, 1)), y, weight=weight)
    config = json.loads(xgboost.train(parameters(objective, max_depth=1), data, 1).save_config())
    return np.array(json.loads(config["learner"]["learner_model_param"]["base_score"]), np.float64)


@OBJECTIVE
def test_given_base_score(objective: str) -> None:
    """A base_score is a probability, a mean or a margin, as the objective says, rounded to float32 as XGBoost does."""
    margin = OBJECTIVES[objective].base_margin(labels(objective), None, 0.3, len(margins(objective)))

    assert len(margin) == len(margins(objective))
    if objective == "multi:softprob":
        assert margin.tolist() == [float(np.float32(0.3))] * CLASSES
    else:
        np.testing.assert_allclose(
            OBJECTIVES[objective].transform(margin[:, None])[:, 0], float(np.float32(0.3)), rtol=1e-7
        )


@pytest.mark.parametrize(
    ("objective", "score", "message"),
    [
        ("binary:logistic", 0.0, "base_score=0.0 is not a probability"),
        ("binary:logistic", 1.0, "base_score=1.0 is not a probability"),
        ("binary:logistic", -0.5, "base_score=-0.5 is not a probability"),
        ("count:poisson", 0.0, "base_score=0.0 is not a positive mean"),
        ("count:poisson", -1.0, "base_score=-1.0 is not a positive mean"),
    ],
)
def test_impossible_base_scores(objective: str, score: float, message: str) -> None:
    """Refused by name, and only the type is told to others: the score may be the labels' mean."""
    with pytest.raises(DataError, match=message) as caught:
        OBJECTIVES[objective].base_margin(labels(objective), None, score, 1)

    assert public_reason(caught.value) == public_reason(DataError(""))


@pytest.mark.parametrize(
    "score", [1e-12, 1e-7, 1e-6, 1.1e-6, 0.3, 0.97, 0.9999, 1 - 2e-6, 1 - 1e-6, 1 - 2e-7, 1 - 1e-12]
)
def test_margins_near_certainty_are_xgboosts(score: float) -> None:
    """A probability within a millionth of 0 or 1, as extreme weights make it, is taken as XGBoost takes it."""
    data = xgboost.DMatrix(np.zeros((ROWS, 1)), labels("binary:logistic"))
    booster = xgboost.train(parameters("binary:logistic", base_score=float(np.float32(score))), data, 0)
    theirs = booster.predict(data, output_margin=True)[0]

    np.testing.assert_allclose(
        OBJECTIVES["binary:logistic"].base_margin(labels("binary:logistic"), None, score, 1), theirs, rtol=1e-6
    )


@pytest.mark.parametrize("objective", ["reg:squarederror", "multi:softprob"])
def test_base_score_beyond_float32_is_infinite(objective: str) -> None:
    """It is left to the caller to refuse, without a NumPy warning."""
    assert np.isinf(OBJECTIVES[objective].base_margin(labels(objective), None, 1e300, CLASSES)).all()


def test_softmax_starts_from_log_frequencies() -> None:
    """Logarithms of the frequencies of classes minus their mean; a class without rows starts as low as in XGBoost."""
    y = np.array([0.0, 0, 0, 1] * 3)
    margin = OBJECTIVES["multi:softprob"].base_margin(y, None, None, CLASSES)

    np.testing.assert_allclose(margin[0] - margin[1], np.log(3), rtol=1e-4)
    np.testing.assert_allclose(margin.sum(), 0, atol=1e-5)
    np.testing.assert_allclose(margin, xgboost_base_score("multi:softprob", y, None), rtol=2e-6)


def test_custom_objective_starts_at_zero() -> None:
    """Where nothing is known of the loss, the margin starts at zero, or where it is told to."""
    assert CUSTOM.base_margin(np.array([3.0]), None, None, 1).tolist() == [0]
    assert CUSTOM.base_margin(np.array([3.0]), None, 2.5, 1).tolist() == [2.5]


@pytest.mark.parametrize("objective", ["binary:logistic", "multi:softprob"])
def test_hessians_do_not_vanish(objective: str) -> None:
    """At certainty the hessian is 1e-16, as in XGBoost, and nothing overflows."""
    m = margins(objective) * 0 + np.array([[1000.0], [0.0], [-1000.0]])[: len(margins(objective))]
    g, h = OBJECTIVES[objective].gradients(labels(objective), m)

    assert (h == 1e-16).all()
    assert np.isin(g, [-1.0, 0.0, 1.0]).all()


def test_probabilities_at_the_ends() -> None:
    """Sigmoid and softmax reach 0 and 1 without a warning, are symmetric, and softmax sums to one."""
    m = np.array([-800.0, -30.0, 0.0, 30.0, 800.0])

    np.testing.assert_allclose(sigmoid(m) + sigmoid(-m), 1, rtol=1e-15)
    assert sigmoid(m)[[0, 2, 4]].tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(softmax(np.array([m, m[::-1]])).sum(axis=0), 1, rtol=1e-15)


def test_means_beyond_float64_are_infinite() -> None:
    """A Poisson margin that ran away gives infinity, which training refuses in words, not a NumPy warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        g, h = OBJECTIVES["count:poisson"].gradients(np.ones(1), np.array([[800.0]]))

    assert np.isinf(g).all()
    assert np.isinf(h).all()
    assert np.isinf(OBJECTIVES["count:poisson"].transform(np.array([[800.0]]))).all()


@OBJECTIVE
def test_predictions(objective: str) -> None:
    """Probabilities, means, or the margins themselves; for a custom loss the margins."""
    m = margins(objective)
    expected = {"binary:logistic": 1 / (1 + np.exp(-m)), "count:poisson": np.exp(m)}
    if objective == "multi:softprob":
        expected[objective] = np.exp(m) / np.exp(m).sum(axis=0)

    np.testing.assert_allclose(OBJECTIVES[objective].transform(m), expected.get(objective, m), rtol=1e-12)
    np.testing.assert_array_equal(CUSTOM.transform(m), m)


def test_custom_objective() -> None:
    """A callable gets labels and margins, one per row, and its g and h are used as they are."""
    y, m = labels("reg:squarederror"), margins("reg:squarederror")
    seen = []

    def objective(truth: Floats, margin: Floats) -> tuple[Floats, list[float]]:
        seen.append((truth, margin))
        return margin - truth, [2.0] * len(truth)

    g, h = CUSTOM.with_function(objective).gradients(y, m)

    assert seen[0][1].shape == (ROWS,)
    np.testing.assert_array_equal(g, m - y)
    np.testing.assert_array_equal(h, np.full((1, ROWS), 2.0))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, r"returns \(g, h\), one number each per row"),
        (np.zeros(ROWS), r"returns \(g, h\)"),
        ((np.zeros(ROWS), np.ones(ROWS), 0), r"returns \(g, h\)"),
        ((np.zeros(ROWS), 1.0), r"returns \(g, h\)"),
        ((np.zeros(ROWS - 1), np.ones(ROWS)), r"returns \(g, h\)"),
        ((["a"] * ROWS, np.ones(ROWS)), r"returns \(g, h\)"),
        ((np.full(ROWS, np.nan), np.ones(ROWS)), "not finite"),
        ((np.zeros(ROWS), np.full(ROWS, np.inf)), "not finite"),
        ((np.zeros(ROWS), np.full(ROWS, -1.0)), "negative hessian; the loss has to be convex"),
    ],
)
def test_refused_answers_of_custom_objectives(answer: Any, message: str) -> None:
    """Anything but finite g and non-negative h, one of each per row, is refused by name."""
    with pytest.raises(UserError, match=message):
        CUSTOM.with_function(lambda y, m: answer).gradients(labels("custom"), margins("custom"))


@pytest.mark.parametrize("objective", [name for name, loss in OBJECTIVES.items() if loss.paper_scale is not None])
def test_public_bounds_are_reached_and_never_exceeded(objective: str) -> None:
    """At a public scale the largest g and h are exactly their caps: less would overflow, more would waste width."""
    loss, policy = OBJECTIVES[objective], OBJECTIVES[objective].paper_scale
    assert policy is not None
    assert policy.f_h is not None
    for label in (0.0, 1.0):
        g, h = loss.gradients(np.full(5, label), np.array([[-700.0, -1.0, 0.0, 1.0, 700.0]]))
        assert np.rint(np.ldexp(h.max(), policy.f_h)) == policy.h_cap
        if policy.f_g is not None:
            assert np.rint(np.ldexp(np.abs(g).max(), policy.f_g)) == policy.g_cap
