"""The one message format: what is encoded is decoded, and nothing else is."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from mpfedxgb.errors import FrameError
from mpfedxgb.transport.frame import (
    MAGIC,
    MAX_ARRAYS,
    MAX_AXES,
    MAX_LABEL_BYTES,
    SESSION_BYTES,
    VERSION,
    Frame,
    Kind,
    decode,
    encode,
    short_label,
)
from support.property_tests import examples
from support.refusals import refused

Array = npt.NDArray[Any]
SESSION = bytes(range(SESSION_BYTES))
ROOM = 1 << 20
HEADER = struct.Struct("<4sBBHQ16sBB")

some = examples(60)
many = examples(150)

arrays = st_numpy.arrays(
    st.sampled_from([np.uint8, np.uint64, np.int64]),
    st_numpy.array_shapes(min_dims=0, max_dims=MAX_AXES, min_side=0, max_side=2)
    | st_numpy.array_shapes(max_dims=1, max_side=20),
)
frames = st.builds(
    encode,
    st.sampled_from(list(Kind)),
    st.integers(0, 0xFFFF),
    st.binary(min_size=SESSION_BYTES, max_size=SESSION_BYTES),
    st.integers(0, (1 << 64) - 1),
    st.text(max_size=30),
    st.lists(arrays, max_size=4),
)


def encode_again(frame: Frame) -> bytes:
    """Return the bytes of a decoded frame."""
    return encode(frame.kind, frame.sender, frame.session, frame.step, frame.label, frame.arrays)


def raw(
    *headers: bytes,
    magic: bytes = MAGIC,
    version: int = VERSION,
    kind: int = 1,
    label: bytes = b"",
    body: bytes = b"",
    count: int | None = None,
) -> bytes:
    """Return a frame put together by hand."""
    number = len(headers) if count is None else count
    return HEADER.pack(magic, version, kind, 1, 2, SESSION, len(label), number) + label + b"".join(headers) + body


def array_header(code: int, *shape: int, axes: int | None = None) -> bytes:
    """Return the description of one array."""
    return struct.pack(f"<BB{len(shape)}Q", code, len(shape) if axes is None else axes, *shape)


def check_allocates_nothing(frame: Frame, blob: bytes) -> None:
    """Arrays are views of the block, read-only, and no larger than it."""
    for array in frame.arrays:
        assert not array.flags.owndata
        assert not array.flags.writeable
    assert frame.payload_bytes <= len(blob)


# Round trip


@many
@given(
    st.sampled_from(list(Kind)),
    st.integers(0, 0xFFFF),
    st.binary(min_size=SESSION_BYTES, max_size=SESSION_BYTES),
    st.integers(0, (1 << 64) - 1),
    st.text(max_size=300),
    st.lists(arrays, max_size=4),
)
def test_round_trip(kind: Kind, sender: int, session: bytes, step: int, label: str, content: list[Array]) -> None:
    """Every field and array comes back, with its type and shape; only a label too long is cut."""
    blob = encode(kind, sender, session, step, label, content)
    frame = decode(blob, len(blob))
    assert (frame.kind, frame.sender, frame.session, frame.step) == (kind, sender, session, step)
    assert frame.label == short_label(label)
    assert len(frame.arrays) == len(content)
    for found, sent in zip(frame.arrays, content, strict=True):
        assert (found.dtype, found.shape) == (sent.dtype, sent.shape)
        np.testing.assert_array_equal(found, sent)
    assert frame.payload_bytes == sum(array.nbytes for array in content)
    check_allocates_nothing(frame, blob)


@pytest.mark.parametrize("kind", [np.uint8, np.uint64, np.int64])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (3, 5), (0, 5000), (5000, 0, 3), (1,) * MAX_AXES])
def test_every_type_and_shape(kind: type[np.generic], shape: tuple[int, ...]) -> None:
    """Scalars, empty arrays with long other axes, and as many axes as there may be."""
    array = np.arange(int(np.prod(shape)), dtype=kind).reshape(shape)
    (found,) = decode(encode(Kind.DATA, 1, SESSION, 1, "x", [array]), ROOM).arrays
    assert (found.dtype, found.shape) == (array.dtype, shape)
    np.testing.assert_array_equal(found, array)


def test_views_are_sent_as_they_look() -> None:
    """Transposed, reversed and broadcast arrays arrive in their logical order."""
    base = np.arange(6, dtype=np.uint64).reshape(2, 3)
    for view in (base.T, base[:, ::-1], np.broadcast_to(base[0], (4, 3)), base[::2, 1:]):
        (found,) = decode(encode(Kind.DATA, 1, SESSION, 1, "x", [view]), ROOM).arrays
        np.testing.assert_array_equal(found, view)


def test_the_arrays_are_copied() -> None:
    """What the sender does afterwards does not change what was sent."""
    array = np.zeros(3, np.uint64)
    blob = encode(Kind.DATA, 1, SESSION, 1, "x", [array])
    array += np.uint64(1)
    assert decode(blob, ROOM).arrays[0].tolist() == [0, 0, 0]


def test_as_many_arrays_as_there_may_be() -> None:
    """The full number passes, one more is refused by the sender already, and so is one axis too many."""
    full = [np.full(n % 3, n, np.uint8) for n in range(MAX_ARRAYS)]
    assert len(decode(encode(Kind.DATA, 1, SESSION, 1, "x", full), ROOM).arrays) == MAX_ARRAYS
    for count in (MAX_ARRAYS + 1, 300):
        with refused(FrameError, "range", "batch"):
            encode(Kind.DATA, 1, SESSION, 1, "x", [np.zeros(1, np.uint8)] * count)
    with refused(FrameError, "range", "batch"):
        encode(Kind.DATA, 1, SESSION, 1, "x", [np.zeros((1,) * (MAX_AXES + 1), np.uint8)])


@some
@given(st.text(max_size=400))
@example("a" + "é" * 200)
@example("\N{MUSICAL SYMBOL G CLEF}" * 100)
def test_labels_are_cut_between_characters(label: str) -> None:
    """A label that is too long loses whole characters, so that it is still text and two sides cut alike."""
    short = short_label(label)
    assert label.startswith(short)
    assert short == short_label(short)
    assert len(short.encode()) <= MAX_LABEL_BYTES
    assert short == label or len(short.encode()) > MAX_LABEL_BYTES - 4
    assert decode(encode(Kind.DATA, 1, SESSION, 1, label), ROOM).label == short


# Refusals


@examples(30)
@given(frames)
def test_every_truncation_is_an_error(blob: bytes) -> None:
    """No proper beginning of a frame is a frame."""
    for length in range(len(blob)):
        with pytest.raises(FrameError):
            decode(blob[:length], ROOM)


@some
@given(frames, st.binary(min_size=1, max_size=20))
def test_trailing_bytes_are_an_error(blob: bytes, more: bytes) -> None:
    """A frame ends where its arrays do; the error says how much was left over."""
    with refused(FrameError, "damaged", "length"):
        decode(blob + more, ROOM)


@some
@given(frames)
def test_an_oversized_frame_is_an_error(blob: bytes) -> None:
    """The limit is on the whole frame, and is exact."""
    decode(blob, len(blob))
    with refused(FrameError, "range", "frame"):
        decode(blob, len(blob) - 1)


@pytest.mark.parametrize(
    ("blob", "message"),
    [
        (b"", "shorter than its header"),
        (raw()[:-1], "shorter than its header"),
        (raw(magic=b"MPFY"), "do not begin like a frame"),
        (raw(version=0), "format version 0, this side speaks 1"),
        (raw(version=2), "format version 2, this side speaks 1"),
        (raw(kind=0), "no frame of kind 0"),
        (raw(kind=8), "no frame of kind 8"),
        (raw(label=b"abc")[:-1], "inside its label"),
        (raw(label=b"\xff\xfe"), "label is not text"),
        (raw(label=b"\xed\xa0\x80"), "label is not text"),
        (raw(count=1), "inside its list of arrays"),
        (raw(count=MAX_ARRAYS + 1), f"at most {MAX_ARRAYS} arrays, not {MAX_ARRAYS + 1}"),
        (raw(array_header(3, 1), body=b"x"), "no array type 3"),
        (raw(array_header(255)), "no array type 255"),
        (raw(array_header(0, *[1] * (MAX_AXES + 1)), body=b"x"), f"at most {MAX_AXES} axes, not {MAX_AXES + 1}"),
        (raw(array_header(0, 1, axes=2)), "inside a shape"),
        (raw(array_header(0, 4), body=b"abc"), "inside its arrays"),
        (raw(array_header(1, 1), body=b"1234567"), "inside its arrays"),
        (raw(array_header(0), body=b""), "inside its arrays"),
    ],
)
def test_refusals_are_named(blob: bytes, message: str) -> None:
    """Every way to be no frame has its own sentence."""
    with pytest.raises(FrameError, match=message):
        decode(blob, ROOM)


def test_the_frames_built_by_hand_are_good_ones() -> None:
    """The helper of the test above differs from `encode` in nothing but the fault."""
    array = np.array([[1, 2, 3]], np.uint8)
    by_hand = raw(array_header(0, 1, 3), label=b"abc", body=b"\x01\x02\x03")
    assert by_hand == encode(Kind.DATA, 1, SESSION, 2, "abc", [array])


ABSURD = [
    (1 << 63,),
    ((1 << 64) - 1,),
    (1 << 62, 1 << 62),
    (1 << 32, 1 << 32),
    (1 << 20, 1 << 20),
    (0, (1 << 64) - 1),
    (0, 1 << 32, 1 << 32),
    (0, *[3000] * 7),
    (*[1 << 63] * 7, 0),
    (1 << 30,),
]


@pytest.mark.parametrize("shape", ABSURD)
@pytest.mark.parametrize("code", [0, 1, 2])
def test_absurd_shapes_are_refused_before_anything_is_allocated(code: int, shape: tuple[int, ...]) -> None:
    """Sizes that overflow, that no frame can hold, or that hide behind an axis of length zero."""
    blob = raw(array_header(code, *shape), array_header(0, 4000), body=bytes(4000))
    tracemalloc.start()
    try:
        with refused(FrameError, "range", "shape"):
            decode(blob, ROOM)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_huge_limits_do_not_let_numpy_overflow() -> None:
    """A limit beyond the address space is no reason to pass NumPy a shape that it cannot hold."""
    with refused(FrameError, "range", "shape"):
        decode(raw(array_header(1, 0, 1 << 40, 2)), 1 << 200)


# Fuzz


def check_decodes_or_refuses(blob: bytes) -> None:
    """Bytes are a frame, exactly one that `encode` would have written, or a FrameError; never anything else."""
    try:
        frame = decode(blob, ROOM)
    except FrameError:
        return
    check_allocates_nothing(frame, blob)
    assert encode_again(frame) == blob


@many
@given(st.binary(max_size=200))
def test_fuzz_random_bytes(blob: bytes) -> None:
    """Noise, with and without a header that begins well."""
    check_decodes_or_refuses(blob)
    check_decodes_or_refuses(MAGIC + bytes([VERSION, 1]) + blob)


@many
@given(frames, st.data())
def test_fuzz_mutations(blob: bytes, data: st.DataObject) -> None:
    """Valid frames with bytes changed, cut out, doubled or inserted."""
    mutated = bytearray(blob)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, max(0, len(mutated) - 1)))
        how = data.draw(st.sampled_from(["change", "insert", "cut", "double"]))
        if how == "change" and mutated:
            mutated[place] = data.draw(st.sampled_from([0, 1, 2, 3, 127, 128, 255]) | st.integers(0, 255))
        elif how == "insert":
            mutated[place:place] = data.draw(st.binary(min_size=1, max_size=9))
        else:
            piece = mutated[place : place + data.draw(st.integers(1, 9))]
            mutated[place : place + len(piece)] = b"" if how == "cut" else piece + piece
    check_decodes_or_refuses(bytes(mutated))


lengths = st.one_of(
    st.integers(0, 5), st.sampled_from([64, 255, 256, 3000, 1 << 20, 1 << 31, 1 << 32, 1 << 62, 1 << 63, (1 << 64) - 1])
)
array_headers = st.builds(
    lambda code, shape, skew: array_header(code, *shape, axes=min(255, len(shape) + skew)),
    st.integers(0, 3),
    st.lists(lengths, max_size=MAX_AXES + 1),
    st.sampled_from([0, 0, 0, 1, 250]),
)


@many
@given(
    st.lists(array_headers, max_size=4), st.binary(max_size=60), st.integers(0, 4), st.sampled_from([0, 8, 3000, 9000])
)
def test_fuzz_array_headers(headers: list[bytes], body: bytes, kind: int, more: int) -> None:
    """Well-formed headers with hostile numbers in them."""
    check_decodes_or_refuses(raw(*headers, kind=kind, body=body + bytes(more)))
