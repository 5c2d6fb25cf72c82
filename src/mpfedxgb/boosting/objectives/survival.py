"""Losses and metrics of survival times: accelerated failure time with censored labels, and Cox's proportional hazards.

AFT: ln T = margin + sigma Z, where Z is normal, logistic, or of the least extreme value. A label has two bounds: equal
if the time is known, infinite above if only its least is, 0 below if only its most is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import (
    Floats,
    Gradients,
    Objective,
    Origin,
    Prediction,
    as_text,
    float32,
    newton_step,
)
from mpfedxgb.boosting.objectives.positive import LOG_LINK, exp
from mpfedxgb.errors import DataError

_MOST_SLOPE, _MOST_CURVATURE, _LEAST_CURVATURE = 15.0, 15.0, 1e-16
"""XGBoost holds g and h of AFT to these."""

LEAST_PROBABILITY = 1e-12
"""XGBoost divides by no smaller probability, and takes no logarithm of one."""

_erf = np.vectorize(math.erf, otypes=[np.float64])


@dataclass(frozen=True, slots=True)
class Density:
    """What a distribution has at z: its density with two derivatives, and the probability below z."""

    pdf: Floats
    slope: Floats
    bend: Floats
    cdf: Floats


def density(name: str, z: Floats) -> Density:
    """Return what one of XGBoost's distributions has at z; 0 and 1 beyond float64's exponents, as there."""
    with np.errstate(over="ignore", invalid="ignore"):
        if name == "normal":
            pdf = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            return Density(pdf, -z * pdf, (z * z - 1) * pdf, (1 + _erf(z / math.sqrt(2))) / 2)
        w = np.exp(z)
        if name == "extreme":
            pdf = np.where(np.isinf(w), 0.0, w * np.exp(-w))
            bend = np.where(np.isinf(w * w), 0.0, (w * w - 3 * w + 1) * pdf)
            return Density(pdf, np.where(np.isinf(w), 0.0, (1 - w) * pdf), bend, 1 - np.exp(-w))
        squared = (1 + w) * (1 + w)
        pdf = np.where(np.isinf(w * w), 0.0, w / squared)
        slope = np.where(np.isinf(w), 0.0, pdf * (1 - w) / (1 + w))
        bend = np.where(np.isinf(w * w), 0.0, pdf * (w * w - 4 * w + 1) / squared)
        return Density(pdf, slope, bend, np.where(np.isinf(w), 1.0, w / (1 + w)))


@dataclass(frozen=True, slots=True)
class Interval:
    """Rows whose times lie between bounds, beside margins: what the distribution has at both, and what is known.

    Where there is no bound its density is 0, and the probability below it 0 or 1.
    """

    low: Density
    high: Density
    is_known: npt.NDArray[np.bool_]
    has_low: npt.NDArray[np.bool_]
    has_high: npt.NDArray[np.bool_]
    is_above: npt.NDArray[np.bool_]
    """Whether a bound is above the margin."""


def interval(name: str, sigma: float, lower: Floats, upper: Floats, margins: Floats) -> Interval:
    """Return rows with these bounds at these margins."""
    lower, upper = float32(lower), float32(upper)
    has_low, has_high = lower > 0, np.isfinite(upper)
    places = [
        (np.log(np.where(has, bound, 1.0)) - margins) / sigma for has, bound in ((has_low, lower), (has_high, upper))
    ]
    is_above = ((places[0] > 0) & has_low) | ((places[1] > 0) & has_high)
    low, high = _end(name, places[0], has_low, 0.0), _end(name, places[1], has_high, 1.0)
    return Interval(low, high, lower == upper, has_low, has_high, is_above)


def _end(name: str, z: Floats, exists: npt.NDArray[np.bool_], beyond: float) -> Density:
    """Return what the distribution has at a bound, where there is one."""
    at = density(name, z)
    pdf, slope, bend = (np.where(exists, part, 0.0) for part in (at.pdf, at.slope, at.bend))
    return Density(pdf, slope, bend, np.where(exists, at.cdf, beyond))


def _aft(name: str, sigma: float, upper: Floats, y: Floats, margins: Floats) -> Gradients:
    """Return g and h of the negative log-likelihood; at margins where float64 knows no density, their limits."""
    at = interval(name, sigma, y, upper, margins)
    mass, slope, bend = (
        np.where(at.is_known, known, high - low)
        for known, high, low in (
            (at.low.pdf, at.high.cdf, at.low.cdf),
            (at.low.slope, at.high.pdf, at.low.pdf),
            (at.low.bend, at.high.slope, at.low.slope),
        )
    )
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        g, h = slope / (sigma * mass), -(mass * bend - slope * slope) / (sigma * mass) ** 2
        tiny_g, tiny_h = sigma * mass < LEAST_PROBABILITY, (sigma * mass) ** 2 < LEAST_PROBABILITY
    limit_g, limit_h = _limits(name, sigma, at)
    g = np.where(tiny_g & ~np.isfinite(g), limit_g, g)
    h = np.where(tiny_h & ~np.isfinite(h), limit_h, h)
    return np.clip(g, -_MOST_SLOPE, _MOST_SLOPE), np.clip(h, _LEAST_CURVATURE, _MOST_CURVATURE)


def _limits(name: str, sigma: float, at: Interval) -> Gradients:
    """Return where g and h go as margins leave both bounds behind; a side without bound pulls no more."""
    pull_up = {"normal": -_MOST_SLOPE, "logistic": -1 / sigma, "extreme": -_MOST_SLOPE}[name]
    pull_down = _MOST_SLOPE if name == "normal" else 1 / sigma
    ends_up, ends_down = at.has_low | at.is_known, at.has_high | at.is_known
    g = np.where(at.is_above, np.where(ends_up, pull_up, 0.0), np.where(ends_down, pull_down, 0.0))
    above = {"normal": 1 / sigma**2, "logistic": _LEAST_CURVATURE, "extreme": _MOST_CURVATURE}[name]
    below = 1 / sigma**2 if name == "normal" else _LEAST_CURVATURE
    h = np.where(at.is_above, np.where(ends_up, above, _LEAST_CURVATURE), np.where(ends_down, below, _LEAST_CURVATURE))
    return g, h


def _half(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    return np.array([0.5])


def _times(y: Floats, origin: Origin, starts: bool) -> None:
    if (y < 0).any():
        held = origin.holds(float(y.min()), "times below 0")
        raise DataError(f"{held}; survival:aft takes times of 0 or more", "range", origin.name)


def read_upper(bounds: npt.NDArray[Any], y: Floats, origin: Origin) -> Floats:
    """Return the upper bounds of times (rows,): at least the lower ones, above 0, infinite if there is none.

    Parameters
    ----------
    bounds : array (rows,)
    y : array (rows,)
        Lower bounds.
    origin : Origin
    """
    try:
        upper = bounds.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{origin.name} holds something that is not a number", "type", origin.name) from None
    if np.isnan(upper).any():
        text = f"{origin.name} has gaps; write inf where a time has no upper bound"
        raise DataError(text, "missing", origin.name)
    if (upper < y).any() or (upper <= 0).any():
        count = int(((upper < y) | (upper <= 0)).sum())
        text = f"{origin.name}: {count} of {len(y)} upper bounds are 0 or below the lower ones; give lower <= upper"
        raise DataError(text, "range", origin.name, count)
    return upper


def aft(aft_loss_distribution: str, aft_loss_distribution_scale: float) -> Objective:
    """Return the loss of accelerated failure time."""
    sigma = float(np.float32(aft_loss_distribution_scale))
    return Objective(
        name="survival:aft",
        derivatives=partial(_aft, aft_loss_distribution, sigma),
        beside="upper",
        default_metric="aft-nloglik",
        block="aft_loss_param",
        block_parameters={
            "aft_loss_distribution": aft_loss_distribution,
            "aft_loss_distribution_scale": as_text(aft_loss_distribution_scale),
        },
        predicts=frozenset({Prediction.TIME}),
        transform=exp,
        link=LOG_LINK,
        start=_half,
        check_labels=_times,
    )


@dataclass(frozen=True, slots=True)
class RiskSets:
    """Rows by time, and for each place from where on rows are at risk: those of one time together (Breslow)."""

    order: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]

    @classmethod
    def of(cls, times: Floats) -> RiskSets:
        """Return the order of times, negative where a row was censored."""
        moments = np.abs(float32(times))
        order = np.argsort(moments, kind="stable")
        return cls(order, np.searchsorted(moments[order], moments[order]))

    def sums(self, hazards: Floats) -> Floats:
        """Return, by place, the sum of the hazards (rows,) of all rows at risk."""
        return np.asarray(np.cumsum(hazards[self.order][::-1])[::-1][self.first])


def _cox(y: Floats, margins: Floats) -> Gradients:
    """Return g and h of the partial likelihood. Of rows with one time, as in XGBoost, the later ones see more events.

    XGBoost takes hazards in double precision from a sum over float32 ones, and what is left at the end tells the two
    apart: so does this, as long as there is something left.
    """
    risk, hazards = RiskSets.of(y), exp(margins.reshape(-1))
    at_risk = risk.sums(hazards)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # the caller refuses what is not finite
        drifted = at_risk + (float32(hazards).sum() - hazards.sum())
        at_risk, ordered = np.where(drifted > 0, drifted, at_risk), hazards[risk.order]
        events = y[risk.order] > 0
        first, second = (np.cumsum(np.where(events, at_risk**-power, 0.0)) for power in (1.0, 2.0))
        share = ordered * first
        curve = np.where(share > 0, np.maximum(share - ordered**2 * second, _LEAST_CURVATURE), 0.0)
    g, h = np.empty((2, len(y)))
    g[risk.order], h[risk.order] = share - events, curve
    return g.reshape(margins.shape), h.reshape(margins.shape)


def _cox_start(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    return exp(newton_step(_cox, y, weight))


def _events(y: Floats, origin: Origin, starts: bool) -> None:
    if starts and not (y > 0).any():
        text = f"{origin.name} holds no event; survival:cox takes times, negative where a row was censored"
        raise DataError(text, "few", origin.name)


COX = Objective(
    name="survival:cox",
    derivatives=_cox,
    default_metric="cox-nloglik",
    predicts=frozenset({Prediction.HAZARD}),
    transform=exp,
    link=LOG_LINK,
    start=_cox_start,
    check_labels=_events,
)


# Metrics: likelihoods of AFT and Cox, and how often a time is predicted within its bounds.


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
