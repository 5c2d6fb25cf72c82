"""How far rounding alone can set a federated model and `xgboost` apart: integers here, float32 there.

First-order bounds, row by row. XGBoost keeps margins, labels, g and h in float32, and what it takes from 1 it knows to
float32's epsilon; the federation rounds g and h once, by the largest of the round. What a leaf may be off by moves the
margins of its rows, and with them g and h of the rounds to come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.objective import Floats, Objective, unchanged
from mpfedxgb.boosting.params import TrainParams

FLOAT32 = 2.0**-23
"""Float32's epsilon."""

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_SMALLEST = 1e-30
_HUGE = 1e100


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """G and H of some rows, and how far rounding may have moved them."""

    G: float
    H: float
    off_g: float
    off_h: float

    def score(self, reg_lambda: float) -> tuple[float, float, float]:
        """Return G^2 / (H + lambda), and the least and the most that rounding may make of it."""
        denominator = self.H + reg_lambda
        least = max(abs(self.G) - self.off_g, 0.0) ** 2 / max(denominator + self.off_h, _SMALLEST)
        most = (abs(self.G) + self.off_g) ** 2 / max(denominator - self.off_h, _SMALLEST)
        return self.G**2 / max(denominator, _SMALLEST), least, most

    def leaf_error(self, reg_lambda: float, learning_rate: float) -> float:
        """Return how far rounding may move the weight of a leaf of these rows."""
        denominator = max(self.H + reg_lambda - self.off_h, _SMALLEST)
        error = learning_rate * (self.off_g + abs(self.G) / denominator * self.off_h) / denominator
        return min(error, _HUGE)


@dataclass(frozen=True, slots=True, eq=False)
class RoundedGradients:
    """g and h of all trees of a round, weights included, and bounds on their errors; all (trees, rows)."""

    g: Floats
    h: Floats
    error_g: Floats
    error_h: Floats

    @property
    def fit_float32(self) -> bool:
        """Whether XGBoost can hold them; they may overflow in losses with exponentials."""
        return float(max(np.abs(self.g).max(), self.h.max())) < _LARGEST_FLOAT32

    def sums(self, tree: int, rows: npt.NDArray[np.bool_]) -> Sums:
        """Return the sums of one tree's g and h over rows."""
        parts = (part[tree, rows].sum() for part in (self.g, self.h, self.error_g, self.error_h))
        return Sums(*(float(part) for part in parts))


def rounded_gradients(
    params: TrainParams, loss: Objective, y: Floats, weight: Floats | None, margins: Floats, error: Floats
) -> RoundedGradients:
    """Return g and h at margins (trees, rows) that may be off by `error`, and how far off they may be themselves."""
    g, h = loss.gradients(y, margins)
    w = np.ones(len(y)) if weight is None else weight
    # One's own loss is computed in double precision there too; the labels of others are float32, classes exactly so.
    label = np.zeros(len(y)) if loss.is_custom or loss.has_classes else FLOAT32 * np.abs(y)
    is_of_residuals = loss.transform is unchanged
    error = error + FLOAT32 * np.abs(margins) + label * is_of_residuals
    moved_g, moved_h = (w * moved for moved in _moved(loss, y, margins, error, g, h))
    g, h = g * w, h * w
    # 1 - p is known to the epsilon of 1 for rows whose class it is; p (1 - p) to that of p for all.
    from_one = w * (g < 0) if loss.has_classes else np.zeros_like(g)
    probability = np.abs(g) + from_one if loss.has_classes else np.zeros_like(g)
    integer_g, integer_h = _of_integers(params, g, h)
    error_g = moved_g + w * label * (not is_of_residuals) + FLOAT32 * (2 * np.abs(g) + from_one) + integer_g
    error_h = moved_h + FLOAT32 * (2 * h + probability) + integer_h
    return RoundedGradients(g, h, *(np.nan_to_num(e, nan=_HUGE, posinf=_HUGE) for e in (error_g, error_h)))


def _moved(loss: Objective, y: Floats, margins: Floats, error: Floats, g: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Return how far g and h move with the margins."""
    if len(margins) > 1:  # of several classes, one may move up and the others down
        return h * error, 2 * h * error
    ways = [loss.gradients(y, margins + sign * error) for sign in (-1, 1)]
    return np.max([np.abs(way[0] - g) for way in ways], axis=0), np.max([np.abs(way[1] - h) for way in ways], axis=0)


def _of_integers(params: TrainParams, g: Floats, h: Floats) -> tuple[Floats, Floats]:
    """Return how far g and h are from the integers of the round: less than a step, and nowhere if they are some."""
    rows = g.shape[-1]
    scale = scales.choose_scale(params, scales.plan(params, rows), g, h, rows)
    is_g, is_h = (np.ldexp(part, f) % 1 == 0 for part, f in ((g, scale.f_g), (h, scale.f_h)))
    return np.where(is_g, 0.0, 2.0 ** -(scale.f_g + 1)), np.where(is_h, 0.0, 2.0**-scale.f_h)
