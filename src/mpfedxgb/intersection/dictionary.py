"""A dictionary that gives the right value for each of its keys, and a random one for every other, without listing keys.

An oblivious key-value store (Garimella et al., CRYPTO 2021) in its plainest form. A key falls into one of several bins
and names, by random bits, some of that bin's columns; its value is what these add up to (XOR). To write the dictionary
is to solve one system of linear equations per bin. Columns that no equation binds are random. So if the values are
uniform, the whole dictionary is uniform, whatever its keys are: nobody can tell from it which keys it has.

A system may have no solution if its rows are dependent: for L keys and c columns with a chance below 2^(L - c). Over b
bins and n keys that is at most b 2^-c E[2^L] = b 2^-c (1 + 1/b)^n <= b 2^-c e^(n/b); `Shape.of` keeps it below 2^-40.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from mpfedxgb.errors import FederationError
from mpfedxgb.ring.kernels import I64, U8, U64
from mpfedxgb.ring.prg import KEY_BYTES, Stream, os_entropy
from mpfedxgb.ring.row_kernels import solve_systems, sums_of_columns

LOAD = 512
"""Keys that a bin has on average: more save a little room and cost more time."""

SPARE = 40
"""Bits of the chance that a dictionary cannot be written."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many bins, and columns in each; it follows from the number of keys."""

    bins: int
    columns: int

    @classmethod
    def of(cls, keys: int) -> Shape:
        """Return the shape for `keys` keys."""
        bins = max(1, keys // LOAD)
        return cls(bins, math.ceil(keys / bins * math.log2(math.e) + math.log2(bins)) + SPARE)

    @property
    def words(self) -> int:
        """Words that the bits of a key take."""
        return -(-self.columns // 64)

    @property
    def place_bytes(self) -> int:
        """Bytes of a hash that say where a key is."""
        return 8 + 8 * self.words

    @property
    def array(self) -> tuple[int, int, int]:
        """Shape of the dictionary as an array of words."""
        return self.bins, self.columns, 2


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """The bin of each key, (n,), and which of its columns it names, (n, words)."""

    bins: I64 = field(repr=False)
    bits: U64 = field(repr=False)

    @classmethod
    def read(cls, octets: U8, shape: Shape) -> Places:
        """Return places from hashes of keys, (n, place_bytes)."""
        words = np.ascontiguousarray(octets).view(np.uint64)
        bits = words[:, 1:].copy()
        if shape.columns % 64:
            bits[:, -1] &= np.uint64((1 << shape.columns % 64) - 1)
        return cls((words[:, 0] % np.uint64(shape.bins)).astype(np.int64), bits)


def write(shape: Shape, places: Places, values: U64, fill: U64 | None = None) -> U64:
    """Return a dictionary, (bins, columns, 2), of values, (n, 2); written over `fill`, or over random words."""
    if fill is None:
        fill = Stream(os_entropy(KEY_BYTES)).octets(8 * math.prod(shape.array)).view(np.uint64)
    tables = fill.reshape(shape.array).copy()
    order = np.argsort(places.bins, kind="stable")
    starts = np.searchsorted(places.bins[order], np.arange(shape.bins + 1)).astype(np.int64)
    failed = solve_systems(starts, places.bits[order], values[order], tables)
    if failed:
        raise FederationError(
            "a dictionary could not be written, which happens once in 2^40 times; run it again", "failed", "dictionary"
        )
    return tables


def look_up(tables: U64, places: Places) -> U64:
    """Return what a dictionary says for keys, (n, 2); of one that it does not have, something random."""
    out = np.empty((len(places.bins), 2), np.uint64)
    sums_of_columns(places.bins, places.bits, np.ascontiguousarray(tables), out)
    return out
