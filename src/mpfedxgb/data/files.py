"""Tables from files: CSV, also compressed, and Parquet."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from mpfedxgb.atomic import new_file
from mpfedxgb.data.chunks import without
from mpfedxgb.data.csv_format import ColumnKinds, CsvFormat, never, read_csv
from mpfedxgb.data.parquet import is_parquet, read_parquet
from mpfedxgb.data.table import is_text
from mpfedxgb.errors import CheckpointError, DataError, is_full_disk

_WORKBOOKS = {".xlsx", ".xlsm", ".xlsb", ".xls"}
_OLD_WORKBOOK = bytes.fromhex("d0cf11e0a1b11ae1")
_Compression = Literal["gzip", "bz2", "xz", "zip"]
_COMPRESSIONS: dict[str, _Compression] = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zip": "zip"}


def read_table(
    path: Path,
    text_columns: Collection[str] = (),
    numbers: Collection[str] = (),
    verbatim: Collection[str] = (),
    csv: CsvFormat = CsvFormat(),  # noqa: B008 # it is frozen
    exact: Collection[str] | None = None,
    may_mix: Callable[[str], bool] = never,
) -> pd.DataFrame:
    """Return a CSV (also compressed) or Parquet file as a DataFrame; columns of words become categories.

    A CSV file is read some rows at a time, a Parquet file some columns at a time, so that beside the table no more than
    a part of it is in memory.

    Parameters
    ----------
    path : Path
        Parquet if .parquet is in its name, otherwise CSV with a line of column names.
    text_columns : names of columns
        They hold words, even if those of this file look like numbers.
    numbers : names of columns
        They hold numbers; anything else in them is refused.
    verbatim : names of columns
        They stay as they are written: no categories and, from CSV, text with its zeros in front.
    csv : CsvFormat
        How a CSV file is written, as far as it is known; the rest is detected. Its `missing` values are those of
        Parquet files too.
    exact : names of columns or None
        Numbers of these columns, such as labels, keep the type that they are read with, those of all others become
        float32 as they are read; None: all keep it. Numbers beyond float32 stay as they are, to be refused by name.
        Messages do not quote the named columns' values.
    may_mix : function of a column's name
        Whether a column of a CSV file may hold a few words beside numbers; otherwise they are refused, by line.

    Raises
    ------
    DataError
        Naming file, column and remedy. Columns that are named above and not there are nobody's error here.
    """
    if not path.is_file():
        raise DataError(f"there is no file {path}")
    try:
        if _is_workbook(path):
            raise DataError(f"{path} is an Excel workbook; export its sheet as CSV (UTF-8) or Parquet and give that")
        if is_parquet(path):
            frame = read_parquet(path, {*text_columns, *verbatim}, exact, csv.missing, verbatim)
        else:
            frame = read_csv(path, csv, ColumnKinds(text_columns, numbers, verbatim, exact, may_mix))
    except ImportError:
        raise DataError(f"cannot read {path}: Parquet needs the pyarrow package; pip install pyarrow") from None
    except DataError:
        raise
    except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise DataError(f"cannot read {path} as a table: {error}; give a CSV or Parquet file") from None
    return with_kinds(frame, str(path), text_columns, numbers, verbatim)


def _is_workbook(path: Path) -> bool:
    """Return whether a file is a spreadsheet of Excel: by its name, or by what a file of another name holds."""
    if path.suffix.lower() in _WORKBOOKS:
        return True
    with path.open("rb") as file:
        start = file.read(len(_OLD_WORKBOOK))
    if start.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                return "xl/workbook.xml" in archive.namelist()
        except zipfile.BadZipFile:
            return False
    return start == _OLD_WORKBOOK


def with_kinds(
    frame: pd.DataFrame,
    where: str,
    text_columns: Collection[str] = (),
    numbers: Collection[str] = (),
    verbatim: Collection[str] = (),
    missing: Collection[str] = (),
) -> pd.DataFrame:
    """Return a table with every column as numbers or as categories, as `read_table` says; `where` is for messages."""
    frame = frame.copy(deep=False)
    for name in frame.columns:
        if name in verbatim:
            continue
        if missing:
            frame[name] = without(frame[name], missing)
        if name in numbers:
            frame[name] = _as_numbers(where, name, frame[name])
        elif name in text_columns:
            frame[name] = _as_text(frame[name])
        elif is_text(frame[name]):
            frame[name] = frame[name].astype("category")
    return frame


def _as_numbers(where: str, name: str, series: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = series.astype(object)
    if series.dtype.kind in "mM":
        raise DataError(
            f"{where}: column {name!r} holds dates; turn them into numbers, such as days since a fixed date"
        )
    numbers = pd.to_numeric(series, errors="coerce")
    bad = series[numbers.isna() & series.notna()]
    if len(bad):
        raise DataError(
            f"{where}: column {name!r} holds {bad.iloc[0]!r}, which is not a number; repair the {len(bad)} values of "
            "this kind or read the column as words"
        )
    return numbers


def _as_text(series: pd.Series[Any]) -> pd.Series[Any]:
    if isinstance(series.dtype, pd.CategoricalDtype):
        return series
    if series.dtype.kind == "f" and (series.dropna() % 1 == 0).all():
        series = series.astype("Int64")  # a code such as 3, not 3.0, though a missing value made the column float
    return series.astype("str").where(series.notna()).astype("category")


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table, whole or not at all: Parquet if .parquet is in the file's name, else CSV, compressed as named."""
    try:
        with new_file(path) as file:
            if is_parquet(path):
                frame.to_parquet(file, index=False)
            else:
                frame.to_csv(file, index=False, compression=_COMPRESSIONS.get(path.suffix))
    except ImportError:
        raise DataError(f"cannot write {path}: Parquet needs the pyarrow package; pip install pyarrow") from None
    except OSError as error:
        kind = CheckpointError if is_full_disk(error) else DataError
        raise kind(f"cannot write {path}: {error.strerror}; what was there before is unchanged") from None
