"""A web server on a thread of its own: what the live view and scores over HTTP answer with, within bounds.

The port is bound before anything else happens, so that one that is taken ends the role before a session begins. From
then on a thread of its own answers, and ends with the block.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mpfedxgb.errors import SettingsError
from mpfedxgb.transport.transport import Address, parse_address

try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    raise SettingsError(
        "--dashboard and --http need the packages starlette and uvicorn; pip install 'mpfedxgb[dashboard]' or "
        "'mpfedxgb[serve]'"
    ) from None

__all__ = [
    "BaseHTTPMiddleware",
    "Bounds",
    "ClientDisconnect",
    "HTMLResponse",
    "HTTPException",
    "Middleware",
    "PlainTextResponse",
    "Request",
    "Response",
    "Route",
    "Starlette",
    "bound",
    "is_loopback",
    "read_address",
    "run_in_threadpool",
    "serving",
    "url_of",
]

_STARTING = _STOPPING = 10.0
_log = logging.getLogger("mpfedxgb.web")


def read_address(text: str, option: str) -> Address:
    """Return where to listen, from [HOST:]PORT; loopback if no host is given, and any free port for 0."""
    try:
        if text.isascii() and text.isdecimal():
            return Address("127.0.0.1", 0) if int(text) == 0 else parse_address(f"127.0.0.1:{text}")
        return parse_address(text)
    except ValueError as error:
        raise SettingsError(f"{option} {text} is not understood: {error}; or give a port alone") from None


@contextmanager
def bound(address: Address, option: str, backlog: int) -> Iterator[socket.socket]:
    """Listen at an address; raises SettingsError with the reason where that cannot be."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"{option}: there is no address {address.host} here: {error.strerror}") from None
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(backlog)
        except OSError as error:
            raise SettingsError(
                f"{option}: cannot listen on {address}: {error.strerror}; give another port, or 0 for any free one"
            ) from None
        yield listening


def url_of(address: Address, listening: socket.socket) -> str:
    """Return where a browser or a client on this machine finds what listens."""
    host = "127.0.0.1" if address.is_anywhere else address.host
    return f"http://{Address(host, int(listening.getsockname()[1]))}/"


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host's name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many connections there are at a time, and for how many seconds: they must not use up what the role needs.

    A connection is cut after `longest` seconds; one that `renews`, only if no new request has begun in that time.
    """

    connections: int
    longest: float
    renews: bool = False
    grace: float = 0.0
    """Seconds that requests have to be answered after the block."""


def _protocol(bounds: Bounds) -> type[H11Protocol]:
    class Bounded(H11Protocol):
        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
            super().connection_made(transport)
            if len(self.connections) > bounds.connections:
                transport.abort()
            else:
                self.loop.call_later(bounds.longest, self._cut, None)

        def _cut(self, last: object) -> None:
            if not bounds.renews or self.cycle is last or self.cycle is None:
                self.transport.abort()
            else:
                self.loop.call_later(bounds.longest, self._cut, self.cycle)

    return Bounded


@contextmanager
def serving(app: Starlette, listening: socket.socket, name: str, bounds: Bounds) -> Iterator[threading.Thread]:
    """Answer from a thread of its own, which is yielded, inside the block."""
    config = uvicorn.Config(
        app, http=_protocol(bounds), ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    server = uvicorn.Server(config)

    def run() -> None:
        try:
            server.run(sockets=[listening])
        except (Exception, SystemExit) as error:  # the role goes on without
            _log.warning("%s has ended: %s", name, type(error).__name__)

    quiet = logging.getLogger("uvicorn")  # what it says of requests would be lines of a stranger's making
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    end = time.monotonic() + _STARTING
    while thread.is_alive() and not server.started and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield thread
    finally:
        server.should_exit = True
        if bounds.grace:
            thread.join(bounds.grace)
        server.force_exit = True
        thread.join(_STOPPING)
