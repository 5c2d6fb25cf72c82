"""What DMatrix is to XGBoost: one table per participant as one object, with the labels that the active one has.

It has a length and is indexed by rows, so that scikit-learn splits all participants' tables alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from mpfedxgb.api.row_order import in_one_order
from mpfedxgb.api.settings import read_missing
from mpfedxgb.errors import DataError


class FederatedTable:
    """One table per participant about the same people, with labels, weights and base margins.

    `len(table)` is the number of its rows and `table[rows]` has some of them, as scikit-learn's tools ask for it.

    Parameters
    ----------
    tables : dict or list of one table per participant, the active one's first
        In any form that the estimators take.
    label : array of shape (rows,) or None
        The active participant's.
    weight : array of shape (rows,) or None
        Row weights.
    base_margin : array of shape (rows,) or (rows, classes), or None
        The margins that rows start from, when they are learned from, evaluated and scored.
    missing : float
        A number that counts as a missing value, beside NaN; NaN for what the estimator says.
    id : str or None
        The column, or index, that says which row is whose; the rows take the order of the active participant's.
    qid : array of shape (rows,) or None
        The group of each row, sorted, to rank rows within groups.
    label_lower_bound, label_upper_bound : arrays of shape (rows,) or None
        Bounds of times, in place of a label, for survival:aft; the label is then both of them, (rows, 2).
    """

    def __init__(
        self,
        tables: Any,
        label: Any = None,
        weight: Any = None,
        id: str | None = None,  # noqa: A002 # what the estimators call it
        base_margin: Any = None,
        missing: float = np.nan,
        qid: Any = None,
        label_lower_bound: Any = None,
        label_upper_bound: Any = None,
    ) -> None:
        named = tables if isinstance(tables, Mapping) else {f"P{m}": table for m, table in enumerate(tables, 1)}
        self.missing = read_missing(missing)
        self.tables: dict[str, Any] = {str(name): table for name, table in named.items()}
        if not self.tables:
            raise DataError("a FederatedTable holds one table per participant; give at least one", "missing", "tables")
        frames, order = in_one_order(self.tables, id)
        if id is not None:
            self.tables = dict(frames)
        self.shape = (len(next(iter(frames.values()))), sum(len(frame.columns) for frame in frames.values()))
        bounds = {"label_lower_bound": label_lower_bound, "label_upper_bound": label_upper_bound}
        if any(bound is not None for bound in bounds.values()):
            label = _both_bounds(label, {name: order.put(bound, name) for name, bound in bounds.items()})
        else:
            label = order.put(label, "label")
        self.label = self._in_order(label, "label")
        self.weight = self._in_order(order.put(weight, "weight"), "weight")
        self.base_margin = self._in_order(order.put(base_margin, "base_margin"), "base_margin")
        check_sorted(qid, "qid")
        self.qid = self._in_order(order.put(qid, "qid"), "qid")

    def _in_order(self, values: Any, name: str) -> Any:
        if values is not None and _num_samples(values) != len(self):
            text = f"{name} has {_num_samples(values)} values for {len(self)} rows; give one per row"
            raise DataError(text, "mismatch", name, _num_samples(values))
        return values

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"FederatedTable(rows={len(self)}, participants={list(self.tables)})"

    def __getitem__(self, rows: Any) -> FederatedTable:
        """Return a table of some rows, by their places, a slice, or a truth value for each."""
        if isinstance(rows, tuple):  # as arrays are indexed: rows, and all columns
            if len(rows) != 2 or not (rows[1] is Ellipsis or rows[1] == slice(None)):
                text = "a FederatedTable is indexed by rows alone; take columns out of a participant's table"
                raise DataError(text, "type", "rows")
            rows = rows[0]
        if isinstance(rows, (int, np.integer)):
            raise TypeError(f"a FederatedTable has no single row; table[[{rows}]] is a table of one")
        places = np.arange(len(self))[rows]
        chosen = object.__new__(FederatedTable)
        chosen.tables = {name: _safe_indexing(table, places) for name, table in self.tables.items()}
        chosen.shape, chosen.missing = (len(places), self.shape[1]), self.missing
        chosen.label, chosen.weight = (_some(values, places) for values in (self.label, self.weight))
        chosen.base_margin, chosen.qid = _some(self.base_margin, places), _some(self.qid, places)
        return chosen


def margins_of(X: Any, base_margin: Any) -> Any:
    """Return the base margins of rows: those that are given, or else those of a FederatedTable."""
    return X.base_margin if base_margin is None and isinstance(X, FederatedTable) else base_margin


def check_sorted(qid: Any, name: str) -> None:
    """Raise DataError unless the groups of rows are sorted, as XGBoost asks for."""
    groups = None if qid is None else np.asarray(qid)
    try:
        falls = groups is not None and groups.ndim == 1 and bool((groups[1:] < groups[:-1]).any())
    except TypeError:
        falls = False  # what is wrong with these, their reader says
    if falls:
        text = f"{name} is not sorted; sort the rows of all tables by it, as XGBoost asks for too"
        raise DataError(text, "value", name)


def _both_bounds(label: Any, bounds: Mapping[str, Any]) -> Any:
    """Return lower and upper bounds as one label of two columns."""
    given = {"label": label} if label is not None else {name: None for name, bound in bounds.items() if bound is None}
    if given:
        name = next(iter(given))
        text = "label_lower_bound and label_upper_bound take the place of label: give these two and nothing else"
        raise DataError(text, "mismatch", name)
    lower, upper = (np.asarray(bound) for bound in bounds.values())
    if lower.shape != upper.shape:
        text = (
            f"label_lower_bound has shape {lower.shape}, label_upper_bound {upper.shape}; give two bounds of each row"
        )
        raise DataError(text, "mismatch", "label_upper_bound", upper.shape)
    return np.stack([lower, upper], axis=1)


def _some(values: Any, places: Any) -> Any:
    return None if values is None else _safe_indexing(values, places)
