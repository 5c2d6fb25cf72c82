"""Labelled rows on a command line, to train on and to judge by, with the groups or upper bounds that some take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.api.ranker import FedXGBRanker
from mpfedxgb.boosting.metrics import named_metrics
from mpfedxgb.boosting.objective import Prediction
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


def choose_evaluation_rows(rows: Rows, holdout: float, evaluate: Rows | None, name: str) -> tuple[Rows, EvaluationSet]:
    """Return the rows to train on and those to judge by: an evaluation table's, kept back ones, or the same again."""
    X, y = rows
    if not 0 <= holdout < 1:
        raise SettingsError(
            f"--holdout {holdout} is out of range; it is at least 0 and below 1", "range", "holdout", holdout
        )
    if evaluate is not None:
        if holdout:
            text = "--evaluate names the rows to judge by, so there are none to keep back; drop --holdout"
            raise SettingsError(text, "place", "holdout")
        same = _with_columns_of(X, evaluate[0], name)
        return rows, EvaluationSet(same, evaluate[1], f"the {len(same)} rows of {name}", kept_back=True)
    kept = np.zeros(len(y), np.bool_)
    kept[np.random.default_rng(0).permutation(len(y))[: round(holdout * len(y))]] = True  # the same ones each time
    if not kept.any():
        return rows, EvaluationSet(X, y, f"the {len(y)} rows of the training itself", kept_back=False)
    return (X[~kept], y[~kept]), EvaluationSet(
        X[kept], y[kept], f"{kept.sum()} rows that were kept back", kept_back=True
    )


def _with_columns_of(X: pd.DataFrame, evaluate: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns of an evaluation table in the order of the training table's; others are refused."""
    lacks = [str(column) for column in X.columns if column not in evaluate.columns]
    has = [str(column) for column in evaluate.columns if column not in X.columns]
    if lacks or has:
        parts = [f"lacks {', '.join(lacks)}"] if lacks else []
        parts += [f"has {', '.join(has)} besides"] if has else []
        text = f"--evaluate: {name} {' and '.join(parts)}; give it the columns of the training table"
        raise DataError(text, "mismatch", "evaluate")
    return evaluate[X.columns]


def score(model: FedXGBClassifier | FedXGBRegressor, judged: EvaluationSet, asked: list[str]) -> dict[str, float]:
    """Return by name the metrics that were asked for, that of the model's objective, and if there is one, one more."""
    params, X, y = model.partial_models_[0].params, judged.X, judged.y
    default, beside = params.loss.default_metric, None
    if isinstance(model, FedXGBRegressor):
        more = "mae" if default == "rmse" else "rmse" if Prediction.NUMBER in params.loss.predicts else default
        labels, predicted = y.to_numpy(np.float64), np.atleast_2d(model.predict(X).T)
        if params.loss.beside:
            labels, beside = labels.T
    else:
        if not np.isin(y, model.classes_).all():
            raise DataError(
                f"some classes are only in {judged.where}; keep fewer rows back, or drop those rows", "unknown", "label"
            )
        labels, predicted = np.searchsorted(model.classes_, y).astype(np.float64), model.predict_proba(X).T
        more = "auc" if len(predicted) == 2 else "merror"
        predicted = predicted[1:] if len(predicted) == 2 else predicted
    metrics = named_metrics(list(dict.fromkeys([*asked, default, more])), params.of_objectives)
    return {name: metric(labels, predicted, np.ones(len(y)), beside) for name, metric in metrics.items()}


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
