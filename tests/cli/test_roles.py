"""`coordinator` and `participant`: what they refuse before anything runs, and what their logs say in the end."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path

import pytest

from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.cli.logs import start_logging
from mpfedxgb.errors import PeerFailedError, SettingsError, StoppedError, own_reason
from mpfedxgb.federation import role as role_module
from mpfedxgb.federation.settings import RoleSettings
from support.commands import Shell
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
        ("bank", ["participant"], "say what to do: one of --train, --predict and --serve"),
        ("bank", ["participant", "--train", "--predict"], "say what to do: one of --train, --predict and --serve"),
        ("telecom", ["participant", "--serve", "--predict"], "say what to do: one of --train, --predict and --serve"),
        ("bank", ["participant", "--serve"], "bank is the active participant, which asks for scores: use --predict"),
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
        (OSError(28, "No space left on device"), ExitCode.USER),
        (MemoryError(), ExitCode.MEMORY),
    ],
)
def test_errors_of_a_run(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: ExitCode
) -> None:
    """Whatever ends a role is the last line, for people, with its code."""

    def fail(settings: RoleSettings, once: bool) -> None:
        raise error

    monkeypatch.setattr(role_module, "coordinate", fail)
    assert shell.run("coordinator", write(tmp_path, quiet("coordinator"))) == code
    (line,) = shell.err.splitlines()
    assert line.split(maxsplit=2)[1:] == ["ERROR", own_reason(error)]
    assert own_reason(error).startswith(str(error) or "there is not enough memory on this machine; take a larger one")


def test_defects_are_not_hidden(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no error of ours comes out whole, for a report."""

    def fail(settings: RoleSettings, once: bool) -> None:
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
    with pytest.raises(SettingsError, match=r"cannot write the log .*: Is a directory; correct \[log\] file"):
        start_logging("info", as_json=False, file=tmp_path)


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
        logging.getLogger("mpfedxgb.session").info("round 3 is done")
    handler.setStream(sys.stderr)
