"""A link puts pieces together, keeps to its bounds, and believes nothing that another link would not send."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from mpfedxgb.errors import FederationError, FrameError, PeerFinishedError, PeerTimeoutError
from mpfedxgb.transport.grpc import wire_pb2
from mpfedxgb.transport.grpc.stream import MESSAGE_BYTES, PIECE_BYTES, PeerStream
from mpfedxgb.transport.grpc.wire_pb2 import Piece

SOURCE = Path(__file__).parents[3] / "src"
WINDOW, MOST = 10_000, 3 * PIECE_BYTES


def link(window: int = WINDOW, max_block: int = MOST) -> PeerStream:
    """Return a link that nobody reads or writes but the test."""
    return PeerStream("telecom", window, max_block)


def accept(end: PeerStream, **content: object) -> bool:
    """Hand a piece to a link."""
    return end.accept(Piece(**content).SerializeToString())  # type: ignore[arg-type] # any field


def test_the_generated_code_belongs_to_the_schema(tmp_path: Path) -> None:
    """Compiling wire.proto again gives the descriptor that is committed."""
    out = tmp_path / "descriptors"
    command = [
        "-m",
        "grpc_tools.protoc",
        f"-I{SOURCE}",
        f"--descriptor_set_out={out}",
        "mpfedxgb/transport/grpc/wire.proto",
    ]
    subprocess.run([sys.executable, *command], check=True)  # noqa: S603 # ours
    compiled = FileDescriptorSet.FromString(out.read_bytes()).file
    for field in (field for message in compiled[0].message_type for field in message.field):
        field.ClearField("json_name")  # implied by the name; generated code leaves it out
    assert [file.name for file in compiled] == [wire_pb2.DESCRIPTOR.name]
    assert compiled[0] == FileDescriptorProto.FromString(wire_pb2.DESCRIPTOR.serialized_pb)


def test_the_generated_code_is_of_the_oldest_supported_protobuf() -> None:
    """Code of a newer compiler refuses to run with an older library: there is no such check in it."""
    project = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["project"]
    (needed,) = (text for text in project["dependencies"] if text.startswith("protobuf"))
    oldest = re.fullmatch(r"protobuf>=(\d+\.\d+)\.\d+(,!=.*)?", needed)
    assert oldest is not None, needed
    code = Path(wire_pb2.__file__).read_text()
    assert f"# Protobuf Python Version: {oldest[1]}.0\n" in code
    assert "runtime_version" not in code


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, MOST])
def test_a_block_is_cut_into_messages_of_bounded_size(size: int) -> None:
    """As few as possible, none too large, and the other link puts them together."""
    sender, receiver = link(), link()
    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    sender.send(content, 0)
    messages = list(itertools.islice(sender.pieces(), max(1, -(-size // PIECE_BYTES))))
    assert max(map(len, messages)) <= MESSAGE_BYTES
    assert all(receiver.accept(message) for message in messages)
    assert receiver.receive(0) == content


@pytest.mark.parametrize(
    ("contents", "words"),
    [
        ([{"part": b""}], "a part of 0 bytes"),
        ([{"part": b"x"}], "a part of 1 bytes"),
        ([{"part": bytes(PIECE_BYTES - 1)}], "a part of"),
        ([{"part": bytes(PIECE_BYTES + 1)}], "a part of"),
        ([{"last": bytes(PIECE_BYTES + 1)}], "a part of"),
        ([{"part": bytes(PIECE_BYTES)}] * 4, f"larger than the {MOST} bytes allowed"),
        ([{"part": bytes(PIECE_BYTES)}] * 3 + [{"last": b"x"}], f"larger than the {MOST} bytes allowed"),
        ([{"last": bytes(PIECE_BYTES)}] * 5, "more than there is room for"),
        ([{"last": bytes(PIECE_BYTES)}] * 3 + [{"last": b""}] * 156, "more than there is room for"),
        ([{"taken": 1}], "taken what was not sent"),
        ([{"taken": (1 << 64) - 1}], "taken what was not sent"),
        ([{"finished": True}, {"last": b"x"}], "after its end"),
    ],
)
def test_what_no_link_sends_is_refused(contents: list[dict[str, object]], words: str) -> None:
    """Parts of odd sizes, blocks without end, blocks without room, and tales about room."""
    end = link()
    for content in contents[:-1]:
        accept(end, **content)
    with pytest.raises(FrameError, match=words):
        accept(end, **contents[-1])


@pytest.mark.parametrize("garbage", [b"\xff", b"\x08", b"\x12\x05abc", b"\x0a\x01a\x07", bytes(range(1, 100))])
def test_garbage_is_no_piece(garbage: bytes) -> None:
    """Bytes that are no message of the schema are an error with a name."""
    with pytest.raises(FrameError, match="no piece of a block"):
        link().accept(garbage)


def test_a_piece_of_the_future_is_let_pass() -> None:
    """Unknown fields alone are nothing: a later version may add hints."""
    end = link()
    assert end.accept(b"\x28\x01")
    with pytest.raises(PeerTimeoutError):
        end.receive(0)


def test_room_is_told_when_a_quarter_was_taken_and_not_before() -> None:
    """Tellings are rare; blocks that go back anyway carry them."""
    sender, receiver = link(), link()
    outgoing, incoming = sender.pieces(), receiver.pieces()
    for _ in range(3):
        sender.send(bytes(1000), 0)
        receiver.accept(next(outgoing))
    receiver.receive(0)
    receiver.receive(0)
    receiver.send(b"back", 0)
    assert Piece.FromString(next(incoming)).taken == 2 * 1064
    receiver.receive(0)
    receiver.send(b"again", 0)
    receiver.close()
    assert [Piece.FromString(message).WhichOneof("content") for message in incoming] == ["last", "finished"]


def test_a_sender_waits_for_room_and_not_for_ever() -> None:
    """The window holds; one block always fits, however large; what was taken makes room."""
    sender, receiver = link(), link()
    outgoing, incoming = sender.pieces(), receiver.pieces()
    sender.send(bytes(WINDOW - 64), 0)
    with pytest.raises(PeerTimeoutError, match="telecom took nothing for 0 seconds"):
        sender.send(b"", 0)
    receiver.accept(next(outgoing))
    receiver.receive(0)
    sender.accept(next(incoming))
    sender.send(bytes(MOST), 0)
    with pytest.raises(PeerTimeoutError):
        sender.send(b"", 0)


def test_a_large_block_does_not_wait_for_a_telling_that_is_not_due() -> None:
    """A little that was taken without a telling does not stop a block that needs the whole window; it arrives."""
    sender, receiver = link(), link()
    outgoing = sender.pieces()
    sender.send(bytes(WINDOW // 4 - 64), 0)
    receiver.accept(next(outgoing))
    receiver.receive(0)
    large = b"x" * (2 * WINDOW)
    sender.send(large, 0)
    receiver.accept(next(outgoing))
    assert receiver.receive(0) == large


def test_too_large_a_block_is_refused_where_it_is_sent() -> None:
    """The sender's own bound, by name, before anything is on its way."""
    with pytest.raises(FrameError, match=rf"a block of {MOST + 1} bytes is larger than the {MOST} allowed"):
        link().send(bytes(MOST + 1), 0)


def test_the_first_reason_of_an_end_counts_and_is_raised_as_often_as_asked() -> None:
    """After what came before it; always a new error."""
    end = link()
    accept(end, last=b"before")
    end.end(FrameError("first"))
    end.end(PeerFinishedError("second"))
    assert end.receive(0) == b"before"
    errors = []
    for call in (lambda: end.receive(0), lambda: end.receive(0), lambda: end.send(b"", 0)):
        with pytest.raises(FrameError, match="first") as caught:
            call()
        errors.append(caught.value)
    assert len(set(map(id, errors))) == 3
    assert list(end.pieces()) == []


def test_a_closed_link_says_so() -> None:
    """Its own calls are refused, and its last piece is the end."""
    end = link()
    end.send(b"last words", 0)
    end.close()
    for call in (lambda: end.receive(0), lambda: end.send(b"", 0)):
        with pytest.raises(FederationError, match="closed its own"):
            call()
    assert [Piece.FromString(message).WhichOneof("content") for message in end.pieces()] == ["last", "finished"]
