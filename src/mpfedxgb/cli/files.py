"""Tables from files, for the command line."""

from __future__ import annotations

from typing import Any

import pandas as pd

from mpfedxgb.data.files import read_table
from mpfedxgb.errors import DataError

__all__ = ["read_table", "take_label"]


def take_label(frame: pd.DataFrame, label: str) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the columns without the label, and the label."""
    if label not in frame.columns:
        raise DataError(f"there is no column {label!r}; the columns are {', '.join(map(str, frame.columns))}")
    column = frame[label]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    return frame.drop(columns=label), column
