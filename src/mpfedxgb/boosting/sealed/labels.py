"""What the active participant encodes alone before a sealed training: labels, row weights, the start, their scales.

Afterwards nobody computes on them in the clear but in the first round, in which every margin is the start.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sealed.rules import MOST_TIMES_LAMBDA, SealedRules, h_places
from mpfedxgb.errors import UserError
from mpfedxgb.ring.fixed import encode_fixed
from mpfedxgb.sigmoid import PLACES, sigmoid

Ints = npt.NDArray[np.int64]

_SHARE_OF_LABELS = 4
"""The largest label takes this part of what |g| may be, so that residuals have room to grow."""


@dataclass(frozen=True, slots=True, eq=False)
class SealedLabels:
    """Labels as integers in the units of margins, row weights as integers, the start, and the scales of the training.

    Margins, as they are kept and added up, are in units of 2^-places.
    """

    places: int = field(repr=False)
    start: int = field(repr=False)
    y: Ints = field(repr=False)
    weights: Ints | None = field(repr=False)
    scale: scales.Scale = field(repr=False)

    def first_gradients(self, rules: SealedRules, inside: npt.NDArray[np.uint8] | None) -> Ints:
        """Return g~ and h~ of the first round, (2, rows), for rows inside the sample."""
        weights = self.weights
        if weights is None and inside is not None:
            weights = inside.astype(np.int64) << rules.rounding
        elif weights is not None and inside is not None:
            weights = weights * inside
        return plain_gradients(rules, np.full(len(self.y), self.start, np.int64), self.y, weights)


def encode_labels(
    params: TrainParams,
    plan: scales.ScalePlan,
    rules: SealedRules,
    y: Floats,
    weight: Floats | None,
    base: float,
    rows: int,
) -> SealedLabels:
    """Return a training's labels as integers, at the finest scales under which they and their residuals fit."""
    places = PLACES
    if not rules.is_logistic:
        places = scales.finest(float(np.abs(y - base).max()), plan.g_cap // _SHARE_OF_LABELS)
    weights, more = None, 0
    if weight is not None:
        at_most = scales.finest(params.reg_lambda, plan.lam_cap) - h_places(plan) + rules.rounding
        largest = 1 << rules.weight_places
        f_w = min(scales.finest(float(weight.max()), largest), at_most)
        weights, more = encode_fixed(weight, f_w, largest), f_w - rules.rounding
    scale = scales.scale(params, plan, rows, places + more, h_places(plan) + more)
    if weight is not None and scale.lam < rules.least_lambda:
        raise UserError(
            f"a sample weight is more than {MOST_TIMES_LAMBDA} times reg_lambda={params.reg_lambda:g}, and "
            "security='sealed' has no room for it; divide the weights by a constant, or raise reg_lambda"
        )
    if rules.is_logistic:
        return SealedLabels(places, int(encode_fixed(base, places)), y.astype(np.int64) << PLACES, weights, scale)
    return SealedLabels(places, 0, encode_fixed(y - base, places, plan.g_cap), weights, scale)


def plain_gradients(rules: SealedRules, margins: Ints, y: Ints, weights: Ints | None) -> Ints:
    """Return g~ and h~, (2, rows), as `secure_gradients` computes them on secrets."""
    if rules.is_logistic:
        p = sigmoid(margins)
        g, h = p - y, _rounded(p * ((1 << PLACES) - p), PLACES)
    else:
        g = np.clip(margins - y, -rules.g_cap, rules.g_cap)
        h = np.full_like(g, rules.h_whole)
    if weights is None:
        return np.stack([g, h])
    return np.stack([_rounded(g * weights, rules.rounding), _rounded(h * weights, rules.rounding)])


def _rounded(numbers: Ints, places: int) -> Ints:
    """Return numbers / 2^places, halves going up."""
    return (numbers + (1 << (places - 1))) >> places
