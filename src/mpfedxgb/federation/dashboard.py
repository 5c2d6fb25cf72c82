"""The live view of a role: its own page, for its own people, while it trains or serves.

It shows what `overview` reads from the role's files, and the last lines of its log; it can change nothing. A thread of
its own answers (`web`), and ends with the role; if it fails, the role goes on.

Everyone with the link may look: it carries a random token, without which every request is refused alike. So the link is
shown on a terminal only; where the output goes elsewhere, it is in a file that only its owner can read.
"""

from __future__ import annotations

import hmac
import logging
import math
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.model import Feature
from mpfedxgb.errors import MpfedxgbError, SettingsError
from mpfedxgb.federation.overview import TRAINING, overview
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.session import state_folder
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.web import (
    BaseHTTPMiddleware,
    Bounds,
    HTMLResponse,
    Middleware,
    PlainTextResponse,
    Request,
    Response,
    Route,
    Starlette,
    bound,
    is_loopback,
    serving,
    url_of,
)
from mpfedxgb.party.observer import Observer
from mpfedxgb.report.html import page_html
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.report.html.page import Live, policy
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.transport.transport import Address
from mpfedxgb.units import bytes_text, count

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
_log = logging.getLogger("mpfedxgb.dashboard")


class Dashboard(Observer):
    """A role's page as it is now, and what else it is given."""

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
        if data.is_coordinator or not running or running[0].has_ended or running[0].content.get("kind") != TRAINING:
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
            step = f", {rounds} of {most} boosting rounds kept" + (f", now {self._step}" if self._step else "")
        sent = bytes_text(last.content.get("bytes_sent", 0))
        spent = f"{count(last.content.get('rounds', 0))} message rounds, {sent} sent so far"
        return f"{kind}{step}: {spent}"


@contextmanager
def live_view(settings: RoleSettings, address: Address) -> Iterator[Dashboard]:
    """Answer at an address inside the block; raises SettingsError before it where that cannot be."""
    view, token = Dashboard(settings), os_entropy(_TOKEN_BYTES).hex()
    with (
        bound(address, "--dashboard", _MOST_CONNECTIONS) as listening,
        _heard(view.note),
        _shown(settings, f"{url_of(address, listening)}?token={token}"),
    ):
        if not is_loopback(address.host):
            _log.warning(
                "the live view on %s can be reached from other machines, and nothing encrypts it: let a tunnel or a "
                "proxy with TLS do that",
                address,
            )
        with serving(_app(view, token), listening, "live view", Bounds(_MOST_CONNECTIONS, _LONGEST)):
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
        raise SettingsError(
            f"--dashboard: cannot write the link to {path}: {error.strerror}", "file", path.name
        ) from None
    _log.info("the link to the live view is in %s", path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)
