"""Whole trees against the oracle: every split, every leaf's rows, in the strict way and in the paper's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb import reference
from mpfedxgb.modes.paper.tree import FeatureIndex, best_splits, index_features
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.tree import GrownLeaf, GrownSplit, GrownTree, Round, TreeRules
from mpfedxgb.tree.grow import grow
from mpfedxgb.tree.level import Level
from support.received import Steps
from support.row_vectors import as_secret
from support.small_trees import (
    WIDE,
    Bits,
    Federation,
    Ints,
    constants,
    gradients,
    opened,
    share_allowed,
    share_gradients,
    share_members,
)

ROWS, EVAL_ROWS, TREES = 30, 7, 3


@dataclass(frozen=True, slots=True)
class View:
    """What a role has of the grown trees, with the rows of all leaves and their sums in the clear."""

    trees: list[GrownTree]
    members: npt.NDArray[Any] | None
    totals: npt.NDArray[Any] | None
    progress: list[str]


@dataclass(frozen=True, slots=True)
class Case:
    """How trees grow."""

    max_depth: int = 3
    lam: int = 1
    gam: int = 1
    mcw: int = 0
    no_split_first: bool = True
    samples: bool = False
    first_layer: bool = False
    is_paper: bool = False

    def secure(self, federation: Federation, gh: Ints, allowed: Bits | None = None) -> LocalRun[View]:
        """Return what every role has."""
        rules = TreeRules(
            max_depth=self.max_depth,
            ring=WIDE,
            checks_children=self.mcw > 0,
            no_split_first=self.no_split_first,
            first_layer_mask=self.first_layer,
            tosses_coins=not self.is_paper,
            sums_in_leaves=self.is_paper,
        )

        looking = [Steps() for _ in range(federation.participants + 1)]

        def program(party: Party) -> View:
            data, vectors = federation.publish(party), share_gradients(party, gh)
            find = partial(best_splits, features=features_of(party, federation)) if self.is_paper else None
            permitted = None if allowed is None else share_allowed(party, federation, allowed)
            everyone = share_members(party, np.ones((len(gh), federation.sizes.all_rows), np.uint8))
            roots = Level([(k, 0) for k in range(len(gh))], everyone, as_secret(party, vectors), fresh=vectors)
            round_ = Round("0", constants(party, self.lam, self.gam, self.mcw), permitted)
            with party.phase("grow"):
                grown = grow(party, data, roots, round_, rules, find)
            totals = None if grown.totals is None else opened(party, grown.totals)
            return View(grown.trees, opened(party, grown.members), totals, looking[party.role].heard)

        return run_locally(program, federation.participants, observers=looking)

    def plain(self, federation: Federation, gh: Ints, allowed: Bits | None = None) -> list[reference.RefNode]:
        """Return the oracle's trees."""
        layer = slice(0, federation.sizes.columns[0]) if self.first_layer else None
        rules = reference.Rules(self.max_depth, self.lam, self.gam, self.mcw, self.no_split_first, layer)
        permitted = [None] * len(gh) if allowed is None else list(allowed)
        return [reference.grow(federation.bits, g, h, rules, a) for (g, h), a in zip(gh, permitted, strict=True)]


def features_of(party: Party, federation: Federation) -> FeatureIndex:
    """Index the features of all participants, as the paper's way needs them."""
    if party.is_coordinator:
        return index_features(party, [])
    mine = federation.candidates[party.role - 1]
    return index_features(party, np.bincount(mine.features, minlength=len(mine.bins.counts)).tolist())


def check_trees(federation: Federation, views: list[View], expected: list[reference.RefNode]) -> None:
    """Hold everybody's view to the oracle's trees: owners, own candidates, numbering, rows and sums of leaves."""
    places = [place for tree in views[0].trees for place in tree.leaf_places()]
    assert sorted(places) == list(range(len(places)))
    for k, root in enumerate(expected):
        everyone = np.ones(federation.sizes.all_rows, np.uint8)
        check_node(federation, views, k, 0, root, everyone)
        assert {len(view.trees[k].nodes) for view in views} == {size_of(root)}


def size_of(node: reference.RefNode) -> int:
    """Return the number of nodes."""
    return 1 if isinstance(node, reference.RefLeaf) else 1 + size_of(node.left) + size_of(node.right)


def check_node(
    federation: Federation, views: list[View], k: int, number: int, node: reference.RefNode, inside: Bits
) -> None:
    """Hold a node, and all below it, to the oracle's."""
    seen = [view.trees[k].nodes[number] for view in views]
    if isinstance(node, reference.RefLeaf):
        (leaf,) = set(seen)
        assert isinstance(leaf, GrownLeaf)
        assert tuple(np.flatnonzero(inside[: federation.sizes.rows])) == node.rows
        for view in views[1:]:
            assert view.members is not None
            rows = np.unpackbits(view.members[leaf.place].astype(np.uint8), count=len(inside), bitorder="little")
            np.testing.assert_array_equal(rows, inside)
            assert view.totals is None or view.totals[leaf.place].tolist() == [node.G, node.H]
        return
    ends = np.cumsum(federation.sizes.columns)
    owner = int(np.searchsorted(ends, node.index, side="right")) + 1
    own = seen[owner]
    assert isinstance(own, GrownSplit)
    assert (own.owner, federation.place(owner, own.candidate)) == (owner, node.index)
    hidden = GrownSplit(owner, -1, False, own.left, own.right)
    assert [split for role, split in enumerate(seen) if role != owner] == [hidden] * (len(views) - 1)
    goes = federation.goes_left(owner, own.candidate)
    first, second = (own.right, own.left) if own.flipped else (own.left, own.right)
    check_node(federation, views, k, first, node.left, inside & goes)
    check_node(federation, views, k, second, node.right, inside & (1 - goes))


CASES = {
    "plain": Case(),
    "one layer": Case(max_depth=1),
    "deep": Case(max_depth=5),
    "large gamma": Case(gam=30, no_split_first=False),
    "no lambda": Case(lam=0, mcw=1),
    "heavy children": Case(mcw=6),
    "samples": Case(samples=True),
    "first layer": Case(first_layer=True),
    "paper": Case(is_paper=True),
    "paper, one layer": Case(is_paper=True, max_depth=1),
    "paper, first layer, large gamma": Case(is_paper=True, first_layer=True, gam=30, no_split_first=False),
}


@pytest.mark.parametrize("columns", [(2, 2), (2, 0, 3), (0, 3)])
@pytest.mark.parametrize("name", CASES)
def test_trees_are_the_oracles(name: str, columns: tuple[int, ...]) -> None:
    """Several trees in one batch, evaluation rows beside, participants with nothing to split by."""
    case, federation = CASES[name], Federation.random(len(name), ROWS, columns, EVAL_ROWS)
    gh = gradients(len(name), TREES, ROWS, most=8)
    allowed = None
    if case.samples:
        allowed = np.random.default_rng(1).integers(0, 2, (TREES, len(federation.bits))).astype(np.uint8)
    expected = case.plain(federation, gh, allowed)
    run = case.secure(federation, gh, allowed)

    check_trees(federation, run.results, expected)
    assert all((view.totals is None) != case.is_paper or role == COORDINATOR for role, view in enumerate(run.results))
    if columns[0] and not case.first_layer:
        assert any(isinstance(root, reference.RefSplit) for root in expected), "nothing is tested here"


@pytest.mark.parametrize("is_paper", [False, True])
def test_nothing_to_split_by(is_paper: bool) -> None:
    """Without a candidate anywhere every tree is one leaf with all rows, and nothing is sent or told for it."""
    federation, gh = Federation.random(1, ROWS, (0, 0), EVAL_ROWS), gradients(1, TREES, ROWS)
    case = Case(is_paper=is_paper)
    run = case.secure(federation, gh)

    for view in run.results:
        assert [tree.nodes for tree in view.trees] == [[GrownLeaf(k)] for k in range(TREES)]
        assert view.progress == []
    assert {meter.total("grow").rounds for meter in run.meters} == {0}
    assert {entry.name for entry in run.ledgers[ACTIVE]}.isdisjoint({Entry.TREE_SHAPE, Entry.OWN_SPLIT})
    totals = run.results[ACTIVE].totals
    assert (totals is None) != is_paper
    assert totals is None or totals.tolist() == gh.sum(axis=2).tolist()


@pytest.mark.parametrize("is_paper", [False, True])
def test_growing_ends_where_nothing_is_worth_a_split(is_paper: bool) -> None:
    """All roots become leaves in the first layer, in their order, and no second layer is begun."""
    federation, gh = Federation.random(2, ROWS, (2, 2)), gradients(2, TREES, ROWS, most=1)
    run = Case(max_depth=4, gam=1 << 40, no_split_first=False, is_paper=is_paper).secure(federation, gh)

    for view in run.results:
        assert [tree.nodes for tree in view.trees] == [[GrownLeaf(k)] for k in range(TREES)]
        assert view.progress == ["level 1 of 4"]


@pytest.mark.parametrize("is_paper", [False, True])
def test_trees_that_end_at_different_depths(is_paper: bool) -> None:
    """Of one batch a tree has nothing to gain, one is split once, and one goes on; leaves close in that order."""
    federation = Federation.random(4, ROWS, (2, 2))
    once = federation.candidates[0].rows_left(0).astype(np.int64)
    g = np.stack([np.zeros(ROWS, np.int64), 8 * once, np.random.default_rng(0).integers(-9, 9, ROWS)])
    gh = np.stack([g, np.ones_like(g)], axis=1)
    case = Case(is_paper=is_paper)
    run = case.secure(federation, gh)

    check_trees(federation, run.results, case.plain(federation, gh))
    for view in run.results:
        sizes = [len(tree.nodes) for tree in view.trees]
        assert sizes[:2] == [1, 3]
        assert sizes[2] > 5
        assert view.trees[0].leaf_places() == [0]
        assert view.trees[1].leaf_places() == [1, 2]
        assert view.progress == ["level 1 of 3", "level 2 of 3", "level 3 of 3"]


def test_the_paper_tosses_no_coin() -> None:
    """Left is the candidate's left; in the strict way it is not always."""
    federation, gh = Federation.random(5, ROWS, (3, 3)), gradients(5, 6, ROWS)

    def flips(is_paper: bool) -> set[bool]:
        trees = [tree for view in Case(is_paper=is_paper).secure(federation, gh).results for tree in view.trees]
        return {node.flipped for tree in trees for node in tree.nodes if isinstance(node, GrownSplit)}

    assert flips(True) == {False}
    assert flips(False) == {False, True}
