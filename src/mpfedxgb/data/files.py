"""Tables from files: CSV, also compressed, and Parquet.

Parquet files are read some columns or some rows at a time, and all come out as if the file had been read at once.
"""

from __future__ import annotations

import hashlib
import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.atomic import new_file
from mpfedxgb.data.chunks import CHUNK_CELLS, narrow, without
from mpfedxgb.data.csv_format import ColumnKinds, CsvFormat, never, read_csv
from mpfedxgb.data.table import Column, Table, is_text
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
        raise DataError(f"there is no file {path}", "missing", path.name)
    try:
        if _is_workbook(path):
            text = f"{path} is an Excel workbook; export its sheet as CSV (UTF-8) or Parquet and give that"
            raise DataError(text, "type", path.name)
        if is_parquet(path):
            frame = read_parquet(path, {*text_columns, *verbatim}, exact, csv.missing, verbatim)
        else:
            frame = read_csv(path, csv, ColumnKinds(text_columns, numbers, verbatim, exact, may_mix))
    except ImportError:
        raise DataError(
            f"cannot read {path}: Parquet needs the pyarrow package; pip install pyarrow", "package", "pyarrow"
        ) from None
    except DataError:
        raise
    except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise DataError(
            f"cannot read {path} as a table: {error}; give a CSV or Parquet file", "file", path.name
        ) from None
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
        text = f"{where}: column {name!r} holds dates; turn them into numbers, such as days since a fixed date"
        raise DataError(text, "type", name)
    numbers = pd.to_numeric(series, errors="coerce")
    bad = series[numbers.isna() & series.notna()]
    if len(bad):
        text = (
            f"{where}: column {name!r} holds {bad.iloc[0]!r}, which is not a number; repair the {len(bad)} values of "
            "this kind or read the column as words"
        )
        raise DataError(text, "type", name, bad.iloc[0])
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
        raise DataError(
            f"cannot write {path}: Parquet needs the pyarrow package; pip install pyarrow", "package", "pyarrow"
        ) from None
    except OSError as error:
        kind = CheckpointError if is_full_disk(error) else DataError
        raise kind(f"cannot write {path}: {error.strerror}; what was there before is unchanged") from None


def is_parquet(path: Path) -> bool:
    """Return whether a file is taken for Parquet, by its name."""
    return ".parquet" in path.suffixes


def read_parquet(
    path: Path,
    as_they_are: Collection[str],
    exact: Collection[str] | None,
    missing: Collection[str] = (),
    verbatim: Collection[str] = (),
) -> pd.DataFrame:
    """Return a Parquet file as pandas reads it; a named index is a column, words but those `as_they_are` categories.

    Where `exact` columns are named, the numbers of all others are float32, as far as they fit it. Values that are
    written as one of `missing` are missing, but in `verbatim` columns.
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
                series = part[name] if name in verbatim or not missing else without(part[name], missing)
                columns[name] = _kept(series, name in as_they_are, exact is None or str(name) in exact)
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


def _footer(path: Path) -> str:
    """Return a digest of the end of a Parquet file: its schema, and where all its pages are and what they hold."""
    with path.open("rb") as file:
        end = file.seek(0, 2)
        file.seek(max(0, end - 8))
        length = int.from_bytes(file.read(4), "little") + 8
        file.seek(max(0, end - length))
        return hashlib.sha256(end.to_bytes(8, "little") + file.read()).hexdigest()


class FileColumn(Column):
    """A column whose values are read from its file whenever they are asked for: one column at a time is in memory."""

    __slots__ = ("_file", "_owner")
    _file: ParquetRows
    _owner: str

    def __init__(self, owner: str, file: ParquetRows, name: str, categories: tuple[str, ...] | None) -> None:
        for key, value in (("name", name), ("categories", categories), ("_file", file), ("_owner", owner)):
            object.__setattr__(self, key, value)

    @property
    def values(self) -> npt.NDArray[np.float32]:
        """The values of all rows."""
        return self._file.part(self._owner, [self], slice(None)).columns[0].values


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """A Parquet file whose rows are in the order that they are needed in, to be read part by part.

    Anyone who reads a part, on any machine, makes sure by the file's footer that it is the same file.
    """

    path: Path
    footer: str

    @classmethod
    def of(cls, path: Path) -> ParquetRows:
        """Return a file as it is now."""
        return cls(path, _footer(path))

    @staticmethod
    def plain_names(path: Path, words: Collection[str], numbers: Collection[str]) -> list[str] | None:
        """Return the names of a file's columns; None if it is not so plain that parts of it tell what the whole does.

        Its columns are numbers, truth values and texts; `words` that are asked for are texts there, and `numbers` are
        no texts.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pq.read_schema(path)
        texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
        others = [
            f.name
            for f in schema
            if pa.types.is_integer(f.type) or pa.types.is_floating(f.type) or f.type == pa.bool_()
        ]
        metadata = schema.pandas_metadata or {}
        odd = [n for n in metadata.get("index_columns", []) if isinstance(n, str)]
        odd += [c["name"] for c in metadata.get("columns", []) if c["pandas_type"] == "categorical"]
        plain = len({*texts, *others}) == len(schema.names) and not odd
        return schema.names if plain and not ({*words} & {*others} or {*numbers} & {*texts}) else None

    def read(self, names: Sequence[str], rows: slice = slice(None)) -> pd.DataFrame:
        """Return some columns over some rows."""
        import pyarrow.parquet as pq

        try:
            found = _footer(self.path)
        except OSError as error:
            text = f"cannot read {self.path}: {error.strerror}; workers need the file where the role has it"
            raise DataError(text, "file", self.path.name) from None
        if found != self.footer:
            text = f"{self.path} has changed, or is another file on a worker; leave it, and start again"
            raise DataError(text, "mismatch", self.path.name)
        with pq.ParquetFile(self.path) as file:
            start, stop, _ = rows.indices(file.metadata.num_rows)
            sizes = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
            ends = np.cumsum([0, *sizes])
            groups = [i for i in range(len(sizes)) if ends[i] < stop and ends[i + 1] > start]
            before = int(ends[groups[0]]) if groups else 0
            read = file.read_row_groups(groups, columns=list(names)).slice(start - before, stop - start)
            frame: pd.DataFrame = read.replace_schema_metadata(None).select(list(names)).to_pandas()
        return frame

    def table(self, owner: str, names: Sequence[str], rows: int) -> Table:
        """Return a table of this file's columns, each of them read and checked once."""
        columns = []
        for name in names:
            whole = Table.read(self.read([name]), owner).columns[0]
            columns.append(FileColumn(owner, self, name, whole.categories))
        return Table(owner, tuple(columns), rows, self)

    def part(self, owner: str, columns: Sequence[Column], rows: slice) -> Table:
        """Return some rows (see RowFile)."""
        frame = self.read([column.name for column in columns], rows)
        for column in columns:
            if column.categories is not None:
                codes = pd.Index(column.categories).get_indexer(pd.Index(frame[column.name], dtype=object))
                frame[column.name] = pd.Categorical.from_codes(codes, pd.Index(column.categories))
        return Table.read(frame, owner)
