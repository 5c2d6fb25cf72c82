"""An open port: noise, other protocols and callers without rights reach nothing, and keep nobody out."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Callable
from typing import Any

import pytest

from contracts.transport_contract import LONG, Call
from mpfedxgb.transport.grpc import client
from mpfedxgb.transport.grpc.rendezvous import METHOD, REFUSED, Introduction, Rendezvous
from mpfedxgb.transport.grpc.stream import MESSAGE_BYTES, PIECE_BYTES
from mpfedxgb.transport.grpc.tls import grpc
from mpfedxgb.transport.grpc.wire_pb2 import Piece
from support.loopback import Loopback


def tls_client(federation: Loopback, certificate: bool) -> ssl.SSLSocket:
    """Return a TLS connection to the coordinator, with the bank's certificate or with none."""
    bank = federation.identity("bank")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(bank.ca_file)
    context.set_alpn_protocols(["h2"])
    if certificate:
        context.load_cert_chain(bank.certificate_file, bank.key_file)
    plain = socket.create_connection(("127.0.0.1", federation.ports[0]), LONG)
    return context.wrap_socket(plain, server_hostname="coordinator")


def plain_bytes(federation: Loopback) -> None:
    """Send noise and ordinary requests to the port."""
    for content in (b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", os.urandom(1000), b"\x16\x03\x01" + os.urandom(500)) * 10:
        address = ("127.0.0.1", federation.ports[0])
        with socket.create_connection(address, LONG) as connection, contextlib.suppress(OSError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1000)[:4] != b"HTTP"


def plain_http2(federation: Loopback) -> None:
    """Call without TLS."""
    with grpc.insecure_channel(f"127.0.0.1:{federation.ports[0]}") as channel:
        check_refused(channel, b"hello", "UNAVAILABLE")


def no_certificate(federation: Loopback) -> None:
    """Speak TLS 1.3 and HTTP/2 without a certificate of one's own: the connection ends before anything is read."""
    for _ in range(8):
        with contextlib.suppress(ssl.SSLError, ConnectionResetError), tls_client(federation, certificate=False) as one:
            one.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
            assert one.recv(1000) == b""


def noise_inside(federation: Loopback) -> None:
    """Send noise under a good certificate."""
    for content in (b"\0" * 100, os.urandom(1000), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(1000)) * 4:
        with tls_client(federation, certificate=True) as one, contextlib.suppress(OSError):
            one.sendall(content)
            while one.recv(1000):
                pass


@pytest.mark.parametrize("come_along", [plain_bytes, plain_http2, no_certificate, noise_inside])
@pytest.mark.usefixtures("coordinator")
def test_what_is_no_role_is_not_even_examined(
    federation: Loopback, come_along: Callable[[Loopback], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise, other protocols and callers without a certificate reach nothing of ours; the federation still forms."""
    with monkeypatch.context() as patch:
        patch.setattr(Rendezvous, "examine", lambda *_: pytest.fail("a stranger was examined"))
        Call(come_along, federation).result()


def secured(federation: Loopback, name: str = "bank") -> Any:
    """Return a channel to the coordinator as a role has it, but for what is said on it."""
    options = (*client._OPTIONS[2:], ("grpc.ssl_target_name_override", "coordinator"))
    address = f"127.0.0.1:{federation.ports[0]}"
    return grpc.secure_channel(address, federation.identity(name).channel_credentials(), options)


def check_refused(channel: Any, message: bytes, code: str, metadata: Any = (), method: str = METHOD) -> Any:
    """Call, and expect to be refused."""
    with pytest.raises(grpc.RpcError) as caught:
        list(channel.stream_stream(method)(iter([message]), metadata=metadata, timeout=LONG))
    assert caught.value.code().name == code
    return caught.value


@pytest.mark.usefixtures("coordinator")
def test_a_role_that_says_nothing_of_itself(federation: Loopback) -> None:
    """A good certificate alone is not enough, and only one method is served."""
    with secured(federation) as channel:
        error = check_refused(channel, b"", "PERMISSION_DENIED")
        assert (REFUSED, "1") in error.trailing_metadata()
        check_refused(channel, b"", "UNIMPLEMENTED", method="/mpfedxgb.Roles/Anything")


@pytest.mark.parametrize(
    "message",
    [b"\xff" * 10, Piece(part=b"x").SerializeToString(), bytes(MESSAGE_BYTES + 1), bytes(4 * PIECE_BYTES)],
)
def test_a_role_that_sends_nonsense_loses_its_connection(federation: Loopback, message: bytes) -> None:
    """Garbled pieces and messages above the limit end the call; until the federation forms, the role may try again."""
    coordinator = federation.call(0)
    federation.wait_for_port()
    with secured(federation) as channel:
        metadata = Introduction("bank", "test", 1000).metadata()
        with pytest.raises(grpc.RpcError) as caught:
            list(channel.stream_stream(METHOD)(iter([message]), metadata=metadata, timeout=LONG))
        assert caught.value.code().name in {"CANCELLED", "RESOURCE_EXHAUSTED", "UNKNOWN"}
    others = [federation.call(role, peers=[0]) for role in (1, 2)]
    for end in [call.result() for call in (coordinator, *others)]:
        end.close()


def test_two_hundred_callers_at_once(federation: Loopback) -> None:
    """Many unauthorised connections at a time, of all kinds, do not keep the right ones out."""
    coordinator = federation.call(0)
    federation.wait_for_port()
    kinds = (plain_bytes, no_certificate, noise_inside) * 3
    callers = [Call(kind, federation) for kind in kinds]  # 210 connections
    roles = [federation.call(role, peers=[0]) for role in (1, 2)]
    ends = [call.result() for call in (coordinator, *roles)]
    for caller in callers:
        caller.result()
    ends[1].send(0, b"through", LONG)
    assert ends[0].receive(1, LONG) == b"through"
    for end in ends:
        end.close()
