"""A round from the inside: what is shared of gradients, constants and samples, and the trees that grow from it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.boosting.sampling import column_sample
from mpfedxgb.modes.mode import Setup
from mpfedxgb.party import ACTIVE, Party, run_locally
from mpfedxgb.training import train
from mpfedxgb.training.setup import set_up
from mpfedxgb.training.train import with_samples
from mpfedxgb.tree import GrownLeaf, GrownTree
from mpfedxgb.tree.level import Round
from support.small_trainings import ROWS, Training, training_of
from support.small_trees import opened

Opened = npt.NDArray[Any] | None


@dataclass(frozen=True, slots=True)
class Shared:
    """What a role has of a round's inputs, in the clear; the set-up is its own."""

    setup: Setup
    gh: Opened
    constants: list[Any]
    sample: Opened


def share_inputs(training: Training, t: int = 0) -> list[Shared]:
    """Return what the participants share before trees grow, opened for the test."""

    def program(party: Party, params: TrainParams, data: TrainData | None) -> Shared:
        setup = set_up(party, params, data)
        gh, _, constants = setup.mode.gradients(party, setup, t)
        sample = with_samples(party, setup, t, Round(str(t), constants)).allowed
        numbers = [opened(party, secret) for secret in (constants.lam, constants.gam, constants.mcw)]
        bits = None if sample is None else opened(party, sample.secret)
        return Shared(setup, opened(party, gh), numbers, bits)

    return run_locally(program, training.participants, training.private).results


@pytest.mark.parametrize("kind", ["binary", "classes", "squared error", "weights", "row samples", "parallel trees"])
def test_gradients_are_the_active_participants(kind: str) -> None:
    """Of every tree of the round, over the training rows."""
    shared = share_inputs(training_of(kind, 3))
    active = shared[ACTIVE].setup.active
    assert active is not None
    assert active._gh.shape == (shared[0].setup.params.trees_per_round, 2, ROWS)
    for one in shared[1:]:
        np.testing.assert_array_equal(one.gh, active._gh)


@pytest.mark.parametrize("kind", ["binary", "classes", "no lambda", "squared error", "weights", "custom"])
def test_constants_go_with_the_scales_of_the_round(kind: str) -> None:
    """The active participant shares lambda~, gamma~ and min_child_weight~ at the scales of this round's gradients."""
    shared = share_inputs(training_of(kind, 2))
    active = shared[ACTIVE].setup.active
    assert active is not None
    for one in shared[1:]:
        assert one.constants == [active.scale.lam, active.scale.gam, active.scale.mcw]


def test_constants_are_public_where_the_scales_are() -> None:
    """As with the paper's log-loss: everyone computes them from the parameters."""
    training = training_of("binary", 2)
    params = replace(training.params, security="paper", min_child_weight=0.0, gamma=0.5)
    shared = share_inputs(replace(training, params=params))
    plan = shared[0].setup.plan
    assert (plan.f_g, plan.f_h) == (24, 24)
    known = scales.scale(params, plan, ROWS, 24, 24)
    assert known.gam > 1
    for one in shared[1:]:
        assert one.constants == [known.lam, known.gam, known.mcw]


@pytest.mark.parametrize("t", [0, 3])
@pytest.mark.parametrize("classes", [False, True])
def test_every_owner_samples_its_own_columns(classes: bool, t: int) -> None:
    """The sample of each participant's key, side by side in the order of candidates; without one there is none."""
    training = training_of("classes" if classes else "binary", 3)
    assert [one.sample for one in share_inputs(training)] == [None] * 4

    training = replace(training, params=replace(training.params, colsample_bytree=0.5))
    keyed = replace_keys(training)
    shared = share_inputs(keyed, t)
    expected = np.concatenate(
        [column_sample(Named(f"P{m}"), training.params, candidates_of(shared[m]), f"key {m}", t) for m in (1, 2, 3)],  # type: ignore[arg-type] # with a key, only the name counts
        axis=1,
    )
    assert 0 < expected.mean() < 1
    for one in shared[1:]:
        np.testing.assert_array_equal(one.sample, expected)


@dataclass(frozen=True, slots=True)
class Named:
    """What a sample by key asks of a party."""

    name: str


def candidates_of(one: Shared) -> Any:
    """Return a participant's candidates."""
    return one.setup.data.candidates


class Keyed(Training):
    """A training in which every participant has a key for its samples."""

    @property
    def private(self) -> list[tuple[TrainParams, TrainData | None]]:
        """What each role is called with, the coordinator first."""
        plain = Training.private.__get__(self)
        return [(p, None if d is None else replace(d, sample_key=f"key {m}")) for m, (p, d) in enumerate(plain)]


def replace_keys(training: Training) -> Training:
    """Return the training with keys."""
    return Keyed(training.params, training.tables, training.labels, training.evaluation)


@pytest.mark.parametrize(("kind", "trees"), [("binary", 1), ("classes", 3), ("nothing to split", 1)])
def test_a_round_begins_with_all_rows_in_every_root(kind: str, trees: int) -> None:
    """Each row, training and evaluation, is in exactly one leaf of every tree; all roles see the same shapes."""
    training = training_of(kind, 2)

    def program(party: Party, params: TrainParams, data: TrainData | None) -> tuple[list[GrownTree], Opened]:
        grown = train.secure_fit(party, set_up(party, params, data), 0)
        return grown.trees, opened(party, grown.members)

    run = run_locally(program, 2, training.private)
    for grown, members in run.results[1:]:
        assert len(grown) == trees
        assert members is not None
        rows = np.unpackbits(members.astype(np.uint8), axis=1, count=ROWS, bitorder="little")
        for tree in grown:
            np.testing.assert_array_equal(rows[tree.leaf_places()].sum(axis=0), 1)
    shapes = [[[isinstance(node, GrownLeaf) for node in tree.nodes] for tree in grown] for grown, _ in run.results]
    assert shapes == [shapes[0]] * 3
    assert (shapes[0] == [[True]]) == (kind == "nothing to split")
