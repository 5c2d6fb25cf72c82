"""`mpfedxgb plan`: what a training will cost, from settings, a table or sizes; and simulations without room."""

from __future__ import annotations

import json
import re
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.cli.exit_codes import ExitCode
from patience import patience
from support.commands import Shell


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


def frame(rows: int = 150, columns: int = 6) -> pd.DataFrame:
    """Return numbers, and a label of two classes that follows them."""
    numbers = pd.DataFrame(np.random.default_rng(3).normal(size=(rows, columns))).add_prefix("x")
    return numbers.assign(y=(numbers.sum(axis=1) > 0).astype(int))


def test_options_that_would_change_nothing(shell: Shell, tmp_path: Path) -> None:
    """They are refused, and the message says where it is decided instead."""
    table, settings = tmp_path / "all.csv", tmp_path / "fed" / "bank" / "bank.toml"
    frame().to_csv(table, index=False)
    assert shell.run("init", tmp_path / "fed", "--participants", "bank,telecom") == 0
    for words, told in (
        ((settings, "--security", "strict"), f"--security goes with --table or sizes; here {settings} says it"),
        ((settings, "--trees", 3), f"--trees goes with --table or sizes; here {settings} says it"),
        (("--table", table, "--label", "y", "--rows", 5), f"--rows goes with sizes; {table} says it by itself"),
        (("--table", table, "--label", "y", "--classes", 3), f"--classes goes with sizes; {table} says it by itself"),
        (("--rows", 5, "--columns", 4, "--label", "y"), "--label goes with --table; name the table too"),
    ):
        assert shell.run("plan", *words) == ExitCode.USER
        assert told in shell.err
    assert shell.run("plan", settings, "--columns", "9,4", "--json") == 0


def test_from_sizes(shell: Shell) -> None:
    """A million rows are planned from numbers alone, as a page and as JSON that says the same."""
    asked = (
        "plan",
        "--rows",
        1_000_000,
        "--columns",
        28,
        "--participants",
        4,
        "--depth",
        5,
        "--trees",
        2,
        "--link",
        "wan",
    )
    assert shell.run(*asked) == 0
    page = shell.out
    assert shell.run(*asked, "--json") == 0
    told = json.loads(shell.out)

    assert f"{told['rounds']} message rounds, {told['hops']} hops" in page
    assert told["candidate_columns"] == {"P1": 217, "P2": 217, "P3": 217, "P4": 217}
    assert told["setup_bytes_sent"]["P2"] >= 8 * 217 * 1_000_000
    assert told["memory"]["P1"] > 8 * 651 * 1_000_000
    assert told["seconds"] > told["hops"] * 0.02
    assert told["room"]


def test_in_a_mesh(shell: Shell) -> None:
    """The other topology takes fewer hops, and nobody has to send what P_1 does in a star."""
    sizes = ("plan", "--rows", 9000, "--columns", 12, "--participants", 4, "--trees", 3, "--link", "wan", "--json")
    told = {}
    for topology in ("star", "mesh"):
        assert shell.run(*sizes, "--topology", topology) == 0
        told[topology] = json.loads(shell.out)

    assert told["mesh"]["hops"] < told["star"]["hops"]
    assert max(told["mesh"]["bytes_sent"].values()) < max(told["star"]["bytes_sent"].values())
    assert told["mesh"]["topology"] == "mesh"


def test_from_a_table(shell: Shell, tmp_path: Path) -> None:
    """The forecast of a table is that of the estimator, and the run of full trees then equals it."""
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    options: dict[str, Any] = {"n_estimators": 2, "max_depth": 2, "max_bin": 8, "min_child_weight": 0.0}
    words = ("--trees", 2, "--depth", 2, "--bins", 8, "--min-child-weight", 0)
    assert shell.run("plan", "--table", tmp_path / "t.csv", "--label", "y", "--participants", 3, *words, "--json") == 0
    told = json.loads(shell.out)
    model = FedXGBClassifier(participants=3, **options)
    before = dict(vars(model))
    forecast = model.forecast(table.drop(columns="y"), table["y"])

    assert vars(model) == before
    assert forecast.seconds is not None
    run = model.fit(table.drop(columns="y"), table["y"]).run_
    assert (told["rounds"], told["dealer_bytes"]) == (forecast.rounds, forecast.dealer_bytes)
    assert (run.rounds, run.dealer_bytes) == (forecast.rounds, forecast.dealer_bytes)
    assert run.forecast is not None
    assert run.forecast.rounds == run.rounds
    assert run.to_dict()["forecast"]["bytes_sent"].keys() == run.to_dict()["bytes_sent"].keys()
    assert run.forecast.summary in str(run)


@pytest.mark.parametrize("security", ["strict", "sealed"])
@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("--constrained",), {"monotone_constraints": {"x4": -1}}),
        (("--reg-alpha", 0.2), {"reg_alpha": 0.2}),
        (("--max-delta-step", 0.7), {"max_delta_step": 0.7}),
        (("--constrained", "--reg-alpha", 0.2), {"monotone_constraints": {"x4": -1}, "reg_alpha": 0.2}),
    ],
    ids=["constrained", "L1", "clipped", "both"],
)
def test_bounded_weights(
    shell: Shell, tmp_path: Path, words: tuple[object, ...], options: dict[str, Any], security: str
) -> None:
    """From a table and from its sizes the forecast is what a run of full trees counts, whichever column is held."""
    table = frame()
    table.to_csv(tmp_path / "t.csv", index=False)
    asked = ("--trees", 2, "--depth", 2, "--bins", 8, "--min-child-weight", 0, "--security", security, *words, "--json")
    assert shell.run("plan", "--table", tmp_path / "t.csv", "--label", "y", "--participants", 3, *asked) == 0
    of_table = json.loads(shell.out)
    assert shell.run("plan", "--rows", 150, "--columns", 6, "--participants", 3, *asked) == 0
    of_sizes = json.loads(shell.out)
    model = FedXGBClassifier(
        participants=3, n_estimators=2, max_depth=2, max_bin=8, min_child_weight=0.0, security=security, **options
    )
    run = model.fit(table.drop(columns="y"), table["y"]).run_

    assert all(len(tree) == 7 for tree in join(model.partial_models_).trees), "the trees are not full"
    for told in (of_table, of_sizes):
        assert (told["rounds"], told["dealer_bytes"]) == (run.rounds, run.dealer_bytes)
        assert sum(told["bytes_sent"].values()) == sum(counts.bytes_sent for counts in run.roles.values())
        assert told["memory"] == of_table["memory"]
    assert (
        shell.run("plan", "--rows", 150, "--columns", 6, "--participants", 3, *asked, "--reg-alpha", 0, "--json") == 0
    )
    unpenalised = json.loads(shell.out)
    assert (unpenalised["rounds"] < of_sizes["rounds"]) == ("reg_alpha" in options)


def test_directions_need_a_column_of_numbers(shell: Shell, tmp_path: Path) -> None:
    """A table of words alone has no column that could have one."""
    table = pd.DataFrame({"a": list("xyz") * 20, "b": list("uvw") * 20, "y": [0, 1, 1] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    assert shell.run("plan", "--table", tmp_path / "t.csv", "--label", "y", "--constrained") == ExitCode.USER
    assert "--constrained needs a column of numbers" in shell.err


def test_evaluation_rows_and_numbers() -> None:
    """A regressor's forecast counts the rows that ride along."""
    table = frame()
    X, y = table[["x0", "x1", "x2"]], table["x3"]
    told = FedXGBRegressor(n_estimators=2, max_bin=8).forecast(X, y, eval_set=[(X[:30], y[:30]), (X[:7], y[:7])])

    assert (told.sizes.rows, told.sizes.eval_rows) == (150, 37)
    assert told.params.objective == "reg:squarederror"


def test_from_settings(shell: Shell, tmp_path: Path) -> None:
    """A role's own table is counted, the others are assumed to bring as much, or what is said of them."""
    assert shell.run("init", tmp_path / "fed", "--participants", "bank,telecom") == 0
    settings = next((tmp_path / "fed" / "bank").glob("*.toml"))
    assert shell.run("plan", settings, "--json") == 0
    told = json.loads(shell.out)
    assert told["candidate_columns"]["bank"] == told["candidate_columns"]["telecom"]
    assert "assumed" in shell.err
    assert shell.run("plan", settings, "--candidates", "1,7", "--json") == 0
    assert json.loads(shell.out)["candidate_columns"] == {"bank": told["candidate_columns"]["bank"], "telecom": 7}
    assert told["disk"]["bank"] > 0
    assert told["room"] == "this machine has room for bank"
    coordinator = next((tmp_path / "fed" / "coordinator").glob("*.toml"))
    assert shell.run("plan", coordinator) == ExitCode.USER
    assert "--rows" in shell.err
    assert shell.run("plan", coordinator, "--rows", 50, "--columns", "3,4") == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "say what to plan"),
        (("--rows", 10), "say what to plan"),
        (("--rows", 0, "--columns", 3), "count rows"),
        (("--rows", 10, "--columns", "a"), "--columns a is not understood"),
        (("--rows", 10, "--columns", "1,2,3"), "give 2 whole numbers"),
        (("--rows", 10, "--candidates", "-1,2"), "give 2 whole numbers"),
        (("--rows", 10, "--columns", 4, "--participants", "0.5,0.5"), "needs a --table"),
        (("--rows", 10, "--columns", 4, "--participants", 1), "2 to 255 participants"),
        (("--rows", 10, "--columns", 4, "--depth", 99), "max_depth=99"),
        (("--rows", 10, "--columns", 4, "--link", "moon"), "link='moon'"),
        (("--rows", 10, "--columns", 4, "--topology", "ring"), "topology='ring'"),
        (("--table", "t.csv"), "--label"),
        (("a.toml", "--table", "t.csv"), "not both"),
    ],
)
def test_what_cannot_be_planned(shell: Shell, words: tuple[object, ...], told: str) -> None:
    """Every mistake has its line, with the remedy, and the exit code of a mistake."""
    assert shell.run("plan", *words) == ExitCode.USER
    assert told in shell.err


def test_the_help_has_examples(shell: Shell) -> None:
    """All three ways to ask are shown."""
    assert shell.run("plan", "--help") == 0
    assert all(f"mpfedxgb plan {how}" in shell.out for how in ("bank.toml", "--table", "--rows"))


def test_a_simulation_without_room_ends_before_it_begins(tmp_path: Path) -> None:
    """Under a limit that E would break: exit code 9, figures and remedies, no traceback, no file."""
    frame(20_000, 4).to_parquet(tmp_path / "t.parquet")
    limit, out = 4 << 30, tmp_path / "out"
    words = ["simulate", tmp_path / "t.parquet", "--label", "y", "--out", out, "--max-bin", 16_384, "--trees", 1]

    ended = subprocess.run(  # noqa: S603 # our own command
        [sys.executable, "-m", "mpfedxgb", *map(str, words)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        capture_output=True,
        text=True,
        timeout=patience(200),
        check=False,
    )

    assert ended.returncode == ExitCode.MEMORY, ended.stderr
    assert "a simulation would need" in ended.stderr
    assert re.search(r"need \d+\.\d+ GB of memory for 20000 rows and \d{5} candidate columns", ended.stderr)
    assert "lower max_bin, of which" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert not out.exists()
