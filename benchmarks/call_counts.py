"""How many calls into ring/ and NumPy a role makes between two openings: what Python costs beside the kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

from mpfedxgb import ring
from mpfedxgb.party import ACTIVE, COORDINATOR, Party, run_locally

_RING = str(Path(ring.__file__).parent)
_NUMPY = str(Path(np.__file__).parent)


def calls_per_round(prepare: Callable[[Party], Callable[[], object]], participants: int) -> dict[str, float]:
    """Return the calls per round of the coordinator, the active participant and an auxiliary, in one run of a job.

    Counted are functions of ring/ that are called from elsewhere, and NumPy's that are called from this package;
    operators and compiled kernels called inside ring/ are not seen, they are one instruction or one loop.
    """
    rounds: dict[int, int] = {}
    counts: dict[int, int] = {}

    def program(party: Party) -> None:
        job = prepare(party)
        job()  # compiled, planned and laid out from here on
        before, counter = party.meter.total().rounds, _Counter()
        sys.setprofile(counter)
        try:
            job()
        finally:
            sys.setprofile(None)
        rounds[party.role], counts[party.role] = party.meter.total().rounds - before, counter.calls

    run_locally(program, participants)
    names = {"coordinator": COORDINATOR, "active": ACTIVE, "auxiliary": ACTIVE + 1}
    return {name: counts[role] / rounds[ACTIVE] for name, role in names.items()}


class _Counter:
    """Counts calls that cross into ring/ or NumPy; what `sys.setprofile` takes."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Take one event of this thread."""
        if event == "call":
            caller = frame.f_back.f_code.co_filename if frame.f_back is not None else ""
            self.calls += any(_crosses(frame.f_code.co_filename, caller, room) for room in (_RING, _NUMPY))
        elif event == "c_call" and not frame.f_code.co_filename.startswith(_NUMPY):
            owner = getattr(argument, "__self__", None)
            self.calls += "numpy" in str(getattr(argument, "__module__", None) or type(owner).__module__)


def _crosses(callee: str, caller: str, room: str) -> bool:
    return callee.startswith(room) and not caller.startswith(room)
