"""Time limits that only a hang reaches: as they are on a quiet machine, longer on a busy one, never without an end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import patience as module
from patience import MOST, patience, slowdown

TESTS = Path(__file__).parent
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def loaded(monkeypatch: pytest.MonkeyPatch, folder: Path, minute: float, now: str | None) -> None:
    """Let the system tell a load: the mean of a minute, and the processes that can run now."""
    monkeypatch.setattr(os, "getloadavg", lambda: (minute, 99.0, 99.0))
    monkeypatch.setattr(module, "_LOAD", folder / "loadavg")
    if now is not None:
        (folder / "loadavg").write_text(f"{minute} 99.00 99.00 {now}/205 25000\n")


@pytest.mark.parametrize(
    ("minute", "now", "factor"),
    [
        (0.0, "1", 1.0),
        (0.5, "0", 1.0),
        (1.0, "1", 1.0),
        (3.0, "1", 3.0),
        (0.0, "5", 5.0),
        (2.5, "2", 2.5),
        (100.0, "1", MOST),
        (0.0, "1000", MOST),
        (2.0, None, 2.0),
    ],
)
def test_limits_grow_with_those_who_want_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minute: float, now: str | None, factor: float
) -> None:
    """By the load of the last minute or of now per core, at least as they are, at most `MOST` times."""
    loaded(monkeypatch, tmp_path, minute * CORES, now and str(int(now) * CORES))
    assert slowdown() == pytest.approx(factor)
    assert patience(30.0) == pytest.approx(30.0 * factor)


@pytest.mark.parametrize("content", ["", "1.0 1.0", "0.1 0.2 0.3 many/205 1"])
def test_a_system_that_does_not_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    """Limits are as they are where the load is not known."""
    loaded(monkeypatch, tmp_path, 0.0, None)
    (tmp_path / "loadavg").write_text(content)
    monkeypatch.delattr(os, "getloadavg")
    assert slowdown() == 1.0


RUN = [sys.executable, "-m", "pytest", "-q", "-p", "support.hang_timer", "-p", "no:cacheprovider"]
RUN += ["--timeout-method=thread", "-c", os.devnull]
BUSY = """
import os, time
import patience
patience._LOAD = patience.Path(os.devnull)
os.getloadavg = lambda: LOAD.pop(0) if len(LOAD) > 1 else LOAD[0]
def test_it():
    time.sleep({seconds})
"""


def run(folder: Path, limit: float, seconds: float, *loads: float) -> subprocess.CompletedProcess[str]:
    """Run a test that takes some seconds under a limit, on a machine with these loads per core, one after the other."""
    told = [(load * CORES, 0.0, 0.0) for load in loads]
    (folder / "test_it.py").write_text(f"LOAD = {told}\n" + BUSY.format(seconds=seconds))
    places = os.pathsep.join([str(TESTS), str(TESTS.parent / "benchmarks")])
    environment = {**os.environ, "PYTHONPATH": places}
    command = [*RUN, "--timeout", str(limit), str(folder / "test_it.py")]
    return subprocess.run(  # noqa: S603 # this test's own program
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=patience(120), check=False
    )


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    """On a quiet machine after the limit, with the stacks of its threads; on a busy one after some times that."""
    for load in (0.0, 2.0):
        began = time.monotonic()
        done = run(tmp_path, 0.5, 10_000, load)
        assert done.returncode == 1, done.stdout
        assert "Timeout" in done.stdout + done.stderr
        assert "time.sleep(10000)" in done.stdout + done.stderr
        assert time.monotonic() - began > 0.5 * max(1.0, load)


def test_a_test_that_is_slow_on_a_busy_machine_is_not(tmp_path: Path) -> None:
    """Whether the machine was busy when it began, or has become so since."""
    for loads in ((MOST,), (0.0, MOST)):
        done = run(tmp_path, 0.5, 0.8, *loads)
        assert done.returncode == 0, done.stdout + done.stderr
