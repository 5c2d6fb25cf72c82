"""Which modes hold leaf weights to directions of columns."""

from __future__ import annotations

from mpfedxgb.schema.training import BY_NAME


def has_bounds(security: str) -> bool:
    """Return whether a mode takes constrained trainings."""
    return all(rule.mode != security for rule in BY_NAME["constrained"].modes)
