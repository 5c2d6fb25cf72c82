"""How often each value of a column occurs: all that cuts depend on.

Counted exactly as long as there are at most `MOST_VALUES` different values. Beyond, neighbouring values are counted
together: those with the same leading bits, as many bits as the memory allows. Which ones depends on the values alone,
not on their order nor on who counted which rows, so counts of parts add up to the counts of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

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
