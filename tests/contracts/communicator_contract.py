"""What comms must do over every transport: frames in step arrive, all others are errors with names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import LONG, ROOM, SHORT, Call, Connected
from mpfedxgb.config import TOPOLOGIES, SessionSettings
from mpfedxgb.errors import (
    AlienFrameError,
    FrameError,
    OutOfStepError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    UserError,
)
from mpfedxgb.party import ALL, Meter, Party, Roster
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.local import run_role
from mpfedxgb.protocols import multiply, reveal, share
from mpfedxgb.ring import VECTOR, RingArray
from mpfedxgb.transport import Kind, encode
from support.names import unlisted
from support.refusals import refused

ALIEN = "P2 sent a frame of another session or attempt"


def shared_products(party: Party) -> list[int] | None:
    """Multiply numbers of two participants and reveal them to all."""
    x = share(party, 2, VECTOR, (3,), RingArray.encode(VECTOR, [1, 2, 3]))
    y = share(party, 3, VECTOR, (3,), RingArray.encode(VECTOR, [6, 6, 6]))
    shown = reveal(party, multiply(party, x, y), ALL, unlisted("x"))
    return None if party.is_coordinator else shown.decode().tolist()


class CommunicatorContract(Connected):
    """Out-of-step, alien, truncated and oversized frames, silence, and aborts."""

    @contextmanager
    def comms(self, participants: int = 2, capacity: int = ROOM, **changes: Any) -> Iterator[list[Communicator]]:
        """Make the comms of a coordinator and two participants."""
        roster, settings = Roster.numbered(participants), SessionSettings(**{"deadline": LONG, **changes})
        with self.ends(list(roster.links(settings.topology)), capacity) as ends:
            yield [Communicator(ends[role], roster, role, settings, Meter()) for role in roster.roles]

    @pytest.mark.parametrize("topology", TOPOLOGIES)
    def test_a_session_from_greeting_to_end(self, topology: str) -> None:
        """Shares, products and reveals come to the same over either topology, and all roles keep the same ledger."""
        roster, settings = Roster.numbered(3), SessionSettings(deadline=LONG, topology=topology)
        with self.ends(list(roster.links(topology))) as ends:
            calls = [Call(run_role, shared_products, (), ends[r], roster, r, settings) for r in roster.roles]
            outcomes = [call.result() for call in calls]
        assert [outcome.error for outcome in outcomes] == [None] * 4
        assert [outcome.result for outcome in outcomes] == [None, *[[6, 12, 18]] * 3]
        assert {repr(outcome.ledger) for outcome in outcomes} == {
            "Ledger([Reveal(name='x', receiver='participants', count=3)])"
        }

    @pytest.mark.parametrize(("frame", "capacity"), [(1 << 20, ROOM), (4096, 4096)])
    def test_everyone_exchanges_with_everyone(self, frame: int, capacity: int) -> None:
        """Nobody waits for room in vain, though messages in parts are longer than what may be on its way."""
        numbers = np.arange(20_000, dtype=np.uint64)
        with self.comms(3, capacity, topology="mesh", max_frame_bytes=frame) as comms:

            def exchange(role: int) -> dict[int, int]:
                others = [m for m in (1, 2, 3) if m != role]
                got = comms[role].exchange(
                    [([m], [numbers + 10 * role + m]) for m in others], dict.fromkeys(others, numbers.nbytes)
                )
                return {m: int((array - numbers)[-1]) for m, (array,) in got.items()}

            calls = {role: Call(exchange, role) for role in (1, 2, 3)}
            assert {role: call.result() for role, call in calls.items()} == {
                role: {m: 10 * m + role for m in (1, 2, 3) if m != role} for role in (1, 2, 3)
            }

    def test_an_abort_in_the_middle_of_an_exchange(self) -> None:
        """Whoever waits for the failed role, or sends it what it does not take, learns why, in a mesh too."""
        numbers = np.zeros(20_000, np.uint64)
        with self.comms(3, 4096, topology="mesh", max_frame_bytes=4096) as comms:
            calls = [
                Call(comms[role].exchange, [([4 - role, 2], [numbers])], {2: numbers.nbytes, 4 - role: numbers.nbytes})
                for role in (1, 3)
            ]
            comms[2].abort(UserError("no more"))
            comms[2].transport.close()
            for call in calls:
                with pytest.raises(PeerFailedError, match="P2 failed: UserError: no more"):
                    call.result()

    def test_a_message_in_parts_that_cannot_be_made(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is the failure of the role that sends, whatever it is, and not that of a thread nobody hears of."""
        numbers = np.zeros(20_000, np.uint64)
        with self.comms(2, max_frame_bytes=4096) as comms:

            def no_memory(peers: object, arrays: object, kind: Kind = Kind.DATA) -> None:
                raise MemoryError

            monkeypatch.setattr(comms[1], "send", no_memory)
            call = Call(comms[2].send, [1], [numbers])
            with pytest.raises(MemoryError):
                comms[1].exchange([([2], [numbers])], {2: numbers.nbytes})
            call.result()

    def test_posts_in_step_understand_each_other(self) -> None:
        """Arrays arrive as they were sent, and both meters count the same."""
        with self.comms() as comms:
            numbers = np.arange(6, dtype=np.uint64).reshape(2, 3)
            for comm in comms:
                comm.advance("multiply")
            comms[2].send([1], [numbers, np.zeros(0, np.uint8), np.array(-1, np.int64)])
            numbers[:] = 0  # the sender may go on with its arrays
            received = comms[1].receive(2)
            assert [array.tolist() for array in received] == [[[0, 1, 2], [3, 4, 5]], [], -1]
            sent, got = comms[2].meter.total(), comms[1].meter.total()
            assert sent.payload_sent == {"P1": 56}
            assert got.payload_received == {"P2": 56}
            assert list(sent.wire_sent.values()) == list(got.wire_received.values())

    def test_long_labels_are_in_step(self) -> None:
        """Labels beyond what a frame holds, in any script, do not look like different steps."""
        with self.comms() as comms:
            for comm in comms[1:]:
                comm.advance("share of " + "é\N{MUSICAL SYMBOL G CLEF}" * 100)
            comms[2].send([1], [np.zeros(1, np.uint8)])
            assert comms[1].receive(2)[0].tolist() == [0]

    def test_out_of_step_names_both_steps(self) -> None:
        """The error says who is where, in numbers and in words."""
        with self.comms() as comms:
            comms[1].advance("reveal")
            comms[2].advance("lift")
            comms[2].advance("truncate")
            comms[2].send([1], [np.zeros(1, np.uint8)])
            with pytest.raises(OutOfStepError) as caught:
                comms[1].receive(2)
            for words in ("P1 is at step 1 (reveal)", "step 2 (truncate) from P2"):
                assert words in str(caught.value)

    def test_the_same_number_with_another_label_is_out_of_step(self) -> None:
        """Steps are compared by number and by name."""
        with self.comms() as comms:
            comms[1].advance("reveal")
            comms[2].advance("lift")
            comms[2].send([1], [])
            with refused(OutOfStepError, "mismatch", "P2", "reveal"):
                comms[1].receive(2)

    def test_the_same_step_with_another_kind_is_out_of_step(self) -> None:
        """An announcement is no data, even in the same step."""
        with self.comms() as comms:
            comms[1].send([0], [], Kind.ANNOUNCE)
            with refused(OutOfStepError, "mismatch", "P1", "start"):
                comms[0].receive(1)

    def test_an_alien_session(self) -> None:
        """A frame of another session is refused."""
        with self.comms() as comms:
            alien = Communicator(comms[2].transport, comms[2].roster, 2, SessionSettings(session="other"), Meter())
            alien.send([1], [])
            with pytest.raises(AlienFrameError, match=ALIEN):
                comms[1].receive(2)

    def test_attempts_need_not_agree_before_they_begin(self) -> None:
        """Greetings arrive whatever number of an attempt each role is at: it is what they have to settle."""
        with self.comms() as comms:
            later = Communicator(comms[2].transport, comms[2].roster, 2, SessionSettings(attempt=5), Meter())
            later.send([1], [np.array([5], np.uint8)], Kind.HELLO)
            assert comms[1].receive(2, Kind.HELLO)[0].tolist() == [5]

    @pytest.mark.parametrize("earlier", [None, b"another context"])
    def test_an_earlier_attempt(self, earlier: bytes | None) -> None:
        """Once an attempt has begun, frames from before it and of other attempts are refused, greetings included."""
        for kind in (Kind.DATA, Kind.HELLO, Kind.ANNOUNCE):
            with self.comms() as comms:
                comms[1].begin(b"context")
                if earlier is not None:
                    comms[2].begin(earlier)
                comms[2].send([1], [], kind)
                with pytest.raises(AlienFrameError, match=ALIEN):
                    comms[1].receive(2, kind)

    def test_an_attempt_that_all_have_begun(self) -> None:
        """The same context is the same attempt."""
        with self.comms() as comms:
            for comm in comms:
                comm.begin(b"context")
            comms[2].send([1], [np.array([7], np.uint8)])
            assert comms[1].receive(2)[0].tolist() == [7]

    def test_an_abort_from_before_the_attempt(self) -> None:
        """A peer that stopped before the attempt began is heard; one that stopped in another attempt is an alien."""
        with self.comms() as comms:
            comms[1].begin(b"context")
            comms[2].abort(ValueError())
            with pytest.raises(PeerFailedError, match="P2 failed: ValueError"):
                comms[1].receive(2)
            comms[2].begin(b"another context")
            comms[2].abort(ValueError())
            with pytest.raises(AlienFrameError, match=ALIEN):
                comms[1].receive(2)

    def test_the_first_wait(self) -> None:
        """Before its attempt begins a role waits longer if it is told to, and never less than usual."""
        with self.comms() as comms:
            settings = SessionSettings(deadline=SHORT)
            for first, told in ((2 * SHORT, r"0\.4 seconds"), (0.0, r"0\.25 seconds")):
                comm = Communicator(comms[1].transport, comms[1].roster, 1, settings, Meter(), first)
                with pytest.raises(PeerTimeoutError, match=told):
                    comm.receive(2)
                comm.begin(b"context")
                with refused(PeerTimeoutError, "late", "P2", "start"):
                    comm.receive(2)
                with refused(PeerTimeoutError, "late", "coordinator", "start"):
                    comm.receive(0)

    def test_an_alien_sender(self) -> None:
        """A frame that says it is from somebody else than the connection is from is refused."""
        with self.comms() as comms:
            impostor = Communicator(comms[2].transport, comms[2].roster, 0, comms[2].settings, Meter())
            impostor.send([1], [])
            with refused(AlienFrameError, "mismatch", "P2", 0):
                comms[1].receive(2)

    def test_truncated_frames(self) -> None:
        """A frame cut anywhere is refused by name, and nothing of it is counted as received."""
        with self.comms() as comms:
            whole = encode(Kind.DATA, 2, comms[2]._session, 0, "start", [np.arange(3, dtype=np.uint64)])
            for length in (0, 10, len(whole) // 2, len(whole) - 1):
                comms[2].transport.send(1, whole[:length], LONG)
                with pytest.raises(FrameError):
                    comms[1].receive(2)
            assert comms[1].meter.total().bytes_received == 0
            comms[2].transport.send(1, whole, LONG)
            assert comms[1].receive(2)[0].tolist() == [0, 1, 2]

    def test_oversized_frames(self) -> None:
        """A frame above the limit of the settings is refused."""
        with self.comms(max_frame_bytes=4096) as comms:
            comms[2].send([1], [np.zeros(5000, np.uint8)])
            with refused(FrameError, "range", "message", 5049):
                comms[1].receive(2)

    def test_messages_longer_than_a_frame(self) -> None:
        """They come in parts, if the receiver expects that much; other messages may come before and after."""
        sizes = (4095, 4096, 5000, 3 * 4096, 50_000, 1, 100_001)
        with self.comms(max_frame_bytes=4096) as comms:
            sent = [np.arange(size).astype(np.uint8) for size in sizes]

            def send_all() -> None:
                for array in sent:
                    comms[2].send([1], [array, array[:3]])

            call = Call(send_all)
            for array in sent:
                whole, some = comms[1].receive(2, expected=array.nbytes + 3)
                assert np.array_equal(whole, array)
                assert np.array_equal(some, array[:3])
            call.result()
            payload = sum(sizes) + sum(min(size, 3) for size in sizes)
            assert comms[1].meter.total().bytes_received == comms[2].meter.total().bytes_sent == payload

    def test_an_abort_between_parts(self) -> None:
        """A role that stops in the middle of a message is heard."""
        with self.comms(max_frame_bytes=1024) as comms:
            first = next(comms[2]._cut(encode(Kind.DATA, 2, comms[2]._session, 0, "start", [np.zeros(5000, np.uint8)])))
            comms[2].transport.send(1, first, LONG)
            comms[2].abort(UserError("enough"))
            with pytest.raises(PeerFailedError, match="P2 failed: UserError: enough"):
                comms[1].receive(2, expected=5000)

    @pytest.mark.parametrize(
        "parts",
        [
            [[]],
            [[np.array([3000]), np.zeros(0, np.uint8)]],
            [[np.array([3000]), np.zeros(500, np.uint64)]],
            [[np.array([3000, 1]), np.zeros(500, np.uint8)]],
            [[np.array([-1]), np.zeros(500, np.uint8)]],
            [[np.array([1 << 60]), np.zeros(500, np.uint8)]],
            [[np.array([900]), np.zeros(500, np.uint8)]] * 2,
            [[np.array([1000]), np.zeros(500, np.uint8)]] * 2,
        ],
    )
    def test_parts_of_no_message(self, parts: list[list[Any]]) -> None:
        """Whatever does not add up to a message is refused by name, and what is announced takes no memory."""
        with self.comms(max_frame_bytes=4096) as comms:
            for arrays in parts:
                comms[2].send([1], arrays, Kind.PART)
            with pytest.raises(FrameError):
                comms[1].receive(2, expected=5000)

    def test_silence_names_peer_and_step(self) -> None:
        """A deadline that passes says who was silent, for how long, and where."""
        with self.comms(deadline=SHORT) as comms:
            comms[1].advance("multiply")
            with refused(PeerTimeoutError, "late", "P2", "multiply"):
                comms[1].receive(2)

    def test_an_end_names_peer_and_step(self) -> None:
        """A peer that ended without a word is named, with the step that still needed it."""
        with self.comms() as comms:
            comms[1].advance("multiply")
            comms[2].transport.close()
            with refused(PeerFinishedError, "ended", "P2", "multiply"):
                comms[1].receive(2)

    def test_an_abort_arrives_as_a_named_error(self) -> None:
        """Whoever waits for the failed role learns origin, reason and step; every neighbour is told."""
        with self.comms() as comms:
            comms[1].advance("lift")
            error = UserError("the table has no rows")
            comms[1].abort(error)
            for peer in (0, 2):
                with pytest.raises(PeerFailedError) as caught:
                    comms[peer].receive(1)
                assert caught.value.origin == "P1"
                assert caught.value.reason == "the table has no rows at step 1 (lift)"
                assert caught.value.kind == "UserError"
                assert str(caught.value) == "P1 failed: UserError: the table has no rows at step 1 (lift)"

    def test_an_abort_comes_after_what_was_sent_before(self) -> None:
        """Data that is on its way is not lost; the abort follows it, whatever the step."""
        with self.comms() as comms:
            comms[2].send([1], [np.array([7], np.uint8)])
            comms[2].abort(ValueError())
            comms[2].transport.close()
            assert comms[1].receive(2)[0].tolist() == [7]
            comms[1].advance("reveal")
            with pytest.raises(PeerFailedError, match="P2 failed: ValueError"):
                comms[1].receive(2)

    def test_an_abort_that_is_passed_on_keeps_its_origin(self) -> None:
        """The third role hears of the first, and that it is the messenger who says so: the first says nothing."""
        with self.comms() as comms:
            first = PeerFailedError("P2", "no rows at step 3 (lift)", "UserError")
            comms[1].abort(first)
            with pytest.raises(PeerFailedError) as caught:
                comms[0].receive(1)
            assert vars(caught.value) == vars(first) | {"sender": "P1"}
            assert str(caught.value) == "P1 says that P2 failed: UserError: no rows at step 3 (lift)"
            assert caught.value.is_hearsay

    def test_who_is_said_to_have_failed_is_heard_itself(self) -> None:
        """A role that is connected with it goes by its own words, whatever another one makes of them."""
        with self.comms() as comms:
            comms[2].send([0], [np.array([7], np.uint8)])
            comms[2].abort(UserError("no rows"))
            comms[1].abort(PeerFailedError("P2", "its certificate is stolen", "HandshakeError"))
            with pytest.raises(PeerFailedError) as caught:
                comms[0].receive(1)
            assert str(caught.value) == "P2 failed: UserError: no rows at step 0 (start)"
            assert not caught.value.is_hearsay

    def test_a_sender_hears_last_words(self) -> None:
        """Who sends to a role that has aborted and ended learns why, though it was not listening."""
        with self.comms() as comms:
            comms[1].send([0], [], Kind.ANNOUNCE)
            comms[1].abort(ValueError())
            comms[1].transport.close()

            def insist() -> None:
                for _ in range(2048):
                    comms[0].send([1], [np.zeros(1 << 15, np.uint8)])

            with pytest.raises(PeerFailedError, match="P1 failed: ValueError"):
                Call(insist).result()

    def test_last_words_of_another_session(self) -> None:
        """Who sends to a role that has ended over a difference in session learns what it said."""
        with self.comms() as comms:
            alien = Communicator(comms[1].transport, comms[1].roster, 1, SessionSettings(session="other"), Meter())
            alien.abort(ValueError())
            alien.transport.close()

            def insist() -> None:
                for _ in range(2048):
                    comms[0].send([1], [np.zeros(1 << 15, np.uint8)])

            with pytest.raises(PeerFailedError, match="P1 failed: ValueError"):
                Call(insist).result()

    def test_aborting_never_fails(self) -> None:
        """Peers that have ended, and one's own closed connections, do not turn an abort into another error."""
        with self.comms() as comms:
            comms[2].transport.close()
            comms[1].abort(ValueError())
            with pytest.raises(PeerFailedError):
                comms[0].receive(1)
            comms[1].transport.close()
            comms[1].abort(ValueError())

    def test_long_reasons_are_cut(self) -> None:
        """A reason of any length and script arrives, shortened."""
        with self.comms() as comms:
            comms[1].abort(UserError("a" + "é" * 100_000))
            with pytest.raises(PeerFailedError, match="P1 failed: UserError: aé") as caught:
                comms[0].receive(1)
            assert len(str(caught.value)) < 3000

    @pytest.mark.parametrize(("count", "dtype"), [(0, np.uint8), (2, np.uint8), (4, np.uint8), (3, np.uint64)])
    def test_a_garbled_abort(self, count: int, dtype: Any) -> None:
        """An abort without its three texts is refused as a frame; nobody crashes over it."""
        with self.comms() as comms:
            comms[2].send([1], [np.zeros(1, dtype)] * count, Kind.ABORT)
            with refused(FrameError, "damaged", "abort"):
                comms[1].receive(2)
