"""SecureArgmax without division: an oblivious tournament over fractions A / B (section 4.3, Eq. 6-7 by one sign).

Candidate 2 beats candidate 1 if A_1 B_2 - A_2 B_1 < 0, for positive B; a tie goes to the lower index. Winners stay
secret: their A, B and tag are selected by hidden bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.bits import Bit, BitProduct, open_bit, sums_of_bit_products
from mpfedxgb.protocols.compare import negative
from mpfedxgb.protocols.opening import open_masked
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, stack
from mpfedxgb.ring import kernels
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import I64
from mpfedxgb.ring.ring import BIT


@dataclass(frozen=True, slots=True, eq=False)
class Fractions:
    """Candidates: numerators and positive denominators as one secret (2, ..., n), and tags (..., n)."""

    value: Secret
    tag: Secret

    @property
    def numerator(self) -> Secret:
        """A, of shape (..., n)."""
        return self.value[0]

    @property
    def denominator(self) -> Secret:
        """B, of shape (..., n)."""
        return self.value[1]


def fractions(numerator: Secret, denominator: Secret, tag: Secret) -> Fractions:
    """Return candidates from numerators, positive denominators and tags, each (..., n)."""
    return Fractions(stack([numerator, denominator]), tag)


def argmax(party: Party, candidates: Fractions, fan_in: int = 4) -> Fractions:
    """Return the largest of the candidates (..., n) for each tournament of the batch: (...), the lower index at a tie.

    Per stage, in groups of `fan_in` neighbours (2 or 4):

    1. For all pairs of a group, open A_1 B_2 - A_2 B_1 under a mask.
    2. Compare; 3. open the answers as bits.
    4. Select A, B and tag of the candidate that wins all its pairs.

    Rounds: 4 per stage, ceil(log_fan_in n) stages. Reveals: nothing.
    """
    if fan_in not in (2, 4):
        raise UserError(f"a tournament has fan-in 2 or 4, not {fan_in}")
    if candidates.tag.shape[-1] < 1:
        raise UserError("a tournament needs at least one candidate")
    value, tag = candidates.value, candidates.tag
    with party.phase("argmax"):
        while tag.shape[-1] > 1:
            value, tag = _stage(party, value, tag, fan_in if tag.shape[-1] > 2 else 2)
    return Fractions(value[..., 0], tag[..., 0])


def _stage(party: Party, value: Secret, tag: Secret, size: int) -> tuple[Secret, Secret]:
    """Play one stage: n candidates become ceil(n / size)."""
    value, tag = _grouped(value, size), _grouped(tag, size)
    pairs = np.array(list(combinations(range(size), 2)), np.int64)
    later_wins = open_bit(party, negative(party, _differences(party, value, pairs))).secret
    bits = _winning_bits(later_wins, pairs.tolist(), size)
    value, tag = sums_of_bit_products(
        party,
        [BitProduct(bits, x[..., 1:] - x[..., :1], x[..., 0], axis=-1) for x in (value, tag)],
        name="select winners",
    )
    return value, tag


def _differences(party: Party, value: Secret, pairs: I64) -> Secret:
    """Return A_i B_j - A_j B_i for all pairs (i, j) of every group: (2, ..., groups, size) to (..., groups, pairs).

    A sum of two products (see `sum_of_products`), whose local part one kernel computes for all pairs at once.
    """
    party.step("differences")
    shape = (*value.shape[1:-1], len(pairs))
    party.meter.now.products += 2 * prod(shape)

    def local(masked: RingArray, constant: int) -> RingArray:
        words = value.ring.words
        out = np.empty((prod(shape[:-1]), len(pairs), words), np.uint64)
        members = (2, prod(value.shape[1:]), words)
        kernels.cross_differences(
            pairs, masked.words().reshape(members), value.mask.words().reshape(members), constant, out
        )
        return RingArray.from_words(value.ring, shape, out)

    (full,) = party.deal([(value.ring, shape)], lambda: [local(value.mask, -1)])
    if party.is_coordinator:
        return open_masked(party, Shares(RingArray.hidden(value.ring, shape)))
    return open_masked(party, Shares(local(value.masked, int(party.is_active)) + full))


def _winning_bits(later_wins: Secret, pairs: list[list[int]], size: int) -> tuple[Bit, ...]:
    """Return, along the last axis, for each member but the first its size - 1 bits, all 1 if it wins the group."""
    bits = []
    for rival in range(size - 1):
        places, flips = [], []
        for member in range(1, size):
            other = rival if rival < member else rival + 1
            places.append(pairs.index(sorted([member, other])))
            flips.append(int(other > member))  # the member is the earlier of the pair: it wins where the later does not
        bits.append(Bit(later_wins[..., np.array(places)] + RingArray.encode(BIT, flips)))
    return tuple(bits)


def _grouped(x: Secret, size: int) -> Secret:
    """Return (..., n) as (..., groups, size), the last group filled with copies of the last candidate.

    A copy ties with its original, so it never wins against it.
    """
    missing = -x.shape[-1] % size
    if missing:
        x = concatenate([x, *[x[..., -1:]] * missing])
    return x.reshape(*x.shape[:-1], x.shape[-1] // size, size)
