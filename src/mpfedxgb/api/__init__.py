"""The scikit-learn face: estimators that simulate a federation in this process."""

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor

__all__ = ["FedXGBClassifier", "FedXGBRegressor"]
