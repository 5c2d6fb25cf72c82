"""Blocks cut into pieces and put together, with room for them and an end; no socket.

Memory is bounded by the window: a sender may have that many bytes on their way that the other program has not taken
yet.
"""

from __future__ import annotations

import struct
from collections import deque

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import ExhaustedError, FrameError
from mpfedxgb.transport.transport import Block

PIECE_BYTES = 1 << 18
"""Largest part of a block in one piece; between two pieces others may use the socket."""

HEADER = struct.Struct("<BQQ")
"""A piece's kind, the bytes of its block that are still to come, of which it has as many as a piece may have, and how
much of the receiver's blocks the sender's program has taken."""

ROOM, ASK, PART, FINISHED = range(4)
"""Nothing but what was taken; the same, and the other side is to say something; a part of a block, or a whole one;
nothing follows."""

OVERHEAD = 64
"""Bytes that a block counts for beside its content, so that empty ones are bounded too."""

_TELL_AT = 4
"""The receiver tells what was taken as soon as it is more than the window divided by this."""

_SMALL = 1 << 12
"""A block up to this size is written in one record with its header, and kept as bytes: arrays take 500 bytes more."""


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
        self.blocks: deque[Block] = deque()
        self.finished = self.asked = self.ignores = False
        """Whether the peer has said that nothing follows, or wants an answer; whether its blocks are thrown away."""
        self._sent = self.taken_there = 0  # of our blocks, and how much of that the peer's program has taken
        self._arrived = self._taken = self._announced = 0  # the peer's; taken by our program; known to the peer
        self._head = b""
        self._left = self._rest = 0  # bytes of the piece that is being read, and of its block after it
        self._memory: npt.NDArray[np.uint8] | None = None  # of a block that is not whole yet
        self.place = memoryview(b"")
        """Where the bytes of a block that follow next may be written; empty if something else follows."""

    def fits(self, size: int, unwritten: int = 0) -> bool:
        """Return whether there is room for a block, while `unwritten` bytes of what was sent are still queued here."""
        # What the receiver has taken without telling is at most the second bound: a block that alone exceeds the window
        # does not wait for a telling that is not due. What is not written yet nobody has taken, whatever a peer says.
        waiting = max(self.owed, unwritten)
        return waiting + size + OVERHEAD <= self.window or waiting <= self.window // _TELL_AT

    @property
    def owed(self) -> int:
        """What was sent and, as far as is known, not taken."""
        return self._sent - self.taken_there

    def cut(self, block: Block) -> list[Block]:
        """Return what to write for a block."""
        size = len(block)
        self._sent += size + OVERHEAD
        if size <= _SMALL:
            return [self.header(PART, size) + block]
        written: list[Block] = []
        view = memoryview(block)
        for place in range(0, size, PIECE_BYTES):
            written += self.header(PART, size - place), view[place : place + PIECE_BYTES]
        return written

    def header(self, kind: int, size: int = 0) -> bytes:
        """Return how a piece begins, which tells what was taken."""
        self._announced = self._taken
        return HEADER.pack(kind, size, self._taken)

    def take(self) -> Block:
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

        Raises FrameError for what no role would have sent, ExhaustedError if there is no memory for it; the connection
        is unusable after that.
        """
        data, place = self._head + data if self._head else data, 0
        self._head = b""
        while place < len(data):
            if self._left:
                part = data[place : place + self._left]
                self.place[: len(part)] = part
                self.filled(len(part))
                place += len(part)
                continue
            if self.finished:
                raise FrameError(f"{self.name} sent something after its end", parameter=self.name, value="end")
            if len(data) - place < HEADER.size:
                self._head = data[place:]
                return
            kind, size, taken = HEADER.unpack_from(data, place)
            place += HEADER.size
            self._check(kind, size, taken)
            if kind != PART:
                continue
            if self._memory is None and size <= min(len(data) - place, PIECE_BYTES):  # all of the block is here
                self._finish_block(data[place : place + size])
                place += size
            else:
                self._expect_part(size)

    def filled(self, size: int) -> None:
        """Note that the next bytes of a block have been written to `place`."""
        self._left -= size
        self.place = self.place[size:] if self._left else memoryview(b"")
        if not self._left and not self._rest:
            assert self._memory is not None
            self._memory.setflags(write=False)
            block, self._memory = self._memory.data, None
            self._finish_block(bytes(block) if len(block) <= _SMALL else block)

    def drop_half(self) -> None:
        """Give up the memory of a block whose rest will not come."""
        self._memory, self.place = None, memoryview(b"")
        self._left = self._rest = 0

    def _expect_part(self, size: int) -> None:
        """Make room for a part of a block of which `size` bytes are to come."""
        if self._memory is None:
            try:
                # NumPy asks for large pages, which saves most of what fresh memory costs; the system provides them as
                # they are written to.
                self._memory = np.empty(size, np.uint8)
            except MemoryError:
                text = f"there is no memory for a block of {size} bytes from {self.name}"
                raise ExhaustedError(text, parameter=self.name, value=size) from None
        self._left = min(size, PIECE_BYTES)
        self._rest = size - self._left
        begin = len(self._memory) - size
        self.place = self._memory.data[begin : begin + self._left]

    def _check(self, kind: int, size: int, taken: int) -> None:
        """Hold what a piece says against what a role may say, and note it."""
        self._note_room(taken)
        if kind > FINISHED or (kind != PART and size):
            raise FrameError(
                f"{self.name} sent a message that is no piece of a block", parameter=self.name, value="piece"
            )
        if kind == PART:
            if size > self.max_block:
                text = f"a block from {self.name} is larger than the {self.max_block} bytes allowed"
                raise FrameError(text, "range", self.name, "block")
            if self._memory is not None and size != self._rest:
                text = f"{self.name} sent a part of a block of which {size} bytes are to come, not {self._rest}"
                raise FrameError(text, parameter=self.name, value=size)
            # No more than `fits` lets any sender have on its way.
            most = max(self.window, self.window // _TELL_AT + self.max_block + OVERHEAD)
            if self._memory is None and self._arrived - self._taken + size + OVERHEAD > most:
                raise FrameError(f"{self.name} sends more than there is room for", "range", self.name, "window")
        if kind == FINISHED and self._memory is not None:
            raise FrameError(f"{self.name} ended in the middle of a block", parameter=self.name, value="end")
        self.asked = self.asked or kind == ASK
        self.finished = kind == FINISHED

    def _note_room(self, taken: int) -> None:
        if not self.taken_there <= taken <= self._sent:
            raise FrameError(
                f"{self.name} says that it has taken what was not sent", parameter=self.name, value="taken"
            )
        self.taken_there = taken

    def _finish_block(self, block: Block) -> None:
        if not self.ignores:
            self._arrived += len(block) + OVERHEAD
            self.blocks.append(block)


def ask_before(piece: Block) -> bytes:
    """Return a question that goes ahead of a piece, and so tells of no more than that was taken."""
    _, _, taken = HEADER.unpack_from(piece)
    return HEADER.pack(ASK, 0, taken)
