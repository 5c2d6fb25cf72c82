"""What a user set on an estimator, checked before anything runs; XGBoost's keyword arguments, taken or answered."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

import numpy as np

from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.labels import LARGEST_LABEL
from mpfedxgb.boosting.metrics import OwnMetric, check_metrics
from mpfedxgb.boosting.params import TrainParams, check_scale_pos_weight, unknown_parameter
from mpfedxgb.config import Resources, link_of
from mpfedxgb.errors import DataError, SettingsError, UnknownParameterError, raise_all
from mpfedxgb.modes.choose import mode_of
from mpfedxgb.schema.training import ALIASES, BY_NAME, FLAG, SHARED, changes_nothing, wrong_values

_T = TypeVar("_T")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def reject_unknown_kwargs(method: _Method) -> _Method:
    """Make a constructor or `fit` take what changes nothing, and answer all other unknown keyword arguments at once."""
    known = [name for name in signature(method).parameters if name != "self"]

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        return method(self, *args, **known_names(self, named, known))

    return cast(_Method, checked)


def known_names(estimator: Any, named: Mapping[str, Any], known: list[str]) -> dict[str, Any]:
    """Return the known ones of parameters or of arguments of `fit`; refuse others unless they change nothing."""
    unknown = [name for name, value in named.items() if name not in known and not changes_nothing(name, value)]
    raise_all(_reasons(estimator, unknown, known))
    return {name: value for name, value in named.items() if name in known}


def _reasons(estimator: Any, names: Iterable[str], known: list[str]) -> Iterator[SettingsError]:
    """Yield what is wrong with each name: another place, another name, or a reason."""
    parameters, arguments = list(signature(type(estimator)).parameters), signature(estimator.fit).parameters
    for name in names:
        own = ALIASES.get(name, name)
        if "X" in known and own in parameters:
            text = f"{name} is no argument of fit; it is a parameter of the estimator"
            yield UnknownParameterError(f"{text}: {type(estimator).__name__}({own}=...)", "place", name)
        elif "X" not in known and name in arguments:
            text = f"{name} is no parameter of the estimator; it is an argument of fit"
            yield UnknownParameterError(text, "place", name)
        else:
            yield unknown_parameter(name, known)


def check_parameters(estimator: Any, objective: Callable[[], _T]) -> _T:
    """Return an estimator's objective; raise one error for all parameters that are wrong whatever the tables hold."""
    values = {name: value_of(estimator, name) for name, known in BY_NAME.items() if known.estimator}
    faults = list(wrong_values(values))
    chosen = []
    for check in (
        lambda: chosen.append(objective()),
        lambda: link_of(values["link"]),
        lambda: Resources.read(None, values["max_memory"], None),
        lambda: Resources.read(None, None, values["spool"]),
        lambda: read_callbacks(values["callbacks"]),
        lambda: read_missing(values["missing"]),
    ):
        try:
            check()
        except SettingsError as error:
            faults.append(error)
    raise_all(faults)
    return chosen[0]


def train_params(
    estimator: Any, objective: str, num_class: int, weighted: bool, constrained: bool = False
) -> TrainParams:
    """Return an estimator's parameters as all roles will know them."""
    values = {name: value_of(estimator, name) for name, known in SHARED.items() if known.estimator}
    values["objective"] = objective
    stops = estimator.early_stopping_rounds is not None or bool(estimator.callbacks)
    scale = value_of(estimator, "scale_pos_weight")
    weighted = bool(weighted or scale != 1)
    values |= {"weighted": weighted, "constrained": constrained, "may_stop_early": stops}
    params = TrainParams(**values, num_class=num_class)
    check_scale_pos_weight(params.loss, scale)
    return params


def value_of(estimator: Any, name: str) -> Any:
    """Return what a parameter is set to, 0 and 1 as truth values where it is one, as in XGBoost.

    None is the default of what XGBoost has too, where it means "not set". One of NumPy's generators for random_state
    is as good as an integer.
    """
    value = plain(getattr(estimator, name))
    if name == "random_state" and isinstance(value, _GENERATORS):
        return 0
    if value is None and BY_NAME[name].xgboost:
        return BY_NAME[name].default
    return bool(value) if BY_NAME[name].kind is FLAG and value in (0, 1) else value


_log = logging.getLogger("mpfedxgb.training")
_told_defaults = False
"""Whether this process has said where defaults differ."""


def tell_other_defaults(params: TrainParams) -> None:
    """Log once where parameters have defaults that differ from XGBoost's, at the first training that takes them."""
    global _told_defaults  # once for all estimators of the process
    differ = [
        f"{name}={known.default!r} (XGBoost: {known.xgboost_default!r})"
        for name, known in SHARED.items()
        if known.xgboost_default is not None and getattr(params, name) == known.default
    ]
    if differ and not _told_defaults:
        _told_defaults = True
        _log.info("defaults that differ from XGBoost's: %s; each level and bin costs messages", ", ".join(differ))


_GENERATORS = (np.random.RandomState, np.random.Generator)


def sample_key(random_state: Any) -> str:
    """Return what row and column samples come from: nothing, for samples that never repeat, or the random_state.

    Of one of NumPy's generators it is the next number, as in XGBoost.
    """
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(1 << 31)
    elif isinstance(random_state, np.random.Generator):
        random_state = random_state.integers(1 << 31)
    return "" if random_state is None else f"random_state {int(random_state)}"


def read_missing(missing: Any) -> float:
    """Return the number that stands for missing values beside NaN; None is NaN, as in XGBoost."""
    if missing is None:
        return math.nan
    if isinstance(missing, (bool, np.bool_)) or not isinstance(missing, (int, float, np.integer, np.floating)):
        text = f"missing={missing!r} is not a number; give a number such as -999, or leave it out"
        raise SettingsError(f"{text}; texts are replaced in the table, or named in [data] missing", "type", "missing")
    return float(missing)


def read_metrics(eval_metric: Any, objective: str) -> list[str | OwnMetric]:
    """Return the metrics, names or custom functions, checked against the objective."""
    if not isinstance(eval_metric, (str, list, tuple, type(None))) and not callable(eval_metric):
        remedy = "give a name, a function metric(y_true, y_pred), or a list of them"
        raise SettingsError(
            f"eval_metric={eval_metric!r} is not understood; {remedy}", "value", "eval_metric", eval_metric
        )
    given = [eval_metric] if isinstance(eval_metric, str) or callable(eval_metric) else list(eval_metric or [])
    check_metrics(given, objective)
    return given


def read_patience(early_stopping_rounds: Any, has_eval_set: bool) -> int | None:
    """Return after how many boosting rounds without progress to stop, or None for never."""
    if early_stopping_rounds is not None and not has_eval_set:
        text = f"early_stopping_rounds={early_stopping_rounds} needs an eval_set to watch; pass one to fit"
        raise SettingsError(text, "missing", "early_stopping_rounds", early_stopping_rounds)
    return None if early_stopping_rounds is None else int(early_stopping_rounds)


def read_callbacks(callbacks: Any) -> Sequence[Any]:
    """Return whom to call while the training runs; what they are, `Callbacks` says."""
    if callbacks is None:
        return []
    if not isinstance(callbacks, (list, tuple)):
        text = f"callbacks={callbacks!r} is not understood; give a list of functions of a RoundReport"
        raise SettingsError(text, "type", "callbacks", callbacks)
    return callbacks


def check_start(params: TrainParams, labels: Labels) -> None:
    """Refuse starting points and sizes of tables that the protocol would stumble over later."""
    if np.abs(labels.start(params.loss, params.num_class)).max() >= LARGEST_LABEL:
        text = f"base_score={labels.base_score!r} is too large"
        raise DataError(
            f"{text}; rescale the labels so that it is below 2^29 (5e8)", "range", "base_score", labels.base_score
        )
    if labels.row_weights is not None and not labels.row_weights.any():
        text = f"scale_pos_weight={labels.scale_pos_weight!r} leaves no row a weight"
        raise DataError(f"{text}; at least one row has to count", "range", "scale_pos_weight", labels.scale_pos_weight)
    mode_of(params).plan(params, len(labels.y))


def plain(value: Any) -> Any:
    """Return NumPy's numbers, truth values and arrays as Python's; everything else as it is."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, (np.integer, np.floating, np.bool_)) else value
