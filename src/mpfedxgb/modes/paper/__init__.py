"""`security="paper"`: the paper's algorithms as printed, which reveal more; for study."""

from mpfedxgb.modes import facts
from mpfedxgb.modes.mode import Mode
from mpfedxgb.modes.paper.labels import begin, find_splits, gradients, leaf_scale_bits, plan, update

PAPER = Mode(
    facts=facts.PAPER,
    tosses_coins=False,
    plan=plan,
    begin=begin,
    gradients=gradients,
    find_splits=find_splits,
    update=update,
    leaf_scale_bits=leaf_scale_bits,
)
