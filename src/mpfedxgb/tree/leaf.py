"""Weights and gains of leaves and splits in the clear, exact, and what a tree's shape tells owners of whole paths."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mpfedxgb.party.entries import Entry
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.tree.nodes import GrownTree

WEIGHT_BITS = 32
"""Leaf weights and margins are integers in units of 2^-32."""

Members = npt.NDArray[np.uint8]
Sums = tuple[int, int]
"""G~ and H~ of a node."""


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
