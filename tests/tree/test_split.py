"""The best split of every node against the oracle, and the children it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.config import SessionSettings
from mpfedxgb.party import COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import Keyring
from mpfedxgb.protocols import NOBODY, Opened
from mpfedxgb.tree import GrownSplit, GrownTree, Round, TreeRules
from mpfedxgb.tree.grow import best_splits, children
from mpfedxgb.tree.level import Level, aggregate_buckets, select_nodes
from support.evaluation import SEEDS
from support.property_tests import examples
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

TREES, ROWS, DEPTH = 6, 30, 3


def rules_of(checks_children: bool = False, no_split_first: bool = True, first_layer_mask: bool = False) -> TreeRules:
    """Return rules for trees of DEPTH layers."""
    return TreeRules(
        max_depth=DEPTH,
        ring=WIDE,
        checks_children=checks_children,
        no_split_first=no_split_first,
        first_layer_mask=first_layer_mask,
    )


@dataclass(frozen=True, slots=True)
class Case:
    """How the best splits of a batch of roots are looked for."""

    lam: int = 1
    gam: int = 1
    mcw: int = 0
    no_split_first: bool = True
    samples: bool = False
    first_layer: bool = False

    def secure(self, federation: Federation, gh: Ints, allowed: Bits) -> list[Opened]:
        """Return what every role learns."""
        rules = rules_of(self.mcw > 0, self.no_split_first, self.first_layer)

        def program(party: Party) -> Opened:
            data, vectors = federation.publish(party), share_gradients(party, gh)
            permitted = share_allowed(party, federation, allowed) if self.samples else None
            round_ = Round("0", constants(party, self.lam, self.gam, self.mcw), permitted)
            nodes = [(tree, 0) for tree in range(len(gh))]
            members = share_members(party, np.ones((len(gh), ROWS), np.uint8))
            level = Level(nodes, members, as_secret(party, vectors), aggregate_buckets(party, data, vectors))
            return best_splits(party, data, level, round_, rules, depth=0)

        return run_locally(program, federation.participants).results

    def plain(self, federation: Federation, gh: Ints, allowed: Bits) -> list[int | None]:
        """Return what the oracle chooses: a candidate's number, or None."""
        layer = slice(0, federation.sizes.columns[0]) if self.first_layer else None
        rules = reference.Rules(3, self.lam, self.gam, self.mcw, self.no_split_first, layer)
        bits, choices = federation.bits.astype(np.int64), []
        for tree, (g, h) in enumerate(gh):
            left = [(int(a), int(b)) for a, b in bits @ np.stack([g, h]).T]
            among = range(len(bits)) if layer is None else range(len(bits))[layer]
            permitted = allowed[tree].astype(bool) if self.samples else np.ones(len(bits), bool)
            choices.append(reference._best(left, int(g.sum()), int(h.sum()), rules, permitted, among))
        return choices


def check_against_oracle(case: Case, federation: Federation, gh: Ints, allowed: Bits) -> None:
    """Everyone learns the owners, each owner its own candidates, and they are the oracle's."""
    federation.check_choices(case.secure(federation, gh, allowed), case.plain(federation, gh, allowed))


CASES = {
    "plain": Case(),
    "large gamma": Case(gam=40, no_split_first=False),
    "gamma of one, last": Case(no_split_first=False),
    "no lambda": Case(lam=0, mcw=1),
    "no lambda, gamma": Case(lam=0, mcw=1, gam=3, no_split_first=False),
    "heavy children": Case(lam=2, mcw=7),
    "samples": Case(samples=True),
    "samples and heavy children": Case(lam=0, mcw=3, samples=True, no_split_first=False),
    "first layer": Case(first_layer=True),
    "first layer, samples": Case(first_layer=True, samples=True, mcw=2),
}


@pytest.mark.parametrize("name", CASES)
@given(seed=SEEDS, columns=st.sampled_from([(2, 2), (1, 3), (2, 1, 2), (3, 0, 1), (1, 1, 1)]))
@examples(6)
def test_best_splits_are_the_oracles(name: str, seed: int, columns: tuple[int, ...]) -> None:
    """Small tables full of ties, weights of 1 and of 2^20, several trees in a batch: owner and candidate are right."""
    federation, gh = Federation.random(seed, ROWS, columns), gradients(seed, TREES, ROWS)
    allowed = np.random.default_rng(seed).integers(0, 2, (TREES, len(federation.bits))).astype(np.uint8)

    check_against_oracle(CASES[name], federation, gh, allowed)


@pytest.mark.parametrize("first", [True, False])
def test_ties_with_no_split(first: bool) -> None:
    """A gain of exactly gamma splits where "no split" stands last, and does not where it stands first."""
    federation = Federation.random(0, ROWS, (1, 1))
    g = federation.candidates[0].rows_left(0).astype(np.int64)
    H, GL, HL = ROWS, int(g.sum()), int(g.sum())
    gh = np.stack([g, np.ones(ROWS, np.int64)])[None] * (H + 1) * (HL + 1)  # so that the gain is a whole number
    factor = (H + 1) * (HL + 1)
    lam = factor
    gain = GL**2 * factor**2 // (HL * factor + lam) - GL**2 * factor**2 // (H * factor + lam)
    allowed = np.ones((1, len(federation.bits)), np.uint8)
    case = Case(lam=lam, gam=gain, no_split_first=first)

    check_against_oracle(case, federation, gh, allowed)
    assert (case.plain(federation, gh, allowed)[0] is None) == first
    check_against_oracle(Case(lam=lam, gam=gain + 1, no_split_first=first), federation, gh, allowed)
    assert Case(lam=lam, gam=gain + 1, no_split_first=first).plain(federation, gh, allowed) == [None]


@pytest.mark.parametrize("mcw", [0, 2])
def test_first_layer_without_columns_of_the_active_participant(mcw: int) -> None:
    """Nobody's column takes part, so nothing splits."""
    federation, gh = Federation.random(2, ROWS, (0, 3)), gradients(2, TREES, ROWS)
    allowed = np.ones((TREES, len(federation.bits)), np.uint8)
    for samples in (False, True):
        views = Case(mcw=mcw, first_layer=True, samples=samples).secure(federation, gh, allowed)
        assert all((view.owner == NOBODY).all() for view in views)


def test_ledger_of_best_splits() -> None:
    """Owners to everyone, under their name; own splits to their owners; nothing else."""
    federation, gh = Federation.random(5, ROWS, (2, 2)), gradients(5, TREES, ROWS)

    def program(party: Party) -> tuple[Opened, dict[tuple[str, str], int]]:
        data, vectors = federation.publish(party), share_gradients(party, gh)
        round_ = Round("0", constants(party, 1, 1, 0))
        members = share_members(party, np.ones((TREES, ROWS), np.uint8))
        sums = aggregate_buckets(party, data, vectors)
        level = Level([(k, 0) for k in range(TREES)], members, as_secret(party, vectors), sums)
        found = best_splits(party, data, level, round_, rules_of(), depth=0)
        return found, {(entry.name, entry.receiver): entry.count for entry in party.ledger}

    results = run_locally(program, 2).results
    owners = results[0][0].owner.tolist()
    expected: dict[tuple[str, str], int]
    expected = {(Entry.TREE_SHAPE, who): TREES for who in ("participants", "coordinator")}
    expected |= {(Entry.OWN_SPLIT, f"P{m}"): owners.count(m) for m in (1, 2) if m in owners}

    assert [ledger for _, ledger in results] == [expected] * 3


class Coin:
    """A stream of private choices that always falls the same way."""

    def __init__(self, side: int) -> None:
        self.side = side

    def octets(self, count: int) -> Bits:
        """Return bytes of which only the lowest bit counts."""
        return np.full(count, 254 + self.side, np.uint8)


@dataclass(frozen=True, slots=True)
class Family:
    """What one role has after `children`: nodes, the trees it saw, and everything else in the clear."""

    nodes: list[tuple[int, int]]
    trees: list[GrownTree]
    members: npt.NDArray[Any] | None
    gh: npt.NDArray[Any] | None
    sums: npt.NDArray[Any] | None


def raise_children(
    federation: Federation, gh: Ints, members: Bits, splits: list[tuple[int, int]], last: bool
) -> LocalRun[Family]:
    """Split the roots of several trees, each by a candidate of its own, and return both children of each."""

    def program(party: Party) -> Family:
        data, vectors = federation.publish(party), share_gradients(party, gh, jointly=True)
        sums = aggregate_buckets(party, data, vectors)
        parent = Level([(k, 0) for k in range(len(gh))], share_members(party, members), as_secret(party, vectors), sums)
        trees = [GrownTree() for _ in gh]
        mine = [(owner, candidate if party.role == owner else -1) for owner, candidate in splits]
        level = children(party, data, parent, mine, trees, "7", rules_of(), DEPTH - 1 if last else 0)
        if last:
            assert level.gh is None
            assert level.sums is None
            return Family(list(level.nodes), trees, opened(party, level.members), None, None)
        assert level.gh is not None
        assert level.sums is not None
        shown = [opened(party, x) for x in (level.members, level.gh, level.sums)]
        return Family(list(level.nodes), trees, *shown)

    return run_locally(program, federation.participants, settings=SessionSettings(insecure_seed=4))


def inside(family: Family, rows: int) -> Bits:
    """Return the revealed members, (nodes, rows)."""
    assert family.members is not None
    return np.unpackbits(family.members.astype(np.uint8), axis=1, count=rows, bitorder="little")


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("coin", [0, 1, None])
@pytest.mark.parametrize("columns", [(2, 2), (2, 1, 2)])
def test_children(monkeypatch: pytest.MonkeyPatch, columns: tuple[int, ...], coin: int | None, last: bool) -> None:
    """Rows, g and h of both children, whichever side the owner calls left, for coins of either side and drawn ones."""
    if coin is not None:
        monkeypatch.setattr(Keyring, "private_stream", lambda self, label: Coin(coin))
    federation, count = Federation.random(3, ROWS, columns, eval_rows=9), 8
    rng = np.random.default_rng(8)
    members = rng.integers(0, 2, (count, ROWS + 9)).astype(np.uint8)
    gh = gradients(8, count, ROWS) * members[:, None, :ROWS]
    owners = [m for m in federation.sizes.owners for _ in range(4)][:count]
    splits = [(m, int(rng.integers(0, federation.sizes.columns[m - 1]))) for m in owners]
    run = raise_children(federation, gh, members, splits, last)

    flips = []
    for i, (owner, candidate) in enumerate(splits):
        node = run.results[owner].trees[i].nodes[0]
        assert isinstance(node, GrownSplit)
        assert (node.owner, node.candidate, node.left, node.right) == (owner, candidate, 1, 2)
        flips.append(node.flipped)
        goes = federation.goes_left(owner, candidate) ^ np.uint8(node.flipped)
        for family in run.results[1:]:
            np.testing.assert_array_equal(inside(family, ROWS + 9)[i], members[i] & goes)
            np.testing.assert_array_equal(inside(family, ROWS + 9)[count + i], members[i] & (1 - goes))
            if family.gh is not None:
                np.testing.assert_array_equal(family.gh[i], gh[i] * goes[:ROWS])
                np.testing.assert_array_equal(family.gh[count + i], gh[i] * (1 - goes[:ROWS]))
        for role, family in enumerate(run.results):
            seen = family.trees[i].nodes[0]
            if role != owner:
                assert seen == GrownSplit(owner, -1, False, 1, 2), "others know neither candidate nor coin"
    assert set(flips) == ({False, True} if coin is None else {bool(coin)})
    for family in run.results:
        assert family.nodes == [(k, 1) for k in range(count)] + [(k, 2) for k in range(count)]
        assert (family.sums is None) == (last or family is run.results[COORDINATOR])
        if family.sums is not None:  # still the parents'
            np.testing.assert_array_equal(family.sums, gh @ federation.bits.astype(np.int64).T)


@pytest.mark.parametrize("last", [False, True])
def test_rounds_and_bytes_of_children(last: bool) -> None:
    """A bit per row and split by its owner; a bit, and 16 bytes where g and h go on, by each auxiliary."""
    federation, rows = Federation.random(4, 40, (2, 2, 2)), 40
    gh, members = gradients(4, 3, rows), np.ones((3, rows), np.uint8)
    meters = raise_children(federation, gh, members, [(1, 0), (2, 0), (2, 1)], last).meters

    assert [meter.total("children").rounds for meter in meters] == [0] + [2] * 3
    each = 3 * rows // 8 + (0 if last else 3 * 16 * rows)
    assert [meters[m].total("children").payload_sent.get("P1", 0) for m in (2, 3)] == [2 * rows // 8 + each, each]


def test_children_are_numbered_level_by_level() -> None:
    """However the batch is ordered, the children of the lower node come first."""
    federation = Federation.random(4, ROWS, (2, 2))
    gh, members = gradients(4, 3, ROWS), np.ones((3, ROWS), np.uint8)

    def program(party: Party) -> list[tuple[int, int]]:
        data, vectors = federation.publish(party), share_gradients(party, gh)
        trees = [GrownTree(), GrownTree()]
        trees[0].split(0, 1, 0, False)
        parent = Level([(0, 2), (1, 0), (0, 1)], share_members(party, members), as_secret(party, vectors))
        return list(children(party, data, parent, [(1, 0)] * 3, trees, "0", rules_of(), DEPTH - 1).nodes)

    for nodes in run_locally(program, 2).results:
        assert nodes == [(0, 5), (1, 1), (0, 3), (0, 6), (1, 2), (0, 4)]


def test_nodes_leave_the_batch() -> None:
    """Some nodes of a level stay, with what belongs to them; all of them are the level itself."""
    federation, gh = Federation.random(6, ROWS, (1, 2)), gradients(6, 4, ROWS)
    members = np.random.default_rng(0).integers(0, 2, (4, ROWS)).astype(np.uint8)

    def program(party: Party) -> Family:
        data, vectors = federation.publish(party), share_gradients(party, gh)
        sums = aggregate_buckets(party, data, vectors)
        level = Level([(k, k) for k in range(4)], share_members(party, members), as_secret(party, vectors), sums)
        assert select_nodes(level, [0, 1, 2, 3], True) is level
        bare = select_nodes(Level(level.nodes, level.members), [1], True)
        assert bare.gh is None
        assert bare.sums is None
        assert select_nodes(level, [2, 0], False).gh is None
        some = select_nodes(level, [2, 0], True)
        assert some.gh is not None
        assert some.sums is not None
        return Family(list(some.nodes), [], *(opened(party, x) for x in (some.members, some.gh, some.sums)))

    for family in run_locally(program, 2).results[1:]:
        assert family.nodes == [(2, 2), (0, 0)]
        np.testing.assert_array_equal(inside(family, ROWS), members[[2, 0]])
        np.testing.assert_array_equal(family.gh, gh[[2, 0]])
        np.testing.assert_array_equal(family.sums, gh[[2, 0]] @ federation.bits.astype(np.int64).T)
