"""Every role as a thread of this process, over the memory transport: simulation runs the code that deployment runs."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FederationError, MpfedxgbError, PeerFailedError, UserError
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.handshake import shake_hands
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import MakeSource, Roster
from mpfedxgb.ring import kernels
from mpfedxgb.transport.memory import MemoryHub, Tap
from mpfedxgb.transport.transport import Transport

T = TypeVar("T")
_log = logging.getLogger("mpfedxgb.session")
Program = Callable[..., T]


@dataclass(slots=True)
class Outcome(Generic[T]):
    """How one role's run ended: with a result, or with an error."""

    role: str
    meter: Meter
    ledger: Ledger
    result: T | None = field(default=None, repr=False)
    error: BaseException | None = field(default=None, repr=False)
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class LocalRun(Generic[T]):
    """What a successful run leaves: per role, the coordinator first, results, meters and ledgers."""

    roster: Roster
    results: list[T] = field(repr=False)
    meters: list[Meter]
    ledgers: list[Ledger]


def run_role(
    program: Program[T],
    private: Sequence[Any],
    transport: Transport,
    roster: Roster,
    role: int,
    settings: SessionSettings,
    make_source: MakeSource | None = None,
    private_key: bytes | None = None,
    first_wait: float = 0.0,
    observer: Observer | None = None,
) -> Outcome[T]:
    """Run one role from handshake to end over any transport; tell the peers if it fails.

    `private_key` is where this role's own choices come from (see `shake_hands`). Until everybody is there, it waits
    `first_wait` seconds for a message, if that is longer than it would wait later. The `observer`
    hears of all that happens here.
    """
    meter = Meter()
    communicator = Communicator(transport, roster, role, settings, meter, first_wait)
    outcome: Outcome[T] = Outcome(roster.name(role), meter, Ledger())
    observer = Observer() if observer is None else observer

    def stop(error: BaseException) -> None:
        communicator.abort(error)
        transport.close()

    try:
        observer.on_start(stop)
        party = Party(communicator, shake_hands(communicator, make_source, private_key), observer)
        outcome.ledger = party.ledger
        observer.on_meeting(party)
        outcome.result = program(party, *private)
    except BaseException as error:
        outcome.error, outcome.ended = error, time.monotonic()
        communicator.abort(error)
    finally:
        transport.close()
    try:
        observer.on_end(outcome.error)
    except MpfedxgbError as error:  # the record cannot be written
        _log.error("%s", error)
        outcome.error = outcome.error or error
    return outcome


def run_roles(
    program: Program[T],
    roster: Roster | int,
    private: Sequence[Sequence[Any]] | None = None,
    settings: SessionSettings | None = None,
    tap: Tap | None = None,
    make_source: MakeSource | None = None,
    one_core: bool = True,
    observers: Sequence[Observer] | None = None,
) -> list[Outcome[T]]:
    """Run all roles as threads and return how each of them ended, the coordinator first.

    Parameters
    ----------
    program : callable
        Called as program(party, *private[role]) in every role.
    roster : Roster or int
        The roles, or just the number of participants.
    private : one sequence of arguments per role, the coordinator's first; none if None
    settings : SessionSettings or None
        Deadlines, limits, `insecure_seed`.
    tap, make_source : for tests: see everything that is sent; replace the key streams
    one_core : bool
        Keep all roles on one core. Where their steps are short, they wait for the interpreter's lock more than they
        compute, and on one core they hand it over in half the time. False for long kernels, to run beside each other.
    observers : one Observer per role, the coordinator's first; none if None
    """
    roster = Roster.numbered(roster) if isinstance(roster, int) else roster
    settings = SessionSettings() if settings is None else settings
    arguments = [()] * len(roster.roles) if private is None else list(private)
    if len(arguments) != len(roster.roles):
        text = f"private has {len(arguments)} entries; it takes one per role, {len(roster.roles)} in all"
        raise UserError(text, "mismatch", "private", len(arguments))
    kernels.warm_up()
    hub = MemoryHub(roster.links(settings.topology), settings.max_queued_bytes, tap)
    outcomes: dict[int, Outcome[T]] = {}
    changed = threading.Condition()

    core = _current_core() if one_core else None

    def run(role: int) -> None:
        if core is not None:
            os.sched_setaffinity(0, {core})  # of this thread only
        observer = None if observers is None else observers[role]
        end = hub.end(role)
        outcome = run_role(program, arguments[role], end, roster, role, settings, make_source, observer=observer)
        with changed:
            outcomes[role] = outcome
            changed.notify()

    threads = [threading.Thread(target=run, args=(role,), name=roster.name(role), daemon=True) for role in roster.roles]
    for thread in threads:
        thread.start()
    try:
        _wait_for_all(threads, outcomes, changed, settings.auxiliary_deadline)
    finally:
        for role in roster.roles:  # an interrupted main thread lets nobody wait in vain
            hub.close(role)
    return [outcomes.get(role) or _stuck(roster.name(role)) for role in roster.roles]


def _current_core() -> int | None:
    """Return the core that this thread runs on; None if the system does not tell or has no affinity to set."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        core = int(ctypes.CDLL(None).sched_getcpu())
    except (OSError, AttributeError):
        return None
    return core if core >= 0 else None


def _wait_for_all(
    threads: list[threading.Thread], outcomes: dict[int, Outcome[T]], changed: threading.Condition, grace: float
) -> None:
    """Wait until all roles have ended; after the first failure, not longer than `grace` seconds."""
    end = float("inf")
    with changed:
        while len(outcomes) < len(threads):
            if end == float("inf") and any(o.error is not None for o in outcomes.values()):
                end = time.monotonic() + grace
            left = end - time.monotonic()
            if left <= 0:
                return
            changed.wait(None if left == float("inf") else left)
    for thread in threads:
        thread.join()


def _stuck(role: str) -> Outcome[Any]:
    error = FederationError(
        f"{role} did not stop after another role had failed; its thread is left to itself", "late", role
    )
    return Outcome(role, Meter(), Ledger(), error=error, ended=time.monotonic())


def run_locally(
    program: Program[T],
    roster: Roster | int,
    private: Sequence[Sequence[Any]] | None = None,
    settings: SessionSettings | None = None,
    tap: Tap | None = None,
    make_source: MakeSource | None = None,
    one_core: bool = True,
    observers: Sequence[Observer] | None = None,
) -> LocalRun[T]:
    """Run all roles as threads (see `run_roles`); raise the first error that any of them met."""
    outcomes = run_roles(program, roster, private, settings, tap, make_source, one_core, observers)
    failed = sorted(
        (o for o in outcomes if o.error is not None), key=lambda o: (isinstance(o.error, PeerFailedError), o.ended)
    )
    if failed:
        error = failed[0].error
        assert error is not None
        error.add_note(f"in the program of {failed[0].role}")
        raise error
    return LocalRun(
        Roster.numbered(roster) if isinstance(roster, int) else roster,
        [o.result for o in outcomes],  # type: ignore[misc] # no error, so there is a result
        [o.meter for o in outcomes],
        [o.ledger for o in outcomes],
    )
