"""Small scorings of every kind, by whole models that nobody has; and a session that scores batch after batch."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import PartialModel
from mpfedxgb.config import TUNING, SessionSettings, Tuning
from mpfedxgb.data import Table
from mpfedxgb.federation.lookup import TableLookup
from mpfedxgb.federation.scoring import Service, score_batches
from mpfedxgb.party import ACTIVE, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import MakeSource, Roster
from mpfedxgb.transport.memory import Tap
from mpfedxgb.tree import Dummy, Leaf, Split, Tree
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_leaves, secure_predict
from patience import patience

ROWS = 157
TREES = 24
HEAVY = 1 << 40
WAIT = 60.0
"""Seconds that a batch may take, in vain or not."""

Values = npt.NDArray[np.float64]
Margins = npt.NDArray[np.int64] | None
Run = LocalRun[Margins]


@dataclass(frozen=True, slots=True)
class WholeTree:
    """A tree as nobody sees it: a root, and below it on the left a second split; or, without owners, a single leaf.

    Everybody has one column, "x". The leaves' weights are in the order of the nodes.
    """

    owners: tuple[int, int] | None
    thresholds: tuple[float, float] = (0.5, 0.5)
    flipped: bool = False
    weights: tuple[int, ...] = (HEAVY, HEAVY, HEAVY)

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return 1 if self.owners is None else 3

    def view(self, participant: int, leaves: Sequence[Leaf]) -> Tree:
        """Return what one participant keeps, with what it keeps of leaves."""
        if self.owners is None:
            return (leaves[0],)
        root, child = (
            Split("x", threshold, None, True, self.flipped, left, left + 1)
            if owner == participant
            else Dummy(owner, left, left + 1)
            for owner, threshold, left in zip(self.owners, self.thresholds, (1, 3), strict=True)
        )
        return (root, child, *leaves)

    def walk(self, columns: Sequence[Values]) -> npt.NDArray[np.int64]:
        """Return the weight of each row's leaf."""
        if self.owners is None:
            return np.full(len(columns[0]), self.weights[0])
        first, second = (
            (columns[owner - 1] <= threshold) != self.flipped
            for owner, threshold in zip(self.owners, self.thresholds, strict=True)
        )
        right, left_left, left_right = self.weights
        return np.where(first, np.where(second, left_left, left_right), right)


@dataclass(frozen=True, slots=True, eq=False)
class Scoring:
    """Everybody's input of one scoring.

    In the sealed way and the paper's (`shared`) all participants hold shares of the weights; a sealed model `takes_all`
    trees, always.
    """

    trees: Sequence[WholeTree]
    columns: Sequence[Values]
    classes: int = 1
    rounds: int | None = None
    shared: bool = False
    takes_all: bool = False

    @property
    def participants(self) -> int:
        """How many there are."""
        return len(self.columns)

    @property
    def used(self) -> Sequence[WholeTree]:
        """The trees in use."""
        return self.trees if self.rounds is None else self.trees[: self.rounds * self.classes]

    def leaves(self, tree: int, participant: int) -> list[Leaf]:
        """Return what a participant keeps of a tree's leaves."""
        weights = self.trees[tree].weights
        if not self.shared:
            return [Leaf(weight if participant == ACTIVE else None) for weight in weights]
        random = np.random.default_rng(tree).integers(-(1 << 40), 1 << 40, (self.participants, len(weights)))
        random[0] = np.array(weights) - random[1:].sum(axis=0)
        return [Leaf(None, share=share) for share in random[participant - 1].tolist()]

    def scorer(self, participant: int) -> Scorer:
        """Return what a participant brings."""
        views = [tree.view(participant, self.leaves(i, participant)) for i, tree in enumerate(self.trees)]
        table = Table.read(self.columns[participant - 1][:, None], f"P{participant}", ["x"])
        return Scorer(views, table, self.shared, self.takes_all)

    def run(
        self, seed: int, tap: Tap | None = None, make_source: MakeSource | None = None, tuning: Tuning = TUNING
    ) -> Run:
        """Score, every role as a thread; hold the predictions against walking the trees."""
        done = self._run(secure_predict, SessionSettings(insecure_seed=seed, tuning=tuning), tap, make_source)
        np.testing.assert_array_equal(done.results[ACTIVE], self.walk(), strict=True)
        return done

    def run_leaves(self, seed: int) -> Run:
        """Find the leaves of the rows instead, every role as a thread."""
        return self._run(secure_leaves, SessionSettings(insecure_seed=seed))

    def _run(
        self,
        score: Callable[[Party, int, Scorer | None, int | None], Margins],
        settings: SessionSettings,
        tap: Tap | None = None,
        make_source: MakeSource | None = None,
    ) -> Run:
        def program(party: Party, scorer: Scorer | None) -> Margins:
            return score(party, self.classes, scorer, self.rounds if party.is_active else None)

        private: list[list[Scorer | None]] = [[None]]
        private += [[self.scorer(m)] for m in range(1, self.participants + 1)]
        return run_locally(program, self.participants, private, settings, tap, make_source)

    def walk(self) -> npt.NDArray[np.int64]:
        """Return the sums of leaf weights per class and row."""
        sums = np.zeros((self.classes, len(self.columns[0])), np.int64)
        for i, whole in enumerate(self.used):
            sums[i % self.classes] += whole.walk(self.columns)
        return sums

    def ledger(self) -> dict[tuple[str, str], int]:
        """Return the design's table of reveals for a scoring, in numbers."""
        M = self.participants
        ledger: dict[tuple[str, str], int] = {}
        for who in ("coordinator", "participants"):
            ledger |= {
                (Entry.ROWS_TO_SCORE, who): 5 * M,
                (Entry.TREE_SHAPE, who): M * len(self.used) * (2 + M),
            }
        if self.shared or any(tree.owners for tree in self.used):
            ledger[Entry.PREDICTION, "P1"] = self.classes * len(self.columns[0])
        return ledger


def columns_of(participants: int, value: float | None = None) -> list[Values]:
    """Return everybody's column: one value in all rows, so that all rows reach the same leaves; or else random ones."""
    if value is not None:
        return [np.full(ROWS, value) for _ in range(participants)]
    return list(np.random.default_rng(participants).random((participants, ROWS)))


def of_everyone(participants: int) -> list[WholeTree]:
    """Return trees whose splits are of two participants each, in turn; all leaves have the same weight."""
    pairs = [(a, b) for a in range(1, participants + 1) for b in range(1, participants + 1) if a != b]
    return [WholeTree(pair) for pair, _ in zip(cycle(pairs), range(TREES), strict=False)]


LEAF = WholeTree(None, weights=(HEAVY,))

KINDS: dict[str, Callable[[int], Scoring]] = {
    "random rows": lambda M: Scoring(of_everyone(M), columns_of(M)),
    "all rows alike": lambda M: Scoring(of_everyone(M), columns_of(M, 0.0)),
    "all rows on the other side": lambda M: Scoring(of_everyone(M), columns_of(M, 1.0)),
    "weights zero": lambda M: Scoring([WholeTree(t.owners, weights=(0, 0, 0)) for t in of_everyone(M)], columns_of(M)),
    "single leaves among trees": lambda M: Scoring([*of_everyone(M), *[LEAF] * TREES], columns_of(M, 0.0)),
    "nothing but single leaves": lambda M: Scoring([LEAF] * TREES, columns_of(M, 0.0)),
    "three classes, one of single leaves": lambda M: Scoring(
        [LEAF if i % 3 == 1 else tree for i, tree in enumerate(2 * of_everyone(M))], columns_of(M, 0.0), classes=3
    ),
    "some rounds": lambda M: Scoring(2 * of_everyone(M), columns_of(M, 0.0), rounds=TREES),
    "an auxiliary's trees": lambda M: Scoring([WholeTree((M, M))] * TREES, columns_of(M, 0.0)),
    "shared weights": lambda M: Scoring([*of_everyone(M), *[LEAF] * TREES], columns_of(M, 0.0), shared=True),
    "sealed": lambda M: Scoring([*of_everyone(M), *[LEAF] * TREES], columns_of(M), shared=True, takes_all=True),
}
"""Every way to score that has a part in the protocol; where secrets are all alike, the least leak would show."""


def serve(
    parts: Sequence[PartialModel],
    tables: Sequence[Table],
    batches: Sequence[Sequence[int]],
    settings: SessionSettings,
    tap: Tap | None = None,
    make_source: MakeSource | None = None,
) -> LocalRun[None]:
    """Score batches of rows, one after the other, in one session of all roles."""
    ids = tuple(f"row {i}" for i in range(tables[0].rows))
    services = [Service(part, TableLookup(ids, table)) for part, table in zip(parts, tables, strict=True)]
    margins: list[npt.NDArray[np.float64]] = []

    def ask() -> None:
        try:
            for rows in batches:
                table = tables[0].take(np.array(rows, np.int64))
                margins.append(services[0].score(tuple(ids[row] for row in rows), table, patience(WAIT)))
        finally:
            services[0].end()

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    names, coordinator = tuple(part.name for part in parts), parts[0].coordinator
    roster = Roster(names) if coordinator is None else Roster.coordinated_by(names, coordinator)
    private = [(service,) for service in roster.by_role(services, None)]
    run = run_locally(score_batches, roster, private, settings, tap, make_source)
    asking.join(patience(WAIT))
    assert len(margins) == len(batches)
    return run
