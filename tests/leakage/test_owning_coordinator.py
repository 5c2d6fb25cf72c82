"""A coordinator that brings columns: nobody sees more than the ledger says, alone or as a coalition of participants.

It knows all masks, so that with any one other it would see everything: that is said in the threat model and no test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import SecretError
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import MakeSource, Roster
from mpfedxgb.protocols import reveal, share, split_rows
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring import PACKED, VECTOR, Ring, RingArray
from mpfedxgb.ring.array import pack
from mpfedxgb.ring.ring import Shape
from mpfedxgb.training import secure_train
from mpfedxgb.transport.frame import Kind
from mpfedxgb.transport.transport import MESH
from mpfedxgb.tree import Split
from support import tiny_cases as tiny
from support.chance import THRESHOLD, joint, p_uniform
from support.every_protocol import LARGEST, SMALLEST, ZEROS, Private, every_protocol
from support.names import unlisted
from support.received import STAR_SUMS, is_on_ledger, operation, p_outside_ledger, symbols
from support.sealed_trainings import sealed_of
from support.small_trainings import Training, training_of
from support.streams import Spoilt, Zeros, sound
from support.views import Case, Coalition, Draw, Recorder, Way, coalitions, leaks

C = frozenset({COORDINATOR})
ROSTER = Roster(("P1", "P2"), "P3", coordinator_owns=True)
CASES: dict[str, Callable[[int, int], Case]] = {
    "multiply": lambda m, last: tiny.products(m, tiny.Z2, last),
    "share each": tiny.shares_of_each,
    "two gates": tiny.owned_gates,
    "child update and leaf": tiny.children,
    "sums over leaves": tiny.leaf_sums_at_once,
    "tags": tiny.tags,
}
"""Every protocol in which values of its own are the coordinator's."""


def case_of(name: str, participants: int) -> Case:
    """Return a case whose last owner is the coordinator."""
    return CASES[name](participants, participants + 1)


def views() -> Iterator[Any]:
    """Yield every case with each of two participants, some with coalitions of three, and with the coordinator alone."""
    for name in CASES:
        for m in (2, 3) if name in ("share each", "tags") else (2,):
            way = Way() if m == 2 else Way(MESH, corrected=2)
            for coalition in (C, *(c for c in coalitions(m) if len(c) == m - 1)):
                if case_of(name, m).hides(coalition, m):
                    who = "C" if coalition == C else "+".join(f"P{p}" for p in sorted(coalition))
                    yield pytest.param(name, m, coalition, way, id=f"{name}-{who} of {m}")


@pytest.mark.parametrize(("name", "participants", "coalition", "way"), list(views()))
def test_views_are_the_same_for_all_secrets(name: str, participants: int, coalition: Coalition, way: Way) -> None:
    """Over all randomness at once: what is received hangs on nobody else's secrets."""
    assert leaks(case_of(name, participants), participants, coalition, way=way) == []


def at_tags(draw: Draw) -> bool:
    """Tell the blinding of tags."""
    return draw.label.endswith(":tags")


def test_tags_opened_without_kappa_leak_the_index() -> None:
    """Negative control: then both participants read which candidate of the coordinator's has won."""
    for member in (1, 2):
        assert leaks(case_of("tags", 2), 2, frozenset({member}), frozen=at_tags)


@pytest.mark.parametrize("name", ["share each", "tags", "child update and leaf"])
def test_masks_of_one_participant_alone_leak(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative control: the participant that made a mask of the coordinator's alone knows what it hides."""
    fresh_of = Party.fresh_of

    def of_first(party: Party, owner: int, ring: Ring, shape: Shape) -> RingArray:
        return fresh_of(party, ACTIVE if party.roster.role_of(owner) == COORDINATOR else owner, ring, shape)

    monkeypatch.setattr(Party, "fresh_of", of_first)
    case = replace(case_of(name, 2), expect=None)  # the share of bits goes wrong, too
    assert leaks(case, 2, frozenset({1}))
    assert leaks(case, 2, frozenset({2})) == []


@pytest.mark.parametrize("shared", [[1], []], ids=["dealt as numbers", "cast"])
def test_parts_of_mask_bits_are_no_parts_of_numbers(shared: list[int]) -> None:
    """Of two nodes the second is the coordinator's. Cast, what makes its mask bits by XOR gives wrong sides."""
    values, goes_left = np.arange(2 * 40).reshape(2, 1, 40), np.arange(80).reshape(2, 40) % 3 == 0

    def program(party: Party) -> list[RingArray]:
        x = share(party, ACTIVE, VECTOR, (2, 1, 40), RingArray.encode(VECTOR, values))
        bits = {i: pack(goes_left[i].astype(np.uint8)) for i, owner in enumerate((2, 3)) if party.owner == owner}
        q = share_each(party, (2, 3), PACKED, (5,), bits)
        left = split_rows(party, q, x, shared=shared).both[:2]
        return [reveal(party, left, ACTIVE, unlisted("left"))]

    (left,) = run_locally(program, ROSTER).results[ACTIVE]

    right = left.decode() == np.where(goes_left[:, None], values, 0)
    assert right[0].all()
    assert right[1].all() == bool(shared)


RUNS = 640
WINS = Private(numerators=(3 << 60, 7 << 60), denominator=1 << 20)
SECRETS = {"zeros": ZEROS, "largest": LARGEST, "smallest": SMALLEST, "the coordinator's win": WINS}


def record(secrets: Private, topology: str = "star", make_source: MakeSource | None = None) -> Recorder:
    """Run every protocol on the same extreme secrets of all owners; the last owner is the coordinator."""
    recorder, settings = Recorder(), SessionSettings(insecure_seed=5, topology=topology)
    private = [(RUNS, secrets)] + [(RUNS, ZEROS if secrets is WINS else secrets)] * ROSTER.size
    run = run_locally(every_protocol, ROSTER, private, settings, recorder, make_source)
    mine = run.results[COORDINATOR]
    hidden = [*(x.masked for x in mine.secrets), *(x.part for x in mine.shares), *mine.revealed]
    assert len(hidden) > 40
    for array in hidden:
        with pytest.raises(SecretError):
            _ = array.data
    return recorder


def p_values(recorder: Recorder, topology: str) -> list[tuple[float, str]]:
    """Return how likely everything outside the ledger is that the participants received."""
    found, summed_by = [], STAR_SUMS if topology == "star" else frozenset[int]()
    for receiver in ROSTER.holders:
        for frame in recorder.received(frozenset({receiver}), [Kind.DATA, Kind.OWN]):
            if not is_on_ledger(frame, ("sum to all", "sign to all", "owner"), summed_by):
                for place in range(len(frame.arrays)):
                    for values, alphabet in symbols(frame, place):
                        what = f"{frame.label} [{place}] from {frame.sender} to {receiver}"
                        found.append((p_uniform(values, alphabet), what))
    return found


@pytest.mark.parametrize(("secrets", "topology"), [("zeros", "star"), ("largest", "mesh"), ("smallest", "star")])
def test_everything_outside_the_ledger_is_uniform(secrets: str, topology: str) -> None:
    """What the coordinator sends of its own, its matrix, marks, bits and numbers, is as random as all else."""
    found = p_values(record(SECRETS[secrets], topology), topology)

    assert joint([p for p, _ in found]) > THRESHOLD, min(found)
    assert sum("matrix of P3" in what for _, what in found) == 1
    assert sum("from 0" in what and "share" in what for _, what in found) > 10


def test_a_matrix_sent_with_a_share_missing_is_found() -> None:
    """Negative control: where one participant's share is left out, the other gets the matrix as it is."""
    broken = Spoilt(sound, lambda participant, label, _: Zeros() if label.endswith("matrix of P3") else None)
    found = p_values(record(LARGEST, make_source=broken), "star")

    assert broken.count > 0
    assert [what.partition(" ")[2] for p, what in found if p < THRESHOLD / len(found) and "matrix of" in what]


@pytest.mark.parametrize("secrets", ["largest", "the coordinator's win"])
def test_coordinator_receives_greetings_and_announcements_only(secrets: str) -> None:
    """Greetings, what P_1 settled, its announcements; of its own winners the opened tags, of others' the owner."""
    recorder = record(SECRETS[secrets])
    frames = list(recorder.received(C))
    announced = [frame for frame in frames if frame.kind is Kind.ANNOUNCE]
    own = [frame for frame in announced if operation(frame) == f"announce {Entry.OWN_SPLIT}"]

    assert {frame.kind for frame in frames} == {Kind.HELLO, Kind.ANNOUNCE}
    assert {frame.sender for frame in announced} == {ACTIVE}
    wins = secrets != "largest"
    assert len(own) == (5 if wins else 0)
    for frame in own:
        octets = frame.arrays[0].astype("<i8").view(np.uint8).reshape(RUNS, 8)
        assert (octets[:, 0] == ROSTER.owning_coordinator).all()
        assert p_uniform(octets[:, 1:].ravel(), 256) > THRESHOLD


# Whole trainings with shared directions and with samples of columns

WITH_DIRECTIONS: dict[str, Callable[[], Training]] = {
    "directions": lambda: training_of("directions", 3),
    "samples of levels": lambda: _with(training_of("directions", 3), colsample_bylevel=0.6),
    "samples of nodes, clipped": lambda: _with(training_of("directions", 3), colsample_bynode=0.6, max_delta_step=0.4),
    "sealed": lambda: sealed_of("directions", 3),
    "sealed, samples of nodes": lambda: _with(sealed_of("directions", 3), colsample_bynode=0.7),
}


def _with(training: Training, **changes: Any) -> Training:
    return replace(training, params=replace(training.params, **changes))


def train(training: Training, topology: str, make_source: MakeSource | None = None) -> tuple[LocalRun[Any], Recorder]:
    """Run a training whose last owner is the coordinator."""
    recorder, settings = Recorder(), SessionSettings(insecure_seed=5, topology=topology)
    owned = replace(training, coordinator_owns=True)
    return run_locally(secure_train, owned.roster, owned.private, settings, recorder, make_source), recorder


@pytest.mark.parametrize("topology", ["star", "mesh"])
@pytest.mark.parametrize("kind", WITH_DIRECTIONS)
def test_directions_and_samples_are_uniform_too(kind: str, topology: str) -> None:
    """Nobody sees them: what the participants receive is random, the coordinator hears what it hears, ledgers agree."""
    run, recorder = train(WITH_DIRECTIONS[kind](), topology)
    found = p_outside_ledger(recorder, ROSTER.size, (Entry.TREE_SHAPE,))

    assert joint([p for p, _ in found]) > THRESHOLD, min(found)
    assert len(found) > 400
    assert {frame.kind for frame in recorder.received(C)} == {Kind.HELLO, Kind.ANNOUNCE}
    assert len({tuple(sorted((r.name, r.receiver, r.count) for r in ledger)) for ledger in run.ledgers}) == 1
    assert any(isinstance(node, Split) for tree in run.results[COORDINATOR].model.trees for node in tree)


def test_directions_without_a_mask_are_found() -> None:
    """Negative control: then what the coordinator sends of its own is not random."""
    broken = Spoilt(sound, lambda participant, label, _: Zeros() if label.endswith("setup/share of P3") else None)
    _, recorder = train(WITH_DIRECTIONS["directions"](), "star", broken)
    found = p_outside_ledger(recorder, ROSTER.size, (Entry.TREE_SHAPE,))

    assert broken.count == 4, "each part at the coordinator and at its maker"
    assert "setup/share of P3" in min(found)[1]
    assert min(found)[0] < THRESHOLD / len(found)
