"""Who talks to whom: everybody to the coordinator and to the active participant; in a mesh, everybody to everybody."""

from __future__ import annotations

from mpfedxgb.config import TOPOLOGIES

COORDINATOR, ACTIVE = 0, 1
"""Numbers of the two roles that every other one knows; the auxiliary participants follow."""

STAR, MESH = TOPOLOGIES


def neighbours(topology: str, role: int, roles: int) -> list[int]:
    """Return the roles that one of so many is connected to; of two that are, the one with the higher number dials.

    A star is around the active participant, with the coordinator beside it, who is connected with everybody.
    """
    everybody = range(roles)
    ends = everybody if topology == MESH or role in (COORDINATOR, ACTIVE) else (COORDINATOR, ACTIVE)
    return [peer for peer in ends if peer != role and peer in everybody]
