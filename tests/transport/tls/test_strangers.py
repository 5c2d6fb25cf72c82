"""An open port: noise, other protocols and callers without rights reach nothing, and keep nobody out."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from contracts.transport_contract import LONG, ROOM, Call
from mpfedxgb.errors import ExhaustedError
from mpfedxgb.transport.tls import messages, server
from mpfedxgb.transport.tls.messages import message
from mpfedxgb.transport.tls.pieces import HEADER, PART
from mpfedxgb.transport.tls.pieces import ROOM as NO_BLOCK
from mpfedxgb.transport.tls.rendezvous import Introduction, Rendezvous
from patience import patience
from support.by_hand import by_hand
from support.loopback import Loopback, run_program
from support.refusals import refused


def plain_bytes(federation: Loopback) -> None:
    """Send noise and ordinary requests to the port."""
    for content in (b"", b"\0", b"GET / HTTP/1.1\r\n\r\n", os.urandom(1000), b"\x16\x03\x01" + os.urandom(500)) * 10:
        address = ("127.0.0.1", federation.ports[0])
        with socket.create_connection(address, LONG) as connection, contextlib.suppress(OSError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1000)[:4] != b"HTTP"


def no_certificate(federation: Loopback) -> None:
    """Speak TLS 1.3 without a certificate of one's own: the connection ends before anything is said."""
    for _ in range(8):
        with contextlib.suppress(ssl.SSLError, ConnectionResetError), by_hand(federation, name=None) as one:
            one.write(message(Introduction("bank", "test", ROOM).content()))
            assert one.hear_the_end() == b""


def noise_inside(federation: Loopback) -> None:
    """Send noise under a good certificate, where an introduction should be."""
    deep = b"[" * 60_000
    contents = (
        bytes(100),
        os.urandom(1000),
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + os.urandom(1000),
        messages._MESSAGE.pack(b"MPF2", (1 << 32) - 1) + bytes(1000),
        messages._MESSAGE.pack(b"MPF2", len(deep)) + deep,
        messages._MESSAGE.pack(b"MPF2", 4) + b"null",
        messages._MESSAGE.pack(b"MPF2", 2) + b"\xff\xfe",
    )
    for content in contents * 2:
        with by_hand(federation) as one:
            one.write(content)
            assert b"mpfedxgb" not in one.hear_the_end()


@pytest.mark.parametrize("come_along", [plain_bytes, no_certificate, noise_inside])
@pytest.mark.usefixtures("coordinator")
def test_what_is_no_role_is_not_even_examined(
    federation: Loopback, come_along: Callable[[Loopback], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise, other protocols and callers without a certificate reach nothing of ours; the federation still forms."""
    with monkeypatch.context() as patch:
        patch.setattr(Rendezvous, "examine", lambda *_: pytest.fail("a stranger was examined"))
        Call(come_along, federation).result()


@pytest.mark.usefixtures("coordinator")
def test_a_role_that_says_nothing_of_itself(federation: Loopback) -> None:
    """A good certificate alone is not enough."""
    with by_hand(federation) as bank:
        bank.say({})
        answer = bank.hear()
        assert set(answer) == {"refused", "kind"}
        assert "says that it is ''" in answer["refused"]
        assert bank.hear_the_end() == b""


@pytest.mark.usefixtures("coordinator")
def test_who_is_too_slow_is_hung_up_on(federation: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the handshake, in it, and before the introduction; drop by drop does not help."""
    monkeypatch.setattr(server, "HANDSHAKE", 0.5)
    with contextlib.ExitStack() as stack:
        address = ("127.0.0.1", federation.ports[0])
        idle, half = (stack.enter_context(socket.create_connection(address, LONG)) for _ in range(2))
        half.sendall(b"\x16\x03\x01")
        mute = stack.enter_context(by_hand(federation))
        began = time.monotonic()
        for one in (idle, half):
            with contextlib.suppress(ConnectionResetError):
                assert one.recv(1) == b""
        assert set(mute.hear()) == {"wire"}
        assert mute.hear_the_end() == b""
        assert time.monotonic() - began < patience(LONG / 2)


@pytest.mark.parametrize(
    "message",
    [b"\xff" * 20, HEADER.pack(NO_BLOCK, 1, 0) + b"x", HEADER.pack(PART, 1 << 60, 0)],
)
def test_a_role_that_sends_nonsense_loses_its_connection(federation: Loopback, message: bytes) -> None:
    """Garbled pieces and lengths above the limit end it; until the federation forms, the role may try again."""
    coordinator = federation.call(0)
    federation.wait_for_port()
    with by_hand(federation) as bank:
        assert "admitted" in bank.introduce()
        bank.write(message)
        assert b"MPFX" not in bank.hear_the_end()
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


FLOOD = """
import os, resource, socket, time
port, count = map(int, sys.argv[1:])
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
garbage, held = [b"", b"GET / HTTP/1.1\\r\\n\\r\\n", b"\\x16\\x03\\x01" + os.urandom(300), b"\\x16"], []
for number in range(count):
    one = socket.socket()
    one.setblocking(False)
    one.connect_ex(("127.0.0.1", port))
    held.append(one)
    time.sleep(0.0005)
    try:
        one.send(garbage[number % 4])
    except OSError:
        pass
print("all", flush=True)
sys.stdin.readline()
"""


@contextlib.contextmanager
def few_descriptors(most: int) -> Iterator[None]:
    """Let this process have no more descriptors than so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_port_for_which_no_descriptors_are_left_is_refused_as_such(federation: Loopback, left: int) -> None:
    """A role that serves tries again then, so it must know that this may pass; and nothing stays open."""
    identity = federation.identity("coordinator")
    taken: list[int] = []
    with few_descriptors(len(os.listdir("/proc/self/fd")) + 8):
        try:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(os.dup(0))
            for _ in range(left):
                os.close(taken.pop())
            for _ in range(2):
                with refused(ExhaustedError, "room", f"127.0.0.1:{federation.ports[0]}"):
                    federation.connect(0, identity)
            taken += [os.dup(0) for _ in range(left)]  # as many are left as before
        finally:
            for one in taken:
                os.close(one)


def test_a_flood_of_idle_and_garbage_callers(federation: Loopback) -> None:
    """1,500 that stay, under 1,024 descriptors: the right ones come in all the same, and the port stays small."""
    with few_descriptors(1024):
        coordinator = federation.call(0)
        federation.wait_for_port()
        flood = run_program(FLOOD, federation.ports[0], 1500)
        try:
            assert flood.stdout is not None
            assert flood.stdout.readline() == "all\n"
            roles = [federation.call(role, peers=[0]) for role in (1, 2)]
            ends = [call.result() for call in (coordinator, *roles)]
            assert len(os.listdir("/proc/self/fd")) < 600
            ends[1].send(0, b"through", LONG)
            assert ends[0].receive(1, LONG) == b"through"
            assert len([one for one in threading.enumerate() if one.name == "coordinator-admits"]) == 1
        finally:
            flood.kill()
            flood.communicate()
        for end in ends:
            end.close()
