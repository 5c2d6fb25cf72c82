"""Bit planes: plane j holds bit j of many numbers, so that one AND serves 64 of them and more.

On the wire and in streams planes are bytes, (planes, ceil(n / 8)) over `PACKED`; kernels take them as words,
(planes, ceil(n / 64)), and work through them in blocks that stay in the first-level cache.
"""

from __future__ import annotations

import numba
import numpy as np
import numpy.typing as npt

from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import I64, U8, U64, compiled, reads, writes

_BLOCK = 32
"""Words of every plane that are worked on at a time."""

_u64, _i64 = numba.uint64, numba.int64
_R2, _W2, _LINES = reads(_u64, 2), writes(_u64, 2), reads(_i64, 2)
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)


def octets_of(count: int) -> int:
    """Return the bytes of a plane of so many bits."""
    return -(-count // 8)


def words_of(octets: int) -> int:
    """Return the words that hold so many bytes."""
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
    """Return planes of words as so many bytes each."""
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
