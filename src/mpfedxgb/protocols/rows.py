"""Secret row vectors, and the two sides of a split (Algorithm 3, lines 33-34).

Of a row vector's mask it is known who made it, part by part: the owner of a matrix multiplies its own part in the clear
(`private_matrix`). A split works through the rows in blocks that stay in the cache, so that little but the key stream
takes time.

Public tables at secret places: one-hot bits, XOR-shared, of which every bit of an entry is a public sum.

One-time truth tables: Ishai, Kushilevitz, Meldgaard, Orlandi, Paskin-Cherniavsky, "On the Power of Correlated
Randomness in Secure Computation" (TCC 2013). There the table itself is dealt, permuted; dealing the one-hot bits of the
mask instead leaves the table, however wide its entries, out of what is dealt.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from operator import add
from typing import TypeVar

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.opening import Pending, masking, open_pending
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring import kernels, row_kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U64, Threads
from mpfedxgb.ring.planes import octets_of
from mpfedxgb.ring.ring import PACKED, Data, Ring, Shape
from mpfedxgb.ring.row_kernels import columns_of, look_up_rows, one_hot_words
from mpfedxgb.ring.scratch import Scratch


@dataclass(frozen=True, slots=True, eq=False)
class RowVectors:
    """Masked vectors (..., rows), and of their mask each maker's part: hidden where it is another participant's.

    The coordinator has all parts and no masked value.
    """

    masked: RingArray = field(repr=False)
    parts: Mapping[int, RingArray] = field(repr=False)

    def reshape(self, *shape: int) -> RowVectors:
        """Return the same elements in another shape."""
        return RowVectors(self.masked.reshape(*shape), {m: part.reshape(*shape) for m, part in self.parts.items()})


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """Both sides of split vectors, (2n, k, rows), left ones first; and the left ones, with the parts of their mask."""

    both: Secret
    left: RowVectors


def masked_by(party: Party, owner: int, x: Secret) -> RowVectors:
    """Return vectors whose mask is one participant's alone, as `share` leaves them. Local."""
    assert owner in party.roster.holders, "a coordinator's mask has a part of everybody's"
    known = party.is_dealer or party.role == owner
    return RowVectors(x.masked, {owner: x.mask if known else RingArray.hidden(x.ring, x.shape)})


def mask_rows(party: Party, x: Shares) -> tuple[Secret, RowVectors]:
    """Turn shares of row vectors into a masked secret, and the same with everyone's part of its mask by itself.

    1. Everyone adds its part of a fresh mask; the coordinator keeps all parts.
    2. The sums are opened.

    Rounds: 1. Sent: size elements by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [masking_rows(party, x)])[0]


def masking_rows(party: Party, x: Shares) -> Pending[tuple[Secret, RowVectors]]:
    """Prepare `mask_rows` up to its opening. Rounds: 0."""
    party.step("mask rows")
    everyone, hidden = range(ACTIVE, party.roster.size + 1), RingArray.hidden(x.ring, x.shape)
    if party.is_dealer:
        parts = {m: party.fresh_of(m, x.ring, x.shape) for m in everyone}
        mask = reduce(add, parts.values())
    else:
        mask = party.fresh_of(party.role, x.ring, x.shape)
        parts = {m: mask if m == party.role else hidden for m in everyone}
    return Pending(x.part + mask, lambda total: (Secret(total, mask), RowVectors(total, parts)))


def split_rows(
    party: Party, bits: Secret, x: Secret, threads: Threads | None = None, shared: Collection[int] = ()
) -> Sides:
    """Return vectors x (n, k, rows) where a row's bit is 1, and what is left of them; bits (n, packed) for all rows.

    The mask rho of each node's bits is one participant's alone, but where nodes are `shared`, whose bits are a
    coordinator's own and their masks have a part of everybody's. Block by block, for m_q = q ^ rho:

    1. The coordinator deals [rho lam], and of shared nodes [rho] as numbers: parts that make rho by XOR do not add up.
    2. Everyone computes its share of q x = m_q x + (1 - 2 m_q)(rho m - rho lam), where rho m is the owner's, or of
       shared nodes everyone's [rho] m.
    3. Everyone adds its part of a fresh mask.

    The sums are opened together; the other side is x - q x.

    Rounds: 1. Sent: one element per row and vector by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [splitting_rows(party, bits, x, threads, shared)])[0]


def splitting_rows(
    party: Party, bits: Secret, x: Secret, threads: Threads | None = None, shared: Collection[int] = (), turn: int = 0
) -> Pending[Sides]:
    """Prepare `split_rows` up to its opening. Rounds: 0. `threads` are this role's own; `turn` says in whose memory."""
    if x.ring.limbs or x.ring.bitwise or len(x.shape) != 3:
        raise DoesNotFitError(
            f"rows are split of vectors (n, k, rows) in a ring of up to 64 bits, not of {x}", "type", "x"
        )
    n, k, rows = x.shape
    if bits.ring != PACKED or bits.shape[:-1] != (n,) or 8 * bits.shape[-1] < rows:
        raise DoesNotFitError(f"{rows} rows of {n} nodes take a bit each, packed, not {bits}", "mismatch", "bits")
    party.step("child update")
    party.count(products=n * k * rows)
    threads = Threads() if threads is None else threads
    work: _Follower | _Dealer | _Participant
    if x.mask.is_hidden:
        work = _Follower(party, x, shared)
    else:
        kind = _Dealer if party.is_dealer else _Participant
        work = kind(party, bits, x, shared, threads.scratch[turn])
    blocks = party.one_per_cost_class(
        _blocks(x.shape, party.settings.tuning.split_elements),
        lambda block: (_size(block[0], k, block[1]), len(_shared_in(shared, block))),
    )
    # Streams and messages have an order, so the caller draws and deals; what is made of a block is the threads' work.
    for _ in threads.ahead(work.split, work.drawn(blocks, threads)):
        pass
    return work.pending()


Block = tuple[slice, slice]
"""Some nodes, and some of their rows."""

Drawn = tuple[Block, list[Data]]
"""A block, and the random numbers that it takes."""


def _blocks(shape: Shape, elements: int) -> Iterator[Block]:
    """Yield nodes and rows of every block of `elements` elements: several whole nodes, or some rows of one."""
    n, k, rows = shape
    nodes = max(1, elements // max(1, k * rows))
    step = rows if nodes > 1 else max(8, elements // max(1, k) // 8 * 8)
    for node in range(0, n, nodes):
        for row in range(0, rows, max(1, step)):
            yield slice(node, min(n, node + nodes)), slice(row, min(rows, row + step))


def _size(nodes: slice, k: int, rows: slice) -> Shape:
    return nodes.stop - nodes.start, k, rows.stop - rows.start


def _shared_in(shared: Collection[int], block: Block) -> list[int]:
    """Return the shared nodes of a block."""
    return [node for node in range(block[0].start, block[0].stop) if node in shared]


def _dealt_specs(ring: Ring, k: int, block: Block, shared: Collection[int]) -> list[Spec]:
    """Return what is dealt for a block: [rho lam], and [rho] of its shared nodes."""
    size, count = _size(block[0], k, block[1]), len(_shared_in(shared, block))
    return [(ring, size), (ring, (count, size[2]))] if count else [(ring, size)]


def row_slices(party: Party, rows: int, row_bytes: int) -> Iterator[slice]:
    """Yield slices of rows whose dealt bytes stay below `dealt_bytes`, in a dry run one of each length."""
    step = max(1, party.settings.tuning.dealt_bytes // max(1, row_bytes))
    slices = (slice(first, min(rows, first + step)) for first in range(0, rows, step))
    return party.one_per_cost_class(slices, lambda some: some.stop - some.start)


def rows_in_turns(rows: int, step: int, party: Party) -> Iterator[slice]:
    """Yield slices of at most `step` rows.

    Participants take turns at the corrections from step to step, so that pieces cost them alike only M by M. A
    dry run gets one of those that cost alike, and does not have all rows in the end.
    """
    pieces = [slice(first, min(rows, first + step)) for first in range(0, rows, step)]
    yield from in_turns(party, pieces, lambda piece: piece.stop - piece.start)


T = TypeVar("T")


def in_turns(party: Party, pieces: Sequence[T], size: Callable[[T], object]) -> Iterator[T]:
    """Yield pieces, each of which has a step; in a dry run M at a time of those that cost alike by their `size`."""
    turns = [pieces[i : i + party.roster.size] for i in range(0, len(pieces), party.roster.size)]
    for turn in party.one_per_cost_class(turns, lambda turn: tuple(size(piece) for piece in turn)):
        yield from turn


class _Follower:
    """Any role's run in a dry run, in which all is hidden."""

    def __init__(self, party: Party, x: Secret, shared: Collection[int]) -> None:
        self.party, self.ring, self.shape, self.shared = party, x.ring, x.shape, shared

    def drawn(self, blocks: Iterable[Block], threads: Threads) -> Iterator[Drawn]:
        """Deal block by block."""
        for block in blocks:
            self.party.deal(_dealt_specs(self.ring, self.shape[1], block, self.shared), list)
            yield block, []

    def split(self, drawn: Drawn) -> None:
        """Make nothing of a block."""

    def pending(self) -> Pending[Sides]:
        """Return what the next round opens, and both sides of it."""
        n, *rest = self.shape
        part, both = (RingArray.hidden(self.ring, (count, *rest)) for count in (n, 2 * n))
        parts = dict.fromkeys(range(1, self.party.roster.size + 1), part)
        return Pending(part, lambda _: Sides(Secret(both, both), RowVectors(part, parts)))


class _Dealer:
    """The coordinator's run: it deals products of masks, and keeps everyone's part of the new ones."""

    def __init__(self, party: Party, bits: Secret, x: Secret, shared: Collection[int], scratch: Scratch) -> None:
        self.party, self.ring, self.shape, self.shared = party, x.ring, x.shape, shared
        self.rho, self.lam = _contiguous(bits.mask), _contiguous(x.mask)
        parts = scratch.empty((party.roster.size, *x.shape), x.ring.dtype)
        self.parts = dict(enumerate(parts, ACTIVE))
        self.masks = scratch.empty((2, *x.shape), x.ring.dtype)

    def drawn(self, blocks: Iterable[Block], threads: Threads) -> Iterator[Drawn]:
        """Deal block by block, and yield everyone's part of the new mask."""
        listed = list(blocks)
        for block, product in zip(listed, threads.ahead(self._product, listed), strict=True):
            yield block, self._deal(block, product)

    def _deal(self, block: Block, product: RingArray) -> list[Data]:
        specs = _dealt_specs(self.ring, self.shape[1], block, self.shared)
        self.party.deal(specs, lambda: [product, *self._numbers(block)])
        return [self.party.fresh_of(m, self.ring, product.shape).data for m in self.parts]

    def _numbers(self, block: Block) -> list[RingArray]:
        """Return rho of a block's shared nodes as numbers, if it has some."""
        nodes = _shared_in(self.shared, block)
        return [RingArray(self.ring, _bits_of(self.rho, nodes, block[1]).astype(self.ring.dtype))] if nodes else []

    def _product(self, block: Block) -> RingArray:
        nodes, rows = block
        product = np.empty(_size(nodes, self.shape[1], rows), self.ring.dtype)
        row_kernels.rows_inside(self.rho, self.lam, nodes.start, rows.start, product)
        return RingArray(self.ring, product)

    def split(self, drawn: Drawn) -> None:
        """Take the masks of both sides of a block down."""
        (nodes, rows), fresh = drawn
        place = (nodes, slice(None), rows)
        left = self.masks[0][place]
        left[...] = 0
        for part, one in zip(self.parts.values(), fresh, strict=True):
            part[place] = one
            left += one
        np.subtract(self.lam[place], left, out=self.masks[1][place])

    def pending(self) -> Pending[Sides]:
        """Return what the next round opens; nothing of it is the coordinator's."""
        n, *rest = self.shape
        parts = {m: RingArray(self.ring, part) for m, part in self.parts.items()}
        masks = _reduced(self.ring, self.masks.reshape(2 * n, *rest))
        both = Secret(RingArray.hidden(self.ring, masks.shape), masks)
        hidden = RingArray.hidden(self.ring, self.shape)
        return Pending(hidden, lambda _: Sides(both, RowVectors(hidden, parts)))


class _Participant:
    """A participant's run."""

    def __init__(self, party: Party, bits: Secret, x: Secret, shared: Collection[int], scratch: Scratch) -> None:
        self.party, self.ring, self.shape, self.shared = party, x.ring, x.shape, shared
        self.m_q, self.rho = _contiguous(bits.masked), _contiguous(bits.mask)
        if shared:  # this role's part of rho counts as a bit only together with the others'
            self.rho = self.rho.copy()
            self.rho[list(shared)] = 0
        self.masked, self.lam = _contiguous(x.masked), _contiguous(x.mask)
        self.masks = scratch.empty((2 * x.shape[0], *x.shape[1:]), x.ring.dtype)
        self.both = scratch.empty(self.masks.shape, x.ring.dtype)
        self.part = self.both[: x.shape[0]]  # what is sent makes room for what is opened: this is most of the memory

    def drawn(self, blocks: Iterable[Block], threads: Threads) -> Iterator[Drawn]:
        """Yield this participant's share of what is dealt for each block, and of its new mask."""
        for block in blocks:
            specs = _dealt_specs(self.ring, self.shape[1], block, self.shared)
            dealt = self.party.deal(specs, list)
            fresh = self.party.fresh_of(self.party.role, *specs[0])
            yield block, [_contiguous(fresh), *map(_contiguous, dealt)]

    def split(self, drawn: Drawn) -> None:
        """Gate and mask one block."""
        (nodes, rows), (fresh, dealt, *rho) = drawn
        row_kernels.split_block(
            self.m_q,
            self.rho,
            self.masked,
            self.lam,
            dealt,
            fresh,
            nodes.start,
            rows.start,
            self.party.public_share,
            self.part,
            self.masks,
        )
        if rho:
            self._add_shared((nodes, rows), rho[0])

    def _add_shared(self, block: Block, rho: Data) -> None:
        """Add (1 - 2 m_q) [rho] m to the shared nodes of a block."""
        nodes, rows = _shared_in(self.shared, block), block[1]
        turned = np.where(_bits_of(self.m_q, nodes, rows), 0 - rho, rho)
        for node, factor in zip(nodes, turned, strict=True):
            self.part[node, :, rows] += factor * self.masked[node, :, rows]

    def pending(self) -> Pending[Sides]:
        """Return this participant's part, and how the opened sums become both sides."""
        return Pending(_reduced(self.ring, self.part), self._finish)

    def _finish(self, total: RingArray) -> Sides:
        n = self.shape[0]
        self.both[:n] = total.data
        np.subtract(self.masked, total.data, out=self.both[n:])
        both = Secret(_reduced(self.ring, self.both), _reduced(self.ring, self.masks))
        hidden = RingArray.hidden(self.ring, self.shape)
        parts = {m: both.mask[:n] if m == self.party.role else hidden for m in range(1, self.party.roster.size + 1)}
        return Sides(both, RowVectors(both.masked[:n], parts))


def _bits_of(packed: Data, nodes: Sequence[int], rows: slice) -> Data:
    """Return the bits of some nodes and rows, of which the first is the first of a byte: (nodes, rows)."""
    some = packed[list(nodes), rows.start // 8 : -(-rows.stop // 8)]
    return np.unpackbits(some, axis=1, count=rows.stop - rows.start, bitorder="little")


def _contiguous(x: RingArray) -> Data:
    return np.ascontiguousarray(x.data)


def _reduced(ring: Ring, data: Data) -> RingArray:
    return RingArray(ring, ring.reduce_in_place(data))


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
        raise DoesNotFitError(
            f"places of a table are numbers of 1 to {MOST_BITS} bits, not in {ring}", parameter="ring", value=str(ring)
        )
    if table.dtype != np.uint64 or table.shape != (1 << ring.bits,):
        wanted = f"{1 << ring.bits} entries of uint64"
        raise DoesNotFitError(
            f"a table for {ring} has {wanted}, not {table.dtype}{list(table.shape)}", "mismatch", "table"
        )
    if not 1 <= bits <= 64 or int(table.max()).bit_length() > bits:
        text = f"an entry has 1 to 64 bits, and {bits} do not hold the largest; give as many as it needs"
        raise DoesNotFitError(text, parameter="bits", value=bits)
    return columns_of(table, bits)


def _entries(party: Party, index: Secret, columns: U64) -> Shares:
    """Deal the one-hot bits of the masks, block by block, and look up at the opened places."""
    party.step("look up: tables")
    rows, entries, octets = prod(index.shape), 1 << index.ring.bits, octets_of(len(columns))
    flat, out = index.reshape(rows), np.empty(rows, np.uint64)
    for block in row_slices(party, rows, octets_of(entries)):
        one_hot = _deal_one_hot(party, flat[block])
        if not party.is_symbolic:
            shifts = flat.masked[block].words().reshape(-1)
            look_up_rows(one_hot_words(np.asarray(one_hot.data, np.uint8), entries), shifts, columns, out[block])
    shape = (*index.shape, octets)
    if party.is_symbolic:
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
