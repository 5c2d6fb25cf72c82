"""How much each attack of a role that deviates learns: one role of three participants, on made-up data.

Numbers are drawn from a seed, two columns for everybody; labels hang on all of them. Parameters are the defaults, so
min_child_weight and lambda are 1, but for trees, depth and bins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from experiments.leaks import active_deviations, auxiliary_deviations
from experiments.leaks.deviations import Run, train
from experiments.leaks.scorings import leaves_off_edited_shares
from experiments.leaks.transcripts import RecordedTraining, Rows
from experiments.output import text_table
from mpfedxgb.boosting import Labels
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data import Table
from mpfedxgb.party import ACTIVE
from mpfedxgb.tree import Dummy, Split

P_2, P_3 = 2, 3
DATA_SETS = 4
"""Data sets, and seeds of masks and coins, that a figure is added up over."""


@dataclass(frozen=True, slots=True)
class Learnt:
    """How an attack went: how much of what it looked for it has right, and what share is right without it.

    `revealed` are the names of all that the ledgers of all roles have: what the others know of the attack.
    """

    name: str
    attacker: str
    unit: str
    right: int
    of: int
    chance: float
    revealed: frozenset[str] = frozenset()


def made_up(rows: int, seed: int, positives: float = 0.5) -> tuple[list[Table], Labels]:
    """Return tables of three participants, two columns each, and labels of which a share is positive."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    signal = X.sum(axis=1) + rng.normal(size=rows)
    tables = [Table.read(X[:, 2 * m : 2 * m + 2], f"P{m + 1}") for m in range(3)]
    return tables, Labels((signal > np.quantile(signal, 1 - positives)).astype(np.float64))


def forced_candidates(
    seed: int, security: str, bins: int = 10, depth: int = 3, rows: int = 2000, trees: int | None = None
) -> Learnt:
    """Return of how many rows P_1 reads the bin in the first column of P_2; by chance, it takes one bin for all."""
    tables, labels = made_up(rows, seed)
    count = active_deviations.trees_needed(bins, depth) if trees is None else trees
    params = TrainParams(n_estimators=count, max_depth=depth, max_bin=bins, security=security)
    planned, seen = active_deviations.planned_cuts(bins, depth, count), active_deviations.SeenLeaves(rows)
    places_of_p1 = 2 * (bins - 1)
    force = active_deviations.force_cuts(params, rows, places_of_p1, planned)

    training, run = train(params, tables, labels, seed, {ACTIVE: force}, seen)
    trees_of_p1 = training.models[0].trees
    if security == "sealed":
        seen.read_off(trees_of_p1, leaves_off_edited_shares(training))
    sides = [active_deviations.sides_of_tree(tree, seen.by_node(t, tree, depth)) for t, tree in enumerate(trees_of_p1)]
    low, high = active_deviations.bins_from_sides(trees_of_p1, sides, P_2, planned, bins)
    true = training.candidates[P_2 - 1].codes(slice(0, rows))[0].astype(np.int64)
    right = int(((low == high) & (low == true)).sum())
    return _learnt("forced candidates", "P_1", "bins of rows", right, rows, float(np.bincount(true).max() / rows), run)


def membership_bits(seed: int, rows: int = 2000, trees: int = 4) -> Learnt:
    """Return of how many rows outside a node P_1 learns the side of the split that an auxiliary makes of that node.

    By chance all are on the larger side. Strict, with First-Layer-Mask.
    """
    tables, labels = made_up(rows, seed)
    params = TrainParams(n_estimators=trees, max_depth=2, max_bin=10, first_layer_mask=True)
    seen = active_deviations.SeenLeaves(rows)

    training, run = train(params, tables, labels, seed, {ACTIVE: active_deviations.fill_left_children}, seen)
    right, of, larger = 0, 0, 0
    for t, tree in enumerate(training.models[0].trees):
        root = tree[0]
        assert isinstance(root, Split), "with First-Layer-Mask all roots are P_1's"
        node = tree[root.left]
        if isinstance(node, Dummy):
            read = active_deviations.sides_of_tree(tree, seen.by_node(t, tree, 2))[root.left][0]
            outside = ~training.rows[t, root.left]
            true = _goes_left(training, t, root.left, node.owner)[outside]
            right, of = right + int((read[outside] == true).sum()), of + len(true)
            larger += int(max(true.sum(), (~true).sum()))
    return _learnt("membership bits", "P_1", "sides of rows outside the node", right, of, larger / max(1, of), run)


def _goes_left(training: RecordedTraining, t: int, number: int, owner: int) -> Rows:
    """Return the truth: which of all rows go to the left child by the split of a node."""
    split = training.models[owner - 1].trees[t][number]
    assert isinstance(split, Split)
    return np.asarray(training.bits[training.best[t, number]] != split.flipped)


def labels_of_rows(
    seed: int,
    security: str,
    positives: float = 0.5,
    believed: float | None = None,
    rows: int = 500,
    trees: int = 5,
    depth: int = 3,
) -> Learnt:
    """Return of how many rows of its choice P_3 learns the label; by chance, it takes all to be of the larger class.

    It believes a share of positives, the true one if None.
    """
    tables, labels = made_up(rows, seed, positives)
    params = TrainParams(n_estimators=trees, max_depth=depth, max_bin=10, security=security)
    share = float(labels.y.mean())
    chosen = np.random.default_rng([seed, 1]).permutation(rows)[: (trees + 1) * depth].tolist()
    asked = auxiliary_deviations.LabelPlan(
        chosen[: trees * depth], chosen[trees * depth :], share if believed is None else believed
    )
    tables[P_3 - 1] = asked.table(rows, "P3")
    places_of_others = 4 * (params.max_bin - 1)
    ask = auxiliary_deviations.ask_for_labels(params, rows, places_of_others, asked)
    training, run = train(params, tables, labels, seed, {P_3: ask})
    found = auxiliary_deviations.labels_from_own_splits(training.models[P_3 - 1].trees, asked)
    right = sum(int(labels.y[row] == label) for row, label in found.items())
    return _learnt("labels", "auxiliary", "labels of chosen rows", right, trees * depth, max(share, 1 - share), run)


def matrix_of_no_bits(seed: int, security: str, rows: int = 500, depth: int = 6) -> Learnt:
    """Return of how many pairs of rows P_3 learns whether their labels differ, in one tree; one in two by chance."""
    tables, labels = made_up(rows, seed)
    params = TrainParams(n_estimators=1, max_depth=depth, max_bin=10, security=security)
    asked = auxiliary_deviations.choose_pairs(rows, depth, seed)
    tables[P_3 - 1] = asked.table("P3")
    forged = auxiliary_deviations.ForgedRows(asked, rows * 2 // 5)
    training, run = train(params, tables, labels, seed, {P_3: lambda party: forged})
    found = auxiliary_deviations.pairs_from_own_splits(training.models[P_3 - 1].trees[0], asked)
    right = sum(int(differ == (labels.y[i] != labels.y[j])) for differ, (i, j) in zip(found, asked.pairs, strict=True))
    return _learnt("a matrix that is not bits", "auxiliary", "pairs whose labels differ or not", right, depth, 0.5, run)


def _learnt(name: str, attacker: str, unit: str, right: int, of: int, chance: float, run: Run) -> Learnt:
    return Learnt(name, attacker, unit, right, of, chance, frozenset(e.name for one in run.ledgers for e in one))


CASES: dict[str, Callable[[int], Learnt]] = {
    "forced candidates, 10 bins, depth 3, 3 trees, strict": partial(forced_candidates, security="strict"),
    "forced candidates, 10 bins, depth 3, 3 trees, sealed": partial(forced_candidates, security="sealed"),
    "forced candidates, 32 bins, depth 3, 6 trees, strict": partial(forced_candidates, security="strict", bins=32),
    "membership bits, strict": membership_bits,
    "labels, half of them positive, strict": partial(labels_of_rows, security="strict"),
    "labels, half of them positive, sealed": partial(labels_of_rows, security="sealed"),
    "labels, one in ten positive, strict": partial(labels_of_rows, security="strict", positives=0.1),
    "labels, three in ten positive, a third believed, strict": partial(
        labels_of_rows, security="strict", positives=0.3, believed=1 / 3
    ),
    "a matrix that is not bits, strict": partial(matrix_of_no_bits, security="strict"),
    "a matrix that is not bits, sealed": partial(matrix_of_no_bits, security="sealed"),
}
"""What `make leaks` runs, on DATA_SETS data sets each."""


def run_cases(seed: int) -> Iterator[Learnt]:
    """Yield how each case goes, added up over data sets."""
    for name, attack in CASES.items():
        found = [attack(DATA_SETS * (seed - 1) + k) for k in range(DATA_SETS)]
        right, of = sum(one.right for one in found), sum(one.of for one in found)
        chance = float(np.mean([one.chance for one in found]))
        yield replace(found[0], name=name, right=right, of=of, chance=chance)


def page(title: str, learnt: Sequence[Learnt]) -> str:
    """Return what was learnt as an aligned table."""
    rows = [
        [one.name, one.attacker, one.unit, f"{one.right:,} of {one.of:,}", f"{100 * one.chance:.0f} %"]
        for one in learnt
    ]
    return f"{title}\n{text_table(['attack', 'who deviates', 'measured', 'right', 'chance'], rows)}"
