"""Compiled loops over rows: the two sides of a split, in one pass over blocks that stay in the cache.

Bits of rows come packed, eight to a byte, the lowest first. The kernels take whole arrays, and the first node and row
of a block; the row is a multiple of 8. Arithmetic wraps modulo 2^64, or 2^8 in rings so small.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.kernels import U8, U64, compiled, reads, writes

Words = npt.NDArray[np.unsignedinteger[Any]]

_u8, _u64, _i64 = numba.uint8, numba.uint64, numba.int64
_BITS = reads(_u8, 2)
_ZERO = np.uint64(0)
_ONE = np.uint64(1)

RUN = 1024
"""Rows whose bits are spread at a time, a multiple of 8: what is made of them stays in the first-level cache."""


@compiled((reads(_u8, 1), writes(_u64, 1)))
def _spread(octets: U8, out: U64) -> None:
    """Write all ones for a bit that is 1, and 0 for one that is 0: out has 8 words, or more, for every byte."""
    for place in range(len(octets)):
        octet = np.uint64(octets[place])
        word = out[8 * place : 8 * place + 8]
        for j in range(8):
            word[j] = _ZERO - ((octet >> np.uint64(j)) & _ONE)


@compiled(*((_BITS, reads(kind, 3), _i64, _i64, writes(kind, 3)) for kind in (_u64, _u8)))
def rows_inside(bits: U8, values: Words, node: int, row: int, out: Words) -> None:
    """Write the values of a block where a row's bit is 1, and 0 elsewhere.

    bits (n, packed), values (n, k, rows); out (nodes, k, rows of the block).
    """
    spread = np.empty(RUN, np.uint64)
    for a in range(out.shape[0]):
        for low in range(0, out.shape[2], RUN):
            high = min(out.shape[2], low + RUN)
            _spread(bits[node + a, (row + low) >> 3 : (row + high + 7) >> 3], spread)
            for v in range(out.shape[1]):
                # Slices, whose index begins at 0, are loaded as vectors (see `kernels.dense_add`).
                inside, here = out[a, v, low:high], values[node + a, v, row + low : row + high]
                for i in range(high - low):
                    inside[i] = np.uint64(here[i]) & spread[i]


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
    nodes, size = part.shape[0], dealt.shape[2]
    public = _ZERO - np.uint64(constant)
    m_q, rho = np.empty(RUN, np.uint64), np.empty(RUN, np.uint64)
    for a in range(dealt.shape[0]):
        for low in range(0, size, RUN):
            high = min(size, low + RUN)
            first, last = row + low, row + high
            _spread(masked_bits[node + a, first >> 3 : (last + 7) >> 3], m_q)
            _spread(bit_masks[node + a, first >> 3 : (last + 7) >> 3], rho)
            for v in range(dealt.shape[1]):
                m, lam = masked[node + a, v, first:last], mask[node + a, v, first:last]
                product_of_masks, new = dealt[a, v, low:high], fresh[a, v, low:high]
                share = part[node + a, v, first:last]
                left, right = masks[node + a, v, first:last], masks[nodes + node + a, v, first:last]
                for i in range(high - low):
                    plain = (np.uint64(m[i]) & public) - np.uint64(lam[i])
                    product = (np.uint64(m[i]) & rho[i]) - np.uint64(product_of_masks[i])
                    # product where m_q is 0, plain - product where it is 1: x ^ ones - ones is -x.
                    share[i] = (product ^ m_q[i]) - m_q[i] + (plain & m_q[i]) + np.uint64(new[i])
                    left[i] = new[i]
                    right[i] = np.uint64(lam[i]) - np.uint64(new[i])
