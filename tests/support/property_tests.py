"""How many examples a property test has; the rest is in conftest.py."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(count: int) -> settings:
    """Return the settings of a property test of so many examples."""
    return settings(max_examples=count, suppress_health_check=[HealthCheck.too_slow])
