"""What all experiments are given: the setting of section 7, and how runs of it are measured."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from mpfedxgb.api.estimators import FedXGBClassifier
from mpfedxgb.boosting.join import JoinedSplit, join
from mpfedxgb.errors import UserError

SHARES = (0.1, 0.2, 0.3, 0.4)
"""P_1..P_4 hold the first 10 %, the next 20, 30 and 40 % of the columns: 1/2/3/4 of Dataset1's, 11/21/33/43 of 2's."""

GAMMA = 1.0
"""The paper's gamma = 0.5 in XGBoost's scale, which drops the factor 1/2 of Eq. 3."""

COMPARED = ("strict", "paper")
"""The values of `security` that are timed beside the paper's own: ours, and its algorithms as printed."""

OnProgress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Setup:
    """What every experiment is given: where the data sets lie (None: fetch them), and whom to tell of progress."""

    data: Path | None
    on_progress: OnProgress


def paper_model(security: str = "strict", **changes: Any) -> FedXGBClassifier:
    """Return the paper's default: 4 participants, three trees of depth three, lambda 1, gamma 0.5, no learning rate."""
    params: dict[str, Any] = {
        "participants": list(SHARES),
        "n_estimators": 3,
        "max_depth": 3,
        "learning_rate": 1.0,
        "reg_lambda": 1.0,
        "gamma": GAMMA,
        "min_child_weight": 0.0,
        "base_score": 0.5,
        "binning": "paper",
        "security": security,
    }
    return FedXGBClassifier(**(params | changes))


def splits(model: FedXGBClassifier) -> list[list[tuple[Any, ...] | None]]:
    """Return the joined trees without their leaf weights: owner, feature, threshold and children, None for a leaf."""
    return [
        [
            (n.owner, n.feature, n.threshold, n.missing_left, n.left, n.right) if isinstance(n, JoinedSplit) else None
            for n in tree
        ]
        for tree in join(model.partial_models_).trees
    ]


def missing_extra(package: str) -> UserError:
    """Return the error for a package that only the experiments need."""
    return UserError(f"reproduce needs the package {package}; pip install 'mpfedxgb[experiments]'")


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
