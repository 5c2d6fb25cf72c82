"""Exit codes: one for every kind of trouble, one help text each, and a page that says the same as the program."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mpfedxgb.cli.exit_codes import HELP, ExitCode, exit_code
from mpfedxgb.errors import (
    AlienFrameError,
    CheckpointError,
    DataError,
    HandshakeError,
    KeyReuseError,
    OutOfStepError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    SettingsError,
    StoppedError,
    kind_of,
    public_reason,
)
from support.commands import Shell

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"


def table_of_the_page() -> dict[int, str]:
    """Return codes and meanings from the section on exit codes."""
    section = PAGE.read_text(encoding="utf-8").partition("\n## Exit codes\n")[2].partition("\n## ")[0]
    return {int(code): text for code, text in re.findall(r"^\| (\d+) \| (.+) \|$", section, re.MULTILINE)}


def test_the_page_says_what_the_program_says() -> None:
    """docs/operations.md lists every code with the very text of the program, in its order."""
    assert list(table_of_the_page().items()) == [(int(code), text) for code, text in HELP.items()]


def test_the_command_prints_them_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """`mpfedxgb exit-codes` prints every code beside its text."""
    shell = Shell(monkeypatch, capsys)

    assert shell.run("exit-codes") == 0

    printed = [line.split(maxsplit=1) for line in shell.out.splitlines()]
    assert [(int(code), text) for code, text in printed] == [(int(code), text) for code, text in HELP.items()]


def test_every_code_has_a_help_text() -> None:
    """A new code without a word of help is noticed here."""
    assert set(HELP) == set(ExitCode)
    assert all(text.endswith(".") for text in HELP.values())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SettingsError("x"), ExitCode.USER),
        (DataError("x"), ExitCode.USER),
        (FileNotFoundError("x"), ExitCode.USER),
        (PeerTimeoutError("x"), ExitCode.PEER_LOST),
        (PeerFinishedError("x"), ExitCode.PEER_LOST),
        (HandshakeError("x"), ExitCode.REFUSED),
        (PeerFailedError("bank", "HandshakeError: a table cannot be used", "DataError"), ExitCode.PEER_FAILED),
        (AlienFrameError("x"), ExitCode.GARBLED),
        (OutOfStepError("x"), ExitCode.GARBLED),
        (CheckpointError("x"), ExitCode.CHECKPOINT),
        (StoppedError("x"), ExitCode.STOPPED),
        (MemoryError(), ExitCode.MEMORY),
        (KeyReuseError("x"), ExitCode.UNEXPECTED),
        (ZeroDivisionError("x"), ExitCode.UNEXPECTED),
    ],
    ids=lambda value: value.name if isinstance(value, ExitCode) else type(value).__name__,
)
def test_every_kind_of_trouble_has_its_code(error: Exception, code: ExitCode) -> None:
    """The code says who has to do something: this role's user, another role, or the authors."""
    assert exit_code(error) == code


@pytest.mark.parametrize(
    ("origin", "code"),
    [
        (PeerTimeoutError("telecom sent nothing"), ExitCode.PEER_LOST),
        (HandshakeError("not the same parameters"), ExitCode.REFUSED),
        (AlienFrameError("another session"), ExitCode.GARBLED),
        (CheckpointError("disk full"), ExitCode.PEER_FAILED),
        (DataError("a value"), ExitCode.PEER_FAILED),
        (MemoryError("8 EiB"), ExitCode.PEER_FAILED),
        (StoppedError("stopped by SIGTERM"), ExitCode.PEER_FAILED),
        (ValueError("PeerTimeoutError: not ours"), ExitCode.PEER_FAILED),
    ],
    ids=lambda value: value.name if isinstance(value, ExitCode) else type(value).__name__,
)
def test_who_is_told_of_a_trouble_between_roles_ends_alike(origin: Exception, code: ExitCode) -> None:
    """Trouble between two roles has one code at all; a role that failed on its own is code 5 for the others."""
    passed_on = PeerFailedError("bank", f"{public_reason(origin)} at step 3 (align)", kind_of(origin))

    assert exit_code(passed_on) == code
