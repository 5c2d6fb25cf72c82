"""Metrics against scikit-learn, scipy and xgboost; and functions of one's own."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import xgboost
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats
from sklearn import metrics as sk

from mpfedxgb.boosting.metrics import DEFAULTS, METRICS, check_metrics, metric_of, named_metrics
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.objectives import OBJECTIVES, objective_of
from mpfedxgb.boosting.objectives.classes import softmax
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import DataError, SettingsError, UserError, public_reason
from support.property_tests import examples
from support.refusals import refused

ROWS = 60


def area_by_xgboost(name: str, y: Floats, p: Floats, w: Floats) -> float:
    """Return xgboost's own area under a curve: of a booster without trees, whose margins are the scores."""
    rows = xgboost.DMatrix(np.zeros((len(y), 1)), label=y, weight=w, base_margin=p)
    empty = xgboost.train({"objective": "binary:logitraw", "eval_metric": name, "nthread": 1}, rows, 0)
    return float(empty.eval(rows).split(":")[1])


Oracle = Callable[[Floats, Floats, Floats], float]
BINARY: dict[str, Oracle] = {
    "logloss": lambda y, p, w: float(sk.log_loss(y, p, sample_weight=w)),
    "error": lambda y, p, w: 1 - float(sk.accuracy_score(y, p > 0.5, sample_weight=w)),
    "auc": lambda y, p, w: float(sk.roc_auc_score(y, p, sample_weight=w.astype(np.float32).astype(float))),
    "aucpr": partial(area_by_xgboost, "aucpr"),
}
NUMBERS: dict[str, Oracle] = {
    "rmse": lambda y, p, w: float(np.sqrt(sk.mean_squared_error(y, p, sample_weight=w))),
    "mae": lambda y, p, w: float(sk.mean_absolute_error(y, p, sample_weight=w)),
    "mphe": lambda y, p, w: float(np.average(special.pseudo_huber(1.0, y - p), weights=w)),
    "poisson-nloglik": lambda y, p, w: float(-np.average(stats.poisson.logpmf(y, p), weights=w)),
}
BY_XGBOOST: dict[str, dict[str, float]] = {
    "rmsle": {},
    "mape": {},
    "gamma-nloglik": {},
    "gamma-deviance": {},
    "tweedie-nloglik@1.3": {},
    "quantile": {"quantile_alpha": 0.3},
    "mphe": {"huber_slope": 2.5},
    "error@0.7": {},
    "error@-0.5": {},
}
"""Metrics that xgboost itself is asked for, and the parameters that they take."""

CLASSES: dict[str, Oracle] = {
    "mlogloss": lambda y, p, w: float(sk.log_loss(y, p.T, sample_weight=w, labels=[0, 1, 2])),
    "merror": lambda y, p, w: 1 - float(sk.accuracy_score(y, p.argmax(axis=0), sample_weight=w)),
}


def weights(weighted: bool, rng: np.random.Generator) -> Floats:
    """Return weights, some of them zero, or ones."""
    return rng.integers(0, 4, ROWS) * rng.random(ROWS) if weighted else np.ones(ROWS)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", BINARY)
def test_binary_metrics(name: str, seed: int, weighted: bool) -> None:
    """With ties among the predictions, and weights."""
    rng = np.random.default_rng(seed)
    y, p, w = rng.integers(0, 2, ROWS).astype(float), rng.integers(1, 20, ROWS) / 20, weights(weighted, rng)

    assert METRICS[name](y, p[None], w) == pytest.approx(BINARY[name](y, p, w), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", NUMBERS)
def test_metrics_of_numbers(name: str, weighted: bool) -> None:
    """Counts and means, with weights; the likelihood of counts has all its terms, as XGBoost's."""
    rng = np.random.default_rng(5)
    y, p, w = rng.poisson(3, ROWS).astype(float), rng.random(ROWS) * 5 + 0.1, weights(weighted, rng)

    assert metric_of(name, DEFAULTS)(y, p[None], w) == pytest.approx(NUMBERS[name](y, p, w), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_metrics_of_classes(name: str, weighted: bool) -> None:
    """Three classes, with weights."""
    rng = np.random.default_rng(6)
    y, p, w = rng.integers(0, 3, ROWS).astype(float), rng.random((3, ROWS)), weights(weighted, rng)
    p /= p.sum(axis=0)

    assert METRICS[name](y, p, w) == pytest.approx(CLASSES[name](y, p, w), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", BY_XGBOOST)
def test_metrics_by_xgboost(name: str, weighted: bool) -> None:
    """Of a booster without trees, whose margins are the predictions; in float32 there."""
    rng = np.random.default_rng(7)
    y: Floats = np.asarray(rng.poisson(3, ROWS) + 0.5, np.float64)
    p, w = rng.random(ROWS) * 5 + 0.1, weights(weighted, rng)
    if name.startswith("error"):  # shares count as often as they say
        y, p = rng.random(ROWS), rng.normal(size=ROWS)
    rows = xgboost.DMatrix(np.zeros((ROWS, 1)), label=y, weight=w, base_margin=p)
    more = BY_XGBOOST[name]
    objective = "reg:pseudohubererror" if name == "mphe" else "reg:squarederror"
    empty = xgboost.train({"objective": objective, "eval_metric": name, "nthread": 1, **more}, rows, 0)

    assert metric_of(name, DEFAULTS | more)(y, p[None], w) == pytest.approx(
        float(empty.eval(rows).split(":")[1]), rel=1e-5
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", ["auc", "aucpr"])
def test_areas_of_many_classes(name: str, weighted: bool) -> None:
    """Each class against the rest, averaged as in xgboost; NaN if one is not there."""
    rng = np.random.default_rng(8)
    y, m, w = rng.integers(0, 3, ROWS).astype(float), rng.normal(size=(ROWS, 3)), weights(weighted, rng)
    rows = xgboost.DMatrix(np.zeros((ROWS, 1)), label=y, weight=w, base_margin=m)
    params = {"objective": "multi:softprob", "num_class": 3, "eval_metric": name, "nthread": 1}
    theirs = float(xgboost.train(params, rows, 0).eval(rows).split(":")[1])

    assert METRICS[name](y, softmax(m.T), w) == pytest.approx(theirs, rel=1e-5)
    assert np.isnan(METRICS[name](y % 2, softmax(m.T), w))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("tweedie-nloglik", ("range", "eval_metric", "tweedie-nloglik")),
        ("tweedie-nloglik@2", ("range", "eval_metric", "tweedie-nloglik@2")),
        ("error@", ("range", "eval_metric", "error@")),
        ("error@half", ("range", "eval_metric", "error@half")),
        ("rmse@2", ("value", "eval_metric", "rmse@2")),
        ("quantile@0.3", ("value", "eval_metric", "quantile@0.3")),
        ("nothing@1", ("choice", "eval_metric", "nothing@1")),
    ],
)
def test_refused_names(name: str, message: tuple[Any, ...]) -> None:
    """What stands after the @ is a number, where there is something to say."""
    with refused(SettingsError, *message):
        check_metrics([name], "reg:squarederror")


def test_every_metric_is_compared() -> None:
    """None is left out above, and every objective has one of them by default."""
    others = {"ndcg", "map", "pre", "aft-nloglik", "interval-regression-accuracy", "cox-nloglik"}
    here = {*BINARY, *NUMBERS, *CLASSES, *(name.partition("@")[0] for name in BY_XGBOOST)}
    assert set(METRICS) == here | others, "test_ranking.py and test_survival.py have the others"
    for name, objective in OBJECTIVES.items():
        check_metrics([objective.default_metric], name)
        check_metrics([objective_of(name, 2, TrainParams(objective=name).of_objectives).default_metric], name)


@pytest.mark.parametrize("name", ["logloss", "mlogloss", "poisson-nloglik"])
def test_certain_mistakes_cost_a_finite_amount(name: str) -> None:
    """A probability or mean of zero for what happened is taken as 1e-16, as XGBoost does."""
    y, w = np.array([1.0]), np.ones(1)
    p = np.array([[1.0], [0.0]]) if name == "mlogloss" else np.array([[0.0]])

    assert METRICS[name](y, p, w) == pytest.approx(-np.log(1e-16), rel=1e-6)
    if name == "logloss":
        assert 36 < METRICS[name](np.zeros(1), np.ones((1, 1)), w) < 37


AREAS = ("auc", "aucpr")
GROW = (*AREAS, "ndcg", "map", "pre", "interval-regression-accuracy")

HAS_XGBOOSTS_BITS = platform.machine() in ("x86_64", "AMD64")
"""Elsewhere a compiler may multiply and add with one rounding."""


@pytest.mark.parametrize("name", AREAS)
@pytest.mark.exhaustive
def test_areas_are_xgboosts_to_the_last_bit(name: str) -> None:
    """Early stopping takes one bit more for progress, so weights are float32, and sums are taken as in XGBoost."""
    rng = np.random.default_rng(3)
    for i in range(150):
        rows = int(rng.integers(30, 200))
        y, w = (rng.random(rows) < 0.4).astype(float), rng.random(rows) * 10.0 ** rng.integers(-3, 4)
        p = np.round(rng.normal(0, 2, rows), rng.integers(0, 8))  # with ties, some of them float32's
        p += 20 * y * (i % 5 == 0)  # a perfect ranking, whose area is no more than 1
        ours, theirs = METRICS[name](y, p[None], w), area_by_xgboost(name, y, p, w)
        assert ours == (theirs if HAS_XGBOOSTS_BITS else pytest.approx(theirs, rel=1e-12))


@pytest.mark.parametrize("name", AREAS)
def test_areas_of_one_class_are_undefined(name: str) -> None:
    """Without both classes, or without weight on one of them, there is no curve."""
    p = np.array([[0.1, 0.9]])

    assert np.isnan(METRICS[name](np.ones(2), p, np.ones(2)))
    assert np.isnan(METRICS[name](np.array([0.0, 1.0]), p, np.array([0.0, 1.0])))


@pytest.mark.parametrize("name", AREAS)
@pytest.mark.parametrize("unit", [1e-60, 1e60])
def test_areas_have_weights_beyond_float32(name: str, unit: float) -> None:
    """XGBoost cannot have these; areas are those of the same weights in another unit."""
    y, p, w = np.array([0.0, 1, 0, 1, 1]), np.array([[0.1, 0.2, 0.3, 0.4, 0.3]]), np.array([1.0, 2, 3, 4, 0])

    assert METRICS[name](y, p, w * unit) == pytest.approx(METRICS[name](y, p, w), rel=1e-12)


@given(
    rows=st.lists(st.tuples(st.booleans(), st.integers(1, 9), st.integers(0, 3)), min_size=2, max_size=30),
)
@examples(60)
def test_area_of_precision(rows: list[tuple[bool, int, int]]) -> None:
    """It is the integral of precision over recall, here by summing many thin strips between neighbouring thresholds."""
    y, p, w = (np.array(column, np.float64) for column in zip(*rows, strict=True))
    total, negative = float(w @ y), float(w @ (1 - y))
    found = METRICS["aucpr"](y, p[None] / 10, w)
    if not (total and negative):
        assert np.isnan(found)
        return
    points = [(0.0, 0.0)] + [(float(w @ (y * (p >= t))), float(w @ ((1 - y) * (p >= t)))) for t in range(9, 0, -1)]
    area = 0.0
    for (tp, fp), (more_tp, more_fp) in pairwise(points):
        share = (np.arange(2000) + 0.5) / 2000
        true, false = tp + share * (more_tp - tp), fp + share * (more_fp - fp)
        if more_tp > tp:
            area += float((true / (true + false)).mean()) * (more_tp - tp) / total
    assert found == pytest.approx(area, abs=1e-5)


@pytest.mark.parametrize("name", ["tweedie-nloglik@1.5", *sorted(set(METRICS) - {*AREAS, "tweedie-nloglik"})])
def test_no_weight_no_mean(name: str) -> None:
    """Rows that all weigh nothing have no mean."""
    assert np.isnan(metric_of(name, DEFAULTS)(np.zeros(2), np.full((2, 2), 0.5), np.zeros(2), of_times(name)))


def of_times(name: str) -> Floats | None:
    """Return upper bounds for the metrics that take them."""
    return np.ones(2) if METRICS[name.partition("@")[0]].beside == "upper" else None


def test_area_grows_and_losses_fall() -> None:
    """More area, rank or accuracy is better, less of everything else; equal is not better."""
    for name, metric in METRICS.items():
        assert metric.is_better(0.6, 0.5) == (name in GROW)
        assert metric.is_better(0.5, 0.6) == (name not in GROW)
        assert not metric.is_better(0.5, 0.5)


def brier(y_true: Floats, y_pred: Floats, sample_weight: Floats | None = None) -> float:
    """Return a metric of one's own, in scikit-learn's form."""
    return float(np.average((y_true - y_pred) ** 2, weights=sample_weight))


def test_a_function_of_ones_own() -> None:
    """It is named after itself, gets weights where there are some, and less of it is better."""
    named = named_metrics(["auc", brier], DEFAULTS)
    assert list(named) == ["auc", "brier"]
    y, p, w = np.array([0.0, 1.0]), np.array([[0.5, 0.75]]), np.array([1.0, 3.0])
    assert named["brier"](y, p) == (0.25 + 0.0625) / 2
    assert named["brier"](y, p, w) == (0.25 + 3 * 0.0625) / 4
    assert named["brier"].is_better(0.1, 0.2)
    columns = named_metrics([lambda y_true, y_pred: y_pred.shape[1]], DEFAULTS)["<lambda>"]
    assert columns(y, np.full((3, 2), 1 / 3)) == 3.0


@pytest.mark.parametrize("function", [lambda y: 0.0, lambda y, p: "low", lambda y, p: int("7 yes")])
def test_what_goes_wrong_in_a_function_stays_here(function: Callable[..., object]) -> None:
    """The message says what a metric is; others hear only that something here could not be used."""
    with refused(DataError, "type", "<lambda>") as caught:
        named_metrics([function], DEFAULTS)["<lambda>"](np.zeros(2), np.zeros((1, 2)))
    assert "7 yes" not in public_reason(caught.value)


def test_names_tell_metrics_apart() -> None:
    """Two of one name are refused."""
    with refused(SettingsError, "duplicate", "eval_metric", "brier"):
        check_metrics([brier, "auc", brier], "binary:logistic")


@pytest.mark.parametrize(
    ("name", "objective", "message"),
    [
        ("rsme", "reg:squarederror", ("choice", "eval_metric", "rsme")),
        ("mlogloss", "binary:logistic", ("mismatch", "eval_metric", "mlogloss")),
        ("rmse", "multi:softprob", ("mismatch", "eval_metric", "rmse")),
        ("auc", "reg:squarederror", ("mismatch", "eval_metric", "auc")),
        ("logloss", "count:poisson", ("mismatch", "eval_metric", "logloss")),
    ],
)
def test_refused_metrics(name: str, objective: str, message: tuple[Any, ...]) -> None:
    """Unknown metrics, and those that mean nothing for the objective, are refused by name."""
    with refused(UserError, *message):
        check_metrics([name], objective)


def test_tweedie_of_counts_is_the_limit() -> None:
    """At a power of 1 XGBoost divides by 0; here its limit is taken, without what does not hang on predictions."""
    y, p, w = np.array([0.0, 1, 3]), np.array([[0.5, 2.0, 2.5]]), np.ones(3)
    near = metric_of(f"tweedie-nloglik@{1 + 2**-20!r}", DEFAULTS)(y, p, w) - float(np.mean(y)) * 2**20

    assert metric_of("tweedie-nloglik@1", DEFAULTS)(y, p, w) == pytest.approx(near, rel=1e-4)
