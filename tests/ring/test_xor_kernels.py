"""Systems of equations over bits: solved where they can be, as plain Python finds them, and nothing else moved."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.row_kernels import solve_systems, sums_of_columns
from support.property_tests import examples

WORD = st.integers(0, 2**64 - 1)


@st.composite
def systems(draw: st.DrawFn) -> tuple[list[list[int]], list[list[tuple[int, int]]], int]:
    """Return up to three systems: the rows of each as integers, their right sides, and the number of columns."""
    columns = draw(st.integers(1, 70))
    rows = draw(st.lists(st.lists(st.integers(0, 2**columns - 1), max_size=8), min_size=1, max_size=3))
    return rows, [[(draw(WORD), draw(WORD)) for _ in some] for some in rows], columns


def rank(rows: list[int]) -> int:
    """Return how many rows are independent."""
    basis: list[int] = []
    for row in rows:
        for one in basis:
            row = min(row, row ^ one)
        if row:
            basis.append(row)
    return len(basis)


def packed(rows: list[int], columns: int) -> U64:
    """Return rows of bits in words."""
    words = -(-columns // 64)
    octets = b"".join(row.to_bytes(8 * words, "little") for row in rows)
    return np.frombuffer(octets, np.uint64).reshape(len(rows), words).copy()


@examples(60)
@given(systems(), st.integers(0, 2**32))
def test_solved_or_said_not_to_be(problem: tuple[list[list[int]], list[list[tuple[int, int]]], int], seed: int) -> None:
    """Independent equations hold afterwards, and systems with dependent ones are counted."""
    rows, sides, columns = problem
    fill = np.random.default_rng(seed).integers(0, 2**63, (len(rows), columns, 2)).astype(np.uint64)
    tables = fill.copy()
    flat = [row for some in rows for row in some]
    starts = np.cumsum([0, *map(len, rows)])
    values = np.array([side for some in sides for side in some], np.uint64).reshape(len(flat), 2)
    failed = solve_systems(starts, packed(flat, columns), values.copy(), tables)
    dependent = [rank(some) < len(some) for some in rows]
    assert failed == sum(dependent)
    for s, some in enumerate(rows):
        out = np.empty((len(some), 2), np.uint64)
        sums_of_columns(np.full(len(some), s, np.int64), packed(some, columns), tables, out)
        if dependent[s]:
            assert (tables[s] == fill[s]).all(), "nothing is written"
        else:
            assert out.tolist() == [list(side) for side in sides[s]]
            assert (tables[s] != fill[s]).any(axis=1).sum() <= len(some), "only one column for each equation"
