"""Compiled loops over rows: the two sides of a split, in one pass over blocks that stay in the cache.

Bits of rows come packed, eight to a byte, the lowest first. The kernels take whole arrays, and the first node and row
of a block; the row is a multiple of 8. Arithmetic wraps modulo 2^64, or 2^8 in rings so small.

Compiled loops for systems of linear equations over bits: small dense ones, many side by side.

An equation is a row of bits, packed into words, the lowest first, and a right side of two words. A table has two words
for each of its columns; an equation holds if the columns that its bits name add up (bitwise, XOR) to its right side.

The wide part of a tournament, compiled: cross differences of fractions, and the choice of members by hidden bits.

Compiled loops for table look-ups on bits, and for bits that become numbers: row by row.

Look-up tables are kept as columns, one per bit of an entry: the bit of an entry that a one-hot row names is the parity
of the row AND the column.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.kernels import I64, U8, U64, compiled, reads, wide_add, wide_mul, wide_neg, wide_sub, writes

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
    public_share: int,
    part: Words,
    masks: Words,
) -> None:
    """Write one participant's share of bit * value under a fresh mask, and its masks of both sides, for a block.

    masked_bits and bit_masks (n, packed) are the public m_q and what this participant has of rho; masked and mask
    (n, k, rows) the public masked value and its part of the mask; dealt and fresh (nodes, k, rows of the block) its
    share of rho times the mask, and of the fresh mask; public_share its share of public terms, 1 or 0. Written
    are part (n, k, rows), and masks (2n, k, rows): left = fresh, right = mask - fresh.
    """
    nodes, size = part.shape[0], dealt.shape[2]
    public = _ZERO - np.uint64(public_share)
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


_R3, _W3, _R4, _W4 = reads(_u64, 3), writes(_u64, 3), reads(_u64, 4), writes(_u64, 4)


MASKS_ONLY = -1
"""In place of a share of public terms: what the dealer computes, which is what no participant can."""


@compiled((reads(_i64, 2), _R3, _R3, _i64, _W3))
def cross_differences(pairs: I64, masked: U64, mask: U64, public_share: int, out: U64) -> None:
    """Add one role's local part of A_i B_j - A_j B_i for all pairs (i, j) of every group, modulo 2^(64 L), to out.

    pairs (p, 2); masked and mask (2, groups * size, L) hold numerators and denominators; out (groups, p, L). With
    a public_share of 1 the product of the masked values is included, with MASKS_ONLY just that of the masks is added.
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
                if public_share == MASKS_ONLY:
                    wide_mul(mask[0, a : a + 1], mask[1, b : b + 1], product)
                else:
                    if public_share:
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
    bits: U8, masked: U64, mask: U64, alone: U64, with_mask: U64, public_share: int, neutral: I64, out: U64
) -> None:
    """Add one role's share of the chosen member of every group to out, modulo 2^(64 L).

    bits (w, groups) are the public m_j of the bits b_j = m_j + (1 - 2 m_j) rho_j that choose; masked and mask
    (c, groups * size, L) the members; alone (groups, w, any) this role's shares of rho_j, with_mask (c, groups, w, L)
    those of rho_j times the mask of what b_j adds; public_share its share of public terms, 1 or 0. out (c, groups, L).

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
                if public_share:
                    wide_add(total, masked[c, zero : zero + 1], total)
                wide_sub(total, mask[c, zero : zero + 1], total)
            elif public_share:
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
                    if public_share:
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


_LAST = np.uint64(63)


def columns_of(table: U64, bits: int) -> U64:
    """Return a table of 2^k entries as columns of their lowest `bits` bits, turned round: (bits, ceil(2^k / 64)).

    Bit i of a column belongs to the entry -i modulo 2^k (see `look_up_rows`).
    """
    turned = np.roll(table[::-1], 1)
    single = np.unpackbits(turned.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1, count=bits, bitorder="little")
    words = -(-len(table) // 64)
    packed = np.zeros((bits, 8 * words), np.uint8)
    packed[:, : -(-len(table) // 8)] = np.packbits(single.T, axis=1, bitorder="little")
    return packed.view(np.uint64)


def one_hot_words(packed: U8, entries: int) -> U64:
    """Return rows of 2^k packed bits (n, ceil(2^k / 8)) as words; where they do not fill one, they are repeated."""
    if entries >= 64:
        words = np.ascontiguousarray(packed).view(np.uint64)
        return words if words.flags.aligned else words.copy()  # bytes may begin anywhere, words may not
    padded = np.zeros((len(packed), 8), np.uint8)
    padded[:, : packed.shape[1]] = packed
    word = padded.view(np.uint64) & np.uint64((1 << entries) - 1)
    return np.asarray(word * np.uint64(sum(1 << i for i in range(0, 64, entries))))


@compiled((reads(_u64, 2), reads(_u64, 1), reads(_u64, 2), writes(_u64, 1)))
def look_up_rows(one_hot: U64, shifts: U64, columns: U64, out: U64) -> None:
    """Write, for every row of bits, the sum (XOR) of the entries shift - j of a table, over the places j of its ones.

    one_hot (n, W), shifts (n), columns (bits, W) as of `columns_of`; out (n), a word for each row.
    """
    words = one_hot.shape[1]
    turned = np.empty(words, np.uint64)
    for i in range(out.shape[0]):
        first, rest = np.int64(shifts[i] >> np.uint64(6)), shifts[i] & _LAST
        for w in range(words):
            low = one_hot[i, (first + w) % words]
            high = one_hot[i, (first + w + 1) % words]
            turned[w] = (low >> rest) | ((high << (_LAST - rest)) << _ONE)
        entry = _ZERO
        for c in range(columns.shape[0]):
            parity = _ZERO
            for w in range(words):
                parity ^= columns[c, w] & turned[w]
            for fold in (32, 16, 8, 4, 2, 1):
                parity ^= parity >> np.uint64(fold)
            entry |= (parity & _ONE) << np.uint64(c)
        out[i] = entry


@compiled((reads(_u8, 2), reads(_u64, 2), reads(_i64, 1), reads(_u64, 1), reads(_i64, 1), _i64, writes(_u64, 2)))
def weigh_bits(opened: U8, masks: U64, places: I64, weights: U64, starts: I64, public_share: int, out: U64) -> None:
    """Write one role's share of sums of weighted bits b = m + (1 - 2 m) rho, modulo 2^64.

    opened (n, packed) are the public m; masks (n, B) this role's shares of rho, for the bits at `places` (B), with
    their weights (B); those from starts[f] to starts[f + 1] make up number f. public_share is its share
    of public terms, 1 or 0; out (n, numbers).
    """
    public = np.uint64(public_share)
    for i in range(out.shape[0]):
        for f in range(out.shape[1]):
            total = _ZERO
            for j in range(starts[f], starts[f + 1]):
                m = np.uint64(opened[i, places[j] >> 3] >> np.uint8(places[j] & 7)) & _ONE
                turned = _ZERO - m  # all ones where m is 1: x ^ ones - ones is -x
                total += weights[j] * (((masks[i, j] ^ turned) - turned) + (public & turned))
            out[i, f] = total
