"""What a user set on an estimator, checked before anything runs: parameters of the training, how progress is judged.

XGBoost's keyword arguments of estimators and `fit`: taken if they change nothing, else answered with a remedy.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from mpfedxgb.boosting.active import LARGEST_LABEL
from mpfedxgb.boosting.metrics import OwnMetric, check_metrics
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import ALIASES, REFUSED, TrainParams, explain_unknown, refuse_all
from mpfedxgb.boosting.scales import plan
from mpfedxgb.errors import DataError, SettingsError

_Method = TypeVar("_Method", bound=Callable[..., Any])

CHANGES_NOTHING: Mapping[str, tuple[Any, ...]] = {
    "alpha": (0,),
    "booster": ("gbtree",),
    "colsample_bylevel": (1,),
    "colsample_bynode": (1,),
    "device": ("cpu",),
    "enable_categorical": (True,),
    "grow_policy": ("depthwise",),
    "max_delta_step": (0,),
    "max_leaves": (0,),
    "missing": (math.nan,),
    "multi_strategy": ("one_output_per_tree",),
    "num_parallel_tree": (1,),
    "reg_alpha": (0,),
    "sampling_method": ("uniform",),
    "scale_pos_weight": (1,),
    "tree_method": ("hist",),
}
"""Values of XGBoost's parameters that say what is done here anyway; None, "not set" in XGBoost, is one for each."""


def explaining_names(method: _Method) -> _Method:
    """Make a constructor or `fit` take what changes nothing, and answer all other unknown keyword arguments at once."""
    known = [name for name in signature(method).parameters if name != "self"]

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        return method(self, *args, **known_names(self, named, known))

    return cast(_Method, checked)


def known_names(estimator: Any, named: Mapping[str, Any], known: list[str]) -> dict[str, Any]:
    """Return the known ones of parameters or of arguments of `fit`; refuse others unless they change nothing."""
    unknown = [name for name, value in named.items() if name not in known and not _changes_nothing(name, value)]
    refuse_all(_reasons(estimator, unknown, known))
    return {name: value for name, value in named.items() if name in known}


def _changes_nothing(name: str, value: Any) -> bool:
    if value is None:
        return name in REFUSED
    same = CHANGES_NOTHING.get(name, ())
    if isinstance(value, float) and math.isnan(value):
        return any(isinstance(one, float) for one in same)
    return isinstance(value, (str, int, float)) and value in same


def _reasons(estimator: Any, names: Iterable[str], known: list[str]) -> Iterator[str]:
    """Yield what is wrong with each name: another place, another name, or a reason."""
    parameters, arguments = list(signature(type(estimator)).parameters), signature(estimator.fit).parameters
    for name in names:
        own = ALIASES.get(name, name)
        if "X" in known and own in parameters:
            told = f"{name} is no argument of fit; it is a parameter of the estimator"
            yield f"{told}: {type(estimator).__name__}({own}=...)"
        elif "X" not in known and name in arguments:
            yield f"{name} is no parameter of the estimator; it is an argument of fit"
        else:
            yield explain_unknown(name, known)


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
