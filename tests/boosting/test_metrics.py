"""Metrics against scikit-learn and scipy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special, stats
from sklearn import metrics as sk

from mpfedxgb.boosting.metrics import METRICS, check_metrics, is_better
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.objectives import OBJECTIVES, objective_of
from mpfedxgb.errors import UserError

ROWS = 60

Oracle = Callable[[Floats, Floats, Floats], float]
BINARY: dict[str, Oracle] = {
    "logloss": lambda y, p, w: float(sk.log_loss(y, p, sample_weight=w)),
    "error": lambda y, p, w: 1 - float(sk.accuracy_score(y, p > 0.5, sample_weight=w)),
    "auc": lambda y, p, w: float(sk.roc_auc_score(y, p, sample_weight=w)),
}
NUMBERS: dict[str, Oracle] = {
    "rmse": lambda y, p, w: float(np.sqrt(sk.mean_squared_error(y, p, sample_weight=w))),
    "mae": lambda y, p, w: float(sk.mean_absolute_error(y, p, sample_weight=w)),
    "mphe": lambda y, p, w: float(np.average(special.pseudo_huber(1.0, y - p), weights=w)),
    "poisson-nloglik": lambda y, p, w: float(-np.average(stats.poisson.logpmf(y, p), weights=w)),
}
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

    assert METRICS[name](y, p[None], w) == pytest.approx(NUMBERS[name](y, p, w), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", CLASSES)
def test_metrics_of_classes(name: str, weighted: bool) -> None:
    """Three classes, with weights."""
    rng = np.random.default_rng(6)
    y, p, w = rng.integers(0, 3, ROWS).astype(float), rng.random((3, ROWS)), weights(weighted, rng)
    p /= p.sum(axis=0)

    assert METRICS[name](y, p, w) == pytest.approx(CLASSES[name](y, p, w), rel=1e-12)


def test_every_metric_is_compared() -> None:
    """None is left out above, and every objective has one of them by default."""
    assert set(METRICS) == {*BINARY, *NUMBERS, *CLASSES}
    for name, objective in OBJECTIVES.items():
        check_metrics([objective.default_metric], name)
        check_metrics([objective_of(name, 2).default_metric], name)


@pytest.mark.parametrize("name", ["logloss", "mlogloss", "poisson-nloglik"])
def test_certain_mistakes_cost_a_finite_amount(name: str) -> None:
    """A probability or mean of zero for what happened is taken as 1e-16, as XGBoost does."""
    y, w = np.array([1.0]), np.ones(1)
    p = np.array([[1.0], [0.0]]) if name == "mlogloss" else np.array([[0.0]])

    assert METRICS[name](y, p, w) == pytest.approx(-np.log(1e-16), rel=1e-6)
    if name == "logloss":
        assert 36 < METRICS[name](np.zeros(1), np.ones((1, 1)), w) < 37


def test_auc_of_one_class_is_undefined() -> None:
    """Without both classes, or without weight on one of them, there is no curve."""
    p = np.array([[0.1, 0.9]])

    assert np.isnan(METRICS["auc"](np.ones(2), p, np.ones(2)))
    assert np.isnan(METRICS["auc"](np.array([0.0, 1.0]), p, np.array([0.0, 1.0])))


@pytest.mark.parametrize("name", [name for name in METRICS if name != "auc"])
def test_no_weight_no_mean(name: str) -> None:
    """Rows that all weigh nothing have no mean."""
    assert np.isnan(METRICS[name](np.zeros(2), np.full((2, 2), 0.5), np.zeros(2)))


def test_area_grows_and_losses_fall() -> None:
    """More area is better, less of everything else; equal is not better."""
    for name in METRICS:
        assert is_better(name, 0.6, 0.5) == (name == "auc")
        assert is_better(name, 0.5, 0.6) == (name != "auc")
        assert not is_better(name, 0.5, 0.5)


@pytest.mark.parametrize(
    ("name", "objective", "message"),
    [
        ("rsme", "reg:squarederror", "eval_metric='rsme' is not known; it is one of logloss, error, auc, rmse"),
        ("mlogloss", "binary:logistic", "eval_metric='mlogloss' does not go with objective='binary:logistic'"),
        ("rmse", "multi:softprob", "eval_metric='rmse' does not go with objective='multi:softprob'"),
        ("auc", "multi:softprob", "eval_metric='auc' does not go with"),
        ("auc", "reg:squarederror", "eval_metric='auc' does not go with"),
        ("logloss", "count:poisson", "eval_metric='logloss' does not go with"),
    ],
)
def test_refused_metrics(name: str, objective: str, message: str) -> None:
    """Unknown metrics, and those that mean nothing for the objective, are refused by name."""
    with pytest.raises(UserError, match=message):
        check_metrics([name], objective)
