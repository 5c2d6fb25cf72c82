"""Hidden bits put to use: opened bits, selection, and values that count only where bits are 1.

An opened bit is a masked secret over {0, 1}: m_b = b ^ rho. In a ring, b = m_b + (1 - 2 m_b) rho is affine in rho, so a
product of bits and one value is a public combination of products of rho's and the value's mask.

Shared bits become numbers in a ring when they are opened under mask bits that are dealt in both domains: Rotaru, Wood,
"MArBled Circuits: Mixing Arithmetic and Boolean Circuits with Active Security" (INDOCRYPT 2019), whose daBits they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.protocols.opening import Pending, masking, multiply, open_pending
from mpfedxgb.protocols.rows import row_slices
from mpfedxgb.protocols.secret import Secret, Shares, to_shares
from mpfedxgb.protocols.share import share
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray, unpack
from mpfedxgb.ring.kernels import I64, U8, U64
from mpfedxgb.ring.ring import BIT, PACKED, Ring, Shape
from mpfedxgb.ring.row_kernels import weigh_bits


@dataclass(frozen=True, slots=True, eq=False)
class Bit:
    """Masked bits. Where each mask is one participant's alone (`owned`), the dealer is saved a share."""

    secret: Secret
    owned: bool = False

    @property
    def shape(self) -> Shape:
        """Shape of the array of bits."""
        return self.secret.shape

    def __getitem__(self, index: object) -> Bit:
        return Bit(self.secret[index], self.owned)

    def __invert__(self) -> Bit:
        """Return 1 - b: the same mask over the flipped public bit. Local."""
        return Bit(self.secret + 1, self.owned)


def open_bit(party: Party, shares: Shares) -> Bit:
    """Turn shared bits into opened bits, m_b = b ^ rho.

    Rounds: 1. Sent: one bit each by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [opening_bit(party, shares)])[0]


def opening_bit(party: Party, shares: Shares) -> Pending[Bit]:
    """Prepare `open_bit` up to its opening. Rounds: 0."""
    if shares.ring != BIT:
        raise DoesNotFitError(f"only single bits are opened as bits, not {shares}", "type", "shares")
    party.step("open bit")
    masked = masking(party, shares)
    return Pending(masked.part, lambda total: Bit(masked.finish(total)))


def share_bit(party: Party, owner: int, shape: Shape, values: RingArray | None = None) -> Bit:
    """Put bits of one owner into the computation, masked by itself (SHR of an indicator vector).

    Rounds: 1. Sent: one bit each by the owner (in a star passed on by the active participant). Reveals: nothing.
    """
    return Bit(share(party, owner, BIT, shape, values), owned=owner in party.roster.holders)


def both(party: Party, x: Secret, y: Secret) -> Secret:
    """Return x AND y of masked bits, single or packed.

    Rounds: 1. Sent: the bits of the result by each auxiliary. Reveals: nothing.
    """
    return multiply(party, x, y)


@dataclass(frozen=True, slots=True, eq=False)
class BitProduct:
    """base + value where all `bits` are 1; the latter added up along `axis`, if one is given. Shapes broadcast."""

    bits: tuple[Bit, ...]
    value: Secret
    base: Secret | None = None
    axis: int | None = None


def sums_of_bit_products(party: Party, batch: Sequence[BitProduct], name: str = "gated sum") -> list[Secret]:
    """Return base + (product of bits) * value, for a batch of any rings and shapes in one round.

    1. For every subset S of the bits, the coordinator deals [prod_S rho] and [prod_S rho * lam]. The first is not
       needed for a single bit whose mask its owner knows: the owner holds all of it.
    2. Everyone combines them with the public bits and the public masked value; the sums are opened under fresh masks.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, multiplying_by_bits(party, batch, name))


def multiplying_by_bits(party: Party, batch: Sequence[BitProduct], name: str = "gated sum") -> list[Pending[Secret]]:
    """Prepare `sums_of_bit_products` up to its opening. Rounds: 0."""
    return [masking(party, shares) for shares in shares_of_bit_products(party, batch, name)]


def shares_of_bit_products(party: Party, batch: Sequence[BitProduct], name: str = "gated sum") -> list[Shares]:
    """Return base + (product of bits) * value as additive shares: `sums_of_bit_products` without its opening.

    Rounds: 0. Sent: nothing. Reveals: nothing.
    """
    party.step(name)
    deal = _BitMaskProducts(batch)
    dealt = party.deal(deal.specs, deal.compute)
    shares = []
    for product, (alone, with_mask) in zip(batch, deal.places, strict=True):
        ring, shape = product.value.ring, deal.specs[with_mask][1][:-1]
        party.count(products=prod(shape) * len(product.bits))
        if party.is_symbolic:
            part = RingArray.hidden(ring, shape)
        else:
            masks = product.bits[0].secret.mask.cast(ring)[..., None] if alone is None else dealt[alone]
            part = _local_part(party, product, masks, dealt[with_mask])
        if product.axis is not None:
            part = part.sum(product.axis)
        if product.base is not None:
            part = part + to_shares(party, product.base).part
        shares.append(Shares(part))
    return shares


def select(party: Party, bit: Bit, pairs: Sequence[tuple[Secret, Secret]]) -> list[Secret]:
    """Return, for each pair, the first where the bit is 0 and the second where it is 1.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    return sums_of_bit_products(party, [BitProduct((bit,), b - a, a) for a, b in pairs], name="select")


def bit_times(party: Party, bit: Bit, x: Secret) -> Secret:
    """Return b x: x where the bit is 1, and 0 elsewhere.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    return sums_of_bit_products(party, [BitProduct((bit,), x)], name="bit times")[0]


class _BitMaskProducts:
    """What the coordinator deals for a batch: products of bit masks over all subsets of bits, alone and times lam.

    The subsets are the last axis. What products of the same bits and ring have in common is dealt once.
    """

    def __init__(self, batch: Sequence[BitProduct]) -> None:
        self.specs: list[Spec] = []
        self.places: list[tuple[int | None, int]] = []
        self._recipes: list[BitProduct | tuple[Ring, tuple[Bit, ...]]] = []
        known: dict[tuple[object, ...], int] = {}
        for product in batch:
            ring, shape = product.value.ring, np.broadcast_shapes(*(b.shape for b in product.bits))
            subsets = (1 << len(product.bits)) - 1
            alone = None
            if not (len(product.bits) == 1 and product.bits[0].owned):
                key = (ring, *(id(b) for b in product.bits))
                if key not in known:
                    known[key] = self._want((ring, (*shape, subsets)), (ring, product.bits))
                alone = known[key]
            whole = np.broadcast_shapes(shape, product.value.shape)
            self.places.append((alone, self._want((ring, (*whole, subsets)), product)))

    def _want(self, spec: Spec, recipe: BitProduct | tuple[Ring, tuple[Bit, ...]]) -> int:
        self.specs.append(spec)
        self._recipes.append(recipe)
        return len(self.specs) - 1

    def compute(self) -> list[RingArray]:
        """Return the values to deal (the coordinator's)."""
        values = []
        for recipe in self._recipes:
            if isinstance(recipe, BitProduct):
                rho = _mask_products(recipe.bits)
                values.append(recipe.value.mask[..., None].where(rho))
            else:
                ring, bits = recipe
                values.append(RingArray(BIT, _mask_products(bits)).cast(ring))
        return values


def _mask_products(bits: tuple[Bit, ...]) -> U8:
    """Return the product of the bits' masks over every subset of bits, the empty one left out: (..., 2^k - 1)."""
    shape = np.broadcast_shapes(*(b.shape for b in bits))
    products = np.empty((*shape, (1 << len(bits)) - 1), np.uint8)
    for i, b in enumerate(bits):  # with bit i come the subsets whose highest member it is
        first = 1 << i
        products[..., first - 1] = b.secret.mask.data
        for rest in range(1, first):
            np.bitwise_and(products[..., rest - 1], products[..., first - 1], out=products[..., first + rest - 1])
    return products


def _local_part(party: Party, product: BitProduct, alone: RingArray, with_mask: RingArray) -> RingArray:
    """Return this participant's share of (product of bits) * value."""
    value, (*shape, subsets) = product.value, with_mask.shape
    plain = to_shares(party, value).part
    size, whole, words = prod(shape), tuple(shape), max(1, value.ring.limbs)
    out = np.empty((size, words), np.uint64)
    kernels.gate(
        np.array([np.broadcast_to(b.secret.masked.data, whole).reshape(size) for b in product.bits], np.uint8),
        value.masked.broadcast_to(whole).words(),
        plain.broadcast_to(whole).words(),
        alone.broadcast_to(with_mask.shape).words().reshape(size, subsets, words),
        with_mask.words().reshape(size, subsets, words),
        out,
    )
    return RingArray.from_words(value.ring, whole, out)


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
        raise DoesNotFitError(f"bits come packed, eight to an element, not as {bits}", "type", "bits")
    if ring.limbs or ring.bitwise:
        raise DoesNotFitError(
            f"bits become numbers in a ring of up to 64 bits, not in {ring}", parameter="ring", value=str(ring)
        )
    held = 8 * bits.shape[-1]
    for field in fields:
        if not (field.first >= 0 and 1 <= field.width <= ring.bits and field.first + field.width <= held):
            raise DoesNotFitError(
                f"{field} does not lie in {held} bits, or has more bits than {ring}", parameter="field"
            )
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
    for block in row_slices(party, rows, used * ring.element_bytes):
        masks = _deal_mask_bits(party, flat[block], layout)
        if not party.is_symbolic:
            opened, own = np.ascontiguousarray(flat.masked[block].data, np.uint8), masks.words().reshape(masks.shape)
            weigh_bits(opened, own, layout.places, layout.weights, layout.starts, party.public_share, out[block])
    if party.is_symbolic:
        return [Shares(RingArray.hidden(ring, shape)) for _ in range(count)]
    return [Shares(RingArray.from_words(ring, shape, np.ascontiguousarray(out[:, f]))) for f in range(count)]


def _deal_mask_bits(party: Party, bits: Secret, layout: _Layout) -> RingArray:
    """Return shares of the mask bits of all fields as elements of the ring: (rows, bits)."""
    rows, octets = bits.shape

    def mask_bits() -> list[RingArray]:
        return [unpack(bits.mask, 8 * octets)[:, layout.places].cast(layout.ring)]

    return party.deal([(layout.ring, (rows, len(layout.places)))], mask_bits)[0]
