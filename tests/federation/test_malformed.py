"""Two hundred and more malformed or unauthorised connections, frames and settings files: every one a clear error.

Nobody waits longer than the deadline, no listening role is disturbed, no error lacks a name, and nothing is written.
"""

from __future__ import annotations

import copy
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import LONG, Call
from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FederationError, HandshakeError, MpfedxgbError
from mpfedxgb.party import ALL, Outcome, Party, Roster
from mpfedxgb.party.local import run_role
from mpfedxgb.protocols import multiply, reveal, share
from mpfedxgb.ring import VECTOR, RingArray, kernels
from mpfedxgb.transport import Frame, Kind, MemoryHub, Transport, decode, encode
from mpfedxgb.transport.tls.identity import ALPN
from mpfedxgb.transport.tls.messages import message
from mpfedxgb.transport.tls.pieces import HEADER, PART, PIECE_BYTES, ROOM
from mpfedxgb.transport.tls.rendezvous import Introduction
from mpfedxgb.transport.transport import Block
from patience import patience, slowdown
from support.by_hand import by_hand
from support.commands import Shell
from support.loopback import Loopback, loopback
from support.names import unlisted
from support.pki import Authority, unchecked
from support.refusals import refused
from support.role_files import ROLES, Content, Raw, full, to_toml

DEADLINE = 30.0
IMPATIENT = 0.5
"""Deadline where a frame does not come at all."""

QUICK = 25.0
"""Seconds by which everybody has ended, on a busy machine."""

# Bytes on the open port


def noise(size: int) -> bytes:
    """Return random bytes, the same every time."""
    return bytes(np.random.default_rng(size).integers(0, 256, size, np.uint8))


HELLO = b"\x16\x03\x01"
"""How a TLS client begins."""

ON_THE_WIRE: dict[str, bytes] = {
    "nothing": b"",
    **{f"{size} random bytes": noise(size) for size in (1, 2, 3, 5, 7, 16, 64, 255, 1000, 4096, 20_000, 100_000)},
    **{f"{size} zeros": bytes(size) for size in (1, 9, 100, 70_000)},
    "a web browser": b"GET / HTTP/1.1\r\nHost: bank\r\n\r\n",
    "a post": b"POST /mpfedxgb.Roles/Connect HTTP/1.1\r\nContent-Length: 4\r\n\r\nMPFX",
    "http 2 in the clear": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    "ssh": b"SSH-2.0-OpenSSH_9.6\r\n",
    "mail": b"EHLO example.org\r\n",
    "text": b"hello?\n" * 500,
    "a frame in the clear": encode(Kind.HELLO, 1, bytes(16), 1, "handshake", [np.zeros(4, np.uint8)]),
    "an abort in the clear": encode(Kind.ABORT, 1, bytes(16), 1, "handshake", [np.zeros(4, np.uint8)] * 3),
    "the beginning of TLS": HELLO,
    "TLS of no length": HELLO + b"\x00\x00",
    "TLS that promises more": HELLO + b"\x40\x00" + noise(10),
    "TLS with a garbled hello": HELLO + b"\x01\x00\x01\x00\x00\xfc\x03\x03" + noise(248),
    "TLS of a great length": HELLO + b"\xff\xff" + noise(3000),
    "an alert": b"\x15\x03\x03\x00\x02\x02\x28",
    "application data": b"\x17\x03\x03\x00\x20" + noise(32),
    "SSL 2": b"\x80\x2e\x01\x00\x02" + noise(44),
}


@pytest.fixture
def besieged(tmp_path: Path) -> Iterator[tuple[Loopback, Path]]:
    """Return a federation whose coordinator waits; at the end the right roles come, and find it in its place."""
    with loopback(tmp_path / "pki", roles=3) as federation:
        coordinator = federation.call(0, timeout=patience(120.0))
        federation.wait_for_port()
        yield federation, tmp_path
        assert coordinator.waits, "it goes on waiting for the right ones"
        others = [federation.call(1), federation.call(2)]
        ends = [call.result() for call in (coordinator, *others)]
        ends[2].send(0, b"the right one", LONG)
        assert ends[0].receive(2, LONG) == b"the right one"
        for end in ends:
            end.close()


def test_bytes_on_the_open_port(besieged: tuple[Loopback, Path]) -> None:
    """Whatever strangers send, and however they leave, the listening role goes on; none gets an answer of ours."""
    federation, _ = besieged
    held = []
    for content in ON_THE_WIRE.values():
        with socket.create_connection(("127.0.0.1", federation.ports[0]), LONG) as stranger:
            answer = talk(stranger, content)
            assert b"MPFX" not in answer
            assert b"mpfedxgb" not in answer
        silent = socket.create_connection(("127.0.0.1", federation.ports[0]), LONG)
        silent.sendall(content[:20])  # and does not leave
        held.append(silent)
    for stranger in held:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # leaves with a reset
        stranger.close()


def talk(stranger: socket.socket, content: bytes) -> bytes:
    """Send something and return what comes back, if anything."""
    stranger.settimeout(0.05)
    try:
        stranger.sendall(content)
        stranger.shutdown(socket.SHUT_WR)
        return stranger.recv(1 << 16)
    except OSError:  # reset, or silence
        return b""


# TLS without the right certificate


def handshakes(federation: Loopback, folder: Path) -> dict[str, ssl.SSLContext]:
    """Return clients that a listening role must not talk to."""
    authority, other = federation.authority, Authority(folder)
    pairs = {
        "no certificate": None,
        "another authority": other.issue("bank"),
        "self-signed": authority.issue("bank", self_signed=True),
        "expired": authority.issue("bank", days=(-3, -1)),
        "not yet valid": authority.issue("bank", days=(1, 3)),
    }
    clients = {}
    for (kind, pair), version in product(pairs.items(), (ssl.TLSVersion.TLSv1_3, ssl.TLSVersion.TLSv1_2)):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.minimum_version = context.maximum_version = version
        context.set_alpn_protocols([ALPN])
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        clients[f"{kind}, {version.name}"] = context
    return clients


TLS_CLIENTS = 10


def test_tls_without_the_right_certificate(besieged: tuple[Loopback, Path]) -> None:
    """The connection ends before anything of ours is read or said, in TLS 1.3 and, always, in TLS 1.2."""
    federation, folder = besieged
    clients = handshakes(federation, folder / "other")
    assert len(clients) == TLS_CLIENTS
    for kind, context in clients.items():
        with (
            socket.create_connection(("127.0.0.1", federation.ports[0]), LONG) as plain,
            pytest.raises((ssl.SSLError, ConnectionError)),
            context.wrap_socket(plain, server_hostname="coordinator") as stranger,
        ):
            hear_the_end(stranger, kind)


def hear_the_end(stranger: ssl.SSLSocket, kind: str) -> None:
    """In TLS 1.3 a client learns of its refusal when it reads for the first time."""
    stranger.sendall(message(Introduction("bank", "test", 1 << 20).content()))
    while stranger.recv(1 << 16):
        pass
    raise ConnectionError(f"{kind}: the listening role hung up")


# Certificates of the federation in the wrong hands


def callers(federation: Loopback, folder: Path) -> dict[str, tuple[dict[str, Any], str]]:
    """Return what `connect` is called with, and what it must say."""
    authority, other = federation.authority, Authority(folder)

    def identity(*names: str, issuer: Authority = authority, **options: Any) -> dict[str, Any]:
        return {"identity": unchecked("bank", authority.file, issuer.issue(*names, **options))}

    unaccepted = "coordinator at .* does not accept the certificate"
    return {
        "another role's": (identity("telecom"), "says that it is 'bank', but its certificate is for 'telecom'"),
        "the coordinator's own": (identity("coordinator"), "but its certificate is for 'coordinator'"),
        "a stranger's": (identity("mallory"), "which is no role of this federation"),
        "nobody's": (identity(common_name="bank"), "the certificate is for nobody"),
        "two roles'": (identity("bank", "telecom"), "a certificate is for one role only"),
        "everybody's": (identity("*"), "which is no role of this federation"),
        "in capitals": (identity("BANK"), "which is no role of this federation"),
        "with a dot": (identity("bank.example.org"), "which is no role of this federation"),
        "another authority's": (identity("bank", issuer=other), unaccepted),
        "self-signed": (identity("bank", self_signed=True), unaccepted),
        "old": (identity("bank", days=(-3, -1)), unaccepted),
        "early": (identity("bank", days=(1, 3)), unaccepted),
        "of another federation": ({"federation": "other"}, "bank and coordinator are not in the same federation"),
        "of an empty federation": ({"federation": ""}, "bank and coordinator are not in the same federation"),
    }


CALLERS = 14


def test_callers_with_wrong_certificates(besieged: tuple[Loopback, Path]) -> None:
    """Each is told why, by name, long before its time is over."""
    federation, folder = besieged
    cases = callers(federation, folder / "other")
    assert len(cases) == CALLERS
    for kind, (changes, words) in cases.items():
        began, factor = time.monotonic(), slowdown()
        with pytest.raises(HandshakeError, match=words) as caught:
            federation.connect(1, peers=[0], timeout=60.0 * factor, **changes)
        assert time.monotonic() - began < QUICK * factor, kind
        assert exit_code(caught.value) is ExitCode.REFUSED


INTRODUCTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "no version": ({"wire": None}, "speaks wire version None"),
    "an old version": ({"wire": 1}, "speaks wire version 1"),
    "a new version": ({"wire": 99}, "speaks wire version 99"),
    "a long version": ({"wire": "9" * 3000}, "speaks wire version 9999"),
    "no role": ({"name": None}, "says that it is 'None'"),
    "another role": ({"name": "telecom"}, "says that it is 'telecom'"),
    "a long role": ({"name": "bank" * 500}, "says that it is 'bankbank"),
    "a role of many parts": ({"name": ["bank"] * 500}, "says that it is "),
    "no federation": ({"federation": None}, "not in the same federation"),
    "another federation": ({"federation": "\x00"}, "not in the same federation"),
    "no window": ({"window": None}, "does not say how much room"),
    "an empty window": ({"window": ""}, "does not say how much room"),
    "no room": ({"window": 0}, "does not say how much room"),
    "negative room": ({"window": -5}, "does not say how much room"),
    "endless room": ({"window": 10**40}, "does not say how much room"),
    "room in words": ({"window": "much"}, "does not say how much room"),
}


def test_introductions_that_are_none(besieged: tuple[Loopback, Path]) -> None:
    """With a good certificate too: who introduces itself wrongly is refused in words, before anything else is read."""
    federation, _ = besieged
    good = Introduction("bank", "test", 1 << 20).content()
    for changes, words in INTRODUCTIONS.values():
        with by_hand(federation) as bank:
            bank.say({**good, **changes})
            answer = bank.hear()
            assert words in answer["refused"]
            assert len(answer["refused"]) < 500
            assert bank.hear_the_end() == b""


# Messages of a connected role


MESSAGES: dict[str, bytes] = {
    **{f"{size} random bytes": noise(size) for size in (20, 100, 3000)},
    "a part that does not go on": HEADER.pack(PART, PIECE_BYTES + 4, 0) + bytes(PIECE_BYTES) + HEADER.pack(PART, 5, 0),
    "taken what was not sent": HEADER.pack(ROOM, 0, 1 << 30),
    "a frame without its wrapping": encode(Kind.HELLO, 1, bytes(16), 1, "handshake", []),
}


def test_messages_that_are_none(tmp_path: Path) -> None:
    """A connected role that sends something else than pieces of blocks is cut off, by name; the other side goes on."""
    with loopback(tmp_path, roles=3) as federation:
        for content in MESSAGES.values():
            coordinator = federation.call(0, peers=[1])
            federation.wait_for_port()
            with by_hand(federation) as bank:
                assert "admitted" in bank.introduce()
                end = coordinator.result()
                bank.write(content)
                with refused(FederationError, "damaged", "bank") as caught:
                    end.receive(1, LONG)
                assert type(caught.value) is not FederationError
            end.close()


# Frames of a role that took part in the handshake


def program(party: Party) -> list[int] | None:
    """Everything that roles say to each other: shares, products, public numbers, announcements, a reveal."""
    x = share(party, 1, VECTOR, (3,), RingArray.encode(VECTOR, [2, 2, 2]))
    y = share(party, 2, VECTOR, (3,), RingArray.encode(VECTOR, [3, 3, 3]))
    party.tell_everyone(unlisted("sizes"), None if party.is_coordinator else [3])
    party.broadcast(unlisted("kind"), [1])
    for _ in range(2):
        x = multiply(party, x, y)
        party.announce(unlisted("owners"), [1, 2])
    shown = reveal(party, x, ALL, unlisted("x"))
    party.tell_everyone(unlisted("end"), None if party.is_coordinator else [1])
    return None if party.is_coordinator else shown.decode().tolist()


def changed(**changes: Any) -> Callable[[Frame], bytes | None]:
    """Return what writes a frame with something else in it."""

    def write(frame: Frame) -> bytes:
        other = replace(frame, **{k: v(frame) if callable(v) else v for k, v in changes.items()})
        return encode(other.kind, other.sender, other.session, other.step, other.label, other.arrays)

    return write


def whole(frame: Frame) -> bytes:
    """Return a frame as it was."""
    return encode(frame.kind, frame.sender, frame.session, frame.step, frame.label, frame.arrays)


def with_byte(place: int, value: int) -> Callable[[Frame], bytes | None]:
    """Return what writes a frame with another byte in its header."""
    return lambda frame: whole(frame)[:place] + bytes([value]) + whole(frame)[place + 1 :]


GARBLED: dict[str, Callable[[Frame], bytes | None]] = {
    "empty": lambda f: b"",
    "one byte": lambda f: whole(f)[:1],
    "half": lambda f: whole(f)[: len(whole(f)) // 2],
    "without its end": lambda f: whole(f)[:-1],
    "with something more": lambda f: whole(f) + b"\0",
    "random": lambda f: noise(len(whole(f))),
    "another magic": with_byte(0, 0),
    "another version": with_byte(4, 77),
    "another kind": with_byte(5, 99),
    "data or hello": changed(kind=lambda f: Kind.HELLO if f.kind is Kind.DATA else Kind.DATA),
    "an abort": changed(kind=Kind.ABORT),
    "another sender": changed(sender=lambda f: f.sender + 1),
    "another session": changed(session=bytes(16)),
    "a later step": changed(step=lambda f: f.step + 1),
    "another label": changed(label="lift"),
    "no arrays": changed(arrays=()),
    "an array more": changed(arrays=lambda f: (*f.arrays, np.zeros(1, np.uint8))),
    "other numbers": changed(arrays=lambda f: tuple(np.zeros(a.shape, _other(a.dtype)) for a in f.arrays)),
    "an axis more": changed(arrays=lambda f: tuple(a[None] for a in f.arrays)),
    "more elements": changed(arrays=lambda f: tuple(np.concatenate([a, a]) for a in f.arrays)),
    "too large": changed(arrays=(np.zeros(1 << 17, np.uint8),)),
    "missing": lambda f: None,
}


def _other(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.uint64 if dtype == np.uint8 else np.uint8)


PLACES = ((0, 0), (0, 3), (1, 1), (1, 7), (2, 1), (2, 3))
"""Who garbles which of its frames: greetings, seeds, agreements, corrections, shares, announcements."""

UNNOTICED = {("an axis more", 0, 0), ("an axis more", 1, 1), ("an axis more", 2, 1)}
"""Greetings are bytes, in whatever shape."""


class Garbling:
    """A transport that sends one block in another form."""

    def __init__(self, inner: Transport, place: int, garble: Callable[[Frame], bytes | None]) -> None:
        self._inner, self._place, self._garble, self._sent = inner, place, garble, 0
        self.receive, self.close = inner.receive, inner.close

    def send(self, peer: int, block: Block, timeout: float) -> None:
        """Send a block, or what was made of it."""
        self._sent += 1
        if self._sent - 1 == self._place:
            other = self._garble(decode(block, len(block)))
            if other is None:
                return
            block = other
        self._inner.send(peer, block, timeout)


def run_garbled(
    role: int, place: int, garble: Callable[[Frame], bytes | None], deadline: float = DEADLINE
) -> list[Outcome[Any]]:
    """Run all roles, one of which garbles one frame; return how each of them ended."""
    roster = Roster.numbered(2)
    hub = MemoryHub(roster.links(), 1 << 24)
    settings = SessionSettings(deadline=deadline, max_frame_bytes=1 << 16)

    def run(r: int) -> Outcome[Any]:
        end: Transport = hub.end(r)
        return run_role(program, (), Garbling(end, place, garble) if r == role else end, roster, r, settings)

    return [call.result() for call in [Call(run, r) for r in roster.roles]]


def test_the_program_of_these_tests_works() -> None:
    """Nothing garbled, nothing wrong; and the places are of frames that are sent."""
    kernels.warm_up()
    seen: set[tuple[int, int]] = set()

    def note(role: int, place: int) -> Callable[[Frame], bytes | None]:
        def write(frame: Frame) -> bytes:
            seen.add((role, place))
            return whole(frame)

        return write

    for role, place in PLACES:
        outcomes = run_garbled(role, place, note(role, place))
        assert [outcome.result for outcome in outcomes] == [None, [18] * 3, [18] * 3]
        assert [outcome.error for outcome in outcomes] == [None] * 3
    assert seen == set(PLACES)


@pytest.mark.parametrize("kind", GARBLED)
def test_garbled_frames(kind: str) -> None:
    """Of any role, at any point: all end in time, with errors that have names; nobody goes on with what it got."""
    kernels.warm_up()
    for role, place in PLACES:
        began, factor = time.monotonic(), slowdown()
        outcomes = run_garbled(role, place, GARBLED[kind], IMPATIENT if kind == "missing" else DEADLINE * factor)
        assert time.monotonic() - began < QUICK * factor
        if (kind, role, place) in UNNOTICED:
            assert [outcome.error for outcome in outcomes] == [None] * 3
            continue
        for outcome in outcomes:
            assert isinstance(outcome.error, MpfedxgbError), (kind, role, place, outcome.error)
            assert exit_code(outcome.error) in (
                ExitCode.GARBLED,
                ExitCode.REFUSED,
                ExitCode.PEER_FAILED,
                ExitCode.PEER_LOST,
            )
            assert outcome.result is None
            assert len(str(outcome.error)) < 3000


# Settings files


def settings_files() -> Iterator[tuple[str, str, str]]:
    """Yield a name, the text of a file, and a word that the message must have."""
    for role in ROLES:
        content = full(role)
        for table in content:
            yield f"{role} [{table}] is no table", to_toml({**content, table: Raw("7")}), table
            yield f"{role} [{table}] has an unknown key", to_toml(_with(content, table, "colour", "red")), "colour"
        for table, key in (("role", "name"), ("network", "deadline"), ("training", "max_depth"), ("log", "level")):
            yield f"{role} [{table}] {key} is a list", to_toml(_with(content, table, key, [1, "x"])), key
            yield f"{role} [{table}] {key} is negative", to_toml(_with(content, table, key, -3)), key
            yield f"{role} [{table}] {key} is long", to_toml(_with(content, table, key, "x" * 5000)), key
    good = to_toml(full("bank"))
    yield "no TOML", "this is no TOML\n", "TOML"
    yield "half a file", good[: len(good) // 2] + '\nx = "', "TOML"
    yield "empty", "", "federation"
    yield "a table twice", good + "\n[role]\nname = 'bank'\n", "TOML"
    yield "another table", good + "\n[rôle]\nname = 'bank'\n", "TOML"
    yield "unknown table", good + "\n[wires]\nlisten = ''\n", "wires"
    yield "nested deep", "x = " + "[" * 3000 + "]" * 3000, "TOML"


def _with(content: Content, table: str, key: str, value: Any) -> Content:
    changed_content = copy.deepcopy(content)
    changed_content[table][key] = value
    return changed_content


FILES = list(settings_files())


def test_settings_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is refused with one clear line that names what is wrong, and the code for it; nothing is written."""
    shell = Shell(monkeypatch, capsys)
    path = tmp_path / "role.toml"
    for name, text, word in FILES:
        path.write_text(text, encoding="utf-8")
        command = ["coordinator", path] if name.startswith("coordinator") else ["participant", path, "--train"]
        assert shell.run(*command) == ExitCode.USER, name
        assert shell.err.startswith("mpfedxgb: "), name
        assert len(shell.err.strip().splitlines()) == 1, name
        assert word in shell.err, (name, shell.err)
        assert "Traceback" not in shell.err
        assert len(shell.err) < 2000
        assert [p.name for p in tmp_path.iterdir()] == ["role.toml"], name
    for bad in (tmp_path / "nothing.toml", tmp_path):
        assert shell.run("coordinator", bad) == ExitCode.USER
        assert shell.err.startswith("mpfedxgb: ")
    path.write_bytes(b"\xff\xfe\x00role")
    assert shell.run("coordinator", path) == ExitCode.USER


def test_there_are_two_hundred() -> None:
    """All that this file sends, counted."""
    frames = len(GARBLED) * len(PLACES) - len(UNNOTICED)
    connections = 2 * len(ON_THE_WIRE) + TLS_CLIENTS + CALLERS + len(INTRODUCTIONS) + 1 + len(MESSAGES)
    assert (connections > 100, frames > 100, len(FILES) > 60) == (True, True, True), (connections, frames, len(FILES))
    assert connections + frames + len(FILES) >= 200
