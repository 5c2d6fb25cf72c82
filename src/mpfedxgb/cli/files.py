"""Tables from files, for the command line."""

from __future__ import annotations

import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from mpfedxgb.errors import DataError


def read_table(path: Path, words: Collection[str] = ()) -> pd.DataFrame:
    """Return a CSV (also compressed) or Parquet file as a DataFrame; columns of words become categories.

    `words` names columns that are known to hold words, even if the words of this file look like numbers.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        if ".parquet" in path.suffixes:
            frame = pd.read_parquet(path)
        else:
            frame = pd.read_csv(path, dtype=dict.fromkeys(words, "str"))
    except ImportError:
        raise DataError(f"cannot read {path}: Parquet needs the pyarrow package; pip install pyarrow") from None
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"cannot read {path} as a table: {error}; give a CSV or Parquet file") from None
    for name in frame.columns:
        if frame[name].dtype.kind not in "biuf" and not isinstance(frame[name].dtype, pd.CategoricalDtype):
            frame[name] = frame[name].astype("category")
    return frame


def take_label(frame: pd.DataFrame, label: str) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return the columns without the label, and the label."""
    if label not in frame.columns:
        raise DataError(f"there is no column {label!r}; the columns are {', '.join(map(str, frame.columns))}")
    column = frame[label]
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    return frame.drop(columns=label), column
