"""Small random tables with everything that makes trees difficult: ties, duplicates, missing values, heavy values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd


@dataclass(frozen=True)
class Problem:
    """A table cut into participants' parts, labels, weights, the kind of label, and groups if rows are ranked."""

    tables: dict[str, pd.DataFrame]
    y: npt.NDArray[Any]
    weight: npt.NDArray[np.float64] | None
    kind: str
    qid: npt.NDArray[Any] | None = None

    @property
    def whole(self) -> pd.DataFrame:
        """All columns side by side."""
        return pd.concat(list(self.tables.values()), axis=1)


def small_problem(seed: int, kind: str, rows: int = 120, participants: int = 3, weighted: bool = False) -> Problem:
    """Return a problem; kind is "binary", "regression", "counts" or "classes"."""
    rng = np.random.default_rng(seed)
    features = int(rng.integers(max(3, participants - 2), 7))
    columns: dict[str, Any] = {f"c{j}": _column(rng, rows) for j in range(features)}
    columns["duplicate"] = columns["c0"].copy()
    columns["opposite"] = -columns["c1"]
    columns["constant"] = np.full(rows, 3.0)
    if rng.random() < 0.5:
        for name in list(columns)[::2]:
            columns[name] = np.where(rng.random(rows) < rng.choice([0.05, 0.3]), np.nan, columns[name])
    frame = pd.DataFrame(columns)
    signal = np.nan_to_num(columns["c0"]) + np.nan_to_num(columns["c1"]) ** 2
    if rng.random() < 0.4:
        words = rng.choice(np.array(["red", "green", "blue"], object), rows)
        signal = signal + (words == "green")
        words[rng.random(rows) < rng.choice([0.0, 0.2])] = None
        frame["colour"] = pd.Categorical(words, categories=["blue", "green", "red"])
    order = rng.permutation(frame.shape[1])
    parts = np.array_split(order, participants)
    tables = {f"P{m}": frame.iloc[:, sorted(part)] for m, part in enumerate(parts, 1)}
    weight = rng.choice([0.0, 0.5, 1.0, 3.7], rows) if weighted else None
    return Problem(tables, _labels(rng, signal, kind), weight, kind)


def directions_for(problem: Problem, seed: int) -> dict[str, dict[str, int]]:
    """Return directions of some columns of numbers, by participant and column."""
    rng = np.random.default_rng([seed, 26])
    return {
        owner: {str(name): int(rng.choice([-1, 0, 1])) for name in table.select_dtypes("number")}
        for owner, table in problem.tables.items()
    }


def _column(rng: np.random.Generator, rows: int) -> npt.NDArray[np.float64]:
    values = np.round(rng.normal(size=rows), int(rng.integers(0, 4)))
    if rng.random() < 0.3:
        values[rng.random(rows) < 0.8] = 0
    return values


def _labels(rng: np.random.Generator, signal: npt.NDArray[np.float64], kind: str) -> npt.NDArray[Any]:
    noisy = signal + rng.normal(size=len(signal))
    if kind == "binary":
        labels = (noisy > np.median(noisy)).astype(int)
    elif kind == "classes":
        labels = np.digitize(noisy, np.quantile(noisy, [0.4, 0.8]))
    elif kind == "counts":
        labels = rng.poisson(np.exp(np.clip(noisy / 3, -2, 2)))
        labels[0] = max(1, labels[0])
    else:
        return np.asarray(1000.0 * noisy)
    return labels


def problem_for(objective: str, seed: int, rows: int = 120, participants: int = 3, weighted: bool = False) -> Problem:
    """Return a problem whose labels an objective takes."""
    kind = {"binary": "binary", "multi": "classes", "count": "counts"}.get(objective.partition(":")[0], "regression")
    problem = small_problem(seed, kind, rows, participants, weighted)
    y = problem.y
    if objective.startswith("rank:"):
        return _ranked(problem, seed, 2 if objective == "rank:map" else 5)
    if objective.startswith("survival:"):
        return replace(problem, y=_times(objective, y, seed))
    if objective == "reg:logistic":
        y = (1 / (1 + np.exp(-y / 1000))).round(3)
    elif objective == "reg:pseudohubererror":
        y = y / 500
    elif objective in ("reg:squaredlogerror", "reg:gamma", "reg:tweedie"):
        y = np.exp(np.clip(y / 2000, -5, 5)) * (1.0 if objective == "reg:gamma" else np.arange(rows) % 3)
    return replace(problem, y=y)


def _ranked(problem: Problem, seed: int, grades: int) -> Problem:
    """Return a problem whose rows are in sorted groups that weigh as their first rows do; one group is of one row."""
    rng, rows = np.random.default_rng(seed), len(problem.y)
    qid = np.sort(rng.integers(1, max(3, rows // 9), rows))
    qid[0] = 0
    places = np.argsort(np.argsort(problem.y, kind="stable"), kind="stable")
    first = np.searchsorted(qid, qid)
    weight = None if problem.weight is None else problem.weight[first] + 0.5
    return replace(problem, y=places * grades // rows, qid=qid, weight=weight)


def _times(objective: str, signal: npt.NDArray[Any], seed: int) -> npt.NDArray[Any]:
    """Return times of which some are not known: lower and upper bounds, or negative ones; some are equal."""
    time = np.exp(np.clip(signal / 2000, -5, 5)).round(1) + 0.1
    known = np.random.default_rng(seed).integers(0, 4, len(time))
    if objective == "survival:cox":
        return np.where(known > 2, -time, time)
    return np.stack(
        [np.where(known == 2, 0, time), np.where(known == 1, np.inf, time * np.where(known > 2, 1.5, 1))], 1
    )
