"""The split buckets of SecureAggBucket (section 4.2).

`quantile`: equal-frequency bins, with a bin of its own for every heavy value. `paper`: the greedy sketch of the paper's
experiments. An edge is the largest value of its bin: x <= edge goes left. Cuts come from training rows only. They are
exact unless a column has more different values than are counted one by one (`counting`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.counting import ValueCounts, count_values
from mpfedxgb.data.table import Column, Table

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
