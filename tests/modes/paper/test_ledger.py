"""What the paper's way reveals: the paper column of the design's table, exactly; all else received is uniform."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting import TrainData
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Candidates, bin_table
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.training import secure_train
from mpfedxgb.training.setup import ROOM
from mpfedxgb.transport.frame import Kind
from mpfedxgb.tree import Leaf, Split
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_predict
from support.chance import THRESHOLD, joint, p_uniform
from support.received import operation, secret_symbols, witnesses
from support.small_trainings import (
    Run,
    Training,
    levels,
    models,
    owner_of,
    recorded,
    rounds_of,
    strict_ledger,
    training_of,
    two_halves,
)
from support.views import Recorder

P_1, P_2, OWNER, EVERYONE = {"P1"}, {"P2"}, {"owner"}, {"participants", "coordinator"}

PAPER: dict[str, dict[str, set[str]]] = {
    "number of rows, evaluation rows, candidate columns per participant, hyper-parameters": {
        Entry.TABLE_SIZES: EVERYONE,
        Entry.FEATURE_SIZES: EVERYONE,
        Entry.ROWS_TO_SCORE: EVERYONE,
    },
    "tree shape, owner of each split, number of trees (early stopping)": {
        Entry.TREE_SHAPE: EVERYONE,
        Entry.NUMBER_OF_TREES: EVERYONE,
    },
    "own split: feature, threshold (index to all)": {
        Entry.OWN_SPLIT: OWNER,
        Entry.FEATURE_INDEX: OWNER,
        Entry.SPLIT_INDEX: EVERYONE | P_1,  # who passes it on
    },
    "leaf membership and weight of training / evaluation rows (through predictions)": {Entry.LEAF_MEMBERSHIP: P_1},
    "rows of a leaf whose whole path one participant owns": {Entry.OWN_PATH: OWNER},
    "final prediction of a scored row": {Entry.PREDICTION: P_1},
    "magnitudes of gain numerators (P_2) and denominators (P_1), every comparison bit (all, C)": {
        Entry.NUMERATOR: P_2,
        Entry.DENOMINATOR: P_1,
        Entry.COMPARISON: EVERYONE | P_1,  # who is told by P_2
    },
    "step size, i.e. H of each leaf within mu*lambda": {Entry.STEP_SIZE: EVERYONE | P_1},  # who restores it
}
"""The paper column of the design's table: row -> names on the ledger -> receivers."""

PAPER_ONLY = {
    Entry.FEATURE_SIZES,
    Entry.FEATURE_INDEX,
    Entry.SPLIT_INDEX,
    Entry.NUMERATOR,
    Entry.DENOMINATOR,
    Entry.COMPARISON,
    Entry.STEP_SIZE,
}
IMPLIED = {Entry.TREE_SHAPE, Entry.OWN_SPLIT, Entry.OWN_PATH}
"""What follows from the other entries: written down, but nobody sends it."""

KINDS = (
    "binary",
    "squared error",
    "row samples",
    "early stopping",
    "first layer masked",
    "nothing to split",
    "nothing to gain",
)
CASES = [*((kind, 3) for kind in KINDS), ("binary", 2), ("squared error", 2), ("binary", 4), ("squared error", 6)]


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """A training in the paper's way: input, outcome, all frames, and what every role was told or shown."""

    training: Training
    run: Run
    recorder: Recorder
    seen: list[list[tuple[str, Any]]]

    @property
    def written(self) -> dict[tuple[str, str], int]:
        """The ledger."""
        return written(self.run)


def written(run: LocalRun[Any]) -> dict[tuple[str, str], int]:
    """Return the ledger, the same at all roles."""
    assert all(ledger == run.ledgers[0] for ledger in run.ledgers)
    return {(entry.name, entry.receiver): entry.count for entry in run.ledgers[0]}


def record(strict: Training) -> Recorded:
    """Run a training with the paper's algorithms."""
    params = replace(strict.params, security="paper", min_child_weight=0.0, leaf_epsilon=1e-3)
    training, recorder = replace(strict, params=params), Recorder()
    private: list[tuple[TrainParams, TrainData | None]] = [(params, None)]
    for m, table in enumerate(training.tables):
        later = [tables[m] for tables in training.evaluation]
        private.append((params, TrainData(table, later, training.labels if m == 0 else None)))
    looking, settings = witnesses(training.participants), SessionSettings(insecure_seed=7, parameters=params.to_json())
    run = run_locally(secure_train, training.participants, private, settings, recorder, observers=looking)
    return Recorded(training, run, recorder, [one.seen for one in looking])


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}, {case[1]} participants")
def done(request: pytest.FixtureRequest) -> Recorded:
    """Return trainings of all kinds, and of two, three, four and six participants."""
    return record(training_of(*request.param))


def comparisons(case: Recorded) -> int:
    """Return how many pairs of candidates were compared: all but one of a node lose once, the best against gamma."""
    count = 0
    for trees in rounds_of(case.training, case.run):
        for depth, level in enumerate(levels(trees, case.training.depth)):
            masked = case.training.params.first_layer_mask and depth == 0
            count += len(level) * (case.training.columns[0] if masked else sum(case.training.columns))
    return count


def paper_ledger(case: Recorded) -> dict[tuple[str, str], int]:
    """Return the paper column of the design's table, in numbers, from what the model looks like."""
    M, trees = case.training.participants, models(case.run)[0].trees
    features = [len(table.columns) for table in case.training.tables]
    owners = Counter(owner_of(tree, i) for tree in trees for i, node in enumerate(tree) if not isinstance(node, Leaf))
    leaves = sum(isinstance(node, Leaf) for tree in trees for node in tree)
    ledger = strict_ledger(case.training, case.run)
    for who in EVERYONE:
        ledger[Entry.FEATURE_SIZES, who] = M + M * max(features)
        ledger[Entry.SPLIT_INDEX, who] = 2 * owners.total()
        ledger[Entry.COMPARISON, who] = comparisons(case)
        ledger[Entry.STEP_SIZE, who] = leaves
    for m in range(1, M + 1):
        ledger[Entry.FEATURE_INDEX, f"P{m}"] = features[m - 1]
    ledger[Entry.SPLIT_INDEX, "P1"] = 2 * (owners.total() - owners[ACTIVE])
    ledger[Entry.NUMERATOR, "P2"] = ledger[Entry.DENOMINATOR, "P1"] = ledger[Entry.COMPARISON, "P1"] = comparisons(case)
    ledger[Entry.STEP_SIZE, "P1"] = leaves
    return {key: count for key, count in ledger.items() if count}


# Trainings


def test_ledger_is_the_paper_column(done: Recorded) -> None:
    """Names, receivers and numbers are those that follow from the model; all roles keep the same ledger."""
    assert done.written == paper_ledger(done)
    assert_in_table(done.written)


def assert_in_table(found: dict[tuple[str, str], int]) -> None:
    """Fail unless every name is in the table, with these receivers; owners are participants."""
    allowed = {name: receivers for names in PAPER.values() for name, receivers in names.items()}
    for name, receiver in found:
        if allowed[name] == OWNER:
            assert receiver.startswith("P")
        else:
            assert receiver in allowed[name], (name, receiver)


def test_every_role_is_shown_what_the_ledger_says(done: Recorded) -> None:
    """A role sees the values of its own entries, as many as written down, and no others; some follow from them."""
    M = done.training.participants
    for role, seen in enumerate(done.seen):
        receivers = {"coordinator"} if role == COORDINATOR else {"participants", f"P{role}"}
        expected: Counter[str] = Counter()
        for (name, receiver), count in done.written.items():
            if receiver in receivers and name not in IMPLIED:
                expected[name] += count
        shown: Counter[str] = Counter()
        for name, values in seen:
            shown[name] += np.size(np.array(values, object))
        assert shown == expected, f"role {role} of {M}"


def test_coordinator_hears_announcements_only(done: Recorded) -> None:
    """Greetings, then what the active participant announces: public numbers by name, as many as on the ledger."""
    frames = list(done.recorder.received(frozenset({COORDINATOR})))
    told = [frame for frame in frames if frame.kind is Kind.ANNOUNCE]
    heard: Counter[str] = Counter()
    assert [operation(frame) for frame in told if not frame.arrays] == [ROOM]
    for frame in told:
        if not frame.arrays:
            continue
        (array,) = frame.arrays
        heard[operation(frame).removeprefix("announce ")] += array.size

    assert {frame.kind for frame in frames} == {Kind.HELLO, Kind.ANNOUNCE}
    assert {frame.sender for frame in told} == {ACTIVE}
    written_down = {name: n for (name, who), n in done.written.items() if who == "coordinator" and name not in IMPLIED}
    assert heard == written_down


def test_everything_outside_the_ledger_is_uniform(done: Recorded) -> None:
    """All that a participant receives of one kind passes a chi-square test: bytes, bits, each digit on its table."""
    p_values = []
    for receiver in range(1, done.training.participants + 1):
        for (what, alphabet), pieces in secret_symbols(done.recorder, receiver).items():
            values = np.concatenate(pieces)
            if values.size:
                p_values.append((p_uniform(values, alphabet), what))

    assert len(p_values) > 40
    assert joint([p for p, _ in p_values]) > THRESHOLD, min(p_values)


def test_indices_of_features_are_a_permutation_that_only_owners_know(done: Recorded) -> None:
    """The coordinator tells each participant its own; of each split all hear index and bucket, which are right."""
    training = done.training
    mine = {role: values for role, seen in enumerate(done.seen) for name, values in seen if name == Entry.FEATURE_INDEX}
    total = sum(len(table.columns) for table in training.tables)
    assert sorted(index for values in mine.values() for index in values) == list(range(total))
    announced = [pair for name, values in done.seen[COORDINATOR] if name == Entry.SPLIT_INDEX for pair in values]
    expected = []
    for t, trees in enumerate(rounds_of(training, done.run)):
        for level in levels(trees, training.depth):
            for m in range(1, training.participants + 1):
                tree = models(done.run)[m - 1].trees[t]
                own = [tree[node] for _, node in level if owner_of(trees[0], node) == m]
                expected += [index_of(training, mine[m], m, node) for node in own if isinstance(node, Split)]
    assert announced == expected


def index_of(training: Training, indices: list[int], owner: int, split: Split) -> list[int]:
    """Return the permuted index of a split's feature and the place of its candidate among the feature's."""
    table = training.tables[owner - 1]
    candidates = Candidates(bin_table(table, training.params.max_bin))
    feature = table.names.index(split.feature)
    places = np.flatnonzero(candidates.features == feature)
    for bucket, place in enumerate(places.tolist()):
        item = candidates.items[place]
        threshold = None if item.is_categorical else candidates.threshold(place)
        category = item.low if item.is_categorical else None
        if (threshold, category, item.missing_left) == (split.threshold, split.category, split.missing_left):
            return [indices[feature], bucket]
    raise AssertionError("the split is none of the candidates")


def test_permutations_differ_from_run_to_run() -> None:
    """The coordinator draws a new one for each training."""
    drawn = set()
    for seed in range(4):
        training = training_of("nothing to split", 3)
        params = replace(training.params, security="paper", min_child_weight=0.0, n_estimators=1)

        looking = witnesses(3)
        private = [(params, None)] + [
            (params, TrainData(t, (), training.labels if not i else None)) for i, t in enumerate(training.tables)
        ]
        run_locally(secure_train, 3, private, SessionSettings(insecure_seed=seed), observers=looking)
        drawn.add(str([[values for name, values in one.seen if name == Entry.FEATURE_INDEX] for one in looking]))
    assert len(drawn) > 1


# Scoring


def test_ledger_of_a_prediction(done: Recorded) -> None:
    """Sizes and the model's shape to everyone, one prediction per row to the active participant; nothing else."""
    tables, parts, participants = done.training.tables, models(done.run), done.training.participants
    private: list[tuple[Scorer | None]] = [(None,)]
    private += [(Scorer(part.trees, table, True),) for part, table in zip(parts, tables, strict=True)]
    recorder = Recorder()

    def program(party: Party, scorer: Scorer | None) -> Any:
        return secure_predict(party, 1, scorer, None)

    run = run_locally(program, participants, private, SessionSettings(insecure_seed=1), recorder)
    trees, rows = len(parts[0].trees), tables[0].rows
    expected = {(Entry.PREDICTION, "P1"): rows}
    for who in EVERYONE:
        expected |= {
            (Entry.ROWS_TO_SCORE, who): 5 * participants,
            (Entry.TREE_SHAPE, who): participants * trees * (2 + participants),
        }

    assert written(run) == expected
    assert_in_table(written(run))
    assert [result is None for result in run.results] == [role != ACTIVE for role in range(participants + 1)]
    kinds = {frame.kind for frame in recorder.received(frozenset({COORDINATOR}))}
    assert kinds == {Kind.HELLO, Kind.ANNOUNCE}


# Both ways


def test_every_row_of_the_paper_column_occurs() -> None:
    """Trainings are various enough to have every name of the table that is not a prediction's, and its receivers."""
    found = paper_ledger(record(training_of("early stopping", 3))) | paper_ledger(record(two_halves("01 and", 2, 3)))
    named = {name for names in PAPER.values() for name in names} - {Entry.PREDICTION, Entry.ROWS_TO_SCORE}

    assert {name for name, _ in found} == named
    for names in PAPER.values():
        for name, receivers in names.items():
            if receivers != OWNER and name in named:
                assert {who for key, who in found if key == name} == receivers
    assert {who for key, who in found if key == Entry.FEATURE_INDEX} == {"P1", "P2", "P3"}


@pytest.mark.parametrize("kind", ["binary", "squared error", "early stopping", "first layer masked"])
def test_strict_reveals_nothing_of_it(kind: str) -> None:
    """None of the names that only the paper's way has is on a strict ledger."""
    names = {name for name, _ in written(recorded(kind, 3)[1])}

    assert not names & PAPER_ONLY
    assert {Entry.NUMERATOR, Entry.DENOMINATOR, Entry.COMPARISON, Entry.STEP_SIZE} <= PAPER_ONLY
