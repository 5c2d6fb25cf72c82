"""Losses of residuals, for any number as label: squared, pseudo-Huber, absolute, quantile, and squared of logarithms.

Absolute and quantile error are smooth, by rules 3.4 (XGBoost's pull requests 12373 and 12386): their scale is an
average over all rows of a boosting round, so their derivatives take row weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from mpfedxgb.boosting.objective import (
    Derivatives,
    Floats,
    Gradients,
    Objective,
    Origin,
    ScalePolicy,
    SealedForm,
    as_text,
    float32,
    mean,
    newton_step,
)
from mpfedxgb.errors import DataError

_LEAST_LOG_MARGIN = float(np.float32(-1 + 1e-6))
"""XGBoost takes no logarithm of 1 + a margin below this."""

_LEAST_LOG_HESSIAN = 1e-6

_QUANTILE_WIDTH = 0.04
_QUANTILE_LEAST = 3e-4
"""Of quantile error: the width of its smooth part beside the scale, and the least curvature beside the largest."""


def _newton_start(loss: Derivatives, y: Floats, weight: Floats | None, num_class: int) -> Floats:
    return newton_step(loss, y, weight)


def _squared(y: Floats, margins: Floats) -> Gradients:
    return margins - y, np.ones_like(margins)


def _pseudo_huber(slope: float, y: Floats, margins: Floats) -> Gradients:
    z = margins - y
    root = np.hypot(1, z / slope)
    return z / root, root**-3.0


def _squared_logs(y: Floats, margins: Floats) -> Gradients:
    m = np.maximum(margins, _LEAST_LOG_MARGIN)
    difference = np.log1p(m) - np.log1p(y)
    return difference / (m + 1), np.maximum((1 - difference) / (m + 1) ** 2, _LEAST_LOG_HESSIAN)


def _above_minus_1(y: Floats, origin: Origin, starts: bool) -> None:
    if (y <= -1).any():
        held = origin.holds(float(y.min()), "numbers of -1 or less")
        raise DataError(f"{held}; reg:squaredlogerror takes numbers above -1", "range", origin.name)


def _average_residual(residuals: Floats, weight: Floats | None) -> Floats:
    """Return the square of the average root of |residual|, (trees, 1)."""
    roots = np.average(np.sqrt(np.abs(residuals)), axis=-1, weights=weight)
    return np.asarray(roots**2)[..., None]


def _absolute(y: Floats, margins: Floats, weight: Floats | None) -> Gradients:
    """Return the slope of the pseudo-Huber loss of the average residual, and the curvature of the parabola above it."""
    r = margins - y
    scale = _average_residual(r, weight)
    length = np.hypot(scale, r)
    c = np.divide(scale, length, out=np.ones_like(r), where=length > 0)
    return r * c, c


def _absolute_start(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    middle = mean(y, weight, num_class)
    g, h = _absolute(y, middle, weight)
    w = np.ones(len(y)) if weight is None else weight
    return np.asarray(middle - (w * g).sum() / (w * h).sum())


def _quantile(alpha: Floats, y: Floats, margins: Floats, weight: Floats | None) -> Gradients:
    """Return the slope of the pinball loss with a logistic bend, and the curvature of the parabola above it.

    `alpha` is (trees, 1): each quantile has its tree.
    """
    r = margins - y
    scale = _average_residual(r, weight)
    x = np.divide(r, _QUANTILE_WIDTH * scale, out=np.zeros_like(r), where=scale > 0)
    bend = np.tanh(x)
    curvature = np.divide(bend, x, out=np.ones_like(x), where=x != 0)
    h = np.maximum(curvature, _QUANTILE_LEAST) / (2 * _QUANTILE_WIDTH)
    return scale / 2 * (bend + 1 - 2 * alpha), np.where(scale > 0, h, 0.0)  # XGBoost: nothing left to fit


def _quantile_start(alpha: Floats, y: Floats, weight: Floats | None, num_class: int) -> Floats:
    """Return quantiles of the labels as XGBoost has them: between two of them only where rows have no weights."""
    if weight is None:
        return np.asarray(np.quantile(y, alpha[:, 0], method="weibull"))
    order = np.argsort(y, kind="stable")
    sums = np.cumsum(weight[order].astype(np.float32), dtype=np.float32)
    places = np.searchsorted(sums, alpha[:, 0].astype(np.float32) * sums[-1], side="left")
    return np.asarray(y[order][np.minimum(places, len(y) - 1)])


_SQUARED_SCALE = ScalePolicy(f_h=16, h_cap=1 << 16)  # h = 1

SQUARED = Objective(
    name="reg:squarederror",
    derivatives=_squared,
    default_metric="rmse",
    scales_positives=True,
    block="reg_loss_param",
    block_parameters={"scale_pos_weight": "1"},
    scale=_SQUARED_SCALE,
    paper_scale=_SQUARED_SCALE,
    sealed=SealedForm(
        False,
        ScalePolicy(f_h=16, h_cap=1 << 16, g_bits=28, g_most=36),
        ScalePolicy(h_cap=1 << 24, g_bits=28, g_most=36),
    ),
)

SQUARED_LOGS = Objective(
    name="reg:squaredlogerror",
    derivatives=_squared_logs,
    default_metric="rmsle",
    check_labels=_above_minus_1,
    start=partial(_newton_start, _squared_logs),
)

ABSOLUTE = Objective(
    name="reg:absoluteerror",
    derivatives=_absolute,
    averages=True,
    default_metric="mae",
    start=_absolute_start,
)


def pseudo_huber(huber_slope: float) -> Objective:
    """Return the loss that is a square near the label and a line far from it."""
    loss = partial(_pseudo_huber, float(np.float32(huber_slope)))
    return Objective(
        name="reg:pseudohubererror",
        derivatives=loss,
        default_metric="mphe",
        block="pseudo_huber_param",
        block_parameters={"huber_slope": as_text(huber_slope)},
        start=partial(_newton_start, loss),
    )


def quantile(quantile_alpha: float | Sequence[float]) -> Objective:
    """Return the loss whose least is at a quantile, or at several, a tree for each."""
    given = [quantile_alpha] if isinstance(quantile_alpha, (int, float)) else list(quantile_alpha)
    alpha = float32(np.array(given))[:, None]
    return Objective(
        name="reg:quantileerror",
        derivatives=partial(_quantile, alpha),
        averages=True,
        default_metric="quantile",
        targets=("prediction",) if len(given) == 1 else tuple(f"quantile_{as_text(one)}" for one in given),
        block="quantile_loss_param",
        block_parameters={"quantile_alpha": f"[{','.join(map(as_text, given))}]"},
        start=partial(_quantile_start, alpha),
    )
