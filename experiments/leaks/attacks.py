"""What a curious role makes of its transcript: one function per attack, its own knowledge as arguments.

No function here sees another role's data. How well each one does is measured in leaks.py; what it exploits is
explained in docs/paper-vs-strict.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.leaks.transcripts import Bracket, Brackets, Ints, Place, Rows, Words
from mpfedxgb.data import Table
from mpfedxgb.modes.paper.tree import MU
from mpfedxgb.tree import Dummy, Leaf, Tree
from mpfedxgb.tree.nodes import goes_first

Counts = dict[int, int]
"""Per candidate, a number of rows."""


# Who is better than whom: from the outcomes of comparisons, which all roles see.


def order_of_gains(node: Bracket) -> list[tuple[int, int]]:
    """Return pairs of candidates, the better first: who won, and whom the losers had beaten before."""
    beaten: dict[int, set[int]] = {}
    for match in node.matches:
        winner, loser = (match.second, match.first) if match.second_won else (match.first, match.second)
        beaten.setdefault(winner, set()).update({loser}, beaten.get(loser, set()))
    return [(winner, loser) for winner, losers in beaten.items() for loser in losers]


def strength_of_features(node: Bracket, sizes: Sequence[int]) -> Ints:
    """Return how many matches against other features each feature's best candidate has won."""
    feature = np.repeat(np.arange(len(sizes)), sizes)
    wins = np.zeros(len(sizes), np.int64)
    for match in node.matches:
        if feature[match.first] != feature[match.second]:
            wins[feature[match.second if match.second_won else match.first]] += 1
    return wins


# How many rows lie left of others' thresholds: from denominators, which P_1 sees.


def rows_left_of_thresholds(
    nodes: Sequence[Bracket], sizes: Sequence[int], rows: int, h: int, lam: int
) -> dict[Place, Counts]:
    """Return, node by node, how many rows go left by each candidate; nothing where no number can be factored.

    All rows have the same hessian h, so a denominator is a product of four numbers h n + lambda; P_1 knows all but the
    four n. A product does not tell left from right, but inside a feature the rows on the left do not become fewer, in
    any node: the candidates from the median on have their larger side there.
    """
    factored = _factor_top_down(nodes, rows, h, lam)
    found: dict[Place, Counts] = {place: {} for place in factored}
    ends = np.cumsum(sizes).tolist()
    for end, size in zip(ends, sizes, strict=True):
        feature = range(end - size, end)
        tries = []
        for median in range(size + 1):
            counts = _turn(nodes, factored, feature, median)
            falls = sum(a > b for of in counts.values() for a, b in pairwise(of.values()))
            root = counts.get(nodes[0].place, {})
            unequal = sum(abs(n - rows * (c - end + size + 1) / (size + 1)) for c, n in root.items())
            tries.append((falls, unequal, median, counts))
        for place, of in min(tries, key=lambda one: one[:3])[3].items():
            found[place] |= of
    return found


def _factor_top_down(nodes: Sequence[Bracket], rows: int, h: int, lam: int) -> dict[Place, tuple[int, Counts]]:
    """Return how many rows each node has, and how many of them each candidate has on its smaller side."""
    by_place = {node.place: node for node in nodes}
    out = {node.place: (rows, smaller_sides(node, rows, h, lam)) for node in nodes if node.place[1] == 0}
    for node in nodes:
        n, sides = out.get(node.place, (0, {}))
        left, right = ((node.place[0], child) for child in node.children or (-1, -1))
        if node.best not in sides or left not in by_place:
            continue
        for part in (sides[node.best], n - sides[node.best]):  # a child's numbers have factors for its true size only
            one, two = (smaller_sides(by_place[p], k, h, lam) for p, k in ((left, part), (right, n - part)))
            if len(one) + len(two) > len(out.get(left, (0, {}))[1]) + len(out.get(right, (0, {}))[1]):
                out[left], out[right] = (part, one), (n - part, two)
    return out


def smaller_sides(node: Bracket, n: int, h: int, lam: int) -> Counts:
    """Return how many of n rows each candidate has on its smaller side, where factoring leaves only one choice."""
    side = {(h * x + lam) * (h * (n - x) + lam): x for x in range(n // 2 + 1)}
    options = {c: set(side.values()) for match in node.matches for c in (match.first, match.second)}
    factors = []
    for match in node.matches:
        d = match.number or 0
        factors.append((match, [(x, side[d // p]) for p, x in side.items() if d % p == 0 and d // p in side]))
    for _ in range(4):  # a candidate's matches have to agree; what they rule out rules out more
        for match, pairs in factors:
            agreed = [(x, y) for x, y in pairs if x in options[match.first] and y in options[match.second]]
            options[match.first], options[match.second] = {x for x, _ in agreed}, {y for _, y in agreed}
    return {c: min(left) for c, left in options.items() if len(left) == 1}


def _turn(
    nodes: Sequence[Bracket], factored: Mapping[Place, tuple[int, Counts]], feature: range, median: int
) -> dict[Place, Counts]:
    """Return a feature's counts, in all nodes, if its first `median` candidates have the smaller side on the left.

    Below a root, left and right add up to the parent's.
    """
    out: dict[Place, Counts] = {}
    for node in nodes:
        n, sides = factored.get(node.place, (0, {}))
        if node.place[1] == 0:
            small = range(feature.start, feature.start + median)
            out[node.place] = {c: sides[c] if c in small else n - sides[c] for c in feature if c in sides}
        left, right = ((node.place[0], child) for child in node.children or (-1, -1))
        if left not in factored or right not in factored:
            continue
        (n_left, one), (n_right, two) = factored[left], factored[right]
        out[left], out[right] = {}, {}
        for c, count in out[node.place].items():
            if c in one and c in two:
                for a in (one[c], n_left - one[c]):
                    if count - a in (two[c], n_right - two[c]):
                        out[left][c], out[right][c] = a, count - a
    return out


# How many rows each leaf has: from step sizes, which all roles see.


def rows_of_leaves(steps: Sequence[int], step_bits: int, h: int, lam: int) -> npt.NDArray[np.float64]:
    """Return the least, the likeliest and the largest number of rows of each leaf, (3, leaves), from its step size.

    e = floor(2^s / (h n + lambda + sigma)), where the sum sigma of everybody's perturbations is at most mu lambda and
    most likely near the middle.
    """
    e = np.array(steps, np.float64)
    least, most = 2.0**step_bits / (e + 1), 2.0**step_bits / e
    return np.stack([least - (1 + MU) * lam, (least + most) / 2 - (1 + MU / 2) * lam, most - lam]) / h


# How many labels lie left of one's own thresholds: from numerators, which P_2 sees.


def labels_left_of_thresholds(
    root: Bracket,
    features: Sequence[Sequence[int]],
    rows_left: Mapping[int, int],
    rows: int,
    lam: float,
    scale: int,
    start: Callable[[int], float],
) -> tuple[int, Counts] | None:
    """Return the number of positive labels, and of those left of each of P_2's own thresholds, from the first tree.

    For candidates of its own P_2 knows all H, so a numerator is a difference of two gains, each a function of two
    numbers of labels. Only the true ones make all numbers of labels whole. `start` is the probability that boosting
    starts from, given the number of positives; the larger class is taken to be the positive one.
    """
    for positives in range(rows, rows // 2, -1):
        p = start(positives)
        found: Counts = {}
        solved = 0
        for feature in features:
            solutions = _whole_labels(root, feature, rows_left, rows, positives, p, lam, scale)
            if len(feature) > 1 and not solutions:
                break
            solved += len(feature) > 1
            if len(solutions) == 1:
                found |= solutions[0]
        else:
            if solved:
                return positives, found
    return None


def _whole_labels(
    root: Bracket,
    feature: Sequence[int],
    rows_left: Mapping[int, int],
    rows: int,
    positives: int,
    p: float,
    lam: float,
    scale: int,
) -> list[Counts]:
    """Return the whole numbers of positive labels left of one feature's thresholds that explain its numerators."""
    n = {c: rows_left[c] for c in feature}
    HL = {c: n[c] * p * (1 - p) + lam for c in feature}
    HR = {c: (rows - n[c]) * p * (1 - p) + lam for c in feature}
    excess = _gains_above_the_first(root, feature, HL, HR, scale)
    G, first = rows * p - positives, feature[0]
    guess = np.arange(n[first] + 1)
    GL = n[first] * p - guess
    gain = GL**2 / HL[first] + (G - GL) ** 2 / HR[first]
    fits, labels = np.ones(len(guess), bool), {first: guess}
    for c in feature[1:]:  # solve x^2 / HL + (G - x)^2 / HR = gain for x = n p - labels
        middle, width = HL[c] * G, HL[c] + HR[c]
        inner = middle**2 - width * HL[c] * (G**2 - (gain + excess[c]) * HR[c])
        half = np.sqrt(np.maximum(inner, 0))
        both = n[c] * p - np.stack([middle - half, middle + half]) / width
        whole = np.rint(np.clip(both, -1, n[c] + 1))
        good = (np.abs(both - whole) < 1e-3) & (whole >= 0) & (whole <= n[c]) & (inner > -1e-6)
        fits &= good.any(axis=0)
        labels[c] = np.where(good[0], whole[0], whole[1]).astype(np.int64)
    return [{c: int(labels[c][i]) for c in feature} for i in np.flatnonzero(fits)]


def _gains_above_the_first(
    root: Bracket, feature: Sequence[int], HL: Mapping[int, float], HR: Mapping[int, float], scale: int
) -> dict[int, float]:
    """Return by how much each candidate's gain is above that of the first: numerator by denominator, match by match."""
    excess = {feature[0]: 0.0}
    matches = [match for match in root.matches if match.first in HL and match.second in HL]
    for _ in feature:
        for match in matches:
            a, b = match.first, match.second
            difference = (match.number or 0) / scale / (HL[a] * HL[b] * HR[a] * HR[b])
            if a in excess:
                excess[b] = excess[a] - difference
            elif b in excess:
                excess[a] = excess[b] + difference
    return excess


def guess_labels(codes: Ints, positives_in_bin: Sequence[Ints], rows_in_bin: Sequence[Ints], positives: int) -> Rows:
    """Return a label for every row from the shares of positives in the bins of one's own columns (naive Bayes)."""
    rows = codes.shape[1]
    odds = np.full(rows, np.log(positives / (rows - positives)))
    for code, ones, count in zip(codes, positives_in_bin, rows_in_bin, strict=True):
        likelihood = (ones + 0.5) / positives, (count - ones + 0.5) / (rows - positives)
        odds += np.log(likelihood[0] / likelihood[1])[code]
    return odds > 0


def labels_from_gradients(masked: Words) -> Rows:
    """Return a label for every row from its masked gradient, as if its sign were that of the gradient."""
    return masked >> np.uint64(63) > 0


# Which column splits where: from comparisons, or from the tags that a strict training opens instead.


def candidates_from_tags(tags: Sequence[npt.NDArray[Any]], columns: Sequence[int]) -> list[int]:
    """Return a candidate for every split, as if the upper bits of an opened tag said which of its owner's it is."""
    first = np.cumsum([0, *columns])
    splits = [(int(v) & 255, int(v) >> 8) for array in tags for v in array if int(v) & 255]
    return [int(first[owner - 1]) + index % columns[owner - 1] for owner, index in splits]


# In which order the rows stand in another's column: from who shares a leaf, which P_1 sees.


def leaves_from_predictions(predictions: Ints, restored: npt.NDArray[Any], h: Ints) -> Ints | None:
    """Return each row's leaf, as its number among the leaves: rows with one prediction share one.

    P_1 knows H of each group and, within mu lambda, of each leaf: both in order of size fit together.
    """
    values, group = np.unique(predictions, return_inverse=True)
    if len(values) != len(restored):
        return None
    H = np.bincount(group, weights=h)
    place = np.empty(len(values), np.int64)
    place[np.argsort(H)] = np.argsort(restored.astype(np.float64))
    return place[group]


def leaves_from_masked_margins(margins: Words, leaves: int) -> Ints:
    """Return each row's leaf as if the masked margins of a sealed training said which it is, by their low bits."""
    return (margins.ravel() % np.uint64(leaves)).astype(np.int64)


def bounds_on_buckets(
    laid_out: Brackets, leaf: Sequence[Ints | None], candidate: Mapping[Place, int], sizes: Sequence[int]
) -> tuple[Ints, Ints]:
    """Return the lowest and the highest bucket that each row may be in, (features, rows), of every feature.

    A row left of bucket k's edge is in bucket k at most, a row right of it above.
    """
    rows = next(len(rows) for rows in leaf if rows is not None)
    feature = np.repeat(np.arange(len(sizes)), sizes)
    bucket = np.concatenate([np.arange(size) for size in sizes])
    low, high = np.zeros((len(sizes), rows), np.int64), np.repeat(np.array(sizes)[:, None], rows, axis=1)
    for node, (left, right) in sides_of_splits(laid_out, leaf).items():
        j, k = feature[candidate[node]], bucket[candidate[node]]
        high[j, left] = np.minimum(high[j, left], k)
        low[j, right] = np.maximum(low[j, right], k + 1)
    return low, high


def sides_of_splits(laid_out: Brackets, leaf: Sequence[Ints | None]) -> dict[Place, tuple[Rows, Rows]]:
    """Return which rows went left and which right at every split, from the leaves they ended in."""
    inside: dict[Place, Rows] = {}
    for t, (closed, mine) in enumerate(zip(laid_out.leaves, leaf, strict=True)):
        if mine is not None:
            inside |= {(t, node): mine == place for place, node in enumerate(closed)}
    sides = {}
    for node in reversed(laid_out.nodes):
        if node.children is None or leaf[node.place[0]] is None:
            continue
        left, right = (inside[node.place[0], child] for child in node.children)
        inside[node.place], sides[node.place] = left | right, (left, right)
    return sides


def longest_chain(parts: Sequence[Rows]) -> list[Rows]:
    """Return partitions that are nested in one another, turned the same way: cuts of one column, as it seems.

    Cuts of different columns leave rows in all four corners.
    """
    chains: list[list[Rows]] = []
    for part in parts:
        for chain in chains:
            fitting = [
                turned for turned in (part, ~part) if all(_nested(turned, one) or _nested(one, turned) for one in chain)
            ]
            if fitting:
                chain.append(fitting[0])
                break
        else:
            chains.append([part])
    return max(chains, key=lambda chain: len({one.tobytes() for one in chain}), default=[])


def _nested(inner: Rows, outer: Rows) -> bool:
    return not (inner & ~outer).any()


# Which rows share a leaf whose whole path is one's own: from one's own model.


def rows_of_own_leaves(tree: Tree, table: Table) -> list[Rows]:
    """Return the rows of every leaf below splits that are all one's own."""
    columns = {column.name: column.values for column in table.columns}
    inside: dict[int, Rows] = {0: np.ones(table.rows, bool)}
    leaves = []
    for number, node in enumerate(tree):
        if number not in inside or isinstance(node, Dummy):
            continue
        if isinstance(node, Leaf):
            leaves += [inside[number]] if number else []
            continue
        goes = goes_first(node, columns[node.feature])
        first, second = (node.right, node.left) if node.flipped else (node.left, node.right)
        inside[first], inside[second] = inside[number] & goes, inside[number] & ~goes
    return leaves
