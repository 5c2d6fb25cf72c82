"""The live view: for whoever has the link, read only, of real roles while they train and serve, and gone with them."""

from __future__ import annotations

import http.client
import io
import logging
import re
import signal
import socket
import stat
import sys
import threading
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation import dashboard
from mpfedxgb.federation.dashboard import HEADERS, LINK, Dashboard, live_view
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.web import is_loopback, read_address
from mpfedxgb.report.history import Attempt, History
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.report.html.page import Live
from mpfedxgb.transport.transport import Address
from patience import patience
from support.chromium import browser, find_chromium
from support.commands import Shell
from support.pages import parse
from support.refusals import refused
from support.reports import facts, model
from support.role_files import full, least, write
from support.role_processes import WAIT, Place, place

if TYPE_CHECKING:
    from nursery import Nursery

ANY_PORT = Address("127.0.0.1", 0)
SENT = {name.lower(): value for name, value in HEADERS.items()}


@pytest.fixture
def settings(tmp_path: Path) -> RoleSettings:
    """Return the settings of a role that has done nothing yet."""
    return RoleSettings.from_toml(write(tmp_path, least("bank")))


class Answer:
    """What a request was answered with."""

    def __init__(self, link: str, method: str = "GET") -> None:
        parts = urlsplit(link)
        with closing(http.client.HTTPConnection(parts.netloc, timeout=patience(WAIT))) as connection:
            connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path)
            with connection.getresponse() as found:
                self.status, self.text = found.status, found.read().decode()
                self.headers = {name.lower(): value for name, value in found.getheaders()}


def link_of(settings: RoleSettings) -> str:
    """Return the link that a role has written down, once it is there."""
    path = settings.role.state / LINK
    end = time.monotonic() + patience(WAIT)
    while not path.is_file():
        assert time.monotonic() < end, "there is no link"
        time.sleep(0.01)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return path.read_text().strip()


def doing(page: str) -> str:
    """Return what a page says that its role does just now."""
    (found,) = (p.text for p in parse(page).all("p") if "doing" in p.classes)
    return found


# Who may look


def test_only_with_the_token(settings: RoleSettings) -> None:
    """Without it, or with another, every path and method is refused alike; with it there is one page, read only."""
    with live_view(settings, ANY_PORT):
        link = link_of(settings)
        base, token = link.split("?token=")
        assert re.fullmatch("[0-9a-f]{64}", token)
        refused = [Answer(base), Answer(f"{base}?token="), Answer(f"{link}0"), Answer(f"{base}?token={token[:-1]}")]
        refused += [
            Answer(f"{base}any/where"),
            Answer(base, "POST"),
            Answer(f"{base}?token=%ff%00"),
            Answer(base, "PUT"),
        ]
        assert {(answer.status, answer.text) for answer in refused} == {
            (403, "open the whole link that the role has shown\n")
        }
        page = Answer(link)
        assert page.status == 200
        assert parse(page.text).all("h1")[0].text == "bank"
        assert doing(page.text) == "waits for the other roles"
        assert [Answer(link, method).status for method in ("POST", "PUT", "DELETE")] == [405, 405, 405]
        assert Answer(f"{base}any?token={token}").status == 404
        assert Answer(link, "HEAD").status == 200
        for answer in (*refused, page):
            assert SENT.items() <= answer.headers.items()
            assert not {"server", "set-cookie"} & answer.headers.keys()


def test_the_headers() -> None:
    """Nothing frames, keeps or sniffs the page, and nobody learns where it is."""
    assert "frame-ancestors 'none'" in HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in HEADERS["Content-Security-Policy"]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert HEADERS["X-Frame-Options"] == "DENY"
    assert (HEADERS["Cache-Control"], HEADERS["Referrer-Policy"]) == ("no-store", "no-referrer")


def test_the_token_is_another_each_time_and_in_no_log(
    settings: RoleSettings, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nor in what is printed, where that is no terminal; requests are not logged, broken ones neither."""
    links = []
    with caplog.at_level(logging.DEBUG):
        for _ in range(2):
            with live_view(settings, ANY_PORT):
                links.append(link_of(settings))
                assert Answer(links[-1]).status == 200
                parts = urlsplit(links[-1])
                with socket.create_connection((parts.hostname or "", parts.port or 0), patience(WAIT)) as raw:
                    raw.sendall(b"what is this\r\n\r\n")
                    assert b"400" in raw.recv(100)
    tokens = [link.split("=")[1] for link in links]
    assert len({*tokens}) == 2
    printed = "".join(capfd.readouterr()) + caplog.text
    assert [token for token in tokens if token in printed] == []
    assert "what is this" not in printed
    assert not (settings.role.state / LINK).exists()


def test_a_terminal_is_shown_the_link(settings: RoleSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once, and then it is nowhere else."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    with live_view(settings, ANY_PORT):
        (link,) = re.findall(
            r"live view of bank: (http://127\.0\.0\.1:\d+/\?token=[0-9a-f]{64})\n", terminal.getvalue()
        )
        assert Answer(link).status == 200
    assert terminal.getvalue().count(link) == 1
    assert not settings.role.state.exists()


def test_other_machines_are_warned_of(
    settings: RoleSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the address is none of loopback's."""
    hosts = ("127.0.0.1", "127.9.9.9", "::1", "localhost", "10.0.0.1", "0.0.0.0", "bank.example.org")  # noqa: S104 # not bound
    assert [is_loopback(host) for host in hosts] == [True, True, True, True, False, False, False]
    monkeypatch.setattr(dashboard, "is_loopback", lambda host: False)
    with caplog.at_level(logging.WARNING), live_view(settings, ANY_PORT):
        assert "can be reached from other machines, and nothing encrypts it" in caplog.text


# Before the session begins


@pytest.mark.parametrize("text", ["x", "-1", "70000", "127.0.0.1:0", "http://127.0.0.1:8801", "a b:80", ""])
def test_addresses_that_are_none(text: str) -> None:
    """Each is refused by name."""
    with refused(SettingsError, "value", "--dashboard"):
        read_address(text, "--dashboard")


def test_addresses() -> None:
    """A port alone is loopback's."""
    assert read_address("8801", "--dashboard") == Address("127.0.0.1", 8801)
    assert read_address("0", "--dashboard") == ANY_PORT
    assert read_address("[::1]:8801", "--dashboard") == Address("::1", 8801)
    assert read_address("10.1.2.3:80", "--dashboard") == Address("10.1.2.3", 80)


def test_a_port_that_is_taken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The role ends with a clear line before it reads a file or waits for anybody."""
    shell = Shell(monkeypatch, capsys)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for role, words in (("coordinator", ["coordinator"]), ("bank", ["participant", "--train"])):
            path = write(tmp_path, full(role) | {"log": {}})
            assert shell.run(words[0], path, *words[1:], "--dashboard", port) == ExitCode.USER
            (line,) = shell.err.strip().splitlines()
            assert f"cannot listen on 127.0.0.1:{port}: Address already in use; give another port" in line
    assert [file.name for file in tmp_path.iterdir()] == ["role.toml"]


def test_a_host_that_is_not_here(settings: RoleSettings) -> None:
    """An address of another machine cannot be listened on."""
    with (
        refused(SettingsError, "busy", "--dashboard"),
        live_view(settings, Address("192.0.2.1", 8801)),
    ):
        pass


def test_without_the_packages(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The message names the extra."""
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    for name in ("dashboard", "web"):
        monkeypatch.delitem(sys.modules, f"mpfedxgb.federation.{name}")
    shell = Shell(monkeypatch, capsys)
    assert shell.run("coordinator", write(tmp_path, least("coordinator")), "--dashboard", "0") == ExitCode.USER
    assert "pip install 'mpfedxgb[dashboard]'" in shell.err


# It never disturbs the role


def test_it_ends_with_the_role(settings: RoleSettings) -> None:
    """Nobody listens afterwards and no thread is left, also where somebody is connected and after an error."""
    before = set(threading.enumerate())
    with ExitStack() as role:
        role.enter_context(live_view(settings, ANY_PORT))
        where = urlsplit(link_of(settings))
        open_ = socket.create_connection((where.hostname or "", where.port or 0), patience(WAIT))
        with pytest.raises(ZeroDivisionError):
            raise_in(role.pop_all())
    with open_, pytest.raises(ConnectionRefusedError):
        socket.create_connection((where.hostname or "", where.port or 0), patience(WAIT))
    assert not set(threading.enumerate()) - before


def raise_in(block: ExitStack) -> None:
    """Let an error end a block."""
    with block:
        raise ZeroDivisionError


def test_connections_are_few(settings: RoleSettings) -> None:
    """Those beyond the limit are cut at once, so that they take no descriptors from the role."""
    with live_view(settings, ANY_PORT), ExitStack() as all_of_them:
        where = urlsplit(link_of(settings))
        ends = [
            all_of_them.enter_context(socket.create_connection((where.hostname or "", where.port or 0), patience(WAIT)))
            for _ in range(dashboard._MOST_CONNECTIONS + 5)
        ]
        end = time.monotonic() + patience(WAIT)
        while sum(map(is_cut, ends)) < 5:
            assert time.monotonic() < end, "too many connections stay open"
            time.sleep(0.01)
        assert sum(map(is_cut, ends)) == 5


def test_connections_are_short(settings: RoleSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for nothing is cut."""
    monkeypatch.setattr(dashboard, "_LONGEST", 0.05)
    with live_view(settings, ANY_PORT):
        where = urlsplit(link_of(settings))
        with socket.create_connection((where.hostname or "", where.port or 0), patience(WAIT)) as idle:
            end = time.monotonic() + patience(WAIT)
            while not is_cut(idle):
                assert time.monotonic() < end, "an idle connection stays open"
                time.sleep(0.01)
            assert is_cut(idle)


def is_cut(connection: socket.socket) -> bool:
    """Return whether the other side has ended a connection."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


def test_a_page_that_cannot_be_made(settings: RoleSettings, caplog: pytest.LogCaptureFixture) -> None:
    """A damaged file is said and survived: the next request may find it mended."""
    assert settings.role.model is not None
    with live_view(settings, ANY_PORT):
        settings.role.model.write_text("{")
        with caplog.at_level(logging.WARNING):
            answer, again = Answer(link_of(settings)), Answer(link_of(settings))
        assert answer.status == again.status == 503
        assert SENT.items() <= answer.headers.items()
        assert caplog.text.count("the live view cannot be made just now") == 1
        settings.role.model.unlink()
        assert Answer(link_of(settings)).status == 200


def test_a_page_is_made_once_a_second_at_most(settings: RoleSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many look at it."""
    view = Dashboard(settings)
    made: list[Live] = []
    now, took = [100.0], 0.0

    def make(facts: ReportData, live: Live) -> str:
        made.append(live)
        now[0] += took
        return f"page {len(made)}"

    monkeypatch.setattr(dashboard, "page_html", make)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    assert [view.page(), view.page()] == ["page 1", "page 1"]
    now[0] += dashboard._FRESH
    view.note("a line")
    took = 3.0
    assert view.page() == "page 2"
    assert made[-1].lines == ["a line"]
    now[0] += 20 * took - 0.1
    assert view.page() == "page 2", "a page that takes long is made seldom"
    now[0] += 0.2
    assert view.page() == "page 3"


def test_the_time_that_is_left(settings: RoleSettings) -> None:
    """As long for each missing round as for those since the page was first looked at; of a training that runs alone."""
    view, attempt = Dashboard(settings), Attempt("a1", {"kind": "training"})
    most = settings.training.n_estimators

    def left(trees: int, now: float, **changes: Any) -> float | None:
        data = facts(model(trees, depth=1), history=History((attempt,)), **changes)
        return view._seconds_left(data, now)

    assert left(2, 100.0) is None
    assert left(2, 105.0) is None
    assert left(4, 110.0) == pytest.approx(5.0 * (most - 4))
    assert left(4, 110.0, number=0) is None
    assert left(most, 200.0) is None
    attempt.content["how"] = "done"
    assert left(6, 210.0) is None


# Real roles


def wait_for(link: str, words: str) -> str:
    """Return a page, once it says something."""
    end = time.monotonic() + patience(WAIT)
    while words not in (text := Answer(link).text):
        assert time.monotonic() < end, f"{words!r} never came: {doing(text)}"
        time.sleep(0.1)
    return text


def settings_of(federation: Place, role: int) -> RoleSettings:
    """Return a role's settings."""
    return RoleSettings.from_toml(federation.trial.settings(role))


def test_roles_that_train_and_serve(nursery: Nursery, tmp_path: Path) -> None:
    """The active participant's view waits with it and goes with it; those who serve show the session that has ended."""
    with place(tmp_path, nursery, training={"max_depth": 3}) as federation:
        federation.start(0, "--dashboard", "0")
        bank = federation.start(1, "--train", "--dashboard", "0")
        own, dealer = link_of(settings_of(federation, 1)), link_of(settings_of(federation, 0))
        page = wait_for(own, "bank listens on")
        assert doing(page) == "waits for the other roles"
        assert doing(Answer(dealer).text) == "waits for the other roles"
        federation.start(2, "--train", "--dashboard", "0")
        assert bank.wait(patience(WAIT)) == 0
        with pytest.raises(ConnectionRefusedError):
            Answer(own)
        assert federation.children[2].wait(patience(WAIT)) == 0
        page = wait_for(dealer, "the last session has ended: done")
        assert "salted digest of the row ids" in page
        assert 'class="tree' not in page

        telecom = federation.start(2, "--serve", "--dashboard", "0")
        page = wait_for(link_of(settings_of(federation, 2)), "waits for the other roles")
        assert [one for one in parse(page).all("svg") if "tree" in one.classes]
        assert "telecom_" in page
        assert "bank_" not in page
        for child in (telecom, federation.children[0]):
            child.send_signal(signal.SIGTERM)
        assert federation.codes() == {0: ExitCode.STOPPED, 1: 0, 2: ExitCode.STOPPED}
        assert own.split("=")[1] not in federation.logs()
        assert "the link to the live view is in" in federation.log(0)
        assert list(tmp_path.rglob(LINK)) == []


@pytest.mark.skipif(find_chromium() is None, reason="no Chromium is installed on this machine")
def test_in_a_browser(nursery: Nursery, tmp_path: Path) -> None:
    """The page renews itself while roles train, keeps what is unfolded, asks nobody else, and says when it is over."""
    said = "document.querySelector('.doing').textContent"
    with place(tmp_path / "place", nursery) as federation, browser(tmp_path) as page:
        federation.start(0, "--dashboard", "0")
        link = link_of(settings_of(federation, 0))
        page.open(link)
        assert page.ask(said) == "waits for the other roles"
        for role in (1, 2):
            federation.start(role)
        page.wait_until(f"{said}.startsWith('the last session has ended: done')")
        assert page.ask("document.querySelectorAll('svg.chart').length") > 0
        assert page.complaints == []
        assert {*page.requests} == {link}
        page.ask("document.querySelector('details').open = true")
        page.ask("for (const name of ['now', 'cost', 'parameters']) document.getElementById(name).dataset.old = 'yes'")
        federation.start(1, "--predict")
        federation.start(2, "--predict")
        page.wait_until("!document.getElementById('now').dataset.old")
        assert page.ask("document.querySelector('details').open")
        assert page.ask("document.getElementById('parameters').dataset.old"), "what is the same stays as it is"
        for role in (1, 2):
            assert federation.children[role].wait(patience(WAIT)) == 0
        federation.children[0].send_signal(signal.SIGTERM)
        page.wait_until("document.body.classList.contains('lost')")
        assert federation.codes()[0] == ExitCode.STOPPED
