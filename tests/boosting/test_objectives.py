"""Losses: gradients against finite differences and xgboost's own, starting margins against xgboost's."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xgboost

from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.objectives import CUSTOM, NAMED, OBJECTIVES, RANKINGS, objective_of
from mpfedxgb.boosting.objectives.classes import sigmoid, softmax
from mpfedxgb.errors import DataError, UserError, public_reason
from support.refusals import Expected, refused
from support.xgboost_versions import IS_3_4

ROWS = 12
CLASSES = 3


def labels(objective: str, seed: int = 0) -> Floats:
    """Return labels that go with an objective, all classes among them."""
    rng = np.random.default_rng(seed)
    if objective.startswith("binary:"):
        return np.array([0, 1, 1] * (ROWS // 3), np.float64)
    if objective == "reg:logistic":
        return rng.random(ROWS)
    if objective in ("reg:gamma", "reg:squaredlogerror"):
        return rng.gamma(1.0, size=ROWS) * 3
    if objective.startswith("multi:"):
        return np.array([0, 1, 2, 2] * (ROWS // 4), np.float64)
    if objective in ("count:poisson", "reg:tweedie"):
        return np.arange(ROWS, dtype=np.float64) % 5
    return rng.normal(size=ROWS) * 10


def margins(objective: str, seed: int = 1) -> Floats:
    """Return margins (trees, rows)."""
    trees = CLASSES if objective.startswith("multi:") else 1
    found = np.random.default_rng(seed).normal(size=(trees, ROWS))
    return np.abs(found) - 0.5 if objective == "reg:squaredlogerror" else found


LOSSES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "binary:logistic": lambda y, m: np.logaddexp(0, m[0]) - y * m[0],
    "reg:squarederror": lambda y, m: (m[0] - y) ** 2 / 2,
    "count:poisson": lambda y, m: np.exp(m[0]) - y * m[0],
    "reg:pseudohubererror": lambda y, m: np.sqrt(1 + (m[0] - y) ** 2) - 1,
    "multi:softprob": lambda y, m: np.logaddexp.reduce(m, axis=0) - m[y.astype(int), np.arange(ROWS)],
    "reg:gamma": lambda y, m: y * np.exp(-m[0]) + m[0],
    "reg:tweedie": lambda y, m: 2 * y * np.exp(-m[0] / 2) + 2 * np.exp(m[0] / 2),
    "reg:squaredlogerror": lambda y, m: (np.log1p(m[0]) - np.log1p(y)) ** 2 / 2,
}
LOSSES |= {
    "binary:logitraw": LOSSES["binary:logistic"],
    "reg:logistic": LOSSES["binary:logistic"],
    "multi:softmax": LOSSES["multi:softprob"],
    "binary:hinge": lambda y, m: np.maximum(1 - (2 * y - 1) * m[0], 0),
    "reg:absoluteerror": lambda y, m: np.abs(m[0] - y),
    "reg:quantileerror": lambda y, m: np.abs(m[0] - y) / 2,
}
SMOOTH = [name for name in LOSSES if name not in ("binary:hinge", "reg:absoluteerror", "reg:quantileerror")]
"""Those whose g and h are derivatives; the others are followed at a distance, or along their slope."""

IN_3_2 = [name for name in LOSSES if IS_3_4 or name not in ("reg:absoluteerror", "reg:quantileerror")]
"""What the installed xgboost computes as 3.4 does; tests/lossless/test_recorded_models.py has the others."""

VALUES = {"huber_slope": 2.5, "tweedie_variance_power": 1.3, "quantile_alpha": 0.3}
WITH_PARAMETER = {"reg:pseudohubererror": "huber_slope", "reg:tweedie": "tweedie_variance_power"} | (
    {"reg:quantileerror": "quantile_alpha"} if IS_3_4 else {}
)
OBJECTIVE = pytest.mark.parametrize("objective", LOSSES)


def test_every_objective_is_compared() -> None:
    """None is left out below."""
    others = {*RANKINGS, "survival:aft", "survival:cox"}
    assert set(LOSSES) | others == set(NAMED), "test_ranking.py and test_survival.py have the others"


@pytest.mark.parametrize("objective", SMOOTH)
def test_gradients_are_derivatives(objective: str) -> None:
    """The slope of the loss is g, its curvature h, not below its least; for softmax and counts more, as in XGBoost."""
    y, m, loss, step = labels(objective), margins(objective), LOSSES[objective], 1e-4
    g, h = OBJECTIVES[objective].gradients(y, m)

    for k in range(len(m)):
        e = np.zeros_like(m)
        e[k] = step
        up, here, down = (loss(y, m + s * e) for s in (1, 0, -1))
        np.testing.assert_allclose(g[k], (up - down) / (2 * step), atol=1e-6)
        curvature = (up - 2 * here + down) / step**2
        if objective == "reg:squaredlogerror":
            curvature = np.maximum(curvature, 1e-6)
        factor = {"multi": 2, "count": math.exp(0.7)}.get(objective.partition(":")[0], 1)
        np.testing.assert_allclose(h[k], curvature * factor, atol=1e-5, rtol=1e-5)


def parameters(objective: str, **more: Any) -> dict[str, Any]:
    """Return xgboost's parameters for an objective."""
    classes: dict[str, Any] = {"num_class": CLASSES} if objective.startswith("multi:") else {}
    classes |= {"quantile_alpha": 0.5} if objective == "reg:quantileerror" else {}
    steps = {"max_delta_step": 0} if objective == "count:poisson" else {}  # or weights would be clipped
    return {"objective": objective, "tree_method": "hist", "nthread": 1, **classes, **steps, **more}


def xgboost_gradients(objective: str, y: Floats, m: Floats, **more: Any) -> tuple[Floats, Floats]:
    """Return what xgboost computes: a tree with a leaf per row has -g / h for weights and h for cover."""
    data = xgboost.DMatrix(np.arange(ROWS, dtype=np.float64)[:, None], y)
    data.set_base_margin(m.T if len(m) > 1 else m[0])
    options = {"max_depth": 0, "eta": 1, "lambda": 0, "min_child_weight": 0}
    booster = xgboost.train(parameters(objective, **options, **more), data, 1)
    trees = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    places = booster.predict(data, pred_leaf=True).astype(int).reshape(ROWS, -1).T
    assert all(len(set(place.tolist())) == ROWS for place in places), "every row needs a leaf of its own"
    h = np.array([np.array(tree["sum_hessian"])[place] for tree, place in zip(trees, places, strict=True)])
    w = np.array([np.array(tree["base_weights"])[place] for tree, place in zip(trees, places, strict=True)])
    return -w * h, h


@pytest.mark.parametrize("objective", [name for name in IN_3_2 if name != "binary:hinge"])
def test_gradients_are_xgboosts(objective: str) -> None:
    """The same g and h as xgboost, row by row, to float32."""
    y, m = labels(objective), margins(objective)
    loss = OBJECTIVES[objective]
    if objective == "count:poisson":  # steps are part of its hessians
        loss = objective_of(objective, 1, {"max_delta_step": 0.0})
    ours, theirs = loss.gradients(y, m), xgboost_gradients(objective, y, m)

    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", ["binary:hinge", "reg:squaredlogerror"])
@pytest.mark.parametrize("y", [0.0, 1.0])
@pytest.mark.parametrize("margin", [-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0, 1e6])
def test_floors_are_xgboosts(margin: float, y: float, objective: str) -> None:
    """The least hessian, and where logarithms end; row by row, of trees of one leaf."""
    data = xgboost.DMatrix(np.zeros((1, 1)), np.array([y]), base_margin=np.array([margin]))
    options = {"max_depth": 1, "eta": 1, "lambda": 0, "min_child_weight": 0}
    booster = xgboost.train(parameters(objective, **options), data, 1)
    (tree,) = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    g, h = OBJECTIVES[objective].gradients(np.array([y]), np.array([[margin]]))

    assert h.item() == pytest.approx(tree["sum_hessian"][0], rel=1e-6)
    assert -g.item() / h.item() == pytest.approx(tree["base_weights"][0], rel=1e-6)


@pytest.mark.parametrize(("objective", "parameter"), WITH_PARAMETER.items())
@pytest.mark.parametrize("value", [1.1, 1.8, 0.3])
def test_parameters_of_objectives_are_xgboosts(objective: str, parameter: str, value: float) -> None:
    """Other values of what a loss depends on: gradients, start, and what the model file says."""
    value = value % 1 if parameter == "quantile_alpha" else value if value > 1 else 1.0
    y, m = labels(objective), margins(objective)
    loss = objective_of(objective, 1, VALUES | {parameter: value})
    more = {parameter: value}
    ours, theirs = loss.gradients(y, m), xgboost_gradients(objective, y, m, **more)

    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("objective", IN_3_2)
@pytest.mark.parametrize("weighted", [False, True])
def test_unset_base_score_is_xgboosts(objective: str, weighted: bool) -> None:
    """Boosting starts where xgboost starts, with and without weights."""
    y = labels(objective)
    if objective == "reg:squarederror":
        y = y + 40  # a mean that is not zero
    weight = np.random.default_rng(2).random(ROWS) + 0.1 if weighted else None
    ours = OBJECTIVES[objective].base_margin(y, weight, None, len(margins(objective)))

    if not objective.startswith("multi:"):
        ours = OBJECTIVES[objective].link.to_score(ours)
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
    if objective.startswith("multi:"):
        assert margin.tolist() == [float(np.float32(0.3))] * CLASSES
    else:
        np.testing.assert_allclose(OBJECTIVES[objective].link.to_score(margin), float(np.float32(0.3)), rtol=1e-7)


@pytest.mark.parametrize(
    ("objective", "score"),
    [
        ("binary:logistic", 0.0),
        ("binary:logistic", 1.0),
        ("binary:logistic", -0.5),
        ("count:poisson", 0.0),
        ("count:poisson", -1.0),
        ("reg:logistic", 1.0),
        ("reg:gamma", 0.0),
        ("reg:tweedie", 0.0),
    ],
)
def test_impossible_base_scores(objective: str, score: float) -> None:
    """Refused by name, and only the type is told to others: the score may be the labels' mean."""
    with refused(DataError, "range", "base_score", score) as caught:
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
    expected = dict.fromkeys(["binary:logistic", "binary:logitraw", "reg:logistic"], 1 / (1 + np.exp(-m)))
    expected |= dict.fromkeys(["count:poisson", "reg:gamma", "reg:tweedie"], np.exp(m))
    expected["binary:hinge"] = (m > 0).astype(float)
    if objective.startswith("multi:"):
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
    ("answer", "expected"),
    [
        (None, ("type", "objective", None)),
        (np.zeros(ROWS), ("type", "objective", None)),
        ((np.zeros(ROWS), np.ones(ROWS), 0), ("type", "objective", None)),
        ((np.zeros(ROWS), 1.0), ("type", "objective", None)),
        ((np.zeros(ROWS - 1), np.ones(ROWS)), ("type", "objective", None)),
        ((["a"] * ROWS, np.ones(ROWS)), ("type", "objective", None)),
        ((np.full(ROWS, np.nan), np.ones(ROWS)), ("range", "objective", "gradients")),
        ((np.zeros(ROWS), np.full(ROWS, np.inf)), ("range", "objective", "gradients")),
        ((np.zeros(ROWS), np.full(ROWS, -1.0)), ("range", "objective", "hessians")),
    ],
)
def test_refused_answers_of_custom_objectives(answer: Any, expected: Expected) -> None:
    """Anything but finite g and non-negative h, one of each per row, is refused by name."""
    with refused(UserError, *expected):
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


def test_averages_are_over_weights() -> None:
    """The scale of absolute and quantile error is an average over rows: a weight of 3 is three rows."""
    for name in ("reg:absoluteerror", "reg:quantileerror"):
        loss, y, m = OBJECTIVES[name], labels(name), margins(name)
        weight = np.array([0.0, 1, 2, 3] * (ROWS // 4))
        whole = [np.repeat(part, weight.astype(int), axis=-1) for part in (y, m)]
        g, h = loss.gradients(y, m, weight)
        of_repeated = loss.gradients(*whole)

        for ours, repeated in zip((g, h), of_repeated, strict=True):
            np.testing.assert_allclose(np.repeat(ours / np.maximum(weight, 1), weight.astype(int), axis=-1), repeated)
        assert not g[:, weight == 0].any()


def test_nothing_left_to_fit() -> None:
    """Without a residual the slope is 0; the hessian of absolute error is 1 then, that of quantiles 0, as in 3.4."""
    y = np.ones(3)
    for name, h in (("reg:absoluteerror", 1.0), ("reg:quantileerror", 0.0)):
        found = OBJECTIVES[name].gradients(y, y[None], np.array([1.0, 2.0, 1.0]))
        assert not found[0].any()
        assert (found[1] == h * np.array([1.0, 2.0, 1.0])).all()


@pytest.mark.parametrize(
    ("rows", "weighted", "alpha", "start"),
    [
        (4, False, 0.25, 0.25),
        (4, False, 0.2, 0.0),
        (5, False, 0.7, 3.2),
        (10, False, 1.0, 9.0),
        (10, True, 0.3, 2.0),
        (97, True, 0.25, 24.0),
        (8, True, 0.0, 0.0),
        (8, True, 1.0, 7.0),
    ],
)
def test_quantiles_start_where_3_4_starts(rows: int, weighted: bool, alpha: float, start: float) -> None:
    """As read off models of XGBoost 3.4.1: with weights the next label, without them between two."""
    loss = objective_of("reg:quantileerror", 1, VALUES | {"quantile_alpha": alpha})
    found = loss.base_margin(np.arange(rows, dtype=np.float64), np.ones(rows) if weighted else None, None, 1)

    assert found.item() == pytest.approx(start, rel=1e-6, abs=1e-7)
