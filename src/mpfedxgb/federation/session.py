"""One role, one session: connect, agree, run a program, and come back for the next attempt if a peer was lost.

Every start is a new attempt with new keys. What a participant keeps between attempts is in its folder: the key of its
own choices, the number of the last attempt, and the checkpoints. The coordinator keeps nothing but its record.

One process at a time is in a participant's state folder. The lock is the system's own (flock), so that it goes with the
process that holds it, however that ends; the file stays, and says who holds it, or held it last. Commands that only
read, such as record, report and doctor, do not take it.

A signal ends a role as an error in its main thread, however that waits, so that peers hear of it first.

Python runs handlers in the main thread, between two of its steps. A signal that the system hands to another thread, or
that comes just before the main thread begins to wait for a lock, does not wake it: it would wait on, for hours where
the lock is another thread's word. So a thread of its own hears of every signal as it comes, and nudges the main thread
until that has run its handlers.

Nor does an error reach anybody that is raised while Python finalises an object: it is printed, and the program goes on.
The thread hears of that too, and nudges until the error has been raised where it counts.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from mpfedxgb.atomic import PRIVATE, lock_file, write_file
from mpfedxgb.boosting.sampling import private_key, private_randomness_key
from mpfedxgb.costs.capacity import Capacity
from mpfedxgb.errors import (
    CheckpointError,
    ExhaustedError,
    HandshakeError,
    MissingPeerError,
    MpfedxgbError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    RefusedError,
    StoppedError,
    as_checkpoint_error,
    may_stop_in,
    own_reason,
)
from mpfedxgb.federation.log_context import logging_for
from mpfedxgb.federation.proposals import INQUIRY, Prepare, Proposal, Work, meet
from mpfedxgb.federation.record import AttemptRecord, ProposalRecord
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party import InterimFrames
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.local import Outcome, Program, run_role
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.observer import Observer, Observers, Stop
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.ring import kernels
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.transport import transports
from mpfedxgb.transport.transport import Transport

T = TypeVar("T")

_PAUSE, _LONGEST_PAUSE = 0.2, 30.0
_LOST = (PeerFinishedError, PeerTimeoutError, MissingPeerError, ExhaustedError, StoppedError)
_CAPACITY = 1 << 28
_log = logging.getLogger("mpfedxgb.session")


class SessionFolder:
    """What a participant keeps between the attempts of one session; `training` is what makes it another training.

    The coordinator keeps nothing: it has no choices of its own, and the attempt's number is the highest of any role's.
    """

    def __init__(self, settings: RoleSettings, training: dict[str, Any] | None = None) -> None:
        self._begun = 0
        self._attempt: Path | None = None
        self.key: bytes | None = None
        if not settings.is_coordinator:
            path = state_folder(settings) / settings.session.name
            self.key = private_randomness_key(private_key(path, os_entropy), training or {})
            self._attempt = path / "attempt"

    def next_attempt(self) -> int:
        """Return the number of the attempt that begins now, and remember it."""
        if self._attempt is None:
            self._begun += 1
            return self._begun
        with as_checkpoint_error(f"cannot write {self._attempt}"):
            try:
                last = int(self._attempt.read_text()) if self._attempt.is_file() else 0
            except ValueError:
                raise CheckpointError(f"{self._attempt} is damaged; remove it", "damaged", self._attempt.name) from None
            write_file(self._attempt, f"{last + 1}\n")
        return last + 1


def state_folder(settings: RoleSettings) -> Path:
    """Return the folder in which this role keeps its state, made for its owner only if it is not there."""
    with as_checkpoint_error(f"cannot make the folder {settings.role.state}"):
        settings.role.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    return settings.role.state


def open_transport(settings: RoleSettings, timeout: float, serves: bool = False, again: bool = False) -> Transport:
    """Connect this role with its neighbours, over the transport of its settings; waits at most `timeout` seconds.

    A role that serves waits on as long as anybody else waits with it; unless there is a new certificate, of which those
    who come later have to be told. One that connects `again` waits for a new certificate if its own has ended.
    """
    connection = settings.connection_settings(timeout, _CAPACITY)
    interim = InterimFrames(settings.roster, settings.number, settings.session_settings())
    connection = replace(connection, serves=serves, interim=interim, again=again)
    return transports.open_transport(settings.network.transport, connection)


class Stopper(Observer):
    """Lets another thread end a session: the peers receive the reason, and nobody here waits for them any more."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self._stop: Stop | None = None
        self._changing = threading.Lock()

    def on_start(self, stop: Stop) -> None:
        """Note how an attempt is ended; raises the reason if it was stopped before it began."""
        with self._changing:
            self._stop = stop
            if self.error is not None:
                raise self.error

    def stop(self, error: BaseException) -> None:
        """End the attempt that runs, and let no other begin."""
        with self._changing:
            self.error = self.error or error
            stop = self._stop
        if stop is not None:
            stop(error)


def own_work(
    settings: RoleSettings, program: Program[T], private: Sequence[Any], training: dict[str, Any] | None = None
) -> Prepare[T]:
    """Return how a role prepares that goes by its own settings, whatever is proposed: program(party, *private)."""
    folder = SessionFolder(settings, training)

    def prepare(proposal: Proposal) -> Work[T]:
        if proposal.kind == INQUIRY:
            text = (
                f"{settings.roster.name(ACTIVE)} asks which trainings would be accepted, and {settings.role.name} "
                "accepts none: start it with --accept"
            )
            raise RefusedError(text, code="place", parameter="accept")
        return Work(settings, program, private, folder.next_attempt(), folder.key)

    return prepare


def run_session(
    settings: RoleSettings,
    prepare: Prepare[T],
    proposal: Proposal | None = None,
    stopper: Stopper | None = None,
    observer: Observer | None = None,
) -> Outcome[T]:
    """Meet the others, at the active participant with a proposal, and run what follows from it; return how it went.

    Where [network] reconnect is set and a peer is lost, waits for it (at most connect_timeout seconds at a time) and
    does it again in a new attempt. Raises what ended it for good, which may be another thread's `stopper`.
    The `observer` hears of every attempt.
    """
    kernels.warm_up()
    again = False
    while True:
        transport = _open_in_time(settings, again)
        again = True
        outcome = _run(settings, transport, proposal, prepare, Observers(stopper, observer))
        if outcome.error is None:
            return outcome
        if stopper is not None and stopper.error is not None:
            raise stopper.error
        if not (settings.network.reconnect and is_lost_peer(outcome.error)):
            raise outcome.error
        _log.warning("%s; waiting for it to come back", outcome.error)
        time.sleep(_PAUSE)


def _open_in_time(settings: RoleSettings, again: bool) -> Transport:
    """Connect, and where this machine has no room for that, try again as long as others would be waited for."""
    timeout = settings.network.connect_timeout
    end = time.monotonic() + timeout
    while True:
        try:
            return open_transport(settings, timeout, again=again)
        except ExhaustedError as error:
            if time.monotonic() >= end:
                raise
            _log.warning("%s; trying again", error)
            time.sleep(_PAUSE)
            timeout = max(_PAUSE, end - time.monotonic())


def _run(
    settings: RoleSettings,
    transport: Transport,
    proposal: Proposal | None,
    prepare: Prepare[T],
    observer: Observer,
) -> Outcome[T]:
    """Run one attempt, with an entry in this role's record from its beginning to its end.

    A proposal that leads to no attempt, such as an inquiry or what is refused, has one line there.
    """
    outcome: Outcome[T] = Outcome(settings.role.name, Meter(), Ledger())
    heard: list[Proposal] = []

    def prepare_for(proposed: Proposal) -> Work[T] | None:
        heard.append(proposed)
        return prepare(proposed)

    try:
        work = meet(settings, transport, proposal, prepare_for)
    except BaseException as error:
        outcome.error, outcome.ended = error, time.monotonic()
        work = None
    if work is None:  # an inquiry is no session
        transport.close()
        try:
            Observers(observer, *(ProposalRecord(settings, one) for one in heard)).on_end(outcome.error)
        except MpfedxgbError as error:  # the record cannot be written
            _log.error("%s", error)
            outcome.error = outcome.error or error
        return outcome
    with logging_for(session=work.settings.session.name, attempt=work.attempt):
        _log.info("%s is connected with its peers (attempt %d)", settings.role.name, work.attempt)
        record = AttemptRecord(work.settings, work.attempt, work.agreed, heard[0])
        return run_role(
            work.program,
            work.private,
            transport,
            work.settings.roster,
            work.settings.number,
            work.settings.session_settings(work.attempt),
            private_key=work.key,
            first_wait=settings.network.connect_timeout,  # a neighbour may wait for a role that is none of this one's
            observer=Observers(record, Capacity(settings.limits, settings.role.state), work.observer, observer),
        )


def is_lost_peer(error: BaseException) -> bool:
    """Return whether an error means that some role went away and may come back, rather than that something is wrong."""
    if isinstance(error, PeerFailedError):
        return error.kind in {lost.__name__ for lost in _LOST}
    return isinstance(error, (PeerFinishedError, PeerTimeoutError))


def serve(settings: RoleSettings, prepare: Prepare[Any], observer: Observer | None = None, once: bool = False) -> None:
    """Run one session after the other, until this role is stopped; with `once`, until one of them has ended well.

    A session that fails, or that this role is not let into, is logged, and that is all.
    """
    kernels.warm_up()
    pause, again = _PAUSE, False
    while True:
        try:
            transport = open_transport(settings, settings.network.connect_timeout, serves=True, again=again)
        except MissingPeerError as error:
            _log.info("%s; still waiting", error)
            again = True
            continue
        except (HandshakeError, ExhaustedError) as error:  # what is wrong elsewhere may be mended while this role stays
            _log.warning("%s; trying again in %g seconds", error, pause)
            time.sleep(pause)
            pause, again = min(_LONGEST_PAUSE, 2 * pause), True
            continue
        pause, again = _PAUSE, True
        outcome = _run(settings, transport, None, prepare, Observers(observer))
        if outcome.error is None:
            _log.info("%s has finished a session", settings.role.name)
            if once and outcome.result is not None:
                return
        elif not isinstance(outcome.error, Exception):
            raise outcome.error
        else:  # whatever a peer makes of a session, the next one finds this role in its place
            if isinstance(outcome.error, (MpfedxgbError, MemoryError)):
                _log.warning("a session ended early: %s", own_reason(outcome.error))
            else:
                _log.error("a session failed: %s", type(outcome.error).__name__, exc_info=outcome.error)
            time.sleep(_PAUSE)


_NAME = "lock"
_HELD = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def locked_state(settings: RoleSettings) -> Iterator[None]:
    """Hold the lock of this participant's state folder inside the block.

    Raises
    ------
    CheckpointError
        If another process holds it, which is named, or this one by another call; nothing is changed then.
    """
    path = state_folder(settings) / _NAME
    with as_checkpoint_error(f"cannot open the lock {path}"):
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    try:
        _lock(file, path, settings.role.name)
        with suppress(OSError):  # who holds it is for people only, and the disk may be full
            os.truncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _lock(file: int, path: Path, name: str) -> None:
    try:
        lock_file(file)
    except OSError as error:
        if error.errno not in _HELD:
            text = f"{path} cannot be locked: {error.strerror}; give [role] state a folder on a local disk"
            raise CheckpointError(text, "file", path.name) from None
        pid = os.pread(file, 32, 0).strip()
        holder = f"process {int(pid)}" if pid.isdigit() else "another process"
        text = (
            f"{name}: {holder} is at work with the state folder {path.parent}; nothing was changed. Wait until it has "
            "ended, or stop it; for two at a time give each a [role] state of its own"
        )
        raise CheckpointError(text, "busy", path.name) from None


_STOPS = (signal.SIGTERM, signal.SIGINT)
_NUDGE = signal.SIGURG
"""Ignored by default, and of a higher number than those that stop: handlers run in the order of their numbers."""
_UNRAISABLE = 0
"""What the thread hears where an error reached nobody; no signal has this number."""
_EVERY = 0.05


@dataclass(slots=True)
class _Main:
    """What is known of the main thread. Plain values: a handler may interrupt itself, and would wait for its lock."""

    awake: bool = True
    lost: str = ""
    """The reason of an error that reached nobody."""
    due: str = ""
    """That reason, once the error is to be raised again."""

    def on_wakeup(self, number: int, frame: FrameType | None) -> None:
        """Handle a nudge, or leave it to a later one."""
        if self.due and not may_stop_in(frame):
            return
        self.awake = True
        reason, self.due = self.due, ""
        if reason:
            raise StoppedError(reason)


@contextmanager
def stopping_on_signals(to_the_end: bool = False) -> Iterator[None]:
    """Turn SIGTERM and SIGINT inside into StoppedError, so that peers hear of it before this role ends.

    After `ignore_stops` they change nothing any more; `to_the_end` of the process, not only of the block.
    """
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is _stop:
        yield  # nothing to do, or done already around this
        return
    main = _main
    handlers = dict.fromkeys(_STOPS, _stop) | {_NUDGE: main.on_wakeup}
    with _hearing(main):
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
            if main.due:
                raise StoppedError(main.due)
        finally:
            main.due = ""
            for number, handler in before.items():
                if not (to_the_end and signal.getsignal(number) is signal.SIG_IGN):
                    signal.signal(number, handler)


def ignore_stops() -> None:
    """Let signals that stop a role change nothing any more: everything is done, and all that is left is to end.

    Does nothing outside `stopping_on_signals`, and in other threads.
    """
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is _stop:
        for number in _STOPS:
            signal.signal(number, signal.SIG_IGN)
        _main.due = ""


_main = _Main()


def _stop(number: int, frame: FrameType | None) -> None:
    reason = f"stopped by {signal.Signals(number).name}"
    if may_stop_in(frame):
        raise StoppedError(reason)
    _main.due = reason  # until a nudge finds the main thread elsewhere


@contextmanager
def _hearing(main: _Main) -> Iterator[None]:
    """Have a thread that nudges the main one after every signal, until it is awake, and after every error it lost."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    over, number = threading.Event(), threading.get_ident()

    def listen() -> None:
        while heard := reader.recv(64):
            if _UNRAISABLE in heard:
                over.wait(_EVERY)  # the thread that finalises has to come to an end first
                main.due = main.lost
            if set(heard) & {_UNRAISABLE, *_STOPS}:
                main.awake = False
                while not main.awake and not over.is_set():
                    signal.pthread_kill(number, _NUDGE)
                    over.wait(_EVERY)

    def on_unraisable(lost: sys.UnraisableHookArgs) -> None:
        if isinstance(lost.exc_value, StoppedError):
            main.lost = str(lost.exc_value)
            writer.send(bytes([_UNRAISABLE]))
        else:
            former_hook(lost)

    thread = threading.Thread(target=listen, name="signals", daemon=True)
    thread.start()
    former_hook, sys.unraisablehook = sys.unraisablehook, on_unraisable
    former = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(former)
        sys.unraisablehook = former_hook
        over.set()
        writer.close()
        thread.join()
        reader.close()
