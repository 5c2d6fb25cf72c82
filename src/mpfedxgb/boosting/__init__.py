"""Parameters, objectives, models, and what the active participant computes alone."""

from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.boosting.join import Joined, join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.parts import TrainData, TrainResult

__all__ = ["Joined", "Labels", "PartialModel", "RoundReport", "TrainData", "TrainResult", "join"]
