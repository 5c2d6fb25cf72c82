"""SecureArgmax as the paper prints it: the exact winners, by as many MULs as the paper counts (Eq. 6-7, Table 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.modes.paper.tree import P_2, argmax_by_division, gain_sign, secure_argmax, sign_of_fraction
from mpfedxgb.party import ACTIVE, COORDINATOR, Counts, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.observer import Observer
from mpfedxgb.protocols import Secret, share
from mpfedxgb.ring import RingArray, wide
from support.evaluation import SEEDS, integers
from support.property_tests import examples
from support.received import witnesses

Ints = npt.NDArray[np.int64]
Objects = npt.NDArray[np.object_]

PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3, 4, 6])
TABLE_2 = {(16, 8): (468, 10_496), (16, 16): (612, 20_992), (32, 16): (1_197, 41_984)}
"""MULs of the paper's Table 2 by J and K: without and with DIV."""

WIDE = wide(3)
BITS = 20


@dataclass(frozen=True, slots=True, eq=False)
class Sides:
    """G_L, G_R, H_L, H_R of all candidates, (4, nodes, candidates), and how many candidates each feature has."""

    values: Objects
    sizes: tuple[int, ...]

    def gains(self) -> list[list[Fraction]]:
        """Return the part of every candidate's gain that tells candidates of a node from each other."""
        return [
            [Fraction(gl, hl) + Fraction(gr, hr) for gl, gr, hl, hr in zip(*node, strict=True)]
            for node in self.values.swapaxes(0, 1).tolist()
        ]

    def winners(self) -> list[int]:
        """Return the lowest index of every node's largest gain."""
        return [gains.index(max(gains)) for gains in self.gains()]


def random_sides(rng: np.random.Generator, nodes: int, sizes: Sequence[int], lam: int, bits: int) -> Sides:
    """Return sides with ties: few distinct sums, columns twice or with their sides exchanged, empty sides."""
    count = sum(sizes)
    g, h = rng.integers(-(1 << bits), 1 << bits, (nodes, 1)), rng.integers(0, 1 << bits, (nodes, 1))
    few = rng.integers(1, 5, (nodes, 1))
    gL = rng.integers(-(1 << bits), 1 << bits, (nodes, count)) // few * few
    hL = rng.integers(0, few + 1, (nodes, count)) * (h // few)
    empty = rng.random(count) < 0.2
    gL[:, empty], hL[:, empty] = 0, 0
    twin = rng.integers(0, count, count)
    copied = rng.random(count) < 0.4
    gL[:, copied], hL[:, copied] = gL[:, twin[copied]], hL[:, twin[copied]]
    swapped = rng.random(count) < 0.3
    gL, hL = np.where(swapped, g - gL, gL), np.where(swapped, h - hL, hL)
    gL, gR, hL, hR = (x.astype(object) for x in (gL, g - gL, hL, h - hL))
    return Sides(np.stack([gL**2, gR**2, hL + lam, hR + lam]), tuple(sizes))


def enter(party: Party, values: npt.ArrayLike, owner: int = ACTIVE) -> Secret:
    """Share integers; only the owner uses them."""
    array = integers(values)
    return share(party, owner, WIDE, array.shape, RingArray.encode(WIDE, array) if party.role == owner else None)


def play(participants: int, cases: Sequence[Sides], one_by_one: bool = False) -> LocalRun[list[Ints]]:
    """Run one tournament per case, the last participant bringing the numbers."""

    def program(party: Party) -> list[Ints]:
        secrets = [enter(party, case.values, party.roster.size) for case in cases]
        return [secure_argmax(party, x, case.sizes, one_by_one) for x, case in zip(secrets, cases, strict=True)]

    return run_locally(program, participants)


def assert_winners(run: LocalRun[list[Ints]], cases: Sequence[Sides]) -> None:
    """Hold what every role learned, the coordinator too, against exact fractions."""
    expected = [case.winners() for case in cases]
    for found in run.results:
        assert [winners.tolist() for winners in found] == expected


def compute(
    participants: int, program: Callable[[Party], Any], observers: Sequence[Observer] | None = None
) -> tuple[list[Any], Counts]:
    """Return what every role has, and what the phase "counted" cost a participant: the same for each of them."""
    run = run_locally(program, participants, observers=observers)
    counts = [meter.total("counted") for meter in run.meters[1:]]
    assert len({(c.rounds, c.mul_calls, c.products) for c in counts}) == 1
    return run.results, counts[0]


# Who wins


@PARTICIPANTS
@given(
    seed=SEEDS,
    nodes=st.integers(1, 4),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    lam=st.sampled_from([1, 1 << 10, 1 << BITS]),
    bits=st.sampled_from([2, BITS]),
    one_by_one=st.booleans(),
)
@examples(5)
def test_winners_are_those_of_exact_fractions(
    participants: int, seed: int, nodes: int, sizes: list[int], lam: int, bits: int, one_by_one: bool
) -> None:
    """Several nodes, features of any sizes, ties, equal columns, empty sides: the lowest index of the largest gain."""
    rng = np.random.default_rng(seed)
    cases = [random_sides(rng, nodes, order, lam, bits) for order in (sizes, sizes[::-1])]

    assert_winners(play(participants, cases, one_by_one), cases)


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("sizes", [(1,), (1, 1), (7,), (1, 5), (8, 1, 3)])
def test_lower_index_wins_where_all_are_equal(sizes: tuple[int, ...], one_by_one: bool) -> None:
    """Among equal candidates the first wins; a better one wins wherever it stands."""
    count = sum(sizes)
    equal = integers(np.full((4, count + 1, count), 6))
    for node in range(count):  # the last node stays a tie
        equal[0, node, node] = 7
    run = play(2, [Sides(equal, sizes)], one_by_one)

    assert [found[0].tolist() for found in run.results] == [[*range(count), 0]] * 3


def test_ties_are_met() -> None:
    """The random sides above are various: ties for the first place, and places that do not tie."""
    rng = np.random.default_rng(0)
    tied = [
        gains.count(max(gains)) > 1 for _ in range(40) for gains in random_sides(rng, 3, (3, 4), 1 << 10, BITS).gains()
    ]
    assert 20 < sum(tied) < 100


# What it costs


@pytest.mark.parametrize(("features", "candidates"), TABLE_2)
def test_muls_of_table_2(features: int, candidates: int) -> None:
    """9 J log2 K + 9 log2 J calls, counted in a run; in batches 9 (log2 K + log2 J), with the same winners."""
    cases = [random_sides(np.random.default_rng(features), 1, (candidates,) * features, 1 << 10, BITS)]
    runs = {one_by_one: play(2, cases, one_by_one) for one_by_one in (True, False)}
    stages = [math.ceil(math.log2(candidates)), math.ceil(math.log2(features))]

    for one_by_one, run in runs.items():
        assert_winners(run, cases)
        inside = features * stages[0] if one_by_one else stages[0]
        for meter in run.meters:
            assert meter.total("argmax").mul_calls == 9 * (inside + stages[1])
        assert [meter.total("argmax").rounds for meter in run.meters] == [0] + [6 * (inside + stages[1])] * 2
        assert run.meters[ACTIVE].total("argmax").products == 9 * (features * candidates - 1)
    assert runs[True].meters[ACTIVE].total("argmax").mul_calls == TABLE_2[features, candidates][0]


@pytest.mark.parametrize(
    ("sizes", "inside", "across"), [((1,), 0, 0), ((2,), 1, 0), ((3, 9), 2 + 4, 1), ((1, 1, 1, 1, 1), 0, 3)]
)
def test_muls_of_features_of_unequal_sizes(sizes: tuple[int, ...], inside: int, across: int) -> None:
    """One after the other a feature has ceil(log2 K) stages of its own; a single candidate needs none."""
    cases = [random_sides(np.random.default_rng(1), 2, sizes, 1, 6)]
    run = play(2, cases, one_by_one=True)

    assert_winners(run, cases)
    assert run.meters[ACTIVE].total("argmax").mul_calls == 9 * (inside + across)


# The sign of one fraction


@PARTICIPANTS
def test_sign_of_a_fraction_and_who_sees_what(participants: int) -> None:
    """All signs of both terms; the denominator at P_1, the numerator at P_2, to the others nothing but the answer."""
    numerators = [5, -5, 0, 1 << 180, -(1 << 180), 3, -3, 0]
    denominators = [7, 7, 7, 1, 1 << 100, -2, -2, -9]
    answers = [1, -1, 0, 1, -1, -1, 1, 0]

    looking = witnesses(participants)

    def program(party: Party) -> tuple[list[int], list[tuple[str, list[int]]]]:
        G, H = enter(party, numerators), enter(party, denominators, party.roster.size)
        with party.phase("counted"):
            found = sign_of_fraction(party, G, H).tolist()
        return found, looking[party.role].seen

    results, counts = compute(participants, program, looking)
    judged = [-1 if x < 0 else int(x > 0) for x in numerators]
    for role, (found, seen) in enumerate(results):
        assert found == answers
        expected = [(Entry.COMPARISON, answers)]
        if role == ACTIVE:
            expected = [(Entry.DENOMINATOR, denominators), (Entry.COMPARISON, judged), *expected]
        elif role == P_2:
            expected = [(Entry.NUMERATOR, numerators), *expected]
        assert seen == expected
    assert (counts.rounds, counts.mul_calls) == (4, 0)


@given(seed=SEEDS, bits=st.sampled_from([2, 5, BITS]), participants=st.sampled_from([2, 3, 4, 6]))
@examples(8)
def test_sign_of_the_best_gain(seed: int, bits: int, participants: int) -> None:
    """The sign of G_L/H_L + G_R/H_R - G/H - gamma, exactly, by eight MULs in seven rounds."""
    rng = np.random.default_rng(seed)
    nodes, count = 6, 3
    sides = random_sides(rng, nodes, (count,), 1 + int(rng.integers(0, 1 << bits)), bits)
    best = rng.integers(0, count, nodes)
    G, H = rng.integers(0, 1 << bits, nodes) ** 2, 1 + rng.integers(0, 1 << bits, nodes)
    gains = [
        gains[place] - Fraction(int(g), int(h)) for gains, place, g, h in zip(sides.gains(), best, G, H, strict=True)
    ]
    gamma = max(1, round(sorted(gains)[nodes // 2]))

    def program(party: Party) -> list[int]:
        x, g, h, gam = (enter(party, values) for values in (sides.values, G, H, gamma))
        with party.phase("counted"):
            return list(gain_sign(party, x, best, g, h, gam).tolist())

    results, counts = compute(participants, program)
    expected = [-1 if gain < gamma else int(gain > gamma) for gain in gains]
    assert results == [expected] * (participants + 1)
    assert (counts.rounds, counts.mul_calls) == (7, 8)


def test_gain_of_exactly_gamma_has_sign_zero() -> None:
    """4/2 + 27/3 - 20/4 - 6 is nothing; a little more or less of any term is not."""
    G_L, G_R, H_L, H_R = (np.full(9, value) for value in (4, 27, 2, 3))
    G, H = np.full(9, 20), np.full(9, 4)
    for node, (term, change) in enumerate(
        [(G_L, 1), (G_L, -1), (G_R, 1), (H_L, 1), (H_R, -1), (G, 1), (G, -1), (H, 1)]
    ):
        term[node + 1] += change
    sides = np.stack([G_L, G_R, H_L, H_R])[:, :, None]

    def program(party: Party) -> list[int]:
        x, g, h, gamma = (enter(party, values) for values in (sides, G, H, 6))
        return list(gain_sign(party, x, np.zeros(9, np.int64), g, h, gamma).tolist())

    assert run_locally(program, 3).results == [[0, 1, -1, 1, -1, 1, -1, 1, 1]] * 4


# With division


def divided(case: Sides, bound: int, iterations: int = 20) -> tuple[LocalRun[Ints], Counts]:
    """Run the rival of section 6.1 and return what its gains cost."""

    def program(party: Party) -> Ints:
        return argmax_by_division(party, enter(party, case.values), bound, 40, iterations)

    run = run_locally(program, 2)
    return run, run.meters[ACTIVE].total("gains by division")


@pytest.mark.parametrize(("features", "candidates"), TABLE_2)
def test_products_with_division(features: int, candidates: int) -> None:
    """Two DIVs of 2 x 20 + 1 MULs per candidate, 82 J K elements in all, as Table 2 counts; the winner is the same."""
    rng = np.random.default_rng(features)
    case = random_sides(rng, 1, (candidates,) * features, 50, 6)
    run, counts = divided(case, 128)

    assert counts.products == 82 * features * candidates == TABLE_2[features, candidates][1]
    assert counts.mul_calls == 82
    (gains,) = case.gains()
    assert {gains[int(found[0])] for found in run.results[1:]} == {max(gains)}


@given(seed=SEEDS)
@examples(4)
def test_division_agrees_where_gains_are_apart(seed: int) -> None:
    """Where the best gain leads by more than the error of the divisions, both ways find the same candidate."""
    rng = np.random.default_rng(seed)
    sides = random_sides(rng, 3, (2, 4, 3), 8, 5).values
    for node in range(3):
        sides[0, node, int(rng.integers(0, 9))] += 1 << 14  # one gain far above the others
    case = Sides(sides, (2, 4, 3))
    run, counts = divided(case, 64, iterations=11)

    assert [found.tolist() for found in run.results[1:]] == [case.winners()] * 2
    assert not run.results[COORDINATOR].any()
    assert counts.products == 2 * (2 * 11 + 1) * 3 * 9
    told = {(entry.name, entry.receiver, entry.count) for entry in run.ledgers[ACTIVE]}
    assert told == {(Entry.BEST, "participants", 3)}
