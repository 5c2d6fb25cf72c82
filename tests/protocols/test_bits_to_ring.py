"""Packed shared bits as numbers of a ring, against Python integers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import Tuning
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import BitField, Secret, Shares, bits_to_ring, to_shares
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, wide
from support.evaluation import DRAWN, SEEDS, Integers, Operand, evaluate, integers, operand, same
from support.refusals import ANY, Expected, refused

COEFFICIENTS = [BitField(0, 27, signed=True), BitField(27, 20), BitField(47, 11, signed=True)]
"""A word of three coefficients."""


def number(octets: Iterable[int], field: BitField) -> int:
    """Return the number in some bits."""
    value = int.from_bytes(list(octets), "little") >> field.first & ((1 << field.width) - 1)
    return value - (1 << field.width) if field.signed and value >> (field.width - 1) else value


def numbers(packed: Integers, field: BitField) -> Integers:
    """Return the numbers in rows of packed bits."""
    flat = packed.reshape(int(np.prod(packed.shape[:-1], dtype=int)), packed.shape[-1])
    return integers([number(row, field) for row in flat], packed.shape[:-1])


def random_bits(seed: int, *shape: int) -> Integers:
    """Return random bytes, the first of them 0 and 255."""
    packed = integers(np.random.default_rng(seed).integers(0, 256, shape), shape)
    for row, value in enumerate((0, 255)):
        packed[row : row + 1] = value
    return packed


def converted(participants: int, packed: Integers, fields: Sequence[BitField], ring: Ring) -> list[Integers]:
    """Return what the protocol makes of packed bits."""

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        return bits_to_ring(party, to_shares(party, xs[0]), fields, ring)

    return evaluate(participants, [Operand(PACKED, packed)], compute).values


@pytest.mark.parametrize("participants", [2, 3, 5])
def test_coefficients_of_a_word(participants: int) -> None:
    """Signed and unsigned numbers beside each other, all zeros and all ones among them."""
    packed = random_bits(participants, 50, 8)

    for found, field in zip(converted(participants, packed, COEFFICIENTS, VECTOR), COEFFICIENTS, strict=True):
        same(found, VECTOR, numbers(packed, field))


@given(data=st.data(), seed=SEEDS, octets=st.integers(1, 10), bits=st.sampled_from([2, 5, 8, 13, 40, 64]))
@DRAWN
def test_drawn_fields(data: st.DataObject, seed: int, octets: int, bits: int) -> None:
    """Fields of any place and width, overlapping or none at all, in rings of any width up to 64 bits."""

    def field(first: int) -> st.SearchStrategy[BitField]:
        return st.builds(BitField, st.just(first), st.integers(1, min(bits, 8 * octets - first)), st.booleans())

    fields = data.draw(st.lists(st.integers(0, 8 * octets - 1).flatmap(field), max_size=4))
    packed = random_bits(seed, 9, octets)

    found = converted(3, packed, fields, Ring(bits))

    assert len(found) == len(fields)
    for one, of in zip(found, fields, strict=True):
        same(one, Ring(bits), numbers(packed, of))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0, 3)])
def test_rows_of_any_shape(shape: tuple[int, ...]) -> None:
    """The last axis, of bytes, is gone; the others stay."""
    packed = random_bits(5, *shape, 3)

    (found,) = converted(2, packed, [BitField(3, 17, signed=True)], VECTOR)

    same(found, VECTOR, numbers(packed, BitField(3, 17, signed=True)))


@pytest.mark.parametrize("block", [1, 1000])
def test_rows_in_blocks(block: int) -> None:
    """Where blocks are small, the numbers are the same, and so is what is dealt: 8 bytes a bit."""
    packed = random_bits(6, 11, 8)

    evaluation = evaluate(
        3,
        [Operand(PACKED, packed)],
        lambda party, xs: bits_to_ring(party, to_shares(party, xs[0]), COEFFICIENTS, VECTOR),
        tuning=Tuning(dealt_bytes=block),
    )

    for found, field in zip(evaluation.values, COEFFICIENTS, strict=True):
        same(found, VECTOR, numbers(packed, field))
    assert evaluation.costs[0].dealer_bytes == 11 * 58 * 8


@pytest.mark.parametrize(
    ("of", "field", "ring", "expected"),
    [
        (PACKED, BitField(5, 4), VECTOR, ("range", "field", None)),
        (PACKED, BitField(-1, 4), VECTOR, ("range", "field", None)),
        (PACKED, BitField(0, 0), VECTOR, ("range", "field", None)),
        (PACKED, BitField(0, 5), Ring(4), ("range", "field", None)),
        (PACKED, BitField(0, 5), wide(2), ("range", "ring", ANY)),
        (PACKED, BitField(0, 5), PACKED, ("range", "ring", ANY)),
        (BIT, BitField(0, 1), VECTOR, ("type", "bits", None)),
    ],
)
def test_fields_that_do_not_fit_are_refused(of: Ring, field: BitField, ring: Ring, expected: Expected) -> None:
    """A field lies within the bits, and fits the ring."""
    with refused(DoesNotFitError, *expected):
        evaluate(2, [operand(of, [1])], lambda party, xs: bits_to_ring(party, to_shares(party, xs[0]), [field], ring))
