"""Ten times a random role is killed at a random moment and started again: ten models equal to the undisturbed one."""

from __future__ import annotations

import json
import subprocess
import sys

from support.role_processes import BENCHMARKS

RUNS = 10
SMALL = ["--trees", "3", "--depth", "2", "--rows", "60", "--deadline", "5"]


def test_killed_roles_resume_to_the_same_model() -> None:
    """By SIGKILL, over real processes and mutual TLS; `benchmarks/kill_and_resume.py --runs 50` does more of it."""
    program = [sys.executable, str(BENCHMARKS / "kill_and_resume.py"), "--runs", str(RUNS), "--json", *SMALL]
    done = subprocess.run(program, capture_output=True, text=True, timeout=400, check=False)  # noqa: S603 # our own
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    wrong = [run for run in report["each"] if not run["equal"]]
    assert not wrong, f"seed {report['seed']}: {wrong}"
    assert (report["runs"], report["equal"], done.returncode) == (RUNS, RUNS, 0)
