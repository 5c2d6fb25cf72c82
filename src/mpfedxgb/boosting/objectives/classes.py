"""Losses of classes and probabilities: logistic, hinge, softmax."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import (
    H_MOST,
    IDENTITY,
    Floats,
    Gradients,
    LinkFunction,
    Objective,
    Origin,
    Prediction,
    ScalePolicy,
    SealedForm,
    mean,
)
from mpfedxgb.errors import DataError

_SMALLEST_HESSIAN = 1e-16
_NO_HESSIAN = float(np.finfo(np.float32).tiny)
"""XGBoost's hinge has this hessian in rows on the right side of the margin, which have no gradient."""

_FREQUENCY_OFFSET = 1e-6
"""XGBoost adds this to the frequencies of classes before it takes their logarithms."""

_CERTAIN = (np.float32(1e-6), np.float32(1) - np.float32(1e-6))
"""XGBoost starts from no probability beyond these."""


def sigmoid(margins: Floats) -> Floats:
    """Return 1 / (1 + exp(-margin)) without overflow."""
    small = np.exp(-np.abs(margins))
    return np.where(margins >= 0, 1 / (1 + small), small / (1 + small))


def _log_odds(scores: npt.NDArray[Any]) -> Floats:
    if not 0 < scores[0] < 1:
        raise DataError(
            f"base_score={scores[0]} is not a probability between 0 and 1", "range", "base_score", scores[0]
        )
    p = np.clip(scores.astype(np.float32), *_CERTAIN)
    return np.asarray(-np.log(1 / p - 1), np.float64)  # in float32 as XGBoost: near 1 the difference loses digits


def _log_loss(y: Floats, margins: Floats) -> Gradients:
    p = sigmoid(margins)
    return p - y, np.maximum(p * (1 - p), _SMALLEST_HESSIAN)


def _shares(y: Floats, origin: Origin, starts: bool) -> None:
    outside = y[(y < 0) | (y > 1)]
    if outside.size:
        held = origin.holds(float(outside[0]), "numbers outside 0 to 1")
        raise DataError(f"{held}; reg:logistic takes shares from 0 to 1", "range", origin.name)
    if starts and ((y == 0).all() or (y == 1).all()):
        remedy = "reg:logistic needs a mean between 0 and 1, or a base_score"
        raise DataError(f"{origin.name} is all 0 or all 1; {remedy}", "range", origin.name)


def _hinge(y: Floats, margins: Floats) -> Gradients:
    sign = 2 * y - 1
    short = margins * sign < 1
    return np.where(short, -sign, 0.0), np.where(short, 1.0, _NO_HESSIAN)


def _is_positive(margins: Floats) -> Floats:
    return (margins > 0).astype(np.float64)


def _larger_class(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    return (mean(y, weight, num_class) > 0.5).astype(np.float64)


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


_LOG_LOSS_IN_PUBLIC = ScalePolicy(24, 24, g_cap=1 << 24, h_cap=1 << 22)  # |g| <= 1, h <= 1/4
_PROBABILITY_SCALE = ScalePolicy(
    h_cap=1 << 22, lam_room=2, g_bits=22, h_most=H_MOST
)  # h <= 1/2, and both g and h shrink by rounds

# Times weights of 24 bits, g and h keep within 62. A light row's product keeps up to 12 of the bits of its weight.
_SEALED_LOG_LOSS = SealedForm(True, _LOG_LOSS_IN_PUBLIC, ScalePolicy(g_cap=1 << 24, h_cap=1 << 22, raised=12))
_SEALED_CROSS_ENTROPY = SealedForm(  # h <= 1/2, and weights of constrained trainings are held as in log-loss
    True,
    ScalePolicy(24, 24, g_cap=1 << 24, h_cap=1 << 23, weight_bits=1),
    ScalePolicy(g_cap=1 << 24, h_cap=1 << 23, raised=12, weight_bits=1),
)

LOGISTIC = Objective(
    name="binary:logistic",
    derivatives=_log_loss,
    default_metric="logloss",
    scales_positives=True,
    block="reg_loss_param",
    block_parameters={"scale_pos_weight": "1"},
    classes=2,
    predicts=frozenset({Prediction.NUMBER, Prediction.PROBABILITY}),
    transform=sigmoid,
    link=LinkFunction(_log_odds, sigmoid),
    scale=_PROBABILITY_SCALE,
    paper_scale=_LOG_LOSS_IN_PUBLIC,
    sealed=_SEALED_LOG_LOSS,
)

# The exported model predicts margins, and its base_score is one; here its probabilities are those of the logistic loss.
LOGIT_RAW = replace(LOGISTIC, name="binary:logitraw", link=IDENTITY, paper_scale=None)

HINGE = Objective(
    name="binary:hinge",
    derivatives=_hinge,
    default_metric="error",
    classes=2,
    predicts=frozenset({Prediction.NUMBER, Prediction.PROBABILITY}),
    transform=_is_positive,
    start=_larger_class,
)

SHARES = replace(
    LOGISTIC,
    name="reg:logistic",
    default_metric="rmse",
    classes=1,
    check_labels=_shares,
    paper_scale=None,
)

SOFTPROB = Objective(
    name="multi:softprob",
    derivatives=_cross_entropy,
    default_metric="mlogloss",
    block="softmax_multiclass_param",
    classes=None,
    predicts=frozenset({Prediction.PROBABILITIES}),
    transform=softmax,
    start=_log_frequencies,
    scale=_PROBABILITY_SCALE,
    sealed=_SEALED_CROSS_ENTROPY,
)

SOFTMAX = replace(SOFTPROB, name="multi:softmax")
"""The exported model predicts the likeliest class; all else is that of multi:softprob."""
