"""A caller made by hand: TLS with a role's certificate, and then whatever a test wants to say."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from contracts.transport_contract import LONG, ROOM
from mpfedxgb.transport.tls.identity import ALPN
from mpfedxgb.transport.tls.messages import Steps, message, read_message
from mpfedxgb.transport.tls.rendezvous import Introduction
from support.loopback import Loopback


class ByHand:
    """A connection to the coordinator after the handshake of TLS."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        self.socket = secured

    def hear(self) -> dict[str, Any]:
        """Return the next message."""
        heard: dict[str, Any] = run(read_message(self.socket))
        return heard

    def say(self, content: dict[str, Any]) -> None:
        """Wait for the greeting and say something."""
        assert set(self.hear()) == {"wire"}
        self.socket.sendall(message(content))

    def introduce(self, name: str = "bank") -> dict[str, Any]:
        """Introduce oneself well and return the answer."""
        self.say(Introduction(name, "test", ROOM).content())
        return self.hear()

    def write(self, *contents: bytes) -> None:
        """Write some bytes; the other side may have hung up."""
        with suppress(OSError):
            for content in contents:
                self.socket.sendall(content)

    def hear_the_end(self) -> bytes:
        """Return what comes until the other side hangs up."""
        heard = b""
        with suppress(ConnectionError, ssl.SSLError):
            while data := self.socket.recv(1 << 16):
                heard += data
        return heard

    def hang_up(self) -> None:
        """End without a word, at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


def run(steps: Steps[Any]) -> Any:
    """Run steps on a socket that waits."""
    try:
        next(steps)
    except StopIteration as end:
        return end.value
    raise AssertionError("a socket that waits has nothing to wait for")


@contextmanager
def by_hand(federation: Loopback, name: str | None = "bank", alpn: str = ALPN) -> Iterator[ByHand]:
    """Call the coordinator with a role's certificate, or with none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bank = federation.identity(name or "bank")
    context.load_verify_locations(bank.ca_file)
    context.set_alpn_protocols([alpn])
    if name is not None:
        context.load_cert_chain(bank.certificate_file, bank.key_file)
    plain = socket.create_connection(("127.0.0.1", federation.ports[0]), LONG)
    with context.wrap_socket(plain, server_hostname="coordinator") as secured:
        yield ByHand(secured)
