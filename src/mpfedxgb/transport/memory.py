"""The in-process transport: one bounded queue per ordered pair of roles that are connected.

The sender hands over bytes, or a frame with copies of its arrays, which saves encoding and decoding: no role ever holds
memory that another can change. Arrays that are read-only for good need no copy. With a tap everything is bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from mpfedxgb.errors import FederationError, PeerFinishedError, PeerTimeoutError
from mpfedxgb.transport.frame import Frame, encode
from mpfedxgb.transport.transport import Block

Tap = Callable[[int, int, bytes], None]
"""Called with (sender, receiver, block) for every block handed over; tests record views with it."""

_PAUSE = 0.0005
"""Seconds between two looks of a sender that has to wait for its receiver."""


class _Queue:
    """Blocks on their way from one role to another, at most `capacity` bytes of them unless there is only one.

    `sent` is written by the sender alone and `taken` by the receiver alone, so neither needs a lock. A closed end puts
    None behind the last block.
    """

    def __init__(self, sender: int, receiver: int, capacity: int) -> None:
        self.sender, self.receiver, self.capacity = sender, receiver, capacity
        self.blocks: SimpleQueue[Block | Frame | None] = SimpleQueue()
        self.sent = 0
        self.taken = 0
        self.closed: set[int] = set()

    def put(self, block: Block | Frame, timeout: float) -> None:
        end, length = time.monotonic() + timeout, _length(block)
        while True:
            self._refuse_if_closed(self.sender)
            if self.receiver in self.closed:
                raise PeerFinishedError(f"role {self.receiver} has closed its connection", parameter=str(self.receiver))
            waiting = self.sent - self.taken
            if not waiting or waiting + length <= self.capacity:
                break
            if time.monotonic() >= end:
                text = f"role {self.receiver} did not answer for {timeout:g} seconds"
                raise PeerTimeoutError(text, parameter=str(self.receiver), value=timeout)
            time.sleep(_PAUSE)
        self.sent += length
        self.blocks.put(block)

    def get(self, timeout: float) -> Block | Frame:
        self._refuse_if_closed(self.receiver)
        try:
            block = self.blocks.get(timeout=timeout)
        except Empty:
            raise PeerTimeoutError(
                f"role {self.sender} did not answer for {timeout:g} seconds", parameter=str(self.sender), value=timeout
            ) from None
        if block is None:
            self.blocks.put(None)  # so that the next caller finds the same
            self._refuse_if_closed(self.receiver)
            raise PeerFinishedError(f"role {self.sender} has closed its connection", parameter=str(self.sender))
        self.taken += _length(block)
        return block

    def close(self, role: int) -> None:
        self.closed.add(role)
        self.blocks.put(None)

    def _refuse_if_closed(self, role: int) -> None:
        if role in self.closed:
            raise FederationError("this role has closed its own connections", "ended", "connections")


def _length(block: Block | Frame) -> int:
    return block.wire_bytes if isinstance(block, Frame) else len(block)


class MemoryHub:
    """All connections of one in-process federation.

    Parameters
    ----------
    links : pairs of roles that are connected, each in both directions
    capacity : int
        Bytes that may wait for one receiver from one sender.
    tap : callable or None
        Sees every block; for tests.
    """

    def __init__(self, links: Iterable[tuple[int, int]], capacity: int, tap: Tap | None = None) -> None:
        self._queues: dict[tuple[int, int], _Queue] = {}
        self.tap = tap
        for a, b in links:
            self._queues[a, b] = _Queue(a, b, capacity)
            self._queues[b, a] = _Queue(b, a, capacity)

    def queue(self, sender: int, receiver: int) -> _Queue:
        """Return the queue between two roles; raises if they are not connected."""
        try:
            return self._queues[sender, receiver]
        except KeyError:
            raise FederationError(f"roles {sender} and {receiver} are not connected", "place", str(receiver)) from None

    def end(self, role: int) -> MemoryTransport:
        """Return one role's end."""
        return MemoryTransport(self, role)

    def close(self, role: int) -> None:
        """Close every connection of a role, at its end."""
        for pair, queue in self._queues.items():
            if role in pair:
                queue.close(role)


class MemoryTransport:
    """One role's end of a `MemoryHub`."""

    def __init__(self, hub: MemoryHub, role: int) -> None:
        self._hub = hub
        self._role = role

    @property
    def takes_frames(self) -> bool:
        """Whether frames may be handed over as they are: nobody watches their bytes."""
        return self._hub.tap is None

    def send(self, peer: int, block: Block | Frame, timeout: float) -> None:
        """Hand a block over (see Transport), or if `takes_frames`, a frame."""
        queue = self._hub.queue(self._role, peer)
        if self._hub.tap is not None:
            assert isinstance(block, bytes)
            self._hub.tap(self._role, peer, block)
        queue.put(block, timeout)

    def receive(self, peer: int, timeout: float) -> Block:
        """Return the next block (see Transport), in bytes."""
        block = self.take(peer, timeout)
        if isinstance(block, Frame):
            return encode(block.kind, block.sender, block.session, block.step, block.label, block.arrays)
        return block

    def take(self, peer: int, timeout: float) -> Block | Frame:
        """Return the next block, or frame, as it was handed over."""
        return self._hub.queue(peer, self._role).get(timeout)

    def close(self) -> None:
        """Release this end (see Transport)."""
        self._hub.close(self._role)
