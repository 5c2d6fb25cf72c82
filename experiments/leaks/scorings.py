"""What P_1 makes of predictions: of its training rows, scored with weights, shares or columns that it chose.

With known weights (strict) P_1 brings what it likes. Where all hold shares of the weights it brings its shares as they
are, or leaves the semi-honest model and edits them. Its own columns are its own in every mode.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate
from operator import mul

import numpy as np

from experiments.leaks.transcripts import Ints, RecordedTraining, Rows
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Table
from mpfedxgb.party import ACTIVE, Party, run_locally
from mpfedxgb.tree import Leaf, Split, Tree
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_predict

_SHIFT = 44
"""Where the digits of edited shares begin: above all that leaf weights add up to."""


def sums_of(training: RecordedTraining, trees: Sequence[Tree], table: Table | None = None) -> Ints:
    """Return what P_1 gets for every training row, bringing these trees and, if it likes, another table."""
    scorers = [model.scorer(own) for model, own in zip(training.models, training.tables, strict=True)]
    scorers[0] = replace(scorers[0], trees=trees, table=scorers[0].table if table is None else table)

    def program(party: Party, scorer: Scorer | None) -> object:
        return secure_predict(party, 1, scorer, None)

    settings = SessionSettings(insecure_seed=1)
    run = run_locally(program, len(scorers), [(None,), *((one,) for one in scorers)], settings)
    sums: Ints = np.asarray(run.results[ACTIVE], np.int64).reshape(-1)
    return sums


def leaves_by_chosen_weights(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows, over trees, whose leaf P_1 reads off predictions by weights that number the leaves.

    Where it has shares only, it brings them as they are, and reads the same digits.
    """
    bases, whole = _numbering(training)
    trees: Sequence[Tree] = training.models[0].trees
    if not training.params.facts.shares_leaf_weights:
        trees = _with_leaves(trees, lambda leaf, number: replace(leaf, weight=number), bases)
    read = _digits(training, sums_of(training, trees) % whole, bases)
    return _share_right(training, read), _largest_leaves(training)


def leaves_by_edited_shares(training: RecordedTraining) -> tuple[float, float]:
    """Return the same for a P_1 that adds the numbers of leaves to what it has of the weights, above their bits."""
    return _share_right(training, leaves_off_edited_shares(training)), _largest_leaves(training)


def leaves_off_edited_shares(training: RecordedTraining) -> list[Ints]:
    """Return what that P_1 reads: tree by tree every row's leaf, as its number among the leaves."""
    bases, whole = _numbering(training)
    assert whole < 1 << (63 - _SHIFT), "fewer trees have to be numbered at a time"

    def edited(leaf: Leaf, number: int) -> Leaf:
        if leaf.share is None:
            return replace(leaf, weight=(leaf.weight or 0) + (number << _SHIFT))
        return replace(leaf, share=(leaf.share + (number << _SHIFT) + (1 << 63)) % (1 << 64) - (1 << 63))

    sums = sums_of(training, _with_leaves(training.models[0].trees, edited, bases))
    return _digits(training, (sums + (1 << (_SHIFT - 1))) >> _SHIFT, bases)


def same_leaves_by_equal_predictions(training: RecordedTraining) -> tuple[float, float]:
    """Return how many of the pairs of rows with one prediction are in the same leaves of all trees.

    By chance, any two rows. P_1 follows the program: it scores its training rows.
    """
    sums = sums_of(training, training.models[0].trees)
    leaves = np.array(_leaves(training))
    other = ~np.eye(len(sums), dtype=bool)
    equal = (sums[:, None] == sums) & other
    same = (leaves[:, :, None] == leaves[:, None]).all(axis=0)
    return float(same[equal].mean()), float(same[other].mean())


def sides_by_other_columns(training: RecordedTraining) -> tuple[float, float]:
    """Return the share of rows of which P_1 tells the side of an auxiliary's split below a root of its own.

    It scores all rows twice, with its column of the root just left and just right of the threshold, and nothing else
    changed: the difference is one of few numbers, and rows with one number are on the same sides. By chance, it takes
    all rows to be on the larger side. P_1 follows the program; the table is its own.
    """
    known, lucky = [], []
    for t, tree in enumerate(training.models[0].trees):
        root = tree[0]
        if not isinstance(root, Split):
            continue
        below = [n for n in (root.left, root.right) if (t, n) in training.best]
        theirs = [training.best[t, n] for n in below if training.owners[training.best[t, n]] != ACTIVE]
        assert root.threshold is not None
        edges = float(np.float32(root.threshold)), float(np.nextafter(np.float32(root.threshold), np.float32(np.inf)))
        left, right = (sums_of(training, training.models[0].trees, _with_column(training, root, v)) for v in edges)
        group = np.unique(left - right, return_inverse=True)[1]
        for best in theirs:
            side: Rows = training.bits[best].astype(bool)
            ones = np.bincount(group, weights=side) / np.bincount(group)
            known.append(float((side == (ones > 0.5)[group]).mean()))
            lucky.append(float(max(side.mean(), 1 - side.mean())))
    if not known:
        raise LookupError("no tree has a root of P_1 and a split of an auxiliary below it; train with first_layer_mask")
    return float(np.mean(known)), float(np.mean(lucky))


def _with_column(training: RecordedTraining, split: Split, value: float) -> Table:
    """Return P_1's table with one value in all rows of a split's column."""
    table = training.tables[0]
    columns = [c.values if c.name != split.feature else np.full(table.rows, value) for c in table.columns]
    return Table.read(np.stack(columns, axis=1), table.owner, table.names)


def _leaves(training: RecordedTraining) -> list[Ints]:
    """Return, tree by tree, the truth: every row's leaf, as its number among the leaves in the order of nodes."""
    found = []
    for t, tree in enumerate(training.models[0].trees):
        leaves = [number for number, node in enumerate(tree) if isinstance(node, Leaf)]
        found.append(np.argmax([training.rows[t, number] for number in leaves], axis=0))
    return found


def _numbering(training: RecordedTraining) -> tuple[list[int], int]:
    """Return what one leaf more counts in each tree, so that all leaves of a row are digits of one number."""
    sizes = [sum(isinstance(node, Leaf) for node in tree) for tree in training.models[0].trees]
    *bases, whole = accumulate(sizes, mul, initial=1)
    return bases, whole


def _with_leaves(trees: Sequence[Tree], change: Callable[[Leaf, int], Leaf], bases: Sequence[int]) -> list[Tree]:
    """Return trees whose leaves are changed, each with its number as a digit."""
    changed = []
    for tree, base in zip(trees, bases, strict=True):
        places = {number: i for i, number in enumerate(n for n, node in enumerate(tree) if isinstance(node, Leaf))}
        changed.append(
            tuple(change(node, places[n] * base) if isinstance(node, Leaf) else node for n, node in enumerate(tree))
        )
    return changed


def _digits(training: RecordedTraining, numbers: Ints, bases: Sequence[int]) -> list[Ints]:
    """Return the leaves, tree by tree, that are the digits of one number per row."""
    sizes = [sum(isinstance(node, Leaf) for node in tree) for tree in training.models[0].trees]
    return [numbers // base % size for base, size in zip(bases, sizes, strict=True)]


def _share_right(training: RecordedTraining, read: Sequence[Ints]) -> float:
    """Return how many leaves are read right."""
    return float(np.mean([(mine == true).mean() for mine, true in zip(read, _leaves(training), strict=True)]))


def _largest_leaves(training: RecordedTraining) -> float:
    """Return how many leaves are right if P_1 takes all rows to be in the largest."""
    return float(np.mean([np.bincount(true).max() / len(true) for true in _leaves(training)]))
