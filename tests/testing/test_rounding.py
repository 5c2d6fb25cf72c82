"""What rounding is said to make of g and h covers float32 arithmetic, is the integers of a round, and not much more."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import FedXGBRegressor, reference
from mpfedxgb.boosting import Labels, scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.testing.parity import compare_with_xgboost
from mpfedxgb.testing.rounding import Sums, float32_gradients, integer_gradients, integer_gradients_of_sealed
from plain_sealed import encode

ROWS = 400
OBJECTIVES = ("binary:logistic", "multi:softprob", "reg:squarederror", "count:poisson", "reg:pseudohubererror")


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_bounds_on_gradients(objective: str, weighted: bool) -> None:
    """In float32, at margins a little off, g and h keep within their bounds; those of integers are the round's."""
    rng = np.random.default_rng(len(objective))
    params = TrainParams(objective=objective, num_class=3, reg_lambda=0.0, min_child_weight=0.0, weighted=weighted)
    loss, trees = params.loss, params.trees_per_round
    margins = rng.normal(scale=4, size=(trees, ROWS))
    y = rng.integers(0, 3 if trees > 1 else 2, ROWS).astype(np.float64) * (1 if loss.has_classes else 17)
    weight = rng.lognormal(size=ROWS) if weighted else None
    off = np.full((trees, ROWS), 1e-6)

    theirs = float32_gradients(params, loss, y, weight, margins, off)
    ours = integer_gradients(params, loss, y, weight, margins)

    moved = (margins + off * rng.uniform(-1, 1, margins.shape)).astype(np.float32)
    g, h = loss.gradients(y.astype(np.float32), moved)  # type: ignore[arg-type] # as XGBoost computes
    w = np.ones(ROWS, np.float32) if weight is None else weight.astype(np.float32)
    assert g.dtype == h.dtype == np.float32
    assert (np.abs(g * w - theirs.g) <= theirs.error_g).all()
    assert (np.abs(h * w - theirs.h) <= theirs.error_h).all()
    assert theirs.error_g.max() < 2e-5 * np.abs(theirs.g).max()
    scale = scales.choose_scale(params, scales.plan(params, ROWS), theirs.g, theirs.h, ROWS)
    assert (encode_fixed(theirs.g, scale.f_g) == np.ldexp(ours.g, scale.f_g)).all()
    assert (scales.round_hessians(params, theirs.h, scale.f_h) == np.ldexp(ours.h, scale.f_h)).all()


def test_constants_of_scores_are_the_integers_too() -> None:
    """The lambda and gamma of the federation's scores are those of the round, in its units."""
    params = TrainParams(objective="reg:squarederror", reg_lambda=1 / 3, gamma=1e-7)
    y = np.arange(20.0) * 1e5
    found = integer_gradients(params, params.loss, y, None, np.zeros((1, 20)))

    scale = scales.choose_scale(params, scales.plan(params, 20), -y[None], np.ones((1, 20)), 20)
    assert Fraction(found.reg_lambda) == Fraction(scale.lam) / Fraction(2) ** scale.f_h
    assert Fraction(found.gamma) == Fraction(scale.gam) * Fraction(2) ** (scale.f_h - 2 * scale.f_g)
    assert found.reg_lambda == pytest.approx(1 / 3, rel=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("objective", "size"), [("binary:logistic", 1.0), ("reg:squarederror", 1e5)])
def test_those_of_sealed_trainings_are_the_oracles(objective: str, size: float, weighted: bool) -> None:
    """G, h and constants, at the sums of a joined model; leaf weights come in the steps of margins."""
    rng = np.random.default_rng(5)
    y = size * rng.integers(0, 2, 40).astype(np.float64)
    labels = Labels(y, rng.choice([0.0, 0.5, 2.0], 40) if weighted else None)
    params = TrainParams(objective=objective, security="sealed", weighted=weighted, gamma=0.1)
    encoded = encode(params, labels)
    sums = rng.integers(-(1 << 26), 1 << 26, 40) << (32 - encoded.places)
    start = np.full(40, params.loss.base_margin(labels.y, labels.weight, None, 1)[0])

    found = integer_gradients_of_sealed(params, labels.y, labels.weight, start[None], sums[None], 3)

    margins = encoded.sealed.start + (sums >> (32 - encoded.places))
    g, h = reference.sealed_gradients(encoded.sealed, margins, encoded.y, encoded.weights)
    scale = encoded.scale
    assert (np.ldexp(found.g[0], scale.f_g) == g).all()
    assert (np.ldexp(found.h[0], scale.f_h) == h).all()
    assert found.reg_lambda == np.ldexp(float(scale.lam), -scale.f_h)
    assert found.leaf_step == 2.0**-encoded.places
    assert not found.error_g.any()


def test_sealed_sums_finer_than_a_joined_models_are_off_by_their_rounding() -> None:
    """Small labels have finer steps than 2^-32, to which `join` rounds every tree."""
    params = TrainParams(objective="reg:squarederror", security="sealed")
    labels, sums = np.array([1e-6, 2e-6, 5e-6]), np.zeros((1, 3), np.int64)
    found = integer_gradients_of_sealed(params, labels, None, np.zeros((1, 3)), sums, 3)
    assert (found.error_g == 3 * 2.0**-33).all()


def test_the_error_of_a_leaf() -> None:
    """-G / (H + lambda) moves by no more than its error when G and H do."""
    params = TrainParams(reg_lambda=0.5, learning_rate=0.3)
    weight, error = Sums(G=3.0, H=2.0, off_g=1e-4, off_h=1e-3).leaf(params)
    moved = [-0.3 * (3 + a) / (2.5 + b) for a in (-1e-4, 1e-4) for b in (-1e-3, 1e-3)]
    assert weight == pytest.approx(-0.3 * 3 / 2.5)
    assert np.abs(np.subtract(moved, weight)).max() <= error < 1e-3


def test_a_leaf_of_no_hessian() -> None:
    """With lambda it weighs -G / lambda, as hessians do that were rounded to 0; without, nothing."""
    none = Sums(G=3.0, H=0.0, off_g=0.0, off_h=0.0)
    assert none.leaf(TrainParams(reg_lambda=0.5, learning_rate=0.25, min_child_weight=2.5)) == (-1.5, 0.0)
    assert none.leaf(TrainParams(reg_lambda=0.0)) == (0.0, 0.0)


@pytest.mark.parametrize("least", [0.0, 1.0])
def test_a_tree_without_any_hessian_has_no_gradient(least: float) -> None:
    """In both models: XGBoost gives its only leaf a weight of 0."""
    params = TrainParams(objective="custom", min_child_weight=least)
    loss = params.loss.with_function(lambda y, margin: (margin - y, np.zeros_like(y)))
    y, margins = np.arange(4.0), np.zeros((1, 4))
    ours = integer_gradients(params, loss, y, None, margins)
    theirs = float32_gradients(params, loss, y, None, margins, np.zeros((1, 4)))
    assert not ours.g.any()
    assert not theirs.g.any()


@pytest.mark.parametrize(("objective", "margin"), [("reg:pseudohubererror", 3e19), ("count:poisson", 89.0)])
def test_what_is_beyond_float32(objective: str, margin: float) -> None:
    """Squares of residuals and exponentials that float32 has no number for are noticed, and nothing a bit smaller."""
    params = TrainParams(objective=objective)
    y = np.ones(3)
    for m, fits in ((margin, False), (0.4 * margin, True)):
        margins, off = np.full((1, 3), m), np.zeros((1, 3))
        assert float32_gradients(params, params.loss, y, None, margins, off).fit_float32 == fits


def test_a_hessian_lost_beside_others() -> None:
    """A side whose hessian is below double precision of its tree's may be nothing in xgboost, and is something here."""
    params = TrainParams(objective="count:poisson")
    margins = np.array([[0.0, -60.0]])
    one = np.array([False, True])
    theirs = float32_gradients(params, params.loss, np.ones(2), None, margins, np.zeros((1, 2))).sums(0, one)
    ours = integer_gradients(params, params.loss, np.ones(2), None, margins).sums(0, one)
    assert theirs.off_h > theirs.H > 0
    assert ours.off_h == 0


@pytest.mark.parametrize("largest", [1e18, 1e37])
def test_scores_beyond_float32_are_no_difference(largest: float) -> None:
    """The square of a sum of g may be more than xgboost can hold; what it splits then is called an overflow."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame(rng.random((200, 4)), columns=list("abcd"))
    y, weight = 3 * X["a"] + X["b"], rng.random(200) * largest
    model = FedXGBRegressor(security="none", n_estimators=3).fit(X, y, sample_weight=weight)

    parity = compare_with_xgboost(model, X, y, weight)

    assert parity.same_trees, parity.difference
    assert parity.ties or largest < 1e37, "from xgboost 3.4 on only what is divided by H + lambda has to fit"
    assert all("xgboost's float32 overflowed, as the square of a sum of g is beyond it" in tie for tie in parity.ties)
