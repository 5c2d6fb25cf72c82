"""The dictionary: right for its keys, and uniform whatever they are, so that nobody can tell which it has."""

from __future__ import annotations

import math
from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import FederationError
from mpfedxgb.intersection.dictionary import LOAD, SPARE, Places, Shape, look_up, write
from mpfedxgb.intersection.group import SALT_BYTES, Oracles
from support.property_tests import examples
from support.refusals import refused


@examples(40)
@given(st.sets(st.text(max_size=6), max_size=60), st.binary(min_size=SALT_BYTES, max_size=SALT_BYTES))
def test_every_key_finds_its_value(keys: set[str], salt: bytes) -> None:
    """And a key that is not there finds something else."""
    shape, oracles = Shape.of(len(keys)), Oracles(salt)
    values = np.random.default_rng(1).integers(0, 2**63, (len(keys), 2)).astype(np.uint64)
    places = Places.read(oracles.places(list(keys), shape), shape)
    tables = write(shape, places, values)
    assert tables.shape == shape.array
    assert (look_up(tables, places) == values).all()
    other = look_up(tables, Places.read(oracles.places(["not there"], shape), shape))
    assert other.tolist()[0] not in values.tolist()


def test_many_keys() -> None:
    """Over several bins, with room for less than twice as many values as there are keys."""
    keys = [str(i) for i in range(5 * LOAD)]
    shape, oracles = Shape.of(len(keys)), Oracles(bytes(SALT_BYTES))
    places = Places.read(oracles.places(keys, shape), shape)
    values = np.arange(2 * len(keys), dtype=np.uint64).reshape(-1, 2)
    assert shape.bins == 5
    assert shape.bins * shape.columns < 1.8 * len(keys)
    assert (look_up(write(shape, places, values), places) == values).all()


@pytest.mark.parametrize("keys", [0, 1, 20, LOAD, 100_000, 1 << 26])
def test_the_chance_of_failure(keys: int) -> None:
    """The bound of the module's first lines is below 2^-40."""
    shape = Shape.of(keys)
    chance = math.log2(shape.bins) - shape.columns + keys * math.log2(1 + 1 / shape.bins)
    assert chance <= -SPARE


def test_failure_has_a_name() -> None:
    """Two keys in one place have no two values."""
    shape = Shape(1, 8)
    places = Places(np.zeros(2, np.int64), np.array([[5], [5]], np.uint64))
    with refused(FederationError, "failed", "dictionary"):
        write(shape, places, np.ones((2, 2), np.uint64))


@pytest.mark.parametrize("rows", [[], [0b001], [0b101, 0b110], [0b111, 0b010, 0b100]])
def test_uniform_values_give_a_uniform_dictionary(rows: list[int]) -> None:
    """Over all values and all fills of three columns of one bit, every dictionary comes equally often."""
    shape, seen = Shape(1, 3), Counter[tuple[int, ...]]()
    places = Places(np.zeros(len(rows), np.int64), np.array(rows, np.uint64).reshape(-1, 1))
    for bits in product((0, 1), repeat=len(rows) + 3):
        values, fill = np.zeros((len(rows), 2), np.uint64), np.zeros((3, 2), np.uint64)
        values[:, 0], fill[:, 0] = bits[: len(rows)], bits[len(rows) :]
        seen[tuple(write(shape, places, values, fill)[0, :, 0].tolist())] += 1
    assert seen == dict.fromkeys(product((0, 1), repeat=3), 2 ** len(rows))
