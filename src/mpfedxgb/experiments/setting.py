"""What all experiments are given: the setting of section 7, and what they may need besides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
