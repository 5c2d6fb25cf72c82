"""SecurePredict against walking the whole trees, for random models of all sizes."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import SessionSettings, Tuning
from mpfedxgb.data import Table
from mpfedxgb.party import ACTIVE, LocalRun, Party, Reveal, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.tree import Leaf, Split, predict
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_predict
from support.evaluation import SEEDS
from support.property_tests import examples
from support.whole_trees import WholeTree, random_tables, random_tree, shared_views

Margins = npt.NDArray[np.int64] | None


def score(
    trees: list[WholeTree], tables: list[Table], classes: int = 1, rounds: int | None = None, **tuning: int
) -> LocalRun[Margins]:
    """Score the tables by everybody's views of the trees."""
    private: list[list[Scorer | None]] = [[None]]
    private += [[Scorer([tree.view(m) for tree in trees], table)] for m, table in enumerate(tables, 1)]

    def program(party: Party, scorer: Scorer | None) -> Margins:
        return secure_predict(party, classes, scorer, rounds if party.is_active else None)

    return run_locally(program, len(tables), private, SessionSettings(tuning=Tuning(**tuning)))


def walk_all(trees: list[WholeTree], tables: list[Table], classes: int = 1) -> npt.NDArray[np.int64]:
    """Return the sum of leaf weights per class and row."""
    out = np.zeros((classes, tables[0].rows), np.int64)
    for i, tree in enumerate(trees):
        out[i % classes] += [tree.walk(tables, row).weight or 0 for row in range(tables[0].rows)]
    return out


@pytest.mark.parametrize("participants", [2, 3, 4])
@given(seed=SEEDS, rows=st.integers(1, 40), depth=st.integers(1, 4))
@examples(8)
def test_predictions_of_random_models(participants: int, seed: int, rows: int, depth: int) -> None:
    """Trees of any owners, one to all of them, and trees without a split: to the active participant, to the bit."""
    rng = np.random.default_rng(seed)
    everyone = list(range(1, participants + 1))
    trees = [random_tree(rng, everyone[:k], depth) for k in range(participants + 1)]
    trees += [random_tree(rng, everyone[-k:], depth) for k in range(1, participants)]
    tables = random_tables(rng, participants, rows)
    run = score(trees, tables)

    np.testing.assert_array_equal(run.results[ACTIVE], walk_all(trees, tables), strict=True)
    assert [result is None for result in run.results] == [role != ACTIVE for role in range(participants + 1)]


@pytest.mark.parametrize("owners", [[1], [2], [3], [2, 3], [1, 3]])
def test_some_participants_own_no_split(owners: list[int]) -> None:
    """Whoever has no split in the model contributes nothing; a single owner scores alone, unseen."""
    rng = np.random.default_rng(sum(owners))
    trees, tables = [random_tree(rng, owners, 3) for _ in range(3)], random_tables(rng, 3, 20)

    np.testing.assert_array_equal(score(trees, tables).results[ACTIVE], walk_all(trees, tables))


def test_trees_of_single_leaves_only() -> None:
    """The active participant adds them up by itself; no prediction is revealed."""
    rng = np.random.default_rng(0)
    trees, tables = [random_tree(rng, [], 3) for _ in range(3)], random_tables(rng, 2, 11)
    run = score(trees, tables)

    np.testing.assert_array_equal(run.results[ACTIVE], walk_all(trees, tables), strict=True)
    assert all(entry.name != Entry.PREDICTION for entry in run.ledgers[0])


@pytest.mark.parametrize("participants", [2, 3])
def test_several_classes(participants: int) -> None:
    """Trees are dealt to the classes in turn; a class may have single leaves only."""
    rng = np.random.default_rng(participants)
    everyone = list(range(1, participants + 1))
    trees = [random_tree(rng, [] if i % 3 == 1 else everyone, 2) for i in range(9)]
    tables = random_tables(rng, participants, 21)

    np.testing.assert_array_equal(score(trees, tables, 3).results[ACTIVE], walk_all(trees, tables, 3), strict=True)


@pytest.mark.parametrize("rounds", [None, 1, 2, 3])
def test_some_rounds_only(rounds: int | None) -> None:
    """The active participant says how many rounds of trees are in use."""
    rng = np.random.default_rng(4)
    trees, tables = [random_tree(rng, [1, 2], 3) for _ in range(6)], random_tables(rng, 2, 13)
    used = trees if rounds is None else trees[: 2 * rounds]

    found = score(trees, tables, 2, rounds).results[ACTIVE]
    np.testing.assert_array_equal(found, walk_all(used, tables, 2), strict=True)


@pytest.mark.parametrize(("direct", "rounds"), [(0, 4), (1 << 30, 2)])
@pytest.mark.parametrize("rows", [1, 8, 9, 31, 40])
def test_rows_in_chunks(rows: int, direct: int, rounds: int) -> None:
    """Chunks of eight rows give the same as one chunk, with rounds for the products of marks or without."""
    rng = np.random.default_rng(rows)
    trees, tables = [random_tree(rng, [1, 2, 3], 3) for _ in range(2)], random_tables(rng, 3, rows)
    run = score(trees, tables, leaf_elements=1, direct_bytes=direct)

    np.testing.assert_array_equal(run.results[ACTIVE], walk_all(trees, tables), strict=True)
    assert run.meters[ACTIVE].total("predict").rounds == 1 + -(-rows // 8) * rounds


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("owners", [1, 2, 3, 4, 5])
def test_rounds_and_hops(owners: int, few: bool) -> None:
    """As the docstrings say: 3 to prepare; then 2 for few rows, and for many ceil(log2 K) more, for K owners."""
    for function, said in ((predict.prepare, PREPARING), (predict.predict_prepared, PREDICTING)):
        assert said in " ".join((function.__doc__ or "").split())
    rng = np.random.default_rng(1)
    path: list[tuple[int, Split] | Leaf] = []
    for m in range(1, owners + 1):  # everyone splits once, on one path
        path += [(m, Split("number", 0.5, None, False, False, 2 * m - 1, 2 * m)), Leaf(m)]
    trees, tables = [WholeTree((*path, Leaf(99)))], random_tables(rng, 5, 24)
    run = score(trees, tables, direct_bytes=1 << 30 if few else 0)

    np.testing.assert_array_equal(run.results[ACTIVE], walk_all(trees, tables))
    products = 0 if few else math.ceil(math.log2(owners))
    assert [meter.total().rounds for meter in run.meters] == [0] + [3 + 2 + products] * 5
    hops = (4 + 1) + (3 if owners > 1 else 2) + 2 * products
    assert [meter.total().hops for meter in run.meters] == [0] + [hops] * 5


PREPARING = (
    "Rounds: 2 to agree, and 1 for the weights if trees with a split are in use. Hops: 4, and 1 for the weights (2 "
    "where all participants hold shares of them)."
)
PREDICTING = (
    "Rounds: 2 per chunk of few rows, 2 + ceil(log2 K) of many, for K owners. Hops: 3, and 2 more for every round "
    "more; 1 less where all splits are the active participant's."
)


@pytest.mark.parametrize("direct", [0, 1 << 30])
def test_more_products_than_a_message_has_room_for(direct: int) -> None:
    """Many classes, with trees of all sets of owners: what is dealt goes in several messages."""
    rng = np.random.default_rng(9)
    sets = [[m for m in (1, 2, 3) if i >> (m - 1) & 1] for i in range(8)]
    trees, tables = [random_tree(rng, sets[i // 37 % 8], 2) for i in range(37 * 8)], random_tables(rng, 3, 10)

    found = score(trees, tables, 37, direct_bytes=direct).results[ACTIVE]
    np.testing.assert_array_equal(found, walk_all(trees, tables, 37), strict=True)


@pytest.mark.parametrize("classes", [1, 2])
def test_ledger(classes: int) -> None:
    """Sizes and the model's shape to everyone, one prediction per row and class to the active participant."""
    rng = np.random.default_rng(2)
    trees, tables = [random_tree(rng, [1, 2, 3], 2) for _ in range(4)], random_tables(rng, 3, 17)
    run = score(trees, tables, classes)
    everyone = [
        Reveal(name, receiver, count)
        for name, count in ((Entry.ROWS_TO_SCORE, 3 * 5), (Entry.TREE_SHAPE, 3 * 4 * (2 + 3)))
        for receiver in ("coordinator", "participants")
    ]

    for ledger in run.ledgers:
        assert set(ledger) == {*everyone, Reveal(Entry.PREDICTION, "P1", 17 * classes)}


@pytest.mark.parametrize("participants", [2, 3, 6])
@given(seed=SEEDS, rows=st.integers(1, 30), classes=st.sampled_from([1, 2]), rounds=st.sampled_from([None, 1]))
@examples(5)
def test_predictions_from_shares(participants: int, seed: int, rows: int, classes: int, rounds: int | None) -> None:
    """As the paper keeps weights: trees of any owners and single leaves, to the bit, to the active participant only."""
    rng = np.random.default_rng(seed)
    trees = [random_tree(rng, list(range(1, participants + 1)), 3), random_tree(rng, [], 3)]
    trees += [random_tree(rng, [participants], 2), random_tree(rng, [1], 2)]
    tables = random_tables(rng, participants, rows)
    views = shared_views(rng, trees, participants)
    private: list[list[Scorer | None]] = [[None]]
    private += [[Scorer(view, table, holds_shares=True)] for view, table in zip(views, tables, strict=True)]

    def program(party: Party, scorer: Scorer | None) -> Margins:
        return secure_predict(party, classes, scorer, rounds if party.is_active else None)

    results = run_locally(program, participants, private).results
    used = trees if rounds is None else trees[: rounds * classes]
    np.testing.assert_array_equal(results[ACTIVE], walk_all(used, tables, classes), strict=True)
    assert [result is None for result in results] == [role != ACTIVE for role in range(participants + 1)]
