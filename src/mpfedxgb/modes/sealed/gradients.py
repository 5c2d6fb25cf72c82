"""Gradients on secrets: g and h of every training row from margins and labels that nobody sees (Algorithm 2, line 4).

Squared error is a difference, kept within its bounds. Log-loss is the integer sigmoid (`mpfedxgb.sigmoid`): the segment
that a margin lies in is looked up in a table under a mask, and a quadratic gives the rest. All of it is exact, in the
same integers as `plain_gradients` and the oracle.

The public numbers of a sealed training: how far margins and leaf weights can go, and in which units.

Nobody can look whether a number has grown too large, so all of them are bounded in advance, by public parameters and
sizes. Margins and leaf weights are integers in units of 2^-places: `PLACES` where the loss is a log-loss, and the
active participant's secret where labels may be of any size. The oracle (`reference`) computes the same integers.

What the active participant encodes alone before a sealed training: labels, row weights, the start, their scales.

Afterwards nobody computes on them in the clear but in the first round, in which every margin is the start.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import reduce
from operator import add

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import ScalePlan
from mpfedxgb.config import TUNING
from mpfedxgb.errors import DoesNotFitError, UserError
from mpfedxgb.modes.mode import Working
from mpfedxgb.modes.sealed.tree import Division
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.protocols.bits import Bit, BitField, BitProduct, bits_to_ring, opening_bit, shares_of_bit_products
from mpfedxgb.protocols.compare_bits import Borrow, Sign, compare_together
from mpfedxgb.protocols.opening import Product, masking, multiplying, open_groups, open_pending, sums_of_products
from mpfedxgb.protocols.quotient import cut, round_off
from mpfedxgb.protocols.rows import looking_up, rows_in_turns
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares, public_secret, to_shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Shape, encode_fixed
from mpfedxgb.sigmoid import (
    C0_SHIFT,
    C1_SHIFT,
    DROPPED_BITS,
    FIELDS,
    HALF_SEGMENT,
    LIMIT,
    PLACES,
    REMAINDER_BITS,
    SEGMENT_BITS,
    WORD_BITS,
    sigmoid,
    words,
)
from mpfedxgb.tree.level import TableSizes

_PRODUCT_BITS = 60
"""Bits of a row's g times its weight at most: g of log-loss has 24 of them, and of regression up to 36."""

_MOST_G_BITS = 36

_LEAST_LAMBDA = 1 << 12
"""The least lambda~ where its scale is private, in units of g and h that weights have not made finer."""

MOST_TIMES_LAMBDA = (1 << (PLACES - 1)) // _LEAST_LAMBDA
"""The largest row weight, as a multiple of lambda; scales are powers of two, so that up to twice as much may fit."""

_MOST_LOG_ODDS = 128
"""Margins of log-loss start from no larger ones."""

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
        text = f"learning_rate={params.learning_rate!r} is zero as a float32; raise it"
        raise DoesNotFitError(text, parameter="learning_rate", value=params.learning_rate)
    f_h = h_places(plan)
    weight_places = _PRODUCT_BITS - (PLACES if is_logistic else _MOST_G_BITS)
    finer = plan.g_cap.bit_length() - 1 - PLACES if is_logistic and params.weighted else 0
    least = _LEAST_LAMBDA << finer if params.weighted else plan.lam_cap  # without weights it is public, the cap itself
    largest = _largest_weight(plan, rows, rate, f_h, is_logistic, params.weighted, least)
    start = _MOST_LOG_ODDS << PLACES if is_logistic else 0  # XGBoost starts from none beyond 14, base_margin may
    most = params.n_estimators * largest + start + 2 * plan.g_cap  # a margin less a label, and how far from a bound
    if most.bit_length() > _MARGIN_BITS:
        text = (
            f"with {rows} rows, reg_lambda={params.reg_lambda:g} and learning_rate={params.learning_rate:g}, "
            f"{params.n_estimators} leaf weights may add up to more than 64 bits hold in security='sealed'; raise "
            "reg_lambda, lower learning_rate, or use security='strict'"
        )
        raise DoesNotFitError(text, parameter="leaf weights", value=params.n_estimators)
    shift = f_h - (rate.denominator.bit_length() - 1)
    division = Division(
        factor=rate.numerator << max(0, shift),
        shift=max(0, -shift),
        largest_sum=rows * plan.g_cap,
        largest_divisor=rows * plan.h_cap + plan.lam_cap,
        largest_weight=largest,
        alpha_bits=scales.alpha_bits(plan, rows),
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


Ints = npt.NDArray[np.int64]

_SHARE_OF_LABELS = 4
"""The largest label takes this part of what |g| may be, so that residuals have room to grow."""


@dataclass(frozen=True, slots=True, eq=False)
class SealedLabels:
    """Labels as integers in the units of margins, row weights as integers, the starts, and the scales of the training.

    Margins, as they are kept and added up, are in units of 2^-places; `start` (all rows,) are those before any tree.
    `largest` is what max_delta_step holds leaf weights to.
    """

    places: int = field(repr=False)
    start: Ints = field(repr=False)
    y: Ints = field(repr=False)
    weights: Ints | None = field(repr=False)
    scale: scales.Scale = field(repr=False)
    largest: int = field(default=0, repr=False)

    def first_gradients(self, rules: SealedRules, inside: npt.NDArray[np.uint8] | None) -> Ints:
        """Return g~ and h~ of the first round, (2, rows), for rows inside the sample."""
        weights = self.weights
        if weights is None and inside is not None:
            weights = inside.astype(np.int64) << rules.rounding
        elif weights is not None and inside is not None:
            weights = weights * inside
        return plain_gradients(rules, self.start[: len(self.y)], self.y, weights)


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

    `start` (all rows,) are the margins before any tree; in regression labels count from there.
    """
    places = PLACES
    if not rules.is_logistic:
        places = scales.finest(float(np.abs(y - start[:rows]).max()), plan.g_cap // _SHARE_OF_LABELS)
    elif np.abs(start).max() > _MOST_LOG_ODDS:
        text = (
            f"base_margin holds log-odds beyond {_MOST_LOG_ODDS}, and security='sealed' has no room for them; clip them"
        )
        raise UserError(text, "range", "base_margin")
    weights, more = None, 0
    if weight is not None:
        at_most = scales.finest(params.reg_lambda, plan.lam_cap) - h_places(plan) + rules.rounding
        largest = 1 << rules.weight_places
        f_w = min(scales.finest(float(weight.max()), largest), at_most)
        weights, more = encode_fixed(weight, f_w, largest), f_w - rules.rounding
    scale = scales.scale(params, plan, rows, places + more, h_places(plan) + more)
    if weight is not None and scale.lam < rules.least_lambda:
        text = (
            f"a sample weight is more than {MOST_TIMES_LAMBDA} times reg_lambda={params.reg_lambda:g}, and "
            "security='sealed' has no room for it; divide the weights by a constant, or raise reg_lambda"
        )
        raise UserError(text, "range", "sample_weight")
    step = Fraction(float(np.float32(params.learning_rate))) * Fraction(params.largest_step) * Fraction(2) ** places
    largest = min(math.floor(step + Fraction(1, 2)), rules.division.largest_weight)
    if rules.is_logistic:
        return SealedLabels(places, encode_fixed(start, places), y.astype(np.int64) << PLACES, weights, scale, largest)
    residuals = encode_fixed(y - start[:rows], places, plan.g_cap)
    return SealedLabels(places, np.zeros(len(start), np.int64), residuals, weights, scale, largest)


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


END_HESSIAN = 1
"""h outside the range of the table: p (1 - p), rounded to its places."""

COMPARED_IN = 2
"""Rounds of a comparison inside a rounding, on bits: a seventh of the bytes of one on bytes, for a round more."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientRows:
    """What gradients are computed of, row by row: margins and labels, and what gates them.

    `weights` are the rows' weights, `inside` says which rows are in the sample; not both.
    """

    margins: Secret
    labels: Secret
    weights: Secret | None = None
    inside: Bit | None = None

    def __getitem__(self, rows: slice) -> GradientRows:
        return GradientRows(
            self.margins[rows],
            self.labels[rows],
            None if self.weights is None else self.weights[rows],
            None if self.inside is None else self.inside[rows],
        )


def secure_gradients(party: Party, rows: GradientRows, rules: SealedRules) -> Shares:
    """Return shares of g~ and h~, (2, rows).

    Rounds: for every 2^17 rows 3 for squared error and 16 for log-loss, and 6 more where rows have weights. Sent: some
    7 bytes a row for squared error and 83 for log-loss, and 54 more where rows have weights, by each auxiliary.
    Reveals: nothing.
    """
    count, step = rows.margins.shape[0], party.settings.tuning.gradient_rows
    parts = [_of_chunk(party, rows[some], rules) for some in rows_in_turns(count, step, party)]
    if party.is_symbolic:
        return Shares(RingArray.hidden(VECTOR, (2, count)))
    return concatenate_shares(parts)


def _of_chunk(party: Party, rows: GradientRows, rules: SealedRules) -> Shares:
    """Return shares of g~ and h~ of some rows: where one is in the sample, or times its weight."""
    terms = _log_loss(party, rows, rules) if rules.is_logistic else _squared_error(party, rows, rules)
    gradients = _add_up(party, terms, rows.inside)
    if rows.weights is None:
        return gradients
    (masked,) = open_pending(party, [masking(party, gradients)])
    (weighed,) = sums_of_products(party, [[Product((masked, rows.weights))]], name="weigh rows")
    return to_shares(party, round_off(party, weighed, rules.rounding, COMPARED_IN))


Term = tuple[tuple[Bit, ...], Secret]
"""A summand of g or h: a secret where all of some bits are 1."""


def _add_up(party: Party, terms: tuple[Sequence[Term], Sequence[Term]], inside: Bit | None) -> Shares:
    """Return the sums of the terms of g and of h, where a row is in the sample: (2, rows). Rounds: 0."""
    gates = () if inside is None else (inside,)
    gated = [BitProduct((*bits, *gates), x) for of_one in terms for bits, x in of_one if bits or gates]
    products = iter(shares_of_bit_products(party, gated, "gate rows") if gated else ())
    sums = []
    for of_one in terms:
        parts = [next(products) if bits or gates else to_shares(party, x) for bits, x in of_one]
        sums.append(reduce(add, parts).reshape(1, -1))
    return concatenate_shares(sums, axis=0)


def _squared_error(party: Party, rows: GradientRows, rules: SealedRules) -> tuple[list[Term], list[Term]]:
    """Return g = F - y within [-g_cap, g_cap] and h, as terms.

    Rounds: 3. Reveals: nothing.
    """
    x, cap = rows.margins - rows.labels, rules.g_cap
    below, above = _answers(party, [Sign(x + cap, rules.margin_bits), Sign(-x + cap, rules.margin_bits)])
    ends = [((below,), _all(party, -cap, x.shape)), ((above,), _all(party, cap, x.shape))]
    return [((_within(below, above),), x), *ends], [((), _all(party, rules.h_whole, x.shape))]


def _log_loss(party: Party, rows: GradientRows, rules: SealedRules) -> tuple[list[Term], list[Term]]:
    """Return g = p - y and h = p (1 - p) for p = sigmoid(F), as terms.

    1. Is the margin outside the table's range, and do its low bits borrow from its segment? All three in one.
    2. Look the segment's three coefficients up, as bits, and bring them into the ring.
    3. p = c0 + c1 t + c2 t^2 for the rest t of the margin, rounded once. Outside the range p is what it is at its end.

    Rounds: 16. Reveals: nothing.
    """
    x = rows.margins + LIMIT
    tests: list[Sign | Borrow] = [
        Sign(x, rules.margin_bits),
        Sign(-x + (2 * LIMIT - 1), rules.margin_bits),
        Borrow(x, REMAINDER_BITS),
    ]
    below, above, borrow = _answers(party, tests)
    segment, rest = cut(party, x, REMAINDER_BITS, SEGMENT_BITS, borrow)
    (bits,), (t,) = open_groups(party, [looking_up(party, segment, words(), WORD_BITS)], [masking(party, rest)])
    t = t - HALF_SEGMENT
    c0, *factors = bits_to_ring(party, bits, [BitField(f.first, f.width, f.is_signed) for f in FIELDS], VECTOR)
    c1, c2 = open_pending(party, [masking(party, c) for c in factors])
    (curve,) = multiplying(party, [[Product((c1, t), 1 << C1_SHIFT), Product((c2, t, t))]], name="quadratic")
    (v,) = open_pending(party, [replace(curve, part=curve.part + c0.part * (1 << C0_SHIFT))])
    p = round_off(party, v, DROPPED_BITS, COMPARED_IN)
    (product,) = sums_of_products(party, [[Product((p,), 1 << PLACES), Product((p, p), -1)]], name="hessian")
    h, within = round_off(party, product, PLACES, COMPARED_IN), _within(below, above)
    low, high = (_all(party, end, x.shape) for end in sigmoid(np.array([-LIMIT, LIMIT])).tolist())
    rest_of_h = _all(party, END_HESSIAN, x.shape)
    g = [((within,), p), ((below,), low), ((above,), high), ((), -rows.labels)]
    return g, [((within,), h - rest_of_h), ((), rest_of_h)]


def _answers(party: Party, tests: Sequence[Sign | Borrow]) -> list[Bit]:
    """Return the answers of comparisons as opened bits. Rounds: 3."""
    return open_pending(party, [opening_bit(party, answer) for answer in compare_together(party, tests)])


def _within(below: Bit, above: Bit) -> Bit:
    """Return whether a number is in its range, for it cannot be below and above. Local."""
    return ~Bit(below.secret + above.secret)


def _all(party: Party, value: int, shape: Shape) -> Secret:
    return public_secret(party, VECTOR, np.full(shape, value, np.int64))


_LOOKED_UP, _LOOKED_UP_EACH, _LOOKED_UP_HERE, _FRAME = 540, 10, 10, 600
"""Bytes a row of a chunk while its sigmoid is looked up, as measured.

At the coordinator, there for each participant, at a participant, and at one in a process of its own, in a frame.
"""

_PAIR = 16
"""Bytes of g and h of one row, or of their masks."""


def working(role: int, params: TrainParams, sizes: TableSizes) -> Working:
    """Return the bytes of gradients and of the chunk that is worked on, and of margins, labels and weights."""
    form = params.loss.sealed
    looks_up = form is not None and form.is_logistic
    chunk = min(sizes.rows, TUNING.gradient_rows) if looks_up else 0
    secrets = sizes.all_rows + (2 if params.weighted else 1) * sizes.rows
    if role == COORDINATOR:  # it has masks alone
        looked_up = (_LOOKED_UP + _LOOKED_UP_EACH * sizes.participants) * chunk
        return Working(looked_up + 3 * _PAIR // 2 * sizes.rows, 8 * secrets)
    return Working(_LOOKED_UP_HERE * chunk + 3 * _PAIR * sizes.rows, 16 * secrets, _FRAME * chunk)
