"""Gradients on secrets: g and h of every training row from margins and labels that nobody sees (Algorithm 2, line 4).

Squared error is a difference, kept within its bounds. Log-loss is the integer sigmoid (`mpfedxgb.sigmoid`), and losses
of positive means are exponentials (`mpfedxgb.exponential`): the segment that a margin lies in is looked up in a table
under a mask, and a quadratic gives the rest. Of several classes it is the softmax (`mpfedxgb.softmax`). All of it is
exact, in the same integers as `plain_gradients` and the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TUNING
from mpfedxgb.exponential import exponential
from mpfedxgb.modes.mode import Working
from mpfedxgb.modes.sealed.classes import softmax_of
from mpfedxgb.modes.sealed.encoding import SealedRules, share_of_h
from mpfedxgb.modes.sealed.look_ups import COMPARED_IN, Argument, exponentials, open_answers, places_of, round_together
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import COORDINATOR
from mpfedxgb.protocols.bits import Bit, BitField, BitProduct, bits_to_ring, shares_of_bit_products
from mpfedxgb.protocols.compare_bits import Sign
from mpfedxgb.protocols.opening import Product, masking, multiplying, open_pending, sums_of_products
from mpfedxgb.protocols.quotient import round_off
from mpfedxgb.protocols.rows import rows_in_turns
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares, public_secret, to_shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Shape
from mpfedxgb.sigmoid import (
    C0_SHIFT,
    C1_SHIFT,
    DROPPED_BITS,
    FIELDS,
    LIMIT,
    PLACES,
    REMAINDER_BITS,
    WORD_BITS,
    sigmoid,
    words,
)
from mpfedxgb.softmax import rounded
from mpfedxgb.tree.level import TableSizes

END_HESSIAN = 1
"""h outside the range of the table: p (1 - p), rounded to its places."""


@dataclass(frozen=True, slots=True, eq=False)
class GradientRows:
    """What gradients are computed of, row by row: margins and labels, and what gates them.

    `weights` are the rows' weights, `inside` says which rows are in the sample; not both. Margins and labels of several
    classes are (classes, rows).
    """

    margins: Secret
    labels: Secret
    weights: Secret | None = None
    inside: Bit | None = None

    def __getitem__(self, rows: slice) -> GradientRows:
        return GradientRows(
            self.margins[..., rows],
            self.labels[..., rows],
            None if self.weights is None else self.weights[rows],
            None if self.inside is None else self.inside[rows],
        )


def secure_gradients(party: Party, rows: GradientRows, rules: SealedRules) -> Shares:
    """Return shares of g~ and h~, (2, rows), or (classes, 2, rows).

    Rounds: for every 2^17 rows 3 for squared error, 16 for log-loss, 14 for one exponential and 18 for two, and 6 more
    where rows have weights. Sent: some 7 bytes a row for squared error, 83 for log-loss, 79 for one exponential and 174
    for two, and 54 more where rows have weights, by each auxiliary. Of K classes 36 rounds for every 2^17 / K rows, and
    4 more for every doubling of the classes, and 143 bytes a row for each of three. Reveals: nothing.
    """
    count, step = rows.margins.shape[-1], max(1, party.settings.tuning.gradient_rows // max(1, rules.classes))
    parts = [_of_chunk(party, rows[some], rules) for some in rows_in_turns(count, step, party)]
    if party.is_symbolic:
        return Shares(RingArray.hidden(VECTOR, rules.shape(2, count)))
    return concatenate_shares(parts)


def _of_chunk(party: Party, rows: GradientRows, rules: SealedRules) -> Shares:
    """Return shares of g~ and h~ of some rows: where one is in the sample, or times its weight."""
    if rules.classes:
        terms = _cross_entropy(party, rows, rules)
    elif rules.is_logistic:
        terms = _log_loss(party, rows, rules)
    else:
        terms = _squared_error(party, rows, rules) if rules.rates is None else _means(party, rows, rules, rules.rates)
    gradients = _add_up(party, terms, rows.inside)
    if rows.weights is None:
        return gradients
    (masked,) = open_pending(party, [masking(party, gradients)])
    (weighed,) = sums_of_products(party, [[Product((masked, rows.weights))]], name="weigh rows")
    return to_shares(party, round_off(party, weighed, rules.rounding, COMPARED_IN))


Term = tuple[tuple[Bit, ...], Secret]
"""A summand of g or h: a secret where all of some bits are 1."""


def _add_up(party: Party, terms: tuple[Sequence[Term], Sequence[Term]], inside: Bit | None) -> Shares:
    """Return the sums of the terms of g and of h, where a row is in the sample: (..., 2, rows). Rounds: 0."""
    gates = () if inside is None else (inside,)
    gated = [BitProduct((*bits, *gates), x) for of_one in terms for bits, x in of_one if bits or gates]
    products = iter(shares_of_bit_products(party, gated, "gate rows") if gated else ())
    sums = []
    for of_one in terms:
        parts = [next(products) if bits or gates else to_shares(party, x) for bits, x in of_one]
        total = reduce(add, parts)
        sums.append(total.reshape(*total.shape[:-1], 1, total.shape[-1]))
    return concatenate_shares(sums, axis=-2)


def _squared_error(party: Party, rows: GradientRows, rules: SealedRules) -> tuple[list[Term], list[Term]]:
    """Return g = F - y within [-g_cap, g_cap] and h, as terms.

    Rounds: 3. Reveals: nothing.
    """
    x, cap = rows.margins - rows.labels, rules.g_cap
    below, above = open_answers(party, [Sign(x + cap, rules.margin_bits), Sign(-x + cap, rules.margin_bits)])
    ends = [((below,), _all(party, -cap, x.shape)), ((above,), _all(party, cap, x.shape))]
    return [((~Bit(below.secret + above.secret),), x), *ends], [((), _all(party, rules.h_whole, x.shape))]


def _log_loss(party: Party, rows: GradientRows, rules: SealedRules) -> tuple[list[Term], list[Term]]:
    """Return g = p - y and h = p (1 - p) for p = sigmoid(F), as terms.

    1. Find the margin's place in the table (`places_of`).
    2. Bring its segment's three coefficients into the ring.
    3. p = c0 + c1 t + c2 t^2 for the rest t of the margin, rounded once. Outside the range p is what it is at its end.

    Rounds: 16. Reveals: nothing.
    """
    x = rows.margins + LIMIT
    (place,) = places_of(party, [Argument(x, words(), WORD_BITS, REMAINDER_BITS, rules.margin_bits)])
    fields, t = [BitField(f.first, f.width, f.is_signed) for f in FIELDS], place.rest
    c0, *factors = bits_to_ring(party, place.entry, fields, VECTOR)
    c1, c2 = open_pending(party, [masking(party, c) for c in factors])
    (curve,) = multiplying(party, [[Product((c1, t), 1 << C1_SHIFT), Product((c2, t, t))]], name="quadratic")
    (v,) = open_pending(party, [replace(curve, part=curve.part + c0.part * (1 << C0_SHIFT))])
    p = round_off(party, v, DROPPED_BITS, COMPARED_IN)
    (product,) = sums_of_products(party, [[Product((p,), 1 << PLACES), Product((p, p), -1)]], name="hessian")
    h, rest_of_h = round_off(party, product, PLACES, COMPARED_IN), _all(party, END_HESSIAN, x.shape)
    low, high = (_all(party, end, x.shape) for end in sigmoid(np.array([-LIMIT, LIMIT])).tolist())
    g = [((place.within,), p), ((place.below,), low), ((place.above,), high), ((), -rows.labels)]
    return g, [((place.within,), h - rest_of_h), ((), rest_of_h)]


def _cross_entropy(party: Party, rows: GradientRows, rules: SealedRules) -> tuple[list[Term], list[Term]]:
    """Return g = P - [y = k] and h = 2 P (1 - P) of every class k, as terms; P is 0 far below the largest margin.

    Rounds: those of `softmax_of`, and 5. Reveals: nothing.
    """
    p, within = softmax_of(party, rows.margins, rules.margin_bits)
    (product,) = sums_of_products(party, [[Product((p,), 1 << PLACES), Product((p, p), -1)]], name="hessian")
    h = round_off(party, product, PLACES - 1, COMPARED_IN)
    return [((within,), p), ((), -rows.labels)], [((within,), h)]


def _means(
    party: Party, rows: GradientRows, rules: SealedRules, rates: tuple[float, float]
) -> tuple[list[Term], list[Term]]:
    """Return g = b - a and h = (2 - p) b + (p - 1) a of positive means, as terms (`SealedForm`).

    1. b and a are exponentials of the margin, and of a label less the margin; without a rate b is 1, and a the label.
    2. Where both count in h, round off their shares in it. Below the range they are 0, above it as at its end.

    Rounds: 14 for one exponential, or 18. Reveals: nothing.
    """
    margins, labels = rows.margins, rows.labels
    signed = [(1, margins, rates[0]), (-1, labels - margins, rates[1])]
    parts = [(sign, x, exponential(rate)) for sign, x, rate in signed if rate]
    powers = exponentials(party, [(x, f) for _, x, f in parts], rules.margin_bits, rules.e_places)
    shares_of_h = [power.e for power in powers]
    if len(parts) == 2:
        scaled = [power.e * share_of_h(f.rate) for power, (_, _, f) in zip(powers, parts, strict=True)]
        shares_of_h = round_together(party, scaled, PLACES)
    g: list[Term] = [((), -labels)] if not rates[1] else []
    g += [((), _all(party, 1 << rules.e_places, margins.shape))] if not rates[0] else []
    h: list[Term] = []
    for (sign, x, f), power, of_h in zip(parts, powers, shares_of_h, strict=True):
        top, place = int(f.at(np.array(f.low + f.width), rules.e_places)), power.place
        top_of_h = top if len(parts) == 1 else int(rounded(np.array(top * share_of_h(f.rate)), PLACES))
        g += [((place.within,), power.e * sign), ((place.above,), _all(party, sign * top, x.shape))]
        h += [((place.within,), of_h), ((place.above,), _all(party, top_of_h, x.shape))]
    return g, h


def _all(party: Party, value: int, shape: Shape) -> Secret:
    return public_secret(party, VECTOR, np.full(shape, value, np.int64))


_LOOKED_UP, _LOOKED_UP_EACH, _LOOKED_UP_HERE, _FRAME = 540, 10, 10, 600
"""Bytes a row of a chunk while its sigmoid is looked up, or the exponential of one of its classes, as measured.

At the coordinator, there for each participant, at a participant, and at one in a process of its own, in a frame.
"""

_PAIR = 16
"""Bytes of g and h of one row, or of their masks."""


def working(role: int, params: TrainParams, sizes: TableSizes) -> Working:
    """Return the bytes of gradients and of the chunk that is worked on, and of margins, labels and weights."""
    form = params.loss.sealed
    looks_up = form is not None and (form.is_logistic or form.power is not None)
    rows = params.outputs * sizes.rows
    chunk = min(rows, TUNING.gradient_rows) if looks_up else 0
    secrets = params.outputs * sizes.all_rows + rows + (sizes.rows if params.weighted else 0)
    if role == COORDINATOR:  # it has masks alone
        looked_up = (_LOOKED_UP + _LOOKED_UP_EACH * sizes.participants) * chunk
        return Working(looked_up + 3 * _PAIR // 2 * rows, 8 * secrets)
    return Working(_LOOKED_UP_HERE * chunk + 3 * _PAIR * rows, 16 * secrets, _FRAME * chunk)
