"""DART: trees that are left out of a boosting round's gradients, and the scales that trees get for it, as in XGBoost.

(Rashmi and Gilad-Bachrach, DART: Dropouts meet Multiple Additive Regression Trees, AISTATS 2015.)

The active participant does this alone: it knows in which leaf of every tree each of its rows is, draws in private, and
scales trees without anybody's help. A tree adds round(scale * weight) of a row's leaf, so that margins stay exact.
Scales are float32 as XGBoost's `weight_drop`, by the same roundings.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.tree.leaf import scaled_weight
from mpfedxgb.tree.nodes import GrownTree, Leaf, Tree

Ints = npt.NDArray[np.int64]
Leaves = npt.NDArray[np.uint16]
"""The leaf of a tree in which each row is, training rows first; leaves are counted in the order of their nodes."""

Scales = tuple[float, ...]
"""Of each tree; float32 numbers."""


def trees_to_drop(params: TrainParams, scales: Scales, drawn: Floats) -> list[int]:
    """Return which trees a boosting round leaves out.

    `drawn` holds numbers in [0, 1): one for skip_drop, one for each tree, and one for one_drop.
    """
    if drawn[0] < params.skip_drop or not scales:
        return []
    shares = np.ones(len(scales))
    if params.sample_type == "weighted":
        shares = np.array(scales) * len(scales) / np.sum(scales)
    chosen: list[int] = np.flatnonzero(drawn[1:-1] < params.rate_drop * shares).tolist()
    if params.one_drop and not chosen:
        chosen = [int(np.searchsorted(np.cumsum(shares), drawn[-1] * np.sum(shares), side="right"))]
    return chosen


def scales_after(params: TrainParams, scales: Scales, dropped: Sequence[int], new: int) -> Scales:
    """Return the scales of all trees when a boosting round that left some out has grown `new` ones."""
    after, rate, count = np.array(scales, np.float32), np.float32(params.learning_rate), len(dropped)
    factor, of_new = 1.0, 1.0
    if dropped and params.normalize_type == "forest":
        factor = of_new = 1 / (1 + float(rate))
    elif dropped:
        together = float(np.float32(count) + rate)
        factor, of_new = count / together, 1 / together
    after[list(dropped)] *= np.float32(factor)
    return tuple(np.append(after, np.full(new, of_new, np.float32)).tolist())


class Dropout:
    """The trees so far as their rows have them: a leaf per tree and row, the leaves' weights, and the trees' scales."""

    def __init__(self, params: TrainParams) -> None:
        self.params = params
        self.scales: Scales = ()
        self.leaves: list[Leaves] = []
        self._weights: list[tuple[int, ...]] = []
        self._dropped: list[int] = []

    def __repr__(self) -> str:
        return f"Dropout(trees={len(self.leaves)})"

    def resume(self, scales: Scales, leaves: Sequence[Leaves], trees: Sequence[Tree]) -> None:
        """Go on from what was kept."""
        self.scales, self.leaves = scales, list(leaves)
        self._weights = [tuple(n.weight or 0 for n in tree if isinstance(n, Leaf)) for tree in trees]

    def leave_out(self, drawn: Floats, margins: Ints) -> Ints:
        """Begin a boosting round: return margins (classes, some rows) without the trees that it leaves out."""
        self._dropped = trees_to_drop(self.params, self.scales, drawn)
        return self._plus(margins.copy(), self._dropped, -1)

    def close_round(
        self, trees: Sequence[GrownTree], rows: Sequence[Ints], leaves: Sequence[Leaf], margins: Ints
    ) -> None:
        """End a boosting round: add its trees to the margins (classes, all rows), and rescale those left out.

        `rows` are those inside each of the `leaves`, by place.
        """
        grown = range(len(self.leaves), len(self.leaves) + len(trees))
        self._plus(margins, self._dropped, -1)
        self.scales = scales_after(self.params, self.scales, self._dropped, len(trees))
        for tree in trees:
            places, of_row = tree.leaf_places(), np.zeros(margins.shape[1], np.uint16)
            for number, place in enumerate(places):
                of_row[rows[place]] = number
            self.leaves.append(of_row)
            self._weights.append(tuple(leaves[place].weight or 0 for place in places))
        self._plus(margins, [*self._dropped, *grown], 1)
        self._dropped = []

    def _plus(self, margins: Ints, trees: Sequence[int], sign: int) -> Ints:
        for i in trees:
            scaled = np.array([sign * scaled_weight(weight, self.scales[i]) for weight in self._weights[i]], np.int64)
            margins[self.params.output_of(i)] += scaled[self.leaves[i][: margins.shape[1]]]
        return margins
