"""The peak of anonymous memory is that of what a process takes for itself, not of files that it has mapped."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from mpfedxgb.report import memory
from mpfedxgb.report.memory import PeakMemory, anonymous_memory
from patience import patience

SIZE = 60_000_000


def wait_for(watch: PeakMemory, octets: int) -> bool:
    """Return whether a peak is seen; a busy machine may take its time."""
    end = time.monotonic() + patience(30)
    while watch.peak < octets and time.monotonic() < end:
        time.sleep(0.01)
    return watch.peak >= octets


def test_a_peak_is_seen_though_it_is_over() -> None:
    """What was taken and given back counts, and stays the peak."""
    with PeakMemory() as watch:
        taken = np.ones(SIZE, np.uint8)
        assert wait_for(watch, watch.before + SIZE * 9 // 10)
        del taken
    assert watch.stop() == watch.peak
    assert anonymous_memory() < watch.peak


def test_mapped_pages_do_not_count(tmp_path: Path) -> None:
    """A file that is read through a map is no anonymous memory."""
    (tmp_path / "file").write_bytes(bytes(SIZE))
    with PeakMemory() as watch:
        total = np.memmap(tmp_path / "file", np.uint8, "r").sum()
    assert total == 0
    assert watch.peak < watch.before + SIZE // 2


def test_a_system_that_does_not_tell(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Then it is the most that the process ever had."""
    monkeypatch.setattr(memory, "_STATUS", tmp_path / "missing")
    assert anonymous_memory() > 10_000_000
