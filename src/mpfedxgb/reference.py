"""The oracle: plaintext XGBoost on integers, with exactly the rules of the secure trees. Naive, short, no secure code.

One tree is grown on integer g and h (rows,) over candidate columns of 0/1 bits. The gain of a candidate is compared as
an exact fraction; ties go to the lower index; "no split" is a candidate like the others.

A node's weight is w = -T / (H + lambda), T = sign(G) max(|G| - alpha, 0), held to the node's bounds; its score is
-(2 G w + (H + lambda) w^2 + 2 alpha |w|), which without alpha and bounds is G^2 / (H + lambda).

A column may have a direction: 1 where the weights of its splits must not fall from left to right, -1 where they must
not rise. A split that keeps to it parts the bounds of its node between the two sides.

A sealed training (`train_sealed`) is a function of integers as a whole: margins, gradients and leaf weights are rounded
by one rule, round(x) = floor(x + 1/2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.exponential import exponential
from mpfedxgb.sigmoid import PLACES, sigmoid
from mpfedxgb.softmax import softmax

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the weight of a node is held to, in units of 2^-places of G~ / H~; None: nothing."""

    lo: int | None = None
    hi: int | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """Integer constants of one tree: lambda~, gamma~, the least H~ of a side, where "no split" stands among ties.

    alpha~ is in the units of G~, and delta~ bounds all weights, in the units of `Bounds`; None: they have no bound.
    `directions` are those of the candidates' columns, () if there are none; bounds are multiples of 2^coarse then, and
    delta~ is given.
    """

    max_depth: int
    lam: int
    gam: int
    mcw: int
    no_split_first: bool
    first_layer: slice | None = None
    alpha: int = 0
    delta: int | None = None
    places: int = 0
    directions: tuple[int, ...] = ()
    coarse: int = 0

    @property
    def bounds(self) -> Bounds:
        """The bounds of a root."""
        return Bounds() if self.delta is None else Bounds(-self.delta, self.delta)


@dataclass(frozen=True, slots=True)
class RefLeaf:
    """A leaf with the rows in it, the sums over them, and what its weight is held to."""

    rows: tuple[int, ...]
    G: int
    H: int
    bounds: Bounds = Bounds()


@dataclass(frozen=True, slots=True)
class RefSplit:
    """A split by the candidate of that index."""

    index: int
    left: RefNode
    right: RefNode


RefNode = RefLeaf | RefSplit

Way = tuple[bool, ...]
"""From the root to a node: True for every left child."""

Sample = Callable[[Way], Bits]
"""Which candidates take part in a node, (candidates,)."""

Grow = Callable[[Bits, Ints, Ints, Rules], RefNode]
"""How a tree grows, with the samples of its columns."""
Number = TypeVar("Number", int, Fraction)


def grow(bits: Bits, g: Ints, h: Ints, rules: Rules, allowed: Bits | Sample | None = None) -> RefNode:
    """Return one tree (Algorithm 3 in the clear): bits (candidates, rows), allowed (candidates,) for samples.

    Nodes may have samples of their own: `allowed` is asked by the way to a node then, True for left.
    """
    columns = bits.astype(np.int64)
    permitted = np.ones(len(bits), np.uint8) if allowed is None else allowed
    sample = permitted if callable(permitted) else lambda way: permitted
    return _build(columns, g, h, np.ones(len(g), bool), rules, sample, (), rules.bounds)


def grow_numbered(
    bits: Bits, g: Ints, h: Ints, rules: Rules, sample: Callable[[int, int], Bits], coin: Callable[[int, int], bool]
) -> RefNode:
    """Return one tree whose nodes have samples of their own, by depth and number.

    A coin, by candidate and number, tells of which child the number is lower, of the right one if it is True. Numbers
    of a level are known when those above it are: so the tree is grown anew for each level.
    """
    numbers: dict[Way, int] = {(): 0}
    tree = grow(bits, g, h, replace(rules, max_depth=0))
    for depth in range(1, rules.max_depth + 1):
        known = dict(numbers)
        tree = grow(bits, g, h, replace(rules, max_depth=depth), lambda way: sample(len(way), known[way]))  # noqa: B023 # called at once
        numbers = {(): 0}
        level: list[tuple[Way, RefNode]] = [((), tree)]
        for way, node in level:  # grows while it is walked, in the order of the numbers
            if isinstance(node, RefSplit):
                children: list[tuple[Way, RefNode]] = [((*way, True), node.left), ((*way, False), node.right)]
                if coin(node.index, numbers[way]):
                    children.reverse()
                for child, _ in children:
                    numbers[child] = len(numbers)
                level += children
    return tree


def _build(
    columns: Ints,
    g: Ints,
    h: Ints,
    here: npt.NDArray[np.bool_],
    rules: Rules,
    sample: Sample,
    way: Way,
    bounds: Bounds,
) -> RefNode:
    depth = len(way)
    G, H = int(g[here].sum()), int(h[here].sum())
    if depth < rules.max_depth and len(columns):
        left = columns @ np.where(here, [g, h], 0).T
        candidates = slice(None) if depth or rules.first_layer is None else rules.first_layer
        among = range(len(columns))[candidates]
        best = _best([(int(a), int(b)) for a, b in left], G, H, rules, sample(way), among, bounds)
        if best is not None:
            goes = columns[best].astype(bool)
            GL, HL = (int(side) for side in left[best])
            sigma = rules.directions[best] if rules.directions else 0
            of_left, of_right = bounds_of_sides(sigma, (GL, HL), (G - GL, H - HL), rules, bounds)
            return RefSplit(
                best,
                _build(columns, g, h, here & goes, rules, sample, (*way, True), of_left),
                _build(columns, g, h, here & ~goes, rules, sample, (*way, False), of_right),
            )
    return RefLeaf(tuple(int(i) for i in np.flatnonzero(here)), G, H, bounds if rules.directions else Bounds())


def _best(
    left: Sequence[tuple[int, int]],
    G: int,
    H: int,
    rules: Rules,
    allowed: Bits,
    among: range,
    bounds: Bounds | None = None,
) -> int | None:
    """Return the best candidate, or None for "no split"; without `bounds` of the node, under those of a root."""
    held = rules.bounds if bounds is None else bounds
    no_split = score(G, H, rules, held) + rules.gam
    best, value = None, no_split if rules.no_split_first else None
    for index in among:
        GL, HL = left[index]
        GR, HR = G - GL, H - HL
        if not allowed[index] or min(HL, HR) < rules.mcw:
            continue
        if rules.directions and not keeps_to(rules.directions[index], (GL, HL), (GR, HR), rules):
            continue
        gain = score(GL, HL, rules, held) + score(GR, HR, rules, held)
        if value is None or gain > value:
            best, value = index, gain
    if not rules.no_split_first and (value is None or no_split > value):
        return None
    return best


def keeps_to(sigma: int, left: tuple[int, int], right: tuple[int, int], rules: Rules) -> bool:
    """Return whether a split keeps to its column's direction: sigma (T_L D_R - T_R D_L) >= 0, so without bounds.

    Bounds may make two weights equal that are the wrong way round. Then both are the same bound b, and the split scores
    -(2 G b + (H + 2 lambda) b^2 + 4 alpha |b|), which is no more than its node does: it is never the best.
    """
    (GL, HL), (GR, HR) = left, right
    TL, TR = _threshold(GL, rules.alpha), _threshold(GR, rules.alpha)
    return sigma * (TL * (HR + rules.lam) - TR * (HL + rules.lam)) >= 0


def bounds_of_sides(
    sigma: int, left: tuple[int, int], right: tuple[int, int], rules: Rules, bounds: Bounds
) -> tuple[Bounds, Bounds]:
    """Return the bounds of both sides of a split: those of its node, parted between them if the column has a direction.

    The weights are held to the node's bounds and rounded, and the middle is floor((w_L + w_R) / 2), all in steps of
    bounds.
    """
    if not sigma:
        return bounds, bounds
    steps = Fraction(1 << rules.places, 1 << rules.coarse)
    wL, wR = (_round(weight(*side, rules, bounds) * steps) for side in (left, right))
    middle = (wL + wR) // 2 << rules.coarse
    upper, lower = Bounds(bounds.lo, middle), Bounds(middle, bounds.hi)
    return (upper, lower) if sigma > 0 else (lower, upper)


def weight(G: int, H: int, rules: Rules, bounds: Bounds) -> Fraction:
    """Return the weight of a node in units of G~ / H~, without the learning rate."""
    w = Fraction(-_threshold(G, rules.alpha), H + rules.lam)
    if bounds.lo is not None:
        w = max(w, Fraction(bounds.lo, 1 << rules.places))
    return w if bounds.hi is None else min(w, Fraction(bounds.hi, 1 << rules.places))


def score(G: int, H: int, rules: Rules, bounds: Bounds) -> Fraction:
    """Return what a node's weight takes off the loss, twice (Eq. 3 where nothing binds)."""
    w = weight(G, H, rules, bounds)
    return -(2 * G * w + (H + rules.lam) * w * w + 2 * rules.alpha * abs(w))


def _threshold(G: Number, alpha: Number) -> Number:
    """Return G, alpha nearer to 0, or 0."""
    return max(G - alpha, 0 * G) if G > 0 else min(G + alpha, 0 * G)


def leaf_weight(
    leaf: RefLeaf,
    f_g: int,
    f_h: int,
    reg_lambda: float,
    learning_rate: float,
    leaf_scale_bits: int,
    reg_alpha: float = 0.0,
    max_delta_step: float = 0.0,
) -> int:
    """Return rint(learning_rate * w * 2^leaf_scale_bits), w = -T / (H + lambda) exactly (Eq. 4); 0 if that is 0."""
    w = _exact_weight(leaf.G, leaf.H, f_g, f_h, reg_lambda, reg_alpha, max_delta_step)
    return round(w * Fraction(learning_rate) * (1 << leaf_scale_bits))


def held_leaf_weight(
    leaf: RefLeaf, f_g: int, f_h: int, rules: Rules, learning_rate: float, leaf_scale_bits: int
) -> int:
    """Return the same of a constrained tree: w as the integers have it, within the leaf's bounds."""
    w = weight(leaf.G, leaf.H, rules, leaf.bounds) * Fraction(2) ** (f_h - f_g)
    return round(w * Fraction(learning_rate) * (1 << leaf_scale_bits))


def is_held(node: RefNode, rules: Rules) -> bool:
    """Return whether a node is a leaf whose weight is one of its bounds, and another without them."""
    if isinstance(node, RefSplit):
        return False
    return weight(node.G, node.H, rules, node.bounds) != weight(node.G, node.H, rules, Bounds())


def _exact_weight(
    G: int, H: int, f_g: int, f_h: int, reg_lambda: float, reg_alpha: float, max_delta_step: float
) -> Fraction:
    D = Fraction(H) / Fraction(2) ** f_h + Fraction(reg_lambda)
    if D == 0:
        return Fraction(0)
    w = -_threshold(Fraction(G) / Fraction(2) ** f_g, Fraction(reg_alpha)) / D
    most = Fraction(max_delta_step)
    return max(-most, min(most, w)) if most else w


def sums(node: RefNode) -> tuple[int, int]:
    """Return G and H of a node."""
    if isinstance(node, RefLeaf):
        return node.G, node.H
    (GL, HL), (GR, HR) = sums(node.left), sums(node.right)
    return GL + GR, HL + HR


def gain(
    split: RefSplit,
    f_g: int,
    f_h: int,
    reg_lambda: float,
    reg_alpha: float = 0.0,
    max_delta_step: float = 0.0,
) -> float:
    """Return what a split gains: the scores of both sides less that of the node (Eq. 3, without gamma and half)."""

    def exact(node: RefNode) -> Fraction:
        G, H = sums(node)
        w = _exact_weight(G, H, f_g, f_h, reg_lambda, reg_alpha, max_delta_step)
        D = Fraction(H) / Fraction(2) ** f_h + Fraction(reg_lambda)
        return -(2 * w * Fraction(G) / Fraction(2) ** f_g + D * w * w + 2 * Fraction(reg_alpha) * abs(w))

    return float(exact(split.left) + exact(split.right) - exact(split))


@dataclass(frozen=True, slots=True)
class RefSealed:
    """The numbers of a sealed training that are no tree's: the loss, the rounds, the rate, where margins start.

    `start` is that of all rows, or (all rows,) where they have their own.
    |g| is held to `g_cap` in regression. h is in units of 2^-h_places, but for the units of row weights: a weight of
    2^rounding leaves g and h as they are. `largest` bounds leaf weights, in the units of margins.

    A loss of positive means has a `power` p: e^((2 - p) F) and e^((p - 1) (y - F)) are in units of 2^-e_places, 1 too.
    With several `classes`, 0 for none, margins and labels are (classes, rows), and a round has a tree for each.
    """

    is_logistic: bool
    rounds: int
    learning_rate: float
    start: int | Ints = 0
    g_cap: int = 0
    h_places: int = PLACES
    rounding: int = 24
    largest: int | None = None
    power: float | None = None
    e_places: int = PLACES
    classes: int = 0


def train_sealed(
    bits: Bits,
    y: Ints,
    rules: Rules,
    sealed: RefSealed,
    weights: Ints | None = None,
    inside: Bits | None = None,
    growing: Callable[[int, int], Grow] = lambda t, k: grow,
) -> tuple[list[RefNode], list[Ints]]:
    """Return the trees of a whole sealed training, and all rows' margins after each round of them.

    bits (candidates, all rows) has evaluation rows behind those that have a label: they follow the splits and count
    nothing. y and weights (rows,), the samples inside (rounds, rows); `growing` says how tree k of a round grows.
    """
    rows, every = y.shape[-1], bits.shape[1]
    F = np.full((sealed.classes, every) if sealed.classes else every, sealed.start, np.int64)
    trees, margins = [], []
    for t in range(sealed.rounds):
        gh = sealed_gradients(sealed, F[..., :rows], y, weights, None if inside is None else inside[t])
        F = F.copy()
        for k, (of_tree, g, h) in enumerate(zip(*(np.atleast_2d(part) for part in (F, *gh)), strict=True)):
            nothing = np.zeros(every - rows, np.int64)
            tree = growing(t, k)(bits, np.concatenate([g, nothing]), np.concatenate([h, nothing]), rules)
            for leaf in leaves(tree):
                of_tree[list(leaf.rows)] += sealed_weight(leaf, sealed, rules.lam, rules.alpha, rules.places)
            trees.append(tree)
        margins.append(F)
    return trees, margins


def sealed_gradients(
    sealed: RefSealed, F: Ints, y: Ints, weights: Ints | None = None, inside: Bits | None = None
) -> tuple[Ints, Ints]:
    """Return g and h of a round from the margins, of their shape; both are 0 for rows outside the sample."""
    if sealed.classes:
        each = [_of_class(sealed, P, of_class, weights, inside) for P, of_class in zip(softmax(F), y, strict=True)]
        return np.array([g for g, _ in each]), np.array([h for _, h in each])
    if sealed.is_logistic:
        p = [int(one) for one in sigmoid(F)]
        g = [one - int(label) for one, label in zip(p, y, strict=True)]
        h = [_round(Fraction(one * ((1 << PLACES) - one), 1 << PLACES)) for one in p]
    elif sealed.power is not None:
        g, h = _of_means(sealed.power, sealed.e_places, F, y)
    else:
        g = [min(max(int(m) - int(label), -sealed.g_cap), sealed.g_cap) for m, label in zip(F, y, strict=True)]
        h = [1 << sealed.h_places] * len(g)
    return _weighed(sealed, g, h, weights, inside)


def _of_class(sealed: RefSealed, P: Ints, y: Ints, weights: Ints | None, inside: Bits | None) -> tuple[Ints, Ints]:
    """Return g = P - y and h = 2 P (1 - P) of one class, P and y (rows,)."""
    p = P.tolist()
    h = [_round(Fraction(2 * one * ((1 << PLACES) - one), 1 << PLACES)) for one in p]
    return _weighed(sealed, [one - label for one, label in zip(p, y.tolist(), strict=True)], h, weights, inside)


def _weighed(
    sealed: RefSealed, g: list[int], h: list[int], weights: Ints | None, inside: Bits | None
) -> tuple[Ints, Ints]:
    if weights is not None:
        shares = [Fraction(int(weight), 1 << sealed.rounding) for weight in weights]
        g, h = ([_round(a * share) for a, share in zip(part, shares, strict=True)] for part in (g, h))
    counts = np.ones(len(g), np.int64) if inside is None else inside.astype(np.int64)
    return np.array(g, np.int64) * counts, np.array(h, np.int64) * counts


def _of_means(power: float, places: int, F: Ints, y: Ints) -> tuple[list[int], list[int]]:
    """Return g = b - a and h = (2 - p) b + (p - 1) a, each product rounded: Poisson's loss for p = 1, gamma's for 2."""
    one = np.full(len(F), 1 << places)
    b = one if power == 2 else exponential(2 - power).at(F, places)
    a = y if power == 1 else exponential(power - 1).at(y - F, places)
    p, parts = Fraction(power), list(zip(b.tolist(), a.tolist(), strict=True))
    return [i - j for i, j in parts], [_round((2 - p) * i) + _round((p - 1) * j) for i, j in parts]


def sealed_weight(leaf: RefLeaf, sealed: RefSealed, lam: int, alpha: int = 0, places: int = 0) -> int:
    """Return w = -round(rate T / (H + lambda)) in the units of margins, the rate as float32, within its bounds."""
    rate = Fraction(float(np.float32(sealed.learning_rate)))
    rules = Rules(0, lam, 0, 0, no_split_first=True, alpha=alpha, places=places)
    w = -_round(-rate * weight(leaf.G, leaf.H, rules, leaf.bounds) * (1 << sealed.h_places))
    return w if sealed.largest is None else max(-sealed.largest, min(sealed.largest, w))


@dataclass(frozen=True, slots=True)
class RefDart:
    """How trees of earlier rounds are left out, and scaled for it: XGBoost's parameters of that (DART)."""

    rate_drop: float
    skip_drop: float
    one_drop: bool
    is_weighted: bool
    is_forest: bool
    learning_rate: float

    def left_out(self, scales: Sequence[float], drawn: Sequence[float]) -> list[int]:
        """Return which trees a round leaves out, by numbers in [0, 1): one to skip, one a tree, one for `one_drop`."""
        skip, *of_trees, last = drawn
        if skip < self.skip_drop or not scales:
            return []
        shares = [scale * len(scales) / sum(scales) if self.is_weighted else 1.0 for scale in scales]
        chosen = [i for i, u in enumerate(of_trees) if u < self.rate_drop * shares[i]]
        if self.one_drop and not chosen:
            total = sum(shares)
            chosen = [next(i for i in range(len(shares)) if last * total < sum(shares[: i + 1]))]
        return chosen

    def rescaled(self, scales: Sequence[float], out: Sequence[int], new: int) -> list[float]:
        """Return the scales after a round of `new` trees, each rounded to float32 as XGBoost's are."""
        k, rate = len(out), float(np.float32(self.learning_rate))
        if not out:
            return [*scales, *[1.0] * new]
        together = 1 + rate if self.is_forest else float(np.float32(k + rate))
        factor = float(np.float32((1 if self.is_forest else k) / together))
        kept = [float(np.float32(scale * factor)) if i in out else scale for i, scale in enumerate(scales)]
        return [*kept, *[float(np.float32(1 / together))] * new]


def scaled_weight(weight: int, scale: float) -> int:
    """Return rint(weight * scale) exactly."""
    return round(Fraction(weight) * Fraction(scale))


def leaves(node: RefNode) -> list[RefLeaf]:
    """Return the leaves of a tree, from left to right."""
    return [node] if isinstance(node, RefLeaf) else [*leaves(node.left), *leaves(node.right)]


def _round(x: Fraction) -> int:
    return (2 * x.numerator + x.denominator) // (2 * x.denominator)
