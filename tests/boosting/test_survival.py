"""Losses and metrics of survival times, against xgboost's own: gradients row by row, metrics of given margins."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xgboost

from mpfedxgb.boosting.metrics import DEFAULTS, metric_of
from mpfedxgb.boosting.objective import Floats, Objective, Origin
from mpfedxgb.boosting.objectives import OBJECTIVES, objective_of
from mpfedxgb.boosting.objectives.survival import RiskSets, read_upper
from mpfedxgb.errors import DataError
from support.refusals import refused

ROWS = 40
DISTRIBUTIONS = ("normal", "logistic", "extreme")


def aft(distribution: str, sigma: float = 1.0) -> Objective:
    """Return the loss with these parameters."""
    more = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": sigma}
    return objective_of("survival:aft", 1, DEFAULTS | {"max_delta_step": 0.0} | more)


def bounds(seed: int) -> tuple[Floats, Floats]:
    """Return lower and upper bounds: known times, some without upper bound, some without lower, some with both."""
    rng = np.random.default_rng(seed)
    lower = np.round(rng.gamma(1.0, 3.0, ROWS), 2) + 0.01
    upper, kind = lower.copy(), rng.integers(0, 4, ROWS)
    upper[kind == 1] = np.inf
    lower[kind == 2] = 0
    upper[kind == 3] += rng.random(ROWS)[kind == 3] + 0.1
    return lower, upper


def times(seed: int) -> Floats:
    """Return times with ties, some of them censored."""
    rng = np.random.default_rng(seed)
    return np.round(rng.gamma(1.0, 3.0, ROWS), int(rng.choice([0, 2]))) * np.where(rng.random(ROWS) < 0.3, -1, 1)


def margins(seed: int, width: float) -> Floats:
    """Return margins as float32 has them."""
    found = np.random.default_rng(100 + seed).normal(size=ROWS) * width
    return found.astype(np.float32).astype(np.float64)


def xgboost_gradients(
    data: Any, objective: str, scores: Floats, **more: Any
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return g and h by a tree that parts as many rows as it can, and which rows are alone in their leaf."""
    data.set_base_margin(scores)
    params = {"objective": objective, "max_depth": 0, "eta": 1, "lambda": 0, "min_child_weight": 0, "nthread": 1}
    booster = xgboost.train(params | more, data, 1)
    (tree,) = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    leaf = booster.predict(data, pred_leaf=True).astype(int).ravel()
    h = np.array(tree["sum_hessian"])[leaf]
    return -np.array(tree["base_weights"])[leaf] * h, h, np.bincount(leaf)[leaf] == 1


def row_numbers() -> Floats:
    """Return a column that tells all rows apart."""
    return np.arange(ROWS, dtype=np.float64)[:, None]


@pytest.mark.parametrize("width", [0.3, 2.0, 12.0, 800.0])
@pytest.mark.parametrize("sigma", [1.0, 0.3])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_gradients_of_times_are_xgboosts(distribution: str, sigma: float, width: float) -> None:
    """All kinds of bounds; far from them the limits of g and h."""
    compared = 0
    for seed in range(3):
        (lower, upper), scores = bounds(seed), margins(seed, width)
        data = xgboost.DMatrix(row_numbers(), label_lower_bound=lower, label_upper_bound=upper)
        more = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": sigma}
        g, h, alone = xgboost_gradients(data, "survival:aft", scores, **more)
        ours = aft(distribution, sigma).with_beside(upper).gradients(lower, scores[None])
        if distribution == "extreme" and width == 12.0:  # a probability is lost in what is taken from 1
            alone &= scores / sigma < 12
        np.testing.assert_allclose(ours[0][0, alone], g[alone], rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(ours[1][0, alone], h[alone], rtol=1e-4, atol=1e-6)
        compared += int(alone.sum())
    assert compared > 5


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_gradients_of_times_are_derivatives(distribution: str) -> None:
    """The slope of the metric, row by row, is g; the slope of g is h."""
    lower, upper = bounds(7)
    loss, step, scores = aft(distribution).with_beside(upper), 1e-4, margins(7, 1.0)
    metric = metric_of("aft-nloglik", DEFAULTS | {"aft_loss_distribution": distribution})

    def at(change: float) -> tuple[Floats, Floats]:
        each = np.eye(ROWS)
        moved = np.exp(scores + change)
        return np.array([metric(lower, moved[None], row, upper) for row in each]), loss.gradients(
            lower, (scores + change)[None]
        )[0][0]

    (up, g_up), (down, g_down) = at(step), at(-step)
    g, h = loss.gradients(lower, scores[None])
    np.testing.assert_allclose(g[0], np.clip((up - down) / (2 * step), -15, 15), rtol=1e-4, atol=1e-6)
    steep = np.abs(g[0]) == 15  # there g is held
    g_up, g_down = g_up[~steep], g_down[~steep]
    np.testing.assert_allclose(h[0, ~steep], np.clip((g_up - g_down) / (2 * step), 1e-16, 15), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("width", [0.3, 2.0])
def test_gradients_of_hazards_are_xgboosts(width: float) -> None:
    """With ties, censored rows and row weights, which count outside the sums over rows at risk."""
    compared = 0
    for seed in range(6):
        y, scores = times(seed), margins(seed, width)
        weight = np.random.default_rng(seed).random(ROWS)
        data = xgboost.DMatrix(row_numbers(), y, weight=weight)
        g, h, alone = xgboost_gradients(data, "survival:cox", scores)
        ours = OBJECTIVES["survival:cox"].gradients(y, scores[None], weight)
        np.testing.assert_allclose(ours[0][0, alone], g[alone], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(ours[1][0, alone], h[alone], rtol=1e-5, atol=1e-6)
        compared += int(alone.sum())
    assert compared > 150


def test_risk_sets() -> None:
    """Rows of one time are at risk together, censored or not; later ones are not gone yet."""
    risk = RiskSets.of(np.array([3.0, -1.0, 2.0, -2.0]))
    assert risk.order.tolist() == [1, 2, 3, 0]
    assert risk.sums(np.array([1.0, 2.0, 4.0, 8.0])).tolist() == [15.0, 13.0, 13.0, 1.0]


def test_hazards_far_apart() -> None:
    """What float32 leaves of a sum over many rows is never 0 or less, and nothing is NaN or below 0."""
    y, scores = np.arange(1.0, ROWS + 1), np.linspace(40, -40, ROWS)
    g, h = OBJECTIVES["survival:cox"].gradients(y, scores[None])
    assert np.isfinite(g).all()
    assert (h > 0).all()


@pytest.mark.parametrize("weighted", [False, True])
def test_starts_are_xgboosts(weighted: bool) -> None:
    """AFT starts from a time of 1/2, Cox with a Newton step from hazards of 1."""
    weight = np.random.default_rng(1).random(ROWS) if weighted else None
    lower, upper = bounds(1)
    for objective, data, y in (
        ("survival:aft", {"label_lower_bound": lower, "label_upper_bound": upper}, lower),
        ("survival:cox", {"label": times(2)}, times(2)),
    ):
        rows = xgboost.DMatrix(row_numbers(), weight=weight, **data)
        booster = xgboost.train({"objective": objective, "max_depth": 1}, rows, 1)
        theirs = json.loads(json.loads(booster.save_config())["learner"]["learner_model_param"]["base_score"])
        loss = OBJECTIVES[objective]
        ours = loss.link.to_score(loss.base_margin(y, weight, None, 1))
        np.testing.assert_allclose(ours, theirs, rtol=2e-6)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("name", ["aft-nloglik", "interval-regression-accuracy", "cox-nloglik"])
def test_metrics_are_xgboosts(name: str, distribution: str, weighted: bool) -> None:
    """Of a booster whose trees weigh nothing, and whose margins are given."""
    (lower, upper), scores = bounds(3), margins(3, 1.5)
    weight = np.random.default_rng(4).random(ROWS) if weighted else None
    more = {"aft_loss_distribution": distribution, "aft_loss_distribution_scale": 1.5}
    labels = {"label_lower_bound": lower, "label_upper_bound": upper} if name != "cox-nloglik" else {"label": times(3)}
    data = xgboost.DMatrix(row_numbers(), weight=weight, base_margin=scores, **labels)
    objective = "survival:cox" if name == "cox-nloglik" else "survival:aft"
    params = {"objective": objective, "eval_metric": name, "eta": 0, **(more if objective == "survival:aft" else {})}
    seen: dict[str, dict[str, list[float]]] = {}  # Booster.eval forgets the parameters
    xgboost.train(params, data, 1, evals=[(data, "rows")], evals_result=seen, verbose_eval=False)
    (theirs,) = seen["rows"][name]
    y = times(3) if name == "cox-nloglik" else lower
    assert metric_of(name, DEFAULTS | more)(y, np.exp(scores)[None], weight, upper) == pytest.approx(theirs, rel=1e-5)


def test_no_events_no_likelihood() -> None:
    """Censored rows alone say nothing of hazards: the metric is NaN, and nothing can be trained on them."""
    y = -np.ones(3)
    assert np.isnan(metric_of("cox-nloglik", DEFAULTS)(y, np.ones((1, 3))))
    with refused(DataError, "few", "y"):
        OBJECTIVES["survival:cox"].check_labels(y, Origin("y"), True)


@pytest.mark.parametrize(
    ("lower", "upper", "code"),
    [
        ([1.0, 2.0], [1.0, 1.5], "range"),
        ([0.0, 2.0], [0.0, 3.0], "range"),
        ([1.0, 2.0], [1.0, np.nan], "missing"),
        ([1.0, 2.0], ["x", 3.0], "type"),
    ],
)
def test_refused_upper_bounds(lower: list[float], upper: list[Any], code: Any) -> None:
    """Below the lower ones, not above 0, missing, or words."""
    with refused(DataError, code, "upper"):
        read_upper(np.array(upper, object), np.array(lower), Origin("upper", shows_values=False))


def test_refused_times() -> None:
    """A lower bound below 0."""
    with refused(DataError, "range", "y"):
        OBJECTIVES["survival:aft"].check_labels(np.array([1.0, -1.0]), Origin("y"), True)
