"""Metrics of rows ranked within groups: NDCG, mean average precision, and precision, as XGBoost has them.

`codes` numbers the group of each row; without it all rows are one group. A group weighs what its rows weigh. The `top`
rows of each group count: as in XGBoost 32, unless a metric's name says how many.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import Floats, Origin, float32
from mpfedxgb.boosting.objectives.ranking import discounts, gains, graded, groups_of, ideal_dcg, ranked, relevant_or_not
from mpfedxgb.errors import DataError

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
