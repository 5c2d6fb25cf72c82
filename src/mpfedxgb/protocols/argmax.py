"""SecureArgmax without division: an oblivious tournament over fractions A / B (section 4.3, Eq. 6-7 by one sign).

Candidate 2 beats candidate 1 if A_1 B_2 - A_2 B_1 < 0, for positive B; a tie goes to the lower index. Winners stay
secret: their A, B and tag are selected by hidden bits. A candidate may be invalid, which a hidden bit tells: it wins
against nobody, and where a group has no other, nobody's -1 / 1 goes on in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeVar

import numpy as np

from mpfedxgb.errors import UserError
from mpfedxgb.party.party import Party
from mpfedxgb.protocols.compare import ByteSigns
from mpfedxgb.protocols.opening import follow_openings, open_shares, open_steps
from mpfedxgb.protocols.plan import Layout, Named, Stage, winner_bits
from mpfedxgb.protocols.secret import Secret, Shares, concatenate, concatenate_shares, stack, to_shares
from mpfedxgb.ring.array import RingArray
from mpfedxgb.ring.kernels import U8
from mpfedxgb.ring.planes import plane_bits
from mpfedxgb.ring.ring import BIT, PACKED
from mpfedxgb.ring.row_kernels import MASKS_ONLY, choose_members, chosen_masks, cross_differences


@dataclass(frozen=True, slots=True, eq=False)
class Fractions:
    """Candidates: numerators and positive denominators as one secret (2, ..., n), and tags (..., n).

    `bits` bounds A_1 B_2 - A_2 B_1 of any two, sign included; None stands for the ring's. `valid` are shared bits
    (..., n), or None where all are; where some may not be, numerators of valid ones, of which every tournament has one,
    are not negative, unless they are `signed`.
    """

    value: Secret
    tag: Secret
    bits: int | None = None
    valid: Shares | None = None
    signed: bool = False


def fractions(numerator: Secret, denominator: Secret, tag: Secret) -> Fractions:
    """Return candidates from numerators, positive denominators and tags, each (..., n)."""
    return Fractions(stack([numerator, denominator]), tag)


def argmax(party: Party, candidates: Fractions, stages: Sequence[Stage]) -> Fractions:
    """Return the largest of the candidates (..., n) for each tournament of the batch: (...), the lower index at a tie.

    Per stage, in groups of neighbours; the coordinator deals all that the stage needs at once:

    1. For all pairs of a group, open A_1 B_2 - A_2 B_1 under a mask, and in the first stage who is valid.
    2. Compare. On bits, who is valid is taken into account by the last round of the comparison.
    3. Open the answers under masks; in groups of more than two, also their products, of which one is 1: the winner's.
    4. Select A, B and tag of the winner.

    Rounds: 3 and those of the comparison per stage, and 1 more where groups have more than two. Reveals: nothing.
    """
    with party.phase("argmax"):
        rest = _play(party, candidates, _needed(candidates, stages))
    return Fractions(rest.value[..., 0], rest.tag[..., 0], rest.bits)


def winning_tags(party: Party, candidates: Fractions, stages: Sequence[Stage]) -> Shares:
    """Return shares of the winners' tags (...), to be revealed: as `argmax`, whose last selection is not opened.

    Rounds: as `argmax`, less 1. Reveals: nothing.
    """
    with party.phase("argmax"):
        needed = _needed(candidates, stages)
        if not needed:
            return to_shares(party, candidates.tag[..., 0])
        rest = _play(party, candidates, needed[:-1])
        last = _Play(party, rest, needed[-1], keeps_value=False)
        return last.select_shares(last.winners())


def _play(party: Party, candidates: Fractions, stages: Sequence[Stage]) -> Fractions:
    """Return what is left after some stages."""
    for stage in stages:
        play = _Play(party, candidates, stage)
        value, tag = play.select(play.winners())
        candidates = Fractions(value, tag, candidates.bits, signed=candidates.signed)
    return candidates


def _needed(candidates: Fractions, stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages that are needed to leave one candidate; refuse a tournament that they do not finish."""
    left, needed = candidates.tag.shape[-1], list[Stage]()
    if left < 1:
        raise UserError("a tournament needs at least one candidate", "few", "candidates", 0)
    if candidates.valid is not None and stages and stages[0].rounds == 1:
        text = "who is valid is taken into account on bits; compare in two rounds or more in the first stage"
        raise UserError(text, "range", "rounds")
    for stage in stages:
        if left > 1:
            needed.append(stage)
            left = -(-left // stage.size)
    if left > 1:
        text = f"{candidates.tag.shape[-1]} candidates are not played out in these stages; add some"
        raise UserError(text, "range", "stages", candidates.tag.shape[-1])
    return needed


class _Play:
    """One stage in the making: its layout, what was drawn and dealt for it, and its rounds."""

    def __init__(self, party: Party, candidates: Fractions, stage: Stage, keeps_value: bool = True) -> None:
        value, tag, valid = candidates.value, candidates.tag, candidates.valid
        size = min(stage.size, tag.shape[-1])
        self.party = party
        # What is less than all: of numerators of any sign -1 / 0, which no fraction is below, but another one of these.
        self.neutral = (-1, 0) if candidates.signed else (-1, 1)
        self.value, self.tag = _grouped(value, size, concatenate), _grouped(tag, size, concatenate)
        self.valid = None if valid is None else _grouped(valid, size, concatenate_shares)
        self.shape = self.tag.shape[:-1]
        bits = value.ring.bits if candidates.bits is None else candidates.bits
        self.layout = Layout(
            prod(self.shape), size, stage.rounds, value.ring, tag.ring, bits, valid is not None, keeps_value
        )
        self.pairs = np.array(self.layout.pairs, np.int64)
        self.groups, self.size = self.layout.groups, size
        party.step("stage")
        fresh, dealt = self.layout.fresh(), self.layout.dealt()
        masks, shares = party.prepare([spec for _, spec in fresh], [spec for _, spec in dealt], self._deal)
        self.masks, self.dealt = _named(fresh, masks), _named(dealt, shares)
        party.count(products=2 * self.layout.comparisons, comparisons=self.layout.comparisons)

    def _deal(self, drawn: list[RingArray]) -> list[RingArray]:
        """Return what the coordinator deals, from the masks of the candidates and the fresh ones."""
        masks = _named(self.layout.fresh(), drawn)
        (differences,), count = masks["differences"], self.layout.comparisons
        dealt = [self._differences(self.value.mask, MASKS_ONLY, RingArray.zeros(self.value.ring, (count,)))]
        winners = masks["winners" if self.layout.has_winner_bits else "answers"]
        bits = plane_bits(winners[0].data, self.groups)
        dealt.append(RingArray(BIT, np.ascontiguousarray(bits.T)).cast(self.layout.gate_ring))
        if self.layout.keeps_value:
            dealt.append(self._chosen_masks(bits, self.value.mask, 2))
        dealt.append(self._chosen_masks(bits, self.tag.mask, 1))
        if isinstance(signs := self.layout.signs, ByteSigns):
            dealt += signs.deal(differences, masks["signs"])
        else:
            gates = None if self.valid is None else self._of_pairs(masks["valid"][0].data)
            dealt += signs.deal(differences.reshape(1, count), masks["signs"], gates)
        if self.layout.has_winner_bits:
            products = winner_bits(self.size, self.valid is not None)
            dealt.append(RingArray(PACKED, products.products(np.concatenate(self._mask_factors(masks)))))
        return dealt

    def _differences(self, masked: RingArray, public_share: int, start: RingArray) -> RingArray:
        words = self.value.ring.words
        members = (2, self.groups * self.size, words)
        out = start.words().reshape(self.groups, len(self.pairs), words)
        out = np.array(out) if not out.flags.writeable else out
        mask = self.value.mask.words().reshape(members)
        cross_differences(self.pairs, masked.words().reshape(members), mask, public_share, out)
        return RingArray.from_words(self.value.ring, (self.layout.comparisons,), out)

    def _chosen_masks(self, bits: U8, mask: RingArray, count: int) -> RingArray:
        words = mask.ring.words
        out = np.empty((count, self.groups, self.layout.chosen, words), np.uint64)
        chosen_masks(bits, mask.words().reshape(count, self.groups * self.size, words), out)
        return RingArray.from_words(mask.ring, out.shape[:3] if count > 1 else out.shape[1:3], out)

    def _of_pairs(self, valid: U8) -> U8:
        """Return, as two planes over all pairs, the bits of the first and the second of each pair."""
        bits = plane_bits(valid[0], self.groups * self.size).reshape(self.groups, self.size)
        both = np.stack([bits[:, self.pairs[:, side]].reshape(-1) for side in (0, 1)])
        return np.packbits(both, axis=1, bitorder="little")

    def _factors(self, answers: U8, turned: U8, valid: U8 | None) -> tuple[U8, ...]:
        """Return the variables of the winners' products: answers, the same turned over, whether the first is valid."""
        if valid is None:
            return answers, turned
        first = plane_bits(valid[0], self.groups * self.size).reshape(self.groups, self.size)[:, 0]
        return answers, turned, np.packbits(first, bitorder="little").reshape(1, -1)

    def _mask_factors(self, masks: dict[str, list[RingArray]]) -> tuple[U8, ...]:
        """Return the masks of these variables; turning a bit over changes what is public, not its mask."""
        (answers,) = masks["answers"]
        return self._factors(answers.data, answers.data, None if self.valid is None else masks["valid"][0].data)

    def winners(self) -> U8 | None:
        """Play up to the opened bits (w, groups) of the winners; None at the coordinator.

        Rounds: 2 and those of the comparison, and 1 more in groups of more than two.
        """
        party, public_share = self.party, self.party.public_share
        if party.is_symbolic:
            openings = self.layout.opened()
            follow_openings(party, openings[:-1] if self.layout.keeps_value else openings)
            return None
        (mask,), (dealt,) = self.masks["differences"], self.dealt["differences"]
        parts = [self._differences(self.value.masked, public_share, dealt + mask)]
        if self.valid is not None:
            packed = np.packbits(self.valid.part.data.reshape(1, -1), axis=1, bitorder="little")
            parts.append(RingArray(PACKED, packed) + self.masks["valid"][0])
        opened = open_shares(party, parts)
        valid = opened[1].data if self.valid is not None else None
        signs = self._signs(public_share, opened[0], valid)
        shares = self._by_group(signs)
        (answers,) = open_shares(party, [RingArray(PACKED, shares) + self.masks["answers"][0]], what="answers")
        if not self.layout.has_winner_bits:
            return plane_bits(answers.data, self.groups)
        masks = np.concatenate(self._mask_factors(self.masks))
        bits = np.concatenate(self._factors(answers.data, answers.data ^ np.uint8(255), valid))
        won = winner_bits(self.size, valid is not None).evaluate(
            public_share, masks, self.dealt["winners"][0].data, bits
        )
        (winners,) = open_shares(party, [RingArray(PACKED, won) + self.masks["winners"][0]], what="winners")
        return plane_bits(winners.data, self.groups)

    def _signs(self, public_share: int, differences: RingArray, valid: U8 | None) -> U8:
        fresh, dealt = self.masks["signs"], self.dealt["signs"]
        if isinstance(signs := self.layout.signs, ByteSigns):
            steps = signs.steps(public_share, differences, fresh, dealt)
        else:
            gates = None
            if valid is not None:
                known = valid

                def gates() -> tuple[U8, U8]:
                    return self._of_pairs(self.masks["valid"][0].data), self._of_pairs(known)

            steps = signs.steps(public_share, differences.reshape(1, self.layout.comparisons), fresh, dealt, gates)
        return open_steps(self.party, steps, signs.opens)

    def _by_group(self, signs: U8) -> U8:
        """Return answers over all pairs (outputs, B) as one plane over the groups for each pair and output."""
        if self.size == 2:
            return signs if self.valid is None else signs[::-1]  # of the first member, and of the second
        bits = plane_bits(signs[0], self.layout.comparisons).reshape(self.groups, len(self.pairs))
        return np.packbits(bits.T, axis=1, bitorder="little")

    def select(self, bits: U8 | None) -> tuple[Secret, Secret]:
        """Return A and B (2, ..., groups) and the tags of the winners. Rounds: 1."""
        party, shape = self.party, self.shape
        (value_mask,), (tag_mask,) = self.masks["value"], self.masks["tag"]
        if bits is None:
            follow_openings(party, self.layout.opened()[-1:])
            value, tag = (RingArray.hidden(mask.ring, mask.shape) for mask in (value_mask, tag_mask))
        else:
            parts = [self._chosen(bits, self.value, self.dealt["value"][0], self.neutral, value_mask)]
            parts.append(self._chosen(bits, self.tag, self.dealt["tag"][0], (0,), tag_mask))
            value, tag = open_shares(party, parts, what="selected")
        party.count(products=3 * self.groups * self.layout.chosen)
        return (
            Secret(value.reshape(2, *shape), value_mask.reshape(2, *shape)),
            Secret(tag.reshape(*shape), tag_mask.reshape(*shape)),
        )

    def select_shares(self, bits: U8 | None) -> Shares:
        """Return shares of the winners' tags (...), of which each tournament has one left. Rounds: 0."""
        self.party.count(products=self.groups * self.layout.chosen)
        start = RingArray.zeros(self.tag.ring, (self.groups,))
        if bits is None:
            return Shares(RingArray.hidden(self.tag.ring, self.shape[:-1]))
        return Shares(self._chosen(bits, self.tag, self.dealt["tag"][0], (0,), start).reshape(*self.shape[:-1]))

    def _chosen(
        self, bits: U8, x: Secret, with_mask: RingArray, neutral: tuple[int, ...], start: RingArray
    ) -> RingArray:
        """Return this participant's share of the chosen members of x, added to `start`."""
        words, count = x.ring.words, len(neutral)
        members = (count, self.groups * self.size, words)
        out = np.array(start.words()).reshape(count, self.groups, words)
        (alone,) = self.dealt["alone"]
        choose_members(
            bits,
            x.masked.words().reshape(members),
            x.mask.words().reshape(members),
            alone.words().reshape(self.groups, self.layout.chosen, alone.ring.words),
            with_mask.words().reshape(count, self.groups, self.layout.chosen, words),
            self.party.public_share,
            np.array(neutral, np.int64),
            out,
        )
        return RingArray.from_words(x.ring, start.shape, out)


T = TypeVar("T", Secret, Shares)


def _grouped(x: T, size: int, join: Callable[[list[T]], T]) -> T:
    """Return (..., n) as (..., groups, size), the last group filled with copies of the last candidate.

    A copy ties with its original, so it never wins against it.
    """
    missing: int = -x.shape[-1] % size
    if missing:
        filled = [x]
        filled.extend([x[..., -1:]] * missing)
        x = join(filled)
    return x.reshape(*x.shape[:-1], x.shape[-1] // size, size)


def _named(specs: Named, arrays: Sequence[RingArray]) -> dict[str, list[RingArray]]:
    """Return arrays by the names of their specs; those of one name stand together."""
    found: dict[str, list[RingArray]] = {}
    for (name, _), array in zip(specs, arrays, strict=True):
        found.setdefault(name, []).append(array)
    return found
