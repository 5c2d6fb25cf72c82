"""What every transport must pass: order, whole blocks, deadlines, back-pressure, ends that close.

A transport's test file subclasses `TransportContract` and overrides `make`:

    class TestMyTransport(TransportContract):
        def make(self, links, capacity): ...

and likewise `CommunicatorContract` (communicator_contract.py), the same for frames between communicators.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.errors import FederationError, PeerFinishedError, PeerTimeoutError
from mpfedxgb.party import Roster
from mpfedxgb.transport import Transport
from mpfedxgb.transport.transport import Block
from patience import patience

Link = tuple[int, int]

SHORT = 0.2
"""A deadline that is meant to pass, in seconds."""

LONG = 60.0
"""A deadline that only a broken transport reaches."""

ROOM = 1 << 26
"""A capacity that no test fills unless it says so."""


class Call:
    """A call in a thread of its own, so that one that never returns fails a test instead of hanging it."""

    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._result: Any = None
        self._error: BaseException | None = None

        def run() -> None:
            try:
                self._result = function(*arguments)
            except BaseException as error:
                self._error = error

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    @property
    def waits(self) -> bool:
        """Whether the call has not returned yet."""
        return self._thread.is_alive()

    def result(self) -> Any:
        """Return what the call returned, or raise what it raised."""
        self._thread.join(patience(LONG))
        assert not self._thread.is_alive(), "the call did not return"
        if self._error is not None:
            raise self._error
        return self._result


def block(number: int, size: int = 100) -> bytes:
    """Return bytes that tell their number and place."""
    return (hashlib.sha256(str(number).encode()).digest() * (size // 32 + 1))[:size]


def send_all(end: Transport, peer: int, blocks: Sequence[bytes]) -> None:
    """Send blocks one after the other."""
    for content in blocks:
        end.send(peer, content, LONG)


def receive_all(end: Transport, peer: int, count: int) -> list[Block]:
    """Receive so many blocks."""
    return [end.receive(peer, LONG) for _ in range(count)]


class Connected:
    """What the contracts have in common: how to connect some roles."""

    def make(self, links: Sequence[Link], capacity: int) -> dict[int, Transport]:
        """Return one end per role, connected by `links`, with about `capacity` bytes of room per receiver."""
        raise NotImplementedError

    @contextmanager
    def ends(self, links: Sequence[Link] = ((0, 1),), capacity: int = ROOM) -> Iterator[dict[int, Transport]]:
        """Make ends for a test and close them after it."""
        made = self.make(links, capacity)
        try:
            yield made
        finally:
            for end in made.values():
                end.close()


class TransportContract(Connected):
    """Bytes between roles."""

    # A mesh

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    def test_everybody_talks_to_its_neighbours(self, topology: str) -> None:
        """All links of a star and of a mesh carry blocks both ways, each to the right one; nobody else is connected."""
        roster = Roster.numbered(3)
        with self.ends(list(roster.links(topology))) as ends:
            for role in roster.roles:
                for peer in roster.neighbours(role, topology):
                    ends[role].send(peer, block(10 * role + peer), LONG)
            for role in roster.roles:
                for peer in roster.neighbours(role, topology):
                    assert ends[role].receive(peer, LONG) == block(10 * peer + role)
                for stranger in set(roster.roles) - {role, *roster.neighbours(role, topology)}:
                    with pytest.raises(FederationError, match="are not connected"):
                        ends[role].send(stranger, b"", LONG)

    # Order and size

    def test_blocks_arrive_whole_and_in_order(self) -> None:
        """Blocks of all sizes, empty ones among them, arrive as they were sent."""
        blocks = [block(n, size) for n, size in enumerate([1, 0, 100, 65536, 0, 0, 3, 100_001, 7] * 5)]
        with self.ends() as ends:
            sender = Call(send_all, ends[0], 1, blocks)
            assert receive_all(ends[1], 0, len(blocks)) == blocks
            sender.result()

    def test_an_empty_block_is_a_block(self) -> None:
        """It arrives, once."""
        with self.ends() as ends:
            ends[0].send(1, b"", LONG)
            assert ends[1].receive(0, LONG) == b""
            with pytest.raises(PeerTimeoutError):
                ends[1].receive(0, SHORT)

    def test_large_blocks(self) -> None:
        """Some megabytes in one piece."""
        blocks = [block(n, 5_000_000 + n) for n in range(3)]
        with self.ends() as ends:
            sender = Call(send_all, ends[0], 1, blocks)
            assert receive_all(ends[1], 0, 3) == blocks
            sender.result()

    @pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3 << 20])
    def test_blocks_around_the_size_of_a_piece(self, size: int) -> None:
        """A transport that cuts blocks up loses and adds nothing where it cuts."""
        with self.ends() as ends:
            for content in (block(1, size), b"", block(2, size)):
                sender = Call(ends[0].send, 1, content, LONG)
                assert ends[1].receive(0, LONG) == content
                sender.result()

    def test_a_block_larger_than_the_capacity(self) -> None:
        """Back-pressure delays, it does not forbid: a block that alone exceeds the capacity still passes."""
        blocks = [block(n, 200_000) for n in range(4)]
        with self.ends(capacity=1024) as ends:
            sender = Call(send_all, ends[0], 1, blocks)
            assert receive_all(ends[1], 0, 4) == blocks
            sender.result()

    def test_blocks_are_bytes(self) -> None:
        """What arrives is `bytes`, whatever the transport is made of."""
        with self.ends() as ends:
            ends[0].send(1, b"abc", LONG)
            assert type(ends[1].receive(0, LONG)) is bytes

    def test_two_directions_at_once(self) -> None:
        """Both ends send before they receive; neither stands in the other's way."""
        there, back = ([block(n + off, 300_000) for n in range(20)] for off in (0, 100))
        with self.ends() as ends:

            def exchange(role: int, blocks: list[bytes]) -> list[Block]:
                send_all(ends[role], 1 - role, blocks)
                return receive_all(ends[role], 1 - role, len(blocks))

            calls = [Call(exchange, 0, there), Call(exchange, 1, back)]
            assert [call.result() for call in calls] == [back, there]

    def test_several_senders(self) -> None:
        """Each sender's blocks keep their order, and a receiver takes them from whom it asks."""
        sent = {m: [block(1000 * m + n, 1 + 37 * n) for n in range(50)] for m in (1, 2, 3)}
        with self.ends([(0, 1), (0, 2), (0, 3)]) as ends:
            senders = [Call(send_all, ends[m], 0, sent[m]) for m in sent]
            for m in (3, 1, 2):
                assert receive_all(ends[0], m, 50) == sent[m]
            for sender in senders:
                sender.result()

    def test_several_receivers(self) -> None:
        """A receiver gets its own blocks only, and a full one does not hold up the others."""
        with self.ends([(0, 1), (0, 2)], capacity=1 << 16) as ends:
            self._fill(ends[0], 1)
            send_all(ends[0], 2, [block(n) for n in range(20)])
            assert receive_all(ends[2], 0, 20) == [block(n) for n in range(20)]

    # Deadlines

    def test_receive_has_a_deadline(self) -> None:
        """Nothing to receive: an error after the time given, not before; afterwards the connection still works."""
        with self.ends() as ends:
            began = time.monotonic()
            with pytest.raises(PeerTimeoutError):
                Call(ends[1].receive, 0, SHORT).result()
            assert time.monotonic() - began >= 0.9 * SHORT
            ends[0].send(1, b"late", LONG)
            assert ends[1].receive(0, LONG) == b"late"

    def test_receive_without_waiting(self) -> None:
        """A deadline of zero asks what is there."""
        with self.ends() as ends, pytest.raises(PeerTimeoutError):
            Call(ends[1].receive, 0, 0).result()

    def test_receive_wakes_when_a_block_comes(self) -> None:
        """A waiting receiver gets what is sent meanwhile."""
        with self.ends() as ends:
            receiver = Call(ends[1].receive, 0, LONG)
            time.sleep(SHORT)
            assert receiver.waits
            ends[0].send(1, b"here", LONG)
            assert receiver.result() == b"here"

    def test_send_has_a_deadline(self) -> None:
        """A receiver that takes nothing stops the sender in the end; what was taken arrives, what was refused does not.

        The connection still works afterwards.
        """
        with self.ends(capacity=1 << 16) as ends:
            taken = self._fill(ends[0], 1)
            assert receive_all(ends[1], 0, len(taken)) == taken
            ends[0].send(1, b"after", LONG)
            assert ends[1].receive(0, LONG) == b"after"

    def test_send_goes_on_when_there_is_room(self) -> None:
        """A waiting sender is woken by the receiver."""
        with self.ends(capacity=1 << 16) as ends:
            taken = self._fill(ends[0], 1)
            sender = Call(ends[0].send, 1, block(-1, 1 << 15), LONG)
            assert receive_all(ends[1], 0, len(taken) + 1) == [*taken, block(-1, 1 << 15)]
            sender.result()

    @staticmethod
    def _fill(end: Transport, peer: int) -> list[bytes]:
        """Send until the peer's room is full and return what was taken; 64 MB have to be enough."""
        taken: list[bytes] = []
        began = time.monotonic()
        for n in range(2048):
            content = block(n, 1 << 15)
            try:
                began = time.monotonic()
                end.send(peer, content, SHORT)
            except PeerTimeoutError:
                assert time.monotonic() - began >= 0.9 * SHORT
                return taken
            taken.append(content)
        pytest.fail("there is no back-pressure")

    # Ends that close

    def test_what_was_sent_before_closing_arrives(self) -> None:
        """A peer that has closed its end is finished only after its last block."""
        with self.ends() as ends:
            blocks = [block(n, 1000) for n in range(10)]
            send_all(ends[0], 1, blocks)
            ends[0].close()
            assert receive_all(ends[1], 0, 10) == blocks
            for _ in range(2):
                with pytest.raises(PeerFinishedError):
                    Call(ends[1].receive, 0, LONG).result()

    def test_closing_wakes_a_waiting_receiver(self) -> None:
        """Who waits for a peer that ends learns it at once, not at the deadline."""
        with self.ends() as ends:
            receiver = Call(ends[1].receive, 0, 10 * LONG)
            time.sleep(SHORT)
            ends[0].close()
            with pytest.raises(PeerFinishedError):
                receiver.result()

    def test_sending_to_a_closed_peer(self) -> None:
        """It is an error, at the latest after as many blocks as may be on their way."""
        with self.ends(capacity=1 << 16) as ends:
            ends[1].close()

            def insist() -> None:
                for n in range(2048):
                    ends[0].send(1, block(n, 1 << 15), LONG)

            with pytest.raises(PeerFinishedError):
                Call(insist).result()

    def test_closing_wakes_a_waiting_sender(self) -> None:
        """A sender held up by back-pressure learns at once that the receiver has ended."""
        with self.ends(capacity=1 << 16) as ends:
            self._fill(ends[0], 1)
            sender = Call(ends[0].send, 1, block(1, 1 << 15), 10 * LONG)
            time.sleep(SHORT)
            ends[1].close()
            with pytest.raises(PeerFinishedError):
                sender.result()

    def test_closing_while_the_other_side_sends(self) -> None:
        """Blocks that are on their way to an end that closes are in nobody's way, large and small ones."""
        for size in (10, 3_000_000):
            with self.ends() as ends:

                def insist(end: Transport, size: int) -> None:
                    while True:
                        end.send(1, bytes(size), LONG)

                sender = Call(insist, ends[0], size)
                assert ends[1].receive(0, LONG) == bytes(size)
                Call(ends[1].close).result()
                with pytest.raises(PeerFinishedError):
                    sender.result()

    def test_both_ends_close_at_once(self) -> None:
        """Neither waits for the other."""
        for _ in range(5):
            with self.ends() as ends:
                for role in (0, 1):
                    ends[role].send(1 - role, block(role), LONG)
                began = time.monotonic()
                for closing in [Call(ends[role].close) for role in (0, 1)]:
                    closing.result()
                assert time.monotonic() - began < LONG / 5

    def test_closing_wakes_ones_own_calls(self) -> None:
        """`close` ends the waiting calls of its own end with an error, receiving and sending."""
        with self.ends([(0, 1), (0, 2)], capacity=1 << 16) as ends:
            self._fill(ends[0], 1)
            calls = [Call(ends[0].send, 1, block(1, 1 << 15), 10 * LONG), Call(ends[0].receive, 2, 10 * LONG)]
            time.sleep(SHORT)
            assert all(call.waits for call in calls)
            ends[0].close()
            for call in calls:
                with pytest.raises(FederationError):
                    call.result()

    def test_a_closed_end_is_closed(self) -> None:
        """Closing twice does no harm; sending and receiving afterwards are errors."""
        with self.ends() as ends:
            ends[0].close()
            ends[0].close()
            with pytest.raises(FederationError):
                Call(ends[0].send, 1, b"x", LONG).result()
            with pytest.raises(FederationError):
                Call(ends[0].receive, 1, LONG).result()

    def test_closing_one_end_leaves_the_others(self) -> None:
        """Two other roles go on talking."""
        with self.ends([(0, 1), (0, 2), (1, 2)]) as ends:
            ends[0].close()
            ends[1].send(2, b"still", LONG)
            assert ends[2].receive(1, LONG) == b"still"

    def test_an_unknown_peer(self) -> None:
        """A role that there is no connection to is an error, not a wait."""
        with self.ends([(0, 1), (1, 2)]) as ends:
            for stranger in (2, 7):
                with pytest.raises(FederationError, match=str(stranger)):
                    Call(ends[0].send, stranger, b"x", LONG).result()
                with pytest.raises(FederationError, match=str(stranger)):
                    Call(ends[0].receive, stranger, LONG).result()
