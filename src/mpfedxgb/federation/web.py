"""A web server on a thread of its own: what the live view, health and scores answer with, within bounds; who may ask.

The port is bound before anything else happens, so that one that is taken ends the role before a session begins. From
then on a thread of its own answers, and ends with the block.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import logging
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpfedxgb.errors import DataError, FederationError, MpfedxgbError, SettingsError
from mpfedxgb.machine import readers_beside_owner
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
    text = (
        "--dashboard and --http need the packages starlette and uvicorn; pip install 'mpfedxgb[dashboard]' or "
        "'mpfedxgb[serve]'"
    )
    raise SettingsError(text, "package", "starlette") from None

__all__ = [
    "RETRY",
    "BaseHTTPMiddleware",
    "Bounds",
    "ClientDisconnect",
    "Endpoint",
    "Guard",
    "HTMLResponse",
    "HTTPException",
    "Middleware",
    "PlainTextResponse",
    "Request",
    "Response",
    "Route",
    "Starlette",
    "answer",
    "bound",
    "is_loopback",
    "read_address",
    "read_token",
    "run_in_threadpool",
    "serving",
    "url_of",
]

RETRY = {"Retry-After": "1"}
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_TOKEN = re.compile(r"[\x21-\x7e]{32,512}")
_STARTING = _STOPPING = 10.0
_log = logging.getLogger("mpfedxgb.web")


def read_address(text: str, option: str) -> Address:
    """Return where to listen, from [HOST:]PORT; loopback if no host is given, and any free port for 0."""
    try:
        if text.isascii() and text.isdecimal():
            return Address("127.0.0.1", 0) if int(text) == 0 else parse_address(f"127.0.0.1:{text}")
        return parse_address(text)
    except ValueError as error:
        raise SettingsError(
            f"{option} {text} is not understood: {error}; or give a port alone", "value", option, text
        ) from None


@contextmanager
def bound(address: Address, option: str, backlog: int) -> Iterator[socket.socket]:
    """Listen at an address; raises SettingsError with the reason where that cannot be."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(
            f"{option}: there is no address {address.host} here: {error.strerror}", "file", option
        ) from None
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(backlog)
        except OSError as error:
            text = f"{option}: cannot listen on {address}: {error.strerror}; give another port, or 0 for any free one"
            raise SettingsError(text, "busy", option) from None
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


def read_token(path: Path) -> str:
    """Return the token in a file; raises SettingsError if others can read it, or if it is none."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(file)
            content = os.read(file, 1024)
        finally:
            os.close(file)
    except OSError as error:
        raise SettingsError(
            f"[serve] token_file: cannot read {path}: {error.strerror}", "file", "serve.token_file"
        ) from None
    if readers_beside_owner(found):
        mode = stat.S_IMODE(found.st_mode)
        text = f"[serve] token_file: others can read {path} (mode {mode:o}); chmod 600 {path}"
        raise SettingsError(text, "secret", "serve.token_file")
    token = content.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token):
        text = (
            f"[serve] token_file: {path} does not hold one word of 32 to 512 letters, digits and signs; make one, "
            "such as by openssl rand -hex 32"
        )
        raise SettingsError(text, "value", "serve.token_file")
    return token


Endpoint = Callable[[Request], Awaitable[Response]]


class Guard:
    """Who may ask: who has the token; without one, who calls this machine by its name, so that no web page can."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()

    def knows(self, request: Request) -> bool:
        """Return whether a request brings the token, if there is one."""
        if self._token is None:
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(hashlib.sha256(given.strip().encode()).digest(), self._token)
        return kind.lower() == "bearer" and same

    def around(self, endpoint: Endpoint, needs_token: bool = True) -> Endpoint:
        """Return an endpoint for those who may ask, whose errors are answers."""

        async def guarded(request: Request) -> Response:
            if self._token is None and not is_loopback(_host(request)):
                return answer({"error": "requests have to be addressed to localhost, or to bring a token"}, 403)
            if needs_token and not self.knows(request):
                bearer = {"WWW-Authenticate": "Bearer"}
                return answer({"error": "the token of [serve] token_file is needed"}, 401, bearer)
            try:
                return await endpoint(request)
            except DataError as error:
                return answer({"error": str(error)}, 400)
            except MpfedxgbError as error:
                cause = str(error) if isinstance(error, FederationError) else type(error).__name__
                return answer({"error": cause}, 503, RETRY)

        return guarded


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    text = json.dumps(content, allow_nan=False)
    return Response(text, status, _HEADERS | (headers or {}), media_type="application/json")


def _host(request: Request) -> str:
    """Return the host that a request is addressed to, without its port."""
    host = request.headers.get("host", "")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
