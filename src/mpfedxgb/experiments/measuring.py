"""How runs are measured: the fastest of several, after the kernels are compiled; memory; and how times grow."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from mpfedxgb.api.estimators import FedXGBClassifier
from mpfedxgb.experiments.setting import COMPARED, paper_model


def fastest(
    model: FedXGBClassifier, X: pd.DataFrame, y: Any, repeat: int, budget: float = math.inf
) -> FedXGBClassifier:
    """Return the fitted model of the fastest of several runs: the one that other work disturbed least.

    No run begins once the ones before it have taken `budget` seconds.
    """
    runs: list[FedXGBClassifier] = []
    while len(runs) < repeat and (not runs or sum(run.run_.seconds for run in runs) < budget):
        runs.append(clone(model).fit(X, y))
    return min(runs, key=lambda run: run.run_.seconds)


def warm_up(X: pd.DataFrame, y: Any) -> None:
    """Train a small model in both security modes, so that kernels are compiled before anything is timed."""
    few = np.concatenate([np.flatnonzero(y == label)[:200] for label in (0, 1)])
    for security in COMPARED:
        paper_model(security, n_estimators=1).fit(X.iloc[few], y[few])


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of y ~ x^b, by least squares on the logarithms."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def peak_memory() -> float:
    """Return the most memory this process ever had, in GiB; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
