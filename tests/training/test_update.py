"""What becomes of grown trees: the active participant's margins, and what everyone keeps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.config import SessionSettings
from mpfedxgb.modes.choose import MODES
from mpfedxgb.modes.mode import Setup
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.ring.ring import decode_fixed
from mpfedxgb.schema.training import MODES as NAMES
from mpfedxgb.training.setup import set_up
from mpfedxgb.training.train import secure_fit
from mpfedxgb.tree import Dummy, GrownLeaf, GrownSplit, GrownTree, Leaf, Split, Tree
from mpfedxgb.tree.leaf import WEIGHT_BITS
from support.small_trainings import EVAL_ROWS, ROWS, Training, training_of
from support.small_trees import opened


@dataclass(frozen=True, slots=True)
class Updated:
    """What a role has after one round, and what it had grown; the rows of each leaf in the clear."""

    setup: Setup
    grown: list[GrownTree]
    kept: list[Tree]
    rows: Any
    sums: Any


def one_round(training: Training) -> LocalRun[Updated]:
    """Grow and update the trees of the first round."""

    def program(party: Party, params: TrainParams, data: TrainData | None) -> Updated:
        setup = set_up(party, params, data)
        grown = secure_fit(party, setup, 0)
        kept = setup.mode.update(party, setup, grown, 0)
        totals = None if grown.totals is None else opened(party, grown.totals)
        return Updated(setup, grown.trees, kept, opened(party, grown.members), totals)

    return run_locally(program, training.participants, training.private, SessionSettings(insecure_seed=3))


def with_security(kind: str, security: str) -> Training:
    """Return a training of three participants, in the paper's way if asked for."""
    training = training_of(kind, 3)
    if security == "strict":
        return training
    return replace(training, params=replace(training.params, security="paper", min_child_weight=0.0))


def test_both_ways_have_an_update() -> None:
    """By the names that the parameter has."""
    assert tuple(MODES) == NAMES[:3]


@pytest.mark.parametrize(
    ("kind", "security"),
    [
        ("binary", "strict"),
        ("classes", "strict"),
        ("weights", "strict"),
        ("evaluation rows", "strict"),
        ("nothing to split", "strict"),
        ("binary", "paper"),
        ("evaluation rows", "paper"),
        ("nothing to split", "paper"),
    ],
)
def test_everyone_keeps_its_own_and_margins_grow(kind: str, security: str) -> None:
    """A split at its owner, a dummy elsewhere, nothing at the coordinator; each row's margin grows by its leaf."""
    training = with_security(kind, security)
    run = one_round(training)
    assert run.results[COORDINATOR].kept == []
    grown = run.results[COORDINATOR].grown
    assert len(grown) == training.params.trees_per_round
    for role in range(1, 4):
        for tree, kept in zip(run.results[role].grown, run.results[role].kept, strict=True):
            assert [kind_of(node, role) for node in tree.nodes] == [type(node) for node in kept]
            for node, own in zip(tree.nodes, kept, strict=True):
                if isinstance(node, GrownSplit):
                    assert not isinstance(own, Leaf)
                    assert (own.left, own.right) == (node.left, node.right)
                    assert not isinstance(own, Split) or own.flipped == node.flipped
    check_margins(run, training, security)


def kind_of(node: Any, role: int) -> type:
    """Return what a role keeps of a node."""
    if isinstance(node, GrownLeaf):
        return Leaf
    return Split if node.owner == role else Dummy


def check_margins(run: LocalRun[Updated], training: Training, security: str) -> None:
    """Hold the active participant's margins to the weights of the leaves, as all participants together have them."""
    rows = ROWS + training.eval_rows
    mine = run.results[ACTIVE]
    active = mine.setup.active
    assert active is not None
    inside = np.unpackbits(mine.rows.astype(np.uint8), axis=1, count=rows, bitorder="little").astype(bool)
    for k, tree in enumerate(mine.grown):
        start = np.rint(active.base[k] * 2**WEIGHT_BITS)
        for number, node in enumerate(tree.nodes):
            if isinstance(node, GrownLeaf):
                leaves = [result.kept[k][number] for result in run.results[1:]]
                weight = weight_of(leaves, mine.setup.mode.leaf_scale_bits(mine.setup), security)
                added = (active.margins[k, inside[node.place]] - start) / 2**WEIGHT_BITS
                np.testing.assert_allclose(added, weight, atol=2.0**-31)


def weight_of(leaves: list[Any], leaf_scale_bits: int, security: str) -> float:
    """Return a leaf's weight: the active participant's alone, or the sum of everybody's shares."""
    if security == "strict":
        assert [leaf.weight is not None for leaf in leaves] == [True, False, False]
        assert [leaf.cover is not None for leaf in leaves] == [True, False, False]
        assert {leaf.share for leaf in leaves} == {None}
        return float(decode_fixed(np.array(leaves[0].weight), WEIGHT_BITS))
    assert {(leaf.weight, leaf.cover) for leaf in leaves} == {(None, None)}
    total = (sum(leaf.share for leaf in leaves) + (1 << 63)) % (1 << 64) - (1 << 63)
    return float(decode_fixed(np.array(total), leaf_scale_bits))


def test_the_papers_weights_are_the_strict_ones_within_epsilon() -> None:
    """The same trees, the same rows, and margins that differ by no more than the descent may be off."""
    strict, paper = (with_security("evaluation rows", security) for security in ("strict", "paper"))
    strict = replace(strict, params=replace(paper.params, security="strict"))
    margins = []
    for training in (strict, paper):
        active = one_round(training).results[ACTIVE].setup.active
        assert active is not None
        margins.append(active.margins / 2**WEIGHT_BITS)
    assert margins[0].shape == (1, ROWS + 2 * EVAL_ROWS)
    np.testing.assert_allclose(margins[0], margins[1], atol=2 * paper.params.leaf_epsilon)
    assert np.ptp(margins[0]) > 0.1


@pytest.mark.parametrize("security", NAMES[:3])
def test_rows_of_leaves_go_to_the_active_participant_only(security: str) -> None:
    """As many as there are, once per tree, whichever way they are told."""
    run = one_round(with_security("evaluation rows", security))
    for ledger in run.ledgers:
        told = {entry.receiver: entry.count for entry in ledger if entry.name == Entry.LEAF_MEMBERSHIP}
        assert told == {"P1": ROWS + 2 * EVAL_ROWS}
