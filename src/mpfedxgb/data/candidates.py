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

from mpfedxgb.data.binning import Bins, Codes
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


@dataclass(frozen=True, slots=True, eq=False)
class BinRanges:
    """Which bins go left by every candidate, as arrays: all that it takes to work through the bins of some rows.

    `codes` below are those of any rows, (features, rows): of a whole table, or of a block of rows, wherever it lives.
    """

    feature: npt.NDArray[np.int64]
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    missing_left: npt.NDArray[np.uint64]
    is_categorical: npt.NDArray[np.bool_]
    counts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.feature)

    def bits(self, codes: Codes, columns: slice = slice(None)) -> Bits:
        """Return which of the rows go left by some candidates, or by all of them, as 0/1 values, (columns, rows)."""
        feature = self.feature[columns]
        # Of the type of the codes, for short comparisons; the code of a missing value is the count of the others.
        limits = (self.low[columns], self.high[columns], self.counts[feature])
        low, high, count = (limit.astype(codes.dtype)[:, None] for limit in limits)
        own = codes[feature]
        left = (own >= low) & (own < high)
        if self.is_categorical[columns].any():
            left = np.where(self.is_categorical[columns, None], ~left & (own < count), left)
        if self.missing_left[columns].any():
            left |= (own == count) & (self.missing_left[columns, None] != 0)
        return left.view(np.uint8)

    def left_sums(self, codes: Codes, vectors: U64) -> U64:
        """Return the sums of vectors (V, rows) over the rows that go left, modulo 2^64: (V, columns).

        By histograms and prefix sums, as plaintext XGBoost does.
        """
        features, width = len(self.counts), int(self.counts.max(initial=0)) + 1
        sums = np.zeros((features, width, len(vectors)), np.uint64)
        kernels.histogram_add(np.ascontiguousarray(codes), np.ascontiguousarray(vectors.T), sums)
        if not len(self):
            return np.zeros((len(vectors), 0), np.uint64)
        absent = sums[np.arange(features), self.counts]
        prefix = np.zeros((features, width + 1, len(vectors)), np.uint64)
        np.cumsum(sums, axis=1, out=prefix[:, 1:])
        present = prefix[np.arange(features), self.counts]
        inside = prefix[self.feature, self.high] - prefix[self.feature, self.low]
        left = np.where(self.is_categorical[:, None], present[self.feature] - inside, inside)
        return np.ascontiguousarray((left + self.missing_left[:, None] * absent[self.feature]).T)


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
        self.ranges = BinRanges(
            feature=np.array([c.feature for c in self.items], np.int64),
            low=np.array([c.low for c in self.items], np.int64),
            high=np.array([c.high for c in self.items], np.int64),
            missing_left=np.array([c.missing_left for c in self.items], np.uint64),
            is_categorical=np.array([c.is_categorical for c in self.items], bool),
            counts=np.array(bins.counts, np.int64),
        )

    @property
    def features(self) -> npt.NDArray[np.int64]:
        """The feature of every candidate, ascending."""
        return self.ranges.feature

    def __len__(self) -> int:
        return len(self.items)

    def __repr__(self) -> str:
        return f"Candidates({len(self)} of {len(self.bins.counts)} features)"

    def codes(self, rows: slice) -> Codes:
        """Return the bins of some training rows, (features, rows)."""
        return self.bins.codes_of(rows)

    def tile(self, columns: slice = slice(None), rows: slice = slice(None)) -> Bits:
        """Return some columns over some training rows, or all of them, as 0/1 values, (columns, rows)."""
        return self.ranges.bits(self.codes(rows), columns)

    def times(self, vectors: U64, rows: slice = slice(None)) -> U64:
        """Return vectors (V, rows) over some training rows, or all of them, times the columns: (V, columns)."""
        return self.ranges.left_sums(self.codes(rows), vectors)

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


def count_of_categories(table: Table) -> int:
    """Return how many candidates the columns of categories of a training table have."""
    count = 0
    for column in table.columns:
        if column.is_categorical:
            present = column.values[~np.isnan(column.values)]
            bins = int(present.max()) + 1 if len(present) else 0
            count += bins if len(present) == table.rows else 2 * bins
    return count
