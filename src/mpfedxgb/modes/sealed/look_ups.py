"""Functions of secrets from tables: the segment that a margin lies in is looked up under a mask, the rest is computed.

Numbers beyond a table's range have the value at its end, which is public: their answers are opened bits, not values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mpfedxgb.exponential import (
    ENTRY_BITS,
    FACTOR_PLACES,
    FACTOR_SHIFT,
    VALUE_PLACES,
    Exponential,
)
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, BitField, bits_into_ring, opening_bit
from mpfedxgb.protocols.compare_bits import Borrow, Sign, compare_together
from mpfedxgb.protocols.opening import Product, masking, multiplying, open_groups, open_pending, sums_of_products
from mpfedxgb.protocols.quotient import cut, round_off, shift
from mpfedxgb.protocols.rows import looking_up
from mpfedxgb.protocols.secret import Secret, Shares, stack
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.ring import VECTOR
from mpfedxgb.sigmoid import SEGMENT_BITS, SEGMENTS

COMPARED_IN = 2
"""Rounds of a comparison inside a rounding, on bits: a seventh of the bytes of one on bytes, for a round more."""


@dataclass(frozen=True, slots=True, eq=False)
class Argument:
    """Where a function is asked: x less the lowest number of its range, the table of its segments, and widths.

    There are 2^segment_bits segments of 2^remainder_bits numbers, an entry has `word_bits` bits; x has `bits` bits, its
    sign included.
    """

    x: Secret
    words: U64
    word_bits: int
    remainder_bits: int
    bits: int
    segment_bits: int = SEGMENT_BITS


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What is known of an argument: its segment's entry as shared bits, how far it is from the segment's centre.

    `below` and `above` say whether it is beyond the range, and `within` that it is not.
    """

    entry: Shares
    rest: Secret
    below: Bit
    above: Bit
    within: Bit


def places_of(party: Party, arguments: Sequence[Argument]) -> list[Place]:
    """Return where arguments lie.

    1. Are they outside their table's range, and do their low bits borrow from the segment? All three in one.
    2. Look up their segments.

    Rounds: 4. Reveals: nothing.
    """
    tests: list[Sign | Borrow] = []
    for a in arguments:
        width = SEGMENTS << a.remainder_bits
        tests += [Sign(a.x, a.bits), Sign(-a.x + (width - 1), a.bits), Borrow(a.x, a.remainder_bits)]
    answers = open_answers(party, tests)
    found = entries_of(party, arguments, answers[2::3])
    return [
        Place(entry, rest, below, above, ~Bit(below.secret + above.secret))
        for (entry, rest), below, above in zip(found, answers[::3], answers[1::3], strict=True)
    ]


def entries_of(party: Party, arguments: Sequence[Argument], borrows: Sequence[Bit]) -> list[tuple[Shares, Secret]]:
    """Return the entries of arguments' segments, and how far they are from the centres, given their opened borrows.

    Rounds: 1. Reveals: nothing.
    """
    parts = [
        cut(party, a.x, a.remainder_bits, a.segment_bits, borrow) for a, borrow in zip(arguments, borrows, strict=True)
    ]
    looked_up = [
        looking_up(party, segment, a.words, a.word_bits) for a, (segment, _) in zip(arguments, parts, strict=True)
    ]
    entries, rests = open_groups(party, looked_up, [masking(party, rest) for _, rest in parts])
    return [
        (entry, rest - (1 << (a.remainder_bits - 1))) for a, entry, rest in zip(arguments, entries, rests, strict=True)
    ]


def open_answers(party: Party, tests: Sequence[Sign | Borrow]) -> list[Bit]:
    """Return the answers of comparisons as opened bits. Rounds: 3. Reveals: nothing."""
    return open_pending(party, [opening_bit(party, answer) for answer in compare_together(party, tests)])


@dataclass(frozen=True, slots=True, eq=False)
class Power:
    """exp(rate x) within the range of its table, in units of 2^-places, and where x lies."""

    e: Secret
    place: Place


def exponentials(
    party: Party, arguments: Sequence[tuple[Secret, Exponential]], bits: int, e_places: int
) -> list[Power]:
    """Return exp(rate x) of secrets x of `bits` bits, each with its rate, in units of 2^-e_places.

    1. Find the segments (`places_of`).
    2. Compute what their entries and the rests come to (`powers_of`), and round off.

    Rounds: 14. Reveals: nothing.
    """
    found = places_of(
        party,
        [Argument(x - f.low, f.words, ENTRY_BITS, f.remainder_bits, bits) for x, f in arguments],
    )
    values = powers_of(party, [(place.entry, place.rest) for place in found], [f for _, f in arguments])
    return [
        Power(e, place) for e, place in zip(round_together(party, values, VALUE_PLACES - e_places), found, strict=True)
    ]


def powers_of(party: Party, found: Sequence[tuple[Shares, Secret]], functions: Sequence[Exponential]) -> list[Secret]:
    """Return exp(rate x), in units of 2^-51, from the entry E of each x's segment and the rest t (`entries_of`).

    1. Bring the entries into the ring, and compute A t + B t^2; round it off for q.
    2. Multiply E and q.

    Rounds: 6. Reveals: nothing.
    """
    entries, bent = open_groups(
        party,
        [bits_into_ring(party, entry, [BitField(0, ENTRY_BITS)], VECTOR) for entry, _ in found],
        multiplying(
            party,
            [
                [Product((rest,), f.linear), Product((rest, rest), f.square)]
                for (_, rest), f in zip(found, functions, strict=True)
            ],
            name="quadratic",
        ),
    )
    raised = [x + (1 << (FACTOR_SHIFT - 1)) for x in bent]
    borrows = open_answers(party, [Borrow(x, FACTOR_SHIFT) for x in raised])
    factors = [shift(party, x, FACTOR_SHIFT, borrow) for x, borrow in zip(raised, borrows, strict=True)]
    E, q = open_groups(
        party, [masking(party, entry) for (entry,) in entries], [masking(party, factor) for factor in factors]
    )
    products = [[Product((entry, factor + (1 << FACTOR_PLACES)))] for entry, factor in zip(E, q, strict=True)]
    return sums_of_products(party, products, name="exponential")


def round_together(party: Party, numbers: Sequence[Secret], dropped: int) -> list[Secret]:
    """Return secrets of one shape over 2^dropped, halves going up, all in the same rounds.

    Rounds: 4. Reveals: nothing.
    """
    together = round_off(party, stack(numbers), dropped, COMPARED_IN)
    return [together[i] for i in range(len(numbers))]


def round_each(party: Party, numbers: Sequence[tuple[Secret, int]]) -> list[Secret]:
    """Return secrets x over 2^dropped, for pairs of both, halves going up, all in the same rounds.

    Rounds: 4. Reveals: nothing.
    """
    raised = [(x + (1 << (dropped - 1)), dropped) for x, dropped in numbers]
    borrows = open_answers(party, [Borrow(x, dropped) for x, dropped in raised])
    parts = [shift(party, x, dropped, borrow) for (x, dropped), borrow in zip(raised, borrows, strict=True)]
    return open_pending(party, [masking(party, part) for part in parts])
