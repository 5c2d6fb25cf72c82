"""Health and metrics of a role over HTTP: /healthz, /readyz, /metrics.

Whether a role is well is shown to everybody who reaches it; why it is not, and its metrics, to those with the token of
[serve] token_file, or, without one, on this machine only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.monitor import Monitor
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.web import (
    RETRY,
    Bounds,
    Endpoint,
    Guard,
    Request,
    Response,
    Route,
    Starlette,
    answer,
    bound,
    is_loopback,
    read_token,
    run_in_threadpool,
    serving,
    url_of,
)
from mpfedxgb.transport.transport import Address

_MOST_CONNECTIONS = 64
_LONGEST = 60.0
_log = logging.getLogger("mpfedxgb.status")


class Status:
    """What the routes do. `cause` tells why this role cannot do its work just now, None if it can."""

    def __init__(self, monitor: Monitor, guard: Guard, cause: Callable[[], str | None]) -> None:
        self._monitor, self._guard, self._cause = monitor, guard, cause

    def routes(self) -> list[Route]:
        """Return the routes, each answered to those who may ask."""
        open_to_all: dict[str, Endpoint] = {"/healthz": self.live, "/readyz": self.ready}
        found = [Route(path, self._guard.around(do, needs_token=False)) for path, do in open_to_all.items()]
        return [*found, Route("/metrics", self._guard.around(self.metrics))]

    async def live(self, request: Request) -> Response:
        """Say that this process answers."""
        return answer({"live": True})

    async def ready(self, request: Request) -> Response:
        """Say whether this role can do its work; why not, to those with the token."""
        cause = self._cause()
        if cause is None:
            return answer({"ready": True})
        reason = {"error": cause} if self._guard.knows(request) else {}
        return answer({"ready": False} | reason, 503, RETRY)

    async def metrics(self, request: Request) -> Response:
        """Tell all metrics."""
        text, kind = await run_in_threadpool(self._monitor.text, request.headers.get("accept", ""))
        return Response(text, headers={"Content-Type": kind, "Cache-Control": "no-store"})


def guard_at(settings: RoleSettings, address: Address) -> Guard:
    """Return who may ask at an address; raises SettingsError if other machines reach it, and there is no token."""
    token = None if settings.serve.token_file is None else read_token(settings.serve.token_file)
    if token is None and not is_loopback(address.host):
        text = (
            f"--http {address} can be reached from other machines, and [serve] token_file is not set; make a "
            "token, such as by openssl rand -hex 32, in a file that only its owner can read, and let a proxy add TLS"
        )
        raise SettingsError(text, "missing", "serve.token_file")
    return Guard(token)


@contextmanager
def status_over_http(settings: RoleSettings, address: Address) -> Iterator[Monitor]:
    """Answer at an address inside the block, with what the monitor that is yielded hears."""
    monitor, guard = Monitor(settings), guard_at(settings, address)
    app = Starlette(routes=Status(monitor, guard, lambda: monitor.cause).routes())
    bounds = Bounds(_MOST_CONNECTIONS, _LONGEST, renews=True)
    with bound(address, "--http", _MOST_CONNECTIONS) as listening, serving(app, listening, "health over HTTP", bounds):
        _log.info("%s answers /healthz, /readyz and /metrics on %s", settings.role.name, url_of(address, listening))
        yield monitor
