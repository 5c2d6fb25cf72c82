"""Scores over HTTP: routes, who may ask, and what everything that goes wrong is answered with.

Requests are read, wait, and are answered; nothing else happens here, and nothing of them is logged. Who has the token
of [serve] token_file may ask; without one, only this machine is listened to, and only requests that are addressed to
it, so that no web page can ask through a browser.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import os
import re
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import DataError, FederationError, MpfedxgbError, SettingsError, StoppedError
from mpfedxgb.federation.serving import bodies
from mpfedxgb.federation.serving.batches import Batches
from mpfedxgb.federation.serving.openapi import description
from mpfedxgb.federation.session import ignore_stops, stopping_on_signals
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.web import (
    Bounds,
    ClientDisconnect,
    HTTPException,
    Request,
    Response,
    Route,
    Starlette,
    bound,
    is_loopback,
    run_in_threadpool,
    serving,
    url_of,
)
from mpfedxgb.machine import version_of
from mpfedxgb.schema.training import suggestion
from mpfedxgb.transport.transport import Address

_MOST_CONNECTIONS = 512
_BODY = 20.0
"""Seconds in which the body of a request has to come."""
_GRACE = 10.0
"""Seconds that requests have to be scored, and then to be answered, once the role is stopped."""
_RETRY = "1"
_TOKEN = re.compile(r"[\x21-\x7e]{32,512}")
_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
_log = logging.getLogger("mpfedxgb.serving")


def serve_http(settings: RoleSettings, model: PartialModel, address: Address) -> None:
    """Answer requests for scores until stopped; raises what ends the role otherwise.

    A signal ends it as it should end: requests that wait are answered, and the session is ended with the others.
    """
    if not settings.is_active:
        raise SettingsError(f"{settings.role.name} is not the active participant; only that one answers with scores")
    token = None if settings.serve.token_file is None else read_token(settings.serve.token_file)
    if token is None and not is_loopback(address.host):
        raise SettingsError(
            f"--http {address} can be reached from other machines, and [serve] token_file is not set; make a "
            "token, such as by openssl rand -hex 32, in a file that only its owner can read, and let a proxy add TLS"
        )
    batches = Batches(settings, model)
    most = _BODY + settings.serve.timeout + _GRACE
    bounds = Bounds(_MOST_CONNECTIONS, most, renews=True, grace=_GRACE)
    with stopping_on_signals(), bound(address, "--http", _MOST_CONNECTIONS) as listening:
        app = Service(settings, model, batches, token).app()
        with serving(app, listening, "scores over HTTP", bounds) as web, _scoring(batches) as scoring:
            _log.info("%s listens for requests for scores on %s", settings.role.name, url_of(address, listening))
            try:
                while scoring.is_alive():
                    scoring.join(1.0)
                    if not web.is_alive():
                        raise SettingsError("the web server has ended; the log says why")
            except StoppedError as stop:
                ignore_stops()
                _log.info("%s: no more requests are taken", stop)
    if batches.error is not None:
        raise batches.error


@contextmanager
def _scoring(batches: Batches) -> Iterator[threading.Thread]:
    """Score from a thread of its own inside the block, and after it what waits already."""
    thread = threading.Thread(target=batches.run, name="scores", daemon=True)
    thread.start()
    try:
        yield thread
    finally:
        batches.stop()
        thread.join(_GRACE)


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
        raise SettingsError(f"[serve] token_file: cannot read {path}: {error.strerror}") from None
    if os.name == "posix" and found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise SettingsError(f"[serve] token_file: others can read {path} (mode {mode:o}); chmod 600 {path}")
    token = content.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token):
        raise SettingsError(
            f"[serve] token_file: {path} does not hold one word of 32 to 512 letters, digits and signs; make one, "
            "such as by openssl rand -hex 32"
        )
    return token


Endpoint = Callable[[Request], Awaitable[Response]]


class Service:
    """What the routes do, for one model."""

    def __init__(self, settings: RoleSettings, model: PartialModel, batches: Batches, token: str | None) -> None:
        self._settings, self._model, self._batches = settings, model, batches
        self._name = settings.federation.name
        self._token = None if token is None else hashlib.sha256(token.encode()).digest()

    def app(self) -> Starlette:
        """Return the application."""
        own = f"/v2/models/{self._name}"
        routes: dict[str, tuple[str, Endpoint, bool]] = {  # method, what is done, whether it takes the token
            "/v2/health/live": ("GET", self.live, False),
            "/v2/health/ready": ("GET", self.ready, False),
            "/ping": ("GET", self.ready, False),
            "/v2": ("GET", self.server, True),
            own: ("GET", self.metadata, True),
            f"{own}/ready": ("GET", self.ready, True),
            f"{own}/infer": ("POST", self.infer, True),
            "/invocations": ("POST", self.invoke, True),
            "/openapi.json": ("GET", self.openapi, True),
        }
        found = [Route(path, self._guarded(do, closed), methods=[how]) for path, (how, do, closed) in routes.items()]
        return Starlette(routes=found, exception_handlers={HTTPException: _refused, Exception: _failed})

    def _guarded(self, endpoint: Endpoint, is_closed: bool) -> Endpoint:
        async def guarded(request: Request) -> Response:
            if self._token is None and not is_loopback(_host(request)):
                return answer({"error": "requests have to be addressed to localhost, or to bring a token"}, 403)
            if is_closed and not self._is_known(request):
                return answer(
                    {"error": "the token of [serve] token_file is needed"}, 401, {"WWW-Authenticate": "Bearer"}
                )
            try:
                return await endpoint(request)
            except DataError as error:
                return answer({"error": str(error)}, 400)
            except MpfedxgbError as error:
                cause = str(error) if isinstance(error, FederationError) else type(error).__name__
                return answer({"error": cause}, 503, {"Retry-After": _RETRY})

        return guarded

    def _is_known(self, request: Request) -> bool:
        if self._token is None:
            return True
        kind, _, given = request.headers.get("authorization", "").partition(" ")
        same = hmac.compare_digest(hashlib.sha256(given.strip().encode()).digest(), self._token)
        return kind.lower() == "bearer" and same

    async def live(self, request: Request) -> Response:
        """Say that this process answers."""
        return answer({"live": True})

    async def ready(self, request: Request) -> Response:
        """Say whether scores can be answered; why not, to those with the token."""
        cause = self._batches.cause
        if cause is None:
            return answer({"ready": True})
        more = {"error": cause} if self._is_known(request) else {}
        return answer({"ready": False} | more, 503, {"Retry-After": _RETRY})

    async def server(self, request: Request) -> Response:
        """Say what answers."""
        return answer({"name": "mpfedxgb", "version": version_of("mpfedxgb"), "extensions": []})

    async def metadata(self, request: Request) -> Response:
        """Say what the model takes and tells."""
        return answer(bodies.metadata(self._settings, self._name, self._model))

    async def openapi(self, request: Request) -> Response:
        """Describe all of this."""
        return answer(description(self._name, version_of("mpfedxgb")))

    async def infer(self, request: Request) -> Response:
        """Score rows, as the Open Inference Protocol asks for it."""
        content = await self._content(request)
        columns, chosen = await run_in_threadpool(bodies.read_inference, content, self._settings.serve.max_batch)
        known = bodies.result_names(self._model)
        for name in chosen or ():
            if name not in known:
                raise DataError(f"there is no output {name[:40]!r}; {suggestion(name, known, 'the outputs are')}")
        found = await self._scored(columns)
        return await run_in_threadpool(
            lambda: answer(bodies.inference_answer(self._name, self._model, content, found, chosen or known))
        )

    async def invoke(self, request: Request) -> Response:
        """Score rows, as MLflow's scoring server is asked for it."""
        content = await self._content(request)
        columns = await run_in_threadpool(bodies.read_invocation, content, self._settings.serve.max_batch)
        found = await self._scored(columns)
        return await run_in_threadpool(lambda: answer(bodies.invocation_answer(self._name, self._model, found)))

    async def _content(self, request: Request) -> bodies.Json:
        kind, _, parameters = request.headers.get("content-type", "").partition(";")
        if kind.strip().lower() != "application/json" or parameters.strip().lower() not in ("", "charset=utf-8"):
            raise HTTPException(415, "the body has to be application/json, in UTF-8")
        most = self._settings.serve.max_body_mb << 20
        too_long = HTTPException(413, f"the body is longer than [serve] max_body_mb = {most >> 20}")
        given = request.headers.get("content-length", "")
        if given.isdecimal() and int(given[:20]) > most:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(_BODY):
                async for part in request.stream():
                    body += part
                    if len(body) > most:
                        raise too_long
        except TimeoutError:
            raise HTTPException(408, f"the body did not come within {_BODY:g} seconds") from None
        except ClientDisconnect:
            raise HTTPException(400, "the body has ended early") from None
        return await run_in_threadpool(bodies.read_json, bytes(body))

    async def _scored(self, columns: bodies.Columns) -> bodies.Columns:
        """Return what each row is answered with, once it is scored; raises FederationError if its time is over."""
        settings, timeout = self._settings, self._settings.serve.timeout
        rows = await run_in_threadpool(bodies.read_rows, settings, self._model, columns)
        try:
            async with asyncio.timeout(timeout):
                scores = await asyncio.wrap_future(self._batches.ask(rows))
        except TimeoutError:
            cause = self._batches.cause or f"not scored within [serve] timeout = {timeout:g} seconds"
            raise FederationError(cause) from None
        return await run_in_threadpool(bodies.results, settings, self._model, rows, scores)


def answer(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return an answer in JSON."""
    text = json.dumps(content, allow_nan=False)
    return Response(text, status, _HEADERS | (headers or {}), media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    close = {"Connection": "close"} if error.status_code in (408, 413) else {}
    return answer({"error": error.detail}, error.status_code, {**(error.headers or {}), **close})


async def _failed(request: Request, error: Exception) -> Response:
    _log.error("a request failed: %s", type(error).__name__)  # its text may quote the request
    return answer({"error": "a defect of mpfedxgb; its log names the kind"}, 500)


def _host(request: Request) -> str:
    """Return the host that a request is addressed to, without its port."""
    host = request.headers.get("host", "")
    return host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
