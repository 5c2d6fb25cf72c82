"""MUL, inner products and sums of products against Python integers."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError, UserError
from mpfedxgb.party import Party
from mpfedxgb.protocols import (
    Product,
    Secret,
    inner_product,
    multiply,
    public_secret,
    sum_of_products,
    sums_of_products,
)
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, wide
from mpfedxgb.ring.ring import Shape
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
    cases,
    evaluate,
    evaluate_each,
    extremes,
    integers,
    numbers,
    operand,
    residues,
    same,
)
from support.refusals import refused

Terms = tuple[tuple[int, str], ...]

SUMS: tuple[Terms, ...] = (
    ((1, "x"),),
    ((-4, "z"), (1, "y")),
    ((1, "xy"),),
    ((3, "xx"), (-1, "yz")),
    ((1, "xxy"),),
    ((1, "xxx"),),
    ((1, "xxz"), (1, "yyx")),
    ((-1, "xyx"), (1 << 65, "zyx"), (5, "zz"), (-7, "y")),
    ((0, "xyz"), (2, "zxz")),
)
"""Sums of products: coefficients and factors; repeated factors in every position."""


def products(terms: Terms, secrets: dict[str, Secret]) -> list[Product]:
    """Return terms over secrets."""
    return [Product(tuple(secrets[name] for name in names), coefficient) for coefficient, names in terms]


def expected(terms: Terms, values: dict[str, Integers]) -> Integers:
    """Return the sum of products of integers."""
    return integers(sum(coefficient * prod(values[name] for name in names) for coefficient, names in terms))


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_multiply(participants: int, seed: int) -> None:
    """Products are those of integers, in every ring and shape."""
    batch = cases(seed, (*RINGS, *TINY), 2)

    for (x, y), product in zip(batch, evaluate_each(participants, batch, multiply), strict=True):
        same(product, x.ring, x.values * y.values)


@pytest.mark.parametrize("ring", [*RINGS, Ring(3)], ids=str)
def test_multiply_at_the_edges(ring: Ring) -> None:
    """Every edge of the ring times every other one."""
    edges = [*extremes(ring.bits - 1), -(1 << (ring.bits - 1))]
    x, y = integers(edges), integers(edges).reshape(-1, 1)

    (product,) = evaluate(2, [Operand(ring, x), Operand(ring, y)], lambda party, xs: [multiply(party, *xs)]).values

    same(product, ring, x * y)


@given(ring=st.sampled_from(RINGS), values=st.lists(st.tuples(numbers(63), numbers(63), numbers(63)), min_size=1))
@DRAWN
def test_products_of_drawn_integers(ring: Ring, values: list[tuple[int, int, int]]) -> None:
    """Whatever integers are drawn, x y + y z - x x z is theirs."""
    x, y, z = (integers(column) for column in zip(*values, strict=True))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        a, b, c = secrets
        return [sum_of_products(party, [Product((a, b)), Product((b, c)), Product((a, a, c), -1)])]

    (result,) = evaluate(2, [Operand(ring, x), Operand(ring, y), Operand(ring, z)], compute).values

    same(result, ring, x * y + y * z - x * x * z)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_sums_of_products_in_one_round(participants: int, seed: int) -> None:
    """Terms of one to three factors, with repetitions and coefficients: all sums of a batch in a single round."""
    batch = cases(seed, (*RINGS, *TINY), 3, shapes=((), (0,), (2, 3)))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        results = []
        for i in range(0, len(secrets), 3):
            named = dict(zip("xyz", secrets[i : i + 3], strict=True))
            results += sums_of_products(party, [products(terms, named) for terms in SUMS])
        return results

    evaluation = evaluate(participants, [x for case in batch for x in case], compute)

    assert [counts.rounds for counts in evaluation.costs[1:]] == [len(batch)] * participants
    muls = sum(len(factors) - 1 for terms in SUMS for _, factors in terms)
    assert [counts.mul_calls for counts in evaluation.costs] == [muls * len(batch)] * (participants + 1)
    results = iter(evaluation.values)
    for case in batch:
        values = {name: x.values for name, x in zip("xyz", case, strict=True)}
        for terms in SUMS:
            same(next(results), case[0].ring, expected(terms, values))


@pytest.mark.parametrize("ring", [*RINGS, Ring(8)], ids=str)
@pytest.mark.parametrize(
    "shapes",
    [((2, 1, 3), (4, 1), ()), ((1,), (0,), (1, 1)), ((), (), (3,)), ((5, 1), (1, 4), (5, 4))],
    ids=str,
)
def test_factors_broadcast(ring: Ring, shapes: tuple[Shape, Shape, Shape]) -> None:
    """Factors and terms of different shapes broadcast as in NumPy."""
    rng = np.random.default_rng(2)
    operands = [Operand(ring, residues(rng, ring, shape)) for shape in shapes]
    values = {name: x.values for name, x in zip("xyz", operands, strict=True)}

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        named = dict(zip("xyz", secrets, strict=True))
        return [sum_of_products(party, products(terms, named)) for terms in SUMS]

    results = evaluate(3, operands, compute).values

    for terms, result in zip(SUMS, results, strict=True):
        same(result, ring, expected(terms, values))


@pytest.mark.parametrize("participants", PARTICIPANTS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2])
def test_sums_along_an_axis(axis: int, participants: int) -> None:
    """Sums of products are added up along any axis of the broadcast shape before they are opened."""
    rng = np.random.default_rng(3)
    shapes: tuple[Shape, ...] = ((2, 3, 4), (3, 1), (4,))
    batch = [tuple(Operand(ring, residues(rng, ring, shape)) for shape in shapes) for ring in (*RINGS, Ring(8))]
    terms = ((1, "xyz"), (-2, "xy"), (3, "yz"), (1, "z"))

    def compute(party: Party, x: Secret, y: Secret, z: Secret) -> Secret:
        return sum_of_products(party, products(terms, {"x": x, "y": y, "z": z}), axis=axis)

    for case, result in zip(batch, evaluate_each(participants, batch, compute), strict=True):
        values = {name: x.values for name, x in zip("xyz", case, strict=True)}
        same(result, case[0].ring, expected(terms, values).sum(axis))


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_inner_products(participants: int, seed: int) -> None:
    """Inner products along the last and the first axis, of nothing too, are those of integers."""
    batch = cases(seed, (*RINGS, *TINY), 2, shapes=((0,), (17,), (2, 0, 3), (2, 3, 0), (2, 3, 4)))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        pairs = zip(secrets[::2], secrets[1::2], strict=True)
        return [product for x, y in pairs for product in (inner_product(party, x, y), inner_product(party, x, y, 0))]

    results = iter(evaluate(participants, [x for case in batch for x in case], compute).values)

    for x, y in batch:
        same(next(results), x.ring, (x.values * y.values).sum(-1))
        same(next(results), x.ring, (x.values * y.values).sum(0))


@pytest.mark.parametrize("ring", [BIT, PACKED], ids=str)
def test_products_of_bits_are_conjunctions(ring: Ring) -> None:
    """In rings of bits a product is AND, of three factors too, and a sum XOR."""
    rng = np.random.default_rng(4)
    x, y, z = (residues(rng, ring, (60,)) for _ in range(3))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        a, b, c = secrets
        return sums_of_products(
            party, [[Product((a, b))], [Product((a, b, c))], [Product((a, b, c), -1), Product((a, c)), Product((b,))]]
        )

    results = evaluate(3, [Operand(ring, v) for v in (x, y, z)], compute).values

    for result, right in zip(results, [x & y, x & y & z, (x & y & z) ^ (x & z) ^ y], strict=True):
        same(result, ring, right)


def test_public_secrets_are_factors_too() -> None:
    """A secret with mask zero multiplies like any other."""
    values = integers([5, -7, 1 << 100])

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        known = public_secret(party, wide(2), [3, -1, 2])
        return [multiply(party, secrets[0], known), multiply(party, known, known)]

    product, square = evaluate(3, [Operand(wide(2), values)], compute).values

    same(product, wide(2), values * integers([3, -1, 2]))
    same(square, wide(2), [9, 1, 4])


def test_results_are_factors_again() -> None:
    """A power by repeated multiplication is exact: the result of a protocol carries a mask like any other."""
    values = integers([3, -3, 2, -1, 0])

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        x = secrets[0]
        for _ in range(5):
            x = multiply(party, x, x)
        return [x]

    for ring in WIDE:
        (power,) = evaluate(3, [Operand(ring, values)], compute).values
        same(power, ring, values**32)


def test_products_are_counted() -> None:
    """The meter counts one product per element and factor beyond the first, in every role."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        x, y = secrets
        return [multiply(party, x, y), sum_of_products(party, [Product((x, x, y)), Product((y,)), Product((x, y))])]

    evaluation = evaluate(3, [operand(VECTOR, range(6)), operand(VECTOR, range(6))], compute)

    assert [counts.products for counts in evaluation.costs] == [6 + 12 + 6] * 4


@pytest.mark.parametrize("factors", [0, 4], ids=["none", "four"])
def test_a_term_has_one_to_three_factors(factors: int) -> None:
    """Other terms are refused by name."""
    with refused(UserError, "range", "terms"):
        evaluate(2, [operand(VECTOR, [1])], lambda party, xs: [sum_of_products(party, [Product((xs[0],) * factors)])])


def test_a_sum_has_terms() -> None:
    """A sum of nothing has no ring, and is refused."""
    with refused(UserError, "range", "terms"):
        evaluate(2, [], lambda party, xs: [sum_of_products(party, [])])


def test_rings_do_not_mix_in_a_product() -> None:
    """A product of secrets of two rings is refused by name."""
    with refused(DoesNotFitError, "mismatch", "ring"):
        evaluate(2, [operand(VECTOR, [1]), operand(wide(2), [1])], lambda party, xs: [multiply(party, *xs)])
