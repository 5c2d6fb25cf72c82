"""Tables of polars, pyarrow and others that speak Arrow's PyCapsule protocol, as pandas' tables.

A column at a time, since what pandas takes has changed from one version of pyarrow to the next: text may come as views,
and the codes of categories without a sign.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.errors import DataError


def is_arrow(data: Any) -> bool:
    """Return whether data is a table that others can read as Arrow's; pandas' own tables are not meant."""
    if not hasattr(data, "__arrow_c_stream__") or isinstance(data, pd.DataFrame):
        return False
    return hasattr(data, "columns") or hasattr(data, "column_names")  # a single column is no table


def from_arrow(data: Any, owner: str) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame: numbers, words, categories, NaN or None where a value is null."""
    kind = f"{type(data).__module__.split('.')[0]} {type(data).__name__}"
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"{owner}: a {kind} is read by pyarrow; pip install 'mpfedxgb[arrow]'") from None
    try:
        table = pyarrow.table(data)
    except (TypeError, ValueError) as error:
        raise DataError(f"{owner}: this {kind} is no table ({error}); give columns of equal length") from None
    if not table.num_columns:
        return pd.DataFrame(index=range(table.num_rows))
    frame = pd.concat([_column(pyarrow, column) for column in table.columns], axis=1)
    frame.columns = pd.Index(table.column_names)
    return frame


def _column(pyarrow: Any, column: Any) -> pd.Series[Any]:
    if pyarrow.types.is_dictionary(column.type):
        whole = column.unify_dictionaries().combine_chunks()
        if isinstance(whole, pyarrow.ChunkedArray):  # what older versions make of it
            whole = whole.chunk(0) if whole.num_chunks else pyarrow.array([], column.type)
        codes = np.array([-1 if code is None else code for code in whole.indices.to_pylist()], np.int64)
        return pd.Series(pd.Categorical.from_codes(codes, pd.Index(whole.dictionary.to_pylist())))
    kind = str(column.type)
    if kind in ("string", "large_string", "string_view"):
        return pd.Series(column.to_pylist(), dtype=object)
    return pd.Series(column.to_pandas())
