"""The arithmetic of loss reductions, compiled: lifted sums, and A and B of every candidate from them."""

from __future__ import annotations

import numba
import numpy as np

from mpfedxgb.ring.kernels import U64, compiled, reads, wide_add, wide_mul, wide_neg, wide_sub, writes

_u64, _i64 = numba.uint64, numba.int64
_R1, _R2, _R3, _W2, _W3 = reads(_u64, 1), reads(_u64, 2), reads(_u64, 3), writes(_u64, 2), writes(_u64, 3)
_R4, _W4 = reads(_u64, 4), writes(_u64, 4)
_ZERO = np.uint64(0)


@compiled((_R1, _R2, _R2, _i64, _u64, _W2))
def lift_words(y: U64, r: U64, wrap: U64, constant: int, offset: int, out: U64) -> None:
    """Add one role's share of y - offset - r + (1 - top(y)) wrap to out, modulo 2^(64 L).

    y (n) is public, r and wrap (n, L) this role's shares of its mask and of where it wraps around; out (n, L).
    """
    number = np.zeros((1, out.shape[1]), np.uint64)
    less = np.zeros((1, out.shape[1]), np.uint64)
    less[0, 0] = offset
    for i in range(out.shape[0]):
        total = out[i : i + 1]
        wide_sub(total, r[i : i + 1], total)
        if not y[i] >> np.uint64(63):
            wide_add(total, wrap[i : i + 1], total)
        if constant:
            number[0, 0] = y[i]
            wide_add(total, number, total)
            wide_sub(total, less, total)


@compiled((_R4, _R2, _i64, _i64, _W2))
def _sides(values: U64, lam: U64, node: int, column: int, sides: U64) -> None:
    """Write G_L, G_R, H_L + lambda and H_R + lambda of a candidate, from sums (n, 2, columns + 1, L), totals last."""
    last = values.shape[2] - 1
    sides[0] = values[node, 0, column]
    sides[2] = values[node, 1, column]
    wide_sub(values[node, 0, last : last + 1], sides[0:1], sides[1:2])
    wide_sub(values[node, 1, last : last + 1], sides[2:3], sides[3:4])
    wide_add(sides[2:3], lam, sides[2:3])
    wide_add(sides[3:4], lam, sides[3:4])


@compiled((_R4, _R2, _R2, _W4, _W4, _W2))
def fraction_masks(mask: U64, lam: U64, gam: U64, pairs: U64, out: U64, whole: U64) -> None:
    """Write what the coordinator deals for the fractions of all candidates, from the masks of the lifted sums.

    mask (n, 2, columns + 1, L); lam and gam (1, L) the masks of the constants; pairs (4, n, columns, L): G_L^2,
    G_L H_R, G_R^2 and G_R H_L; out (2, n, columns, L): what A and B lack; whole (n, L): what A of "no split" lacks.
    """
    nodes, columns, limbs = out.shape[1], out.shape[2], out.shape[3]
    sides = np.empty((4, limbs), np.uint64)
    term = np.empty((1, limbs), np.uint64)
    for n in range(nodes):
        for c in range(columns):
            _sides(mask, lam, n, c, sides)
            total = out[0, n, c : c + 1]
            total[0] = _ZERO
            for side in range(2):
                g, h = sides[side : side + 1], sides[3 - side : 4 - side]
                square, mixed = pairs[2 * side, n, c : c + 1], pairs[2 * side + 1, n, c : c + 1]
                wide_mul(g, g, square)
                wide_mul(g, h, mixed)
                wide_mul(square, h, term)
                wide_sub(total, term, total)
            wide_mul(sides[2:3], sides[3:4], out[1, n, c : c + 1])
        total, g = whole[n : n + 1], mask[n, 0, columns : columns + 1]
        wide_add(mask[n, 1, columns : columns + 1], lam, sides[0:1])
        wide_mul(gam, sides[0:1], total)
        wide_mul(g, g, term)
        wide_add(total, term, total)


@compiled((_R4, _R4, _R3, _R3, _R4, _i64, _W4, _W2))
def fraction_parts(masked: U64, mask: U64, lam: U64, gam: U64, pairs: U64, constant: int, out: U64, whole: U64) -> None:
    """Add one participant's local part of A and B of all candidates to out, and of "no split" to whole.

    A = G_L^2 H_R + G_R^2 H_L and B = H_L H_R, with lambda in H; "no split" has A = G^2 + gamma H. lam and gam
    (2, 1, L) are masked value and mask of the constants; all else as in `fraction_masks`, as this participant's shares.
    """
    nodes, columns, limbs = out.shape[1], out.shape[2], out.shape[3]
    m = np.empty((4, limbs), np.uint64)
    s = np.empty((4, limbs), np.uint64)
    term = np.empty((1, limbs), np.uint64)
    product = np.empty((1, limbs), np.uint64)
    for n in range(nodes):
        for c in range(columns):
            _sides(masked, lam[0], n, c, m)
            _sides(mask, lam[1], n, c, s)
            total = out[0, n, c : c + 1]
            for side in range(2):
                # g^2 h = m_g^2 (m_h - s_h) + 2 m_g ([s_g s_h] - m_h s_g) + m_h [s_g^2] - [s_g^2 s_h], the last in out.
                mg, mh = m[side : side + 1], m[3 - side : 4 - side]
                sg, sh = s[side : side + 1], s[3 - side : 4 - side]
                wide_mul(mh, sg, term)
                wide_sub(pairs[2 * side + 1, n, c : c + 1], term, term)
                wide_add(term, term, term)
                wide_mul(term, mg, product)
                wide_add(total, product, total)
                wide_mul(mh, pairs[2 * side, n, c : c + 1], product)
                wide_add(total, product, total)
                if constant:
                    wide_sub(mh, sh, term)
                else:
                    wide_neg(sh, term)
                wide_mul(term, mg, product)
                wide_mul(product, mg, term)
                wide_add(total, term, total)
            total = out[1, n, c : c + 1]
            if constant:
                wide_sub(m[2:3], s[2:3], term)
            else:
                wide_neg(s[2:3], term)
            wide_mul(term, m[3:4], product)
            wide_add(total, product, total)
            wide_mul(m[2:3], s[3:4], product)
            wide_sub(total, product, total)
        total, g, sg = whole[n : n + 1], masked[n, 0, columns : columns + 1], mask[n, 0, columns : columns + 1]
        wide_add(masked[n, 1, columns : columns + 1], lam[0], m[0:1])
        wide_add(mask[n, 1, columns : columns + 1], lam[1], s[0:1])
        for k in range(2):  # G^2, and gamma H
            if k:
                x, sx, y, sy = gam[0], gam[1], m[0:1], s[0:1]
            else:
                x, sx, y, sy = g, sg, g, sg
            if constant:
                wide_sub(x, sx, term)
            else:
                wide_neg(sx, term)
            wide_mul(term, y, product)
            wide_add(total, product, total)
            wide_mul(x, sy, product)
            wide_sub(total, product, total)
