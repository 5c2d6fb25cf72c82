"""Where an installed `xgboost` that is older than the rules of our trainings decides otherwise, rule by rule.

The rules themselves are named in boosting/xgboost_rules.py.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mpfedxgb.api.rounding import RoundedGradients
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.xgboost_rules import RULES

LIGHT_ROOT = "before XGBoost 3.4 a root lighter than min_child_weight weighs 0"
NO_HESSIAN = "before XGBoost 3.4 a split with a side of no hessian may be the best, and leaves its node a leaf"

Rows = npt.NDArray[np.bool_]


def has_older_rules(version: str) -> bool:
    """Return whether a version of `xgboost` is from before the rules that trainings here follow."""
    ours, theirs = (tuple(int(part) for part in text.split(".")[:2]) for text in (RULES, version))
    return theirs < ours


def is_light_root(params: TrainParams, now: RoundedGradients, tree: int, weight: float) -> bool:
    """Return whether the weight of a tree that is a single leaf is 0 by LIGHT_ROOT, at xgboost's own g and h."""
    whole = now.sums(tree, np.ones(now.h.shape[1], bool))
    return weight == 0 and whole.H - whole.off_h < params.min_child_weight


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
