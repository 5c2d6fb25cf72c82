"""The oracle: plaintext XGBoost on integers, with exactly the rules of the secure trees. Naive, short, no secure code.

One tree is grown on integer g and h (rows,) over candidate columns of 0/1 bits. The gain of a candidate is compared as
an exact fraction; ties go to the lower index; "no split" is a candidate like the others.

A sealed training (`train_sealed`) is a function of integers as a whole: margins, gradients and leaf weights are rounded
by one rule, round(x) = floor(x + 1/2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from mpfedxgb.sigmoid import PLACES, sigmoid

Ints = npt.NDArray[np.int64]
Bits = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Rules:
    """Integer constants of one tree: lambda~, gamma~, the least H~ of a side, where "no split" stands among ties."""

    max_depth: int
    lam: int
    gam: int
    mcw: int
    no_split_first: bool
    first_layer: slice | None = None


@dataclass(frozen=True, slots=True)
class RefLeaf:
    """A leaf with the rows in it and the sums over them."""

    rows: tuple[int, ...]
    G: int
    H: int


@dataclass(frozen=True, slots=True)
class RefSplit:
    """A split by the candidate of that index."""

    index: int
    left: RefNode
    right: RefNode


RefNode = RefLeaf | RefSplit


def grow(bits: Bits, g: Ints, h: Ints, rules: Rules, allowed: Bits | None = None) -> RefNode:
    """Return one tree (Algorithm 3 in the clear): bits (candidates, rows), allowed (candidates,) for samples."""
    columns = bits.astype(np.int64)
    permitted = np.ones(len(bits), bool) if allowed is None else allowed.astype(bool)
    return _build(columns, g, h, np.ones(len(g), bool), rules, permitted, 0)


def _build(
    columns: Ints,
    g: Ints,
    h: Ints,
    here: npt.NDArray[np.bool_],
    rules: Rules,
    allowed: npt.NDArray[np.bool_],
    depth: int,
) -> RefNode:
    G, H = int(g[here].sum()), int(h[here].sum())
    if depth < rules.max_depth and len(columns):
        left = columns @ np.where(here, [g, h], 0).T
        candidates = slice(None) if depth or rules.first_layer is None else rules.first_layer
        best = _best([(int(a), int(b)) for a, b in left], G, H, rules, allowed, range(len(columns))[candidates])
        if best is not None:
            goes = columns[best].astype(bool)
            return RefSplit(
                best,
                _build(columns, g, h, here & goes, rules, allowed, depth + 1),
                _build(columns, g, h, here & ~goes, rules, allowed, depth + 1),
            )
    return RefLeaf(tuple(int(i) for i in np.flatnonzero(here)), G, H)


def _best(
    left: Sequence[tuple[int, int]], G: int, H: int, rules: Rules, allowed: npt.NDArray[np.bool_], among: range
) -> int | None:
    """Return the best candidate, or None for "no split"."""
    base = H + rules.lam
    no_split = Fraction(G * G + rules.gam * base, base)
    best, value = None, no_split if rules.no_split_first else None
    for index in among:
        GL, HL = left[index]
        GR, HR = G - GL, H - HL
        if not allowed[index] or min(HL, HR) < rules.mcw:
            continue
        gain = Fraction(GL * GL, HL + rules.lam) + Fraction(GR * GR, HR + rules.lam)
        if value is None or gain > value:
            best, value = index, gain
    if not rules.no_split_first and (value is None or no_split > value):
        return None
    return best


def leaf_weight(leaf: RefLeaf, f_g: int, f_h: int, reg_lambda: float, learning_rate: float, weight_bits: int) -> int:
    """Return rint(learning_rate * w * 2^weight_bits), w = -G / (H + lambda) exactly (Eq. 4); 0 if that is 0."""
    H = Fraction(leaf.H) / Fraction(2) ** f_h + Fraction(reg_lambda)
    if H == 0:
        return 0
    G = Fraction(leaf.G) / Fraction(2) ** f_g
    return round(-G / H * Fraction(learning_rate) * (1 << weight_bits))


def sums(node: RefNode) -> tuple[int, int]:
    """Return G and H of a node."""
    if isinstance(node, RefLeaf):
        return node.G, node.H
    (GL, HL), (GR, HR) = sums(node.left), sums(node.right)
    return GL + GR, HL + HR


def gain(split: RefSplit, f_g: int, f_h: int, reg_lambda: float) -> float:
    """Return what a split gains: the scores of both sides less that of the node (Eq. 3, without gamma and half)."""

    def score(node: RefNode) -> Fraction:
        G, H = sums(node)
        denominator = Fraction(H) / Fraction(2) ** f_h + Fraction(reg_lambda)
        return (Fraction(G) / Fraction(2) ** f_g) ** 2 / denominator if denominator else Fraction(0)

    return float(score(split.left) + score(split.right) - score(split))


@dataclass(frozen=True, slots=True)
class RefSealed:
    """The numbers of a sealed training that are no tree's: the loss, the rounds, the rate, where margins start.

    `start` is that of all rows, or (all rows,) where they have their own.
    |g| is held to `g_cap` in regression. h is in units of 2^-h_places, but for the units of row weights: a weight of
    2^rounding leaves g and h as they are.
    """

    is_logistic: bool
    rounds: int
    learning_rate: float
    start: int | Ints = 0
    g_cap: int = 0
    h_places: int = PLACES
    rounding: int = 24


def train_sealed(
    bits: Bits,
    y: Ints,
    rules: Rules,
    sealed: RefSealed,
    weights: Ints | None = None,
    inside: Bits | None = None,
    allowed: Bits | None = None,
) -> tuple[list[RefNode], list[Ints]]:
    """Return the trees of a whole sealed training, and all rows' margins after each of them.

    bits (candidates, all rows) has evaluation rows behind those that have a label: they follow the splits and count
    nothing. y and weights (rows,), the samples inside (rounds, rows) and allowed (rounds, candidates).
    """
    F = np.full(bits.shape[1], sealed.start, np.int64)
    trees, margins = [], []
    for t in range(sealed.rounds):
        g, h = sealed_gradients(sealed, F[: len(y)], y, weights, None if inside is None else inside[t])
        nothing = np.zeros(len(F) - len(y), np.int64)
        tree = grow(
            bits,
            np.concatenate([g, nothing]),
            np.concatenate([h, nothing]),
            rules,
            None if allowed is None else allowed[t],
        )
        F = F.copy()
        for leaf in leaves(tree):
            F[list(leaf.rows)] += sealed_weight(leaf, sealed, rules.lam)
        trees.append(tree)
        margins.append(F)
    return trees, margins


def sealed_gradients(
    sealed: RefSealed, F: Ints, y: Ints, weights: Ints | None = None, inside: Bits | None = None
) -> tuple[Ints, Ints]:
    """Return g and h of a round from the margins (rows,); both are 0 for rows outside the sample."""
    if sealed.is_logistic:
        p = [int(one) for one in sigmoid(F)]
        g = [one - int(label) for one, label in zip(p, y, strict=True)]
        h = [_round(Fraction(one * ((1 << PLACES) - one), 1 << PLACES)) for one in p]
    else:
        g = [min(max(int(m) - int(label), -sealed.g_cap), sealed.g_cap) for m, label in zip(F, y, strict=True)]
        h = [1 << sealed.h_places] * len(g)
    if weights is not None:
        shares = [Fraction(int(weight), 1 << sealed.rounding) for weight in weights]
        g, h = ([_round(a * share) for a, share in zip(part, shares, strict=True)] for part in (g, h))
    counts = np.ones(len(g), np.int64) if inside is None else inside.astype(np.int64)
    return np.array(g, np.int64) * counts, np.array(h, np.int64) * counts


def sealed_weight(leaf: RefLeaf, sealed: RefSealed, lam: int) -> int:
    """Return w = -round(rate G / (H + lambda)) in the units of margins, the rate as float32."""
    rate = Fraction(float(np.float32(sealed.learning_rate)))
    return -_round(rate * leaf.G * (1 << sealed.h_places) / (leaf.H + lam))


def leaves(node: RefNode) -> list[RefLeaf]:
    """Return the leaves of a tree, from left to right."""
    return [node] if isinstance(node, RefLeaf) else [*leaves(node.left), *leaves(node.right)]


def _round(x: Fraction) -> int:
    return (2 * x.numerator + x.denominator) // (2 * x.denominator)
