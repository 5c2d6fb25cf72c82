"""Hidden bits: opened, shared, combined, and used to select."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.party import Party
from mpfedxgb.protocols import (
    Bit,
    BitProduct,
    Secret,
    Shares,
    bit_times,
    both,
    negative,
    open_bit,
    select,
    share_bit,
    sums_of_bit_products,
    to_shares,
)
from mpfedxgb.protocols.bits import shares_of_bit_products
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from mpfedxgb.ring.array import pack, unpack
from mpfedxgb.ring.ring import Shape
from support.evaluation import (
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    Integers,
    Operand,
    cases,
    evaluate,
    evaluate_each,
    integers,
    operand,
    residues,
    same,
)

SHAPES: tuple[Shape, ...] = ((), (0,), (1,), (17,), (2, 0, 3), (2, 3, 4))


def own_bit(party: Party, owner: int, bits: Integers) -> Bit:
    """Share bits by one participant."""
    values = RingArray.encode(BIT, bits)
    return share_bit(party, owner, values.shape, values if party.role == owner else None)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_open_bit(participants: int, seed: int) -> None:
    """An opened bit is the bit that was shared; its complement the other one."""
    batch = cases(seed, [BIT])

    opened = evaluate_each(participants, batch, lambda party, b: open_bit(party, to_shares(party, b)).secret)
    turned = evaluate_each(participants, batch, lambda party, b: (~open_bit(party, to_shares(party, b))).secret)

    for (b,), same_bit, other_bit in zip(batch, opened, turned, strict=True):
        same(same_bit, BIT, b.values)
        same(other_bit, BIT, 1 - b.values)


@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_share_bit(participants: int) -> None:
    """Every participant can put bits in, and they stay its own in slices and complements."""
    rng = np.random.default_rng(1)
    bits = [integers(rng.integers(0, 2, shape), shape) for shape in SHAPES]

    def compute(party: Party, _: list[Secret]) -> list[Secret]:
        results = []
        for owner in range(1, participants + 1):
            for values in bits:
                bit = own_bit(party, owner, values)
                assert bit.owned
                assert (~bit).owned
                assert bit[..., None].owned
                assert (bit.shape, bit[..., None].shape) == (values.shape, (*values.shape, 1))
                results += [bit.secret, (~bit)[..., None].secret]
        return results

    results = iter(evaluate(participants, [], compute).values)

    for values in bits * participants:
        same(next(results), BIT, values)
        same(next(results), BIT, 1 - values[..., None])


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_both(participants: int, seed: int) -> None:
    """AND of single and of packed bits."""
    batch = cases(seed, (BIT, PACKED), 2)

    for (x, y), result in zip(batch, evaluate_each(participants, batch, both), strict=True):
        same(result, x.ring, x.values & y.values)


def test_packed_bits_are_single_bits() -> None:
    """AND of packed row memberships, unpacked by everyone, is AND of the rows."""
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 2, (2, 3, 21))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        result = both(party, *secrets)
        return [Secret(unpack(result.masked, 21), unpack(result.mask, 21))]

    operands = [operand(PACKED, pack(v).decode()) for v in (x, y)]
    (result,) = evaluate(3, operands, compute).values

    same(result, BIT, x & y)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_select(participants: int, seed: int) -> None:
    """The first of each pair where the bit is 0, the second where it is 1, whole pairs of pairs in one call."""
    batch = cases(seed, (*RINGS, *TINY), 2, gates=1)

    def compute(party: Party, b: Secret, x: Secret, y: Secret) -> Secret:
        first, second = select(party, Bit(b), [(x, y), (y, 3 * x)])
        return first - second

    for (b, x, y), result in zip(batch, evaluate_each(participants, batch, compute), strict=True):
        expected = np.where(b.values, y.values, x.values) - np.where(b.values, 3 * x.values, y.values)
        same(result, x.ring, expected)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_bit_times(participants: int, seed: int) -> None:
    """A bit times a value, for bits that nobody and that each participant knows."""
    batch = cases(seed, (*RINGS, *TINY), 1, gates=1)

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        results = []
        for i in range(0, len(secrets), 2):
            owned = own_bit(party, 1 + i // 2 % participants, batch[i // 2][0].values)
            b, x = secrets[i : i + 2]
            results += [bit_times(party, Bit(b), x), bit_times(party, ~owned, x)]
        return results

    results = iter(evaluate(participants, [x for case in batch for x in case], compute).values)

    for b, x in batch:
        same(next(results), x.ring, b.values * x.values)
        same(next(results), x.ring, (1 - b.values) * x.values)


def test_the_child_update() -> None:
    """Rows that go left, kept from the active participant by an auxiliary, gate g and h of a node together."""
    rng = np.random.default_rng(3)
    goes_left = integers(rng.integers(0, 2, 50))
    gradients = Operand(VECTOR, residues(rng, VECTOR, (2, 50)))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        left = bit_times(party, own_bit(party, 2, goes_left), secrets[0])
        return [left, secrets[0] - left]

    left, right = evaluate(3, [gradients], compute).values

    same(left, VECTOR, goes_left * gradients.values)
    same(right, VECTOR, (1 - goes_left) * gradients.values)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_gated_sums(count: int, participants: int) -> None:
    """Bits, whoever masked them, gate a value; the product is added up along an axis and to a base."""
    batch = cases(count, (*RINGS, *TINY), 2, gates=count, shapes=((1,), (17,), (2, 0, 3), (2, 3, 4)))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        results = []
        for i, case in enumerate(batch):
            *gates, x, base = secrets[i * (count + 2) : (i + 1) * (count + 2)]
            bits = [Bit(b) for b in gates]
            bits[i % count] = own_bit(party, 1 + i % participants, case[i % count].values)
            bits[-1] = ~bits[-1]
            chosen = tuple(bits)
            results += sums_of_bit_products(
                party,
                [
                    BitProduct(chosen, x),
                    BitProduct(chosen, x, base),
                    BitProduct(chosen, x, axis=-1),
                    BitProduct(chosen, x, base[0], axis=0),
                ],
            )
        return results

    evaluation = evaluate(participants, [x for case in batch for x in case], compute)

    results = iter(evaluation.values)
    for *gates, x, base in batch:
        product = x.values * (1 - gates[-1].values)
        for b in gates[:-1]:
            product = product * b.values
        same(next(results), x.ring, product)
        same(next(results), x.ring, product + base.values)
        same(next(results), x.ring, product.sum(-1))
        same(next(results), x.ring, product.sum(0) + base.values[0])


def test_gated_shares_are_gated_sums_unopened() -> None:
    """The same values as additive shares, without a round."""
    bits, values = integers([[0, 1, 1], [1, 0, 1]]), integers([[5, 6, 7], [-1, 1 << 62, 8]])

    def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
        return shares_of_bit_products(party, [BitProduct((Bit(secrets[0]),), secrets[1], secrets[1][0], axis=0)])

    evaluation = evaluate(3, [Operand(BIT, bits), Operand(VECTOR, values)], compute)

    assert [counts.rounds for counts in evaluation.costs] == [0] * 4
    same(evaluation.values[0], VECTOR, (bits * values).sum(0) + values[0])


def test_gated_sums_of_scalars() -> None:
    """Single bits gate single values."""
    operands = [operand(BIT, 1), operand(BIT, 0), operand(wide(3), -(1 << 150)), operand(wide(3), 77)]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        one, zero, x, base = Bit(secrets[0]), Bit(secrets[1]), *secrets[2:]
        return sums_of_bit_products(
            party, [BitProduct((one,), x), BitProduct((zero, one), x, base), BitProduct((one, ~zero, one), x, base)]
        )

    first, second, third = evaluate(3, operands, compute).values

    same(first, wide(3), -(1 << 150))
    same(second, wide(3), 77)
    same(third, wide(3), 77 - (1 << 150))


def test_a_bit_may_gate_twice() -> None:
    """The same bit at two or three places is the bit itself, whoever masked it."""
    bits, values = integers([0, 1, 0, 1]), integers([5, 6, 7, 8])

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        hidden, owned, x = Bit(secrets[0]), own_bit(party, 1, bits), secrets[1]
        gates = [(hidden, hidden), (owned, owned), (hidden, owned, hidden), (owned, owned, owned)]
        return sums_of_bit_products(party, [BitProduct(g, x) for g in gates])

    for result in evaluate(3, [Operand(BIT, bits), Operand(VECTOR, values)], compute).values:
        same(result, VECTOR, bits * values)


def test_gates_and_values_broadcast() -> None:
    """One bit gates a row of values, one value serves several bits; rings and shapes mix in one round."""
    rng = np.random.default_rng(4)
    b, c = integers(rng.integers(0, 2, (3, 1))), integers(rng.integers(0, 2, 4))
    x, y, z = residues(rng, VECTOR, (3, 4)), residues(rng, wide(3), ()), residues(rng, Ring(8), (2, 3, 4))
    operands = [Operand(BIT, b), Operand(BIT, c), Operand(VECTOR, x), Operand(wide(3), y), Operand(Ring(8), z)]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        bits, values = [Bit(s) for s in secrets[:2]], secrets[2:]
        return sums_of_bit_products(
            party,
            [
                BitProduct((bits[0],), values[0]),
                BitProduct((bits[0], bits[1]), values[1], values[1]),
                BitProduct((bits[1], bits[0]), values[2], values[2][0]),
                BitProduct((bits[1],), values[1], axis=-1),
            ],
        )

    evaluation = evaluate(3, operands, compute)

    assert [counts.rounds for counts in evaluation.costs[1:]] == [1] * 3
    expected = [(VECTOR, b * x), (wide(3), b * c * y + y), (Ring(8), b * c * z + z[0]), (wide(3), (c * y).sum(-1))]
    for value, (ring, right) in zip(evaluation.values, expected, strict=True):
        same(value, ring, right)


def test_bits_gate_bits() -> None:
    """In the ring of bits a gated value is AND, and a base is added by XOR."""
    rng = np.random.default_rng(5)
    b, c, x = (integers(rng.integers(0, 2, 40)) for _ in range(3))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        first, second, value = secrets
        return sums_of_bit_products(
            party, [BitProduct((Bit(first), ~Bit(second)), value), BitProduct((Bit(first),), value, second)]
        )

    conjunction, mixed = evaluate(3, [Operand(BIT, v) for v in (b, c, x)], compute).values

    same(conjunction, BIT, b * (1 - c) * x)
    same(mixed, BIT, (b * x) ^ c)


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_a_sign_selects(participants: int, seed: int) -> None:
    """The larger of two secrets: compare, open the answer as a bit, select; nobody learns which."""
    batch = cases(seed, RINGS, 2, bits=lambda ring: ring.bits - 2)

    def larger(party: Party, x: Secret, y: Secret) -> Secret:
        return select(party, open_bit(party, negative(party, x - y)), [(x, y)])[0]

    for (x, y), result in zip(batch, evaluate_each(participants, batch, larger), strict=True):
        same(result, x.ring, np.maximum(x.values, y.values))
