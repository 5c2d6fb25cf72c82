"""Small trainings of every kind, recorded whole; and what their ledger and announcements must be, from the models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.boosting import Labels, PartialModel, TrainData, TrainResult
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.party import ACTIVE, LocalRun, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import MakeSource, Roster
from mpfedxgb.protocols.reveal import NOBODY
from mpfedxgb.training import secure_train
from mpfedxgb.transport.memory import Tap
from mpfedxgb.tree import Leaf, Split, Tree
from support.views import Recorder

ROWS, EVAL_ROWS = 41, 13
PARAMS = TrainParams(n_estimators=2, max_depth=2, max_bin=4, min_child_weight=0.5, learning_rate=0.5)

Run = LocalRun[TrainResult | None]


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """Everybody's input of one training."""

    params: TrainParams
    tables: Sequence[Table]
    labels: Labels
    evaluation: Sequence[Sequence[Table]] = field(default_factory=list)
    coordinator_owns: bool = False
    directions: Sequence[Mapping[str, int]] = ()

    @property
    def roster(self) -> Roster:
        """Return the roles: with an owning coordinator the last one with a table is that."""
        numbered = Roster.numbered(self.participants)
        if not self.coordinator_owns:
            return numbered
        return Roster(numbered.participants[:-1], numbered.participants[-1], coordinator_owns=True)

    @property
    def participants(self) -> int:
        """How many there are."""
        return len(self.tables)

    @property
    def columns(self) -> list[int]:
        """Candidate columns of each participant."""
        return [len(Candidates(bin_table(table, self.params.max_bin))) for table in self.tables]

    @property
    def depth(self) -> int:
        """How deep the trees may grow; without a candidate they do not."""
        return self.params.max_depth if any(self.columns) else 0

    @property
    def eval_rows(self) -> int:
        """Evaluation rows of all sets together."""
        return sum(tables[0].rows for tables in self.evaluation)

    @property
    def private(self) -> list[tuple[TrainParams, TrainData | None]]:
        """What each role is called with, the coordinator first."""
        data = []
        for m, table in enumerate(self.tables):
            later = [tables[m] for tables in self.evaluation]
            own = self.directions[m] if self.directions else {}
            data.append(TrainData(table, later, self.labels if m == 0 else None, directions=own))
        return [(self.params, mine) for mine in self.roster.by_role(data, None)]

    def run(self, seed: int | None = None, tap: Tap | None = None, make_source: MakeSource | None = None) -> Run:
        """Train, every role as a thread."""
        settings = SessionSettings(insecure_seed=seed, parameters=self.params.to_json())
        return run_locally(secure_train, self.roster, self.private, settings, tap, make_source)


def _tables(participants: int, rows: int, seed: int) -> list[Table]:
    """Return two columns for everyone: numbers with gaps, and categories or few distinct numbers."""
    rng = np.random.default_rng([participants, seed])
    tables = []
    for m in range(1, participants + 1):
        frame: dict[str, Any] = {
            f"number{m}": np.where(rng.random(rows) < 0.15, np.nan, rng.normal(size=rows)),
            f"other{m}": rng.integers(0, 3, rows).astype(float)
            if m % 2
            else pd.Categorical.from_codes(rng.integers(0, 3, rows), pd.Index(["u", "v", "w"])),
        }
        tables.append(Table.read(pd.DataFrame(frame), f"P{m}"))
    return tables


def _signal(tables: Sequence[Table], seed: int) -> Floats:
    """Return a number per row that hangs on everybody's columns."""
    noise = np.random.default_rng(seed).normal(size=tables[0].rows) * 0.2
    return np.asarray(sum(np.nan_to_num(c.values) for t in tables for c in t.columns) + noise, np.float64)


def _squared_loss(y: Floats, margin: Floats) -> tuple[Floats, Floats]:
    return margin - y, np.ones(len(y))


KINDS: dict[str, Callable[[Training, Floats], Training]] = {
    "binary": lambda t, s: t,
    "squared error": lambda t, s: replace(t, params=_as(t, objective="reg:squarederror"), labels=Labels(s * 1e5)),
    "classes": lambda t, s: replace(
        t,
        params=_as(t, objective="multi:softprob", num_class=3),
        labels=Labels(np.digitize(s, np.quantile(s, [0.3, 0.6])).astype(np.float64)),
    ),
    "counts": lambda t, s: replace(t, params=_as(t, objective="count:poisson"), labels=Labels(np.floor(abs(s)))),
    "pseudo-Huber": lambda t, s: replace(t, params=_as(t, objective="reg:pseudohubererror"), labels=Labels(s)),
    "gamma": lambda t, s: replace(t, params=_as(t, objective="reg:gamma"), labels=Labels(np.exp(s))),
    "hinge": lambda t, s: replace(t, params=_as(t, objective="binary:hinge")),
    "quantile": lambda t, s: replace(
        t, params=_as(t, objective="reg:quantileerror", quantile_alpha=0.8), labels=Labels(s)
    ),
    "random ranks": lambda t, s: replace(
        t,
        params=_as(t, objective="rank:ndcg", lambdarank_pair_method="mean"),
        labels=Labels(np.digitize(s, np.quantile(s, [0.3, 0.6])).astype(np.float64), beside=np.arange(ROWS) % 5),
    ),
    "custom": lambda t, s: replace(
        t, params=_as(t, objective="custom"), labels=Labels(s, custom=_squared_loss, base_score=0.5)
    ),
    "weights": lambda t, s: replace(
        t, params=_as(t, weighted=True), labels=replace(t.labels, weight=np.linspace(0, 3, ROWS))
    ),
    "own starts": lambda t, s: _with_own_starts(_with_evaluation(t, None)),
    "no lambda": lambda t, s: replace(t, params=_as(t, reg_lambda=0.0, gamma=0.1)),
    "no checks": lambda t, s: replace(t, params=_as(t, min_child_weight=0.0)),
    "L1 penalty": lambda t, s: replace(t, params=_as(t, reg_alpha=0.4)),
    "clipped weights": lambda t, s: replace(
        t, params=_as(t, objective="reg:squarederror", reg_alpha=0.1, max_delta_step=0.5), labels=Labels(s)
    ),
    "directions": lambda t, s: _with_directions(replace(t, params=_as(t, reg_alpha=0.2))),
    "directions, squared error": lambda t, s: _with_directions(KINDS["squared error"](t, s)),
    "column samples": lambda t, s: replace(t, params=_as(t, colsample_bytree=0.5)),
    "samples of levels": lambda t, s: replace(t, params=_as(t, colsample_bylevel=0.6)),
    "samples of nodes": lambda t, s: replace(
        t, params=_as(t, colsample_bytree=0.9, colsample_bylevel=0.8, colsample_bynode=0.6)
    ),
    "dart": lambda t, s: replace(
        _with_evaluation(t, None), params=_as(t, booster="dart", rate_drop=0.5, one_drop=True, normalize_type="forest")
    ),
    "row samples": lambda t, s: replace(t, params=_as(t, subsample=0.6)),
    "parallel trees": lambda t, s: replace(
        KINDS["classes"](t, s),
        params=_as(
            t, objective="multi:softprob", num_class=3, num_parallel_tree=2, subsample=0.6, colsample_bytree=0.5
        ),
    ),
    "evaluation rows": lambda t, s: _with_evaluation(t, None),
    "early stopping": lambda t, s: _with_evaluation(t, 1),
    "first layer masked": lambda t, s: replace(t, params=_as(t, first_layer_mask=True)),
    "nothing to split": lambda t, s: replace(
        t, tables=[Table.read(np.ones((ROWS, 2)), table.owner) for table in t.tables]
    ),
    "nothing to gain": lambda t, s: replace(t, params=_as(t, gamma=1e9)),
}
"""Every objective and option that has a part in the protocol."""


def _as(training: Training, **changes: Any) -> TrainParams:
    return replace(training.params, **changes)


def _with_directions(training: Training) -> Training:
    """Let the numbers of every second participant rise, and those of the others fall, against what they do."""
    signs = [{f"number{m}": 1 if m % 2 else -1} for m in range(1, training.participants + 1)]
    return replace(training, params=_as(training, constrained=True, min_child_weight=0.0), directions=signs)


def _with_evaluation(training: Training, patience: int | None) -> Training:
    """Add two evaluation sets whose labels are noise, so that the loss soon grows."""
    rng = np.random.default_rng(1)
    labels = [rng.integers(0, 2, EVAL_ROWS).astype(np.float64) for _ in range(2)]
    params = _as(training, may_stop_early=patience is not None, n_estimators=2 if patience is None else 6)
    return replace(
        training,
        params=params,
        labels=replace(training.labels, eval_y=labels, early_stopping_rounds=patience),
        evaluation=[_tables(training.participants, EVAL_ROWS, 90 + i) for i in range(2)],
    )


def _with_own_starts(training: Training) -> Training:
    """Let all rows begin at margins of their own, and positives weigh more."""
    rng = np.random.default_rng(2)
    later = [rng.normal(size=(1, EVAL_ROWS)) for _ in training.labels.eval_y]
    labels = replace(
        training.labels, base_margin=rng.normal(size=(1, ROWS)), eval_base_margin=later, scale_pos_weight=2.5
    )
    return replace(training, params=_as(training, weighted=True), labels=labels)


def training_of(kind: str, participants: int) -> Training:
    """Return a training of one kind."""
    tables = _tables(participants, ROWS, 0)
    signal = _signal(tables, 5)
    plain = Training(PARAMS, tables, Labels((signal > np.median(signal)).astype(np.float64)))
    return KINDS[kind](plain, signal)


@lru_cache(maxsize=64)
def recorded(kind: str, participants: int, coordinator_owns: bool = False) -> tuple[Training, Run, Recorder]:
    """Run a training of one kind, with fixed seeds, and record all frames; once for all tests."""
    training, recorder = replace(training_of(kind, participants), coordinator_owns=coordinator_owns), Recorder()
    return training, training.run(7, recorder), recorder


def models(run: Run) -> list[PartialModel]:
    """Return everybody's partial model, in the order of the owners."""
    return [result.model for result in run.roster.by_owner(run.results) if result is not None]


def owner_of(tree: Tree, node: int) -> int:
    """Return who owns a node of the active participant's view; nobody owns a leaf."""
    found = tree[node]
    return NOBODY if isinstance(found, Leaf) else ACTIVE if isinstance(found, Split) else found.owner


def levels(trees: Sequence[Tree], max_depth: int) -> list[list[tuple[int, int]]]:
    """Return the nodes of one round's trees that were judged, level by level, in the order of the batch."""
    batch = [(k, 0) for k in range(len(trees))]
    out: list[list[tuple[int, int]]] = []
    while batch and len(out) < max_depth:
        out.append(batch)
        split = [(k, trees[k][node]) for k, node in batch if owner_of(trees[k], node) != NOBODY]
        kept = [(k, node) for k, node in split if not isinstance(node, Leaf)]
        batch = [(k, node.left) for k, node in kept] + [(k, node.right) for k, node in kept]
    return out


def rounds_of(training: Training, run: Run) -> list[list[Tree]]:
    """Return the active participant's trees, round by round."""
    trees, size = models(run)[0].trees, training.params.trees_per_round
    return [list(trees[i : i + size]) for i in range(0, len(trees), size)]


def paths(tree: Tree) -> list[list[int]]:
    """Return, per leaf, the owners of the splits above it."""
    above: dict[int, list[int]] = {0: []}
    out = []
    for number, node in enumerate(tree):
        owners = above[number]
        if isinstance(node, Leaf):
            out.append(owners)
        else:
            above[node.left] = above[node.right] = [*owners, owner_of(tree, number)]
    return out


def strict_ledger(training: Training, run: Run) -> dict[tuple[str, str], int]:
    """Return the strict column of the design's table of reveals, in numbers, from what the model looks like."""
    M, rounds, coordinator = training.participants, rounds_of(training, run), training.roster.coordinator
    trees = [tree for trees in rounds for tree in trees]
    judged = sum(len(level) for trees in rounds for level in levels(trees, training.depth))
    rows = training.tables[0].rows + training.eval_rows
    ledger = {(Entry.TABLE_SIZES, who): 3 * M for who in (coordinator, "participants")}
    ledger |= {(Entry.TREE_SHAPE, who): judged for who in (coordinator, "participants")}
    if training.params.may_stop_early:
        ledger |= {(Entry.NUMBER_OF_TREES, who): len(rounds) for who in (coordinator, "participants")}
    ledger[Entry.LEAF_MEMBERSHIP, "P1"] = len(trees) * rows
    if training.params.constrained:
        ledger[Entry.HELD_WEIGHT, "P1"] = sum(isinstance(node, Leaf) for tree in trees for node in tree)
    for m in range(1, M + 1):
        ledger[Entry.OWN_SPLIT, f"P{m}"] = sum(owner_of(tree, i) == m for tree in trees for i in range(len(tree)))
        if m != ACTIVE:
            ledger[Entry.OWN_PATH, f"P{m}"] = sum(set(path) == {m} for tree in trees for path in paths(tree))
    return {key: count for key, count in ledger.items() if count}


def announcements(training: Training, run: Run) -> list[tuple[str, list[Any]]]:
    """Return what the coordinator must have been told, in order: sizes, owners level by level, whether to go on."""
    told: list[tuple[str, list[Any]]] = [
        (Entry.TABLE_SIZES, [[training.tables[0].rows, training.eval_rows, count] for count in training.columns])
    ]
    rounds = rounds_of(training, run)
    for t, trees in enumerate(rounds):
        judged = levels(trees, training.depth)
        told += [(Entry.TREE_SHAPE, [owner_of(trees[k], node) for k, node in level]) for level in judged]
        if training.params.may_stop_early:
            stopped = t == len(rounds) - 1 and len(rounds) < training.params.n_estimators
            told.append((Entry.NUMBER_OF_TREES, [int(not stopped)]))
    return told


def two_halves(labels: str, owner: int, participants: int, noise: int = 0, mirrored: bool = False) -> Training:
    """Return a training of one tree, all of whose splits are one participant's: its root and one child of it.

    The owner has three columns of bits, in all combinations. Labels are "01 and" (both of the first two), "12 or", and
    so on; the others have columns of noise. However the labels are made, the tree has the same shape and owners.
    `mirrored`, the owner's columns are turned round and the third comes first, which leaves the rows of all leaves.
    """
    bits = np.array([[i >> k & 1 for k in range(3)] for i in range(8)] * 3, np.float64)
    rng = np.random.default_rng(noise)
    tables = []
    for m in range(1, participants + 1):
        random = np.stack([rng.permutation(np.arange(24) % 2), rng.permutation(np.arange(24) % 3)], axis=1)
        own = 1 - bits[:, [2, 0, 1]] if mirrored else bits
        tables.append(Table.read(own if m == owner else random, f"P{m}"))
    a, b = (bits[:, int(k)].astype(bool) for k in labels[:2])
    y = a & b if labels.endswith("and") else a | b
    params = replace(PARAMS, n_estimators=1, min_child_weight=0.0)
    return Training(params, tables, Labels(y.astype(np.float64)))
