"""How a tournament is played: the cheapest stages for a link, by dynamic programming over public sizes.

Where thousands of candidates meet, bytes decide: pairs, compared on bits. Where a dozen is left, rounds do: all at
once, compared on bytes. All roles plan from the same numbers, and so alike.

One stage of a tournament on paper: what is drawn, dealt and opened for it, in which rings and shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Protocol

from mpfedxgb.config import LINKS, Link
from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Spec, wire_bytes
from mpfedxgb.protocols.compare import ByteSigns
from mpfedxgb.protocols.compare_bits import BitSigns, Ending, Polynomials, bit_signs, polynomials
from mpfedxgb.protocols.opening import HOP_SECONDS, Opening, route
from mpfedxgb.ring.planes import octets_of
from mpfedxgb.ring.ring import PACKED, VECTOR, Ring, wide

MOST_IN_A_GROUP = 10
"""Candidates that meet at a time; what is dealt for the winners of a group doubles with every one."""

Named = list[tuple[str, Spec]]
"""Specs by name; a name may stand for several, in order."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How one stage is played: in groups of `size`, comparing in so many `rounds`, one on bytes, more on bits."""

    size: int
    rounds: int

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        if not 2 <= self.size <= MOST_IN_A_GROUP:
            raise UserError(f"a group of a tournament has 2 to {MOST_IN_A_GROUP} candidates, not {self.size}")
        if self.rounds < 1:
            raise UserError(f"a comparison takes at least one round, not {self.rounds}")


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of one stage: groups of `size`, numbers of so many bits in their ring, tags in another.

    With `valid` there are invalid candidates among them; without `keeps_value` only the winners' tags are wanted, as
    shares.
    """

    groups: int
    size: int
    rounds: int
    ring: Ring
    tag_ring: Ring
    bits: int
    valid: bool = False
    keeps_value: bool = True

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """All pairs of a group."""
        return list(combinations(range(self.size), 2))

    @property
    def comparisons(self) -> int:
        """Pairs of all groups."""
        return self.groups * self.size * (self.size - 1) // 2

    @property
    def signs(self) -> ByteSigns | BitSigns:
        """How pairs are compared."""
        if self.rounds == 1:
            return ByteSigns(self.bits)
        return bit_signs(self.bits, self.rounds, ending=Ending.BEATS if self.valid else Ending.SIGN)

    @property
    def chosen(self) -> int:
        """Bits that choose among the members of a group: one less than members, but where none may be chosen."""
        return self.size if self.valid else self.size - 1

    @property
    def answers(self) -> int:
        """Bits per group that come of the comparisons: of one pair with valid and invalid ones, one for either."""
        return 2 if self.size == 2 and self.valid else len(self.pairs)

    @property
    def has_winner_bits(self) -> bool:
        """Whether answers are multiplied before they choose."""
        return self.size > 2

    @property
    def gate_ring(self) -> Ring:
        """Where the bits that choose are dealt: in the wider ring, whose shares serve in the other, too."""
        return self.ring if self.keeps_value and self.ring.bits >= self.tag_ring.bits else self.tag_ring

    @property
    def openings(self) -> int:
        """Rounds: differences, comparison, answers, winners, and what was selected."""
        return 2 + self.signs.rounds + self.has_winner_bits + self.keeps_value

    def fresh(self) -> Named:
        """Return what is drawn; each is the mask of something that is opened."""
        octets = octets_of(self.groups)
        specs: Named = [("differences", (self.ring, (self.comparisons,)))]
        if self.keeps_value:
            specs += [("value", (self.ring, (2, self.groups))), ("tag", (self.tag_ring, (self.groups,)))]
        specs += [("signs", spec) for spec in self.signs.fresh(self.comparisons)]
        if self.valid:
            specs.append(("valid", (PACKED, (1, octets_of(self.groups * self.size)))))
        specs.append(("answers", (PACKED, (self.answers, octets))))
        if self.has_winner_bits:
            specs.append(("winners", (PACKED, (self.chosen, octets))))
        return specs

    def opened(self) -> list[Opening]:
        """Return the openings: differences, comparison, answers, winners, and what was selected.

        Everything that is drawn masks something that is opened.
        """
        masks: dict[str, list[Spec]] = {}
        for name, spec in self.fresh():
            masks.setdefault(name, []).append(spec)
        openings: list[Opening] = [("", masks["differences"] + masks.get("valid", []), None)]
        signs = self.signs
        openings += [(signs.opens, specs, signs.clip) for specs in signs.opened(self.comparisons)]
        openings += [(name, masks[name], None) for name in ("answers", "winners") if name in masks]
        if self.keeps_value:
            openings.append(("selected", masks["value"] + masks["tag"], None))
        return openings

    def dealt(self) -> Named:
        """Return what the coordinator deals."""
        gates = (self.groups, self.chosen)
        specs: Named = [("differences", (self.ring, (self.comparisons,))), ("alone", (self.gate_ring, gates))]
        if self.keeps_value:
            specs.append(("value", (self.ring, (2, *gates))))
        specs.append(("tag", (self.tag_ring, gates)))
        specs += [("signs", spec) for spec in self.signs.dealt(self.comparisons)]
        if self.has_winner_bits:
            specs.append(("winners", (PACKED, (winner_products(self.size, self.valid), octets_of(self.groups)))))
        return specs

    @property
    def steps(self) -> int:
        """Steps of the program: all that a stage needs is drawn and dealt at once."""
        return 1

    @property
    def dealt_bytes(self) -> int:
        """Bytes from the coordinator."""
        return wire_bytes([spec for _, spec in self.dealt()])

    def opened_bytes(self) -> list[int]:
        """Return the bytes of each opening, in order."""
        return [wire_bytes(specs) for _, specs, _ in self.opened()]


def winner_products(size: int, valid: bool) -> int:
    """Return how many products of masks are dealt for the winner bits of a group (see `winner_bits`)."""
    return (size - 1) * ((1 << (size - 1)) - size) + ((1 << size) - 1 - size if valid else 0)


@lru_cache(maxsize=16)
def winner_bits(size: int, valid: bool) -> Polynomials:
    """Return, for each member of a group, whether it wins: the product of its answers, against later ones turned over.

    Variables are the answers of all pairs (1 where the second wins), and the same turned over. Without the first
    member, which goes on if nobody else does; or with it, times "it is valid", the last variable.
    """
    pairs = list(combinations(range(size), 2))
    terms = []
    for member in range(0 if valid else 1, size):
        term = 1 << 2 * len(pairs) if member == 0 else 0
        for place, (one, two) in enumerate(pairs):
            if member == two:
                term |= 1 << place
            elif member == one:
                term |= 1 << (len(pairs) + place)
        terms.append([term])
    return polynomials(2 * len(pairs) + valid, terms)


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
