"""One message of a whole session, of any kind, with other shapes, types or numbers: everybody ends by a named error."""

from __future__ import annotations

from itertools import cycle

import pytest

from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.errors import FrameError, MpfedxgbError, PeerFailedError
from mpfedxgb.party.entries import Entry
from support.garbler import GARBLES, IMPATIENT, Place, Session, places

SESSIONS = {
    "strict training": ("star", 1),
    "sealed training": ("mesh", 2),
    "stopping training": ("star", 3),
    "paper training": ("star", 4),
    "strict scoring": ("star", 1),
    "sealed scoring": ("mesh", 2),
    "aligning": ("star", 1),
}
"""By kind of session its topology, and of how many messages that are not alike one is garbled."""


@pytest.mark.parametrize("kind", SESSIONS)
def test_no_garbled_message_ends_a_role_without_a_name(kind: str) -> None:
    """Every receive of a session is struck, the ways to garble take turns; nobody meets a defect or waits for ever."""
    topology, every = SESSIONS[kind]
    session = Session(kind, topology)
    outcomes, seen = session.run()
    assert [outcome.error for outcome in outcomes] == [None] * 4
    noticed = 0
    for place, way in zip(list(places(seen))[::every], cycle(GARBLES), strict=False):
        outcomes, _ = session.run(place.receiver, place.number, GARBLES[way], IMPATIENT)
        for outcome in outcomes:
            assert outcome.error is None or isinstance(outcome.error, MpfedxgbError), (place, way, repr(outcome.error))
            assert outcome.error is None or exit_code(outcome.error) is not ExitCode.UNEXPECTED
        noticed += any(outcome.error is not None for outcome in outcomes)
    assert noticed


def find(seen: list[Place], receiver: int, words: str) -> Place:
    """Return the first message at a role whose kind and label have these words."""
    return min((p for p in seen if p.receiver == receiver and words in p.what), key=lambda place: place.number)


def test_not_found_counts_with_one_axis_are_refused_by_the_coordinator() -> None:
    """It names the sender, the value, what came and what was expected; and the others hear that from it."""
    session = Session("strict scoring")
    place = find(session.run()[1], 0, f"ANNOUNCE announce {Entry.NOT_FOUND}")
    outcomes, _ = session.run(0, place.number, lambda counts: counts[:, 0])
    expected = f"malformed {Entry.NOT_FOUND} from bank: got int64(3,), expected int64(3, 1)"
    assert isinstance(outcomes[0].error, FrameError)
    assert str(outcomes[0].error) == expected
    for outcome in outcomes[1:]:
        assert isinstance(outcome.error, PeerFailedError)
        assert expected in str(outcome.error)
        assert exit_code(outcome.error) is ExitCode.GARBLED


@pytest.mark.parametrize("receiver", [0, 1, 2])
def test_a_winner_outside_the_list_is_refused(receiver: int) -> None:
    """By the coordinator, who is told another owner, and by a participant with another share of the winner's tag."""
    session = Session("strict training", "mesh")
    words = f"announce {Entry.TREE_SHAPE}" if receiver == 0 else f"reveal {Entry.TREE_SHAPE}"
    place = find([p for p in session.run()[1] if p.sender == 1 or receiver == 1], receiver, words)
    outcomes, _ = session.run(receiver, place.number, lambda owner: owner + owner.dtype.type(77))
    error = outcomes[receiver].error
    assert isinstance(error, FrameError)
    assert f"malformed {Entry.TREE_SHAPE}" in str(error)
    assert "expected one of [0, 1, 2, 3]" in str(error)
    assert ("from bank" in str(error)) is (receiver == 0)
