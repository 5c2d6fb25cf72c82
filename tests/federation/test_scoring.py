"""Scoring on demand: many batches in one session, people who are missing, idle times, and every kind of end."""

from __future__ import annotations

import gc
import json
import re
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import mpfedxgb
from contracts.transport_contract import Call
from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.config import TUNING, SessionSettings, Tuning
from mpfedxgb.data.table import Table
from mpfedxgb.errors import (
    DataError,
    DoesNotFitError,
    FederationError,
    FrameError,
    HandshakeError,
    PeerFailedError,
    RefusedError,
    StoppedError,
    UserError,
)
from mpfedxgb.federation.lookup import TableLookup
from mpfedxgb.federation.programs import run_coordinator, run_scoring
from mpfedxgb.federation.quota import RowsPerDay
from mpfedxgb.federation.scoring import (
    END,
    STILL_THERE,
    Service,
    _check_models,
    _lists,
    _prepare,
    _Request,
    score_batches,
)
from mpfedxgb.party import ACTIVE, COORDINATOR, Outcome, Party, Roster, run_roles
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.local import run_role
from mpfedxgb.ring import kernels
from mpfedxgb.transport import Kind, MemoryHub
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf
from patience import patience
from support.refusals import refused
from support.toy_tables import QUICK, TELECOM, labels, margins_by_hand, people
from support.views import Recorder

WAIT = 60.0
X = people(90)
IDS = tuple(f"c-{i:04}" for i in range(4000, 4090))
HELD = {"bank": ["age", "income"], "telecom": TELECOM, "retail": ["city"]}
ROSTER = Roster(tuple(HELD))


@lru_cache(maxsize=8)
def models(kind: str = "binary", seed: int = 0, **changes: Any) -> tuple[PartialModel, ...]:
    """Return everybody's part of a model."""
    make = FedXGBRegressor if kind in ("regression", "counts") else FedXGBClassifier
    estimator = make(insecure_seed=seed, **{**QUICK, **dict(changes)})
    y = labels(X, kind)
    options = {"eval_set": [(tables(), y)]} if "early_stopping_rounds" in changes else {}
    return tuple(estimator.fit(tables(), y, **options).partial_models_)


def tables(rows: Sequence[int] | None = None) -> dict[str, pd.DataFrame]:
    """Return some rows as the participants hold them."""
    chosen = X if rows is None else X.iloc[list(rows)].reset_index(drop=True)
    return {name: chosen[columns] for name, columns in HELD.items()}


def table_of(part: PartialModel, rows: Sequence[int]) -> Table:
    """Return some rows as a participant's program has them."""
    known = {f.name: f.categories for f in part.features if f.categories is not None}
    return Table.read(tables(rows)[part.name], part.name).match([f.name for f in part.features], known)


def keys(rows: Sequence[int]) -> tuple[str, ...]:
    """Return the ids of some rows."""
    return tuple(IDS[i] for i in rows)


@dataclass
class Session:
    """A running session: the active participant's service, and how to wait for everybody's end."""

    parts: tuple[PartialModel, ...]
    service: Service
    calls: list[Call]
    recorder: Recorder
    hub: MemoryHub
    outcomes: list[Outcome[Any]] = field(default_factory=list)

    def score(self, rows: Sequence[int], timeout: float | None = None) -> Any:
        """Score some rows."""
        limit = patience(WAIT) if timeout is None else timeout
        return self.service.score(keys(rows), table_of(self.parts[0], rows), limit)

    def by_hand(self, rows: Sequence[int], trees: int | None = None) -> Any:
        """Return the same from the joined model."""
        return margins_by_hand(join(list(self.parts)), tables(rows), trees)

    def end(self) -> list[Outcome[Any]]:
        """End the session and return how everybody ended."""
        self.service.end()
        self.outcomes = [call.result() for call in self.calls]
        return self.outcomes


@contextmanager
def session(
    parts: tuple[PartialModel, ...] | None = None,
    served: dict[str, Sequence[int]] | None = None,
    deadline: float | None = None,
    programs: dict[int, Callable[..., Any]] | None = None,
    expected: type[BaseException] | None = None,
    max_frame_bytes: int = 1 << 30,
    quota: RowsPerDay | None = None,
    tuning: Tuning = TUNING,
) -> Iterator[Session]:
    """Run a session; the auxiliaries hold all people unless `served` says otherwise; telecom may have a quota."""
    kernels.warm_up()
    parts = models() if parts is None else parts
    everyone = range(len(IDS))
    services = []
    for part in parts:
        rows = list((served or {}).get(part.name, everyone))
        limit = quota if part.name == "telecom" else None
        services.append(
            Service(part) if part.is_active else Service(part, TableLookup(keys(rows), table_of(part, rows)), limit)
        )
    recorder = Recorder()
    hub = MemoryHub(ROSTER.links(), 1 << 28, recorder)
    most = patience(WAIT) if deadline is None else deadline
    settings = SessionSettings("scores", deadline=most, max_frame_bytes=max_frame_bytes, tuning=tuning)

    def run(role: int) -> Outcome[Any]:
        program, arguments = (programs or {}).get(role), (services[role - 1],) if role else ()
        if program is None:
            program = run_scoring if role else lambda party: run_coordinator(party, parts[0].params)
        outcome = run_role(program, arguments, hub.end(role), ROSTER, role, settings)
        if role == 1:
            services[0].fail(outcome.error or FederationError("the scoring session has ended"))
        return outcome

    made = Session(parts, services[0], [Call(run, role) for role in ROSTER.roles], recorder, hub)
    try:
        yield made
    finally:
        outcomes = made.end()
    for outcome in outcomes:
        assert outcome.error is None if expected is None else outcome.error is not None, outcome


# Batches


def test_one_session_scores_many_batches() -> None:
    """Of any size, in any order of people, again and again; each as the joined model says."""
    rng = np.random.default_rng(5)
    with session() as running:
        for size in (1, 2, 90, 7, 1, 33):
            rows = rng.permutation(90)[:size].tolist()
            np.testing.assert_allclose(running.score(rows), running.by_hand(rows), rtol=0, atol=1e-7)
        assert running.score([3]).tolist() == running.score([3]).tolist()
    told = {(e.name, e.receiver) for e in running.outcomes[0].ledger}
    assert {
        (Entry.BATCH, "participants"),
        (Entry.NOT_FOUND, "participants"),
        (Entry.PREDICTION, "bank"),
        (Entry.CLASSES, "coordinator"),
    } <= told
    assert {(Entry.BATCH_IDS, "telecom"), (Entry.BATCH_IDS, "retail")} <= told
    assert running.outcomes[0].result == "scoring"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("classes", {}),
        ("regression", {}),
        ("counts", {"objective": "count:poisson"}),
        ("binary", {"security": "paper", "min_child_weight": 0}),
        ("binary", {"early_stopping_rounds": 1, "n_estimators": 8, "learning_rate": 1.0}),
    ],
)
def test_every_kind_of_model(kind: str, changes: dict[str, Any]) -> None:
    """One row of margins per tree of a round; a model that stopped early is used up to its best round."""
    parts = models(kind, **changes)
    rows = [80, 3, 41, 7]
    with session(parts) as running:
        best, per_round = parts[0].best_iteration, parts[0].params.trees_per_round
        assert (best is None) == ("early_stopping_rounds" not in changes)
        expected = running.by_hand(rows, None if best is None else (best + 1) * per_round)
        found = running.score(rows)
        assert found.shape == (per_round, 4)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7 if parts[0].params.facts.is_exact else 1e-5)


def test_hops_of_a_batch_of_one_row() -> None:
    """As many as the docstring says, for each of them, whatever was scored before."""
    said = re.search(r"Hops per batch of few rows: (\d+)", score_batches.__doc__ or "")
    assert said is not None
    hops = []
    for batches in (1, 2, 4):
        with session(deadline=600.0) as running:  # so long that nobody has to say it is still there
            for i in range(batches):
                running.score([i])
        hops.append([outcome.meter.total().hops for outcome in running.outcomes[1:]])

    first, second, fourth = (np.array(each) for each in hops)
    assert (second - first).tolist() == [int(said[1])] * 3
    assert (fourth - second).tolist() == [2 * int(said[1])] * 3


def test_a_session_holds_no_more_after_many_batches() -> None:
    """What is allocated in this package stays the same from batch to batch; it grew by 1.6 kB a batch."""
    once, batches = table_of(models()[0], [5]), 120
    ours = [tracemalloc.Filter(True, f"{Path(mpfedxgb.__file__).parent}/*")]
    with session(deadline=600.0) as running:
        running.hub.tap = None  # what tests record is kept

        def held_after(batches: int) -> int:
            for _ in range(batches):
                running.service.score(keys([5]), once, WAIT)
            gc.collect()
            return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)

        tracemalloc.start()
        try:
            before = held_after(40)
            grown = held_after(batches) - before
        finally:
            tracemalloc.stop()
    assert grown < 40 * batches


def test_batches_from_several_threads() -> None:
    """Whoever asks gets the answers to its own rows."""
    batches = [[i, 89 - i] for i in range(12)]
    with session() as running:
        calls = [Call(running.score, rows) for rows in batches]
        for rows, call in zip(batches, calls, strict=True):
            np.testing.assert_allclose(call.result(), running.by_hand(rows), rtol=0, atol=1e-7)


def test_rows_beyond_a_chunk() -> None:
    """A batch that does not fit one message of the joint prediction comes in several."""
    rows = list(range(90))
    with session(tuning=Tuning(leaf_elements=64)) as running:
        np.testing.assert_allclose(running.score(rows), running.by_hand(rows), rtol=0, atol=1e-7)


def test_a_batch_beyond_a_frame() -> None:
    """Ids and marks that are longer than a frame may be go in several."""
    rows = list(range(90))
    with session(max_frame_bytes=1024) as running:
        np.testing.assert_allclose(running.score(rows), running.by_hand(rows), rtol=0, atol=1e-7)
    lists = [f for f in running.recorder.links[1, 2] if f.label == "ids"]
    assert len(lists) > 1
    assert max(frame.payload_bytes for frames in running.recorder.links.values() for frame in frames) <= 1024


@pytest.mark.parametrize("room", [30, 100, 10_000])
def test_lists_of_ids(room: int) -> None:
    """Together they are all ids, each list fits, and none is empty."""
    texts = ["a", "é" * 3, "c-4001", "x" * 50, '"', "\U0001f600", "last"]
    found = list(_lists(texts, room))
    assert [key for text in found for key in json.loads(text)] == texts
    assert all(len(text) <= room or len(json.loads(text)) == 1 for text in found)
    assert all(json.loads(text) for text in found)


# People who are not there


@pytest.mark.parametrize(
    ("served", "lacking"),
    [
        ({"telecom": range(80)}, "telecom 10"),
        ({"retail": range(70)}, "retail 20"),
        ({"telecom": range(80), "retail": range(75)}, "telecom 10, retail 15"),
    ],
)
def test_missing_people_are_counted_and_the_session_goes_on(served: dict[str, Sequence[int]], lacking: str) -> None:
    """The active participant is told who lacks how many, never whom; the next batch is scored as if nothing was."""
    rows = list(range(70, 90))
    with session(served=served) as running:
        for _ in range(2):
            with refused(DataError, "missing", "rows", sum(map(int, re.findall(r"\d+", lacking)))) as caught:
                running.score(rows)
            assert f": {lacking};" in str(caught.value)
            assert "c-40" not in str(caught.value)
            np.testing.assert_allclose(running.score([5, 4]), running.by_hand([5, 4]), rtol=0, atol=1e-7)


def test_nobody_but_the_auxiliaries_learns_who_is_scored() -> None:
    """Ids go to the auxiliaries only; the coordinator gets sizes."""
    with session() as running:
        running.score([1, 2, 3])
    for (sender, receiver), frames in running.recorder.links.items():
        text = b"".join(array.tobytes() for frame in frames for array in frame.arrays)
        assert (b"c-4001" in text) == (sender == 1 and receiver > 1)
    told = [f for f in running.recorder.links[1, COORDINATOR] if f.kind is Kind.ANNOUNCE]
    assert {frame.arrays[0].dtype for frame in told} == {np.dtype(np.int64)}


def test_a_batch_without_rows_is_refused() -> None:
    """It would look like a sign of life."""
    with session() as running:
        with refused(DataError, "few", "rows", 0):
            running.service.score((), table_of(running.parts[0], [1]))
        assert running.score([1]).shape == (1, 1)


# Time passes


def test_a_session_may_be_idle() -> None:
    """For longer than anybody's deadline: the active participant says that it is still there."""
    with session(deadline=3.0) as running:
        first = running.score([8])
        time.sleep(7.0)
        assert running.score([8]).tolist() == first.tolist()
    frames = [f for f in running.recorder.links[1, COORDINATOR] if f.label == f"announce {Entry.BATCH}"]
    told = [int(frame.arrays[0][0]) for frame in frames]
    assert told.count(STILL_THERE) >= 3
    assert [size for size in told if size != STILL_THERE] == [1, 1, END]


def test_a_batch_waits_for_the_session() -> None:
    """Who asks before everybody is there gets an answer when they are."""
    parts = models()
    service = Service(parts[0])
    early = Call(service.score, keys([2]), table_of(parts[0], [2]))
    time.sleep(0.2)
    assert early.waits
    assert not service.begun.is_set()

    def program(party: Party) -> None:
        if party.is_coordinator:
            score_batches(party, None)
        elif party.is_active:
            score_batches(party, service)
        else:
            part = parts[party.role - 1]
            score_batches(party, Service(part, TableLookup(IDS, table_of(part, range(90)))))

    run = Call(run_roles, program, ROSTER, None, SessionSettings(deadline=patience(WAIT)))
    expected = margins_by_hand(join(list(parts)), tables([2]))
    np.testing.assert_allclose(early.result(), expected, rtol=0, atol=1e-7)
    assert service.begun.is_set()
    service.end()
    assert [outcome.error for outcome in run.result()] == [None] * 4


def test_a_timeout_of_the_caller() -> None:
    """Who does not want to wait is told so."""
    service = Service(models()[0])
    with refused(FederationError, "late", "batch", 0.05):
        service.score(keys([2]), table_of(models()[0], [2]), 0.05)


# Ends


def test_ending_after_the_batches_that_wait() -> None:
    """What was asked for before the end is answered; what comes after it is not."""
    everybody_asked = threading.Event()

    def begin_late(party: Party, service: Service) -> None:
        assert everybody_asked.wait(patience(WAIT))
        run_scoring(party, service)

    with session(programs={ACTIVE: begin_late}) as running:
        before = [Call(running.score, [i]) for i in range(5)]
        end = time.monotonic() + patience(WAIT)
        while running.service._requests.qsize() < len(before):
            assert time.monotonic() < end
            time.sleep(0.01)
        running.service.end()
        everybody_asked.set()
        for i, call in enumerate(before):
            np.testing.assert_allclose(call.result(), running.by_hand([i]), rtol=0, atol=1e-7)
        with pytest.raises(FederationError, match="the scoring session has ended"):
            running.score([1])


@pytest.mark.parametrize("role", [0, 2, 3])
def test_a_failure_reaches_whoever_waits(role: int) -> None:
    """A role that stops in the middle ends the session: the batch on its way, those that wait and those that follow."""
    batches = threading.Semaphore(0)

    def stop(party: Party, service: Service | None = None) -> None:
        plain = party.tell_everyone

        def tell(name: Entry, mine: Any, shape: tuple[int, ...] = (1,)) -> Any:
            if name == Entry.NOT_FOUND and not batches.acquire(blocking=False):
                raise StoppedError("stopped by SIGTERM")
            return plain(name, mine, shape)

        party.tell_everyone = tell  # type: ignore[method-assign]
        if service is None:
            run_coordinator(party, models()[0].params)
        else:
            run_scoring(party, service)

    batches.release()
    with session(programs={role: stop}, expected=FederationError) as running:
        running.score([1])
        waiting = [Call(running.score, [i]) for i in range(4)]
        for call in waiting:
            with pytest.raises(PeerFailedError, match=f"{ROSTER.name(role)} failed: StoppedError"):
                call.result()
        with pytest.raises(PeerFailedError, match="stopped by SIGTERM"):
            running.score([2])


@pytest.mark.parametrize("role", [0, 2, 3])
def test_a_peer_that_dies_between_batches(role: int) -> None:
    """Without a word: whoever asks for the next batch is told, and so is whoever asks after that."""
    with session(expected=FederationError) as running:
        running.score([1])
        running.hub.close(role)
        for _ in range(2):
            asked = Call(running.service.score, keys([2]), table_of(running.parts[0], [2]), None)
            with pytest.raises(FederationError, match=ROSTER.name(role)):
                asked.result()


def test_a_request_that_meets_the_end() -> None:
    """However the end of a session and a new request fall together, nobody waits in vain."""
    for _ in range(300):
        service = Service(models()[0])
        limit = patience(WAIT)
        call = Call(service.score, keys([2]), None, limit)
        service.fail(FederationError("the scoring session has ended"))
        began = time.monotonic()
        with pytest.raises(FederationError, match="has ended"):
            call.result()
        assert time.monotonic() - began < limit / 2


def test_parts_of_different_models() -> None:
    """Are noticed, at all roles; the caller is told too."""
    others = models(n_estimators=2)
    parts = (models()[0], replace(others[1], training=models()[1].training), models()[2])
    with session(parts, expected=UserError) as running, refused(UserError, "mismatch", "training"):
        running.score([1, 2])


@pytest.mark.parametrize(
    ("name", "lie", "named"),
    [
        (Entry.CLASSES, 1 << 40, "1099511627776 margins per row; allowed: 1 to 10000"),
        (Entry.CLASSES, 0, "0 margins per row"),
        (Entry.BATCH, 1 << 40, "1099511627776 rows of a batch; allowed: -1 to 67108864"),
        (Entry.BATCH, -2, "-2 rows of a batch"),
    ],
)
def test_sizes_that_cannot_be(name: str, lie: int, named: str) -> None:
    """All the others refuse what the active participant says, before they take memory for it, and say what it was."""

    def tell_lies(party: Party, service: Service) -> None:
        plain = party.broadcast

        def broadcast(what: Entry, values: Any) -> Any:
            lies = what == name and values[0] != STILL_THERE
            told = plain(what, [lie] if lies else values)
            return np.array(values) if lies else told

        party.broadcast = broadcast  # type: ignore[method-assign,assignment]
        run_scoring(party, service)

    with (
        session(programs={1: tell_lies}, expected=FederationError) as running,
        pytest.raises(PeerFailedError, match=f"FrameError: bank announced {named}"),
    ):
        running.score([1])
    for outcome in running.end():
        assert f"bank announced {named}" in str(outcome.error)


@pytest.mark.parametrize(
    "arrays",
    [
        [],
        [np.zeros(0, np.uint8)],
        [np.frombuffer(b"[1, 2]", np.uint8)],
        [np.frombuffer(json.dumps([]).encode(), np.uint8)],
        [np.frombuffer(json.dumps(["c-4001", "c-4002", "c-4003"]).encode(), np.uint8)],
        [np.frombuffer(json.dumps({"a": 1, "b": 2}).encode(), np.uint8)],
        [np.frombuffer(b"[" * 100_000, np.uint8)],
        [np.frombuffer(b'["c-4001", "\xff"]', np.uint8)],
        [np.frombuffer(json.dumps(["c-4001", "c-4002"]).encode(), np.uint8)] * 2,
    ],
)
def test_garbled_lists_of_people(arrays: list[Any]) -> None:
    """An auxiliary takes as many texts as it was told, and nothing else."""
    part = models()[1]

    def program(party: Party) -> None:
        if party.role == 2:
            score_batches(party, Service(part, TableLookup(IDS, table_of(part, range(90)))))
        else:
            service = Service(models()[0]) if party.is_active else None
            _check_models(party, service)
            party.broadcast(Entry.CLASSES, [1])
            _prepare(party, service, None if service is None else service.model.scorer(Table("bank", (), 0)), 1)
            party.broadcast(Entry.BATCH, [2])
            party.step("ids")
            if party.is_active:
                party._communicator.send([2], arrays)
            party.tell_everyone(Entry.NOT_FOUND, None if party.is_coordinator else [0])

    outcomes = run_roles(program, 2, settings=SessionSettings(deadline=patience(WAIT)))
    assert isinstance(outcomes[2].error, FrameError)
    assert "P1 sent another list of rows than it said" in str(outcomes[2].error)


def test_nothing_is_printed_that_should_not_be() -> None:
    """A service and its requests show no ids and no margins."""
    service = Service(models()[1], TableLookup(IDS, table_of(models()[1], range(90))))
    assert repr(service) == "Service(telecom)"
    assert "c-4001" not in repr(_Request(IDS, table_of(models()[1], [1])))


def test_parts_of_different_trainings() -> None:
    """Are refused although their trees look alike, with the names of those who differ."""
    mine = models()
    other = replace(mine[1], training="another")
    with (
        session((mine[0], other, mine[2]), expected=HandshakeError) as running,
        refused(HandshakeError, "mismatch", "training"),
    ):
        running.score([1, 2])


# An active participant that wants more than predictions


def leaves_of(tree: Any) -> list[int]:
    """Return the numbers of a tree's leaves, in the order of the nodes."""
    return [number for number, node in enumerate(tree) if isinstance(node, Leaf)]


def with_weights(part: PartialModel, weights: Sequence[Sequence[int]]) -> PartialModel:
    """Return the active participant's part with leaf weights of its own choosing."""
    trees = []
    for tree, chosen in zip(part.trees, weights, strict=True):
        of_leaf = dict(zip(leaves_of(tree), chosen, strict=True))
        trees.append(
            tuple(replace(node, weight=of_leaf[i]) if isinstance(node, Leaf) else node for i, node in enumerate(tree))
        )
    return replace(part, trees=tuple(trees))


def digits(part: PartialModel) -> tuple[list[list[int]], list[int]]:
    """Return weights whose sum is a number with one digit per tree, the place of the leaf; and how many there are."""
    bases = [len(leaves_of(tree)) for tree in part.trees]
    worth = [int(np.prod(bases[:t], dtype=np.int64)) for t in range(len(bases))]
    return [[place * worth[t] for place in range(base)] for t, base in enumerate(bases)], bases


def true_leaves(parts: Sequence[PartialModel], rows: Sequence[int]) -> list[list[int]]:
    """Return in which leaf of each tree each row is, by walking a joined model whose weights name the leaves."""
    found = []
    for t in range(len(parts[0].trees)):
        named = [
            [place << WEIGHT_BITS if t == other else 0 for place in range(len(leaves_of(tree)))]
            for other, tree in enumerate(parts[0].trees)
        ]
        model = join([with_weights(parts[0], named), *parts[1:]])
        margins = margins_by_hand(model, tables(rows))
        found.append(np.rint(margins - np.array(model.base_margin)[:, None]).sum(axis=0).astype(int).tolist())
    return found


def test_chosen_weights_tell_every_leaf() -> None:
    """What the ledger says is the most, is had: one number per row, and in it the leaf of every tree."""
    parts, rows = models(), list(range(90))
    weights, bases = digits(parts[0])
    edited = with_weights(parts[0], weights)
    with session((edited, *parts[1:])) as running:
        margins = running.score(rows)[0] - np.array(edited.base_margin)
    told = np.rint(margins * 2.0**WEIGHT_BITS).astype(np.int64)
    learned = []
    for base in bases:
        learned.append((told % base).tolist())
        told //= base
    assert min(bases) > 1
    assert learned == true_leaves(parts, rows)
    assert len({tuple(leaves) for leaves in zip(*learned, strict=True)}) > 2, "rows differ"
    (entry,) = [e for e in running.outcomes[2].ledger if e.name == Entry.PREDICTION]
    assert (entry.receiver, entry.count) == ("bank", len(rows))
    assert "at most all its leaves" in entry.name


def test_a_class_for_every_tree_is_refused() -> None:
    """Which would tell the leaf of each tree without any calculation; nothing is predicted."""
    parts = models()
    params = replace(parts[0].params, objective="multi:softprob", num_class=len(parts[0].trees))
    edited = replace(parts[0], params=params, base_margin=(0.0,) * len(parts[0].trees), classes=None)
    with (
        session((edited, *parts[1:]), expected=FederationError) as running,
        refused(PeerFailedError, "failed", "telecom", "HandshakeError"),
    ):
        running.score([1, 2])
    assert {type(outcome.error) for outcome in running.outcomes[2:]} <= {HandshakeError, PeerFailedError}
    assert Entry.PREDICTION not in {entry.name for outcome in running.outcomes for entry in outcome.ledger}


@pytest.mark.parametrize(
    ("name", "column"),
    [
        (Entry.ROWS_TO_SCORE, 0),
        (Entry.ROWS_TO_SCORE, 1),
        (Entry.TREE_SHAPE, None),
        (Entry.NOT_FOUND, 0),
        ("model", 0),
    ],
)
def test_what_an_auxiliary_said_cannot_be_passed_on_otherwise(name: str, column: int | None) -> None:
    """Its own model and table say how many rows and trees there are, whatever the active participant tells others."""
    name = Entry.MODEL if name == "model" else name

    def lie(party: Party, service: Service) -> None:
        plain = party._communicator.send

        def send(peers: Iterable[int], arrays: Sequence[Any], kind: Kind = Kind.DATA) -> None:
            if party.label == f"tell {name}" and peers == party.others:
                changed = arrays[0].copy()
                changed[:, column if column is not None else slice(None)] += 1
                arrays = [changed]
            plain(peers, arrays, kind)

        party._communicator.send = send  # type: ignore[method-assign]
        run_scoring(party, service)

    with (
        session(programs={1: lie}, expected=FederationError) as running,
        pytest.raises(PeerFailedError, match=f"bank passed on {name} of (telecom|retail) other than it was told"),
    ):
        running.score([1, 2])
    assert Entry.PREDICTION not in {entry.name for outcome in running.outcomes[2:] for entry in outcome.ledger}


def test_rounds_beyond_the_model_are_refused() -> None:
    """The active participant says how many rounds are used; there are no more than there are, and no less than none."""
    parts = models()
    for best, told in ((3, "4 trees in use; allowed: 1 to 3"), (-3, "-2 trees of a class in use; allowed: 0 to ")):
        edited = replace(parts[0], best_iteration=best)
        with (
            session((edited, *parts[1:]), expected=FederationError) as running,
            pytest.raises(DoesNotFitError, match=f"bank announced {told}"),
        ):
            running.score([1])


def test_a_row_is_answered_once_a_batch() -> None:
    """Whoever asks for it again in the same batch is refused, in words that name nobody but the roles."""
    with (
        session(expected=FederationError) as running,
        refused(PeerFailedError, "failed", "telecom", "RefusedError") as caught,
    ):
        running.score([4, 5, 4])
    assert "c-40" not in str(caught.value)
    assert Entry.PREDICTION not in {entry.name for outcome in running.outcomes for entry in outcome.ledger}


def test_a_limit_of_rows_stops_it(tmp_path: Path) -> None:
    """Over batches and sessions; everybody is told who refuses, and rows that are not there count as well."""
    served: dict[str, Sequence[int]] = {"telecom": range(80)}
    with session(served=served, quota=RowsPerDay(tmp_path, 100)) as running:
        running.score(list(range(60)))
        with refused(DataError, "missing", "rows", 10):
            running.score(list(range(70, 90)))
    with session(quota=RowsPerDay(tmp_path, 100), expected=FederationError) as running:
        running.score([1, 2])
        with refused(PeerFailedError, "failed", "telecom", "RefusedError") as caught:
            running.score(list(range(19)))
    assert caught.value.kind == RefusedError.__name__
    assert isinstance(running.outcomes[2].error, RefusedError)
    for outcome in (running.outcomes[0], running.outcomes[3]):
        assert "telecom answers for at most 100 rows a day (UTC), 82 were asked" in str(outcome.error)
    with session(quota=RowsPerDay(tmp_path, 100)) as running:
        assert running.score(list(range(18))).shape == (1, 18)
