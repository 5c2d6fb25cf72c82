"""Candidate splits: each is a private column of bits, "this row goes left". The protocol knows only their number.

Their order decides ties and is XGBoost's: per feature, thresholds ascending with missing values right; for features
with missing values the last of these is "present left, missing right", followed by thresholds descending with missing
values left, ending in "missing left, present right". A category splits one against the rest, the one going right, with
missing values left and then, where there are any, right.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.binning import Bins
from mpfedxgb.data.table import Table
from mpfedxgb.ring import kernels
from mpfedxgb.ring.kernels import U64

Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to split: by a threshold (x <= edge goes left; None if all present values go one way) or by a category.

    For a column of numbers `low`..`high` are the bins that go left, high excluded; for a category, the bin that goes
    right. `missing_left` says where missing values go.
    """

    feature: int
    low: int
    high: int
    missing_left: bool
    is_categorical: bool = False


class Candidates:
    """A participant's candidate columns over its training rows; a `Matrix` for SecureAggBucket."""

    def __init__(self, bins: Bins) -> None:
        self.bins = bins
        self.items: list[Candidate] = []
        for feature, column in enumerate(bins.table.columns):
            count, missing = bins.counts[feature], bins.has_missing[feature]
            self.items += (
                _of_category(feature, count, missing) if column.is_categorical else _of_numbers(feature, count, missing)
            )
        self._feature = np.array([c.feature for c in self.items], np.int64)
        self._low = np.array([c.low for c in self.items], np.int64)
        self._high = np.array([c.high for c in self.items], np.int64)
        self._missing = np.array([c.missing_left for c in self.items], np.uint64)
        self._category = np.array([c.is_categorical for c in self.items], bool)
        counts = np.array(bins.counts, np.int64)[self._feature]
        # Of the type of the codes, for short comparisons; the code of a missing value is the count of the others.
        self._limits = [limit.astype(bins.codes.dtype) for limit in (self._low, self._high, counts)]
        self._width = max(bins.counts, default=0) + 1

    @property
    def features(self) -> npt.NDArray[np.int64]:
        """The feature of every candidate, ascending."""
        return self._feature

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Candidates({len(self)} of {len(self.bins.counts)} features)"

    def tile(self, columns: slice = slice(None), rows: slice = slice(None)) -> Bits:
        """Return some columns over some training rows, or all of them, as 0/1 values, (columns, rows)."""
        codes = self.bins.codes[self._feature[columns], rows]
        low, high, count = (limit[columns, None] for limit in self._limits)
        left = (codes >= low) & (codes < high)
        if self._category[columns].any():
            left = np.where(self._category[columns, None], ~left & (codes < count), left)
        if self._missing[columns].any():
            left |= (codes == count) & (self._missing[columns, None] != 0)
        return left.view(np.uint8)

    def times(self, vectors: U64) -> U64:
        """Return vectors (V, rows) times the columns, by histograms and prefix sums modulo 2^64: (V, columns)."""
        features = len(self.bins.counts)
        sums = np.zeros((features, self._width, len(vectors)), np.uint64)
        kernels.histogram_add(self.bins.codes, np.ascontiguousarray(vectors.T), sums)
        if not self.items:
            return np.zeros((len(vectors), 0), np.uint64)
        absent = sums[np.arange(features), np.array(self.bins.counts)]
        prefix = np.zeros((features, self._width + 1, len(vectors)), np.uint64)
        np.cumsum(sums, axis=1, out=prefix[:, 1:])
        present = prefix[np.arange(features), np.array(self.bins.counts)]
        inside = prefix[self._feature, self._high] - prefix[self._feature, self._low]
        left = np.where(self._category[:, None], present[self._feature] - inside, inside)
        return np.ascontiguousarray((left + self._missing[:, None] * absent[self._feature]).T)

    def rows_left(self, index: int, table: Table | None = None) -> Bits:
        """Return which rows go left by a candidate: of the training table, or of another one with the same columns."""
        item = self.items[index]
        if table is None:
            return np.asarray(self.tile(slice(index, index + 1))[0])
        return rows_left(table.columns[item.feature].values, self.threshold(index), item)

    def threshold(self, index: int) -> float:
        """Return the edge of a numeric candidate: x <= edge goes left; -inf if no present value does, inf if all do."""
        item = self.items[index]
        if item.high == 0:
            return -np.inf
        edges = self.bins.edges[item.feature]
        return float(edges[item.high - 1]) if item.high - 1 < len(edges) else np.inf


def rows_left(values: npt.NDArray[np.float32], threshold: float, item: Candidate) -> Bits:
    """Return which raw values go left, by the edge or the category of a candidate."""
    missing = np.isnan(values)
    left = values != item.low if item.is_categorical else values <= threshold
    return np.where(missing, item.missing_left, left).astype(np.uint8)


def _of_numbers(feature: int, count: int, missing: bool) -> list[Candidate]:
    ascending = [Candidate(feature, 0, k, missing_left=False) for k in range(1, count)]
    if not missing or not count:
        return ascending
    descending = [Candidate(feature, 0, k, missing_left=True) for k in range(count - 1, 0, -1)]
    return [
        *ascending,
        Candidate(feature, 0, count, missing_left=False),
        *descending,
        Candidate(feature, 0, 0, missing_left=True),
    ]


def _of_category(feature: int, count: int, missing: bool) -> list[Candidate]:
    sides = (True, False) if missing else (True,)
    return [Candidate(feature, k, k + 1, side, is_categorical=True) for k in range(count) for side in sides]
