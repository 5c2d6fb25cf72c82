"""The command line as a person uses it: words in, exit code, standard output and standard error out."""

from __future__ import annotations

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
        try:
            main()
        except SystemExit as leave:
            code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
        self.out, self.err = self.capsys.readouterr()
        return code
