"""The loop over rounds: how many there are, what each role has afterwards, when it stops and where it goes on."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting import TrainResult, join
from mpfedxgb.boosting.callbacks import Callbacks, NothingKept, State
from mpfedxgb.boosting.join import JoinedTree
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.training import secure_train
from support.received import Steps
from support.small_trainings import Training, training_of


@dataclass
class Kept(NothingKept):
    """States of one role in memory."""

    states: list[State] = field(default_factory=list)

    def newest(self) -> int:
        """Return the newest rounds."""
        return self.states[-1].rounds if self.states else 0

    def common(self) -> int:
        """Return the last round that all are known to have."""
        return self.states[-1].common if self.states else 0

    def fits(self, labels: str) -> bool:
        """Return that there are no other labels."""
        return True

    def load(self, rounds: int) -> State:
        """Return a state and forget later ones."""
        self.states = [state for state in self.states if state.rounds <= rounds]
        return next((state for state in self.states if state.rounds == rounds), State(0))

    def save(self, state: State) -> None:
        """Keep a state as it is now: margins and metrics go on changing."""
        self.states.append(copy.deepcopy(state))


@dataclass(frozen=True, slots=True)
class Trained:
    """What a role has after a training, and what it was told on the way."""

    result: TrainResult | None
    progress: list[str]

    @property
    def participant(self) -> TrainResult:
        """What a participant has."""
        assert self.result is not None
        return self.result


def train(training: Training, kept: Sequence[Kept] | None = None) -> LocalRun[Trained]:
    """Train all roles, with the states that each of them keeps."""
    looking = [Steps() for _ in range(training.participants + 1)]

    def program(party: Party, params: TrainParams, data: TrainData | None) -> Trained:
        return Trained(
            secure_train(party, params, data, None if kept is None else kept[party.role]), looking[party.role].heard
        )

    return run_locally(program, training.participants, training.private, observers=looking)


def rounds_of(run: LocalRun[Trained], training: Training) -> int:
    """Return the number of rounds that were trained."""
    return len(run.results[ACTIVE].participant.model.trees) // training.params.trees_per_round


def joined(run: LocalRun[Trained]) -> tuple[JoinedTree, ...]:
    """Return the whole trees."""
    return tuple(join([one.participant.model for one in run.results[1:]]).trees)


@pytest.mark.parametrize(("kind", "trees"), [("binary", 2), ("classes", 6), ("nothing to split", 2)])
def test_every_participant_has_its_part(kind: str, trees: int) -> None:
    """As many trees as rounds and classes; base margin at the active one only; nothing at the coordinator."""
    training = training_of(kind, 3)
    run = train(training)
    assert run.results[COORDINATOR].result is None
    for role in (1, 2, 3):
        model = run.results[role].participant.model
        assert len(model.trees) == trees
        assert (model.participant, model.participants) == (role, ("P1", "P2", "P3"))
        assert model.params == training.params
        assert [(f.name, f.categories) for f in model.features] == [
            (c.name, c.categories) for c in training.tables[role - 1].columns
        ]
        assert (model.base_margin is not None) == (role == ACTIVE)
        assert run.results[role].participant.metrics == {}
        assert len(run.results[role].participant.candidates) == training.columns[role - 1]
    assert len({run.results[role].participant.model.training for role in (1, 2, 3)}) == 1
    if kind == "nothing to split":
        assert {len(tree) for tree in run.results[1].participant.model.trees} == {1}


def test_rounds_are_told_as_they_begin() -> None:
    """To every role, the coordinator too, with the levels of each between them."""
    for trained in train(training_of("nothing to split", 2)).results:
        assert trained.progress == ["boosting round 1 of 2", "boosting round 2 of 2"]
    for trained in train(training_of("binary", 2)).results:
        assert trained.progress[:2] == ["boosting round 1 of 2", "level 1 of 2"]
        assert [text for text in trained.progress if text.startswith("boosting round")] == [
            "boosting round 1 of 2",
            "boosting round 2 of 2",
        ]


def test_later_rounds_build_on_earlier_ones() -> None:
    """More rounds have the same first trees, and then others than the first."""
    short = training_of("binary", 2)
    long = replace(short, params=replace(short.params, n_estimators=4))
    few, many = joined(train(short)), joined(train(long))
    assert many[:2] == few
    assert len(set(many)) == 4


# Stopping


def test_early_stopping_ends_all_roles() -> None:
    """After the same round, of which everyone is told; metrics and the best round are the active participant's."""
    training = training_of("early stopping", 3)
    run = train(training)
    rounds = rounds_of(run, training)
    assert 1 < rounds < training.params.n_estimators
    mine = run.results[ACTIVE].participant
    assert mine.best_iteration == mine.model.best_iteration == rounds - 2
    values = mine.metrics["validation_1"]["logloss"]
    assert len(values) == rounds
    assert int(np.argmin(values)) == rounds - 2
    for role in (2, 3):
        other = run.results[role].participant
        assert len(other.model.trees) == rounds
        assert (other.metrics, other.best_iteration, other.model.best_iteration) == ({}, None, None)
    for ledger in run.ledgers:
        told = {entry.receiver: entry.count for entry in ledger if entry.name == Entry.NUMBER_OF_TREES}
        assert told == {"participants": rounds, "coordinator": rounds}


@pytest.mark.parametrize("may_stop", [True, False])
def test_a_callback_stops_where_the_parameters_allow_it(may_stop: bool) -> None:
    """They are public: where they rule stopping out, nobody listens for it, and nothing of it is told."""
    training = training_of("binary", 2)
    training = replace(
        training,
        params=replace(training.params, n_estimators=3, may_stop_early=may_stop),
        labels=replace(training.labels, callbacks=Callbacks([lambda report: report.iteration == 0])),
    )
    run = train(training)
    assert rounds_of(run, training) == (1 if may_stop else 3)
    assert any(entry.name == Entry.NUMBER_OF_TREES for entry in run.ledgers[0]) == may_stop


# States


@pytest.mark.parametrize("kind", ["binary", "classes", "early stopping"])
def test_a_state_is_kept_after_every_round(kind: str) -> None:
    """With all trees so far; what the active participant remembers is in its own only; the last may be the end."""
    training = training_of(kind, 2)
    kept = [Kept() for _ in range(3)]
    run = train(training, kept)
    rounds = rounds_of(run, training)
    for role, one in enumerate(kept):
        assert [state.rounds for state in one.states] == list(range(1, rounds + 1))
        assert [state.finished for state in one.states] == [False] * (rounds - 1) + [kind == "early stopping"]
        assert [state.evaluation is not None for state in one.states] == [role == ACTIVE] * rounds
        if role != COORDINATOR:
            trees, each = run.results[role].participant.model.trees, training.params.trees_per_round
            assert [tuple(state.trees) for state in one.states] == [trees[: each * n] for n in range(1, rounds + 1)]
        else:
            assert not any(state.trees for state in one.states)


@pytest.mark.parametrize("kind", ["binary", "early stopping"])
def test_it_goes_on_after_the_last_round_that_all_participants_have(kind: str) -> None:
    """One is a round behind: the others go back to it, and the model is that of a training that went through."""
    training = training_of(kind, 3)
    training = replace(training, params=replace(training.params, n_estimators=max(3, training.params.n_estimators)))
    kept = [Kept() for _ in range(4)]
    whole = train(training, kept)
    for role, one in enumerate(kept):
        one.states = one.states[: 1 if role == 2 else 2]
    again = train(training, kept)
    assert joined(again) == joined(whole)
    mine, first = again.results[ACTIVE].participant, whole.results[ACTIVE].participant
    assert (mine.metrics, mine.best_iteration) == (first.metrics, first.best_iteration)
    for trained in again.results:
        texts = [text for text in trained.progress if not text.startswith("level")]
        assert texts[:2] == ["going on after boosting round 1", f"boosting round 2 of {training.params.n_estimators}"]
    for ledger in again.ledgers:
        assert {entry.count for entry in ledger if entry.name == Entry.ROUNDS_DONE} == {6}


@pytest.mark.parametrize("kind", ["binary", "early stopping"])
def test_a_finished_training_is_only_read_again(kind: str) -> None:
    """No round follows, though there would be room for more where it stopped early."""
    training = training_of(kind, 2)
    kept = [Kept() for _ in range(3)]
    whole, again = train(training, kept), train(training, kept)
    for role in (1, 2):
        assert again.results[role].participant.model.trees == whole.results[role].participant.model.trees
    for trained in again.results:
        assert trained.progress == [f"going on after boosting round {rounds_of(whole, training)}"]


def test_whether_it_was_finished_is_the_active_participants_to_say() -> None:
    """The others take its word, whatever their own states say."""
    training = training_of("binary", 2)
    kept = [Kept() for _ in range(3)]
    train(training, kept)
    for one in kept:
        one.states = one.states[:1]
    kept[2].states[0] = replace(kept[2].states[0], finished=True)
    assert rounds_of(train(training, kept), training) == 2
    for one in kept:
        one.states = one.states[:1]
    kept[ACTIVE].states[0] = replace(kept[ACTIVE].states[0], finished=True)
    assert rounds_of(train(training, kept), training) == 1


def test_a_result_is_a_value() -> None:
    """Metrics of one result are not another's."""
    candidates: Any = None
    model: Any = None
    one, other = TrainResult(model, candidates), TrainResult(model, candidates)
    one.metrics["validation_0"] = {}
    assert other.metrics == {}
