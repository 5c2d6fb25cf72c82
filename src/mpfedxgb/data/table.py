"""One participant's table: named columns of float32 numbers or of categories, checked once, with remedies.

Tables of polars, pyarrow and others that speak Arrow's PyCapsule protocol, as pandas' tables.

A column at a time, since what pandas takes has changed from one version of pyarrow to the next: text may come as views,
and the codes of categories without a sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
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
        raise DataError(
            f"{owner}: a {kind} is read by pyarrow; pip install 'mpfedxgb[arrow]'", "package", "pyarrow"
        ) from None
    try:
        table = pyarrow.table(data)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{owner}: this {kind} is no table ({error}); give columns of equal length", "mismatch", owner
        ) from None
    if not table.num_columns:
        return pd.DataFrame(index=range(table.num_rows))
    frame = pd.concat([_arrow_column(pyarrow, column) for column in table.columns], axis=1)
    frame.columns = pd.Index(table.column_names)
    return frame


def _arrow_column(pyarrow: Any, column: Any) -> pd.Series[Any]:
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


def is_sparse(data: Any) -> bool:
    """Return whether data is one of SciPy's sparse matrices or arrays."""
    return hasattr(data, "toarray") and hasattr(data, "nnz")


def _from_sparse(data: Any) -> npt.NDArray[Any]:
    """Return a sparse matrix as XGBoost reads one: what is not stored is missing, and a stored zero is a zero."""
    stored = data.tocoo(copy=True)
    stored.sum_duplicates()
    dense = np.full(data.shape, np.nan, np.result_type(data.dtype, np.float64))
    dense[stored.row, stored.col] = stored.data
    return dense


FLOAT32_MAX = float(np.finfo(np.float32).max)
"""Beyond it a number is no float32."""

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
_PADDED = re.compile(r"[+-]?0\d", re.ASCII)
_FEW_CATEGORIES = 20
_TRUTH = {"True": 1.0, "False": 0.0}


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One column: numbers, rounded to float32 as XGBoost does, NaN where missing; or the codes of `categories`."""

    name: str
    values: npt.NDArray[np.float32] = field(repr=False)
    categories: tuple[str, ...] | None = field(default=None, repr=False)

    @property
    def is_categorical(self) -> bool:
        """Whether the values are codes of categories."""
        return self.categories is not None


class RowFile(Protocol):
    """A file that has a table's rows in their order."""

    @property
    def path(self) -> Path:
        """Where it is."""
        ...

    @property
    def footer(self) -> str:
        """What tells it from every other file."""
        ...

    def part(self, owner: str, columns: Sequence[Column], rows: slice) -> Table:
        """Return some rows of columns whose names and categories are known."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length that belong to one participant; `file` has them where they are not in memory."""

    owner: str
    columns: tuple[Column, ...]
    rows: int
    file: RowFile | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Table(owner={self.owner!r}, rows={self.rows}, columns={len(self.columns)})"

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @classmethod
    def read(cls, data: Any, owner: str, names: Sequence[str] | None = None, missing: float = np.nan) -> Table:
        """Return a table from a DataFrame, an Arrow table, an array, or anything pandas makes a DataFrame of.

        Parameters
        ----------
        data : DataFrame, Series, table of polars or pyarrow, array of shape (rows, columns), sparse matrix,
            list of lists, dictionary
        owner : str
            The participant, for messages.
        names : sequence of str or None
            Column names for data that has none; f0, f1, ... if None.
        missing : float
            A number that stands for a missing value, beside NaN.

        Raises
        ------
        DataError
            Naming owner, column, value and remedy.
        """
        frame = to_frame(data, owner, names)
        return cls.of_places(frame, range(len(frame.columns)), owner, missing)

    @classmethod
    def of_places(cls, frame: pd.DataFrame, places: Iterable[int], owner: str, missing: float = np.nan) -> Table:
        """Return a table of some columns of a frame; raises DataError as `read` does."""
        if not len(frame):
            raise DataError(f"{owner}: the table has no rows; at least one row is needed", "few", owner, 0)
        chosen = [(str(frame.columns[i]), i) for i in places]  # a model keeps names as text, so 1 and "1" are one name
        repeated = _repeated([name for name, _ in chosen])
        if repeated:
            text = f"{owner}: column names occur twice: {', '.join(repeated)}; rename or drop one of each"
            raise DataError(text, "duplicate", owner, repeated)
        return cls(owner, tuple(_column(owner, name, frame.iloc[:, i], missing) for name, i in chosen), len(frame))

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """What codes stand for, by the names of the columns that have them."""
        return {c.name: c.categories for c in self.columns if c.categories is not None}

    def part(self, rows: slice) -> Table:
        """Return some of the rows, in memory."""
        if self.file is not None:
            return self.file.part(self.owner, self.columns, rows)
        columns = tuple(Column(c.name, c.values[rows], c.categories) for c in self.columns)
        return Table(self.owner, columns, len(range(*rows.indices(self.rows))))

    def take(self, places: npt.NDArray[np.int64]) -> Table:
        """Return some rows, in the order of their places."""
        columns = tuple(Column(c.name, np.ascontiguousarray(c.values[places]), c.categories) for c in self.columns)
        return Table(self.owner, columns, len(places))

    def followed_by(self, others: Sequence[Table]) -> Table:
        """Return the rows of this table and then those of others with the same columns."""
        columns = tuple(
            Column(c.name, np.concatenate([c.values, *(o.columns[j].values for o in others)]), c.categories)
            for j, c in enumerate(self.columns)
        )
        return Table(self.owner, columns, self.rows + sum(o.rows for o in others))

    def match(self, names: Sequence[str], categories: dict[str, tuple[str, ...]]) -> Table:
        """Return the columns a model knows, in its order; categories are recoded to the model's.

        1, 1.0, True and the text "1" are one category; a category that the model does not know equals none of its own.
        Raises DataError for missing columns; columns the model does not know are refused too, since a table with other
        columns is more likely the wrong table than a richer one.
        """
        mine = {column.name: column for column in self.columns}
        missing = [name for name in names if name not in mine]
        extra = sorted(set(mine) - set(names))
        if missing or extra:
            parts = [f"lacks {', '.join(missing)}"] if missing else []
            parts += [f"has unknown {', '.join(extra)}"] if extra else []
            text = f"{self.owner}: the table {' and '.join(parts)}; give the columns of the training table"
            raise DataError(text, "mismatch", self.owner)
        return Table(self.owner, tuple(_recode(self.owner, mine[n], categories.get(n)) for n in names), self.rows)


def identifier_columns(table: Table) -> dict[str, int]:
    """Return columns of categories that have more than one for two rows, as names and ids, and how many they have."""
    found = {}
    for column in table.columns:
        if column.is_categorical:
            present = column.values[~np.isnan(column.values)]
            count = len(np.unique(present))
            if count > _FEW_CATEGORIES and count > len(present) / 2:
                found[column.name] = count
    return found


def to_frame(data: Any, owner: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return data as a DataFrame of one row per row; `names` are those of columns that have none."""
    if is_sparse(data):
        data = _from_sparse(data) if data.ndim == 2 else data.toarray()
    if isinstance(data, pd.Series):
        data = data.to_frame()
    if is_arrow(data):
        data = from_arrow(data, owner)
    if type(data).__name__ == "LazyFrame":
        raise DataError(f"{owner}: a LazyFrame has no rows yet; give what its collect() returns", "type", owner)
    try:
        if isinstance(data, dict):
            data = pd.DataFrame(data)
        if isinstance(data, np.ma.MaskedArray) and not np.iscomplexobj(data):
            data = np.ma.filled(data.astype(np.float64), np.nan)  # asarray would forget which values are masked
        array = data if isinstance(data, pd.DataFrame) else np.asarray(data)
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{owner}: not a table ({error}); give columns, or rows, of equal length", "mismatch", owner
        ) from None
    if not isinstance(data, pd.DataFrame):
        if array.ndim != 2:
            text = (
                f"{owner}: expected 2D array (rows, columns), got {array.ndim}D array instead. Reshape your data: "
                "array.reshape(-1, 1) makes one column, array.reshape(1, -1) one row"
            )
            raise DataError(text, "type", owner, array.ndim)
        if np.iscomplexobj(array):
            raise DataError(f"{owner}: Complex data not supported; split it into real columns", "type", owner)
        columns = [f"f{i}" for i in range(array.shape[1])] if names is None else list(names)
        data = _numbers_of_array(pd.DataFrame(array, columns=pd.Index(columns)), owner)
    frame: pd.DataFrame = data
    if any(isinstance(level, tuple) for level in frame.columns):
        raise DataError(f"{owner}: column names have several levels; flatten them to one name each", "type", owner)
    return frame


def _numbers_of_array(frame: pd.DataFrame, owner: str) -> pd.DataFrame:
    """Return an array's columns with numbers for their texts: a single word makes NumPy write all numbers as text."""
    for name in frame.columns:
        if is_text(frame[name]):
            numbers = pd.to_numeric(frame[name], errors="coerce")
            bad = frame[name][numbers.isna() & frame[name].notna()]
            if len(bad):
                text = f"{owner}: column {name!r} of an array holds {bad.iloc[0]!r}, which is not a number"
                raise DataError(
                    f"{text}; convert it, or give a DataFrame, where words are categories", "type", name, bad.iloc[0]
                )
            frame[name] = numbers
    return frame


def is_text(series: pd.Series[Any]) -> bool:
    """Return whether a column is of text: such a column holds categories, in every frame and file alike."""
    if isinstance(series.dtype, pd.StringDtype):
        return True
    return series.dtype.kind in "OU" and pd.api.types.infer_dtype(series, skipna=True) == "string"


def _column(owner: str, name: str, series: pd.Series[Any], missing: float) -> Column:
    where = f"{owner}: column {name!r}"
    if is_text(series):
        series = series.astype("category")
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.float32)
        codes[codes < 0] = np.nan
        categories = tuple(str(c) for c in series.cat.categories)
        if _repeated(categories):
            text = f"{where} has two categories written {_repeated(categories)[0]!r}; rename one of them"
            raise DataError(text, "duplicate", name, _repeated(categories)[0])
        return Column(name, codes, categories)
    if series.dtype.kind in "mM" or isinstance(series.dtype, pd.PeriodDtype):
        raise DataError(
            f"{where} holds dates or durations; turn them into numbers, such as days since a fixed date", "type", name
        )
    if series.dtype.kind == "c":
        raise DataError(f"{where} holds complex numbers; split it into real columns", "type", name)
    try:
        numbers = _numbers(where, series)
    except OverflowError:
        raise DataError(
            f"{where} holds an integer beyond float32 (3.4e38); rescale the column", "range", name
        ) from None
    if not np.isnan(missing):
        with np.errstate(over="ignore"):  # as XGBoost compares them
            numbers = np.where(numbers.astype(np.float32) == np.float32(missing), np.nan, numbers)
    return number_column(owner, name, numbers)


def number_column(owner: str, name: str, numbers: npt.NDArray[np.float64]) -> Column:
    """Return a column of numbers, NaN where one is missing; raises DataError for those that are no float32."""
    where = f"{owner}: column {name!r}"
    if np.isinf(numbers).any():
        text = f"{where} holds infinity, which has no place in a bin; cap the values or mark them as missing"
        raise DataError(text, "range", name)
    large = np.abs(numbers) > FLOAT32_MAX
    if large.any():
        text = f"{where} holds {numbers[large][0]:g}, beyond float32 (3.4e38); rescale the column"
        raise DataError(text, "range", name, float(numbers[large][0]))
    return Column(name, numbers.astype(np.float32))


def _repeated(texts: Sequence[str]) -> list[str]:
    return sorted({text for text in texts if texts.count(text) > 1}) if len(set(texts)) < len(texts) else []


def _numbers(where: str, series: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Return a column as numbers, NaN where a value is missing; objects are numbers each, whatever they read like."""
    if series.dtype.kind in "fiub":
        return series.to_numpy(np.float64, na_value=np.nan)
    values = np.full(len(series), np.nan)
    for i, value in enumerate(series):
        if isinstance(value, (Real, Decimal, np.bool_)):
            values[i] = float(value)
        elif value is not None and value is not pd.NA:
            raise DataError(
                f"{where} holds {value!r}, which is not a number{_remedy(value)}", "type", str(series.name), value
            )
    return values


def _remedy(value: Any) -> str:
    if isinstance(value, bytes):
        return " but bytes; decode the column (str.decode('utf-8')), which makes it categorical, or convert it"
    but = " but text" if isinstance(value, str) else ""
    return f"{but}; convert the column or make it categorical (astype(str), or astype('category'))"


def _recode(owner: str, column: Column, categories: tuple[str, ...] | None) -> Column:
    if categories == column.categories:
        return column
    if np.isnan(column.values).all():  # whatever kind a column without any value was taken for
        return Column(column.name, column.values, categories)
    if categories is None or column.categories is None:
        kinds = ("numbers", "categories") if categories is None else ("categories", "numbers")
        text = f"{owner}: column {column.name!r} holds {kinds[1]} here and {kinds[0]} in the training table"
        raise DataError(f"{text}; convert one of them", "mismatch", column.name, kinds[1])
    present = ~np.isnan(column.values)
    codes = column.values[present].astype(np.int64)
    table = np.full(len(column.categories), np.nan, np.float32)
    known = KnownCategories(categories)
    for code in np.unique(codes):
        table[code] = known.code(column.categories[code], f"{owner}: column {column.name!r}")
    values = np.full(column.values.shape, np.nan, np.float32)
    values[present] = table[codes]
    return Column(column.name, values, categories)


class KnownCategories:
    """The categories of a model, found by what is written or, for numbers and truth values, by what it is worth.

    pandas makes 1 into 1.0 once a value is missing, and a file may say 1 where a frame says True; all of them mean one
    category. Zeros in front are no matter of value: 007 is a word, which a reader of 7 has spoilt.
    """

    def __init__(self, categories: tuple[str, ...]) -> None:
        self.categories = categories
        self.place = {category: code for code, category in enumerate(categories)}
        self.worth: dict[float, list[int]] = {}
        for code, category in enumerate(categories):
            value = _value(category)
            if value is not None:
                self.worth.setdefault(value, []).append(code)

    def codes(self, words: Iterable[str | None], where: str) -> npt.NDArray[np.float32]:
        """Return the codes of categories, NaN where there is none; see `code`."""
        return np.array([np.nan if word is None else self.code(word, where) for word in words], np.float32)

    def code(self, text: str, where: str) -> int:
        """Return the code of a category; one that is equal to none, for a category that the model does not know."""
        if text in self.place:
            return self.place[text]
        value = _value(text)
        alike = [] if value is None else self.worth.get(value, [])
        if not alike:
            return len(self.categories)
        if len(alike) > 1 or _is_padded(text) or _is_padded(self.categories[alike[0]]):
            text = (
                f"{where} holds a category that the training table writes in another way, such as 7 and 007; write all "
                "as there, zeros in front included (read the column as text)"
            )
            raise DataError(text, "mismatch", where)
        return alike[0]


def _value(text: str) -> float | None:
    """Return the number that a category stands for, if it does; integers of any size exactly."""
    if text in _TRUTH:
        return _TRUTH[text]
    if not _NUMBER.fullmatch(text):
        return None
    try:
        return int(text)
    except ValueError:
        return float(text)


def _is_padded(text: str) -> bool:
    return _PADDED.match(text) is not None
