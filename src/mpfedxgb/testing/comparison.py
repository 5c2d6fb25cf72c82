"""Two models side by side, node by node: where they part, and whether rounding or an older `xgboost` explains it.

The rules that trainings here follow are named in boosting/params.py; what an older `xgboost` decides otherwise
is named here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.boosting.join import Joined, JoinedSplit, JoinedTree
from mpfedxgb.boosting.objective import Floats, Objective, float32
from mpfedxgb.boosting.params import RULES, TrainParams, tells_zero_hessians
from mpfedxgb.data.table import FLOAT32_MAX
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.testing.rounding import (
    FLOAT32,
    FREE,
    Held,
    RoundedGradients,
    Scored,
    float32_gradients,
    integer_gradients,
    integer_gradients_of_sealed,
)
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

TIE = 1e-6
"""Relative gap of two scores below which XGBoost's float32 arithmetic cannot tell them apart."""

LEAF = 1e-5
"""Relative difference of two leaves from which on it takes rounding to explain it."""

LIGHT_ROOT = "before XGBoost 3.4 a root lighter than min_child_weight weighs 0"
NO_HESSIAN = "before XGBoost 3.4 a split with a side of no hessian may be the best, and leaves its node a leaf"
SHARED_RATE = "before XGBoost 3.4 trees left out are scaled by the learning rate over the trees of a round"

Edges = Mapping[str, npt.NDArray[np.float32]]
Rows = npt.NDArray[np.bool_]
Both = tuple[Held, Held]
"""What weights of a node are held to in the federation, and in `xgboost`."""


def has_older_rules(version: str) -> bool:
    """Return whether a version of `xgboost` is from before the rules that trainings here follow."""
    ours, theirs = (tuple(int(part) for part in text.split(".")[:2]) for text in (RULES, version))
    return theirs < ours


def leaves_all_out(params: TrainParams) -> bool:
    """Return whether every boosting round leaves all trees out, hence fits where rows start: nothing is drawn."""
    return params.drops_trees and (params.rate_drop, params.skip_drop, params.sample_type) == (1, 0, "uniform")


def leaves_out_at_random(params: TrainParams) -> bool:
    """Return whether it is drawn at random which trees boosting rounds leave out."""
    return params.drops_trees and params.skip_drop < 1 and not leaves_all_out(params)


def ends_a_node(
    params: TrainParams, now: RoundedGradients, tree: int, rows: Rows, lefts: Iterable[Rows], least: float
) -> bool:
    """Return whether NO_HESSIAN ends a node of these rows: a split without hessian on a side scores `least` or more.

    `lefts` are the rows that go left by each candidate, `now` xgboost's own g and h. Such a candidate takes part if
    min_child_weight is 0, and scores by its other side.
    """
    if params.min_child_weight > 0:
        return False
    denominator = float(now.h[tree, rows].sum()) + params.reg_lambda
    for left in lefts:
        for empty in (rows & left, rows & ~left):
            if not now.h[tree, empty].any():
                G = now.g[tree, rows & ~empty].sum()
                if least * denominator <= G**2:
                    return True
    return False


@dataclass(frozen=True, slots=True)
class Condition:
    """A split on binned columns: rows in the first `bins` bins, or not of `category`, go left."""

    column: int
    bins: int
    category: int | None
    missing_left: bool


def _beyond(a: float, b: float, error: float) -> float:
    """Return by how much two numbers differ beyond an error, relative to the larger."""
    return max(abs(a - b) - error, 0.0) / max(abs(a), abs(b), 1e-30)


class Comparison:
    """Walks two models side by side, and judges where they part.

    Rows begin at `start`, (classes, rows), if they have margins of their own.
    """

    def __init__(
        self,
        joined: Joined,
        columns: list[str],
        edges: Edges,
        binned: pd.DataFrame,
        y: Floats,
        weight: Floats | None,
        loss: Objective,
        older_rules: bool,
        start: Floats | None = None,
        directions: Sequence[int] = (),
    ) -> None:
        step = joined.params.largest_step
        self.root = Held(-step, step) if step else FREE
        self.directions = directions or (0,) * len(columns)
        self.older_rules = older_rules
        self.joined, self.columns, self.edges, self.y, self.weight, self.loss = joined, columns, edges, y, weight, loss
        self.place = {(owner, f.name): i for i, (owner, f) in enumerate(joined.features)}
        self.codes = [
            np.where(c.isna(), np.nan, c.cat.codes) if isinstance(c.dtype, pd.CategoricalDtype) else c.to_numpy()
            for c in (binned[column] for column in columns)
        ]
        self.difference = ""
        self.ties: list[str] = []
        self.compared = 0
        self.leaf_difference = 0.0
        self.rounded_leaves = 0
        self.start = np.repeat(np.array(joined.base_margin)[:, None], len(y), axis=1) if start is None else start
        self.has_own_start = start is not None
        self.margins = encode_fixed(self.start, WEIGHT_BITS)  # ours, in the units of leaf weights
        self.apart = np.zeros(self.margins.shape)
        self._largest = np.zeros(self.margins.shape)
        self._ours_now: RoundedGradients
        self._theirs_now: RoundedGradients

    def run(self, theirs: dict[str, Any], margins_before: Callable[[int], tuple[Floats, bool]]) -> None:
        """Compare all trees, or those up to the end of the first round with a tie."""
        booster = theirs["learner"]["gradient_booster"]
        model = booster.get("gbtree", booster)["model"]  # before 3.4 dart's is within
        trees = model["trees"]
        if len(trees) != len(self.joined.trees):
            self.difference = f"{len(self.joined.trees)} trees against {len(trees)}"
            return
        start = self._start(theirs["learner"]["learner_model_param"]["base_score"])
        if self.difference:
            return
        per_round, begins_anew = self.joined.params.trees_per_round, leaves_all_out(self.joined.params)
        for number, (tree, other) in enumerate(zip(self.joined.trees, trees, strict=True)):
            if number % per_round == 0:
                if not self.ties:
                    self._begin_round(
                        number, *(margins_before(number // per_round) if number and not begins_anew else (start, False))
                    )
                if self.ties:
                    return
            self._node(number, tree, 0, other, 0, np.ones(len(self.y), bool), self._roots())
            if self.difference:
                return
            self.compared += 1
        if self.joined.tree_scales is not None:
            self._compare_scales(self.joined.tree_scales, model.get("weight_drop") or booster["weight_drop"])

    def _start(self, base_score: str) -> Floats:
        """Compare where training starts; xgboost adds up in float32, so each row may cost it a rounding."""
        ours = np.array(self.joined.base_margin)
        theirs = np.broadcast_to(self.loss.link.to_margin(np.atleast_1d(json.loads(base_score))), ours.shape)
        if not self.has_own_start:
            self.apart += np.abs(ours - theirs)[:, None]
        largest = max(1.0, float(np.abs(ours).max()), float(np.abs(self.y).max()))
        if np.abs(ours - theirs).max() > FLOAT32 * len(self.y) * largest:
            self.difference = f"training starts from {ours}, xgboost's from {theirs}"
        if self.has_own_start:
            return float32(self.start)
        return np.repeat(theirs.astype(np.float64)[:, None], len(self.y), axis=1)

    def _compare_scales(self, ours: Sequence[float], written: Sequence[float]) -> None:
        theirs = [float(np.float32(scale)) for scale in written]
        if list(ours) == theirs:
            return
        if self.older_rules and self.joined.params.trees_per_round > 1:
            self.ties.append(f"scales of trees: {SHARED_RATE}")
        else:
            self.difference = self.difference or f"trees are scaled by {list(ours)}, xgboost's by {theirs}"

    def _begin_round(self, number: int, margins: Floats, is_exact: bool) -> None:
        """Compute what each model makes of g and h, at its own margins; add this round's trees to ours."""
        self._largest = np.maximum(self._largest, np.abs(margins))
        error = np.zeros_like(margins) if is_exact else FLOAT32 * self._largest  # of sums in float32
        params, per_round = self.joined.params, self.joined.params.trees_per_round
        if params.facts.hides_rows:
            sums = self.margins - encode_fixed(self.start, WEIGHT_BITS)
            self._ours_now = integer_gradients_of_sealed(params, self.y, self.weight, self.start, sums, number)
        else:
            ours = np.ldexp(self.margins.astype(np.float64), -WEIGHT_BITS)
            self._ours_now = integer_gradients(params, self.loss, self.y, self.weight, ours)
        self._theirs_now = float32_gradients(params, self.loss, self.y, self.weight, margins, error)
        if not self._theirs_now.fit_float32:
            self.ties.append(f"tree {number}: g or h is beyond float32, so xgboost cannot go on")
        added = () if leaves_all_out(params) else self.joined.trees[number : number + per_round]
        for k, tree in enumerate(added):
            self._add(tree, 0, params.output_of(k), np.ones(len(self.y), bool))

    def _add(self, tree: JoinedTree, i: int, class_: int, rows: Rows) -> None:
        """Add a tree's weights to our margins."""
        node = tree[i]
        if isinstance(node, Leaf):
            assert node.weight is not None
            self.margins[class_, rows] += node.weight
            return
        left = self._left(self._ours(node))
        self._add(tree, node.left, class_, rows & left)
        self._add(tree, node.right, class_, rows & ~left)

    def _roots(self) -> Both:
        """Return what weights of a root are held to."""
        most, step = min(self.root.hi, self._ours_now.largest), self._ours_now.bound_step
        return Held(-most, most, step, step), self.root

    def _leaf(self, number: int, weight: int, theirs: float, rows: Rows, is_root: bool, held: Both) -> None:
        """Hold two leaves of the same rows to what each model's own g and h make of them."""
        params, class_ = self.joined.params, self.joined.params.output_of(number)
        there = self._theirs_now.sums(class_, rows)
        is_light = theirs == 0 and there.H - there.off_h < params.min_child_weight
        if is_root and weight and is_light and self.older_rules:
            self.ties.append(f"tree {number}: {LIGHT_ROOT}")
            return
        ours = float(np.ldexp(float(weight), -WEIGHT_BITS))
        own = (
            replace(params, reg_lambda=self._ours_now.reg_lambda) if params.facts.hides_rows else params
        )  # lambda~ divides
        expected, error = self._ours_now.sums(class_, rows).leaf(own, held[0])
        expected_there, error_there = there.leaf(params, held[1])
        step = self._ours_now.leaf_step
        beyond = _beyond(ours, expected, error + step) + _beyond(theirs, expected_there, error_there)
        self.leaf_difference = max(self.leaf_difference, beyond)
        self.rounded_leaves += beyond <= LEAF < _beyond(ours, theirs, step)
        self.apart[class_, rows] += abs(expected - expected_there) + error + error_there + step
        if is_root and beyond > 1e-3 and abs(ours - theirs) > 1e-5:
            self.difference = f"tree {number} is a single leaf of {ours:.9g}, xgboost's one of {theirs:.9g}"

    def _node(
        self, number: int, tree: JoinedTree, i: int, other: dict[str, Any], j: int, rows: Rows, held: Both
    ) -> None:
        node, is_leaf = tree[i], other["left_children"][j] == -1
        if isinstance(node, Leaf) and is_leaf:
            assert node.weight is not None
            self._leaf(number, node.weight, float(other["split_conditions"][j]), rows, i == 0, held)
            return
        mine = None if isinstance(node, Leaf) else self._ours(node)
        yours = None if is_leaf else self._theirs(other, j)
        if mine != yours or isinstance(node, Leaf):
            self._judge(f"tree {number}, node {i}", number, mine, yours, rows, held)
            return
        assert mine is not None
        left, right = self._parted(mine, self.joined.params.output_of(number), rows, held)
        side = rows & self._left(mine)
        self._node(number, tree, node.left, other, other["left_children"][j], side, left)
        self._node(number, tree, node.right, other, other["right_children"][j], rows & ~side, right)

    def _parted(self, condition: Condition, class_: int, rows: Rows, held: Both) -> tuple[Both, Both]:
        """Return what weights of both sides of a split are held to, here and there."""
        side, parts = self._left(condition), []
        for now, own in zip((self._ours_now, self._theirs_now), held, strict=True):
            weights = [self._weight(now, class_, rows & some, own) for some in (side, ~side)]
            parts.append(own.parted(self.directions[condition.column], *weights))
        (left, right), (left_there, right_there) = parts
        return (left, left_there), (right, right_there)

    def _weight(self, now: RoundedGradients, class_: int, rows: Rows, held: Held) -> tuple[float, float]:
        """Return a node's weight by one model's g and h, and how far it may be off as a bound."""
        weight, error = now.sums(class_, rows).weight(now.reg_lambda, self.joined.params.reg_alpha, held)
        return weight, error + now.bound_step + (FLOAT32 * abs(weight) if now is self._theirs_now else 0.0)

    def _ours(self, node: JoinedSplit) -> Condition:
        column = self.place[node.owner, node.feature]
        if node.category is not None:
            return self._condition(column, 0, node.category, node.missing_left)
        assert node.threshold is not None
        edges = self.edges[self.columns[column]]
        bins = int(np.searchsorted(edges, np.float32(min(node.threshold, 3.4e38)), side="right"))
        return self._condition(column, len(edges) + 1 if np.isposinf(node.threshold) else bins, None, node.missing_left)

    def _theirs(self, other: dict[str, Any], j: int) -> Condition:
        column, missing_left = other["split_indices"][j], bool(other["default_left"][j])
        if other["split_type"][j]:
            at = other["categories_nodes"].index(j)
            return self._condition(column, 0, other["categories"][other["categories_segments"][at]], missing_left)
        bins = int(np.ceil(np.clip(other["split_conditions"][j], 0, len(self.edges[self.columns[column]]) + 1)))
        return self._condition(column, bins, None, missing_left)

    def _condition(self, column: int, bins: int, category: int | None, missing_left: bool) -> Condition:
        # Where a column has no missing values in training, the default side means nothing.
        return Condition(column, bins, category, missing_left and bool(np.isnan(self.codes[column]).any()))

    def _left(self, condition: Condition) -> Rows:
        codes = self.codes[condition.column]
        present = codes < condition.bins if condition.category is None else codes != condition.category
        return np.where(np.isnan(codes), condition.missing_left, present)

    def _judge(
        self, where: str, number: int, mine: Condition | None, yours: Condition | None, rows: Rows, held: Both
    ) -> None:
        """Decide whether rounding makes two splits of one node a tie: each must be better by its own g and h."""
        class_ = self.joined.params.output_of(number)
        a, b = (self._score(self._theirs_now, c, class_, rows, held[1]) for c in (mine, yours))
        ours_a, ours_b = (self._score(self._ours_now, c, class_, rows, held[0]) for c in (mine, yours))
        mine_here, yours_here = (self._allowed(self._ours_now, c, class_, rows) for c in (mine, yours))
        mine_there, yours_there = (self._allowed(self._theirs_now, c, class_, rows) for c in (mine, yours))
        ours_is_right = mine_here is not False and (ours_a.most >= ours_b.least or not yours_here)
        slack = TIE * max(a.size, b.size)
        theirs_is_right = yours_there is not False and (b.most + slack >= a.least or not mine_there)
        overflows = not theirs_is_right and any(self._overflows(c, class_, rows) for c in (mine, yours))
        text = f"{where}: {self._describe(mine)} scores {a.value:.9g}, "
        text += f"xgboost's {self._describe(yours)} {b.value:.9g}, by xgboost's g and h; by the integers of the "
        text += f"federation, exactly, they are {ours_a.value:.17g} and {ours_b.value:.17g}"
        if ours_is_right and yours is None and self.older_rules and self._ends(class_, rows, (1 - TIE) * a.least):
            self.ties.append(f"{text}; {NO_HESSIAN}")
        elif not (ours_is_right and (theirs_is_right or overflows)):
            self.difference = self.difference or text
        elif overflows:
            self.ties.append(f"{text}; xgboost's float32 overflowed, as the square of a sum of g is beyond it")
        elif abs(a.value - b.value) <= slack:
            self.ties.append(f"{text}; float32 cannot tell them apart")
        elif b.most + slack >= a.least and ours_a.most >= ours_b.least:
            self.ties.append(f"{text}; rounding of g and h explains it")
        else:
            self.ties.append(f"{text}; the better one has a side of min_child_weight")

    def _score(self, now: RoundedGradients, condition: Condition | None, class_: int, rows: Rows, held: Held) -> Scored:
        """Return the score of a split or, with gamma, of none, by one model's g and h."""
        sides = [rows] if condition is None else [rows & self._left(condition), rows & ~self._left(condition)]
        alpha = self.joined.params.reg_alpha
        scores = [now.sums(class_, side).score(now.reg_lambda, alpha, held) for side in sides if side.any()]
        return Scored(*(np.sum(scores, axis=0) + (now.gamma if condition is None else 0.0)).tolist())

    def _overflows(self, condition: Condition | None, class_: int, rows: Rows) -> bool:
        """Return whether a score takes the square of a sum of g that is beyond float32, where xgboost computes it."""
        left = rows if condition is None else rows & self._left(condition)
        return any(abs(self._theirs_now.sums(class_, r).G) ** 2 > FLOAT32_MAX for r in (left, rows & ~left))

    def _allowed(self, now: RoundedGradients, condition: Condition | None, class_: int, rows: Rows) -> bool | None:
        """Return whether both sides have min_child_weight and some hessian at all; None if rounding decides."""
        least = self.joined.params.min_child_weight
        if condition is None:
            return True
        left = self._left(condition)
        sums = [now.sums(class_, rows & side) for side in (left, ~left)]
        if direction := self.directions[condition.column]:
            (a, off_a), (b, off_b) = (self._weight(now, class_, rows & side, FREE) for side in (left, ~left))
            if direction * (b - a) < off_a + off_b:
                return None if direction * (b - a) >= -(off_a + off_b) else False
        off = [side.off_h and side.off_h + TIE * least for side in sums]  # integers are exact
        if any(side.H + o < least for side, o in zip(sums, off, strict=True)):
            return False
        needs_hessian = now is self._theirs_now or tells_zero_hessians(self.joined.params)
        if any(side.H - o < least or (needs_hessian and o >= side.H) for side, o in zip(sums, off, strict=True)):
            return None if any(off) else False
        return True

    def _ends(self, class_: int, rows: Rows, least: float) -> bool:
        """Return whether a rule of older versions leaves a node a leaf whose best split scores `least`."""
        lefts = (self._left(condition) for condition in self._every_condition())
        return ends_a_node(self.joined.params, self._theirs_now, class_, rows, lefts, least)

    def _every_condition(self) -> Iterator[Condition]:
        """Yield all splits of a column by the numbers of its bins, or one category against the rest."""
        for column, codes in enumerate(self.codes):
            numbers = np.unique(codes[~np.isnan(codes)]).astype(int).tolist()
            is_number = self.columns[column] in self.edges
            for code, missing_left in product(numbers, (False, True)):
                yield self._condition(column, code + 1 if is_number else 0, None if is_number else code, missing_left)

    def _describe(self, condition: Condition | None) -> str:
        if condition is None:
            return "leaf"
        what = f"first {condition.bins} bins" if condition.category is None else f"not category {condition.category}"
        return f"{self.columns[condition.column]} ({what}{', missing' if condition.missing_left else ''})"
