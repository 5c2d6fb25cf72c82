"""`fit(..., xgb_model=...)`: a model whose trees come first, checked against what is trained now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mpfedxgb.api.models import load_models
from mpfedxgb.boosting.join import join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.rounds import rounds_of
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, SettingsError


def read_start(xgb_model: Any) -> list[PartialModel] | None:
    """Return all participants' parts of the model to go on from: a fitted estimator's, a folder's, or as they are."""
    if xgb_model is None:
        return None
    if isinstance(xgb_model, (str, Path)):
        return load_models(Path(xgb_model))
    if hasattr(xgb_model, "load_model") and hasattr(xgb_model, "prediction_run"):
        check_is_fitted(xgb_model, "partial_models_")
        return list(xgb_model.partial_models_)
    parts = list(xgb_model) if isinstance(xgb_model, (list, tuple)) else []
    if not parts or not all(isinstance(part, PartialModel) for part in parts):
        remedy = "give a fitted estimator, a folder that save_model wrote, or the list of all participants' parts"
        raise SettingsError(
            f"xgb_model is a {type(xgb_model).__name__}, which does not say whose splits are whose; {remedy}"
        )
    join(parts)
    return sorted(parts, key=lambda part: part.participant)


def go_on(
    start: Sequence[PartialModel], tables: dict[str, Table], params: TrainParams
) -> tuple[dict[str, Table], TrainParams]:
    """Return tables and parameters of a training that goes on from a model; refuses, by name, what does not fit.

    The categories of columns are the model's. n_estimators counts the model's rounds and the new ones.
    """
    active = start[0]
    for security in (active.params, params):
        if security.shares_weights:
            raise SettingsError(
                f"xgb_model does not go with security={security.security!r}, whose leaf weights nobody knows; train "
                "anew, or use security='strict' for both"
            )
    for name in ("objective", "num_class", "security"):  # what was made in the open never passes for protected
        old, new = getattr(active.params, name), getattr(params, name)
        if old != new:
            raise SettingsError(
                f"xgb_model was trained with {name}={old!r}, this is {name}={new!r}; make them the same"
            )
    if active.params.xgboost_rules != params.xgboost_rules:
        raise SettingsError(
            f"xgb_model was trained by the rules of XGBoost {active.params.xgboost_rules} and this version trains by "
            f"those of {params.xgboost_rules}, so the new trees would follow other rules; train anew, or go on with "
            "the version of mpfedxgb that trained it"
        )
    if tuple(tables) != active.participants:
        told = f"xgb_model is of {', '.join(active.participants)}, X of {', '.join(tables)}"
        raise DataError(f"{told}; give the same participants in the same order")
    matched = {part.name: _match(tables[part.name], part) for part in start}
    return matched, replace(params, n_estimators=rounds_of(active) + params.n_estimators)


def check_same_start(active: PartialModel, params: TrainParams, y: Floats, weight: Floats | None, base: Any) -> None:
    """Refuse a base_score that is not the model's."""
    if base is None:
        return
    margin = params.loss.base_margin(y, weight, base, params.num_class)
    if not np.array_equal(margin, np.array(active.base_margin)):
        raise SettingsError(f"base_score={base!r} is not where xgb_model started; leave it None to keep that")


def _match(table: Table, part: PartialModel) -> Table:
    known = {f.name: f.categories for f in part.features if f.categories is not None}
    matched = table.match([f.name for f in part.features], known)
    for column in matched.columns:
        if column.categories is not None and (column.values >= len(column.categories)).any():
            told = f"{table.owner}: column {column.name!r} holds categories that xgb_model does not know"
            raise DataError(f"{told}; mark them as missing, or train anew")
    return matched
