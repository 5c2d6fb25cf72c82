"""Leaf weights within bounds, by Python's integers: scores, directions of columns, and bounds of children.

Bounds are in units of 2^-places of G~ / H~. A root is held to delta~ on both sides; a split on a column that has a
direction parts the bounds of its node between its children, in the middle of their weights.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mpfedxgb.ring.kernels import I64

Bounds = tuple[int, int]
Sums = tuple[int, int]
"""G~ and H~."""


@dataclass(frozen=True, slots=True)
class PlainRules:
    """How a tree grows: the integer constants of the round, and where "no split" stands among ties.

    `delta` bounds weights, in units of 2^-places of G~ / H~; None: nothing does. `directions` are those of the
    candidates, (candidates,), None without constraints; bounds are multiples of 2^coarse then, and there is a delta.
    """

    max_depth: int
    lam: int
    gam: int
    mcw: int
    no_split_first: bool
    first_layer_mask: bool
    alpha: int = 0
    delta: int | None = None
    places: int = 0
    coarse: int = 0
    directions: I64 | None = field(default=None, repr=False)

    @property
    def root(self) -> Bounds | None:
        """The bounds of a root; None if nothing holds weights."""
        return None if self.delta is None else (-self.delta, self.delta)


def threshold(G: int, rules: PlainRules) -> int:
    """Return T: G, alpha nearer to 0, or 0."""
    T = max(abs(G) - rules.alpha, 0)
    return T if G > 0 else -T


def held_at(G: int, H: int, rules: PlainRules, bounds: Bounds) -> int | None:
    """Return the bound that holds the weight of a node; None if it is within them."""
    T, D = threshold(G, rules) << rules.places, H + rules.lam
    return bounds[0] if T + D * bounds[0] > 0 else bounds[1] if T + D * bounds[1] < 0 else None


def numerator(G: int, H: int, rules: PlainRules, bounds: Bounds | None) -> int:
    """Return 2^(2 places) times a side's score times D = H + lambda: T^2, or -(D b)(2 (G + alpha sgn b) + D b)."""
    b = None if bounds is None else held_at(G, H, rules, bounds)
    if b is None:
        return threshold(G, rules) ** 2 << 2 * rules.places
    step = (H + rules.lam) * b
    return -step * (2 * (G + (rules.alpha if b > 0 else -rules.alpha) << rules.places) + step)


def keeps_to(direction: int, left: Sums, right: Sums, rules: PlainRules) -> bool:
    """Return whether the weights of both sides, without bounds, are the right way round for a column's direction."""
    (GL, HL), (GR, HR) = left, right
    apart = threshold(GL, rules) * (HR + rules.lam) - threshold(GR, rules) * (HL + rules.lam)
    return direction * apart >= 0


def of_sides(direction: int, left: Sums, right: Sums, rules: PlainRules, bounds: Bounds) -> tuple[Bounds, Bounds]:
    """Return the bounds of the children: floor((w_L + w_R) / 2) parts them, of weights that are held and rounded."""
    if not direction:
        return bounds, bounds
    middle = sum(_rounded(*side, rules, bounds) for side in (left, right)) // 2 << rules.coarse
    upper, lower = (bounds[0], middle), (middle, bounds[1])
    return (upper, lower) if direction > 0 else (lower, upper)


def _rounded(G: int, H: int, rules: PlainRules, bounds: Bounds) -> int:
    """Return a weight within bounds in steps of 2^coarse, halves going up."""
    b = held_at(G, H, rules, bounds)
    if b is not None:
        return b >> rules.coarse
    D = H + rules.lam << rules.coarse
    return (2 * (-threshold(G, rules) << rules.places) + D) // (2 * D)
