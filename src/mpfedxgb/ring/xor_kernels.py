"""Compiled loops for systems of linear equations over bits: small dense ones, many side by side.

An equation is a row of bits, packed into words, the lowest first, and a right side of two words. A table has two words
for each of its columns; an equation holds if the columns that its bits name add up (bitwise, XOR) to its right side.
"""

from __future__ import annotations

import numba
import numpy as np

from mpfedxgb.ring.kernels import I64, U64, compiled, reads, writes

_u64, _i64 = numba.uint64, numba.int64
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@compiled((writes(_u64, 2), writes(_u64, 2), writes(_i64, 1), _i64, _i64, _i64))
def _eliminate(rows: U64, sides: U64, pivots: I64, first: int, i: int, columns: int) -> bool:
    """Take out of equation i the columns that those from `first` on were solved for; return whether one is left."""
    for j in range(first, i):
        p = pivots[j]
        if (rows[i, p >> 6] >> np.uint64(p & 63)) & _ONE:
            for w in range(rows.shape[1]):
                rows[i, w] ^= rows[j, w]
            sides[i, 0] ^= sides[j, 0]
            sides[i, 1] ^= sides[j, 1]
    for c in range(columns):
        if (rows[i, c >> 6] >> np.uint64(c & 63)) & _ONE:
            pivots[i] = c
            return True
    return False


@compiled((reads(_i64, 1), writes(_u64, 2), writes(_u64, 2), writes(_u64, 3)))
def solve_systems(starts: I64, rows: U64, sides: U64, tables: U64) -> int:
    """Make the equations of every system hold in its table; return how many systems have dependent equations.

    starts (systems + 1,): where the equations of each begin; rows (n, words) and sides (n, 2) are used up; tables
    (systems, columns, 2) come filled: columns that no equation binds stay as they are, so that what is uniform before
    is a uniform solution after (Gaussian elimination, then substitution backwards).
    """
    failed = 0
    pivots = np.empty(rows.shape[0], np.int64)
    for s in range(tables.shape[0]):
        solved = True
        for i in range(starts[s], starts[s + 1]):
            solved = solved and _eliminate(rows, sides, pivots, starts[s], i, tables.shape[1])
        if not solved:
            failed += 1
            continue
        for i in range(starts[s + 1] - 1, starts[s] - 1, -1):
            low, high = sides[i, 0], sides[i, 1]
            for c in range(tables.shape[1]):
                if c != pivots[i] and (rows[i, c >> 6] >> np.uint64(c & 63)) & _ONE:
                    low ^= tables[s, c, 0]
                    high ^= tables[s, c, 1]
            tables[s, pivots[i], 0] = low
            tables[s, pivots[i], 1] = high
    return failed


@compiled((reads(_i64, 1), reads(_u64, 2), reads(_u64, 3), writes(_u64, 2)))
def sums_of_columns(systems: I64, rows: U64, tables: U64, out: U64) -> None:
    """Write for each row of bits what the columns that it names add up to, in the table of its system; out (n, 2)."""
    for i in range(out.shape[0]):
        s = systems[i]
        low = high = _ZERO
        for c in range(tables.shape[1]):
            chosen = _ZERO - ((rows[i, c >> 6] >> np.uint64(c & 63)) & _ONE)
            low ^= tables[s, c, 0] & chosen
            high ^= tables[s, c, 1] & chosen
        out[i, 0] = low
        out[i, 1] = high
