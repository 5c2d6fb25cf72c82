"""One stage of a tournament on paper: what is drawn, dealt and opened for it, in which rings and shapes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Spec, wire_bytes
from mpfedxgb.protocols.compare import ByteSigns
from mpfedxgb.protocols.compare_bits import BitSigns, Ending, bit_signs
from mpfedxgb.protocols.opening import Opening
from mpfedxgb.protocols.polynomials import Polynomials, polynomials
from mpfedxgb.ring.planes import octets_of
from mpfedxgb.ring.ring import PACKED, Ring

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
