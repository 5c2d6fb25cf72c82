"""Weights and gains of leaves and splits in the clear, exact, and what a tree's shape tells owners of whole paths."""

from __future__ import annotations

from dataclasses import dataclass

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
            party.record(Entry.OWN_PATH, party.roster.role_of(min(owners)), 1)


@dataclass(frozen=True, slots=True)
class Penalties:
    """What leaf weights are held back by, as users give it; a max_delta_step of 0 is none."""

    reg_lambda: float
    reg_alpha: float = 0.0
    max_delta_step: float = 0.0


def leaf_weight(G: int, H: int, f_g: int, f_h: int, penalties: Penalties, learning_rate: float) -> int:
    """Return rint(learning_rate * w * 2^32) for w = -T / (H + lambda), exactly (Eq. 4); 0 without a denominator.

    T is G, alpha nearer to 0; and w is held to max_delta_step.
    """
    a, b = _plus_lambda(H, f_h, penalties.reg_lambda)
    if a == 0:
        return 0
    T, unit = _threshold(G, f_g, penalties.reg_alpha)
    above, below = _clipped(*_times_power(T * b, a * unit, -f_g), penalties.max_delta_step)
    return times_rate(-above, below, learning_rate)


def times_rate(above: int, below: int, learning_rate: float, exponent: int = 0) -> int:
    """Return rint(learning_rate * w * 2^32) for a weight w = above / below * 2^exponent."""
    rate, unit = learning_rate.as_integer_ratio()
    return _rint(*_times_power(above * rate, below * unit, WEIGHT_BITS + exponent))


def scaled_weight(weight: int, scale: float) -> int:
    """Return the integer nearest to a leaf weight times the scale of its tree."""
    above, below = scale.as_integer_ratio()
    return _rint(weight * above, below)


def split_gain(left: Sums, right: Sums, f_g: int, f_h: int, penalties: Penalties) -> float:
    """Return the loss reduction of a split, without gamma and the half of Eq. 3, as XGBoost reports it."""
    both = left[0] + right[0], left[1] + right[1]
    (a, b), (c, d), (e, f) = (_score(G, H, f_g, f_h, penalties) for G, H in (left, right, both))
    above, below = _times_power(a * d * f + c * b * f - e * b * d, b * d * f, -2 * f_g)
    return above / below


def _score(G: int, H: int, f_g: int, f_h: int, penalties: Penalties) -> tuple[int, int]:
    """Return T^2 / (H + lambda) as a fraction, of a clipped weight less; 0 if there is neither hessian nor lambda.

    In units of 2^(-2 f_g). A weight b at its bound scores b (2 T - b (H + lambda)).
    """
    a, b = _plus_lambda(H, f_h, penalties.reg_lambda)
    if not a:
        return 0, 1
    T, unit = _threshold(abs(G), f_g, penalties.reg_alpha)
    above, below = T * T * b, a * unit * unit
    if penalties.max_delta_step:
        step, one = _times_power(*penalties.max_delta_step.as_integer_ratio(), f_g)
        if T * b * one > step * unit * a:  # T / unit / (a / b) > step / one
            above, below = step * (2 * T * b * one - step * a * unit), unit * b * one * one
    return above, below


def _threshold(G: int, f_g: int, reg_alpha: float) -> tuple[int, int]:
    """Return G, or what is left of it when alpha is taken off in the direction of 0, as a fraction."""
    if not reg_alpha:
        return G, 1
    alpha, unit = _times_power(*reg_alpha.as_integer_ratio(), f_g)
    T = max(abs(G) * unit - alpha, 0)
    return (T if G > 0 else -T), unit


def _clipped(above: int, below: int, most: float) -> tuple[int, int]:
    """Return a fraction held to [-most, most]; 0 stands for no bound."""
    b, unit = most.as_integer_ratio()
    if not b or abs(above) * unit <= b * below:
        return above, below
    return (b if above > 0 else -b), unit


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
