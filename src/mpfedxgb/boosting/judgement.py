"""How well probabilities tell two classes apart: ROC, gains, calibration, distribution of scores, and KS.

Everything is counts and shares over all rows, by the active participant alone; nothing names a row. Rows with equal
scores count together, so that no order among them is invented.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import Floats

BINS = 10
"""Groups of rows of a calibration, and of gains."""
BARS = 20
MOST_POINTS = 200
"""Of a curve; more lie on top of each other."""


def judge(y: Floats, p: Floats, weight: Floats | None = None) -> dict[str, Any] | None:
    """Return curves of labels 0 and 1 and probabilities as plain numbers; None if one of the classes is not there.

    "roc" are shares of negatives and of positives above each score, "gains" the shares of all rows and of positives,
    "calibration" mean score, share of positives and rows in tenths of the rows, "scores" the shares of negatives and of
    positives in twentieths of [0, 1], "ks" the largest distance between the two classes and the score where it is.
    """
    w = np.ones(len(y)) if weight is None else weight
    order = np.argsort(-p, kind="stable")
    y, p, w = y[order], p[order], w[order]
    positives, negatives = np.cumsum(w * y), np.cumsum(w * (1 - y))
    if not len(y) or positives[-1] <= 0 or negatives[-1] <= 0:
        return None
    last = np.append(np.flatnonzero(np.diff(p)), len(p) - 1)  # of each score
    x, z = np.append(0.0, negatives[last]) / negatives[-1], np.append(0.0, positives[last]) / positives[-1]
    share = np.append(0.0, (positives + negatives)[last]) / (positives + negatives)[-1]
    widest = int(np.argmax(z - x))
    groups = [g for g in np.array_split(np.arange(len(p))[::-1], BINS) if len(g)]
    bars = np.clip((p * BARS).astype(np.int64), 0, BARS - 1)
    return {
        "rows": len(y),
        "auc": float(np.sum((x[1:] - x[:-1]) * (z[1:] + z[:-1]) / 2)),
        "ks": [float(z[widest] - x[widest]), float(p[last[widest - 1]]) if widest else 1.0],
        "roc": _thinned(x, z),
        "gains": _thinned(share, z),
        "calibration": [
            [float(np.average(p[g], weights=w[g])), float(np.average(y[g], weights=w[g])), len(g)]
            for g in groups
            if w[g].sum() > 0
        ],
        "scores": [
            (np.bincount(bars, weights=w * one, minlength=BARS) / (w * one).sum()).tolist() for one in (1 - y, y)
        ],
    }


def _thinned(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> list[list[float]]:
    places = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(np.int64))
    return [[float(a), float(b)] for a, b in zip(x[places], y[places], strict=True)]
