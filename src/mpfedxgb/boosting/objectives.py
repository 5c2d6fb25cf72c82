"""The losses that can be trained, in one table; docs/adding-an-objective.md shows how to add one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import (
    H_MOST,
    Floats,
    Gradients,
    LinkFunction,
    Objective,
    Origin,
    Prediction,
    ScalePolicy,
    SealedForm,
    float32,
)
from mpfedxgb.errors import DataError, SettingsError

Loss = Callable[[Floats, Floats], Gradients]

_SMALLEST_HESSIAN = 1e-16
_FREQUENCY_OFFSET = 1e-6
"""XGBoost adds this to the frequencies of classes before it takes their logarithms."""

_SMALLEST_SUM = 1e-6
"""XGBoost divides by no smaller sum of hessians when it looks for a start."""

_CERTAIN = (np.float32(1e-6), np.float32(1) - np.float32(1e-6))
"""XGBoost starts from no probability beyond these."""


def sigmoid(margins: Floats) -> Floats:
    """Return 1 / (1 + exp(-margin)) without overflow."""
    small = np.exp(-np.abs(margins))
    return np.where(margins >= 0, 1 / (1 + small), small / (1 + small))


def _log_odds(scores: npt.NDArray[Any]) -> Floats:
    if not 0 < scores[0] < 1:
        raise DataError(f"base_score={scores[0]} is not a probability between 0 and 1")
    p = np.clip(scores.astype(np.float32), *_CERTAIN)
    return np.asarray(-np.log(1 / p - 1), np.float64)  # in float32 as XGBoost: near 1 the difference loses digits


def _log_loss(y: Floats, margins: Floats) -> Gradients:
    p = sigmoid(margins)
    return p - y, np.maximum(p * (1 - p), _SMALLEST_HESSIAN)


def softmax(margins: Floats) -> Floats:
    """Return exp(margin) as fractions of its sum along the first axis, without overflow."""
    powers = np.exp(margins - margins.max(axis=0))
    return np.asarray(powers / powers.sum(axis=0))


def _cross_entropy(y: Floats, margins: Floats) -> Gradients:
    p = softmax(margins)
    hit = np.arange(len(margins))[:, None] == y
    return p - hit, np.maximum(2 * p * (1 - p), _SMALLEST_HESSIAN)


def _log_frequencies(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    rows = len(y) if weight is None else weight.sum()
    frequencies = np.bincount(y.astype(np.int64), weights=weight, minlength=num_class) / rows
    logs = np.log(frequencies + _FREQUENCY_OFFSET)
    return np.asarray(logs - logs.mean())


def _squared_error(y: Floats, margins: Floats) -> Gradients:
    return margins - y, np.ones_like(margins)


def _exp(margins: Floats) -> Floats:
    with np.errstate(over="ignore"):  # the caller refuses infinite gradients, in words
        return np.exp(margins)


def _log(scores: npt.NDArray[Any]) -> Floats:
    means = float32(scores)
    if means[0] <= 0:
        raise DataError(f"base_score={scores[0]} is not a positive mean")
    return np.log(means)


def _poisson(y: Floats, margins: Floats) -> Gradients:
    mean = _exp(margins)
    return mean - y, mean


def _counts(y: Floats, origin: Origin, starts: bool) -> None:
    if (y < 0).any():
        raise DataError(f"{origin.holds(float(y.min()), 'numbers below 0')}; count:poisson takes counts, 0 or more")
    if starts and not y.any():
        raise DataError(f"{origin.name} is zero everywhere; count:poisson needs a positive mean or a base_score")


def _pseudo_huber(y: Floats, margins: Floats) -> Gradients:
    z = margins - y
    root = np.hypot(1, z)
    return z / root, root**-3.0


def _newton_step(loss: Loss, y: Floats, weight: Floats | None, num_class: int) -> Floats:
    g, h = loss(y, np.zeros(len(y)))
    w = np.ones(len(y)) if weight is None else weight
    return np.array([-(w * g).sum() / max((w * h).sum(), _SMALLEST_SUM)])


def _zero(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    return np.zeros(1)


def _no_function(y: Floats, margins: Floats) -> Gradients:
    raise AssertionError("a custom objective computes gradients once it has its function")


_LOG_LOSS_IN_PUBLIC = ScalePolicy(24, 24, g_cap=1 << 24, h_cap=1 << 22)  # |g| <= 1, h <= 1/4
_PROBABILITY_SCALE = ScalePolicy(
    h_cap=1 << 22, lam_room=2, g_bits=22, h_most=H_MOST
)  # h <= 1/2, and both g and h shrink by rounds
_SQUARED_SCALE = ScalePolicy(f_h=16, h_cap=1 << 16)  # h = 1

# Times weights of 24 bits, g and h keep within 62. A light row's product keeps up to 12 of the bits of its weight.
_SEALED_LOG_LOSS = SealedForm(True, _LOG_LOSS_IN_PUBLIC, ScalePolicy(g_cap=1 << 24, h_cap=1 << 22, raised=12))
_SEALED_SQUARES = SealedForm(
    False,
    ScalePolicy(f_h=16, h_cap=1 << 16, g_bits=28, g_most=36),
    ScalePolicy(h_cap=1 << 24, g_bits=28, g_most=36),
)

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        Objective(
            name="binary:logistic",
            gradients=_log_loss,
            default_metric="logloss",
            block="reg_loss_param",
            block_parameters={"scale_pos_weight": "1"},
            classes=2,
            predicts=frozenset({Prediction.NUMBER, Prediction.PROBABILITY}),
            transform=sigmoid,
            link=LinkFunction(_log_odds, sigmoid),
            scale=_PROBABILITY_SCALE,
            paper_scale=_LOG_LOSS_IN_PUBLIC,
            sealed=_SEALED_LOG_LOSS,
        ),
        Objective(
            name="reg:squarederror",
            gradients=_squared_error,
            default_metric="rmse",
            block="reg_loss_param",
            block_parameters={"scale_pos_weight": "1"},
            scale=_SQUARED_SCALE,
            paper_scale=_SQUARED_SCALE,
            sealed=_SEALED_SQUARES,
        ),
        Objective(
            name="multi:softprob",
            gradients=_cross_entropy,
            default_metric="mlogloss",
            block="softmax_multiclass_param",
            classes=None,
            predicts=frozenset({Prediction.PROBABILITIES}),
            transform=softmax,
            start=_log_frequencies,
            scale=_PROBABILITY_SCALE,
        ),
        Objective(
            name="count:poisson",
            gradients=_poisson,
            default_metric="poisson-nloglik",
            block="poisson_regression_param",
            block_parameters={"max_delta_step": "0"},
            transform=_exp,
            link=LinkFunction(_log, _exp),
            check_labels=_counts,
        ),
        Objective(
            name="reg:pseudohubererror",
            gradients=_pseudo_huber,
            default_metric="mphe",
            block="pseudo_huber_param",
            block_parameters={"huber_slope": "1"},
            start=partial(_newton_step, _pseudo_huber),
        ),
        Objective(
            name="custom",
            gradients=_no_function,
            default_metric="rmse",
            block="reg_loss_param",
            block_parameters={"scale_pos_weight": "1"},
            predicts=frozenset({Prediction.NUMBER, Prediction.PROBABILITY}),
            start=_zero,
            exported_as="reg:squarederror",
            is_custom=True,
        ),
    )
}
"""What "objective" may be; custom stands for a callable that the active participant keeps to itself."""

CUSTOM = OBJECTIVES["custom"]

# The margins of a classifier with a loss of its own are log-odds, as its predict_proba takes them.
_CUSTOM_CLASSIFIER = replace(CUSTOM, default_metric="logloss", transform=sigmoid)

FOR_NUMBERS = tuple(name for name, o in OBJECTIVES.items() if not o.has_classes and not o.is_custom)
"""What a regressor may use, the default first."""

NAMED = tuple(name for name, o in OBJECTIVES.items() if not o.is_custom)
"""What a settings file or a command line may name."""

PER_CLASS = tuple(name for name, o in OBJECTIVES.items() if o.classes is None)
"""Those that need num_class, and grow a tree for each."""

OTHER_NAMES = {
    "reg:linear": "reg:squarederror",
    "multi:softmax": "multi:softprob",
    "binary:logitraw": "binary:logistic",
}
"""What XGBoost also calls these losses; there the name decides whether classes, margins or probabilities come out."""


ONLY_IN_XGBOOST = (
    "binary:hinge",
    "rank:map",
    "rank:ndcg",
    "rank:pairwise",
    "reg:absoluteerror",
    "reg:expectileerror",
    "reg:gamma",
    "reg:logistic",
    "reg:quantileerror",
    "reg:squaredlogerror",
    "reg:tweedie",
    "survival:aft",
    "survival:cox",
)
"""XGBoost's objectives that have not been built here."""


def objective_error(name: Any, does_not_fit: str, remedy: str) -> SettingsError:
    """Return why an objective cannot be trained: not built here, not fitting, or not known at all."""
    why = does_not_fit if name in (*NAMED, *OTHER_NAMES) else "is not known"
    if name in ONLY_IN_XGBOOST:
        why = "is one of XGBoost's that are not supported here"
    return SettingsError(f"objective={name!r} {why}; {remedy}", "choice", "objective", name)


def objective_of(name: str, num_class: int) -> Objective:
    """Return a known objective, as a training with so many classes uses it."""
    objective = OBJECTIVES[name]
    return _CUSTOM_CLASSIFIER if objective.is_custom and num_class == 2 else objective


def for_classes(count: int) -> Objective:
    """Return the objective of choice for so many classes, two or more."""
    return next(o for o in OBJECTIVES.values() if o.takes_classes(count))
