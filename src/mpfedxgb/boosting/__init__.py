"""Many trees: objectives, the training loop, models. The only place that sees labels."""

from mpfedxgb.boosting.active import Labels, RoundReport
from mpfedxgb.boosting.model import Joined, PartialModel, join
from mpfedxgb.boosting.train import TrainData, TrainResult, secure_train

__all__ = ["Joined", "Labels", "PartialModel", "RoundReport", "TrainData", "TrainResult", "join", "secure_train"]
