"""The intersection of M participants: what Python's sets say, at the promised cost, whatever goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import TOPOLOGIES, SessionSettings, Tuning
from mpfedxgb.errors import DataError, FrameError, PeerFailedError, PeerFinishedError, PeerTimeoutError, UserError
from mpfedxgb.intersection.dictionary import Shape
from mpfedxgb.intersection.group import Edwards25519, agree_on_pads, pass_keys_on
from mpfedxgb.intersection.intersect import Marks, intersect
from mpfedxgb.party import ACTIVE, COORDINATOR, Outcome, Party, Roster, run_locally, run_roles
from mpfedxgb.party.entries import Entry
from mpfedxgb.transport.frame import Kind
from mpfedxgb.transport.transport import MESH, STAR
from patience import patience
from support.property_tests import examples
from support.views import Recorder

NAMES = ("bank", "telecom", "retail", "clinic", "city")
GROUP = Edwards25519(1)


def patient(**tuning: Any) -> SessionSettings:
    """Return settings whose deadline only a hang reaches, by the load of this moment."""
    return SessionSettings(deadline=patience(30.0), tuning=Tuning(**tuning))


def program(party: Party, ids: Sequence[str], least: int = 1, meddle: Callable[[Party], None] | None = None) -> Any:
    """Find what is in common, as a participant; the coordinator passes keys on."""
    if meddle is not None:
        meddle(party)
    if not party.owner:
        return pass_keys_on(party)
    (agreed,) = agree_on_pads(party, GROUP, 1)
    return intersect(party, "training", ids, GROUP, agreed, least)


def found(
    lists: Sequence[Sequence[str]], least: int = 1, coordinates: bool = False, topology: str = STAR, **tuning: Any
) -> list[list[str]]:
    """Return what each participant finds to be in common, in its own order; the last may be the coordinator too."""
    names, private = NAMES[: len(lists)], [(ids, least) for ids in lists]
    roster = Roster.coordinated_by(names, names[-1]) if coordinates else Roster(names)
    private = [private[-1], *private[:-1]] if coordinates else [((), least), *private]
    run = run_locally(program, roster, private, replace(patient(**tuning), topology=topology))
    assert len({tuple(ledger) for ledger in run.ledgers[not coordinates :]}) == 1
    marks: list[Marks] = roster.by_owner(run.results)
    return [[one for one, mark in zip(ids, its, strict=True) if mark] for ids, its in zip(lists, marks, strict=True)]


@pytest.mark.parametrize("participants", [2, 3, 5])
@examples(12)
@given(st.data())
def test_what_sets_say(participants: int, data: st.DataObject) -> None:
    """For all sizes, from nothing in common to everything, each participant has its own ids of the intersection."""
    universe = data.draw(st.sets(st.text(max_size=5), min_size=1, max_size=9))
    lists = [data.draw(st.lists(st.sampled_from(sorted(universe)), unique=True)) for _ in range(participants)]
    want = set(lists[0]).intersection(*lists[1:])
    coordinates = participants > 2 and data.draw(st.booleans())
    topology = data.draw(st.sampled_from(TOPOLOGIES))
    everyone = found(lists, 0, coordinates, topology)
    assert everyone == [[one for one in ids if one in want] for ids in lists]


@pytest.mark.parametrize("beat", [0.0, 1.0])
@pytest.mark.parametrize("participants", [2, 3])
def test_more_than_one_message(participants: int, beat: float) -> None:
    """Lists of several messages and very different lengths, either longer; P_1 may say often that it is there."""
    few, many = [str(i) for i in range(40, 60)], [str(i) for i in range(90)]
    for lists in ([few] + [many] * (participants - 1), [many] + [few] * (participants - 1)):
        for coordinates in {False, participants > 2}:
            assert found(lists, 1, coordinates, aligned_ids=16, sign_of_life=beat) == [few] * participants


def test_promised_costs() -> None:
    """Rounds and bytes are those of the docstrings; after the handshake the coordinator gets one key of each."""
    lists = [[str(i) for i in range(10)], [str(i) for i in range(3, 12)], [str(i) for i in range(5, 30)]]
    recorder = Recorder()
    settings = patient(aligned_ids=4)
    run = run_locally(program, Roster(NAMES[:3]), [((),), *((ids,) for ids in lists)], settings, recorder)
    common = 5
    for meter in run.meters[1:]:
        assert meter.total("align training").rounds == 4 + 3
    for m in (1, 2):
        columns = Shape.of(len(lists[m])).bins * Shape.of(len(lists[m])).columns
        sent = run.meters[m + 1].total("align training").payload_sent
        assert sent == {"bank": 8 + 32 * 10 + 16 * columns}
        assert run.meters[1].total("align training").payload_sent[NAMES[m]] == 48 + 32 * 10 + 16 * common
        (told,) = (frame for frame in recorder.links[1, m + 1] if frame.label.endswith("common"))
        tags = [tag.tobytes() for tag in told.arrays[0]]
        assert tags == sorted(tags), "in an order that says nothing of P_1's"
    assert [(r.name, r.receiver, r.count) for r in run.ledgers[1]] == [
        (Entry.ROWS_BEFORE, "participants", 1),
        (Entry.ROWS_BEFORE, "bank", 2),
        (Entry.ROWS_IN_COMMON, "participants", common),
    ]
    later = [frame for frame in recorder.received(frozenset({COORDINATOR})) if frame.kind is not Kind.HELLO]
    assert [(f.kind, f.label, f.sender, [a.shape for a in f.arrays]) for f in later] == [
        (Kind.ANNOUNCE, "keys of pads", m, [(1, 32)]) for m in (2, 3)
    ]
    passed = [frame for m in (2, 3) for frame in recorder.links[COORDINATOR, m] if frame.label == "keys of pads"]
    keys = np.stack([frame.arrays[0] for frame in later])
    assert [frame.arrays[0].tolist() for frame in passed] == [keys.tolist()] * 2


def test_one_auxiliary_needs_no_key() -> None:
    """There is nobody to have a pad with, so the coordinator hears nothing."""
    recorder = Recorder()
    run_locally(program, Roster(NAMES[:2]), [((),), (["a"],), (["a"],)], patient(), recorder)
    assert {frame.kind for frame in recorder.received(frozenset({COORDINATOR}))} == {Kind.HELLO}


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_no_key_passes_the_active_participant(topology: str) -> None:
    """It gets the dictionaries, so it must not be able to put keys of its own in the place of others.

    In a star the coordinator passes them on, who gets no dictionary; in a mesh auxiliaries exchange them.
    """
    settings = replace(patient(aligned_ids=2), topology=topology)
    lists = [["a", "b", "c", "d"], ["b", "c", "d"], ["e", "d", "b"], ["b", "x", "d"]]
    recorder = Recorder()
    run = run_locally(program, Roster(NAMES[:4]), [((),), *((ids,) for ids in lists)], settings, recorder)
    marks: list[Marks] = run.results[1:]
    for ids, its in zip(lists, marks, strict=True):
        assert {one for one, mark in zip(ids, its, strict=True) if mark} == {"b", "d"}
    for (sender, receiver), frames in recorder.links.items():
        keys = [frame for frame in frames if frame.label == "keys of pads"]
        relayed = topology == STAR and {sender, receiver} & {COORDINATOR} and not {sender, receiver} & {ACTIVE}
        assert len(keys) == bool(relayed or (topology == MESH and sender > ACTIVE and receiver > ACTIVE))
        sizes = [frame for frame in frames if frame.label.endswith("/sizes")]
        assert all(array.nbytes == 8 for frame in sizes if sender > ACTIVE for array in frame.arrays), "no key"


def outcomes(
    lists: Sequence[Sequence[str]],
    meddle: dict[int, Callable[[Party], None]],
    least: int = 1,
    deadline: float | None = None,
) -> list[Outcome[Any]]:
    """Run it with roles that do something else."""
    private = [(ids, least, meddle.get(m)) for m, ids in enumerate([(), *lists])]
    settings = SessionSettings(deadline=patience(30.0) if deadline is None else deadline)
    return run_roles(program, Roster(NAMES[: len(lists)]), private, settings)


LISTS = [["a", "b", "c"], ["b", "c", "d"], ["c", "b", "e"]]


@pytest.mark.parametrize(("least", "found_by_bank"), [(3, 2), (4, 0)])
def test_too_few_in_common(least: int, found_by_bank: int) -> None:
    """Nobody but P_1 hears how many there are, which is on its ledger; nobody at all where a list itself is shorter."""
    for m, one in enumerate(outcomes(LISTS, {}, least)[1:], start=ACTIVE):
        assert f"the participants have fewer than {least} training rows in common; compare how" in str(one.error)
        assert isinstance(one.error, (UserError, PeerFailedError))
        assert one.ledger.count(Entry.ROWS_IN_COMMON, "participants") == 0
        assert one.ledger.count(Entry.ROWS_IN_COMMON, "bank") == (found_by_bank if m == ACTIVE else 0)


def test_a_few_guesses_are_not_answered() -> None:
    """A P_1 that asks about fewer ids than there have to be in common, and does not mind, gets no point back."""
    private = [((), 1, None), (["b"], 1, None), *((ids, 2, None) for ids in LISTS[1:])]
    recorder = Recorder()
    ended = run_roles(program, Roster(NAMES[:3]), private, patient(), recorder)
    assert [type(one.error) for one in ended[1:]] == [PeerFailedError, UserError, UserError]
    assert Entry.ROWS_IN_COMMON not in {entry.name for entry in ended[ACTIVE].ledger}
    sent = {
        frame.label for auxiliary in (2, 3) for frame in recorder.links[auxiliary, ACTIVE] if frame.kind is Kind.DATA
    }
    assert sent == set()


def test_nothing_in_common() -> None:
    """Everybody is told."""
    for one in outcomes([["a"], ["b"]], {})[1:]:
        assert "the participants have no training row in common; compare how" in str(one.error)


def test_repeated_ids_are_counted() -> None:
    """The owner hears how many, the others that there is something about a table; nobody hears which."""
    first, second = outcomes([["a", "b"], ["b", "secret", "secret", "secret"]], {})[1:]
    assert isinstance(second.error, DataError)
    assert "telecom: 2 of 4 training rows repeat an id; keep one row per id" in str(second.error)
    assert "a table, label or weight cannot be used" in str(first.error)
    assert "secret" not in f"{first.error}{second.error}"


def changed(change: Callable[[str, list[Any]], list[Any]]) -> Callable[[Party], None]:
    """Return what makes a role send something else: given the step's label and the arrays, what goes out."""

    def meddle(party: Party) -> None:
        communicator, send = party._communicator, party._communicator.send

        def other(peers: Any, arrays: Any, kind: Kind = Kind.DATA) -> None:
            send(peers, change(communicator.label, list(arrays)), kind)

        communicator.send = other  # type: ignore[method-assign] # a role that does not follow the program

    return meddle


def at(step: str, change: Callable[[list[Any]], list[Any]]) -> Callable[[Party], None]:
    """Return what changes the messages of one step."""
    return changed(lambda label, arrays: change(arrays) if label.endswith(step) else arrays)


def zero_points(arrays: list[Any]) -> list[Any]:
    """Return points of which one is the group's zero."""
    points = arrays[0].copy()
    points[-1] = np.frombuffer((1).to_bytes(32, "little"), np.uint8)
    return [points]


WRONG: dict[str, tuple[int, Callable[[Party], None], str]] = {
    "P_1's points are garbled": (1, at("points", lambda a: [a[0] ^ np.uint8(1)]), "bank sent a point that is not one"),
    "P_1 sends zero": (1, at("points", zero_points), "bank sent a point that is not one of the group"),
    "an auxiliary's points are garbled": (2, at("points", zero_points), "telecom sent a point that is not one of the"),
    "P_1 sends fewer points": (1, at("points", lambda a: [a[0][:-1]]), "points from bank: got uint8"),
    "an auxiliary returns fewer": (3, at("points", lambda a: [a[0][:-1]]), "points from retail: got uint8"),
    "points of another type": (2, at("points", lambda a: [a[0].astype(np.int64)]), "points from telecom: got int64"),
    "an absurd size": (
        2,
        at("sizes", lambda a: [a[0] + (1 << 40)]),
        "telecom announced 1099511627779 rows to align",
    ),
    "a negative size": (3, at("sizes", lambda a: [-a[0]]), "retail announced -3 rows to align"),
    "a wrong size": (2, at("sizes", lambda a: [a[0] + 700]), "dictionaries from telecom"),
    "a key that is none": (3, at("keys of pads", zero_points), "sent a point that is not one of"),
    "a key too many": (3, at("keys of pads", lambda a: [a[0][[0, 0]]]), "malformed keys of pads from retail"),
    "no key": (2, at("keys of pads", lambda a: []), "telecom sent no public keys for an alignment"),
    "other keys are passed on": (0, at("keys of pads", lambda a: [a[0][::-1]]), "coordinator passed on another key of"),
    "fewer keys are passed on": (
        0,
        at("keys of pads", lambda a: [a[0][:1]]),
        "malformed keys of pads from coordinator",
    ),
    "a short dictionary": (2, at("dictionaries", lambda a: [a[0][:, 1:]]), "dictionaries from telecom"),
    "tags of nobody": (1, at("common", lambda a: [a[0] ^ np.uint8(1)]), "announced 2 common rows, which are not 1 or"),
    "a tag twice": (1, at("common", lambda a: [a[0][[0, 0]]]), "announced 2 common rows, which are not 1 or more diff"),
    "no tags": (1, at("common", lambda a: [a[0][:0]]), "announced 0 common rows, which are not 1 or more different"),
    "tags of another length": (
        1,
        at("common", lambda a: [a[0][:, 1:]]),
        "malformed rows that all participants have from bank",
    ),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_messages_stop_everybody(kind: str) -> None:
    """With the same reason at all participants who have not ended, naming who sent it; never with a wrong result."""
    culprit, meddle, says = WRONG[kind]
    ended = outcomes(LISTS, {culprit: meddle})
    reasons = [str(one.error) for one in ended if one.error is not None]
    assert any(says in reason for reason in reasons), reasons
    assert sum(isinstance(one.error, FrameError) for one in ended) >= 1
    for one in ended:
        assert one.error is None or says in str(one.error) or isinstance(one.error, (FrameError, PeerFailedError))


def test_a_wrong_dictionary_finds_less() -> None:
    """Random words in place of a dictionary are as if that participant had nobody; it is no error of form."""
    draws = np.random.default_rng(0)
    noise = at("dictionaries", lambda a: [draws.integers(0, 1 << 63, a[0].shape).astype(np.uint64)])
    for one in outcomes(LISTS, {2: noise})[1:]:
        assert "no training row in common" in str(one.error)


@pytest.mark.parametrize(
    ("who", "step"),
    [(1, "sizes"), (1, "points"), (1, "common"), (2, "keys of pads"), (2, "sizes"), (2, "points")],
)
def test_a_role_that_dies(who: int, step: str) -> None:
    """Everybody else ends, and is told who has failed."""

    def die(label: str, arrays: list[Any]) -> list[Any]:
        if label.endswith(step):
            raise RuntimeError("killed")
        return arrays

    ended = outcomes(LISTS, {who: changed(die)})
    assert isinstance(ended[who].error, RuntimeError)
    for m in {1, 2, 3} - {who}:
        assert isinstance(ended[m].error, (PeerFailedError, PeerFinishedError)), ended[m].error
        assert NAMES[who - 1] in str(ended[m].error)


def test_a_role_that_falls_silent() -> None:
    """The others wait no longer than the deadline, and name it."""

    def silent(party: Party) -> None:
        communicator, send = party._communicator, party._communicator.send

        def other(peers: Any, arrays: Any, kind: Kind = Kind.DATA) -> None:
            if communicator.label.endswith(("keys of pads", "sizes")):
                send(peers, arrays, kind)

        communicator.send = other  # type: ignore[method-assign] # a role that does not follow the program

    ended = outcomes(LISTS, {3: silent}, deadline=2.0)
    assert isinstance(ended[ACTIVE].error, PeerTimeoutError)
    assert "retail sent nothing for 2" in str(ended[ACTIVE].error)
    assert all(one.error is not None for one in ended[1:])
