"""Labels on a command line, and the column that some objectives take beside them: groups of rows, or upper bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.ranker import FedXGBRanker
from mpfedxgb.boosting.objectives import OBJECTIVES
from mpfedxgb.errors import DataError, SettingsError

Rows = tuple[pd.DataFrame, Any]
"""Columns without the label, and the label: a Series, or a DataFrame of it and the column beside it."""


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationSet:
    """Rows to judge a model by; `where` says in words which they are, `kept_back` that they are not trained on."""

    X: pd.DataFrame = field(repr=False)
    y: Any = field(repr=False)
    where: str
    kept_back: bool


def with_column(rows: Rows, name: str, option: str) -> Rows:
    """Return rows with a column beside the label, and not among the features; groups sorted, as numbers."""
    X, y = rows
    if name not in X.columns:
        have = ", ".join(map(str, X.columns))
        raise DataError(f"--{option}: there is no column {name!r}; the columns are {have}", "unknown", option, name)
    column = X[name]
    X = X.drop(columns=name)
    if option == "qid":
        column = pd.Series(np.unique(column.to_numpy(), return_inverse=True)[1], X.index, name=name)
        order = column.argsort(kind="stable")
        X, y, column = X.iloc[order], y.iloc[order], column.iloc[order]
    return X, pd.concat([y, column], axis=1)


def check_beside(objective: str, given: Mapping[str, str]) -> None:
    """Refuse a column that the objective does not take, and the lack of one that it takes."""
    wanted = OBJECTIVES[objective].beside if objective in OBJECTIVES else ""
    for option, column in given.items():
        if column and wanted != option:
            text = f"--{option} {column} does not go with {objective}; leave it out"
            raise SettingsError(text, "mismatch", option, column)
        if not column and wanted == option:
            raise SettingsError(f"{objective} needs --{option}, the name of a column", "missing", option)


def fit(model: FedXGBClassifier | FedXGBRegressor, rows: Rows, judged: EvaluationSet | None) -> None:
    """Train on rows, and watch others if there are any."""
    X, y = rows
    watched = [] if judged is None else [(judged.X, judged.y)]
    if not isinstance(model, FedXGBRanker):
        model.fit(X, y, eval_set=watched or None)
        return
    labels, groups = [(X, y.iloc[:, 0]) for X, y in watched], [y.iloc[:, 1] for _, y in watched]
    model.fit(X, y.iloc[:, 0], qid=y.iloc[:, 1], eval_set=labels or None, eval_qid=groups or None)
