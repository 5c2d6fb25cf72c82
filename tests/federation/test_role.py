"""What a role does in its own organisation, from its settings file to its model and its predictions."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from contracts.transport_contract import Call
from mpfedxgb import Federation, FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import (
    CheckpointError,
    DataError,
    FederationError,
    FrameError,
    HandshakeError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    SettingsError,
    StoppedError,
    UserError,
)
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.record import record_path
from mpfedxgb.federation.role import Trained
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.session import SessionFolder, is_lost_peer, stopping_on_signals
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import Keyring
from mpfedxgb.ring.prg import Stream
from patience import patience
from support.refusals import refused
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels, people

WAIT = 20.0
PEOPLE = people(80)
PERSONS = np.array([f"c-{i:04}" for i in range(3000, 3080)])
TRAIN, SCORE = slice(0, 60), slice(60, 80)
COLUMNS = {"bank": BANK, "telecom": TELECOM}


def tables(kind: str, rows: slice = TRAIN, with_label: bool = True) -> dict[str, pd.DataFrame]:
    """Return the participants' files, each in an order of its own."""
    found = {}
    for seed, (name, columns) in enumerate(COLUMNS.items()):
        frame = PEOPLE[columns].assign(person=PERSONS)
        if name == "bank" and with_label:
            frame = frame.assign(label=labels(PEOPLE, kind))
        found[name] = frame.iloc[rows].sample(frac=1, random_state=seed)
    return found


def organisations(tmp_path: Path, patch: pytest.MonkeyPatch, kind: str = "binary", **options: Any) -> Organisations:
    """Return a federation of two with files to train on and to score."""
    objectives: dict[str, dict[str, Any]] = {
        "binary": {"num_class": 2},
        "regression": {"objective": "reg:squarederror"},
        "classes": {"objective": "multi:softprob", "num_class": 3},
    }
    training = {**QUICK, **objectives[kind], **options.pop("training", {})}
    scores = tables(kind, SCORE, with_label=False)
    return Organisations(tmp_path, tables(kind), patch, training, to_score=scores, **options)


def train(settings: RoleSettings, **options: Any) -> Trained:
    """Take part in a training with the files of the settings, as the command does."""
    evaluation = read_rows(settings, "evaluate") if settings.data and settings.data.evaluate else None
    return roles.train(settings, read_rows(settings, "train"), evaluation, **options)


def coordinate(settings: RoleSettings) -> None:
    """Deal for one session."""
    roles.coordinate(settings, once=True)


def train_all(places: Organisations, **options: Any) -> list[Trained]:
    """Run a training with everybody."""
    calls = [places.start(0, coordinate)]
    calls += [places.start(role, lambda settings: train(settings, **options)) for role in places.roles[1:]]
    return [call.result() for call in calls][1:]


def estimator(kind: str, **changes: Any) -> Any:
    """Train in one process on the same rows."""
    make = FedXGBRegressor if kind == "regression" else FedXGBClassifier
    rows = {name: frame.sort_values("person") for name, frame in tables(kind).items()}
    features = {name: frame[COLUMNS[name]] for name, frame in rows.items()}
    return make(**{**QUICK, **changes}).fit(features, rows["bank"]["label"])


# Training


@pytest.mark.parametrize("kind", ["binary", "classes", "regression"])
def test_training_and_scoring_from_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """Everybody gets its part of the model of one process; the predictions come in the order of the file."""
    places = organisations(tmp_path, monkeypatch, kind)
    done = train_all(places)
    plain = estimator(kind)
    assert join([one.model for one in done]).trees == join(plain.partial_models_).trees
    assert len({one.model.training for one in done}) == 1
    for role, one in enumerate(done, start=1):
        assert PartialModel.load(roles.model_path(places.settings(role))).to_json() == one.model.to_json()
        assert one.seconds > 0
        assert one.meter.total().rounds > 0
    record = places.trial.record()
    assert (record["role"], record["kind"], record["how"]) == ("bank", "training", "done")
    assert record["rounds"] == done[0].meter.total().rounds
    assert {entry["name"] for entry in record["ledger"]} == {entry.name for entry in done[0].ledger}

    places.edit(1, 'predict = "score.csv"', 'predict = "score.csv"\npredictions = "out.csv"')
    calls = [
        places.start(0, coordinate),
        places.start(1, lambda settings: roles.score_file(settings, roles.load_model(settings))),
        places.start(2, serve_once),
    ]
    table = [call.result() for call in calls][1]
    written = pd.read_csv(places.home(1) / "out.csv")
    file = tables(kind, SCORE, with_label=False)
    assert table["person"].tolist() == file["bank"]["person"].tolist() == written["person"].tolist()
    aligned = {name: frame.set_index("person").loc[table["person"], COLUMNS[name]] for name, frame in file.items()}
    if kind == "regression":
        np.testing.assert_allclose(table["prediction"], plain.predict(aligned), rtol=0, atol=1e-6)
        assert list(table) == ["person", "prediction"]
    else:
        assert table["prediction"].tolist() == plain.predict(aligned).tolist()
        names = [f"class_{name}" for name in plain.classes_]
        assert list(table) == ["person", "prediction", *names]
        np.testing.assert_allclose(table[names].to_numpy(), plain.predict_proba(aligned), rtol=0, atol=1e-7)
        np.testing.assert_allclose(written[names].to_numpy(), table[names].to_numpy())


def serve_once(settings: RoleSettings) -> None:
    """Answer one scoring session with the file of the settings."""
    roles.serve_rows(settings, once=True)


def test_a_model_made_in_the_open_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever made it had all tables, so a federation refuses the file, and says what to do."""
    places = organisations(tmp_path, monkeypatch)
    frames = tables("binary")
    y = frames["bank"].pop("label")
    made = FedXGBClassifier(n_estimators=1, security="none", id="person").fit(frames, y)
    settings = places.settings(1)
    made.partial_models_[0].save(roles.model_path(settings))
    with refused(SettingsError, "mode", "security"):
        roles.load_model(settings)


def test_evaluation_early_stopping_and_callbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The active participant hears of every round, keeps the best, and tells how many there are."""
    training = {"n_estimators": 12, "learning_rate": 1.0, "may_stop_early": True}
    places = organisations(tmp_path, monkeypatch, training=training)
    for role, frame in enumerate(tables("binary", slice(60, 80)).values(), start=1):
        frame.to_csv(places.home(role) / "evaluate.csv", index=False)
        places.edit(role, "[data]", '[data]\nevaluate = "evaluate.csv"')
    places.edit(1, "[label]", '[label]\nearly_stopping_rounds = 2\neval_metric = ["auc", "logloss"]')
    heard: list[RoundReport] = []

    class Heard:
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            heard.append(RoundReport(epoch, 12, evals_log, 0, 0, model))
            return False

    done = train_all(places, callback=Heard())
    assert heard[-1].model is not None
    assert len(heard[-1].model.trees) == len(heard)
    metrics = done[0].metrics["validation_0"]
    assert done[0].model.best_iteration == int(np.argmin(metrics["logloss"]))
    assert len(heard) == len(metrics["auc"]) == len(done[1].model.trees) < 12
    assert done[1].metrics == {}
    assert "logloss" not in repr(done[0])


def test_files_are_for_their_owner_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of a session, everything in it and the model cannot be read by others; the coordinator has none."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    assert not places.state(0).exists()
    for role in (1, 2):
        folder = places.state(role)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        kept = {path.name: path for path in folder.rglob("*") if path.is_file()}
        assert {"private.key", "attempt"} <= set(kept)
        model = places.settings(role).role.model
        assert model is not None
        kept |= {"record": record_path(places.settings(role)), "model": model}
        for path in kept.values():
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (folder / "attempt").read_text() == "1\n"
        assert not list(folder.rglob("*.tmp"))


def test_people_who_are_not_at_all_participants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has counts; no role writes a model or a checkpoint."""
    places = organisations(tmp_path, monkeypatch)
    path = places.home(2) / "train.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-4]) + "\n")
    calls = [places.start(0, coordinate), places.start(1, train), places.start(2, train)]
    for call, kind in zip(calls, (PeerFailedError, UserError, PeerFailedError), strict=True):
        with pytest.raises(kind, match="bank has 60 training rows and telecom has 56") as caught:
            call.result()
        assert "c-30" not in str(caught.value)
    assert not list(tmp_path.rglob("*.mpfedxgb.json"))
    assert not list(tmp_path.rglob("*.checkpoint"))


def test_settings_that_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All roles end, and are told in what."""
    places = organisations(tmp_path, monkeypatch)
    places.edit(2, "max_depth = 2", "max_depth = 3")
    calls = [places.start(0, coordinate), places.start(1, train), places.start(2, train)]
    for call in calls:
        with pytest.raises(FederationError, match="do not agree on the parameters"):
            call.result()


@pytest.mark.parametrize("security", ["strict", "sealed"])
def test_directions_are_in_their_owners_settings_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, security: str
) -> None:
    """The model of the estimator; another direction is another training, and no file of the others is a byte longer."""
    options = {"constrained": True, "security": security}
    places = organisations(tmp_path, monkeypatch, training=options)
    places.edit(2, "[data]\n", "[data]\nmonotone = { calls = 1 }\n")
    first = train_all(places)
    direct = estimator("binary", monotone_constraints={"calls": 1}, security=security)
    if security == "strict":
        assert join([one.model for one in first]).trees == join(direct.partial_models_).trees
    for role in (0, 1):
        for path in [*places.home(role).rglob("*.json"), *places.home(role).rglob("*.checkpoint")]:
            assert b"monotone" not in path.read_bytes(), path

    places.edit(2, "calls = 1", "calls = -1")
    calls = [places.start(0, coordinate), places.start(1, train), places.start(2, train)]
    with refused(CheckpointError, "mismatch", "rounds.checkpoint"):
        calls[2].result()
    for call in calls[:2]:
        with refused(PeerFailedError, "failed", "telecom", "CheckpointError") as caught:
            call.result()
        assert "calls" not in str(caught.value)


def test_a_direction_of_no_column_stays_with_its_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is sent the owner ends, and nobody reads the name."""
    places = organisations(tmp_path, monkeypatch, training={"constrained": True})
    places.edit(2, "[data]\n", "[data]\nmonotone = { secret_column = 1 }\n")
    with refused(DataError, "unknown", "telecom: [data] monotone"):
        train(places.settings(2))


# Attempts


def failing(count: int, error: BaseException) -> Callable[[RoundReport], None]:
    """Return a callback that fails once, after some rounds."""
    left = [error]

    def call(report: RoundReport) -> None:
        if report.iteration + 1 == count and left:
            raise left.pop()

    return call


def test_a_second_start_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same session name the training is finished, as the same training; a third start only reads it again."""
    places = organisations(tmp_path, monkeypatch)
    stop = failing(2, StoppedError("stopped by SIGTERM"))
    calls = [places.start(0, coordinate), places.start(1, lambda s: train(s, callback=stop)), places.start(2, train)]
    for call, kind in zip(calls, (PeerFailedError, StoppedError, PeerFailedError), strict=True):
        with pytest.raises(kind, match="stopped by SIGTERM"):
            call.result()
    assert not list(tmp_path.rglob("*.mpfedxgb.json"))
    seen: list[int] = []
    models = [one.model.to_json() for one in train_all(places, callback=lambda r: seen.append(r.iteration))]
    assert seen == [1, 2]
    again = train_all(places, callback=lambda r: seen.append(r.iteration))
    assert [one.model.to_json() for one in again] == models
    assert seen == [1, 2]
    assert {(places.state(role) / "attempt").read_text() for role in (1, 2)} == {"3\n"}


def test_other_data_under_the_same_session_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is refused; with `restart` it is another training, whose parts do not pass for parts of the last one."""
    places = organisations(tmp_path, monkeypatch)
    first = train_all(places)
    path = places.home(2) / "train.csv"
    frame = pd.read_csv(path)
    frame["calls"] += 1
    frame.to_csv(path, index=False)
    calls = [places.start(0, coordinate), places.start(1, train), places.start(2, train)]
    with refused(CheckpointError, "mismatch", "rounds.checkpoint"):
        calls[2].result()
    for call in calls[:2]:
        with refused(PeerFailedError, "failed", "telecom", "CheckpointError"):
            call.result()
    second = train_all(places, restart=True)
    assert {one.model.training for one in first}.isdisjoint(one.model.training for one in second)
    with pytest.raises(UserError):
        join([first[0].model, second[1].model])


class Choices:
    """What all roles draw from their private streams, by role's key and label."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.drawn: set[tuple[str, bytes]] = set()
        plain = Keyring.private_stream

        def noted(ring: Keyring, label: str) -> Stream:
            stream = plain(ring, label)
            self.drawn.add((label, stream.again().octets(16).tobytes()))
            return stream

        patch.setattr(Keyring, "private_stream", noted)

    def of(self, act: Callable[[], object]) -> set[tuple[str, bytes]]:
        """Return what is drawn while something happens."""
        self.drawn = set()
        act()
        return self.drawn


def test_two_trainings_share_no_coin_and_no_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever begins again, or has other data, and whoever's key is the old one; rounds made again repeat theirs."""
    places = organisations(tmp_path, monkeypatch, training={"subsample": 0.8, "colsample_bytree": 0.5})
    choices = Choices(monkeypatch)

    def begin_again() -> list[Trained]:
        shutil.rmtree(places.state(2) / "checkpoints")
        calls = [places.start(0, coordinate), places.start(1, lambda s: train(s, restart=True))]
        return [call.result() for call in (*calls, places.start(2, train))][1:]

    def lose_checkpoints() -> None:
        for role in (1, 2):
            shutil.rmtree(places.state(role) / "checkpoints")

    first = choices.of(lambda: train_all(places))
    assert {label.split("/")[1] for label, _ in first} == {"coin", "rows", "columns"}
    lose_checkpoints()
    assert choices.of(lambda: train_all(places)) == first, "the same rounds of the same training"
    second = choices.of(begin_again)
    lose_checkpoints()
    path = places.home(1) / "train.csv"
    frame = pd.read_csv(path)
    frame["label"] = frame["label"].map({"yes": "no", "no": "yes"})
    frame.to_csv(path, index=False)
    third = choices.of(lambda: train_all(places))
    assert len(first) > 10 < len(second)
    assert not first & second
    assert not third & (first | second)


def test_reconnecting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is set, roles wait for one that was lost, and go on with it; the model is the one without a loss."""
    whole = [one.model.to_json() for one in train_all(organisations(tmp_path / "a", monkeypatch))]
    places = organisations(tmp_path / "b", monkeypatch, network={"reconnect": True})
    for role in (1, 2):
        places.state(role).mkdir(parents=True)
        key = tmp_path / "a" / places.home(role).name / "state" / "trial" / "private.key"
        (places.state(role) / "private.key").write_bytes(key.read_bytes())
    calls = [
        places.start(0, coordinate),
        places.start(1, lambda s: train(s, callback=failing(2, PeerFinishedError("telecom ended")))),
        places.start(2, train),
    ]
    done = [call.result() for call in calls][1:]
    assert [one.model.to_json() for one in done] == whole
    assert places.board.meetings == 2
    assert {(places.state(role) / "attempt").read_text() for role in (1, 2)} == {"2\n"}


def test_reconnecting_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role that does not come back is waited for as long as connecting may take."""
    places = organisations(tmp_path, monkeypatch, network={"reconnect": True, "connect_timeout": 3.0})
    calls = [
        places.start(0, coordinate),
        places.start(1, train),
        places.start(2, lambda s: train(s, observer=_Raising(StoppedError("stopped by SIGTERM")))),
    ]
    with pytest.raises(StoppedError):
        calls[2].result()
    for call in calls[:2]:
        with refused(PeerTimeoutError, "missing"):
            call.result()


class _Raising(Observer):
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def on_progress(self, what: str) -> None:
        raise self._error


def test_other_errors_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reconnecting is for roles that were lost, not for what would happen again."""
    places = organisations(tmp_path, monkeypatch, network={"reconnect": True})
    calls = [
        places.start(0, coordinate),
        places.start(1, train),
        places.start(2, lambda s: train(s, observer=_Raising(DataError("row 17 is odd")))),
    ]
    with pytest.raises(DataError):
        calls[2].result()
    for call in calls[:2]:
        with pytest.raises(PeerFailedError, match=r"telecom failed: DataError: a table, .* at step") as caught:
            call.result()
        assert "odd" not in str(caught.value)
    assert places.board.meetings == 1


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (PeerFinishedError("x"), True),
        (PeerTimeoutError("x"), True),
        (PeerFailedError("bank", "telecom ended while bank waited at step 3 (lift)", "PeerFinishedError"), True),
        (PeerFailedError("bank", "telecom sent nothing", "PeerTimeoutError"), True),
        (PeerFailedError("bank", "stopped by SIGTERM at step 4 (lift)", "StoppedError"), True),
        (PeerFailedError("bank", "HandshakeError: the text has no say", "StoppedError"), True),
        (PeerFailedError("bank", "x", "HandshakeError"), False),
        (PeerFailedError("bank", "StoppedError: the text has no say", "HandshakeError"), False),
        (PeerFailedError("bank", "a table cannot be used at step 4 (lift)", "DataError"), False),
        (PeerFailedError("bank", "StoppedError", "stopped"), False),
        (PeerFailedError("bank", "", ""), False),
        (StoppedError("stopped by SIGTERM"), False),
        (HandshakeError("x"), False),
        (FrameError("x"), False),
        (OSError(5, "x"), False),
    ],
)
def test_who_may_come_back(error: BaseException, lost: bool) -> None:
    """A role that went away may; a role that refuses, or is wrong, will do so again."""
    assert is_lost_peer(error) is lost


def test_attempts_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more at every start, whole or not at all; a damaged count is refused by name."""
    settings = organisations(tmp_path, monkeypatch).settings(1)
    folder = SessionFolder(settings)
    assert [folder.next_attempt() for _ in range(3)] == [1, 2, 3]
    assert SessionFolder(settings).next_attempt() == 4
    kept = settings.role.state / settings.session.name
    assert sorted(path.name for path in kept.iterdir()) == ["attempt", "private.key"]

    def broken(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", broken)
        with refused(CheckpointError, "file", value=28):
            folder.next_attempt()
    assert folder.next_attempt() == 5
    (kept / "attempt").write_text("many")
    with refused(CheckpointError, "damaged", "attempt"):
        folder.next_attempt()


# Scoring


def test_a_scoring_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are scored one after the other; people whom another participant does not know are counted, no more."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    plain = estimator("binary")
    frames = tables("binary", SCORE, with_label=False)
    with running(places) as federation, federation.scoring() as session:
        for rows in (slice(0, 1), slice(3, 9), slice(None)):
            asked = frames["bank"].iloc[rows]
            answer = session.predict(asked)
            assert answer["person"].tolist() == asked["person"].tolist()
            aligned = {n: f.set_index("person").loc[asked["person"], COLUMNS[n]] for n, f in frames.items()}
            assert answer["prediction"].tolist() == plain.predict(aligned).tolist()
        strangers = frames["bank"].assign(person=[f"x-{i}" for i in range(20)])
        with refused(DataError, "missing", "rows", 20):
            session.predict(strangers)
        with refused(DataError, "few", "predict", 0):
            session.predict(frames["bank"].iloc[:0])
        with refused(DataError, "unknown", "income"):
            session.predict(frames["bank"].drop(columns="income"))
        assert len(session.predict(frames["bank"])) == 20


def test_some_rounds_of_a_table_of_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The active participant alone decides which rounds count; the table may be one of pyarrow."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    frames = tables("binary", SCORE, with_label=False)
    asked = frames["bank"]
    aligned = {n: f.set_index("person").loc[asked["person"], COLUMNS[n]] for n, f in frames.items()}
    expected = estimator("binary").predict_proba(aligned, iteration_range=(1, 2))
    with running(places) as federation:
        found = federation.predict(pa.Table.from_pandas(asked, preserve_index=False), iteration_range=(1, 2))
        assert found["person"].tolist() == asked["person"].tolist()
        np.testing.assert_allclose(found.iloc[:, 2:].to_numpy(np.float64), expected, rtol=1e-12)
        with refused(SettingsError, "range", "iteration_range"):
            federation.predict(asked, iteration_range=(0, 99))
        part = federation.model()
        paper = replace(part.params, security="paper", min_child_weight=0.0)
        monkeypatch.setattr(federation, "model", lambda: replace(part, params=paper))
        with refused(SettingsError, "mode", "iteration_range"):
            federation.predict(asked, iteration_range=(1, 2))


class running:  # noqa: N801 # reads as a verb
    """Run the coordinator and the auxiliary as services; gives the active participant's federation."""

    def __init__(self, places: Organisations, table: Any = None) -> None:
        self.places, self.table, self.calls = places, table, list[Call]()

    def __enter__(self) -> Federation:
        self.calls = [
            self.places.start(0, lambda settings: roles.coordinate(settings, once=False)),
            self.places.start(2, lambda settings: Federation(settings).serve(self.table)),
        ]
        return Federation(self.places.settings(1))

    def __exit__(self, *what: object) -> None:
        time.sleep(0.5)  # they come back for another session
        self.places.board.close()
        for call in self.calls:
            with pytest.raises(StoppedError):
                call.result()


def test_services_outlive_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One session after the other, also after one that failed through somebody's fault, whatever it was."""
    places = organisations(tmp_path, monkeypatch, network={"connect_timeout": 3.0})
    train_all(places)
    frame = tables("binary", SCORE, with_label=False)["bank"]
    caplog.set_level(logging.INFO, "mpfedxgb.session")
    with running(places) as federation:
        first = federation.predict(frame)
        model = federation.model()
        shorter = replace(model, trees=model.trees[:-1])
        shorter.save(roles.model_path(federation.settings))
        with refused(UserError, "mismatch", "training"):
            federation.predict(frame)
        model.save(roles.model_path(federation.settings))
        with refused(PeerFailedError, "failed", "telecom", "HandshakeError"):
            federation.train()
        pd.testing.assert_frame_equal(federation.predict(frame), first)
    assert "a session ended early" in caplog.text
    assert "has finished a session" in caplog.text


def test_an_error_that_was_caught_is_not_raised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who asked for scores and was told why there are none may leave in peace; who was not told is, at the end."""
    places = organisations(tmp_path, monkeypatch, network={"connect_timeout": patience(WAIT)})
    train_all(places)
    frame = tables("binary", SCORE, with_label=False)["bank"]

    def fail(ids: list[str]) -> pd.DataFrame:
        raise KeyError(ids[0])

    caplog.set_level(logging.INFO, "mpfedxgb")
    with running(places, fail) as federation:
        with federation.scoring() as session:
            for _ in range(2):
                with refused(PeerFailedError, "failed", "telecom", "DataError") as caught:
                    session.predict(frame)
                assert "c-30" not in str(caught.value)
        model = federation.model()
        replace(model, trees=model.trees[:-1]).save(roles.model_path(federation.settings))
        before = caplog.text.count("a session ended early")

        def wait() -> None:
            end = time.monotonic() + patience(WAIT)
            while caplog.text.count("a session ended early") < before + 2:
                assert time.monotonic() < end, caplog.text
                time.sleep(0.01)

        with refused(UserError, "mismatch", "training"), federation.scoring():
            wait()
    assert "the function that looks rows up raised KeyError" in caplog.text


def test_rows_of_a_feature_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A function in the place of a table: the same scores, and nobody learns more than who is not there."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    frames = tables("binary", SCORE, with_label=False)
    plain = estimator("binary")
    aligned = {n: f.set_index("person").loc[frames["bank"]["person"], COLUMNS[n]] for n, f in frames.items()}
    asked: list[int] = []

    def look_up(ids: list[str]) -> pd.DataFrame:
        asked.append(len(ids))
        return frames["telecom"][frames["telecom"]["person"].isin(ids)]

    with running(places, look_up) as federation, federation.scoring() as session:
        found = session.predict(frames["bank"])
        np.testing.assert_allclose(found.iloc[:, 2:].to_numpy(np.float64), plain.predict_proba(aligned), rtol=1e-12)
        some = frames["bank"].iloc[:3].assign(person=["x-1", *frames["bank"]["person"].iloc[1:3]])
        with refused(DataError, "missing", "rows", 1):
            session.predict(some)
    assert asked == [20, 3]


def test_scoring_without_anybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks is told when nobody comes; who changes its mind does not have to wait for them."""
    places = organisations(tmp_path, monkeypatch, network={"connect_timeout": 0.4})
    train_all(organisations(tmp_path / "other", monkeypatch))
    for role in (1, 2):
        source = tmp_path / "other" / places.home(role).name
        name = f"{places.home(role).name}.mpfedxgb.json"
        (places.home(role) / name).write_bytes((source / name).read_bytes())
    places = organisations_again(places, monkeypatch)
    frame = tables("binary", SCORE, with_label=False)["bank"]
    with refused(PeerTimeoutError, "missing"):
        Federation(places.settings(1)).predict(frame)
    places.edit(1, "connect_timeout = 0.4", f"connect_timeout = {patience(60.0)}")
    began, limit = time.monotonic(), patience(30.0)
    with pytest.raises(ZeroDivisionError), Federation(places.settings(1)).scoring():
        raise ZeroDivisionError
    assert time.monotonic() - began < limit
    places.board.close()


def organisations_again(places: Organisations, patch: pytest.MonkeyPatch) -> Organisations:
    """Connect these organisations after others have been connected."""
    from mpfedxgb.federation import session

    patch.setattr(session, "open_transport", places.board.open)
    return places


# Who may do what


def test_everybody_has_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a role cannot do is refused by name, before anything is connected."""
    places = organisations(tmp_path, monkeypatch)
    coordinator, bank, telecom = (Federation(places.settings(role)) for role in places.roles)
    assert repr(bank) == "Federation('trial', role='bank')"
    with refused(SettingsError, "place", "bank", "coordinate"):
        bank.coordinate()
    with refused(SettingsError, "place", "coordinator"):
        coordinator.serve()
    with refused(SettingsError, "place", "bank", "serve"):
        bank.serve()
    with refused(SettingsError, "place", "coordinator"):
        coordinator.model()
    with refused(SettingsError, "missing", "bank.mpfedxgb.json"):
        bank.model()
    with refused(SettingsError, "missing", "data.train"):
        coordinator.train()
    with refused(SettingsError, "place", "telecom"):
        telecom.train(label="calls")
    with refused(DataError, "type", "table", "list"):
        bank.train([[1, 2]])
    assert places.board.meetings == 0
    train_all(places)
    with refused(SettingsError, "place", "telecom"):
        telecom.predict(tables("binary")["telecom"])
    bank.model().save(places.home(2) / "telecom.mpfedxgb.json")
    with refused(SettingsError, "place", "role.model"):
        telecom.model()


def test_tables_from_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook every organisation passes its own table, ids as a column or as the index, and a label."""
    places = organisations(tmp_path, monkeypatch)
    frames = tables("binary")
    bank = frames["bank"].rename(columns={"label": "outcome"})
    calls = [
        places.start(0, lambda settings: Federation(settings).coordinate()),
        places.start(1, lambda settings: Federation(settings).train(bank, label="outcome")),
        places.start(2, lambda settings: Federation(settings).train(frames["telecom"].set_index("person"))),
    ]
    done = [call.result() for call in calls][1:]
    assert join([one.model for one in done]).trees == join(estimator("binary").partial_models_).trees


# Signals


def _stop_myself(number: signal.Signals) -> None:
    with stopping_on_signals():
        os.kill(os.getpid(), number)
        time.sleep(WAIT)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_become_errors(number: signal.Signals) -> None:
    """Inside, once and again; outside they are what they were."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for _ in range(2):
        with pytest.raises(StoppedError, match=f"stopped by {number.name}"):
            _stop_myself(number)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_signals_in_other_threads_are_left_alone() -> None:
    """Only a main thread can have handlers; a role that runs elsewhere does without."""
    done = threading.Event()

    def run() -> None:
        with stopping_on_signals():
            done.set()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert done.is_set()
