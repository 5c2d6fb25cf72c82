"""Shared bits become numbers in a ring: opened under mask bits that are dealt in both.

Bits dealt in two domains: Rotaru, Wood, "MArBled Circuits: Mixing Arithmetic and Boolean Circuits with Active Security"
(INDOCRYPT 2019), whose daBits they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import Pending, masking, open_pending
from mpfedxgb.protocols.rows import row_slices
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.bits import unpack
from mpfedxgb.ring.kernels import I64, U64
from mpfedxgb.ring.ring import PACKED, Ring
from mpfedxgb.ring.tables import weigh_bits


@dataclass(frozen=True, slots=True)
class BitField:
    """A number among packed bits: its lowest bit, how many it has, and whether it is in two's complement."""

    first: int
    width: int
    signed: bool = False


def bits_to_ring(party: Party, bits: Shares, fields: Sequence[BitField], ring: Ring) -> list[Shares]:
    """Return the numbers that are in packed shared bits (..., octets), each as additive shares (...) of a ring.

    1. Open the bits under fresh mask bits: m = b ^ rho.
    2. Block by block, the coordinator deals the mask bits of all fields as elements of the ring.
    3. A number is the sum of 2^k (m_k + (1 - 2 m_k) rho_k) over its bits, less 2^width where it is signed and negative.

    Rounds: 1. Sent: the packed bits by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [bits_into_ring(party, bits, fields, ring)])[0]


def bits_into_ring(party: Party, bits: Shares, fields: Sequence[BitField], ring: Ring) -> Pending[list[Shares]]:
    """Prepare `bits_to_ring` up to its opening. Rounds: 0. Mask bits are dealt when the bits have been opened."""
    layout = _layout(bits, fields, ring)
    party.step("bits to ring")
    opening = masking(party, bits)
    return Pending(opening.part, lambda total: _numbers(party, opening.finish(total), layout))


@dataclass(frozen=True, slots=True, eq=False)
class _Layout:
    """Of all bits of all fields, one field after the other, place and weight; and where each field begins."""

    ring: Ring
    places: I64
    weights: U64
    starts: I64


def _layout(bits: Shares, fields: Sequence[BitField], ring: Ring) -> _Layout:
    if bits.ring != PACKED or not bits.shape:
        raise DoesNotFitError(f"bits come packed, eight to an element, not as {bits}")
    if ring.limbs or ring.bitwise:
        raise DoesNotFitError(f"bits become numbers in a ring of up to 64 bits, not in {ring}")
    held = 8 * bits.shape[-1]
    for field in fields:
        if not (field.first >= 0 and 1 <= field.width <= ring.bits and field.first + field.width <= held):
            raise DoesNotFitError(f"{field} does not lie in {held} bits, or has more bits than {ring}")
    places = [np.arange(field.first, field.first + field.width) for field in fields]
    weights = [weight % (1 << 64) for field in fields for weight in _weights(field)]
    return _Layout(
        ring,
        np.concatenate([np.empty(0, np.int64), *places]),
        np.array(weights, np.uint64),
        np.cumsum([0, *(field.width for field in fields)]),
    )


def _weights(field: BitField) -> list[int]:
    """Return what each bit of a field counts, the lowest first: in two's complement the top one is negative."""
    *lower, top = (1 << k for k in range(field.width))
    return [*lower, -top if field.signed else top]


def _numbers(party: Party, bits: Secret, layout: _Layout) -> list[Shares]:
    """Deal the mask bits in the ring, block by block, and add up the bits of every field."""
    party.step("bits to ring: masks")
    ring, used, shape = layout.ring, len(layout.places), bits.shape[:-1]
    rows, count = prod(shape), len(layout.starts) - 1
    flat, out = bits.reshape(rows, bits.shape[-1]), np.empty((rows, count), np.uint64)
    for block in party.alike(row_slices(rows, used * ring.element_bytes), lambda some: some.stop - some.start):
        masks = _deal_mask_bits(party, flat[block], layout)
        if not party.follows_shapes:
            opened, own = np.ascontiguousarray(flat.masked[block].data, np.uint8), masks.words().reshape(masks.shape)
            weigh_bits(opened, own, layout.places, layout.weights, layout.starts, int(party.is_active), out[block])
    if party.follows_shapes:
        return [Shares(RingArray.hidden(ring, shape)) for _ in range(count)]
    return [Shares(RingArray.from_words(ring, shape, np.ascontiguousarray(out[:, f]))) for f in range(count)]


def _deal_mask_bits(party: Party, bits: Secret, layout: _Layout) -> RingArray:
    """Return shares of the mask bits of all fields as elements of the ring: (rows, bits)."""
    rows, octets = bits.shape

    def mask_bits() -> list[RingArray]:
        return [unpack(bits.mask, 8 * octets)[:, layout.places].cast(layout.ring)]

    return party.deal([(layout.ring, (rows, len(layout.places)))], mask_bits)[0]
