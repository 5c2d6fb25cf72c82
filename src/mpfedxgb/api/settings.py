"""What a user set on an estimator, checked before anything runs: parameters of the training, how progress is judged."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpfedxgb.boosting.labels import LARGEST_LABEL
from mpfedxgb.boosting.metrics import OwnMetric, check_metrics
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import plan
from mpfedxgb.errors import DataError, SettingsError

_PLAIN = (
    "n_estimators",
    "max_depth",
    "max_bin",
    "learning_rate",
    "reg_lambda",
    "gamma",
    "min_child_weight",
    "subsample",
    "colsample_bytree",
    "leaf_epsilon",
)


def train_params(estimator: Any, objective: str, num_class: int, weighted: bool) -> TrainParams:
    """Return an estimator's parameters as all roles will know them."""
    return TrainParams(
        objective=objective,
        num_class=num_class,
        weighted=weighted,
        first_layer_mask=bool(estimator.first_layer_mask),
        may_stop_early=estimator.early_stopping_rounds is not None or bool(estimator.callbacks),
        security=estimator.security,
        binning=estimator.binning,
        **{name: plain(getattr(estimator, name)) for name in _PLAIN},
    )


def sample_key(random_state: Any) -> str:
    """Return what row and column samples come from: nothing, for samples that never repeat, or the random_state."""
    if random_state is None:
        return ""
    if isinstance(random_state, bool) or not isinstance(random_state, numbers.Integral):
        raise SettingsError(f"random_state={random_state!r} is not understood; give an integer or None")
    return f"random_state {int(random_state)}"


def read_metrics(eval_metric: Any, objective: str) -> list[str | OwnMetric]:
    """Return the metrics, names or functions of one's own, checked against the objective."""
    if not isinstance(eval_metric, (str, list, tuple, type(None))) and not callable(eval_metric):
        remedy = "give a name, a function metric(y_true, y_pred), or a list of them"
        raise SettingsError(f"eval_metric={eval_metric!r} is not understood; {remedy}")
    given = [eval_metric] if isinstance(eval_metric, str) or callable(eval_metric) else list(eval_metric or [])
    check_metrics(given, objective)
    return given


def read_patience(early_stopping_rounds: Any, has_eval_set: bool) -> int | None:
    """Return how many rounds without progress are borne, or None for all."""
    if early_stopping_rounds is None:
        return None
    rounds = plain(early_stopping_rounds)
    if isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1:
        raise SettingsError(f"early_stopping_rounds={early_stopping_rounds!r} must be an integer of 1 or more")
    if not has_eval_set:
        raise SettingsError(f"early_stopping_rounds={rounds} needs an eval_set to watch; pass one to fit")
    return rounds


def read_callbacks(callbacks: Any) -> Sequence[Any]:
    """Return whom to call while the training runs; what they are, `Callbacks` says."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, (list, tuple)):
        raise SettingsError(f"callbacks={callbacks!r} is not understood; give a list of functions of a RoundReport")
    return callbacks


def check_start(params: TrainParams, y: Floats, weight: Floats | None, base_score: Any) -> None:
    """Refuse starting points and sizes of tables that the protocol would stumble over later."""
    is_number = isinstance(base_score, numbers.Real) and not isinstance(base_score, bool) and math.isfinite(base_score)
    if base_score is not None and not is_number:
        raise SettingsError(f"base_score={base_score!r} is not a finite number; leave it None to start from the mean")
    base = params.loss.base_margin(y, weight, base_score, params.num_class)
    if np.abs(base).max() >= LARGEST_LABEL:
        raise DataError(f"base_score={base_score!r} is too large; rescale the labels so that it is below 2^29 (5e8)")
    plan(params, len(y))


def plain(value: Any) -> Any:
    """Return NumPy's numbers as Python's; everything else as it is."""
    return value.item() if isinstance(value, (np.integer, np.floating)) else value
