"""What scorings reveal: the design's table, exactly; all else that is received is uniform, whatever the secrets are."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import pytest

from mpfedxgb.config import SessionSettings, Tuning
from mpfedxgb.errors import UserError
from mpfedxgb.party import ACTIVE, COORDINATOR
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring import PACKED, VECTOR, Ring, RingArray
from mpfedxgb.ring.prg import Source
from mpfedxgb.ring.ring import Shape
from mpfedxgb.transport.frame import Frame, Kind
from support.chance import THRESHOLD, Symbols, half_bytes, joint, p_views_alike
from support.received import operation, p_outside_ledger
from support.refusals import refused
from support.small_scorings import KINDS, Run, Scoring, of_everyone, serve
from support.small_trainings import models, training_of
from support.streams import Spoilt, own_randomness_fixed, sound
from support.views import Coalition, Recorder, coalitions, written_out

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3])
ONLY_LEAVES = "nothing but single leaves"
RUNS = 24
BATCHES = [[3, 1, 2], *[list(range(41))] * 12]
"""Rows of the batches of a session: the same ones again and again, so that anything but masks would pile up."""


@lru_cache(maxsize=32)
def recorded(kind: str, participants: int) -> tuple[Scoring, Run, Recorder]:
    """Run a scoring of one kind, with fixed seeds, and record all frames; once for all tests."""
    scoring, recorder = KINDS[kind](participants), Recorder()
    return scoring, scoring.run(7, recorder), recorder


@PARTICIPANTS
@EVERY_KIND
def test_ledger_is_the_table_of_a_scoring(kind: str, participants: int) -> None:
    """Names, receivers and numbers are those that follow from the model; only P_1 has a result."""
    scoring, run, _ = recorded(kind, participants)
    written = [{(entry.name, entry.receiver): entry.count for entry in ledger} for ledger in run.ledgers]

    assert written == [scoring.ledger()] * (participants + 1)
    assert [result is not None for result in run.results] == [role == ACTIVE for role in range(participants + 1)]


@PARTICIPANTS
@EVERY_KIND
def test_coordinator_hears_sizes_and_shapes(kind: str, participants: int) -> None:
    """A greeting of everyone, what was agreed, then P_1's announcements: rows and trees, classes, leaves and owners."""
    scoring, _, recorder = recorded(kind, participants)
    frames = list(recorder.received(frozenset({COORDINATOR})))
    told = {operation(f).removeprefix("announce "): f.arrays[0].tolist() for f in frames if f.kind is Kind.ANNOUNCE}
    shapes = [
        [i % scoring.classes, t.leaves, *(int(m in (t.owners or ())) for m in range(1, participants + 1))]
        for i, t in enumerate(scoring.used)
    ]

    assert {frame.kind for frame in frames} == {Kind.HELLO, Kind.ANNOUNCE}
    assert list(told) == [Entry.ROWS_TO_SCORE, Entry.TREE_SHAPE]
    assert told[Entry.TREE_SHAPE] == [shapes] * participants
    assert [row[:2] for row in told[Entry.ROWS_TO_SCORE]] == [
        [len(scoring.columns[0]), len(scoring.trees)]
    ] * participants


@PARTICIPANTS
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != ONLY_LEAVES])
def test_everything_outside_the_ledger_is_uniform(kind: str, participants: int) -> None:
    """Weights and marks of leaves all alike or not: all that a participant receives passes a chi-square test."""
    _, _, recorder = recorded(kind, participants)
    p_values = p_outside_ledger(recorder, participants)

    assert len(p_values) > 4
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


@PARTICIPANTS
def test_of_single_leaves_nothing_is_sent(participants: int) -> None:
    """P_1 adds up weights that are its own; nobody receives anything outside the ledger."""
    assert p_outside_ledger(recorded(ONLY_LEAVES, participants)[2], participants) == []


@PARTICIPANTS
@pytest.mark.parametrize("elements", [1, 1 << 12])
@pytest.mark.parametrize("kind", ["all rows alike", "three classes, one of single leaves", "shared weights", "sealed"])
def test_chunks_change_nothing(kind: str, elements: int, participants: int) -> None:
    """Eight rows at a time, or more: the same ledger, other masks for every chunk, all uniform."""
    scoring, recorder = KINDS[kind](participants), Recorder()
    run = scoring.run(8, recorder, tuning=Tuning(leaf_elements=elements))
    p_values = p_outside_ledger(recorder, participants)
    reveals = [f for f in recorder.links[2, ACTIVE] if operation(f) == f"reveal {Entry.PREDICTION}"]

    assert len(p_values) > 4
    assert len(reveals) > 1
    assert {(entry.name, entry.receiver): entry.count for entry in run.ledgers[0]} == scoring.ledger()
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


def of_honest(scoring: Scoring, coalition: Coalition) -> Scoring:
    """Return another world: all that is not the coalition's own turned round, and what it may know the same.

    Honest participants have other values and thresholds, so their splits send all rows to the other side, whatever that
    is called. If P_1 is among them, so are the weights; otherwise each tree has the same in all leaves, and so P_1's
    predictions are the same, too.
    """
    honest = set(range(1, scoring.participants + 1)) - coalition
    columns = [1 - column if m in honest else column for m, column in enumerate(scoring.columns, 1)]
    trees = []
    for tree in scoring.trees:
        assert tree.owners is not None
        thresholds = [0.25 if owner in honest else old for owner, old in zip(tree.owners, tree.thresholds, strict=True)]
        weights = (-1, 0, 1) if ACTIVE in honest else tree.weights
        trees.append(replace(tree, thresholds=(thresholds[0], thresholds[1]), weights=weights))
    return replace(scoring, columns=columns, trees=trees)


def few(participants: int, sealed: bool = False) -> Scoring:
    """Return a scoring of nine rows by few trees, all rows alike: small enough to be repeated."""
    count = participants * (participants - 1)
    columns = [np.zeros(9) for _ in range(participants)]
    return Scoring(of_everyone(participants)[:count], columns, shared=sealed, takes_all=sealed)


def view(scoring: Scoring, coalition: Coalition, seed: int, streams: MakeSource) -> list[Symbols]:
    """Return all that a coalition receives in one scoring, array by array, as half bytes; P_1's result with it."""
    recorder = Recorder()
    run = scoring.run(seed, recorder, streams)
    arrays = [array for frame in recorder.received(coalition, [Kind.DATA]) for array in frame.arrays]
    result = run.results[ACTIVE]
    return half_bytes(arrays if result is None or ACTIVE not in coalition else [*arrays, result])


def p_of_worlds(participants: int, coalition: Coalition, streams: MakeSource, sealed: bool = False) -> float:
    """Return how likely a coalition's views of two scorings are, if both have one distribution."""
    one = few(participants, sealed)
    worlds = (one, of_honest(one, coalition))
    views = [
        [view(world, coalition, 100 * i + seed, streams) for seed in range(RUNS)] for i, world in enumerate(worlds)
    ]
    return p_views_alike(*views)


@pytest.mark.parametrize(("participants", "coalition"), [(m, group) for m in (2, 3) for group in coalitions(m)])
def test_nobody_tells_others_weights_thresholds_or_rows(participants: int, coalition: Coalition) -> None:
    """What a coalition receives, its own randomness being fixed, is distributed alike in both worlds."""
    assert p_of_worlds(participants, coalition, own_randomness_fixed(coalition)) > THRESHOLD


@pytest.mark.parametrize(("participants", "coalition"), [(2, group) for group in coalitions(2)])
def test_nobody_tells_the_leaves_of_a_sealed_model(participants: int, coalition: Coalition) -> None:
    """The same where all participants hold shares of the weights: other leaves with the same sums look alike."""
    assert p_of_worlds(participants, coalition, own_randomness_fixed(coalition), sealed=True) > THRESHOLD


def test_a_sealed_model_tells_no_sum_of_fewer_trees() -> None:
    """Everybody refuses a part of the trees, whoever asks; nothing but sizes has been told by then."""
    recorder = Recorder()
    with refused(UserError, "mode", "iteration_range", 1):
        replace(few(2, sealed=True), rounds=1).run(1, recorder)
    frames = list(recorder.received(frozenset({ACTIVE, 2}), [Kind.DATA]))

    assert {operation(frame) for frame in frames} <= {f"tell {Entry.ROWS_TO_SCORE}"}


def form(frame: Frame) -> tuple[object, ...]:
    """Return all of a frame but its content."""
    return frame.kind, frame.sender, frame.step, frame.label, [(a.dtype, a.shape) for a in frame.arrays]


@PARTICIPANTS
def test_form_of_messages_depends_on_the_ledger_only(participants: int) -> None:
    """Other weights, thresholds and rows: on every link the same frames in the same order."""
    forms, one = [], few(participants)
    for seed, scoring in enumerate((one, of_honest(one, frozenset()), of_honest(one, frozenset({ACTIVE})))):
        recorder = Recorder()
        scoring.run(seed, recorder)
        forms.append({link: [form(frame) for frame in frames] for link, frames in recorder.links.items()})

    assert forms[0] == forms[1] == forms[2]


@PARTICIPANTS
def test_sessions_add_the_ids_and_nothing_else(participants: int) -> None:
    """Batches in a federation: the auxiliaries are told which rows are meant; all else is as above."""
    training, recorder = training_of("classes", participants), Recorder()
    serve(models(training.run(1)), training.tables, BATCHES, SessionSettings(insecure_seed=1), recorder)
    p_values = p_outside_ledger(recorder, participants)

    assert len(p_values) > 4
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)
    for m in range(2, participants + 1):
        told = [json.loads(f.arrays[0].tobytes()) for f in recorder.links[ACTIVE, m] if operation(f) == "ids"]
        assert told == [[f"row {i}" for i in batch] for batch in BATCHES]
    assert {f.kind for f in recorder.received(frozenset({COORDINATOR}))} == {Kind.HELLO, Kind.ANNOUNCE}


@dataclass(slots=True)
class Forgetful:
    """A stream that forgets to mask what is of one ring."""

    stream: Source
    ring: Ring

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements; zeros in the forgotten ring."""
        drawn = self.stream.elements(ring, shape)
        return written_out(RingArray.zeros(ring, shape)) if ring == self.ring else drawn

    def again(self, start: int = 0) -> Forgetful:
        """Return the same stream from so many bytes behind its beginning."""
        return Forgetful(self.stream.again(start), self.ring)


def unmasked(owner: int, ring: Ring, streams: MakeSource = sound) -> Spoilt:
    """Return streams with which a participant publishes what it shares, as it is: weights are words, marks packed."""
    return Spoilt(
        streams,
        lambda participant, label, stream: (
            Forgetful(stream, ring) if participant == owner and "predict/share" in label else None
        ),
    )


LEAKS = {
    "leaf weights": (ACTIVE, VECTOR, frozenset({2})),
    "reachable leaves of P1": (ACTIVE, PACKED, frozenset({2})),
    "reachable leaves of P2": (2, PACKED, frozenset({ACTIVE})),
}
"""What is published unmasked: whose it is, in which ring, and who would look at it."""


@pytest.mark.parametrize("leak", LEAKS)
def test_what_is_published_unmasked_is_not_uniform(leak: str) -> None:
    """Negative control: the test of uniformity finds each leak in every kind of rows, and in sessions."""
    owner, ring, _ = LEAKS[leak]
    training = training_of("classes", 2)
    for kind in ("random rows", "all rows alike", "all rows on the other side", "weights zero"):
        streams, recorder = unmasked(owner, ring), Recorder()
        KINDS[kind](2).run(7, recorder, streams)
        assert streams.count > 0
        assert joint([p for p, _ in p_outside_ledger(recorder, 2)]) < THRESHOLD

    streams, recorder, parts = unmasked(owner, ring), Recorder(), models(training.run(1))
    for seed in range(8):  # weights are shared once a session
        serve(parts, training.tables, BATCHES[:3], SessionSettings(insecure_seed=seed), recorder, streams)
    assert streams.count > 0
    assert joint([p for p, _ in p_outside_ledger(recorder, 2)]) < THRESHOLD


@pytest.mark.parametrize("leak", LEAKS)
def test_what_is_published_unmasked_tells_worlds_apart(leak: str) -> None:
    """Negative control: the test of two worlds finds each leak."""
    owner, ring, coalition = LEAKS[leak]
    streams = unmasked(owner, ring, own_randomness_fixed(coalition))

    assert p_of_worlds(2, coalition, streams) < THRESHOLD
    assert streams.count > 0
