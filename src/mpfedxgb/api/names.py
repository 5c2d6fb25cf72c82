"""Unknown keyword arguments of estimators and of `fit`: answered with the right name, the right place or a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import signature
from typing import Any, TypeVar, cast

from mpfedxgb.boosting.params import ALIASES, refuse_unknown
from mpfedxgb.errors import UnknownParameterError

_Method = TypeVar("_Method", bound=Callable[..., Any])


def explaining_names(method: _Method) -> _Method:
    """Make a constructor or `fit` answer unknown keyword arguments with the right name, the right place or a reason."""
    known = [name for name in signature(method).parameters if name != "self"]

    @wraps(method)
    def checked(self: Any, *args: Any, **named: Any) -> Any:
        refuse_names(self, named, known)
        return method(self, *args, **named)

    return cast(_Method, checked)


def refuse_names(estimator: Any, names: Iterable[str], known: list[str]) -> None:
    """Refuse names that are not known, of parameters or of arguments of `fit`."""
    parameters, arguments = list(signature(type(estimator)).parameters), signature(estimator.fit).parameters
    for name in names:
        own = ALIASES.get(name, name)
        if name not in known and "X" in known and own in parameters:
            told = f"{name} is no argument of fit; it is a parameter of the estimator"
            raise UnknownParameterError(f"{told}: {type(estimator).__name__}({own}=...)")
        if name not in known and "X" not in known and name in arguments:
            raise UnknownParameterError(f"{name} is no parameter of the estimator; it is an argument of fit")
    refuse_unknown(names, known)
