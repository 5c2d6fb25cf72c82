"""Bounds of leaf weights on secrets, where columns have directions that predictions keep to (monotone constraints).

A node's weight is held to its bounds; a root's are -delta and delta. A split on a column with direction 1 or -1 parts
them between its children, in the middle of their weights. Which columns have one is their owners' secret, and so are
all bounds. Unless said otherwise, they are in units of 2^-places of G~ / H~.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.argmax import Fractions
from mpfedxgb.protocols.bits import (
    Bit,
    BitProduct,
    multiplying_by_bits,
    open_bit,
    opening_bit,
    shares_of_bit_products,
    sums_of_bit_products,
)
from mpfedxgb.protocols.compare_bits import Comparing, Ending, Gated, Sign, compare_together
from mpfedxgb.protocols.opening import Pending, Product, multiplying, open_masked, open_pending
from mpfedxgb.protocols.quotient import lifting, rounded_quotient, truncate
from mpfedxgb.protocols.secret import (
    Secret,
    Shares,
    concatenate,
    public_secret,
    public_shares,
    reduced,
    stack,
    to_shares,
)
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import BIT, VECTOR
from mpfedxgb.tree.bounded import beyond, sides_of, threshold, weights_of_sides
from mpfedxgb.tree.level import OFFSET, Constants, TreeRules, no_split_beside, shifted


def root_bounds(constants: Constants, trees: int) -> Secret:
    """Return the bounds of the roots of a boosting round: (trees, 2). Local."""
    assert constants.delta is not None
    return stack([-constants.delta, constants.delta]).reshape(1, 2).broadcast_to((trees, 2))


def constrained_gains(
    party: Party,
    sums: Shares,
    totals: Secret,
    bounds: Secret,
    sigma: Secret,
    constants: Constants,
    rules: TreeRules,
    allowed: Bit | None,
    tags: Secret,
) -> Fractions:
    """Return the candidates of every node, "no split" among them, as `level.gains` does.

    As `bounded_gains`; bounds have signs of their own, and numerators may be negative. Held to a bound b a side has the
    numerator -(D b)(2 (G + alpha sgn b) + D b). A candidate is valid if its column's direction sigma, -1, 0 or 1, has
    sigma (T_L D_R - T_R D_L) >= 0: bounds make weights equal that are the wrong way round, but then "no split" is no
    worse.

    bounds (n, 2), sigma (columns). Rounds: 7, and 2 more with an L1 penalty. Reveals: nothing.
    """
    with party.phase("gain"):
        nodes, _, columns = sums.shape
        alpha, one = constants.alpha, 1 << rules.places
        y = concatenate([open_masked(party, shifted(party, sums)) - OFFSET, totals.reshape(nodes, 2, 1)])
        narrow = sides_of(y)
        asked = weights_of_sides(narrow[:, 1], columns, constants, rules, allowed)
        if alpha is not None:
            asked += [Sign(bounds, rules.bound_bits), beyond(narrow[:, 0], reduced(alpha, VECTOR), rules.alpha_bits)]
        comparing = Comparing(party, asked) if asked else None
        (wide,) = _open(party, [lifting(party, y + OFFSET, OFFSET, rules.ring)], comparing)
        G, H = (sides_of(wide)[:, k] for k in (0, 1))
        D, lam = H + constants.lam, constants.lam
        left, right = D[:, :columns], D[:, columns:-1]
        held = bounds.reshape(nodes, 2, 1)
        wanted = [[Product((left, right))], [Product((constants.gam, D[:, -1:]), 1 << 2 * rules.places)]]
        wanted += [[Product((wide[:, 1:], held))], [Product((lam, held))]]
        B, cost, of_sums, of_lam = _open(party, multiplying(party, wanted, name="denominators"), comparing)
        E = sides_of(of_sums) + of_lam  # D b of both bounds (n, 2, sides)
        answers = [] if comparing is None else comparing.answers()
        T, signed = G, None
        if alpha is not None:
            outside, below = answers.pop(), answers.pop()
            bits, signs = _open(party, [opening_bit(party, outside), opening_bit(party, below)])
            whole = alpha.broadcast_to(bounds.shape)
            turned = multiplying_by_bits(party, [BitProduct((signs,), -2 * whole, whole)], "signs")
            T, signed = _open(party, [threshold(party, G, alpha, bits), *turned])
        heavy = [opening_bit(party, answers[0])] if answers else []
        clipping = Comparing(party, [_beyond_bounds(T * one, E, rules)])
        apart = [Product((sigma, T[:, :columns], right)), Product((sigma, T[:, columns:-1], left), -1)]
        M, *taking_part = _open(party, [*multiplying(party, [apart], name="order"), *heavy], clipping)
        part = taking_part[0] if taking_part else allowed
        order = Comparing(party, [_against(M, part, rules)])
        _open(party, [], clipping, order)
        node = public_secret(party, rules.ring, np.ones((nodes, 1), np.int64))  # which has no other side
        others = concatenate([right, left, node])
        scores = [[Product((T * one, T * one, others))], *_lost(G * one, T * one, E, others, signed, one)]
        clipped = [opening_bit(party, answer) for answer in clipping.answers()]
        score, *lost, outside = _open(party, [*multiplying(party, scores, name="scores"), *clipped], order)
        parts = [BitProduct((outside[0],), lost[1], score), BitProduct((outside[1],), lost[0])]
        above, below = shares_of_bit_products(party, parts, "clip")
        A = open_masked(party, above + below)
        A0, B0 = A[:, -1:] + cost, D[:, -1:]
        A = A[:, :columns] + A[:, columns:-1]
        valid = _keeping(party, order.answers()[0], part, (nodes, columns), rules)
        pairs = ([A0, A], [B0, B]) if rules.no_split_first else ([A, A0], [B, B0])
        value = stack([concatenate(pair) for pair in pairs])
        return Fractions(value, tags, rules.bits or None, valid, signed=True)


def bounds_of_children(
    party: Party, sums: Secret, parents: Secret, middle_is_upper: Bit, constants: Constants, rules: TreeRules
) -> Secret:
    """Return the bounds of the children of n splits, (2 n, 2), all left ones first, from those of their parents.

    1. Divide: weights within the parents' bounds, in steps of bounds (see `weights_within`), halves up.
    2. The middle is floor((w_L + w_R) / 2).
    3. It is the upper bound of the left child and the lower one of the right, or the other way round, or neither, as
       the two bits of a split say.

    sums (2 n, 2), parents (n, 2), middle_is_upper (n, 2). Rounds: 6, and 2 more with an L1 penalty, those of
    `rounded_quotient` and 3. Reveals: nothing.
    """
    with party.phase("bounds"):
        n = parents.shape[0]
        numerator, D = weights_within(party, sums, concatenate([parents, parents], axis=0), constants, rules)
        steps = rounded_quotient(
            party, numerator, D * (1 << rules.coarse), rules.largest_step, rules.divisor_bits + rules.coarse
        )
        middle = truncate(party, steps[:n] + steps[n:], 1, rounds=2) * (1 << rules.coarse)
        lo, hi = parents[:, 0], parents[:, 1]
        of_left, of_right = middle_is_upper[:, 0], middle_is_upper[:, 1]
        parts = [BitProduct((bit,), middle - old, old) for bit in (of_left, of_right) for old in (lo, hi)]
        right_lo, left_hi, left_lo, right_hi = sums_of_bit_products(party, parts, "children")
        return concatenate([stack([left_lo, left_hi], 1), stack([right_lo, right_hi], 1)], axis=0)


def held_weights(party: Party, sums: Secret, bounds: Secret, constants: Constants, rules: TreeRules) -> Shares:
    """Return, as shares (leaves), the bounds that hold leaf weights, plus `held_offset`; 0 if none holds one.

    Rounds: 5, and 2 more with an L1 penalty. Reveals: nothing.
    """
    with party.phase("held weights"):
        _, _, _, outside = _clip(party, sums, bounds, constants, rules)
        shown = bounds + held_offset(rules)
        parts = [BitProduct((outside[0],), shown[:, 1]), BitProduct((outside[1],), shown[:, 0])]
        above, below = shares_of_bit_products(party, parts, "held")
        return above + below


def held_offset(rules: TreeRules) -> int:
    """Return what makes all bounds positive."""
    return 1 << rules.bound_bits


def weights_within(
    party: Party, sums: Secret, bounds: Secret, constants: Constants, rules: TreeRules
) -> tuple[Secret, Secret]:
    """Return numerator and denominator of weights within bounds, in units of bounds: -T 2^places or b D, and D.

    Rounds: 6, and 2 more with an L1 penalty. Reveals: nothing.
    """
    T, D, E, outside = _clip(party, sums, bounds, constants, rules)
    parts = [BitProduct((outside[0],), E[:, 1] + T, -T), BitProduct((outside[1],), E[:, 0] + T)]
    above, below = shares_of_bit_products(party, parts, "hold")
    return open_masked(party, above + below), D


def _clip(
    party: Party, sums: Secret, bounds: Secret, constants: Constants, rules: TreeRules
) -> tuple[Secret, Secret, Secret, Bit]:
    """Return T 2^places, D and D b (nodes, 2) of nodes, and whether their weights are above or below bounds (2, nodes).

    Rounds: 5, and 2 more with an L1 penalty.
    """
    alpha = constants.alpha
    asked = [] if alpha is None else [beyond(sums[:, 0], reduced(alpha, VECTOR), rules.alpha_bits)]
    comparing = Comparing(party, asked) if asked else None
    (wide,) = _open(party, [lifting(party, sums + OFFSET, OFFSET, rules.ring)], comparing)
    T, D = wide[:, 0], wide[:, 1] + constants.lam
    products = multiplying(party, [[Product((D.reshape(-1, 1), bounds))]], name="bounds times denominators")
    (E,) = _open(party, products, comparing)
    if alpha is not None and comparing is not None:
        (bits,) = _open(party, [opening_bit(party, comparing.answers()[0])])
        (T,) = _open(party, [threshold(party, T, alpha, bits)])
    T = T * (1 << rules.places)
    (answers,) = compare_together(party, [_beyond_bounds(T, E, rules)])
    return T, D, E, open_bit(party, answers)


def _open(party: Party, pending: list[Pending[Any]], *comparing: Comparing | None) -> list[Any]:
    """Open pending things, and beside them what comparisons have to open, in one round."""
    beside = [each for one in comparing if one is not None for each in one.pending()]
    return open_pending(party, [*pending, *beside])[: len(pending)]


def _beyond_bounds(T: Secret, E: Secret, rules: TreeRules) -> Sign:
    """Return what asks where a weight is above its upper bound, and where below its lower one: (2, n, ...)."""
    return Sign(stack([T + E[:, 1], -T - E[:, 0]]), rules.clip_bits)


def _lost(G: Secret, T: Secret, E: Secret, others: Secret, signed: Secret | None, one: int) -> list[list[Product]]:
    """Return what scores change by where a bound holds a weight, the lower one first, times `others`.

    It is -T^2 - D b (2 (G + alpha sgn b) + D b), and -(T + D b)^2 without alpha. `signed` is alpha sgn b (n, 2). All
    but `signed` are times `one`.
    """
    lost = []
    for k in (0, 1):
        step = E[:, k]
        if signed is None:
            lost.append([Product((T + step, T + step, others), -1)])
        else:
            twice = 2 * (G + signed[:, k : k + 1] * one) + step
            lost.append([Product((step, twice, others), -1), Product((T, T, others), -1)])
    return lost


def _against(M: Secret, part: Bit | None, rules: TreeRules) -> Sign | Gated:
    """Return what asks where a candidate goes against its column's direction, of those that take part otherwise."""
    if part is None:
        return Sign(M, rules.order_bits)
    return Gated(M.reshape(1, *M.shape), rules.order_bits, Ending.AND, (part.secret,))


def _keeping(
    party: Party, against: Shares, part: Bit | None, shape: tuple[int, int], rules: TreeRules
) -> Shares | None:
    """Return which candidates take part, shared, and "no split". Local."""
    if part is not None:
        valid = against + to_shares(party, part.secret)
    else:
        one = RingArray(BIT, np.ones(shape, np.uint8))
        valid = against + public_shares(party, RingArray.hidden(BIT, shape) if party.is_symbolic else one)
    return no_split_beside(party, valid.part, None, shape, rules)
