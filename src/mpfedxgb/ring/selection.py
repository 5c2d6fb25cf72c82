"""The wide part of a tournament, compiled: cross differences of fractions, and the choice of members by hidden bits."""

from __future__ import annotations

import numba
import numpy as np

from mpfedxgb.ring.kernels import I64, U8, U64, compiled, reads, wide_add, wide_mul, wide_neg, wide_sub, writes

_u8, _u64, _i64 = numba.uint8, numba.uint64, numba.int64
_R3, _W3, _R4, _W4 = reads(_u64, 3), writes(_u64, 3), reads(_u64, 4), writes(_u64, 4)
_BITS = reads(_u8, 2)
_ZERO = np.uint64(0)


@compiled((reads(_i64, 2), _R3, _R3, _i64, _W3))
def cross_differences(pairs: I64, masked: U64, mask: U64, constant: int, out: U64) -> None:
    """Add one role's local part of A_i B_j - A_j B_i for all pairs (i, j) of every group, modulo 2^(64 L), to out.

    pairs (p, 2); masked and mask (2, groups * size, L) hold numerators and denominators; out (groups, p, L). With
    constant 1 the product of the masked values is included, with -1 nothing but the product of the masks is added.
    """
    members = masked.shape[1] // max(1, out.shape[0])
    limbs = out.shape[2]
    plain = np.empty((1, limbs), np.uint64)
    product = np.empty((1, limbs), np.uint64)
    for group in range(out.shape[0]):
        for p in range(pairs.shape[0]):
            total = out[group, p : p + 1]
            for side in range(2):
                a = group * members + pairs[p, side]
                b = group * members + pairs[p, 1 - side]
                # (m_A - lam_A)(m_B - lam_B) without lam_A lam_B is (m_A - lam_A) m_B - m_A lam_B; auxiliaries lack m m.
                if constant < 0:
                    wide_mul(mask[0, a : a + 1], mask[1, b : b + 1], product)
                else:
                    if constant:
                        wide_sub(masked[0, a : a + 1], mask[0, a : a + 1], plain)
                    else:
                        wide_neg(mask[0, a : a + 1], plain)
                    wide_mul(plain, masked[1, b : b + 1], product)
                    wide_mul(masked[0, a : a + 1], mask[1, b : b + 1], plain)
                    wide_sub(product, plain, product)
                if side:
                    wide_sub(total, product, total)
                else:
                    wide_add(total, product, total)


@compiled((_BITS, _R3, _R3, _R3, _R4, _i64, reads(_i64, 1), _W3))
def choose_members(
    bits: U8, masked: U64, mask: U64, alone: U64, with_mask: U64, constant: int, neutral: I64, out: U64
) -> None:
    """Add one role's share of the chosen member of every group to out, modulo 2^(64 L).

    bits (w, groups) are the public m_j of the bits b_j = m_j + (1 - 2 m_j) rho_j that choose; masked and mask
    (c, groups * size, L) the members; alone (groups, w, any) this role's shares of rho_j, with_mask (c, groups, w, L)
    those of rho_j times the mask of what b_j adds; constant 1 for the role that adds public terms. out (c, groups, L).

    With a bit for every member, what none of them chooses is `neutral` (c); with one less, it is the first member.
    """
    count, groups, limbs = out.shape
    chosen = bits.shape[0]
    size = masked.shape[1] // max(1, groups)
    first = size - chosen
    public = np.empty((1, limbs), np.uint64)
    hidden = np.empty((1, limbs), np.uint64)
    term = np.empty((1, limbs), np.uint64)
    rho = np.empty((1, limbs), np.uint64)
    base = np.zeros((1, limbs), np.uint64)
    for c in range(count):
        for k in range(limbs):
            base[0, k] = np.uint64(neutral[c] if k == 0 else neutral[c] >> 63)  # the sign goes on
        for g in range(groups):
            total, zero = out[c, g : g + 1], g * size
            if first:
                if constant:
                    wide_add(total, masked[c, zero : zero + 1], total)
                wide_sub(total, mask[c, zero : zero + 1], total)
            elif constant:
                wide_add(total, base, total)
            for j in range(chosen):
                member = zero + first + j
                if first:
                    wide_sub(masked[c, member : member + 1], masked[c, zero : zero + 1], public)
                    wide_sub(mask[c, member : member + 1], mask[c, zero : zero + 1], hidden)
                else:
                    wide_sub(masked[c, member : member + 1], base, public)
                    hidden[0] = mask[c, member]
                rho[0] = alone[g, j, :limbs]
                wide_mul(rho, public, term)
                wide_sub(term, with_mask[c, g, j : j + 1], term)
                if bits[j, g]:
                    if constant:
                        wide_add(total, public, total)
                    wide_sub(total, hidden, total)
                    wide_sub(total, term, total)
                else:
                    wide_add(total, term, total)


@compiled((_BITS, _R3, _W4))
def chosen_masks(bits: U8, mask: U64, out: U64) -> None:
    """Write the mask of what each bit adds where the bit is 1, and zero elsewhere (see `choose_members`).

    bits (w, groups), mask (c, groups * size, L), out (c, groups, w, L).
    """
    count, groups, chosen, _ = out.shape
    size = mask.shape[1] // max(1, groups)
    first = size - chosen
    for c in range(count):
        for g in range(groups):
            zero = g * size
            for j in range(chosen):
                if not bits[j, g]:
                    out[c, g, j] = _ZERO
                elif first:
                    member = zero + first + j
                    wide_sub(mask[c, member : member + 1], mask[c, zero : zero + 1], out[c, g, j : j + 1])
                else:
                    out[c, g, j] = mask[c, zero + j]
