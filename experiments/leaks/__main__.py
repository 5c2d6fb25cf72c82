"""What a curious role learns from a training: each attack of attacks.py, on paper, strict and sealed transcripts.

    python -m experiments.leaks [--json] [--seed N]

Breast cancer (569 rows, 3 x 10 columns, log-loss) and diabetes (442 rows, 3 + 3 + 4 columns, squared error), both part
of scikit-learn, in up to 8 bins, lambda = 1, trees of depth 3. Strict and sealed trainings have the same data and
parameters; what they do not show is replaced by the masked numbers that the same role holds at the same places. The
last table is of roles that do not follow the program (deviating.py), in strict and sealed trainings.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes

from experiments.leaks import deviating, measures, scorings
from experiments.leaks.transcripts import RecordedTraining, record
from experiments.output import text_table
from mpfedxgb.boosting import Labels
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data import Table

LOGISTIC, SQUARED = "binary:logistic", "reg:squarederror"
TREES = {LOGISTIC: 2, SQUARED: 6}
MAX_BIN = 8

Measure = Callable[[RecordedTraining], tuple[float, float]]
"""Turns a training into how well an attack does on it, and how well one does without any transcript."""


@dataclass(frozen=True, slots=True)
class Leak:
    """One attack: who, what is measured, on which problem, and the measure."""

    name: str
    attacker: str
    unit: str
    objective: str
    measure: Measure


@dataclass(frozen=True, slots=True)
class Result:
    """How one attack went."""

    name: str
    attacker: str
    unit: str
    paper: float | None
    strict: float
    sealed: float
    chance: float


def recorded(
    objective: str, security: str, seed: int = 1, base_score: float | None = 0.5, three: bool = False, **params: Any
) -> RecordedTraining:
    """Return a training of one of the two problems, once; log-loss starts from margin 0, as Algorithm 1 does.

    With `three` organisations and nobody else P_3 is the coordinator.
    """
    chosen = {"n_estimators": TREES[objective], "max_bin": MAX_BIN, "min_child_weight": 0.0} | params
    return _recorded(TrainParams(objective=objective, security=security, **chosen), seed, base_score, three)


@lru_cache(maxsize=16)
def _recorded(params: TrainParams, seed: int, base_score: float | None, three: bool) -> RecordedTraining:
    if params.objective == LOGISTIC:
        X, y = load_breast_cancer(return_X_y=True, as_frame=True)
        ends, labels = [0, 10, 20, 30], Labels(y.to_numpy(np.float64), base_score=base_score)
    else:
        X, y = load_diabetes(return_X_y=True, as_frame=True)
        ends, labels = [0, 3, 6, 10], Labels(y.to_numpy(np.float64))
    tables = [Table.read(X.iloc[:, a:b], f"P{m}") for m, (a, b) in enumerate(pairwise(ends), 1)]
    return record(params, tables, labels, seed, three)


LEAKS = [
    Leak("order of gains", "any auxiliary, C", "ordered pairs right", LOGISTIC, measures.order_of_gains),
    Leak("strength of columns", "any auxiliary, C", "rank correlation", LOGISTIC, measures.strength_of_columns),
    Leak(
        "column and bucket of others' splits", "any auxiliary, C", "splits known", SQUARED, measures.columns_of_splits
    ),
    Leak(
        "rows left of others' thresholds, squared error",
        "P_1",
        "counts exact",
        SQUARED,
        measures.rows_left_of_thresholds,
    ),
    Leak(
        "rows left of others' thresholds, log-loss, tree 1",
        "P_1",
        "counts exact",
        LOGISTIC,
        measures.rows_left_of_thresholds,
    ),
    Leak("order of rows in a named column", "P_1", "ordered pairs right", SQUARED, measures.order_of_rows),
    Leak("labels left of own thresholds", "P_2", "counts exact", LOGISTIC, measures.labels_left_of_thresholds),
    Leak("labels of rows, for certain", "P_2", "rows known", LOGISTIC, measures.labels_for_certain),
    Leak("labels of rows, by a guess", "P_2", "rows right", LOGISTIC, measures.labels_by_guess),
    Leak("rows of each leaf, squared error", "any auxiliary, C", "counts exact", SQUARED, measures.rows_of_leaves),
]
"""What paper mode tells and strict does not."""

STRICT_TOO = [
    Leak("rows on either side of an auxiliary's split", "P_1", "rows right", SQUARED, measures.sides_of_splits),
    Leak(
        "order of rows in some column, or its reverse",
        "P_1",
        "ordered pairs right",
        SQUARED,
        measures.order_by_nested_cuts,
    ),
    Leak("the same: how many rows it orders", "P_1", "of all pairs", SQUARED, measures.pairs_in_order),
    Leak("leaves of scored rows, by chosen weights", "P_1", "leaves right", SQUARED, scorings.leaves_by_chosen_weights),
]
"""What strict tells too, and sealed does not."""

STILL = [
    Leak(
        "rows in the same leaves, by equal predictions",
        "P_1",
        "pairs right",
        LOGISTIC,
        scorings.same_leaves_by_equal_predictions,
    ),
    Leak("leaves of scored rows, by edited shares", "P_1", "leaves right", SQUARED, scorings.leaves_by_edited_shares),
    Leak("rows that share a leaf of its own path", "P_3", "rows known", LOGISTIC, measures.rows_of_own_leaves),
]
"""What sealed tells too; the second for a P_1 that does not follow the program."""

NONE = [
    Leak("labels of rows, by masked gradients", "any auxiliary", "rows right", LOGISTIC, measures.labels_by_gradients)
]
"""What none of them tells."""

MODES = ("paper", "strict", "sealed")


def run(leaks: Sequence[Leak], seed: int) -> Iterator[Result]:
    """Yield how each attack goes."""
    for leak in leaks:
        found = {security: leak.measure(recorded(leak.objective, security, seed)) for security in MODES}
        modes = {security: value for security, (value, _) in found.items()}
        yield Result(leak.name, leak.attacker, leak.unit, **modes, chance=found["paper"][1])


def without_a_fourth(seed: int) -> Iterator[Result]:
    """Yield how attacks on what only paper mode tells go where P_3 coordinates; those of auxiliaries are P_2's."""
    for leak in [*LEAKS, *NONE]:
        found = {security: leak.measure(recorded(leak.objective, security, seed, three=True)) for security in MODES[1:]}
        modes = {security: value for security, (value, _) in found.items()}
        attacker = leak.attacker.replace("any auxiliary, C", "P_2").replace("any auxiliary", "P_2")
        yield Result(leak.name, attacker, leak.unit, None, **modes, chance=found["strict"][1])


def masked_first_layer(seed: int) -> Result:
    """Return the attack on own paths again, with First-Layer-Mask, on one tree."""
    modes = {
        security: measures.rows_of_own_leaves(recorded(LOGISTIC, security, seed, n_estimators=1, first_layer_mask=True))
        for security in MODES
    }
    known = {security: value for security, (value, _) in modes.items()}
    return Result(f"{STILL[-1].name}, first_layer_mask", "P_3", "rows known", **known, chance=0.0)


def other_columns(seed: int) -> Result:
    """Return what P_1 tells by scoring rows twice, with a column of its own changed; all roots are its own."""
    chosen: dict[str, Any] = {"n_estimators": 2, "max_depth": 2, "first_layer_mask": True}
    found = {
        security: scorings.sides_by_other_columns(recorded(SQUARED, security, seed, **chosen)) for security in MODES
    }
    known = {security: value for security, (value, _) in found.items()}
    name = "rows on either side of an auxiliary's split, by changing own columns"
    return Result(name, "P_1", "rows right", **known, chance=found["strict"][1])


def page(title: str, results: Sequence[Result]) -> str:
    """Return results as an aligned table."""
    rows = [
        [r.name, r.attacker, r.unit, *(_figure(r, v) for v in (r.paper, r.strict, r.sealed, r.chance))] for r in results
    ]
    return f"{title}\n{text_table(['attack', 'attacker', 'measured', *MODES, 'chance'], rows)}"


def _figure(result: Result, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if result.unit == "rank correlation" else f"{100 * value:.1f} %"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run all attacks and print a table for each kind, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--seed", type=int, default=1, help="seed of all masks and coins (default 1)")
    args = parser.parse_args(arguments)
    tables = {
        "What paper mode tells and strict does not": list(run(LEAKS, args.seed)),
        "What strict tells too, and sealed does not": list(run(STRICT_TOO, args.seed)),
        "What sealed tells too": [*run(STILL, args.seed), masked_first_layer(args.seed), other_columns(args.seed)],
        "What none of them tells": list(run(NONE, args.seed)),
        "Three organisations, P_3 being the coordinator": list(without_a_fourth(args.seed)),
    }
    title, learnt = "What a role that deviates learns, unnoticed", list(deviating.run_cases(args.seed))
    if args.json:
        printed = {title: [asdict(r) for r in results] for title, results in tables.items()}
        print(json.dumps(printed | {title: [asdict(one) | {"revealed": sorted(one.revealed)} for one in learnt]}))
    else:
        pages = [page(title, results) for title, results in tables.items()]
        print("\n\n".join([*pages, deviating.page(title, learnt)]))


if __name__ == "__main__":
    main()
