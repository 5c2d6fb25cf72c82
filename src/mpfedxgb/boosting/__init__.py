"""Many trees: objectives, the training loop, models. The only place that sees labels."""

from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.boosting.join import Joined, join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.setup import TrainData
from mpfedxgb.boosting.train import TrainResult, secure_train

__all__ = ["Joined", "Labels", "PartialModel", "RoundReport", "TrainData", "TrainResult", "join", "secure_train"]
