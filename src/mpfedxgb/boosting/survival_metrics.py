"""Metrics of survival times: likelihoods of AFT and Cox, and how often a time is predicted within its bounds."""

from __future__ import annotations

import numpy as np

from mpfedxgb.boosting.objective import Floats, float32
from mpfedxgb.boosting.objectives.survival import LEAST_PROBABILITY, RiskSets, interval


def aft_nloglik(
    upper: Floats,
    y: Floats,
    p: Floats,
    weight: Floats,
    aft_loss_distribution: str,
    aft_loss_distribution_scale: float,
) -> float:
    """Return the mean negative log-likelihood of times between bounds."""
    sigma = float(np.float32(aft_loss_distribution_scale))
    with np.errstate(divide="ignore"):
        at = interval(aft_loss_distribution, sigma, y, upper, np.log(p[0]))
        known = at.low.pdf / np.where(at.is_known, sigma * float32(y), 1.0)
    mass = np.where(at.is_known, known, at.high.cdf - at.low.cdf)
    return _mean(-np.log(np.maximum(mass, LEAST_PROBABILITY)), weight)


def interval_accuracy(upper: Floats, y: Floats, p: Floats, weight: Floats) -> float:
    """Return the share of rows whose predicted time lies between the bounds."""
    time = float32(p[0])
    return _mean(((time >= float32(y)) & (time <= float32(upper))).astype(np.float64), weight)


def cox_nloglik(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative partial log-likelihood of the events; as in XGBoost row weights count nothing."""
    risk, events = RiskSets.of(y), y > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        losses = np.log(risk.sums(p[0])) - np.log(p[0][risk.order])
        return float(losses[events[risk.order]].mean()) if events.any() else float("nan")


def _mean(values: Floats, weight: Floats) -> float:
    return float(np.average(values, weights=weight)) if weight.sum() > 0 else float("nan")
