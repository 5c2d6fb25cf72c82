"""How a role is called: a port that admits each expected role once.

One thread serves the port, however many strangers there are, by the steps of `_admit`. A stranger costs a descriptor
until it says something that begins like TLS, and some kilobytes from then on, for ten seconds at most.
"""

from __future__ import annotations

import errno
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from mpfedxgb.errors import ExhaustedError, UserError, is_exhaustion
from mpfedxgb.transport.tls.identity import ALPN, Identity
from mpfedxgb.transport.tls.messages import (
    HANDSHAKE,
    OLD_VERSION,
    READ,
    SAME_VERSION,
    Steps,
    message,
    prepare,
    read_message,
    steps_of,
    write,
)
from mpfedxgb.transport.tls.pieces import Pieces
from mpfedxgb.transport.tls.rendezvous import LOOK, WIRE_VERSION, Refusal, Rendezvous, window_in
from mpfedxgb.transport.tls.stream import PeerStream, log
from mpfedxgb.transport.transport import Address

resource: Any
try:
    import resource
except ImportError:  # not a Unix
    resource = None

_MOST_CALLERS, _MOST_OF_ADDRESS = 256, 64
"""Callers at a time that are not admitted yet: of whomever, and of one address. The one that has waited longest makes
room for the next; the right ones need milliseconds, and dial again."""

_BACKLOG = 512

_NOT_OF_THIS_MACHINE = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
"""Why one of several addresses of a name is passed over."""

_HANDSHAKE_RECORD = b"\x16"
"""How every client of TLS begins."""

_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_GO_AWAY = 7


class _Caller:
    """A connection that is not admitted yet."""

    def __init__(self, plain: socket.socket, host: str) -> None:
        self.socket, self.fileno, self.host = plain, plain.fileno(), host
        self.until = time.monotonic() + HANDSHAKE
        self.is_certified = False
        self.steps: Steps[None]


class Server:
    """A listening role's port.

    Raises UserError if the port cannot be had.
    """

    def __init__(
        self, rendezvous: Rendezvous, listen: Address, identity: Identity, max_block: int, silence: float
    ) -> None:
        self._rendezvous, self._identity, self._max_block = rendezvous, identity, max_block
        self._silence, self._said = silence, set[tuple[str, str]]()
        self._callers: list[_Caller] = []  # the oldest first
        self._most = _most_callers()
        self._listening: list[socket.socket] = []
        with _as_listen_error(listen), ExitStack() as opened:
            self._selector = opened.enter_context(selectors.DefaultSelector())
            self._ear, self._bell = map(opened.enter_context, socket.socketpair())
            self._selector.register(self._ear, READ)
            for one in _listening_on(listen):
                self._listening.append(opened.enter_context(one))
                self._selector.register(one, READ, one)
            self._thread = threading.Thread(target=self._run, name=f"{identity.name}-admits", daemon=True)
            self._thread.start()
            opened.pop_all()
        log.info("%s listens on %s", identity.name, listen)

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
        except Exception as error:  # whatever it is, nobody is admitted any more
            self._rendezvous.fail(error)
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
        except Exception as error:  # whatever a caller brings about, the port stays open for others
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
        yield from steps_of(secured.do_handshake)
        caller.is_certified = True
        rendezvous, certified = self._rendezvous, Identity.names_of(secured)
        if secured.selected_alpn_protocol() != ALPN:
            reason = f"the caller {OLD_VERSION}"
            rendezvous.warn(certified[0] if certified else "", certified, reason)
            yield from write(secured, _go_away(f"{rendezvous.me.name} does not speak gRPC any more; {SAME_VERSION}"))
            return
        yield from write(secured, message({"wire": WIRE_VERSION}))
        said = yield from read_message(secured)
        answer, leave = message({"admitted": rendezvous.me.content()}), rendezvous.leave
        try:
            role = rendezvous.examine(said, certified, secured.version())
            window = min(rendezvous.me.window, window_in(said) or 0)
            pieces = Pieces(rendezvous.names[role], window, self._max_block)
            prepare(secured, self._silence)
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


def _listening_on(bound: Address) -> Generator[socket.socket, None, None]:
    """Yield sockets that listen, one for each address that a host name stands for."""
    found = socket.getaddrinfo(bound.host, bound.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    unusable, count = None, 0
    for family, kind, protocol, _, address in dict.fromkeys(found):
        try:
            one = _listening_at(family, kind, protocol, address, bound.host == "::")
        except OSError as error:
            if error.errno not in _NOT_OF_THIS_MACHINE:
                raise
            unusable = error
            continue
        count += 1
        yield one
    if unusable is not None and not count:
        raise unusable


@contextmanager
def _as_listen_error(bound: Address) -> Generator[None, None, None]:
    """Turn an OSError into an ExhaustedError or UserError that names the address."""
    try:
        yield
    except OSError as error:
        if is_exhaustion(error):
            raise ExhaustedError(f"cannot listen on {bound}: {error.strerror}", parameter=str(bound)) from None
        text = (
            f"cannot listen on {bound}: {error.strerror}; "
            "is another role or program using the port, and is the address one of this machine's?"
        )
        raise UserError(text, "busy", str(bound)) from None


def _listening_at(family: int, kind: int, protocol: int, address: Any, is_any: bool) -> socket.socket:
    one = socket.socket(family, kind, protocol)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not (is_any and socket.has_dualstack_ipv6()))
        one.bind(address)
        one.listen(_BACKLOG)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one
