"""Parquet files, some columns or some rows at a time: all come out as if the file had been read at once."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.data.chunks import CHUNK_CELLS, narrow, without
from mpfedxgb.data.table import Column, Table, is_text
from mpfedxgb.errors import DataError


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

    Whoever reads a part, on whatever machine, makes sure by the file's footer that it is the same file.
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
        told = schema.pandas_metadata or {}
        odd = [n for n in told.get("index_columns", []) if isinstance(n, str)]
        odd += [c["name"] for c in told.get("columns", []) if c["pandas_type"] == "categorical"]
        plain = len({*texts, *others}) == len(schema.names) and not odd
        return schema.names if plain and not ({*words} & {*others} or {*numbers} & {*texts}) else None

    def read(self, names: Sequence[str], rows: slice = slice(None)) -> pd.DataFrame:
        """Return some columns over some rows."""
        import pyarrow.parquet as pq

        try:
            found = _footer(self.path)
        except OSError as error:
            raise DataError(
                f"cannot read {self.path}: {error.strerror}; workers need the file where the role has it"
            ) from None
        if found != self.footer:
            raise DataError(f"{self.path} has changed, or is another file on a worker; leave it, and start again")
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
