"""The rows of one role's file, in the order of their ids: features, and at the active participant label and weight."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.boosting.model import Feature
from mpfedxgb.boosting.objectives import Floats
from mpfedxgb.config import TrainParams
from mpfedxgb.data.alignment import Ids, sort_by_id
from mpfedxgb.data.files import read_table, with_kinds
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.settings.sections import Data
from mpfedxgb.federation.settings.toml import suggestion

SCORING = "predict"
_LARGEST_LABEL = 2.0**29
_REGRESSION = ("reg:squarederror", "count:poisson")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a participant brings to a session, sorted by id; label and weight where a file for training has them."""

    ids: Ids
    table: Table
    label: npt.NDArray[Any] | None = field(default=None, repr=False)
    weight: Floats | None = field(default=None, repr=False)


def read_rows(settings: RoleSettings, purpose: str, known: Sequence[Feature] | None = None) -> Rows:
    """Return the rows of this participant's file for "train", "evaluate" or "predict".

    Parameters
    ----------
    settings : RoleSettings
        Of a participant; [data] says which file, which columns and how they are read.
    purpose : "train", "evaluate" or "predict"
        Files for "predict" need no label; if there is one, it is left out.
    known : sequence of Feature or None
        The features of a model: exactly these are taken, in their order, with their categories.

    Raises
    ------
    SettingsError
        If the settings name no file for the purpose.
    DataError
        If the file cannot be used as the settings say.
    """
    path = settings.file_of(purpose)
    data = _data(settings)
    text_columns, numbers = _kinds(data, known)
    frame = read_table(path, text_columns, numbers, verbatim=[data.id])
    return arrange_rows(settings, frame, purpose, known)


def with_kinds_of(settings: RoleSettings, frame: pd.DataFrame, known: Sequence[Feature] | None = None) -> pd.DataFrame:
    """Return a DataFrame with its columns taken for words and numbers as those of a file are."""
    data = _data(settings)
    text_columns, numbers = _kinds(data, known)
    return with_kinds(frame, settings.role.name, text_columns, numbers, verbatim=[data.id])


def arrange_rows(
    settings: RoleSettings, frame: pd.DataFrame, purpose: str, known: Sequence[Feature] | None = None
) -> Rows:
    """Return rows from a DataFrame as `read_rows` does from a file; the id may also be the frame's index."""
    data, owner = _data(settings), settings.role.name
    if data.id in frame.index.names and data.id not in frame.columns:
        frame = frame.reset_index(level=data.id)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if not len(frame):
        raise DataError(f"{owner}: the table to {purpose} has no rows; at least one row is needed")
    for key in ("categorical", "numeric", "drop") if purpose != SCORING else ():
        _require(frame, getattr(data, key), f"{owner}: [data] {key}")
    frame, ids = sort_by_id(frame, data.id, owner)
    label = weight = None
    if settings.label is not None and purpose != SCORING:
        _require(frame, [settings.label.column], f"{owner}: [label] column")
        label = _plain(frame[settings.label.column])
        if settings.label.weight is not None:
            _require(frame, [settings.label.weight], f"{owner}: [label] weight")
            weight = _weights(frame[settings.label.weight], owner)
    others = {*data.drop, *_of_label(settings)}
    names = [name for name in frame.columns if name not in others]
    if known is not None:
        names = [feature.name for feature in known]
        _require(frame, names, f"{owner}: the model")
    elif data.features is not None:
        names = list(data.features)
        _require(frame, names, f"{owner}: [data] features")
    table = Table.read(frame[names], owner)
    if known is not None:
        table = table.match(names, {f.name: f.categories for f in known if f.categories is not None})
    return Rows(ids, table, label, weight)


def encode_labels(
    labels: npt.NDArray[Any],
    params: TrainParams,
    owner: str,
    classes: Sequence[str | int | float] | None = None,
    base_score: float | None = None,
) -> tuple[Floats, tuple[str | int | float, ...] | None]:
    """Return labels as the numbers that training takes, and the names of the classes if they are classes.

    Parameters
    ----------
    labels : array (rows,)
    params : TrainParams
    owner : str
        For messages.
    classes : sequence or None
        The classes of the training rows, for labels of evaluation rows.
    base_score : float or None
        Where training starts; counts that are all zero need one.
    """
    missing = int(pd.isna(labels).sum())
    if missing:
        raise DataError(f"{owner}: {missing} of {len(labels)} labels are missing; drop those rows or fill them in")
    if params.objective in _REGRESSION:
        return _numbers(labels, params.objective, owner, base_score), None
    if classes is None:
        try:
            found = np.unique(labels).tolist()
        except TypeError:
            raise DataError(f"{owner}: the label mixes texts and numbers; write all classes in one way") from None
        classes = tuple(c if isinstance(c, (str, int, float)) else str(c) for c in found)
        _check_classes(len(classes), params, owner)
    place = {label: float(code) for code, label in enumerate(classes)}
    values = [value if isinstance(value, (str, int, float)) else str(value) for value in labels.tolist()]
    unknown = len({value for value in values if value not in place})
    if unknown:
        raise DataError(f"{owner}: rows to evaluate have {unknown} classes that no training row has; drop those rows")
    return np.array([place[value] for value in values]), tuple(classes)


def _check_classes(found: int, params: TrainParams, owner: str) -> None:
    if found == params.num_class:
        return
    if found < 2:
        raise DataError(f"{owner}: all labels are the same; a classifier needs two or more classes")
    fitting = '"binary:logistic"' if found == 2 else f'"multi:softprob" and num_class = {found}'
    raise DataError(
        f"{owner}: the label has {found} classes, objective {params.objective} expects {params.num_class}; "
        f"set objective = {fitting} in [training] at all roles, or correct the label column"
    )


def _numbers(labels: npt.NDArray[Any], objective: str, owner: str, base_score: float | None) -> Floats:
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{owner}: the label holds something that is not a number; {objective} needs numbers") from None
    if not np.isfinite(numbers).all() or np.abs(numbers).max(initial=0) >= _LARGEST_LABEL:
        raise DataError(f"{owner}: the label holds infinity or a number of 2^29 (5e8) or more; rescale the labels")
    if objective == "count:poisson":
        if (numbers < 0).any():
            raise DataError(f"{owner}: the label holds numbers below 0; {objective} takes counts")
        if not numbers.any() and base_score is None:
            raise DataError(f"{owner}: the label is 0 everywhere; {objective} needs a positive mean or a base_score")
    return numbers


def _data(settings: RoleSettings) -> Data:
    if settings.data is None:
        raise DataError(f"{settings.role.name} is the coordinator, which holds no data; run this at a participant")
    return settings.data


def _of_label(settings: RoleSettings) -> list[str]:
    if settings.label is None:
        return []
    return [name for name in (settings.label.column, settings.label.weight) if name is not None]


def _kinds(data: Data, known: Sequence[Feature] | None) -> tuple[Collection[str], Collection[str]]:
    """Return the columns that hold words and those that hold numbers, as far as that is known."""
    if known is None:
        return data.categorical, data.numeric
    text_columns = [f.name for f in known if f.categories is not None]
    return text_columns, [f.name for f in known if f.categories is None]


def _require(frame: pd.DataFrame, names: Sequence[str], who: str) -> None:
    for name in names:
        if name not in frame.columns:
            there = [str(column) for column in frame.columns]
            hint = suggestion(name, there, "the columns are") if there else ""
            raise DataError(f"{who} names a column {name!r} that the table does not have{hint}")


def _plain(series: pd.Series[Any]) -> npt.NDArray[Any]:
    """Return a label as an array of what was read, though words were made categories."""
    if isinstance(series.dtype, pd.CategoricalDtype) or series.isna().any():
        series = series.astype(object)
    return series.to_numpy()


def _weights(series: pd.Series[Any], owner: str) -> Floats:
    try:
        weight = np.asarray(pd.to_numeric(_plain(series)), np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{owner}: the weight holds something that is not a number; give one weight per row") from None
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise DataError(f"{owner}: weights are finite numbers of 0 or more, one per row; correct or drop the others")
    if not weight.any():
        raise DataError(f"{owner}: all weights are 0; at least one row has to count")
    return weight
