"""Compiled loops for table look-ups on bits, and for bits that become numbers: row by row.

Look-up tables are kept as columns, one per bit of an entry: the bit of an entry that a one-hot row names is the parity
of the row AND the column.
"""

from __future__ import annotations

import numba
import numpy as np

from mpfedxgb.ring.kernels import I64, U8, U64, compiled, reads, writes

_u8, _u64, _i64 = numba.uint8, numba.uint64, numba.int64
_ZERO, _ONE = np.uint64(0), np.uint64(1)
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
def weigh_bits(opened: U8, masks: U64, places: I64, weights: U64, starts: I64, constant: int, out: U64) -> None:
    """Write one role's share of sums of weighted bits b = m + (1 - 2 m) rho, modulo 2^64.

    opened (n, packed) are the public m; masks (n, B) this role's shares of rho, for the bits at `places` (B), with
    their weights (B); those from starts[f] to starts[f + 1] make up number f. constant 1 for the role that adds public
    terms, else 0; out (n, numbers).
    """
    public = np.uint64(constant)
    for i in range(out.shape[0]):
        for f in range(out.shape[1]):
            total = _ZERO
            for j in range(starts[f], starts[f + 1]):
                m = np.uint64(opened[i, places[j] >> 3] >> np.uint8(places[j] & 7)) & _ONE
                turned = _ZERO - m  # all ones where m is 1: x ^ ones - ones is -x
                total += weights[j] * (((masks[i, j] ^ turned) - turned) + (public & m))
            out[i, f] = total
