"""How the connections of one role come about: those who dial in, those who are dialled, and who is still missing.

A caller introduces itself: wire version, federation, name and window. The listening role holds that against the roster
and against the certificate that the caller has proved to own, before it reads anything else.
A refused caller is told why, and so is the log; the role goes on waiting for the right one.

What a role says while it waits: to its own log for whom, and to those who are there already the same.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from mpfedxgb.errors import FederationError, printable
from mpfedxgb.transport.tls.stream import PeerStream, log
from mpfedxgb.transport.transport import STAR
from mpfedxgb.transport.transports import InterimMessages

SAY_EVERY = 10.0
"""Seconds between two lines in the log."""


class Waiting:
    """Says for whom a role waits: at once, every ten seconds, and after `timeout` seconds every `timeout` seconds.

    The longer pause is for roles that serve, for whom waiting is what they do.
    """

    def __init__(self, rendezvous: Rendezvous, interim: InterimMessages | None, timeout: float) -> None:
        self._rendezvous, self._interim, self._timeout = rendezvous, interim, timeout
        self._began = self._next = time.monotonic()
        self._last_reported: dict[PeerStream, list[int]] = {}

    def say(self) -> None:
        """Say what is due by now; call it often."""
        missing, now = self._rendezvous.missing(), time.monotonic()
        if not missing:
            return
        if now >= self._next:
            log.info("%s waits for %s", self._rendezvous.me.name, self._rendezvous.who_is_missing())
            self._next = now + (SAY_EVERY if now < self._began + self._timeout else max(SAY_EVERY, self._timeout))
        if self._interim is None:
            return
        for stream in [stream for stream in list(self._rendezvous.streams.values()) if stream.alive]:
            if self._last_reported.get(stream) != missing:  # only news: what is not read must not pile up
                self._last_reported[stream] = missing
                with suppress(FederationError):  # it has no room, or has gone
                    stream.send(self._interim.waiting([self._rendezvous.names[role] for role in missing]), 0)
        self._last_reported = {stream: names for stream, names in self._last_reported.items() if stream.alive}


WIRE_VERSION = 3
"""Grows with every change after which old and new roles could not read each other's pieces."""

LOOK = 0.1
"""Seconds between two looks at what nobody tells of."""

_MOST_WARNINGS = 100
_NOT_AGAIN = "it has not called again"


@dataclass(frozen=True, slots=True)
class Introduction:
    """What both sides of a connection say of themselves."""

    name: str
    federation: str
    window: int
    """Bytes that it has room for."""
    roles: tuple[str, ...] = ()
    """Everybody, in the order of its settings; empty if it does not say."""
    topology: str = STAR

    def content(self) -> dict[str, Any]:
        """Return it as what a message may hold."""
        return {"wire": WIRE_VERSION, **asdict(self)}


def window_in(said: Mapping[str, Any]) -> int | None:
    """Return the window that the other side offers, if it does."""
    window = said.get("window")
    return window if type(window) is int and 0 < window < 1 << 50 else None


class Refusal(Exception):  # noqa: N818 # it is an answer to a caller; nobody else sees it
    """Why a caller is not connected.

    `kind` is "lasting"; "passing" if a later call may succeed; or "duplicate" if the role that calls is connected, as
    far as this one knows.
    """

    def __init__(self, reason: str, kind: str = "lasting") -> None:
        super().__init__(reason)
        self.reason, self.kind = reason, kind


class Rendezvous:
    """The roles that one role waits for, and the streams to those who came."""

    def __init__(self, role: int, me: Introduction, names: Sequence[str], expected: Sequence[int]) -> None:
        self.me, self.names, self.expected = me, names, list(expected)
        self.callers = [peer for peer in expected if peer > role]
        self.called = [peer for peer in expected if peer < role]
        self.streams: dict[int, PeerStream] = {}
        self.over = threading.Event()
        """Set when all are there, or when waiting has ended otherwise: nobody joins or dials any more."""
        if not self.expected:
            self.over.set()
        self.failure: Exception | None = None
        self._reasons = {
            **dict.fromkeys(self.callers, "it has not called"),
            **dict.fromkeys(self.called, "it has not answered"),
        }
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._warned: set[tuple[str, str]] = set()

    def examine(self, said: Mapping[str, Any], certified: Sequence[str], version: str | None) -> int:
        """Return the role of a caller, or raise why it is refused.

        `said` is what it says of itself, `certified` are the names in its certificate, `version` is that of its TLS.
        """
        if version != "TLSv1.3":
            raise Refusal(f"the connection uses {version}; only TLS 1.3 is accepted")
        claimed = str(said.get("name", ""))
        roles = [name for name in certified if name in self.names]
        if not roles:
            raise Refusal(f"the certificate is for {_quoted(certified)}, which is no role of this federation")
        if len(roles) > 1:
            raise Refusal(f"the certificate is for {_quoted(roles)}; a certificate is for one role only")
        if roles != [claimed]:
            raise Refusal(f"the caller says that it is {claimed[:100]!r}, but its certificate is for {_quoted(roles)}")
        wire = said.get("wire", "none")
        if wire != WIRE_VERSION:
            raise Refusal(
                f"{claimed} speaks wire version {printable(str(wire)[:20])}, {self.me.name} speaks {WIRE_VERSION}; "
                "give all roles the same version of mpfedxgb"
            )
        if said.get("federation") != self.me.federation:
            raise Refusal(f"{claimed} and {self.me.name} are not in the same federation; compare the federation's name")
        listed, mine = said.get("roles"), list(self.me.roles)
        if mine and listed and listed != mine:
            theirs, ours = (",".join(map(str, roles))[:200] for roles in (_list_of(listed), mine))
            raise Refusal(
                f"{claimed} lists the roles as {printable(theirs)}, {self.me.name} as {ours}; give all roles the same "
                "participants in the same order"
            )
        topology = str(said.get("topology", STAR))
        if topology != self.me.topology:
            raise Refusal(
                f"{claimed} says that the topology is {printable(topology[:20])}, {self.me.name} says "
                f"{self.me.topology}; give all roles the same [network] topology"
            )
        role = list(self.names).index(claimed)
        if role not in self.callers:
            raise Refusal(f"{self.me.name} expects no call of {claimed}; do both have the same list of roles?")
        if window_in(said) is None:
            raise Refusal(f"{claimed} does not say how much room it has; is it another version of mpfedxgb?")
        return role

    def join(self, role: int, connect: Callable[[], PeerStream]) -> PeerStream:
        """Make a role's stream and return it, or raise why there is none."""
        with self._lock:
            there = self.streams.get(role)
            if there is not None and there.alive:
                raise Refusal(
                    f"{self.names[role]} is connected already; does another process run as {self.names[role]}?",
                    "duplicate",
                )
            if self.over.is_set():
                raise Refusal(f"{self.me.name} has begun without {self.names[role]} or is about to end", "passing")
            stream = self.streams[role] = connect()
            self._reasons[role] = "the connection was lost"  # if it is missing again before more is known
            gone = not stream.alive
            if gone:  # it ended before it was in its place here, so that `leave` did not find it, or finds no news
                self._reasons[role] = f"{stream.why_ended}; {_NOT_AGAIN}"
            if not self.missing():
                self.over.set()  # here: a stream may break, with what it brought, before the waiting thread looks at it
            self._changed.notify_all()
        log.info("%s and %s are connected", self.me.name, self.names[role])
        if gone and not self.over.is_set():
            self._log_missing(role)
        return stream

    def leave(self, role: int, stream: PeerStream) -> None:
        """Note that a caller's stream has ended, unless it has called again."""
        if self.streams.get(role) is stream:
            self.note(role, f"{stream.why_ended}; {_NOT_AGAIN}")

    def warn(self, caller: str, certified: Sequence[str], reason: str) -> None:
        """Log a refusal, once for each caller and reason; of a role that is waited for, remember it."""
        what = (caller[:100], reason)
        with self._lock:
            for role in self.missing():
                if self.names[role] in certified:
                    self._reasons[role] = f"it was refused: {reason}"
            if what in self._warned or len(self._warned) >= _MOST_WARNINGS:
                return
            self._warned.add(what)
        log.warning("%s refused a connection of %r: %s", self.me.name, *what)

    def note(self, role: int, reason: str) -> None:
        """Remember why a role is not there, and log it as long as this role waits."""
        with self._lock:
            news = self._reasons[role] != reason and not self.over.is_set()
            self._reasons[role] = reason
        if news:
            self._log_missing(role)

    def _log_missing(self, role: int) -> None:
        log.info("%s waits for %s: %s", self.me.name, self.names[role], self._reasons[role])

    def fail(self, error: Exception) -> None:
        """Give up: waiting longer will not help."""
        with self._lock:
            self.failure = self.failure or error
            self._changed.notify_all()

    def missing(self) -> list[int]:
        """Return the roles that are not connected, or not any more."""
        return [role for role in self.expected if role not in self.streams or not self.streams[role].alive]

    def wait(self, timeout: float) -> bool:
        """Wait a while for everybody, and return whether they are there; raises what `fail` was told."""
        with self._lock:
            self._changed.wait_for(lambda: self.failure is not None or self.over.is_set(), timeout)
            if self.failure is not None:
                raise self.failure
            return self.over.is_set()

    def give_up(self, keep_who_is_there: bool) -> bool:
        """End the waiting, so that nobody is let in any more; return whether it ended without everybody."""
        with self._lock:
            if self.over.is_set() or (keep_who_is_there and any(s.alive for s in self.streams.values())):
                return False
            self.over.set()
            return True

    def finish(self) -> None:
        """Let nobody in any more; anyone who joins at the moment is among the streams afterwards."""
        with self._lock:
            self.over.set()
            self._changed.notify_all()

    def who_is_missing(self) -> str:
        """Return the missing roles and what is known of them."""
        return "; ".join(f"{self.names[role]}: {self._reasons[role]}" for role in self.missing())


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(repr(name[:100]) for name in names[:5]) or "nobody"


def _list_of(listed: object) -> list[object]:
    return listed if isinstance(listed, list) else [listed]
