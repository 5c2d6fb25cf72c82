"""The in-process transport passes the contract; and what only it has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from contracts.communicator_contract import CommunicatorContract
from contracts.transport_contract import LONG, SHORT, Link, TransportContract
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FederationError, PeerTimeoutError
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.roster import Roster
from mpfedxgb.transport import Kind, MemoryHub, Transport, encode
from mpfedxgb.transport.frame import copied, give_up
from support.refusals import refused


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


@pytest.mark.parametrize("is_watched", [False, True])
def test_what_was_sent_is_the_receivers_own(is_watched: bool) -> None:
    """The sender's later changes are not seen, and no receiver changes another's; watched or not, sizes agree."""
    seen: list[bytes] = []
    hub = MemoryHub([(0, 1), (1, 2)], 1 << 20, (lambda *what: seen.append(what[2])) if is_watched else None)
    roster, settings = Roster.numbered(2), SessionSettings()
    zero, one, two = (Communicator(hub.end(role), roster, role, settings, Meter()) for role in roster.roles)
    table = np.arange(12, dtype=np.uint64).reshape(3, 4)
    sent = [table[:, ::2], np.zeros((0, 5), np.int64)]

    one.send([0, 2], sent)
    table[:] = 0

    length = len(encode(Kind.DATA, 1, bytes(16), 0, one.label, sent))
    for receiver in (zero, two):
        first, second = receiver.receive(1)
        assert first.tolist() == [[0, 2], [4, 6], [8, 10]]
        assert (second.dtype, second.shape) == (np.dtype(np.int64), (0, 5))
        assert not first.flags.writeable
        assert receiver.meter.now.bytes_received == first.nbytes
    assert list(one.meter.now.wire_sent.values()) == [length] * 2
    assert [len(block) for block in seen] == [length] * 2 * is_watched


def test_what_nobody_can_change_is_not_copied() -> None:
    """What a sender has given up is handed over as it is, and passed on; a part of something else is copied."""
    hub = MemoryHub([(0, 1), (1, 2)], 1 << 20)
    roster, settings = Roster.numbered(2), SessionSettings()
    zero, one, two = (Communicator(hub.end(role), roster, role, settings, Meter()) for role in roster.roles)
    table, changed = np.arange(12, dtype=np.uint64), np.arange(8, dtype=np.uint64)
    part = changed[:4]
    part.setflags(write=False)

    zero.send([1], [give_up(table.reshape(3, 4)), part])
    whole, copy = one.receive(0)
    one.send([2], [whole, copy])
    changed[:] = 0

    assert np.shares_memory(whole, table)
    with pytest.raises(ValueError, match="read-only"):
        table[0] = 1
    assert copy.tolist() == [0, 1, 2, 3]
    assert [a is b for a, b in zip(two.receive(1), (whole, copy), strict=True)] == [True, True]


def test_a_frame_is_read_as_bytes_too() -> None:
    """Who asks for a block gets the bytes of the frame that was handed over, and its length counts for the capacity."""
    hub = MemoryHub([(0, 1)], capacity=200)
    frame = copied(Kind.DATA, 0, bytes(16), 3, "step", [np.arange(5, dtype=np.uint8)])

    hub.end(0).send(1, frame, SHORT)
    with pytest.raises(PeerTimeoutError):
        hub.end(0).send(1, bytes(201 - frame.wire_bytes), SHORT)

    block = hub.end(1).receive(0, LONG)
    assert len(block) == frame.wire_bytes
    assert block == encode(Kind.DATA, 0, bytes(16), 3, "step", [np.arange(5, dtype=np.uint8)])


def test_errors_name_the_roles() -> None:
    """Timeouts and missing connections say which role is meant."""
    hub = MemoryHub([(0, 1)], 100)
    with refused(PeerTimeoutError, "late", "1", 0):
        hub.end(0).receive(1, 0)
    with refused(FederationError, "place", "3"):
        hub.end(0).send(3, b"", LONG)
