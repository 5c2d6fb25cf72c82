"""How a session begins: everybody agrees, or everybody is told what differs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import Call
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FederationError, HandshakeError
from mpfedxgb.party import Meter, Outcome, Party, Roster
from mpfedxgb.party.handshake import PROTOCOL, shake_hands
from mpfedxgb.party.keys import NONCE_BYTES, Keyring
from mpfedxgb.party.local import run_role
from mpfedxgb.party.post import Post
from mpfedxgb.ring import VECTOR
from mpfedxgb.ring.prg import SEED_BYTES
from mpfedxgb.transport import Kind, MemoryHub, decode

ROSTER = Roster.numbered(3)
WAIT = 10.0


def octets(blob: bytes) -> Any:
    """Return bytes as the array that a frame carries."""
    return np.frombuffer(blob, np.uint8)


def run_apart(odd: int, roster: Roster = ROSTER, **changes: Any) -> list[Outcome[str]]:
    """Run all roles, one of them with its own idea of roster or settings, and return how each of them ended."""
    hub = MemoryHub(ROSTER.links(), 1 << 20)

    def name(party: Party) -> str:
        return party.name

    def run(role: int) -> Outcome[str]:
        mine = {"deadline": WAIT, **(changes if role == odd else {})}
        its_roster = roster if role == odd else ROSTER
        return run_role(name, [], hub.end(role), its_roster, role, SessionSettings(**mine))

    calls = [Call(run, role) for role in ROSTER.roles]
    return [call.result() for call in calls]


DIFFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("parameters", {"parameters_digest": "other"}),
    ("attempt", {"attempt": 2}),
    ("session", {"session": "other"}),
    ("roster", {"roster": Roster(("P1", "P2", "Q3"))}),
    ("roster", {"roster": Roster(("P1", "P2", "P3"), "notary")}),
]


@pytest.mark.parametrize("odd", ROSTER.roles)
@pytest.mark.parametrize(("named", "changes"), DIFFERENCES)
def test_a_difference_is_named_to_all(named: str, changes: dict[str, Any], odd: int) -> None:
    """Whichever role differs, all end with an error that says in what."""
    for outcome in run_apart(odd, **changes):
        assert isinstance(outcome.error, FederationError), outcome
        assert named in str(outcome.error), outcome.role


@pytest.mark.parametrize("odd", [0, 1])
def test_the_two_that_differ_are_named(odd: int) -> None:
    """Somebody who compared says who disagrees with whom, and what to do."""
    errors = [outcome.error for outcome in run_apart(odd, parameters_digest="other")]
    texts = [str(error) for error in errors if isinstance(error, HandshakeError)]
    assert any("P1 and coordinator do not agree on the parameters" in text for text in texts)
    assert all("give all roles the same settings" in text for text in texts)


def test_waiting_times_need_not_agree() -> None:
    """Deadlines and limits are each role's own."""
    outcomes = run_apart(2, deadline=2 * WAIT, max_frame_bytes=1 << 20, max_queued_bytes=1 << 20)
    assert [outcome.result for outcome in outcomes] == ["coordinator", "P1", "P2", "P3"]


def posts(participants: int = 2, **changes: Any) -> tuple[list[Post], list[tuple[int, int, bytes]]]:
    """Return the post offices of a federation, and the list of blocks that will pass between them."""
    roster, blocks = Roster.numbered(participants), list[tuple[int, int, bytes]]()
    hub = MemoryHub(roster.links(), 1 << 20, tap=lambda *what: blocks.append(what))
    settings = SessionSettings(**{"deadline": WAIT, **changes})
    return [Post(hub.end(role), roster, role, settings, Meter()) for role in roster.roles], blocks


@pytest.mark.parametrize("participants", [2, 5])
def test_all_roles_end_with_matching_keys(participants: int) -> None:
    """Every participant has one stream in common with the coordinator, and with nobody else."""
    offices, _ = posts(participants)
    calls = [Call(shake_hands, post) for post in offices]
    keys: list[Keyring] = [call.result() for call in calls]
    assert [repr(ring) for ring in keys[1:]] == [f"Keyring(participants=[{m}])" for m in range(1, participants + 1)]
    streams = set()
    for m in range(1, participants + 1):
        mine, theirs = (ring.source(m, "step").elements(VECTOR, (4,)).data.tolist() for ring in (keys[m], keys[0]))
        assert mine == theirs
        streams.add(tuple(mine))
    assert len(streams) == participants


def test_who_hears_what() -> None:
    """The coordinator hears greetings and nonces; a seed goes to its participant alone, and is nobody else's."""
    offices, blocks = posts(3)
    for call in [Call(shake_hands, post) for post in offices]:
        call.result()
    frames = [(sender, receiver, decode(block, 1 << 20)) for sender, receiver, block in blocks]
    assert {frame.kind for *_, frame in frames} == {Kind.HELLO}
    sizes = {(s, r): [array.nbytes for array in frame.arrays] for s, r, frame in frames}
    assert len(frames) == len(sizes)
    greeting = sizes[1, 0][0]
    assert sizes == {
        **{(m, 0): [greeting, NONCE_BYTES] for m in (1, 2, 3)},
        **{(m, 1): [greeting, NONCE_BYTES] for m in (2, 3)},
        **{(1, m): [3 * NONCE_BYTES] for m in (2, 3)},
        **{(0, m): [SEED_BYTES] for m in (1, 2, 3)},
    }
    seeds = {r: frame.arrays[0].tobytes() for s, r, frame in frames if s == 0}
    nonces = {s: frame.arrays[1].tobytes() for s, r, frame in frames if r == 0}
    assert len(set(seeds.values())) == len(set(nonces.values())) == 3
    for sender, _, frame in frames:
        if sender:
            sent = b"".join(array.tobytes() for array in frame.arrays)
            assert not any(seed in sent for seed in seeds.values())


def greeting(**changes: Any) -> bytes:
    """Return a participant's greeting, written by hand."""
    words = {
        "protocol": PROTOCOL,
        "session": "local",
        "attempt": 1,
        "parameters": "",
        "roster": ["coordinator", "P1", "P2"],
    }
    return json.dumps({**words, **changes}).encode()


NONCE = bytes(NONCE_BYTES)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([b"\xff", NONCE], "P1 sent a greeting that cannot be read"),
        ([b"[1]", NONCE], "P1 sent a greeting that cannot be read"),
        ([b"7", NONCE], "P1 sent a greeting that cannot be read"),
        ([b"[" * 100_000, NONCE], "P1 sent a greeting that cannot be read"),
        ([greeting()], "P1 sent a greeting that cannot be read"),
        ([greeting(), NONCE, NONCE], "P1 sent a greeting that cannot be read"),
        ([b"{}", NONCE], "do not agree on the attempt"),
        ([greeting(protocol=PROTOCOL + 1), NONCE], "do not agree on the protocol"),
        ([greeting(session="other"), NONCE], "do not agree on the session"),
        ([greeting(), NONCE[1:]], "P1 sent a nonce of 15 bytes instead of 16"),
    ],
)
def test_greetings_that_are_none(arrays: list[bytes], message: str) -> None:
    """Whatever a participant says instead of its greeting, the coordinator has a name for it, and gives no seed."""
    offices, blocks = posts()
    offices[1].advance("handshake")
    offices[1].send([0], [octets(blob) for blob in arrays], Kind.HELLO)
    with pytest.raises(HandshakeError, match=message):
        shake_hands(offices[0])
    assert not [block for sender, _, block in blocks if sender == 0]


def test_the_greeting_by_hand_is_a_good_one() -> None:
    """The helper of the test above differs from a real greeting in nothing but the fault."""
    offices, _ = posts()
    for m in (1, 2):
        offices[m].advance("handshake")
        offices[m].send([0], [octets(greeting()), octets(NONCE)], Kind.HELLO)
    assert repr(shake_hands(offices[0])) == "Keyring(participants=[1, 2])"


@pytest.mark.parametrize(
    ("nonces", "message"),
    [
        (bytes(2 * NONCE_BYTES), "P1 passed on another nonce than P2 sent"),
        (bytes(NONCE_BYTES), "P1 sent something else than the 32 bytes expected"),
        (b"", "P1 sent something else than the 32 bytes expected"),
    ],
)
def test_nonces_that_were_tampered_with(nonces: bytes, message: str) -> None:
    """An auxiliary insists on its own nonce being among those of the session."""
    offices, _ = posts()
    offices[1].advance("handshake")
    offices[1].send([2], [octets(nonces)], Kind.HELLO)
    with pytest.raises(HandshakeError, match=message):
        shake_hands(offices[2])


@pytest.mark.parametrize("length", [0, SEED_BYTES - 1, SEED_BYTES + 1])
def test_seeds_of_another_length(length: int) -> None:
    """A seed has 32 bytes, or the participant does not begin."""
    offices, _ = posts()
    for post in (offices[0], offices[2]):
        post.advance("handshake")
    offices[2].send([1], [octets(greeting()), octets(NONCE)], Kind.HELLO)
    offices[0].send([1], [octets(bytes(length))], Kind.HELLO)
    with pytest.raises(HandshakeError, match="coordinator sent something else than the 32 bytes expected"):
        shake_hands(offices[1])
