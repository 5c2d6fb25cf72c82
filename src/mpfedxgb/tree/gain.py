"""Loss reductions as fractions A / B, without division (Eq. 3 and 6; Algorithm 3, lines 8-18)."""

from __future__ import annotations

import numpy as np

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.argmax import Fractions
from mpfedxgb.protocols.bits import Bit, Gated, gated_sums, open_bit
from mpfedxgb.protocols.compare import negative
from mpfedxgb.protocols.lift import lift_opened
from mpfedxgb.protocols.multiply import Product, sums_of_products
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, public_shares, stack
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import VECTOR
from mpfedxgb.tree.level import Constants, TreeRules

_OFFSET = 1 << 62


def gains(
    party: Party,
    sums: Shares,
    totals: Secret,
    constants: Constants,
    rules: TreeRules,
    allowed: Bit | None,
    tags: Secret,
) -> Fractions:
    """Return the candidates of every node, "no split" among them, as fractions ready for the tournament.

    1. Lift the left sums and the node's totals to the wide ring; right = total - left.
    2. A = G_L^2 (H_R + lambda) + G_R^2 (H_L + lambda), B = (H_L + lambda)(H_R + lambda); "no split" is
       A = G^2 + gamma (H + lambda), B = H + lambda.
    3. Where a side may be too light or a column is left out, such candidates become A = 0, B = 1, after the product.

    sums (n, 2, columns), totals (n, 2), tags (n, columns + 1) to n tournaments. Rounds: 3, or 6 with checks. Reveals:
    nothing.
    """
    with party.phase("gain"):
        party.step("open bucket sums")
        y = open_masked(party, sums + public_shares(party, _constant(party, _OFFSET, sums.shape)))
        both = concatenate([y, (totals + _OFFSET).reshape(*totals.shape, 1)])
        values = lift_opened(party, both, _OFFSET, rules.ring)
        A, B, A0, B0 = _fractions(party, values, constants)
        checks = [] if allowed is None else [allowed]
        if rules.checks_children:
            checks += _heavy_enough(party, y[:, 1] - _OFFSET, totals[:, 1:], constants.mcw)
        if checks:
            one = B * 0 + 1
            A, B = gated_sums(
                party, [Gated(tuple(checks), A), Gated(tuple(checks), B - one, one)], name="invalidate candidates"
            )
        columns = ([A0, A], [B0, B]) if rules.no_split_first else ([A, A0], [B, B0])
        return Fractions(stack([concatenate(column) for column in columns]), tags)


def _fractions(party: Party, values: Secret, constants: Constants) -> tuple[Secret, Secret, Secret, Secret]:
    """Return A, B of the candidates and of "no split", from wide sums (n, 2, columns + 1), the node's totals last."""
    G, H = values[:, 0, -1:], values[:, 1, -1:]
    GL, HL = values[:, 0, :-1], values[:, 1, :-1]
    GR, HR = G - GL, H - HL + constants.lam
    HL = HL + constants.lam
    B0 = H + constants.lam
    A, B, A0 = sums_of_products(
        party,
        [
            [Product((GL, GL, HR)), Product((GR, GR, HL))],
            [Product((HL, HR))],
            [Product((G, G)), Product((constants.gam.reshape(1, 1), B0))],
        ],
        name="gains",
    )
    return A, B, A0, B0


def _heavy_enough(party: Party, left: Secret, total: Secret, mcw: Secret) -> list[Bit]:
    """Return two bits per candidate: H_L and H_R, without lambda, are at least min_child_weight."""
    sides = stack([left - mcw, total - left - mcw])
    light = open_bit(party, negative(party, sides))
    return [~light[0], ~light[1]]


def _constant(party: Party, value: int, shape: tuple[int, ...]) -> RingArray:
    if party.is_coordinator:
        return RingArray.hidden(VECTOR, shape)
    return RingArray.encode(VECTOR, np.array(value, np.int64)).broadcast_to(shape)
