"""The coordinator's inbox: greetings and public announcements, and nothing else; what it must not know is hidden."""

from __future__ import annotations

import json

import numpy as np
import pytest

from mpfedxgb.config import PROTOCOLS, SessionSettings
from mpfedxgb.errors import SecretError
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, run_locally
from mpfedxgb.party.handshake import COMMITMENT_BYTES
from mpfedxgb.party.party import turn
from mpfedxgb.party.roster import NONCE_BYTES
from mpfedxgb.ring import RingArray
from mpfedxgb.transport.frame import Frame, Kind
from support.every_protocol import COLUMNS, LARGEST, TOURNAMENTS, Everything, every_protocol
from support.views import Recorder

RUNS = 24
SETTINGS = SessionSettings(session="inbox", attempt=3, parameters="the parameters", insecure_seed=2)
WINNERS = [ACTIVE] * RUNS


def run(participants: int) -> tuple[LocalRun[Everything], Recorder]:
    """Run every protocol and record all frames."""
    recorder = Recorder()
    private = [(RUNS,)] + [(RUNS, LARGEST)] * participants
    return run_locally(every_protocol, participants, private, SETTINGS, recorder), recorder


def inbox(recorder: Recorder) -> list[Frame]:
    """Return all that the coordinator was sent."""
    return list(recorder.received(frozenset({COORDINATOR})))


@pytest.mark.parametrize("participants", [2, 3])
def test_coordinator_receives_greetings_and_announcements_only(participants: int) -> None:
    """One greeting of each participant, and what the active one settled; then its announcements, exactly as made."""
    done, recorder = run(participants)
    frames = inbox(recorder)
    announced = [frame for frame in frames if frame.kind is Kind.ANNOUNCE]

    assert {frame.kind for frame in frames} == {Kind.HELLO, Kind.ANNOUNCE}
    assert sorted(frame.sender for frame in frames if frame.kind is Kind.HELLO) == [ACTIVE, *range(1, participants + 1)]
    assert {frame.sender for frame in announced} == {ACTIVE}
    assert [(frame.label, [a.tolist() for a in frame.arrays]) for frame in announced] == [
        ("announce runs", [[RUNS]]),
        ("announce rounds", [[3]]),
        ("announce columns", [[[COLUMNS]] * participants]),
        *((f"{name}/announce owner {name}", [WINNERS]) for name in (*TOURNAMENTS, "with valid ones")),
    ]
    for result in done.results:
        assert all(np.array_equal(a, f.arrays[0]) for a, f in zip(result.announced, announced, strict=True))


@pytest.mark.parametrize("participants", [2, 3])
def test_greeting_holds_public_settings_and_a_nonce(participants: int) -> None:
    """A greeting names protocols, session, attempt, parameters and roster, and commits to a key that it does not tell.

    Nonce and commitment are fresh for each participant. The active one settles a protocol and an attempt for all.
    """
    frames = [frame for frame in inbox(run(participants)[1]) if frame.kind is Kind.HELLO]
    (agreement,) = (frame for frame in frames if len(frame.arrays) == 1)
    assert agreement.sender == ACTIVE
    assert json.loads(agreement.arrays[0].tobytes()) == {
        "protocol": PROTOCOLS[-1],
        "attempt": SETTINGS.attempt,
        "max_frame_bytes": SETTINGS.max_frame_bytes,
        "link": [SETTINGS.link.latency, SETTINGS.link.bandwidth],
    }
    nonces, commitments = set(), set()
    for frame in frames:
        if frame is agreement:
            continue
        greeting, nonce = frame.arrays
        public = json.loads(greeting.tobytes())
        commitments.add(bytes.fromhex(public.pop("commitment")))
        assert public == {
            "protocols": list(PROTOCOLS),
            "session": SETTINGS.session,
            "attempt": SETTINGS.attempt,
            "parameters": SETTINGS.parameters,
            "max_frame_bytes": SETTINGS.max_frame_bytes,
            "topology": SETTINGS.topology,
            "roster": ["coordinator", *(f"P{m}" for m in range(1, participants + 1))],
        }
        nonces.add(nonce.tobytes())

    assert {len(nonce) for nonce in nonces} == {NONCE_BYTES}
    assert {len(commitment) for commitment in commitments} == {COMMITMENT_BYTES}
    assert len(nonces) == len(commitments) == participants


@pytest.mark.parametrize("participants", [2, 3])
def test_coordinator_holds_no_masked_value(participants: int) -> None:
    """In the coordinator's run all masked values, shares and reveals are hidden, and reading one raises."""
    mine = run(participants)[0].results[COORDINATOR]
    unknown: list[RingArray] = [x.masked for x in mine.secrets]
    unknown += [x.part for x in mine.shares]
    unknown += mine.revealed

    assert len(unknown) > 40
    for array in unknown:
        assert array.is_hidden
        with pytest.raises(SecretError):
            _ = array.data
        with pytest.raises(SecretError):
            array.decode()


@pytest.mark.parametrize("participants", [2, 3])
def test_coordinator_learns_owners_but_no_index(participants: int) -> None:
    """Of a winner the coordinator knows the owner; the index is the owner's alone."""
    results = run(participants)[0].results
    for role, result in enumerate(results):
        for opened in result.opened:
            assert opened.owner.tolist() == WINNERS
            assert (opened.local >= 0).all() == (role == ACTIVE)
            assert (opened.local == -1).all() == (role != ACTIVE)


@pytest.mark.parametrize("participants", [2, 3])
def test_auxiliaries_talk_to_the_coordinator_in_the_handshake_only(participants: int) -> None:
    """An auxiliary says one greeting to the coordinator, gets one seed in answer, and the corrections of its turns."""
    _, recorder = run(participants)
    for m in range(ACTIVE + 1, participants + 1):
        assert [frame.kind for frame in recorder.links[m, COORDINATOR]] == [Kind.HELLO]
        first, *dealt = recorder.links[COORDINATOR, m]
        assert first.kind is Kind.HELLO
        assert dealt
        assert {frame.kind for frame in dealt} == {Kind.DATA}
        assert {turn(frame.step, participants) for frame in dealt} == {m}
