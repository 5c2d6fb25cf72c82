"""The one message format: a small header, then arrays as dtype, shape and bytes.

Layout, all integers little-endian:

    magic "MPFX" | version u8 | kind u8 | sender u16 | step u64 | session 16 bytes | label length u8 | arrays u8
    label (UTF-8) | per array: dtype u8, axes u8, length of each axis u64 | the arrays' bytes, one after the other

The header bounds everything that follows, so a decoder allocates nothing on a stranger's word. There is no pickle
and no field whose meaning depends on its content.
"""

from __future__ import annotations

import enum
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import FrameError
from mpfedxgb.transport.transport import Block

Array = npt.NDArray[Any]
Form = tuple[npt.DTypeLike, tuple[int, ...]]
"""Type and shape of an array that is expected."""

MAGIC = b"MPFX"
VERSION = 1
SESSION_BYTES = 16
MAX_ARRAYS = 64
MAX_AXES = 8
MAX_LABEL_BYTES = 255
MAX_ELEMENTS = 1 << 40

_FIXED = struct.Struct("<4sBBHQ16sBB")
_ARRAY = struct.Struct("<BB")
_DTYPES = (np.dtype("<u1"), np.dtype("<u8"), np.dtype("<i8"))
MAX_HEADER_BYTES = _FIXED.size + MAX_LABEL_BYTES + MAX_ARRAYS * (_ARRAY.size + 8 * MAX_AXES)
"""Most that a frame has beside the bytes of its arrays."""

_MOST_SHOWN = 4
"""Arrays that an error lists."""

_CODES = {dtype: code for code, dtype in enumerate(_DTYPES)}


class Kind(enum.IntEnum):
    """What a frame is for."""

    DATA = 1
    """Masked values, shares and corrections, in step."""
    HELLO = 2
    """The handshake."""
    ANNOUNCE = 3
    """Public announcements to the coordinator."""
    ABORT = 4
    """The sender stops; the label is the step it had reached, the arrays are origin, reason and kind of error."""
    WAIT = 5
    """Before a session begins: the sender still waits for others, whom the array names."""
    PART = 6
    """A part of a message that is longer than a frame may be: the length of the whole, and its next bytes."""
    OWN = 7
    """What a coordinator that brings columns sends of its own, and gets where nobody deals: never dealt or shared."""


_KINDS = {int(kind): kind for kind in Kind}


@dataclass(frozen=True, slots=True)
class Frame:
    """One decoded message.

    `session` identifies session and attempt, `step` counts the sender's program, `label` says it in words. `wire_bytes`
    is how long it is in bytes.
    """

    kind: Kind
    sender: int
    session: bytes
    step: int
    label: str
    arrays: tuple[Array, ...] = field(repr=False)
    wire_bytes: int

    @property
    def payload_bytes(self) -> int:
        """Bytes of the arrays, without the header."""
        return sum(array.nbytes for array in self.arrays)


def check_form(sender: str, name: str, arrays: Sequence[Array], *forms: Form) -> tuple[Array, ...]:
    """Return the arrays of a message; raise FrameError, naming what came, unless they have these types and shapes."""
    expected = [(np.dtype(kind), shape) for kind, shape in forms]
    found = [(array.dtype, array.shape) for array in arrays]
    if found != expected:
        text = f"malformed {name} from {sender}: got {_forms(found)}, expected {_forms(expected)}"
        raise FrameError(text, parameter=name, value=sender)
    return tuple(arrays)


def _forms(forms: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> str:
    shown = ", ".join(f"{kind}{shape}" for kind, shape in forms[:_MOST_SHOWN])
    return f"{shown} and {len(forms) - _MOST_SHOWN} more" if len(forms) > _MOST_SHOWN else shown or "nothing"


def short_label(label: str) -> str:
    """Return as much of a label as a frame has room for, in whole characters."""
    return label.encode()[:MAX_LABEL_BYTES].decode(errors="ignore")


def encode(kind: Kind, sender: int, session: bytes, step: int, label: str, arrays: Sequence[Array] = ()) -> bytes:
    """Return the bytes of a frame; the arrays are copied."""
    _check_limits(arrays)
    name = short_label(label).encode()
    parts = [_FIXED.pack(MAGIC, VERSION, kind, sender, step, session, len(name), len(arrays)), name]
    for array in arrays:
        parts.append(_ARRAY.pack(_CODES[array.dtype], array.ndim))
        parts.append(struct.pack(f"<{array.ndim}Q", *array.shape))
    parts.extend(_bytes_of(array) for array in arrays)
    return b"".join(parts)


def copied(kind: Kind, sender: int, session: bytes, step: int, label: str, arrays: Sequence[Array] = ()) -> Frame:
    """Return the frame that `decode` would make of the bytes of `encode`, with copies of the arrays.

    Arrays that nobody can change any more are taken as they are: what the sender has given up, and what came in another
    frame and is passed on. Several receivers may have the same frame: like views of received bytes, its arrays are
    read-only.
    """
    _check_limits(arrays)
    own = tuple(array if _is_final(array) else _read_only_copy(array) for array in arrays)
    length = frame_bytes(label, [(array.shape, array.nbytes) for array in own])
    return Frame(kind, sender, session, step, short_label(label), own, length)


def give_up(array: Array) -> Array:
    """Return an array that is read-only from now on, as is the array that it is a whole view of, if it is one."""
    whole: Any = array
    while isinstance(whole, np.ndarray) and whole.nbytes == array.nbytes > 0:  # an empty one cannot be changed anyway
        whole.setflags(write=False)
        whole = whole.base
    return array


def _is_final(array: Array) -> bool:
    """Return whether nobody can change an array of a frame: it is read-only, and so is all that it is a view of."""
    if not array.flags.c_contiguous or array.dtype not in _CODES:
        return False
    place: Any = array
    while isinstance(place, np.ndarray | memoryview):
        if isinstance(place, np.ndarray):
            is_read_only, place = not place.flags.writeable, place.base
        else:
            is_read_only, place = place.readonly, place.obj
        if not is_read_only:
            return False
    return place is None or isinstance(place, bytes)


def _read_only_copy(array: Array) -> Array:
    copy = np.array(array, _DTYPES[_CODES[array.dtype]], order="C")
    copy.setflags(write=False)
    return copy


def _check_limits(arrays: Sequence[Array]) -> None:
    if len(arrays) > MAX_ARRAYS or any(array.ndim > MAX_AXES for array in arrays):
        raise FrameError(
            f"a frame carries at most {MAX_ARRAYS} arrays of at most {MAX_AXES} axes; split the batch", "range", "batch"
        )


def frame_bytes(label: str, arrays: Sequence[tuple[tuple[int, ...], int]]) -> int:
    """Return how long a frame of arrays, given as shapes and bytes, is."""
    shapes = sum(_ARRAY.size + 8 * len(shape) for shape, _ in arrays)
    return _FIXED.size + len(short_label(label).encode()) + shapes + sum(size for _, size in arrays)


def _bytes_of(array: Array) -> bytes:
    """Return an array's bytes for joining, without a copy of their own."""
    return cast(bytes, np.ascontiguousarray(array).data.cast("B")) if array.size else b""


def check_length(length: int, most: int) -> None:
    """Refuse a frame that is longer than this side takes."""
    if length > most:
        raise FrameError(f"a frame of {length} bytes is larger than the {most} allowed", "range", "frame", length)


def decode(blob: Block, max_bytes: int) -> Frame:
    """Return the frame in a block of bytes; its arrays are read-only views of the block.

    Raises FrameError, naming what is wrong, for anything that `encode` could not have written.
    """
    check_length(len(blob), max_bytes)
    if len(blob) < _FIXED.size:
        raise FrameError(
            f"a frame of {len(blob)} bytes is shorter than its header", parameter="header", value=len(blob)
        )
    magic, version, kind, sender, step, session, label_bytes, count = _FIXED.unpack_from(blob)
    if magic != MAGIC:
        raise FrameError("the bytes do not begin like a frame of this protocol", parameter="magic")
    if version != VERSION:
        raise FrameError(
            f"the frame is of format version {version}, this side speaks {VERSION}", "version", "frame", version
        )
    if kind not in _KINDS:
        raise FrameError(f"there is no frame of kind {kind}", parameter="kind", value=kind)
    if count > MAX_ARRAYS:
        raise FrameError(f"a frame carries at most {MAX_ARRAYS} arrays, not {count}", "range", "arrays", count)
    place = _FIXED.size + label_bytes
    if place > len(blob):
        raise FrameError("the frame is truncated inside its label", parameter="label")
    try:
        label = str(blob[_FIXED.size : place], "utf-8")
    except UnicodeDecodeError:
        raise FrameError("the frame's label is not text", parameter="label") from None
    shapes, place = _decode_shapes(blob, place, count)
    arrays = []
    for dtype, shape in shapes:
        size = math.prod(shape)
        end = place + size * dtype.itemsize
        if end > len(blob):
            raise FrameError("the frame is truncated inside its arrays", parameter="arrays")
        arrays.append(np.frombuffer(blob, dtype, size, place).reshape(shape))
        place = end
    if place != len(blob):
        raise FrameError(f"the frame has {len(blob) - place} bytes too many", parameter="length")
    return Frame(_KINDS[kind], sender, session, step, label, tuple(arrays), len(blob))


def _decode_shapes(blob: Block, place: int, count: int) -> tuple[list[tuple[np.dtype[Any], tuple[int, ...]]], int]:
    shapes = []
    for _ in range(count):
        if place + _ARRAY.size > len(blob):
            raise FrameError("the frame is truncated inside its list of arrays", parameter="arrays")
        code, axes = _ARRAY.unpack_from(blob, place)
        place += _ARRAY.size
        if code >= len(_DTYPES):
            raise FrameError(f"there is no array type {code}", parameter="type", value=code)
        if axes > MAX_AXES:
            raise FrameError(f"an array has at most {MAX_AXES} axes, not {axes}", "range", "axes", axes)
        if place + 8 * axes > len(blob):
            raise FrameError("the frame is truncated inside a shape", parameter="shape")
        shape = struct.unpack_from(f"<{axes}Q", blob, place)
        place += 8 * axes
        # An axis of length 0 must not hide absurd ones beside it, which NumPy would not take.
        if math.prod(shape) > len(blob) or math.prod(length or 1 for length in shape) > MAX_ELEMENTS:
            raise FrameError("an array is said to be larger than its frame", "range", "shape")
        shapes.append((_DTYPES[code], shape))
    return shapes, place
