"""Loss reductions where a side of no hessian may win: as `gain`, with two more scores per candidate.

It takes a loss of one's own to come here (see `scales.weightless_wins`), so the code is of general parts, not fast.
"""

from __future__ import annotations

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.argmax import Fractions
from mpfedxgb.protocols.bits import Bit, BitProduct, opening_bit, shares_of_bit_products
from mpfedxgb.protocols.compare import comparing_with_zero
from mpfedxgb.protocols.lift import lifting
from mpfedxgb.protocols.multiply import Product, multiplying
from mpfedxgb.protocols.opening import Pending, masking, open_groups, open_masked, open_pending
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, stack
from mpfedxgb.tree.gain import OFFSET, shifted
from mpfedxgb.tree.level import Constants, TreeRules


def weightless_gains(
    party: Party,
    sums: Shares,
    totals: Secret,
    constants: Constants,
    rules: TreeRules,
    allowed: Bit | None,
    tags: Secret,
) -> Fractions:
    """Return the candidates of every node as `gains` does, where a candidate with a side of H = 0 takes part.

    It scores as XGBoost has it, by the other side alone, and wears the tag 0 of "no split". What is left out of the
    sample becomes A = 0, B = 1, after the product. Rounds: 4. Reveals: nothing.
    """
    with party.phase("gain"):
        party.step("open bucket sums")
        y = open_masked(party, shifted(party, sums))
        both = concatenate([y, (totals + OFFSET).reshape(*totals.shape, 1)])
        sides = _above_minimum(y[:, 1] - OFFSET, totals[:, 1:], constants.mcw)
        (values,), light = open_groups(
            party, [lifting(party, both, OFFSET, rules.ring)], [comparing_with_zero(party, sides)]
        )
        B0, products = _products(party, values, constants)
        squares = _squares(party, values)
        (A, B, A0, *alone), (too_light,) = open_groups(
            party, products + squares, [opening_bit(party, x) for x in light]
        )
        permitted = () if allowed is None else (allowed,)
        checks = (*permitted, *(~too_light[side] for side in (0, 1)))
        first = int(rules.no_split_first)
        own = tags[..., first : first + A.shape[-1]]
        weightless = [(*permitted, too_light[side]) for side in (0, 1)]
        A, B, own = _score_weightless(party, checks, weightless, (A, B, B0, own), alone)
        rest = tags[..., :1] if first else tags[..., -1:]
        tags = concatenate([rest, own] if first else [own, rest])
        columns = ([A0, A], [B0, B]) if first else ([A, A0], [B, B0])
        return Fractions(stack([concatenate(column) for column in columns]), tags, rules.bits or None)


def _products(party: Party, values: Secret, constants: Constants) -> tuple[Secret, list[Pending[Secret]]]:
    """Return B0 and, pending, A, B and A0, from wide sums (n, 2, columns + 1), the node's totals last."""
    G, H = values[:, 0, -1:], values[:, 1, -1:]
    GL, HL = values[:, 0, :-1], values[:, 1, :-1]
    GR, HR = G - GL, H - HL  # 14
    HL, HR, B0 = (x + constants.lam for x in (HL, HR, H))  # 16, 8
    batch = [
        [Product((GL, GL, HR)), Product((GR, GR, HL))],  # 15, over one denominator
        [Product((HL, HR))],
        [Product((G, G)), Product((constants.gam.reshape(1, 1), B0))],  # 8
    ]
    return B0, multiplying(party, batch, name="gains")


def _squares(party: Party, values: Secret) -> list[Pending[Secret]]:
    """Return G_R^2 and G_L^2, pending: what candidates score by if their left or right side weighs nothing."""
    GL = values[:, 0, :-1]
    GR = values[:, 0, -1:] - GL
    return multiplying(party, [[Product((GR, GR))], [Product((GL, GL))]], name="squares")


def _score_weightless(
    party: Party,
    checks: tuple[Bit, ...],
    weightless: list[tuple[Bit, ...]],
    scores: tuple[Secret, Secret, Secret, Secret],
    alone: list[Secret],
) -> tuple[Secret, Secret, Secret]:
    """Return A, B and tags where candidates with a weightless side score by the other one and are nobody's.

    XGBoost lets such a split win, and then does not split the node. Where both sides are weightless the score has no
    meaning, and needs none: all candidates of such a node are nobody's. Rounds: 1.
    """
    A, B, B0, tags = scores
    one = B * 0 + 1
    gated = [BitProduct(checks, A), BitProduct(checks, B - one, one), BitProduct(checks, tags)]
    gated += [BitProduct(bits, square) for bits, square in zip(weightless, alone, strict=True)]
    gated += [BitProduct(bits, B0 - one) for bits in weightless]
    a, b, own, a_left, a_right, b_left, b_right = shares_of_bit_products(party, gated, name="weightless sides")
    pending = [masking(party, shares) for shares in (a + a_left + a_right, b + b_left + b_right, own)]
    A, B, tags = open_pending(party, pending)
    return A, B, tags


def _above_minimum(left: Secret, total: Secret, mcw: Secret) -> Secret:
    """Return H_L and H_R, without lambda, less min_child_weight: (2, n, columns)."""
    return stack([left - mcw, total - left - mcw])
