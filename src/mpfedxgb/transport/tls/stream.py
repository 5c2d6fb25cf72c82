"""One connection between two roles: the socket below its pieces.

The thread that calls encrypts and writes; the thread that waits polls, reads and decrypts. A helper thread does what
nobody waits for: it writes what the system did not take at once, reads while the program is busy elsewhere, asks for
signs of life and answers such questions. A lock goes with the socket: OpenSSL's objects bear one thread at a time.
Nobody holds it while waiting.
"""

from __future__ import annotations

import logging
import math
import select
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import cast

from mpfedxgb.errors import ExhaustedError, FederationError, FrameError, PeerFinishedError, PeerTimeoutError, in_one_go
from mpfedxgb.transport.tls.pieces import ASK, FINISHED, HEADER, PART, ROOM, Pieces, ask_before
from mpfedxgb.transport.transport import Block
from mpfedxgb.transport.transports import ask_every

_RECORD = 1 << 14
"""Bytes of the largest record of TLS, more than which is never read or written at a time."""

_MOST_RECORDS = 64
"""Read in one go, however many there are: a flood must not hold up deadlines and stops."""

_LAST_READS = 2.0
"""Seconds at most for reading what a broken connection still holds: what the system had taken of it, some megabytes."""

_TICK = 0.05
"""Seconds after which the helper looks whether a program that was just there still comes and goes."""

_LONGEST_POLL = 60.0

log = logging.getLogger("mpfedxgb.transport")


class PeerStream:
    """One end of the connection to one peer, over a TLS socket whose handshake is done.

    Parameters
    ----------
    secured : ssl.SSLSocket
        Belongs to the stream from now on.
    pieces : Pieces
        What travels, in its first state.
    silence : float
        Seconds without a sign of life after which the connection is lost.
    first : bytes
        Written before anything else.
    ended : callable
        Called by the helper thread when nothing can arrive any more.
    """

    def __init__(
        self,
        secured: ssl.SSLSocket,
        pieces: Pieces,
        silence: float,
        first: bytes = b"",
        ended: Callable[[PeerStream], None] = lambda _: None,
    ) -> None:
        self.name, self.ended = pieces.name, threading.Event()
        """The peer's; set when nothing can arrive any more, well or badly, and the socket is closed."""
        self._socket, self._pieces, self._silence, self._tell_end = secured, pieces, silence, ended
        self._lock = threading.Lock()
        self._waiters: list[threading.Lock] = []  # held ones, released when something has changed
        self._outbox: deque[Block] = deque([memoryview(first)] if first else [])
        self._queued = len(first)  # bytes of the outbox
        self._closed = False  # by this side
        self._is_mute = False  # nothing that is written arrives any more
        self._end: FederationError | None = None  # why nothing comes after the blocks that are there
        self._polls = False  # whether a caller does; others wait for it
        self._calls = 0
        self._sleeps = False  # whether the helper relies on a caller that polls
        self._heard = self._moved = self._asked = time.monotonic()
        secured.setblocking(False)
        self._ear, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._for_callers = _poll_of(secured, self._ear)
        self._thread = threading.Thread(target=self._help, name=f"helps-{self.name}", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether blocks may still come and go."""
        return self._end is None and not self._closed

    @property
    def owed(self) -> int:
        """Bytes of what was sent that the peer's program has not taken, as far as it has told."""
        return self._pieces.owed

    @property
    def why_ended(self) -> str:
        """Why nothing can arrive any more; empty as long as something may."""
        return "" if self._end is None else str(self._end)

    # The program's calls

    def send(self, block: Block, timeout: float) -> None:
        """Write a block, or queue what the system does not take, as soon as there is room (see Transport)."""
        pieces, size = self._pieces, len(block)
        if size > pieces.max_block:
            raise FrameError(
                f"a block of {size} bytes is larger than the {pieces.max_block} allowed", "range", "block", size
            )
        with self._lock:
            if not self._wait_until(lambda: self._end is not None or pieces.fits(size, self._unwritten), timeout):
                raise PeerTimeoutError(
                    f"{self.name} took nothing for {timeout:g} seconds", parameter=self.name, value=timeout
                )
            if self._end is not None:
                raise self._over()
            self._write(block)

    def receive(self, timeout: float) -> Block:
        """Return the next block (see Transport)."""
        pieces = self._pieces
        with self._lock:
            if not self._wait_until(lambda: bool(pieces.blocks) or self._end is not None, timeout):
                raise PeerTimeoutError(
                    f"{self.name} sent nothing for {timeout:g} seconds", parameter=self.name, value=timeout
                )
            if not pieces.blocks:
                raise self._over()
            block = pieces.take()
            if pieces.must_tell and self._end is None:
                self._write(None, ROOM)
            return block

    def _wait_until(self, ready: Callable[[], bool], timeout: float) -> bool:
        """Read until something is so; return False after `timeout` seconds. The lock is held, but while polling."""
        self._calls += 1
        end = time.monotonic() + timeout
        left = timeout
        while True:
            if self._closed:
                raise FederationError("this role has closed its own connections", "ended", "connections")
            if ready():
                break
            if left < 0:
                break
            left = max(0.0, end - time.monotonic())
            self._poll_or_wait(left)
            left = end - time.monotonic()
        if self._sleeps:
            self._ring()
        return ready()

    def _poll_or_wait(self, seconds: float) -> None:
        waiter = _held_lock() if self._polls else None  # another caller polls, for whatever comes
        try:
            self._unlock(waiter)
            if waiter is None:
                self._for_callers.poll(1000 * min(seconds, _LONGEST_POLL))
            else:
                waiter.acquire(timeout=min(seconds, _LONGEST_POLL))
        finally:
            self._lock_again(waiter)
        if waiter is None:
            self._read()

    # A stop must find the lock as `with` left it: Condition.wait has places between its lock and its `try`.

    @in_one_go
    def _unlock(self, waiter: threading.Lock | None) -> None:
        if waiter is None:
            self._polls = True
        else:
            self._waiters.append(waiter)
        self._lock.release()

    @in_one_go
    def _lock_again(self, waiter: threading.Lock | None) -> None:
        self._lock.acquire()
        if waiter is None:
            self._polls = False
            self._wake()  # another caller has to poll now
        elif waiter in self._waiters:
            self._waiters.remove(waiter)

    @in_one_go
    def _wake(self) -> None:
        for waiter in self._waiters:
            waiter.release()
        self._waiters.clear()

    def close(self) -> None:
        """Say that nothing follows, after what was sent before, and end the waiting calls of this end."""
        with self._lock:
            if not self._closed:
                self._closed = self._pieces.ignores = True
                self._pieces.blocks.clear()
                if self._end is None:
                    self._write(None, FINISHED)
                self._ring()
                self._wake()

    def wait_until_ended(self, idle: float, until: Callable[[], float] = lambda: math.inf) -> None:
        """Wait for the peer to end as well; then hang up.

        Not longer than `idle` seconds in which nothing that was sent is written or taken, nor than `until` says, on
        the monotonic clock.
        """
        began, pause = time.monotonic(), 0.001
        while not self.ended.is_set():
            now = time.monotonic()
            if now > min(until(), max(began, self._moved) + idle):
                break
            time.sleep(pause)  # not on the event, whose lock a stop could leave held
            pause = min(_TICK, 1.5 * pause)
        self.end(lost(self.name))
        self._thread.join(_LONGEST_POLL)

    def end(self, why: FederationError) -> None:
        """Note that nothing follows, and why; the first reason counts."""
        with self._lock:
            self._end_because(why)

    def _over(self) -> FederationError:
        assert self._end is not None
        return copy(self._end)  # a new one each time: an error raised twice grows its traceback

    # The socket, under the lock

    @property
    def _unwritten(self) -> int:
        """What is queued, less what headers may be of it: never more than an honest peer has not taken."""
        return max(0, self._queued - (self._queued >> 12) - (1 << 10))

    @in_one_go
    def _write(self, block: Block | None, kind: int = PART) -> None:
        if self._is_mute:
            return
        if block is not None:
            parts = self._pieces.cut(block)
            self._outbox.extend(parts)
            self._queued += sum(map(len, parts))
        elif kind == ASK:
            self._ask_first()
        else:
            self._outbox.append(self._pieces.header(kind))
            self._queued += HEADER.size
        self._flush()
        if self._outbox:
            self._ring()  # the helper goes on

    def _ask_first(self) -> None:
        """Queue a question ahead of the pieces that have not begun: its answer is due in time, however slow they are.

        Views come first in the queue: what is partly written, or was begun; a piece that is not begins with bytes.
        """
        place = next((place for place, one in enumerate(self._outbox) if isinstance(one, bytes)), None)
        if place is None:
            self._outbox.append(self._pieces.header(ASK))
        else:
            self._outbox.insert(place, ask_before(self._outbox[place]))
        self._queued += HEADER.size

    @in_one_go
    def _flush(self) -> None:
        """Write as much of what is queued as the system takes."""
        try:
            while self._outbox:
                self._outbox[0] = buffer = memoryview(self._outbox[0])
                written = self._socket.send(buffer[:_RECORD])  # the same ones again if they have to wait
                self._queued -= written
                if written < len(buffer):
                    self._outbox[0] = buffer[written:]
                else:
                    self._outbox.popleft()
                self._moved = time.monotonic()
        except (ssl.SSLWantWriteError, ssl.SSLWantReadError):
            pass
        except OSError:
            self._is_mute = True
            self._outbox.clear()
            self._queued = 0
            until = time.monotonic() + _LAST_READS
            while self._read() and time.monotonic() < until:  # what it said before it ended counts, its reason is last
                pass
            self._end_because(lost(self.name))
        except BaseException:  # interrupted: nobody knows how much was written
            self._end_because(lost(self.name))
            raise

    @in_one_go
    def _read(self) -> bool:
        """Take in what has arrived, up to the end of a piece or a bound; return whether more may be there.

        Nothing that was decrypted stays with OpenSSL, where no poll would find it.
        """
        if self._end is not None:
            return False
        pieces, secured, more, records = self._pieces, self._socket, True, 0
        taken = pieces.taken_there
        try:
            while (not pieces.is_between and records < _MOST_RECORDS) or not records or secured.pending() > 0:
                if not self._take_in():
                    raise ConnectionError("it hung up")
                records += 1
        except ssl.SSLWantReadError:
            more = False
        except (FrameError, ExhaustedError) as error:
            self._end_because(error)
        except MemoryError:
            text = f"there is no memory for what {self.name} sends"
            self._end_because(ExhaustedError(text, parameter=self.name))
        except OSError as error:
            log.info("the connection to %s has broken: %s", self.name, error.strerror or error)
            self._end_because(lost(self.name))
        except BaseException:  # interrupted: what was read is lost
            self._end_because(lost(self.name))
            raise
        if pieces.taken_there > taken:
            self._moved = self._heard
        if pieces.finished:
            self._end_because(PeerFinishedError(f"{self.name} has closed its connection", parameter=self.name))
        elif pieces.asked and not self._outbox and not self._closed:  # what is queued is an answer as well
            pieces.asked = False
            self._write(None, ROOM)
        self._wake()
        return more and self._end is None

    def _take_in(self) -> int:
        """Read a record, or as much of it as belongs to a block, to where that stays; return its bytes."""
        room = self._pieces.place
        if room:
            size = cast(int, self._socket.read(_RECORD, cast(bytearray, room)))
        else:
            data = self._socket.read(_RECORD)
            size = len(data)
        self._heard = time.monotonic()
        if room and size:
            self._pieces.filled(size)
        elif size:
            self._pieces.accept(data)
        return size

    def _end_because(self, why: FederationError) -> None:
        if self._end is None:
            self._end = why
            self._outbox.clear()
            self._queued = 0
            self._pieces.drop_half()
            self._ring()
            self._wake()

    def _ring(self) -> None:
        with suppress(OSError):  # full: it rings already; or closed
            self._bell.send(b"!")

    # The helper thread

    def _help(self) -> None:
        try:
            self._tend()
        finally:  # whatever has ended it: a connection that nobody tends would be dead without a word
            try:
                self.end(lost(self.name))
            finally:
                self._hang_up()

    def _tend(self) -> None:
        calls = -1
        while True:
            with self._lock:
                if self._end is not None:
                    break
                watched = not self._polls and self._calls == calls
                self._sleeps = self._polls and self._calls == calls
                calls = self._calls
                seconds = self._keep_alive() if watched or self._sleeps else min(_TICK, self._keep_alive())
                poll = _poll_of(None if self._closed else self._ear)
                events = (select.POLLIN if watched or self._closed else 0) | (select.POLLOUT if self._outbox else 0)
                if events:
                    poll.register(self._socket, events)
            ready = dict(poll.poll(1000 * (min(_TICK, seconds) if self._closed else seconds)))
            with self._lock:
                self._sleeps = False
                if self._ear.fileno() in ready and self.alive:  # where it has ended, callers have to hear it, too
                    self._ear.recv(64)
                if self._outbox:
                    self._flush()
                if ready.get(self._socket.fileno(), 0) & ~select.POLLOUT and not self._polls:
                    self._read()

    def _keep_alive(self) -> float:
        """Ask for a sign of life, or give up, where that is due; return after how many seconds to look again."""
        now, every = time.monotonic(), ask_every(self._silence)
        if now - self._heard > self._silence:
            self._read()  # this process may have been the one that stood still
            if now - self._heard > self._silence:
                self._end_because(lost(self.name))
                return 0.0
        due = max(self._heard, self._asked) + every
        if now >= due:
            self._asked, due = now, now + every
            if self.alive:
                self._write(None, ASK)
        return min(_LONGEST_POLL, max(0.001, min(due, self._heard + self._silence + 0.001) - now))

    def _hang_up(self) -> None:
        with self._lock:
            while self._polls:
                self._poll_or_wait(_TICK)
            for one in (self._socket, self._ear, self._bell):
                one.close()
        self._tell_end(self)
        self.ended.set()


def lost(name: str) -> PeerFinishedError:
    """Return the error of a connection that ended without a word."""
    return PeerFinishedError(f"the connection to {name} was lost", parameter=name)


def _held_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


def _poll_of(*sockets: socket.socket | None) -> select.poll:
    poll = select.poll()
    for one in sockets:
        if one is not None:
            poll.register(one, select.POLLIN)
    return poll
