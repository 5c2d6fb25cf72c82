"""How a role calls: it dials until it is admitted, it is refused for good, or the rendezvous is over."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable
from itertools import count

from mpfedxgb.errors import FrameError, HandshakeError, PeerTimeoutError, SettingsError, is_exhaustion, printable
from mpfedxgb.transport.expiry import ExpiryWatch
from mpfedxgb.transport.tls.identity import OLD_ALPN, WHAT_TO_CHECK, Identity
from mpfedxgb.transport.tls.messages import (
    HANDSHAKE,
    OLD_VERSION,
    SAME_VERSION,
    WRITE,
    HungUp,
    Result,
    Steps,
    message,
    prepare,
    read_message,
    steps_of,
    write,
)
from mpfedxgb.transport.tls.pieces import Pieces
from mpfedxgb.transport.tls.rendezvous import LOOK, WIRE_VERSION, Refusal, Rendezvous, window_in
from mpfedxgb.transport.tls.stream import PeerStream
from mpfedxgb.transport.transport import Address
from mpfedxgb.transport.transports import ConnectionSettings, ask_every

_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 1.0

_NOTICED = 5.0
"""Seconds that a peer has to notice that a connection is lost."""


class Client:
    """A thread that dials one peer until it is connected, it is refused for good, or the rendezvous is over.

    `end` is when the last attempt has to be over, on the monotonic clock.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        peer: int,
        settings: ConnectionSettings,
        identity: Identity,
        end: float,
        watch: ExpiryWatch | None = None,
    ) -> None:
        self._rendezvous, self._peer, self._settings, self._identity = rendezvous, peer, settings, identity
        self._name, self._end, self._watch = rendezvous.names[peer], end, watch
        silence = settings.silence
        # Until then "is connected already" may mean a dead connection of this role that nobody has noticed yet.
        self._noticed = time.monotonic() + ask_every(silence) + silence + _NOTICED
        self._attempts = count()
        self._thread = threading.Thread(target=self._run, name=f"dials-{self._name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; the rendezvous must be over."""
        self._thread.join(HANDSHAKE)  # the name of a host may take longer than that to look up

    def _run(self) -> None:
        over, pause = self._rendezvous.over, _FIRST_PAUSE
        while not over.is_set():
            try:
                reason = self._try()
                if over.is_set():
                    return
                self._rendezvous.note(self._peer, reason)
            except _OverError:
                return
            except Exception as error:  # whatever it is, nobody dials any more
                self._rendezvous.fail(error)
                return
            over.wait(pause)
            pause = min(_LONGEST_PAUSE, 1.5 * pause)

    def _try(self) -> str:
        """Call, and stay as long as there is a connection; return why there is none."""
        rendezvous, me = self._rendezvous, self._rendezvous.me
        self._identity = self._identity.renewed()
        until, address = min(self._end, time.monotonic() + HANDSHAKE), self._settings.addresses[self._peer]
        try:
            attempt = next(self._attempts)
            stream = dial(self._identity, address, self._name, until, self._introduce, rendezvous.over, attempt)
        except _Refused as refused:
            for_good = HandshakeError(f"{self._name} refused {me.name}: {refused}", "refused", self._name)
            if refused.kind == "lasting" or (refused.kind == "duplicate" and time.monotonic() >= self._noticed):
                raise for_good from None
            return str(refused)
        except (PeerTimeoutError, SettingsError) as error:  # files that are just replaced are no reason to give up
            return str(error)
        except HandshakeError as error:
            if self._watch is None or not self._watch.has_ended:
                raise
            return str(error)  # there may be a new certificate soon
        while not rendezvous.over.wait(LOOK) and stream.alive:
            pass
        return stream.why_ended

    def _introduce(self, secured: ssl.SSLSocket) -> Steps[PeerStream]:
        rendezvous, silence = self._rendezvous, self._settings.silence
        yield from write(secured, message(rendezvous.me.content()))
        answer = yield from read_message(secured)
        admitted = answer.get("admitted")
        window = window_in(admitted) if isinstance(admitted, dict) else None
        if window is None:
            raise _Refused(printable(str(answer.get("refused", "no reason was given"))[:500]), str(answer.get("kind")))
        prepare(secured, silence)
        pieces = Pieces(self._name, min(rendezvous.me.window, window), self._settings.max_block)
        try:
            return rendezvous.join(self._peer, lambda: PeerStream(secured, pieces, silence))
        except Refusal:  # the rendezvous ended in between
            raise _OverError from None


class _OverError(Exception):
    """Nobody waits for this connection any more."""


class _Refused(Exception):  # noqa: N818 # an answer
    """What a role says that refuses a caller; `kind` is `Refusal.kind`."""

    def __init__(self, reason: str, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


def probe(identity: Identity, address: Address, peer: str, timeout: float) -> None:
    """Check that a peer answers at host:port and that both sides accept each other's certificates.

    Raises PeerTimeoutError where waiting may help (nobody listens) and HandshakeError where it will not (a certificate
    is not accepted).
    """

    def hang_up(secured: ssl.SSLSocket) -> Steps[None]:
        yield from ()
        secured.close()

    dial(identity, address, peer, time.monotonic() + timeout, hang_up, threading.Event())


def dial(
    identity: Identity,
    address: Address,
    peer: str,
    until: float,
    then: Callable[[ssl.SSLSocket], Steps[Result]],
    over: threading.Event,
    attempt: int = 0,
) -> Result:
    """Return what `then` makes of a connection to host:port, as soon as its role has shown that it is `peer`.

    Raises like `probe`; also if nobody waits for it any more.
    """
    where, timeout = f"{peer} at {address}", max(0.0, until - time.monotonic())
    shaken, said, opened = False, False, list[socket.socket]()  # the last one is the one in use

    def steps() -> Steps[Result]:
        nonlocal shaken, said
        plain = yield from _connect(address, opened, attempt)
        secured = identity.secure_answer(plain, peer)
        opened.append(secured)
        yield from steps_of(secured.do_handshake)
        shaken = True
        if secured.selected_alpn_protocol() == OLD_ALPN:
            raise HandshakeError(f"{where} {OLD_VERSION}", "version", peer)
        greeting = yield from read_message(secured)
        said = True
        if greeting.get("wire") != WIRE_VERSION:
            theirs = printable(str(greeting.get("wire"))[:20])
            text = f"{where} speaks wire version {theirs}, {identity.name} speaks {WIRE_VERSION}; {SAME_VERSION}"
            raise HandshakeError(text, "version", peer, theirs)
        return (yield from then(secured))

    try:
        return _drive(steps(), opened, until, over)
    except BaseException as error:
        for one in opened:
            one.close()
        if isinstance(error, _LateError):
            raise PeerTimeoutError(
                f"{where} did not answer for {timeout:.3g} seconds", parameter=peer, value=timeout
            ) from None
        if isinstance(error, FrameError):
            raise HandshakeError(
                f"what answers at {address} is no role of mpfedxgb, or of another version", "damaged", str(address)
            ) from None
        # Only after the handshake has the peer proved who it is, and said what it thinks of the certificate; anybody on
        # the way can send an alert before.
        if isinstance(error, ssl.SSLError) and error.reason in _NOT_ACCEPTED and shaken and not said:
            text = (
                f"{where} does not accept the certificate {identity.certificate_file} of {identity.name}: "
                f"{_NOT_ACCEPTED[error.reason]}; {WHAT_TO_CHECK}"
            )
            raise HandshakeError(text, "certificate", identity.name) from None
        if isinstance(error, OSError):
            raise _as_ours(error, peer, where) from None
        raise


_NOT_ACCEPTED = {
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it has expired",
    "SSLV3_ALERT_BAD_CERTIFICATE": "it is not valid",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "it is not valid",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "it is for another purpose",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "it was revoked",
    "TLSV1_ALERT_UNKNOWN_CA": "its authority is not known",
    "TLSV1_ALERT_DECRYPT_ERROR": "its authority is another one",
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": "it takes one, and none was shown",
}
"""What TLS says to a caller with a certificate that is not accepted."""


def _as_ours(error: OSError, peer: str, where: str) -> Exception:
    """Return what went wrong with a call, in words that say what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeError(
            f"the certificate of {where} is not accepted: {error.verify_message}; {WHAT_TO_CHECK}", "certificate", peer
        )
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError, HungUp)):
        return PeerTimeoutError(
            f"{where} hung up; it may be between two sessions, or have no room", parameter=peer, value="hung up"
        )
    if isinstance(error, ssl.SSLError):
        return PeerTimeoutError(
            f"{where} does not speak TLS 1.3; is it the right address and port?", parameter=peer, value="TLS"
        )
    words = "tried" if is_exhaustion(error) else "reached"
    return PeerTimeoutError(f"{where} cannot be {words}: {error.strerror or error}", parameter=peer, value=error.errno)


class _LateError(Exception):
    """There is no time left."""


def _drive(steps: Steps[Result], opened: list[socket.socket], until: float, over: threading.Event) -> Result:
    """Return what steps lead to; look again and again whether they still matter."""
    try:
        while True:
            events = next(steps)
            with selectors.DefaultSelector() as waiting:
                waiting.register(opened[-1], events)
                while not waiting.select(min(LOOK, max(0.0, until - time.monotonic()))):
                    if over.is_set():
                        raise _OverError
                    if time.monotonic() >= until:
                        raise _LateError
    except StopIteration as end:
        result: Result = end.value
        return result


def _connect(where: Address, opened: list[socket.socket], attempt: int) -> Steps[socket.socket]:
    """Return a socket that is connected to the first address that answers; each attempt begins with another one."""
    try:
        found = socket.getaddrinfo(where.host, where.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    first = attempt % len(found)
    problem = OSError()
    for family, kind, protocol, _, address in (*found[first:], *found[:first]):
        try:
            plain = socket.socket(family, kind, protocol)
        except OSError as error:  # such as a family that this machine has not; another address may do
            problem = error
            continue
        opened.append(plain)
        plain.setblocking(False)
        code = plain.connect_ex(address)
        if code == errno.EINPROGRESS:
            yield WRITE
            code = plain.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if not code:
            return plain
        plain.close()
        problem = OSError(code, os.strerror(code))
    raise problem
