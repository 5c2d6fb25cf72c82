"""Words of wide numbers for tests of kernels, and the integers that they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from mpfedxgb.ring.kernels import U64


def random_words(rng: np.random.Generator, *shape: int) -> U64:
    """Return words that wrap in every product; test data, nobody's secret."""
    return rng.integers(0, 1 << 64, shape, np.uint64, endpoint=False)


def to_integers(words: U64) -> Any:
    """Return words (..., limbs) as an array of Python integers."""
    return sum(words[..., j].astype(object) << (64 * j) for j in range(words.shape[-1]))


def to_words(values: Any, limbs: int) -> U64:
    """Return integers, modulo 2^(64 limbs), as words (..., limbs)."""
    out = np.empty((*values.shape, limbs), np.uint64)
    for j in range(limbs):
        out[..., j] = (values % (1 << (64 * limbs)) >> (64 * j)) % (1 << 64)
    return out


def two_shares(rng: np.random.Generator, whole: U64) -> tuple[U64, U64]:
    """Return two shares of words (..., limbs), modulo 2^(64 limbs)."""
    one = random_words(rng, *whole.shape)
    return one, to_words(to_integers(whole) - to_integers(one), whole.shape[-1])
