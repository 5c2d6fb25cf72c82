"""How a tournament is played: the cheapest stages for a link, by dynamic programming over public sizes.

Where thousands of candidates meet, bytes decide: pairs, compared on bits. Where a dozen is left, rounds do: all at
once, compared on bytes. All roles plan from the same numbers, and so alike. A stage is laid out on paper first
(`Layout`): what is drawn, dealt and opened for it, in which rings and shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations, product, repeat
from math import prod
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import LINKS, Link
from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Spec, wire_bytes
from mpfedxgb.protocols.compare import ByteSigns
from mpfedxgb.protocols.compare_bits import BitSigns, Ending, Polynomials, bit_signs, polynomials
from mpfedxgb.protocols.opening import HOP_SECONDS, Opening, routes
from mpfedxgb.ring.kernels import I64
from mpfedxgb.ring.planes import octets_of
from mpfedxgb.ring.ring import PACKED, VECTOR, Ring, wide

MOST_IN_A_GROUP = 10
"""Candidates that meet at a time; what is dealt for the winners of a group doubles with every one."""

F64 = npt.NDArray[np.float64]

Named = list[tuple[str, Spec]]
"""Specs by name; a name may stand for several, in order."""


@dataclass(frozen=True, slots=True)
class Stage:
    """How one stage is played: in groups of `size`, comparing in `rounds` rounds, one on bytes, more on bits."""

    size: int
    rounds: int

    def __post_init__(self) -> None:
        """Refuse what cannot be played."""
        if not 2 <= self.size <= MOST_IN_A_GROUP:
            text = f"a group of a tournament has 2 to {MOST_IN_A_GROUP} candidates, not {self.size}"
            raise UserError(text, "range", "size", self.size)
        if self.rounds < 1:
            raise UserError(f"a comparison takes at least one round, not {self.rounds}", "range", "rounds", self.rounds)


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of one stage: groups of `size`, the width of numbers and their ring, tags in another.

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

    def bytes_each(self) -> list[list[int]]:
        """Return, of a layout of eight groups, the bytes of what is dealt and of each opening, by what they grow with.

        Of each message those per group, and those per byte of a plane of all groups, of all pairs, and of all
        candidates: with eight groups, such a plane has as many bytes as one group has bits.
        """
        columns = {self.size: 3, len(self.pairs): 2, 1: 1}
        opened = [[("", spec) for spec in specs] for _, specs, _ in self.opened()]
        each = []
        for specs in [self.dealt(), *opened]:
            message = [0] * 4
            for name, (ring, shape) in specs:
                is_plane = ring == PACKED and not (name == "signs" and self.rounds == 1)  # tables of bytes, by pairs
                column, units = (columns[shape[-1]], shape[-1]) if is_plane else (0, 8)
                message[column] += prod(shape) * ring.element_bytes // units
            each.append(message)
        return each


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

MOST_OPENINGS = 4 + max(COMPARISONS)
"""Openings of a stage: differences, comparison, answers, winners, and what was selected."""


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
    """Return the cheapest stages for `nodes` tournaments at once, up to shares of the winners' tags.

    `bits` is the width of what is compared; with `valid` there may be invalid candidates among them. The cost is
    hops x latency + rounds and steps themselves + bytes / bandwidth of the busiest role: a participant, with its turn
    of what is dealt, or the coordinator, who deals all of it.
    """
    ring = next((wide(limbs) for limbs in (2, 3, 4) if bits <= 64 * limbs), wide(4))
    ways, offers = _ways(candidates), dict[_Way, tuple[float, _Costs, tuple[int, int]]]()
    for is_first, is_last in product((True, False), repeat=2):
        some = [way for way in ways if (way.field == candidates, way.left == 1) == (is_first, is_last)]
        if some:
            sizes, lefts = np.array([(way.size, way.left) for way in some]).T
            table = _table(ring, bits, valid and is_first, is_last)
            costs = _costs(*table.bytes(sizes, nodes * lefts), 1, participants, topology, link)
            seconds = np.where(costs.rounds, costs.seconds, np.inf)
            places = enumerate(seconds.argmin(axis=1).tolist())
            offers |= dict(zip(some, zip(seconds.min(axis=1).tolist(), repeat(costs), places), strict=False))
    best = {1: Plan(())}
    for way in ways:
        (least, costs, place), rest = offers[way], best[way.left]
        if way.field not in best or least + rest.seconds < best[way.field].seconds:
            best[way.field] = _added(costs.plan(place), rest, Stage(way.size, COMPARISONS[place[1]]))
    return best[candidates]


class _Way(NamedTuple):
    """A stage in groups of `size` that leaves `left` of a field of candidates."""

    field: int
    size: int
    left: int


@lru_cache(maxsize=64)
def _ways(candidates: int) -> list[_Way]:
    """Return all stages that a tournament may come to, those of small fields first.

    None in groups of which there are as many with one candidate fewer to a group.
    """
    found: dict[int, list[_Way]] = {}
    fields = [candidates]
    for field in fields:
        if field in found:
            continue
        ways = [_Way(field, size, -(-field // size)) for size in range(2, min(field, MOST_IN_A_GROUP) + 1)]
        found[field] = [way for way in ways if way.size == 2 or way.left < -(-field // (way.size - 1))]
        fields += [way.left for way in found[field]]
    return sorted(chain(*found.values()))


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """What stages send, by size of their groups (from 2 on) and rounds of their comparisons (`COMPARISONS`).

    `each` are bytes of what is dealt and of each opening, (sizes, rounds, 1 + openings, 4): see `Layout.bytes_each`.
    Without openings are comparisons that are not possible, or take fewer rounds anyway.
    """

    openings: I64
    each: I64

    def bytes(self, sizes: I64, groups: I64) -> tuple[I64, I64, I64]:
        """Return bytes dealt (n, rounds), bytes opened (n, rounds, openings), and how many openings (n, rounds)."""
        bits = groups * np.stack([np.ones_like(sizes), sizes * (sizes - 1) // 2, sizes])
        units = np.concatenate([groups[None], -(-bits // 8)]).T
        found = (self.each[sizes - 2] * units[:, None, None]).sum(axis=-1)
        return found[..., 0], found[..., 1:], self.openings[sizes - 2]


@lru_cache(maxsize=64)
def _table(ring: Ring, bits: int, valid: bool, is_last: bool) -> _Table:
    """Return what all stages send, for numbers of `bits` bits."""
    sizes = range(2, MOST_IN_A_GROUP + 1)
    openings = np.zeros((len(sizes), len(COMPARISONS)), np.int64)
    each = np.zeros((*openings.shape, 1 + MOST_OPENINGS, 4), np.int64)
    for place, (size, rounds) in zip(np.ndindex(openings.shape), product(sizes, COMPARISONS), strict=True):
        layout = Layout(8, size, rounds, ring, VECTOR, bits, valid, not is_last)
        if not (valid and rounds == 1) and layout.signs.rounds == rounds:
            openings[place] = layout.openings
            each[place][: 1 + layout.openings] = layout.bytes_each()
    return _Table(openings, each)


@dataclass(frozen=True, slots=True, eq=False)
class _Costs:
    """What many stages cost, as arrays (see `Plan`)."""

    seconds: F64
    rounds: I64
    hops: I64
    dealt_bytes: I64
    sent_bytes: F64

    def plan(self, place: tuple[int, ...]) -> Plan:
        """Return what one of them costs, without its name."""
        columns = self.seconds, self.rounds, self.hops, self.dealt_bytes
        seconds, rounds, hops, dealt = (column[place].item() for column in columns)
        return Plan((), seconds, rounds, hops, dealt, round(self.sent_bytes[place].item()))


def _costs(dealt: I64, opened: I64, openings: I64, steps: int, participants: int, topology: str, link: Link) -> _Costs:
    """Return what stages cost that deal these bytes (...) in `steps` steps, and open those (..., openings)."""
    ways = routes(opened, participants, topology, link)
    hops, cuts = (ways.hops * (opened > 0)).sum(axis=-1), ways.in_pieces.sum(axis=-1)
    carried = np.maximum(dealt, dealt / participants + ways.busiest.sum(axis=-1))
    seconds = ROUND_SECONDS * openings + HOP_SECONDS * cuts + hops * link.latency / 1e3
    seconds += STEP_SECONDS * steps + BYTE_SECONDS * dealt + 8 * carried / (link.bandwidth * 1e6)
    return _Costs(seconds, openings, hops, dealt, ways.sent.sum(axis=-1))


def cost(sizes: Sizes, participants: int, topology: str, link: Link) -> Plan:
    """Return what one stage costs, or anything else of known sizes, without its name."""
    opened = np.array(sizes.opened_bytes())
    costs = _costs(
        np.array(sizes.dealt_bytes), opened, np.array(len(opened)), sizes.steps, participants, topology, link
    )
    return costs.plan(())


def _added(one: Plan, rest: Plan, stage: Stage) -> Plan:
    return Plan(
        (stage, *rest.stages),
        one.seconds + rest.seconds,
        one.rounds + rest.rounds,
        one.hops + rest.hops,
        one.dealt_bytes + rest.dealt_bytes,
        one.sent_bytes + rest.sent_bytes,
    )
