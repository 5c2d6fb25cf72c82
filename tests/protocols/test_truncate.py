"""Truncation: floor(x / 2^places), exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import Secret, multiply, truncate
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
    with pytest.raises(DoesNotFitError, match="1 to 62 places"):
        evaluate(2, [operand(VECTOR, [1])], lambda party, xs: [truncate(party, xs[0], places)])
