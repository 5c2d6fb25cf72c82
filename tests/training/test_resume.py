"""A training that was stopped anywhere and goes on ends in the model of one that never stopped, bit for bit."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import Call
from mpfedxgb.boosting import TrainData, TrainResult, join
from mpfedxgb.boosting.callbacks import Callbacks, NothingKept
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import CheckpointError, FederationError, PeerFailedError, RefusedError, StoppedError
from mpfedxgb.party import ACTIVE, Party, Roster
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.local import run_role
from mpfedxgb.ring import kernels
from mpfedxgb.ring.prg import Source, Stream
from mpfedxgb.training import secure_train
from mpfedxgb.training.checkpoint import ROUNDS
from mpfedxgb.transport import Frame, Kind, MemoryHub, decode
from mpfedxgb.transport.memory import Tap
from patience import patience
from support.attempts import (
    WAIT,
    Result,
    Site,
    comparable,
    stop_at,
    training_for,
    uninterrupted,
)


@pytest.fixture(autouse=True, scope="module")
def _warm() -> None:
    kernels.warm_up()


KINDS = (
    "binary",
    "classes",
    "squared error",
    "counts",
    "row samples",
    "column samples",
    "parallel trees",
    "evaluation rows",
    "early stopping",
    "own starts",
    "dart",
    "clipped weights",
    "directions",
    "paper binary",
    "paper squared error",
    "paper early stopping",
    "sealed binary",
    "sealed squared error",
    "sealed weights",
    "sealed row samples",
    "sealed own starts",
    "sealed early stopping",
    "sealed clipped weights",
    "sealed directions",
    "sealed gamma",
    "sealed classes",
)


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_after_every_round_by_every_role_in_turn(tmp_path: Path, kind: str) -> None:
    """In each round another role stops, before it keeps the round but after the others have: they go back by one."""
    expected, rounds = uninterrupted(kind, 2)
    site = Site(training_for(kind, 2), tmp_path)
    for number in range(1, rounds + 1):
        role = number % 3
        others = [r for r in range(3) if r != role]

        def stop(who: int, reached: int, role: int = role, others: list[int] = others, number: int = number) -> None:
            if (who, reached) == (role, number):
                site.saved.wait_for(others, number)
                raise StoppedError("stopped by SIGTERM")

        outcomes = site.run(stop)
        assert isinstance(outcomes[role].error, StoppedError)
        if number < rounds:  # after the last round nobody needs the one that stopped
            assert all(isinstance(outcomes[other].error, PeerFailedError) for other in others), outcomes
        assert site.loaded == [0 if number == 1 else number - 2 if (number - 1) % 3 else number - 1] * 2
        assert [site.checkpoints(r).newest() for r in (1, 2)] == [number - (r == role) for r in (1, 2)]
    assert comparable(site.finish()) == expected
    assert comparable(site.finish()) == expected, "a finished training is only read again"
    assert site.loaded == [rounds] * 2


@pytest.mark.parametrize(("kind", "participants", "number"), [("binary", 2, 1), ("binary", 4, 2), ("binary", 2, 3)])
def test_stopped_by_any_role(tmp_path: Path, kind: str, participants: int, number: int) -> None:
    """Once, before it keeps some round; all go on from the last round that all participants have."""
    expected, _ = uninterrupted(kind, participants)
    for role in range(participants + 1):
        site = Site(training_for(kind, participants), tmp_path / str(role))
        assert isinstance(site.run(stop_at(role, number))[role].error, StoppedError)
        least = min(site.checkpoints(r).newest() for r in range(1, participants + 1))
        assert least in (number - 1, number)
        assert comparable(site.finish()) == expected, role
        assert site.loaded == [least] * participants


def test_auxiliaries_that_run_ahead_where_nothing_splits(tmp_path: Path) -> None:
    """A strict tree without candidates is a leaf, which P_1 alone learns: P2 is two rounds ahead of P3, and comes back.

    The last round that all are known to have is never one that somebody lacks.
    """
    training = training_for("binary", 3)
    flat = [
        replace(t, columns=tuple(replace(c, values=np.zeros_like(c.values), categories=None) for c in t.columns))
        for t in training.tables
    ]
    site = Site(replace(training, tables=flat), tmp_path)

    def stop(who: int, reached: int) -> None:
        if (who, reached) == (3, 1):
            site.saved.wait_for([2], 2)
            raise StoppedError("stopped by SIGTERM")

    site.run(stop)
    assert [site.checkpoints(r).newest() for r in (2, 3)] == [2, 0]
    assert [site.checkpoints(r).common() for r in (1, 2, 3)] == [0, 0, 0]
    assert [len(result.model.trees) for result in site.finish()] == [3, 3, 3]
    assert site.loaded == [0, 0, 0]
    assert [site.checkpoints(r).common() for r in (1, 2, 3)] == [2, 1, 1]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "kind", ["binary", "row samples", "early stopping", "paper binary", "sealed binary", "sealed early stopping"]
)
def test_stopped_anywhere_again_and_again(tmp_path: Path, kind: str, seed: int) -> None:
    """In the middle of trees, of the handshake or of the set-up, at any role, in attempt after attempt."""
    rng = np.random.default_rng([seed, *kind.encode()])
    expected, _ = uninterrupted(kind, 3)
    site = Site(training_for(kind, 3), tmp_path)
    for _ in range(3):
        role, place = int(rng.integers(4)), int(rng.integers(1, 360 if kind.startswith("sealed") else 120))
        site.run(tap=stumble(role, place))
    assert comparable(site.finish()) == expected, f"seed {seed}"


def stumble(role: int, place: int) -> Tap:
    """Let a role fail as it sends the frame at a place; it is not even able to say so."""
    sent = 0

    def tap(sender: int, receiver: int, block: bytes) -> None:
        nonlocal sent
        if sender == role:
            sent += 1
            if sent >= place:
                raise FederationError("cut off in the middle")

    return tap


@pytest.mark.parametrize("kind", ["paper binary", "sealed binary"])
def test_shares_of_different_attempts_never_meet(tmp_path: Path, kind: str) -> None:
    """Where leaf weights and margins are kept as shares, a round that is made again has others.

    P1 is ahead by a round that is made again; in that attempt P2 gets ahead by the same round. What P1 had of the first
    attempt must not pass for what P2 has of the second.
    """
    expected, _ = uninterrupted(kind, 2)
    site = Site(training_for(kind, 2), tmp_path)
    for role, ahead in ((2, 1), (1, 2)):

        def stop(who: int, reached: int, role: int = role, ahead: int = ahead) -> None:
            if (who, reached) == (role, 2):
                site.saved.wait_for([ahead], 2)
                raise StoppedError("stopped by SIGTERM")

        site.run(stop)
        assert site.checkpoints(ahead).newest() == 2
        assert site.checkpoints(role).newest() == 1
    assert comparable(site.finish()) == expected


def test_going_on_is_on_the_ledger(tmp_path: Path) -> None:
    """How many rounds each participant has is told to all; so is whether training has ended."""
    site = Site(training_for("binary", 2), tmp_path)
    site.run(stop_at(2, 2))
    for outcome in site.run():
        told = {(entry.name, entry.receiver): entry.count for entry in outcome.ledger}
        for receiver in ("coordinator", "participants"):
            assert told[Entry.ROUNDS_DONE, receiver] == 4, "of two participants: what each has, and what all had"
            assert told[Entry.NUMBER_OF_TREES, receiver] == 1


# What stays, and what must not


def test_checkpoints_that_got_lost(tmp_path: Path) -> None:
    """A participant that lost its checkpoints, but not its key, is not followed; all begin again if all decide to."""
    expected, rounds = uninterrupted("binary", 2)
    site = Site(training_for("binary", 2), tmp_path)
    site.finish()
    assert comparable(site.finish()) == expected
    assert site.loaded == [rounds] * 2
    site.checkpoints(2).clear()
    for outcome in site.run():
        assert isinstance(outcome.error, RefusedError)
        assert f"all participants had kept boosting round {rounds}, and now some went back: P2 to 0" in str(
            outcome.error
        )
    assert site.loaded == [None, None]
    site.checkpoints(1).clear()
    assert comparable(site.finish()) == expected
    assert site.loaded == [0, 0]


@pytest.mark.parametrize("kind", ["binary", "sealed binary"])
@pytest.mark.parametrize("role", [1, 2])
def test_a_damaged_checkpoint(tmp_path: Path, role: int, kind: str) -> None:
    """Its role falls back to the one before, and all others with it; not to one before which all are known to have."""
    expected, rounds = uninterrupted(kind, 2)
    site = Site(training_for(kind, 2), tmp_path)
    site.finish()
    path = site.checkpoints(role).folder / ROUNDS
    lose_a_round(path)
    assert comparable(site.finish()) == expected
    assert site.loaded == [rounds - 1] * 2
    lose_a_round(path)
    lose_a_round(path)
    kept = {r: site.checkpoints(r).newest() for r in (1, 2)}
    for outcome in site.run():
        assert isinstance(outcome.error, RefusedError)
        assert f"had kept boosting round {rounds - 1}, and now some went back: P{role} to {rounds - 2}" in str(
            outcome.error
        )
    assert {r: site.checkpoints(r).newest() for r in (1, 2)} == kept, "nobody cuts anything off"


def lose_a_round(path: Path) -> None:
    """Take the last line off, as a disk that fails may."""
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


def test_another_training_in_the_same_folder(tmp_path: Path) -> None:
    """Every participant refuses by itself, and the others are told by whoever does so first; nothing is lost."""
    expected, rounds = uninterrupted("binary", 2)
    site = Site(training_for("binary", 2), tmp_path)
    site.finish()
    other = Site(replace(site.training, params=replace(site.training.params, max_depth=1)), tmp_path, attempt=1)
    outcomes = other.run()
    assert any(isinstance(outcome.error, CheckpointError) for outcome in outcomes)
    for outcome in outcomes:
        if isinstance(outcome.error, CheckpointError):
            assert "parameters changed since" in str(outcome.error)
        else:
            assert isinstance(outcome.error, PeerFailedError)
            assert outcome.error.kind == "CheckpointError"
            assert str(tmp_path) not in str(outcome.error), "where checkpoints are is nobody else's business"
    assert comparable(site.finish()) == expected
    assert site.loaded == [rounds] * 2


def test_callers_see_the_rounds_that_are_done_again(tmp_path: Path) -> None:
    """Metrics of earlier rounds come from the checkpoint: every report holds all of them."""
    seen: list[tuple[int, int]] = []
    training = training_for("evaluation rows", 2)

    def note(report: Any) -> None:
        seen.append((report.iteration, len(report.metrics["validation_0"]["logloss"])))

    site = Site(replace(training, labels=replace(training.labels, callbacks=Callbacks([note]))), tmp_path)
    site.run(stop_at(2, 3))
    site.finish()
    assert seen == [(0, 1), (1, 2), (2, 3), (2, 3)]


# Masks


class Keys:
    """Every stream key that a run asks for."""

    def __init__(self) -> None:
        self.seen: set[bytes] = set()

    def make_source(self, participant: int, label: str, key: bytes) -> Source:
        """Write the key down and return its stream."""
        self.seen.add(key)
        return Stream(key)


PUBLIC = ("tell ", "broadcast ", "announce ")


def hidden(frames: Sequence[Frame]) -> set[bytes]:
    """Return what data frames held of at least 16 bytes, but for numbers that are told openly."""
    out = set()
    for frame in frames:
        if frame.kind is Kind.DATA and not frame.label.split("/")[-1].startswith(PUBLIC):
            out |= {array.tobytes() for array in frame.arrays if array.nbytes >= 16}
    return out


@pytest.mark.parametrize("kind", ["binary", "column samples", "paper binary", "sealed binary"])
def test_attempts_share_no_mask(tmp_path: Path, kind: str) -> None:
    """Though data, coins and trees are the same: no key serves in two attempts, and no masked bytes come twice.

    Nor are they in a checkpoint.
    """
    site = Site(training_for(kind, 3), tmp_path)
    attempts: list[tuple[set[bytes], set[bytes]]] = []
    for stop in (stop_at(1, 2), stop_at(2, 2), None):
        keys, blocks = Keys(), list[bytes]()
        site.run(stop, lambda s, r, block, blocks=blocks: blocks.append(block), keys.make_source)  # type: ignore[misc]
        attempts.append((keys.seen, hidden([decode(block, len(block)) for block in blocks])))
    for i, (keys_i, bytes_i) in enumerate(attempts):
        assert len(keys_i) > 20
        assert len(bytes_i) > 10
        for keys_j, bytes_j in attempts[:i]:
            assert not keys_i & keys_j
            assert not bytes_i & bytes_j
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*.checkpoint"))
    assert len(written) > 1000
    for keys_i, bytes_i in attempts:
        assert not [key for key in keys_i if key in written or key.hex().encode() in written]
        assert not [content for content in bytes_i if content in written]


def test_other_private_keys_are_another_training(tmp_path: Path) -> None:
    """The joined model is the same; coins, and the name of the training, are not."""
    site = Site(training_for("binary", 2), tmp_path)
    first = [result.model for result in site.finish()]
    for role in (1, 2):
        site.checkpoints(role).clear()
    training = site.training
    hub = MemoryHub(site.roster.links(), 1 << 28)

    def run(role: int) -> Result:
        labels = training.labels if role == ACTIVE else None
        data = TrainData(training.tables[role - 1], (), labels) if role else None
        arguments = (training.params, data, site.checkpoints(role) if role else NothingKept())
        settings = SessionSettings("resumed", 9, training.params.to_json(), deadline=patience(WAIT))
        return run_role(secure_train, arguments, hub.end(role), site.roster, role, settings, private_key=b"x" * 32)

    outcomes = [call.result() for call in [Call(run, role) for role in site.roster.roles]]
    second = [outcome.result.model for outcome in outcomes[1:]]
    assert {part.training for part in first}.isdisjoint(part.training for part in second)
    assert join(first).trees == join(second).trees
    assert [part.trees for part in first] != [part.trees for part in second]


def test_without_progress_nothing_is_told(tmp_path: Path) -> None:
    """A training that keeps no states tells nobody how many it has."""
    training = training_for("binary", 2)
    run = training.run()
    assert Entry.ROUNDS_DONE not in {entry.name for ledger in run.ledgers for entry in ledger}


def test_stopping_is_quick(tmp_path: Path) -> None:
    """All roles end at once when one stops, however long they would wait."""
    site = Site(training_for("binary", 3), tmp_path)
    began, limit = time.monotonic(), patience(WAIT)
    outcomes = site.run(stop_at(2, 1))
    assert time.monotonic() - began < limit / 2
    for role in (0, 1, 3):
        error = outcomes[role].error
        assert isinstance(error, PeerFailedError)
        assert (error.origin, error.kind) == ("P2", "StoppedError")
        assert error.reason.startswith("stopped by SIGTERM at step")


def test_progress_is_all_or_none() -> None:
    """The roles notice if one of them keeps states and another does not."""
    training = training_for("binary", 2)
    roster = Roster.numbered(2)
    hub = MemoryHub(roster.links(), 1 << 28)

    def run(role: int) -> Result:
        def program(party: Party) -> TrainResult | None:
            data = TrainData(training.tables[role - 1], (), training.labels if role == 1 else None) if role else None
            return secure_train(party, training.params, data, NothingKept() if role == 2 else None)

        return run_role(program, (), hub.end(role), roster, role, SessionSettings(deadline=patience(WAIT)))

    outcomes = [call.result() for call in [Call(run, role) for role in roster.roles]]
    assert all(outcome.error is not None for outcome in outcomes)
