"""Exact division of secrets: floor(n / d) and the nearest integer, digit by digit; and what it is planned to cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import LINKS, TOPOLOGIES, Link, SessionSettings
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Counts, Party, Roster
from mpfedxgb.party.dry_run import DryRunParty
from mpfedxgb.party.party import Spec
from mpfedxgb.protocols import LongDivision, Secret, long_division, quotient, reduced, rounded_quotient
from mpfedxgb.protocols.plan import cost
from mpfedxgb.protocols.quotient import WIDEST, digits_of
from mpfedxgb.ring import BIT, VECTOR, Ring, RingArray, wide
from support.evaluation import (
    DRAWN,
    PROPERTY,
    SEEDS,
    SHAPES,
    WIDE,
    Case,
    Integers,
    Operand,
    evaluate,
    evaluate_each,
    integers,
    operand,
    same,
)
from support.refusals import Expected, refused

PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3, 5])


def drawn_below(rng: np.random.Generator, bound: int) -> int:
    """Return an integer of 0 .. bound - 1, of any length, both ends often."""
    edge = int(rng.integers(0, 6))
    if edge < 2:
        return edge * (bound - 1)
    return int.from_bytes(rng.bytes(40), "little") % min(bound, 1 << int(rng.integers(1, bound.bit_length() + 1)))


def divisions(rng: np.random.Generator, ring: Ring, bits: int, divisor_bits: int, shape: tuple[int, ...]) -> Case:
    """Return numerators and denominators: any, and numerators that are multiples, or one less."""
    n, d = (np.empty(shape, object) for _ in range(2))
    for i in range(n.size):
        divisor = 1 + drawn_below(rng, (1 << divisor_bits) - 1)
        near = drawn_below(rng, 1 << bits) * divisor
        n.flat[i] = [drawn_below(rng, divisor << bits), near, max(0, near - 1)][i % 3]
        d.flat[i] = divisor
    return Operand(ring, n), Operand(ring, d)


def rounded(n: Integers, d: Integers) -> Integers:
    """Return the nearest integers, halves going up."""
    return integers((2 * n + d) // (2 * d))


@PARTICIPANTS
@given(seed=SEEDS)
@PROPERTY
def test_quotients_are_those_of_integers(participants: int, seed: int) -> None:
    """Rounded down, in wide rings and in others, up to their last bit, in every shape."""
    rng = np.random.default_rng(seed)
    batch, widths = list[Case](), dict[Ring, tuple[int, int]]()
    for ring in (*WIDE, VECTOR, Ring(13)):
        bits = int(rng.integers(1, 12))
        widths[ring] = bits, min(90, ring.bits - 1 - bits)
        batch += [divisions(rng, ring, *widths[ring], shape) for shape in SHAPES]

    results = evaluate_each(participants, batch, lambda party, n, d: quotient(party, n, d, *widths[n.ring]))

    for (n, d), result in zip(batch, results, strict=True):
        same(result, n.ring, n.values // d.values)


@pytest.mark.parametrize(("ring", "bits", "divisor_bits"), [(wide(2), 37, 37), (wide(2), 64, 63), (wide(4), 12, 243)])
def test_quotients_at_the_edges(ring: Ring, bits: int, divisor_bits: int) -> None:
    """N = 0 and 2^bits d - 1, d = 1 and 2^bits - 1, the smallest and the largest remainders."""
    largest = (1 << divisor_bits) - 1
    pairs = [
        (n, d) for d in (1, 2, 3, largest - 1, largest) for n in (0, 1, d - 1, d, (d << bits) - d, (d << bits) - 1)
    ]
    n, d = (integers([pair[i] for pair in pairs]) for i in (0, 1))

    (result,) = evaluate(
        3, [Operand(ring, n), Operand(ring, d)], lambda party, xs: [quotient(party, xs[0], xs[1], bits, divisor_bits)]
    ).values

    same(result, ring, n // d)


@pytest.mark.parametrize("digit", range(1, WIDEST + 1))
def test_digits_of_every_width(digit: int) -> None:
    """Whatever the width of the digits, and whether or not they divide the bits evenly, the quotient is the same."""
    n, d = divisions(np.random.default_rng(digit), wide(2), 21, 40, (12,))

    (result,) = evaluate(2, [n, d], lambda party, xs: [quotient(party, xs[0], xs[1], 21, 40, digit)]).values

    same(result, wide(2), n.values // d.values)


@pytest.mark.parametrize("digit", [1, 2, 3])
def test_a_whole_tiny_range(digit: int) -> None:
    """All numerators and denominators of a quotient of three bits in a ring that has no bit to spare, in both ways."""
    pairs = [(n, d) for d in range(1, 8) for n in range(8 * d)]
    n, d = (integers([pair[i] for pair in pairs]) for i in (0, 1))
    signed = integers([n - 2 * d for n, d in pairs if n <= 4 * d]), integers([d for n, d in pairs if n <= 4 * d])

    def compute(party: Party, xs: list[Secret]) -> list[Secret]:
        return [quotient(party, xs[0], xs[1], 3, 3, digit), rounded_quotient(party, xs[2], xs[3], 2, 3, digit)]

    operands = [Operand(Ring(7), n), Operand(Ring(7), d), *(Operand(Ring(8), x) for x in signed)]
    floor, nearest = evaluate(3, operands, compute).values

    same(floor, Ring(7), n // d)
    same(nearest, Ring(8), rounded(*signed))


@PARTICIPANTS
@given(data=st.data())
@DRAWN
def test_rounded_quotients_of_drawn_integers(participants: int, data: st.DataObject) -> None:
    """Whatever is within half a denominator of a multiple is rounded to it, from below if it is exactly a half."""
    largest, bits = data.draw(st.integers(0, 1 << 12)), data.draw(st.integers(1, 50))
    n, d, expected = list[int](), list[int](), list[int]()
    for _ in range(data.draw(st.integers(1, 6))):
        divisor = data.draw(st.integers(1, (1 << bits) - 1))
        low, high = -(divisor // 2), (divisor - 1) // 2
        expected.append(data.draw(st.sampled_from([largest, -largest]) | st.integers(-largest, largest)))
        n.append(expected[-1] * divisor + data.draw(st.sampled_from([low, high]) | st.integers(low, high)))
        d.append(divisor)

    (result,) = evaluate(
        participants,
        [operand(wide(2), n), operand(wide(2), d)],
        lambda party, xs: [rounded_quotient(party, xs[0], xs[1], largest, bits)],
    ).values

    same(result, wide(2), expected)


def test_halves_go_up_and_results_reach_the_vector_ring() -> None:
    """-3/2 is rounded to -1 and 3/2 to 2; reduced to 64 bits, quotients keep their signs."""
    n, d = integers([-3, 3, -1, 1, -5, 5, -(1 << 40), 0, -7]), integers([2, 2, 2, 2, 2, 2, 1, 9, 3])

    def compute(party: Party, xs: list[Secret]) -> list[Secret]:
        return [reduced(rounded_quotient(party, xs[0], xs[1], 1 << 40, 4), VECTOR)]

    (result,) = evaluate(3, [Operand(wide(2), n), Operand(wide(2), d)], compute).values

    assert result.tolist() == [-1, 2, 0, 1, -2, 3, -(1 << 40), 0, -2]
    same(result, VECTOR, rounded(n, d))


@pytest.mark.parametrize("link", ["local", "wan"])
@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_plan_costs_what_it_says(topology: str, link: str) -> None:
    """Shapes broadcast; rounds and bytes of the formulas are those of the meter, also of a rehearsal at every role."""
    bits, divisor_bits, ring = 37, 37, wide(2)
    n, d = divisions(np.random.default_rng(5), ring, bits, divisor_bits, (2, 4))
    d = Operand(ring, d.values[:1])
    n = Operand(ring, n.values % (d.values << bits))
    settings = SessionSettings(topology=topology, link=LINKS[link])
    planned = long_division(8, ring, bits, divisor_bits, 3, topology, LINKS[link])

    evaluation = evaluate(
        3,
        [n, d],
        lambda party, xs: [quotient(party, xs[0], xs[1], bits, divisor_bits)],
        topology=topology,
        link=LINKS[link],
    )

    same(evaluation.values[0], ring, n.values // d.values)
    expected = cost(planned, 3, topology, LINKS[link])
    for role, counts in enumerate(evaluation.costs):
        rehearsed, steps = rehearse(role, settings, [(ring, (2, 4)), (ring, (1, 4))], bits, divisor_bits)
        assert steps == planned.steps
        assert (counts.rounds, counts.hops) == ((expected.rounds, expected.hops) if role else (0, 0))
        assert (rehearsed.rounds, rehearsed.hops) == (counts.rounds, counts.hops)
        assert (rehearsed.bytes_sent, rehearsed.comparisons) == (counts.bytes_sent, counts.comparisons)
    assert evaluation.costs[0].dealer_bytes == expected.dealt_bytes == planned.dealt_bytes
    assert abs(sum(counts.bytes_sent for counts in evaluation.costs[2:]) - 2 * expected.sent_bytes) <= 2


class CountedSteps(DryRunParty):
    """A role of a rehearsal that counts the steps of its program."""

    steps = 0

    def step(self, operation: str) -> None:
        """Begin the next step, and count it."""
        self.steps += 1
        super().step(operation)


def rehearse(role: int, settings: SessionSettings, operands: Sequence[Spec], *widths: int) -> tuple[Counts, int]:
    """Return what a division costs one of three participants, or the coordinator, in a rehearsal; and its steps."""
    party = CountedSteps(Roster.numbered(3), role, settings, {}, lambda name, shape: np.zeros(shape, np.int64))
    n, d = (Secret(RingArray.hidden(*spec), RingArray.hidden(*spec)) for spec in operands)
    with party.phase("division"):
        result = quotient(party, n, d, *widths)
    assert result.masked.is_hidden
    assert result.shape == np.broadcast_shapes(n.shape, d.shape)
    return party.meter.total("division"), party.steps


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_the_leaves_of_a_small_tree(topology: str) -> None:
    """Eight leaves, quotients of 37 bits and a sign by denominators of 37: 20 rounds and a third of a megabyte."""
    planned = long_division(8, wide(2), 38, 38, 4, topology)

    assert len(planned.opened_bytes()) == 20
    assert planned.dealt_bytes <= 340_000


def test_few_quotients_take_few_rounds_and_many_take_few_bytes() -> None:
    """The more quotients at once, the narrower the digits; the longer the way, the wider; no other width is cheaper."""
    for count in (0, 1, 8, 100, 4000):
        plans = {name: long_division(count, wide(2), 38, 38, 4, "star", link) for name, link in LINKS.items()}
        assert len(plans["wan"].digits) <= len(plans["lan"].digits)
        others = [LongDivision(count, wide(2), digits_of(38, 38, width)) for width in range(1, WIDEST + 1)]
        assert all(seconds(plans["wan"]) <= seconds(other) for other in others)
        assert sum(digit.width for digit in plans["lan"].digits) == 38
    few, many = (long_division(count, wide(2), 38, 38, 4) for count in (8, 4000))
    assert len(few.digits) < len(many.digits)
    assert many.dealt_bytes / 4000 < few.dealt_bytes / 8


def seconds(planned: LongDivision) -> float:
    """Return what a plan comes to over a wide area, by the measure that tournaments are planned by, too."""
    return cost(planned, 4, "star", LINKS["wan"]).seconds


def test_a_link_without_latency_is_planned_for_as_a_building() -> None:
    """Where rounds cost nothing but the Python of all roles, some are saved all the same."""
    assert long_division(8, wide(2), 38, 38, 4, "star", Link(0.0, 1_000.0)) == long_division(
        8, wide(2), 38, 38, 4, "star", LINKS["lan"]
    )


@pytest.mark.parametrize(
    ("rings", "bits", "divisor_bits", "digit", "expected"),
    [
        (
            (VECTOR, VECTOR),
            32,
            32,
            None,
            ("range", "quotient_bits", 32),
        ),
        ((wide(2), wide(3)), 8, 8, None, ("mismatch", "ring", None)),
        ((BIT, BIT), 1, 1, None, ("mismatch", "ring", None)),
        ((wide(2), wide(2)), 0, 8, None, ("range", "quotient_bits", 0)),
        ((wide(2), wide(2)), 8, 0, None, ("range", "quotient_bits", 8)),
        ((wide(2), wide(2)), 8, 8, 0, ("range", "digit", 0)),
        ((wide(2), wide(2)), 8, 8, 11, ("range", "digit", 11)),
    ],
)
def test_what_does_not_fit_is_refused(
    rings: tuple[Ring, Ring], bits: int, divisor_bits: int, digit: int | None, expected: Expected
) -> None:
    """Widths that the ring has no room for, or that mean nothing, are refused with figures before anything is sent."""
    operands = [operand(ring, [1]) for ring in rings]

    with refused(DoesNotFitError, *expected):
        evaluate(2, operands, lambda party, xs: [quotient(party, xs[0], xs[1], bits, divisor_bits, digit)])


@pytest.mark.parametrize(
    ("largest", "reason"),
    [(-1, ("range", "largest", -1)), (1 << 63, ("range", "quotient_bits", 65))],
)
def test_rounded_quotients_that_do_not_fit_are_refused(largest: int, reason: tuple[Any, ...]) -> None:
    """Twice the denominator, and a quotient of either sign, have to fit as well."""
    operands = [operand(wide(2), [1]), operand(wide(2), [1])]

    with refused(DoesNotFitError, *reason):
        evaluate(2, operands, lambda party, xs: [rounded_quotient(party, xs[0], xs[1], largest, 62)])
