"""Small sealed trainings of every kind, recorded whole; what their ledger must be; and what nobody knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import TrainData, TrainResult
from mpfedxgb.boosting.callbacks import Callbacks, NothingKept, Progress, RoundReport, State
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.party import Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring import RingArray
from mpfedxgb.ring.prg import digest
from mpfedxgb.training import secure_train
from mpfedxgb.transport.memory import Tap
from mpfedxgb.tree import Leaf, Tree
from support.small_trainings import (
    ROWS,
    Run,
    Training,
    levels,
    models,
    owner_of,
    paths,
    rounds_of,
    training_of,
    two_halves,
)
from support.views import Recorder

Ints = npt.NDArray[np.int64]

RESUMED = "resumed"
WEIGHTS = np.linspace(0, 3, ROWS)
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "binary": ("binary", {}),
    "squared error": ("squared error", {}),
    "weights": ("weights", {}),
    "squared error, weights": ("squared error", {"weighted": True}),
    "no checks": ("no checks", {}),
    "L1 penalty": ("L1 penalty", {"max_delta_step": 0.3}),
    "clipped weights": ("clipped weights", {}),
    "directions": ("directions", {}),
    "directions, squared error": ("directions, squared error", {"reg_alpha": 0.1}),
    "column samples": ("column samples", {}),
    "row samples": ("row samples", {}),
    "row samples, squared error": ("squared error", {"subsample": 0.6}),
    "row samples, weights": ("weights", {"subsample": 0.6}),
    "evaluation rows": ("evaluation rows", {}),
    "early stopping": ("early stopping", {}),
    "first layer masked": ("first layer masked", {}),
    "nothing to split": ("nothing to split", {}),
    "nothing to gain": ("nothing to gain", {}),
    RESUMED: ("evaluation rows", {"n_estimators": 3}),
    "counts": ("counts", {"max_delta_step": 0.7}),
    "gamma": ("gamma", {"weighted": True}),
    "amounts": ("counts", {"objective": "reg:tweedie", "subsample": 0.6}),
    "shares": ("binary", {"objective": "reg:logistic"}),
    "classes": ("classes", {"min_child_weight": 0.0}),
    "classes, weights": ("classes", {"weighted": True, "reg_alpha": 0.1, "max_delta_step": 0.5}),
    "classes, row samples": ("classes", {"objective": "multi:softmax", "subsample": 0.6, "colsample_bynode": 0.5}),
    "classes, directions": ("directions", {"objective": "multi:softprob", "num_class": 3}),
    "classes, early stopping": ("early stopping", {"objective": "multi:softprob", "num_class": 3}),
}
"""Every objective and option of a sealed training: the strict training that it is like, and what else it has."""


@dataclass(slots=True)
class Memory(NothingKept):
    """States of one role, as a folder of checkpoints has them; an attempt goes on after `until` rounds."""

    states: dict[int, State] = field(default_factory=dict)
    until: int = 0

    def newest(self) -> int:
        """Return where to go on."""
        return self.until

    def common(self) -> int:
        """Return the last round that all are known to have."""
        return self.states[self.until].common if self.until else 0

    def fits(self, labels: str) -> bool:
        """Return that there are no other labels."""
        return True

    def load(self, rounds: int) -> State:
        """Return a state, and forget later ones."""
        self.states = {t: state for t, state in self.states.items() if t <= rounds}
        return self.states.get(rounds, State(0))

    def save(self, state: State) -> None:
        """Keep a state."""
        self.states[state.rounds] = replace(state, trees=tuple(state.trees))


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A sealed training with all that was sent, kept and grown: the trees of all rounds, also those not kept.

    `first` is the round that the attempt began with. The states of the coordinator come first, and are empty.
    """

    training: Training
    run: Run
    recorder: Recorder
    memories: Sequence[Memory]
    grown: Sequence[Tree]
    first: int = 0

    @property
    def margins(self) -> dict[int, Ints]:
        """What nobody has: the margins of all rows after each round, from everybody's shares."""
        kept = [memory.states for memory in self.memories[1:]]
        sums = {t: np.sum([_shares(states[t]) for states in kept], axis=0) for t in kept[0]}
        return {t: of_all if self.training.params.outputs > 1 else of_all.ravel() for t, of_all in sums.items()}

    @property
    def rounds(self) -> list[list[Tree]]:
        """The trees that the attempt grew, round by round."""
        size = self.training.params.trees_per_round
        trees = self.grown[self.first * size :]
        return [list(trees[i : i + size]) for i in range(0, len(trees), size)]

    @property
    def weights(self) -> Ints:
        """What nobody has: the weights of all kept leaves, from everybody's shares."""
        return np.asarray(np.sum([leaf_shares(model.trees) for model in models(self.run)], axis=0), np.int64)


def leaf_shares(trees: Sequence[Tree]) -> Ints:
    """Return a participant's shares of leaf weights."""
    return np.array([leaf.share for tree in trees for leaf in tree if isinstance(leaf, Leaf)], np.int64)


def _shares(state: State) -> Ints:
    assert state.evaluation is not None
    return state.evaluation.margins


def sealed(training: Training, **params: Any) -> Training:
    """Return the same training, sealed."""
    return replace(training, params=replace(training.params, security="sealed", **params))


def sealed_of(kind: str, participants: int) -> Training:
    """Return a sealed training of one kind."""
    like, params = KINDS[kind]
    training = sealed(training_of(like, participants), **params)
    if training.params.weighted:
        training = replace(training, labels=replace(training.labels, weight=WEIGHTS))
    return training


def run_sealed(
    training: Training,
    settings: SessionSettings,
    tap: Tap | None = None,
    streams: MakeSource | None = None,
    memories: Sequence[Memory] | None = None,
    shown: list[tuple[int, npt.NDArray[np.generic]]] | None = None,
) -> tuple[Run, list[Memory], list[Tree]]:
    """Train, every role as a thread; return what all roles kept, and all trees that grew, in P_1's view.

    What is revealed to a role, by whatever name, is added to `shown`.
    """
    roster = training.roster
    kept = [Memory() for _ in roster.roles] if memories is None else list(memories)
    grown: list[Tree] = []

    def hear(report: RoundReport) -> None:
        assert report.model is not None
        grown[:] = report.model.trees

    heard = replace(training, labels=replace(training.labels, callbacks=Callbacks([hear])))

    def program(party: Party, params: TrainParams, data: TrainData | None, memory: Progress) -> TrainResult | None:
        return secure_train(party, params, data, memory)

    private = [(*own, memory) for own, memory in zip(heard.private, kept, strict=True)]
    settings = replace(settings, parameters=training.params.to_json())
    looking = [_Shown(role, shown) for role in roster.roles]
    return run_locally(program, roster, private, settings, tap, streams, observers=looking), kept, grown


class _Shown(Observer):
    """Adds what is revealed to a role to a list, if there is one."""

    def __init__(self, role: int, shown: list[tuple[int, npt.NDArray[np.generic]]] | None) -> None:
        self._role, self._shown = role, shown

    def on_reveal(self, name: str, value: Any) -> None:
        """Add it."""
        if self._shown is not None and isinstance(value, RingArray):
            self._shown.append((self._role, np.asarray(value.data)))


@lru_cache(maxsize=64)
def recorded(kind: str, participants: int) -> Recorded:
    """Run a sealed training of one kind, with fixed seeds of its own, and record all frames; once for all tests.

    A resumed one goes on after the first round of an attempt that came to its end; what is recorded is the second.
    """
    training, recorder, seed = sealed_of(kind, participants), Recorder(), 7 + list(KINDS).index(kind)
    if kind != RESUMED:
        run, memories, grown = run_sealed(training, SessionSettings(insecure_seed=seed), recorder)
        return Recorded(training, run, recorder, memories, grown)
    _, memories, _ = run_sealed(training, SessionSettings(insecure_seed=seed))
    for memory in memories:
        memory.until = 1
    again = SessionSettings(insecure_seed=seed, attempt=2)
    run, memories, grown = run_sealed(training, again, recorder, memories=memories)
    return Recorded(training, run, recorder, memories, grown, first=1)


def sealed_ledger(record: Recorded) -> dict[tuple[str, str], int]:
    """Return the sealed column of the table of reveals, in numbers, from what the trees look like."""
    training, rounds = record.training, record.rounds
    M, params, trees = training.participants, training.params, [tree for trees in rounds for tree in trees]
    judged = sum(len(level) for of_round in rounds for level in levels(of_round, training.depth))
    told = {
        Entry.TABLE_SIZES: 3 * M,
        Entry.TREE_SHAPE: judged,
        Entry.ROUNDS_DONE: 3 * M if record.first else 2 * M,
    }
    told[Entry.NUMBER_OF_TREES] = 1 + (len(rounds) + 1 if params.may_stop_early else 0)  # 1 at first
    ledger = {(name, who): count for name, count in told.items() for who in ("coordinator", "participants")}
    ledger[Entry.EVALUATION_MARGINS, "P1"] = len(trees) * training.eval_rows
    for m in range(1, M + 1):
        ledger[Entry.OWN_SPLIT, f"P{m}"] = sum(owner_of(tree, i) == m for tree in trees for i in range(len(tree)))
        ledger[Entry.OWN_PATH, f"P{m}"] = sum(set(path) == {m} for tree in trees for path in paths(tree))
    return {key: count for key, count in ledger.items() if count}


def announcements(record: Recorded) -> list[tuple[str, list[Any]]]:
    """Return what the coordinator must have been told, in order."""
    training, rounds = record.training, record.rounds
    sizes = [[training.tables[0].rows, training.eval_rows, count] for count in training.columns]
    told: list[tuple[str, list[Any]]] = [(Entry.TABLE_SIZES, sizes)]
    told += [(Entry.ROUNDS_DONE, [[record.first, 0]] * training.participants), (Entry.NUMBER_OF_TREES, [0])]
    if record.first:  # and of which attempt the shares are
        mark = digest(record.memories[1].states[record.first].mark.encode())
        told.append((Entry.ROUNDS_DONE, [[int.from_bytes(mark[:8], "little", signed=True)]] * training.participants))
    for t, trees in enumerate(rounds):
        judged = levels(trees, training.depth)
        told += [(Entry.TREE_SHAPE, [owner_of(trees[k], node) for k, node in level]) for level in judged]
        if training.params.may_stop_early:
            stopped = t == len(rounds) - 1 and record.first + len(rounds) < training.params.n_estimators
            told.append((Entry.NUMBER_OF_TREES, [int(not stopped)]))
    if training.params.may_stop_early:
        told.append((Entry.NUMBER_OF_TREES, [len(rounds_of(training, record.run))]))
    return told


def other_rows(participants: int, world: int, security: str = "sealed") -> Training:
    """Return a training of two trees whose splits are all P_2's: in two worlds, other rows in every leaf.

    In the second world P_2's rows of one label have changed places. So labels, trees and leaf weights are the same, and
    P_1 has no way to know the difference but by the rows of leaves.
    """
    training = two_halves("01 and", 2, participants)
    y, places = training.labels.y, np.arange(len(training.labels.y))
    if world:
        zeros = np.flatnonzero(y == 0)
        places[zeros] = np.roll(zeros, 5)
    tables = list(training.tables)
    values = np.stack([column.values for column in tables[1].columns], axis=1)
    tables[1] = type(tables[1]).read(values[places], "P2")
    return replace(training, tables=tables, params=replace(training.params, security=security, n_estimators=2))
