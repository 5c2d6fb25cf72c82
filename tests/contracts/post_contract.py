"""What post offices must do over every transport: frames in step arrive, all others are errors with names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import LONG, SHORT, Call, Connected
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import (
    AlienFrameError,
    FrameError,
    OutOfStepError,
    PeerFailedError,
    PeerFinishedError,
    PeerTimeoutError,
    UserError,
    public_reason,
)
from mpfedxgb.party import Meter, Roster
from mpfedxgb.party.post import Post
from mpfedxgb.transport import Kind, encode

ALIEN = "P2 sent a frame of another session or attempt"


class PostContract(Connected):
    """Out-of-step, alien, truncated and oversized frames, silence, and aborts."""

    @contextmanager
    def posts(self, **changes: Any) -> Iterator[list[Post]]:
        """Make the post offices of a coordinator and two participants."""
        roster, settings = Roster.numbered(2), SessionSettings(**{"deadline": LONG, **changes})
        with self.ends(list(roster.links())) as ends:
            yield [Post(ends[role], roster, role, settings, Meter()) for role in roster.roles]

    def test_posts_in_step_understand_each_other(self) -> None:
        """Arrays arrive as they were sent, and both meters count the same."""
        with self.posts() as posts:
            numbers = np.arange(6, dtype=np.uint64).reshape(2, 3)
            for post in posts:
                post.advance("multiply")
            posts[2].send([1], [numbers, np.zeros(0, np.uint8), np.array(-1, np.int64)])
            numbers[:] = 0  # the sender may go on with its arrays
            received = posts[1].receive(2)
            assert [array.tolist() for array in received] == [[[0, 1, 2], [3, 4, 5]], [], -1]
            sent, got = posts[2].meter.total(), posts[1].meter.total()
            assert sent.payload_sent == {"P1": 56}
            assert got.payload_received == {"P2": 56}
            assert list(sent.wire_sent.values()) == list(got.wire_received.values())

    def test_long_labels_are_in_step(self) -> None:
        """Labels beyond what a frame holds, in any script, do not look like different steps."""
        with self.posts() as posts:
            for post in posts[1:]:
                post.advance("share of " + "é\N{MUSICAL SYMBOL G CLEF}" * 100)
            posts[2].send([1], [np.zeros(1, np.uint8)])
            assert posts[1].receive(2)[0].tolist() == [0]

    def test_out_of_step_names_both_steps(self) -> None:
        """The error says who is where, in numbers and in words."""
        with self.posts() as posts:
            posts[1].advance("reveal")
            posts[2].advance("lift")
            posts[2].advance("truncate")
            posts[2].send([1], [np.zeros(1, np.uint8)])
            with pytest.raises(OutOfStepError) as caught:
                posts[1].receive(2)
            for words in ("P1 is at step 1 (reveal)", "step 2 (truncate) from P2"):
                assert words in str(caught.value)

    def test_the_same_number_with_another_label_is_out_of_step(self) -> None:
        """Steps are compared by number and by name."""
        with self.posts() as posts:
            posts[1].advance("reveal")
            posts[2].advance("lift")
            posts[2].send([1], [])
            with pytest.raises(OutOfStepError, match=r"step 1 \(reveal\).*step 1 \(lift\)"):
                posts[1].receive(2)

    def test_the_same_step_with_another_kind_is_out_of_step(self) -> None:
        """An announcement is no data, even in the same step."""
        with self.posts() as posts:
            posts[1].send([0], [], Kind.ANNOUNCE)
            with pytest.raises(OutOfStepError, match="announce frame"):
                posts[0].receive(1)

    def test_an_alien_session(self) -> None:
        """A frame of another session is refused."""
        with self.posts() as posts:
            alien = Post(posts[2].transport, posts[2].roster, 2, SessionSettings(session="other"), Meter())
            alien.send([1], [])
            with pytest.raises(AlienFrameError, match=ALIEN):
                posts[1].receive(2)

    def test_attempts_need_not_agree_before_they_begin(self) -> None:
        """Greetings arrive whatever number of an attempt each role is at: it is what they have to settle."""
        with self.posts() as posts:
            later = Post(posts[2].transport, posts[2].roster, 2, SessionSettings(attempt=5), Meter())
            later.send([1], [np.array([5], np.uint8)], Kind.HELLO)
            assert posts[1].receive(2, Kind.HELLO)[0].tolist() == [5]

    @pytest.mark.parametrize("earlier", [None, b"another context"])
    def test_an_earlier_attempt(self, earlier: bytes | None) -> None:
        """Once an attempt has begun, frames from before it and of other attempts are refused, greetings included."""
        for kind in (Kind.DATA, Kind.HELLO, Kind.ANNOUNCE):
            with self.posts() as posts:
                posts[1].begin(b"context")
                if earlier is not None:
                    posts[2].begin(earlier)
                posts[2].send([1], [], kind)
                with pytest.raises(AlienFrameError, match=ALIEN):
                    posts[1].receive(2, kind)

    def test_an_attempt_that_all_have_begun(self) -> None:
        """The same context is the same attempt."""
        with self.posts() as posts:
            for post in posts:
                post.begin(b"context")
            posts[2].send([1], [np.array([7], np.uint8)])
            assert posts[1].receive(2)[0].tolist() == [7]

    def test_an_abort_from_before_the_attempt(self) -> None:
        """A peer that stopped before the attempt began is heard; one that stopped in another attempt is an alien."""
        with self.posts() as posts:
            posts[1].begin(b"context")
            posts[2].abort(ValueError(), "ValueError")
            with pytest.raises(PeerFailedError, match="P2 failed: ValueError"):
                posts[1].receive(2)
            posts[2].begin(b"another context")
            posts[2].abort(ValueError(), "ValueError")
            with pytest.raises(AlienFrameError, match=ALIEN):
                posts[1].receive(2)

    def test_the_first_wait(self) -> None:
        """Before its attempt begins a role waits longer if it is told to, and never less than usual."""
        with self.posts() as posts:
            settings = SessionSettings(deadline=SHORT)
            for first, told in ((2 * SHORT, r"0\.4 seconds"), (0.0, r"0\.2 seconds")):
                post = Post(posts[1].transport, posts[1].roster, 1, settings, Meter(), first)
                with pytest.raises(PeerTimeoutError, match=told):
                    post.receive(2)
                post.begin(b"context")
                with pytest.raises(PeerTimeoutError, match=r"0\.2 seconds"):
                    post.receive(2)

    def test_an_alien_sender(self) -> None:
        """A frame that says it is from somebody else than the connection is from is refused."""
        with self.posts() as posts:
            impostor = Post(posts[2].transport, posts[2].roster, 0, posts[2].settings, Meter())
            impostor.send([1], [])
            with pytest.raises(AlienFrameError, match="from P2 claims to be sent by role 0"):
                posts[1].receive(2)

    def test_truncated_frames(self) -> None:
        """A frame cut anywhere is refused by name, and nothing of it is counted as received."""
        with self.posts() as posts:
            whole = encode(Kind.DATA, 2, posts[2]._session, 0, "start", [np.arange(3, dtype=np.uint64)])
            for length in (0, 10, len(whole) // 2, len(whole) - 1):
                posts[2].transport.send(1, whole[:length], LONG)
                with pytest.raises(FrameError):
                    posts[1].receive(2)
            assert posts[1].meter.total().bytes_received == 0
            posts[2].transport.send(1, whole, LONG)
            assert posts[1].receive(2)[0].tolist() == [0, 1, 2]

    def test_oversized_frames(self) -> None:
        """A frame above the limit of the settings is refused."""
        with self.posts(max_frame_bytes=4096) as posts:
            posts[2].send([1], [np.zeros(5000, np.uint8)])
            with pytest.raises(FrameError, match="larger than the 4096 allowed"):
                posts[1].receive(2)

    def test_silence_names_peer_and_step(self) -> None:
        """A deadline that passes says who was silent, for how long, and where."""
        with self.posts(deadline=SHORT) as posts:
            posts[1].advance("multiply")
            with pytest.raises(PeerTimeoutError, match=r"P2 sent nothing for 0\.2 seconds at step 1 \(multiply\)"):
                posts[1].receive(2)

    def test_an_end_names_peer_and_step(self) -> None:
        """A peer that ended without a word is named, with the step that still needed it."""
        with self.posts() as posts:
            posts[1].advance("multiply")
            posts[2].transport.close()
            with pytest.raises(PeerFinishedError, match=r"P2 ended while P1 waited for it at step 1 \(multiply\)"):
                posts[1].receive(2)

    def test_an_abort_arrives_as_a_named_error(self) -> None:
        """Whoever waits for the failed role learns origin, reason and step; every neighbour is told."""
        with self.posts() as posts:
            posts[1].advance("lift")
            error = UserError("the table has no rows")
            posts[1].abort(error, public_reason(error))
            for peer in (0, 2):
                with pytest.raises(PeerFailedError) as caught:
                    posts[peer].receive(1)
                assert caught.value.origin == "P1"
                assert caught.value.reason == "UserError: the table has no rows at step 1 (lift)"

    def test_an_abort_comes_after_what_was_sent_before(self) -> None:
        """Data that is on its way is not lost; the abort follows it, whatever the step."""
        with self.posts() as posts:
            posts[2].send([1], [np.array([7], np.uint8)])
            posts[2].abort(ValueError(), "ValueError")
            posts[2].transport.close()
            assert posts[1].receive(2)[0].tolist() == [7]
            posts[1].advance("reveal")
            with pytest.raises(PeerFailedError, match="P2 failed: ValueError"):
                posts[1].receive(2)

    def test_an_abort_that_is_passed_on_keeps_its_origin(self) -> None:
        """The third role hears of the first, not of the messenger."""
        with self.posts() as posts:
            first = PeerFailedError("P2", "UserError: no rows at step 3 (lift)")
            posts[1].abort(first, public_reason(first))
            with pytest.raises(PeerFailedError) as caught:
                posts[0].receive(1)
            assert (caught.value.origin, caught.value.reason) == (first.origin, first.reason)

    def test_a_sender_hears_last_words(self) -> None:
        """Who sends to a role that has aborted and ended learns why, though it was not listening."""
        with self.posts() as posts:
            posts[1].send([0], [], Kind.ANNOUNCE)
            posts[1].abort(ValueError(), "ValueError")
            posts[1].transport.close()

            def insist() -> None:
                for _ in range(2048):
                    posts[0].send([1], [np.zeros(1 << 15, np.uint8)])

            with pytest.raises(PeerFailedError, match="P1 failed: ValueError"):
                Call(insist).result()

    def test_last_words_of_another_session(self) -> None:
        """Who sends to a role that has ended over a difference in session learns that it was that."""
        with self.posts() as posts:
            alien = Post(posts[1].transport, posts[1].roster, 1, SessionSettings(session="other"), Meter())
            alien.abort(ValueError(), "ValueError")
            alien.transport.close()

            def insist() -> None:
                for _ in range(2048):
                    posts[0].send([1], [np.zeros(1 << 15, np.uint8)])

            with pytest.raises(AlienFrameError, match=ALIEN.replace("P2", "P1")):
                Call(insist).result()

    def test_aborting_never_fails(self) -> None:
        """Peers that have ended, and one's own closed connections, do not turn an abort into another error."""
        with self.posts() as posts:
            posts[2].transport.close()
            posts[1].abort(ValueError(), "ValueError")
            with pytest.raises(PeerFailedError):
                posts[0].receive(1)
            posts[1].transport.close()
            posts[1].abort(ValueError(), "ValueError")

    def test_long_reasons_are_cut(self) -> None:
        """A reason of any length and script arrives, shortened."""
        with self.posts() as posts:
            posts[1].abort(ValueError(), "a" + "é" * 100_000)
            with pytest.raises(PeerFailedError, match="P1 failed: aé") as caught:
                posts[0].receive(1)
            assert len(str(caught.value)) < 3000

    @pytest.mark.parametrize("arrays", [[], [np.zeros(1, np.uint8)], [np.zeros(1, np.uint64)] * 2])
    def test_a_garbled_abort(self, arrays: list[Any]) -> None:
        """An abort without its two texts is refused as a frame; nobody crashes over it."""
        with self.posts() as posts:
            posts[2].send([1], arrays, Kind.ABORT)
            with pytest.raises(FrameError, match="two texts"):
                posts[1].receive(2)
