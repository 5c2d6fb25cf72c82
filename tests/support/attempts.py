"""Trainings in attempts: every role with a folder that stays, stopped where a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from contracts.transport_contract import Call
from mpfedxgb.boosting import PartialModel, TrainResult, join
from mpfedxgb.boosting.callbacks import NothingKept, Progress, State
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import StoppedError
from mpfedxgb.party import ACTIVE, Outcome, Roster
from mpfedxgb.party.local import run_role
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.training import secure_train
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.transport import MemoryHub
from mpfedxgb.transport.memory import Tap
from mpfedxgb.tree import Leaf
from patience import patience
from support.small_trainings import Training, training_of

WAIT = 60.0
Result = Outcome[TrainResult | None]
Stop = Callable[[int, int], None]
"""Called with role and round just before that role keeps the round; raises to stop it there."""


def training_for(kind: str, participants: int) -> Training:
    """Return a training of three rounds or more, of small trees; "paper ..." and "sealed ..." are of those ways."""
    training = training_of(kind.removeprefix("paper ").removeprefix("sealed "), participants)
    params = replace(
        training.params, n_estimators=max(3, training.params.n_estimators), max_depth=1 + (kind == "binary")
    )
    if kind.startswith("paper "):
        params = replace(params, security="paper", min_child_weight=0.0)
    elif kind.startswith("sealed "):
        params = replace(params, security="sealed", min_child_weight=0.0)
    return replace(training, params=params)


class Watched(NothingKept):
    """Checkpoints of one role that may stop it, and let others know how far it has come."""

    def __init__(self, checkpoints: Progress, role: int, stop: Stop | None, saved: Saved) -> None:
        self.checkpoints, self.role, self.stop, self.saved = checkpoints, role, stop, saved
        self.loaded: int | None = None

    def newest(self) -> int:
        """Return the newest rounds."""
        return self.checkpoints.newest()

    def common(self) -> int:
        """Return the last round that all are known to have."""
        return self.checkpoints.common()

    def fits(self, labels: str) -> bool:
        """Return whether what is kept is of these labels."""
        return self.checkpoints.fits(labels)

    def load(self, rounds: int) -> State:
        """Return a state."""
        self.loaded = rounds
        return self.checkpoints.load(rounds)

    def save(self, state: State) -> None:
        """Keep a state, unless this is where the role stops."""
        if self.stop is not None:
            self.stop(self.role, state.rounds)
        self.checkpoints.save(state)
        self.saved.note(self.role, state.rounds)


@dataclass
class Saved:
    """How many rounds each role has kept in this attempt."""

    rounds: dict[int, int] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def note(self, role: int, rounds: int) -> None:
        """Take down that a role has kept a round."""
        with self.changed:
            self.rounds[role] = rounds
            self.changed.notify_all()

    def wait_for(self, roles: Sequence[int], rounds: int) -> None:
        """Wait until these roles have kept a round."""
        with self.changed:
            assert self.changed.wait_for(lambda: all(self.rounds.get(r, 0) >= rounds for r in roles), patience(WAIT))


@dataclass
class Site:
    """A federation that trains in attempts: every role with a folder and a private key that stay."""

    training: Training
    folder: Path
    attempt: int = 0
    saved: Saved = field(default_factory=Saved)
    loaded: list[int | None] = field(default_factory=list)

    @property
    def roster(self) -> Roster:
        """All roles."""
        return self.training.roster

    def checkpoints(self, role: int) -> Checkpoints:
        """Return a role's checkpoints."""
        belongs = {"role": role, "parameters": self.training.params.to_dict()}
        return Checkpoints(self.folder / str(role), belongs)

    def run(
        self, stop: Stop | None = None, tap: Tap | None = None, make_source: MakeSource | None = None
    ) -> list[Result]:
        """Run all roles in a new attempt, and return how each of them ended."""
        self.attempt += 1
        self.saved = Saved()
        training, roster = self.training, self.roster
        hub = MemoryHub(roster.links(), 1 << 28, tap)
        settings = SessionSettings("resumed", self.attempt, training.params.to_json(), deadline=patience(WAIT))
        kept: list[Progress] = [
            self.checkpoints(role) if roster.owner_of(role) else NothingKept() for role in roster.roles
        ]
        progress = [Watched(one, role, stop, self.saved) for role, one in enumerate(kept)]

        def run(role: int) -> Result:
            key = bytes([role + 1]) * 32
            arguments = (*training.private[role], progress[role])
            return run_role(secure_train, arguments, hub.end(role), roster, role, settings, make_source, key)

        calls = [Call(run, role) for role in roster.roles]
        outcomes = [call.result() for call in calls]
        self.loaded = [one.loaded for one in roster.by_owner(progress)]
        return outcomes

    def finish(self, **options: Any) -> list[TrainResult]:
        """Run an attempt that nothing stops, and return what the participants have."""
        results = []
        for outcome in self.roster.by_owner(self.run(**options)):
            assert outcome.error is None, outcome.error
            assert outcome.result is not None
            results.append(outcome.result)
        return results


def comparable(results: Sequence[TrainResult]) -> list[Any]:
    """Return what must be equal: metrics, and parts to the last byte; those with shares without what is fresh in them.

    Shares are, and the name that tells which shares fit together. What they add up to must be equal.
    """
    parts = [result.model for result in results]
    judged = [[result.metrics, result.best_iteration] for result in results]
    if not parts[0].params.facts.shares_leaf_weights:
        return [judged, [part.to_json() for part in parts]]
    return [judged, [_without_shares(part) for part in parts], join(parts).trees]


def _without_shares(part: PartialModel) -> PartialModel:
    trees = tuple(
        tuple(replace(node, share=0) if isinstance(node, Leaf) else node for node in tree) for tree in part.trees
    )
    return replace(part, trees=trees, training="")


@lru_cache(maxsize=32)
def uninterrupted(kind: str, participants: int) -> tuple[list[Any], int]:
    """Return the outcome of a training that nothing stopped, and its number of rounds."""
    with TemporaryDirectory() as folder:
        site = Site(training_for(kind, participants), Path(folder))
        results = site.finish()
        return comparable(results), site.checkpoints(ACTIVE).newest()


def stop_at(role: int, rounds: int) -> Stop:
    """Stop one role before it keeps a round."""

    def stop(who: int, reached: int) -> None:
        if (who, reached) == (role, rounds):
            raise StoppedError("stopped by SIGTERM")

    return stop
