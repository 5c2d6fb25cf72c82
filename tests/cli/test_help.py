"""What the command line tells of itself: help at once, versions, examples that can be typed, completion."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
from typer.testing import CliRunner

import mpfedxgb
from mpfedxgb.cli.main import COMMANDS, FIRST, make_app
from mpfedxgb.config import PROTOCOLS
from support.commands import Shell, read_words

HEAVY = {
    "numpy",
    "pandas",
    "sklearn",
    "scipy",
    "numba",
    "ssl",
    "cryptography",
    "matplotlib",
    "xgboost",
    "jinja2",
}


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


def run(*words: str, **environment: str) -> tuple[str, set[str]]:
    """Run the command in a process of its own; return what it printed, and the packages that it has loaded."""
    program = (
        "import json, sys\nfrom mpfedxgb.cli import main\nsys.argv = ['mpfedxgb', *sys.argv[1:]]\n"
        "try:\n    main()\nfinally:\n    print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program, *words]
    done = subprocess.run(  # noqa: S603 # our own command
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    return done.stdout, {name.split(".")[0] for name in json.loads(done.stderr.splitlines()[-1])}


def test_help_imports_nothing_heavy() -> None:
    """Help of the whole command lists every command with its line, and shows examples."""
    told, loaded = run("--help")
    assert not loaded & HEAVY
    words = " ".join(told.split())
    for name, command in COMMANDS.items():
        assert f"{name} {command.line}" in words
    for name in FIRST:
        assert f"mpfedxgb {name} {COMMANDS[name].arguments}".strip() in told


def test_version_imports_nothing_heavy() -> None:
    """It tells what a person who helps would ask for."""
    told, loaded = run("--version")
    assert not loaded & HEAVY
    lines = told.splitlines()
    assert lines[0] == f"mpfedxgb {mpfedxgb.__version__}"
    assert lines[1].startswith(f"protocol {', '.join(map(str, PROTOCOLS))} ")
    assert f"Python {sys.version.split()[0]} on" in told
    assert f"numpy {numpy.__version__}," in told
    assert lines[-2].startswith("xgboost 3.")
    assert lines[-1] in ("kernels compiled", "kernels to be compiled by the first training, once")


def test_versions_that_are_not_there(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without xgboost, and without compiled kernels, it says so; numba may keep them elsewhere."""
    monkeypatch.setattr(sys.modules["mpfedxgb.cli.main"], "version_of", lambda name: "")
    monkeypatch.setattr("mpfedxgb.__file__", str(tmp_path / "__init__.py"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    assert shell.run("--version") == 0
    assert "xgboost not installed (needed for to_xgboost and comparisons only)" in shell.out
    assert shell.out.endswith("kernels to be compiled by the first training, once\n")
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "kernels.add-7.py311.nbi").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kept"))
    assert shell.run("--version") == 0
    assert shell.out.endswith("kernels compiled\n")


def test_every_command_has_its_line() -> None:
    """Lines end with a full stop and fit a terminal."""
    for command in COMMANDS.values():
        assert command.line.endswith(".")
        assert len(command.line) < 72


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_can_be_typed(name: str) -> None:
    """Every option of an example is there, and no argument is missing; the command's own help shows it."""
    words = shlex.split(COMMANDS[name].arguments)
    assert read_words(name, words)
    shown = CliRunner().invoke(make_app([name]), [name, "--help"]).output
    assert f"mpfedxgb {name} {COMMANDS[name].arguments}".strip() in shown


@pytest.mark.parametrize(
    ("line", "expected"),
    [("mpfedxgb sim", {"simulate"}), ("mpfedxgb ex", {"export-xgboost", "exit-codes"})],
)
def test_completion_of_commands(line: str, expected: set[str]) -> None:
    """A shell that asks is told the commands that begin so, and nothing is imported for that."""
    told, loaded = run(COMP_WORDS=line, COMP_CWORD="1", _MPFEDXGB_COMPLETE="complete_bash")
    assert set(told.split()) == expected
    assert not loaded & HEAVY


def test_completion_of_options() -> None:
    """Within a command its own options are told, to shells of both kinds."""
    told, _ = run(COMP_WORDS="mpfedxgb importance --", COMP_CWORD="2", _MPFEDXGB_COMPLETE="complete_bash")
    assert set(told.split()) == {"--json", "--help"}
    told, _ = run(_TYPER_COMPLETE_ARGS="mpfedxgb exit-codes --h", _MPFEDXGB_COMPLETE="complete_zsh")
    assert "--help" in told


def test_importance_of_a_file_and_of_a_folder(shell: Shell, tmp_path: Path) -> None:
    """A participant's own features and everybody's number of splits; gains at the active one only."""
    from support.toy_tables import QUICK, halves, labels, people

    X = people()
    model = mpfedxgb.FedXGBClassifier(**QUICK).fit(halves(X), labels(X, "binary"))
    bank, telecom = model.save_model(tmp_path)
    assert shell.run("importance", telecom) == 0
    assert shell.out.startswith("telecom (auxiliary), 3 trees, binary:logistic\n")
    assert "gain" not in shell.out
    assert "age" not in shell.out, "another's column"
    assert shell.run("importance", bank) == 0
    assert "gain" in shell.out.splitlines()[2]
    assert "total_gain" in shell.out
    assert shell.run("importance", tmp_path, "--json") == 0
    told = json.loads(shell.out)
    counts = model.feature_importance()
    assert {n: v["splits"] for n, v in told["telecom"]["features"].items()} == counts["telecom"].to_dict()
    assert told["bank"]["owners"]["telecom"]["splits"] == counts["telecom"].sum()
    assert told["telecom"]["owners"]["bank"] == {"splits": counts["bank"].sum()}
    assert shell.run("importance", tmp_path / "nothing.json") == 2
    assert "cannot read" in shell.err


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--eta", "it is called --learning-rate here"),
        ("--num-boost-round", "it is called --trees here"),
        ("--tree-method", "tree_method is not supported: there is one method"),
        ("--class-weight", "sample_weight="),
        ("--max-dept", "--max-depth"),
    ],
)
def test_options_of_xgboost_get_an_answer(option: str, says: str) -> None:
    """What a parameter is called here, or why there is none; others get the nearest one."""
    told = CliRunner().invoke(make_app(["simulate"]), ["simulate", "t.csv", option, "1"])
    assert told.exit_code == 2
    assert says in " ".join(told.output.split())
