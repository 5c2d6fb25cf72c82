"""What an abort says, and what of it is believed: kind for programs, texts for people, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import (
    KINDS,
    UNKNOWN,
    DataError,
    HandshakeError,
    OutOfStepError,
    PeerFailedError,
    PeerTimeoutError,
    StoppedError,
    UserError,
)
from mpfedxgb.federation.session import is_lost_peer
from mpfedxgb.party import Meter, Roster
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.transport import Kind
from mpfedxgb.transport.memory import MemoryHub
from patience import patience
from support.property_tests import examples
from support.refusals import refused

ROSTER = Roster(("bank", "telecom"))
ESCAPE = "\x1b]0;owned\x07\x1b[2J\r\nfine \u202eno"


def communicators() -> list[Communicator]:
    """Return everybody's, over queues in memory."""
    settings = SessionSettings(deadline=patience(5))
    hub = MemoryHub(ROSTER.links(), settings.max_queued_bytes)
    return [Communicator(hub.end(role), ROSTER, role, settings, Meter()) for role in ROSTER.roles]


def heard(*texts: bytes) -> PeerFailedError:
    """Return what the active participant makes of an abort of the other one."""
    comms = communicators()
    comms[2].send([ACTIVE], [np.frombuffer(text, np.uint8) for text in texts], Kind.ABORT)
    comms[COORDINATOR].transport.close()  # who is said to have failed says nothing
    with pytest.raises(PeerFailedError) as caught:
        comms[ACTIVE].receive(2)
    return caught.value


def passed_on(error: BaseException) -> PeerFailedError:
    """Return what the coordinator hears after the other participant has aborted, by way of the active one."""
    comms = communicators()
    comms[2].abort(error)
    with pytest.raises(PeerFailedError) as first:
        comms[ACTIVE].receive(2)
    comms[ACTIVE].abort(first.value)
    with pytest.raises(PeerFailedError) as second:
        comms[COORDINATOR].receive(ACTIVE)
    assert vars(second.value) == vars(first.value)
    assert str(second.value) == str(first.value)
    return second.value


NAMES = st.sampled_from([b"coordinator", b"bank", b"telecom"])
TEXTS = st.binary(max_size=3000) | st.text(max_size=1000).map(lambda text: text.encode(errors="surrogatepass"))


LOST = (b"PeerFinishedError", b"PeerTimeoutError", b"MissingPeerError", b"ExhaustedError", b"StoppedError")
"""Kinds after which a role may come back."""


@given(origin=TEXTS | NAMES, reason=TEXTS, kind=TEXTS | st.sampled_from(sorted(KINDS)).map(str.encode))
@examples(300)
def test_any_bytes_are_an_error_with_a_name(origin: bytes, reason: bytes, kind: bytes) -> None:
    """Whatever a peer sends, the origin is a role, the kind one that we know, and all texts can be shown."""
    error = heard(origin, reason, kind)
    assert error.origin == (origin.decode() if origin in (b"coordinator", b"bank", b"telecom") else "telecom")
    assert (error.sender, error.is_hearsay) == ("telecom", error.origin != "telecom")
    assert str(error).startswith("telecom says that " if error.is_hearsay else "telecom failed: ")
    assert not error.is_hearsay or exit_code(error) is ExitCode.PEER_FAILED
    assert error.kind == (kind.decode() if kind.decode(errors="replace") in KINDS else UNKNOWN)
    assert str(error).isprintable()
    assert len(str(error)) < 2200
    assert exit_code(error) in (ExitCode.PEER_FAILED, ExitCode.PEER_LOST, ExitCode.REFUSED, ExitCode.GARBLED)
    assert is_lost_peer(error) == (kind in LOST)


@given(st.text(max_size=300))
@examples(200)
def test_any_text_of_ours_can_be_sent(text: str) -> None:
    """Also halves of characters, which cannot be encoded; what can be shown arrives as it was."""
    error = passed_on(UserError(text))
    assert str(error).isprintable()
    assert (error.origin, error.kind) == ("telecom", "UserError")
    assert not text.isprintable() or error.reason == f"{text} at step 0 (start)"


def test_terminal_escapes_reach_nobody() -> None:
    """Neither in a text of one's own nor in what a peer claims, and not in the label of a step."""
    for error in (passed_on(UserError(ESCAPE)), heard(b"bank", ESCAPE.encode(), ESCAPE.encode())):
        assert "�]0;owned��[2J  fine �no" in str(error)
        assert str(error).isprintable()
    comms = communicators()
    comms[2].advance(ESCAPE)
    comms[2].send([ACTIVE], [])
    comms[ACTIVE].advance("lift")
    with refused(OutOfStepError, "mismatch", "telecom", "lift") as caught:
        comms[ACTIVE].receive(2)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("error", "kind", "code", "lost"),
    [
        (PeerTimeoutError("bank sent nothing"), "PeerTimeoutError", ExitCode.PEER_LOST, True),
        (StoppedError("stopped by SIGTERM"), "StoppedError", ExitCode.PEER_FAILED, True),
        (HandshakeError("not the same parameters"), "HandshakeError", ExitCode.REFUSED, False),
        (DataError("PeerTimeoutError: row 17"), "DataError", ExitCode.PEER_FAILED, False),
        (UserError("PeerTimeoutError: what a text says"), "UserError", ExitCode.PEER_FAILED, False),
        (ValueError("HandshakeError: row 17"), UNKNOWN, ExitCode.PEER_FAILED, False),
        (KeyboardInterrupt(), UNKNOWN, ExitCode.PEER_FAILED, False),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_who_hears_of_an_error_goes_by_its_kind(error: BaseException, kind: str, code: ExitCode, lost: bool) -> None:
    """Two roles away it is still known whether to wait, and which code to end with; texts have no say."""
    told = passed_on(error)
    assert (told.origin, told.kind) == ("telecom", kind)
    assert exit_code(told) == code
    assert is_lost_peer(told) is lost
    assert "row 17" not in str(told)
