"""Columns that a command line names: those to leave out, and the label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.data.files import read_table
from mpfedxgb.errors import DataError


def listed(names: str) -> list[str]:
    """Return names that are separated by commas."""
    return [name.strip() for name in names.split(",") if name.strip()]


def read_labelled(
    path: Path, label: str, drop: str, categorical: str, csv: CsvFormat
) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the columns of a file without the label and those that are left out, and the label."""
    dropped = listed(drop)
    frame = read_table(path, listed(categorical), csv=csv, exact=[label], may_mix=dropped.__contains__)
    return take_label(leave_out(frame, dropped), label, str(path))


def leave_out(frame: pd.DataFrame, names: list[str]) -> pd.DataFrame:
    """Return a table without some columns."""
    for name in names:
        if name not in frame.columns:
            raise DataError(
                f"--drop: there is no column {name!r}; the columns are {', '.join(map(str, frame.columns))}"
            )
    return frame.drop(columns=names)


def take_label(frame: pd.DataFrame, label: str, where: str = "the table") -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the columns without the label, and the label."""
    if label not in frame.columns:
        have = ", ".join(map(str, frame.columns))
        raise DataError(f"{where} has no column {label!r}, the label; the columns are {have}")
    column = frame[label]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    return frame.drop(columns=label), column
