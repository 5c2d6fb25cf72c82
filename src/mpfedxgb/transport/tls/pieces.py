"""Blocks cut into pieces and put together, with room for them and an end; no socket.

Memory is bounded by the window: a sender may have that many bytes on their way that the other program has not taken
yet.
"""

from __future__ import annotations

import struct
from collections import deque

from mpfedxgb.errors import FrameError

PIECE_BYTES = 1 << 18
"""Largest part of a block in one piece; between two pieces others may use the socket."""

HEADER = struct.Struct("<BIQ")
"""A piece's kind, the bytes that follow, and how much of the receiver's blocks the sender's program has taken."""

ROOM, ASK, PART, LAST, FINISHED = range(5)
"""Nothing but what was taken; the same, and the other side is to say something; a part of a block of which more
follows; the last part, or a whole block; nothing follows."""

OVERHEAD = 64
"""Bytes that a block counts for beside its content, so that empty ones are bounded too."""

_TELL_AT = 4
"""The receiver tells what was taken as soon as it is more than the window divided by this."""

_JOINED = 1 << 12
"""A part up to this size goes into one record with its header."""

Buffer = bytes | memoryview


class Pieces:
    """What travels in both directions of one connection, without a socket.

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
        self.blocks: deque[bytes] = deque()
        self.finished = self.asked = self.ignores = False
        """Whether the peer has said that nothing follows, or wants an answer; whether its blocks are thrown away."""
        self._sent = self.taken_there = 0  # of our blocks, and how much of that the peer's program has taken
        self._arrived = self._taken = self._announced = 0  # the peer's; taken by our program; known to the peer
        self._head = b""
        self._kind, self._left = ROOM, 0  # of the piece that is being read
        self._parts: list[bytes | bytearray] = []
        self._parts_bytes = 0

    def fits(self, size: int) -> bool:
        """Return whether there is room for a block."""
        # What the receiver has taken without telling is at most the second bound: a block that alone exceeds the window
        # does not wait for a telling that is not due.
        waiting = self._sent - self.taken_there
        return waiting + size + OVERHEAD <= self.window or waiting <= self.window // _TELL_AT

    def cut(self, block: bytes) -> list[Buffer]:
        """Return what to write for a block."""
        self._sent += len(block) + OVERHEAD
        if len(block) <= _JOINED:
            return [self.header(LAST, len(block)) + block]
        written: list[Buffer] = []
        view = memoryview(block)
        for place in range(0, len(block), PIECE_BYTES):
            part = view[place : place + PIECE_BYTES]
            written += self.header(PART if place + PIECE_BYTES < len(block) else LAST, len(part)), part
        return written

    def header(self, kind: int, size: int = 0) -> bytes:
        """Return how a piece begins, which tells what was taken."""
        self._announced = self._taken
        return HEADER.pack(kind, size, self._taken)

    def take(self) -> bytes:
        """Return the next block."""
        block = self.blocks.popleft()
        self._taken += len(block) + OVERHEAD
        return block

    @property
    def must_tell(self) -> bool:
        """Whether so much was taken that the peer has to know."""
        return self._taken - self._announced > self.window // _TELL_AT

    @property
    def is_between(self) -> bool:
        """Whether what was read so far ends with a whole piece."""
        return not self._left and not self._head

    def accept(self, data: bytes) -> None:
        """Take in what was read.

        Raises FrameError for what no role would have sent; the connection is unusable after that.
        """
        data, place = self._head + data if self._head else data, 0
        self._head = b""
        while place < len(data):
            if self.finished:
                raise FrameError(f"{self.name} sent something after its end", parameter=self.name, value="end")
            if not self._left:
                if len(data) - place < HEADER.size:
                    self._head = data[place:]
                    return
                self._begin(*HEADER.unpack_from(data, place))
                place += HEADER.size
            if self._left:
                part = data[place : place + self._left]  # all of it is no copy
                place += len(part)
                self._left -= len(part)
                self._keep(part)
            if not self._left and self._kind == LAST:
                self._finish_block()

    def _keep(self, part: bytes) -> None:
        """Keep a part of a block, joined with those before it if it is small: each object takes some memory."""
        if len(part) >= _JOINED or not self._left:
            self._parts.append(part)
        elif self._parts and isinstance(self._parts[-1], bytearray):
            self._parts[-1] += part
        else:
            self._parts.append(bytearray(part))

    def _begin(self, kind: int, size: int, taken: int) -> None:
        self._note_room(taken)
        if kind > FINISHED or (kind not in (PART, LAST) and size):
            raise FrameError(
                f"{self.name} sent a message that is no piece of a block", parameter=self.name, value="piece"
            )
        if (kind == PART and size != PIECE_BYTES) or size > PIECE_BYTES:
            raise FrameError(f"{self.name} sent a part of {size} bytes of a block", parameter=self.name, value=size)
        self._kind, self._left = kind, size
        if kind in (PART, LAST):
            self._parts_bytes += size
            if self._parts_bytes > self.max_block:
                text = f"a block from {self.name} is larger than the {self.max_block} bytes allowed"
                raise FrameError(text, "range", self.name, "block")
            if self._arrived - self._taken > self.window + self.max_block + OVERHEAD:
                raise FrameError(f"{self.name} sends more than there is room for", "range", self.name, "window")
        self.asked = self.asked or kind == ASK
        self.finished = kind == FINISHED

    def _note_room(self, taken: int) -> None:
        if not self.taken_there <= taken <= self._sent:
            raise FrameError(
                f"{self.name} says that it has taken what was not sent", parameter=self.name, value="taken"
            )
        self.taken_there = taken

    def _finish_block(self) -> None:
        block = b"".join(self._parts)  # one part is no copy
        self._parts, self._parts_bytes, self._kind = [], 0, ROOM
        if not self.ignores:
            self._arrived += len(block) + OVERHEAD
            self.blocks.append(block)


def ask_before(piece: Buffer) -> bytes:
    """Return a question that goes ahead of a piece, and so tells of no more than that was taken."""
    _, _, taken = HEADER.unpack_from(piece)
    return HEADER.pack(ASK, 0, taken)
