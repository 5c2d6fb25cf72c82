"""What a user passes as X: one table to cut vertically, or one table per participant; checked before anything runs.

A sealed training refuses evaluation rows that are training rows, as the active participant gets their margins round by
round, and so their leaves. With an id column it is plain which rows are meant. Without one, two rows are taken for one
if pandas' index has the same label for both and they are alike in all columns; where both tables only count their rows,
labels say nothing. Whatever the labels, a table is refused if it is the training table once more, or if more than half
of its rows are alike in all columns to a training row that is one of a kind. A repeated row may be somebody else's, so
a few of them are nothing to stop for.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from mpfedxgb.api.federated_table import FederatedTable
from mpfedxgb.api.row_order import RowOrder, in_one_order
from mpfedxgb.boosting.labels import check_labels_present, read_base_margin, read_weights
from mpfedxgb.boosting.objective import Floats, Origin
from mpfedxgb.data.ids import count_common
from mpfedxgb.data.table import Table, identifier_columns, is_arrow, is_sparse
from mpfedxgb.errors import DataError

Rows = tuple[Mapping[str, Table], RowOrder]
"""Everybody's table, columns and categories as in the training, and the order of their rows."""


def refuse_training_rows(name: str, training: Rows, evaluation: Rows) -> None:
    """Raise DataError if rows of an evaluation set are training rows; it says how many."""
    common, how = _common(training, evaluation)
    if common:
        rows = next(iter(evaluation[0].values())).rows
        text = (
            f"{name}: {common} of {rows} rows are training rows, by their {how}; security='sealed' lets nobody learn "
            "anything about a training row, and an evaluation set tells margins after every boosting round: keep "
            "rows back for it, or leave it out; if they are other people's, id= names the column that says so"
        )
        raise DataError(text, "duplicate", name, common)


def _common(training: Rows, evaluation: Rows) -> tuple[int, str]:
    """Return how many rows are in both, and what says so."""
    (tables, order), (others, other) = training, evaluation
    if order.ids is not None and other.ids is not None:
        return count_common(order.ids, other.ids), "ids"
    first, second = _digests(tables), _digests(others)
    if np.array_equal(first, second):
        return len(second), "values"
    labelled = 0
    if order.index is not None and other.index is not None and (_says_who(order.index) or _says_who(other.index)):
        known, asked = (pd.MultiIndex.from_arrays(pair) for pair in ((order.index, first), (other.index, second)))
        labelled = int(asked.isin(known).sum())
    values, counts = np.unique(first, return_counts=True)
    alike = int(np.isin(second, values[counts == 1]).sum())
    if 2 * alike > len(second) and alike > labelled:
        return alike, "values"
    return labelled, "index and values"


def _says_who(index: pd.Index[Any]) -> bool:
    """Return whether an index tells rows apart, and does not only count them."""
    return not (isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1)


def _digests(tables: Mapping[str, Table]) -> npt.NDArray[np.uint64]:
    """Return 64 bits for each row that are the same for the same values in all columns of everybody."""
    columns = [column.values for owner in sorted(tables) for column in tables[owner].columns]
    frame = pd.DataFrame({i: np.where(np.isnan(v), np.nan, v + 0.0) for i, v in enumerate(columns)})
    return np.asarray(pd.util.hash_pandas_object(frame, index=False), np.uint64)


_log = logging.getLogger("mpfedxgb.data")

Participants = int | Sequence[Any] | Mapping[str, Any]


def is_federated(X: Any) -> bool:
    """Return whether X is one table per participant: a FederatedTable, a dictionary, a list of tables or 2-d arrays."""
    if isinstance(X, FederatedTable):
        return True
    if isinstance(X, Mapping):
        return not is_sparse(X)  # one of SciPy's sparse arrays is a mapping too
    return isinstance(X, (list, tuple)) and bool(X) and all(_is_table(x) for x in X)


def _is_table(x: Any) -> bool:
    return isinstance(x, pd.DataFrame) or is_arrow(x) or is_sparse(x) or (isinstance(x, np.ndarray) and x.ndim == 2)


def read_tables(
    X: Any, id_column: str | None = None, active: str | None = None, missing: float = np.nan, least: int = 2
) -> tuple[dict[str, Table], RowOrder]:
    """Return the participants' tables, the active one's first, and their rows' order; `missing` is as NaN is.

    A FederatedTable may say so itself. There are to be `least` tables or more.
    """
    if isinstance(X, FederatedTable) and not np.isnan(X.missing):
        missing = X.missing
    named = _named_tables(X)
    _check_count(len(named), least)
    frames, order = in_one_order(named, _id_of(X, id_column), active)
    return {name: Table.read(frame, name, missing=missing) for name, frame in frames.items()}, order


def match_tables(what: str, tables: Mapping[str, Table], training: Mapping[str, Table]) -> dict[str, Table]:
    """Return evaluation tables with the columns and categories of the training tables; `what` is for messages."""
    try:
        return {name: tables[name].match(own.names, own.categories) for name, own in training.items()}
    except DataError as error:
        raise DataError(f"{what}, {error}", "mismatch", what) from None


def warn_of_identifiers(tables: Mapping[str, Table]) -> None:
    """Log a warning for every column of words that looks like names or ids."""
    for owner, table in tables.items():
        for column, count in identifier_columns(table).items():
            text = "%s: column %r has %d words for %d rows, as names and ids have; drop it: new rows will have others"
            _log.warning(text, owner, column, count, table.rows)


def row_order(X: Any, id_column: str | None, active: str) -> RowOrder:
    """Return the order of the rows of X, in any of the forms it is taken in, and so of predictions for them."""
    return in_one_order(_named_tables(X) if is_federated(X) else {"X": X}, _id_of(X, id_column), active)[1]


def _id_of(X: Any, id_column: str | None) -> str | None:
    """Return which column says whose row is whose: none of a FederatedTable's, whose rows are in one order."""
    return None if isinstance(X, FederatedTable) else id_column


def _named_tables(X: Any) -> dict[str, Any]:
    if isinstance(X, FederatedTable):
        return X.tables
    named = X if isinstance(X, Mapping) else {f"P{m}": x for m, x in enumerate(X, 1)}
    return {str(name): table for name, table in named.items()}


def read_frame(X: Any, id_column: str | None = None) -> tuple[pd.DataFrame, RowOrder]:
    """Return one table of all columns but the ids, and its rows' order; the columns of arrays are f0, f1, ..."""
    frames, order = in_one_order({"X": X}, id_column)
    frame = frames["X"]
    if not len(frame.columns):
        raise DataError(f"X has 0 feature(s) (shape={frame.shape}) while a minimum of 1 is required.", "few", "X")
    _refuse_repeated([str(name) for name in frame.columns])
    if len({isinstance(name, str) for name in frame.columns}) > 1:
        raise DataError(
            "X has names of columns that are text and others that are not; X.columns.astype(str) helps", "type", "X"
        )
    if not isinstance(X, pd.DataFrame) and not is_arrow(X) and all(dtype.kind == "O" for dtype in frame.dtypes):
        with suppress(ValueError):  # the participant's table says better which value is not a number
            frame.to_numpy().astype(np.float64)  # as scikit-learn: a TypeError for things that cannot be numbers
    return frame, order


def cut(frame: pd.DataFrame, participants: Participants, missing: float = np.nan, least: int = 2) -> dict[str, Table]:
    """Return one table cut vertically: into a number of nearly equal parts, by fractions, or by lists of columns.

    Numbers equal to `missing` are missing values. There are to be `least` parts or more.
    """
    places = places_of(frame, participants, least)
    return {owner: Table.of_places(frame, own, owner, missing) for owner, own in places.items()}


def places_of(frame: pd.DataFrame, participants: Participants, least: int = 2) -> dict[str, list[int]]:
    """Return whose columns of one table are whose, by their places."""
    names = [str(name) for name in frame.columns]
    _refuse_repeated(names)
    groups = _groups(names, participants)
    _check_count(len(groups), least)
    taken = {place for places in groups.values() for place in places}
    left_out = [name for place, name in enumerate(names) if place not in taken]
    if left_out:
        text = f"participants leaves out columns of X: {_some(left_out)}; give them to somebody or drop them"
        raise DataError(text, "missing", "participants", list(left_out))
    return groups


def _refuse_repeated(names: list[str]) -> None:
    if len(set(names)) < len(names):
        repeated = sorted({name for name in names if names.count(name) > 1})
        text = f"X has columns of the same name: {', '.join(repeated)}; rename or drop one of each"
        raise DataError(text, "duplicate", "X", list(repeated))


def cut_as_trained(
    frame: pd.DataFrame,
    columns: Mapping[str, Sequence[str]],
    remedy: str = "drop them",
    missing: float = np.nan,
) -> dict[str, Table]:
    """Return one table cut into the columns that each participant's model knows; others are refused."""
    have = {str(name) for name in frame.columns}
    for owner, names in columns.items():
        lacking = [name for name in names if name not in have]
        if lacking:
            text = f"{owner}: the table lacks {', '.join(lacking)}"
            raise DataError(f"{text}; give the columns the model was trained with", "missing", owner, lacking)
    unknown = sorted(have.difference(*columns.values()))
    if unknown:
        text = f"X has unknown columns, {_some(unknown)}; {remedy}: the model was trained without them"
        raise DataError(text, "unknown", "X", unknown)
    return cut(frame, columns, missing, least=1)


def _groups(names: list[str], participants: Participants) -> dict[str, list[int]]:
    if isinstance(participants, Mapping):
        return {str(owner): _places(names, columns) for owner, columns in participants.items()}
    if isinstance(participants, (int, np.integer)) and not isinstance(participants, bool):
        _check_count(int(participants), 1)
        return _named(_by_fractions(len(names), [1.0 / int(participants)] * int(participants)))
    if isinstance(participants, (list, tuple, np.ndarray)):
        _check_count(len(participants), 1)
        if all(isinstance(p, (int, float, np.number)) and not isinstance(p, bool) for p in participants):
            sizes = [float(p) for p in participants]
            if not (min(sizes) > 0 and abs(sum(sizes) - 1) <= 1e-6):
                text = f"participants={list(participants)}: fractions are positive and add up to 1"
                raise DataError(text, "range", "participants", participants)
            return _named(_by_fractions(len(names), sizes))
        return _named([_places(names, columns) for columns in participants])
    text = (
        f"participants={participants!r} is not understood; give a number such as 4, fractions such as "
        "[0.1, 0.2, 0.3, 0.4], or lists of column names"
    )
    raise DataError(text, "value", "participants", participants)


def _check_count(count: int, least: int) -> None:
    if count < least:
        text = f"a federation needs at least two participants, not {count}; add a table, or columns of somebody else's"
        text += ", or take security='none' for the active participant alone" if count else ""
        raise DataError(text, "few", "participants", count)


def _named(groups: list[list[int]]) -> dict[str, list[int]]:
    return {f"P{m}": places for m, places in enumerate(groups, 1)}


def _by_fractions(columns: int, sizes: list[float]) -> list[list[int]]:
    edges = [round(float(edge) * columns) for edge in np.cumsum([0.0, *sizes])]
    return [list(range(a, b)) for a, b in pairwise(edges)]


def _places(names: list[str], columns: Any) -> list[int]:
    if isinstance(columns, str) or not isinstance(columns, (list, tuple, np.ndarray, pd.Index)):
        raise DataError(
            f"participants takes a list of columns per participant, not {columns!r}", "type", "participants", columns
        )
    places = []
    for column in columns:
        if str(column) in names:
            places.append(names.index(str(column)))
        elif isinstance(column, (int, np.integer)) and not isinstance(column, bool) and 0 <= column < len(names):
            places.append(int(column))
        else:
            text = f"participants names a column {column!r} that X does not have; it has {_some(names)}"
            raise DataError(text, "unknown", "participants", column)
    return places


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


def read_labels(y: Any, rows: int, name: str = "y") -> npt.NDArray[Any]:
    """Return labels as a 1-d array of the right length."""
    if y is None:
        raise DataError(f"{name} is missing; requires y to be passed, but the target y is None", "missing", name)
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = column_or_1d(array, warn=True)
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; it takes one label per row", "mismatch", name, array.shape)
    if len(array) != rows:
        raise DataError(
            f"{name} has {len(array)} labels for {rows} rows; give one label per row", "mismatch", name, len(array)
        )
    return array


def read_classes(y: Any, rows: int) -> npt.NDArray[Any]:
    """Return labels that are classes: of one kind, and not numbers with fractions."""
    labels = read_labels(y, rows)
    check_labels_present(labels, Origin("y"))
    if labels.dtype.kind != "f" and len(pd.unique(labels)) == rows > 2:
        raise DataError(f"y has {rows} classes in {rows} rows; is this a regression target?", "range", "y")
    try:
        check_classification_targets(labels)
    except ValueError as error:
        raise DataError(f"y does not hold classes: {error}", "value", "y") from None
    return labels


def read_row_weights(weight: Any, rows: int, name: str = "sample_weight") -> Floats | None:
    """Return weights as floats, or None if all rows weigh 1."""
    if weight is None:
        return None
    try:
        array = np.asarray(weight)
    except ValueError:
        raise DataError(f"{name} holds lists of different lengths; give one weight per row", "mismatch", name) from None
    if array.ndim == 0:
        array = np.full(rows, array)
    if array.shape != (rows,):
        raise DataError(
            f"{name} has shape {array.shape}; it takes one weight per row, ({rows},)", "mismatch", name, array.shape
        )
    weights = read_weights(array, Origin(name))
    return None if (weights == 1).all() else weights


def read_margins(margins: Any, rows: int, classes: int, name: str = "base_margin") -> Floats | None:
    """Return the margins that rows start from, (classes, rows), or None if none are given."""
    if margins is None:
        return None
    try:
        array = np.asarray(margins)
    except ValueError:
        raise DataError(
            f"{name} holds lists of different lengths; give as many margins per row", "mismatch", name
        ) from None
    if array.ndim == 0 or len(array) != rows:
        raise DataError(
            f"{name} has shape {array.shape} for {rows} rows; give margins of each row", "mismatch", name, array.shape
        )
    return read_base_margin(array, classes, Origin(name))
