"""What rounding is said to explain covers float32 arithmetic and the integers of a round, and not much more."""

from __future__ import annotations

import numpy as np
import pytest

from mpfedxgb.api.rounding import Sums, rounded_gradients
from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.ring.fixed import encode_fixed

ROWS = 400
OBJECTIVES = ("binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson", "reg:pseudohubererror")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bounds_on_gradients(objective: str, weighted: bool) -> None:
    """In float32, at margins a little off and rounded to integers, g and h keep within their bounds."""
    rng = np.random.default_rng(len(objective))
    params = TrainParams(objective=objective, num_class=3, reg_lambda=0.0, min_child_weight=0.0, weighted=weighted)
    loss, trees = params.loss, params.trees_per_round
    margins = rng.normal(scale=4, size=(trees, ROWS))
    y = rng.integers(0, 3 if trees > 1 else 2, ROWS).astype(np.float64) * (1 if loss.has_classes else 17)
    weight = rng.lognormal(size=ROWS) if weighted else None
    off = np.full((trees, ROWS), 1e-6)

    found = rounded_gradients(params, loss, y, weight, margins, off)

    moved = (margins + off * rng.uniform(-1, 1, margins.shape)).astype(np.float32)
    g, h = loss.gradients(y.astype(np.float32), moved)  # type: ignore[arg-type] # as XGBoost computes
    w = np.ones(ROWS, np.float32) if weight is None else weight.astype(np.float32)
    assert g.dtype == h.dtype == np.float32
    scale = scales.choose_scale(params, scales.plan(params, ROWS), found.g, found.h, ROWS)
    of_integers = np.ldexp(encode_fixed(found.g, scale.f_g).astype(float), -scale.f_g)
    assert (np.abs(g * w - found.g) <= found.error_g).all()
    assert (np.abs(h * w - found.h) <= found.error_h).all()
    assert (np.abs(of_integers - found.g) <= found.error_g).all()
    assert found.error_g.max() < 2e-5 * np.abs(found.g).max()


def test_the_error_of_a_leaf() -> None:
    """-G / (H + lambda) moves by no more than its error when G and H do; without any H nothing is known."""
    sums = Sums(G=3.0, H=2.0, off_g=1e-4, off_h=1e-3)
    error = sums.leaf_error(reg_lambda=0.5, learning_rate=0.3)
    moved = [0.3 * (3 + a) / (2.5 + b) for a in (-1e-4, 1e-4) for b in (-1e-3, 1e-3)]
    assert np.abs(np.subtract(moved, 0.3 * 3 / 2.5)).max() <= error < 1e-3
    assert Sums(3.0, 1e-9, 1e-9, 1e-8).leaf_error(0.0, 0.3) > 1e9
