"""One participant's table: named columns of float32 numbers or of categories, checked once, with remedies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.errors import DataError

_FLOAT32_MAX = float(np.finfo(np.float32).max)


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


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Columns of equal length that belong to one participant."""

    owner: str
    columns: tuple[Column, ...]
    rows: int

    def __repr__(self) -> str:
        return f"Table(owner={self.owner!r}, rows={self.rows}, columns={len(self.columns)})"

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return [column.name for column in self.columns]

    @classmethod
    def read(cls, data: Any, owner: str, names: Sequence[str] | None = None) -> Table:
        """Return a table from a DataFrame, an array, or anything pandas makes a DataFrame of.

        Parameters
        ----------
        data : DataFrame, Series, array of shape (rows, columns), list of lists, dictionary of columns
        owner : str
            The participant, for messages.
        names : sequence of str or None
            Column names for data that has none; f0, f1, ... if None.

        Raises
        ------
        DataError
            Naming owner, column, value and remedy.
        """
        frame = to_frame(data, owner, names)
        if not len(frame):
            raise DataError(f"{owner}: the table has no rows; at least one row is needed")
        written = [str(name) for name in frame.columns]  # a model keeps names as text, so 1 and "1" are one name
        repeated = _repeated(written)
        if repeated:
            raise DataError(f"{owner}: column names occur twice: {', '.join(repeated)}; rename or drop one of each")
        columns = tuple(_column(owner, name, frame.iloc[:, i]) for i, name in enumerate(written))
        return cls(owner, columns, len(frame))

    def followed_by(self, others: Sequence[Table]) -> Table:
        """Return the rows of this table and then those of others with the same columns."""
        columns = tuple(
            Column(c.name, np.concatenate([c.values, *(o.columns[j].values for o in others)]), c.categories)
            for j, c in enumerate(self.columns)
        )
        return Table(self.owner, columns, self.rows + sum(o.rows for o in others))

    def match(self, names: Sequence[str], categories: dict[str, tuple[str, ...]]) -> Table:
        """Return the columns a model knows, in its order; categories are recoded to the model's.

        Raises DataError for missing columns; columns the model does not know are refused too, since a table with other
        columns is more likely the wrong table than a richer one.
        """
        mine = {column.name: column for column in self.columns}
        missing = [name for name in names if name not in mine]
        extra = sorted(set(mine) - set(names))
        if missing or extra:
            parts = [f"lacks {', '.join(missing)}"] if missing else []
            parts += [f"has unknown {', '.join(extra)}"] if extra else []
            raise DataError(
                f"{self.owner}: the table {' and '.join(parts)}; give the columns the model was trained with"
            )
        return Table(self.owner, tuple(_recode(self.owner, mine[n], categories.get(n)) for n in names), self.rows)


def to_frame(data: Any, owner: str, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Return data as a DataFrame of one row per row; `names` are those of columns that have none."""
    if hasattr(data, "toarray") and hasattr(data, "nnz"):
        raise DataError(f"{owner}: sparse matrices are not supported; pass X.toarray() or a DataFrame")
    if isinstance(data, pd.Series):
        data = data.to_frame()
    try:
        if isinstance(data, dict):
            data = pd.DataFrame(data)
        if isinstance(data, np.ma.MaskedArray) and not np.iscomplexobj(data):
            data = np.ma.filled(data.astype(np.float64), np.nan)  # asarray would forget which values are masked
        array = data if isinstance(data, pd.DataFrame) else np.asarray(data)
    except (ValueError, TypeError) as error:
        raise DataError(f"{owner}: not a table ({error}); give columns, or rows, of equal length") from None
    if not isinstance(data, pd.DataFrame):
        if array.ndim != 2:
            raise DataError(
                f"{owner}: expected 2D array (rows, columns), got {array.ndim}D array instead. Reshape your data: "
                "array.reshape(-1, 1) makes one column, array.reshape(1, -1) one row"
            )
        if np.iscomplexobj(array):
            raise DataError(f"{owner}: Complex data not supported; split it into real columns")
        columns = [f"f{i}" for i in range(array.shape[1])] if names is None else list(names)
        data = _numbers_of_array(pd.DataFrame(array, columns=pd.Index(columns)), owner)
    frame: pd.DataFrame = data
    if any(isinstance(level, tuple) for level in frame.columns):
        raise DataError(f"{owner}: column names have several levels; flatten them to one name each")
    return frame


def _numbers_of_array(frame: pd.DataFrame, owner: str) -> pd.DataFrame:
    """Return an array's columns with numbers for their texts: a single word makes NumPy write all numbers as text."""
    for name in frame.columns:
        if is_text(frame[name]):
            bad = next((v for v in frame[name] if not _is_number(v)), None)
            if bad is not None:
                told = f"{owner}: column {name!r} of an array holds {bad!r}, which is not a number"
                raise DataError(f"{told}; convert it, or give a DataFrame, where words are categories")
            frame[name] = pd.to_numeric(frame[name])
    return frame


def is_text(series: pd.Series[Any]) -> bool:
    """Return whether a column is of text: such a column holds categories, in every frame and file alike."""
    if isinstance(series.dtype, pd.StringDtype):
        return True
    return series.dtype.kind == "O" and pd.api.types.infer_dtype(series, skipna=True) == "string"


def _column(owner: str, name: str, series: pd.Series[Any]) -> Column:
    where = f"{owner}: column {name!r}"
    if is_text(series):
        series = series.astype("category")
    if isinstance(series.dtype, pd.CategoricalDtype):
        codes = series.cat.codes.to_numpy().astype(np.float32)
        codes[codes < 0] = np.nan
        categories = tuple(str(c) for c in series.cat.categories)
        if _repeated(categories):
            raise DataError(f"{where} has two categories written {_repeated(categories)[0]!r}; rename one of them")
        return Column(name, codes, categories)
    if series.dtype.kind in "mM":
        raise DataError(f"{where} holds dates or durations; turn them into numbers, such as days since a fixed date")
    if series.dtype.kind == "c":
        raise DataError(f"{where} holds complex numbers; split it into real columns")
    try:
        numbers = pd.to_numeric(series).to_numpy(np.float64, na_value=np.nan)
    except OverflowError:
        raise DataError(f"{where} holds an integer beyond float32 (3.4e38); rescale the column") from None
    except (ValueError, TypeError):
        bad = next((v for v in series if not _is_number(v)), "?")
        raise DataError(
            f"{where} holds {bad!r}, which is not a number; convert the column or make it categorical "
            "(astype(str), or astype('category'))"
        ) from None
    if np.isinf(numbers).any():
        raise DataError(f"{where} holds infinity, which has no place in a bin; cap the values or mark them as missing")
    large = np.abs(numbers) > _FLOAT32_MAX
    if large.any():
        raise DataError(f"{where} holds {numbers[large][0]:g}, beyond float32 (3.4e38); rescale the column")
    return Column(name, numbers.astype(np.float32))


def _repeated(texts: Sequence[str]) -> list[str]:
    return sorted({text for text in texts if texts.count(text) > 1}) if len(set(texts)) < len(texts) else []


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (ValueError, TypeError):
        return value is None or value is pd.NA
    return True


def _recode(owner: str, column: Column, categories: tuple[str, ...] | None) -> Column:
    if categories == column.categories:
        return column
    if np.isnan(column.values).all():  # whatever kind a column without any value was taken for
        return Column(column.name, column.values, categories)
    if categories is None or column.categories is None:
        kinds = ("numbers", "categories") if categories is None else ("categories", "numbers")
        raise DataError(f"{owner}: column {column.name!r} was trained on {kinds[0]} and now holds {kinds[1]}")
    place = {category: code for code, category in enumerate(categories)}
    unseen = len(categories)  # equal to no known category
    table = np.array([place.get(category, unseen) for category in column.categories], np.float32)
    values = np.full(column.values.shape, np.nan, np.float32)
    present = ~np.isnan(column.values)
    values[present] = table[column.values[present].astype(np.int64)]
    return Column(column.name, values, categories)
