"""Who talks to whom: everybody to the coordinator and to the active participant."""

from __future__ import annotations

COORDINATOR, ACTIVE = 0, 1
"""Numbers of the two roles that every other one knows; the auxiliary participants follow."""


def star(role: int, roles: int) -> list[int]:
    """Return the roles that one of so many is connected to.

    A star around the active participant, the coordinator beside it: the auxiliaries need that for the handshake only.
    """
    everybody = range(roles)
    ends = everybody if role in (COORDINATOR, ACTIVE) else (COORDINATOR, ACTIVE)
    return [peer for peer in ends if peer != role and peer in everybody]
