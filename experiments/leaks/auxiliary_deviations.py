"""What an auxiliary that deviates learns of labels: by errors in its parts of openings, or by its matrix alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.leaks.deviations import FRACTIONS, SUMS, Deviation, edit_openings, plus, toss_no_coins
from experiments.leaks.transcripts import Rows
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import Scale, choose_scale, plan, public_scale
from mpfedxgb.data import Table
from mpfedxgb.data.binning import Bits
from mpfedxgb.party import Party
from mpfedxgb.protocols.row_blocks import BitMatrix, Matrix, RowLayout
from mpfedxgb.protocols.storage import LocalRows
from mpfedxgb.ring import RingArray
from mpfedxgb.ring.prg import Source
from mpfedxgb.tree import Leaf, Split, Tree

# Labels: one of two single rows splits a node, and which of them does tells the label of one.


@dataclass(frozen=True, slots=True)
class LabelPlan:
    """What an auxiliary that wants labels brings and believes.

    Its table has one column per row that it asks about or uses as a reference, which tells that row from all others.
    `positives` is the share of positive labels, which it has to know or to guess.
    """

    targets: Sequence[int]
    references: Sequence[int]
    positives: float

    def table(self, rows: int, owner: str) -> Table:
        """Return the table: the single row of a column goes left."""
        singles = [*self.targets, *self.references]
        values = np.ones((rows, len(singles)))
        values[singles, np.arange(len(singles))] = 0
        return Table.read(values, owner, [f"row{row}" for row in singles])


def ask_for_labels(params: TrainParams, rows: int, first: int, asked: LabelPlan) -> Deviation:
    """Let an auxiliary learn one label per node by errors in its own parts of two openings.

    1. Sums: G_L of the target i becomes g_i + K; H_L of target and reference grow alike, so that a single row is heavy
       enough. With G = 0 in the node, A of the target is (K + g_i)^2 (H + 2 lambda), beyond any other candidate's.
    2. Fractions: A of the reference becomes T, the mean of what A of the target is for either label.

    So the target wins if its label is 0 and the reference if it is 1: the auxiliary learns which, since both are its
    own. Level by level, the next target is asked for in the node with all rows but those.
    """
    p = asked.positives
    scale = believed_scale(params, rows, p)
    K = 2 * rows**0.5
    heavier = round((params.min_child_weight + 1) * 2.0**scale.f_h)

    def deviate(party: Party) -> None:
        toss_no_coins(party)
        asks, depth = -1, 0

        def edit(label: str, parts: list[RingArray]) -> list[RingArray]:
            nonlocal asks, depth
            if not label.endswith((SUMS, FRACTIONS)):
                return parts
            nodes = parts[0].shape[0 if label.endswith(SUMS) else 1]
            if label.endswith(SUMS):
                asks, depth = asks + 1, 0 if nodes == 1 else depth + 1
            target, reference = first + asks, first + len(asked.targets) + depth
            rest = nodes - 1  # right children come last
            if label.endswith(SUMS):
                added = {(rest, 0, target): round(K * 2.0**scale.f_g)}
                added |= {(rest, 1, target): heavier, (rest, 1, reference): heavier}
            else:
                H = (rows - depth) * p * (1 - p) * 2.0**scale.f_h
                either = [(K + g) ** 2 * 4.0**scale.f_g * (H + 2 * scale.lam) for g in (p, p - 1)]
                added = {(0, rest, reference): int(sum(either) / 2)}
            parts[0] = plus(parts[0], added)
            return parts

        edit_openings(party, edit)

    return deviate


def believed_scale(params: TrainParams, rows: int, positives: float) -> Scale:
    """Return the scales and constants of the first tree, if boosting starts from a share of positives.

    If P_1 picks them in private it takes the finest that fit, so bounds on g and h tell them.
    """
    public = plan(params, rows)
    known = public_scale(params, public, rows)
    g, h = np.array([positives, positives - 1]), np.array([positives * (1 - positives)])
    return choose_scale(params, public, g, h, rows) if known is None else known


def labels_from_own_splits(trees: Sequence[Tree], asked: LabelPlan) -> dict[int, bool]:
    """Return the labels by row, from the auxiliary's own part of the model: down the right children of its splits."""
    found: dict[int, bool] = {}
    targets = iter(asked.targets)
    for tree in trees:
        node = tree[0]
        while not isinstance(node, Leaf):
            target = next(targets)
            if isinstance(node, Split):
                found[target] = node.feature != f"row{target}"
            node = tree[node.right]
    return found


# A matrix that is not bits: no message is altered, and the splits tell which labels of chosen pairs differ.


@dataclass(frozen=True, slots=True)
class PairPlan:
    """Pairs of rows, one per level of a tree, and per pair a set of rows, (pairs, rows), with the rows of all pairs."""

    pairs: Sequence[tuple[int, int]]
    sets: Rows

    def table(self, owner: str) -> Table:
        """Return the table: the rows of a pair's set go left by its column."""
        return Table.read(1.0 - self.sets.T, owner, [f"pair{k}" for k in range(len(self.pairs))])


def choose_pairs(rows: int, count: int, seed: int) -> PairPlan:
    """Return pairs of rows at random, and sets with half of all other rows."""
    rng = np.random.default_rng([seed, 2])
    chosen = rng.permutation(rows)
    pairs, others = chosen[: 2 * count], chosen[2 * count :]
    sets = np.zeros((count, rows), bool)
    sets[:, pairs] = True
    for one in sets:
        one[rng.permutation(others)[: len(others) // 2]] = True
    return PairPlan(list(zip(pairs[::2].tolist(), pairs[1::2].tolist(), strict=True)), sets)


class ForgedRows(LocalRows):
    """An auxiliary's row blocks whose column k is W at one row of pair k, -W at the other, and 1 on the pair's set.

    Its left sums are W (g_i - g_j) + G_set: beyond all other candidates if the labels differ, as good as any if they
    are equal. The split that it makes is that of the set, so that all pairs go left together; there column k has no
    rows on its right, and the next pair that differs wins.
    """

    def __init__(self, asked: PairPlan, weight: int) -> None:
        super().__init__()
        self.asked, self.weight = asked, weight

    def own(self, owner: int, layout: RowLayout, matrix: Matrix, mask: Source | None) -> None:
        """Take in another matrix than that of the candidates; it is never looked at again."""
        values = matrix.tile(slice(0, layout.columns), slice(0, layout.rows)).astype(np.int64)
        for k, (i, j) in enumerate(self.asked.pairs):
            values[k, i], values[k, j] = self.weight, -self.weight
        super().own(owner, layout, BitMatrix(values.view(np.uint64)), mask)  # no bits: the attack

    def column(self, owner: int, index: int) -> Bits:
        """Return the bits of a pair's set, which the split is made by."""
        return np.asarray(self.asked.sets[index], np.uint8)


def pairs_from_own_splits(tree: Tree, asked: PairPlan) -> list[bool]:
    """Return whether the labels of each pair differ: whether its column split a node on the path of the pairs."""
    names, node = set(), tree[0]
    while isinstance(node, Split) and node.feature.startswith("pair"):
        names.add(node.feature)
        node = tree[node.right if node.flipped else node.left]
    return [f"pair{k}" in names for k in range(len(asked.pairs))]
