"""The split buckets of SecureAggBucket (section 4.2).

`quantile`: equal-frequency bins, with a bin of its own for every heavy value. `paper`: the greedy sketch of the paper's
experiments. An edge is the largest value of its bin: x <= edge goes left. Cuts come from training rows only. They are
exact unless a column has more different values than are counted one by one (`counting`).

How often each value of a column occurs: all that cuts depend on.

Counted exactly as long as there are at most `MOST_VALUES` different values. Beyond, neighbouring values are counted
together: those with the same leading bits, as many bits as the memory allows. Which ones depends on the values alone,
not on their order nor on who counted which rows, so counts of parts add up to the counts of the whole.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.table import Column, Table

MOST_VALUES = 1 << 26
"""Different values that are counted one by one: 0.8 GB, and as much again while counts are added up."""

_PART = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class ValueCounts:
    """Different values in order, how often each occurs, and whether any is missing.

    With a `shift`, values that differ in so many of their last bits only count as one, the largest of them.
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
