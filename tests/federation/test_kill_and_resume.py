"""A random role is struck at a random moment and started again: models and predictions equal the undisturbed ones."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from patience import patience
from support.role_processes import BENCHMARKS

RUNS = 4
"""One in each phase."""

SMALL = ["--trees", "3", "--depth", "2", "--rows", "60"]


@pytest.mark.parametrize(
    ("topology", "security", "coordinator", "constrained"),
    [("star", "strict", "", False), ("mesh", "sealed", "", False), ("star", "strict", "retail", True)],
)
def test_killed_roles_go_on_to_the_same_files(
    topology: str, security: str, coordinator: str, constrained: bool
) -> None:
    """As processes over mutual TLS, in training, its last round, scoring and serving; `--runs 200` does more of it."""
    program = [sys.executable, str(BENCHMARKS / "kill_and_resume.py"), "--runs", str(RUNS), "--json", *SMALL]
    program += ["--topology", topology, "--security", security]
    program += ["--coordinator", coordinator] if coordinator else []
    program += ["--constrained"] if constrained else []
    program += ["--connect-timeout", str(patience(4.0)), "--deadline", str(patience(20.0))]
    limit = patience(280)
    done = subprocess.run(program, capture_output=True, text=True, timeout=limit, check=False)  # noqa: S603 # our own
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    wrong = [run for run in report["each"] if not run["equal"]]
    assert not wrong, f"seed {report['seed']}: {wrong}"
    assert (report["runs"], report["equal"], report["hung"], done.returncode) == (RUNS, RUNS, 0, 0)
    assert report["phases"] == dict.fromkeys(("training", "last round", "scoring", "serving"), RUNS // 4)
