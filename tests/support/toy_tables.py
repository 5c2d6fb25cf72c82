"""A small table with everything a table can have, labels of every kind for it, and walks through joined trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.boosting.join import Joined, JoinedSplit, JoinedTree
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

Floats = npt.NDArray[np.float64]

QUICK: dict[str, Any] = {"n_estimators": 3, "max_depth": 2, "max_bin": 6}
"""Parameters of a training that takes a fraction of a second."""

BANK, TELECOM = ["age", "income", "city"], ["calls", "visits", "idle"]


def people(rows: int = 70, seed: int = 1) -> pd.DataFrame:
    """Return numbers, whole numbers, categories and a constant, some of them missing."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "income": np.round(rng.lognormal(size=rows), 2),
            "city": pd.Categorical(rng.choice(["Basel", "Lagos", "Quito"], rows)),
            "calls": np.round(rng.normal(size=rows), 3),
            "visits": rng.poisson(1.5, rows).astype(float),
            "idle": np.zeros(rows),
        }
    )
    frame.loc[rng.random(rows) < 0.2, "city"] = np.nan
    frame.loc[rng.random(rows) < 0.2, "visits"] = np.nan
    return frame


def numbers(rows: int = 60, columns: int = 4, seed: int = 2) -> Floats:
    """Return an array without any difficulty."""
    return np.round(np.random.default_rng(seed).normal(size=(rows, columns)), 2)


def halves(frame: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Return the table as two participants hold it."""
    return {"bank": frame[BANK], "telecom": frame[TELECOM]}


def labels(frame: pd.DataFrame, kind: str, seed: int = 3) -> npt.NDArray[Any]:
    """Return labels that hang on columns of both participants; kind is binary, classes, regression or counts."""
    rng = np.random.default_rng(seed)
    signal = frame["calls"] + (frame["city"] == "Lagos") + 0.05 * (frame["age"] - 49) + frame["visits"].isna()
    noisy = signal.to_numpy(np.float64) + 0.3 * rng.normal(size=len(frame))
    if kind == "binary":
        return np.asarray(np.where(noisy > np.median(noisy), "yes", "no"))
    if kind == "classes":
        return np.asarray(np.array(["low", "middle", "top"])[np.digitize(noisy, np.quantile(noisy, [0.3, 0.7]))])
    if kind == "counts":
        return np.asarray(rng.poisson(np.exp(np.clip(noisy, -2, 2))))
    return 10 * noisy


def margins_by_hand(model: Joined, tables: dict[str, pd.DataFrame], trees: int | None = None) -> Floats:
    """Return margins (classes, rows), walking every row down every joined tree: x <= edge goes left."""
    rows = len(next(iter(tables.values())))
    margins = np.repeat(np.array(model.base_margin)[:, None], rows, axis=1)
    for number, tree in enumerate(model.trees[:trees]):
        for row in range(rows):
            margins[model.params.output_of(number), row] += _weight(model, tree, tables, row)
    return margins


def _weight(model: Joined, tree: JoinedTree, tables: dict[str, pd.DataFrame], row: int) -> float:
    node = tree[0]
    while isinstance(node, JoinedSplit):
        column = tables[model.participants[node.owner - 1]][node.feature]
        node = tree[node.left if _goes_left(node, column.iloc[row], column) else node.right]
    assert isinstance(node, Leaf)
    assert node.weight is not None
    return node.weight / 2.0**WEIGHT_BITS


def _goes_left(node: JoinedSplit, value: Any, column: pd.Series[Any]) -> bool:
    if pd.isna(value):
        return node.missing_left
    if node.category is not None:
        return bool(value != column.cat.categories[node.category])
    assert node.threshold is not None
    return bool(np.float32(value) <= np.float32(node.threshold))
