"""Bit planes: plane j holds bit j of many numbers, so that one AND serves 64 of them and more.

On the wire and in streams planes are bytes, (planes, ceil(n / 8)) over `PACKED`; kernels take them as words,
(planes, ceil(n / 64)), and work through them in blocks that stay in the first-level cache.

The arithmetic of loss reductions, compiled: lifted sums, and A and B of every candidate from them.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import I64, U8, U64, compiled, reads, wide_add, wide_mul, wide_neg, wide_sub, writes

_BLOCK = 32
"""Words of every plane that are worked on at a time."""

_u64, _i64 = numba.uint64, numba.int64
_R2, _W2, _LINES = reads(_u64, 2), writes(_u64, 2), reads(_i64, 2)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def octets_of(count: int) -> int:
    """Return the bytes of a plane of `count` bits."""
    return -(-count // 8)


def words_of(octets: int) -> int:
    """Return how many words hold `octets` bytes."""
    return -(-octets // 8)


def planes_of(x: RingArray, bits: int) -> U64:
    """Return the lowest `bits` bits of every element as planes, the lowest first: (bits, ceil(size / 64))."""
    out = np.empty((bits, -(-x.size // 64)), np.uint64)
    cut_planes(x.words(), out)
    return out


def as_words(*planes: npt.NDArray[np.unsignedinteger]) -> U64:
    """Return planes of as many bytes each, one group below the other, as words; what fills them up is zero."""
    octets = planes[0].shape[1]
    out = np.empty((sum(len(some) for some in planes), words_of(octets)), np.uint64)
    if octets % 8:
        out[:, -1] = 0
    first, view = 0, out.view(np.uint8)
    for some in planes:
        view[first : first + len(some), :octets] = some
        first += len(some)
    return out


def as_octets(planes: U64, octets: int) -> U8:
    """Return planes of words as `octets` bytes each."""
    return np.ascontiguousarray(planes.view(np.uint8)[:, :octets])


def plane_bits(plane: npt.NDArray[np.unsignedinteger], count: int) -> U8:
    """Return the first `count` bits of planes (..., any) as bytes 0 and 1 (..., count)."""
    return np.unpackbits(plane.view(np.uint8), axis=-1, count=count, bitorder="little")


@compiled((_R2, _W2))
def cut_planes(words: U64, out: U64) -> None:
    """Write bit j of every number into plane j: words (n, L), out (planes, ceil(n / 64)).

    Squares of 64 numbers by 64 bits are transposed by swapping ever smaller blocks of their halves.
    """
    n, limbs = words.shape
    planes = out.shape[0]
    square = np.empty(64, np.uint64)
    for first in range(0, n, 64):
        last = min(n, first + 64)
        for limb in range(min(limbs, (planes + 63) // 64)):
            for i in range(64):
                square[i] = words[first + i, limb] if first + i < last else np.uint64(0)
            width, mask = 32, np.uint64(0xFFFFFFFF)
            while width:
                k = 0
                while k < 64:
                    t = ((square[k] >> np.uint64(width)) ^ square[k | width]) & mask
                    square[k | width] ^= t
                    square[k] ^= t << np.uint64(width)
                    k = ((k | width) + 1) & ~width
                width >>= 1
                mask ^= mask << np.uint64(width)
            for j in range(min(64, planes - 64 * limb)):
                out[64 * limb + j, first // 64] = square[j]


@compiled((_R2, _i64, _W2))
def one_hot_planes(number: U64, digit: int, out: U64) -> None:
    """Write the one-hot tables of every digit, most significant first.

    number (bits, W), lowest bit first, cut from below into digits of `digit` bits; out (entries of all tables, W).
    """
    bits, words = number.shape
    place = 0
    for low in range((bits - 1) // digit * digit, -1, -digit):
        size = min(digit, bits - low)
        out[place] = _ALL
        count = 1
        for i in range(size - 1, -1, -1):  # each bit, from the top, splits every entry in two
            d = number[low + i]
            for v in range(count - 1, -1, -1):
                both, zero, one = out[place + v], out[place + 2 * v], out[place + 2 * v + 1]
                for b in range(words):
                    x = both[b]
                    one[b] = x & d[b]
                    zero[b] = x & ~d[b]
            count *= 2
        place += count


@compiled((_R2, _W2, _i64, _W2))
def look_up_digits(number: U64, tables: U64, digit: int, out: U64) -> None:
    """Write one role's shares of "less" and "equal" of every digit, most significant first, the lowest without "equal".

    number (bits, W) is public, tables its share of the other number's one-hot digits, written over; out
    (2 digits - 1, W). At a digit d, "equal" is the entry d, "less" the sum of the entries above: both by choosing, bit
    by bit, halves of the table.
    """
    bits, octets = number.shape
    equal = np.empty((1 << digit, _BLOCK), np.uint64)
    less = np.empty((1 << digit, _BLOCK), np.uint64)
    for start in range(0, octets, _BLOCK):
        end = min(octets, start + _BLOCK)
        place, row = 0, 0
        for low in range((bits - 1) // digit * digit, -1, -digit):
            size = min(digit, bits - low)
            count = 1 << size
            for i in range(size):
                count >>= 1
                d = number[low + i, start:end]
                for v in range(count):
                    e, s, w = equal[v], less[v], tables[place + v, start:end]
                    w0, w1 = tables[place + 2 * v, start:end], tables[place + 2 * v + 1, start:end]
                    if i == 0:
                        for b in range(end - start):
                            zero, one = w0[b], w1[b]
                            e[b] = zero ^ (d[b] & (zero ^ one))
                            s[b] = one & ~d[b]
                            w[b] = zero ^ one
                        continue
                    e0, s0, e1, s1 = equal[2 * v], less[2 * v], equal[2 * v + 1], less[2 * v + 1]
                    for b in range(end - start):
                        lower = s0[b] ^ w1[b]
                        s[b] = lower ^ (d[b] & (lower ^ s1[b]))
                        e[b] = e0[b] ^ (d[b] & (e0[b] ^ e1[b]))
                        w[b] = w0[b] ^ w1[b]
            place += 1 << size
            for b in range(end - start):
                out[row, start + b] = less[0, b]
            if low:
                for b in range(end - start):
                    out[row + 1, start + b] = equal[0, b]
            row += 2


@compiled((_R2, _LINES, _W2))
def multiply_planes(masks: U64, recipe: I64, out: U64) -> None:
    """Write products of planes: out[k] = (row recipe[k, 0]) & masks[recipe[k, 1]].

    Rows are counted through the constant 1, the masks and what has been written so far. masks (V, W), out (K, W).
    """
    variables, words = masks.shape
    for k in range(recipe.shape[0]):
        row, target, factor = recipe[k, 0] - 1, out[k], masks[recipe[k, 1]]
        for b in range(words):
            target[b] = (masks[row, b] if row < variables else out[row - variables, b]) & factor[b]


@compiled((_W2, _R2, _LINES, _LINES, _W2))
def evaluate_planes(rows: U64, opened: U64, program: I64, sums: I64, out: U64) -> None:
    """Write one role's shares of sums of products of masked bits.

    rows (1 + V + K, W) are the constant, its shares of the masks and of products of masks, written over; opened (V, W)
    are the public masked bits. A line (row, source, variable) of the program adds opened[variable] & row source to a
    row; a line (output, row) of sums adds a row to an output. out (O, W), zero before.
    """
    words = rows.shape[1]
    for start in range(0, words, _BLOCK):
        end = min(words, start + _BLOCK)
        for p in range(program.shape[0]):
            target, source = rows[program[p, 0], start:end], rows[program[p, 1], start:end]
            factor = opened[program[p, 2], start:end]
            for b in range(end - start):
                target[b] ^= factor[b] & source[b]
        for s in range(sums.shape[0]):
            target, source = out[sums[s, 0], start:end], rows[sums[s, 1], start:end]
            for b in range(end - start):
                target[b] ^= source[b]


_R1, _R2, _R3, _W2, _W3 = reads(_u64, 1), reads(_u64, 2), reads(_u64, 3), writes(_u64, 2), writes(_u64, 3)
_R4, _W4 = reads(_u64, 4), writes(_u64, 4)
_ZERO = np.uint64(0)


@compiled((_R1, _R2, _R2, _i64, _u64, _W2))
def lift_words(y: U64, r: U64, wrap: U64, public_share: int, offset: int, out: U64) -> None:
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
        if public_share:
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
def fraction_parts(
    masked: U64, mask: U64, lam: U64, gam: U64, pairs: U64, public_share: int, out: U64, whole: U64
) -> None:
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
                if public_share:
                    wide_sub(mh, sh, term)
                else:
                    wide_neg(sh, term)
                wide_mul(term, mg, product)
                wide_mul(product, mg, term)
                wide_add(total, term, total)
            total = out[1, n, c : c + 1]
            if public_share:
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
            if public_share:
                wide_sub(x, sx, term)
            else:
                wide_neg(sx, term)
            wide_mul(term, y, product)
            wide_add(total, product, total)
            wide_mul(x, sy, product)
            wide_sub(total, product, total)
