"""Comparisons: signs of secrets, and public numbers against the coordinator's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import ALL, Party
from mpfedxgb.protocols import Secret, less_than, negative, open_masked, reveal, to_shares
from mpfedxgb.ring import BIT, VECTOR, Ring, RingArray, wide
from support.evaluation import (
    DRAWN,
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    WIDE,
    Integers,
    Operand,
    bulk,
    cases,
    enter,
    evaluate,
    evaluate_each,
    extremes,
    integers,
    numbers,
    operand,
    run_patiently,
    same,
)
from support.names import unlisted
from support.refusals import Expected, refused

DIGITS = pytest.mark.parametrize("digit", [1, 2, 4])


def signs(values: Integers) -> Integers:
    """Return 1 where an integer is negative, else 0."""
    return integers([int(v < 0) for v in values.flat], values.shape)


def fits(ring: Ring, digit: int) -> bool:
    """Tell whether a comparison has at most 128 digits."""
    return -(-(ring.bits - 1) // digit) <= 128


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_negative(participants: int, seed: int) -> None:
    """The sign of every secret is right, in all rings and shapes."""
    batch = cases(seed, (*RINGS, *TINY))

    for (x,), sign in zip(batch, evaluate_each(participants, batch, negative), strict=True):
        same(sign, BIT, signs(x.values))


@DIGITS
@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_signs_at_the_edges(participants: int, digit: int) -> None:
    """Zero, one, minus one, powers of two and the ends of the ring, each many times under fresh masks."""
    batch = []
    for ring in (*RINGS, *TINY):
        if fits(ring, digit):
            powers = [s * (1 << k) + d for k in range(0, ring.bits - 1, 7) for s in (-1, 1) for d in (-1, 0)]
            values = [*extremes(ring.bits - 1), -(1 << (ring.bits - 1)), *powers] * 5
            batch.append((operand(ring, values),))

    for (x,), sign in zip(batch, evaluate_each(participants, batch, negative, digit=digit), strict=True):
        same(sign, BIT, signs(x.values))


@DIGITS
@pytest.mark.parametrize("bits", range(2, 9))
def test_signs_of_a_whole_tiny_ring(bits: int, digit: int) -> None:
    """Every element of a tiny ring, under many masks, has its sign."""
    values = integers(list(range(-(1 << (bits - 1)), 1 << (bits - 1))) * 40)

    (sign,) = evaluate(3, [Operand(Ring(bits), values)], lambda party, xs: [negative(party, xs[0], digit)]).values

    same(sign, BIT, signs(values))


@given(ring=st.sampled_from(RINGS), data=st.data())
@DRAWN
def test_signs_of_drawn_integers(ring: Ring, data: st.DataObject) -> None:
    """Whatever integers are drawn, their signs are found."""
    values = integers(data.draw(st.lists(numbers(ring.bits - 1), min_size=1, max_size=50)))

    (sign,) = evaluate(3, [Operand(ring, values)], lambda party, xs: [negative(party, xs[0])]).values

    same(sign, BIT, signs(values))


@DIGITS
@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_equal_numbers_and_neighbours_are_told_apart(participants: int, digit: int, seed: int) -> None:
    """X < y by the sign of x - y: equal numbers are not less, numbers one unit apart are, on the right side."""
    rng = np.random.default_rng(seed)
    batch = []
    for ring in RINGS:
        if fits(ring, digit):
            values = bulk(rng, ring.bits - 2, (60,))
            batch.append((Operand(ring, values), Operand(ring, values + integers([-1, 0, 1] * 20))))

    results = evaluate_each(participants, batch, lambda party, x, y: negative(party, x - y, digit))

    for (x, y), less in zip(batch, results, strict=True):
        same(less, BIT, signs(x.values - y.values))


@DIGITS
@pytest.mark.parametrize("joint", [False, True], ids=["owner's mask", "joint mask"])
@pytest.mark.parametrize("ring", [Ring(5), Ring(8), VECTOR, *WIDE], ids=str)
def test_less_than_compares_low_bits_with_the_mask(ring: Ring, joint: bool, digit: int) -> None:
    """For any number of low bits: 1 where those of the masked value are less than those of the coordinator's mask."""
    widths = [w for w in {1, 2, 3, 4, 5, 7, 8, 63, 64, 65, 127, 130, ring.bits - 1, ring.bits} if w <= ring.bits]
    widths = [w for w in widths if -(-w // digit) <= 128]
    x = Operand(ring, integers([0, 1, -1, 2, -2, 3, 1 << (ring.bits - 2), -(1 << (ring.bits - 2))] * 8))

    def program(party: Party) -> tuple[Secret, list[Integers | None]]:
        secret = enter(party, 2, x)
        if joint:
            party.step("mask anew")
            secret = open_masked(party, to_shares(party, secret))
        answers = [
            reveal(party, less_than(party, secret, width, digit=digit), ALL, unlisted("less")) for width in widths
        ]
        return secret, [None if answer.is_hidden else answer.decode() for answer in answers]

    results = run_patiently(program, 3).results

    masks = results[0][0].mask.decode().astype(object)
    masked = results[1][0].masked.decode().astype(object)
    for width, *answers in zip(widths, *(view for _, view in results[1:]), strict=True):
        expected = [int(m % (1 << width) < r % (1 << width)) for m, r in zip(masked, masks, strict=True)]
        for answer in answers:
            assert answer is not None
            assert answer.tolist() == expected


def test_less_than_adds_what_the_coordinator_flips() -> None:
    """The coordinator's `flip` turns the answers over, where it is 1."""
    flips = np.arange(40) % 2

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        x = secrets[0]
        flip = RingArray.encode(BIT, flips) if party.is_coordinator else RingArray.hidden(BIT, x.shape)
        plain, flipped = less_than(party, x, 64), less_than(party, x, 64, flip)
        party.step("open")
        return [open_masked(party, plain + flipped)]

    (difference,) = evaluate(3, [operand(VECTOR, range(40))], compute).values

    same(difference, BIT, flips)


def test_comparisons_are_counted() -> None:
    """The meter counts one comparison per element, in every role."""
    evaluation = evaluate(2, [operand(VECTOR, [[1, 2], [3, 4]])], lambda party, xs: [negative(party, xs[0])])

    assert [counts.comparisons for counts in evaluation.costs] == [4] * 3


@pytest.mark.parametrize(
    ("ring", "digit", "expected"),
    [
        (wide(3), 1, ("range", "digits", 191)),
        (wide(4), 1, ("range", "digits", 255)),
        (Ring(1), 4, ("range", "digits", 0)),
        (VECTOR, 3, ("choice", "digit", 3)),
        (VECTOR, 8, ("choice", "digit", 8)),
    ],
    ids=str,
)
def test_impossible_digits_are_refused(ring: Ring, digit: int, expected: Expected) -> None:
    """More than 128 digits (t would not fit a byte), none at all, or digits of other sizes are refused by name."""
    with refused(DoesNotFitError, *expected):
        evaluate(2, [operand(ring, [0, 1])], lambda party, xs: [negative(party, xs[0], digit)])
