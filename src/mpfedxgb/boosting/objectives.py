"""Losses, computed by the active participant alone: gradients g, hessians h, starting margins (section 3.2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DataError, UserError

Floats = npt.NDArray[np.float64]
Gradients = tuple[Floats, Floats]
CustomObjective = Callable[[Floats, Floats], Any]

_SMALLEST_HESSIAN = 1e-16
_SHARE_OFFSET = 1e-6
"""XGBoost adds this to class shares before it takes their logarithms."""

_CERTAIN = (np.float32(1e-6), np.float32(1) - np.float32(1e-6))
"""XGBoost starts from no probability beyond these."""


def gradients(objective: str, y: Floats, margins: Floats, custom: CustomObjective | None = None) -> Gradients:
    """Return g and h of every tree of the round and every row: margins (trees, rows) to two arrays (trees, rows)."""
    if objective == "binary:logistic":
        p = sigmoid(margins)
        return p - y, np.maximum(p * (1 - p), _SMALLEST_HESSIAN)
    if objective == "multi:softprob":
        p = softmax(margins)
        hit = np.arange(len(margins))[:, None] == y
        return p - hit, np.maximum(2 * p * (1 - p), _SMALLEST_HESSIAN)
    if objective == "reg:squarederror":
        return margins - y, np.ones_like(margins)
    if objective == "count:poisson":
        mean = _exp(margins)
        return mean - y, mean
    assert custom is not None
    return _custom(custom, y, margins)


def _custom(objective: CustomObjective, y: Floats, margins: Floats) -> Gradients:
    try:
        g, h = (np.asarray(part, np.float64).reshape(margins.shape) for part in objective(y, margins[0]))
    except (TypeError, ValueError) as error:
        # A foreign text may quote labels, so it stays with this role.
        raise DataError(f"a custom objective returns (g, h), one number each per row: {error}") from error
    if not (np.isfinite(g).all() and np.isfinite(h).all()):
        raise UserError("the custom objective returned numbers that are not finite")
    if (h < 0).any():
        raise UserError("the custom objective returned a negative hessian; the loss has to be convex")
    return g, h


def base_margin(objective: str, y: Floats, weight: Floats | None, base_score: float | None, num_class: int) -> Floats:
    """Return the margin that boosting starts from, per tree of a round, as XGBoost derives it from base_score."""
    if objective == "multi:softprob":
        if base_score is not None:
            return np.full(num_class, _float32(base_score))
        shares = np.bincount(y.astype(np.int64), weights=weight, minlength=num_class) / (
            len(y) if weight is None else weight.sum()
        )
        logs = np.log(shares + _SHARE_OFFSET)
        return np.asarray(np.float32(logs - logs.mean()), np.float64)
    if base_score is None:
        base_score = 0.0 if objective == "custom" else float(np.average(y, weights=weight))
    score = _float32(base_score)
    if objective == "binary:logistic":
        if not 0 < base_score < 1:
            raise DataError(f"base_score={base_score} is not a probability between 0 and 1")
        p = np.clip(np.array([score], np.float32), *_CERTAIN)
        return np.asarray(-np.log(1 / p - 1), np.float64)  # in float32 as XGBoost: near 1 the difference loses digits
    if objective == "count:poisson":
        if score <= 0:
            raise DataError(f"base_score={base_score} is not a positive mean")
        return np.array([np.log(score)])
    return np.array([score])


def _float32(value: float) -> float:
    with np.errstate(over="ignore"):  # the caller refuses an infinite margin, in words
        return float(np.float32(value))


def transform(objective: str, margins: Floats) -> Floats:
    """Return predictions from margins (trees, rows): probabilities, means, or the margins themselves."""
    if objective == "binary:logistic":
        return sigmoid(margins)
    if objective == "multi:softprob":
        return softmax(margins)
    return _exp(margins) if objective == "count:poisson" else margins


def _exp(margins: Floats) -> Floats:
    with np.errstate(over="ignore"):  # the caller refuses infinite gradients, in words
        return np.exp(margins)


def sigmoid(margins: Floats) -> Floats:
    """Return 1 / (1 + exp(-margin)) without overflow."""
    small = np.exp(-np.abs(margins))
    return np.where(margins >= 0, 1 / (1 + small), small / (1 + small))


def softmax(margins: Floats) -> Floats:
    """Return the shares of exp(margin) along the first axis, without overflow."""
    powers = np.exp(margins - margins.max(axis=0))
    return np.asarray(powers / powers.sum(axis=0))
