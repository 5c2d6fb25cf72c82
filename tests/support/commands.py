"""The command line as a person uses it: words in, exit code, standard output and standard error out."""

from __future__ import annotations

import signal
import sys

import pytest

from mpfedxgb.cli import main


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
