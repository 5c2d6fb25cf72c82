"""Openings that mean nothing, sums of shares under masks nobody knows, and products, which need them (section 3.3).

This is the only module in which the participants' shares meet. What is opened here carries a fresh mask, or one that
the caller has put there; values that mean something go through `reveal`.

In a star an opening goes to P_1 and back. In a mesh a small one goes from everyone to everyone, in one hop. A large one
is cut in pieces, of which each participant adds up one, as in the reduce-scatter and all-gather of Thakur,
Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (IJHPCA 2005): one more hop, and
nobody sends more than twice its size. Which one it is follows from public sizes (`in_pieces`), so all participants
choose alike.

MUL and everything that is a sum of products take one opened element per result. A product of masked factors is prod
(m_i - lam_i). Expanded over subsets of masks, the term of no mask is public, those of one mask are local, and only
products of two or more masks need the coordinator. They take the place of the triples of Beaver, "Efficient Multiparty
Protocols Using Circuit Randomization" (CRYPTO 1991), which the paper uses.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import combinations, pairwise
from math import prod
from operator import mul
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.config import LINKS, TOPOLOGIES, Link
from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Party, Spec, wire_bytes
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray, concatenate
from mpfedxgb.ring.kernels import I64, U8
from mpfedxgb.ring.ring import Shape
from mpfedxgb.transport.transport import STAR

F64 = npt.NDArray[np.float64]

HOP_SECONDS = 1.0e-4
"""What a further hop costs without any link: the Python of all roles in one process."""

_ALIGNED = 8
"""Elements of which pieces are made up, so that single bits fill their bytes."""


def in_pieces(opened_bytes: Any, participants: int, topology: str = STAR, link: Link = LINKS["local"]) -> Any:
    """Return whether an opening of that size is cut into pieces: a truth value, or an array for an array of bytes.

    In a mesh it is, if the bytes that this saves take longer over the link than one more hop.
    """
    if topology not in TOPOLOGIES:
        raise UserError(
            f"topology={topology!r} is not known; it is one of {', '.join(TOPOLOGIES)}", "choice", "topology", topology
        )
    others = participants - 1
    saved = others * opened_bytes - 2 * others * opened_bytes / participants
    return (topology != STAR) & (8 * saved / (link.bandwidth * 1e6) > link.latency / 1e3 + HOP_SECONDS)


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """How openings go, as arrays: messages one after the other, and the bytes that a participant sends in all of them.

    `busiest` are those that the busiest participant has to wait for: what it sends, or receives at another time.
    """

    hops: I64
    in_pieces: npt.NDArray[np.bool_]
    sent: F64
    busiest: F64


def routes(opened_bytes: I64, participants: int, topology: str, link: Link) -> Routes:
    """Return how openings travel, given the bytes of each."""
    others, cuts = participants - 1, in_pieces(opened_bytes, participants, topology, link)
    if topology == STAR:
        sent = opened_bytes.astype(np.float64)
        return Routes(np.full_like(opened_bytes, 2), cuts, sent, 2 * others * sent)
    sent = np.where(cuts, 2 * others * opened_bytes / participants, others * opened_bytes)
    return Routes(1 + cuts, cuts, sent, sent)


def cut(part: RingArray, count: int, keeps_last_axis: bool) -> list[RingArray]:
    """Return an array in `count` pieces of about the same size, cut on its leading axes or, if it may be, anywhere."""
    if keeps_last_axis:
        rows, step = part.reshape(prod(part.shape[:-1]), part.shape[-1]), 1
    else:
        rows, step = part.reshape(part.size), _ALIGNED
    ends = [rows.shape[0] * k // count // step * step for k in range(count)] + [rows.shape[0]]
    return [rows[first:last] for first, last in pairwise(ends)]


T = TypeVar("T")
U = TypeVar("U")

Clip = Callable[[RingArray], RingArray]
"""Reduces a sum to the width of its mask, where that is narrower than its ring."""

Steps = Generator[tuple[RingArray, Clip | None], RingArray, U8]
"""The local parts of a protocol of several rounds: yields what has to be opened, takes the sum, returns shares."""


Opening = tuple[str, Sequence[Spec], Clip | None]
"""What is said of an opening, what it opens, and what reduces its sums, if something does."""


@dataclass(frozen=True, slots=True, eq=False)
class Pending(Generic[T]):
    """One thing that the next round will open: this participant's masked part, and what becomes of the sum.

    Where a mask is narrower than its ring, `clip` reduces the sum to the mask's width before the others get it.
    """

    part: RingArray
    finish: Callable[[RingArray], T]
    clip: Clip | None = None


def open_groups(party: Party, first: Sequence[Pending[T]], second: Sequence[Pending[U]]) -> tuple[list[T], list[U]]:
    """Open pending things of two kinds in one round.

    Rounds: 1. Sent: the elements of all of them by each auxiliary. Reveals: nothing.
    """
    pending: list[Pending[Any]] = [*first, *second]
    sums = open_shares(party, [p.part for p in pending], [p.clip for p in pending])
    return finish(first, sums[: len(first)]), finish(second, sums[len(first) :])


def finish(pending: Sequence[Pending[T]], sums: Sequence[RingArray]) -> list[T]:
    """Return what becomes of pending things whose sums have been opened. Local."""
    return [p.finish(total) for p, total in zip(pending, sums, strict=True)]


def open_pending(party: Party, pending: Sequence[Pending[T]]) -> list[T]:
    """Open pending things of one kind in one round (see `open_groups`)."""
    return open_groups(party, pending, ())[0]


def masking(party: Party, shares: Shares) -> Pending[Secret]:
    """Prepare `open_masked` up to its opening. Rounds: 0. Everyone adds its share of a fresh mask."""
    mask = party.fresh(shares.ring, shares.shape)
    return Pending(shares.part + mask, lambda total: Secret(total, mask))


def open_masked(party: Party, shares: Shares) -> Secret:
    """Turn shares into a masked secret.

    1. Everyone adds its share of a fresh mask.
    2. The sums are opened (see `open_shares`).

    Rounds: 1. Sent: size elements by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, [masking(party, shares)])[0]


class SideBySide:
    """Protocols of several rounds in step: what they want opened in the next round, and in the end what each gives."""

    def __init__(self, protocols: Sequence[Steps]) -> None:
        self._protocols = protocols
        self._wanted: dict[int, tuple[RingArray, Clip | None]] = {}
        self.results: dict[int, U8] = {}
        for i, steps in enumerate(protocols):
            self._advance(i, partial(next, steps))

    def _advance(self, i: int, go_on: Callable[[], tuple[RingArray, Clip | None]]) -> None:
        try:
            self._wanted[i] = go_on()
        except StopIteration as end:
            self._wanted.pop(i, None)
            self.results[i] = end.value

    def _take(self, i: int, total: RingArray) -> None:
        self._advance(i, partial(self._protocols[i].send, total))

    def pending(self) -> list[Pending[None]]:
        """Return what the next round has to open, which may travel with other things; nothing at the end."""
        return [Pending(part, partial(self._take, i), clip) for i, (part, clip) in self._wanted.items()]


def open_steps(party: Party, steps: Steps, what: str = "") -> U8:
    """Open what the steps of a protocol yield, one round each, and return what they come to."""
    running = SideBySide([steps])
    while pending := running.pending():
        finish(pending, open_shares(party, [p.part for p in pending], [p.clip for p in pending], what))
    return running.results[0]


def follow_openings(party: Party, openings: Sequence[Opening]) -> None:
    """Go through openings round by round, where a role follows shapes (see `open_shares`)."""
    for what, specs, clip in openings:
        open_shares(party, [RingArray.hidden(*spec) for spec in specs], [clip] * len(specs), what)


def open_shares(
    party: Party, parts: Sequence[RingArray], clips: Sequence[Clip | None] | None = None, what: str = ""
) -> list[RingArray]:
    """Return the sums of what the participants hold, to all participants; hidden at the coordinator.

    The caller has masked every part with a share of a mask that is uniform in the same ring, or in the width that its
    clip reduces it to. Each opening of a step has a number, so that none is taken for another.

    In a star, the active participant adds up and returns the sums. In a mesh, everyone sends its parts to everyone; or,
    where so much is opened that it pays (`route`), to whomever adds up a piece, and takes that back.

    Rounds: 1. Sent: the elements of all parts by each auxiliary, in a star; in a mesh, by each participant to each
    other, or twice (M - 1) / M of them in all. Reveals: nothing, since the caller has masked it.
    """
    party.number_opening(what)
    if party.is_dealer:
        return [RingArray.hidden(part.ring, part.shape) for part in parts]
    specs = [(part.ring, part.shape) for part in parts]
    is_cut = in_pieces(wire_bytes(specs), party.roster.size, party.topology, party.link)
    party.count(rounds=1, hops=2 if party.topology == STAR or is_cut else 1)
    clips = [None] * len(parts) if clips is None else clips
    if party.topology == STAR:
        return _over_the_active(party, parts, clips)
    return _in_pieces(party, parts, clips) if is_cut else _to_everyone(party, parts, clips)


def _over_the_active(party: Party, parts: Sequence[RingArray], clips: Sequence[Clip | None]) -> list[RingArray]:
    specs = [(part.ring, part.shape) for part in parts]
    if not party.is_active:
        party.send([ACTIVE], parts)
        return party.receive(ACTIVE, specs)
    sums = _added_up(parts, (party.receive(m, specs) for m in party.others), clips)
    party.send(party.others, sums)
    return sums


def _to_everyone(party: Party, parts: Sequence[RingArray], clips: Sequence[Clip | None]) -> list[RingArray]:
    specs = [(part.ring, part.shape) for part in parts]
    received = party.exchange([(party.peers, parts)], dict.fromkeys(party.peers, specs))
    return _added_up(parts, received.values(), clips)


def _in_pieces(party: Party, parts: Sequence[RingArray], clips: Sequence[Clip | None]) -> list[RingArray]:
    """Open in two hops.

    1. Everyone sends each of the others its part of that one's piece of every array.
    2. Everyone adds its own piece up, reduces it to the width of its mask and sends it to the others.
    """
    cuts = [cut(part, party.roster.size, clip is not None) for part, clip in zip(parts, clips, strict=True)]
    pieces = {m: [of_part[m - ACTIVE] for of_part in cuts] for m in (party.role, *party.peers)}
    specs = {m: [(piece.ring, piece.shape) for piece in pieces[m]] for m in pieces}
    received = party.exchange([([m], pieces[m]) for m in party.peers], dict.fromkeys(party.peers, specs[party.role]))
    mine = _added_up(pieces[party.role], received.values(), clips)
    sums = party.exchange([(party.peers, mine)], {m: specs[m] for m in party.peers}) | {party.role: mine}
    whole = [concatenate([sums[m][i] for m in sorted(sums)], axis=0) for i in range(len(parts))]
    return [total.reshape(*part.shape) for total, part in zip(whole, parts, strict=True)]


def _added_up(
    parts: Sequence[RingArray], others: Iterable[Sequence[RingArray]], clips: Sequence[Clip | None]
) -> list[RingArray]:
    """Return the sums of a participant's parts and the others', each reduced to the width of its mask."""
    sums = list(parts)
    for number, theirs in enumerate(others):
        if not number:
            sums = [total + part for total, part in zip(sums, theirs, strict=True)]
            continue
        for total, part in zip(sums, theirs, strict=True):
            total.add_in_place(part)
    return [total if clip is None else clip(total) for total, clip in zip(sums, clips, strict=True)]


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """One term: an integer that all roles know, times one to three secrets."""

    factors: tuple[Secret, ...]
    coefficient: int = 1


Sum = Sequence[Product]


def multiply(party: Party, x: Secret, y: Secret) -> Secret:
    """Return the elementwise product x y (MUL); shapes broadcast.

    1. The coordinator deals shares of the product of the two masks.
    2. Everyone adds its part; the active participant alone adds the public m_x m_y.
    3. Open the sum under a fresh mask.

    Rounds: 1. Sent: size elements by each auxiliary. Reveals: nothing.
    """
    return sums_of_products(party, [[Product((x, y))]], name="multiply")[0]


def inner_product(party: Party, x: Secret, y: Secret, axis: int = -1) -> Secret:
    """Return the sum of x y along an axis; only the sums are opened.

    Rounds: 1. Sent: one element per sum by each auxiliary. Reveals: nothing.
    """
    return sums_of_products(party, [[Product((x, y))]], axis=axis, name="inner product")[0]


def sum_of_products(party: Party, terms: Sum, axis: int | None = None) -> Secret:
    """Return one sum of products, such as A_1 B_2 - A_2 B_1 or G_L^2 H_R + G_R^2 H_L (see `sums_of_products`)."""
    return sums_of_products(party, [terms], axis)[0]


def sums_of_products(
    party: Party, batch: Sequence[Sum], axis: int | None = None, name: str = "sum of products"
) -> list[Secret]:
    """Return several sums of products of up to three factors each, all in one round.

    1. The coordinator deals, per sum, the products of all masks of each term, added up; and for terms of three factors
       the product of every pair of masks, once per pair.
    2. Everyone adds its parts; the active participant alone adds the terms without a mask.
    3. Open each sum (along `axis`, if one is given) under a fresh mask.

    Rounds: 1. Sent: one element per result by each auxiliary. Reveals: nothing.
    """
    return open_pending(party, multiplying(party, batch, axis, name))


def multiplying(
    party: Party, batch: Sequence[Sum], axis: int | None = None, name: str = "sum of products"
) -> list[Pending[Secret]]:
    """Prepare `sums_of_products` up to its opening. Rounds: 0."""
    party.step(name)
    deal = _MaskProducts(batch, axis)
    dealt = party.deal(deal.specs, deal.compute)  # Beaver (1991): the c of a triple, with the factors' masks as a and b
    pairs = dict(zip(deal.pairs, dealt[len(batch) :], strict=True))
    parts = []
    for terms, shape, full in zip(batch, deal.shapes, dealt, strict=False):
        muls = sum(len(term.factors) - 1 for term in terms)
        party.count(products=prod(shape) * muls, mul_calls=muls)
        if party.is_symbolic:
            parts.append(Shares(RingArray.hidden(full.ring, full.shape)))
            continue
        part = full
        for coefficient, piece in (pair for term in terms for pair in _local_pieces(party, term, pairs)):
            part = _added(part, coefficient, piece if axis is None else piece.broadcast_to(shape).sum(axis))
        parts.append(Shares(part))
    return [masking(party, part) for part in parts]  # Turbospeedz (2019): the result is opened, not the factors


class _MaskProducts:
    """What the coordinator computes for a batch: one array per sum, then one per pair of masks in three-fold terms."""

    def __init__(self, batch: Sequence[Sum], axis: int | None) -> None:
        self.batch, self.axis = batch, axis
        self.shapes: list[Shape] = []
        self.pairs: dict[tuple[int, int], tuple[Secret, Secret]] = {}
        for terms in batch:
            if not terms or any(not 1 <= len(term.factors) <= 3 for term in terms):
                raise UserError("a sum of products takes one or more terms of one to three factors", "range", "terms")
            self.shapes.append(np.broadcast_shapes(*(f.shape for term in terms for f in term.factors)))
            for term in terms:
                if len(term.factors) == 3:
                    self.pairs.update({_key(x, y): (x, y) for x, y in combinations(term.factors, 2)})
        self.specs = [
            (terms[0].factors[0].ring, _without(shape, axis)) for terms, shape in zip(batch, self.shapes, strict=True)
        ]
        self.specs += [(x.ring, np.broadcast_shapes(x.shape, y.shape)) for x, y in self.pairs.values()]

    def compute(self) -> list[RingArray]:
        """Return the values to deal."""
        sums = [self._full(terms, shape) for terms, shape in zip(self.batch, self.shapes, strict=True)]
        return sums + [x.mask * y.mask for x, y in self.pairs.values()]

    def _full(self, terms: Sum, shape: Shape) -> RingArray:
        total = RingArray.zeros(terms[0].factors[0].ring, ())
        for term in terms:
            if len(term.factors) > 1:  # a single mask is local
                masks = reduce(mul, [f.mask for f in term.factors])
                total = _added(total, (-1) ** len(term.factors) * term.coefficient, masks)
        total = total.broadcast_to(shape)
        return total if self.axis is None else total.sum(self.axis)


def _local_pieces(
    party: Party, term: Product, pairs: dict[tuple[int, int], RingArray]
) -> Iterator[tuple[int, RingArray]]:
    """Yield this participant's pieces of one term, with their coefficients: all subsets of masks but the full one."""
    factors = term.factors
    if party.public_share:
        yield term.coefficient * party.public_share, reduce(mul, [f.masked for f in factors])
    for i, factor in enumerate(factors):
        public = [f.masked for j, f in enumerate(factors) if j != i]
        yield -term.coefficient, reduce(mul, [factor.mask, *public])
    if len(factors) == 3:  # ABY2.0 (2021): products of several factors in one round, for more of the dealer's products
        for i, factor in enumerate(factors):
            x, y = (f for j, f in enumerate(factors) if j != i)
            yield term.coefficient, pairs[_key(x, y)] * factor.masked


def _added(total: RingArray, coefficient: int, array: RingArray) -> RingArray:
    if coefficient == 1:
        return total + array
    return total - array if coefficient == -1 else total + array * coefficient


def _key(x: Secret, y: Secret) -> tuple[int, int]:
    return (min(id(x), id(y)), max(id(x), id(y)))


def _without(shape: Shape, axis: int | None) -> Shape:
    if axis is None:
        return shape
    axis %= len(shape)
    return shape[:axis] + shape[axis + 1 :]
