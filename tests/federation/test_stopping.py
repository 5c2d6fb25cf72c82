"""A signal that stops a role may come anywhere: wherever an error is survived, the stop is not."""

from __future__ import annotations

import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

import mpfedxgb.transport.tls.transport
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import PeerFinishedError, StoppedError, in_one_go
from mpfedxgb.federation import session
from mpfedxgb.federation.session import ignore_stops, stopping_on_signals
from mpfedxgb.party import Meter, Roster
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.transport.memory import MemoryHub
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.tls.pieces import Pieces
from mpfedxgb.transport.tls.rendezvous import Introduction, Rendezvous, Waiting
from mpfedxgb.transport.tls.stream import PeerStream
from mpfedxgb.transport.tls.transport import TlsTransport
from patience import patience
from support.pki import Authority

ROSTER = Roster(("bank", "telecom"))
NAMES = ("coordinator", "bank", "telecom")


class Interrupted:
    """What those who are there are told, while a signal comes."""

    def waiting(self, names: Sequence[str]) -> bytes:
        """Return what is told while somebody is missing."""
        signal.raise_signal(signal.SIGTERM)
        return b"waiting"

    def giving_up(self, error: BaseException) -> bytes:
        """Return what is told at the end."""
        signal.raise_signal(signal.SIGTERM)
        return b"giving up"


@contextmanager
def half_met() -> Iterator[Rendezvous]:
    """Give what telecom knows when the coordinator is there, and does not listen, and the bank is not."""
    here, there = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    secured = context.wrap_socket(here, server_hostname="coordinator", do_handshake_on_connect=False)
    rendezvous = Rendezvous(2, Introduction("telecom", "trial", 1000, NAMES), NAMES, [0, 1])
    stream = rendezvous.join(COORDINATOR, lambda: PeerStream(secured, Pieces("coordinator", 1000, 1000), 60.0))
    with there:
        yield rendezvous
        stream.wait_until_ended(0.0)


def test_while_it_tells_for_whom_it_waits() -> None:
    """A role whose news cannot be delivered waits on; one that is stopped does not."""
    with half_met() as rendezvous:
        waiting = Waiting(rendezvous, Interrupted(), 60.0)
        with pytest.raises(StoppedError, match="stopped by SIGTERM"), stopping_on_signals():
            waiting.say()


def test_while_it_tells_that_it_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is it lost beside the error for which the role gives up; connections are closed all the same."""
    monkeypatch.setattr(mpfedxgb.transport.tls.transport, "LINGER", 0.1)  # for a side that would never say so
    with half_met() as rendezvous:
        transport = TlsTransport(2, rendezvous)
        with pytest.raises(StoppedError, match="stopped by SIGTERM"), stopping_on_signals():
            transport._part(PeerFinishedError("bank has gone"), Interrupted())
        assert not rendezvous.streams[COORDINATOR].alive


def test_while_it_tells_why_it_failed() -> None:
    """A role that has lost a peer tells the others, and might come back; if it is stopped meanwhile, it does not."""
    hub = MemoryHub(ROSTER.links(), 1 << 20, lambda *_: signal.raise_signal(signal.SIGTERM))
    settings = SessionSettings(deadline=patience(5))
    communicator = Communicator(hub.end(ACTIVE), ROSTER, ACTIVE, settings, Meter())
    with pytest.raises(StoppedError, match="stopped by SIGTERM"), stopping_on_signals():
        communicator.abort(PeerFinishedError("telecom has gone"))


def test_while_it_reads_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key is not to blame."""
    authority = Authority(tmp_path)
    pair = authority.issue("bank")
    read: Callable[..., Any] = serialization.load_pem_private_key

    def read_and_stop(*arguments: object) -> Any:
        key = read(*arguments)
        signal.raise_signal(signal.SIGTERM)
        return key

    monkeypatch.setattr(serialization, "load_pem_private_key", read_and_stop)
    with pytest.raises(StoppedError, match="stopped by SIGTERM"), stopping_on_signals():
        Identity.load("bank", authority.file, pair.certificate, pair.key)


WAITING = """
import signal, threading
from mpfedxgb.errors import StoppedError
from mpfedxgb.federation.session import ignore_stops, stopping_on_signals

def stop():
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

try:
    with stopping_on_signals(), stopping_on_signals():
        threading.Timer(0.2, stop).start()
        threading.Event().wait()
except StoppedError as error:
    print(error)
print(threading.active_count() - sum(isinstance(t, threading.Timer) for t in threading.enumerate()))
"""


def test_a_signal_that_another_thread_gets_wakes_the_main_one() -> None:
    """Though that waits for ever: the system may hand a signal to any thread. Afterwards no thread is left."""
    program, limit = [sys.executable, "-c", WAITING], patience(60)
    done = subprocess.run(program, capture_output=True, text=True, timeout=limit, check=False)  # noqa: S603 # our own
    assert done.stdout.split("\n") == ["stopped by SIGTERM", "1", ""], done.stderr


class Finalised:
    """What is stopped as it goes."""

    def __init__(self, goes: int) -> None:
        self.goes = goes

    def __del__(self) -> None:
        """Be stopped; so is what comes next."""
        following = Finalised(self.goes - 1) if self.goes > 1 else None
        signal.raise_signal(signal.SIGTERM)
        del following


@pytest.mark.parametrize("goes", [1, 2])
def test_while_something_is_finalised(
    goes: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error there reaches nobody: it is raised again, once Python has done with it. Nothing is printed."""
    monkeypatch.setattr(session, "_EVERY", 1.0)  # whoever goes on has so long to say so
    hook, passed = sys.unraisablehook, threading.Event()

    def go_on() -> None:
        Finalised(goes)
        passed.set()
        threading.Event().wait(60.0)

    with pytest.raises(StoppedError, match="stopped by SIGTERM"), stopping_on_signals():
        go_on()
    assert passed.is_set()
    assert sys.unraisablehook is hook
    assert capfd.readouterr().err == ""


class Broken:
    """What fails as it goes."""

    def __del__(self) -> None:
        """Fail, for a reason of its own."""
        raise RuntimeError("it fell")


def test_other_errors_that_reach_nobody_are_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those of signals are raised again."""
    told: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(str(lost.exc_value)))
    with stopping_on_signals():
        Broken()
        time.sleep(0.1)
    assert told == ["it fell"]


def test_a_nudge_may_interrupt_another() -> None:
    """However many come at once; a handler that took a lock would wait for itself."""
    main, over, steps = threading.get_ident(), threading.Event(), 0

    def nudge() -> None:
        while not over.is_set():
            signal.pthread_kill(main, signal.SIGURG)

    with stopping_on_signals():
        thread = threading.Thread(target=nudge)
        thread.start()
        end = time.monotonic() + 0.5
        while time.monotonic() < end:
            steps += 1
        over.set()
        thread.join()
    assert steps > 100


def test_signals_that_are_handled_at_once_leave_nothing_behind() -> None:
    """Again and again; whoever nudges does not wait for a thread that has gone on."""
    before = set(threading.enumerate())
    for _ in range(200):
        with pytest.raises(StoppedError), stopping_on_signals():
            signal.raise_signal(signal.SIGTERM)
    assert not set(threading.enumerate()) - before
    assert signal.getsignal(signal.SIGURG) is signal.SIG_DFL


@pytest.mark.parametrize("to_the_end", [False, True])
def test_stops_that_are_ignored(to_the_end: bool) -> None:
    """Once the work is done, in the block; after it only where the process is about to end."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        ignore_stops()
        assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before, "outside of a block"
        with stopping_on_signals(to_the_end):
            ignore_stops()
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGINT)
        after = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
        assert after == ((signal.SIG_IGN, signal.SIG_IGN) if to_the_end else before)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def test_a_stop_in_what_must_be_done_whole_waits_for_its_end() -> None:
    """Such as a write to a connection: the error comes right after it, and not at all once everything is done."""
    done = []

    @in_one_go
    def write() -> None:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.2)
        done.append("whole")

    def write_and_go_on() -> None:
        write()
        time.sleep(patience(10.0))
        done.append("too much")

    for program in (write_and_go_on, write):
        with pytest.raises(StoppedError, match="stopped by SIGTERM"), stopping_on_signals():
            program()
    with stopping_on_signals():
        write()
        ignore_stops()
    assert done == ["whole"] * 3
