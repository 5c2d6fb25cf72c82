"""A thousand hostile streams: random pieces, garbled good ones, any cut; each is borne or refused by name."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np

from mpfedxgb.errors import FrameError
from mpfedxgb.transport.frame import Kind, decode, encode
from mpfedxgb.transport.tls.pieces import HEADER, PIECE_BYTES, Pieces

STREAMS = 1000
WINDOW, MOST = 1 << 16, 1 << 19


def hostile(draws: random.Random) -> bytes:
    """Return a stream that nobody means well with."""
    sender = Pieces("bank", WINDOW, MOST)
    frame = encode(Kind.HELLO, 1, bytes(16), 1, "handshake", [np.arange(draws.randrange(500), dtype=np.uint64)])
    good = bytearray(b"".join(part for _ in range(draws.randrange(1, 4)) for part in sender.cut(frame)))
    kind = draws.randrange(4)
    if kind == 0:
        return draws.randbytes(draws.randrange(1, 4000))
    if kind == 1:  # good pieces with wrong bits
        for _ in range(draws.randrange(1, 8)):
            good[draws.randrange(len(good))] ^= 1 << draws.randrange(8)
    elif kind == 2:  # any header
        size = draws.choice((0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, (1 << 32) - 1))
        taken = draws.choice((0, 1, (1 << 64) - 1))
        good += HEADER.pack(draws.randrange(256), size, taken) + draws.randbytes(draws.randrange(3000))
    else:  # something is missing in the middle
        place = draws.randrange(len(good))
        del good[place : place + draws.randrange(1, 50)]
    return bytes(good)


def test_hostile_streams() -> None:
    """No error without a name, no memory on a stranger's word; blocks that come out are frames or refused as such."""
    refused = blocks = 0
    tracemalloc.start()
    try:
        for seed in range(STREAMS):
            draws = random.Random(seed)  # noqa: S311 # a test's choices
            content, receiver = hostile(draws), Pieces("bank", WINDOW, MOST)
            before = refused
            try:
                while content:
                    cut = draws.randrange(1, 5000)
                    receiver.accept(content[:cut])
                    content = content[cut:]
            except FrameError as error:
                refused += "bank" in str(error)
                receiver.ignores = True
            assert receiver.ignores == (refused > before), seed
            while receiver.blocks:
                blocks += 1
                try:
                    decode(receiver.take(), MOST)
                except FrameError:
                    refused += 1
        assert tracemalloc.get_traced_memory()[1] < 16 * MOST
    finally:
        tracemalloc.stop()
    assert refused > STREAMS // 3
    assert blocks > STREAMS // 3
