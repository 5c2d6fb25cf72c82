"""The two sides of a split, block by block, against NumPy: at any first row, over the seams of runs, in both widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.ring.row_kernels import RUN, rows_inside, split_block

Words = npt.NDArray[np.unsignedinteger[Any]]
Kind = type[np.unsignedinteger[Any]]

NODES, VECTORS, NODE = 4, 2, 1
"""Of the whole arrays; the blocks begin with node 1, and hold two."""

sizes = pytest.mark.parametrize(
    ("row", "size"), [(0, 1), (0, 8), (16, 13), (8, RUN - 1), (0, RUN), (24, RUN + 1), (RUN, 2 * RUN + 5)]
)
kinds = pytest.mark.parametrize("kind", [np.uint64, np.uint8])


def drawn(seed: int, kind: Kind, *shape: int) -> Words:
    """Return uniform words."""
    words = np.random.default_rng(seed).integers(0, np.iinfo(kind).max, shape, kind, endpoint=True)
    return np.asarray(words)


def packed(seed: int, rows: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]:
    """Return bits of all nodes, packed and one by one."""
    bits = np.random.default_rng(seed).integers(0, 2, (NODES, rows)).astype(bool)
    return np.packbits(bits, axis=1, bitorder="little"), bits


@kinds
@sizes
def test_rows_inside(kind: Kind, row: int, size: int) -> None:
    """Values where the bit is 1, and 0 elsewhere."""
    rows = row + size + 3
    octets, bits = packed(1, rows)
    values, out = drawn(2, kind, NODES, VECTORS, rows), drawn(3, kind, 2, VECTORS, size)
    rows_inside(octets, values, NODE, row, out)
    block = slice(NODE, NODE + 2), slice(None), slice(row, row + size)
    np.testing.assert_array_equal(out, values[block] * bits[:, None].astype(kind)[block])


@kinds
@sizes
@pytest.mark.parametrize("public_share", [0, 1])
def test_split_block(kind: Kind, row: int, size: int, public_share: int) -> None:
    """One share of q x = m_q x + (1 - 2 m_q) (rho m - rho lam), freshly masked, both masks, and nothing beside them."""
    rows = row + size + 3
    (m_octets, m_q), (r_octets, rho) = packed(1, rows), packed(2, rows)
    masked, mask = drawn(3, kind, NODES, VECTORS, rows), drawn(4, kind, NODES, VECTORS, rows)
    dealt, fresh = drawn(5, kind, 2, VECTORS, size), drawn(6, kind, 2, VECTORS, size)
    part, masks = drawn(7, kind, NODES, VECTORS, rows), drawn(8, kind, 2 * NODES, VECTORS, rows)
    wanted_part, wanted_masks = part.copy(), masks.copy()
    block = slice(NODE, NODE + 2), slice(None), slice(row, row + size)
    right = slice(NODES + NODE, NODES + NODE + 2), *block[1:]
    m, lam = masked[block], mask[block]
    q, r = m_q[:, None].astype(kind)[block], rho[:, None].astype(kind)[block]
    plain = m * kind(public_share) - lam
    wanted_part[block] = q * plain + (1 - 2 * q) * (r * m - dealt) + fresh
    wanted_masks[block], wanted_masks[right] = fresh, lam - fresh

    split_block(m_octets, r_octets, masked, mask, dealt, fresh, NODE, row, public_share, part, masks)

    np.testing.assert_array_equal(part, wanted_part)
    np.testing.assert_array_equal(masks, wanted_masks)
