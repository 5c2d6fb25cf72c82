"""Public tables at secret places, against NumPy's indexing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.config import Tuning
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import Secret, Shares, look_up, to_shares
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring
from mpfedxgb.ring.kernels import U64
from support.evaluation import DRAWN, SEEDS, Integers, Operand, evaluate, integers, operand, same
from support.refusals import ANY, Expected, refused

PLACES = range(1, 13)
"""Bits of a place: tables of part of a byte, of a word, and of many words."""


def random_table(rng: np.random.Generator, places: int, bits: int) -> U64:
    """Return 2^places entries of so many bits, the largest among them."""
    table = rng.integers(0, 1 << 64, 1 << places, np.uint64) >> np.uint64(64 - bits)
    table[rng.integers(len(table))] = np.uint64((1 << bits) - 1)
    return table


def octets(table: U64, index: Integers, bits: int) -> Integers:
    """Return the entries at some places, byte by byte."""
    entries = table[index.astype(np.int64) % len(table)]
    split = [[int(entry) >> 8 * i & 255 for i in range(-(-bits // 8))] for entry in entries.flat]
    return integers(split, (*index.shape, -(-bits // 8)))


def looked_up(participants: int, ring: Ring, index: Integers, table: U64, bits: int) -> Integers:
    """Return what the protocol finds."""

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        return [look_up(party, to_shares(party, xs[0]), table, bits)]

    return evaluate(participants, [Operand(ring, index)], compute).values[0]


@pytest.mark.parametrize("participants", [2, 3, 5])
def test_every_entry_of_tables_of_all_sizes(participants: int) -> None:
    """Every place of tables of 2 to 4096 entries, of 1 to 64 bits, is found."""
    rng = np.random.default_rng(participants)
    widths = [*rng.permutation([1, 7, 8, 9, 31, 33, 57, 63]), 58, 64, 16, 1]
    tables = [random_table(rng, k, int(bits)) for k, bits in zip(PLACES, widths, strict=True)]
    places = [Operand(Ring(k), integers(range(1 << k))) for k in PLACES]

    def compute(party: Party, xs: list[Secret]) -> list[Shares]:
        shares = [to_shares(party, x) for x in xs]
        return [look_up(party, x, table, int(bits)) for x, table, bits in zip(shares, tables, widths, strict=True)]

    found = evaluate(participants, places, compute).values

    for one, table, index, bits in zip(found, tables, places, widths, strict=True):
        same(one, PACKED, octets(table, index.values, int(bits)))


@given(seed=SEEDS, places=st.sampled_from(PLACES), bits=st.integers(1, 64), count=st.integers(0, 40))
@DRAWN
def test_drawn_tables_and_places(seed: int, places: int, bits: int, count: int) -> None:
    """Whatever table and places are drawn, none included, the entries come out."""
    rng = np.random.default_rng(seed)
    table, index = random_table(rng, places, bits), integers(rng.integers(0, 1 << places, count))

    same(looked_up(3, Ring(places), index, table, bits), PACKED, octets(table, index, bits))


@pytest.mark.parametrize("shape", [(), (0,), (2, 3), (2, 0, 3)])
def test_places_of_any_shape(shape: tuple[int, ...]) -> None:
    """The bytes of an entry are one more axis behind those of its place."""
    rng = np.random.default_rng(3)
    table, index = random_table(rng, 7, 20), integers(rng.integers(0, 128, shape), shape)

    same(looked_up(2, Ring(7), index, table, 20), PACKED, octets(table, index, 20))


def test_rows_in_blocks() -> None:
    """Where blocks are small, the coordinator sends each by itself, and the entries are the same."""
    rng = np.random.default_rng(4)
    table, index = random_table(rng, 8, 33), integers(rng.integers(0, 256, 23))
    messages = {}
    for block in (1 << 20, 5 * 32, 1):
        evaluation = evaluate(
            3,
            [Operand(Ring(8), index)],
            lambda party, xs: [look_up(party, to_shares(party, xs[0]), table, 33)],
            tuning=Tuning(dealt_bytes=block),
        )
        same(evaluation.values[0], PACKED, octets(table, index, 33))
        assert evaluation.costs[0].dealer_bytes == 23 * 32
        messages[block] = sum(evaluation.costs[0].wire_sent.values())

    assert messages[1 << 20] < messages[5 * 32] < messages[1]


TABLE = np.arange(8, dtype=np.uint64)


@pytest.mark.parametrize(
    ("ring", "table", "bits", "expected"),
    [
        (Ring(3), TABLE[:4], 3, ("mismatch", "table", None)),
        (Ring(3), TABLE.astype(np.int64), 3, ("mismatch", "table", None)),
        (Ring(3), TABLE, 2, ("range", "bits", 2)),
        (Ring(3), TABLE, 65, ("range", "bits", 65)),
        (VECTOR, TABLE, 3, ("range", "ring", ANY)),
        (BIT, TABLE[:2], 1, ("range", "ring", ANY)),
    ],
)
def test_tables_that_do_not_fit_are_refused(
    ring: Ring, table: npt.NDArray[np.uint64], bits: int, expected: Expected
) -> None:
    """The number of entries is that of the places, and no entry has more bits than are asked for."""
    with refused(DoesNotFitError, *expected):
        evaluate(2, [operand(ring, [1])], lambda party, xs: [look_up(party, to_shares(party, xs[0]), table, bits)])
