"""The public numbers of a sealed training: how far margins and leaf weights can go, and in which units.

Nobody can look whether a number has grown too large, so all of them are bounded in advance, by public parameters and
sizes. Margins and leaf weights are integers in units of 2^-places: `PLACES` where the loss is a log-loss, and the
active participant's secret where labels may be of any size. The oracle (`reference`) computes the same integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import ScalePlan
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.sigmoid import PLACES
from mpfedxgb.tree.sealed import Division

_PRODUCT_BITS = 60
"""Bits of a row's g times its weight at most: g of log-loss has 24 of them, and of regression up to 36."""

_MOST_G_BITS = 36

_LEAST_LAMBDA = 1 << 12
"""The least lambda~ where its scale is private, in units of g and h that weights have not made finer."""

MOST_TIMES_LAMBDA = (1 << (PLACES - 1)) // _LEAST_LAMBDA
"""A row may weigh so many times lambda; scales are powers of two, so that up to twice as much may fit."""

_MARGIN_BITS = 61
"""Bits of a margin at most, and its sign: sums of two keep within the ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRules:
    """What all roles know of the numbers of a sealed training.

    `g_cap` bounds |g~|. `h_whole` is the hessian of a row in regression. Margins have up to `margin_bits` bits, their
    sign included. Row weights have `weight_places` bits beside the largest. Of g and h times a weight `rounding` places
    are rounded off: as many, or fewer, which leaves light rows some bits of theirs.
    """

    is_logistic: bool
    weighted: bool
    g_cap: int
    h_whole: int
    weight_places: int
    rounding: int
    margin_bits: int
    division: Division

    @property
    def least_lambda(self) -> int:
        """The least lambda~ where its scale is private: it bounds the leaf weights."""
        return _LEAST_LAMBDA << (self.weight_places - self.rounding)


def sealed_rules(params: TrainParams, plan: ScalePlan, rows: int) -> SealedRules:
    """Return the rules; raises DoesNotFitError where margins could outgrow the ring, or a division."""
    form = params.loss.sealed
    assert form is not None
    is_logistic = form.is_logistic
    rate = Fraction(float(np.float32(params.learning_rate)))
    if rate == 0:
        raise DoesNotFitError(f"learning_rate={params.learning_rate!r} is zero as a float32; raise it")
    f_h = h_places(plan)
    weight_places = _PRODUCT_BITS - (PLACES if is_logistic else _MOST_G_BITS)
    finer = plan.g_cap.bit_length() - 1 - PLACES if is_logistic and params.weighted else 0
    least = _LEAST_LAMBDA << finer if params.weighted else plan.lam_cap  # without weights it is public, the cap itself
    largest = _largest_weight(plan, rows, rate, f_h, is_logistic, params.weighted, least)
    start = 1 << (PLACES + 7) if is_logistic else 0  # XGBoost starts from no log-odds beyond 14
    most = params.n_estimators * largest + start + 2 * plan.g_cap  # a margin less a label, and how far from a bound
    if most.bit_length() > _MARGIN_BITS:
        raise DoesNotFitError(
            f"with {rows} rows, reg_lambda={params.reg_lambda:g} and learning_rate={params.learning_rate:g}, "
            f"{params.n_estimators} leaf weights may add up to more than 64 bits hold in security='sealed'; raise "
            "reg_lambda, lower learning_rate, or use security='strict'"
        )
    shift = f_h - (rate.denominator.bit_length() - 1)
    division = Division(
        factor=rate.numerator << max(0, shift),
        shift=max(0, -shift),
        largest_sum=rows * plan.g_cap,
        largest_divisor=rows * plan.h_cap + plan.lam_cap,
        largest_weight=largest,
    )
    if division.ring.bits > 64 * plan.limbs:  # lambda~ has no more bits
        raise DoesNotFitError(
            f"learning_rate={params.learning_rate:g} makes divisions of {division.ring.bits} bits with {rows} rows, "
            f"and security='sealed' has {64 * plan.limbs}; raise it, or use security='strict'"
        )
    return SealedRules(
        is_logistic=is_logistic,
        weighted=params.weighted,
        g_cap=plan.g_cap,
        h_whole=1 << f_h,
        weight_places=weight_places,
        rounding=weight_places - finer,
        margin_bits=most.bit_length() + 1,
        division=division,
    )


def h_places(plan: ScalePlan) -> int:
    """Return the places of h before rows are weighed: the policy's if they are public, or else those of margins."""
    return PLACES if plan.f_h is None else plan.f_h


def _largest_weight(
    plan: ScalePlan, rows: int, rate: Fraction, f_h: int, is_logistic: bool, weighted: bool, least: int
) -> int:
    """Return a bound on |rate G 2^f_h / (H + lambda~)|, where lambda~ is at least `least`."""
    if is_logistic:
        most = Fraction(rows * plan.g_cap << f_h, least)
    else:  # h = 1, so |G| <= g_cap H but for the rounding of g, by half a unit a row where rows have weights
        most = Fraction(plan.g_cap) + (Fraction(rows << (f_h - 1), least) if weighted else 0)
    return int(rate * most) + 2
