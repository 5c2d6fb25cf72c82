"""A role's record: every attempt at a training or scoring that it took part in, and what was revealed to whom.

One chain of lines for all sessions, over files that follow each other; lines are added, and none is ever removed. A
line is written when the roles have met and agreed, when the kind of the session is known, after each round of a
training, before that is kept, and at the end. Each line says how much it has been so far; the last one counts.
A proposal that led to no meeting, an inquiry or what somebody refused, has one line: nothing of it is on a ledger, but
the one who asks hears an answer.

Of a scoring session's batches the first has a line, and after it the first of every hour. What all batches so far come
to is in a small file beside the record, written again after each of them, until a line says the same. So a session of
many batches costs a line an hour, and yet nothing that was answered is missing.

If the process is killed, the record lacks at most what the round or batch under way had revealed, and it shows
that one was under way.

A participant goes no further than its record. The coordinator, on whose record nobody depends, warns and goes on.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import MOST_BYTES, write_file
from mpfedxgb.errors import CheckpointError, kind_of, printable, public_reason
from mpfedxgb.federation.proposals import Proposal
from mpfedxgb.federation.scoring import BATCHES
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.machine import PeakMemory, version_of
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.report.history import History, record_chain, sum_line, sum_path

SUM_SECONDS = 3600.0
"""Between two lines of batches."""
_log = logging.getLogger("mpfedxgb.record")


def record_path(settings: RoleSettings) -> Path:
    """Return the file that a role's record is added to."""
    chain = record_chain(settings.role.state)
    return chain.path(max(chain.numbers(), default=1))


def read_record(settings: RoleSettings) -> History:
    """Return what a role has done so far."""
    return History.read(settings.role.state)


class _Lines(Observer):
    """Lines of one entry in a role's record."""

    def __init__(self, settings: RoleSettings) -> None:
        self._settings = settings
        self._folder, self._must = settings.role.state, not settings.is_coordinator
        self._chain = record_chain(self._folder, MOST_BYTES)
        self._entry = uuid.uuid4().hex[:16]

    def _begun(self, session: str) -> dict[str, Any]:
        return {
            "begun": _now(),
            "version": version_of("mpfedxgb"),
            "federation": self._settings.federation.name,
            "session": session,
            "role": self._settings.role.name,
        }

    def _line(self, content: Mapping[str, Any]) -> str:
        return json.dumps({"entry": self._entry, "time": _now(), **content})

    def _write(self, content: Mapping[str, Any]) -> bool:
        """Add a line; return whether it is there."""
        with self._trying():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # nobody else makes a coordinator's
            self._chain.append(self._line(content).encode())
            return True
        return False

    @contextmanager
    def _trying(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = f"cannot write the record in {self._folder}: {error.strerror}"
            if self._must:
                kept = "what was there before is unchanged; nobody is answered without a record, so make room first"
                raise CheckpointError(f"{text}; {kept}", "damaged", "record") from None
            _log.warning("%s; the session goes on without", text)


class ProposalRecord(_Lines):
    """The line of a proposal that led to no attempt: what was asked for, and what came of it."""

    def __init__(self, settings: RoleSettings, proposal: Proposal) -> None:
        super().__init__(settings)
        self._proposal = proposal

    def on_end(self, error: BaseException | None) -> None:
        """Write it down."""
        asked = {key: getattr(self._proposal, key) for key in ("kind", "rows", "is_trial", "trainings")}
        asked["candidates"] = len(self._proposal.parameters)
        self._write({**self._begun(printable(self._proposal.session)), "proposal": asked, **_how(error)})


class AttemptRecord(_Lines):
    """The lines of one attempt, from when the roles have met; if they do not, that of the proposal."""

    def __init__(
        self,
        settings: RoleSettings,
        attempt: int,
        agreed: Mapping[str, Any] | None = None,
        proposal: Proposal | None = None,
    ) -> None:
        super().__init__(settings)
        self._attempt, self._agreed, self._proposal = attempt, agreed, proposal
        self._batches: Mapping[str, Any] = {}
        self._next_line = 0.0
        self._party: Party | None = None
        self._began = time.perf_counter()
        self._memory = PeakMemory()

    def on_meeting(self, party: Party) -> None:
        """Begin the record."""
        self._began, settings = time.perf_counter(), self._settings
        self._write(
            {
                **self._begun(settings.session.name),
                "attempt": self._attempt,
                "parameters": settings.training.to_dict(),
                **({"agreed": self._agreed} if self._agreed else {}),
            }
        )
        self._party = party

    def on_milestone(self, more: Mapping[str, Any]) -> None:
        """Write down what the attempt has cost and revealed so far, and what else is known of it."""
        assert self._party is not None, "nothing is settled before the roles have met"
        if BATCHES in more:
            self._batches = more  # the program goes on counting in it
            self._add_up(self._so_far(self._party))
        else:
            self._write({**more, **self._so_far(self._party)})

    def _so_far(self, party: Party) -> dict[str, Any]:
        total = party.meter.total()
        return {
            **self._batches,
            "seconds": round(time.perf_counter() - self._began, 3),
            "rounds": total.rounds,
            "bytes_sent": total.bytes_sent,
            "peak_memory": self._memory.peak,
            "ledger": [[r.name, r.receiver, r.count] for r in party.ledger],
        }

    def _add_up(self, so_far: Mapping[str, Any]) -> None:
        """Keep what the batches come to; and once in a while have a line of it, which names the sum that follows."""
        with self._trying():
            write_file(sum_path(self._folder, self._entry), sum_line(self._chain, self._line(so_far)))
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + SUM_SECONDS
            self._write({**so_far, "summed": True})

    def on_end(self, error: BaseException | None) -> None:
        """Write down how the attempt ended, if it had begun."""
        self._memory.stop()
        party = self._party
        if party is None:
            if self._proposal is not None:
                ProposalRecord(self._settings, self._proposal).on_end(error)
            return
        how = _how(error)
        phases = {name: counts.to_dict() for name, counts in party.meter.phases.items()}
        link, plans = party.link, party.meter.plans
        planned = {"link": {"latency": link.latency, "bandwidth": link.bandwidth}, "plans": plans} if plans else {}
        if self._write({**how, "topology": party.topology, "phases": phases, **planned, **self._so_far(party)}):
            with suppress(OSError):
                sum_path(self._folder, self._entry).unlink(missing_ok=True)


def _how(error: BaseException | None) -> dict[str, str]:
    return {"how": "done"} if error is None else {"how": kind_of(error), "why": printable(public_reason(error))}


def _now() -> str:
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
