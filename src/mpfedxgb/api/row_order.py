"""Which row is whose: tables, labels and weights, put together by an id column or refused if they disagree.

Without an id column, pandas' tables say by their index which row is which; two that say different things are not the
same rows in the same order, and nothing is trained on them. Arrays and lists say nothing: their order is the caller's
promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.data.ids import Ids, id_as_column, sort_by_id
from mpfedxgb.data.table import to_frame
from mpfedxgb.errors import DataError

BY_POSITION = "reset_index(drop=True) on all of them if their rows are in one order all the same"


@dataclass(frozen=True, slots=True, eq=False)
class RowOrder:
    """The order of the rows of X: what labels and weights are held to.

    `index` is that of the table whose order counts, None if it is an array; `ids` are its ids if a column has them.
    """

    owner: str
    index: pd.Index[Any] | None = field(default=None, repr=False)
    column: str | None = None
    ids: Ids | None = field(default=None, repr=False)

    def put(self, values: Any, name: str) -> Any:
        """Return labels or weights in this order; raises DataError if their index says they belong to other rows.

        A Series whose index has the id column's name is put in order by its ids. Any other has to have the index of the
        table; arrays and lists are taken as they come.
        """
        if not isinstance(values, (pd.Series, pd.DataFrame)):
            return values
        if self.ids is not None and self.column is not None and self.column in values.index.names:
            frame = values.to_frame() if isinstance(values, pd.Series) else values
            by_id, ids = sort_by_id(id_as_column(frame, self.column), self.column, name)
            _refuse_other_ids(name, ids, self.owner, self.ids, self.column)
            columns = [self.ids.to_file_order(by_id[name].to_numpy()) for name in by_id.columns]
            return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)
        if self.index is not None and len(values) == len(self.index):
            _refuse_other_index(name, values.index, self.owner, self.index)
        return values


def in_one_order(
    named: Mapping[str, Any], id_column: str | None, active: str | None = None
) -> tuple[dict[str, pd.DataFrame], RowOrder]:
    """Return the participants' tables with their rows in one order, that of the active participant's table.

    Parameters
    ----------
    named : mapping
        Owner -> table, in any form that `Table.read` takes.
    id_column : str or None
        The column, or index, that says which row is whose; it is no feature. None: by position, for tables whose
        indexes agree.
    active : str or None
        Whose order counts; the first one's if None or if there is no such table.

    Raises
    ------
    DataError
        If the tables are not about the same rows, or do not say so.
    """
    frames = {owner: to_frame(data, owner) for owner, data in named.items()}
    leader = active if active in frames else next(iter(frames))
    index = _index_of(named[leader])
    if id_column is not None:
        return _by_id(frames, id_column, leader, index)
    rows = len(frames[leader])
    for owner, frame in frames.items():
        if len(frame) != rows:
            text = (
                f"{owner} brings {len(frame)} rows and {leader} {rows}; "
                "the tables must list the same people in the same order, or id= names the column that says who is who"
            )
            raise DataError(text, "mismatch", owner, len(frame))
    leads = next((owner for owner, data in named.items() if _index_of(data) is not None), leader)
    for owner, data in named.items():
        own, first = _index_of(data), _index_of(named[leads])
        if own is not None and first is not None:
            _refuse_other_index(owner, own, leads, first)
    return frames, RowOrder(leads, _index_of(named[leads]))


def _by_id(
    frames: dict[str, pd.DataFrame], column: str, leader: str, index: pd.Index[Any] | None
) -> tuple[dict[str, pd.DataFrame], RowOrder]:
    parts = {owner: sort_by_id(id_as_column(frame, column), column, owner) for owner, frame in frames.items()}
    ids = parts[leader][1]
    for owner, (_, own) in parts.items():
        _refuse_other_ids(owner, own, leader, ids, column)
    back = np.argsort(ids.places)
    aligned = {owner: frame.iloc[back].reset_index(drop=True) for owner, (frame, _) in parts.items()}
    return aligned, RowOrder(leader, index, column, ids)


def _index_of(data: Any) -> pd.Index[Any] | None:
    return data.index if isinstance(data, (pd.DataFrame, pd.Series)) else None


def _refuse_other_index(name: str, index: pd.Index[Any], owner: str, first: pd.Index[Any]) -> None:
    if index.equals(first):
        return
    unique = index.is_unique and first.is_unique
    if unique and len(index.difference(first, sort=False)) == 0 and len(index) == len(first):
        text = f"{name} has the rows of {owner} in another order, by their indexes"
        remedy = f"put them in one order, such as {_word(name)}.loc[{_word(owner)}.index]"
    else:
        other = int((~index.isin(first)).sum())
        text = f"{name} and {owner} have different indexes: {other} of {len(index)} rows of {name} are not {owner}'s"
        remedy = "give tables about the same rows in the same order"
    raise DataError(f"{text}; {remedy}, name an id column (id=), or {BY_POSITION}", "mismatch", name, owner)


def _word(name: str) -> str:
    """Return a name as it may stand in a line of Python."""
    return name if name.isidentifier() else "table"


def _refuse_other_ids(name: str, ids: Ids, owner: str, first: Ids, column: str) -> None:
    if ids.keys == first.keys:
        return
    mine, others = set(ids.keys), set(first.keys)
    text = (
        f"{name} lacks {len(others - mine)} of {owner}'s {len(others)} ids of column {column!r} and has "
        f"{len(mine - others)} that {owner} has not; keep the rows that all have in common"
    )
    raise DataError(text, "mismatch", column, name)
