"""How likely recorded bytes are: tests of one and of two samples, and a bound for many tests together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import chdtrc

THRESHOLD = 1e-6
"""Seeds are fixed, so a test that passes passes for ever; this is the chance that a change of seeds makes it fail."""

Symbols = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint64]


def p_uniform(values: Symbols, alphabet: int) -> float:
    """Return how likely symbols are, if they are uniform (chi-square); bit by bit where there are few of them."""
    if values.size and int(values.max()) >= alphabet:
        return 0.0
    if values.size < 5 * alphabet:
        values = np.unpackbits(values[:, None], axis=1, count=alphabet.bit_length() - 1, bitorder="little")
        alphabet = 2
    counts = np.bincount(values.ravel(), minlength=alphabet)
    expected = values.size / alphabet
    return float(chdtrc(alphabet - 1, ((counts - expected) ** 2).sum() / expected))


def p_bytes_uniform(samples: Iterable[Words]) -> list[float]:
    """Return, for each sample, how likely it is if its bytes are uniform (chi-square)."""
    counts = np.array([_bytes(words) for words in samples], np.int64).reshape(-1, 256)
    expected = counts.sum(axis=1, keepdims=True) / 256
    p_values: list[float] = chdtrc(255, ((counts - expected) ** 2 / expected).sum(axis=1)).tolist()
    return p_values


def p_alike(a: Symbols, b: Symbols, alphabet: int) -> float:
    """Return how likely two samples (runs, columns) are, if each column of both has one distribution (chi-square)."""
    columns = a.shape[1]
    offsets = np.arange(columns, dtype=np.int64) * alphabet
    one, two = (np.bincount((x + offsets).ravel(), minlength=columns * alphabet).reshape(columns, -1) for x in (a, b))
    return joint(_p_of_counts(one, two))


def half_bytes(arrays: Iterable[npt.NDArray[Any]]) -> list[Symbols]:
    """Return each array as half bytes, for `p_views_alike`."""
    octets = (np.ascontiguousarray(array).view(np.uint8).ravel() for array in arrays)
    return [np.concatenate([octet & 15, octet >> 4]) for octet in octets]


def p_views_alike(one: Sequence[Sequence[Symbols]], two: Sequence[Sequence[Symbols]]) -> float:
    """Return how likely views of two worlds are, if each place of each array has one distribution in both.

    A world has many runs, a run a list of arrays as half bytes, the same in form in all runs.
    """
    pairs = [(np.stack(a), np.stack(b)) for a, b in zip(zip(*one, strict=True), zip(*two, strict=True), strict=True)]
    assert any(a.size for a, _ in pairs), "the views are empty, so there is nothing to compare"
    return joint([p_alike(a, b, 16) for a, b in pairs])


def p_bytes_alike(pairs: Iterable[tuple[Words, Words]]) -> list[float]:
    """Return, for each pair of samples, how likely they are if their bytes have one distribution (chi-square)."""
    counts = [[_bytes(words) for words in pair] for pair in pairs]
    one, two = np.array(counts, np.int64).reshape(-1, 2, 256).swapaxes(0, 1)
    return _p_of_counts(one, two)


def _bytes(words: Words) -> npt.NDArray[np.int64]:
    return np.bincount(words.view(np.uint8).ravel(), minlength=256)


def _p_of_counts(one: npt.NDArray[np.int64], two: npt.NDArray[np.int64]) -> list[float]:
    """Compare counts (tests, alphabet) of two samples of one size."""
    both = one + two
    seen = both > 0
    statistic = np.divide((one - two) ** 2, both, out=np.zeros(both.shape), where=seen).sum(axis=1)
    p_values: list[float] = chdtrc(np.maximum(seen.sum(axis=1) - 1, 1), statistic).tolist()
    return p_values


def joint(p_values: Sequence[float]) -> float:
    """Return a bound on how likely the least likely of several p-values is (Bonferroni)."""
    return min(1.0, len(p_values) * min(p_values, default=1.0))
