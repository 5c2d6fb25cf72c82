"""Lossless, multi-party, vertical federated XGBoost under secret sharing (MP-FedXGB)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mpfedxgb.errors import MpfedxgbError

if TYPE_CHECKING:
    from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
    from mpfedxgb.api.federated_table import FederatedTable
    from mpfedxgb.api.federation import Federation
    from mpfedxgb.api.functions import cv, train
    from mpfedxgb.api.plotting import plot_importance, plot_metrics, plot_tree
    from mpfedxgb.api.ranker import FedXGBRanker
    from mpfedxgb.api.uplift import uplift
    from mpfedxgb.boosting.join import join
    from mpfedxgb.boosting.model import PartialModel

__all__ = [
    "FedXGBClassifier",
    "FedXGBRanker",
    "FedXGBRegressor",
    "FederatedTable",
    "Federation",
    "MpfedxgbError",
    "PartialModel",
    "__version__",
    "cv",
    "join",
    "plot_importance",
    "plot_metrics",
    "plot_tree",
    "train",
    "uplift",
]

__version__ = "0.2.0.dev0"

_HOMES = {
    "FedXGBClassifier": "mpfedxgb.api.estimators",
    "FedXGBRanker": "mpfedxgb.api.ranker",
    "FedXGBRegressor": "mpfedxgb.api.estimators",
    "FederatedTable": "mpfedxgb.api.federated_table",
    "Federation": "mpfedxgb.api.federation",
    "PartialModel": "mpfedxgb.boosting.model",
    "cv": "mpfedxgb.api.functions",
    "join": "mpfedxgb.boosting.join",
    "plot_importance": "mpfedxgb.api.plotting",
    "plot_metrics": "mpfedxgb.api.plotting",
    "plot_tree": "mpfedxgb.api.plotting",
    "train": "mpfedxgb.api.functions",
    "uplift": "mpfedxgb.api.uplift",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is asked for: a role's process has no use for scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
