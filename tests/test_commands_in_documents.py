"""Commands that documents show: they parse, their scripts are there, and the quickstart's print what is shown."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from patience import patience
from support.commands import Shell, read_words
from test_readme import DOCUMENTS, ROOT, named

_CONSOLE = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TOOLS = {"mpfedxgb", ".venv/bin/mpfedxgb"}
QUICKSTART = ROOT / "docs" / "quickstart.md"


def commands_of(document: Path) -> list[list[str]]:
    """Return the lines of a document's console blocks as words, continued lines joined and remarks left out."""
    text = "".join(_CONSOLE.findall(document.read_text())).replace("\\\n", " ")
    lines = [re.sub(r"\s+# .*", "", line) for line in text.splitlines()]
    return [shlex.split(line) for line in lines if re.match(r"(\.venv/bin/)?(mpfedxgb|python) ", line)]


@pytest.mark.parametrize("document", [d for d in DOCUMENTS if commands_of(d)], ids=named)
def test_commands_parse(document: Path) -> None:
    """Sub-commands and options of `mpfedxgb` exist and are complete; scripts exist and know the options shown."""
    for first, *words in commands_of(document):
        if first in _TOOLS:
            name, *rest = words
            assert read_words(name, rest)[1], words
        elif words[0].endswith(".py"):
            end = words.index("--") if "--" in words else len(words)
            assert_knows_options(ROOT / words[0], words[1:end])
            if words[end + 1 :]:  # a script that is handed to another one
                assert_knows_options((ROOT / words[0]).parent / words[end + 1], words[end + 2 :])


def assert_knows_options(script: Path, words: list[str]) -> None:
    """Assert that a script exists and that its source names every option among the words."""
    source = script.read_text()
    for option in (word.removeprefix("--") for word in words if word.startswith("--")):
        assert re.search(rf'"(--)?{option}"', source), (script.name, option)


def blocks_of_quickstart() -> list[str]:
    """Return the blocks that one after the other make a table, models and scores."""
    return [block for block in _CONSOLE.findall(QUICKSTART.read_text()) if block.startswith(".venv/bin/")]


def test_the_quickstart_prints_what_it_shows(tmp_path: Path) -> None:
    """Every command of the walk from a table to scores runs, and prints the lines below it, in their order."""
    blocks = blocks_of_quickstart()
    assert len(blocks) >= 4
    for block in blocks:
        printed: list[str] = []
        for line in block.splitlines():
            if line.startswith((".venv/bin/", "head ")):
                printed = run(line, tmp_path)
            elif line.strip() and line != "...":
                assert line in printed, line
                printed = printed[printed.index(line) + 1 :]


def run(line: str, folder: Path) -> list[str]:
    """Run a command of the quickstart with this installation, and return what it prints, line by line."""
    words = shlex.split(line)
    if words[0].startswith(".venv/bin/"):
        module = ["-m", "mpfedxgb"] if words[0].endswith("mpfedxgb") else []
        words = [sys.executable, *module, *words[1:]]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=patience(240), check=False)  # noqa: S603 # ours
    assert done.returncode == 0, done.stderr
    return [shown.rstrip() for shown in done.stdout.splitlines()]


def test_plans_from_sizes_alone_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """What documents plan without a table is planned."""
    shown = {tuple(words) for document in DOCUMENTS for words in commands_of(document)}
    plans = sorted(words for words in shown if words[1] == "plan" and "--rows" in words)
    assert len(plans) >= 3
    shell = Shell(monkeypatch, capsys)
    for words in plans:
        assert shell.run(*words[1:]) == 0, shell.err
        assert "rounds" in shell.out, words
