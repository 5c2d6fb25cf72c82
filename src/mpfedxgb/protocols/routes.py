"""The way of an opening: over P_1; from everyone to everyone; or in pieces, of which each participant adds up one.

In a star an opening goes to P_1 and back. In a mesh a small one takes one hop. A large one is cut, as in the
reduce-scatter and all-gather of Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in
MPICH" (IJHPCA 2005): one more hop, and nobody sends more than twice its size. Which one it is follows from public
sizes, so all participants choose alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import prod

from mpfedxgb.config import LINKS, TOPOLOGIES, Link
from mpfedxgb.errors import UserError
from mpfedxgb.ring.array import RingArray
from mpfedxgb.transport.topology import STAR

HOP_SECONDS = 1.0e-4
"""What a further hop costs without any link: the Python of all roles in one process."""

_ALIGNED = 8
"""Elements of which pieces are made up, so that single bits fill their bytes."""


@dataclass(frozen=True, slots=True)
class Route:
    """How one opening goes: messages one after the other, and the bytes that a participant sends in all of them.

    `busiest` are those that the busiest participant has to wait for: what it sends, or receives at another time.
    """

    hops: int
    in_pieces: bool
    sent: float
    busiest: float


def route(opened_bytes: int, participants: int, topology: str = STAR, link: Link = LINKS["local"]) -> Route:
    """Return the way of an opening of so many bytes.

    In a mesh it is cut if the bytes that this saves take longer over the link than one more hop.
    """
    if topology not in TOPOLOGIES:
        raise UserError(f"topology={topology!r} is not known; it is one of {', '.join(TOPOLOGIES)}")
    others = participants - 1
    if topology == STAR:
        return Route(2, False, opened_bytes, 2 * others * opened_bytes)
    whole, cut = others * opened_bytes, 2 * others * opened_bytes / participants
    if 8 * (whole - cut) / (link.bandwidth * 1e6) > link.latency / 1e3 + HOP_SECONDS:
        return Route(2, True, cut, cut)
    return Route(1, False, whole, whole)


def cut(part: RingArray, count: int, keeps_last_axis: bool) -> list[RingArray]:
    """Return an array in so many pieces of about the same size, cut on its leading axes or, if it may be, anywhere."""
    if keeps_last_axis:
        rows, step = part.reshape(prod(part.shape[:-1]), part.shape[-1]), 1
    else:
        rows, step = part.reshape(part.size), _ALIGNED
    ends = [rows.shape[0] * k // count // step * step for k in range(count)] + [rows.shape[0]]
    return [rows[first:last] for first, last in pairwise(ends)]
