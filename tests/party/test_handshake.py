"""How a session begins: everybody agrees, or everybody is told what differs."""

from __future__ import annotations

import json
import re
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import Call
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import PROTOCOLS, Link, SessionSettings
from mpfedxgb.errors import (
    Code,
    FederationError,
    HandshakeError,
    MissingPeerError,
    OutOfStepError,
    PeerFailedError,
    PeerTimeoutError,
)
from mpfedxgb.party import Meter, Outcome, Party, Roster, communicator, handshake
from mpfedxgb.party.communicator import Communicator, InterimFrames
from mpfedxgb.party.handshake import COMMITMENT_BYTES, shake_hands
from mpfedxgb.party.local import run_role, run_roles
from mpfedxgb.party.roster import NONCE_BYTES, Keyring
from mpfedxgb.ring import VECTOR
from mpfedxgb.ring.prg import SEED_BYTES
from mpfedxgb.transport import Kind, MemoryHub, decode
from patience import patience
from support.names import unlisted
from support.refusals import ANY, Expected, refused

ROSTER = Roster.numbered(3)
WAIT = 30.0


def octets(blob: bytes) -> Any:
    """Return bytes as the array that a frame carries."""
    return np.frombuffer(blob, np.uint8)


def run_apart(
    odd: int, roster: Roster = ROSTER, parameters: str = "", other_parameters: str | None = None, **changes: Any
) -> list[Outcome[str]]:
    """Run all roles, one of them with its own idea of roster or settings, and return how each of them ended."""
    hub = MemoryHub(ROSTER.links("mesh"), 1 << 20)

    def run(role: int) -> Outcome[str]:
        mine = {"deadline": patience(WAIT), "parameters": parameters, **(changes if role == odd else {})}
        if role == odd and other_parameters is not None:
            mine["parameters"] = other_parameters
        its_roster = roster if role == odd else ROSTER
        return run_role(meet, [], hub.end(role), its_roster, role, SessionSettings(**mine))

    calls = [Call(run, role) for role in ROSTER.roles]
    return [call.result() for call in calls]


def meet(party: Party) -> str:
    """Say something to everyone, so that all have to be in the same attempt, and return the name."""
    party.tell_everyone(unlisted("hello"), None if party.is_coordinator else [party.role])
    return party.name


DIFFERENCES: list[tuple[str, dict[str, Any]]] = [
    ("parameters", {"other_parameters": "other"}),
    ("session", {"session": "other"}),
    ("roster", {"roster": Roster(("P1", "P2", "Q3"))}),
    ("roster", {"roster": Roster(("P1", "P2", "P3"), "notary")}),
    ("topology", {"topology": "mesh"}),
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
    errors = [outcome.error for outcome in run_apart(odd, other_parameters="other")]
    texts = [str(error) for error in errors if isinstance(error, HandshakeError)]
    assert any("P1 and coordinator do not agree on the parameters" in text for text in texts)
    assert all("give all roles the same settings" in text for text in texts)


@pytest.mark.parametrize("odd", ROSTER.roles)
def test_both_values_are_named_to_all(odd: int) -> None:
    """Of parameters, sessions and rosters; nobody is told of corrupt bytes."""
    mine, other = TrainParams(), TrainParams(max_depth=5, learning_rate=0.1)
    for changes, values in (
        ({"other_parameters": other.to_json()}, {"learning_rate is 0.1", "max_depth is 5"}),
        ({"other_parameters": replace(mine, xgboost_rules="3.3").to_json()}, {'xgboost_rules is "3.3"'}),
        ({"session": "autumn"}, {'it is "autumn"'}),
        ({"topology": "mesh"}, {'it is "mesh"'}),
        ({"roster": Roster(("P1", "P3", "P2"))}, {'it is ["coordinator", "P1", "P3", "P2"]'}),
    ):
        for outcome in run_apart(odd, parameters=mine.to_json(), **changes):
            assert isinstance(outcome.error, (HandshakeError, PeerFailedError)), outcome
            assert isinstance(outcome.error, HandshakeError) or outcome.error.kind == HandshakeError.__name__
            for value in values:
                name, _, told = value.partition(" is ")
                assert re.search(f"{name} is .* at .* and .* at ", str(outcome.error))
                assert f"{told} at {ROSTER.name(odd)}" in str(outcome.error)


def test_auxiliaries_of_a_mesh_compare_what_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the active participant passes on another nonce of P_2, P_3 notices, who has heard it from P_2 itself."""
    plain = handshake._collect

    def collect(comm: Communicator, peers: Any) -> tuple[dict[int, dict[str, Any]], list[bytes]]:
        greetings, nonces = plain(comm, peers)
        return greetings, [bytes(NONCE_BYTES), *nonces[1:]] if comm.role == 1 else nonces

    monkeypatch.setattr(handshake, "_collect", collect)
    outcomes = run_roles(meet, ROSTER, settings=SessionSettings(deadline=patience(WAIT), topology="mesh"))
    told = "P1 passed on another nonce or commitment than P2 sent"
    assert {str(outcomes[role].error) for role in (2, 3)} >= {told}
    assert all(told in str(outcome.error) for outcome in outcomes[1:] if outcome.role != "P1")


@pytest.mark.parametrize(
    "parameters", [None, 7, [], "[", "[]", "[1]", "{}", "null", '{"max_depth": NaN}', '{"\\ud800": 1}', "[" * 100_000]
)
def test_parameters_that_are_none(parameters: object) -> None:
    """Whatever a peer says that its parameters are, the answer is a printable text of bounded length."""
    communicators, _ = make_communicators(parameters=TrainParams().to_json())
    communicators[1].advance("handshake")
    words = greeting(parameters=parameters)
    communicators[1].send([0], [octets(words), octets(NONCE)], Kind.HELLO)
    with refused(HandshakeError, "mismatch", "parameters", "P1") as caught:
        shake_hands(communicators[0])
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 3000


def test_the_smallest_frame_counts() -> None:
    """Whoever has the least room is not sent more at a time."""
    hub = MemoryHub(ROSTER.links(), 1 << 20)
    communicators = [
        Communicator(hub.end(m), ROSTER, m, SessionSettings(max_frame_bytes=5000 - m, deadline=patience(WAIT)), Meter())
        for m in ROSTER.roles
    ]
    for call in [Call(shake_hands, comm) for comm in communicators]:
        call.result()
    assert [comm.settings.max_frame_bytes for comm in communicators] == [5000 - ROSTER.size] * 4


def test_waiting_times_need_not_agree() -> None:
    """Deadlines and limits are each role's own."""
    outcomes = run_apart(2, deadline=2 * patience(WAIT), max_frame_bytes=1 << 20, max_queued_bytes=1 << 20)
    assert [outcome.result for outcome in outcomes] == ["coordinator", "P1", "P2", "P3"]


@pytest.mark.parametrize("odd", ROSTER.roles)
def test_attempts_that_differ_are_settled(odd: int) -> None:
    """A role that was restarted more often than the others does not stop anybody."""
    outcomes = run_apart(odd, attempt=7)
    assert [outcome.result for outcome in outcomes] == ["coordinator", "P1", "P2", "P3"]


@pytest.mark.parametrize("attempts", [(1, 1, 1, 1), (3, 1, 2, 1), (1, 2, 5, 4), (1, 9, 2, 2)])
def test_the_highest_attempt_counts(attempts: tuple[int, ...]) -> None:
    """All go on as the attempt with the highest number that anyone has reached."""
    hub = MemoryHub(ROSTER.links(), 1 << 20)
    communicators = [
        Communicator(
            hub.end(role), ROSTER, role, SessionSettings(attempt=attempts[role], deadline=patience(WAIT)), Meter()
        )
        for role in ROSTER.roles
    ]
    for call in [Call(shake_hands, comm) for comm in communicators]:
        call.result()
    assert [comm.settings.attempt for comm in communicators] == [max(attempts)] * 4


# Versions


def run_with_protocols(monkeypatch: pytest.MonkeyPatch, spoken: list[list[int]]) -> list[Outcome[int]]:
    """Run all roles, each saying that it speaks these protocols (and knowing them all); return who agreed on what."""
    plain, agreed = handshake._greeting, handshake._read_agreement

    def greeting(comm: Communicator, private: bytes) -> bytes:
        return json.dumps({**json.loads(plain(comm, private)), "protocols": spoken[comm.role]}).encode()

    settled = {}

    def read(comm: Communicator, blob: bytes) -> dict[str, Any]:
        settled[comm.role] = agreed(comm, blob)["protocol"]
        return agreed(comm, blob)

    monkeypatch.setattr(handshake, "PROTOCOLS", (2, 3, 4))
    monkeypatch.setattr(handshake, "_greeting", greeting)
    monkeypatch.setattr(handshake, "_read_agreement", read)

    def protocol(party: Party) -> int:
        meet(party)
        return int(settled[party.role])

    return run_roles(protocol, 3, settings=SessionSettings(deadline=patience(WAIT)))


@pytest.mark.parametrize(
    ("spoken", "newest"),
    [([[2], [2, 3], [2, 3, 4], [1, 2]], 2), ([[4, 3], [3, 4], [3, 4, 5], [3, 2, 1]], 3), ([[2, 3, 4]] * 4, 4)],
)
def test_the_newest_common_protocol_is_agreed(
    monkeypatch: pytest.MonkeyPatch, spoken: list[list[int]], newest: int
) -> None:
    """Of those that all speak, whatever else they speak."""
    assert [outcome.result for outcome in run_with_protocols(monkeypatch, spoken)] == [newest] * 4


def test_no_protocol_in_common_is_named_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any two may have one in common: if all have not, all are told so."""
    outcomes = run_with_protocols(monkeypatch, [[2, 3], [3, 4], [4, 2], [2, 3, 4]])
    for outcome in outcomes:
        assert isinstance(outcome.error, FederationError), outcome
        assert "there is no protocol that all roles speak; install versions" in str(outcome.error)


@pytest.mark.parametrize("odd", ROSTER.roles)
def test_a_role_of_another_age_is_named_to_all(monkeypatch: pytest.MonkeyPatch, odd: int) -> None:
    """Who speaks nothing that the others speak is named, with what both speak."""
    outcomes = run_with_protocols(monkeypatch, [[9, 10] if role == odd else [2, 3, 4] for role in ROSTER.roles])
    others = [str(outcome.error) for role, outcome in enumerate(outcomes) if role != odd]
    assert all(f"{ROSTER.name(odd)} speaks the protocols [9, 10]" in text for text in others)
    assert all("speaks [2, 3, 4]; install versions of mpfedxgb that have one in common" in text for text in others)


# The training, and this role's own choices


def trainings(session: str, attempt: int, keys: list[bytes | None], **more: Any) -> list[Keyring]:
    """Shake hands and return everybody's keys."""
    communicators, _ = make_communicators(2, session=session, attempt=attempt, **more)
    calls = [Call(shake_hands, comm, None, key) for comm, key in zip(communicators, keys, strict=True)]
    return [call.result() for call in calls]


PRIVATE: list[bytes | None] = [bytes([m]) * 32 for m in range(3)]


def test_a_training_is_the_same_in_all_its_attempts() -> None:
    """Same session, same private keys of the participants: same training, though nonces and seeds are others."""
    first, second = trainings("s", 1, PRIVATE), trainings("s", 2, [None, *PRIVATE[1:]])
    assert len({ring.training for ring in (*first, *second)}) == 1
    assert len(first[0].training) == 32
    for m in (1, 2):
        a, b = (rings[m].source(m, 1, "step").elements(VECTOR, (4,)).data.tolist() for rings in (first, second))
        assert a != b


def test_trainings_differ() -> None:
    """By session, parameters and each participant's private key; one that is not given is a new one every time."""
    found = [
        trainings("s", 1, PRIVATE),
        trainings("s", 1, PRIVATE, parameters="max_depth=3"),
        trainings("t", 1, PRIVATE),
        trainings("s", 1, [PRIVATE[0], b"x" * 32, PRIVATE[2]]),
        trainings("s", 1, [PRIVATE[0], PRIVATE[1], b"x" * 32]),
        trainings("s", 1, [PRIVATE[0], PRIVATE[2], PRIVATE[1]]),
        trainings("s", 1, [None] * 3),
        trainings("s", 1, [None] * 3),
    ]
    assert all(len({ring.training for ring in rings}) == 1 for rings in found)
    assert len({rings[0].training for rings in found}) == len(found)


def choices(rings: list[Keyring]) -> list[bytes]:
    """Return what every role chooses at one label."""
    return [ring.private_stream("3/coin/0/1").octets(32).tobytes() for ring in rings]


def test_private_choices_repeat_in_every_attempt_of_a_training() -> None:
    """And there only: in another training nobody's are the same, though it may be another role that began anew."""
    first = choices(trainings("s", 1, PRIVATE))
    assert choices(trainings("s", 2, PRIVATE)) == first
    assert len(set(first)) == 3
    for another in (
        trainings("t", 2, PRIVATE),
        trainings("s", 1, PRIVATE, parameters="max_depth=3"),
        trainings("s", 1, [PRIVATE[0], b"x" * 32, PRIVATE[2]]),
        trainings("s", 1, [None] * 3),
    ):
        assert not set(choices(another)) & set(first)


def test_the_commitment_hides_the_key() -> None:
    """Nothing that is sent holds a private key."""
    communicators, blocks = make_communicators(2)
    calls = [Call(shake_hands, comm, None, key) for comm, key in zip(communicators, PRIVATE, strict=True)]
    for call in calls:
        call.result()
    sent = b"".join(block for *_, block in blocks)
    for key in PRIVATE:
        assert key is not None
        assert key not in sent
        assert key.hex().encode() not in sent


# Who hears what


def make_communicators(
    participants: int = 2, **changes: Any
) -> tuple[list[Communicator], list[tuple[int, int, bytes]]]:
    """Return the communicators of a federation, and the list of blocks that will pass between them."""
    roster, blocks = Roster.numbered(participants), list[tuple[int, int, bytes]]()
    hub = MemoryHub(roster.links(), 1 << 20, tap=lambda *what: blocks.append(what))
    settings = SessionSettings(**{"deadline": patience(WAIT), **changes})
    return [Communicator(hub.end(role), roster, role, settings, Meter()) for role in roster.roles], blocks


@pytest.mark.parametrize("participants", [2, 5])
def test_all_roles_end_with_matching_keys(participants: int) -> None:
    """Every participant has one stream in common with the coordinator, and with nobody else."""
    communicators, _ = make_communicators(participants)
    calls = [Call(shake_hands, comm) for comm in communicators]
    keys: list[Keyring] = [call.result() for call in calls]
    assert [repr(ring) for ring in keys[1:]] == [f"Keyring(participants=[{m}])" for m in range(1, participants + 1)]
    streams = set()
    for m in range(1, participants + 1):
        mine, theirs = (ring.source(m, 1, "step").elements(VECTOR, (4,)).data.tolist() for ring in (keys[m], keys[0]))
        assert mine == theirs
        streams.add(tuple(mine))
    assert len(streams) == participants


def test_who_hears_what() -> None:
    """The coordinator hears greetings and nonces; a seed goes to its participant alone, and is nobody else's."""
    communicators, blocks = make_communicators(3)
    for call in [Call(shake_hands, comm) for comm in communicators]:
        call.result()
    frames = [(sender, receiver, decode(block, 1 << 20)) for sender, receiver, block in blocks]
    assert {frame.kind for *_, frame in frames} == {Kind.HELLO}
    sizes: dict[tuple[int, int], list[list[int]]] = {}
    for s, r, frame in frames:
        sizes.setdefault((s, r), []).append([array.nbytes for array in frame.arrays])
    greeting, agreement = sizes[1, 0][0][0], sizes[1, 0][1][0]
    assert sizes == {
        (1, 0): [[greeting, NONCE_BYTES], [agreement]],
        **{(m, 0): [[greeting, NONCE_BYTES]] for m in (2, 3)},
        **{(m, 1): [[greeting, NONCE_BYTES]] for m in (2, 3)},
        **{(1, m): [[agreement, 3 * NONCE_BYTES, 3 * COMMITMENT_BYTES]] for m in (2, 3)},
        **{(0, m): [[greeting, SEED_BYTES]] for m in (1, 2, 3)},
    }
    seeds = {r: frame.arrays[1].tobytes() for s, r, frame in frames if s == 0}
    nonces = {s: frame.arrays[1].tobytes() for s, r, frame in frames if r == 0 and len(frame.arrays) == 2}
    assert len(set(seeds.values())) == len(set(nonces.values())) == 3
    for sender, _, frame in frames:
        if sender:
            sent = b"".join(array.tobytes() for array in frame.arrays)
            assert not any(seed in sent for seed in seeds.values())


def greeting(**changes: Any) -> bytes:
    """Return a participant's greeting, written by hand."""
    words = {
        "protocols": list(PROTOCOLS),
        "session": "local",
        "attempt": 1,
        "parameters": "",
        "max_frame_bytes": 1 << 30,
        "topology": "star",
        "roster": ["coordinator", "P1", "P2"],
        "commitment": "00" * COMMITMENT_BYTES,
    }
    return json.dumps({**words, **changes}).encode()


NONCE = bytes(NONCE_BYTES)


@pytest.mark.parametrize(
    ("arrays", "expected"),
    [
        ([b"\xff", NONCE], ("damaged", "greeting", "P1")),
        ([b"[1]", NONCE], ("damaged", "greeting", "P1")),
        ([b"7", NONCE], ("damaged", "greeting", "P1")),
        ([b"[" * 100_000, NONCE], ("damaged", "greeting", "P1")),
        ([greeting()], ("damaged", "greeting", "P1")),
        ([greeting(), NONCE, NONCE], ("damaged", "greeting", "P1")),
        ([b"{}", NONCE], ("mismatch", "session", "P1")),
        ([b"[]", NONCE], ("mismatch", "session", "P1")),
        ([greeting(session="other"), NONCE], ("mismatch", "session", "P1")),
        ([greeting(session=["local"]), NONCE], ("mismatch", "session", "P1")),
        ([greeting(parameters=0), NONCE], ("mismatch", "parameters", "P1")),
        ([greeting(roster=["coordinator", "P2", "P1"]), NONCE], ("mismatch", "roster", "P1")),
        *(
            ([greeting(protocols=spoken), NONCE], ("version", "protocols", ANY))
            for spoken in ([99], [], None, "2", "\x1b[2J", 2, ["2"], [[2]], {"2": 2}, [2.5], [99] * 1000)
        ),
        *(
            ([greeting(attempt=attempt), NONCE], ("damaged", "greeting", "P1"))
            for attempt in (0, -1, True, "1", 1.0, None, [1], 1 << 62)
        ),
        *(
            ([greeting(max_frame_bytes=limit), NONCE], ("damaged", "greeting", "P1"))
            for limit in (0, 1023, True, "1024", 4096.0, None, [4096], 1 << 62)
        ),
        *(
            ([greeting(commitment=text), NONCE], ("damaged", "greeting", "P1"))
            for text in ("", "00" * 31, "00" * 33, "0" * 63, "zz" * 32, None, 0, ["00" * 32])
        ),
        ([greeting(), NONCE[1:]], ("mismatch", "nonce", 15)),
    ],
)
def test_greetings_that_are_none(arrays: list[bytes], expected: Expected) -> None:
    """Whatever a participant says instead of its greeting, the coordinator has a name for it, and gives no seed."""
    communicators, blocks = make_communicators()
    communicators[1].advance("handshake")
    communicators[1].send([0], [octets(blob) for blob in arrays], Kind.HELLO)
    with refused(HandshakeError, *expected) as caught:
        shake_hands(communicators[0])
    assert str(caught.value).isprintable()
    assert not [block for sender, _, block in blocks if sender == 0]


def test_greetings_as_deep_as_can_still_be_read() -> None:
    """One that is too deep to be written again differs all the same, by name."""
    limit = sys.getrecursionlimit()
    for depth in range(limit - 200, limit):
        words = greeting(session="@").replace(b'"@"', b"[" * depth + b"]" * depth)
        communicators, _ = make_communicators()
        communicators[1].advance("handshake")
        communicators[1].send([0], [octets(words), octets(NONCE)], Kind.HELLO)
        with pytest.raises(HandshakeError, match=r"cannot be read|do not agree on the session"):
            shake_hands(communicators[0])


def test_the_greeting_by_hand_is_a_good_one() -> None:
    """The helper of the test above differs from a real greeting in nothing but the fault."""
    communicators, _ = make_communicators()
    greet_coordinator(communicators, [greeting(), greeting(protocols=["2", [2], *PROTOCOLS, 99], attempt=5)])
    communicators[1].send([0], [octets(agreement(attempt=5))], Kind.HELLO)
    assert repr(shake_hands(communicators[0])) == "Keyring(participants=[1, 2])"
    assert communicators[0].settings.attempt == 5
    assert communicators[0].settings.link == Link(1, 10)


def greet_coordinator(communicators: list[Communicator], greetings: list[bytes]) -> None:
    """Send both participants' greetings to the coordinator."""
    for m, words in enumerate(greetings, start=1):
        communicators[m].advance("handshake")
        communicators[m].send([0], [octets(words), octets(NONCE)], Kind.HELLO)


def agreement(**changes: Any) -> bytes:
    """Return what the active participant settles, written by hand."""
    settled = {"protocol": PROTOCOLS[-1], "attempt": 1, "max_frame_bytes": 1 << 30, "link": [1, 10]}
    return json.dumps(settled | changes).encode()


UNREADABLE: Code = "damaged"
NEVER: Code = "mismatch"
AGREEMENTS = [
    (b"", UNREADABLE),
    (b"\xff", UNREADABLE),
    (b"7", UNREADABLE),
    (b"[]", UNREADABLE),
    (b"{}", UNREADABLE),
    (b"[" * 100_000, UNREADABLE),
    (b'{"protocol": 2}', UNREADABLE),
    (b'{"protocol": 2, "attempt": ' + b"9" * 5000 + b"}", UNREADABLE),
    (agreement(protocol=99), NEVER),
    (agreement(protocol=None), NEVER),
    (agreement(protocol=[2]), NEVER),
    (agreement(attempt=0), NEVER),
    (agreement(attempt="1"), NEVER),
    (agreement(attempt=1.5), NEVER),
    (agreement(attempt=None), NEVER),
    (agreement(attempt=True), NEVER),
    (agreement(max_frame_bytes=0), NEVER),
    (agreement(link=None), UNREADABLE),
    (agreement(link=[1]), UNREADABLE),
    (agreement(link=[-1, 10]), UNREADABLE),
    (agreement(link=["1", 10]), UNREADABLE),
    (agreement(link=[10**400, 10]), UNREADABLE),
    (agreement(max_frame_bytes="4096"), NEVER),
    (agreement(max_frame_bytes=(1 << 30) + 1), NEVER),
]


@pytest.mark.parametrize(("blob", "code"), AGREEMENTS)
def test_agreements_that_are_none_at_the_coordinator(blob: bytes, code: Code) -> None:
    """Whatever the active participant settles instead of a protocol and an attempt is refused by name."""
    communicators, _ = make_communicators()
    greet_coordinator(communicators, [greeting(), greeting()])
    communicators[1].send([0], [octets(blob)], Kind.HELLO)
    with refused(HandshakeError, code, "agreement", "P1"):
        shake_hands(communicators[0])


def shake_auxiliary(agreed: bytes, nonces: bytes | None = None, commitments: bytes | None = None) -> Keyring:
    """Let P2 shake hands with a coordinator and an active participant written by hand."""
    communicators, blocks = make_communicators()
    key = bytes(SEED_BYTES)
    auxiliary = Call(shake_hands, communicators[2], None, key)
    for comm in communicators[:2]:
        comm.advance("handshake")
    _, nonce = (array.tobytes() for array in communicators[1].receive(2, Kind.HELLO))
    communicators[0].send([2], [octets(greeting()), octets(bytes(SEED_BYTES))], Kind.HELLO)
    theirs = json.loads(decode(blocks[0][2], 1 << 20).arrays[0].tobytes())["commitment"]
    nonces = NONCE + nonce if nonces is None else nonces
    commitments = bytes(COMMITMENT_BYTES) + bytes.fromhex(theirs) if commitments is None else commitments
    communicators[1].send([2], [octets(blob) for blob in (agreed, nonces, commitments)], Kind.HELLO)
    return auxiliary.result()  # type: ignore[no-any-return] # a Call returns anything


def test_the_active_participant_by_hand_is_a_good_one() -> None:
    """The helper above differs from a real one in nothing but the fault."""
    assert repr(shake_auxiliary(agreement())) == "Keyring(participants=[2])"
    assert repr(shake_auxiliary(agreement(attempt=12))) == "Keyring(participants=[2])"


@pytest.mark.parametrize(("blob", "code"), AGREEMENTS)
def test_agreements_that_are_none_at_an_auxiliary(blob: bytes, code: Code) -> None:
    """As at the coordinator."""
    with refused(HandshakeError, code, "agreement", "P1"):
        shake_auxiliary(blob)


@pytest.mark.parametrize(
    ("nonces", "commitments", "parameter"),
    [
        (bytes(2 * NONCE_BYTES), None, "nonce"),
        (None, bytes(2 * COMMITMENT_BYTES), "nonce"),
        (bytes(NONCE_BYTES), None, "greetings"),
        (b"", None, "greetings"),
        (None, bytes(3 * COMMITMENT_BYTES), "greetings"),
        (None, b"", "greetings"),
    ],
)
def test_nonces_and_commitments_that_were_tampered_with(
    nonces: bytes | None, commitments: bytes | None, parameter: str
) -> None:
    """An auxiliary insists on its own nonce and commitment being among those of the session."""
    with refused(HandshakeError, "mismatch", parameter, "P2" if parameter == "nonce" else None):
        shake_auxiliary(agreement(), nonces, commitments)


def shake_active(words: bytes, seed: bytes) -> None:
    """Let P1 shake hands with the others, the coordinator's answer written by hand."""
    communicators, _ = make_communicators()
    for comm in (communicators[0], communicators[2]):
        comm.advance("handshake")
    communicators[2].send([1], [octets(greeting()), octets(NONCE)], Kind.HELLO)
    communicators[0].send([1], [octets(words), octets(seed)], Kind.HELLO)
    shake_hands(communicators[1])


@pytest.mark.parametrize("length", [0, SEED_BYTES - 1, SEED_BYTES + 1])
def test_seeds_of_another_length(length: int) -> None:
    """A seed has 32 bytes, or the participant does not begin."""
    with refused(HandshakeError, "mismatch", "seed", length):
        shake_active(greeting(), bytes(length))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (b"", ("damaged", "greeting")),
        (greeting(parameters="other"), ("mismatch", "parameters")),
        (greeting(protocols=[99]), ("version", "protocols")),
    ],
)
def test_participants_check_the_coordinator_too(words: bytes, message: tuple[Any, ...]) -> None:
    """A coordinator of another session or age gets no further."""
    with refused(HandshakeError, *message):
        shake_active(words, bytes(SEED_BYTES))
    shake_active(greeting(), bytes(SEED_BYTES))


# Waiting


def test_the_first_message_may_take_longer() -> None:
    """Until everybody is there a role waits longer, if it is told to; after that as long as the settings say."""
    hub = MemoryHub(ROSTER.links(), 1 << 20)
    late = 5.0

    def run(role: int) -> Outcome[str]:
        time.sleep(late if role == 3 else 0)
        settings = SessionSettings(deadline=0.7 * late if role == 2 else patience(WAIT))
        return run_role(
            meet, [], hub.end(role), ROSTER, role, settings, first_wait=patience(WAIT) if role == 2 else 0.0
        )

    calls = [Call(run, role) for role in ROSTER.roles]
    assert [call.result().result for call in calls] == ["coordinator", "P1", "P2", "P3"]

    limit = patience(WAIT)
    comm = Communicator(hub.end(2), ROSTER, 2, SessionSettings(deadline=0.1), Meter(), first_wait=limit)
    comm.begin(b"context")
    began = time.monotonic()
    with pytest.raises(FederationError):
        comm.receive(1)
    assert time.monotonic() - began < limit / 2


# Before everybody is there


def test_the_missing_role_is_blamed(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """An auxiliary that hears of nobody else says for whom its peers wait: again and again, and in the end."""
    monkeypatch.setattr(communicator, "SAY_EVERY", 0.3)
    caplog.set_level("INFO", "mpfedxgb.session")
    communicators, _ = make_communicators(3, deadline=1.6)
    words = InterimFrames(communicators[0].roster, 0, communicators[0].settings)
    for names in (["P1", "P3"], ["P3"]):
        communicators[0].transport.send(2, words.waiting(names), patience(WAIT))
    with refused(PeerTimeoutError, "late", "coordinator", "handshake"):
        shake_hands(communicators[2])
    assert caplog.text.count("P2 waits for P1, P3, as coordinator does") == 1
    assert caplog.text.count("P2 waits for P3, as coordinator does") > 1


@pytest.mark.parametrize("session", ["local", "other"])
def test_who_gives_up_says_why(session: str) -> None:
    """Those who are in the handshake already end with the reason, whatever the other's settings are."""
    communicators, _ = make_communicators(3)
    words = InterimFrames(communicators[0].roster, 0, SessionSettings(session))
    error = MissingPeerError("not all roles came within 8 seconds; P3: it has not called")
    communicators[0].transport.send(2, words.giving_up(error), patience(WAIT))
    with refused(PeerFailedError, "failed", "coordinator", "MissingPeerError"):
        shake_hands(communicators[2])


def test_waiting_is_no_step_of_a_session() -> None:
    """Once a session has begun, such a message is out of place."""
    communicators, _ = make_communicators(2)
    for call in [Call(shake_hands, comm) for comm in communicators]:
        call.result()
    communicators[1].send([2], [octets(b"P2")], Kind.WAIT)
    with refused(OutOfStepError, "mismatch", "P1", "handshake"):
        communicators[2].receive(1)
