"""The public numbers of a sealed training: how far margins and leaf weights can go, and in which units.

Nobody can look whether a number has grown too large, so all of them are bounded in advance, by public parameters and
sizes. Margins and leaf weights are integers in units of 2^-places: the active participant's secret in regression, where
labels may be of any size, and otherwise `PLACES`. Of positive means P_1 chooses the unit, and margins count from there.
The oracle (`reference`) computes the same integers.

What the active participant encodes alone before a sealed training: labels, row weights, the start, their scales.

Afterwards nobody computes on them in the clear but in the first round, in which every margin is the start.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import ScalePlan
from mpfedxgb.errors import DoesNotFitError, UserError
from mpfedxgb.exponential import TOP_BITS, exponential
from mpfedxgb.modes.sealed.tree import Division
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.sigmoid import PLACES, sigmoid
from mpfedxgb.softmax import MOST_CLASSES, hessian, rounded, softmax

_PRODUCT_BITS = 60
"""Bits of a row's g times its weight at most."""

_MOST_G_BITS = 36
"""Bits of g in regression at most; in log-loss it has 24."""

_MEAN_BITS = TOP_BITS + PLACES
"""Bits of g of positive means at most."""

_LEAST_LAMBDA = 1 << 12
"""The least lambda~ where its scale is private, in units of g and h that weights have not made finer."""

MOST_TIMES_LAMBDA = (1 << (PLACES - 1)) // _LEAST_LAMBDA
"""The largest row weight, as a multiple of lambda; scales are powers of two, so that up to twice as much may fit."""

_MOST_LOG_ODDS = 128
"""Margins of log-loss and of positive means start from no larger ones."""

_FARTHEST_START = 1 << (18 + PLACES)
"""Beyond what margins of positive means start from in the units of their labels, and beyond the logarithms of these."""

_ROOM, _REACH = 1 << 8, 1 << 59
"""What rounding may add to the bound on leaf weights of Tweedie's loss, a factor; and where margins of others end."""

_MOST_FACTOR = 1 << 14
"""The largest factor between hessians and what is computed in their place."""

_MARGIN_BITS = 61
"""Bits of a margin at most, and its sign: sums of two keep within the ring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedRules:
    """What all roles know of the numbers of a sealed training.

    `g_cap` bounds |g~|. `h_whole` is the hessian of a row in regression. Margins have up to `margin_bits` bits, their
    sign included. Row weights have `weight_places` bits beside the largest. Of g and h times a weight `rounding` places
    are rounded off: as many, or fewer, which leaves light rows some bits of theirs. Where its scale is private, lambda~
    is at least `least_lambda`: it bounds the leaf weights.

    Positive means have the `rates` of their exponentials (`SealedForm`), in units of 2^-e_places, and `no_label` stands
    for the logarithm of 0: it is out of reach of any margin. With several `classes`, 0 for none, margins, labels, g and
    h are one of each class; a label is 2^24 in the row's own.
    """

    is_logistic: bool
    weighted: bool
    g_cap: int
    h_whole: int
    weight_places: int
    rounding: int
    margin_bits: int
    division: Division
    least_lambda: int
    rates: tuple[float, float] | None = None
    e_places: int = 0
    no_label: int = 0
    classes: int = 0

    def shape(self, *of_row: int) -> tuple[int, ...]:
        """Return the shape of an array with an entry for each class, if there are classes."""
        return (self.classes, *of_row) if self.classes else of_row


def sealed_rules(params: TrainParams, plan: ScalePlan, rows: int) -> SealedRules:
    """Return the rules; raises DoesNotFitError where margins could outgrow the ring, or a division."""
    form = params.loss.sealed
    assert form is not None
    is_logistic, rates = form.is_logistic, None if form.power is None else form.rates
    rate, classes = rate_of(params), params.outputs if params.loss.classes is None else 0
    if classes > MOST_CLASSES:
        text = f"num_class={classes} is more than the {MOST_CLASSES} that security='sealed' has tables for"
        raise DoesNotFitError(f"{text}; use security='strict'", parameter="num_class", value=classes)
    if rate == 0:
        text = f"learning_rate={params.learning_rate!r} is zero as a float32; raise it"
        raise DoesNotFitError(text, parameter="learning_rate", value=params.learning_rate)
    if params.h_factor > _MOST_FACTOR:
        text = (
            f"max_delta_step={params.largest_step:g} is above {math.log(_MOST_FACTOR):.1f}, beyond which "
            "e^max_delta_step, a factor of count:poisson's hessians, leaves lambda no digits in security='sealed'; "
            "lower it, or set it to 0"
        )
        raise DoesNotFitError(text, parameter="max_delta_step", value=params.largest_step)
    f_h = h_places(plan)
    g_bits = PLACES if is_logistic else _MOST_G_BITS if rates is None else _MEAN_BITS
    weight_places, has_bits = _PRODUCT_BITS - g_bits, plan.g_cap.bit_length() - 1
    finer = has_bits - g_bits if params.weighted and (is_logistic or rates is not None) else 0
    if rates is None:
        least, no_label = _LEAST_LAMBDA << finer, 0
        held = least if params.weighted else plan.lam_cap  # without weights it is public, the cap itself
        largest = _largest_weight(plan, rows, rate, f_h, is_logistic, params.weighted, held)
        start = _MOST_LOG_ODDS << PLACES if is_logistic else 0  # XGBoost starts from none beyond 14, base_margin may
        most = params.n_estimators * largest + start + 2 * plan.g_cap  # a margin less a label, and how far from a bound
    else:
        least, largest = 1, _largest_of_means(rates, rate, params.n_estimators)
        no_label = -(params.n_estimators * largest + 2 * _FARTHEST_START)
        most = -2 * no_label
    places = 0
    if params.constrained:  # a bound is the middle of weights in steps of bounds, up to one above them
        places, above = plan.places, int(rate * (1 << f_h + plan.coarse)) >> plan.places
        largest, most = largest + above, most + params.n_estimators * above
    if classes:  # a margin less the largest, moved into the range of the exponential
        most = 2 * most + exponential(1.0).width
    if most.bit_length() > _MARGIN_BITS:
        text = (
            f"with {rows} rows, reg_lambda={params.reg_lambda:g} and learning_rate={params.learning_rate:g}, "
            f"{params.n_estimators} leaf weights may add up to more than 64 bits hold in security='sealed'; raise "
            "reg_lambda, lower learning_rate, or use security='strict'"
        )
        raise DoesNotFitError(text, parameter="leaf weights", value=params.n_estimators)
    shift = f_h - (rate.denominator.bit_length() - 1)
    largest_divisor = rows * plan.h_cap + plan.lam_cap
    division = Division(
        factor=rate.numerator << max(0, shift),
        shift=max(0, -shift),
        largest_sum=max(rows * plan.g_cap << places, largest_divisor * plan.weight_cap),
        largest_divisor=largest_divisor,
        largest_weight=largest,
        places=places,
    )
    if division.ring.bits > 64 * plan.limbs:  # lambda~ has no more bits
        text = (
            f"learning_rate={params.learning_rate:g} makes divisions of {division.ring.bits} bits with {rows} rows, "
            f"and security='sealed' has {64 * plan.limbs}; raise it, or use security='strict'"
        )
        raise DoesNotFitError(text, parameter="learning_rate", value=params.learning_rate)
    return SealedRules(
        is_logistic=is_logistic,
        weighted=params.weighted,
        g_cap=plan.g_cap,
        h_whole=1 << f_h,
        weight_places=weight_places,
        rounding=weight_places - finer,
        margin_bits=most.bit_length() + 1,
        division=division,
        least_lambda=least,
        rates=rates,
        e_places=PLACES if params.weighted else has_bits - TOP_BITS,
        no_label=no_label,
        classes=classes,
    )


def rate_of(params: TrainParams) -> Fraction:
    """Return what G / (H + lambda) is multiplied by, a float32 as XGBoost's learning rate."""
    return Fraction(float(np.float32(params.learning_rate / params.h_factor)))


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


def _largest_of_means(rates: tuple[float, float], rate: Fraction, rounds: int) -> int:
    """Return what |rate G 2^24 / (H + lambda~)| may be; the active participant sees to it that it is no more.

    b and a weigh as much in G as in H, but for their rates. Where one of them is no part of H, as the labels of
    Poisson's loss, G / lambda is what bounds leaf weights: P_1 knows it, and all others a limit to what it can be.
    """
    if min(rates) == 0:
        return (_REACH - _FARTHEST_START) // rounds
    return int(rate * (_ROOM << PLACES) / Fraction(min(rates)))


Ints = npt.NDArray[np.int64]

_SHARE_OF_LABELS = 4
"""The largest label, or mean, takes this part of what |g| may be, so that residuals have room to grow."""


@dataclass(frozen=True, slots=True, eq=False)
class SealedLabels:
    """Labels as integers in the units of margins, row weights as integers, the starts, and the scales of the training.

    Margins, as they are kept and added up, are in units of 2^-places; `start` (all rows,) are those before any tree. Of
    several classes it is (classes, all rows), and y (classes, rows).
    `largest` is what max_delta_step holds leaf weights to.
    """

    places: int = field(repr=False)
    start: Ints = field(repr=False)
    y: Ints = field(repr=False)
    weights: Ints | None = field(repr=False)
    scale: scales.Scale = field(repr=False)
    largest: int = field(default=0, repr=False)

    def first_gradients(self, rules: SealedRules, inside: npt.NDArray[np.uint8] | None) -> Ints:
        """Return g~ and h~ of the first round, ([classes,] 2, rows), for rows inside the sample."""
        weights = self.weights
        if weights is None and inside is not None:
            weights = inside.astype(np.int64) << rules.rounding
        elif weights is not None and inside is not None:
            weights = weights * inside
        return plain_gradients(rules, self.start[..., : self.y.shape[-1]], self.y, weights)


def encode_labels(
    params: TrainParams,
    plan: scales.ScalePlan,
    rules: SealedRules,
    y: Floats,
    weight: Floats | None,
    start: Floats,
    rows: int,
) -> SealedLabels:
    """Return a training's labels as integers, at the finest scales under which they and their residuals fit.

    `start` (all rows,), or (classes, all rows), are the margins before any tree; in regression labels count from there.
    """
    places, unit = PLACES, h_places(plan)
    if rules.rates is None and not rules.is_logistic:
        places = scales.finest(float(np.abs(y - start[:rows]).max()), plan.g_cap // _SHARE_OF_LABELS)
    elif np.abs(start).max() > _MOST_LOG_ODDS:
        text = (
            f"base_margin holds numbers beyond {_MOST_LOG_ODDS}, and security='sealed' has no room for them; clip them"
        )
        raise UserError(text, "range", "base_margin")
    if rules.rates is not None:
        unit = _unit_of_means(params, plan, rules, y, start[:rows])
    weights, more = None, 0
    if weight is not None:
        at_most = scales.finest(params.reg_lambda, plan.lam_cap) - unit + rules.rounding
        largest = 1 << rules.weight_places
        f_w = min(scales.finest(float(weight.max()), largest), at_most)
        weights, more = encode_fixed(weight, f_w, largest), f_w - rules.rounding
    scale = scales.scale(params, plan, rows, (places if rules.rates is None else unit) + more, unit + more)
    if weight is not None and scale.lam < rules.least_lambda:
        text = (
            f"a sample weight is more than {MOST_TIMES_LAMBDA} times reg_lambda={params.reg_lambda:g}, and "
            "security='sealed' has no room for it; divide the weights by a constant, or raise reg_lambda"
        )
        raise UserError(text, "range", "sample_weight")
    step = Fraction(float(np.float32(params.learning_rate))) * Fraction(params.largest_step) * Fraction(2) ** places
    largest = min(math.floor(step + Fraction(1, 2)), rules.division.largest_weight)
    if rules.rates is not None:
        first, labels = _means_in_units(rules, rules.rates, y, start, unit)
        _check_means(params, rules, rules.rates, labels, weights, scale.lam)
    elif rules.is_logistic:
        of_class = y == np.arange(rules.classes)[:, None] if rules.classes else y
        first, labels = encode_fixed(start, places), encode_fixed(of_class.astype(np.float64), places)
    else:
        first, labels = np.zeros(len(start), np.int64), encode_fixed(y - start[:rows], places, plan.g_cap)
    return SealedLabels(places, first, labels, weights, scale, largest)


def _unit_of_means(params: TrainParams, plan: ScalePlan, rules: SealedRules, y: Floats, start: Floats) -> int:
    """Return the scale of g and h, a power of two: their parts are far below the table's top when boosting starts.

    Gamma's loss has ratios, which need no unit but that of the table.
    """
    assert rules.rates is not None
    b_rate, a_rate = rules.rates
    if not b_rate:
        return rules.e_places
    peak = max(np.exp(b_rate * start).max(), (y * np.exp(-a_rate * start)).max())
    unit = scales.finest(float(peak), (1 << (rules.e_places + TOP_BITS)) // _SHARE_OF_LABELS)
    return min(unit, scales.finest(params.reg_lambda, plan.lam_cap))


def _means_in_units(
    rules: SealedRules, rates: tuple[float, float], y: Floats, start: Floats, unit: int
) -> tuple[Ints, Ints]:
    """Return margins to start from and labels, so that b and a are exponentials in the table's units, 2^-unit.

    Units are factors of b and a, so logarithms are moved: b = exp(b_rate F) and a = exp(a_rate (label - F)). Where a
    has no rate, it is the label itself.
    """
    (b_rate, a_rate), factor = rates, (rules.e_places - unit) * math.log(2.0)
    moved = factor / b_rate if b_rate else 0.0
    first = encode_fixed(start - moved, PLACES)
    if not a_rate:
        return first, encode_fixed(y, unit)
    logs = np.log(y, out=np.zeros(len(y)), where=y > 0)
    return first, np.where(y > 0, encode_fixed((logs - factor) / a_rate - moved, PLACES), rules.no_label)


def _check_means(
    params: TrainParams,
    rules: SealedRules,
    rates: tuple[float, float],
    labels: Ints,
    weights: Ints | None,
    lam: int,
) -> None:
    """Raise UserError if a leaf weight could be beyond the bound that everybody knows.

    |G| <= (H + 2 rows) / rate for the smaller rate, of two that are not 0: each rounding adds half a unit to a row.
    With one rate, -G is at most the sum C of what the other part is, times weights, and G at most H.
    """
    rows = len(labels)
    if min(rates) > 0:
        most = max(Fraction(1), Fraction(2 * rows, lam)) / Fraction(min(rates))
    else:
        of_rows = labels.tolist() if not rates[1] else [1 << rules.e_places] * rows
        w = [1 << rules.rounding] * rows if weights is None else weights.tolist()
        C = sum(c * one for c, one in zip(of_rows, w, strict=True)) >> rules.rounding
        most = max(Fraction(1), Fraction(C + 2 * rows, lam))
    division = rules.division
    if most * division.factor > (division.largest_weight - 1) << division.shift:
        text = (
            f"{params.objective}: labels, times row weights, are too large beside reg_lambda={params.reg_lambda:g} for "
            "the room that security='sealed' has for leaf weights; raise reg_lambda, or divide labels or weights by a "
            "constant"
        )
        raise UserError(text, "range", "reg_lambda")


def plain_gradients(rules: SealedRules, margins: Ints, y: Ints, weights: Ints | None) -> Ints:
    """Return g~ and h~, (2, rows) or (classes, 2, rows), as `secure_gradients` computes them on secrets."""
    if rules.classes:
        p = softmax(margins)
        g, h = p - y, hessian(p)
    elif rules.is_logistic:
        p = sigmoid(margins)
        g, h = p - y, rounded(p * ((1 << PLACES) - p), PLACES)
    elif rules.rates is not None:
        g, h = _plain_means(rules, rules.rates, margins, y)
    else:
        g = np.clip(margins - y, -rules.g_cap, rules.g_cap)
        h = np.full_like(g, rules.h_whole)
    if weights is None:
        return np.stack([g, h], axis=-2)
    return np.stack([rounded(part * weights, rules.rounding) for part in (g, h)], axis=-2)


def _plain_means(rules: SealedRules, rates: tuple[float, float], margins: Ints, y: Ints) -> tuple[Ints, Ints]:
    b_rate, a_rate = rates
    b = exponential(b_rate).at(margins, rules.e_places) if b_rate else np.full_like(y, 1 << rules.e_places)
    a = exponential(a_rate).at(y - margins, rules.e_places) if a_rate else y
    if b_rate and a_rate:
        return b - a, rounded(b * share_of_h(b_rate), PLACES) + rounded(a * share_of_h(a_rate), PLACES)
    return b - a, b if b_rate else a


def share_of_h(rate: float) -> int:
    """Return a rate in units of 2^-24: exact, since the power is a float32 from 1 to 2."""
    return round(rate * (1 << PLACES))
