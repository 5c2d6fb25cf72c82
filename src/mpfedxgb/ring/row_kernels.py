"""Compiled loops over rows: the two sides of a split, in one pass over blocks that stay in the cache.

Bits of rows come packed, eight to a byte, the lowest first. The kernels take whole arrays, and the first node and row
of a block; the row is a multiple of 8. Arithmetic wraps modulo 2^64, or 2^8 in rings so small.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.kernels import U8, compiled, reads, writes

Words = npt.NDArray[np.unsignedinteger[Any]]

_u8, _u64, _i64 = numba.uint8, numba.uint64, numba.int64
_BITS = reads(_u8, 2)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)


@compiled(*((_BITS, reads(kind, 3), _i64, _i64, writes(kind, 3)) for kind in (_u64, _u8)))
def rows_inside(bits: U8, values: Words, node: int, row: int, out: Words) -> None:
    """Write the values of a block where a row's bit is 1, and 0 elsewhere.

    bits (n, packed), values (n, k, rows); out (nodes, k, rows of the block).
    """
    for a in range(out.shape[0]):
        for v in range(out.shape[1]):
            for first in range(0, out.shape[2], 8):
                octet = np.uint64(bits[node + a, (row + first) >> 3])
                for j in range(min(8, out.shape[2] - first)):
                    inside = _ZERO - ((octet >> np.uint64(j)) & _ONE)
                    out[a, v, first + j] = np.uint64(values[node + a, v, row + first + j]) & inside


@compiled(
    *(
        (_BITS, _BITS, reads(kind, 3), reads(kind, 3), reads(kind, 3), reads(kind, 3), _i64, _i64, _i64)
        + (writes(kind, 3),) * 2
        for kind in (_u64, _u8)
    )
)
def split_block(
    masked_bits: U8,
    bit_masks: U8,
    masked: Words,
    mask: Words,
    dealt: Words,
    fresh: Words,
    node: int,
    row: int,
    constant: int,
    part: Words,
    masks: Words,
) -> None:
    """Write one participant's share of bit * value under a fresh mask, and its masks of both sides, for a block.

    masked_bits and bit_masks (n, packed) are the public m_q and what this participant has of rho; masked and mask
    (n, k, rows) the public masked value and its part of the mask; dealt and fresh (nodes, k, rows of the block) its
    share of rho times the mask, and of the fresh mask; constant 1 for the role that adds public terms, else 0. Written
    are part (n, k, rows), and masks (2n, k, rows): left = fresh, right = mask - fresh.
    """
    nodes = part.shape[0]
    for a in range(dealt.shape[0]):
        for v in range(dealt.shape[1]):
            for first in range(0, dealt.shape[2], 8):
                m_octet = np.uint64(masked_bits[node + a, (row + first) >> 3])
                r_octet = np.uint64(bit_masks[node + a, (row + first) >> 3])
                for j in range(min(8, dealt.shape[2] - first)):
                    i = row + first + j
                    m_q = _ZERO - ((m_octet >> np.uint64(j)) & _ONE)
                    rho = _ZERO - ((r_octet >> np.uint64(j)) & _ONE)
                    m, lam = np.uint64(masked[node + a, v, i]), np.uint64(mask[node + a, v, i])
                    new = np.uint64(fresh[a, v, first + j])
                    plain = (m if constant else _ZERO) - lam
                    product = (m & rho) - np.uint64(dealt[a, v, first + j])
                    # product where m_q is 0, plain - product where it is 1: x ^ ones - ones is -x.
                    part[node + a, v, i] = (product ^ m_q) - m_q + (plain & m_q) + new
                    masks[node + a, v, i] = new
                    masks[nodes + node + a, v, i] = lam - new
