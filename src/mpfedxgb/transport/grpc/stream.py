"""One connection between two roles as a stream of pieces: blocks cut up and put together, with room and an end.

A stream knows no network. Whoever runs it hands every incoming message to `accept` and sends what `pieces` yields, each
from a thread of its own. The receiving thread never waits for the program, so that the other side's end and its room
are noticed whatever is still unread. What bounds memory is the window: a sender may have that many bytes on their way
that the other program has not taken yet.

Threads beside gRPC's own, and how to wait for any of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from queue import Empty, SimpleQueue
from typing import Any

from google.protobuf.message import DecodeError

from mpfedxgb.errors import FederationError, FrameError, PeerFinishedError, PeerTimeoutError
from mpfedxgb.transport.grpc.wire_pb2 import Piece

_BEGINS = 5.0
"""Seconds in which a thread that was started begins; or it never will."""

_JOIN_INTERVAL = 0.001


class Threads(Executor):
    """A thread for each call, one that does not keep a process alive that forgets to close its transport."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: list[threading.Thread] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run a function in a thread of its own."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:
                future.set_exception(error)

        thread = threading.Thread(target=run, name=self._name, daemon=True)
        self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Wait for all threads."""
        for thread in self._threads:
            join(thread)


def join(thread: threading.Thread, seconds: float | None = None) -> None:
    """Wait until a thread has ended, for so long at most.

    One that another thread is just starting, or whose start a signal has interrupted, Python refuses to wait for: it is
    waited for until it has begun.
    """
    end = time.monotonic() + (_BEGINS if seconds is None else min(_BEGINS, seconds))
    while True:
        try:
            thread.join(seconds)
        except RuntimeError:
            if time.monotonic() >= end:
                return
            time.sleep(_JOIN_INTERVAL)
        else:
            return


PIECE_BYTES = 1 << 20
"""Largest part of a block in one message; measured in docs/adr/0012-grpc-streams.md."""

MESSAGE_BYTES = PIECE_BYTES + 64
"""Largest message: a part and what is around it."""

_OVERHEAD = 64
"""Bytes that a block counts for beside its content, so that empty ones are bounded too."""

_TELL_AT = 4
"""The receiver tells what was taken as soon as it is more than the window divided by this."""

_LOOK = 0.25
"""Seconds between two looks at whether a closing stream still moves."""


class PeerStream:
    """One end of the connection to one peer.

    Parameters
    ----------
    name : str
        The peer's, for messages.
    window : int
        Bytes that may be on their way in one direction, unless there is only one block; both ends use the same.
    max_block : int
        Bytes of the largest block.
    """

    def __init__(self, name: str, window: int, max_block: int) -> None:
        self.name, self.window, self.max_block = name, window, max_block
        self.ended = threading.Event()
        """Set when nothing can arrive any more: the stream has ended, well or badly."""
        self._outbox: SimpleQueue[bytes | bool | None] = SimpleQueue()  # blocks; True: tell; None: look at the flags
        self._inbox: SimpleQueue[bytes | None] = SimpleQueue()  # blocks; None: there is an end
        self._changed = threading.Condition()
        self._closed = False  # by this side
        self._end: FederationError | None = None  # why nothing comes after what is in the inbox
        self._sent = 0  # of our blocks, and how much of that the peer's program has taken
        self._taken_there = 0
        self._arrived = 0  # of the peer's blocks, and how much of that our program has taken and the peer was told
        self._taken = 0
        self._told = 0
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._moved = time.monotonic()

    @property
    def alive(self) -> bool:
        """Whether blocks may still come and go."""
        return self._end is None and not self._closed

    @property
    def why_ended(self) -> str:
        """Why nothing can arrive any more; empty as long as something may."""
        return "" if self._end is None else str(self._end)

    # The program's side

    def send(self, block: bytes, timeout: float) -> None:
        """Queue a block for the peer as soon as there is room (see Transport)."""
        if len(block) > self.max_block:
            raise FrameError(f"a block of {len(block)} bytes is larger than the {self.max_block} allowed")
        with self._changed:
            if not self._changed.wait_for(lambda: self._closed or self._end or self._fits(block), timeout):
                raise PeerTimeoutError(f"{self.name} took nothing for {timeout:g} seconds")
            self._refuse_if_closed()
            if self._end is not None:
                raise self._over()
            self._sent += _cost(block)
            self._outbox.put(block)

    def _fits(self, block: bytes) -> bool:
        # What the receiver has taken without telling is at most the second bound: a block that alone exceeds the window
        # does not wait for a telling that is not due.
        waiting = self._sent - self._taken_there
        return waiting + _cost(block) <= self.window or waiting <= self.window // _TELL_AT

    def receive(self, timeout: float) -> bytes:
        """Return the next block (see Transport)."""
        self._refuse_if_closed()
        try:
            block = self._inbox.get(timeout=timeout)
        except Empty:
            raise PeerTimeoutError(f"{self.name} sent nothing for {timeout:g} seconds") from None
        if block is None:
            self._inbox.put(None)  # whoever asks again is told again
            self._refuse_if_closed()
            raise self._over()
        self._taken += _cost(block)
        if self._taken - self._told > self.window // _TELL_AT:
            self._outbox.put(True)
        return block

    def close(self) -> None:
        """Say that nothing follows, after what was sent before, and end the waiting calls of this end."""
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.notify_all()
        self._inbox.put(None)
        self._outbox.put(None)

    def wait_until_ended(self, idle: float) -> bool:
        """Wait for the stream to end, as long as it moves at least once in `idle` seconds."""
        while not self.ended.wait(min(_LOOK, idle)):
            if time.monotonic() - self._moved > idle:
                return False
        return True

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise FederationError("this role has closed its own connections")

    def _over(self) -> FederationError:
        assert self._end is not None
        return type(self._end)(
            *self._end.args
        )  # a new one each time: an error that is raised twice grows its traceback

    # The stream's side

    def pieces(self) -> Iterator[bytes]:
        """Yield the messages to send, until this end is closed or the peer's has ended."""
        while self._end is None:
            item = self._outbox.get()
            if item is None:
                if self._closed and self._end is None:
                    yield self._message(Piece(finished=True))
                return
            if isinstance(item, bytes):
                yield from self._cut(item)
            elif self._told != self._taken:
                yield self._message(Piece())

    def _cut(self, block: bytes) -> Iterator[bytes]:
        place = 0
        while len(block) - place > PIECE_BYTES:
            yield self._message(Piece(part=block[place : place + PIECE_BYTES]))
            place += PIECE_BYTES
            if self._end is not None:
                return
        yield self._message(Piece(last=block[place:] if place else block))

    def _message(self, piece: Piece) -> bytes:
        self._told = piece.taken = self._taken
        self._moved = time.monotonic()
        return piece.SerializeToString()

    def accept(self, message: bytes) -> bool:
        """Take in one message; return whether more may follow.

        Raises FrameError for what no stream would have sent; the stream is unusable after that.
        """
        self._moved = time.monotonic()
        if self._end is not None:
            raise FrameError(f"{self.name} sent something after its end")
        try:
            piece = Piece.FromString(message)
        except DecodeError:
            raise FrameError(f"{self.name} sent a message that is no piece of a block") from None
        self._note_room(piece.taken)
        content = piece.WhichOneof("content")
        if content == "part":
            self._add(piece.part, whole=False)
        elif content == "last":
            self._finish_block(piece.last)
        elif content == "finished":
            self.end(PeerFinishedError(f"{self.name} has closed its connection"))
            return False
        return True

    def _note_room(self, taken: int) -> None:
        if taken == self._taken_there:
            return
        with self._changed:
            if not self._taken_there < taken <= self._sent:
                raise FrameError(f"{self.name} says that it has taken what was not sent")
            self._taken_there = taken
            self._changed.notify_all()

    def _add(self, part: bytes, whole: bool) -> None:
        if len(part) > PIECE_BYTES or not (whole or len(part) == PIECE_BYTES):
            raise FrameError(f"{self.name} sent a part of {len(part)} bytes of a block")
        self._parts_bytes += len(part)
        if self._parts_bytes > self.max_block:
            raise FrameError(f"a block from {self.name} is larger than the {self.max_block} bytes allowed")
        if self._arrived - self._taken > self.window + self.max_block + _OVERHEAD:
            raise FrameError(f"{self.name} sends more than there is room for")
        self._parts.append(part)

    def _finish_block(self, part: bytes) -> None:
        self._add(part, whole=True)
        block = part if len(self._parts) == 1 else b"".join(self._parts)
        self._parts, self._parts_bytes = [], 0
        self._arrived += _cost(block)
        self._inbox.put(block)

    def end(self, why: FederationError) -> None:
        """Note that nothing follows, and why; the first reason counts."""
        with self._changed:
            if self._end is None:
                self._end = why
            self._changed.notify_all()
        self._inbox.put(None)
        self._outbox.put(None)


def _cost(block: bytes) -> int:
    return len(block) + _OVERHEAD
