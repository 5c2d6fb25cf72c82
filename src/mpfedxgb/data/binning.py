"""The split buckets of SecureAggBucket (section 4.2), and the candidate splits between them.

`quantile`: equal-frequency bins, with a bin of its own for every heavy value. `paper`: the greedy sketch of the paper's
experiments. An edge is the largest value of its bin: x <= edge goes left. Cuts come from training rows only. They are
exact unless a column has more different values than are counted one by one (`count_values`).

How often each value of a column occurs: all that cuts depend on.

Counted exactly as long as there are at most `MOST_VALUES` different values. Beyond, neighbouring values are counted
together: those with the same leading bits, as many bits as the memory allows. Which ones depends on the values alone,
not on their order nor on who counted which rows, so counts of parts add up to the counts of the whole.

Candidate splits: each is a private column of bits, "this row goes left". The protocol knows only their number.

Their order decides ties and is XGBoost's: per feature, thresholds ascending with missing values right; for features
with missing values the last of these is "present left, missing right", followed by thresholds descending with missing
values left, ending in "missing left, present right". A category splits one against the rest, the one going right, with
missing values left and then, where there are any, right.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.table import Column, Table
from mpfedxgb.ring import kernels
from mpfedxgb.ring.kernels import U64

MOST_VALUES = 1 << 26
"""Different values that are counted one by one: 0.8 GB, and as much again while counts are added up."""

_PART = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """Different values in order, how often each occurs, and whether any is missing.

    With a `shift`, values that differ in their last `shift` bits only count as one, the largest of them.
    """

    values: npt.NDArray[np.float32] = field(repr=False)
    counts: npt.NDArray[np.int64] = field(repr=False)
    has_missing: bool
    shift: int = 0

    @property
    def is_exact(self) -> bool:
        """Whether every value was counted by itself."""
        return self.shift == 0


def count_values(values: npt.NDArray[np.float32], most: int = MOST_VALUES) -> ValueCounts:
    """Return the counts of a column, NaN where a value is missing; with at most `most` different values."""
    parts = (values[first : first + max(_PART, most)] for first in range(0, max(1, len(values)), max(_PART, most)))
    return add_counts((_count(part) for part in parts), most)


def add_counts(parts: Iterable[ValueCounts], most: int = MOST_VALUES) -> ValueCounts:
    """Return the counts of all parts together; with at most `most` different values."""
    whole: ValueCounts | None = None
    for part in parts:
        whole = part if whole is None else _both(whole, part)
        while len(whole.values) > most:  # a part has no more cells than the whole, so none is coarser than it has to be
            whole = _coarser(whole, whole.shift + 1)
    assert whole is not None, "there is at least one part"
    return whole


def _count(values: npt.NDArray[np.float32]) -> ValueCounts:
    absent = np.isnan(values)
    has_missing = bool(absent.any())
    present = (values[~absent] if has_missing else values) + np.float32(0)  # -0 and 0 are one value
    found, counts = np.unique(present, return_counts=True)
    return ValueCounts(found, counts.astype(np.int64, copy=False), has_missing)


def _both(one: ValueCounts, other: ValueCounts) -> ValueCounts:
    values = np.concatenate([one.values, other.values])
    order = np.argsort(values, kind="stable")
    counts = np.concatenate([one.counts, other.counts])[order]
    missing = one.has_missing or other.has_missing
    return _coarser(ValueCounts(values[order], counts, missing), max(one.shift, other.shift))


def _coarser(found: ValueCounts, shift: int) -> ValueCounts:
    """Return counts with the values that agree but for their last bits counted as one."""
    if not len(found.values):
        return found
    cells = _ordered(found.values) >> np.uint32(shift) if shift < 32 else np.zeros(len(found.values), np.uint32)
    ends = np.append(cells[1:] != cells[:-1], True)
    starts = np.flatnonzero(np.append(True, ends[:-1]))
    return ValueCounts(found.values[ends], np.add.reduceat(found.counts, starts), found.has_missing, shift)


def _ordered(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint32]:
    """Return integers in the order of the numbers: IEEE 754's bits, with those of negative numbers turned round."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    return np.where(bits >> np.uint32(31), ~bits, bits | np.uint32(1 << 31))


Edges = npt.NDArray[np.float32]
Codes = npt.NDArray[np.unsignedinteger[Any]]

_log = logging.getLogger("mpfedxgb.data")
_FEW_EDGES = 64
EPS = 0.1
"""The sketch of the paper's experiments closes a bucket before it holds this share of the rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """A binned table: per column its edges (or categories), and per row the number of its bin.

    `codes` has shape (columns, rows). The bins of column j are 0..counts[j]-1, and counts[j] stands for missing; which
    columns have missing values among the training rows is in `has_missing`. Where the table is in a file, so are the
    bins: `codes` is empty, and `codes_of` reads.
    """

    table: Table
    edges: tuple[Edges, ...] = field(repr=False)
    counts: tuple[int, ...]
    has_missing: tuple[bool, ...]
    codes: Codes = field(repr=False)

    def codes_of(self, rows: slice) -> Codes:
        """Return the bins of some rows, (columns, rows)."""
        if self.table.file is None:
            return self.codes[:, rows]
        return bin_codes(self.table.part(rows), self.edges, self.counts)


def cut_points(column: Column, max_bin: int) -> Edges:
    """Return the sorted edges between at most `max_bin` bins of a column of numbers: one fewer than there are bins.

    Up to max_bin distinct values get one bin each. Beyond that, a value that fills its share of the rows by itself gets
    a bin of its own, and the others share what remains, so that mostly-zero columns keep their resolution.
    """
    return _quantiles(count_values(column.values), max_bin)


def _quantiles(found: ValueCounts, max_bin: int) -> Edges:
    values, counts = found.values, found.counts
    if len(values) <= max_bin:
        return values[:-1]
    heavy = _heavy(counts, max_bin)
    light_bins = max(1, max_bin - int(heavy.sum()))
    while (ends := _ends(counts, heavy, light_bins)).sum() > max_bin:  # heavy values cut at most one light bin each
        light_bins -= 1
    return values[ends][:-1]


def _heavy(counts: npt.NDArray[np.int64], max_bin: int) -> npt.NDArray[np.bool_]:
    """Return which values fill a bin by themselves, once the heavier ones are taken out; bins must suffice for all."""
    heavy = np.zeros(len(counts), bool)
    if int(counts.max()) * max_bin < int(counts.sum()):
        return heavy
    for value in np.argsort(-counts, kind="stable"):
        bins = max_bin - int(heavy.sum())
        if bins < 2 or counts[value] * bins < int(counts[~heavy].sum()):
            return heavy
        heavy[value] = True
        if _ends(counts, heavy, 1).sum() > max_bin:  # its neighbours would need more bins than there are
            heavy[value] = False
            return heavy
    return heavy


def _ends(counts: npt.NDArray[np.int64], heavy: npt.NDArray[np.bool_], light_bins: int) -> npt.NDArray[np.bool_]:
    """Return which values end a bin when the light values are dealt into `light_bins` bins of equal frequency."""
    light = np.where(heavy, 0, counts)
    rows = max(1, int(light.sum()))
    middle = np.cumsum(light) - ((light + 1) >> 1)  # ascending; the value belongs to bin middle * light_bins // rows
    first = np.searchsorted(middle, -(-rows * np.arange(1, light_bins + 1) // light_bins))
    ends = np.zeros(len(counts), bool)
    ends[first[(first > 0) & (first < len(counts))] - 1] = ends[-1] = True
    ends[:-1] |= heavy[1:] | heavy[:-1]
    return ends


def _sketch(found: ValueCounts) -> Edges:
    """Return the sorted edges of the greedy sketch with eps = 0.1: the buckets behind the paper's Table 3.

    1. The first cut is the smallest value.
    2. Walk on while the share of the rows in (last cut, value] stays below eps.
    3. Otherwise cut: at value if it is the one right after the last cut, else at the value before it. Either way go on
       behind value, which is not tested again.
    4. The largest value ends the last bucket; it is no edge, as everything would go left.

    A share is the difference of two shares in double precision, as in the authors' code: three edges of Dataset1 depend
    on what that makes of exactly a tenth.
    """
    values, counts = found.values, found.counts
    if len(values) < 2:
        return values[:0]
    cumulative = np.cumsum(counts) / counts.sum()
    last, untested = 0, 1
    cuts = [last]
    while True:
        value = max(untested, int(np.searchsorted(cumulative - cumulative[last], EPS)))
        if value >= len(values):
            return values[[cut for cut in cuts if cut < len(values) - 1]]
        last = value if value == last + 1 else value - 1
        untested = value + 1
        cuts.append(last)


def bin_table(table: Table, max_bin: int, binning: str = "quantile") -> Bins:
    """Return the bins of a training table; `max_bin` has no say in how `binning="paper"` cuts columns of numbers."""
    cuts = [cut_column(c.name, c.is_categorical, count_values(c.values), max_bin, binning) for c in table.columns]
    edges, counts, missing = (tuple(part) for part in zip(*cuts, strict=True)) if cuts else ((), (), ())
    if table.file is not None:  # its bins are computed where its rows are read
        return Bins(table, edges, counts, missing, np.empty((len(counts), 0), np.uint8))
    return Bins(table, edges, counts, missing, bin_codes(table, edges, counts))


def cut_column(
    name: str, is_categorical: bool, found: ValueCounts, max_bin: int, binning: str
) -> tuple[Edges, int, bool]:
    """Return the edges of a column, the number of its bins, and whether values are missing.

    A column without a present value has no bins. Categories have no edges, and one bin each up to the last that a
    training row has, as in XGBoost: one beyond it could only set missing values apart from all others, which XGBoost
    cannot do there.
    """
    if is_categorical:
        return np.empty(0, np.float32), int(found.values[-1]) + 1 if len(found.values) else 0, found.has_missing
    if not found.is_exact:
        _log.warning(
            "column %r has too many different values to count them one by one; its bins are cut by the first %d bits "
            "of float32",
            name,
            32 - found.shift,
        )
    edges = _sketch(found) if binning == "paper" else _quantiles(found, max_bin)
    return edges, len(edges) + 1 if len(found.values) else 0, found.has_missing


def bin_codes(table: Table, edges: Sequence[Edges], counts: Sequence[int]) -> Codes:
    """Return the bin of every value, (columns, rows), of all rows of a table or of some."""
    kind = np.uint8 if max(counts, default=0) < 255 else np.uint16 if max(counts) < 65535 else np.uint32
    codes = np.empty((len(counts), table.rows), kind)
    for j, (column, column_edges, count) in enumerate(zip(table.columns, edges, counts, strict=True)):
        absent = np.isnan(column.values)
        if column.is_categorical:
            codes[j] = np.where(absent, count, np.nan_to_num(column.values)).astype(np.int64)
        else:
            _place(column.values, column_edges, codes[j])
            if absent.any():
                codes[j, absent] = count
    return codes


def _place(values: npt.NDArray[np.float32], edges: Edges, codes: Codes) -> None:
    """Write the bin of every present value: how many edges are below it. For few edges, counting beats a search."""
    if len(edges) > _FEW_EDGES:
        codes[:] = np.searchsorted(edges, values, side="left")
        return
    codes[:] = 0
    for edge in edges:
        codes += values > edge


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
