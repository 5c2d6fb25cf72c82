"""Leaves with `security="sealed"`: exact division on secrets (Eq. 4). g and h have come down to the leaves.

Their sums are divided, and what a row's leaves add up to stays secret too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, BitProduct, open_bit, shares_of_bit_products
from mpfedxgb.protocols.compare_bits import Sign, compare_together
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.quotient import lift_secret, rounded_quotient
from mpfedxgb.protocols.rows import rows_in_turns
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares, reduced, stack
from mpfedxgb.ring.array import RingArray, unpack
from mpfedxgb.ring.ring import VECTOR, Ring, wide
from mpfedxgb.tree.bounded import thresholded
from mpfedxgb.tree.constrained import weights_within
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.level import Constants, TreeRules

_AT_ONCE = 16
"""Trees of one step, for each of which two arrays are dealt; a message has room for 64."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The public numbers of w = -round(G factor / ((H + lambda~) 2^shift)), halves going up before the sign.

    |G| is at most `largest_sum`, H + lambda~ at most `largest_divisor`, and |w| at most `largest_weight`. Where columns
    have directions, G has `places` more, and `largest_sum` counts them.
    """

    factor: int
    shift: int
    largest_sum: int
    largest_divisor: int
    largest_weight: int
    places: int = 0

    @property
    def divisor_shift(self) -> int:
        """What H + lambda~ is shifted by before it divides."""
        return self.shift + self.places

    @property
    def divisor_bits(self) -> int:
        """Bits of (H + lambda~) 2^divisor_shift."""
        return (self.largest_divisor << self.divisor_shift).bit_length()

    @property
    def ring(self) -> Ring:
        """The narrowest ring in which the division has room."""
        bits = max(self.divisor_bits + self.largest_weight.bit_length(), (self.largest_sum * self.factor).bit_length())
        return wide(max(2, -(-(bits + 4) // 64)))


def secure_leaf_weights(
    party: Party,
    grown: Grown,
    constants: Constants,
    division: Division,
    rules: TreeRules,
    largest: Secret | None = None,
) -> Secret:
    """Return the weights of all leaves, (leaves,) in the vector ring, from the sums that came down to them.

    None is above `largest` in absolute value, if that is given. Where columns have directions, sums are held to the
    bounds that came down too.

    Rounds: 1 for the lift and those of `rounded_quotient`; 4 more with an L1 penalty, and 4 with a bound. Where columns
    have directions, those of `weights_within` in place of the lift and the penalty. Reveals: nothing.
    """
    assert grown.totals is not None
    with party.phase("leaf weights"):
        ring = division.ring
        if grown.bounds is not None:
            held, D = weights_within(party, grown.totals, grown.bounds, constants, rules)
            T, D = -reduced(held, ring), reduced(D, ring)
        else:
            sums = lift_secret(party, grown.totals, ring)
            T, D = sums[:, 0], sums[:, 1] + reduced(constants.lam, ring)
            if constants.alpha is not None:
                T = thresholded(party, grown.totals[:, 0], T, constants.alpha, rules.alpha_bits)
        bits, most = division.divisor_bits, division.largest_weight
        numerator, divisor = T * division.factor, D * (1 << division.divisor_shift)
        weights = -reduced(rounded_quotient(party, numerator, divisor, most, bits), VECTOR)
        return weights if largest is None else _clipped(party, weights, largest, (2 * most).bit_length() + 1)


def _clipped(party: Party, weights: Secret, largest: Secret, bits: int) -> Secret:
    """Return weights held to [-largest, largest]. Rounds: 4. Reveals: nothing."""
    (answers,) = compare_together(party, [Sign(stack([largest - weights, weights + largest]), bits)])
    outside = open_bit(party, answers)
    parts = [BitProduct((outside[0],), largest - weights, weights), BitProduct((outside[1],), -largest - weights)]
    above, below = shares_of_bit_products(party, parts, "clip")
    return open_masked(party, above + below)


def sum_of_leaves(
    party: Party, grown: Grown, weights: Secret, rows: int, trees: Sequence[Sequence[int]] | None = None
) -> Shares:
    """Return, as shares, the weight of the leaf that each row is in, (rows,); or of each tree's leaves, (trees, rows).

    The latter where `trees` gives the places of each tree's leaves. For 16 bytes dealt per row and leaf, the
    coordinator's shares of the masks of the bits and of their products with the masks of the weights.

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    members, leaves = grown.members, weights.shape[0]
    step = max(8, party.settings.tuning.leaf_elements // leaves // 8 * 8)
    values = weights.reshape(leaves, 1)
    parts = []
    for chunk in rows_in_turns(rows, step, party):
        packed = members[:, chunk.start // 8 : -(-chunk.stop // 8)]
        count = chunk.stop - chunk.start
        inside = Bit(Secret(unpack(packed.masked, count), unpack(packed.mask, count)))
        if trees is None:
            parts += shares_of_bit_products(party, [BitProduct((inside,), values, axis=0)], "leaf sums")
            continue
        sums: list[Shares] = []
        for first in range(0, len(trees), _AT_ONCE):
            batch = [BitProduct((inside[list(own)],), values[list(own)], axis=0) for own in trees[first:][:_AT_ONCE]]
            sums += shares_of_bit_products(party, batch, "leaf sums")
        parts.append(concatenate_shares([total.reshape(1, count) for total in sums], axis=0))
    if party.is_symbolic:
        return Shares(RingArray.hidden(VECTOR, (rows,) if trees is None else (len(trees), rows)))
    return concatenate_shares(parts)
