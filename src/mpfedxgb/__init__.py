"""Lossless, multi-party, vertical federated XGBoost under secret sharing (MP-FedXGB)."""

from mpfedxgb.errors import MpfedxgbError

__all__ = ["MpfedxgbError", "__version__"]

__version__ = "0.1.0"
