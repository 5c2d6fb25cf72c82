"""The mode of a training, chosen once from its parameters."""

from __future__ import annotations

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.modes.mode import Mode
from mpfedxgb.modes.paper import PAPER
from mpfedxgb.modes.sealed import SEALED
from mpfedxgb.modes.strict import STRICT

MODES = {mode.facts.name: mode for mode in (STRICT, SEALED, PAPER)}
"""The modes that run a protocol; "none" has the plans of the mode whose model it computes."""


def mode_of(params: TrainParams) -> Mode:
    """Return how a training with these parameters is run."""
    return MODES[params.facts.same_model_as]
