"""Ten thousand comparisons of five-fold products: (g^2 h) (h' h'') against its rival, exact to the last unit."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mpfedxgb.party import Party
from mpfedxgb.protocols import Product, Secret, Shares, negative, sum_of_products, sums_of_products
from mpfedxgb.ring import BIT, wide
from support.evaluation import Integers, Operand, evaluate, integers, same

COUNT = 10_000
EQUAL = NEIGHBOURS = 2_000
Row = tuple[int, int, int, int]
"""g, h, h', h'' of one product g^2 h h' h''."""


def value(row: Row) -> int:
    """Return the product."""
    g, h, first, second = row
    return g * g * h * first * second


def number(rng: np.random.Generator, bits: int) -> int:
    """Return a positive integer of exactly that many bits."""
    low = 1 << (bits - 1)
    return low + int(rng.integers(0, low))


def random_row(rng: np.random.Generator) -> Row:
    """Return factors of either sign whose product has 150 to 190 bits."""
    bits = int(rng.integers(31, 39))
    g, h, first, second = (number(rng, bits) for _ in range(4))
    return int(rng.choice([-1, 1])) * g, int(rng.choice([-1, 1])) * h, first, second


def equal_rows(rng: np.random.Generator) -> tuple[Row, Row]:
    """Return two different ways to write the same product."""
    a, b, g = number(rng, 12), number(rng, 12), number(rng, 18)
    h, first, second = (number(rng, int(rng.integers(28, 35))) for _ in range(3))
    return (g * a, h * b * b, first, second), (g * b, h * a * a, second, first)


def neighbouring_rows(rng: np.random.Generator) -> tuple[Row, Row]:
    """Return two products one unit apart: u v - w z = 1 by the inverse of u = g^2 h modulo w = g'^2 h'."""
    while True:
        (g, h), (other_g, other_h) = ((number(rng, 31), number(rng, 31)) for _ in range(2))
        u, w = g * g * h, other_g * other_g * other_h
        if math.gcd(u, w) == 1:
            break
    v = pow(u, -1, w)
    z = (u * v - 1) // w
    rows = (g, h, *split(v)), (other_g, other_h, *split(z))
    return rows if rng.integers(0, 2) else rows[::-1]


def split(product: int) -> tuple[int, int]:
    """Return a number as a product of two, the second the largest power of small primes in it."""
    small = math.gcd(product, math.prod((2, 3, 5, 7, 11, 13)) ** 8)
    return product // small, small


def problem(seed: int) -> tuple[list[Row], list[Row]]:
    """Return pairs of rows: random ones, equal ones, and some a unit apart, either way round."""
    rng = np.random.default_rng(seed)
    pairs = [equal_rows(rng) for _ in range(EQUAL)]
    while len(pairs) < EQUAL + NEIGHBOURS:
        pair = neighbouring_rows(rng)
        if 150 <= value(pair[0]).bit_length() <= 190:
            pairs.append(pair)
    pairs += [(random_row(rng), random_row(rng)) for _ in range(COUNT - len(pairs))]
    order = rng.permutation(COUNT)
    return [pairs[i][0] for i in order], [pairs[i][1] for i in order]


def columns(rows: list[Row]) -> list[Integers]:
    """Return the factors as four arrays."""
    return [integers(column) for column in zip(*rows, strict=True)]


def compare(party: Party, secrets: list[Secret]) -> list[Shares]:
    """Return [left < right] and [right < left], from factors to products to the sign of their difference."""
    sides = [secrets[:4], secrets[4:]]
    factors = sums_of_products(
        party,
        [[Product((g, g, h))] for g, h, _, _ in sides] + [[Product((first, second))] for _, _, first, second in sides],
    )
    difference = sum_of_products(party, [Product((factors[0], factors[2])), Product((factors[1], factors[3]), -1)])
    return [negative(party, difference), negative(party, -difference)]


@pytest.mark.parametrize("participants", [2, 3, 5])
def test_ten_thousand_comparisons(participants: int) -> None:
    """Random, equal and neighbouring products of 150 to 190 bits: every answer is right, both ways."""
    left, right = problem(participants)
    pairs = [(value(a), value(b)) for a, b in zip(left, right, strict=True)]
    assert all(150 <= abs(v).bit_length() <= 190 for pair in pairs for v in pair)
    assert sum(a == b for a, b in pairs) >= EQUAL
    assert sum(abs(a - b) == 1 for a, b in pairs) >= NEIGHBOURS

    operands = [Operand(wide(3), column) for column in columns(left) + columns(right)]
    less, greater = evaluate(participants, operands, compare).values

    same(less, BIT, [int(a < b) for a, b in pairs])
    same(greater, BIT, [int(a > b) for a, b in pairs])
