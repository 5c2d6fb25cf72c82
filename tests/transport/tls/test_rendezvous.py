"""Who is let in: the right roles, whatever else calls before them; everyone else is told why, and so is the log."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from contracts.transport_contract import LONG, ROOM, SHORT
from mpfedxgb.errors import (
    HandshakeError,
    MissingPeerError,
    PeerFinishedError,
    PeerTimeoutError,
    SettingsError,
    UserError,
)
from mpfedxgb.transport.tls import TlsTransport, rendezvous, server
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.tls.pieces import HEADER
from mpfedxgb.transport.tls.rendezvous import Introduction, Refusal, Rendezvous
from mpfedxgb.transport.tls.server import Server
from mpfedxgb.transport.tls.stream import PeerStream
from mpfedxgb.transport.transport import Address, Block, parse_address
from support.by_hand import ByHand, by_hand
from support.loopback import NAMES, Loopback, loopback, with_names
from support.pki import Authority, unchecked
from support.refusals import ANY, refused

NO_WAIT = 1.0
"""Seconds that somebody who will be refused may take; long before that it is."""


def bad_identities(federation: Loopback, folder: Path) -> dict[str, Identity]:
    """Return certificates that a coordinator must not accept as the bank's."""
    authority, other = federation.authority, Authority(folder)
    return {
        kind: unchecked("bank", authority.file, pair)
        for kind, pair in {
            "expired": authority.issue("bank", days=(-3, -1)),
            "not yet valid": authority.issue("bank", days=(1, 3)),
            "other authority": other.issue("bank"),
            "self-signed": authority.issue("bank", self_signed=True),
            "other role": authority.issue("telecom"),
            "stranger": authority.issue("mallory"),
            "common name only": authority.issue(common_name="bank"),
            "two roles": authority.issue("bank", "telecom"),
            "upper case": authority.issue("BANK"),
            "wildcard": authority.issue("*"),
            "X.400 address": authority.issue(raw_names=b"\x30\x08\xa3\x00\x82\x04bank"),
        }.items()
    }


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("expired", "does not accept the certificate .* of bank: it has expired; check that"),
        ("not yet valid", "does not accept the certificate .* of bank: it is not valid; check that"),
        (
            "other authority",
            "does not accept the certificate .* of bank: its authority is (not known|another one); check that",
        ),
        ("self-signed", "does not accept the certificate .* of bank: its authority is not known; check that"),
        ("other role", "coordinator refused bank: the caller says that it is 'bank', .* certificate is for 'telecom'"),
        ("stranger", "coordinator refused bank: the certificate is for 'mallory', which is no role"),
        ("common name only", "coordinator refused bank: the certificate is for nobody"),
        ("two roles", "the certificate is for 'bank', 'telecom'; a certificate is for one role only"),
        ("upper case", "the certificate is for 'BANK', which is no role"),
        ("X.400 address", "coordinator refused bank: the certificate is for nobody"),
        ("wildcard", r"the certificate is for '\*', which is no role"),
    ],
)
@pytest.mark.usefixtures("coordinator")
def test_certificates_of_callers(
    federation: Loopback, tmp_path: Path, kind: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever is not the bank by its certificate is refused, and told why; the coordinator goes on waiting."""
    identity = bad_identities(federation, tmp_path / "other")[kind]
    with pytest.raises(HandshakeError, match=words):
        federation.connect(1, peers=[0], identity=identity)
    if "refused" in words:
        assert [record.getMessage() for record in caplog.records] == [
            "coordinator refused a connection of 'bank': " + str(record.args[2])  # type: ignore[index] # a tuple
            for record in caplog.records
        ]
        assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("expired", "certificate has expired"),
        ("not yet valid", "certificate is not yet valid"),
        ("other authority", "certificate signature failure|unable to get local issuer certificate"),
        ("self-signed", "self-signed certificate"),
        ("stranger", "Hostname mismatch, certificate is not valid for 'coordinator'"),
        ("wildcard", "Hostname mismatch, certificate is not valid for 'coordinator'"),
    ],
)
def test_certificates_of_those_who_are_called(federation: Loopback, tmp_path: Path, kind: str, words: str) -> None:
    """The bank does not talk to somebody who is not the coordinator by its certificate, and says why."""
    authority = federation.authority
    pair = {
        "expired": lambda: authority.issue("coordinator", days=(-3, -1)),
        "not yet valid": lambda: authority.issue("coordinator", days=(1, 3)),
        "other authority": lambda: Authority(tmp_path / "other").issue("coordinator"),
        "self-signed": lambda: authority.issue("coordinator", self_signed=True),
        "stranger": lambda: authority.issue("mallory"),
        "wildcard": lambda: authority.issue("*", "*.coordinator"),
    }[kind]()
    meeting = Rendezvous(0, Introduction("coordinator", "test", ROOM), federation.names, [1])
    address = Address("127.0.0.1", federation.ports[0])
    impostor = Server(meeting, address, unchecked("coordinator", authority.file, pair), ROOM, LONG)
    try:
        with pytest.raises(HandshakeError, match=rf"certificate of coordinator at .* not accepted: ({words}).*; check"):
            federation.connect(1, peers=[0])
        assert meeting.missing() == [1]
    finally:
        impostor.close()


@pytest.mark.usefixtures("coordinator")
def test_another_federation(federation: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    """Two federations with the same authority and names do not mix; the log does not quote the other's name."""
    with pytest.raises(HandshakeError, match="bank and coordinator are not in the same federation"):
        federation.connect(1, peers=[0], federation="höchst geheim")
    assert "not in the same federation" in caplog.text
    assert "geheim" not in caplog.text


@pytest.mark.usefixtures("coordinator")
def test_another_topology(federation: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    """A role that would be in a mesh is told that this is a star, and the listening role's log says so, too."""
    with pytest.raises(HandshakeError, match=r"bank says that the topology is mesh, coordinator says star; give all"):
        federation.connect(1, peers=[0], topology="mesh")
    assert "the topology is mesh" in caplog.text


def test_a_mesh_needs_somebody_to_listen(federation: Loopback) -> None:
    """Of four, telecom is dialled by retail: without an address of its own it is refused at once."""
    four = with_names(federation, NAMES)
    addresses = dict.fromkeys(range(2), Address("127.0.0.1", 1))
    with refused(SettingsError, "missing", "telecom"):
        four.connect(2, listen=None, addresses=addresses, topology="mesh")


@pytest.mark.usefixtures("coordinator")
def test_another_wire_version(federation: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """A role of another version is refused in words."""
    with monkeypatch.context() as patch:
        content = Introduction.content
        patch.setattr(Introduction, "content", lambda self: {**content(self), "wire": 4})
        with pytest.raises(HandshakeError, match="bank speaks wire version 4, coordinator speaks 3; give all roles"):
            federation.connect(1, peers=[0])


@pytest.mark.usefixtures("coordinator")
def test_a_role_that_is_not_expected(federation: Loopback) -> None:
    """Telecom is in the federation, but this coordinator waits for the bank alone."""
    with pytest.raises(HandshakeError, match="coordinator expects no call of telecom"):
        federation.connect(2, peers=[0])


@pytest.mark.usefixtures("coordinator")
def test_a_role_that_is_not_on_the_other_list(federation: Loopback) -> None:
    """A roster with one more name is a mistake of one side, and is named."""
    larger = with_names(federation, NAMES)
    with pytest.raises(HandshakeError, match="certificate is for 'retail', which is no role of this federation"):
        larger.connect(3, peers=[0])


@pytest.mark.usefixtures("coordinator")
def test_another_order_of_the_roles(federation: Loopback) -> None:
    """Bank believes that telecom is the active participant; it is told both lists, before anything else goes wrong."""
    other = with_names(federation, ("coordinator", "telecom", "bank"))
    words = "bank lists the roles as coordinator,telecom,bank, coordinator as coordinator,bank,telecom; give all"
    with pytest.raises(HandshakeError, match=words):
        other.connect(2, peers=[0])


def test_a_port_that_fails_ends_the_waiting(federation: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason, instead of waiting for callers whom nobody admits."""
    monkeypatch.setattr(Server, "_accept", lambda *_: 1 // 0)
    coordinator = federation.call(0)
    with suppress(AssertionError, ConnectionResetError):
        federation.wait_for_port()
    with pytest.raises(ZeroDivisionError):
        coordinator.result()


# Waiting together


class Spoken:
    """What a role says before all are there, as plain text."""

    def waiting(self, names: Sequence[str]) -> bytes:
        """Name them."""
        return f"for {' '.join(names)}".encode()

    def giving_up(self, error: BaseException) -> bytes:
        """Say why."""
        return f"no more: {error}".encode()


def test_who_waits_is_kept_while_others_are_missing(tmp_path: Path) -> None:
    """However often the time of a role that serves is over, those who are there stay connected, and are told why."""
    asked = threading.Semaphore(0)

    def stays() -> bool:
        asked.release()
        return True

    with loopback(tmp_path) as federation:
        coordinator = federation.call(0, timeout=3.0, stays=stays, interim=Spoken())  # in which one has to come
        bank, telecom = (federation.connect(role, peers=[0]) for role in (1, 2))
        for _ in range(2):
            assert asked.acquire(timeout=LONG)
        retail = federation.connect(3, peers=[0])
        end = coordinator.result()
        for role, one in ((1, bank), (2, telecom), (3, retail)):
            end.send(role, b"begin", LONG)
            heard = list[Block]()
            while heard[-1:] != [b"begin"]:
                heard.append(one.receive(0, LONG))
            assert role == 3 or heard[-2] == b"for retail"
            one.send(0, b"still here", LONG)
            assert end.receive(role, LONG) == b"still here"
        for one in (end, bank, telecom, retail):
            one.close()


def test_nobody_to_keep(federation: Loopback) -> None:
    """A role that serves begins anew where nobody waits with it, or where it has a reason."""
    with refused(PeerTimeoutError, "missing", ANY, 0.2):
        federation.connect(0, timeout=0.2, stays=lambda: True)
    coordinator = federation.call(0, timeout=4.0, stays=lambda: False, interim=Spoken())
    telecom = federation.connect(2, peers=[0])
    with refused(PeerTimeoutError, "missing", ANY, 4.0):
        coordinator.result()
    assert telecom.receive(0, LONG) == b"for bank"
    assert telecom.receive(0, LONG) == b"no more: not all roles came within 4 seconds; bank: it has not called"
    telecom.close()


def test_what_the_log_says_meanwhile(
    federation: Loopback, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it listens, and for whom it waits, at once and again and again; with what is known of them."""
    monkeypatch.setattr(rendezvous, "SAY_EVERY", 0.01)
    caplog.set_level(logging.INFO, "mpfedxgb.transport")

    def wait_for(words: str, times: int) -> None:
        until = time.monotonic() + LONG
        while caplog.text.count(words) < times:
            assert time.monotonic() < until, caplog.text
            time.sleep(0.01)

    coordinator = federation.call(0)
    wait_for("coordinator waits for bank: it has not called; telecom: it has not called", 3)
    with pytest.raises(HandshakeError, match="not in the same federation"):
        federation.connect(2, peers=[0], federation="other")
    wait_for("waits for bank: it has not called; telecom: it was refused: telecom and coordinator are not in", 3)
    calls = [coordinator, *(federation.call(role, peers=[0]) for role in (1, 2))]
    for end in [call.result() for call in calls]:
        end.close()
    assert f"coordinator listens on 127.0.0.1:{federation.ports[0]}" in caplog.text


def test_a_duplicate_role(federation: Loopback, caplog: pytest.LogCaptureFixture) -> None:
    """The first one stays; the second is told, after a while in which the first might have been a dead connection."""
    coordinator = federation.call(0)
    first = federation.connect(2, peers=[0])
    began = time.monotonic()
    with pytest.raises(HandshakeError, match="telecom is connected already; does another process run as telecom"):
        federation.connect(2, peers=[0], silence=1.0)
    assert time.monotonic() - began > 1.0
    with refused(MissingPeerError, "missing", ANY, 0.5):
        federation.connect(2, peers=[0], timeout=0.5)  # too early to tell: it may come again
    assert caplog.text.count("refused a connection of 'telecom'") == 1
    bank = federation.connect(1, peers=[0])
    coordinator.result().close()
    first.close()
    bank.close()


def test_a_role_that_died_before_all_were_there_may_come_again(federation: Loopback) -> None:
    """Until the federation has formed, a new connection takes a dead one's place, on both sides."""
    coordinator = federation.call(0)
    federation.connect(2, peers=[0]).close()
    telecom = federation.connect(2, peers=[0])
    bank = federation.connect(1, peers=[0])
    telecom.send(0, b"second life", LONG)
    end = coordinator.result()
    assert end.receive(2, LONG) == b"second life"
    for one in (end, telecom, bank):
        one.close()


def test_a_listener_that_died_before_all_were_there_may_come_again(federation: Loopback) -> None:
    """A role that was connected and waits for others dials again when the first connection breaks."""
    telecom = federation.call(2)
    with refused(PeerTimeoutError, "missing", ANY, 1.0):
        federation.connect(0, timeout=NO_WAIT)
    assert telecom.waits
    others = [federation.call(0), federation.call(1)]
    ends = [call.result() for call in (telecom, *others)]
    ends[0].send(0, b"again", LONG)
    assert ends[1].receive(2, LONG) == b"again"
    for end in ends:
        end.close()


def test_a_federation_that_has_begun_lets_nobody_in(federation: Loopback) -> None:
    """A role that lost its connection waits at the door until the others connect anew as well."""
    ends = federation.form([(0, 1)])
    ends[1].close()
    late = federation.call(1, peers=[0])
    time.sleep(SHORT)
    assert late.waits
    ends[0].close()
    again = federation.connect(0, peers=[1])
    late.result().close()
    again.close()


# Connections that break while they are made


@contextmanager
def door(federation: Loopback, meeting: Rendezvous) -> Iterator[None]:
    """Let a meeting's callers in; whoever waits for them has not looked yet."""
    opened = Server(meeting, Address("127.0.0.1", federation.ports[0]), federation.identity("coordinator"), ROOM, LONG)
    try:
        yield
    finally:
        meeting.over.set()
        for link in meeting.streams.values():
            link.close()
        opened.close()


def a_rendezvous(federation: Loopback, *expected: int, kind: type[Rendezvous] = Rendezvous) -> Rendezvous:
    """Return a coordinator's meeting."""
    return kind(0, Introduction("coordinator", "test", ROOM), federation.names, expected)


def link_of(meeting: Rendezvous, role: int) -> PeerStream:
    """Return a link as soon as it has come and gone."""
    until = time.monotonic() + LONG
    while role not in meeting.streams and time.monotonic() < until:
        time.sleep(0.01)
    assert meeting.streams[role].ended.wait(LONG)
    return meeting.streams[role]


def wait_until_noted(meeting: Rendezvous, reason: str) -> None:
    """Wait until a rendezvous says why a role is missing: a link ends shortly before."""
    until = time.monotonic() + LONG
    while not meeting.who_is_missing().startswith(reason):
        assert time.monotonic() < until, meeting.who_is_missing()
        time.sleep(0.01)


def test_the_last_one_to_come_may_have_gone_when_it_is_looked_for(federation: Loopback) -> None:
    """All were there: what the last one said arrives, and then its end, however late the waiting thread is."""
    meeting = a_rendezvous(federation, 1)
    with door(federation, meeting):
        bank = federation.connect(1, peers=[0])
        bank.send(0, b"a word", LONG)
        bank.close()
        link = link_of(meeting, 1)
        assert meeting.wait(SHORT)
        assert link.receive(SHORT) == b"a word"
        with refused(PeerFinishedError, "ended", "bank"):
            link.receive(SHORT)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([], "the connection to bank was lost"),
        ([HEADER.pack(255, 0, 0)], "bank sent a message that is no piece of a block"),
    ],
)
@pytest.mark.parametrize("gone", [False, True], ids=["", "before it has its place"])
def test_who_came_and_went_is_missing_for_that_reason(
    federation: Loopback, messages: list[bytes], words: str, gone: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not said of it that it never called, neither in the error nor in the log; and it may come again."""
    caplog.set_level("INFO", "mpfedxgb.transport")
    first = [gone]

    class Late(Rendezvous):
        def join(self, role: int, connect: Callable[[], PeerStream]) -> PeerStream:
            def ended() -> PeerStream:
                stream = connect()
                assert stream.ended.wait(LONG)
                return stream

            return super().join(role, ended if first and first.pop() else connect)

    meeting = a_rendezvous(federation, 1, 2, kind=Late)
    with door(federation, meeting):
        with by_hand(federation) as bank:
            assert "admitted" in bank.introduce()
            bank.write(*messages)
            if not messages:
                bank.hang_up()
            link_of(meeting, 1)
        reason = f"bank: {words}; it has not called again"
        wait_until_noted(meeting, reason)
        assert meeting.who_is_missing() == f"{reason}; telecom: it has not called"
        until = time.monotonic() + LONG
        while f"coordinator waits for {reason}" not in caplog.text:  # logged shortly after it is noted
            assert time.monotonic() < until, caplog.text
            time.sleep(0.01)
        federation.connect(1, peers=[0]).close()
        assert not meeting.wait(0.0)


def test_a_caller_that_hangs_up_before_it_is_answered(federation: Loopback) -> None:
    """Its link ends as any other: it is neither taken for connected nor in the way of its next call."""
    callers: list[ByHand] = []

    class Slow(Rendezvous):
        def join(self, role: int, connect: Callable[[], PeerStream]) -> PeerStream:
            if callers:
                callers.pop().hang_up()
            return super().join(role, connect)

    meeting = a_rendezvous(federation, 1, 2, kind=Slow)
    with door(federation, meeting):
        with by_hand(federation) as bank:
            callers.append(bank)
            bank.say(Introduction("bank", "test", ROOM).content())
            link_of(meeting, 1)
        assert not callers
        wait_until_noted(meeting, "bank: the connection to bank was lost; it has not called again")
        again = federation.connect(1, peers=[0])
        until = time.monotonic() + LONG
        while meeting.missing() != [2]:  # its answer is there before its link is in its place
            assert time.monotonic() < until, meeting.who_is_missing()
            time.sleep(0.01)
        again.close()


def test_a_caller_whose_link_has_ended_before_it_is_in_its_place(federation: Loopback) -> None:
    """On a busy machine its end is known before its link is; it counts as lost all the same."""
    callers: list[ByHand] = []

    class Slow(Rendezvous):
        def join(self, role: int, connect: Callable[[], PeerStream]) -> PeerStream:
            def gone() -> PeerStream:
                stream = connect()
                callers.pop().hang_up()
                assert stream.ended.wait(LONG)
                return stream

            return super().join(role, gone)

    meeting = a_rendezvous(federation, 1, 2, kind=Slow)
    with door(federation, meeting):
        with by_hand(federation) as bank:
            callers.append(bank)
            bank.say(Introduction("bank", "test", ROOM).content())
            link_of(meeting, 1)
        wait_until_noted(meeting, "bank: the connection to bank was lost; it has not called again")


def test_who_joins_while_a_role_closes_is_closed_as_well(federation: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stream does not outlive the transport."""
    joining, made = threading.Event(), list[PeerStream]()

    def slow(*arguments: Any) -> PeerStream:
        joining.set()
        time.sleep(SHORT)
        made.append(PeerStream(*arguments))
        return made[0]

    monkeypatch.setattr(server, "PeerStream", slow)
    meeting = a_rendezvous(federation, 1, 2)
    end = TlsTransport(0, meeting)
    port = Address("127.0.0.1", federation.ports[0])
    end._server = Server(meeting, port, federation.identity("coordinator"), ROOM, LONG)
    with by_hand(federation) as bank:
        bank.say(Introduction("bank", "test", ROOM).content())
        assert joining.wait(LONG)
        monkeypatch.setattr("mpfedxgb.transport.tls.transport.LINGER", SHORT)
        end.close()
    assert [stream.ended.is_set() for stream in made] == [True]


# Addresses


def test_a_name_with_addresses_that_are_of_no_use(federation: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither listening nor dialling fails for them, as long as another one does."""
    port, stream = federation.ports[0], socket.SOCK_STREAM
    found = [
        (socket.AF_INET, stream, 0, "", ("192.0.2.1", port)),  # of another machine
        (99, stream, 0, "", ("127.0.0.1", port)),  # of no family that there is
        (socket.AF_INET, stream, 0, "", ("127.0.0.1", port)),
    ]
    resolve = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *_, **__: found if host == "everywhere" else resolve(host, *_, **__)
    )
    coordinator = federation.call(0, peers=[1], listen=Address("everywhere", port))
    federation.wait_for_port()
    del found[0]  # a call of it would end late
    federation.connect(1, peers=[0], addresses={0: Address("everywhere", port)}).close()
    coordinator.result().close()


def test_ipv6(federation: Loopback) -> None:
    """A role listens on an address of it, and another one dials that."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
            address = Address("::1", free.getsockname()[1])
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    coordinator = federation.call(0, peers=[1], listen=address)
    bank = federation.connect(1, peers=[0], addresses={0: address})
    bank.send(0, b"six", LONG)
    end = coordinator.result()
    assert end.receive(1, LONG) == b"six"
    for one in (end, bank):
        one.close()


# Waiting and mistakes


def test_nobody_listens(federation: Loopback) -> None:
    """The error says who is missing, where it was looked for, and what happened."""
    began = time.monotonic()
    with pytest.raises(PeerTimeoutError) as caught:
        federation.connect(2, timeout=NO_WAIT)
    assert NO_WAIT <= time.monotonic() - began < LONG / 2
    for name, port in zip(("coordinator", "bank"), federation.ports[:2], strict=True):
        assert f"{name}: {name} at 127.0.0.1:{port} cannot be reached: Connection refused" in str(caught.value)


def test_nobody_calls(federation: Loopback) -> None:
    """A role names those who have not called, and those who have not answered."""
    with refused(PeerTimeoutError, "missing", ANY, 0.3):
        federation.connect(0, timeout=0.3)
    bank = Rendezvous(1, Introduction("bank", "test", ROOM), federation.names, [0, 2])
    assert bank.who_is_missing() == "coordinator: it has not answered; telecom: it has not called"


def test_the_port_is_taken(federation: Loopback) -> None:
    """By another program, or by another role of this package."""
    with (
        socket.create_server(("127.0.0.1", federation.ports[0])),
        refused(UserError, "busy", ANY),
    ):
        federation.connect(0)
    waiting = federation.call(0, peers=[1])
    federation.wait_for_port()
    with refused(UserError, "busy", ANY):
        federation.connect(0)
    bank = federation.connect(1, peers=[0])
    waiting.result().close()
    bank.close()


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a",), "two or more roles"),
        (("a", "b", "a"), "different names"),
        (("coordinator", "Bank"), "'Bank' cannot stand in a certificate"),
        (("coordinator", "-bank"), "cannot stand in a certificate"),
    ],
)
def test_names_that_cannot_work(federation: Loopback, names: tuple[str, ...], words: str) -> None:
    """They are refused by name."""
    with pytest.raises(SettingsError, match=words):
        federation.connect(0, names=names)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("localhost", "write host:port"),
        ("localhost:0", "the port after the last colon is a number"),
        ("localhost:65536", "the port after the last colon is a number"),
        (":7001", "write host:port"),
        ("localhost:x", "the port after the last colon is a number"),
    ],
)
def test_addresses_that_cannot_work(address: str, words: str) -> None:
    """They are refused, with an example."""
    with pytest.raises(ValueError, match=words):
        parse_address(address)


def test_settings_that_do_not_fit_together(federation: Loopback) -> None:
    """No address to dial, nothing to listen on, somebody else's certificate, an address of another machine."""
    bank = federation.identity("bank")
    with refused(SettingsError, "missing", "coordinator", "address"):
        federation.connect(1, addresses={})
    with refused(SettingsError, "missing", "coordinator", "listen"):
        federation.connect(0, listen=None)
    with refused(SettingsError, "mismatch", "identity", "bank"):
        federation.connect(0, identity=bank)
    with refused(UserError, "busy", ANY):
        federation.connect(0, listen=Address("192.0.2.1", 7001))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"window": "100"}, "does not say how much room"),
        ({"window": 0}, "does not say how much room"),
        ({"window": -1}, "does not say how much room"),
        ({"window": True}, "does not say how much room"),
        ({"window": int("9" * 30)}, "does not say how much room"),
        ({"window": 1e9}, "does not say how much room"),
        ({"federation": "TEST"}, "not in the same federation"),
        ({"federation": ["test"]}, "not in the same federation"),
        ({"wire": "one" * 100}, "wire version oneone"),
        ({"name": "telecom"}, "says that it is 'telecom'"),
        ({"name": {"bank": "bank"}}, "says that it is "),
        ({"roles": {"bank": 7}}, "lists the roles as"),
        ({"roles": ["x" * 5000]}, "lists the roles as"),
    ],
)
def test_introductions(said: dict[str, Any], words: str) -> None:
    """Whatever is wrong with one is a refusal in words of bounded length."""
    meeting = Rendezvous(0, Introduction("coordinator", "test", 100, NAMES), NAMES, [1, 2, 3])
    good = json.loads(json.dumps(Introduction("bank", "test", 100, NAMES).content()))
    assert meeting.examine(good, ["bank"], "TLSv1.3") == 1
    with pytest.raises(Refusal, match=words) as caught:
        meeting.examine({**good, **said}, ["bank"], "TLSv1.3")
    assert len(caught.value.reason) < 500
    with pytest.raises(Refusal, match=r"uses TLSv1\.2; only TLS 1\.3"):
        meeting.examine(good, ["bank"], "TLSv1.2")
