"""The transport between organisations: one socket per connection, mutual TLS 1.3 always.

Of two roles that are connected, the one with the higher number dials: in a star only the coordinator and the active
participant listen, in a mesh everybody but the last. `connect` returns when all neighbours of a role are connected. A
lost connection is not mended: close the transport and `connect` again.

Why sockets, and what was measured: docs/adr/0032-tls-sockets.md.
"""

from __future__ import annotations

import atexit
import math
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from mpfedxgb.errors import FederationError, MissingPeerError, SettingsError
from mpfedxgb.transport.expiry import READ_EVERY, ExpiryWatch
from mpfedxgb.transport.tls.calls import Client
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.tls.rendezvous import LOOK, Introduction, Rendezvous, Waiting
from mpfedxgb.transport.tls.server import Server
from mpfedxgb.transport.tls.stream import PeerStream, log
from mpfedxgb.transport.transport import Block, neighbours
from mpfedxgb.transport.transports import ConnectionSettings, InterimMessages

__all__ = ["TlsTransport", "connect", "open_transport"]

LINGER = 5.0
"""Seconds that closing waits for a peer that takes nothing of what was sent before."""

LINGER_IN_ALL, SLOWEST = 600.0, 125_000
"""Seconds that closing waits in all, however slowly peers take what was sent; the bytes of that for another second."""

LAST_LINGER, LAST_LINGER_IN_ALL = 1.0, 30.0
"""The same at the end of the process, if nobody has closed the transport."""


def open_transport(settings: ConnectionSettings) -> TlsTransport:
    """Connect a role with its neighbours as its settings say (see transports.py)."""
    end = time.monotonic() + settings.timeout
    while True:
        identity, watch = _identity(settings, end)
        try:
            return connect(settings, identity, stays=identity.is_current if settings.serves else None, watch=watch)
        except _Renewed:
            settings = replace(settings, again=True, timeout=max(LOOK, end - time.monotonic()))


def _identity(settings: ConnectionSettings, end: float) -> tuple[Identity, ExpiryWatch]:
    """Return a role's identity and what looks after it; a role that has run before waits until its files can be used.

    Raises SettingsError at the start of a role, and MissingPeerError later, when it has waited in vain until `end`.
    """
    assert settings.credentials is not None
    load = partial(Identity.of, settings.names[settings.role], settings.credentials)
    text = ""
    while True:
        try:
            identity = load(may_have_ended=settings.again)
            return identity, ExpiryWatch(identity.name, identity.certificate_file, identity.expires, load)
        except SettingsError as error:
            if not settings.again:
                raise
            if time.monotonic() >= end:
                raise MissingPeerError(
                    f"{settings.names[settings.role]} cannot connect: {error}", parameter=settings.names[settings.role]
                ) from None
            if text != str(error):
                text = str(error)
                log.warning("%s; reading the files again", error)
        time.sleep(min(READ_EVERY, max(0.0, end - time.monotonic())))


class _Renewed(Exception):  # noqa: N818 # no error: the role connects anew
    """The certificate with which a role waited has ended, and there is a new one."""


def connect(
    settings: ConnectionSettings,
    identity: Identity,
    peers: Sequence[int] | None = None,
    stays: Callable[[], bool] | None = None,
    watch: ExpiryWatch | None = None,
) -> TlsTransport:
    """Connect a role with its neighbours.

    Parameters
    ----------
    settings : ConnectionSettings
        Of this role.
    identity : Identity
        This role's certificate and key.
    peers : sequence of int or None
        The roles to connect with; all neighbours if None.
    stays : callable or None
        Asked when the time is over whether to keep those who are there and wait on, for as long again; never if None.
    watch : ExpiryWatch or None
        Looks after the certificate while this role waits.

    Raises
    ------
    MissingPeerError
        Somebody is missing; says who, and what is known of it. With `stays`: nobody is there, or it said no.
    HandshakeError
        This role is refused, or refuses, for good; says why.
    UserError
        The port is taken, or the settings do not fit together.
    """
    role, names = settings.role, settings.names
    expected = neighbours(settings.topology, role, len(names)) if peers is None else list(peers)
    if identity.name != names[role]:
        text = f"the identity is of {identity.name!r}, but role {role} is {names[role]!r}"
        raise SettingsError(text, "mismatch", "identity", identity.name)
    me = Introduction(identity.name, settings.federation, settings.capacity, names, settings.topology)
    transport = TlsTransport(role, Rendezvous(role, me, names, expected))
    try:
        end = math.inf if stays else time.monotonic() + settings.timeout
        transport._open(settings, identity, end, watch)
        transport._wait(settings, stays, watch)
    except _Renewed:  # without a word: who waits for this role finds it again
        transport.close()
        raise
    except BaseException as error:
        transport._part(error, settings.interim)
        raise
    return transport


class TlsTransport:
    """One role's end of its connections; made by `connect`."""

    def __init__(self, role: int, rendezvous: Rendezvous) -> None:
        self._role, self._rendezvous = role, rendezvous
        self._server: Server | None = None
        self._clients: list[Client] = []
        self._closing, self._close_by = threading.Lock(), math.inf
        _open.add(self)

    def _open(self, settings: ConnectionSettings, identity: Identity, end: float, watch: ExpiryWatch | None) -> None:
        """Listen and dial, as this role has to; dialling ends at `end`."""
        rendezvous, listen = self._rendezvous, settings.listen
        identity.check_usage(listens=bool(rendezvous.callers), dials=bool(rendezvous.called))
        for peer in rendezvous.called:
            if peer not in settings.addresses:
                text = f"there is no address for {rendezvous.names[peer]}; give its host:port"
                raise SettingsError(text, "missing", rendezvous.names[peer], "address")
        if rendezvous.callers and listen is None:
            text = f"{identity.name} has to listen, but has nothing to listen on; give its host:port"
            raise SettingsError(text, "missing", identity.name, "listen")
        with self._closing:  # who closes meanwhile closes all of it
            if rendezvous.callers:
                assert listen is not None
                self._server = Server(rendezvous, listen, identity, settings.max_block, settings.silence)
            self._clients += [Client(rendezvous, peer, settings, identity, end, watch) for peer in rendezvous.called]

    def _wait(self, settings: ConnectionSettings, stays: Callable[[], bool] | None, watch: ExpiryWatch | None) -> None:
        """Wait until everybody is there, and say for whom; raise _Renewed if that takes another certificate."""
        rendezvous, timeout, end = self._rendezvous, settings.timeout, time.monotonic() + settings.timeout
        waiting = Waiting(rendezvous, settings.interim, timeout)
        waiting.say()
        if watch is not None:
            watch.look()
        while not rendezvous.wait(min(LOOK, max(0.0, end - time.monotonic()))):
            waiting.say()
            if watch is not None and watch.look():
                raise _Renewed
            if time.monotonic() < end:
                continue
            if rendezvous.give_up(keep_who_is_there=stays is not None and stays()):
                text = f"not all roles came within {timeout:g} seconds; {rendezvous.who_is_missing()}"
                raise MissingPeerError(text, parameter=rendezvous.who_is_missing(), value=timeout)
            end += timeout

    def _part(self, error: BaseException, interim: InterimMessages | None) -> None:
        """Tell those who are there why this role does not wait any longer, and close."""
        self._rendezvous.finish()
        try:
            for stream in list(self._rendezvous.streams.values()):
                if interim is not None:
                    with suppress(FederationError):
                        stream.send(interim.giving_up(error), 0)
        finally:
            self.close()

    def send(self, peer: int, block: Block, timeout: float) -> None:
        """Hand a block over (see Transport)."""
        self._stream_to(peer).send(block, timeout)

    def receive(self, peer: int, timeout: float) -> Block:
        """Return the next block (see Transport)."""
        return self._stream_to(peer).receive(timeout)

    def _stream_to(self, peer: int) -> PeerStream:
        try:
            return self._rendezvous.streams[peer]
        except KeyError:
            raise FederationError(f"roles {self._role} and {peer} are not connected", "place", str(peer)) from None

    def close(self) -> None:
        """Release everything (see Transport).

        What was sent before still arrives, unless a peer takes nothing, or all of them less than `SLOWEST` in a second.
        """
        owed = sum(stream.owed for stream in list(self._rendezvous.streams.values()))
        self._end(LINGER, time.monotonic() + LINGER_IN_ALL + owed / SLOWEST)

    def _end(self, linger: float, until: float) -> None:
        self._close_by = min(self._close_by, until)  # hurries another thread that closes, too
        self._rendezvous.finish()
        streams = list(self._rendezvous.streams.values())
        for stream in streams:
            stream.close()
        with self._closing:
            for stream in streams:
                stream.wait_until_ended(linger, lambda: self._close_by)
            for client in self._clients:
                client.close()
            if self._server is not None:
                self._server.close()
        _open.discard(self)


_open: weakref.WeakSet[TlsTransport] = weakref.WeakSet()
"""Transports that nobody has closed yet, those that still wait for peers among them."""


def _leave() -> None:
    """Close what is open when the process ends: what was sent arrives, and what waits for peers ends."""
    until = time.monotonic() + LAST_LINGER_IN_ALL
    for transport in list(_open):
        transport._rendezvous.fail(FederationError("this process ends", "ended", "process"))
        transport._end(LAST_LINGER, until)


atexit.register(_leave)
