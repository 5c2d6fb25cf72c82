"""Appendix A: iterations of SecureLeafWeight against v, with the leaves of a real training."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from experiments.data import Labels, dataset1
from experiments.output import INK, Result, Row
from experiments.setting import SHARES, Setup
from mpfedxgb.api.tables import cut
from mpfedxgb.boosting.active import Labels as PrivateLabels
from mpfedxgb.boosting.join import Joined, join
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.modes.paper.labels import leaf_rules, plan
from mpfedxgb.modes.paper.tree import MU, steps_needed, steps_of
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.local import run_locally
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import Roster
from mpfedxgb.ring.array import RingArray
from mpfedxgb.training.train import secure_train
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

RATIO = 1e-14
"""a epsilon / b in the paper's worst case: 10^8 rows, all wrong, epsilon = 10^-6."""

BOUNDS = (47, 80)
"""The most iterations for v <= 1, and for any v."""

ROWS = 10_000
DEPTH = 6
TREES = 10


def run(setup: Setup) -> Result:
    """Train deep trees with small leaves in the paper's way and look at all step sizes."""
    split = dataset1(setup.data, ROWS)
    params = TrainParams(
        n_estimators=TREES,
        max_depth=DEPTH,
        learning_rate=1.0,
        gamma=0.0,
        min_child_weight=0.0,
        binning="paper",
        security="paper",
    )
    rows, error = measure(split.X_train, split.y_train, params, setup)
    return result(rows, error)


def measure(X: pd.DataFrame, y: Labels, params: TrainParams, setup: Setup) -> tuple[list[Row], float]:
    """Return v and the iterations of every leaf, and the largest difference of a leaf weight from the exact one."""
    setup.on_progress("training with security=paper")
    paper, seen = _train(X, y, params)
    setup.on_progress("training with security=strict")
    strict, _ = _train(X, y, replace(params, security="strict"))
    rules = leaf_rules(params, plan(params, len(y)), len(y), len(SHARES))
    rows = []
    for tree, perturbed in enumerate(seen):
        for number in (int(value) for value in perturbed.decode()):
            v = number / (MU * rules.lam)
            rows.append(
                {
                    "tree": tree,
                    "v": round(v, 6),
                    "iterations": steps_of(rules, (1 << rules.step_bits) // number),
                    "iterations_worst_case": steps_needed(max(v, 1 / MU), RATIO),
                }
            )
    return rows, max(abs(a - b) for a, b in zip(_weights(paper), _weights(strict), strict=True))


class Sums(Observer):
    """Keeps the sums a + sigma that are shown to P_1."""

    def __init__(self) -> None:
        self.seen: list[RingArray] = []

    def on_reveal(self, name: str, value: Any) -> None:
        """Keep it, if it is one."""
        if name == Entry.STEP_SIZE and isinstance(value, RingArray):
            self.seen.append(value)


def _train(X: pd.DataFrame, y: Labels, params: TrainParams) -> tuple[Joined, list[RingArray]]:
    """Return the joined model, and the sums a + sigma of all leaves, tree by tree, that P_1 restores on the way."""
    tables = cut(X, list(SHARES))
    labels = PrivateLabels(y.astype(np.float64), base_score=0.5)
    private: list[tuple[TrainParams, TrainData | None]] = [(params, None)]
    private += [(params, TrainData(t, (), labels if i == 0 else None)) for i, t in enumerate(tables.values())]
    sums = Sums()
    run = run_locally(
        secure_train, Roster(tuple(tables)), private, observers=[Observer(), sums, *(Observer() for _ in tables)]
    )
    return join([done.model for done in run.results[1:] if done is not None]), sums.seen


def _weights(joined: Joined) -> list[float]:
    leaves = [node for tree in joined.trees for node in tree if isinstance(node, Leaf)]
    return [float(np.ldexp(float(leaf.weight or 0), -WEIGHT_BITS)) for leaf in leaves]


def first_bound(v: float) -> float:
    """Return iterations for r = v mu, not rounded up; they grow with v without end."""
    return math.log(RATIO) / math.log((v * MU - 1) / (v * MU))


def second_bound(v: float) -> float:
    """Return iterations for r = v / (v - 1), not rounded up, for v > 1; they fall with v."""
    return math.log(RATIO) / math.log(1 / v)


def result(rows: Sequence[Row], error: float) -> Result:
    """Return the two curves, their bounds and the leaves."""
    bounds = (steps_needed(1.0, RATIO), steps_needed((MU + 1) / MU, RATIO))
    used = [row["iterations"] for row in rows]
    exact = (
        f"are within {error:.0e} of the exact ones" if error else f"equal the exact ones in all {WEIGHT_BITS} places"
    )
    return Result(
        item="iterations",
        title="Appendix A: iterations of SecureLeafWeight",
        paper=f"For a epsilon / b = 1e-14 and mu = 2, at most {BOUNDS[0]} iterations are needed where v <= 1 and at "
        f"most {BOUNDS[1]} for any v, at v = 3/2, where the two bounds meet.",
        measured=f"The bounds come out as {bounds[0]} and {bounds[1]}. {len(rows)} leaves of {TREES} trees of depth "
        f"{DEPTH} ({ROWS:,} rows of Dataset1, gamma = 0, security=paper): v from {min(row['v'] for row in rows):.2f} "
        f"to {max(row['v'] for row in rows):,.0f}. The bound on |b / a| that everybody knows is smaller here than in "
        f"the paper's worst case, so {max(used)} iterations are the most for a leaf, {np.median(used):.0f} the median; "
        f"all leaves of a tree take as many as the slowest. Asked for epsilon = 1e-6, leaf weights {exact}.",
        header=("leaves with", "number", "most iterations, worst case", "paper's bound", "most iterations here"),
        cells=[
            _cells("v <= 1", [row for row in rows if row["v"] <= 1], BOUNDS[0]),
            _cells("v > 1", [row for row in rows if row["v"] > 1], BOUNDS[1]),
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows),
        size=(9.0, 4.2),
    )


def _cells(name: str, rows: Sequence[Row], bound: int) -> list[str]:
    worst, used = (
        str(max(row[field] for row in rows)) if rows else "-" for field in ("iterations_worst_case", "iterations")
    )
    return [name, str(len(rows)), worst, str(bound), used]


def _draw(figure: Any, rows: Sequence[Row]) -> None:
    left, right = figure.subplots(1, 2)
    low = np.linspace(1 / MU + 1e-6, 1, 200)
    left.plot(low, [first_bound(v) for v in low], color=INK[0], label="r = v mu")
    left.axhline(BOUNDS[0], color="grey", linewidth=0.8)
    left.annotate(f"{BOUNDS[0]}", (0.52, BOUNDS[0]), va="bottom", color="grey")
    high = np.geomspace(1.02, max(20.0, *(row["v"] for row in rows)), 400)
    right.plot(high, [first_bound(v) for v in high], ":", color=INK[0], label="r = v mu")
    right.plot(high, [second_bound(v) for v in high], color=INK[2], label="r = v / (v - 1)")
    right.axhline(BOUNDS[1], color="grey", linewidth=0.8)
    right.annotate(f"{BOUNDS[1]}", (high[-1] / 2, BOUNDS[1]), va="bottom", color="grey")
    right.set_xscale("log")
    right.set_ylim(0, 200)
    for ax, mine in (
        (left, [row for row in rows if row["v"] <= 1]),
        (right, [row for row in rows if row["v"] > 1]),
    ):
        points = [row["v"] for row in mine]
        ax.plot(points, [row["iterations_worst_case"] for row in mine], ".", color="black", label="leaves, worst case")
        ax.plot(points, [row["iterations"] for row in mine], "x", ms=4, color=INK[1], label="leaves, this table")
        ax.set(xlabel="v = (a + sigma) / (mu lambda)", ylabel="iterations")
        ax.legend(frameon=False, fontsize=8)
    left.set(title="v <= 1", ylim=(0, 60))
    right.set(title="v > 1")
    figure.suptitle("a epsilon / b = 1e-14, mu = 2; leaves of a real training, security=paper")
