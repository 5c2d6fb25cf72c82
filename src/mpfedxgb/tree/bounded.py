"""Loss reductions where an L1 penalty or bounds hold weights back, as fractions without division (Eq. 3).

A side weighs w = -T / D, D = H + lambda, T = sign(G) max(|G| - alpha, 0), clipped to its node's bounds. By a bound b,
in units of 2^-places, it is clipped where T + D b is negative for the upper, positive for the lower one; its score,
times D, is T^2 then less (T + D b)^2. So scores still have the denominator D, and gains that of `level.gains`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.argmax import Fractions
from mpfedxgb.protocols.bits import Bit, BitProduct, open_bit, opening_bit, shares_of_bit_products
from mpfedxgb.protocols.compare_bits import Comparing, Ending, Gated, Sign, compare_together
from mpfedxgb.protocols.opening import (
    Pending,
    Product,
    masking,
    multiplying,
    open_groups,
    open_masked,
    open_pending,
)
from mpfedxgb.protocols.quotient import lifting
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, public_secret, reduced, stack
from mpfedxgb.ring.ring import VECTOR
from mpfedxgb.tree.level import OFFSET, Constants, TreeRules, no_split_beside, shifted


def bounded_gains(
    party: Party,
    sums: Shares,
    totals: Secret,
    constants: Constants,
    rules: TreeRules,
    allowed: Bit | None,
    tags: Secret,
) -> Fractions:
    """Return the candidates of every node, "no split" among them, as `level.gains` does.

    A node counts as a third side, which has no other one.

    1. Open the left sums under a mask.
    2. Lift them; right = total - left.
    3. Multiply both denominators, and denominators with bounds. Beside the second and third, sides are compared with
       alpha and with the least weight.
    4. Open whether G is above alpha, or below -alpha, as bits.
    5. T = G - alpha, G + alpha or 0. Beside the fourth and fifth, T is compared with the bounds' multiples.
    6. A = T_L^2 D_R + T_R^2 D_L; with bounds, also what clipping takes off, and open who is clipped, as bits.
    7. Take it off where they are.

    sums (n, 2, columns), totals (n, 2), tags (n, columns + 1) to n tournaments. Rounds: 6 with an L1 penalty alone, or
    else 7. Reveals: nothing.
    """
    with party.phase("gain"):
        nodes, _, columns = sums.shape
        y = concatenate([open_masked(party, shifted(party, sums)) - OFFSET, totals.reshape(nodes, 2, 1)])
        narrow = sides_of(y)
        asked = weights_of_sides(narrow[:, 1], columns, constants, rules, allowed)
        if constants.alpha is not None:
            asked.append(beyond(narrow[:, 0], reduced(constants.alpha, VECTOR), rules.alpha_bits))
        comparing = Comparing(party, asked) if asked else None
        lifted = lifting(party, y + OFFSET, OFFSET, rules.ring)
        ((wide,), _) = open_groups(party, [lifted], _pending(comparing))
        work = _Scores(party, constants, rules, sides_of(wide))
        (B, cost, *E), _ = open_groups(party, work.denominators(wide[:, 1]), _pending(comparing))
        answers = [] if comparing is None else comparing.answers()
        A = work.numerators(answers.pop() if constants.alpha is not None else None, E)
        A0, B0 = A[:, -1:] + cost, work.D[:, -1:]
        A = A[:, :columns] + A[:, columns:-1]
        heavy = answers[0].part if answers else None
        valid = no_split_beside(party, heavy, allowed, (nodes, columns), rules)
        pairs = ([A0, A], [B0, B]) if rules.no_split_first else ([A, A0], [B, B0])
        return Fractions(stack([concatenate(pair) for pair in pairs]), tags, rules.bits or None, valid)


def beyond(G: Secret, alpha: Secret, bits: int) -> Sign:
    """Return what asks of sums G (...) where G > alpha, and where G < -alpha: (2, ...)."""
    return Sign(stack([alpha - G, G + alpha]), bits)


def threshold(party: Party, G: Secret, alpha: Secret, outside: Bit) -> Pending[Secret]:
    """Prepare T = sign(G) max(|G| - alpha, 0), from the opened answers to `beyond`, up to its opening. Rounds: 0."""
    parts = [BitProduct((outside[0],), G - alpha), BitProduct((outside[1],), G + alpha)]
    return masking(party, reduce(add, shares_of_bit_products(party, parts, "threshold")))


def thresholded(party: Party, sums: Secret, G: Secret, alpha: Secret, bits: int) -> Secret:
    """Return T of `sums` in the vector ring, which are G in a wider one; alpha may be in a wider ring still.

    Rounds: 4. Reveals: nothing.
    """
    (answers,) = compare_together(party, [beyond(sums, reduced(alpha, VECTOR), bits)])
    return open_pending(party, [threshold(party, G, reduced(alpha, G.ring), open_bit(party, answers))])[0]


def sides_of(sums: Secret) -> Secret:
    """Return sums of the left sides, the right ones and the node from (n, 2, columns + 1), totals last. Local."""
    left, total = sums[..., :-1], sums[..., -1:]
    return concatenate([left, total - left, total])


def _pending(comparing: Comparing | None) -> Sequence[Pending[None]]:
    return [] if comparing is None else comparing.pending()


def weights_of_sides(
    H: Secret, columns: int, constants: Constants, rules: TreeRules, allowed: Bit | None
) -> list[Sign | Gated]:
    """Return what asks where neither side is too light and a candidate is allowed: (n, columns)."""
    if not rules.checks_children:
        return []
    light = stack([H[:, :columns], H[:, columns : 2 * columns]]) - constants.mcw
    bits = rules.hessian_bits or VECTOR.bits
    if allowed is None:
        return [Gated(light, bits, Ending.NEITHER)]
    return [Gated(light, bits, Ending.NEITHER_AND, (allowed.secret,))]


class _Scores:
    """The scores of the sides (n, 2 columns + 1) of a level's candidates and nodes, as numerators over products of D.

    `others` are the denominators of the sides beside them, by which numerators are multiplied; 1 for the nodes.
    """

    def __init__(self, party: Party, constants: Constants, rules: TreeRules, sides: Secret) -> None:
        self.party, self.constants, self.rules = party, constants, rules
        self.G, self.H = sides[:, 0], sides[:, 1]
        self.D = self.H + constants.lam
        self.columns = self.D.shape[1] // 2
        left, right = self.D[:, : self.columns], self.D[:, self.columns : -1]
        one = public_secret(party, rules.ring, np.ones((self.D.shape[0], 1), np.int64))
        self.others = concatenate([right, left, one])

    def denominators(self, H: Secret) -> list[Pending[Secret]]:
        """Prepare B, gamma (H + lambda), and where weights are clipped H delta and lambda delta. Rounds: 0."""
        left, right = self.D[:, : self.columns], self.D[:, self.columns : -1]
        lam, gam, delta = self.constants.lam, self.constants.gam, self.constants.delta
        wanted = [[Product((left, right))], [Product((gam, self.D[:, -1:]), 1 << 2 * self.rules.places)]]
        if delta is not None:
            wanted += [[Product((H, delta))], [Product((lam, delta))]]
        return multiplying(self.party, wanted, name="denominators")

    def numerators(self, outside: Shares | None, E: Sequence[Secret]) -> Secret:
        """Return scores times D, times that of the other side: (n, 2 columns + 1).

        `outside` are the answers to `beyond`; E are H delta (n, columns + 1), totals last, and lambda delta, if any.
        """
        if not E:
            T = self._thresholds(outside, None)
            return open_pending(self.party, multiplying(self.party, [[Product((T, T, self.others))]], name="scores"))[0]
        left, total = E[0][:, :-1], E[0][:, -1:]
        step = concatenate([left, total - left, total]) + E[1]  # D delta
        one, alpha = 1 << self.rules.places, self.constants.alpha
        above, below = (self.G, self.G) if alpha is None else (self.G - alpha, self.G + alpha)
        clipping = Comparing(self.party, [Sign(stack([below * one + step, step - above * one]), self.rules.clip_bits)])
        T = self._thresholds(outside, clipping) * one
        ends = T + step, T - step
        wanted = [[Product((T, T, self.others))], *([Product((end, end, self.others), -1)] for end in ends)]
        (clipped,) = (opening_bit(self.party, answer) for answer in clipping.answers())
        products = multiplying(self.party, wanted, name="scores")
        (score, *less), (is_clipped,) = open_groups(self.party, products, [clipped])
        parts = [BitProduct((is_clipped[i],), x) for i, x in enumerate(less)]
        shares = shares_of_bit_products(self.party, [*parts[:-1], BitProduct(parts[-1].bits, less[-1], score)], "clip")
        return open_masked(self.party, reduce(add, shares))

    def _thresholds(self, outside: Shares | None, beside: Comparing | None) -> Secret:
        """Return T, and go two rounds further in what is computed beside."""
        if outside is None or self.constants.alpha is None:
            for _ in range(2):
                open_pending(self.party, _pending(beside))
            return self.G
        opening = opening_bit(self.party, outside)
        (bits,), _ = open_groups(self.party, [opening], _pending(beside))
        prepared = threshold(self.party, self.G, self.constants.alpha, bits)
        return open_groups(self.party, [prepared], _pending(beside))[0][0]
