"""One program that uses every protocol, for what is recorded of a run: uniformity, distribution, inbox, text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mpfedxgb.party import ACTIVE, ALL, Party
from mpfedxgb.protocols import (
    NOBODY,
    BitField,
    BitMatrix,
    BitProduct,
    Borrow,
    Fractions,
    Opened,
    Product,
    Secret,
    Shares,
    Sign,
    Stage,
    argmax,
    bit_times,
    bits_to_ring,
    both,
    compare_together,
    cut,
    divide,
    fractions,
    inner_product,
    less_than,
    lift,
    lift_secret,
    look_up,
    make_tags,
    mask_rows,
    matrices_times,
    multiply,
    negative,
    negative_by_bits,
    open_bit,
    open_tags,
    publish_matrix,
    quotient,
    reduced,
    reveal,
    round_off,
    rounded_quotient,
    select,
    share,
    share_bit,
    sum_of_products,
    sums_of_bit_products,
    sums_of_products,
    to_shares,
    truncate,
    winning_tags,
)
from mpfedxgb.protocols.secret import stack
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from support.names import unlisted
from support.row_vectors import mask_in_parts

WIDE = wide(3)
TOURNAMENTS = {
    "pairs on bytes": [Stage(2, 1)] * 3,
    "pairs on bits": [Stage(2, 2)] * 3,
    "fours on bytes": [Stage(4, 1)] * 2,
    "all at once on bits": [Stage(5, 3)],
}
"""Ways to play five candidates."""

COLUMNS = 24
"""Columns of the private matrix."""


@dataclass(frozen=True, slots=True)
class Private:
    """What one participant brings, the same in every run of the batch."""

    vector: int = 0
    wide: int = 0
    narrow: int = 0
    bit: int = 0
    summand: int = 0
    numerators: tuple[int, int] = (0, 0)
    denominator: int = 1


ZEROS = Private()
LARGEST = Private((1 << 63) - 1, (1 << 190) - 1, (1 << 61) - 1, 1, (1 << 63) - 1, ((1 << 90) - 1,) * 2, (1 << 90) - 1)
SMALLEST = Private(-(1 << 63), -(1 << 190), -(1 << 61), 1, -(1 << 63), (-(1 << 90),) * 2, 1)


@dataclass(slots=True)
class Everything:
    """What one role holds at the end: all masked secrets, shares and reveals, the winners, the announcements."""

    secrets: list[Secret] = field(default_factory=list)
    shares: list[Shares] = field(default_factory=list)
    revealed: list[RingArray] = field(default_factory=list)
    opened: list[Opened] = field(default_factory=list)
    announced: list[np.ndarray[tuple[int, ...], np.dtype[np.int64]]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Batch:
    """Shares one role's inputs, repeated over the batch."""

    party: Party
    runs: int
    mine: Private | None

    def share(self, owner: int, ring: Ring, value: str, index: int = 0) -> Secret:
        """Share an input of one participant."""
        return share(self.party, owner, ring, (self.runs,), self.values(owner, ring, value, index))

    def of_auxiliaries(self, ring: Ring, value: str) -> Secret:
        """Share an input of every auxiliary, and add them up."""
        first, *rest = [self.share(m, ring, value) for m in self.party.roster.auxiliaries]
        for other in rest:
            first = first + other
        return first

    def values(self, owner: int, ring: Ring, name: str, index: int = 0) -> RingArray | None:
        """Return an input, in the owner's run."""
        if self.party.owner != owner or self.mine is None:
            return None
        value = getattr(self.mine, name)
        value = value[index] if isinstance(value, tuple) else value
        if ring == PACKED:
            value = 255 * value
        return RingArray.encode(ring, value).broadcast_to((self.runs,))


def every_protocol(party: Party, runs: int, mine: Private | None = None) -> Everything:
    """Use every protocol at least once, on inputs of all participants."""
    batch, out = Batch(party, runs, mine), Everything()
    x, y = batch.share(ACTIVE, VECTOR, "vector"), batch.of_auxiliaries(VECTOR, "vector")
    u, v = batch.share(ACTIVE, WIDE, "wide"), batch.of_auxiliaries(WIDE, "wide")
    out.announced.append(party.announce(unlisted("runs"), [runs]))
    out.announced.append(party.broadcast(unlisted("rounds"), [3]))
    out.announced.append(party.tell_everyone(unlisted("columns"), [COLUMNS] if party.owner else None))
    _arithmetic(party, out, x, y, u, v)
    _bits(party, out, batch, [x, y, u, v])
    _widths(party, out, batch, u)
    _tables(party, out, batch, [x, v])
    _matrices(party, out, batch, stack([x, y]))
    _tournament(party, out, batch)
    _reveals(party, out, batch)
    out.secrets.extend([x, y, u, v])
    return out


def _arithmetic(party: Party, out: Everything, x: Secret, y: Secret, u: Secret, v: Secret) -> None:
    out.secrets.append(multiply(party, x, y))
    out.secrets.append(multiply(party, u, v))
    out.secrets.append(inner_product(party, stack([x, y], 1), stack([y, x], 1)))
    out.secrets.append(sum_of_products(party, [Product((x, y)), Product((x,), 3)]))
    out.secrets += sums_of_products(party, [[Product((x, x, y))], [Product((u, v, v)), Product((u, v, u), -1)]])


def _bits(party: Party, out: Everything, batch: Batch, values: Sequence[Secret]) -> None:
    x, y, u, v = values
    last = party.roster.owners[-1]
    goes_left = share_bit(party, last, (batch.runs,), batch.values(last, BIT, "bit"))
    member = batch.share(ACTIVE, BIT, "bit")
    packed = batch.share(ACTIVE, PACKED, "bit"), batch.share(last, PACKED, "bit")
    signs = [negative(party, x), negative(party, v), less_than(party, u, 192), less_than(party, y, 7, digit=2)]
    signs += [negative_by_bits(party, x, 64, 2), negative_by_bits(party, v, 192, 3)]
    first, second = open_bit(party, signs[0]), open_bit(party, signs[1])
    out.secrets += select(party, first, [(x, y), (u, v)])
    out.secrets += sums_of_bit_products(party, [BitProduct((first, second), u, v), BitProduct((goes_left, ~second), x)])
    out.secrets.append(bit_times(party, goes_left, x))
    out.secrets.append(both(party, *packed))
    membership = both(party, member, goes_left.secret)
    out.revealed.append(reveal(party, membership, ACTIVE, unlisted("leaf membership")))
    out.shares += signs
    out.secrets += [first.secret, second.secret, goes_left.secret, member, membership, _of_both(party, batch)]


def _of_both(party: Party, batch: Batch) -> Secret:
    owners = [ACTIVE, party.roster.owners[-1], ACTIVE]
    values = {i: batch.values(owner, PACKED, "bit") for i, owner in enumerate(owners)}
    mine = {i: value for i, value in values.items() if value is not None}
    return share_each(party, owners, PACKED, (batch.runs,), mine)


def _widths(party: Party, out: Everything, batch: Batch, u: Secret) -> None:
    z = batch.share(ACTIVE, VECTOR, "narrow"), batch.share(party.roster.owners[-1], VECTOR, "narrow")
    out.secrets.append(lift(party, to_shares(party, z[0]) + to_shares(party, z[1]), WIDE))
    out.secrets.append(lift_secret(party, z[1], WIDE))
    out.secrets.append(truncate(party, lift_secret(party, z[0], WIDE), 24))
    bits = batch.share(party.roster.owners[-1], WIDE, "bit")
    out.secrets.append(divide(party, bits, bits + 1, 2, 16, iterations=1))
    out.secrets.append(quotient(party, 11 * bits, bits + 1, 4, 2, digit=2))
    out.secrets.append(reduced(rounded_quotient(party, -7 * bits, bits + 1, 4, 2), VECTOR))


def _tables(party: Party, out: Everything, batch: Batch, values: Sequence[Secret]) -> None:
    """Cut a number in two, look the upper part up in a table of two coefficients, and mask all of it anew."""
    x, v = values
    borrow, sign = compare_together(party, [Borrow(x, 19), Sign(v, 70)])
    place, rest = cut(party, x, 19, 10, open_bit(party, borrow))
    entries = look_up(party, place, np.arange(1 << 10, dtype=np.uint64), 10)
    coefficients = bits_to_ring(party, entries, [BitField(0, 4), BitField(4, 6, signed=True)], VECTOR)
    secret, _ = mask_rows(party, rest + coefficients[0] + coefficients[1])
    narrow = batch.share(ACTIVE, VECTOR, "narrow")
    out.secrets += [secret, round_off(party, narrow, 24, rounds=2)]
    out.shares += [borrow, sign, place, rest, entries, *coefficients]


def _matrices(party: Party, out: Everything, batch: Batch, vectors: Secret) -> None:
    rows = mask_in_parts(party, vectors)
    for owner in (ACTIVE, party.roster.owners[-1]):
        plain = None
        if party.owner == owner and batch.mine is not None:
            plain = BitMatrix(np.full((COLUMNS, batch.runs), batch.mine.bit, np.uint8))
        matrix = publish_matrix(party, owner, COLUMNS, batch.runs, plain)
        sums = matrices_times(party, [matrix], rows)
        out.secrets.append(lift(party, sums, WIDE))
        out.shares.append(sums)


def _tournament(party: Party, out: Everything, batch: Batch) -> None:
    last = party.roster.owners[-1]
    counts = [(ACTIVE, 2), (last, 2), (NOBODY, 1)]
    numerators = [batch.share(owner, WIDE, "numerators", i) for owner in (ACTIVE, last) for i in (0, 1)]
    denominators = [batch.share(owner, WIDE, "denominator") for owner in (ACTIVE, last)]
    nobody = numerators[0] * 0
    candidates = fractions(
        stack([*numerators, nobody - (1 << 95)], 1),
        stack([denominators[0], denominators[0], denominators[1], denominators[1], nobody + 1], 1),
        make_tags(party, (batch.runs,), [(NOBODY, 5)]).secret,
    )
    for name, stages in TOURNAMENTS.items():
        with party.phase(name):  # two tournaments do not share their labels
            tags = make_tags(party, (batch.runs,), counts)
            winner = argmax(party, Fractions(candidates.value, tags.secret), stages)
            opened = open_tags(party, tags, winner.tag, unlisted(f"owner {name}"))
        out.opened.append(opened)
        out.announced.append(opened.owner)
        out.secrets += [winner.value, winner.tag, tags.secret]
    _planned_tournament(party, out, batch, candidates)


def _planned_tournament(party: Party, out: Everything, batch: Batch, candidates: Fractions) -> None:
    """Play once more with a secret that says who is valid (all are), up to shares of the tags, and reveal these."""
    shape = candidates.tag.shape
    ones = RingArray(BIT, np.ones(shape, np.uint8)) if party.is_active else None
    valid = to_shares(party, share(party, ACTIVE, BIT, shape, ones))
    with party.phase("with valid ones"):
        tags = make_tags(party, (batch.runs,), [(ACTIVE, 2), (party.roster.owners[-1], 2), (NOBODY, 1)])
        field = Fractions(candidates.value, tags.secret, WIDE.bits, valid)
        won = winning_tags(party, field, [Stage(2, 3), Stage(3, 2)])
        opened = open_tags(party, tags, won, unlisted("owner with valid ones"))
    out.opened.append(opened)
    out.announced.append(opened.owner)
    out.secrets.append(tags.secret)
    out.shares += [won, valid]


def _reveals(party: Party, out: Everything, batch: Batch) -> None:
    total = batch.share(ACTIVE, VECTOR, "summand") + batch.of_auxiliaries(VECTOR, "summand")
    out.revealed.append(reveal(party, total, ACTIVE, unlisted("sum")))
    out.revealed.append(reveal(party, total, party.roster.size, unlisted("sum")))
    out.revealed.append(reveal(party, total, ALL, unlisted("sum to all")))
    out.revealed.append(reveal(party, negative(party, total), ALL, unlisted("sign to all")))
    out.secrets.append(total)
