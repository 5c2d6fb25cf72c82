"""How connections begin: a port that admits each expected role once, and a role that dials until it is admitted.

After the handshake of TLS the listening side speaks first: by then it has accepted the caller's certificate, and a
refusal by TLS finds the caller listening. The caller introduces itself, and is admitted or told why not. Each of these
is a message: a magic number, a length, and a JSON object of bounded size.

One thread serves the port, however many strangers there are, by the steps of `_admit`. A stranger costs a descriptor
until it says something that begins like TLS, and some kilobytes from then on, for ten seconds at most.
"""

from __future__ import annotations

import errno
import json
import os
import selectors
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, TypeVar

from mpfedxgb.errors import (
    ExhaustedError,
    FrameError,
    HandshakeError,
    PeerTimeoutError,
    SettingsError,
    UserError,
    is_exhaustion,
    printable,
)
from mpfedxgb.transport.certificates import ExpiryWatch
from mpfedxgb.transport.tls.identity import ALPN, OLD_ALPN, WHAT_TO_CHECK, Identity
from mpfedxgb.transport.tls.rendezvous import LOOK, WIRE_VERSION, Refusal, Rendezvous, window_in
from mpfedxgb.transport.tls.stream import PeerStream, Pieces, log
from mpfedxgb.transport.transport import parse_address
from mpfedxgb.transport.transports import ask_every

resource: Any
try:
    import resource
except ImportError:  # not a Unix
    resource = None

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Result = TypeVar("Result")
Steps = Generator[int, None, Result]
"""Does something with a socket that never waits, and yields for what it would have to."""

_MAGIC = b"MPF2"
_MESSAGE = struct.Struct("<4sI")
_MOST_BYTES = 1 << 16
"""Of a message before there is a stream: it may list all roles."""

_HANDSHAKE = 10.0
"""Seconds from a call to its admission, on both sides."""

_MOST_CALLERS, _MOST_OF_ADDRESS = 256, 64
"""Callers at a time that are not admitted yet: of whomever, and of one address. The one that has waited longest makes
room for the next; the right ones need milliseconds, and dial again."""

_BACKLOG = 512

_HANDSHAKE_RECORD = b"\x16"
"""How every client of TLS begins."""

_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_GO_AWAY = 7
_SAME = "give all roles the same version of mpfedxgb"
_OLD = f"speaks gRPC, as older versions of mpfedxgb did; {_SAME}"

# Messages before there is a stream


def _steps(call: Callable[[], Result]) -> Steps[Result]:
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield READ
        except ssl.SSLWantWriteError:
            yield WRITE


def message(content: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    text = json.dumps(content).encode()
    return _MESSAGE.pack(_MAGIC, len(text)) + text


def write(secured: ssl.SSLSocket, content: bytes) -> Steps[None]:
    """Write all of something."""
    while content:
        written = yield from _steps(partial(secured.send, content))
        content = content[written:]


def read_message(secured: ssl.SSLSocket) -> Steps[dict[str, Any]]:
    """Return what the other side says; raises FrameError for what is no message."""
    magic, size = _MESSAGE.unpack((yield from _read(secured, _MESSAGE.size)))
    if magic != _MAGIC or size > _MOST_BYTES:
        raise FrameError("what came is no message of a role")
    text = yield from _read(secured, size)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("what came is no message of a role") from None
    if not isinstance(content, dict):
        raise FrameError("what came is no message of a role")
    return content


def _read(secured: ssl.SSLSocket, size: int) -> Steps[bytes]:
    content = b""
    while len(content) < size:
        data = yield from _steps(partial(secured.recv, size - len(content)))
        if not data:
            raise _HungUp("it hung up")
        content += data
    return content


# Being called


class _Caller:
    """A connection that is not admitted yet."""

    def __init__(self, plain: socket.socket, host: str) -> None:
        self.socket, self.fileno, self.host = plain, plain.fileno(), host
        self.until = time.monotonic() + _HANDSHAKE
        self.is_certified = False
        self.steps: Steps[None]


class Server:
    """A listening role's port.

    Raises UserError if the port cannot be had.
    """

    def __init__(self, rendezvous: Rendezvous, listen: str, identity: Identity, max_block: int, silence: float) -> None:
        self._rendezvous, self._identity, self._max_block = rendezvous, identity, max_block
        self._silence, self._said = silence, set[tuple[str, str]]()
        self._callers: list[_Caller] = []  # the oldest first
        self._most = _most_callers()
        self._selector = selectors.DefaultSelector()
        self._ear, self._bell = socket.socketpair()
        self._selector.register(self._ear, READ)
        self._listening: list[socket.socket] = []
        try:
            for one in _listening_on(listen):
                self._listening.append(one)
                self._selector.register(one, READ, one)
        except BaseException:
            self._close_all()
            raise
        log.info("%s listens on %s", identity.name, listen)
        self._thread = threading.Thread(target=self._run, name=f"{identity.name}-admits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port and end the thread."""
        with suppress(OSError):  # closed already
            self._bell.send(b"!")
        self._thread.join()

    def _close_all(self) -> None:
        for one in (*self._listening, *(caller.socket for caller in self._callers), self._ear, self._bell):
            one.close()
        self._selector.close()

    def _run(self) -> None:
        try:
            while True:
                wait = max(0.0, self._callers[0].until - time.monotonic()) if self._callers else None
                for key, _ in self._selector.select(wait):
                    if key.fileobj is self._ear:
                        return
                    if isinstance(key.data, _Caller):
                        if key.data in self._callers:  # not thrown out by one that came before it in this turn
                            self._advance(key.data)
                    else:
                        self._accept(key.data)
                while self._callers and self._callers[0].until <= time.monotonic():
                    self._drop(self._callers[0])
        finally:
            self._close_all()

    def _accept(self, listening: socket.socket) -> None:
        try:
            plain, (host, *_) = listening.accept()
        except OSError as error:
            if is_exhaustion(error):
                if self._callers:
                    self._drop(self._callers[0])
                time.sleep(LOOK)
            return
        plain.setblocking(False)
        same = [caller for caller in self._callers if caller.host == host]
        if len(same) >= min(_MOST_OF_ADDRESS, self._most):
            self._throw_out(same)
        elif len(self._callers) >= self._most:
            busiest, _ = Counter(caller.host for caller in self._callers).most_common(1)[0]
            self._throw_out([caller for caller in self._callers if caller.host == busiest])
        caller = _Caller(plain, host)
        caller.steps = self._admit(caller)
        self._callers.append(caller)
        self._selector.register(caller.fileno, READ, caller)  # nothing else to do before it says something

    def _throw_out(self, callers: list[_Caller]) -> None:
        self._drop(min(callers, key=lambda caller: caller.is_certified))

    def _drop(self, caller: _Caller) -> None:
        self._forget(caller)
        caller.socket.close()

    def _forget(self, caller: _Caller) -> None:
        self._callers.remove(caller)
        self._selector.unregister(caller.fileno)

    def _advance(self, caller: _Caller) -> None:
        try:
            self._selector.modify(caller.fileno, next(caller.steps), caller)
        except StopIteration:
            if caller in self._callers:  # it was told why not
                self._drop(caller)
        except (OSError, ValueError, FrameError) as error:
            reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
            self._note(caller, reason)
            self._drop(caller)

    def _note(self, caller: _Caller, reason: str) -> None:
        """Log why a connection ended that nobody has admitted, once for each address and reason."""
        what = caller.host, reason
        if what not in self._said and len(self._said) < _MOST_CALLERS:
            self._said.add(what)
            log.info("%s hung up on a caller at %s: %s", self._rendezvous.me.name, *what)

    def _admit(self, caller: _Caller) -> Steps[None]:
        """Let a caller in, or tell it why not."""
        if caller.socket.recv(1, socket.MSG_PEEK) != _HANDSHAKE_RECORD:
            raise ConnectionError("it does not speak TLS")
        self._identity = self._identity.renewed()
        caller.socket = secured = self._identity.secure_call(caller.socket)
        yield from _steps(secured.do_handshake)
        caller.is_certified = True
        rendezvous, certified = self._rendezvous, Identity.names_of(secured)
        if secured.selected_alpn_protocol() != ALPN:
            reason = f"the caller {_OLD}"
            rendezvous.warn(certified[0] if certified else "", certified, reason)
            yield from write(secured, _go_away(f"{rendezvous.me.name} does not speak gRPC any more; {_SAME}"))
            return
        yield from write(secured, message({"wire": WIRE_VERSION}))
        said = yield from read_message(secured)
        answer, leave = message({"admitted": rendezvous.me.content()}), rendezvous.leave
        try:
            role = rendezvous.examine(said, certified, secured.version())
            window = min(rendezvous.me.window, window_in(said) or 0)
            pieces = Pieces(rendezvous.names[role], window, self._max_block)
            _prepare(secured, self._silence)
            rendezvous.join(role, lambda: PeerStream(secured, pieces, self._silence, answer, partial(leave, role)))
            self._forget(caller)
        except Refusal as refusal:
            if refusal.kind != "passing":
                rendezvous.warn(str(said.get("name", "")), certified, refusal.reason)
            yield from write(secured, message({"refused": refusal.reason, "kind": refusal.kind}))


def _go_away(reason: str) -> bytes:
    """Return what ends a connection of HTTP/2, whose other end shows the reason."""
    content = struct.pack(">II", 0, 0) + reason.encode()
    return _SETTINGS + len(content).to_bytes(3, "big") + bytes((_GO_AWAY, 0, 0, 0, 0, 0)) + content


def _most_callers() -> int:
    """Return how many callers may take a descriptor: at most a quarter of those of this process."""
    if resource is None:
        return _MOST_CALLERS
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_CALLERS if descriptors == resource.RLIM_INFINITY else max(1, min(_MOST_CALLERS, descriptors // 4))


def _listening_on(listen: str) -> Generator[socket.socket, None, None]:
    """Yield sockets that listen, one for each address that a host name stands for."""
    bound = parse_address(listen)
    try:
        found = socket.getaddrinfo(bound.host, bound.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            try:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    only_6 = not (bound.host == "::" and socket.has_dualstack_ipv6())
                    one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_6)
                one.bind(address)
                one.listen(_BACKLOG)
                one.setblocking(False)
            except OSError:
                one.close()
                raise
            yield one
    except OSError as error:
        if is_exhaustion(error):
            raise ExhaustedError(f"cannot listen on {listen}: {error.strerror}") from None
        raise UserError(
            f"cannot listen on {listen}: {error.strerror}; "
            "is another role or program using the port, and is the address one of this machine's?"
        ) from None


def _prepare(secured: socket.socket, silence: float) -> None:
    """Have a socket send at once, and the system wait for acknowledgements as long as this role for signs of life."""
    secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, min(int(1000 * silence), (1 << 31) - 1))


# Calling

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
        address: str,
        identity: Identity,
        max_block: int,
        silence: float,
        end: float,
        watch: ExpiryWatch | None = None,
    ) -> None:
        self._rendezvous, self._peer, self._address, self._identity = rendezvous, peer, address, identity
        self._max_block, self._silence, self._end, self._watch = max_block, silence, end, watch
        self._name = rendezvous.names[peer]
        # Until then "is connected already" may mean a dead connection of this role that nobody has noticed yet.
        self._noticed = time.monotonic() + ask_every(silence) + silence + _NOTICED
        self._thread = threading.Thread(target=self._run, name=f"dials-{self._name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; the rendezvous must be over."""
        self._thread.join(_HANDSHAKE)  # the name of a host may take longer than that to look up

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
        until = min(self._end, time.monotonic() + _HANDSHAKE)
        try:
            stream = dial(self._identity, self._address, self._name, until, self._introduce, rendezvous.over)
        except _Refused as refused:
            for_good = HandshakeError(f"{self._name} refused {me.name}: {refused}")
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
        rendezvous = self._rendezvous
        yield from write(secured, message(rendezvous.me.content()))
        answer = yield from read_message(secured)
        admitted = answer.get("admitted")
        window = window_in(admitted) if isinstance(admitted, dict) else None
        if window is None:
            raise _Refused(printable(str(answer.get("refused", "no reason was given"))[:500]), str(answer.get("kind")))
        _prepare(secured, self._silence)
        pieces = Pieces(self._name, min(rendezvous.me.window, window), self._max_block)
        try:
            return rendezvous.join(self._peer, lambda: PeerStream(secured, pieces, self._silence))
        except Refusal:  # the rendezvous ended in between
            raise _OverError from None


class _OverError(Exception):
    """Nobody waits for this connection any more."""


class _Refused(Exception):  # noqa: N818 # an answer
    """What a role says that refuses a caller; `kind` is `Refusal.kind`."""

    def __init__(self, reason: str, kind: str) -> None:
        super().__init__(reason)
        self.kind = kind


def probe(identity: Identity, address: str, peer: str, timeout: float) -> None:
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
    address: str,
    peer: str,
    until: float,
    then: Callable[[ssl.SSLSocket], Steps[Result]],
    over: threading.Event,
) -> Result:
    """Return what `then` makes of a connection to host:port, as soon as its role has shown that it is `peer`.

    Raises like `probe`; also if nobody waits for it any more.
    """
    where, bound, timeout = f"{peer} at {address}", parse_address(address), max(0.0, until - time.monotonic())
    said, opened = False, list[socket.socket]()  # the last one is the one in use

    def steps() -> Steps[Result]:
        nonlocal said
        plain = yield from _connect(bound.host, bound.port, opened)
        secured = identity.secure_answer(plain, peer)
        opened.append(secured)
        yield from _steps(secured.do_handshake)
        if secured.selected_alpn_protocol() == OLD_ALPN:
            raise HandshakeError(f"{where} {_OLD}")
        greeting = yield from read_message(secured)
        said = True
        if greeting.get("wire") != WIRE_VERSION:
            theirs = printable(str(greeting.get("wire"))[:20])
            raise HandshakeError(
                f"{where} speaks wire version {theirs}, {identity.name} speaks {WIRE_VERSION}; {_SAME}"
            )
        return (yield from then(secured))

    try:
        return _drive(steps(), opened, until, over)
    except BaseException as error:
        for one in opened:
            one.close()
        if isinstance(error, _LateError):
            raise PeerTimeoutError(f"{where} did not answer for {timeout:.3g} seconds") from None
        if isinstance(error, FrameError):
            raise HandshakeError(f"what answers at {address} is no role of mpfedxgb, or of another version") from None
        if isinstance(error, ssl.SSLError) and error.reason in _NOT_ACCEPTED and not said:
            raise HandshakeError(
                f"{where} does not accept the certificate {identity.certificate_file} of {identity.name}: "
                f"{_NOT_ACCEPTED[error.reason]}; {WHAT_TO_CHECK}"
            ) from None
        if isinstance(error, OSError):
            raise _as_ours(error, where) from None
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


def _as_ours(error: OSError, where: str) -> Exception:
    """Return what went wrong with a call, in words that say what to do about it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HandshakeError(f"the certificate of {where} is not accepted: {error.verify_message}; {WHAT_TO_CHECK}")
    if isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError, _HungUp)):
        return PeerTimeoutError(f"{where} hung up; it may be between two sessions, or have no room")
    if isinstance(error, ssl.SSLError):
        return PeerTimeoutError(f"{where} does not speak TLS 1.3; is it the right address and port?")
    words = "tried" if is_exhaustion(error) else "reached"
    return PeerTimeoutError(f"{where} cannot be {words}: {error.strerror or error}")


class _LateError(Exception):
    """There is no time left."""


class _HungUp(ConnectionError):  # noqa: N818 # says what happened
    """The other side has, in the middle of something."""


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


_attempts = count()


def _connect(host: str, port: int, opened: list[socket.socket]) -> Steps[socket.socket]:
    """Return a socket that is connected to the first address that answers; each attempt begins with another one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(str(error)) from None
    first = next(_attempts) % len(found)
    problem = OSError()
    for family, kind, protocol, _, address in (*found[first:], *found[:first]):
        plain = socket.socket(family, kind, protocol)
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
