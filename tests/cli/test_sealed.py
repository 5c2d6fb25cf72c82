"""`--security sealed` on the command line: simulate, plan, doctor, demo, and what a shell completes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.entries import Entry
from support.commands import SUBCOMMANDS, Shell

SMALL = ("--label", "y", "--trees", 6, "--max-depth", 2, "--max-bin", 6, "--security", "sealed")


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Return a file of numbers and a label that follows them."""
    frame = pd.DataFrame(np.random.default_rng(3).normal(size=(120, 4)).round(3)).add_prefix("x")
    path = tmp_path / "table.csv"
    frame.assign(y=(frame.sum(axis=1) > 0).astype(int)).to_csv(path, index=False)
    return path


def test_simulate(shell: Shell, table: Path, tmp_path: Path) -> None:
    """From a table to models, with a score of rows that were kept back, and stopping early by them."""
    out = tmp_path / "models"
    assert shell.run("simulate", table, *SMALL, "--out", out, "--holdout", 0.2) == 0
    assert NO_METRIC in shell.out
    assert "score: " in shell.out
    assert json.loads((out / "run.json").read_text())["note"] == NO_METRIC
    assert shell.run("simulate", table, *SMALL, "--out", out, "--holdout", 0.2, "--early-stopping-rounds", 1) == 0
    kept = json.loads((out / "run.json").read_text())
    names = {entry["name"] for entry in kept["ledger"]}
    assert Entry.EVALUATION_MARGINS in names
    assert Entry.LEAF_MEMBERSHIP not in names
    judged = len(kept["metrics"]["validation_0"]["logloss"])
    assert f"best boosting round: {kept['trees']} of {judged}; the model predicts" in shell.out
    assert NO_METRIC not in shell.out
    assert shell.run("show", out) == 0
    assert "leaf shared among all" in shell.out
    assert "leaf +" not in shell.out
    assert shell.run("importance", out) == 0
    assert "gain" not in shell.out
    assert shell.run("predict", out, table, "--drop", "y", "--out", tmp_path / "scores.csv") == 0
    for command, name in (("join", "whole.json"), ("export-xgboost", "model.json")):
        assert shell.run(command, out, "--out", tmp_path / name) == 0
    root = json.loads((tmp_path / "whole.json").read_text())["trees"][0]["root"]
    assert root["gain"] is None


def test_a_file_to_evaluate_on_that_is_trained_on(shell: Shell, table: Path, tmp_path: Path) -> None:
    """The training file itself is refused, and so is a part of it in another order."""
    part = tmp_path / "part.csv"
    pd.read_csv(table).sample(40, random_state=1).to_csv(part, index=False)
    for path, rows in ((table, 120), (part, 40)):
        assert shell.run("simulate", table, *SMALL, "--out", tmp_path / "o", "--evaluate", path) == ExitCode.USER
        assert f"{rows} of {rows} rows are training rows" in shell.err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--objective", "reg:absoluteerror"), "'reg:absoluteerror' is not covered by security='sealed'"),
        (("--reg-lambda", 0), "reg_lambda=0.0 does not go with security='sealed'"),
    ],
)
def test_what_simulate_refuses(
    shell: Shell, table: Path, tmp_path: Path, options: tuple[object, ...], told: str
) -> None:
    """In the words of the estimators."""
    assert shell.run("simulate", table, *SMALL, "--out", tmp_path / "o", *options) == ExitCode.USER
    assert told in shell.err


def test_plan(shell: Shell, table: Path) -> None:
    """From sizes and from a table, beside what strict costs; other modes are refused."""
    sizes = ("plan", "--rows", 500, "--columns", 8, "--bins", 6, "--trees", 3)
    assert shell.run(*sizes, "--security", "sealed", "--json") == 0
    told = json.loads(shell.out)
    assert shell.run(*sizes, "--json") == 0
    strict = json.loads(shell.out)
    assert (told["security"], strict["security"], strict["strict"]) == ("sealed", "strict", None)
    assert told["strict"]["rounds"] == strict["rounds"] < told["rounds"]
    assert told["strict"]["bytes_sent"] == strict["bytes_sent"]
    assert shell.run("plan", "--table", table, "--label", "y", "--trees", 2, "--security", "sealed") == 0
    assert 'with security="sealed"; "strict" takes ' in shell.out
    for security in ("none", "paper", "seald"):
        assert shell.run(*sizes, "--security", security) == ExitCode.USER
        assert f"--security {security} is not for a plan; it is one of strict, sealed" in shell.err


def test_doctor_and_settings(shell: Shell, tmp_path: Path) -> None:
    """`init` writes and explains it; doctor finds training rows among those to evaluate on, and counts them."""
    assert shell.run("init", tmp_path / "a", "--participants", "x,y", "--security", "paper") == ExitCode.USER
    assert "one of strict, sealed" in shell.err
    folder = tmp_path / "fed"
    assert shell.run("init", folder, "--participants", "bank,telecom", "--security", "sealed") == 0
    for path in folder.glob("*/*.toml"):
        assert RoleSettings.from_toml(path).training.facts.hides_rows
    settings = folder / "bank" / "bank.toml"
    (line,) = (line for line in settings.read_text().splitlines() if line.startswith("security"))
    assert '"sealed" shows nobody anything of a training row' in line
    shell.run("doctor", settings)
    assert "training rows" not in shell.out
    train, evaluate = (pd.read_csv(settings.parent / f"{name}.csv") for name in ("train", "evaluate"))
    pd.concat([evaluate, train[:4]]).to_csv(settings.parent / "evaluate.csv", index=False)
    assert shell.run("doctor", settings) != 0
    assert f"4 of {len(evaluate) + 4} evaluation rows are training rows" in shell.out
    assert _level(shell.out) == "problem"
    settings.write_text(settings.read_text().replace("# align = false", "align = true"))
    shell.run("doctor", settings)
    assert _level(shell.out) == "warning", "the rows may not be in common"
    settings.write_text(settings.read_text().replace('"binary:logistic"', '"reg:pseudohubererror"'))
    shell.run("doctor", settings)
    assert "is not covered by security='sealed'" in shell.out


def _level(page: str) -> str:
    """Return how bad doctor finds training rows among those to evaluate on."""
    (line,) = (line for line in page.splitlines() if "evaluation rows are training rows" in line)
    return line.split()[0]


def test_demo_knows_two(shell: Shell) -> None:
    """It compares with xgboost, so the paper's way and none are nothing for it."""
    assert shell.run("demo", "--security", "paper") == ExitCode.USER
    assert "one of strict, sealed" in shell.err


@pytest.mark.parametrize(
    ("command", "known"),
    [
        ("simulate", ["strict", "sealed", "paper", "none"]),
        ("plan", ["strict", "sealed"]),
        ("demo", ["strict", "sealed"]),
        ("init", ["strict", "sealed"]),
    ],
)
def test_completion(command: str, known: list[str]) -> None:
    """A shell is told the values."""
    context = SUBCOMMANDS[command].make_context(command, [], resilient_parsing=True)
    (option,) = (option for option in context.command.params if option.name == "security")
    for begun in ("", "se"):
        told = [item.value for item in option.shell_complete(context, begun)]
        assert told == [name for name in known if name.startswith(begun)]
