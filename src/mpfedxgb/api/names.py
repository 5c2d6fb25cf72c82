"""XGBoost's keyword arguments of estimators and `fit`: taken if they change nothing, else answered with a remedy."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from mpfedxgb.boosting.params import ALIASES, REFUSED, explain_unknown, refuse_all

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
