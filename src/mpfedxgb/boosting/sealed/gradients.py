"""Gradients on secrets: g and h of every training row from margins and labels that nobody sees (Algorithm 2, line 4).

Squared error is a difference, kept within its bounds. Log-loss is the integer sigmoid (`mpfedxgb.sigmoid`): the segment
that a margin lies in is looked up in a table under a mask, and a quadratic gives the rest. All of it is exact, in the
same integers as `plain_gradients` and the oracle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from mpfedxgb.boosting.sealed.rules import SealedRules
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, BitProduct, opening_bit, shares_of_bit_products
from mpfedxgb.protocols.bits_to_ring import BitField, bits_to_ring
from mpfedxgb.protocols.compare_bits import Borrow, Sign, compare_together
from mpfedxgb.protocols.look_up import looking_up
from mpfedxgb.protocols.multiply import Product, multiplying, sums_of_products
from mpfedxgb.protocols.opening import masking, open_groups, open_pending
from mpfedxgb.protocols.rows import rows_in_turns
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares, public_secret, to_shares
from mpfedxgb.protocols.truncate import cut, round_off
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR, Shape
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

END_HESSIAN = 1
"""h outside the range of the table: p (1 - p), rounded to its places."""

COMPARED_IN = 2
"""Rounds of a comparison inside a rounding, on bits: a seventh of the bytes of one on bytes, for a round more."""

CHUNK = 1 << 17
"""Rows that are worked on at a time; what is dealt for them takes some 0.8 kB each."""


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
    count = rows.margins.shape[0]
    parts = [_of_chunk(party, rows[some], rules) for some in rows_in_turns(count, CHUNK, party)]
    if party.follows_shapes:
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
