"""Parquet files, some columns at a time: each comes out as if the file had been read at once."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pandas as pd

from mpfedxgb.data.chunks import CHUNK_CELLS, narrow
from mpfedxgb.data.table import is_text


def is_parquet(path: Path) -> bool:
    """Return whether a file is taken for Parquet, by its name."""
    return ".parquet" in path.suffixes


def read_parquet(path: Path, as_they_are: Collection[str], exact: Collection[str] | None) -> pd.DataFrame:
    """Return a Parquet file as pandas reads it; a named index is a column, words but those `as_they_are` categories.

    Where `exact` columns are named, the numbers of all others are float32, as far as they fit it.
    """
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        schema, rows = file.schema_arrow, file.metadata.num_rows
    of_index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in of_index]
    if len(set(names)) < len(names) or not names:
        return _with_index(pd.read_parquet(path))
    width = max(1, CHUNK_CELLS // max(1, rows))
    columns: dict[Any, pd.Series[Any]] = {}
    for first in range(0, len(names), width):
        part = _with_index(pd.read_parquet(path, columns=names[first : first + width]))
        for name in part.columns:
            if name not in columns:
                columns[name] = _kept(part[name], name in as_they_are, exact is None or str(name) in exact)
    return pd.DataFrame(columns, copy=False)


def _with_index(frame: pd.DataFrame) -> pd.DataFrame:
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(level=named).reset_index(drop=True)


def _kept(series: pd.Series[Any], as_it_is: bool, exact: bool) -> pd.Series[Any]:
    if as_it_is:
        return series.copy()
    if is_text(series):
        return series.astype("category")
    if not exact and series.dtype.kind in "iuf" and not pd.api.types.is_extension_array_dtype(series.dtype):
        return pd.Series(narrow(series.to_numpy()), copy=False)
    return series.copy()  # or else the whole part would stay
