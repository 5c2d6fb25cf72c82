"""Time limits that only a hang reaches: as they are on a quiet machine, longer on a busy one.

What ends a wait here is the thing waited for, and a limit is there so that a hang ends too. How long the thing takes
depends on how many processes want the processor, so the limit grows with them. Bounds on how long something took, which
a test asserts, stay as they are, unless the thing itself waits for a limit of this kind.
"""

from __future__ import annotations

import os
from pathlib import Path

MOST = 8.0
"""The largest factor: a hang ends on the busiest machine too."""

_LOAD = Path("/proc/loadavg")


def patience(seconds: float) -> float:
    """Return a limit, given in seconds of a quiet machine, for a wait that begins now."""
    return seconds * slowdown()


def slowdown() -> float:
    """Return how many processes want each core, from 1 to `MOST`: of the last minute or now, whichever is more."""
    wanting = max(_of_the_last_minute(), _now())
    return min(MOST, max(1.0, wanting / _cores()))


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _of_the_last_minute() -> float:
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # not every system tells
        return 0.0


def _now() -> float:
    """Return how many can run at this moment, which the mean of a minute learns late; Linux tells it."""
    try:
        return float(_LOAD.read_text().split()[3].partition("/")[0])
    except (OSError, IndexError, ValueError):
        return 0.0
