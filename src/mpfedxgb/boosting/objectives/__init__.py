"""The losses that can be trained, in one table; docs/adding-an-objective.md shows how to add one.

A family of losses is a file beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from mpfedxgb.boosting.objective import Floats, Gradients, Objective, Prediction
from mpfedxgb.boosting.objectives.classes import HINGE, LOGISTIC, LOGIT_RAW, SHARES, SOFTMAX, SOFTPROB, sigmoid
from mpfedxgb.boosting.objectives.positive import GAMMA, poisson, tweedie
from mpfedxgb.boosting.objectives.ranking import ranking
from mpfedxgb.boosting.objectives.residuals import ABSOLUTE, SQUARED, SQUARED_LOGS, pseudo_huber, quantile
from mpfedxgb.boosting.objectives.survival import COX, aft
from mpfedxgb.errors import SettingsError
from mpfedxgb.schema.training import BY_NAME, OF_OBJECTIVES


def _zero(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    return np.zeros(1)


def _no_function(y: Floats, margins: Floats) -> Gradients:
    raise AssertionError("a custom objective computes gradients once it has its function")


def default_step(objective: str) -> float:
    """Return what max_delta_step is if it is not given (rules "3.4")."""
    return 0.7 if objective == "count:poisson" else 0.0


CUSTOM = Objective(
    name="custom",
    derivatives=_no_function,
    default_metric="rmse",
    block="reg_loss_param",
    block_parameters={"scale_pos_weight": "1"},
    predicts=frozenset({Prediction.NUMBER, Prediction.PROBABILITY}),
    start=_zero,
    exported_as="reg:squarederror",
    is_custom=True,
)

# The margins of a classifier with a loss of its own are log-odds, as its predict_proba takes them.
_CUSTOM_CLASSIFIER = replace(CUSTOM, default_metric="logloss", transform=sigmoid)

RANKINGS = ("rank:ndcg", "rank:pairwise", "rank:map")
"""What a ranker may use, the default first."""

_WITH_PARAMETERS: dict[str, Callable[..., Objective]] = {
    "reg:pseudohubererror": pseudo_huber,
    "reg:tweedie": tweedie,
    "reg:quantileerror": quantile,
    "survival:aft": aft,
    **{name: partial(ranking, name) for name in RANKINGS},
}
"""The losses that depend on parameters of the training, by those names."""


def _made(name: str, values: Mapping[str, Any]) -> Objective:
    return _WITH_PARAMETERS[name](**{given: values[given] for given, names in OF_OBJECTIVES.items() if name in names})


_DEFAULTS = {name: BY_NAME[name].default for name in OF_OBJECTIVES}

OBJECTIVES: dict[str, Objective] = {
    objective.name: objective
    for objective in (
        LOGISTIC,
        LOGIT_RAW,
        HINGE,
        SOFTPROB,
        SOFTMAX,
        SQUARED,
        SQUARED_LOGS,
        ABSOLUTE,
        SHARES,
        poisson(default_step("count:poisson")),
        GAMMA,
        *(_made(name, _DEFAULTS) for name in _WITH_PARAMETERS),
        COX,
        CUSTOM,
    )
}
"""What "objective" may be, the default for two classes, for more, and for numbers before others; custom stands for a
callable that the active participant keeps to itself."""

FOR_NUMBERS = tuple(name for name, o in OBJECTIVES.items() if not (o.has_classes or o.is_custom or name in RANKINGS))
"""What a regressor may use, the default first."""

NAMED = tuple(name for name, o in OBJECTIVES.items() if not o.is_custom)
"""What a settings file or a command line may name."""

OTHER_NAMES = {"reg:linear": "reg:squarederror"}
"""What XGBoost also calls these losses."""


ONLY_IN_XGBOOST = ("reg:expectileerror",)
"""XGBoost's objectives that have not been built here."""


def objective_error(name: Any, does_not_fit: str, remedy: str) -> SettingsError:
    """Return why an objective cannot be trained: not built here, not fitting, or not known at all."""
    why = does_not_fit if name in (*NAMED, *OTHER_NAMES) else "is not known"
    if name in ONLY_IN_XGBOOST:
        why = "is one of XGBoost's that are not supported here"
    if name in RANKINGS:
        remedy = "rank rows with a FedXGBRanker"
    return SettingsError(f"objective={name!r} {why}; {remedy}", "choice", "objective", name)


def objective_of(name: str, num_class: int, values: Mapping[str, Any]) -> Objective:
    """Return a known objective, as a training with `num_class` classes and these values of parameters uses it."""
    if name in _WITH_PARAMETERS:
        return _made(name, values)
    if name == "count:poisson":
        return poisson(values["max_delta_step"])
    objective = OBJECTIVES[name]
    return _CUSTOM_CLASSIFIER if objective.is_custom and num_class == 2 else objective


def for_classes(count: int) -> Objective:
    """Return the objective of choice for `count` classes, two or more."""
    return next(o for o in OBJECTIVES.values() if o.takes_classes(count))
