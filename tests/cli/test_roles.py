"""`coordinator` and `participant`: what they refuse before anything runs, and what their logs say in the end."""

from __future__ import annotations

import json
import logging
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mpfedxgb.cli import roles as roles_module
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.cli.roles import start_logging
from mpfedxgb.errors import PeerFailedError, SettingsError, StoppedError, own_reason
from mpfedxgb.federation import role as role_module
from mpfedxgb.federation.settings import RoleSettings
from support.commands import Shell
from support.refusals import refused
from support.role_files import Content, full, write


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture
def logger() -> logging.Logger:
    """Return the package's logger, which is put back as it was after every test."""
    return logging.getLogger("mpfedxgb")


def quiet(role: str, **log: object) -> Content:
    """Return a role's settings with another table [log]."""
    return full(role) | {"log": dict(log)}


# Before anything runs


@pytest.mark.parametrize(
    ("role", "words", "said"),
    [
        ("bank", ["coordinator"], "is for bank; run: mpfedxgb participant"),
        ("coordinator", ["participant", "--train"], "is for the coordinator; run: mpfedxgb coordinator"),
        ("bank", ["participant"], "say what to do: one of --train, --accept, --predict"),
        (
            "bank",
            ["participant", "--train", "--predict"],
            "say what to do: one of --train, --accept, --predict",
        ),
        (
            "telecom",
            ["participant", "--serve", "--predict"],
            "say what to do: one of --train, --accept, --predict",
        ),
        ("bank", ["participant", "--serve"], "bank is the active participant, which asks for scores: use --predict"),
        ("bank", ["participant", "--train", "--http", "x"], "--http x is not understood"),
        ("telecom", ["participant", "--serve", "--http", "0"], "[serve] token_file: cannot read"),
        (
            "bank",
            ["participant", "--train", "--log-level", "loud"],
            "--log-level loud is not known; it is one of debug",
        ),
    ],
)
def test_mistakes_on_the_command_line(shell: Shell, tmp_path: Path, role: str, words: list[str], said: str) -> None:
    """Each is one line with the remedy; nothing is written."""
    path = write(tmp_path, quiet(role))
    assert shell.run(words[0], path, *words[1:]) == ExitCode.USER
    assert said in shell.err
    assert len(shell.err.strip().splitlines()) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["role.toml"]


# The last line of the log


def test_the_log_ends_with_the_reason(shell: Shell, tmp_path: Path) -> None:
    """In the file too, in the form that was asked for, and once only."""
    path = write(tmp_path, quiet("bank", file="own.log", json=True))
    assert shell.run("participant", path, "--train") == ExitCode.USER
    assert (tmp_path / "own.log").read_text() == shell.err
    (line,) = shell.err.splitlines()
    found = json.loads(line)
    assert (found["level"], found["logger"]) == ("error", "mpfedxgb.role")
    assert "train.csv" in found["message"]
    assert "Traceback" not in shell.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (StoppedError("stopped by SIGTERM"), ExitCode.STOPPED),
        (PeerFailedError("bank", "no agreement", "HandshakeError"), ExitCode.REFUSED),
        (OSError(28, "No space left on device"), ExitCode.CHECKPOINT),
        (OSError(13, "Permission denied"), ExitCode.USER),
        (MemoryError(), ExitCode.MEMORY),
    ],
)
def test_errors_of_a_run(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ExitCode
) -> None:
    """Whatever ends a role is the last line, for people, with its code."""

    def fail(settings: RoleSettings, once: bool, observer: object) -> None:
        raise error

    monkeypatch.setattr(role_module, "coordinate", fail)
    assert shell.run("coordinator", write(tmp_path, quiet("coordinator"))) == code
    (line,) = shell.err.splitlines()
    assert line.split(maxsplit=3)[2:] == ["ERROR", own_reason(error)]
    assert own_reason(error).startswith(str(error) or "there is not enough memory on this machine; take a larger one")


def test_defects_are_not_hidden(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no error of ours comes out whole, for a report."""

    def fail(settings: RoleSettings, once: bool, observer: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(role_module, "coordinate", fail)
    with pytest.raises(ZeroDivisionError):
        shell.run("coordinator", write(tmp_path, quiet("coordinator")))


# Logs


@pytest.mark.parametrize("text", ["plain", "two\nlines", 'a "quote"', "Grüße", "\x1b[31mred", "{}", "100 %"])
def test_json_lines(text: str, capsys: pytest.CaptureFixture[str], logger: logging.Logger) -> None:
    """Every message is one line of JSON, whatever is in it."""
    start_logging("info", as_json=True)
    logging.getLogger("mpfedxgb.session").warning("%s", text)
    logging.getLogger("mpfedxgb.session").debug("not asked for")
    (line,) = capsys.readouterr().err.splitlines()
    found = json.loads(line)
    assert found.pop("time").endswith("Z")
    assert found == {"level": "warning", "logger": "mpfedxgb.session", "message": text}


def test_starting_again_does_not_double_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], logger: logging.Logger
) -> None:
    """As in a notebook, where it may be called more than once."""
    for _ in range(3):
        start_logging("info", as_json=False, file=tmp_path / "log")
    logging.getLogger("mpfedxgb.role").info("once")
    assert capsys.readouterr().err.count("once") == 1
    assert (tmp_path / "log").read_text().count("once") == 1
    assert all(getattr(handler, "stream", sys.stderr) is not sys.stdout for handler in logger.handlers)


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    """Is a mistake in the settings, named."""
    with refused(SettingsError, "file", "log.file"):
        start_logging("info", as_json=False, file=tmp_path)


def test_plain_lines_have_a_date(capsys: pytest.CaptureFixture[str], logger: logging.Logger) -> None:
    """A role may run for weeks."""
    start_logging("info", as_json=False)
    logging.getLogger("mpfedxgb.role").info("here")
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d INFO    here\n", capsys.readouterr().err)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_a_full_disk_for_the_log(capsys: pytest.CaptureFixture[str], logger: logging.Logger) -> None:
    """Is said once, without a traceback; standard error has every line all the same."""
    start_logging("info", as_json=True, file=Path("/dev/full"))
    for number in range(20):
        logging.getLogger("mpfedxgb.role").info("line %d", number)
    said = capsys.readouterr().err
    start_logging("info", as_json=False)
    assert "Traceback" not in said
    assert said.count("cannot write the log /dev/full: No space left on device; lines are lost") == 1
    assert len(said.splitlines()) == 21


def test_a_log_that_is_rotated(tmp_path: Path, capsys: pytest.CaptureFixture[str], logger: logging.Logger) -> None:
    """After a rename lines go to a new file of the old name; without its folder they are lost, and nothing else is."""
    path = tmp_path / "logs" / "own.log"
    path.parent.mkdir()
    start_logging("info", as_json=False, file=path)
    say = logging.getLogger("mpfedxgb.role").info
    say("before")
    path.rename(path.with_suffix(".1"))
    say("after")
    assert "before" in path.with_suffix(".1").read_text()
    assert path.read_text().split()[-1] == "after"
    shutil.rmtree(path.parent)
    say("without a folder")
    assert "cannot write the log" in capsys.readouterr().err
    path.parent.mkdir()
    say("again")
    assert path.read_text().split()[-1] == "again"
    start_logging("info", as_json=False)


class Signalling:
    """A standard output; while it is written to, somebody stops the role."""

    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> None:
        """Take a text."""
        signal.raise_signal(signal.SIGTERM)
        self.text += text

    def flush(self) -> None:
        """Take nothing."""


def test_a_stop_after_the_work_is_done(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changes nothing: the model is there, and the role ends with 0."""
    content = quiet("telecom")
    monkeypatch.setattr(role_module, "load_model", lambda settings: SimpleNamespace(features=()))
    monkeypatch.setattr(roles_module, "read_rows", lambda *_: None)
    monkeypatch.setattr(role_module, "serve_rows", lambda *_, once, observer: None)
    out = Signalling()
    monkeypatch.setattr(sys, "stdout", out)
    assert shell.run("participant", write(tmp_path, content), "--predict") == 0
    assert "the scoring session has ended" in out.text


def test_a_stop_while_the_process_ends() -> None:
    """Comes too late to change the exit code."""
    program = (
        "import atexit, signal; from mpfedxgb.cli.roles import log_failure_and_exit\n"
        "atexit.register(signal.raise_signal, signal.SIGTERM)\n"
        "with log_failure_and_exit(): pass"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=120, check=False).returncode == 0  # noqa: S603


def test_a_stop_is_not_lost_in_a_log(monkeypatch: pytest.MonkeyPatch, logger: logging.Logger) -> None:
    """A signal may come while a line is written; logging takes any other error for its own trouble."""
    start_logging("info", as_json=True)

    class Interrupted:
        def write(self, text: str) -> None:
            raise StoppedError("stopped by SIGTERM")

        def flush(self) -> None:
            pass

    (handler,) = logger.handlers
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(Interrupted())
    with pytest.raises(StoppedError):
        logging.getLogger("mpfedxgb.session").info("boosting round 3 is done")
    handler.setStream(sys.stderr)
