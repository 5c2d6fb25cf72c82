"""The in-process transport passes the contract; and what only it has."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from contracts.communicator_contract import CommunicatorContract
from contracts.transport_contract import LONG, SHORT, Link, TransportContract
from mpfedxgb.errors import FederationError, PeerTimeoutError
from mpfedxgb.transport import MemoryHub, Transport


def connect(links: Sequence[Link], capacity: int) -> dict[int, Transport]:
    """Return the ends of a hub."""
    hub = MemoryHub(links, capacity)
    return {role: hub.end(role) for link in links for role in link}


class TestMemoryTransport(TransportContract):
    """Bytes over queues in this process."""

    def make(self, links: Sequence[Link], capacity: int) -> dict[int, Transport]:
        """Connect the roles."""
        return connect(links, capacity)


class TestPostOverMemory(CommunicatorContract):
    """Frames over queues in this process."""

    def make(self, links: Sequence[Link], capacity: int) -> dict[int, Transport]:
        """Connect the roles."""
        return connect(links, capacity)


def test_the_capacity_is_exact() -> None:
    """Blocks fit up to the last byte; the next one, though tiny, has to wait until there is room."""
    hub = MemoryHub([(0, 1)], capacity=100)
    sender, receiver = hub.end(0), hub.end(1)
    sender.send(1, bytes(60), SHORT)
    sender.send(1, bytes(40), SHORT)
    with pytest.raises(PeerTimeoutError):
        sender.send(1, b"x", SHORT)
    assert receiver.receive(0, LONG) == bytes(60)
    sender.send(1, b"x", SHORT)
    assert [receiver.receive(0, LONG) for _ in range(2)] == [bytes(40), b"x"]


def test_the_tap_sees_every_block() -> None:
    """Sender, receiver and block, in the order of sending; blocks to strangers are not seen."""
    seen: list[tuple[int, int, bytes]] = []
    hub = MemoryHub([(0, 1), (1, 2)], 1 << 20, tap=lambda *what: seen.append(what))
    hub.end(0).send(1, b"a", LONG)
    hub.end(1).send(2, b"b", LONG)
    hub.end(1).send(0, b"c", LONG)
    with pytest.raises(FederationError):
        hub.end(0).send(2, b"d", LONG)
    assert seen == [(0, 1, b"a"), (1, 2, b"b"), (1, 0, b"c")]


def test_errors_name_the_roles() -> None:
    """Timeouts and missing connections say which role is meant."""
    hub = MemoryHub([(0, 1)], 100)
    with pytest.raises(PeerTimeoutError, match=r"role 1 did not answer for 0 seconds"):
        hub.end(0).receive(1, 0)
    with pytest.raises(FederationError, match="roles 0 and 3 are not connected"):
        hub.end(0).send(3, b"", LONG)
