"""`security="sealed"`: nobody learns anything about a training row; margins, gradients and leaf weights stay secret."""

from mpfedxgb.modes import facts
from mpfedxgb.modes.mode import Mode
from mpfedxgb.modes.sealed.gradients import working
from mpfedxgb.modes.sealed.labels import (
    begin,
    gradients_of_round,
    kept,
    leaf_scale_bits,
    resumed,
    trees_to_score,
    update,
)

SEALED = Mode(
    facts=facts.SEALED,
    begin=begin,
    gradients=gradients_of_round,
    update=update,
    leaf_scale_bits=leaf_scale_bits,
    kept=kept,
    resumed=resumed,
    trees_to_score=trees_to_score,
    working=working,
)
