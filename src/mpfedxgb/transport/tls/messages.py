"""What is said before there is a stream: messages, over sockets that never wait.

After the handshake of TLS the listening side speaks first: by then it has accepted the caller's certificate, and a
refusal by TLS finds the caller listening. The caller introduces itself, and is admitted or told why not. Each of these
is a message: a magic number, a length, and a JSON object of bounded size.
"""

from __future__ import annotations

import json
import selectors
import socket
import ssl
import struct
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, TypeVar

from mpfedxgb.errors import FrameError

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE

Result = TypeVar("Result")
Steps = Generator[int, None, Result]
"""Does something with a socket that never waits, and yields for what it would have to."""

_MAGIC = b"MPF2"
_MESSAGE = struct.Struct("<4sI")
_MOST_BYTES = 1 << 16
"""Of a message before there is a stream: it may list all roles."""

HANDSHAKE = 10.0
"""Seconds from a call to its admission, on both sides."""

SAME_VERSION = "give all roles the same version of mpfedxgb"
OLD_VERSION = f"speaks gRPC, as older versions of mpfedxgb did; {SAME_VERSION}"


def steps_of(call: Callable[[], Result]) -> Steps[Result]:
    """Return what a call on a socket does, as steps."""
    while True:
        try:
            return call()
        except ssl.SSLWantReadError:
            yield READ
        except ssl.SSLWantWriteError:
            yield WRITE


def message(content: dict[str, Any]) -> bytes:
    """Return a message as bytes."""
    text = json.dumps(content).encode()
    return _MESSAGE.pack(_MAGIC, len(text)) + text


def write(secured: ssl.SSLSocket, content: bytes) -> Steps[None]:
    """Write all of something."""
    while content:
        written = yield from steps_of(partial(secured.send, content))
        content = content[written:]


def read_message(secured: ssl.SSLSocket) -> Steps[dict[str, Any]]:
    """Return what the other side says; raises FrameError for what is no message."""
    magic, size = _MESSAGE.unpack((yield from _read(secured, _MESSAGE.size)))
    if magic != _MAGIC or size > _MOST_BYTES:
        raise FrameError("what came is no message of a role", parameter="message")
    text = yield from _read(secured, size)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise FrameError("what came is no message of a role", parameter="message")
    return content


def _read(secured: ssl.SSLSocket, size: int) -> Steps[bytes]:
    content = b""
    while len(content) < size:
        data = yield from steps_of(partial(secured.recv, size - len(content)))
        if not data:
            raise HungUp("it hung up")
        content += data
    return content


class HungUp(ConnectionError):  # noqa: N818 # says what happened
    """The other side has, in the middle of something."""


def prepare(secured: socket.socket, silence: float) -> None:
    """Have a socket send at once, and the system wait for acknowledgements as long as this role for signs of life."""
    secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        secured.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, min(int(1000 * silence), (1 << 31) - 1))
