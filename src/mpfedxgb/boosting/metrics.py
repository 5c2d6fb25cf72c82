"""Evaluation metrics by their XGBoost names, computed by the active participant alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mpfedxgb.boosting.objective import Floats, Prediction
from mpfedxgb.boosting.objectives import OBJECTIVES
from mpfedxgb.errors import UserError


@dataclass(frozen=True, slots=True)
class Metric:
    """A function of labels (rows,), predictions (trees, rows) and weights (rows,), and what it judges."""

    function: Callable[[Floats, Floats, Floats], float]
    judges: Prediction
    grows: bool = False

    def __call__(self, y: Floats, p: Floats, weight: Floats) -> float:
        """Return the value of the metric."""
        return self.function(y, p, weight)


def _mean(values: Floats, weight: Floats) -> float:
    return float(np.average(values, weights=weight)) if weight.sum() > 0 else float("nan")


def logloss(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of 0/1 labels."""
    q = np.clip(p[0], 1e-16, 1 - 1e-16)
    return _mean(-(y * np.log(q) + (1 - y) * np.log1p(-q)), weight)


def error(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the share of rows on the wrong side of 0.5."""
    return _mean((p[0] > 0.5) != (y > 0.5), weight)


def auc(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the area under the ROC curve; 0.5 for ties, NaN if only one class is there."""
    order = np.argsort(p[0], kind="stable")
    scores, positive, negative = p[0][order], (weight * (y > 0.5))[order], (weight * (y <= 0.5))[order]
    if positive.sum() == 0 or negative.sum() == 0:
        return float("nan")
    starts = np.flatnonzero(np.r_[True, scores[1:] != scores[:-1]])
    pos, neg = np.add.reduceat(positive, starts), np.add.reduceat(negative, starts)
    below = np.cumsum(neg) - neg
    return float((pos * (below + neg / 2)).sum() / (positive.sum() * negative.sum()))


def rmse(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(_mean((y - p[0]) ** 2, weight)))


def mae(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean absolute error."""
    return _mean(np.abs(y - p[0]), weight)


def mphe(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean pseudo-Huber error: about z^2 / 2 for small residuals z, |z| - 1 for large ones."""
    return _mean(np.hypot(1, y - p[0]) - 1, weight)


def mlogloss(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of classes."""
    return _mean(-np.log(np.maximum(p[y.astype(np.int64), np.arange(len(y))], 1e-16)), weight)


def merror(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the share of rows whose likeliest class is wrong."""
    return _mean(p.argmax(axis=0) != y, weight)


def poisson_nloglik(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of counts."""
    mean = np.maximum(p[0], 1e-16)
    of_labels = np.array([math.lgamma(count + 1) for count in y])
    return _mean(of_labels + mean - y * np.log(mean), weight)


METRICS: dict[str, Metric] = {
    "logloss": Metric(logloss, Prediction.PROBABILITY),
    "error": Metric(error, Prediction.PROBABILITY),
    "auc": Metric(auc, Prediction.PROBABILITY, grows=True),
    "rmse": Metric(rmse, Prediction.NUMBER),
    "mae": Metric(mae, Prediction.NUMBER),
    "mphe": Metric(mphe, Prediction.NUMBER),
    "mlogloss": Metric(mlogloss, Prediction.PROBABILITIES),
    "merror": Metric(merror, Prediction.PROBABILITIES),
    "poisson-nloglik": Metric(poisson_nloglik, Prediction.NUMBER),
}


def is_better(name: str, new: float, old: float) -> bool:
    """Return whether a value of a metric improves on another."""
    return new > old if METRICS[name].grows else new < old


def check_metrics(names: list[str], objective: str) -> None:
    """Refuse unknown metrics and those that do not go with the objective."""
    for name in names:
        if name not in METRICS:
            raise UserError(f"eval_metric={name!r} is not known; it is one of {', '.join(METRICS)}")
        if METRICS[name].judges not in OBJECTIVES[objective].predicts:
            raise UserError(f"eval_metric={name!r} does not go with objective={objective!r}")
