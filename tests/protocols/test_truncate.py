"""Division by powers of two: rounded down, rounded off, cut in two, exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import (
    Borrow,
    Secret,
    Shares,
    compare_together,
    cut,
    multiply,
    open_bit,
    round_off,
    shift,
    truncate,
)
from mpfedxgb.ring import VECTOR, Ring, wide
from support.evaluation import (
    DRAWN,
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    Operand,
    bulk,
    cases,
    evaluate,
    evaluate_each,
    extremes,
    integers,
    numbers,
    operand,
    same,
)
from support.refusals import refused


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS, data=st.data())
@PROPERTY
def test_truncate(participants: int, seed: int, data: st.DataObject) -> None:
    """Rounded down, for negative numbers too, in every ring and shape."""
    batch = cases(seed, RINGS, bits=lambda ring: ring.bits - 2)
    places = {ring: data.draw(st.integers(1, ring.bits - 2)) for ring in RINGS}

    results = evaluate_each(participants, batch, lambda party, x: truncate(party, x, places[x.ring]))

    for (x,), result in zip(batch, results, strict=True):
        same(result, x.ring, x.values >> places[x.ring])


@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("participants", [2, 3, 5])
@given(seed=SEEDS, data=st.data())
@PROPERTY
def test_truncate_and_round_off_on_bits(participants: int, rounds: int, seed: int, data: st.DataObject) -> None:
    """The comparison on bits gives the same; to the nearest integer, a half goes up, for negative numbers too."""
    batch = cases(seed, RINGS, bits=lambda ring: ring.bits - 3)
    places = {ring: data.draw(st.integers(1, ring.bits - 3)) for ring in RINGS}

    down = evaluate_each(participants, batch, lambda party, x: truncate(party, x, places[x.ring], rounds=rounds))
    near = evaluate_each(participants, batch, lambda party, x: round_off(party, x, places[x.ring], rounds))

    for (x,), lower, nearest in zip(batch, down, near, strict=True):
        same(lower, x.ring, x.values >> places[x.ring])
        same(nearest, x.ring, (x.values + (1 << (places[x.ring] - 1))) >> places[x.ring])


@pytest.mark.parametrize("participants", [2, 3, 5])
@given(seed=SEEDS, data=st.data())
@PROPERTY
def test_cut_and_shift_by_an_opened_borrow(participants: int, seed: int, data: st.DataObject) -> None:
    """Any element is cut into any number of low bits and any number above them; of one borrow also comes the floor."""
    rings = (*RINGS, Ring(3), Ring(8), Ring(13))
    batch = [x for (x,) in cases(seed, rings, bits=lambda ring: ring.bits - 2, shapes=[(), (0,), (17,), (2, 3)])]
    places = [data.draw(st.integers(1, x.ring.bits - 2)) for x in batch]
    widths = [data.draw(st.integers(1, min(64, x.ring.bits - p))) for x, p in zip(batch, places, strict=True)]

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        borrows = compare_together(party, [Borrow(x, p) for x, p in zip(xs, places, strict=True)])
        bits = [open_bit(party, borrow) for borrow in borrows]
        parts: list[Shares] = []
        for x, p, width, bit in zip(xs, places, widths, bits, strict=True):
            parts += [*cut(party, x, p, width, bit), shift(party, x, p, bit)]
        return parts

    found = iter(evaluate(participants, batch, compute).values)

    for x, p, width in zip(batch, places, widths, strict=True):
        same(next(found), Ring(width), (x.values >> p) % (1 << width))
        same(next(found), x.ring, x.values % (1 << p))
        same(next(found), x.ring, x.values >> p)


def test_a_whole_tiny_ring_is_cut() -> None:
    """Every element of a tiny ring, at every place and width, under many masks."""
    values = integers(list(range(-32, 32)) * 20)
    ways = [(places, width) for places in range(1, 6) for width in range(1, 7 - places)]

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        borrows = compare_together(party, [Borrow(xs[0], places) for places, _ in ways], digit=2)
        bits = [open_bit(party, borrow) for borrow in borrows]
        return [part for way, bit in zip(ways, bits, strict=True) for part in cut(party, xs[0], *way, bit)]

    found = iter(evaluate(3, [Operand(Ring(6), values)], compute).values)

    for places, width in ways:
        same(next(found), Ring(width), (values >> places) % (1 << width))
        same(next(found), Ring(6), values % (1 << places))


@pytest.mark.parametrize(("places", "width"), [(0, 5), (64, 1), (60, 5), (10, 0)])
def test_impossible_cuts_are_refused(places: int, width: int) -> None:
    """A cut lies inside the ring, and there are bits above it."""

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        (borrow,) = compare_together(party, [Borrow(xs[0], 9)])
        return [*cut(party, xs[0], places, width, open_bit(party, borrow))]

    with refused(DoesNotFitError, "range", "width"):
        evaluate(2, [operand(VECTOR, [1])], compute)


@pytest.mark.parametrize("ring", RINGS, ids=str)
def test_every_number_of_places(ring: Ring) -> None:
    """From 1 to k - 2 places; edges and their neighbours among the numbers."""
    rng = np.random.default_rng(1)
    values = integers([*extremes(ring.bits - 2), -(1 << (ring.bits - 2)), *bulk(rng, ring.bits - 2, (12,))])
    places = range(1, ring.bits - 1)

    results = evaluate(
        2, [Operand(ring, values)], lambda party, xs: [truncate(party, xs[0], count) for count in places]
    ).values

    for count, result in zip(places, results, strict=True):
        same(result, ring, values >> count)


@pytest.mark.parametrize("digit", [1, 2, 4])
@pytest.mark.parametrize("bits", range(3, 9))
def test_a_whole_tiny_range_by_all_places(bits: int, digit: int) -> None:
    """Every number of a tiny ring's range by every number of places, under many masks and in all digit sizes."""
    half, ring = 1 << (bits - 2), Ring(bits)
    values = integers(list(range(-half, half)) * 20)

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        return [truncate(party, secrets[0], places, digit) for places in range(1, bits - 1)]

    for places, result in enumerate(evaluate(3, [Operand(ring, values)], compute).values, 1):
        same(result, ring, values >> places)


@given(values=st.lists(numbers(190), min_size=1, max_size=50), places=st.integers(1, 190))
@DRAWN
def test_truncate_drawn_integers(values: list[int], places: int) -> None:
    """Whatever integers and places are drawn, the quotient is rounded down."""
    (result,) = evaluate(3, [operand(wide(3), values)], lambda party, xs: [truncate(party, xs[0], places)]).values

    same(result, wide(3), integers(values) >> places)


@given(seed=SEEDS)
@PROPERTY
def test_fixed_point_products(seed: int) -> None:
    """Multiply and truncate: the fixed-point product rounded down, twice in a row."""
    rng = np.random.default_rng(seed)
    x, y = bulk(rng, 50, (40,)), bulk(rng, 50, (40,))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        a, b = secrets
        product = truncate(party, multiply(party, a, b), 32)
        return [product, truncate(party, multiply(party, product, b), 32)]

    once, twice = evaluate(3, [Operand(wide(2), x), Operand(wide(2), y)], compute).values

    same(once, wide(2), x * y >> 32)
    same(twice, wide(2), (x * y >> 32) * y >> 32)


@pytest.mark.parametrize("places", [-1, 0, 63, 64])
def test_impossible_places_are_refused(places: int) -> None:
    """By nothing, or by more than k - 2 places, nothing is truncated."""
    with refused(DoesNotFitError, "range", "places"):
        evaluate(2, [operand(VECTOR, [1])], lambda party, xs: [truncate(party, xs[0], places)])
