"""Scores over HTTP: routes, who may ask, and what everything that goes wrong is answered with.

Requests are read, wait, and are answered; nothing else happens here, and nothing of them is logged. Who has the token
of [serve] token_file may ask; without one, only this machine is listened to, and only requests that are addressed to
it, so that no web page can ask through a browser.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import DataError, FederationError, SettingsError, StoppedError
from mpfedxgb.federation.log_context import logging_for
from mpfedxgb.federation.monitor import Monitor
from mpfedxgb.federation.rows import Rows
from mpfedxgb.federation.serving import bodies
from mpfedxgb.federation.serving.batches import Batches, Scores
from mpfedxgb.federation.serving.openapi import description
from mpfedxgb.federation.session import ignore_stops, stopping_on_signals
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.status import Status, guard_at
from mpfedxgb.federation.web import (
    Bounds,
    ClientDisconnect,
    Endpoint,
    Guard,
    HTTPException,
    Request,
    Response,
    Route,
    Starlette,
    answer,
    bound,
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
_SHORT = 1 << 16
"""Bytes of a body that is read at once; another thread reads a longer one, for which all others would wait."""
_REQUEST_ID = re.compile(r"[0-9a-f]{8}(-?)([0-9a-f]{4}\1){3}[0-9a-f]{12}", re.ASCII)
_log = logging.getLogger("mpfedxgb.serving")
_Respond = Callable[[Scores], Response]
T = TypeVar("T")


def serve_http(settings: RoleSettings, model: PartialModel, address: Address) -> None:
    """Answer requests for scores until stopped; raises what ends the role otherwise.

    A signal ends it as it should end: requests that wait are answered, and the session is ended with the others.
    """
    if not settings.is_active:
        text = f"{settings.role.name} is not the active participant; only that one answers with scores"
        raise SettingsError(text, "place", settings.role.name)
    guard, monitor = guard_at(settings, address), Monitor(settings)
    batches = Batches(settings, model, monitor)
    most = _BODY + settings.serve.timeout + _GRACE
    bounds = Bounds(_MOST_CONNECTIONS, most, renews=True, grace=_GRACE)
    with stopping_on_signals(), bound(address, "--http", _MOST_CONNECTIONS) as listening:
        app = Service(settings, model, batches, guard, monitor).app()
        with serving(app, listening, "scores over HTTP", bounds) as web, _scoring(batches) as scoring:
            _log.info("%s listens for requests for scores on %s", settings.role.name, url_of(address, listening))
            try:
                while scoring.is_alive():
                    scoring.join(1.0)
                    if not web.is_alive():
                        raise SettingsError("the web server has ended; the log says why", "ended", "serve")
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


class Service:
    """What the routes do, for one model."""

    def __init__(
        self, settings: RoleSettings, model: PartialModel, batches: Batches, guard: Guard, monitor: Monitor
    ) -> None:
        self._settings, self._model, self._batches = settings, model, batches
        self._name = settings.federation.name
        self._guard, self._monitor = guard, monitor
        self._reader = bodies.RowReader(settings, model.features)
        self._status = Status(monitor, guard, lambda: batches.cause)

    def app(self) -> Starlette:
        """Return the application."""
        own, status = f"/v2/models/{self._name}", self._status
        routes: dict[str, tuple[str, Endpoint, bool]] = {  # method, what is done, whether it takes the token
            "/v2/health/live": ("GET", status.live, False),
            "/v2/health/ready": ("GET", status.ready, False),
            "/ping": ("GET", status.ready, False),
            "/v2": ("GET", self.server, True),
            own: ("GET", self.metadata, True),
            f"{own}/ready": ("GET", status.ready, True),
            f"{own}/infer": ("POST", self.infer, True),
            "/invocations": ("POST", self.invoke, True),
            "/openapi.json": ("GET", self.openapi, True),
        }
        found = [
            Route(path, self._watched(path, self._guard.around(do, closed)), methods=[method])
            for path, (method, do, closed) in routes.items()
        ]
        return Starlette(
            routes=[*found, *status.routes()], exception_handlers={HTTPException: _refused, Exception: _failed}
        )

    def _watched(self, path: str, endpoint: Endpoint) -> Endpoint:
        """Return an endpoint whose answers are counted, and whose lines of the log name the request."""

        async def watched(request: Request) -> Response:
            began, status = time.perf_counter(), 500
            request_id = _request_id(request.headers.get("x-request-id", ""))
            with logging_for(request=request_id):
                try:
                    found = await endpoint(request)
                    status = found.status_code
                    found.headers["X-Request-Id"] = request_id
                    return found
                except HTTPException as error:
                    status = error.status_code
                    raise
                finally:
                    took = time.perf_counter() - began
                    self._monitor.requests.labels(path, status).inc()
                    if request.method == "POST":
                        self._monitor.seconds.observe(took)
                    _log.debug("%s was answered with %d after %.1f ms", path, status, 1000 * took)

        return watched

    async def server(self, request: Request) -> Response:
        """Say what answers."""
        return answer({"name": "mpfedxgb", "version": version_of("mpfedxgb"), "extensions": []})

    async def metadata(self, request: Request) -> Response:
        """Say what the model takes and tells."""
        return answer(bodies.metadata(self._settings, self._name, self._model))

    async def openapi(self, request: Request) -> Response:
        """Describe all of this."""
        metadata = bodies.metadata(self._settings, self._name, self._model)
        return answer(description(metadata, version_of("mpfedxgb"), self._settings.serve.max_batch))

    async def infer(self, request: Request) -> Response:
        """Score rows, as the Open Inference Protocol asks for it."""
        return await self._scored(request, self._read_inference)

    async def invoke(self, request: Request) -> Response:
        """Score rows, as MLflow's scoring server is asked for it."""
        return await self._scored(request, self._read_invocation)

    def _read_inference(self, body: bytes) -> tuple[Rows, _Respond]:
        content, known = bodies.read_json(body), bodies.result_names(self._model)
        columns, chosen = bodies.read_inference(content, self._name, self._settings.serve.max_batch)
        for name in chosen:
            if name not in known:
                text = f"there is no output {name[:40]!r}; {suggestion(name, known, 'the outputs are')}"
                raise DataError(text, "unknown", "outputs", name)
        rows = self._reader.read(columns)

        def respond(scores: Scores) -> Response:
            found = bodies.results(self._model, rows, scores)
            return answer(bodies.inference_answer(self._name, self._model, content, found, chosen or known))

        return rows, respond

    def _read_invocation(self, body: bytes) -> tuple[Rows, _Respond]:
        rows = self._reader.read(bodies.read_invocation(bodies.read_json(body), self._settings.serve.max_batch))

        def respond(scores: Scores) -> Response:
            found = bodies.results(self._model, rows, scores)
            return answer(bodies.invocation_answer(self._name, self._model, found))

        return rows, respond

    async def _body(self, request: Request) -> bytes:
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
        return bytes(body)

    async def _scored(self, request: Request, read: Callable[[bytes], tuple[Rows, _Respond]]) -> Response:
        """Return what a request is answered with, once it is scored; raises FederationError if its time is over."""
        body, timeout = await self._body(request), self._settings.serve.timeout
        run = _at_once if len(body) <= _SHORT else run_in_threadpool
        rows, respond = await run(read, body)
        try:
            async with asyncio.timeout(timeout):
                scores = await asyncio.wrap_future(self._batches.ask(rows))
        except TimeoutError:
            cause = self._batches.cause or f"not scored within [serve] timeout = {timeout:g} seconds"
            raise FederationError(cause, "ended", "session") from None
        return await run(respond, scores)


async def _at_once(do: Callable[..., T], *what: Any) -> T:
    return do(*what)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    close = {"Connection": "close"} if error.status_code in (408, 413) else {}
    return answer({"error": error.detail}, error.status_code, {**(error.headers or {}), **close})


async def _failed(request: Request, error: Exception) -> Response:
    _log.error("a request failed: %s", type(error).__name__)  # its text may quote the request
    return answer({"error": "a defect of mpfedxgb; its log names the kind"}, 500)


def _request_id(given: str) -> str:
    """Return a caller's id of a request, if it is a UUID, which names nobody; else a new one."""
    return given if _REQUEST_ID.fullmatch(given) else str(uuid.uuid4())
