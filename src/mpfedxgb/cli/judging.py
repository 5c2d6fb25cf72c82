"""Which rows a simulation judges its model by, and how well it does there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting.metrics import METRICS
from mpfedxgb.errors import DataError, SettingsError

Rows = tuple[pd.DataFrame, "pd.Series[Any]"]
"""Columns without the label, and the label."""


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Rows to judge a model by; `where` says in words which they are, `kept_back` that they are not trained on."""

    X: pd.DataFrame = field(repr=False)
    y: pd.Series[Any] = field(repr=False)
    where: str
    kept_back: bool


def rows_to_judge(rows: Rows, holdout: float, evaluate: Rows | None, name: str) -> tuple[Rows, Judged]:
    """Return the rows to train on and those to judge by: an evaluation table's, kept back ones, or the same again."""
    X, y = rows
    if not 0 <= holdout < 1:
        raise SettingsError(f"--holdout {holdout} is out of range; it is at least 0 and below 1")
    if evaluate is not None:
        if holdout:
            raise SettingsError("--evaluate names the rows to judge by, so there are none to keep back; drop --holdout")
        same = _with_columns_of(X, evaluate[0], name)
        return rows, Judged(same, evaluate[1], f"the {len(same)} rows of {name}", kept_back=True)
    kept = np.zeros(len(y), np.bool_)
    kept[np.random.default_rng(0).permutation(len(y))[: round(holdout * len(y))]] = True  # the same ones each time
    if not kept.any():
        return rows, Judged(X, y, f"the {len(y)} rows of the training itself", kept_back=False)
    return (X[~kept], y[~kept]), Judged(X[kept], y[kept], f"{kept.sum()} rows that were kept back", kept_back=True)


def _with_columns_of(X: pd.DataFrame, evaluate: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the columns of an evaluation table in the order of the training table's; others are refused."""
    lacks = [str(column) for column in X.columns if column not in evaluate.columns]
    has = [str(column) for column in evaluate.columns if column not in X.columns]
    if lacks or has:
        parts = [f"lacks {', '.join(lacks)}"] if lacks else []
        parts += [f"has {', '.join(has)} besides"] if has else []
        raise DataError(f"--evaluate: {name} {' and '.join(parts)}; give it the columns of the training table")
    return evaluate[X.columns]


def score(model: FedXGBClassifier | FedXGBRegressor, judged: Judged, asked: list[str]) -> dict[str, float]:
    """Return by name the metrics that were asked for, that of the model's objective, and one more."""
    default, X, y = model.partial_models_[0].params.loss.default_metric, judged.X, judged.y
    if isinstance(model, FedXGBRegressor):
        more = "mae" if default == "rmse" else "rmse"
        labels, predicted = y.to_numpy(np.float64), model.predict(X)[None]
    else:
        if not np.isin(y, model.classes_).all():
            raise DataError(f"some classes are only in {judged.where}; keep fewer rows back, or drop those rows")
        labels, predicted = np.searchsorted(model.classes_, y).astype(np.float64), model.predict_proba(X).T
        more = "auc" if len(predicted) == 2 else "merror"
        predicted = predicted[1:] if len(predicted) == 2 else predicted
    names = dict.fromkeys([*asked, default, more])
    return {name: METRICS[name](labels, predicted, np.ones(len(y))) for name in names}
