"""The peak of a process's anonymous memory: what it has taken for itself, without pages of files that it has mapped.

The system keeps no peak of it, so a thread looks now and then. What is mapped, such as a spool, the system can take
back whenever it needs the room; anonymous memory it cannot.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Self

_STATUS = Path("/proc/self/status")
_EVERY = 0.02
"""Seconds between two looks."""


def anonymous_memory() -> int:
    """Return the anonymous memory of this process in bytes; else the most it ever had; 0 where no system call tells."""
    try:
        status = _STATUS.read_bytes()
    except OSError:
        try:
            import resource  # not on every system
        except ImportError:
            return 0
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024
    return 1024 * int(status.partition(b"RssAnon:")[2].split(maxsplit=1)[0])


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
