"""One stream key per step and participant, never the same twice."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from contracts.transport_contract import Call
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import KeyReuseError
from mpfedxgb.party import ALL, Party, Roster, run_locally
from mpfedxgb.party.local import run_role
from mpfedxgb.party.roster import NONCE_BYTES, Keyring, context_digest, entropy_of
from mpfedxgb.protocols import (
    BitMatrix,
    lift_secret,
    make_tags,
    masked_by,
    matrices_times,
    multiply,
    negative,
    open_bit,
    open_masked,
    publish_matrix,
    reveal,
    select,
    share,
)
from mpfedxgb.ring import VECTOR, RingArray, wide
from mpfedxgb.ring.prg import Source, Stream, os_entropy
from mpfedxgb.transport import Kind, MemoryHub, decode
from patience import patience
from support.names import unlisted
from support.refusals import refused

SEEDS = {1: b"1" * 32, 2: b"2" * 32}
NONCES = [b"a" * NONCE_BYTES, b"b" * NONCE_BYTES]


def keyring(nonces: list[bytes] = NONCES, roster: Roster | None = None, **settings: Any) -> Keyring:
    """Return the coordinator's keys of a session."""
    context = context_digest(SessionSettings(**settings), roster or Roster.numbered(2), nonces)
    return Keyring(SEEDS, context)


def words(source: Source) -> list[int]:
    """Return what identifies a stream."""
    return list(source.elements(VECTOR, (4,)).data.tolist())


# The key schedule


def test_both_ends_derive_the_same_stream() -> None:
    """The coordinator, who has all seeds, and the participant, who has its own."""
    context = context_digest(SessionSettings(), Roster.numbered(2), NONCES)
    for participant, seed in SEEDS.items():
        theirs = Keyring({participant: seed}, context).source(participant, 1, "step")
        assert words(theirs) == words(keyring().source(participant, 1, "step"))


def test_a_label_serves_once() -> None:
    """A second request for a key is an error; whatever was announced in between."""
    keys = keyring()
    keys.source(1, 1, "multiply")
    with refused(KeyReuseError, "duplicate", "1:multiply"):
        keys.source(1, 1, "multiply")
    keys.announce("rows", b"5")
    with refused(KeyReuseError, "duplicate", "1:multiply"):
        keys.source(1, 1, "multiply")
    keys.source(2, 1, "multiply")
    with pytest.raises(KeyReuseError):
        keys.source(2, 1, "multiply")
    keys.source(1, 1, "multiply again")


def test_no_step_comes_back() -> None:
    """Once a later step has its keys, an earlier one gets none: neither one that it had nor one that it never had."""
    keys = keyring()
    keys.source(1, 3, "multiply")
    keys.source(1, 7, "multiply")
    keys.source(2, 7, "multiply")
    for participant, step, label in ((1, 3, "multiply"), (2, 3, "multiply"), (1, 5, "never"), (1, 7, "multiply")):
        with refused(KeyReuseError, "duplicate", f"{step}:{label}"):
            keys.source(participant, step, label)
    keys.source(1, 8, "multiply")
    with refused(KeyReuseError, "duplicate", "7:multiply again"):
        keys.source(1, 7, "multiply again")


def test_everything_changes_the_stream() -> None:
    """Participant, step, label, session, attempt, roster, each nonce, their order, and announcements."""
    named = Roster(("P1", "Q2"))
    streams = {
        "plain": keyring().source(1, 1, "step"),
        "participant": keyring().source(2, 1, "step"),
        "step": keyring().source(1, 2, "step"),
        "label": keyring().source(1, 1, "step "),
        "session": keyring(session="other").source(1, 1, "step"),
        "attempt": keyring(attempt=2).source(1, 1, "step"),
        "participant's name": keyring(roster=named).source(1, 1, "step"),
        "coordinator's name": keyring(roster=Roster(("P1", "P2"), "C")).source(1, 1, "step"),
        "first nonce": keyring([b"c" * NONCE_BYTES, NONCES[1]]).source(1, 1, "step"),
        "second nonce": keyring([NONCES[0], b"c" * NONCE_BYTES]).source(1, 1, "step"),
        "order of nonces": keyring(NONCES[::-1]).source(1, 1, "step"),
    }
    for name, value in (("rows", b"5"), ("rows", b"6"), ("row", b"s5"), ("", b"rows5")):
        keys = keyring()
        keys.announce(name, value)
        streams[f"announcement {name} {value!r}"] = keys.source(1, 1, "step")
    keys = keyring()
    keys.announce("rows", b"5")
    keys.announce("rows", b"5")
    streams["two announcements"] = keys.source(1, 1, "step")
    found = defaultdict(list)
    for why, source in streams.items():
        found[tuple(words(source))].append(why)
    assert all(len(names) == 1 for names in found.values()), found


def test_what_does_not_matter_does_not_change_the_stream() -> None:
    """Deadlines and limits are each role's own business."""
    other = keyring(deadline=1.0, max_frame_bytes=4096)
    assert words(other.source(1, 1, "step")) == words(keyring().source(1, 1, "step"))


def test_a_participant_has_no_other_keys() -> None:
    """It cannot derive what it has no seed for."""
    mine = Keyring({1: SEEDS[1]}, b"context")
    with pytest.raises(KeyError):
        mine.source(2, 1, "step")


def test_private_choices_come_from_the_private_key_and_the_training() -> None:
    """The same key, training and label give the same choices, in every attempt; another of the three gives others."""

    def choices(key: bytes, label: str, context: bytes = b"context", training: str = "spring") -> bytes:
        return Keyring(SEEDS, context, None, key, training).private_stream(label).octets(32).tobytes()

    mine = choices(b"m" * 32, "0/coin/0/1")
    assert choices(b"m" * 32, "0/coin/0/1", b"another attempt") == mine
    others = [
        choices(b"m" * 32, "0/coin/0/2"),
        choices(b"n" * 32, "0/coin/0/1"),
        choices(b"m" * 32, "0/coin/0/1", training="summer"),
    ]
    assert len({mine, *others}) == 4


def test_private_choices_may_be_asked_for_again() -> None:
    """A choice, unlike a mask, is the same however often it is looked at; without a key it is this role's chance."""
    one, other = Keyring(SEEDS, b"context"), Keyring(SEEDS, b"context")
    drawn = [ring.private_stream("coin").octets(32).tobytes() for ring in (one, one, other)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_private_choices_are_no_masks() -> None:
    """No stream of a step coincides with one of private choices, even for one key and label."""
    ring = Keyring({1: b"k" * 32}, b"context", private=b"k" * 32)
    assert words(ring.private_stream("step")) != words(ring.source(1, 1, "step"))


def test_a_keyring_does_not_print_keys() -> None:
    """`repr` says whose keys there are."""
    assert repr(keyring()) == "Keyring(participants=[1, 2])"
    assert repr(Keyring(SEEDS, b"context", private=b"secret" * 4)) == "Keyring(participants=[1, 2])"


# Entropy


def test_entropy_is_the_operating_systems() -> None:
    """Unless somebody insists."""
    assert entropy_of("P1", SessionSettings()) is os_entropy


def test_insecure_entropy_repeats_but_does_not_coincide() -> None:
    """The same seed draws the same; every role, draw, attempt and seed draws something else."""

    def draws(role: str, seed: int, attempt: int = 1) -> list[bytes]:
        draw = entropy_of(role, SessionSettings(insecure_seed=seed, attempt=attempt))
        return [draw(32) for _ in range(5)]

    assert draws("P1", 7) == draws("P1", 7)
    different = [*draws("P1", 7), *draws("P2", 7), *draws("P1", 8), *draws("P1", 7, attempt=2)]
    assert len(set(different)) == len(different) == 20
    assert len(entropy_of("P1", SessionSettings(insecure_seed=7))(16)) == 16


# A real program


def several_protocols(party: Party) -> list[int] | None:
    """Share, multiply, lift, compare, select, tags, a matrix, announcements; some of them twice under one name."""
    mine = RingArray.encode(VECTOR, [3, -4, 5, -6])
    x = share(party, 1, VECTOR, (4,), mine)
    y = share(party, 2, VECTOR, (4,), mine)
    party.announce(unlisted("rows"), [4])
    for _ in range(2):
        with party.phase("tree"):
            z = lift_secret(party, multiply(party, x, y), wide(2))
            bit = open_bit(party, negative(party, z))
            (z,) = select(party, bit, [(z, z * 2)])
            party.announce(unlisted("rows"), [4])
    make_tags(party, (), [(1, 2), (2, 2)])
    matrix = publish_matrix(party, 2, 3, 4, BitMatrix(np.ones((3, 4), np.uint8)))
    open_masked(party, matrices_times(party, [matrix], masked_by(party, 1, x.reshape(1, 4))))
    shown = reveal(party, z, ALL, unlisted("z"))
    return None if party.is_coordinator else shown.decode().tolist()


class Keys:
    """Every key that a run asks for: (role, participant, label) -> keys."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, int, str], list[bytes]] = defaultdict(list)
        self._lock = threading.Lock()

    def make_source(self, participant: int, label: str, key: bytes) -> Source:
        """Write the key down and return its stream."""
        with self._lock:
            self.seen[threading.current_thread().name, participant, label].append(key)
        return Stream(key)

    def all(self) -> set[bytes]:
        """Return all keys."""
        return {key for keys in self.seen.values() for key in keys}


def run(participants: int = 3, **settings: Any) -> tuple[Keys, list[tuple[int, int, bytes]]]:
    """Run the program; return its keys and, sorted by connection, its blocks."""
    keys = Keys()
    blocks: dict[tuple[int, int], list[bytes]] = defaultdict(list)
    results = run_locally(
        several_protocols,
        participants,
        settings=SessionSettings(**settings),
        tap=lambda sender, receiver, block: blocks[sender, receiver].append(block),
        make_source=keys.make_source,
    ).results
    assert results[1:] == [[9, 16, 25, 36]] * participants
    return keys, [(*pair, block) for pair in sorted(blocks) for block in blocks[pair]]


def masked(blocks: list[tuple[int, int, bytes]]) -> set[bytes]:
    """Return what the data frames held, but for reveals and what is so short that it may coincide by chance."""
    frames = [decode(block, 1 << 20) for *_, block in blocks]
    data = [frame for frame in frames if frame.kind is Kind.DATA and not frame.label.startswith("reveal")]
    content = {b"".join(array.tobytes() for array in frame.arrays) for frame in data if frame.payload_bytes >= 32}
    assert len(content) > 10
    return content


@pytest.mark.parametrize("participants", [2, 4])
def test_no_key_serves_twice_in_a_run(participants: int) -> None:
    """Every role asks for a label once, gets what the coordinator gets, and all keys of the run are different."""
    keys, _ = run(participants)
    by_stream: dict[tuple[int, str], set[bytes]] = defaultdict(set)
    for (role, participant, label), asked in keys.seen.items():
        assert len(asked) == 1, (role, participant, label)
        assert role in ("coordinator", f"P{participant}"), "somebody derived another's key"
        by_stream[participant, label] |= set(asked)
    assert all(len(found) == 1 for found in by_stream.values())
    assert len(keys.all()) == len(by_stream) > 10 * participants
    coordinator = {(participant, label) for role, participant, label in keys.seen if role == "coordinator"}
    assert coordinator == set(by_stream)


def test_a_second_run_of_the_same_session_has_other_keys() -> None:
    """Even if the attempt was not counted up: the nonces are fresh, and so are the seeds."""
    first, blocks = run(session="same", attempt=1)
    second, others = run(session="same", attempt=1)
    assert set(first.seen) == set(second.seen)
    assert not first.all() & second.all()
    assert [len(block) for *_, block in blocks] == [len(block) for *_, block in others]
    assert not masked(blocks) & masked(others)


def test_an_insecure_seed_makes_runs_repeat() -> None:
    """Keys and every block that is sent are the same, until seed, session or attempt change."""
    first, blocks = run(insecure_seed=5)
    second, same = run(insecure_seed=5)
    assert first.seen == second.seen
    assert blocks == same
    for changes in ({"insecure_seed": 6}, {"insecure_seed": 5, "session": "other"}, {"insecure_seed": 5, "attempt": 2}):
        assert not first.all() & run(**changes)[0].all()


def test_attempts_with_one_private_key_share_no_key() -> None:
    """What repeats between the attempts of a session is private choices; every key of every mask is new."""

    def run_kept(attempt: int) -> tuple[Keys, list[tuple[int, int, bytes]], set[bytes]]:
        keys, blocks, choices = Keys(), list[tuple[int, int, bytes]](), set[bytes]()

        def program(party: Party) -> None:
            several_protocols(party)
            choices.add(party.keys.private_stream("coin").octets(32).tobytes())

        roster = Roster.numbered(3)
        hub = MemoryHub(roster.links(), 1 << 24, tap=lambda *what: blocks.append(what))
        settings = SessionSettings(session="kept", attempt=attempt, deadline=patience(20))
        calls = [
            Call(run_role, program, (), hub.end(m), roster, m, settings, keys.make_source, bytes([m + 1]) * 32)
            for m in roster.roles
        ]
        assert [call.result().error for call in calls] == [None] * 4
        return keys, blocks, choices

    (first, blocks, chosen), (second, others, again) = run_kept(1), run_kept(2)
    assert chosen == again
    assert len(chosen) == 4
    assert not first.all() & second.all()
    assert not masked(blocks) & masked(others)


def test_reusing_a_key_ends_the_run() -> None:
    """A program that asks for the same stream twice is stopped, by name."""

    def twice(party: Party) -> None:
        party.step("matrix")
        party.source_of(1, "A")
        party.source_of(1, "A")

    with refused(KeyReuseError, "duplicate", "2:matrix/A"):
        run_locally(twice, 2, settings=SessionSettings(deadline=patience(5)))
