"""SecureLeafWeight. In strict form the active participant learns which of its rows share a leaf, and divides alone.

(The paper restores every row's per-tree prediction at the active participant, which tells it the same partition.)

With `security="sealed"` nobody sees anything: exact division on secrets (Eq. 4). g and h have come down to the leaves;
their sums are divided, and what a row's leaves add up to stays secret too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.bits import Bit, BitProduct, shares_of_bit_products
from mpfedxgb.protocols.quotient import lift_secret, rounded_quotient
from mpfedxgb.protocols.reveal import reveal
from mpfedxgb.protocols.rows import rows_in_turns
from mpfedxgb.protocols.secret import Secret, Shares, concatenate_shares, reduced
from mpfedxgb.ring.array import RingArray, unpack, unpack_data
from mpfedxgb.ring.ring import VECTOR, Ring, wide
from mpfedxgb.tree.grow import Grown
from mpfedxgb.tree.level import Constants, TableSizes
from mpfedxgb.tree.nodes import GrownTree

WEIGHT_BITS = 32
"""Leaf weights and margins are integers in units of 2^-32."""

Members = npt.NDArray[np.uint8]
Sums = tuple[int, int]
"""G~ and H~ of a node."""


def reveal_leaves(party: Party, grown: Grown, sizes: TableSizes) -> Members | None:
    """Return which rows are in which leaf, (leaves, rows), to the active participant; None to the others.

    Rounds: 1. Sent: a bit per row and leaf by each auxiliary. Reveals: LEAF_MEMBERSHIP to the active participant; and
    what the tree's shape implies, OWN_PATH, is written down for the owners of whole paths.
    """
    with party.phase("leaves"):
        value = reveal(party, grown.members, ACTIVE, Entry.LEAF_MEMBERSHIP, len(grown.trees) * sizes.all_rows)
        for tree in grown.trees:
            record_own_paths(party, tree)
        return None if value.is_hidden else unpack_data(value.data, sizes.all_rows)


def record_own_paths(party: Party, tree: GrownTree, knows_leaves: bool = True) -> None:
    """Write down what the tree's shape implies for the owners of whole paths.

    The active participant is among them unless it `knows_leaves` anyway, all of them.
    """
    for owners in tree.path_owners().values():
        if len(owners) == 1 and not (knows_leaves and ACTIVE in owners):
            party.record(Entry.OWN_PATH, min(owners), 1)


def leaf_weight(G: int, H: int, f_g: int, f_h: int, reg_lambda: float, learning_rate: float) -> int:
    """Return rint(learning_rate * w * 2^32) for w = -G / (H + lambda), exactly (Eq. 4); 0 without a denominator."""
    a, b = _plus_lambda(H, f_h, reg_lambda)
    if a == 0:
        return 0
    rate, unit = learning_rate.as_integer_ratio()
    return _rint(*_times_power(-G * b * rate, a * unit, WEIGHT_BITS - f_g))


def split_gain(left: Sums, right: Sums, f_g: int, f_h: int, reg_lambda: float) -> float:
    """Return the loss reduction of a split, without gamma and the half of Eq. 3, as XGBoost reports it."""
    both = left[0] + right[0], left[1] + right[1]
    (a, b), (c, d), (e, f) = (_score(G, H, f_h, reg_lambda) for G, H in (left, right, both))
    above, below = _times_power(a * d * f + c * b * f - e * b * d, b * d * f, -2 * f_g)
    return above / below


def _score(G: int, H: int, f_h: int, reg_lambda: float) -> tuple[int, int]:
    """Return G^2 / (H + lambda) as a fraction, 0 where there is neither hessian nor lambda."""
    a, b = _plus_lambda(H, f_h, reg_lambda)
    return (G * G * b, a) if a else (0, 1)


def _plus_lambda(H: int, f_h: int, reg_lambda: float) -> tuple[int, int]:
    """Return H 2^-f_h + lambda as a fraction. Python's own add up several times slower, reduced at every step."""
    lam, unit = reg_lambda.as_integer_ratio()
    h, one = _times_power(H, 1, -f_h)
    return h * unit + lam * one, one * unit


def _times_power(above: int, below: int, exponent: int) -> tuple[int, int]:
    """Return a fraction times 2^exponent."""
    return (above << exponent, below) if exponent >= 0 else (above, below << -exponent)


def _rint(above: int, below: int) -> int:
    """Return the integer nearest to a fraction, of two the even one."""
    whole, rest = divmod(above, below)
    return whole + (2 * rest > below or (2 * rest == below and whole & 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """The public numbers of w = -round(G factor / ((H + lambda~) 2^shift)), halves going up before the sign.

    |G| is at most `largest_sum`, H + lambda~ at most `largest_divisor`, and |w| at most `largest_weight`.
    """

    factor: int
    shift: int
    largest_sum: int
    largest_divisor: int
    largest_weight: int

    @property
    def divisor_bits(self) -> int:
        """Bits of (H + lambda~) 2^shift."""
        return (self.largest_divisor << self.shift).bit_length()

    @property
    def ring(self) -> Ring:
        """The narrowest ring in which the division has room."""
        bits = max(self.divisor_bits + self.largest_weight.bit_length(), (self.largest_sum * self.factor).bit_length())
        return wide(max(2, -(-(bits + 4) // 64)))


def secure_leaf_weights(party: Party, grown: Grown, constants: Constants, division: Division) -> Secret:
    """Return the weights of all leaves, (leaves,) in the vector ring, from the sums that came down to them.

    Rounds: 1 for the lift and those of `rounded_quotient`. Reveals: nothing.
    """
    assert grown.totals is not None
    with party.phase("leaf weights"):
        ring = division.ring
        sums = lift_secret(party, grown.totals, ring)
        divisor = (sums[:, 1] + reduced(constants.lam, ring)) * (1 << division.shift)
        numerator = sums[:, 0] * division.factor
        quotients = rounded_quotient(party, numerator, divisor, division.largest_weight, division.divisor_bits)
        return -reduced(quotients, VECTOR)


def sum_of_leaves(party: Party, grown: Grown, weights: Secret, rows: int) -> Shares:
    """Return, as shares, the weight of the leaf that each row is in: (rows,).

    For 16 bytes dealt per row and leaf, the coordinator's shares of the masks of the bits and of their products with
    the masks of the weights.

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
        parts += shares_of_bit_products(party, [BitProduct((inside,), values, axis=0)], "leaf sums")
    if party.is_symbolic:
        return Shares(RingArray.hidden(VECTOR, (rows,)))
    return concatenate_shares(parts, axis=0)
