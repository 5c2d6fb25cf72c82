"""Columns put together from the chunks of a file, so that no more than a chunk is ever held as it was read.

Numbers become float32 as they come, the precision that bins are cut with, and words become categories. What only a
whole column can tell, such as whether one word among numbers makes words of them all, is left to a second reading.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.data.table import FLOAT32_MAX, is_text

CHUNK_CELLS = 1 << 21
"""Values of a chunk: 16 MB of numbers."""

_EXACT_INTEGER = 1 << 53
_LEAST_ROWS = 256
_MISSING = {"", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"}
_MISSING |= {"<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"}
"""What `pandas.read_csv` takes for a missing value, by its documentation."""

_EMPTY, _NUMBERS, _TRUTH, _WORDS = "empty", "numbers", "truth", "words"


def rows_per_chunk(columns: int) -> int:
    """Return how many rows make a chunk, given their columns."""
    return max(_LEAST_ROWS, CHUNK_CELLS // max(1, columns))


def narrow(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return numbers rounded to float32, by way of double precision; in double precision if some are beyond float32.

    Those are refused later, by a caller that knows the owner, and the message quotes them.
    """
    if values.dtype == np.float32:
        return values
    numbers = values.astype(np.float64, copy=False)
    with np.errstate(invalid="ignore"):
        beyond = bool((np.abs(numbers) > FLOAT32_MAX).any())
    return numbers if beyond else numbers.astype(np.float32)


def as_categories(words: pd.Series[Any], missing: Collection[str] = ()) -> pd.Series[Any]:
    """Return words as categories, none of which stands for a missing value, or is one of the `missing` ones.

    Beside integers beyond 2^63 pandas takes missing values for words, if it has both in one reading.
    """
    column = words.astype("category")
    none = _MISSING.union(missing)
    return column.cat.remove_categories([word for word in column.cat.categories if word in none])


def without(series: pd.Series[Any], missing: Collection[str]) -> pd.Series[Any]:
    """Return a column in which texts, categories and numbers that are one of the `missing` ones are missing."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        return series.cat.remove_categories([c for c in series.cat.categories if str(c) in missing])
    if is_text(series):
        return series.where(~series.isin(list(missing)))
    if series.dtype.kind not in "iuf":
        return series
    found = series.isin(numbers_among(missing))
    return series.mask(found) if found.any() else series


def numbers_among(texts: Collection[str]) -> list[float]:
    """Return the numbers that some of the texts are."""
    return pd.to_numeric(pd.Series(list(texts), dtype=object), errors="coerce").dropna().tolist()


class ColumnParts:
    """One column of a file as its chunks come in; numbers of an `exact` one keep the type that they are read with.

    Texts that are `missing` values were given to pandas as such.
    """

    def __init__(self, exact: bool, missing: Collection[str] = ()) -> None:
        self._exact = exact
        self._missing = _MISSING.union(missing)
        self._parts: list[npt.NDArray[Any] | pd.Categorical] = []
        self._kinds: set[str] = set()
        self._types: set[str] = set()
        self._is_odd = False

    def add(self, series: pd.Series[Any]) -> None:
        """Take in what the next chunk has of this column."""
        if is_text(series):
            words = pd.Categorical(series)
            self._kinds.add(_WORDS)
            # pandas takes missing values for words where they stand beside integers beyond 2^63
            self._is_odd |= not self._missing.isdisjoint(words.categories)
            self._parts.append(words)
            return
        values = series.to_numpy()
        kind = values.dtype.kind
        if kind == "b":
            self._kinds.add(_TRUTH)
        elif kind in "if":
            self._note_numbers(values)
        else:
            self._is_odd = True
        self._parts.append(values if self._exact or kind not in "if" else narrow(values))

    def _note_numbers(self, values: npt.NDArray[Any]) -> None:
        if values.dtype.kind == "f" and np.isnan(values).all():
            self._kinds.add(_EMPTY)
            self._types.add("f")
            return
        self._kinds.add(_NUMBERS)
        inexact = values.dtype.kind == "i" and bool(((values > _EXACT_INTEGER) | (values < -_EXACT_INTEGER)).any())
        self._types.add("large" if inexact else values.dtype.kind)

    def whole(self) -> pd.Series[Any] | None:
        """Return the column, and forget its parts; None if its chunks disagree on what it holds.

        They do not if all hold numbers, truth values or words, nothing at all besides numbers or words, or integers
        besides fractions, as long as the integers are also read exactly as fractions.
        """
        parts, self._parts = self._parts, []
        kinds = self._kinds - {_EMPTY}
        if self._is_odd or len(kinds) > 1 or (_TRUTH in kinds and _EMPTY in self._kinds):
            return None
        if "large" in self._types and "f" in self._types:
            return None
        if _WORDS not in kinds:
            return pd.Series(np.concatenate(parts), copy=False)
        none = next(part for part in parts if isinstance(part, pd.Categorical))[:0]
        words = [p if isinstance(p, pd.Categorical) else none.take([-1] * len(p), allow_fill=True) for p in parts]
        return pd.Series(pd.api.types.union_categoricals(words, sort_categories=True))
