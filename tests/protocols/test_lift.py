"""Lifts into wider rings, exact to the last edge."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import Secret, lift, lift_secret, multiply, to_shares
from mpfedxgb.protocols.secret import stack
from mpfedxgb.ring import VECTOR, Ring, wide
from support.evaluation import (
    DRAWN,
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    WIDE,
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
@given(seed=SEEDS)
@PROPERTY
def test_lift_and_lift_secret(participants: int, seed: int) -> None:
    """|z| < 2^(k-2) keeps its value and its sign in every wider ring, from shares and from masked secrets."""
    batch = cases(seed, (VECTOR, wide(2), wide(3), *TINY), bits=lambda ring: ring.bits - 2)

    def compute(party: Party, z: Secret) -> Secret:
        target = targets[z.ring]
        return stack([lift(party, to_shares(party, z), target), lift_secret(party, z, target)])

    targets = {wide(3): wide(4), wide(2): wide(3 + seed % 2), VECTOR: WIDE[seed % 3]}
    targets |= dict.fromkeys(TINY, (VECTOR, *WIDE)[seed % 4])

    for (z,), both in zip(batch, evaluate_each(participants, batch, compute), strict=True):
        same(both, targets[z.ring], np.stack([z.values, z.values]))


@pytest.mark.parametrize("target", WIDE, ids=str)
def test_lift_at_the_edges(target: Ring) -> None:
    """The largest, the smallest and the least numbers of the range, -2^62 included, many times under fresh masks."""
    values = integers([*extremes(62), -(1 << 62)] * 100)

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        return [lift(party, to_shares(party, secrets[0]), target), lift_secret(party, secrets[0], target)]

    for value in evaluate(3, [Operand(VECTOR, values)], compute).values:
        same(value, target, values)


@pytest.mark.parametrize("bits", range(2, 8))
def test_lift_of_a_whole_tiny_range(bits: int) -> None:
    """Every number of a tiny ring's range, under many masks."""
    half = 1 << (bits - 2)
    values = integers(list(range(-half, half)) * 50)

    (lifted,) = evaluate(
        3, [Operand(Ring(bits), values)], lambda party, xs: [lift(party, to_shares(party, xs[0]), Ring(8))]
    ).values

    same(lifted, Ring(8), values)


@given(values=st.lists(numbers(62), min_size=1), target=st.sampled_from(WIDE))
@DRAWN
def test_lift_of_drawn_integers(values: list[int], target: Ring) -> None:
    """Whatever integers are drawn, they are lifted exactly."""
    (lifted,) = evaluate(2, [operand(VECTOR, values)], lambda party, xs: [lift_secret(party, xs[0], target)]).values

    same(lifted, target, values)


@given(seed=SEEDS)
@PROPERTY
def test_products_after_a_lift_do_not_wrap(seed: int) -> None:
    """Squares of lifted numbers of 62 bits are those of integers: a lift's result is a secret like any other."""
    batch = [(Operand(VECTOR, bulk(np.random.default_rng(seed), 62, (50,))),)]

    def square(party: Party, z: Secret) -> Secret:
        x = lift(party, to_shares(party, z), wide(2))
        return multiply(party, x, x)

    (result,) = evaluate_each(3, batch, square)

    assert result.tolist() == (batch[0][0].values ** 2).tolist()


@pytest.mark.parametrize(("ring", "target"), [(ring, ring) for ring in RINGS] + [(wide(3), wide(2))], ids=str)
def test_only_a_wider_ring_will_do(ring: Ring, target: Ring) -> None:
    """A lift into the same or a narrower ring is refused by name."""
    with refused(DoesNotFitError, "range", "ring"):
        evaluate(2, [operand(ring, [1])], lambda party, xs: [lift_secret(party, xs[0], target)])
