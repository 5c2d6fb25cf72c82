"""The verbs in which protocols are written: masks, corrections, messages, announcements."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import FrameError
from mpfedxgb.party import ACTIVE, ALL, COORDINATOR, Meter, Party, Roster, run_locally
from mpfedxgb.party.communicator import Communicator
from mpfedxgb.party.dry_run import DryRunParty
from mpfedxgb.party.party import turn
from mpfedxgb.party.roster import Keyring
from mpfedxgb.protocols import multiply, open_shares, reveal, share
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from mpfedxgb.ring.prg import Source, Stream
from mpfedxgb.ring.ring import Shape
from mpfedxgb.transport import Kind, MemoryHub, decode
from patience import patience
from support.names import unlisted
from support.received import witnesses
from support.refusals import refused
from support.ring_strategies import same, to_ints

RINGS = [Ring(3), VECTOR, wide(2), wide(4), BIT, PACKED]
SHAPES: list[Shape] = [(), (0,), (5,), (2, 3), (2, 0, 3)]


def total(arrays: list[RingArray]) -> list[Any]:
    """Return the sum of arrays as integers."""
    return list(to_ints(reduce(add, arrays)).ravel().tolist())


@pytest.mark.parametrize("participants", [2, 3, 8])
@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_the_coordinator_knows_the_sum_of_all_masks(ring: Ring, participants: int) -> None:
    """`fresh` is a share at each participant and their sum at the coordinator; twice in a step is two masks."""

    def program(party: Party) -> list[RingArray]:
        party.step("mask")
        return [party.fresh(ring, shape) for shape in (*SHAPES, (64,), (64,))]

    whole, *parts = run_locally(program, participants).results
    for i, mask in enumerate(whole):
        assert total([part[i] for part in parts]) == total([mask])
    assert total([whole[-1]]) != total([whole[-2]])
    assert len({tuple(total([part[-1]])) for part in parts}) == participants


@pytest.mark.parametrize("owner", [1, 2, 3])
def test_a_mask_of_ones_own(owner: int) -> None:
    """`fresh_of` is the owner's and the coordinator's; the others hold zero."""

    def program(party: Party) -> RingArray:
        party.step("mask")
        return party.fresh_of(owner, wide(2), (40,))

    whole, *parts = run_locally(program, 3).results
    for m, part in enumerate(parts, 1):
        assert total([part]) == (total([whole]) if m == owner else [0] * 40)
    assert any(total([whole]))


@pytest.mark.parametrize("participants", [2, 5])
@pytest.mark.parametrize("ring", RINGS, ids=repr)
def test_dealt_shares_add_up(ring: Ring, participants: int) -> None:
    """The shares of what the coordinator computes sum to it, and cost one message, to who has a turn."""
    values = [
        RingArray.encode(ring, np.arange(int(np.prod(shape)), dtype=np.int64).reshape(shape) % 2) for shape in SHAPES
    ]

    def program(party: Party) -> list[RingArray]:
        party.step("deal")
        return party.deal([(ring, shape) for shape in SHAPES], lambda: values)

    blocks: list[tuple[int, int, bytes]] = []
    run = run_locally(program, participants, tap=lambda *what: blocks.append(what))
    dealt, *parts = run.results
    assert dealt == values
    for i, value in enumerate(values):
        assert total([part[i] for part in parts]) == total([value])
    data = [(s, r) for s, r, block in blocks if decode(block, 1 << 20).kind is Kind.DATA]
    assert data == [(COORDINATOR, turn(2, participants))]  # the first step is the handshake


def test_a_step_has_new_masks() -> None:
    """The same request in the next step gives something else, under a key of its own, even if the name is the same."""
    labels: set[str] = set()

    def make_source(participant: int, label: str, key: bytes) -> Source:
        labels.add(label)
        return Stream(key)

    def program(party: Party) -> list[RingArray]:
        masks = []
        for _ in range(3):
            party.step("mask")
            masks.append(party.fresh(VECTOR, (4,)))
        return masks

    for masks in run_locally(program, 2, make_source=make_source).results:
        assert len({tuple(total([mask])) for mask in masks}) == 3
    assert labels == {"2:mask", "3:mask", "4:mask"}


def test_phases_are_part_of_the_step() -> None:
    """Labels are paths of phases, also after an error inside of one."""

    def program(party: Party) -> list[str]:
        labels = []
        with party.phase("tree 3"):
            with party.phase("gain"):
                party.step("multiply")
                labels.append(party.label)
            try:
                with party.phase("leaf"):
                    raise ZeroDivisionError
            except ZeroDivisionError:
                party.step("reveal")
                labels.append(party.label)
        party.step("announce")
        return [*labels, party.label, repr(party)]

    results = run_locally(program, 2).results
    assert results[1] == ["tree 3/gain/multiply", "tree 3/reveal", "announce", "Party(P1, step 4)"]


def test_who_deals_and_who_has_values() -> None:
    """The dealer has shapes only, and P_1 adds public terms; in a dry run nobody has values, and the dealer deals."""

    def words(party: Party) -> tuple[bool, bool, int, list[bool]]:
        return party.is_dealer, party.is_symbolic, party.public_share, [party.has_values_of(m) for m in range(3)]

    def dry(role: int) -> Party:
        return DryRunParty(
            Roster.numbered(2), role, SessionSettings(), {}, lambda name, shape: np.zeros(shape, np.int64)
        )

    assert run_locally(words, 2).results == [
        (True, True, 0, [True, False, False]),
        (False, False, 1, [False, True, False]),
        (False, False, 0, [False, False, True]),
    ]
    nothing = [False, False, False]
    assert [words(dry(role)) for role in range(3)] == [
        (True, True, 0, nothing),
        (False, True, 1, nothing),
        (False, True, 0, nothing),
    ]


def test_streams_in_common() -> None:
    """`source_of` gives the owner and the coordinator the same stream, the others none."""

    def program(party: Party) -> list[Any] | None:
        party.step("matrix")
        source = party.source_of(2, "A")
        return None if source is None else total([source.elements(VECTOR, (3,))])

    coordinator, first, second, third = run_locally(program, 3).results
    assert coordinator == second
    assert first is third is None


def test_announcements_reach_the_coordinator() -> None:
    """All roles return the announced value, and derive other keys from then on."""

    def program(party: Party, value: int) -> tuple[list[Any], list[Any]]:
        public = party.announce(unlisted("owners"), None if party.is_coordinator else [value, -1])
        party.step("mask")
        return public.tolist(), total([party.fresh_of(1, VECTOR, (4,))])

    masks = set()
    for value in (3, 4):
        settings = SessionSettings(insecure_seed=1)
        results = run_locally(program, 2, [(value,)] * 3, settings).results
        assert [public for public, _ in results] == [[value, -1]] * 3
        assert results[0][1] == results[1][1]
        masks.add(tuple(results[0][1]))
    assert len(masks) == 2


@pytest.mark.parametrize("participants", [2, 4])
def test_one_role_tells_another(participants: int) -> None:
    """Between the active participant and any other, and from the coordinator: the receiver alone has the numbers."""
    pairs = [(m, ACTIVE) for m in range(2, participants + 1)] + [(ACTIVE, m) for m in range(2, participants + 1)]
    pairs += [(COORDINATOR, m) for m in range(1, participants + 1)]

    looking = witnesses(participants)

    def program(party: Party) -> tuple[list[Any], list[int]]:
        rounds, told = [], []
        for i, (sender, receiver) in enumerate(pairs):
            with party.phase(f"tell {i}"):
                mine = np.full((2, 3), 100 * i + sender) if party.role == sender else np.zeros((2, 3), np.int64)
                told.append(party.tell(sender, receiver, unlisted(f"number {i}"), mine).tolist())
            rounds.append(party.meter.total(f"tell {i}").rounds)
        return told, rounds

    run = run_locally(program, participants, observers=looking)
    for role, (told, rounds) in enumerate(run.results):
        mine = []
        for i, (sender, receiver) in enumerate(pairs):
            value = [[100 * i + sender] * 3] * 2
            assert told[i] == (value if role in (sender, receiver) else [[0] * 3] * 2)
            mine += [(f"number {i}", value)] if role == receiver else []
        assert looking[role].seen == mine
        assert rounds == [int(role != COORDINATOR)] * len(pairs)
    expected = {(f"number {i}", Roster.numbered(participants).name(to), 6) for i, (_, to) in enumerate(pairs)}
    for ledger in run.ledgers:
        assert {(entry.name, entry.receiver, entry.count) for entry in ledger} == expected


def test_what_is_told_is_told_in_the_expected_form() -> None:
    """A single array of int64 of the shape that the receiver expects; the text names the sender and what it told."""
    for arrays in ([], [np.zeros(2, np.uint64)], [np.zeros(3, np.int64)], [np.zeros(2, np.int64)] * 2):
        party, _, communicator = connected()
        communicator.advance("tell P1 number")
        communicator.send([ACTIVE], arrays)
        with refused(FrameError, "damaged", "number", "P2"):
            party.tell(2, ACTIVE, unlisted("number"), np.zeros(2, np.int64))


def test_witnesses_see_what_their_role_may_know() -> None:
    """Announcements reach every role's witness, reveals the receiver's; masks and openings nobody's."""

    def program(party: Party) -> None:
        secret = share(party, 2, VECTOR, (2,), RingArray.encode(VECTOR, [5, -6]) if party.role == 2 else None)
        squared = multiply(party, secret, secret)
        for to, name in ((2, "to one"), (ALL, "to all"), (ACTIVE, "to the active")):
            reveal(party, squared, to, unlisted(name))
        party.announce(unlisted("announced"), None if party.is_coordinator else [1])
        party.broadcast(unlisted("broadcast"), [2 if party.is_active else 0])
        party.tell_everyone(unlisted("everyone"), None if party.is_coordinator else [party.role])

    public = [("announced", [1]), ("broadcast", [2]), ("everyone", [[1], [2], [3]])]
    squares = [25, 36]
    looking = witnesses(3)
    run_locally(program, 3, observers=looking)
    assert [one.seen for one in looking] == [
        public,
        [("to all", squares), ("to the active", squares), *public],
        [("to one", squares), ("to all", squares), *public],
        [("to all", squares), *public],
    ]


# What comes over the wire


def connected() -> tuple[Party, Communicator, Communicator]:
    """Return the active participant, and the communicators of the coordinator and of P2."""
    roster, settings = Roster.numbered(2), SessionSettings(deadline=patience(5.0))
    hub = MemoryHub(roster.links(), 1 << 20)
    communicators = [Communicator(hub.end(role), roster, role, settings, Meter()) for role in roster.roles]
    return Party(communicators[1], Keyring({1: bytes(32)}, b"context")), communicators[0], communicators[2]


@pytest.mark.parametrize("ring", RINGS, ids=repr)
@pytest.mark.parametrize("shape", SHAPES)
def test_elements_arrive_as_they_were_sent(ring: Ring, shape: Shape) -> None:
    """Every ring and shape; bits travel eight to a byte, the others as they lie in memory."""
    party, _, communicator = connected()
    sender = Party(communicator, Keyring({2: bytes(32)}, b"context"))
    size = int(np.prod(shape))
    sent = RingArray.encode(ring, np.arange(size).reshape(shape) % 2)
    sender.send([1], [sent, sent])
    first, second = party.receive(2, [(ring, shape)] * 2)
    assert first.ring == ring
    assert same(first, to_ints(sent))
    assert same(second, to_ints(sent))
    payload = -(-size // 8) if ring == BIT else size * ring.element_bytes
    assert communicator.meter.total().bytes_sent == 2 * payload


@pytest.mark.parametrize(
    ("array", "spec", "message"),
    [
        (np.zeros(3, np.uint64), (VECTOR, (4,)), r"malformed start from P2: got uint64\(3,\), expected uint64\(4,\)"),
        (np.zeros((4, 1), np.uint64), (VECTOR, (4,)), r"got uint64\(4, 1\), expected uint64\(4,\)"),
        (np.zeros(4, np.int64), (VECTOR, (4,)), "int64"),
        (np.zeros(4, np.uint8), (VECTOR, (4,)), "uint8"),
        (np.zeros((4, 2), np.uint64), (wide(3), (4,)), r"got uint64\(4, 2\), expected uint64\(4, 3\)"),
        (np.zeros(4, np.uint8), (BIT, (4,)), r"got uint8\(4,\), expected uint8\(1,\)"),
        (np.zeros(2, np.uint8), (BIT, (17,)), r"got uint8\(2,\), expected uint8\(3,\)"),
        (np.array([3, 8], np.uint8), (Ring(3), (2,)), r"values outside Z_2\^3"),
        (np.array([1 << 40], np.uint64), (Ring(40), (1,)), r"values outside Z_2\^40"),
    ],
)
def test_anything_else_than_expected_is_refused(array: Any, spec: tuple[Ring, Shape], message: str) -> None:
    """Wrong types, shapes and values outside the ring are errors; the text shows sizes only."""
    party, _, communicator = connected()
    communicator.send([1], [array])
    with pytest.raises(FrameError, match=message):
        party.receive(2, [spec])


def test_another_number_of_arrays_is_refused() -> None:
    """A message has exactly the arrays of its step."""
    for count in (0, 1, 3):
        party, _, communicator = connected()
        communicator.send([1], [np.zeros(1, np.uint64)] * count)
        got = ", ".join(["uint64\\(1,\\)"] * count) or "nothing"
        with pytest.raises(FrameError, match=f"from P2: got {got}, expected uint64\\(1,\\), uint64\\(1,\\)$"):
            party.receive(2, [(VECTOR, (1,))] * 2)


def test_announcements_are_integers() -> None:
    """The coordinator takes int64 only."""
    party, communicator, _ = connected()
    coordinator = Party(communicator, Keyring({1: bytes(32), 2: bytes(32)}, b"context"))
    party.step("announce owners")
    party._communicator.send([0], [np.zeros(1, np.uint64)], Kind.ANNOUNCE)
    with refused(FrameError, "damaged", "owners", "P1"):
        coordinator.announce(unlisted("owners"), None)


@pytest.mark.parametrize("participants", [2, 3, 5])
def test_all_that_a_step_needs_is_prepared_at_once(participants: int) -> None:
    """`prepare` draws masks and deals what the coordinator makes of them: shares that add up, in one message."""
    fresh = [(ring, (5, 3)) for ring in RINGS if ring != BIT]
    dealt = [(PACKED, (7,)), (wide(3), (2, 2)), (VECTOR, (0,)), (Ring(3), (9,))]
    known = [RingArray(ring, ring.reduce(np.full(shape + ring.tail, 5, ring.dtype))) for ring, shape in dealt]

    def program(party: Party) -> tuple[list[RingArray], list[RingArray]]:
        party.step("prepare")

        def compute(masks: list[RingArray]) -> list[RingArray]:
            assert [(mask.ring, mask.shape) for mask in masks] == fresh
            return known

        return party.prepare(fresh, dealt, compute)

    run = run_locally(program, participants)

    (whole, values), *parts = run.results
    for i, mask in enumerate(whole):
        assert total([masks[i] for masks, _ in parts]) == total([mask])
    for i, value in enumerate(values):
        assert total([shares[i] for _, shares in parts]) == total([value]) == total([known[i]])
    greetings = {f"P{m}": 1 for m in range(1, participants + 1)}
    assert run.meters[COORDINATOR].total("").messages == {**greetings, f"P{turn(2, participants)}": 2}


def test_openings_of_a_step_are_numbered_under_its_keys() -> None:
    """From the second on an opening has a number and a name; masks come from the step's own stream all the while."""
    labels: list[tuple[int, int, str]] = []

    def program(party: Party) -> list[RingArray]:
        party.step("several")
        first = party.fresh(VECTOR, (4,))
        opened = [*open_shares(party, [first])]
        second = party.fresh(VECTOR, (4,))
        opened += open_shares(party, [second], what="again")
        return opened if not party.is_coordinator else [first, second]

    def tap(sender: int, receiver: int, block: bytes) -> None:
        frame = decode(block, len(block))
        if (sender, frame.kind) == (ACTIVE, Kind.DATA):
            labels.append((receiver, frame.step, frame.label))

    whole, one, two = run_locally(program, 2, tap=tap).results

    assert [label for _, _, label in labels] == ["several", "several #2 again"]
    assert labels[1][1] == labels[0][1] + 1
    for place in (0, 1):
        assert total([whole[place]]) == total([one[place]]) == total([two[place]])
