"""Bit planes against bits taken one by one."""

from __future__ import annotations

import numpy as np
import pytest

from mpfedxgb.ring import RingArray, wide
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.planes import (
    as_octets,
    as_words,
    cut_planes,
    evaluate_planes,
    look_up_digits,
    multiply_planes,
    octets_of,
    one_hot_planes,
    plane_bits,
    planes_of,
)

COUNTS = pytest.mark.parametrize("count", [0, 1, 7, 8, 63, 64, 65, 200, 64 * 33 + 5])


def numbers(count: int, limbs: int) -> U64:
    """Return words (count, limbs); test data, nobody's secret."""
    return np.random.default_rng(count).integers(0, 1 << 64, (count, limbs), np.uint64, endpoint=False)


def plain(words: U64) -> list[int]:
    """Return rows of words as integers."""
    return [sum(int(word) << (64 * j) for j, word in enumerate(row)) for row in words]


def random_planes(seed: int, planes: int, count: int) -> U64:
    """Return planes of random bits, with zeros after the last."""
    bits = np.random.default_rng(seed).integers(0, 2, (planes, count), np.uint8)
    return as_words(np.packbits(bits, axis=1, bitorder="little"))


@COUNTS
@pytest.mark.parametrize(("limbs", "bits"), [(1, 64), (1, 3), (2, 70), (3, 192), (3, 155), (4, 256)])
def test_planes_hold_bit_after_bit(count: int, limbs: int, bits: int) -> None:
    """Plane j holds bit j of every number, whatever their number."""
    words = numbers(count, limbs)
    out = np.full((bits, -(-count // 64)), 7, np.uint64)
    cut_planes(words, out)

    expected = [[value >> j & 1 for value in plain(words)] for j in range(bits)]
    assert plane_bits(out, count).tolist() == expected
    assert plane_bits(out, 64 * out.shape[1])[:, count:].sum() == 0


def test_planes_of_an_array_are_those_of_its_words() -> None:
    """Any shape is cut in the order of its elements."""
    words = numbers(30, 3)

    planes = planes_of(RingArray(wide(3), words.reshape(5, 6, 3)), 100)

    assert plane_bits(planes, 30)[99].tolist() == [value >> 99 & 1 for value in plain(words)]


@COUNTS
def test_words_and_octets_are_the_same_planes(count: int) -> None:
    """Planes go from bytes to words and back; several groups lie one below the other."""
    octets = np.random.default_rng(1).integers(0, 256, (5, octets_of(count)), np.uint8)

    words = as_words(octets[:2], octets[2:])

    assert words.shape == (5, -(-count // 64))
    np.testing.assert_array_equal(as_octets(words, octets.shape[1]), octets)


@COUNTS
@pytest.mark.parametrize(("bits", "digit"), [(1, 1), (2, 1), (3, 2), (8, 4), (9, 4), (11, 4), (63, 4)])
def test_digits_are_looked_up(count: int, bits: int, digit: int) -> None:
    """From the one-hot tables of one number, "less" and "equal" of every digit of another, from the top."""
    mine, other = (random_planes(seed, bits, count) for seed in (1, 2))
    digits = -(-bits // digit)
    tables = np.empty((sum(1 << min(digit, bits - low) for low in range(0, bits, digit)), mine.shape[1]), np.uint64)
    one_hot_planes(other, digit, tables)
    assert plane_bits(tables, count).sum() == digits * count
    out = np.empty((2 * digits - 1, mine.shape[1]), np.uint64)
    look_up_digits(mine, tables, digit, out)

    weights = 1 << np.arange(bits, dtype=np.int64)
    m, r = (plane_bits(planes, count).T.astype(np.int64) @ weights for planes in (mine, other))
    found = plane_bits(out, count)
    for i in range(digits):
        low = digit * (digits - 1 - i)
        a, b = (m >> low) % (1 << digit), (r >> low) % (1 << digit)
        assert found[2 * i].tolist() == (a < b).astype(int).tolist()
        if low:
            assert found[2 * i + 1].tolist() == (a == b).astype(int).tolist()


@COUNTS
def test_products_and_sums_of_planes(count: int) -> None:
    """Products name rows and factors; a program adds gated rows, one line after the other."""
    masks, opened = random_planes(3, 3, count), random_planes(4, 3, count)
    products = np.empty((2, masks.shape[1]), np.uint64)
    multiply_planes(masks, np.array([[1, 1], [4, 2]]), products)
    np.testing.assert_array_equal(products, [masks[0] & masks[1], masks[0] & masks[1] & masks[2]])

    rows = np.concatenate([masks, products])
    out = np.zeros((2, masks.shape[1]), np.uint64)
    evaluate_planes(rows.copy(), opened, np.array([[1, 0, 2], [3, 1, 0]]), np.array([[0, 3], [1, 1], [1, 2]]), out)

    first = rows[1] ^ (opened[2] & rows[0])
    np.testing.assert_array_equal(out, [rows[3] ^ (opened[0] & first), first ^ rows[2]])
