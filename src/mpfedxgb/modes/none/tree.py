"""SecureBuild in the clear: the tree that the secure code would give, of everybody's columns in one place.

A histogram per node and column, in integers; of two siblings, the larger has what the smaller leaves of their parent's.
Scores are compared as doubles first, whose error is bounded, and as exact fractions where that does not tell: the
winner is the one that the tournament under secret sharing has.

Bounds of leaf weights are in units of 2^-places of G~ / H~. A root is held to delta~ on both sides; a split on a column
that has a direction parts the bounds of its node between its children, in the middle of their weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.data.binning import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.ring.kernels import I64, U8
from mpfedxgb.ring.plain_kernels import (
    F64,
    FEATURE,
    NOT_ALLOWED,
    Codes,
    hold_candidates,
    part_rows,
    score_candidates,
    score_held,
    score_side,
    sum_bins,
)
from mpfedxgb.tree.nodes import GrownTree

Bounds = tuple[int, int]
Sums = tuple[int, int]
"""G~ and H~."""


@dataclass(frozen=True, slots=True)
class PlainRules:
    """How a tree grows: the integer constants of the round, and where "no split" stands among ties.

    `delta` bounds weights, in units of 2^-places of G~ / H~; None: nothing does. `directions` are those of the
    candidates, (candidates,), None without constraints; bounds are multiples of 2^coarse then, and there is a delta.
    """

    max_depth: int
    lam: int
    gam: int
    mcw: int
    no_split_first: bool
    first_layer_mask: bool
    alpha: int = 0
    delta: int | None = None
    places: int = 0
    coarse: int = 0
    directions: I64 | None = field(default=None, repr=False)

    @property
    def root(self) -> Bounds | None:
        """The bounds of a root; None where nothing holds weights."""
        return None if self.delta is None else (-self.delta, self.delta)


def threshold(G: int, rules: PlainRules) -> int:
    """Return T: G, alpha nearer to 0, or 0."""
    T = max(abs(G) - rules.alpha, 0)
    return T if G > 0 else -T


def held_at(G: int, H: int, rules: PlainRules, bounds: Bounds) -> int | None:
    """Return the bound that holds the weight of a node; None if it is within them."""
    T, D = threshold(G, rules) << rules.places, H + rules.lam
    return bounds[0] if T + D * bounds[0] > 0 else bounds[1] if T + D * bounds[1] < 0 else None


def numerator(G: int, H: int, rules: PlainRules, bounds: Bounds | None) -> int:
    """Return 2^(2 places) times a side's score times D = H + lambda: T^2, or -(D b)(2 (G + alpha sgn b) + D b)."""
    b = None if bounds is None else held_at(G, H, rules, bounds)
    if b is None:
        return threshold(G, rules) ** 2 << 2 * rules.places
    step = (H + rules.lam) * b
    return -step * (2 * (G + (rules.alpha if b > 0 else -rules.alpha) << rules.places) + step)


def keeps_to(direction: int, left: Sums, right: Sums, rules: PlainRules) -> bool:
    """Return whether the weights of both sides, without bounds, are the right way round for a column's direction."""
    (GL, HL), (GR, HR) = left, right
    apart = threshold(GL, rules) * (HR + rules.lam) - threshold(GR, rules) * (HL + rules.lam)
    return direction * apart >= 0


def of_sides(direction: int, left: Sums, right: Sums, rules: PlainRules, bounds: Bounds) -> tuple[Bounds, Bounds]:
    """Return the bounds of the children: floor((w_L + w_R) / 2) parts them, of weights that are held and rounded."""
    if not direction:
        return bounds, bounds
    middle = sum(_rounded(*side, rules, bounds) for side in (left, right)) // 2 << rules.coarse
    upper, lower = (bounds[0], middle), (middle, bounds[1])
    return (upper, lower) if direction > 0 else (lower, upper)


def _rounded(G: int, H: int, rules: PlainRules, bounds: Bounds) -> int:
    """Return a weight within bounds in steps of 2^coarse, halves going up."""
    b = held_at(G, H, rules, bounds)
    if b is not None:
        return b >> rules.coarse
    D = H + rules.lam << rules.coarse
    return (2 * (-threshold(G, rules) << rules.places) + D) // (2 * D)


NEAR = 2.0**-48
"""Scores nearer than this, as a share of the larger, are compared exactly. Each has an error of at most 12 roundings of
2^-53: of two sums to doubles, of two denominators, of bounds of weights and of what is made of them."""

_AT_ONCE = 1 << 20
"""Nodes times candidates, or bins, whose scores and sums are kept at a time."""

NO_SPLIT = -1

Coin = Callable[[int, int], bool]
"""(owner, node) -> whether that owner calls its left side right."""

NodeSample = Callable[[Sequence[int], int], U8]
"""(nodes of a level, their depth) -> which candidates take part in each, (nodes, candidates)."""


@dataclass(frozen=True, slots=True, eq=False)
class PlainTable:
    """All participants' binned columns and candidates, in their order, and their evaluation rows.

    items (candidates, 5) as the kernels read them; owners and local (candidates,) say whose each is, and its number
    there.
    """

    candidates: Sequence[Candidates]
    evaluation: Sequence[Sequence[Table]]
    codes: Codes = field(repr=False)
    counts: I64 = field(repr=False)
    items: I64 = field(repr=False)
    owners: I64 = field(repr=False)
    local: I64 = field(repr=False)

    @classmethod
    def of(cls, candidates: Sequence[Candidates], evaluation: Sequence[Sequence[Table]]) -> PlainTable:
        """Put the participants' candidates together."""
        items, features = [], 0
        for own in candidates:
            r = own.ranges
            columns = (features + r.feature, r.low, r.high, r.missing_left, r.is_categorical)
            items.append(np.stack([column.astype(np.int64) for column in columns], axis=1))
            features += len(r.counts)
        return cls(
            candidates,
            evaluation,
            np.concatenate([own.bins.codes for own in candidates]),
            np.concatenate([own.ranges.counts for own in candidates]),
            np.concatenate(items),
            np.repeat(np.arange(ACTIVE, len(candidates) + ACTIVE), [len(own) for own in candidates]),
            np.concatenate([np.arange(len(own)) for own in candidates]),
        )

    @property
    def rows(self) -> int:
        """How many training rows there are."""
        return int(self.codes.shape[1])

    @property
    def eval_rows(self) -> int:
        """How many evaluation rows there are."""
        return sum(table.rows for table in self.evaluation[0])

    def eval_left(self, candidate: int) -> npt.NDArray[np.bool_]:
        """Return which evaluation rows go left by a candidate."""
        owner, local = int(self.owners[candidate]) - ACTIVE, int(self.local[candidate])
        left = [self.candidates[owner].rows_left(local, table) for table in self.evaluation[owner]]
        return np.concatenate(left).astype(bool)


@dataclass(frozen=True, slots=True, eq=False)
class PlainLeaf:
    """A leaf: the rows inside, and which bound its weight is held at in a constrained training, if any."""

    rows: I64
    held: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """An open node: its number, where its training rows are in the common order, its evaluation rows, its bounds."""

    number: int
    start: int
    stop: int
    evaluated: I64
    bounds: Bounds | None


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """The rows of a table in a tree that grows: in the order of its nodes, with g and h, and the features wanted."""

    table: PlainTable
    order: I64
    pairs: I64
    wanted: U8

    def sums(self, start: int, stop: int) -> Sums:
        """Return G and H of the rows at some places of the order."""
        G, H = self.pairs[start:stop].sum(axis=0).tolist()
        return G, H


def grow_plain(
    table: PlainTable,
    gh: I64,
    rules: PlainRules,
    allowed: U8 | None,
    coin: Coin,
    places: int = 0,
    sample: NodeSample | None = None,
) -> tuple[GrownTree, list[PlainLeaf]]:
    """Return one tree, with the owners and candidates of all splits, and its leaves by place.

    gh (2, rows) are the round's integers; allowed (candidates,) is the sample of columns, of which nodes may have a
    `sample` of their own. Places are counted from `places` on, as those of a round with several trees. Evaluation rows
    are counted behind the training rows.
    """
    tree, leaves = GrownTree(), list[PlainLeaf]()
    every = np.ones(len(table.items), np.uint8) if allowed is None else np.ascontiguousarray(allowed)
    wanted = np.zeros(len(table.counts), np.uint8)
    wanted[table.items[every != 0, FEATURE]] = 1
    rows = _Rows(table, np.arange(table.rows), np.ascontiguousarray(gh.T), wanted)
    level = [_Node(0, 0, table.rows, np.arange(table.rows, table.rows + table.eval_rows), rules.root)]
    kept: I64 | None = None
    for depth in range(rules.max_depth if len(table.items) else 0):
        permitted = every
        if rules.first_layer_mask and not depth:
            permitted = every & (table.owners == ACTIVE).astype(np.uint8)
        by_node = None if sample is None else sample([node.number for node in level], depth)
        best, kept = _best(rows, level, rules, permitted, kept, by_node)
        for node, candidate in zip(level, best, strict=True):
            if candidate == NO_SPLIT:
                leaves.append(_close(tree, node, rows, rules, places + len(leaves)))
        splitting = [i for i, candidate in enumerate(best) if candidate != NO_SPLIT]
        if not splitting:
            return tree, leaves
        level = _children(rows, [(level[i], best[i]) for i in splitting], tree, coin, rules)
        kept = None if kept is None else kept[splitting]
    for node in level:
        leaves.append(_close(tree, node, rows, rules, places + len(leaves)))
    return tree, leaves


def _close(tree: GrownTree, node: _Node, rows: _Rows, rules: PlainRules, place: int) -> PlainLeaf:
    """Turn a node into a leaf. Its rows stay where they are: later levels move those of their own nodes only."""
    tree.close(node.number, place)
    inside = np.concatenate([rows.order[node.start : node.stop], node.evaluated])
    if rules.directions is None or node.bounds is None:
        return PlainLeaf(inside)
    return PlainLeaf(inside, held_at(*rows.sums(node.start, node.stop), rules, node.bounds))


def _children(
    rows: _Rows, splitting: Sequence[tuple[_Node, int]], tree: GrownTree, coin: Coin, rules: PlainRules
) -> list[_Node]:
    """Return the nodes of the next level, numbered as XGBoost does, after the rows have gone to their sides."""
    table = rows.table
    splits = np.array([(node.start, node.stop, candidate) for node, candidate in splitting], np.int64)
    middles = np.empty(len(splits), np.int64)
    part_rows(table.codes, table.items, table.counts, splits, rows.order, rows.pairs, middles)
    level = []
    for (node, candidate), middle in zip(splitting, middles.tolist(), strict=True):
        evaluated = (node.evaluated, node.evaluated)
        if table.eval_rows:
            left = table.eval_left(candidate)[node.evaluated - table.rows]
            evaluated = (node.evaluated[left], node.evaluated[~left])
        owner = int(table.owners[candidate])
        flipped = coin(owner, node.number)
        bounds = node.bounds, node.bounds
        if rules.directions is not None and node.bounds is not None:
            sums = rows.sums(node.start, middle), rows.sums(middle, node.stop)
            bounds = of_sides(int(rules.directions[candidate]), *sums, rules, node.bounds)
        sides = [(node.start, middle, evaluated[0], bounds[0]), (middle, node.stop, evaluated[1], bounds[1])]
        numbers = tree.split(node.number, owner, int(table.local[candidate]), flipped)
        level += [_Node(n, *side) for n, side in zip(numbers, sides[::-1] if flipped else sides, strict=True)]
    return level


def _best(
    rows: _Rows,
    level: Sequence[_Node],
    rules: PlainRules,
    allowed: U8,
    parents: I64 | None,
    by_node: U8 | None = None,
) -> tuple[list[int], I64 | None]:
    """Return the best candidate of every node, or NO_SPLIT, and the sums of all nodes if they are few enough to keep.

    Candidates take part that are allowed, in all nodes and `by_node` (nodes, candidates). `parents` has the sums of the
    nodes whose children the level consists of, two by two.
    """
    items, counts = rows.table.items, rows.table.counts
    bins = 1 + int(counts.sum()) + len(counts)
    step = max(2, _AT_ONCE // max(len(items), bins) // 2 * 2)  # siblings stay together
    best = list[int]()
    for first in range(0, len(level), step):
        nodes = level[first : first + step]
        above = None if parents is None else parents[first // 2 : (first + step) // 2]
        sums = _sums(rows, nodes, np.empty((len(nodes), bins, 2), np.int64), above)
        left, scores = np.empty((len(nodes), len(items), 2), np.int64), np.empty((len(nodes), len(items)))
        numbers = float(rules.lam), rules.mcw, rules.alpha, _largest(rules)
        score_candidates(sums, items, counts, allowed, *numbers, left, scores)
        if by_node is not None:
            scores[by_node[first : first + step] == 0] = NOT_ALLOWED
        if rules.directions is not None:
            best += _choose_held(rules, nodes, np.ascontiguousarray(sums[:, 0]), left, scores)
            continue
        for (G, H), own, own_scores in zip(sums[:, 0].tolist(), left, scores, strict=True):
            best.append(_choose(rules, G, H, own, own_scores))
    return best, sums if len(level) <= step else None


def _sums(rows: _Rows, nodes: Sequence[_Node], sums: I64, parents: I64 | None) -> I64:
    """Fill in the sums of nodes: from their rows, or of the larger of two siblings from what its parent has."""
    table = rows.table
    scanned = np.array([(node.start, node.stop, i) for i, node in enumerate(nodes)], np.int64)
    if parents is not None:
        sizes = (scanned[:, 1] - scanned[:, 0]).reshape(-1, 2)
        small = 2 * np.arange(len(parents)) + (sizes[:, 1] < sizes[:, 0])
        scanned = scanned[small]
    sum_bins(table.codes, rows.order, rows.pairs, scanned, table.counts, rows.wanted, sums)
    if parents is not None:
        sums[small ^ 1] = parents - sums[small]
    return sums


def _largest(rules: PlainRules) -> float:
    """Return the bound on all weights, in units of G~ / H~."""
    return math.inf if rules.delta is None else math.ldexp(rules.delta, -rules.places)


def _choose(rules: PlainRules, G: int, H: int, left: I64, scores: F64) -> int:
    """Return the best candidate of a node from their left sums (candidates, 2) and scores; ties go to the first."""
    no_split = score_side(G, float(H) + float(rules.lam), rules.alpha, _largest(rules)) + float(rules.gam)
    best = max(float(scores.max()), no_split)
    return _choose_near(rules, (G, H), rules.root, left, scores, no_split, best * (1 - NEAR))


def _choose_held(rules: PlainRules, nodes: Sequence[_Node], totals: I64, left: I64, scores: F64) -> list[int]:
    """Return the best candidate of every node of a constrained tree; scores (nodes, candidates) are written anew.

    Terms of both signs add up to a score there, so what it may be off by is a share of their sizes.
    """
    assert rules.directions is not None
    lam, best = float(rules.lam), list[int]()
    bounds = np.ldexp(np.array([node.bounds for node in nodes], np.float64), -rules.places)
    sizes = np.empty_like(scores)
    hold_candidates(left, totals, rules.directions, lam, rules.alpha, bounds, scores, sizes)
    for i, (node, (G, H)) in enumerate(zip(nodes, totals.tolist(), strict=True)):
        for c in np.flatnonzero(sizes[i] < 0).tolist():
            GL, HL = left[i, c].tolist()
            if not keeps_to(int(rules.directions[c]), (GL, HL), (G - GL, H - HL), rules):
                scores[i, c] = -math.inf
        no_split, size = score_held(G, float(H) + lam, rules.alpha, *bounds[i].tolist())
        largest = max(float(np.abs(sizes[i]).max(initial=0.0)), size)
        least = max(float(scores[i].max()), no_split + float(rules.gam)) - largest * NEAR
        best.append(_choose_near(rules, (G, H), node.bounds, left[i], scores[i], no_split + float(rules.gam), least))
    return best


def _choose_near(
    rules: PlainRules, sums: Sums, bounds: Bounds | None, left: I64, scores: F64, no_split: float, least: float
) -> int:
    """Return the best of the candidates, and "no split", whose scores are `least` or more; exactly, if several are."""
    near = np.flatnonzero(scores >= least).tolist()
    if not near:
        return NO_SPLIT
    if len(near) == 1 and no_split < least:
        return int(near[0])
    return _choose_exactly(rules, *sums, bounds, [(c, *left[c].tolist()) for c in near])


def _choose_exactly(
    rules: PlainRules, G: int, H: int, bounds: Bounds | None, near: Sequence[tuple[int, int, int]]
) -> int:
    """Return the best of some candidates (number, G_L, H_L) and "no split", by Python's integers."""
    base = H + rules.lam
    best, A, B = NO_SPLIT, numerator(G, H, rules, bounds) + (rules.gam * base << 2 * rules.places), base
    is_first = not rules.no_split_first  # "no split" comes last, so the first candidate need not be better than it
    seen = set()
    for candidate, GL, HL in near:
        if (GL, HL) in seen:  # the same rows by another threshold: a tie, which goes to the first
            continue
        seen.add((GL, HL))
        left, right = HL + rules.lam, H - HL + rules.lam
        a = numerator(GL, HL, rules, bounds) * right + numerator(G - GL, H - HL, rules, bounds) * left
        b = left * right
        if a * B > A * b or (is_first and a * B == A * b):
            best, A, B, is_first = candidate, a, b, False
    return best
