"""Roles as real processes over mutual TLS: from `init` to the joined model, and every way in which one can go wrong."""

from __future__ import annotations

import json
import re
import resource
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from contracts.transport_contract import Call
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.config import PROTOCOLS
from mpfedxgb.errors import PeerFailedError, PeerTimeoutError
from mpfedxgb.federation.accepting import proposed
from mpfedxgb.federation.programs import TRAINING
from mpfedxgb.federation.proposals import Work, meet
from mpfedxgb.federation.session import open_transport
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party import Meter, Party
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.handshake import shake_hands
from mpfedxgb.transport import Kind, Transport, encode
from mpfedxgb.transport.tls import connect
from mpfedxgb.transport.tls.identity import Identity
from patience import patience
from support.commands import Shell
from support.loopback import reserved_ports
from support.role_processes import WAIT, Place, make_nursery, place, processes_that_name
from support.small_disk import small_disk

if TYPE_CHECKING:
    from nursery import Nursery

DEADLINE = 6.0
"""Seconds that roles wait for each other where somebody hangs; on a busy machine too: pings end longer silence."""

ENDLESS = {"n_estimators": 100_000}

NOTHING: Any = Work(None, None, (), 1)  # type: ignore[arg-type] # these tests speak for a role themselves


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, nursery: Nursery) -> Path:
    """Return the folder of a federation with a model."""
    folder = tmp_path_factory.mktemp("trained")
    with place(folder, nursery) as made:
        made.start_all()
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
    return folder


def take_models(trained: Path, made: Place) -> None:
    """Give the participants the parts of a model that was trained elsewhere."""
    for name in ("bank", "telecom"):
        shutil.copy(trained / name / f"{name}.mpfedxgb.json", made.trial.folder / name)


# From the first command to the last


@pytest.fixture
def two_ports() -> Iterator[list[int]]:
    """Return ports that are held: others may be testing on the usual ones."""
    with reserved_ports(2) as held:
        yield held


def test_the_printed_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], two_ports: list[int]
) -> None:
    """One terminal per role, by the commands that `init` prints: train, predict, report, join, load with xgboost."""
    shell, folder = Shell(monkeypatch, capsys), tmp_path / "federation"
    ports = ",".join(map(str, two_ports))
    assert shell.run("init", folder, "--participants", "bank,telecom", "--ports", ports) == 0
    printed = [shlex.split(line) for line in shell.out.splitlines() if line.startswith("mpfedxgb ")]
    commands = {(words[1], words[2].split("/")[-1], words[-1]): words for words in printed}
    for path in folder.glob("*/*.toml"):  # so that the test is short
        path.write_text(re.sub("n_estimators = 20", "n_estimators = 3", path.read_text()))

    def start(*key: str) -> subprocess.Popen[str]:
        (words,) = (words for found, words in commands.items() if found[: len(key)] == key)
        program = [sys.executable, "-m", "mpfedxgb", *words[1:], "--json-logs", "--log-level", "debug"]
        return subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603

    coordinator = start("coordinator")
    started, said, logs = [coordinator], list[str](), list[str]()
    try:
        for purpose in ("--train", "--predict"):
            processes = [start("participant", f"{name}.toml", purpose) for name in ("bank", "telecom")]
            started += processes
            for process in processes:
                out, err = process.communicate(timeout=patience(WAIT))
                assert process.returncode == 0, err
                said.append(out)
                logs += err.splitlines()
        coordinator.terminate()
        out, err = coordinator.communicate(timeout=patience(WAIT))
    finally:
        for process in started:
            with process:  # its pipes are closed, and it is waited for
                process.kill()
    assert coordinator.returncode == ExitCode.STOPPED
    assert not processes_that_name(str(folder))
    logs += err.splitlines()
    lines = [json.loads(line) for line in logs]
    assert all(set(line) - {"session", "attempt"} == {"time", "level", "logger", "message"} for line in lines)
    assert lines[-1]["message"] == "stopped by SIGTERM"
    assert "3 trees in " in said[0]
    assert "60 predictions are in " in said[2]
    no_secrets("".join([*said, *logs]), folder)

    for report in (words for words in printed if words[1] == "report"):
        assert shell.run(*report[1:]) == 0
    assert {path.name for path in folder.glob("*/*.report.html")} == {"bank.report.html", "telecom.report.html"}
    join, export = (next(w for w in printed if w[1] == name) for name in ("join", "export-xgboost"))
    assert shell.run(*join[1:]) == 0
    assert len(json.loads((folder / "joined.json").read_text())["trees"]) == 3
    assert shell.run(*export[1:]) == 0
    compare_with_xgboost(folder)


def no_secrets(text: str, folder: Path) -> None:
    """Make sure that a log holds no key and nobody's id."""
    keys = [path.read_text() for path in folder.rglob("private.key")]
    assert len(keys) == 2
    keys += [line for path in folder.rglob("*.key") for line in path.read_text().splitlines() if "---" not in line]
    people = pd.read_csv(folder / "bank" / "train.csv")["customer_id"].tolist()
    assert not [secret for secret in [*keys, *people] if secret in text]


def compare_with_xgboost(folder: Path) -> None:
    """Score with the exported model what the federation scored."""
    bank, telecom = (pd.read_csv(folder / name / "score.csv").set_index("customer_id") for name in ("bank", "telecom"))
    found = pd.read_csv(folder / "bank" / "predictions.csv").set_index("customer_id")
    assert found.index.tolist() == bank.index.tolist()
    content = json.loads((folder / "joined.json").read_text())
    columns = {}
    for feature in content["features"]:
        values = (bank if feature["owner"] == "bank" else telecom).loc[found.index, feature["name"]]
        if "categories" in feature:
            values = values.astype("category")  # by their words, in an order of their own
        columns[feature["name"]] = values
    booster = xgboost.Booster(model_file=str(folder / "xgboost.json"))
    theirs = booster.predict(xgboost.DMatrix(pd.DataFrame(columns), enable_categorical=True))
    np.testing.assert_allclose(found["class_1"], theirs, rtol=0, atol=1e-6)


# Roles that stop, hang or die


@pytest.mark.parametrize("role", [0, 1, 2])
def test_a_role_that_is_stopped_says_why(tmp_path: Path, nursery: Nursery, role: int) -> None:
    """On SIGTERM it tells the others, who end with its reason and their own code; participants have checkpoints."""
    with place(tmp_path, nursery, training=ENDLESS, network={"deadline": patience(300.0)}) as made:
        made.start_all()
        made.wait_for(2, "boosting round 2 of 100000 is done and kept")
        began, limit = time.monotonic(), patience(100.0)
        made.children[role].send_signal(signal.SIGTERM)
        codes = made.codes()
        assert time.monotonic() - began < limit
        name = made.home(role).name
        for other, code in codes.items():
            assert code == (ExitCode.STOPPED if other == role else ExitCode.PEER_FAILED), made.logs()
            said = "stopped by SIGTERM" if other == role else f"{name} failed: StoppedError: stopped by SIGTERM at step"
            assert said in made.last_line(other)
            assert bool(other) == bool(list(made.home(other).rglob("*.checkpoint")))
        assert not list(tmp_path.rglob("*.tmp"))


def test_a_role_that_hangs_is_lost(tmp_path: Path, nursery: Nursery) -> None:
    """All others end in time, naming it; when it wakes up it finds that they have gone, and ends too.

    Three federations, in each of which another role hangs; at the same time, since it is all waiting.
    """
    with ExitStack() as stack:
        places = {}
        for role in (0, 1, 2):
            folder = tmp_path / str(role)
            folder.mkdir()
            options = {"training": ENDLESS, "network": {"deadline": DEADLINE}}
            places[role] = stack.enter_context(place(folder, nursery, **options))
            places[role].start_all()
            places[role].wait_for(2, "boosting round 1 of 100000 is done and kept")
            places[role].children[role].send_signal(signal.SIGSTOP)
        began, limit = time.monotonic(), 1.5 * DEADLINE + 5.0 + patience(60.0)  # patience, lingering, a busy machine
        for role, made in places.items():
            name = made.home(role).name
            for other in {0, 1, 2} - {role}:
                assert made.children[other].wait(patience(WAIT)) == ExitCode.PEER_LOST, made.logs()
                assert name in made.last_line(other)
                assert re.search("(sent nothing|took no message) for [0-9.]+ seconds at step", made.last_line(other))
        assert time.monotonic() - began < limit
        for role, made in places.items():
            made.children[role].send_signal(signal.SIGCONT)
            assert made.codes()[role] in (ExitCode.PEER_LOST, ExitCode.PEER_FAILED)


@pytest.mark.parametrize("role", [0, 1, 2])
def test_a_role_that_is_killed_is_lost(tmp_path: Path, nursery: Nursery, role: int) -> None:
    """The others notice at once, long before their deadline."""
    with place(tmp_path, nursery, training=ENDLESS, network={"deadline": patience(300.0)}) as made:
        made.start_all()
        made.wait_for(2, "boosting round 1 of 100000 is done and kept")
        began, limit = time.monotonic(), patience(100.0)
        made.children[role].kill()
        codes = made.codes()
        assert time.monotonic() - began < limit
        for other in {0, 1, 2} - {role}:
            assert codes[other] == ExitCode.PEER_LOST, made.logs()
            assert f"{made.home(role).name} ended while" in made.last_line(other)


def test_a_full_disk_stops_everyone(tmp_path: Path, nursery: Nursery) -> None:
    """The role whose disk is full says so; the others are told that it was a checkpoint."""
    with place(tmp_path, nursery, training=ENDLESS) as made, small_disk(made.home(2) / "state"):
        made.start_all()
        assert made.codes() == {0: ExitCode.PEER_FAILED, 1: ExitCode.PEER_FAILED, 2: ExitCode.CHECKPOINT}
        assert "No space left on device; what was there before is unchanged" in made.last_line(2)
        for other in (0, 1):
            assert "telecom failed: CheckpointError" in made.last_line(other)
            assert str(tmp_path) not in made.last_line(other)


@pytest.mark.parametrize("what", ["model", "predictions"])
def test_a_disk_without_room_for_the_result(tmp_path: Path, nursery: Nursery, trained: Path, what: str) -> None:
    """Is a full disk as any other: code 7, whichever file it is; the others are told."""
    with place(tmp_path, nursery) as made, small_disk(made.home(1) / "disk") as disk:
        if what == "model":
            made.edit(1, "[role]", '[role]\nmodel = "disk/bank.json"')
        else:
            take_models(trained, made)
            made.edit(1, 'predictions = "predictions.csv"', 'predictions = "disk/predictions.csv"')
        with suppress(OSError):
            (disk / "films").write_bytes(bytes(1 << 20))
        made.start_all(*(() if what == "model" else ("--predict",)))
        assert made.codes() == {0: ExitCode.PEER_FAILED, 1: ExitCode.CHECKPOINT, 2: ExitCode.PEER_FAILED}, made.logs()
        assert "No space left on device; what was there before is unchanged" in made.last_line(1)
        assert [path.name for path in disk.iterdir()] == ["films"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_standard_output_that_takes_nothing(tmp_path: Path, nursery: Nursery) -> None:
    """A training whose model is written ends with 0; the log says that the line of result went nowhere."""
    with place(tmp_path, nursery) as made, Path("/dev/full").open("w") as full:
        for role in (0, 2):
            made.start(role)
        command = [sys.executable, "-m", "mpfedxgb", "participant", str(made.trial.settings(1)), "--train"]
        bank = subprocess.run(  # noqa: S603 # our own command
            command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=WAIT, check=False
        )
        assert made.codes() == {0: 0, 2: 0}
        assert bank.returncode == 0, bank.stderr
        assert (made.home(1) / "bank.mpfedxgb.json").is_file()
        assert "cannot write to standard output: No space left on device" in bank.stderr
        assert "Traceback" not in bank.stderr


def test_a_coordinator_needs_no_disk(tmp_path: Path, nursery: Nursery) -> None:
    """Its disk is full from the beginning; it goes on without its record, and the training is none the worse."""
    with place(tmp_path, nursery) as made, small_disk(made.home(0) / "state") as disk:
        with suppress(OSError):
            (disk / "films").write_bytes(bytes(1 << 20))
        made.start_all()
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
        assert "the session goes on without" in made.logs()
        assert {path.name for path in disk.rglob("*")} <= {"films", "record-0001.chain", "record.last"}


# Roles that do not agree


def test_settings_that_differ(tmp_path: Path, nursery: Nursery) -> None:
    """Other parameters, and another kind of session: refused at all roles, with what differs; then other people."""
    with place(tmp_path, nursery) as made:
        made.edit(2, "max_depth = 1", "max_depth = 2")
        made.start_all("--train", "--json-logs")
        assert set(made.codes().values()) == {ExitCode.REFUSED}, made.logs()
        for role in (0, 1, 2):
            told = json.loads(made.last_line(role))["message"]
            assert re.search(r"telecom and (bank|coordinator) do not agree on the parameters: max_depth is 2 at", told)
            assert re.search(r"max_depth is 2 at telecom and 1 at (bank|coordinator)", told)
        made.edit(2, "max_depth = 2", "max_depth = 1")

        made.edit(2, 'name = "trial"\n\n[training]', 'name = "other"\n\n[training]')
        made.start_all()
        assert set(made.codes().values()) == {ExitCode.REFUSED}, made.logs()
        for role in (0, 1, 2):
            assert re.search('the session: it is "trial/other" at telecom and "trial/trial" at', made.last_line(role))
        made.edit(2, 'name = "other"\n\n[training]', 'name = "trial"\n\n[training]')

        path = made.home(2) / "train.csv"
        path.write_text("\n".join(path.read_text().splitlines()[:-3]) + "\n")
        made.start_all()
        assert made.codes() == {0: ExitCode.PEER_FAILED, 1: ExitCode.USER, 2: ExitCode.PEER_FAILED}, made.logs()
        for role in (0, 1, 2):
            assert "bank has 40 training rows and telecom has 37; give all participants" in made.last_line(role)
        assert not list(tmp_path.rglob("*.checkpoint"))
        assert not list(tmp_path.rglob("*.mpfedxgb.json"))


def test_another_kind_of_session(tmp_path: Path, nursery: Nursery, trained: Path) -> None:
    """Who was started for something else is told so, and so are the others."""
    with place(tmp_path, nursery) as made:
        take_models(trained, made)
        made.start(0)
        made.start(1, "--train")
        made.start(2, "--predict")
        assert set(made.codes().values()) == {ExitCode.REFUSED}, made.logs()
        for role in (0, 1, 2):
            assert "bank began a session for training, telecom one for scoring" in made.last_line(role)


# A peer that sends garbage


def telecom(made: Place) -> tuple[RoleSettings, Transport]:
    """Connect as telecom does, with its certificate."""
    settings = RoleSettings.from_toml(made.trial.settings(2))
    return settings, open_transport(settings, patience(WAIT))


@pytest.mark.parametrize("stage", ["at once", "after the handshake", "another session"])
def test_a_peer_that_sends_garbage(tmp_path: Path, nursery: Nursery, stage: str) -> None:
    """Whoever reads it names it, and everybody ends; nothing is written."""
    with place(tmp_path, nursery) as made:
        made.start(0)
        made.start(1)
        settings, transport = telecom(made)
        try:
            garbage = bytes(np.random.default_rng(1).integers(0, 256, 5000, np.uint8))
            meet(settings, transport, None, lambda proposal: NOTHING)
            communicator = Communicator(transport, settings.roster, 2, settings.session_settings(), Meter())
            if stage == "after the handshake":
                Party(communicator, shake_hands(communicator))
            elif stage == "another session":
                garbage = encode(Kind.HELLO, 2, bytes(16), 1, "handshake", [np.frombuffer(b"{}", np.uint8)] * 2)
            for peer in (0, 1):
                transport.send(peer, garbage, patience(WAIT))
            codes = made.codes()
        finally:
            transport.close()
        odd = stage == "another session"
        assert codes[1] == codes[0] == (ExitCode.REFUSED if odd else ExitCode.GARBLED), made.logs()
        words = "do not agree on the session" if odd else "do not begin like a frame"
        assert words in made.last_line(1)
        assert not list(tmp_path.rglob("*.mpfedxgb.json"))


def odd_greetings() -> Iterator[list[bytes]]:
    """Yield what a participant with a good certificate may say instead of its greeting: the arrays of a frame."""
    nonce, deep = bytes(16), b"[" * 50_000
    yield from ([], [b""], [b"", b""], [b"\xff", nonce], [b"{}", nonce], [b"[]", nonce], [b"7", nonce], [deep, nonce])
    yield [b"{" + b'"a":{' * 50_000, nonce]
    values: list[Any] = ["\ud800", "x" * 10_000, -1, 1e999, [[]], None]
    for odd in values:
        for key in ("protocols", "session", "attempt", "parameters", "roster", "commitment", "max_frame_bytes"):
            yield [json.dumps({**GREETING, key: odd}).encode(), nonce]
    for size in (0, 15, 17, 100_000):
        yield [json.dumps(GREETING).encode(), bytes(size)]


GREETING: dict[str, Any] = {
    "protocols": list(PROTOCOLS),
    "session": "trial/trial",
    "attempt": 1,
    "parameters": "{}",
    "roster": ["coordinator", "bank", "telecom"],
    "commitment": "00" * 32,
    "max_frame_bytes": 1 << 26,
}


SERVICES = 4


def test_greetings_that_are_none_end_no_service(tmp_path: Path, nursery: Nursery) -> None:
    """Whatever participants say instead of their greeting or of their first announcement, a coordinator stays.

    Several of them are told at the same time: most of it is the pause that each makes after a session.
    """
    with ExitStack() as stack:
        places = []
        for number in range(SERVICES):
            folder = tmp_path / str(number)
            folder.mkdir()
            places.append(stack.enter_context(place(folder, nursery)))
            places[-1].start(0, "--json-logs")
        with ThreadPoolExecutor(SERVICES) as at_once:
            list(at_once.map(say_odd_things, places, range(SERVICES)))
        for made in places:
            assert made.children[0].poll() is None, made.log(0)
            made.start(1)
            made.start(2)
        for made in places:
            assert [made.children[role].wait(patience(WAIT)) for role in (1, 2)] == [0, 0], made.logs()
            made.children[0].terminate()
            assert made.codes() == {0: ExitCode.STOPPED, 1: 0, 2: 0}
            lines = [json.loads(line) for line in made.log(0).splitlines()]
            assert not [line for line in lines if line["level"] == "error" and "stopped by" not in line["message"]]


def say_odd_things(made: Place, number: int) -> None:
    """Say a share of the odd greetings and announcements to a coordinator."""
    settings = {role: RoleSettings.from_toml(made.trial.settings(role)) for role in (1, 2)}
    parameters = json.dumps(settings[1].session_settings().parameters).encode()
    for words in list(odd_greetings())[number::SERVICES]:
        blobs = [word.replace(b'"{}"', parameters, 1) for word in words]  # so that only the fault is wrong
        say_to_coordinator(settings, [np.frombuffer(blob, np.uint8) for blob in blobs], None)
    announcements: list[list[Any]] = [[], [[]], [[7]], [[-1]], [[1, 1, 1]], [[1], [1]], [[[1]]], [1]]
    for arrays in announcements[number::SERVICES]:
        say_to_coordinator(settings, None, [np.asarray(array, np.int64) for array in arrays])


def say_to_coordinator(
    settings: dict[int, RoleSettings], greeting: list[Any] | None, announcement: list[Any] | None
) -> None:
    """Connect both participants with a coordinator; one of them greets it in another way, or announces something."""
    transports = {}
    calls = {role: Call(open_transport, mine, patience(WAIT)) for role, mine in settings.items()}
    try:
        transports = {role: call.result() for role, call in calls.items()}
        meet(settings[1], transports[1], proposed(settings[1], TRAINING, 40), lambda proposal: NOTHING)
        meet(settings[2], transports[2], None, lambda proposal: NOTHING)
        comms = {
            role: Communicator(transport, settings[role].roster, role, settings[role].session_settings(), Meter())
            for role, transport in transports.items()
        }
        if greeting is not None:
            comms[1].advance("handshake")
            comms[1].send([0], greeting, Kind.HELLO)
        else:
            for call in [Call(shake_hands, comm) for comm in comms.values()]:
                call.result()
            comms[1].advance(f"broadcast {Entry.KIND_OF_SESSION}")
            comms[1].advance(f"announce {Entry.KIND_OF_SESSION}")
            comms[1].send([0], announcement or [], Kind.ANNOUNCE)
        with pytest.raises(PeerFailedError, match=r"coordinator failed: [A-Z][A-Za-z]+Error: "):
            comms[1].receive(0)
    finally:
        for transport in transports.values():
            transport.close()


def test_a_service_that_is_refused_stays(tmp_path: Path, nursery: Nursery, trained: Path) -> None:
    """The coordinator says that telecom is of another federation: telecom stays, and comes in when that is mended."""
    with place(tmp_path, nursery) as made:
        take_models(trained, made)
        made.edit(0, 'name = "trial"', 'name = "other"')
        made.start(0, "--once")
        made.start(2, "--serve")
        made.wait_for(2, "are not in the same federation; compare the federation's name; trying again")
        made.children[0].terminate()
        assert made.children[0].wait(patience(WAIT)) == ExitCode.STOPPED
        made.edit(0, 'name = "other"', 'name = "trial"')
        made.start(0, "--once")
        assert made.start(1, "--predict").wait(patience(WAIT)) == 0, made.logs()
        made.wait_for(2, "has finished a session")
        made.children[2].terminate()
        assert made.codes() == {0: 0, 1: 0, 2: ExitCode.STOPPED}


def test_files_are_looked_at_before_anybody_is_called(tmp_path: Path, nursery: Nursery, trained: Path) -> None:
    """A table that is not there, and a folder for results that is not: nobody waits for that."""
    with place(tmp_path, nursery) as made:
        take_models(trained, made)
        made.edit(1, 'predictions = "predictions.csv"', 'predictions = "nowhere/predictions.csv"')
        assert made.start(1, "--predict").wait(patience(WAIT)) == ExitCode.USER
        assert "there is no folder" in made.last_line(1)
        made.edit(2, "[role]", '[role]\nmodel = "nowhere/telecom.mpfedxgb.json"')
        assert made.start(2).wait(patience(WAIT)) == ExitCode.USER
        assert "[role] model: there is no folder" in made.last_line(2)
        for role in (1, 2):
            (made.home(role) / "train.csv").unlink()
            assert made.start(role).wait(patience(WAIT)) == ExitCode.USER
            assert "train.csv" in made.last_line(role)
            assert "waits for" not in made.log(role)
            assert "listens" not in made.log(role)


def test_who_came_in_time_is_kept(tmp_path: Path, nursery: Nursery) -> None:
    """A coordinator whose time is over again and again keeps telecom, which has no other reason to give up."""
    with place(tmp_path, nursery) as made:
        made.edit(0, f"connect_timeout = {made.connect_timeout}", "connect_timeout = 0.3")
        made.start(0, "--log-level", "info")
        settings = RoleSettings.from_toml(made.trial.settings(2))
        authority, certificate, key = (made.home(2) / name for name in ("ca.crt", "telecom.crt", "telecom.key"))
        identity = Identity.load("telecom", authority, certificate, key)
        transport = connect(settings.connection_settings(patience(WAIT), 1 << 20), identity, peers=[0])
        try:
            end = time.monotonic() + patience(1.5)  # five times as long as the coordinator waits before it thinks again
            while time.monotonic() < end:
                with suppress(PeerTimeoutError):
                    transport.receive(0, 0.1)
            assert made.children[0].poll() is None, made.log(0)
        finally:
            transport.close()
        made.children[0].terminate()
        assert made.codes() == {0: ExitCode.STOPPED}
        assert "coordinator listens on 127.0.0.1:" in made.log(0)
        assert made.log(0).count("coordinator and telecom are connected") == 1


def test_strangers_on_the_open_port(tmp_path: Path, nursery: Nursery) -> None:
    """A coordinator that is scanned before and during a training does not mind, and its log stays one of JSON lines."""
    with place(tmp_path, nursery, training={"n_estimators": 4}) as made:
        made.start(0, "--json-logs", "--log-level", "debug")
        ports = list(made.trial.listen.values())
        bother(ports[:1])
        for role in (1, 2):
            made.start(role, "--train", "--json-logs")
        while made.children[1].poll() is None or made.children[2].poll() is None:
            bother(ports)
        assert {role: made.children[role].poll() for role in (1, 2)} == {1: 0, 2: 0}, made.logs()
        made.children[0].terminate()
        assert made.codes()[0] == ExitCode.STOPPED
        for role in (0, 1, 2):
            lines = made.log(role).splitlines()
            assert all(line.startswith("{") or " trees in " in line for line in lines), made.log(role)


def test_more_strangers_than_descriptors(tmp_path: Path) -> None:
    """Idle connections fill neither the listening roles' descriptors nor their patience: the training is done."""
    few = 120
    with make_nursery() as nursery, place(tmp_path, nursery, training={"n_estimators": 2}) as made, ExitStack() as held:
        resource.prlimit(nursery.pid, resource.RLIMIT_NOFILE, (few, few))
        made.start(0, "--json-logs")
        made.start(1, "--train", "--json-logs")
        for port in made.trial.listen.values():
            for _ in range(3 * few):
                held.enter_context(a_connection(port))
        made.start(2, "--train", "--json-logs")
        assert [made.children[role].wait(2 * patience(WAIT)) for role in (1, 2)] == [0, 0], made.logs()
        assert made.children[0].poll() is None, made.log(0)
        made.children[0].terminate()
        assert made.codes() == {0: ExitCode.STOPPED, 1: 0, 2: 0}


def a_connection(port: int) -> socket.socket:
    """Return a connection to a port, as soon as somebody listens there."""
    end = time.monotonic() + patience(WAIT)
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), patience(WAIT))
        except (ConnectionRefusedError, ConnectionResetError):
            assert time.monotonic() < end, "nobody listens"
            time.sleep(0.01)


def bother(ports: list[int]) -> None:
    """Send to ports what has no business there: TCP, TLS without a certificate, bytes after it."""
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    for port in ports:
        for content in (b"", b"GET / HTTP/1.1\r\n\r\n", bytes(1000)):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1.0) as plain:
                plain.sendall(content)
        with (
            suppress(OSError),
            socket.create_connection(("127.0.0.1", port), 1.0) as plain,
            stranger.wrap_socket(plain) as secret,
        ):
            secret.sendall(bytes(100))
            secret.recv(100)


# Scoring


def test_stopping_in_the_middle_of_a_batch(tmp_path: Path, nursery: Nursery, trained: Path) -> None:
    """However long the others may take by their deadline, who is stopped ends, and tells everybody."""
    with place(tmp_path, nursery, network={"deadline": 600.0}) as made:
        take_models(trained, made)
        made.start(0)
        made.start(1, "--predict")
        settings, transport = telecom(made)
        try:
            meet(settings, transport, None, lambda proposal: NOTHING)
            communicator = Communicator(transport, settings.roster, 2, settings.session_settings(), Meter())
            party = Party(communicator, shake_hands(communicator))
            party.broadcast(Entry.KIND_OF_SESSION, [0])  # the session has begun; bank waits for telecom from now on
            made.children[1].terminate()
            assert made.codes() == {0: ExitCode.PEER_FAILED, 1: ExitCode.STOPPED}, made.logs()
            with pytest.raises(PeerFailedError, match="bank failed: StoppedError: stopped by SIGTERM"):
                communicator.receive(1)
        finally:
            transport.close()


def test_a_batch_that_fails_is_no_success_for_anybody(tmp_path: Path, nursery: Nursery, trained: Path) -> None:
    """Neither where people are missing nor where the predictions cannot be written."""
    with place(tmp_path, nursery) as made:
        take_models(trained, made)
        (made.home(1) / "predictions.csv").symlink_to("/dev/full")
        made.start_all("--predict")
        assert made.codes() == {0: ExitCode.PEER_FAILED, 1: ExitCode.USER, 2: ExitCode.PEER_FAILED}, made.logs()
        (made.home(1) / "predictions.csv").unlink()

        path = made.home(2) / "score.csv"
        path.write_text("\n".join(path.read_text().splitlines()[:-3]) + "\n")
        made.start_all("--predict")
        assert made.codes() == {0: ExitCode.PEER_FAILED, 1: ExitCode.USER, 2: ExitCode.PEER_FAILED}, made.logs()
        assert "some are not found: telecom 3" in made.last_line(1)
        for other in (0, 2):
            assert "bank failed: DataError" in made.last_line(other)
        assert not (made.home(1) / "predictions.csv").exists()


def test_serving(tmp_path: Path, nursery: Nursery, trained: Path) -> None:
    """Coordinator and auxiliary stay; the active participant comes when it has something to score, or leaves early."""
    with place(tmp_path, nursery, network={"deadline": 300.0, "connect_timeout": 300.0}) as made:
        take_models(trained, made)
        made.start(1, "--predict")
        made.wait_for(1, "bank waits for coordinator")
        made.children[1].terminate()
        assert made.children[1].wait(patience(WAIT)) == ExitCode.STOPPED, "it need not wait for anybody"

        made.start(0, "--log-level", "info")
        made.start(2, "--serve")
        answers = []
        for _ in range(2):
            assert made.start(1, "--predict").wait(patience(WAIT)) == 0, made.logs()
            answers.append((made.home(1) / "predictions.csv").read_bytes())
        assert answers[0] == answers[1]
        assert len(pd.read_csv(made.home(1) / "predictions.csv")) == 20
        made.start(1, "--train")  # a session of another kind fails, and is all that fails
        assert made.children[1].wait(patience(WAIT)) == ExitCode.REFUSED, made.logs()
        assert made.start(1, "--predict").wait(patience(WAIT)) == 0, made.logs()
        for role in (0, 2):
            made.wait_for(role, "has finished a session")
            made.wait_for(role, "a session ended early")
            made.children[role].terminate()
        assert made.codes() == {0: ExitCode.STOPPED, 1: 0, 2: ExitCode.STOPPED}
