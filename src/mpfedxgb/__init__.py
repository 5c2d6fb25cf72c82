"""Lossless, multi-party, vertical federated XGBoost under secret sharing (MP-FedXGB)."""

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting.model import PartialModel, join
from mpfedxgb.errors import MpfedxgbError

__all__ = ["FedXGBClassifier", "FedXGBRegressor", "MpfedxgbError", "PartialModel", "__version__", "join"]

__version__ = "0.1.0"
