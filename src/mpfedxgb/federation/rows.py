"""The rows of one role's file, in the order of their ids: features, and at the active participant label and weight.

The workers of this role's own organisation, connected for as long as they are needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.boosting.labels import (
    Class,
    check_labels_present,
    encode_classes,
    find_classes,
    read_base_margin,
    read_groups,
    read_numbers,
    read_weights,
    weights_of_groups,
)
from mpfedxgb.boosting.model import Feature
from mpfedxgb.boosting.objective import Floats, Origin
from mpfedxgb.boosting.objectives import for_classes
from mpfedxgb.boosting.objectives.survival import read_upper
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.files import ParquetRows, is_parquet, read_table, with_kinds
from mpfedxgb.data.ids import Ids, id_as_column, sort_by_id
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, SettingsError, WorkersError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.settings.sections import Data
from mpfedxgb.schema.training import suggestion
from mpfedxgb.workers.cluster import Cluster


@contextmanager
def own_workers(settings: RoleSettings, client: Any = None) -> Iterator[Cluster | None]:
    """Connect with the cluster of a `distributed.Client`, or of [workers] if there is none; None without both."""
    deadline = settings.network.deadline
    if client is not None:
        yield Cluster.over(client, deadline)
        return
    section = settings.workers
    if section is None:
        yield None
        return
    cluster = Cluster.connect(section.scheduler, section.ca, section.certificate, section.key, deadline)
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def workers_in_session(settings: RoleSettings, client: Any = None) -> Iterator[Cluster | None]:
    """Connect as `own_workers` while others wait: they learn of an error, and not where files or workers are."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(own_workers(settings, client))
        except SettingsError as error:
            raise WorkersError(str(error), "file", "workers") from None
        yield cluster


SCORING = "predict"

_log = logging.getLogger("mpfedxgb.role")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a participant brings to a session, sorted by id; label and weight where a file for training has them.

    `base_margin`, (classes, rows), is where rows start, to be trained on or scored; `beside`, (rows,), what some
    objectives take beside labels: groups of rows or upper bounds, as they were read.
    """

    ids: Ids
    table: Table
    label: npt.NDArray[Any] | None = field(default=None, repr=False)
    weight: Floats | None = field(default=None, repr=False)
    base_margin: Floats | None = field(default=None, repr=False)
    beside: npt.NDArray[Any] | None = field(default=None, repr=False)


class Labelled(NamedTuple):
    """What training takes of labels: numbers, the names of classes, row weights, and what goes beside labels."""

    y: Floats
    classes: tuple[Class, ...] | None
    weight: Floats | None
    beside: npt.NDArray[Any] | None


def read_rows(
    settings: RoleSettings, purpose: str, known: Sequence[Feature] | None = None, stay_in_file: bool = False
) -> Rows:
    """Return the rows of this participant's file for "train", "evaluate" or "predict".

    Parameters
    ----------
    settings : RoleSettings
        Of a participant; [data] says which file, which columns and how they are read.
    purpose : "train", "evaluate" or "predict"
        Files for "predict" need no label; if there is one, it is left out.
    known : sequence of Feature or None
        The features of a model: exactly these are taken, in their order, with their categories.
    stay_in_file : bool
        Leave the features in their file, to be read there part by part, if it is Parquet and sorted by id.

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
    exact = _of_label(settings)
    if stay_in_file and known is None:
        rows = _rows_in_file(settings, path, purpose)
        if rows is not None:
            return rows
    # No name for the frame: it is let go of as soon as its rows are in order.
    return arrange_rows(
        settings,
        read_table(path, text_columns, numbers, [data.id], data.csv, exact, _may_mix(settings, purpose, known)),
        purpose,
        known,
    )


def with_kinds_of(settings: RoleSettings, frame: pd.DataFrame, known: Sequence[Feature] | None = None) -> pd.DataFrame:
    """Return a DataFrame with its columns taken for words and numbers as those of a file are."""
    data = _data(settings)
    text_columns, numbers = _kinds(data, known)
    return with_kinds(frame, settings.role.name, text_columns, numbers, [data.id], data.missing)


def arrange_rows(
    settings: RoleSettings, frame: pd.DataFrame, purpose: str, known: Sequence[Feature] | None = None
) -> Rows:
    """Return rows from a DataFrame as `read_rows` does from a file; the id may also be the frame's index."""
    data, owner = _data(settings), settings.role.name
    frame = id_as_column(frame, data.id)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    if not len(frame):
        raise DataError(f"{owner}: the table to {purpose} has no rows; at least one row is needed", "few", purpose, 0)
    _require_named(settings, list(frame.columns), purpose)
    frame, ids = sort_by_id(frame, data.id, owner, settings.id_rule)
    label, weight, beside = _of_rows(settings, frame, list(frame.columns), purpose)
    start = _base_margin(settings, frame, list(frame.columns))
    names = _features(settings, list(frame.columns), known)
    table = Table.read(frame[names], owner)
    if known is not None:
        table = table.match(names, {f.name: f.categories for f in known if f.categories is not None})
    return Rows(ids, table, label, weight, start, beside)


def _rows_in_file(settings: RoleSettings, path: Path, purpose: str) -> Rows | None:
    """Return rows whose features stay in their file; None, and a line in the log, if it is not fit for that."""
    data, owner = _data(settings), settings.role.name
    text = "the features are read by this role, which hands their bins to the workers"
    names = None
    if not path.is_file():
        return None  # the reader of the whole file says that there is none
    try:
        if is_parquet(path) and not data.missing:
            names = ParquetRows.plain_names(path, data.categorical, data.numeric)
    except (ImportError, ValueError, OSError):
        return None  # the reader of the whole file says what is wrong with it
    if names is None or data.id not in names:
        _log.info("%s is no Parquet file of plain columns without [data] missing; %s", path.name, text)
        return None
    _require_named(settings, names, purpose)
    own = [name for name in (data.id, *_of_label(settings)) if name in names]
    file = ParquetRows.of(path)
    frame = with_kinds(file.read(own), str(path), verbatim=[data.id])
    if not len(frame):
        return None
    frame, ids = sort_by_id(frame, data.id, owner, settings.id_rule)
    if (ids.places != np.arange(len(ids))).any():
        _log.info("%s is not sorted by %s as all participants sort; %s", path.name, data.id, text)
        return None
    others = [name for name in names if name != data.id]
    label, weight, beside = _of_rows(settings, frame, others, purpose)
    features = _features(settings, others, None)
    table, start = file.table(owner, features, len(ids)), _base_margin(settings, frame, others)
    return Rows(ids, table, label, weight, start, beside)


def _require_named(settings: RoleSettings, names: Sequence[str], purpose: str) -> None:
    """Make sure that a table has the columns that the settings name; a table to score need not have all of them."""
    data, owner = _data(settings), settings.role.name
    for key in ("categorical", "numeric", "drop") if purpose != SCORING else ():
        _require(names, getattr(data, key), f"{owner}: [data] {key}")


def _of_rows(
    settings: RoleSettings, frame: pd.DataFrame, there: Sequence[str], purpose: str
) -> tuple[npt.NDArray[Any] | None, Floats | None, npt.NDArray[Any] | None]:
    """Return labels, row weights, and groups or upper bounds, if the rows are there to be trained on or judged."""
    if settings.label is None or purpose == SCORING:
        return None, None, None
    owner, known, weight = settings.role.name, settings.label, None
    for key in ("column", "weight", "qid", "upper"):
        if (name := getattr(known, key)) is not None:
            _require(there, [name], f"{owner}: [label] {key}")
    if known.weight is not None:
        origin = Origin(f"{owner}: the weight", shows_values=False)
        weight = read_weights(_plain(frame[known.weight]), origin)
    beside = known.qid or known.upper
    return _plain(frame[known.column]), weight, None if beside is None else _plain(frame[beside])


def _base_margin(settings: RoleSettings, frame: pd.DataFrame, there: Sequence[str]) -> Floats | None:
    if settings.label is None or not settings.label.base_margin:
        return None
    owner, names = settings.role.name, settings.label.base_margin
    _require(there, names, f"{owner}: [label] base_margin")
    origin = Origin(f"{owner}: the base margin", shows_values=False)
    margins = np.stack([_plain(frame[name]) for name in names], axis=1)
    return read_base_margin(margins, settings.training.outputs, origin)


def _features(settings: RoleSettings, there: Sequence[str], known: Sequence[Feature] | None) -> list[str]:
    """Return the names of the features among the columns that are there."""
    data, owner = _data(settings), settings.role.name
    others = {*data.drop, *_of_label(settings)}
    names = [name for name in there if name not in others]
    if data.features is not None:
        names = list(data.features)
        _require(there, names, f"{owner}: [data] features")
    if known is not None:
        _require(there, [feature.name for feature in known], f"{owner}: the training table", "has")
        _refuse_others(names, known, owner)
        names = [feature.name for feature in known]
    return names


def encode_labels(
    labels: npt.NDArray[Any],
    params: TrainParams,
    owner: str,
    classes: Sequence[Class] | None = None,
    base_score: float | None = None,
    evaluates: bool = False,
) -> tuple[Floats, tuple[Class, ...] | None]:
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
    evaluates : bool
        Whether the rows are there to evaluate: training does not start from them.
    """
    origin = Origin(f"{owner}: the label", shows_values=False)
    if not params.loss.has_classes:
        return read_numbers(labels, params.loss, origin, starts=base_score is None and not evaluates), None
    check_labels_present(labels, origin)
    if classes is None:
        classes = find_classes(labels, origin)
        _check_classes(len(classes), params, owner)
    return encode_classes(labels, classes, origin), tuple(classes)


def read_labelled(
    rows: Rows,
    params: TrainParams,
    owner: str,
    classes: Sequence[Class] | None = None,
    base_score: float | None = None,
    evaluates: bool = False,
) -> Labelled:
    """Return what training takes of labelled rows; arguments as of `encode_labels`."""
    assert rows.label is not None, "the caller has labels"
    y, known = encode_labels(rows.label, params, owner, classes, base_score, evaluates)
    if not params.loss.beside:
        return Labelled(y, known, rows.weight, None)
    assert rows.beside is not None, "the settings name the column"
    if params.loss.beside == "upper":
        origin = Origin(f"{owner}: the upper bound", shows_values=False)
        return Labelled(y, known, rows.weight, read_upper(rows.beside, y, origin))
    groups = read_groups(rows.beside, Origin(f"{owner}: the group", shows_values=False))
    if rows.weight is None:
        return Labelled(y, known, None, groups)
    origin = Origin(f"{owner}: the weight", shows_values=False)
    return Labelled(y, known, weights_of_groups(rows.weight, groups, origin), groups)


def _check_classes(found: int, params: TrainParams, owner: str) -> None:
    if found == params.num_class:
        return
    if found < 2:
        raise DataError(f"{owner}: all labels are the same; a classifier needs two or more classes", "few", "label", 1)
    fitting = for_classes(found)
    more = f" and num_class = {found}" if fitting.classes is None else ""
    text = (
        f"{owner}: the label has {found} classes, objective {params.objective} expects {params.num_class}; "
        f'set objective = "{fitting.name}"{more} in [training] at all roles, or correct the label column'
    )
    raise DataError(text, "mismatch", "label", found)


def _data(settings: RoleSettings) -> Data:
    if settings.data is None:
        text = f"{settings.role.name} is the coordinator, which holds no data; run this at a participant"
        raise DataError(text, "place", settings.role.name)
    return settings.data


def _of_label(settings: RoleSettings) -> list[str]:
    if settings.label is None:
        return []
    label = settings.label
    own = (label.column, label.weight, label.qid, label.upper, *label.base_margin)
    return [name for name in own if name is not None]


def _kinds(data: Data, known: Sequence[Feature] | None) -> tuple[Collection[str], Collection[str]]:
    """Return the columns that hold words and those that hold numbers, as far as that is known."""
    if known is None:
        return data.categorical, data.numeric
    text_columns = [f.name for f in known if f.categories is not None]
    return text_columns, [f.name for f in known if f.categories is None]


def _may_mix(settings: RoleSettings, purpose: str, known: Sequence[Feature] | None) -> Callable[[str], bool]:
    """Return which columns may hold words beside numbers: classes, and those that are not used."""
    data, label = _data(settings), settings.label
    used = [feature.name for feature in known] if known is not None else data.features
    others = {*_of_label(settings)}
    if label is not None and purpose != SCORING:
        classes = {label.column} if settings.training.loss.has_classes else set()
        return lambda name: name in classes or (name not in others and _is_left_out(data, used, name))
    return lambda name: name in others or _is_left_out(data, used, name)


def _is_left_out(data: Data, used: Sequence[str] | None, name: str) -> bool:
    return name in data.drop if used is None else name not in used


def _require(there: Sequence[str], names: Sequence[str], who: str, does: str = "names") -> None:
    for name in names:
        if name not in there:
            hint = f"; {suggestion(name, there, 'the columns are')}" if there else ""
            raise DataError(f"{who} {does} a column {name!r} that the table does not have{hint}", "unknown", name)


def _refuse_others(names: Sequence[str], known: Sequence[Feature], owner: str) -> None:
    """Refuse columns that a model does not know: a table with others is more likely the wrong one than a richer one."""
    others = sorted(set(names) - {feature.name for feature in known})
    if others:
        text = (
            f"{owner}: the table has columns that the training table does not have: {', '.join(others[:8])}; name them "
            "in [data] drop, or those of the training table in [data] features"
        )
        raise DataError(text, "unknown", "data.features", others)


def _plain(series: pd.Series[Any]) -> npt.NDArray[Any]:
    """Return a label as an array of what was read, though words were made categories."""
    if isinstance(series.dtype, pd.CategoricalDtype) or series.isna().any():
        series = series.astype(object)
    return series.to_numpy()
