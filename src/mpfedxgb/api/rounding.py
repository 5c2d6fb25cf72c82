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
from mpfedxgb.boosting.objective import Floats, Objective
from mpfedxgb.boosting.params import TrainParams

FLOAT32 = 2.0**-23
"""Float32's epsilon."""

_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_SMALLEST = 1e-30


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """G and H of some rows, and how far rounding may have moved them."""

    G: float
    H: float
    off_g: float
    off_h: float

    def leaf_error(self, reg_lambda: float, learning_rate: float) -> float:
        """Return how far rounding may move the weight of a leaf of these rows."""
        denominator = max(self.H + reg_lambda - self.off_h, _SMALLEST)
        return learning_rate * (self.off_g + abs(self.G) / denominator * self.off_h) / denominator


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
    g, h = g * w, h * w
    scale = scales.choose_scale(params, scales.plan(params, len(y)), g, h, len(y))
    error = error + FLOAT32 * np.abs(margins)
    # 1 - p is known to the epsilon of 1 for rows whose class it is; p (1 - p) to that of p for all.
    from_one = w * (g < 0) if loss.has_classes else np.zeros_like(g)
    probability = np.abs(g) + from_one if loss.has_classes else np.zeros_like(g)
    label = 0.0 if loss.is_custom else np.abs(y)  # one's own loss is computed in double precision there too
    error_g = h * error + FLOAT32 * (2 * np.abs(g) + h * label + from_one) + 2.0 ** -(scale.f_g + 1)
    error_h = 2 * h * error + FLOAT32 * (2 * h + probability) + 2.0**-scale.f_h
    return RoundedGradients(g, h, error_g, error_h)
