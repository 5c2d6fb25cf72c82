"""MUL and everything that is a sum of products (section 3.3), one opened element per result.

A product of masked factors is prod (m_i - lam_i). Expanded over subsets of masks, the term of no mask is public, those
of one mask are local, and only products of two or more masks need the coordinator. They take the place of the triples
of Beaver, "Efficient Multiparty Protocols Using Circuit Randomization" (CRYPTO 1991), which the paper uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import prod
from operator import mul

import numpy as np

from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.opening import Pending, masking, open_pending
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.ring import Shape


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
                raise UserError("a sum of products takes one or more terms of one to three factors")
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
