"""A role's record: every attempt at a training or scoring that it took part in, and what was revealed to whom.

One file for all sessions, to which lines of JSON are added and from which nothing is ever removed. A line is written
when the roles have met and agreed, when the kind of the session is known, after each round of a training, before that
is kept, after each batch of a scoring, and at the end. Each line says how much it has been so far; the last one counts.
Whatever happens to the process, the record lacks at most what the round or batch under way had revealed, and it shows
that one was under way.

A participant goes no further than its record. The coordinator, on whose record nobody depends, warns and goes on.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import append_line
from mpfedxgb.errors import CheckpointError, kind_of, printable, public_reason
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.party import Party
from mpfedxgb.report.history import History
from mpfedxgb.report.memory import PeakMemory
from mpfedxgb.report.versions import version_of

_NAME = "record.jsonl"
_log = logging.getLogger("mpfedxgb.record")


def record_path(settings: RoleSettings) -> Path:
    """Return where a role's record is, over all its sessions."""
    return settings.role.state / _NAME


def read_record(settings: RoleSettings) -> History:
    """Return what a role has done so far."""
    return History.read(record_path(settings))


class AttemptRecord:
    """The lines of one attempt."""

    def __init__(self, settings: RoleSettings, attempt: int, party: Party) -> None:
        self._path, self._must = record_path(settings), not settings.is_coordinator
        self._party, self._began = party, time.perf_counter()
        self._entry = uuid.uuid4().hex[:16]
        self._memory = PeakMemory()
        party.on_milestone = self.note
        self._write(
            {
                "begun": _now(),
                "version": version_of("mpfedxgb"),
                "federation": settings.federation.name,
                "session": settings.session.name,
                "role": settings.role.name,
                "attempt": attempt,
                "parameters": settings.training.to_dict(),
            }
        )

    def note(self, more: Mapping[str, Any]) -> None:
        """Write down what the attempt has cost and revealed so far, and what else is known of it."""
        total = self._party.meter.total()
        self._write(
            {
                **more,
                "seconds": round(time.perf_counter() - self._began, 3),
                "rounds": total.rounds,
                "bytes_sent": total.bytes_sent,
                "peak_memory": self._memory.peak,
                "ledger": [[r.name, r.receiver, r.count] for r in self._party.ledger],
            }
        )

    def end(self, error: BaseException | None) -> None:
        """Write down how the attempt ended."""
        self._memory.stop()
        how = {"how": "done"} if error is None else {"how": kind_of(error), "why": printable(public_reason(error))}
        phases = {name: counts.to_dict() for name, counts in self._party.meter.phases.items()}
        link, plans = self._party.link, self._party.meter.plans
        planned = {"link": {"latency": link.latency, "bandwidth": link.bandwidth}, "plans": plans} if plans else {}
        self.note({**how, "topology": self._party.topology, "phases": phases, **planned})

    def _write(self, content: Mapping[str, Any]) -> None:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # nobody else makes a coordinator's
            append_line(self._path, json.dumps({"entry": self._entry, "time": _now(), **content}))
        except OSError as error:
            text = f"cannot write the record {self._path}: {error.strerror}"
            if self._must:
                kept = "what was there before is unchanged; nobody is answered without a record, so make room first"
                raise CheckpointError(f"{text}; {kept}") from None
            _log.warning("%s; the session goes on without", text)


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
