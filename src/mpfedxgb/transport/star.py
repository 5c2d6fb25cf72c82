"""Who talks to whom: everybody to the coordinator and to the active participant."""

from __future__ import annotations

COORDINATOR, ACTIVE = 0, 1


def neighbours(role: int, roles: int) -> list[int]:
    """Return the roles that one of so many is connected to."""
    everybody = range(roles)
    ends = everybody if role in (COORDINATOR, ACTIVE) else (COORDINATOR, ACTIVE)
    return [peer for peer in ends if peer != role and peer in everybody]
