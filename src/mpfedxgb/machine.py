"""What this machine has left for a process: memory and disk, by the tightest of all limits that are known.

And memory that it gets back.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Where a control group has no limit, its file says "max", or a number beyond all machines."""

_LARGE = 1 << 27
"""Bytes of a training from which on it is worth giving them back at once."""


def free_memory(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Return how many bytes more this process may take; None where the system does not tell.

    What the machine has available, what the control groups of this process leave, and what its own limit of address
    space does.
    """
    found = [_available(proc), *_left_in_groups(proc, cgroups), _left_of_addresses(proc)]
    known = [room for room in found if room is not None]
    return max(0, min(known)) if known else None


def used_memory(proc: Path = _PROC) -> int:
    """Return how many bytes this process has taken, without pages of files; 0 where the system does not tell."""
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / "self" / "status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return 0


def give_back(count: int) -> None:
    """Let the C library give the system back what is free, where so many bytes are large: it keeps it for its threads.

    After a set-up that is what tiles took on their way. The next training has other threads, and would take as much.
    """
    if count <= _LARGE:
        return
    with suppress(OSError, AttributeError):  # not every C library has this
        ctypes.CDLL(None).malloc_trim(0)


def free_disk(folder: Path) -> int | None:
    """Return how many bytes a folder has room for, which may yet have to be made; None where that cannot be told."""
    try:
        there = next(f for f in (folder.absolute(), *folder.absolute().parents) if f.is_dir())
        return shutil.disk_usage(there).free
    except (OSError, StopIteration):
        return None


def _available(proc: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        for line in (proc / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    with suppress(OSError, ValueError, AttributeError):  # of systems without /proc
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _left_in_groups(proc: Path, cgroups: Path) -> list[int]:
    """Return what every control group of this process leaves, from its own up to the root (of version 2, then 1)."""
    try:
        lines = (proc / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, _, rest = line.partition(":")
        kinds, _, path = rest.partition(":")
        if kinds == "":
            root, limit, used = cgroups, "memory.max", "memory.current"
        elif "memory" in kinds.split(","):
            root, limit, used = cgroups / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        own = root / path.lstrip("/")
        for group in (own, *own.parents):
            if group != root and root not in group.parents:
                break
            most, now = _number(group / limit), _number(group / used)
            if most is not None and now is not None and most < _UNLIMITED:
                left.append(most - now + _reclaimable(group))
    return left


def _reclaimable(group: Path) -> int:
    """Return how much of what a group uses are pages of files, which give way."""
    with suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "total_inactive_file"):
                return int(value)
    return 0


def _number(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _left_of_addresses(proc: Path) -> int | None:
    with suppress(ImportError, OSError, ValueError, IndexError):
        import resource  # not on every system

        most, _ = resource.getrlimit(resource.RLIMIT_AS)
        if most != resource.RLIM_INFINITY:
            pages = int((proc / "self" / "statm").read_text().split()[0])
            return most - pages * os.sysconf("SC_PAGE_SIZE")
    return None
