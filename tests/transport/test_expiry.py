"""A certificate that ends while its role waits: warnings once a day, and a wait that goes on when it is renewed."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from contracts.transport_contract import LONG, ROOM, Call
from mpfedxgb.errors import MissingPeerError, SettingsError
from mpfedxgb.transport.certificates import Authority
from mpfedxgb.transport.expiry import ExpiryWatch
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.tls.transport import TlsTransport, open_transport
from mpfedxgb.transport.transport import parse_address
from mpfedxgb.transport.transports import ConnectionSettings, Credentials
from support.loopback import reserved_ports
from support.refusals import ANY, refused

NOW = dt.datetime(2026, 11, 18, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
SECOND = 1 / 86_400
"""Of a day."""


# Warnings


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> dt.datetime:
        """Return the time."""
        return self.now


def unusable() -> object:
    """Read files that cannot be used."""
    raise SettingsError("the certificate expired")


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the warnings so far, and forget them."""
    found = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return found


def test_warnings_come_once_a_day_from_two_weeks_before(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """However often a role looks, and though it connects anew in between; they say when, and what to do."""
    clock, path, end = Clock(), tmp_path / "bank.crt", NOW + 16 * DAY
    days = []
    for hour in range(24 * 18):
        clock.now = NOW + hour * DAY / 24
        for _ in range(2):
            watch = ExpiryWatch("bank", path, end, unusable, clock)
            assert not watch.look()
            assert not watch.look()
        if found := warnings(caplog):
            (text,) = found
            assert f"the certificate {path} of bank" in text
            assert ("in its place" in text) is (clock.now > end) is watch.has_ended
            days.append((clock.now - NOW) / DAY)
    assert days[:14] == list(range(2, 16))
    assert len(days) == 14 + 1 + 2  # the last hour of its last day, and the two days after
    assert "expires at 2026-12-04 12:00 UTC, in 3 days; renew it soon" in _warned_at(end - 3 * DAY, tmp_path, caplog)


def _warned_at(now: dt.datetime, folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    clock = Clock()
    clock.now = now
    ExpiryWatch("bank", folder / "other.crt", NOW + 16 * DAY, unusable, clock).look()
    (text,) = warnings(caplog)
    return text


def test_a_certificate_that_lasts_is_not_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Two weeks and a second before its end there is nothing to say yet; files are not read again."""
    clock = Clock()
    watch = ExpiryWatch("bank", tmp_path / "bank.crt", NOW + 14 * DAY + SECOND * DAY, unusable, clock)
    assert not watch.look()
    assert warnings(caplog) == []


# A role that waits


class Pair:
    """Coordinator and bank, with certificates of the trial authority, each with a folder of its own."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.address = folder, parse_address(f"127.0.0.1:{port}")
        self.authority = Authority.create(folder / "ca", "trial")
        self.names = ("coordinator", "bank")

    def issue(self, name: str, seconds: float) -> None:
        """Give a role a new certificate that is valid for some seconds."""
        self.authority.renew(self.folder / name, name, days=seconds * SECOND)  # type: ignore[arg-type] # a part of one

    def settings(self, role: int, **changes: object) -> ConnectionSettings:
        """Return what a role connects with."""
        name = self.names[role]
        home = self.folder / name
        credentials = Credentials(home / "ca.crt", home / f"{name}.crt", home / f"{name}.key", None)
        listen, dialled = (self.address, {}) if role == 0 else (None, {0: self.address})
        made = ConnectionSettings(role, self.names, "trial", listen, dialled, credentials, LONG, ROOM, ROOM, LONG)
        return replace(made, **changes)  # type: ignore[arg-type] # whichever a test changes


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Return two roles of which one is not there yet."""
    with reserved_ports(1) as (port,):
        yield Pair(tmp_path, port)


def wait_for(caplog: pytest.LogCaptureFixture, words: str, waiting: Call) -> None:
    """Wait until the log has some words, while a role waits."""
    while words not in caplog.text:
        assert waiting.waits, "it ended"
        time.sleep(0.01)


@pytest.mark.parametrize("serves", [True, False])
def test_a_listener_whose_certificate_ends_while_it_waits_goes_on_with_the_next(
    pair: Pair, caplog: pytest.LogCaptureFixture, serves: bool
) -> None:
    """It says that the old one has ended, takes the new one as soon as it is there, and meets the other role."""
    caplog.set_level("INFO", "mpfedxgb.transport")
    pair.issue("coordinator", 2.0)
    pair.issue("bank", 3600.0)
    waiting = Call(open_transport, pair.settings(0, serves=serves, again=True))
    wait_for(caplog, "of coordinator expired at", waiting)
    pair.issue("coordinator", 3600.0)
    wait_for(caplog, "of coordinator was renewed", waiting)
    talk(Call(open_transport, pair.settings(1)).result(), waiting.result())


def test_a_caller_whose_certificate_ends_while_it_waits_goes_on_with_the_next(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not accepted, which is for good otherwise; the listening role does not mind."""
    caplog.set_level("INFO", "mpfedxgb.transport")
    pair.issue("bank", -1.0)
    pair.issue("coordinator", 3600.0)
    listening = Call(open_transport, pair.settings(0))
    calling = Call(open_transport, pair.settings(1, again=True))
    wait_for(caplog, "does not accept the certificate", calling)
    assert "of bank expired at" in caplog.text
    pair.issue("bank", 3600.0)
    talk(calling.result(), listening.result())
    assert "of bank was renewed" in caplog.text


def talk(caller: TlsTransport, listener: TlsTransport) -> None:
    """Let two connected roles talk, and part."""
    caller.send(0, b"with the new one", LONG)
    assert listener.receive(1, LONG) == b"with the new one"
    for end in (caller, listener):
        end.close()


def test_a_role_that_starts_with_a_certificate_that_has_ended_is_refused(pair: Pair) -> None:
    """Somebody is there to read why; a role that has run before waits, as long as it would for its peers."""
    pair.issue("coordinator", -1.0)
    with refused(SettingsError, "certificate", "coordinator.crt"):
        open_transport(pair.settings(0))
    with refused(MissingPeerError, "missing", ANY, 0.5):
        open_transport(pair.settings(0, again=True, timeout=0.5))


def test_files_that_are_half_replaced_are_read_again(pair: Pair, caplog: pytest.LogCaptureFixture) -> None:
    """Certificate and key of two generations end no role that has run before; when they fit it goes on."""
    for name in pair.names:
        pair.issue(name, 3600.0)
    key = pair.folder / "coordinator" / "coordinator.key"
    old = key.read_bytes()
    pair.issue("coordinator", 3600.0)
    new = key.read_bytes()
    key.write_bytes(old)
    with refused(MissingPeerError, "missing", "coordinator"):
        open_transport(pair.settings(0, again=True, timeout=0.1))
    waiting = Call(open_transport, pair.settings(0, again=True))
    wait_for(caplog, "reading the files again", waiting)
    key.write_bytes(new)
    caller = open_transport(pair.settings(1))
    listener = waiting.result()
    for end in (caller, listener):
        end.close()
    assert Identity.of("coordinator", _credentials(pair)).is_current()


def _credentials(pair: Pair) -> Credentials:
    credentials = pair.settings(0).credentials
    assert credentials is not None
    return credentials
