"""Public tables at secret places: one-hot bits, XOR-shared, of which every bit of an entry is a public sum.

One-time truth tables: Ishai, Kushilevitz, Meldgaard, Orlandi, Paskin-Cherniavsky, "On the Power of Correlated
Randomness in Secure Computation" (TCC 2013). There the table itself is dealt, permuted; dealing the one-hot bits of the
mask instead leaves the table, however wide its entries, out of what is dealt.
"""

from __future__ import annotations

from math import prod

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import Pending, masking, open_pending
from mpfedxgb.protocols.rows import row_slices
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U64
from mpfedxgb.ring.planes import octets_of
from mpfedxgb.ring.ring import PACKED, Ring
from mpfedxgb.ring.tables import columns_of, look_up_rows, one_hot_words

MOST_BITS = 16
"""The largest table has 2^16 entries: 8 kB are dealt for each look-up in it."""


def look_up(party: Party, index: Shares, table: U64, bits: int) -> Shares:
    """Return the entries of a public table at secret places, as shared bits: (..., ceil(bits / 8)), packed.

    `index` is in a ring of k bits, the table has 2^k entries of up to 64 bits.

    1. Open i + r modulo 2^k.
    2. Block by block, the coordinator deals the one-hot bits of r, XOR-shared: 2^k bits.
    3. The entry is the sum over all j of the j-th of them times table[(i + r) - j]: everyone turns its share by the
       opened number, and adds up every bit of the table.

    Rounds: 1. Sent: one index each by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [looking_up(party, index, table, bits)])[0]


def looking_up(party: Party, index: Shares, table: U64, bits: int) -> Pending[Shares]:
    """Prepare `look_up` up to its opening. Rounds: 0. The tables are dealt when the places have been opened."""
    columns = _columns(table, bits, index.ring)
    party.step("look up")
    opening = masking(party, index)
    return Pending(opening.part, lambda total: _entries(party, opening.finish(total), columns))


def _columns(table: U64, bits: int, ring: Ring) -> U64:
    """Return the table's columns; refuse one that does not fit the ring of its places, or the bits of an entry."""
    if ring.bitwise or ring.bits > MOST_BITS:
        raise DoesNotFitError(f"places of a table are numbers of 1 to {MOST_BITS} bits, not in {ring}")
    if table.dtype != np.uint64 or table.shape != (1 << ring.bits,):
        wanted = f"{1 << ring.bits} entries of uint64"
        raise DoesNotFitError(f"a table for {ring} has {wanted}, not {table.dtype}{list(table.shape)}")
    if not 1 <= bits <= 64 or int(table.max()).bit_length() > bits:
        raise DoesNotFitError(
            f"an entry has 1 to 64 bits, and {bits} do not hold the largest; give as many as it needs"
        )
    return columns_of(table, bits)


def _entries(party: Party, index: Secret, columns: U64) -> Shares:
    """Deal the one-hot bits of the masks, block by block, and look up at the opened places."""
    party.step("look up: tables")
    rows, entries, octets = prod(index.shape), 1 << index.ring.bits, octets_of(len(columns))
    flat, out = index.reshape(rows), np.empty(rows, np.uint64)
    for block in party.alike(row_slices(rows, octets_of(entries)), lambda some: some.stop - some.start):
        one_hot = _deal_one_hot(party, flat[block])
        if not party.follows_shapes:
            shifts = flat.masked[block].words().reshape(-1)
            look_up_rows(one_hot_words(np.asarray(one_hot.data, np.uint8), entries), shifts, columns, out[block])
    shape = (*index.shape, octets)
    if party.follows_shapes:
        return Shares(RingArray.hidden(PACKED, shape))
    found = np.ascontiguousarray(out.view(np.uint8).reshape(rows, 8)[:, :octets])
    return Shares(RingArray(PACKED, found.reshape(shape)))


def _deal_one_hot(party: Party, index: Secret) -> RingArray:
    """Return shares of the one-hot bits of some masks: (rows, ceil(2^k / 8))."""
    spec = (PACKED, (*index.shape, octets_of(1 << index.ring.bits)))

    def one_hot() -> list[RingArray]:
        table = np.zeros(spec[1], np.uint8)
        kernels.flip_bits(table, index.mask.data.astype(np.int64).reshape(-1, 1))
        return [RingArray(PACKED, table)]

    return party.deal([spec], one_hot)[0]
