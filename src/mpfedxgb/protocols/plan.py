"""How a tournament is played: the cheapest stages for a link, by dynamic programming over public sizes.

Where thousands of candidates meet, bytes decide: pairs, compared on bits. Where a dozen is left, rounds do: all at
once, compared on bytes. All roles plan from the same numbers, and so alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

from mpfedxgb.config import LINKS, Link
from mpfedxgb.protocols.routes import HOP_SECONDS, route
from mpfedxgb.protocols.stages import MOST_IN_A_GROUP, Layout, Stage
from mpfedxgb.ring.ring import VECTOR, Ring, wide

ROUND_SECONDS = 1.8e-4
"""What an opening costs without any link: the Python of all roles in one process."""

STEP_SECONDS = 1.0e-4
"""What a step costs besides its openings: keys, masks and one message of the coordinator."""

BYTE_SECONDS = 6.0e-9
"""What a dealt byte costs without any link: it is expanded and combined by every role."""

COMPARISONS = (1, 2, 3)
"""Rounds of a comparison: one on bytes, two or three on bits."""


class Sizes(Protocol):
    """What a plan looks at: a part of a program on paper."""

    @property
    def steps(self) -> int:
        """Steps of the program, each with keys, masks and perhaps a message of the coordinator."""
        ...

    @property
    def dealt_bytes(self) -> int:
        """Bytes from the coordinator."""
        ...

    def opened_bytes(self) -> list[int]:
        """Return the bytes of each opening, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """The stages of a tournament, and what they come to: seconds, rounds, hops, bytes.

    Sent are the bytes of each auxiliary in a star; in a mesh, of each participant, on average.
    """

    stages: tuple[Stage, ...]
    seconds: float = 0.0
    rounds: int = 0
    hops: int = 0
    dealt_bytes: int = 0
    sent_bytes: int = 0

    def __str__(self) -> str:
        played = ", ".join(f"{s.size}s in {s.rounds}" for s in self.stages) or "nothing to play"
        return f"{played}: {self.rounds} rounds, {self.hops} hops, {self.dealt_bytes} bytes dealt"


@lru_cache(maxsize=4096)
def plan(
    nodes: int,
    candidates: int,
    bits: int,
    participants: int,
    topology: str = "star",
    link: Link = LINKS["local"],
    valid: bool = False,
) -> Plan:
    """Return the cheapest stages for so many tournaments at once, up to shares of the winners' tags.

    `bits` is the width of what is compared; with `valid` there may be invalid candidates among them. The cost is
    hops x latency + rounds and steps themselves + bytes / bandwidth of the busiest role: a participant, with its turn
    of what is dealt, or the coordinator, who deals all of it.
    """
    if candidates == 1:
        return Plan(())
    ring = next((wide(limbs) for limbs in (2, 3, 4) if bits <= 64 * limbs), wide(4))
    best: Plan | None = None
    for size in range(2, min(candidates, MOST_IN_A_GROUP) + 1):
        left = -(-candidates // size)
        if left == -(-candidates // (size - 1)) and size > 2:
            continue  # as many groups as with fewer to a group
        rest = plan(nodes, left, bits, participants, topology, link)
        for rounds in COMPARISONS[1 if valid else 0 :]:
            layout = _layout(nodes * left, size, rounds, ring, bits, valid, left > 1)
            if layout is None:
                continue
            whole = _added(cost(layout, participants, topology, link), rest, Stage(size, rounds))
            if best is None or whole.seconds < best.seconds:
                best = whole
    assert best is not None
    return best


def _layout(
    groups: int, size: int, rounds: int, ring: Ring, bits: int, valid: bool, keeps_value: bool
) -> Layout | None:
    """Return a stage's layout; None where its comparison takes fewer rounds anyway, or more."""
    layout = Layout(groups, size, rounds, ring, VECTOR, bits, valid, keeps_value)
    return layout if layout.signs.rounds == rounds else None


def cost(sizes: Sizes, participants: int, topology: str, link: Link) -> Plan:
    """Return what one stage costs, or anything else of known sizes, without its name."""
    dealt = sizes.dealt_bytes
    ways = [route(opened, participants, topology, link) for opened in sizes.opened_bytes()]
    hops, cuts = sum(way.hops for way in ways), sum(way.in_pieces for way in ways)
    carried = max(dealt, dealt / participants + sum(way.busiest for way in ways))
    seconds = ROUND_SECONDS * len(ways) + HOP_SECONDS * cuts + hops * link.latency / 1e3
    seconds += STEP_SECONDS * sizes.steps + BYTE_SECONDS * dealt + 8 * carried / (link.bandwidth * 1e6)
    return Plan((), seconds, len(ways), hops, dealt, round(sum(way.sent for way in ways)))


def _added(one: Plan, rest: Plan, stage: Stage) -> Plan:
    return Plan(
        (stage, *rest.stages),
        one.seconds + rest.seconds,
        one.rounds + rest.rounds,
        one.hops + rest.hops,
        one.dealt_bytes + rest.dealt_bytes,
        one.sent_bytes + rest.sent_bytes,
    )
