"""How property tests run: no deadline on busy machines, and a failure prints how to repeat it."""

from __future__ import annotations

from hypothesis import HealthCheck, settings


def examples(count: int) -> settings:
    """Return the settings of a property test of so many examples."""
    return settings(deadline=None, max_examples=count, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
