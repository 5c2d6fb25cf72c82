"""What a machine has left: the tightest of all limits that are known."""

from __future__ import annotations

import ctypes
import os
import resource
from pathlib import Path

import pytest

from mpfedxgb.machine import free_disk, free_memory, used_memory
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
