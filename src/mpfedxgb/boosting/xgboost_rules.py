"""The edge rules of one XGBoost release, by name: which sides may be split apart, and which leaves weigh nothing.

`xgboost_rules` stands in model files, in the parameters that all roles agree on and in what a checkpoint belongs to
(ADR 0026). When a release changes a rule, its name changes here, and so does what this module answers.

Rules "3.4" (XGBoost's pull requests 12296 and 12322): a candidate is valid only if both sides have H > 0 and
H >= min_child_weight; the others are void before candidates compete. A leaf weighs -G / (H + lambda), however light it
is, and 0 only if none of its rows has a hessian.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mpfedxgb.boosting.objective import Floats
from mpfedxgb.schema.training import BY_NAME

if TYPE_CHECKING:
    from mpfedxgb.boosting.params import TrainParams

RULES, UNNAMED = BY_NAME["xgboost_rules"].kind.choices
"""The rules that trainings follow, and those of model files and checkpoints that name none: there a root lighter than
min_child_weight weighs 0, and a candidate with a side of no hessian competes by its other side and, if it is the best,
leaves its node a leaf."""


def checks_sides(params: TrainParams) -> bool:
    """Return whether the sides of candidates have to be compared with a least hessian."""
    return params.min_child_weight > 0 or tells_zero_hessians(params)


def tells_zero_hessians(params: TrainParams) -> bool:
    """Return whether h~ = 0 has to mean a hessian of 0, so that every other h is rounded to 1 or more.

    That is so where a candidate with a side of no hessian could win, or divide by 0. Named losses have h = 0 only where
    g = 0 too (row weights of 0, rows outside the sample): such a side leaves the other with all of G and H, so it
    scores gamma~ >= 1 less than "no split" and needs no check. A custom loss may have h = 0 beside any g. With
    min_child_weight > 0 the least hessian is 1 or more anyway.
    """
    return params.reg_lambda == 0 or (params.loss.is_custom and params.min_child_weight == 0)


def least_hessian(params: TrainParams, min_child_weight: int) -> int:
    """Return what H~ of both sides is compared with, given min_child_weight in the units of h~, rounded up."""
    return max(1, min_child_weight) if tells_zero_hessians(params) else min_child_weight


def gradients_that_count(g: Floats, h: Floats) -> Floats:
    """Return g (trees, rows), 0 in trees none of whose rows has a hessian: their only leaf weighs nothing.

    Asked of h before rounding: h~ = 0 may stand for 1e-16. Leaves of a split need no such question: H > 0 on its sides.
    """
    return np.where((h > 0).any(axis=1, keepdims=True), g, 0.0)
