"""What is told before rows are scored, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from mpfedxgb.errors import UserError
from mpfedxgb.party import LocalRun, Party, Reveal, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.tree import Leaf
from mpfedxgb.tree.nodes import Outline, Scorer
from mpfedxgb.tree.predict import Agreed, agree
from support.refusals import refused
from support.whole_trees import WholeTree, random_tables, random_tree, shared_views


def agreement(scorers: list[Scorer], classes: int = 1, rounds: int | None = None) -> LocalRun[Agreed]:
    """Return what every role knows afterwards."""
    private: list[tuple[Scorer | None]] = [(None,), *((scorer,) for scorer in scorers)]

    def program(party: Party, scorer: Scorer | None) -> Agreed:
        return agree(party, classes, scorer, rounds if party.is_active else None)

    return run_locally(program, len(scorers), private)


def outline_of(tree: WholeTree, class_index: int) -> Outline:
    """Return the public shape, from the whole tree."""
    owners = {node[0] for node in tree.nodes if not isinstance(node, Leaf)}
    return Outline(class_index, sum(isinstance(node, Leaf) for node in tree.nodes), tuple(sorted(owners)))


@pytest.mark.parametrize("rounds", [None, 1])
@pytest.mark.parametrize("shared", [False, True])
def test_everyone_knows_rows_and_outlines(shared: bool, rounds: int | None) -> None:
    """The coordinator too; the active participant limits the trees; nothing else is told."""
    rng = np.random.default_rng(4)
    trees, tables = [random_tree(rng, [1, 2, 3], 3) for _ in range(4)], random_tables(rng, 3, 9)
    views = shared_views(rng, trees, 3) if shared else [[tree.view(m) for tree in trees] for m in (1, 2, 3)]
    run = agreement([Scorer(v, t, shared) for v, t in zip(views, tables, strict=True)], classes=2, rounds=rounds)

    used = trees if rounds is None else trees[:2]
    assert run.results == [Agreed(9, [outline_of(tree, i % 2) for i, tree in enumerate(used)], shared)] * 4
    told = {(Entry.ROWS_TO_SCORE, 3 * 5), (Entry.TREE_SHAPE, 3 * len(used) * (2 + 3))}
    for ledger in run.ledgers:
        assert set(ledger) == {Reveal(n, who, c) for n, c in told for who in ("participants", "coordinator")}
    assert [meter.total().rounds for meter in run.meters] == [0, 2, 2, 2]


def test_a_model_of_one_leaf() -> None:
    """One tree that nobody has split is a model too."""
    rng = np.random.default_rng(2)
    tree = random_tree(rng, [1, 2], 0)
    run = agreement([Scorer([tree.view(m)], t) for m, t in enumerate(random_tables(rng, 2, 3), 1)])

    assert run.results == [Agreed(3, [Outline(0, 1, ())], False)] * 3


def test_different_numbers_of_rows_are_refused() -> None:
    """Named before anything is computed, with everybody's number."""
    rng = np.random.default_rng(0)
    tables = [random_tables(rng, 2, 5)[0], random_tables(rng, 2, 6)[1]]

    tree = random_tree(rng, [1, 2], 2)

    with refused(UserError, "mismatch", "rows"):
        agreement([Scorer([tree.view(m)], table) for m, table in enumerate(tables, 1)])


@pytest.mark.parametrize("kind", ["number of trees", "shape"])
def test_different_models_are_refused(kind: str) -> None:
    """Parts of different trainings are told apart by their public shape."""
    rng = np.random.default_rng(0)
    tables = random_tables(rng, 2, 5)
    mine = [random_tree(rng, [1, 2], 2)]
    yours = [*mine, *mine] if kind == "number of trees" else [random_tree(rng, [], 2)]
    scorers = [Scorer([t.view(m) for t in trees], tables[m - 1]) for m, trees in ((1, mine), (2, yours))]

    with refused(UserError, "mismatch", "training"):
        agreement(scorers)


def test_weights_and_shares_do_not_mix() -> None:
    """Where one has shares and another has not, their models are of different trainings."""
    rng = np.random.default_rng(0)
    trees, tables = [random_tree(rng, [1, 2], 2)], random_tables(rng, 2, 5)
    views = shared_views(rng, trees, 2)

    with refused(UserError, "mismatch", "training"):
        agreement([Scorer(views[0], tables[0], holds_shares=True), Scorer(views[1], tables[1])])
