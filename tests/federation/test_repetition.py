"""What may not be repeated: rounds that all had, and a training with other labels or columns under its name."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from federation.test_role import coordinate, estimator, organisations, train
from mpfedxgb import join
from mpfedxgb.boosting.sampling import label_commitment, label_salt
from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.errors import CheckpointError, PeerFailedError, RefusedError, StoppedError
from mpfedxgb.federation import own_training
from mpfedxgb.federation.own_training import data_digest
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.observer import Observer
from mpfedxgb.training.checkpoint import ROUNDS, Checkpoints
from mpfedxgb.training.common_round import COMMON
from mpfedxgb.transport.frame import Kind
from support.switchboard import Organisations
from support.views import Recorder

MODES: dict[str, dict[str, Any]] = {
    "strict": {},
    "sealed": {"security": "sealed"},
    "paper": {"security": "paper", "min_child_weight": 0.0},
}


def run(places: Organisations, *restarts: int, **options: Any) -> list[Any]:
    """Run a training; return how each role ended: with its outcome, or with its error."""

    def start(role: int) -> Callable[[Any], Any]:
        more = options if role == 1 else {}
        return lambda settings: train(settings, restart=role in restarts, **more)

    calls = [places.start(0, coordinate), *(places.start(role, start(role)) for role in places.roles[1:])]
    ended: list[Any] = []
    for call in calls:
        try:
            ended.append(call.result())
        except (Exception, StoppedError) as error:
            ended.append(error)
    return ended


def stop_in(places: Organisations, rounds: int) -> None:
    """Let P_1 stop as a round begins: all have kept those before it."""
    assert isinstance(run(places, observer=Stopping(rounds))[1], StoppedError)


class Stopping(Observer):
    """Stops a role as a round begins."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def on_progress(self, what: str) -> None:
        """Stop, if it is that round."""
        if what.startswith(f"boosting round {self._rounds} of"):
            raise StoppedError("stopped by SIGTERM")


def with_other_labels(places: Organisations) -> None:
    """Let P_1 bring other labels from now on."""
    path = places.home(1) / "train.csv"
    frame = pd.read_csv(path)
    frame.assign(label=frame["label"].map({"yes": "no", "no": "yes"})).to_csv(path, index=False)


def with_another_cell(places: Organisations) -> None:
    """Let P_1 bring another value in one row of one column from now on."""
    path = places.home(1) / "train.csv"
    frame = pd.read_csv(path)
    frame["age"] = frame["age"] + (np.arange(len(frame)) == 0)
    frame.to_csv(path, index=False)


def rounds_of(places: Organisations, role: int) -> bytes:
    """Return what a participant has kept."""
    return (places.state(role) / "checkpoints" / ROUNDS).read_bytes()


@pytest.mark.parametrize(("security", "topology"), [("strict", "star"), ("sealed", "mesh"), ("paper", "star")])
def test_auxiliaries_keep_their_rounds_when_p1_says_it_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: str, topology: str
) -> None:
    """All roles end and are told who went back, from what to what; the training goes on as soon as P_1 tells the truth.

    With labels of its choice in each, such attempts would tell P_1 apart what no one training tells.
    """
    places = organisations(tmp_path, monkeypatch, training=MODES[security], topology=topology)
    stop_in(places, 3)
    kept = rounds_of(places, 2)
    with monkeypatch.context() as patch:
        newest = Checkpoints.newest
        patch.setattr(Checkpoints, "newest", lambda own: 0 if own.fingerprint["role"] == "bank" else newest(own))
        for ended in run(places):
            assert isinstance(ended, RefusedError)
            assert "all participants had kept boosting round 1, and now some went back: bank to 0" in str(ended)
            assert "--restart at every participant, which each organisation decides for itself" in str(ended)
            assert exit_code(ended) == ExitCode.REFUSED
    assert rounds_of(places, 2) == kept
    done = run(places)[1:]
    assert len(done[1].model.trees) == 3
    if security == "strict":
        assert join([one.model for one in done]).trees == join(estimator("binary").partial_models_).trees


def test_a_p1_that_walks_back_round_by_round_gets_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was agreed on once is the least ever after. Of two rounds that others keep, the last can be made again."""
    places = organisations(tmp_path, monkeypatch)
    stop_in(places, 3)
    assert Checkpoints(places.state(2) / "checkpoints", {}).newest() == 2
    newest = Checkpoints.newest
    for claimed, allowed in ((1, True), (0, False), (1, True)):
        with monkeypatch.context() as patch:

            def claim(own: Checkpoints, claimed: int = claimed) -> int:
                return min(claimed, newest(own)) if own.fingerprint["role"] == "bank" else newest(own)

            patch.setattr(Checkpoints, "newest", claim)
            ended = run(places, observer=Stopping(2))
        assert isinstance(ended[2], PeerFailedError if allowed else RefusedError), ended[2]
        assert Checkpoints(places.state(2) / "checkpoints", {}).newest() == 1


def test_one_restart_is_not_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each organisation decides for itself; with all of them a finished training begins again."""
    places = organisations(tmp_path, monkeypatch)
    first = run(places)
    kept = rounds_of(places, 1)
    for ended in run(places, 2):
        assert isinstance(ended, RefusedError)
        assert "had kept boosting round 3, and now some went back: telecom to 0" in str(ended)
    assert rounds_of(places, 1) == kept
    second = run(places, 1, 2)
    assert len(second[2].model.trees) == 3
    assert second[2].model.training != first[2].model.training


def test_a_last_round_that_a_disk_lost_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But not of a finished training, of which all know; and a damaged note of the common round is no permission."""
    places = organisations(tmp_path, monkeypatch)
    stop_in(places, 3)
    path = places.state(2) / "checkpoints" / ROUNDS
    path.write_bytes(path.read_bytes()[:-5])
    assert join([one.model for one in run(places)[1:]]).trees == join(estimator("binary").partial_models_).trees
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert "had kept boosting round 3, and now some went back: telecom to 2" in str(run(places)[1])
    path.write_bytes(whole)
    note = places.state(2) / "checkpoints" / COMMON
    assert json.loads(note.read_text())["rounds"] == 3
    told = note.read_text()
    for damaged in ("", "[]", told.replace('"rounds": 3', '"rounds": 0'), told[:-3]):
        note.write_text(damaged)
        ended = run(places)
        assert isinstance(ended[2], CheckpointError)
        assert "is damaged, so that nobody knows which boosting round all participants had" in str(ended[2])
    note.write_text(told)
    assert not isinstance(run(places)[2], Exception)


# Labels


@pytest.mark.parametrize("change", [with_other_labels, with_another_cell])
def test_other_data_are_not_taken_for_the_same_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Organisations], None]
) -> None:
    """Not even where no round was kept: P_1 may have seen all of the one that was under way.

    One cell of its table that changes would be enough for other coins and samples, and so for other groups of rows.
    """
    places = organisations(tmp_path, monkeypatch)
    stop_in(places, 1)
    change(places)
    for restarts in ((), (1,)):  # at P_1 alone it is another salt, so that nobody could tell
        ended = run(places, *restarts)
        assert isinstance(ended[2], RefusedError)
        assert "bank brings other labels, row weights, starts or columns, for training or evaluation, than" in str(
            ended[2]
        )
        for one in ended[:2]:
            assert isinstance(one, PeerFailedError)
            assert "bank brings other labels" in str(one)
            assert exit_code(one) == ExitCode.REFUSED
    assert len(run(places, 1, 2)[2].model.trees) == 3


def test_a_p1_that_keeps_its_rounds_with_other_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that makes its own checkpoints fit its new labels finds that the others' do not."""
    monkeypatch.setattr(own_training, "data_digest", lambda tables, numbers: "00" * 32)
    places = organisations(tmp_path, monkeypatch)
    stop_in(places, 3)
    kept = rounds_of(places, 2)
    with_other_labels(places)
    ended = run(places)
    assert isinstance(ended[2], RefusedError)
    assert "bank brings other labels" in str(ended[2])
    assert rounds_of(places, 2) == kept


def test_other_parameters_are_everybodys_own_decision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While no round is kept, all may change them together and need no restart; P_1 may then bring other labels."""
    places = organisations(tmp_path, monkeypatch)
    stop_in(places, 1)
    with_other_labels(places)
    for role in places.roles:
        places.edit(role, "max_depth = 2", "max_depth = 1")
    assert len(run(places)[2].model.trees) == 3


def test_a_commitment_hides_labels_and_can_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """32 bytes to each role, the same in every attempt, on all records; neither salt nor key ever leaves P_1."""
    places = organisations(tmp_path, monkeypatch)
    recorder = Recorder()
    places.board.tap = recorder
    stop_in(places, 2)
    done = run(places)
    told = [
        frame
        for receiver in (0, 2)
        for frame in recorder.links[1, receiver]
        if Entry.LABEL_COMMITMENT in frame.label and frame.kind in (Kind.DATA, Kind.ANNOUNCE)
    ]
    assert [sum(a.nbytes for a in frame.arrays) for frame in told] == [32] * 4
    (commitment,) = {frame.arrays[0].tobytes() for frame in told}
    for role in places.roles:
        attempts = read_record(places.settings(role)).attempts
        assert {attempt.content["labels"] for attempt in attempts} == {commitment.hex()}

    key = bytes.fromhex((places.state(1) / "private.key").read_text())
    salt = label_salt(key)
    rows = read_rows(places.settings(1), "train")
    assert rows.label is not None
    y = (np.asarray(rows.label) == "yes").astype(np.float64)
    data = data_digest([rows.table], [y, None, None])
    state = hmac.new(salt, b"mpfedxgb labels 2" + bytes.fromhex(data), hashlib.sha256)
    state.update(b"(60,);" + y.astype("<f8").tobytes() + b"none;" + b"none;")
    assert state.digest() == commitment, "as an auditor would compute it"
    assert commitment == label_commitment(salt, [y, None, None], data)
    sent = b"".join(a.tobytes() for frames in recorder.links.values() for f in frames for a in f.arrays)
    for secret in (salt, key):
        assert secret not in sent
        assert secret.hex().encode() not in sent
    assert len({one.model.training for one in done[1:]}) == 1


def test_commitments_differ_in_salt_and_in_every_number() -> None:
    """The same labels under another salt or with another table, other labels, weights instead of none, other cuts."""
    y, data = np.array([0.0, 1.0, 1.0]), "00" * 32
    every: list[tuple[bytes, list[Any], str]] = [
        (b"a" * 32, [y, None], data),
        (b"a" * 32, [y, None], "00" * 31 + "01"),
        (b"b" * 32, [y, None], data),
        (b"a" * 32, [1 - y, None], data),
        (b"a" * 32, [y, y], data),
        (b"a" * 32, [y], data),
        (b"a" * 32, [y[:2], y[2:]], data),
        (b"a" * 32, [y[None], None], data),
    ]
    assert len({label_commitment(*one) for one in every}) == len(every)
