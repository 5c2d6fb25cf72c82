"""What a machine has left: the tightest of all limits that are known; what a process takes; versions installed."""

from __future__ import annotations

import ctypes
import os
import resource
import time
from pathlib import Path

import numpy as np
import pytest
import xgboost

from mpfedxgb.machine import (
    PeakMemory,
    anonymous_memory,
    free_disk,
    free_memory,
    readers_beside_owner,
    used_memory,
    version_of,
    versions,
)
from patience import patience
from support.loopback import run_program

MB = 1 << 20


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Return a /proc in which 500 MB are available, of a process in the group /jobs/one."""
    folder = tmp_path / "proc"
    (folder / "self").mkdir(parents=True)
    (folder / "meminfo").write_text(f"MemTotal: 4194304 kB\nMemFree: 1 kB\nMemAvailable: {500 * 1024} kB\n")
    (folder / "self" / "cgroup").write_text("0::/jobs/one\n")
    (folder / "self" / "statm").write_text("1000 1 1 1 0 1 0\n")
    (folder / "self" / "status").write_text("Name: x\nRssAnon:\t 7 kB\n")
    return folder


def group(folder: Path, most: str, now: int, names: tuple[str, str] = ("memory.max", "memory.current")) -> None:
    """Write down the limit and the use of a control group."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{most}\n")
    (folder / names[1]).write_text(f"{now}\n")


def test_what_is_available(proc: Path, tmp_path: Path) -> None:
    """Without other limits it is what the system calls available, not what is free."""
    assert free_memory(proc, tmp_path / "none") == 500 * MB


def test_a_group_or_one_above_it_leaves_less(proc: Path, tmp_path: Path) -> None:
    """The limit of any control group on the way up counts, less what it uses; "max" is none."""
    groups = tmp_path / "cgroup"
    group(groups / "jobs" / "one", "max", 10)
    assert free_memory(proc, groups) == 500 * MB
    group(groups / "jobs", str(300 * MB), 100 * MB)
    assert free_memory(proc, groups) == 200 * MB
    (groups / "jobs" / "memory.stat").write_text(f"anon 5\ninactive_file {50 * MB}\n")
    assert free_memory(proc, groups) == 250 * MB
    group(groups / "jobs" / "one", str(20 * MB), 30 * MB)
    assert free_memory(proc, groups) == 0


def test_groups_of_the_first_kind(proc: Path, tmp_path: Path) -> None:
    """Older systems have a hierarchy for memory alone."""
    (proc / "self" / "cgroup").write_text("5:cpu:/x\n4:memory:/box\n")
    names = ("memory.limit_in_bytes", "memory.usage_in_bytes")
    group(tmp_path / "cgroup" / "memory" / "box", str(90 * MB), 30 * MB, names)
    group(tmp_path / "cgroup" / "memory", str(1 << 63), 30 * MB, names)

    assert free_memory(proc, tmp_path / "cgroup") == 60 * MB


def test_a_limit_of_addresses(proc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `ulimit -v` leaves to the process counts too."""
    limit = 100 * MB + 1000 * os.sysconf("SC_PAGE_SIZE")
    monkeypatch.setattr(resource, "getrlimit", lambda what: (limit, limit))

    assert free_memory(proc, tmp_path / "none") == 100 * MB


def test_this_machine(tmp_path: Path) -> None:
    """The real figures are there and make sense."""
    free = free_memory()

    assert free is not None
    assert free > 0
    assert used_memory() > 10 * MB
    assert (free_disk(tmp_path) or 0) > 0


def test_used(proc: Path, tmp_path: Path) -> None:
    """A process is told by its anonymous pages; where nobody tells, by none."""
    assert used_memory(proc) == 7 * 1024
    assert used_memory(tmp_path) == 0


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    """Its room is that of the nearest folder above."""
    near, far = free_disk(tmp_path), free_disk(tmp_path / "a" / "b")

    assert near is not None
    assert far is not None
    assert abs(near - far) < 1 << 30


KEEPING = """
from mpfedxgb.machine import give_back, used_memory
blocks = [bytearray(b"x" * 100_000) for _ in range(1000)]
del blocks[:-1]
print(used_memory())
give_back(1000)
print(used_memory())
give_back(1 << 30)
print(used_memory())
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library keeps what is free")
@pytest.mark.process
def test_what_is_free_is_given_back() -> None:
    """What lies below something that is still there comes back when it is asked for, after what was large."""
    told, _ = run_program(KEEPING).communicate(timeout=patience(60))
    before, after_little, after_much = (int(number) for number in told.split())

    assert before - after_little < 8 * MB
    assert before - after_much > 48 * MB


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


def test_a_system_that_does_not_tell(tmp_path: Path) -> None:
    """Then it is the most that the process ever had."""
    assert anonymous_memory(tmp_path / "missing") > 10_000_000


def test_versions_are_those_of_the_modules() -> None:
    """Xgboost's is found too where the module came from the distribution xgboost-cpu."""
    assert version_of("numpy") == np.__version__
    assert version_of("xgboost") == xgboost.__version__


def test_what_a_report_says_of_its_machine() -> None:
    """Python and the packages that matter most, this one first among them."""
    found = versions()
    assert list(found)[:2] == ["Python", "mpfedxgb"]
    assert all(found.values())


def test_a_package_that_is_not_there() -> None:
    """It has no version, and that is no error."""
    assert version_of("no-such-package-of-mpfedxgb") == ""


@pytest.mark.parametrize(
    ("mode", "owner", "me", "who"),
    [
        (0o600, 7, 7, ""),
        (0o640, 7, 7, "the group"),
        (0o604, 7, 7, "everybody"),
        (0o400, 0, 0, ""),
        (0o440, 0, 0, "the group"),
        (0o440, 0, 7, ""),
        (0o460, 0, 7, "the group"),
        (0o444, 0, 7, "everybody"),
    ],
)
def test_who_else_reads_a_file(monkeypatch: pytest.MonkeyPatch, mode: int, owner: int, me: int, who: str) -> None:
    """Owner only, but for what is mounted: of root, and readable by the group of a process that is not root's."""
    monkeypatch.setattr(os, "geteuid", lambda: me)
    assert readers_beside_owner(os.stat_result((0o100000 | mode, 0, 0, 1, owner, 0, 0, 0, 0, 0))) == who
