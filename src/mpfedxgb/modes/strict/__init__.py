"""`security="strict"`: P_1 computes gradients and leaf weights alone, and learns which of its rows share a leaf."""

from mpfedxgb.modes import facts
from mpfedxgb.modes.mode import Mode
from mpfedxgb.modes.strict.labels import share_gradients, update

STRICT = Mode(facts=facts.STRICT, gradients=share_gradients, update=update)
