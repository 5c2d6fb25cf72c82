"""What a role may know, from its own files, and its live view: a page for its own people while it trains or serves.

`overview` reads settings, record, model and checkpoints. It sends and writes nothing, so that another process of the
same organisation can make a report while the role runs.

The page shows that, and the last lines of the role's log; it can change nothing. The port is bound before anything else
happens, so that one that is taken ends the role before a session begins. From then on a thread of its own answers, and
ends with the role; whatever fails there, the role goes on.

Whoever has the link may look: it carries a random token, without which every request is refused alike. So the link is
shown on a terminal only; where the output goes elsewhere, it is in a file that only its owner can read.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import math
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.callbacks import State
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.errors import CheckpointError, MpfedxgbError, SettingsError
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.session import state_folder
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.machine import versions
from mpfedxgb.party.observer import Observer
from mpfedxgb.report.history import Attempt, History
from mpfedxgb.report.html import page_html
from mpfedxgb.report.html.data import ReportData, cost_of
from mpfedxgb.report.html.page import Live, policy
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.training.checkpoint import read_kept
from mpfedxgb.transport.transport import Address, parse_address
from mpfedxgb.tree.nodes import Tree
from mpfedxgb.units import bytes_text, count

_TRAINING = "training"


def overview(settings: RoleSettings, features: Sequence[Feature] = ()) -> ReportData:
    """Return what a role may know by now.

    `features` are its columns, for a training that has written no model yet: without them categories have numbers only.
    """
    history = read_record(settings)
    model = _model(settings)
    kept, notes = _kept(settings)
    if model is not None and kept.trees and not _is_of(model, kept.trees):
        model = None  # of an earlier training, and another one is under way
    evaluation = kept.evaluation if model is None or kept.trees else None
    trees, params = (kept.trees, settings.training) if model is None else (model.trees, model.params)
    attempts = _of_training(history, settings.session.name)
    return ReportData(
        role=settings.role.name,
        number=settings.number,
        participants=settings.roster.participants,
        coordinator=settings.roster.coordinator,
        federation=settings.federation.name,
        parameters=params.to_dict(),
        spent=cost_of(attempts),
        ledger=tuple(history.total),
        model=model,
        trees=trees,
        trees_per_round=params.trees_per_round,
        features=features if model is None else model.features,
        is_whole=model is not None,
        metrics={} if evaluation is None else evaluation.metrics,
        best_iteration=None if model is None else model.best_iteration,
        history=history,
        forecast=next((a.content["forecast"] for a in reversed(attempts) if "forecast" in a.content), None),
        notes=notes,
        versions=versions(),
    )


def find_settings(path: Path) -> Path:
    """Return the settings file that is meant by itself, by the folder it is in, or by the role's state folder in that.

    Raises SettingsError where there is none, or more than one.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        raise SettingsError(f"there is no file or folder {path}; give a role's folder, its settings file or its state")
    found = sorted(path.glob("*.toml"))
    if not found:
        beside = sorted(path.absolute().parent.glob("*.toml"))
        found = [file for file in beside if RoleSettings.from_toml(file).role.state.resolve() == path.resolve()]
    if len(found) != 1:
        told = f"{len(found)} settings files belong to it" if found else "no settings file belongs to it"
        roles = [str(file.parent) for file in sorted(path.glob("*/*.toml"))]
        which = f", one of {', '.join(roles)}" if roles and not found else ", or its settings file (.toml)"
        raise SettingsError(f"{path}: {told}; give the folder of one role{which}")
    return found[0]


def _is_of(model: PartialModel, kept: Sequence[Tree]) -> bool:
    """Return whether a model is of the training whose trees were kept; a sealed one has those up to the best round."""
    best = model.params.facts.sums_only and model.params.may_stop_early
    return tuple(kept[: len(model.trees)] if best else kept) == model.trees


def _model(settings: RoleSettings) -> PartialModel | None:
    path = settings.role.model
    if path is None or not path.is_file():
        return None
    model = PartialModel.load(path)
    if model.name != settings.role.name:
        raise SettingsError(f"{path} is the part of {model.name}, not of {settings.role.name}; correct [role] model")
    return model


def _kept(settings: RoleSettings) -> tuple[State, Sequence[str]]:
    """Return the rounds that a participant has kept, and what is to be said if they cannot be read."""
    if settings.is_coordinator:
        return State(0), ()
    try:
        return read_kept(settings.role.state / settings.session.name / "checkpoints"), ()
    except CheckpointError as error:
        return State(0), (f"The rounds that were kept, and their metrics, are missing here: {error}.",)


def _of_training(history: History, session: str) -> list[Attempt]:
    """Return the attempts at the training of a session."""
    found = history.of_session(session).attempts
    return [attempt for attempt in found if attempt.content.get("kind") == _TRAINING]


try:
    import uvicorn
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Route
    from uvicorn.protocols.http.h11_impl import H11Protocol
except ImportError:
    raise SettingsError(
        "--dashboard needs the packages starlette and uvicorn; pip install 'mpfedxgb[dashboard]'"
    ) from None

LINK = "live-view.url"
"""The file with the link, in the role's state folder, as long as the role runs without a terminal."""
HEADERS = {
    "Content-Security-Policy": f"{policy(is_live=True)}; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of every answer, refusals too: nothing may frame the page, keep it, or learn its address."""

_TOKEN_BYTES = 32
_LINES = 40
_FRESH = 1.0
"""Seconds for which a page is not made anew, however many look at it."""
_REST = 20
"""How many times as long as it took to make a page, at least, it is not made anew."""
_MOST_CONNECTIONS = 32
_LONGEST = 30.0
"""Seconds after which a connection is cut, whether it has asked for something or not."""
_STARTING = _STOPPING = 10.0
_log = logging.getLogger("mpfedxgb.dashboard")


def read_address(text: str) -> Address:
    """Return where to listen, from [HOST:]PORT; loopback if no host is given, and any free port for 0."""
    try:
        if text.isascii() and text.isdecimal():
            return Address("127.0.0.1", 0) if int(text) == 0 else parse_address(f"127.0.0.1:{text}")
        return parse_address(text)
    except ValueError as error:
        raise SettingsError(f"--dashboard {text} is not understood: {error}; or give a port alone") from None


class Dashboard(Observer):
    """A role's page as it is now, and what is told to it besides."""

    def __init__(self, settings: RoleSettings) -> None:
        self._settings = settings
        self._features: Sequence[Feature] = ()
        self._before = len(read_record(settings).attempts)
        self._step = ""
        self._first_seen: tuple[str, float, int] = "", 0.0, 0
        """The attempt at a training that runs, when the page first saw it, and how many rounds were done by then."""
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._stale_at, self._page = -math.inf, ""

    def know(self, features: Sequence[Feature]) -> None:
        """Take note of the role's own columns, which name the categories in trees while there is no model."""
        self._features = features

    def on_progress(self, what: str) -> None:
        """Take note of a step of a training."""
        self._step = what

    def note(self, line: str) -> None:
        """Take note of a line of the log."""
        self._lines.append(line)

    def page(self) -> str:
        """Return the page; making it takes a small share of the role's time, whatever its files have become."""
        began = time.monotonic()
        if began >= self._stale_at:
            data = overview(self._settings, self._features)
            self._page = page_html(data, Live(self._doing(data), list(self._lines), self._seconds_left(data, began)))
            now = time.monotonic()
            self._stale_at = now + max(_FRESH, _REST * (now - began))
        return self._page

    def _seconds_left(self, data: ReportData, now: float) -> float | None:
        """Return how long the rounds that are missing may take, by those since the page first saw the training."""
        assert data.history is not None
        running = data.history.attempts[self._before :][-1:]
        if data.is_coordinator or not running or running[0].has_ended or running[0].content.get("kind") != _TRAINING:
            return None
        done = len(data.trees) // data.trees_per_round
        if self._first_seen[0] != running[0].entry:
            self._first_seen = running[0].entry, now, done
        _, began, before = self._first_seen
        left = self._settings.training.n_estimators - done
        return (now - began) / (done - before) * left if done > before and left > 0 else None

    def _doing(self, data: ReportData) -> str:
        assert data.history is not None
        begun = data.history.attempts[self._before :]
        if not begun:
            return "waits for the other roles"
        last = begun[-1]
        if last.has_ended:
            return f"the last session has ended: {last.content['how']}; waits for the next, or ends"
        kind = last.content.get("kind", "a session")
        step = ""
        if kind == "training" and not data.is_coordinator:
            rounds, most = len(data.trees) // data.trees_per_round, self._settings.training.n_estimators
            step = f", {rounds} of {most} rounds kept" + (f", now {self._step}" if self._step else "")
        sent = bytes_text(last.content.get("bytes_sent", 0))
        spent = f"{count(last.content.get('rounds', 0))} rounds, {sent} sent so far"
        return f"{kind}{step}: {spent}"


@contextmanager
def live_view(settings: RoleSettings, address: Address) -> Iterator[Dashboard]:
    """Answer at an address inside the block; raises SettingsError before it where that cannot be."""
    view, token = Dashboard(settings), os_entropy(_TOKEN_BYTES).hex()
    with _bound(address) as listening, _heard(view.note), _shown(settings, f"{_url(address, listening)}?token={token}"):
        if not _is_loopback(address.host):
            _log.warning(
                "the live view on %s can be reached from other machines, and nothing encrypts it: let a tunnel or a "
                "proxy with TLS do that",
                address,
            )
        with _serving(_app(view, token), listening):
            yield view


def _app(view: Dashboard, token: str) -> Starlette:
    """Return the application: one page, read only, for those who have the token."""
    last = ""

    async def page(request: Request) -> Response:
        nonlocal last
        try:
            answer: Response = HTMLResponse(view.page())
            last = ""
        except (MpfedxgbError, OSError) as error:
            if str(error) != last:  # somebody looks every other second
                _log.warning("the live view cannot be made just now: %s", error)
            last = str(error)
            answer = PlainTextResponse("the page cannot be made just now; the log of the role says why\n", 503)
        return answer

    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        given = request.query_params.get("token", "")
        if hmac.compare_digest(given.encode(errors="replace"), token.encode()):
            answer = await call_next(request)
        else:
            answer = PlainTextResponse("open the whole link that the role has shown\n", 403)
        answer.headers.update(HEADERS)
        return answer

    return Starlette(routes=[Route("/", page)], middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)])


class _Bounded(H11Protocol):
    """Connections that are few and short: they must not use up what the role itself needs."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in the base
        super().connection_made(transport)
        if len(self.connections) > _MOST_CONNECTIONS:
            transport.abort()
        else:
            self.loop.call_later(_LONGEST, transport.abort)


@contextmanager
def _serving(app: Starlette, listening: socket.socket) -> Iterator[None]:
    """Answer from a thread of its own inside the block."""
    config = uvicorn.Config(
        app, http=_Bounded, ws="none", lifespan="off", log_config=None, access_log=False, server_header=False
    )
    server = uvicorn.Server(config)

    def run() -> None:
        try:
            server.run(sockets=[listening])
        except (Exception, SystemExit) as error:  # the role goes on without
            _log.warning("the live view has ended: %s", type(error).__name__)

    quiet = logging.getLogger("uvicorn")  # what it says of requests would be lines of a stranger's making
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    thread = threading.Thread(target=run, name="live view", daemon=True)
    thread.start()
    end = time.monotonic() + _STARTING
    while thread.is_alive() and not server.started and time.monotonic() < end:
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = server.force_exit = True
        thread.join(_STOPPING)


@contextmanager
def _bound(address: Address) -> Iterator[socket.socket]:
    """Listen at an address; raises SettingsError with the reason where that cannot be."""
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise SettingsError(f"--dashboard: there is no address {address.host} here: {error.strerror}") from None
    with listening:
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(where)
            listening.listen(_MOST_CONNECTIONS)
        except OSError as error:
            raise SettingsError(
                f"--dashboard: cannot listen on {address}: {error.strerror}; give another port, or 0 for any free one"
            ) from None
        yield listening


@contextmanager
def _heard(note: Callable[[str], None]) -> Iterator[None]:
    """Pass every line of this package's log on inside the block."""
    handler = _Lines(note)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s", "%H:%M:%S"))
    package = logging.getLogger("mpfedxgb")
    package.addHandler(handler)
    try:
        yield
    finally:
        package.removeHandler(handler)


class _Lines(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a line on."""
        self._note(self.format(record))


@contextmanager
def _shown(settings: RoleSettings, link: str) -> Iterator[None]:
    """Show the link on the terminal; or, where there is none, where to find it, which goes with the block."""
    if sys.stdout.isatty():
        sys.stdout.write(f"live view of {settings.role.name}: {link}\n")
        sys.stdout.flush()
        yield
        return
    path: Path = state_folder(settings) / LINK
    try:
        write_file(path, f"{link}\n")
    except OSError as error:
        raise SettingsError(f"--dashboard: cannot write the link to {path}: {error.strerror}") from None
    _log.info("the link to the live view is in %s", path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _url(address: Address, listening: socket.socket) -> str:
    host = "127.0.0.1" if address.is_anywhere else address.host
    return f"http://{Address(host, int(listening.getsockname()[1]))}/"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
