"""What a user passes as X: one table to cut vertically, or one table per participant; checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.utils import column_or_1d

from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError

Participants = int | Sequence[Any] | Mapping[str, Any]


def is_federated(X: Any) -> bool:
    """Return whether X is one table per participant: a dictionary, or a list of DataFrames or 2-d arrays."""
    if isinstance(X, Mapping):
        return not hasattr(X, "nnz")  # one of SciPy's sparse arrays is a mapping too
    return isinstance(X, (list, tuple)) and bool(X) and all(_is_table(x) for x in X)


def _is_table(x: Any) -> bool:
    return isinstance(x, pd.DataFrame) or (isinstance(x, np.ndarray) and x.ndim == 2)


def read_tables(X: Any) -> dict[str, Table]:
    """Return the participants' tables, the active one's first, from a dictionary or a list."""
    named = dict(X) if isinstance(X, Mapping) else {f"P{m}": x for m, x in enumerate(X, 1)}
    if len(named) < 2:
        raise DataError(f"a federation needs at least two participants, not {len(named)}; add a table")
    tables = {str(name): Table.read(data, str(name)) for name, data in named.items()}
    first, *others = tables.values()
    for table in others:
        if table.rows != first.rows:
            raise DataError(
                f"{table.owner} brings {table.rows} rows and {first.owner} {first.rows}; "
                "the tables must list the same people in the same order"
            )
    return tables


def cut(X: Any, participants: Participants) -> dict[str, Table]:
    """Return one table cut vertically: into a number of nearly equal parts, by fractions, or by lists of columns."""
    frame = X if isinstance(X, pd.DataFrame) else _frame(X)
    names = [str(name) for name in frame.columns]
    groups = _groups(names, participants)
    return {
        owner: Table.read(frame.iloc[:, places].set_axis([names[i] for i in places], axis=1), owner)
        for owner, places in groups.items()
    }


def _frame(X: Any) -> pd.DataFrame:
    array = np.asarray(X)
    if array.ndim != 2:
        raise DataError(f"X has {array.ndim} dimensions; it takes a table of rows and columns")
    return pd.DataFrame(array, columns=pd.Index([f"f{i}" for i in range(array.shape[1])]))


def _groups(names: list[str], participants: Participants) -> dict[str, list[int]]:
    if isinstance(participants, Mapping):
        return {str(owner): _places(names, columns) for owner, columns in participants.items()}
    if isinstance(participants, (int, np.integer)) and not isinstance(participants, bool):
        _check_count(int(participants))
        sizes = [1.0 / int(participants)] * int(participants)
        return _named(_by_fractions(len(names), sizes))
    if isinstance(participants, (list, tuple, np.ndarray)):
        _check_count(len(participants))
        if all(isinstance(p, (int, float, np.number)) and not isinstance(p, bool) for p in participants):
            sizes = [float(p) for p in participants]
            if min(sizes) <= 0 or abs(sum(sizes) - 1) > 1e-6:
                raise DataError(f"participants={list(participants)}: fractions are positive and add up to 1")
            return _named(_by_fractions(len(names), sizes))
        return _named([_places(names, columns) for columns in participants])
    raise DataError(
        f"participants={participants!r} is not understood; give a number such as 4, fractions such as "
        "[0.1, 0.2, 0.3, 0.4], or lists of column names"
    )


def _check_count(count: int) -> None:
    if count < 2:
        raise DataError(f"participants={count}: a federation needs at least two")


def _named(groups: list[list[int]]) -> dict[str, list[int]]:
    return {f"P{m}": places for m, places in enumerate(groups, 1)}


def _by_fractions(columns: int, sizes: list[float]) -> list[list[int]]:
    edges = [round(float(edge) * columns) for edge in np.cumsum([0.0, *sizes])]
    return [list(range(a, b)) for a, b in pairwise(edges)]


def _places(names: list[str], columns: Any) -> list[int]:
    if isinstance(columns, str) or not isinstance(columns, (list, tuple, np.ndarray, pd.Index)):
        raise DataError(f"participants takes a list of columns per participant, not {columns!r}")
    places = []
    for column in columns:
        if isinstance(column, (int, np.integer)) and 0 <= int(column) < len(names):
            places.append(int(column))
        elif str(column) in names:
            places.append(names.index(str(column)))
        else:
            raise DataError(f"participants names a column {column!r} that the table does not have")
    return places


def read_labels(y: Any, rows: int, name: str = "y") -> npt.NDArray[Any]:
    """Return labels as a 1-d array of the right length."""
    if y is None:
        raise DataError(f"{name} is missing; requires y to be passed, but the target y is None")
    array = np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1:
        array = column_or_1d(array, warn=True)
    if array.ndim != 1:
        raise DataError(f"{name} has shape {array.shape}; it takes one label per row")
    if len(array) != rows:
        raise DataError(f"{name} has {len(array)} labels for {rows} rows; give one label per row")
    if array.dtype.kind in "fc" and not np.isfinite(array).all():
        bad = array[~np.isfinite(array)][0]
        raise DataError(f"{name} holds {bad}: Input {name} contains NaN or infinity; drop those rows or fill in labels")
    if array.dtype.kind == "O" and pd.isna(array).any():
        raise DataError(f"{name} has missing labels: Input {name} contains NaN; drop those rows or fill in labels")
    return array


def read_weights(weight: Any, rows: int, name: str = "sample_weight") -> npt.NDArray[np.float64] | None:
    """Return weights as floats, or None if all rows weigh 1."""
    if weight is None:
        return None
    array = np.asarray(weight, np.float64)
    if array.ndim == 0:
        array = np.full(rows, float(array))
    if array.shape != (rows,):
        raise DataError(f"{name} has shape {array.shape}; it takes one weight per row, ({rows},)")
    if not np.isfinite(array).all():
        raise DataError(f"{name} holds {array[~np.isfinite(array)][0]}; weights are finite numbers")
    if (array < 0).any():
        raise DataError(f"{name} holds {array.min():g}; weights are 0 or more")
    if not array.any():
        raise DataError(f"{name} is zero for all rows; at least one row has to count")
    return None if (array == 1).all() else array
