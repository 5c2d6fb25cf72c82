"""The command line as a person uses it: words in, exit code, standard output and standard error out."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import typer.main

from mpfedxgb.cli import main
from mpfedxgb.cli.main import COMMANDS, make_app

SUBCOMMANDS: Any = typer.main.get_command(make_app(list(COMMANDS))).commands  # type: ignore[attr-defined] # of a group


def read_words(name: str, words: Sequence[str]) -> Any:
    """Return a sub-command and what it makes of words without running; of a group, the command that they name."""
    command, rest = SUBCOMMANDS[name], list(words)
    while hasattr(command, "commands"):
        name, *rest = rest
        command = command.commands[name]
    return command, command.make_context(name, rest).params


class Shell:
    """Runs commands through `main`, as the installed script does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.monkeypatch, self.capsys = monkeypatch, capsys
        self.out = self.err = ""

    def run(self, *words: object) -> int:
        """Run one command; return its exit code and keep what it printed."""
        self.monkeypatch.setattr(sys, "argv", ["mpfedxgb", *map(str, words)])
        code = 0
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            main()
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        finally:  # a role whose work is done ignores what would stop it, to the end of its process
            for number, handler in before.items():
                signal.signal(number, handler)
        self.out, self.err = self.capsys.readouterr()
        return code
