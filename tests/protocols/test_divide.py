"""DIV by Newton (Appendix B): its iterations to the bit, its accuracy, its MULs."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.protocols import divide, reciprocal
from mpfedxgb.protocols.quotient import ITERATIONS
from mpfedxgb.ring import VECTOR, Ring, wide
from support.evaluation import PARTICIPANTS, PROPERTY, SEEDS, Operand, evaluate, integers, operand, same
from support.refusals import refused


def newton(d: int, bound: int, f: int, iterations: int) -> int:
    """Return what the protocol computes, on a plain integer."""
    x = 1 << (2 * f - bound.bit_length())
    for _ in range(iterations):
        dx = d * x >> f
        x = x * (2 * (1 << f) - dx) >> f
    return x


@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_reciprocal_is_newtons_to_the_bit(participants: int) -> None:
    """Every iterate is the one that integers give, in any shape."""
    rng = np.random.default_rng(participants)
    for ring, f, bound in ((wide(2), 40, 1 << 50), (VECTOR, 20, (1 << 24) - 1)):
        values = integers([[1, 2, 3], [bound, bound - 1, 1 << f], rng.integers(1, bound, 3).tolist()])
        iterations = (0, 1, 5) if participants > 3 else (0, 1, 5, ITERATIONS)
        results = evaluate(
            participants,
            [Operand(ring, values)],
            lambda party, xs, f=f, bound=bound, counts=iterations: [  # type: ignore[misc] # mypy infers no defaults
                reciprocal(party, xs[0], bound, f, count) for count in counts
            ],
        ).values

        for count, result in zip(iterations, results, strict=True):
            expected = [newton(int(d), bound, f, count) for d in values.flat]
            same(result, ring, integers(expected, (3, 3)))


@given(seed=SEEDS, fraction_bits=st.integers(16, 40))
@PROPERTY
def test_reciprocal_is_accurate_after_enough_iterations(seed: int, fraction_bits: int) -> None:
    """log2(bound / d) + 5 iterations bring d x to 1, up to e^-16 and the roundings."""
    rng, f = np.random.default_rng(seed), fraction_bits
    bound = int(rng.integers(1 << f, 1 << (f + 8)))
    smallest = -(-bound // (1 << 12))
    values = integers([smallest, bound, *rng.integers(smallest, bound, 20).tolist()])

    (result,) = evaluate(
        2, [Operand(wide(2), values)], lambda party, xs: [reciprocal(party, xs[0], bound, f, 12 + 5)]
    ).values

    for d, x in zip(values, result, strict=True):
        error = abs(Fraction(int(d) * int(x), 1 << (2 * f)) - 1)
        assert error <= Fraction(1, 1 << 22) + Fraction(4 * int(d), 1 << (2 * f)) + Fraction(4, 1 << f), (d, x)


@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_divide_is_accurate(participants: int) -> None:
    """Quotients of either sign are those of fractions within the accuracy of the reciprocal."""
    f, rng = 40, np.random.default_rng(participants)
    d = integers([1 << f, 3 << f, 1 << 30, (100 << f) - 1, *rng.integers(1 << 33, 100 << f, 8).tolist()])
    c = integers([5 << f, -(7 << f), 1, 0, *rng.integers(-(50 << f), 50 << f, 8).tolist()])
    bound, iterations = 100 << f, 24

    (result,) = evaluate(
        participants,
        [Operand(wide(3), c), Operand(wide(3), d)],
        lambda party, xs: [divide(party, xs[0], xs[1], bound, f, iterations)],
    ).values

    for numerator, denominator, quotient in zip(c, d, result, strict=True):
        exact = Fraction(int(numerator), int(denominator)) * (1 << f)
        slack = abs(exact) / (1 << 30) + Fraction(abs(int(numerator)), 1 << f) * 4 + 2
        assert abs(int(quotient) - exact) <= slack, (numerator, denominator, quotient)


@pytest.mark.parametrize("iterations", [1, 3, ITERATIONS])
def test_a_division_takes_2n_plus_1_multiplications(iterations: int) -> None:
    """The meter counts 2 n + 1 MULs per quotient, and 8 n + 4 rounds."""
    evaluation = evaluate(
        2,
        [operand(wide(2), [7 << 20, 9, -5]), operand(wide(2), [3 << 20, 1 << 20, 11])],
        lambda party, xs: [divide(party, xs[0], xs[1], 1 << 22, 20, iterations)],
    )

    assert [counts.products for counts in evaluation.costs] == [3 * (2 * iterations + 1)] * 3
    assert [counts.rounds for counts in evaluation.costs] == [0, *[8 * iterations + 4] * 2]


@pytest.mark.parametrize(
    ("ring", "bound", "fraction_bits", "reason"),
    [
        (VECTOR, 1 << 10, 31, ("range", "fraction_bits")),
        (VECTOR, 1 << 50, 12, ("range", "fraction_bits")),
        (VECTOR, 1 << 24, 24, ("range", "iterations")),
        (wide(2), 1 << 40, 10, ("range", "bound")),
    ],
    ids=str,
)
def test_impossible_scales_are_refused(ring: Ring, bound: int, fraction_bits: int, reason: tuple[Any, ...]) -> None:
    """Scales at which an intermediate value would wrap, or the reciprocal vanish, are refused by name."""
    with refused(DoesNotFitError, *reason):
        evaluate(2, [operand(ring, [1])], lambda party, xs: [reciprocal(party, xs[0], bound, fraction_bits)])


def test_the_largest_scale_that_is_accepted_does_not_overflow() -> None:
    """The reciprocal of 1, the largest there is, is right at the last scale that fits the ring."""
    for ring, f in ((VECTOR, 20), (wide(2), 41)):
        (result,) = evaluate(
            2,
            [operand(ring, [1])],
            lambda party, xs, f=f: [reciprocal(party, xs[0], 3, f, 2 * f + 5)],  # type: ignore[misc]
        ).values
        same(result, ring, [newton(1, 3, f, 2 * f + 5)])
        assert abs(int(result[0]) - (1 << (2 * f))) <= 1 << f
