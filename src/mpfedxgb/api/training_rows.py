"""Evaluation rows that are training rows: a sealed training refuses them, as far as tables without ids can tell.

The active participant gets the margins of evaluation rows round by round, and so their leaves. With an id column it is
plain which rows are meant. Without one, two rows are taken for one if pandas' index has the same label for both and
they are alike in all columns; where both tables only count their rows, labels say nothing. Whatever the labels, a table
is refused if it is the training table once more, or if more than half of its rows are alike in all columns to a
training row that is one of a kind. A repeated row may be somebody else's, so a few of them are nothing to stop for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.api.row_order import RowOrder
from mpfedxgb.data.ids import count_common
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError

Rows = tuple[Mapping[str, Table], RowOrder]
"""Everybody's table, columns and categories as in the training, and the order of their rows."""


def refuse_training_rows(name: str, training: Rows, evaluation: Rows) -> None:
    """Raise DataError if rows of an evaluation set are training rows; it says how many."""
    common, how = _common(training, evaluation)
    if common:
        rows = next(iter(evaluation[0].values())).rows
        raise DataError(
            f"{name}: {common} of {rows} rows are training rows, by their {how}; security='sealed' lets nobody learn "
            "anything about a training row, and an evaluation set tells margins round by round: keep rows back for it, "
            "or leave it out; if they are other people's, id= names the column that says so"
        )


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
