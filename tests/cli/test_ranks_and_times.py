"""`simulate --qid` and `--upper`: columns that some objectives take beside the label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from mpfedxgb.cli.main import make_app

RNG = np.random.default_rng(2)
TABLE = pd.DataFrame(RNG.normal(size=(60, 4)).round(1), columns=["age", "income", "calls", "visits"])
TABLE = TABLE.assign(
    query=[f"q{one}" for one in RNG.integers(0, 6, 60)],
    grade=RNG.integers(0, 4, 60),
    seen=np.abs(TABLE["calls"]) + 0.1,
    last=np.where(RNG.random(60) < 0.3, np.inf, np.abs(TABLE["calls"]) + 0.1),
)
QUICK = ["--trees", "2", "--max-depth", "2", "--max-bin", "8", "--security", "none"]
RANKS = ["--label", "grade", "--qid", "query", "--drop", "seen,last", "--objective", "rank:ndcg"]
TIMES = ["--label", "seen", "--upper", "last", "--drop", "query,grade", "--objective", "survival:aft"]


def simulate(folder: Path, *words: str) -> Any:
    """Run the command on the table, and return what it ended with."""
    TABLE.to_csv(folder / "table.csv", index=False)
    return CliRunner().invoke(make_app(["simulate"]), ["simulate", str(folder / "table.csv"), "--out", str(folder / "out"), *words])


@pytest.mark.parametrize(("words", "metric"), [(RANKS, "ndcg@32"), (TIMES, "aft-nloglik")], ids=["ranks", "times"])
@pytest.mark.parametrize("more", [[], ["--holdout", "0.3", "--early-stopping-rounds", "2"]], ids=["", "holdout"])
def test_models_are_trained_and_judged(words: list[str], metric: str, more: list[str], tmp_path: Path) -> None:
    """By the objective's own metric; the column is no feature."""
    done = simulate(tmp_path, *words, *QUICK, *more)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert np.isfinite(record["score"][metric])
    assert "columns: 4 of numbers" in done.output


@pytest.mark.parametrize(("words", "metric"), [(RANKS, "ndcg@32"), (TIMES, "aft-nloglik")], ids=["ranks", "times"])
def test_alone_or_together(words: list[str], metric: str, tmp_path: Path) -> None:
    """Fold by fold, groups together."""
    done = simulate(tmp_path, *words, *QUICK, "--uplift")
    assert done.exit_code == 0, done.output
    assert metric in json.loads((tmp_path / "out" / "uplift.json").read_text())["metrics"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*RANKS[:2], *RANKS[4:]], "rank:ndcg needs --qid"),
        ([*TIMES[:2], *TIMES[4:]], "survival:aft needs --upper"),
        ([*RANKS[:-1], "reg:squarederror"], "--qid query does not go with reg:squarederror"),
        ([*RANKS[:3], "quary", *RANKS[4:]], "no column 'quary'"),
    ],
    ids=["no groups", "no bounds", "groups for nothing", "unknown column"],
)
def test_mistakes(words: list[str], said: str, tmp_path: Path) -> None:
    """In a line."""
    done = simulate(tmp_path, *words, *QUICK)
    assert done.exit_code != 0
    assert said in f"{done.output} {done.exception}"
