"""Comparisons on bits: as `compare`, a few rounds more and a fraction of the bytes.

Both numbers are cut into digits of four bits. The coordinator deals each digit of its number as one-hot *bits*, XOR
shared, in which everyone looks up its shares of "equal" and "less" at the public digit. Neighbouring digits then become
one: less = XOR_i less_i prod_{j above i} equal_j, equal = prod_i equal_i, polynomials of bits opened under fresh masks.
When one digit is left, its "less" is the answer. All of it is computed on planes, 64 comparisons and more at a time.

The last group may go on: what is wanted is often a product of the answer with other bits, or of two answers, and a
polynomial of more variables takes no more rounds.

One-hot tables: Ishai, Kushilevitz, Meldgaard, Orlandi, Paskin-Cherniavsky, "On the Power of Correlated Randomness in
Secure Computation" (TCC 2013).

Polynomials of any degree take one round. A masked bit is b = m ^ rho. Of a product of bits, expanded over subsets of
masks, the public bits are known and the products of masks are dealt, so a polynomial of opened bits is a local
combination of dealt bits (ABY2.0's products of many factors, over bits: Patra, Schneider, Suresh, Yalame, USENIX
Security 2021). With rows c_S, at first the shares of the product of masks over S, the step c_S ^= m_v & c_{S - v},
taken for one variable after the other, leaves the shares of the product of bits over S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from itertools import accumulate, chain, islice, pairwise, repeat, zip_longest
from math import prod

import numpy as np

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party.party import Party, Spec
from mpfedxgb.protocols.opening import Clip, Pending, SideBySide, Steps, open_pending
from mpfedxgb.protocols.secret import Secret, Shares
from mpfedxgb.ring.array import RingArray, low_bits
from mpfedxgb.ring.kernels import I64, U8, U64
from mpfedxgb.ring.planes import (
    as_octets,
    as_words,
    evaluate_planes,
    look_up_digits,
    multiply_planes,
    octets_of,
    one_hot_planes,
    plane_bits,
    planes_of,
    words_of,
)
from mpfedxgb.ring.ring import BIT, PACKED

Terms = Sequence[int]
"""A sum of products: each is the set of its variables, as a number with their bits set (0 is the constant 1)."""


@dataclass(frozen=True, slots=True, eq=False)
class Polynomials:
    """Several sums of products over the same masked bits: how many, what is dealt for them, and how they are had."""

    variables: int
    outputs: int
    recipe: I64
    program: I64
    sums: I64

    @property
    def dealt(self) -> int:
        """Number of products of masks, in planes."""
        return len(self.recipe)

    def products(self, masks: U8) -> U8:
        """Return what the coordinator deals, from the masks (variables, B) to (dealt, B)."""
        out = np.empty((self.dealt, words_of(masks.shape[1])), np.uint64)
        multiply_planes(as_words(masks), self.recipe, out)
        return as_octets(out, masks.shape[1])

    def evaluate(self, public_share: int, masks: U8, dealt: U8, opened: U8) -> U8:
        """Return one role's shares of the sums (outputs, B); public_share is its share of public terms, 1 or 0.

        masks (variables, B), dealt (dealt, B) and opened (variables, B) as they come from streams and frames.
        """
        first = np.full((1, masks.shape[1]), 255 * public_share, np.uint8)
        rows = as_words(first, masks, dealt)
        out = np.zeros((self.outputs, rows.shape[1]), np.uint64)
        evaluate_planes(rows, as_words(opened), self.program, self.sums, out)
        return as_octets(out, masks.shape[1])


def polynomials(variables: int, outputs: Sequence[Terms]) -> Polynomials:
    """Lay out the sums of products of some masked bits.

    Rows are the constant, the variables, and the products of two or more masks that the program needs.
    """
    needed = {term for terms in outputs for term in terms}
    waiting: list[list[int]] = [[] for _ in range(variables + 1)]  # sets by the next variable that is taken out, plus 1
    for s in needed:
        waiting[s.bit_length()].append(s)
    steps: list[tuple[list[int], list[int], int]] = []
    for v in reversed(range(variables)):  # from the last line back: what a row needs, has to be there
        bit, below = 1 << v, (1 << v) - 1
        with_v = sorted(waiting[v + 1])
        without = [s ^ bit for s in with_v]
        found = [s for s in without if s not in needed]
        needed.update(found)
        for s in chain(with_v, found):
            waiting[(s & below).bit_length()].append(s)
        steps.append((with_v, without, v))
    by_size: list[list[int]] = [[] for _ in range(variables + 1)]
    for s in sorted(needed):
        by_size[s.bit_count()].append(s)
    products = [*chain(*by_size[2:])]
    rows = {0: 0} | {1 << v: 1 + v for v in range(variables)}
    rows |= {s: 1 + variables + k for k, s in enumerate(products)}
    highest = [s.bit_length() - 1 for s in products]
    lower = [rows[s ^ (1 << v)] for s, v in zip(products, highest, strict=True)]
    row = rows.__getitem__
    lines = (zip(map(row, some), map(row, rest), repeat(v)) for some, rest, v in reversed(steps))
    return Polynomials(
        variables,
        len(outputs),
        _table(zip(lower, highest, strict=True), 2),
        _table(chain.from_iterable(lines), 3),
        _table(((o, rows[term]) for o, terms in enumerate(outputs) for term in terms), 2),
    )


def _table(lines: Iterable[tuple[int, ...]], width: int) -> I64:
    return np.fromiter(chain.from_iterable(lines), np.int64).reshape(-1, width)


DIGIT = 4
"""Bits per digit: with three, the tables shrink by less than the groups grow."""

MOST_IN_A_GROUP = 10
"""Digits that become one at a time; what is dealt for a group doubles with every digit."""


class Ending(Enum):
    """What the last group makes of the answer l = [x < 0] (see `_last`).

    Its values are how many numbers are compared (`sides`), and of how many other bits, opened before (`gates`).
    """

    SIGN = (1, 0)
    """l itself."""

    BEATS = (1, 2)
    """With a, b = "the first, the second of a pair is valid": whether the second wins, and whether the first does."""

    NEITHER = (2, 0)
    """Of two numbers, whether none is negative."""

    NEITHER_AND = (2, 1)
    """The same, times another bit."""

    AND = (1, 1)
    """l times another bit."""

    def __init__(self, sides: int, gates: int) -> None:
        self.sides = sides
        self.gates = gates


@dataclass(frozen=True, slots=True, eq=False)
class Sign:
    """Asks where x < 0, for |x| < 2^(bits - 1): only the lowest `bits` bits are looked at."""

    x: Secret
    bits: int

    def __post_init__(self) -> None:
        """Refuse numbers that have no sign, or more bits than their ring."""
        if not 2 <= self.bits <= self.x.ring.bits:
            text = f"Sign(bits={self.bits}): must be 2 to {self.x.ring.bits} in {self.x.ring}"
            raise DoesNotFitError(text, parameter="bits", value=self.bits)


@dataclass(frozen=True, slots=True, eq=False)
class Borrow:
    """Asks where the low `bits` bits of x's masked value are less than those of its mask: subtracting them borrows."""

    x: Secret
    bits: int

    def __post_init__(self) -> None:
        """Refuse low bits that are all bits, or none."""
        if not 1 <= self.bits < self.x.ring.bits:
            most = self.x.ring.bits - 1
            text = f"a borrow is one of the lowest 1 to {most} bits of {self.x.ring}, not {self.bits}"
            raise DoesNotFitError(text, parameter="bits", value=self.bits)


@dataclass(frozen=True, slots=True, eq=False)
class Gated:
    """Asks what an ending makes of the signs of x, (sides, ...), |x| < 2^(bits - 1), and of other opened bits (...)."""

    x: Secret
    bits: int
    ending: Ending
    gates: tuple[Secret, ...] = ()


def negative_by_bits(party: Party, x: Secret, bits: int, rounds: int = 2, digit: int = DIGIT) -> Shares:
    """Return shared bits, 1 where x < 0, for |x| < 2^(bits - 1) (see `compare_together`)."""
    return compare_together(party, [Sign(x, bits)], rounds, digit)[0]


def compare_together(
    party: Party, comparisons: Sequence[Sign | Borrow | Gated], rounds: int = 2, digit: int = DIGIT
) -> list[Shares]:
    """Return the answers to comparisons of any widths and shapes, as shared bits, all in the same rounds.

    1. The coordinator deals the one-hot digits of a mask's lowest bits, its next bit, and for every group of digits the
       products of the group's fresh masks. Everyone looks up its shares at the public digits.
    2. In every round, all "less" and "equal" that are left are opened under their masks, and groups become one.

    With m = x + r: the top bit of x is top(m) ^ top(r) ^ [low(m) < low(r)]; the tops are added to the first "less". A
    borrow is the sign of a number whose tops are 0.

    Rounds: at most `rounds`. Sent: two bits per digit, and then per group of digits, by
    each auxiliary. Reveals: nothing.
    """
    comparing = Comparing(party, comparisons, rounds, digit)
    while pending := comparing.pending():
        open_pending(party, pending)
    return comparing.answers()


class Comparing:
    """`compare_together` in the making: its openings may travel with others. Rounds: 0."""

    def __init__(
        self, party: Party, comparisons: Sequence[Sign | Borrow | Gated], rounds: int = 2, digit: int = DIGIT
    ) -> None:
        party.step("compare")
        asked = [_as_gated(comparison) for comparison in comparisons]
        self._shapes = [one.x.shape[1:] for one in asked]
        counts = [prod(shape) for shape in self._shapes]
        party.count(comparisons=sum(count * one.ending.sides for count, one in zip(counts, asked, strict=True)))
        self._layouts = [bit_signs(one.bits, rounds, digit, one.ending) for one in asked]
        layouts = [*zip(self._layouts, counts, strict=True)]
        flat = [one.x.reshape(one.ending.sides, count) for one, count in zip(asked, counts, strict=True)]
        fresh, dealt = [one.fresh(count) for one, count in layouts], [one.dealt(count) for one, count in layouts]

        def deal(masks: list[RingArray]) -> list[RingArray]:
            parts = zip(self._layouts, flat, _regrouped(masks, fresh), asked, strict=True)
            return [*chain(*(one.deal(x.mask, own, _gate_masks(each)) for one, x, own, each in parts))]

        masks, products = party.prepare([*chain(*fresh)], [*chain(*dealt)], deal)
        self._symbolic = party.is_symbolic
        self._left = [*zip_longest(*(one.opened(count) for one, count in layouts), fillvalue=())]
        if not self._symbolic:
            parts = zip(self._layouts, flat, _regrouped(masks, fresh), _regrouped(products, dealt), asked, strict=True)
            self._steps = SideBySide(
                [
                    one.steps(party.public_share, x.masked, own, theirs, partial(_gates, each) if each.gates else None)
                    for one, x, own, theirs, each in parts
                ]
            )

    def pending(self) -> list[Pending[None]]:
        """Return what the next round has to open; nothing when the answers are there."""
        if not self._symbolic:
            return self._steps.pending()
        specs = [*chain(*self._left.pop(0))] if self._left else []
        return [Pending(RingArray.hidden(*spec), _ignore) for spec in specs]

    def answers(self) -> list[Shares]:
        """Return the answers, in the order of the comparisons; of endings with several, the last axis has them."""
        if self._symbolic:
            return [Shares(RingArray.hidden(BIT, shape)) for shape in self._shapes]
        planes = [self._steps.results[i][0] for i in range(len(self._shapes))]
        bits = zip(planes, self._shapes, strict=True)
        return [Shares(RingArray(BIT, plane_bits(plane, prod(shape)).reshape(shape))) for plane, shape in bits]


def _ignore(total: RingArray) -> None:
    """Take nothing of what is opened: this role follows shapes."""


def _as_gated(comparison: Sign | Borrow | Gated) -> Gated:
    """Return signs as they are; a borrow as the sign of a number of one bit more.

    Of the mask of that number, only the coordinator has low bits.
    """
    if isinstance(comparison, Gated):
        return comparison
    x, bits = comparison.x, comparison.bits
    if isinstance(comparison, Borrow):
        x, bits = Secret(low_bits(x.masked, bits), low_bits(x.mask, bits)), bits + 1
    return Gated(x.reshape(1, *x.shape), bits, Ending.SIGN)


def _gate_masks(asked: Gated) -> U8 | None:
    return bit_planes([gate.mask for gate in asked.gates]) if asked.gates else None


def _gates(asked: Gated) -> tuple[U8, U8]:
    return bit_planes([gate.mask for gate in asked.gates]), bit_planes([gate.masked for gate in asked.gates])


def bit_planes(bits: Sequence[RingArray]) -> U8:
    """Return arrays of bits of any shape as planes, one each."""
    return np.stack([np.packbits(one.data.reshape(-1), bitorder="little") for one in bits])


def _regrouped(arrays: Sequence[RingArray], groups: Sequence[Sequence[Spec]]) -> list[list[RingArray]]:
    """Return arrays in groups, as many to each as it has specs."""
    rest = iter(arrays)
    return [list(islice(rest, len(group))) for group in groups]


Grouping = tuple[tuple[int, ...], ...]
"""Per round, how many digits each group has, from the top."""


@dataclass(frozen=True, slots=True, eq=False)
class BitSigns:
    """The signs of numbers of `bits` bits, as a part of a larger step: sizes, and local parts.

    Dealt are the tables, the flip of the answer and the products of each level; those of the last level, in which
    several numbers may meet, by themselves.
    """

    bits: int
    digit: int
    ending: Ending
    grouping: Grouping
    tables: int
    opens: str = "bits"
    clip: Clip | None = None

    @property
    def rounds(self) -> int:
        """Rounds that it takes."""
        return len(self.grouping)

    @property
    def levels(self) -> tuple[Polynomials, ...]:
        """What each round makes of its groups. Sizes are known without them, so that plans need not lay them out."""
        return (*map(_level, self.grouping[:-1]), *(_last(digits, self.ending) for (digits,) in self.grouping[-1:]))

    @property
    def mask_places(self) -> list[int]:
        """Where each level's masks begin; the last level's are those of one number."""
        return list(accumulate((2 * sum(level) - 1 for level in self.grouping), initial=0))

    @property
    def dealt_places(self) -> list[int]:
        """Where each level's products begin, but for the last."""
        return list(accumulate(map(_products_of_level, self.grouping[:-1]), initial=self.tables + 1))

    def fresh(self, count: int) -> list[Spec]:
        """Return what is drawn for `count` answers."""
        return [(PACKED, (self.mask_places[-1], self.ending.sides * octets_of(count)))]

    def opened(self, count: int) -> list[list[Spec]]:
        """Return what each round opens for `count` answers."""
        width, places = self.ending.sides * octets_of(count), self.mask_places
        return [[(PACKED, (stop - start, width))] for start, stop in pairwise(places)]

    def dealt(self, count: int) -> list[Spec]:
        """Return what is dealt for `count` answers."""
        octets = octets_of(count)
        specs = [(PACKED, (self.dealt_places[-1], self.ending.sides * octets))]
        return [
            *specs,
            *((PACKED, (_products_at_last(digits, self.ending), octets)) for (digits,) in self.grouping[-1:]),
        ]

    def deal(self, mask: RingArray, fresh: Sequence[RingArray], gates: U8 | None = None) -> list[RingArray]:
        """Return what the coordinator deals, from the masks of the numbers (sides, count), and of the other bits."""
        number, masks, places = self._planes(mask), fresh[0].data, self.mask_places
        tables = np.empty((self.tables + 1, number.shape[1]), np.uint64)
        one_hot_planes(number[: self.bits - 1], self.digit, tables[: self.tables])
        tables[self.tables] = number[self.bits - 1]
        out, last = np.empty((self.dealt_places[-1], masks.shape[1]), np.uint8), []
        out[: len(tables)] = tables.view(np.uint8)[:, : masks.shape[1]]
        for k, level in enumerate(self.levels):
            factors = masks[places[k] : places[k + 1]]
            if k < len(self.levels) - 1:
                low, high = self.dealt_places[k : k + 2]
                out[low:high] = level.products(factors)
            else:
                last.append(RingArray(PACKED, level.products(self._meeting(factors, gates))))
        return [RingArray(PACKED, out), *last]

    def steps(
        self,
        public_share: int,
        masked: RingArray,
        fresh: Sequence[RingArray],
        dealt: Sequence[RingArray],
        gates: Callable[[], tuple[U8, U8]] | None = None,
    ) -> Steps:
        """Yield what has to be opened, take it opened, and return this participant's shares as planes (outputs, B).

        `gates` gives the shares of the other bits' masks, and these bits as they were opened, when they are needed.
        """
        masks, products, places = fresh[0].data, dealt[0].data, self.mask_places
        shares = as_octets(self._look_up(public_share, self._planes(masked), products), masks.shape[1])
        for k, level in enumerate(self.levels):
            mask = masks[places[k] : places[k + 1]]
            total = yield RingArray(PACKED, shares ^ mask), None
            opened = total.data
            if k < len(self.levels) - 1:
                low, high = self.dealt_places[k : k + 2]
                shares = level.evaluate(public_share, mask, products[low:high], opened)
                continue
            gate_masks, gate_bits = (None, None) if gates is None else gates()
            mask, opened = self._meeting(mask, gate_masks), self._meeting(opened, gate_bits)
            shares = level.evaluate(public_share, mask, dealt[1].data, opened)
        return shares

    def _planes(self, numbers: RingArray) -> U64:
        """Return the numbers (sides, count) as planes of their bits, the sides one after the other in every plane."""
        if self.ending.sides == 1:
            return planes_of(numbers, self.bits)
        octets = octets_of(numbers.shape[1])
        sides = [as_octets(planes_of(numbers[i], self.bits), octets) for i in range(self.ending.sides)]
        return as_words(np.concatenate(sides, axis=1))

    def _look_up(self, public_share: int, number: U64, dealt: U8) -> U64:
        """Return shares of "less" and "equal" at the digits of the public number, the first "less" flipped."""
        out = np.empty((2 * -(-(self.bits - 1) // self.digit) - 1, number.shape[1]), np.uint64)
        tables = as_words(dealt[: self.tables + 1])
        look_up_digits(number[: self.bits - 1], tables[: self.tables], self.digit, out)
        out[0] ^= tables[self.tables]
        if public_share:
            out[0] ^= number[self.bits - 1]
        return out

    def _meeting(self, planes: U8, gates: U8 | None) -> U8:
        """Return the planes of the last level: those of one number below the other's, and then the other bits."""
        octets = planes.shape[1] // self.ending.sides
        sides = [planes[:, i * octets : (i + 1) * octets] for i in range(self.ending.sides)]
        return np.concatenate(sides if gates is None else [*sides, gates])


@lru_cache(maxsize=256)
def bit_signs(bits: int, rounds: int, digit: int = DIGIT, ending: Ending = Ending.SIGN) -> BitSigns:
    """Return the cheapest layout for the signs of numbers of `bits` bits in at most `rounds` rounds."""
    if bits < 2 or rounds < 1:
        raise DoesNotFitError(
            f"a sign has 2 bits and 1 round or more, not {bits} and {rounds}", parameter="bits", value=bits
        )
    sizes = grouping(-(-(bits - 1) // digit), rounds, ending)
    if sizes is None:
        text = (
            f"numbers of {bits} bits are not compared in {rounds} rounds, with {MOST_IN_A_GROUP} digits to a group; "
            "give more rounds"
        )
        raise DoesNotFitError(text, parameter="rounds", value=rounds)
    tables = sum(1 << min(digit, bits - 1 - low) for low in range(0, bits - 1, digit))
    return BitSigns(bits, digit, ending, sizes, tables)


def grouping(digits: int, rounds: int, ending: Ending = Ending.SIGN) -> Grouping | None:
    """Return the groups for which least is dealt; None if so few rounds are not enough."""
    found = _cheapest(digits, rounds, ending)
    return None if found is None else found[1]


@lru_cache(maxsize=4096)
def _cheapest(digits: int, rounds: int, ending: Ending) -> tuple[float, Grouping] | None:
    """Return what is dealt for the cheapest groups, about, and these."""
    if digits == 1 and ending is Ending.SIGN:
        return 0.0, ()
    if rounds == 0:
        return None
    best: tuple[float, Grouping] | None = None
    if digits <= MOST_IN_A_GROUP:
        best = _cost_of_last(digits, ending), ((digits,),)
    for groups in range(max(2, -(-digits // MOST_IN_A_GROUP)), min(digits - 1, MOST_IN_A_GROUP ** (rounds - 1)) + 1):
        rest = _cheapest(groups, rounds - 1, ending)
        if rest is not None:
            size, larger = divmod(digits, groups)
            level = (size,) * (groups - larger) + (size + 1,) * larger
            cost = _products_of_level(level) + rest[0]
            if best is None or cost < best[0]:
                best = cost, (level, *rest[1])
    return best


def _products_of_level(level: tuple[int, ...]) -> int:
    """Return the products dealt for a level's groups, given their digits; the lowest has no "equal" to pass on."""
    *upper, last = level
    return sum(2 * ((1 << g) - 1 - g) for g in upper) + (1 << last) - 1 - last + (1 << (last - 1)) - last


def _cost_of_last(digits: int, ending: Ending) -> float:
    """Return about how many products are dealt for the last group, for each number that is compared."""
    return _sets_of_last(digits, ending) / ending.sides


def _products_at_last(digits: int, ending: Ending) -> int:
    """Return the products dealt for the last group: of sets of masks, but for the empty one and single masks."""
    return _sets_of_last(digits, ending) - 1 - ((2 * digits - 1) * ending.sides + ending.gates)


def _sets_of_last(digits: int, ending: Ending) -> int:
    """Return how many sets of masks have a product that the answer needs."""
    of_one: int = 2 ** (digits - 1) + 2**digits - 1
    return int(of_one**ending.sides * 2**ending.gates)


def _less(digits: range) -> list[int]:
    """Return "less" of neighbouring digits as terms; variable 2 i is "less" of digit i, and 2 i + 1 its "equal"."""
    terms, above = [], 0
    for i in digits:
        terms.append(above | 1 << (2 * i))
        above |= 1 << (2 * i + 1)
    return terms


@lru_cache(maxsize=256)
def _level(sizes: tuple[int, ...]) -> Polynomials:
    """Return "less" and "equal" of groups of digits."""
    outputs, first, digits = [], 0, sum(sizes)
    for size in sizes:
        group = range(first, first + size)
        outputs.append(_less(group))
        first += size
        if first < digits:
            outputs.append([sum(1 << (2 * i + 1) for i in group)])
    return polynomials(2 * digits - 1, outputs)


@lru_cache(maxsize=256)
def _last(digits: int, ending: Ending) -> Polynomials:
    """Return what the last group comes to: the answer l, or what is made of it.

    A pair's second wins if b (l or not a) = b ^ a b ^ a b l, its first if a (not l or not b) = a ^ a b l. Where none of
    two numbers is negative: (1 ^ l)(1 ^ l').
    """
    variables, less = 2 * digits - 1, _less(range(digits))
    if ending is Ending.SIGN:
        return polynomials(variables, [less])
    if ending is Ending.AND:
        return polynomials(variables + 1, [[term | 1 << variables for term in less]])
    if ending is Ending.BEATS:
        a, b = 1 << variables, 2 << variables
        larger = [a | b | term for term in less]
        return polynomials(variables + 2, [[b, a | b, *larger], [a, *larger]])
    other = [term << variables for term in less]
    gate = 1 << (2 * variables) if ending is Ending.NEITHER_AND else 0
    neither = [one | two | gate for one in (0, *less) for two in (0, *other)]
    return polynomials(2 * variables + ending.gates, [neither])
