"""The TLS transport passes the contract, over real TLS on loopback; and what only it has."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

import faults
import mpfedxgb.transport.tls.transport
from contracts.communicator_contract import CommunicatorContract
from contracts.transport_contract import LONG, SHORT, Call, Link, TransportContract
from mpfedxgb.errors import FederationError, FrameError, PeerFinishedError, PeerTimeoutError
from mpfedxgb.transport import Transport
from mpfedxgb.transport.certificates import Authority as TrialAuthority
from mpfedxgb.transport.tls import TlsTransport
from mpfedxgb.transport.transport import Address
from patience import patience
from relay import FAULTS, Fault, Relay
from support.loopback import Loopback, loopback, run_program
from support.refusals import refused


@pytest.fixture(scope="module")
def federation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loopback]:
    """Return one federation for all tests of this file; they close what they open."""
    with loopback(tmp_path_factory.mktemp("pki")) as made:
        yield made


class OverTls:
    """How the contracts connect roles."""

    federation: Loopback

    @pytest.fixture(autouse=True)
    def _use(self, federation: Loopback) -> None:
        self.federation = federation

    def make(self, links: Sequence[Link], capacity: int) -> dict[int, Transport]:
        """Connect the roles."""
        return self.federation.form(links, capacity=capacity)


class TestTlsTransport(OverTls, TransportContract):
    """Bytes over mutual TLS."""


class TestPostOverTls(OverTls, CommunicatorContract):
    """Frames over mutual TLS."""


@pytest.fixture
def pair(federation: Loopback) -> Iterator[tuple[TlsTransport, TlsTransport]]:
    """Return a coordinator and an active participant that are connected."""
    ends = federation.form([(0, 1)])
    try:
        yield ends[0], ends[1]  # type: ignore[misc] # they are of this transport
    finally:
        for end in ends.values():
            end.close()


def test_the_star_of_a_federation(federation: Loopback) -> None:
    """By default everybody is connected to the coordinator and to the active participant, and to nobody else."""
    calls = [federation.call(role) for role in range(4)]
    ends = [call.result() for call in calls]
    for role, end in enumerate(ends):
        for peer in range(4):
            if peer == role or min(peer, role) > 1:
                with pytest.raises(FederationError, match=f"roles {role} and {peer} are not connected"):
                    end.send(peer, b"x", LONG)
            else:
                end.send(peer, bytes([role, peer]), LONG)
    for role, end in enumerate(ends):
        for peer in range(4):
            if peer != role and min(peer, role) <= 1:
                assert end.receive(peer, LONG) == bytes([peer, role])
    for end in ends:
        end.close()


def test_roles_may_come_in_any_order(federation: Loopback) -> None:
    """Who comes early waits for who comes late, listening or dialling."""
    early = [federation.call(role) for role in (3, 2, 1)]
    time.sleep(SHORT)
    assert all(call.waits for call in early)
    early.append(federation.call(0))
    for end in [call.result() for call in early]:
        end.close()


def test_closing_frees_port_and_threads(federation: Loopback) -> None:
    """A role may connect again at once, as often as it likes, and leaves nothing behind."""
    before = set(threading.enumerate())
    for _ in range(4):
        ends = federation.form([(0, 1), (0, 2), (1, 2)])
        ends[2].send(0, bytes(100), LONG)
        for role in (1, 0, 2):
            ends[role].close()
    gone_by = time.monotonic() + LONG
    while (left := set(threading.enumerate()) - before) and time.monotonic() < gone_by:
        time.sleep(0.01)
    assert not left


@pytest.mark.parametrize("limits", [{"LINGER": SHORT}, {"LINGER": LONG, "LINGER_IN_ALL": SHORT, "SLOWEST": 1 << 30}])
def test_closing_does_not_wait_long_for_nobody(
    federation: Loopback,
    pair: tuple[TlsTransport, TlsTransport],
    monkeypatch: pytest.MonkeyPatch,
    limits: dict[str, float],
) -> None:
    """A peer that reads nothing, not even underneath, is waited for a bounded time; one that trickles, in all."""
    for name, limit in limits.items():
        monkeypatch.setattr(mpfedxgb.transport.tls.transport, name, limit)
    monkeypatch.setattr(pair[0]._stream_to(1), "_read", lambda: False)
    for _ in range(40):
        pair[1].send(0, bytes(1 << 20), LONG)
    began = time.monotonic()
    Call(pair[1].close).result()
    assert time.monotonic() - began < LONG / 2


def test_blocks_above_the_limit(federation: Loopback) -> None:
    """The sender's limit stops the sender; the receiver's is an error of the frame, and ends the connection."""
    calls = [federation.call(0, peers=[1], max_block=3 << 20), federation.call(1, peers=[0], max_block=5 << 20)]
    coordinator, bank = (call.result() for call in calls)
    with refused(FrameError, "range", "block", 3145729):
        coordinator.send(1, bytes((3 << 20) + 1), LONG)
    bank.send(0, b"before", LONG)
    bank.send(0, bytes(3 << 20), LONG)
    bank.send(0, bytes((3 << 20) + 1), LONG)
    assert coordinator.receive(1, LONG) == b"before"
    assert coordinator.receive(1, LONG) == bytes(3 << 20)
    for _ in range(2):
        with refused(FrameError, "range", "bank", "block"):
            coordinator.receive(1, LONG)
    with refused(PeerFinishedError, "ended", "coordinator"):
        bank.receive(0, LONG)
    coordinator.close()
    bank.close()


def test_the_smaller_capacity_counts(federation: Loopback) -> None:
    """A sender with much room keeps to what its receiver has."""
    calls = [federation.call(0, peers=[1], capacity=5000), federation.call(1, peers=[0])]
    coordinator, bank = (call.result() for call in calls)
    for end, peer in ((bank, 0), (coordinator, 1)):
        end.send(peer, bytes(4900), SHORT)
        with pytest.raises(PeerTimeoutError, match=r"took nothing for 0\.2 seconds"):
            end.send(peer, b"", SHORT)
    coordinator.close()
    bank.close()


# Other processes

BANK = """
from mpfedxgb.transport.certificates import Authority as TrialAuthority
from mpfedxgb.transport.tls import connect
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.transport import parse_address
from mpfedxgb.transport.transports import ConnectionSettings
role, silence, name, ca, certificate, key, here, there = sys.argv[1:]
identity = Identity.load(name, Path(ca), Path(certificate), Path(key))
places, numbers = (parse_address(here), {0: parse_address(there)}), (20, 1 << 26, 1 << 26, float(silence))
settings = ConnectionSettings(int(role), ("coordinator", "bank"), "test", *places, None, *numbers)
end = connect(settings, identity)
end.send(1 - int(role), b"here", 20)
print("connected", flush=True)
while True:
    end.send(1 - int(role), end.receive(1 - int(role), 1000), 20)
"""


@contextmanager
def other_process(federation: Loopback, role: int, silence: float = LONG) -> Iterator[subprocess.Popen[str]]:
    """Run one of two roles as a process that says "here", and then the same as the other one, for ever."""
    identity = federation.identity(federation.names[role])
    files = (identity.ca_file, identity.certificate_file, identity.key_file)
    addresses = (f"127.0.0.1:{port}" for port in federation.ports[1::-1])
    process = run_program(BANK, role, silence, identity.name, *files, *addresses)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Loopback]:
    """Return a federation of two, with ports of its own."""
    with loopback(tmp_path, roles=2) as made:
        yield made


def test_a_peer_that_is_killed_is_noticed(two: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it said arrives; then it is finished, at once, for whoever receives or sends; nobody lingers for it."""
    monkeypatch.setattr(mpfedxgb.transport.tls.transport, "LINGER", LONG)
    with other_process(two, 1) as bank:
        end = two.connect(0)
        assert end.receive(1, LONG) == b"here"
        receiver = Call(end.receive, 1, 10 * LONG)
        bank.send_signal(signal.SIGKILL)
        with pytest.raises(PeerFinishedError, match="connection to bank was lost"):
            receiver.result()
        with pytest.raises(PeerFinishedError):
            end.send(1, b"x", LONG)
        began = time.monotonic()
        end.close()
        assert time.monotonic() - began < LONG / 2


def test_a_killed_listener_is_noticed_and_may_come_back(two: Loopback) -> None:
    """The dialling side notices too, and meets the new process at the same address."""
    two.ports = [two.ports[0]] * 2  # the other process listens where the coordinator is looked for
    with other_process(two, 0) as coordinator:
        end = two.connect(1)
        assert end.receive(0, LONG) == b"here"
        coordinator.send_signal(signal.SIGKILL)
        with refused(PeerFinishedError, "ended", "coordinator"):
            end.receive(0, LONG)
        end.close()
    with other_process(two, 0):
        end = two.connect(1)
        assert end.receive(0, LONG) == b"here"
        end.close()


@pytest.mark.parametrize("frozen", [1, 0], ids=["caller", "listener"])
def test_a_paused_peer_is_lost_after_the_silence_that_the_settings_allow(two: Loopback, frozen: int) -> None:
    """Asked three times in that time, it may miss two answers: a pause is survived, on either side, a longer one not.

    The paused role itself asks as often, and finds after its pause that it got no answer in time to its own questions.
    """
    silence = patience(2.0)
    two.ports = [two.ports[0]] * 2  # whichever process listens, the other one finds it there
    with other_process(two, frozen, silence) as peer:
        end = two.connect(1 - frozen, silence=silence)
        assert end.receive(frozen, LONG) == b"here"
        peer.send_signal(signal.SIGSTOP)
        time.sleep(0.6 * silence)
        peer.send_signal(signal.SIGCONT)
        time.sleep(0.4 * silence)
        end.send(frozen, b"still there?", LONG)
        assert end.receive(frozen, LONG) == b"still there?"
        peer.send_signal(signal.SIGSTOP)
        with pytest.raises(PeerFinishedError, match=r"connection to .* was lost"):
            Call(end.receive, frozen, 10 * LONG).result()
        end.close()


def test_roles_may_allow_different_silences(two: Loopback) -> None:
    """The one that asks every third of a second is not cut off for it by the one that asks every twenty seconds."""
    silence = patience(1.0)
    with other_process(two, 1, 600.0):
        end = two.connect(0, silence=silence)
        assert end.receive(1, LONG) == b"here"
        time.sleep(2.5 * silence)  # many questions, and none of them a nuisance
        end.send(1, b"still there?", LONG)
        assert end.receive(1, LONG) == b"still there?"
        end.close()


def test_an_idle_connection_survives_a_middlebox_that_forgets(two: Loopback) -> None:
    """It forgets after a second without a byte; roles ask every 0.2 seconds, and are still connected after three."""
    with Relay({0: two.ports[0]}, 0.0, forgets=patience(1.0)) as relay:
        through = {0: Address("127.0.0.1", relay.ports[0])}
        coordinator = two.call(0, silence=patience(0.6))
        bank = two.connect(1, listen=None, addresses=through, silence=LONG)
        end = coordinator.result()
        time.sleep(3 * patience(1.0))
        bank.send(0, b"still here", LONG)
        assert end.receive(1, LONG) == b"still here"
        for one in (bank, end):
            one.close()


@pytest.mark.parametrize("kind", FAULTS)
def test_a_faulty_network(kind: str, tmp_path: Path) -> None:
    """Nothing wrong arrives and nobody waits for ever, whatever happens in the middle of a talk."""
    authority = TrialAuthority.create(tmp_path, "faults")
    for name in faults.NAMES:
        authority.issue(tmp_path / name, name)
    assert faults.run(tmp_path, Fault(kind, 1_000_000)) == ""


LEAVER = """
import atexit, threading
ours = ("-admits", "dials-", "helps-")
names = lambda: [t.name for t in threading.enumerate() if any(our in t.name for our in ours)]
atexit.register(lambda: (waiting.join(10), print(names(), flush=True)))
from mpfedxgb.transport.certificates import Authority as TrialAuthority
from mpfedxgb.transport.tls import connect
from mpfedxgb.transport.tls.identity import Identity
from mpfedxgb.transport.transport import parse_address
from mpfedxgb.transport.transports import ConnectionSettings
ca, certificate, key, here, there = sys.argv[1:]
identity = Identity.load("bank", Path(ca), Path(certificate), Path(key))
places, roles = (parse_address(here), {0: parse_address(there)}), ("coordinator", "bank", "telecom")
settings = ConnectionSettings(1, roles, "test", *places, None, 60, 1 << 20, 1 << 20, 60)
def wait():
    try:
        connect(settings, identity)
    except Exception as error:
        print(error, flush=True)
waiting = threading.Thread(target=wait, daemon=True)
waiting.start()
print("waits", flush=True)
sys.stdin.readline()
sys.exit(7)
"""


def test_a_process_ends_without_threads_of_the_transport(federation: Loopback) -> None:
    """One that ends while it listens and dials closes both first: with its own exit code, no thread of theirs."""
    identity = federation.identity("bank")
    files = (identity.ca_file, identity.certificate_file, identity.key_file)
    addresses = (f"127.0.0.1:{port}" for port in federation.ports[1::-1])
    process = run_program(LEAVER, *files, *addresses, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "waits\n"
        federation.wait_for_port(1)
        out, err = process.communicate("go\n", timeout=3 * LONG)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 7, err
    assert out == "this process ends\n[]\n"
