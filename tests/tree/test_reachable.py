"""What a participant computes alone when rows are scored."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.tree import Dummy, Leaf, Split
from mpfedxgb.tree.nodes import Scorer, Walk, goes_first, outline
from support.evaluation import SEEDS
from support.property_tests import examples
from support.whole_trees import random_tables, random_tree


@given(seed=SEEDS, participants=st.integers(1, 4), rows=st.integers(1, 20))
@examples(30)
def test_the_marks_of_all_leave_the_true_leaf(seed: int, participants: int, rows: int) -> None:
    """The product over all participants is 1 at the leaf that the row falls into, and 0 elsewhere (Eq. 13)."""
    rng = np.random.default_rng(seed)
    tree, tables = random_tree(rng, list(range(1, participants + 1)), 3), random_tables(rng, participants, rows)
    first = int(rng.integers(0, rows))
    marks = [Walk([tree.view(m)]).reachable(table, slice(first, rows)) for m, table in enumerate(tables, 1)]

    leaves = [node for node in tree.nodes if isinstance(node, Leaf)]
    expected = [[leaf is tree.walk(tables, row) for row in range(first, rows)] for leaf in leaves]
    np.testing.assert_array_equal(np.prod(marks, axis=0), expected)


@pytest.mark.parametrize("missing_left", [False, True])
def test_sides_of_a_split(missing_left: bool) -> None:
    """At most the threshold, and every other category, go first; a missing value where the split says."""
    numbers, categories = np.array([0.5, 1.0, 1.5, np.nan], np.float32), np.array([0, 1, 2, np.nan], np.float32)

    by_number = goes_first(Split("x", 1.0, None, missing_left, False, 1, 2), numbers)
    by_category = goes_first(Split("c", None, 1, missing_left, False, 1, 2), categories)

    assert by_number.tolist() == [True, True, False, missing_left]
    assert by_category.tolist() == [True, False, True, missing_left]


def test_what_a_participant_brings() -> None:
    """Weights, or its shares of them, of the trees in use; and what single leaves add to their class."""
    table = random_tables(np.random.default_rng(0), 1, 3)[0]
    split = (Dummy(2, 1, 2), Leaf(5), Leaf(-7))
    trees = [(Leaf(3),), split, (Leaf(11),), split]
    outlines = [outline(tree, i % 2, 1) for i, tree in enumerate(trees)]
    known = Scorer(trees, table)
    shares = Scorer([tuple(Leaf(None, share=100 + i) for i in range(2))], table, holds_shares=True)

    assert known.weights([(1, outlines[1]), (3, outlines[3])]).tolist() == [5, -7, 5, -7]
    assert known.single_leaves(outlines, 2).tolist() == [14, 0]
    assert known.single_leaves(outlines[:2], 2).tolist() == [3, 0], "trees beyond those agreed on do not count"
    assert shares.weights([(0, outlines[1])]).tolist() == [100, 101]
    assert known.marks([1, 3], slice(0, 2)).tolist() == [[1, 1]] * 4
