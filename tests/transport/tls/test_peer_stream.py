"""One end of a connection: stopped anywhere, flooded, or closed while the peer does as it likes."""

from __future__ import annotations

import random
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

import pytest

from contracts.transport_contract import LONG, ROOM, Call
from mpfedxgb.errors import ExhaustedError, PeerFinishedError, PeerTimeoutError, StoppedError, may_stop_in
from mpfedxgb.transport.tls.pieces import ASK, HEADER, OVERHEAD, PART, PIECE_BYTES, Pieces
from mpfedxgb.transport.tls.pieces import ROOM as NO_BLOCK
from mpfedxgb.transport.tls.stream import PeerStream, lost
from patience import patience
from support.loopback import Loopback, loopback
from support.refusals import refused


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """Return whose certificates the ends use."""
    with loopback(tmp_path_factory.mktemp("pki"), roles=2) as made:
        yield made


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """Return both ends of a connection that holds more small records than a `socketpair`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return socket.create_connection(listening.getsockname()), listening.accept()[0]


@contextmanager
def connected(
    federation: Loopback,
    silence: float,
    pair: Callable[[], tuple[socket.socket, socket.socket]] = socket.socketpair,
) -> Iterator[tuple[PeerStream, ssl.SSLSocket]]:
    """Give a coordinator's stream to the bank, and the bank's socket."""
    plain = pair()
    here = federation.identity("coordinator").secure_call(plain[0])
    there = federation.identity("bank").secure_answer(plain[1], "coordinator")
    for one in (here, there):
        one.settimeout(LONG)
    answering = Call(here.do_handshake)
    there.do_handshake()
    answering.result()
    stream = PeerStream(here, Pieces("bank", ROOM, ROOM), silence)
    try:
        yield stream, there
    finally:
        there.close()
        stream.close()
        stream.wait_until_ended(LONG)


@pytest.fixture
def connection(federation: Loopback) -> Iterator[tuple[PeerStream, ssl.SSLSocket]]:
    """Return both ends of a connection that nobody takes for lost."""
    with connected(federation, LONG) as made:
        yield made


@contextmanager
def receiving(stream: PeerStream) -> Iterator[None]:
    """Have another thread receive as well, so that either polls while the other one waits for it."""
    over = threading.Event()

    def receive() -> None:
        while not over.is_set():
            with suppress(PeerTimeoutError):
                stream.receive(0.001)

    caller = Call(receive)
    try:
        yield
    finally:
        over.set()
        caller.result()


def stop(number: int, frame: FrameType | None) -> None:
    """Stop the program if it may be stopped where it is, or try again soon."""
    if may_stop_in(frame):
        raise StoppedError
    signal.setitimer(signal.ITIMER_REAL, 1e-4)


def run_and_stop(program: Callable[[], None], seconds: float) -> None:
    """Run a program again and again, and stop it after some seconds."""
    with suppress(StoppedError):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        while True:
            program()


@pytest.mark.parametrize("others", [False, True])
def test_a_stop_anywhere_in_a_call_leaves_the_lock_free(
    connection: tuple[PeerStream, ssl.SSLSocket], others: bool
) -> None:
    """Nobody holds it then, nobody has released another one's; whether the call polls or waits for one that does."""
    stream, _ = connection

    def receive() -> None:
        with suppress(PeerTimeoutError):
            stream.receive(0.0)

    before, seed = signal.signal(signal.SIGALRM, stop), random.Random(7)  # noqa: S311 # no secret
    try:
        with receiving(stream) if others else nullcontext():
            for _ in range(400):
                run_and_stop(receive, seed.uniform(2e-5, 4e-4))
                is_free = stream._lock.acquire(timeout=LONG / 4)
                stream._lock.release()  # also if it is held by nobody: this test ends
                assert is_free
                assert others or not stream._polls
    finally:
        signal.signal(signal.SIGALRM, before)


@contextmanager
def sending(there: ssl.SSLSocket, content: bytes, pause: float = 0.0) -> Iterator[None]:
    """Have the bank send something again and again."""
    over = threading.Event()

    def send() -> None:
        until = time.monotonic() + patience(6.0)
        with suppress(OSError):
            while not over.wait(pause) and time.monotonic() < until:
                there.sendall(content)

    caller = Call(send)
    try:
        yield
    finally:
        over.set()
        caller.result()


@pytest.mark.parametrize("kind", [NO_BLOCK, ASK])
def test_closing_does_not_wait_for_a_peer_that_only_talks(
    connection: tuple[PeerStream, ssl.SSLSocket], kind: int
) -> None:
    """Signs of life and questions take nothing of what was sent; a peer that ends with neither is hung up on."""
    stream, there = connection
    with sending(there, HEADER.pack(kind, 0, 0), 0.05):
        began = time.monotonic()
        stream.close()
        stream.wait_until_ended(0.4)
        assert time.monotonic() - began < patience(4.0)


def test_closing_has_an_end_though_a_peer_takes_a_byte_now_and_then(
    connection: tuple[PeerStream, ssl.SSLSocket],
) -> None:
    """What moves for ever is hung up on in the end."""
    stream, there = connection
    stream.send(bytes(10_000), LONG)
    over = threading.Event()

    def take() -> None:
        with suppress(OSError):
            for taken in range(10_000):
                there.sendall(HEADER.pack(NO_BLOCK, 0, taken))
                if over.wait(0.05):
                    return

    taking, until = Call(take), time.monotonic() + 0.4
    stream.close()
    stream.wait_until_ended(LONG, lambda: until)
    over.set()
    taking.result()
    assert time.monotonic() - until < patience(4.0)


def test_a_peer_that_reads_nothing_gets_no_more_than_the_window_whatever_it_says(
    connection: tuple[PeerStream, ssl.SSLSocket],
) -> None:
    """It says that it has taken all; what was not even written waits nevertheless."""
    stream, there = connection
    block, sent = bytes(PIECE_BYTES), 0
    with refused(PeerTimeoutError, "late", "bank", 0.3):
        for _ in range(4 + 4 * ROOM // len(block)):
            stream.send(block, 0.3)
            sent += len(block) + OVERHEAD
            there.sendall(HEADER.pack(NO_BLOCK, 0, sent))
            with suppress(PeerTimeoutError):
                stream.receive(0.0)
    assert sum(map(len, stream._outbox)) <= ROOM


def test_a_broken_connection_is_read_to_its_end(federation: Loopback) -> None:
    """Why a peer has ended is the last thing that it said, and may come after hundreds of others."""
    with connected(federation, LONG, tcp_pair) as (stream, there):
        with stream._lock:
            for number in range(200):
                there.sendall(Pieces("coordinator", ROOM, ROOM).cut(number.to_bytes(2, "big"))[0])
            there.shutdown(socket.SHUT_RDWR)
            while not stream._is_mute:
                stream._write(b"says something")
        assert [stream.receive(0.0) for _ in range(200)] == [number.to_bytes(2, "big") for number in range(200)]


def test_no_memory_for_what_comes_ends_the_connection(connection: tuple[PeerStream, ssl.SSLSocket]) -> None:
    """Both sides hear of it, and the descriptors are given back."""
    stream, there = connection

    def short(_: bytes) -> None:
        raise MemoryError

    stream._pieces.accept = short  # type: ignore[method-assign, assignment]
    there.sendall(HEADER.pack(NO_BLOCK, 0, 0))
    assert stream.ended.wait(LONG)
    with refused(ExhaustedError, "room", "bank"):
        stream.receive(LONG)
    assert stream._socket.fileno() == -1
    with suppress(OSError):
        assert not there.recv(1)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_helper_that_fails_ends_the_connection(connection: tuple[PeerStream, ssl.SSLSocket]) -> None:
    """However it fails: a connection that nobody tends would be dead without a word."""
    stream, there = connection

    def fail() -> float:
        raise ZeroDivisionError

    stream._keep_alive = fail  # type: ignore[method-assign]
    there.sendall(HEADER.pack(NO_BLOCK, 0, 0))
    assert stream.ended.wait(LONG)
    with refused(PeerFinishedError, "ended", "bank"):
        stream.receive(LONG)
    assert stream._socket.fileno() == -1


def test_half_a_block_and_what_nobody_takes_is_given_back(connection: tuple[PeerStream, ssl.SSLSocket]) -> None:
    """An ended connection may lie about while a role waits for the next one."""
    stream, there = connection
    there.sendall(HEADER.pack(PART, 2, 0) + b"ab" + HEADER.pack(PART, ROOM, 0))
    with refused(PeerTimeoutError, "late", "bank", 0.0):
        while True:
            assert stream.receive(0.0 if stream._pieces.place else LONG) == b"ab"
    stream._pieces.blocks.append(b"cd")
    stream.close()
    assert not stream._pieces.blocks
    stream.end(lost("bank"))
    assert not stream._pieces.place
    assert stream._pieces._memory is None


def test_a_flood_does_not_hold_up_a_deadline(connection: tuple[PeerStream, ssl.SSLSocket]) -> None:
    """Pieces without end, of which no record is a whole number: nobody reads them all at once."""
    stream, there = connection
    piece = HEADER.pack(NO_BLOCK, 0, 0)
    there.sendall(piece[:5])
    with sending(there, piece[5:] + 12_602 * piece + piece[:5]):
        began = time.monotonic()
        with refused(PeerTimeoutError, "late", "bank", 0.2):
            stream.receive(0.2)
        assert time.monotonic() - began < patience(4.0)


def test_closing_waits_for_a_peer_that_reads_slowly(connection: tuple[PeerStream, ssl.SSLSocket]) -> None:
    """As long as it takes a record now and then, everything arrives."""
    stream, there = connection
    stream.send(bytes(3 * PIECE_BYTES), LONG)

    def read() -> int:
        size = 0
        with suppress(OSError):
            while data := there.recv(1 << 14):
                size += len(data)
                time.sleep(patience(0.04))
                if size == 3 * PIECE_BYTES + 4 * HEADER.size:
                    there.close()
        return size

    reading = Call(read)
    stream.close()
    stream.wait_until_ended(patience(0.4))
    assert reading.result() == 3 * PIECE_BYTES + 4 * HEADER.size


def test_a_slow_connection_with_much_to_send_is_not_lost(federation: Loopback) -> None:
    """Its questions overtake what has not begun, and a peer that has nothing else to say answers in time."""
    with connected(federation, silence=patience(0.9)) as (stream, there):
        for number in range(40):
            stream.send(bytes([number]) * PIECE_BYTES, LONG)
        pieces, span = Pieces("coordinator", ROOM, ROOM), patience(2.0)
        until = time.monotonic() + span
        while time.monotonic() < until and len(pieces.blocks) < 30:
            pieces.accept(there.recv(1 << 14))
            if pieces.asked:
                pieces.asked = False
                there.sendall(pieces.header(NO_BLOCK))
            time.sleep(span / 200)
        assert stream.alive
        assert 1 < len(pieces.blocks) < 40
        assert all(pieces.take() == bytes([number]) * PIECE_BYTES for number in range(len(pieces.blocks)))
