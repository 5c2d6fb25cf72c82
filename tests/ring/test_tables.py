"""Look-ups in public tables by shared one-hot rows, and weighted bits: against plain sums."""

from __future__ import annotations

from functools import reduce
from operator import xor

import numpy as np
import pytest

from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.row_kernels import columns_of, look_up_rows, one_hot_words, weigh_bits


def words(seed: int, *shape: int) -> U64:
    """Return random words; test data, nobody's secret."""
    return np.random.default_rng(seed).integers(0, 1 << 64, shape, np.uint64)


@pytest.mark.parametrize("bits", [1, 8, 13, 58, 64])
@pytest.mark.parametrize("places", range(1, 10))
def test_rows_of_any_bits_add_entries_up(places: int, bits: int) -> None:
    """Every one of a row at j names the entry shift - j, at every shift; what fills up bytes counts for nothing."""
    entries = 1 << places
    table = words(places, entries) >> np.uint64(64 - bits)
    packed = np.random.default_rng(bits).integers(0, 256, (entries, -(-entries // 8)), np.uint8)
    shifts, out = np.arange(entries, dtype=np.uint64), np.empty(entries, np.uint64)

    look_up_rows(one_hot_words(packed, entries), shifts, columns_of(table, bits), out)

    ones = np.unpackbits(packed, axis=1, count=entries, bitorder="little")
    wanted = [
        reduce(xor, (int(table[(shift - j) % entries]) for j in np.flatnonzero(row)), 0)
        for shift, row in enumerate(ones)
    ]
    assert out.tolist() == wanted


def test_rows_that_begin_anywhere_become_words() -> None:
    """Bytes may begin at any address; what the compiled loops get begins where words do."""
    raw = np.random.default_rng(3).integers(0, 256, 8 + 5 * 32, np.uint8)
    for start in range(8):
        packed = raw[start : start + 5 * 32].reshape(5, 32)
        found = one_hot_words(packed, 256)
        assert found.flags.aligned
        assert found.tobytes() == packed.tobytes()


@pytest.mark.parametrize("public_share", [0, 1])
def test_weighted_bits(public_share: int) -> None:
    """A bit that was opened as 1 turns its mask over; one role adds what is public; a number may have no bits."""
    rng = np.random.default_rng(6)
    opened, masks = rng.integers(0, 256, (40, 3), np.uint8), words(7, 40, 7)
    places, weights = np.array([0, 23, 8, 7, 7, 15, 1]), words(8, 7)
    starts, out = np.array([0, 3, 3, 7]), np.empty((40, 3), np.uint64)

    weigh_bits(opened, masks, places, weights, starts, public_share, out)

    for row in range(40):
        bits = [int(opened[row, p // 8]) >> p % 8 & 1 for p in places.tolist()]
        terms = [
            int(w) * (public_share * m + (1 - 2 * m) * int(r))
            for w, m, r in zip(weights, bits, masks[row], strict=True)
        ]
        wanted = [sum(terms[:3]), 0, sum(terms[3:])]
        assert out[row].tolist() == [value % (1 << 64) for value in wanted]
