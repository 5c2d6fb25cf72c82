"""Losses and metrics of rows in groups: LambdaMART with pairs, NDCG and MAP (Burges, 2010), as XGBoost has them.

Within a group every pair of rows with different labels pulls the higher one up and the lower one down, by how much
exchanging the two would change the metric. Scores are ranked in float32, as XGBoost has them, so that its ties are ties
here; rows of one score keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import Floats, Gradients, Objective, Origin, Prediction, float32
from mpfedxgb.boosting.objectives.classes import sigmoid
from mpfedxgb.errors import DataError

Ints = npt.NDArray[np.int64]

LARGEST_GRADE = 31
"""Beyond this XGBoost does not take 2^grade - 1."""

_MANY = 4294967295
"""How XGBoost writes a number of pairs that is not given."""

_LEAST_SLOPE = 1e-16
_LEAST_DISTANCE = 0.01
"""XGBoost adds this to the distance of two scores before it divides by it."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Which pairs of a group count, and how: XGBoost's parameters.

    With "topk" the first `count` rows by their scores, each with all that follow it; with "mean" `count` rows of other
    labels for each row, drawn at random.
    """

    method: str
    given: int | None
    normalizes: bool
    normalizes_scores: bool
    exp_gain: bool

    @property
    def are_drawn(self) -> bool:
        """Whether pairs are drawn at random."""
        return self.method == "mean"

    @property
    def count(self) -> int:
        """How many rows, or pairs for each row."""
        return self.given or (1 if self.are_drawn else 32)


def groups_of(codes: Ints) -> Iterator[Ints]:
    """Yield the rows of every group, in their order; `codes` numbers the group of each row."""
    order = np.argsort(codes, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def gains(labels: Floats, exp_gain: bool) -> Floats:
    """Return what a row of a label adds to DCG at the first place."""
    return np.exp2(labels) - 1 if exp_gain else labels


def discounts(count: int) -> Floats:
    """Return what of a gain counts at each place."""
    return 1 / np.log2(np.arange(count) + 2)


def ideal_dcg(labels: Floats, most: int, exp_gain: bool) -> float:
    """Return the DCG of the first `most` rows in the best order."""
    best = np.sort(labels)[::-1][:most]
    return float((gains(best, exp_gain) * discounts(len(best))).sum())


def ranked(scores: Floats) -> Ints:
    """Return places from the highest score to the lowest; what is equal keeps its order."""
    return np.argsort(-scores, kind="stable")


def _ndcg_changes(pairs: Pairs, labels: Floats, high: Ints, low: Ints) -> Floats:
    ideal = ideal_dcg(labels, len(labels) if pairs.are_drawn else pairs.count, pairs.exp_gain)
    if ideal == 0:
        return np.zeros(len(high))
    gain, discount = gains(labels, pairs.exp_gain), discounts(len(labels))
    return np.abs((gain[high] - gain[low]) * (discount[high] - discount[low])) / ideal


def _map_changes(pairs: Pairs, labels: Floats, high: Ints, low: Ints) -> Floats:
    first, last = np.minimum(high, low), np.maximum(high, low)
    hits, place = np.cumsum(labels), np.arange(len(labels)) + 1.0
    if hits[-1] == 0:
        return np.zeros(len(high))
    precisions = np.cumsum(labels / place)
    between = precisions[last - 1] - precisions[first]
    n, m = hits[first], hits[last]
    rises = labels[first] < labels[last]
    up = m / place[last] - (n + 1) / place[first] - between
    down = n / place[first] - m / place[last] + between
    return np.asarray(np.abs(np.where(rises, up, down)) / hits[-1])


def _no_changes(pairs: Pairs, labels: Floats, high: Ints, low: Ints) -> Floats:
    return np.ones(len(high))


_CHANGES = {"rank:ndcg": _ndcg_changes, "rank:pairwise": _no_changes, "rank:map": _map_changes}


def _top(pairs: Pairs, labels: Floats) -> tuple[Ints, Ints]:
    """Return places of the first rows, each with every place after it."""
    first = np.arange(min(pairs.count, len(labels)))
    above, below = np.nonzero(first[:, None] < np.arange(len(labels)))
    return above, below


def _drawn(pairs: Pairs, labels: Floats, words: npt.NDArray[np.uint64]) -> tuple[Ints, Ints]:
    """Return, for each place, places with other labels, `words` (pairs of a row, places) say which."""
    order = ranked(labels)
    sorted_labels = -labels[order]
    begin, end = (np.searchsorted(sorted_labels, sorted_labels, side=side) for side in ("left", "right"))
    others = len(labels) - (end - begin)
    if not others.all():  # one label only
        return np.empty(0, np.int64), np.empty(0, np.int64)
    drawn = (words[:, order] % others.astype(np.uint64)).astype(np.int64)
    drawn += np.where(drawn >= begin, end - begin, 0)
    return np.broadcast_to(order, drawn.shape).ravel(), order[drawn].ravel()


def _of_group(
    exchange: Callable[..., Floats], pairs: Pairs, y: Floats, s: Floats, words: npt.NDArray[np.uint64] | None
) -> Gradients:
    """Return g and h of the rows of one group."""
    order = ranked(s)
    labels, scores = y[order], s[order]
    i, j = _top(pairs, labels) if words is None else _drawn(pairs, labels, words[:, order])
    differ = labels[i] != labels[j]
    i, j = i[differ], j[differ]
    swapped = labels[i] < labels[j]
    high, low = np.where(swapped, j, i), np.where(swapped, i, j)
    change = exchange(pairs, labels, high, low)
    distance = scores[high] - scores[low]
    if pairs.normalizes_scores and scores[0] != scores[-1]:
        change = change / (np.abs(distance) + _LEAST_DISTANCE)
    p = sigmoid(distance)
    pull, curve = (1 - p) * change, np.maximum(p * (1 - p), _LEAST_SLOPE) * change * 2
    g, h = (np.zeros(len(y)) for _ in range(2))
    for places, sign in ((high, -1), (low, 1)):
        g += np.bincount(order[places], sign * pull, len(y))
        h += np.bincount(order[places], curve, len(y))
    total = 2 * pull.sum()
    if not pairs.normalizes:
        norm = 1.0
    elif pairs.are_drawn:
        norm = 1 / pairs.count
    else:
        norm = np.log2(1 + total) / total if total > 0 else 1.0
    return g * norm, h * norm


def _lambdas(
    exchange: Callable[..., Floats],
    pairs: Pairs,
    codes: Ints,
    y: Floats,
    margins: Floats,
    words: npt.NDArray[np.uint64] | None = None,
) -> Gradients:
    """Return g and h, (1, rows), of rows in groups."""
    labels, scores = (np.asarray(part.astype(np.float32), np.float64) for part in (y, margins[0]))
    g, h = np.zeros((2, 1, len(y)))
    for rows in groups_of(codes):
        drawn = None if words is None else words[:, rows]
        g[0, rows], h[0, rows] = _of_group(exchange, pairs, labels[rows], scores[rows], drawn)
    return g, h


def graded(y: Floats, origin: Origin, starts: bool) -> None:
    """Refuse labels that are no grades."""
    wrong = y[(y < 0) | (y > LARGEST_GRADE) | (y != np.floor(y))]
    if wrong.size:
        held = origin.holds(float(wrong[0]), f"grades that are no integers from 0 to {LARGEST_GRADE}")
        text = f"{held}; NDCG takes integers from 0 to {LARGEST_GRADE}, or set ndcg_exp_gain=False"
        raise DataError(text, "range", origin.name)


def _not_negative(y: Floats, origin: Origin, starts: bool) -> None:
    if (y < 0).any():
        held = origin.holds(float(y.min()), "numbers below 0")
        raise DataError(f"{held}; rank:ndcg takes grades of 0 or more", "range", origin.name)


def relevant_or_not(y: Floats, origin: Origin, starts: bool) -> None:
    """Refuse labels beside 0 and 1."""
    wrong = y[(y != 0) & (y != 1)]
    if wrong.size:
        held = origin.holds(float(wrong[0]), "grades beside 0 and 1")
        raise DataError(f"{held}; MAP takes 0 and 1, NDCG takes grades", "range", origin.name)


def _any_grade(y: Floats, origin: Origin, starts: bool) -> None:
    """Take all labels: pairs ask only which is larger."""


def _from_zero(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    """Return 0: the pulls of a group add up to it, and a step of all its rows changes nothing."""
    return np.zeros(1)


def ranking(
    name: str,
    lambdarank_pair_method: str,
    lambdarank_num_pair_per_sample: int | None,
    lambdarank_normalization: bool,
    lambdarank_score_normalization: bool,
    ndcg_exp_gain: bool,
) -> Objective:
    """Return a loss of rows in groups."""
    given = lambdarank_num_pair_per_sample
    pairs = Pairs(
        lambdarank_pair_method, given, lambdarank_normalization, lambdarank_score_normalization, ndcg_exp_gain
    )
    check = {"rank:map": relevant_or_not, "rank:pairwise": _any_grade}
    metric = "map" if name == "rank:map" else "ndcg"
    return Objective(
        name=name,
        derivatives=partial(_lambdas, _CHANGES[name], pairs),
        beside="qid",
        draws=pairs.count if pairs.are_drawn else 0,
        default_metric=metric if pairs.are_drawn else f"{metric}@{pairs.count}",
        block="lambdarank_param",
        block_parameters={
            "lambdarank_bias_norm": "1",
            "lambdarank_normalization": str(int(lambdarank_normalization)),
            "lambdarank_num_pair_per_sample": str(given or _MANY),
            "lambdarank_pair_method": lambdarank_pair_method,
            "lambdarank_score_normalization": str(int(lambdarank_score_normalization)),
            "lambdarank_unbiased": "0",
            "ndcg_exp_gain": str(int(ndcg_exp_gain)),
        },
        predicts=frozenset({Prediction.RANK}),
        start=_from_zero,
        check_labels=check.get(name, graded if ndcg_exp_gain else _not_negative),
    )


# Metrics: NDCG, mean average precision, and precision, as XGBoost has them. `codes` numbers the group of each row;
# without it all rows are one group. A group weighs what its rows weigh. The `top` rows of each group count: 32, as in
# XGBoost, unless a metric's name says how many.

UNSAID_TOP = 32

Codes = npt.NDArray[np.int64] | None


def _by_group(codes: Codes, y: Floats, p: Floats, weight: Floats) -> Iterator[tuple[Floats, float]]:
    """Yield the labels of every group from the highest score to the lowest, and the weight of the group."""
    scores = float32(p[0])
    for rows in groups_of(np.zeros(len(y), np.int64) if codes is None else codes):
        yield y[rows][ranked(scores[rows])], float(weight[rows[0]])


def _mean(values: list[float], weights: list[float]) -> float:
    return min(float(np.sum(values) / np.sum(weights)), 1.0) if np.sum(weights) > 0 else float("nan")


def ndcg(codes: Codes, y: Floats, p: Floats, weight: Floats, top: int, or_zero: bool, ndcg_exp_gain: bool) -> float:
    """Return the mean of DCG as a share of the best; a group without relevant rows has 1, or with `or_zero` 0.

    As in XGBoost such a group counts with a weight of 1 above the line.
    """
    values, weights = [], []
    for labels, own in _by_group(codes, y, p, weight):
        most = min(top, len(labels))
        ideal = ideal_dcg(labels, most, ndcg_exp_gain)
        found = float((gains(labels[:most], ndcg_exp_gain) * discounts(most)).sum())
        values.append(own * found / ideal if ideal > 0 else 0.0 if or_zero else 1.0)
        weights.append(own)
    return _mean(values, weights)


def mean_average_precision(codes: Codes, y: Floats, p: Floats, weight: Floats, top: int, or_zero: bool) -> float:
    """Return the mean of average precisions; a group without relevant rows has 1, or with `or_zero` 0."""
    values, weights = [], []
    for labels, own in _by_group(codes, y, p, weight):
        most = min(top, len(labels))
        precisions = np.cumsum(labels)[:most] / (np.arange(most) + 1)
        hits = min(labels.sum(), top)
        average = float((precisions * labels[:most]).sum() / hits) if hits > 0 else 0.0 if or_zero else 1.0
        values.append(own * average)
        weights.append(own)
    return _mean(values, weights)


def precision(codes: Codes, y: Floats, p: Floats, weight: Floats, top: int, or_zero: bool) -> float:
    """Return the mean share of relevant rows among the first ones; `or_zero` changes nothing."""
    values, weights = [], []
    for labels, own in _by_group(codes, y, p, weight):
        values.append(own * float(labels[:top].mean()))
        weights.append(own)
    return _mean(values, weights)


def check_grades(name: str, y: Floats, ndcg_exp_gain: bool) -> None:
    """Raise DataError for labels that a metric does not take."""
    origin = Origin(f"the label of evaluation rows, for {name},", shows_values=False)
    if not name.startswith("ndcg"):
        relevant_or_not(y, origin, False)
    elif ndcg_exp_gain:
        graded(y, origin, False)
    elif (y < 0).any():
        raise DataError(f"{origin.name} holds numbers below 0", "range", origin.name)
