"""What this machine has: memory and disk left for a process, by the tightest limit that is known; versions installed.

And memory that the machine gets back. Peaks are those of anonymous memory: what a process has taken for itself, without
pages of files that it has mapped. The system keeps no peak of it, so a thread looks now and then. What is mapped, such
as a spool, the system can take back whenever it needs the room; anonymous memory it cannot.
"""

from __future__ import annotations

import ctypes
import os
import platform
import shutil
import sys
import threading
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Self

_PROC = Path("/proc")
_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Where a control group has no limit, its file says "max", or a number beyond all machines."""

_LARGE = 1 << 27
"""Bytes of a training from which on it is worth giving them back at once."""


def free_memory(proc: Path = _PROC, cgroups: Path = _CGROUPS) -> int | None:
    """Return how many bytes more this process may take; None if the system does not tell.

    What the machine has available, what the control groups of this process leave, and what its own limit of address
    space does.
    """
    found = [_available(proc), *_left_in_groups(proc, cgroups), _left_of_addresses(proc)]
    known = [room for room in found if room is not None]
    return max(0, min(known)) if known else None


def used_memory(proc: Path = _PROC) -> int:
    """Return how many bytes this process has taken, without pages of files; 0 if the system does not tell."""
    return _anonymous(proc) or 0


def anonymous_memory(proc: Path = _PROC) -> int:
    """Return the anonymous memory of this process in bytes; where the system does not tell, the most it ever had."""
    now = _anonymous(proc)
    if now is not None:
        return now
    with suppress(ImportError):
        import resource  # not on every system

        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return 0


def give_back(count: int) -> None:
    """Return freed heap to the system (malloc_trim) if `count` bytes are large: the C library keeps it for its threads.

    After a set-up that is what tiles took on their way. The next training has other threads, and would take as much.
    """
    if count <= _LARGE:
        return
    with suppress(OSError, AttributeError):  # not every C library has this
        ctypes.CDLL(None).malloc_trim(0)


def free_disk(folder: Path) -> int | None:
    """Return how many bytes a folder has room for, which may yet have to be made; None if that cannot be told."""
    try:
        there = next(f for f in (folder.absolute(), *folder.absolute().parents) if f.is_dir())
        return shutil.disk_usage(there).free
    except (OSError, StopIteration):
        return None


def _anonymous(proc: Path) -> int | None:
    with suppress(OSError, ValueError, IndexError):
        return 1024 * int((proc / "self" / "status").read_bytes().partition(b"RssAnon:")[2].split(maxsplit=1)[0])
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


_EVERY = 0.02
"""Seconds between two looks."""


class PeakMemory:
    """Looks at the memory of this process until it is told to stop; `peak` is the most it has seen so far, in bytes."""

    def __init__(self) -> None:
        self.before = self.peak = anonymous_memory()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="memory", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> int:
        """Look once more, and return the peak."""
        self._done.set()
        self._thread.join()
        self.peak = max(self.peak, anonymous_memory())
        return self.peak

    def _look(self) -> None:
        while not self._done.wait(_EVERY):
            self.peak = max(self.peak, anonymous_memory())


_DISTRIBUTIONS = {"xgboost": ("xgboost", "xgboost-cpu")}
"""Packages that come under several names; the second is the same module without the libraries for GPUs."""
_IN_REPORTS = ("mpfedxgb", "numpy", "numba", "cryptography")


def versions() -> dict[str, str]:
    """Return what a report says of the machine that it was made on: Python, and the packages that matter most."""
    return {"Python": platform.python_version()} | {name: version_of(name) for name in _IN_REPORTS}


def version_of(package: str) -> str:
    """Return a package's installed version; empty if there is none."""
    for name in _DISTRIBUTIONS.get(package, (package,)):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def readers_beside_owner(found: os.stat_result) -> str:
    """Return who else may read or change a file that should be private: "the group", "everybody", or "" for nobody.

    A file of root's that its group may read is private for the processes of a user in that group: orchestrators mount
    secrets so for containers that do not run as root.
    """
    if os.name != "posix":
        return ""
    mounted = found.st_uid == 0 and os.geteuid() != 0 and not found.st_mode & 0o030
    mode = found.st_mode & ~0o040 if mounted else found.st_mode
    return "everybody" if mode & 0o007 else "the group" if mode & 0o070 else ""
