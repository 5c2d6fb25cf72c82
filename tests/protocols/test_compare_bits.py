"""Comparisons on bits against Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.party import Party
from mpfedxgb.protocols import Borrow, Secret, Shares, Sign, compare_together, negative_by_bits, open_masked, to_shares
from mpfedxgb.protocols.compare_bits import MOST_IN_A_GROUP, Ending, bit_signs, grouping
from mpfedxgb.ring import BIT, VECTOR, Ring, RingArray, wide
from support.evaluation import (
    DRAWN,
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    Integers,
    Operand,
    bulk,
    cases,
    enter,
    evaluate,
    evaluate_each,
    extremes,
    integers,
    numbers,
    operand,
    run_patiently,
    same,
)
from support.refusals import refused

ROUNDS = pytest.mark.parametrize("rounds", [2, 3])


def signs(values: Integers) -> Integers:
    """Return 1 where an integer is negative, else 0."""
    return integers([int(v < 0) for v in values.flat], values.shape)


def dealt_bits(bits: int, rounds: int) -> int:
    """Return how many bits are dealt for one sign."""
    return sum(planes for _, (planes, _) in bit_signs(bits, rounds).dealt(8))


@ROUNDS
@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_signs_in_all_rings_and_shapes(participants: int, rounds: int, seed: int) -> None:
    """The sign of every secret is right, scalars and empty arrays included."""
    batch = cases(seed, (*RINGS, *TINY))

    def sign(party: Party, x: Secret) -> Shares:
        return negative_by_bits(party, x, x.ring.bits, rounds)

    for (x,), found in zip(batch, evaluate_each(participants, batch, sign), strict=True):
        same(found, BIT, signs(x.values))


@ROUNDS
@pytest.mark.parametrize("participants", [2, 3, 5])
@pytest.mark.exhaustive
def test_every_width_from_two_bits_to_the_whole_ring(participants: int, rounds: int) -> None:
    """Numbers of any width below the ring's: zero, one, minus one, the ends and numbers of any length between."""
    rng = np.random.default_rng(participants)
    values = [integers([*extremes(w - 1), *bulk(rng, w - 1, (8,))]) for w in range(2, 193)]

    def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
        return [negative_by_bits(party, x, w, rounds) for w, x in enumerate(secrets, 2)]

    found = evaluate(participants, [Operand(wide(3), v) for v in values], compute).values

    for some, answer in zip(values, found, strict=True):
        same(answer, BIT, signs(some))


@pytest.mark.parametrize("digit", [1, 2, 4])
@pytest.mark.parametrize("bits", range(2, 9))
def test_signs_of_a_whole_tiny_ring(bits: int, digit: int) -> None:
    """Every element of a tiny ring, under many masks, has its sign, whatever the digits."""
    values = integers(list(range(-(1 << (bits - 1)), 1 << (bits - 1))) * 40)

    (sign,) = evaluate(
        3, [Operand(Ring(bits), values)], lambda party, xs: [negative_by_bits(party, xs[0], bits, 2, digit)]
    ).values

    same(sign, BIT, signs(values))


@ROUNDS
@given(ring=st.sampled_from(RINGS), data=st.data())
@DRAWN
def test_signs_of_drawn_integers(rounds: int, ring: Ring, data: st.DataObject) -> None:
    """Whatever width and integers are drawn, their signs are found."""
    bits = data.draw(st.integers(2, ring.bits))
    values = integers(data.draw(st.lists(numbers(bits - 1), min_size=1, max_size=150)))

    (sign,) = evaluate(
        3, [Operand(ring, values)], lambda party, xs: [negative_by_bits(party, xs[0], bits, rounds)]
    ).values

    same(sign, BIT, signs(values))


def test_higher_bits_are_not_looked_at() -> None:
    """Of numbers wider than they were said to be, the lowest bits decide, read as a signed number."""
    values = integers([5 + (7 << 20), (1 << 19) + (3 << 30), -1 - (1 << 40)])

    (sign,) = evaluate(2, [Operand(VECTOR, values)], lambda party, xs: [negative_by_bits(party, xs[0], 20)]).values

    same(sign, BIT, [0, 1, 1])


@ROUNDS
@pytest.mark.parametrize("participants", [2, 3, 5])
@given(seed=SEEDS, data=st.data())
@PROPERTY
def test_several_comparisons_in_the_same_rounds(participants: int, rounds: int, seed: int, data: st.DataObject) -> None:
    """Signs and borrows of any rings, widths and shapes are those of each by itself, in the rounds of the longest."""
    batch = [x for (x,) in cases(seed, (*RINGS, *TINY), shapes=[(), (0,), (5,), (2, 3)])]
    bits = [data.draw(st.integers(2, x.ring.bits - 1)) for x in batch]
    asked: list[type[Sign | Borrow]] = [Sign if data.draw(st.booleans()) else Borrow for _ in batch]

    def compute(party: Party, xs: list[Secret]) -> list[Secret | Shares]:
        found = compare_together(party, [ask(x, b) for ask, x, b in zip(asked, xs, bits, strict=True)], rounds)
        return [*found, *xs]

    evaluation = evaluate(participants, batch, compute)

    widths = [b if ask is Sign else b + 1 for ask, b in zip(asked, bits, strict=True)]
    assert evaluation.costs[1].rounds == max(bit_signs(width, rounds).rounds for width in widths)
    for x, answer, ask, width in zip(batch, evaluation.values, asked, bits, strict=False):
        if ask is Sign:
            same(answer, BIT, integers([int(v) >> (width - 1) & 1 for v in x.values.flat], x.values.shape))


@pytest.mark.parametrize("participants", [2, 3, 5])
def test_borrows_are_those_of_masks_and_masked_values(participants: int) -> None:
    """A borrow says whether the masked value's low bits are less than the mask's, for every number of low bits."""
    values = {ring: bulk(np.random.default_rng(8), ring.bits - 1, (30,)) for ring in (VECTOR, Ring(8), wide(2))}

    def program(party: Party) -> list[tuple[RingArray, RingArray]]:
        seen = []
        for ring, some in values.items():
            x = enter(party, 1, Operand(ring, some))
            party.step("mask anew")
            x = open_masked(party, to_shares(party, x))
            asked = [Borrow(x, bits) for bits in range(1, ring.bits)]
            found = [answer for i in range(0, len(asked), 16) for answer in compare_together(party, asked[i : i + 16])]
            seen += [(x.mask if party.is_coordinator else x.masked, answer.part) for answer in found]
        return seen

    whole, *parts = run_patiently(program, participants).results

    widths = [(ring, bits) for ring in values for bits in range(1, ring.bits)]
    assert len(widths) == len(whole)
    for place, (ring, bits) in enumerate(widths):
        masked, mask = ([int(v) % (1 << bits) for v in some.decode()] for some in (parts[0][place][0], whole[place][0]))
        answer = np.bitwise_xor.reduce([part[place][1].data for part in parts])
        assert answer.tolist() == [int(m < r) for m, r in zip(masked, mask, strict=True)], (ring, bits)


@pytest.mark.parametrize("bits", [0, 64, 65])
def test_impossible_borrows_are_refused(bits: int) -> None:
    """No bits at all, or all of them, are not low bits."""
    with refused(DoesNotFitError, "range", "bits"):
        evaluate(2, [operand(VECTOR, [1])], lambda party, xs: compare_together(party, [Borrow(xs[0], bits)]))


def test_no_comparisons_take_no_round() -> None:
    """Where nothing is asked, nothing is answered, and nobody talks."""
    evaluation = evaluate(2, [operand(VECTOR, [1])], lambda party, xs: compare_together(party, []))

    assert evaluation.values == []
    assert [counts.rounds for counts in evaluation.costs] == [0, 0, 0]


def test_comparisons_are_counted() -> None:
    """The meter counts one comparison per element, in every role."""
    evaluation = evaluate(
        2, [operand(VECTOR, [[1, 2], [3, 4]])], lambda party, xs: [negative_by_bits(party, xs[0], 64)]
    )

    assert [counts.comparisons for counts in evaluation.costs] == [4] * 3


@pytest.mark.parametrize("digits", range(1, 65))
@pytest.mark.parametrize("rounds", [2, 3, 4])
def test_groups_take_all_digits_and_leave_one(digits: int, rounds: int) -> None:
    """Each level's groups cover what the one before left, no group is too large, and more rounds cost no more."""
    levels = grouping(digits, rounds)

    assert levels is not None
    assert len(levels) <= rounds
    left = digits
    for level in levels:
        assert sum(level) == left
        assert 1 <= min(level) <= max(level) <= MOST_IN_A_GROUP
        left = len(level)
    assert left == 1
    assert dealt_bits(4 * digits + 1, rounds + 1) <= dealt_bits(4 * digits + 1, rounds)


def test_the_largest_group() -> None:
    """As many digits as a group takes need one round, and one more digit two."""
    assert grouping(MOST_IN_A_GROUP, 1) == ((MOST_IN_A_GROUP,),)
    assert grouping(MOST_IN_A_GROUP + 1, 1) is None
    assert len(grouping(MOST_IN_A_GROUP + 1, 2) or ()) == 2


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("bits", [6, 9, 40, 155])
@pytest.mark.parametrize("rounds", [2, 3])
def test_sizes_are_known_before_the_levels_are_laid_out(bits: int, rounds: int, ending: Ending) -> None:
    """Masks and products that the formulas count are those of the polynomials."""
    signs = bit_signs(bits, rounds, ending=ending)
    *upper, last = signs.levels

    masks = [level.variables for level in upper] + [(last.variables - ending.gates) // ending.sides]
    products = [level.dealt for level in upper]

    assert np.diff(signs.mask_places).tolist() == masks
    assert np.diff(signs.dealt_places).tolist() == products
    assert signs.dealt(8)[1][1][0] == last.dealt


@pytest.mark.parametrize("ending", Ending)
@pytest.mark.parametrize("digits", [1, 2, 3])
def test_what_the_last_group_makes_of_its_bits(ending: Ending, digits: int) -> None:
    """All values of "less" and "equal" of the digits of one number or two, and of the other bits, one by one."""
    if ending is Ending.SIGN and digits == 1:
        assert bit_signs(2, 1, digit=1).levels == ()  # the only digit is the answer
        return
    (last,) = bit_signs(digits + 1, 1, digit=1, ending=ending).levels
    inputs = np.arange(1 << last.variables)[None] >> np.arange(last.variables)[:, None] & 1
    opened = np.packbits(inputs, axis=1, bitorder="little")
    unmasked, nothing = np.zeros_like(opened), np.zeros((last.dealt, opened.shape[1]), np.uint8)
    found = np.unpackbits(last.evaluate(1, unmasked, nothing, opened), axis=1, bitorder="little")

    def less(bits: list[int]) -> int:
        """Return whether the first digit that is not equal is less, of bits less, equal, less, ..., less."""
        *pairs, last_digit = (bits[i : i + 2] for i in range(0, len(bits), 2))
        answer = last_digit[0]
        for is_less, is_equal in reversed(pairs):
            answer = is_less ^ (is_equal & answer)
        return answer

    for column, bits in enumerate(inputs.T.tolist()):
        one, two, gates = bits[: 2 * digits - 1], bits[2 * digits - 1 : ending.sides * (2 * digits - 1)], bits[::-1]
        if ending is Ending.SIGN:
            right = [less(one)]
        elif ending is Ending.BEATS:
            b, a = gates[:2]
            right = [b & (less(one) | 1 - a), a & (1 - less(one) | 1 - b)]
        elif ending is Ending.AND:
            right = [less(one) & gates[0]]
        else:
            right = [(1 - less(one)) & (1 - less(two)) & (gates[0] if ending is Ending.NEITHER_AND else 1)]
        assert found[:, column].tolist() == right, bits


@pytest.mark.parametrize(("bits", "rounds", "octets"), [(192, 2, 252), (192, 3, 122), (64, 2, 42), (155, 3, 96)])
def test_what_is_dealt_for_a_comparison(bits: int, rounds: int, octets: int) -> None:
    """Bytes per comparison, rounded up, for the widths that trainings meet."""
    assert -(-dealt_bits(bits, rounds) // 8) == octets


@pytest.mark.parametrize(
    ("bits", "rounds", "parameter", "value"),
    [(1, 2, "bits", 1), (65, 2, "bits", 65), (64, 1, "rounds", 1), (64, 0, "bits", 64)],
)
def test_impossible_comparisons_are_refused(bits: int, rounds: int, parameter: str, value: int) -> None:
    """Numbers without a sign, wider than their ring, or of more digits than so few rounds take, are refused."""
    with refused(DoesNotFitError, "range", parameter, value):
        evaluate(2, [operand(VECTOR, [1])], lambda party, xs: [negative_by_bits(party, xs[0], bits, rounds)])
