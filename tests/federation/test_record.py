"""The record of a role: over all attempts, restarts and scoring sessions, whatever ends them, and never shorter."""

from __future__ import annotations

import errno
import json
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.atomic import ChainedFiles, chained
from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import CheckpointError, PeerFailedError, RefusedError, StoppedError
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.record import AttemptRecord, read_record, record_path
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.report.history import History, record_chain
from mpfedxgb.training.checkpoint import ROUNDS
from support.commands import Shell
from support.role_processes import place
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels, people

if TYPE_CHECKING:
    from nursery import Nursery

ROWS, SCORED = 40, 12
HEADER_LINES = 2
"""Of a file of checkpoints: what it is, and whose."""
PEOPLE = people(ROWS + SCORED)
PERSONS = [f"c-{i:04}" for i in range(len(PEOPLE))]


def organisations(folder: Path, patch: pytest.MonkeyPatch) -> Organisations:
    """Return a federation of two, with rows to train on, to evaluate on and to score."""
    whole = PEOPLE.assign(person=PERSONS, label=labels(PEOPLE, "binary"))
    train = {"bank": whole[[*BANK, "person", "label"]][:ROWS], "telecom": whole[[*TELECOM, "person"]][:ROWS]}
    score = {"bank": whole[[*BANK, "person"]][ROWS:], "telecom": whole[[*TELECOM, "person"]][ROWS:]}
    made = Organisations(folder, train, patch, {**QUICK, "num_class": 2}, to_score=score)
    made.edit(1, 'predict = "score.csv"', 'predict = "score.csv"\npredictions = "out.csv"')
    for role in (1, 2):
        shutil.copy(made.home(role) / "train.csv", made.home(role) / "evaluate.csv")
        made.edit(role, "[data]", '[data]\nevaluate = "evaluate.csv"')
    return made


def train(settings: RoleSettings, **options: Any) -> roles.Trained:
    """Take part in a training with the files of the settings."""
    return roles.train(settings, read_rows(settings, "train"), read_rows(settings, "evaluate"), **options)


def train_all(places: Organisations, **options: Any) -> list[Any]:
    """Run a training with everybody; return results or errors."""
    calls = [places.start(0, lambda settings: roles.coordinate(settings, once=True))]
    calls += [places.start(role, lambda settings: train(settings, **options)) for role in (1, 2)]
    return [_ended(call) for call in calls]


def score_all(places: Organisations) -> list[Any]:
    """Score the file once; return results or errors."""

    def serve(settings: RoleSettings) -> None:
        roles.serve_rows(settings, once=True)

    calls = [
        places.start(0, lambda settings: roles.coordinate(settings, once=True)),
        places.start(1, lambda settings: roles.score_file(settings, roles.load_model(settings))),
        places.start(2, serve),
    ]
    return [_ended(call) for call in calls]


def _ended(call: Any) -> Any:
    try:
        return call.result()
    except (Exception, StoppedError) as error:
        return error


def stop_after(rounds: int) -> Any:
    """Return a callback that stops the active participant once."""
    left = [StoppedError("stopped by SIGTERM")]

    def callback(report: RoundReport) -> None:
        if report.iteration + 1 == rounds and left:
            raise left.pop()

    return callback


def rounds_kept(folder: Path) -> int:
    """Return how many whole rounds the checkpoints of a role hold."""
    (path,) = folder.rglob(ROUNDS)
    return path.read_bytes().count(b"\n") - HEADER_LINES


def counts(ledger: Ledger) -> dict[tuple[str, str], int]:
    """Return a ledger as a dictionary."""
    return {(r.name, r.receiver): r.count for r in ledger}


def added(*ledgers: Ledger) -> dict[tuple[str, str], int]:
    """Return the sum of ledgers."""
    total: dict[tuple[str, str], int] = {}
    for ledger in ledgers:
        for key, count in counts(ledger).items():
            total[key] = total.get(key, 0) + count
    return total


def test_all_attempts_and_scorings_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped training, its end, a start after the end and a scoring: each has its entry at every role, and a sum."""
    places = organisations(tmp_path, monkeypatch)
    texts = dict.fromkeys(places.roles, b"")

    def grown(entries: int) -> dict[int, History]:
        found = {}
        for role in places.roles:
            path = record_path(places.settings(role))
            assert path.name == "record-0001.chain"
            text = path.read_bytes()
            assert text.startswith(texts[role]), "what was there is still there"
            assert path.stat().st_mode & 0o777 == 0o600
            texts[role] = text
            found[role] = read_record(places.settings(role))
            assert len(found[role].attempts) == entries
            assert not found[role].problems
        return found

    errors = train_all(places, callback=stop_after(2))
    assert [type(error) for error in errors] == [PeerFailedError, StoppedError, PeerFailedError]
    for role, history in grown(1).items():
        told = history.attempts[0].to_dict()
        assert (told["session"], told["attempt"], told["kind"]) == ("trial", 1, "training")
        assert (told["how"], told["role"]) == (
            "StoppedError" if role == 1 else "PeerFailedError",
            places.home(role).name,
        )
        assert "stopped by SIGTERM" in told["why"]
        assert counts(history.total)[Entry.LEAF_MEMBERSHIP, "bank"] == 2 * 2 * ROWS
        assert ("metrics" in told) == (role == 1)

    done = train_all(places)[1:]
    for role, history in grown(2).items():
        second = history.attempts[1]
        assert second.content["how"] == "done"
        assert second.content["parameters"] == places.settings(role).training.to_dict()
        assert min(second.content[key] for key in ("seconds", "rounds", "bytes_sent")) >= 0
        assert second.content["peak_memory"] > 10_000_000
        assert counts(second.ledger) == counts(done[0].ledger)
        assert second.content.get("metrics") == (
            {"validation_0": {"logloss": done[0].metrics["validation_0"]["logloss"][-1]}} if role == 1 else None
        )

    train_all(places)
    grown(3)
    assert len(score_all(places)[1]) == SCORED
    for history in grown(4).values():
        kinds = [attempt.content["kind"] for attempt in history.attempts]
        assert kinds == ["training", "training", "training", "scoring"]
        scored = counts(history.attempts[3].ledger)
        assert scored[Entry.PREDICTION, "bank"] == scored[Entry.BATCH_IDS, "telecom"] == SCORED
        assert counts(history.total) == added(*(attempt.ledger for attempt in history.attempts))
        assert counts(history.total)[Entry.LEAF_MEMBERSHIP, "bank"] == (2 + 2) * 2 * ROWS

    assert isinstance(train_all(places, restart=True)[1], roles.Trained)
    grown(5)


def test_a_limit_in_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops the second scoring of a day at all roles; the record says what was asked and that nothing was predicted."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    places.edit(2, "[data]", f"[scoring]\nmax_rows_per_day = {2 * SCORED - 1}\n[data]")
    assert len(score_all(places)[1]) == SCORED
    assert [type(error) for error in score_all(places)] == [PeerFailedError, PeerFailedError, RefusedError]
    for role in places.roles:
        last = read_record(places.settings(role)).attempts[-1]
        assert last.content["how"] == ("RefusedError" if role == 2 else "PeerFailedError")
        assert f"telecom answers for at most {2 * SCORED - 1} rows a day" in last.content["why"]
        assert counts(last.ledger)[Entry.BATCH_IDS, "telecom"] == SCORED
        assert (Entry.PREDICTION, "bank") not in counts(last.ledger)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Prints every attempt and the total, as a page and as JSON; of one session only, if asked."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places, callback=stop_after(2))
    train_all(places)
    shell = Shell(monkeypatch, capsys)
    settings = places.trial.settings(2)
    assert shell.run("record", settings) == 0
    page = shell.out
    assert page.count("trial, attempt ") == 2
    assert "training: PeerFailedError (bank failed: StoppedError: stopped by SIGTERM" in page
    assert "in total: 2 attempts" in page
    assert f"{Entry.LEAF_MEMBERSHIP:48}bank{4 * 2 * ROWS:>22}" in page
    assert "c-00" not in page
    assert shell.run("record", settings, "--json") == 0
    found = json.loads(shell.out)
    assert [attempt["ended"] for attempt in found["attempts"]] == [True, True]
    assert {"name": Entry.LEAF_MEMBERSHIP, "receiver": "bank", "count": 4 * 2 * ROWS} in found["total"]["ledger"]
    assert shell.run("record", settings, "--json", "--session", "another") == 0
    assert json.loads(shell.out)["attempts"] == []


def test_torn_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a failing disk leaves is said and left out; what was not acknowledged goes with the next line."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    path = record_path(places.settings(2))
    last, whole = path.parent / "record.last", path.read_bytes()
    lines = whole.splitlines(keepends=True)
    for length in range(1, len(lines[-1]), 7):
        path.write_bytes(b"".join(lines[:-1]) + lines[-1][:-length])
        found = History.read(path.parent)
        assert found.damaged == (f"{path.name}:{len(lines)}",)
        assert not found.attempts[0].has_ended
        assert "lines are missing at the end" in found.problems[-1]
        assert counts(found.total)[Entry.LEAF_MEMBERSHIP, "bank"] == QUICK["n_estimators"] * 2 * ROWS
    assert f"{path.name}:{len(lines)} is torn" in str(found)
    last.write_bytes(chained(record_chain(path.parent).start, lines[-2][:64]))  # as if killed on the way
    train_all(places)
    found = read_record(places.settings(2))
    assert not found.problems
    assert [attempt.has_ended for attempt in found.attempts] == [False, True]


def test_no_flipped_byte_of_a_record_goes_unreported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of 600 flipped bytes each is reported to the reader of the record; 120 were not, and changed what it says."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    settings = places.settings(2)
    whole = read_record(settings)
    rng = np.random.default_rng(12)
    files = sorted(settings.role.state.glob("record*"))
    assert [path.name for path in files] == ["record-0001.chain", "record.last"]
    content = {path: path.read_bytes() for path in files}
    sizes = [len(text) for text in content.values()]
    for _ in range(600):
        path = files[int(rng.choice(len(files), p=np.array(sizes) / sum(sizes)))]
        changed = bytearray(content[path])
        changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        assert read_record(settings).problems
        path.write_bytes(content[path])
    assert read_record(settings) == whole
    shell = Shell(monkeypatch, capsys)
    assert shell.run("record", places.trial.settings(2), "--verify") == 0
    assert f"ok: {whole.chained} lines, all as they were written; digest {whole.digest}" in shell.out
    files[0].write_bytes(content[files[0]].replace(b'"begun"', b'"begnu"'))
    assert shell.run("record", places.trial.settings(2), "--verify") == ExitCode.CHECKPOINT
    assert "is not as it was written: record-0001.chain:2 does not fit the lines before it" in shell.err
    assert shell.run("record", places.trial.settings(2)) == 0
    assert "WARNING: the chain of the record is broken: record-0001.chain:2" in shell.out
    assert shell.run("report", places.home(2)) == 0
    assert "the chain of the record is broken" in (places.home(2) / "telecom.report.html").read_text()


def test_a_record_from_before_the_chain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Is read, and said to be unchained; new lines follow in a chain that holds it to its digest."""
    places = organisations(tmp_path, monkeypatch)
    state = places.settings(2).role.state
    state.mkdir(mode=0o700)
    shell = Shell(monkeypatch, capsys)
    assert shell.run("record", places.trial.settings(2), "--verify") == ExitCode.USER
    old = {"entry": "old", "begun": "2026-01-01T00:00:00Z", "how": "done", "ledger": [["coins", "bank", 7]]}
    (state / "record.jsonl").write_text(json.dumps(old) + "\n")
    assert shell.run("record", places.trial.settings(2), "--verify") == ExitCode.USER
    assert "is not chained, since an earlier version wrote it" in shell.err
    train_all(places)
    assert [attempt.entry == "old" for attempt in read_record(places.settings(2)).attempts] == [True, False]
    assert counts(read_record(places.settings(2)).total)["coins", "bank"] == 7
    assert shell.run("record", places.trial.settings(2), "--verify") == 0
    assert "1 lines of the record are of an earlier version and not chained" in shell.out
    (state / "record.jsonl").write_text(json.dumps(old).replace("7", "6") + "\n")
    assert shell.run("record", places.trial.settings(2), "--verify") == ExitCode.CHECKPOINT


def test_a_record_goes_on_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While roles run, as often as it takes; readers see one record."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    once = read_record(places.settings(1))
    monkeypatch.setattr("mpfedxgb.federation.record.MOST_BYTES", 4000)
    train_all(places, restart=True)
    found = read_record(places.settings(1))
    assert len(record_chain(places.settings(1).role.state).numbers()) > 2
    assert not found.problems
    assert found.attempts[0] == once.attempts[0]
    assert counts(found.attempts[1].ledger) == counts(once.attempts[0].ledger)


def score_many(places: Organisations, batches: int, fail: bool = False) -> list[Any]:
    """Score one row per batch in one session."""

    def ask(settings: RoleSettings) -> None:
        frame = pd.read_csv(places.home(1) / "score.csv")
        with roles.scoring(settings, roles.load_model(settings)) as session:
            for i in range(batches):
                session.predict(frame.iloc[[i % SCORED]])
            if fail:
                raise StoppedError("stopped by SIGTERM")

    def serve(settings: RoleSettings) -> None:
        roles.serve_rows(settings, once=True)

    coordinate = places.start(0, lambda settings: roles.coordinate(settings, once=True))
    return [_ended(call) for call in (coordinate, places.start(1, ask), places.start(2, serve))]


@pytest.mark.parametrize("fail", [False, True])
def test_batches_are_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: bool) -> None:
    """A session has one line of batches an hour; how many, rows, reveals, rounds and bytes are all there."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    before = {role: len(record_path(places.settings(role)).read_bytes().splitlines()) for role in places.roles}
    score_many(places, 20, fail)
    for role in places.roles:
        found = read_record(places.settings(role))
        assert not found.problems
        told = found.attempts[1].to_dict()
        assert (told["batches"], told["rows_asked"], told["batches_not_found"]) == (20, 20, 0)
        assert told["rounds"] >= 20 * 4 or role == 0
        assert told["bytes_sent"] > 20 * 8
        scored = counts(found.attempts[1].ledger)
        assert scored[Entry.PREDICTION, "bank"] == scored[Entry.BATCH_IDS, "telecom"] == 20
        assert (told["how"] == "done") is not fail
        assert "20 batches of 20 rows in all" in found.attempts[1].head()
        lines = len(record_path(places.settings(role)).read_bytes().splitlines()) - before[role]
        assert lines == 4, "begun, kind, the first batch and the end"
        assert not list(places.settings(role).role.state.glob("*.sum"))


def test_a_line_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no time between two lines every batch has one."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    monkeypatch.setattr("mpfedxgb.federation.record.SUM_SECONDS", 0.0)
    before = read_record(places.settings(2)).chained
    score_many(places, 5)
    assert read_record(places.settings(2)).chained == before + 3 + 5


def test_a_killed_session_loses_no_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was answered since the last line is in the sum beside it; one that is gone or damaged is missed."""
    places = organisations(tmp_path, monkeypatch)
    train_all(places)
    monkeypatch.setattr(AttemptRecord, "on_end", lambda *_: None)  # as a killed process leaves it
    score_many(places, 7)
    for role in places.roles:
        found = read_record(places.settings(role))
        assert not found.problems
        killed = found.attempts[-1]
        assert not killed.has_ended
        assert (killed.content["batches"], counts(killed.ledger)[Entry.PREDICTION, "bank"]) == (7, 7)
        (kept,) = places.settings(role).role.state.glob("record-*.sum")
        assert kept.stat().st_mode & 0o777 == 0o600
        whole = kept.read_bytes()
        for at in range(0, len(whole), 9):
            kept.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
            assert read_record(places.settings(role)).problems
        kept.unlink()
        (problem,) = read_record(places.settings(role)).problems
        assert f"{kept.name} is missing or damaged" in problem


def test_lines_that_are_none_of_a_record(tmp_path: Path) -> None:
    """Are left out and named, chained or not."""
    bad = (b"[]", b'{"entry": 1}', b'{"entry": "a", "ledger": [[1, 2, 3]]}', b"\xff", b'{"entry": "b", "rounds": true}')
    (tmp_path / "record.jsonl").write_bytes(b"\n".join(bad) + b"\n")
    chain = record_chain(tmp_path)
    for line in bad:
        chain.append(line)
    assert History.read(tmp_path).damaged == tuple(
        [f"record.jsonl:{n}" for n in range(1, 6)] + [f"record-0001.chain:{n}" for n in range(2, 7)]
    )


@pytest.mark.parametrize("role", [0, 2])
def test_a_disk_that_takes_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: int) -> None:
    """A participant goes no further than its record does; the coordinator warns, and everybody gets a model."""
    places = organisations(tmp_path, monkeypatch)
    full, plain = record_path(places.settings(role)), ChainedFiles.append
    written: list[bytes] = []

    def append(chain: ChainedFiles, body: bytes) -> None:
        if chain.path(1) == full and len(written) == 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        if chain.path(1) == full:
            written.append(body)
        plain(chain, body)

    monkeypatch.setattr(ChainedFiles, "append", append)
    ended = train_all(places)
    if role == 0:
        assert all(isinstance(one, roles.Trained) for one in ended[1:])
        assert len(written) == 5
        return
    assert isinstance(ended[2], CheckpointError)
    assert "cannot write the record" in str(ended[2])
    assert isinstance(ended[1], PeerFailedError)
    assert str(tmp_path) not in str(ended[1])
    assert rounds_kept(places.state(2)) == len(written) - 4, "no round is kept that is not on the record"


def test_killed_outright(tmp_path: Path, nursery: Nursery) -> None:
    """The record of a process that was killed has every round that it kept, and says that it did not end."""
    with place(tmp_path, nursery, training={"n_estimators": 100_000}) as made:
        made.start_all()
        made.wait_for(2, "boosting round 3 of 100000 is done and kept")
        made.children[2].send_signal(signal.SIGKILL)
        made.codes()
        (killed,) = read_record(RoleSettings.from_toml(made.trial.settings(2))).attempts
        kept = rounds_kept(made.home(2))
        assert not killed.has_ended
        assert kept >= 3
        membership = counts(killed.ledger)[Entry.LEAF_MEMBERSHIP, "bank"]
        assert membership in (kept * 40, (kept + 1) * 40)
        (other,) = read_record(RoleSettings.from_toml(made.trial.settings(1))).attempts
        assert other.content["how"] == "PeerFinishedError"
        assert "killed" in str(read_record(RoleSettings.from_toml(made.trial.settings(2))))
