"""Pieces make blocks again, keep to their bounds, and nothing is believed that another role would not send."""

from __future__ import annotations

import tracemalloc
import weakref

import pytest

from mpfedxgb.errors import ExhaustedError, FrameError
from mpfedxgb.transport.tls.pieces import ASK, FINISHED, HEADER, OVERHEAD, PART, PIECE_BYTES, ROOM, Pieces
from support.refusals import refused

WINDOW, MOST = 10_000, 3 * PIECE_BYTES


def pieces(window: int = WINDOW, max_block: int = MOST) -> Pieces:
    """Return what travels on a new connection."""
    return Pieces("telecom", window, max_block)


def piece(kind: int, content: bytes = b"", taken: int = 0, later: int = 0) -> bytes:
    """Return one piece, after which `later` bytes of its block are to come."""
    return HEADER.pack(kind, len(content) + later, taken) + content


def written(end: Pieces, block: bytes) -> bytes:
    """Return what is written for a block."""
    return b"".join(end.cut(block))


FULL = bytes(PIECE_BYTES)


@pytest.mark.parametrize("step", [1, 7, HEADER.size, 1 << 14, 1 << 30])
@pytest.mark.parametrize("size", [0, 1, 5000, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, MOST])
def test_a_block_arrives_however_it_is_cut(size: int, step: int) -> None:
    """By this transport into pieces of bounded size, and by the network anywhere."""
    sender, receiver = pieces(), pieces()
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    parts = sender.cut(content)
    assert max(map(len, parts)) <= PIECE_BYTES
    everything = b"".join(parts) + written(sender, b"next")
    step = max(step, len(everything) // 5000)
    for place in range(0, len(everything), step):
        receiver.accept(everything[place : place + step])
    assert (receiver.take(), receiver.take()) == (content, b"next")
    assert receiver.is_between


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([piece(PART, FULL, later=9), piece(PART)], "0 bytes are to come, not 9"),
        ([piece(PART, FULL, later=9), piece(PART, bytes(8))], "8 bytes are to come, not 9"),
        ([piece(PART, FULL, later=9), piece(PART, bytes(10))], "10 bytes are to come, not 9"),
        ([piece(PART, FULL, later=9), piece(PART, bytes(9), later=1)], "10 bytes are to come, not 9"),
        ([piece(PART, FULL, later=9) + HEADER.pack(PART, MOST, 0)], f"{MOST} bytes are to come, not 9"),
        ([HEADER.pack(PART, MOST + 1, 0)], f"larger than the {MOST} bytes allowed"),
        ([HEADER.pack(PART, (1 << 64) - 1, 0)], f"larger than the {MOST} bytes allowed"),
        ([piece(PART, FULL, later=9), HEADER.pack(PART, MOST + 1, 0)], f"larger than the {MOST} bytes allowed"),
        ([piece(PART, FULL)] * 4, "more than there is room for"),
        ([piece(PART, FULL)] * 3 + [piece(PART)] * 38, "more than there is room for"),
        ([piece(ROOM, taken=1)], "taken what was not sent"),
        ([piece(ROOM, taken=(1 << 64) - 1)], "taken what was not sent"),
        ([piece(FINISHED), piece(PART, b"x")], "after its end"),
        ([piece(FINISHED) + piece(ASK)], "after its end"),
        ([piece(PART, FULL, later=9), piece(FINISHED)], "ended in the middle of a block"),
        ([piece(ROOM, b"x")], "no piece of a block"),
        ([piece(ASK, b"x")], "no piece of a block"),
        ([piece(FINISHED, b"x")], "no piece of a block"),
        ([piece(FINISHED + 1)], "no piece of a block"),
        ([b"\xff" * HEADER.size], "taken what was not sent"),
    ],
)
def test_what_no_role_sends_is_refused(contents: list[bytes], words: str) -> None:
    """Parts of odd sizes, blocks without end, blocks without room, and tales about room."""
    end = pieces()
    for content in contents[:-1]:
        end.accept(content)
    with pytest.raises(FrameError, match=words):
        end.accept(contents[-1])


def test_memory_for_a_block_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer may announce more than there is; this role says whose block it was, and does not end without a word."""

    def none_left(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("mpfedxgb.transport.tls.pieces.np.empty", none_left)
    with refused(ExhaustedError, "room", "telecom", MOST):
        pieces().accept(HEADER.pack(PART, MOST, 0))


def test_a_block_cannot_be_changed_and_is_kept_by_nobody_else() -> None:
    """What arrives in parts is read-only, and the memory goes when the program gives the block up."""
    sender, receiver = pieces(), pieces()
    receiver.accept(written(sender, bytes(MOST)))
    block = receiver.take()
    assert isinstance(block, memoryview)
    assert block.readonly
    gone = weakref.ref(block.obj)
    del block
    assert gone() is None


def test_less_taken_than_before_is_refused() -> None:
    """Room does not shrink."""
    end = pieces()
    end.cut(b"abc")
    end.accept(piece(ROOM, taken=50))
    with refused(FrameError, "damaged", "telecom", "taken"):
        end.accept(piece(ROOM, taken=49))


def test_room_is_told_when_a_quarter_was_taken_and_not_before() -> None:
    """Tellings are rare; blocks that go back anyway carry them."""
    sender, receiver = pieces(), pieces()
    for _ in range(3):
        receiver.accept(written(sender, bytes(1000)))
    for expected in (False, False, True):
        receiver.take()
        assert receiver.must_tell is expected
    assert HEADER.unpack(receiver.header(ROOM)) == (ROOM, 0, 3 * (1000 + OVERHEAD))
    assert not receiver.must_tell


def test_room() -> None:
    """The window holds; one block always fits, however large; what was taken makes room."""
    sender, receiver = pieces(), pieces()
    assert sender.fits(WINDOW - OVERHEAD)
    receiver.accept(written(sender, bytes(WINDOW - OVERHEAD)))
    assert not sender.fits(0)
    receiver.take()
    sender.accept(receiver.header(ROOM))
    assert sender.fits(MOST)
    sender.cut(bytes(MOST))
    assert not sender.fits(0)


def test_a_large_block_does_not_wait_for_a_telling_that_is_not_due() -> None:
    """A little that was taken without a telling does not stop a block that needs the whole window."""
    sender, receiver = pieces(), pieces()
    receiver.accept(written(sender, bytes(WINDOW // 4 - OVERHEAD)))
    receiver.take()
    assert not receiver.must_tell
    assert sender.fits(2 * WINDOW)


def test_an_end_that_has_closed_keeps_nothing() -> None:
    """What still comes is taken apart, held against the same bounds, and thrown away."""
    sender, receiver = pieces(), pieces()
    receiver.ignores = True
    for _ in range(100):
        receiver.accept(written(sender, bytes(1000)))
    assert not receiver.blocks


def test_a_block_in_crumbs_takes_the_memory_of_its_content() -> None:
    """However small the records are in which a peer sends it."""
    end, count = pieces(), PIECE_BYTES // 8
    end.accept(HEADER.pack(PART, PIECE_BYTES, 0))
    tracemalloc.start()
    try:
        for _ in range(count):
            end.accept(bytes([7]) * 2)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 2 * count
    end.accept(bytes([7]) * (PIECE_BYTES - 2 * count))
    assert end.take() == bytes([7]) * PIECE_BYTES


def test_small_blocks_in_crumbs_take_what_they_count_for() -> None:
    """A header in one record, its only byte in the next: many such blocks take no more memory than they count for."""
    count = 2000
    end = pieces(window=count * (1 + OVERHEAD))
    tracemalloc.start()
    try:
        for _ in range(count):
            end.accept(HEADER.pack(PART, 1, 0))
            end.accept(b"x")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * count * (1 + OVERHEAD)
    assert set(end.blocks) == {b"x"}


def test_what_is_not_written_has_no_room_however_much_a_peer_says_it_took() -> None:
    """A peer that reads nothing cannot have a sender queue without bound."""
    end = pieces()
    end.cut(bytes(WINDOW - OVERHEAD))
    end.accept(piece(ROOM, taken=WINDOW))
    assert end.fits(WINDOW - OVERHEAD)
    assert not end.fits(0, unwritten=WINDOW)
