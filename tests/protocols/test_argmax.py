"""The tournament against Python's fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mpfedxgb.errors import UserError
from mpfedxgb.party import Party
from mpfedxgb.protocols import (
    Fractions,
    Secret,
    Shares,
    Stage,
    argmax,
    fractions,
    make_tags,
    open_tags,
    public_secret,
    stack,
    to_shares,
    winning_tags,
)
from mpfedxgb.ring import BIT, VECTOR, Ring, wide
from mpfedxgb.ring.ring import Shape
from support.evaluation import (
    DRAWN,
    PARTICIPANTS,
    PROPERTY,
    SEEDS,
    Integers,
    Operand,
    bulk,
    evaluate,
    integers,
    operand,
    run_patiently,
    same,
)
from support.names import unlisted
from support.refusals import refused

STAGES = pytest.mark.parametrize(
    "stages",
    [[Stage(2, 1)] * 7, [Stage(2, 2)] * 7, [Stage(4, 1)] * 4, [Stage(3, 3), Stage(4, 2), Stage(10, 1), Stage(2, 3)]],
    ids=["pairs on bytes", "pairs on bits", "fours on bytes", "mixed"],
)


def winners(A: Integers, B: Integers) -> Integers:
    """Return the lowest index of the largest fraction along the last axis."""
    n = A.shape[-1]
    best = []
    for a, b in zip(A.reshape(-1, n), B.reshape(-1, n), strict=True):
        values = [Fraction(int(x), int(y)) for x, y in zip(a, b, strict=True)]
        best.append(values.index(max(values)))
    return integers(best, A.shape[:-1])


def play(participants: int, ring: Ring, tables: list[tuple[Integers, Integers]], stages: list[Stage]) -> None:
    """Run one tournament per table of numerators and denominators, and compare winner and value."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        results = []
        for i in range(0, len(secrets), 2):
            A, B = secrets[i : i + 2]
            tag = public_secret(party, VECTOR, np.arange(A.shape[-1])).broadcast_to(A.shape)
            best = argmax(party, fractions(A, B, tag), stages)
            results += [best.tag, best.value[0], best.value[1]]
        return results

    operands = [Operand(ring, values) for table in tables for values in table]
    values = iter(evaluate(participants, operands, compute).values)

    for A, B in tables:
        right = winners(A, B)
        same(next(values), VECTOR, right)
        places = right.astype(np.int64)[..., None]
        same(next(values), ring, np.take_along_axis(A, places, -1)[..., 0])
        same(next(values), ring, np.take_along_axis(B, places, -1)[..., 0])


def table(rng: np.random.Generator, shape: Shape, bits: int) -> tuple[Integers, Integers]:
    """Return numerators of either sign and positive denominators of up to `bits` bits."""
    return bulk(rng, bits, shape), integers(abs(bulk(rng, bits, shape)) + 1)


def small_table(rng: np.random.Generator, shape: Shape) -> tuple[Integers, Integers]:
    """Return small numbers: ties everywhere, equal fractions with different A and B among them."""
    return integers(rng.integers(-2, 3, shape), shape), integers(rng.integers(1, 5, shape), shape)


@STAGES
@pytest.mark.parametrize("participants", PARTICIPANTS)
@pytest.mark.exhaustive
def test_every_number_of_candidates(participants: int, stages: list[Stage]) -> None:
    """1 to 20 and 91 candidates, in batches, full of ties: the lowest index of the largest fraction."""
    rng = np.random.default_rng(participants)

    play(participants, wide(3), [small_table(rng, (6, n)) for n in (*range(1, 21), 91)], stages)


@STAGES
@pytest.mark.parametrize("ring", [Ring(13), VECTOR, wide(2), wide(3), wide(4)], ids=str)
@given(seed=SEEDS, n=st.integers(2, 20))
@PROPERTY
def test_large_fractions(stages: list[Stage], ring: Ring, seed: int, n: int) -> None:
    """Numbers as large as the ring allows, of either sign, in batches of any shape."""
    rng = np.random.default_rng(seed)
    bits = (ring.bits - 3) // 2

    play(3, ring, [table(rng, (*shape, n), bits) for shape in ((), (0,), (5,), (2, 3))], stages)


@STAGES
@given(values=st.lists(st.tuples(st.integers(-6, 6), st.integers(1, 4), st.integers(1, 50)), min_size=1, max_size=25))
@DRAWN
def test_equal_fractions_of_different_terms(stages: list[Stage], values: list[tuple[int, int, int]]) -> None:
    """A/B and cA/cB tie, whatever c is; the lower index wins, and keeps its own terms."""
    A, B = (integers([row[i] * row[2] for row in values]) for i in (0, 1))

    play(2, VECTOR, [(A, B)], stages)


@STAGES
@pytest.mark.parametrize("winner", range(9))
def test_ties_go_to_the_lower_index(winner: int, stages: list[Stage]) -> None:
    """Of equal best candidates at every place from `winner` on, the first wins, however the groups fall."""
    A, B = integers([-1] * winner + [5 * k for k in range(1, 10 - winner)]), integers([1] * 9)
    B[winner:] = A[winner:] // 5

    play(3, wide(2), [(A, B)], stages)


@STAGES
def test_negative_numerators_and_neighbours(stages: list[Stage]) -> None:
    """The largest of negative fractions, and fractions that differ by one unit in a product of 2^188."""
    big = 1 << 94
    tables = [
        ([-5, -4, -9, -4], [3, 3, 1, 3]),
        ([big - 2, big - 1, big - 3], [big - 1, big, big - 2]),
        ([-big, 1 - big, 2 - big], [big - 1, big - 2, big - 3]),
        ([0, 0, -1, 0], [7, 9, 1, 1]),
    ]

    play(3, wide(3), [(integers(A), integers(B)) for A, B in tables], stages)


@STAGES
@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_a_tournament_reveals_nothing(participants: int, stages: list[Stage]) -> None:
    """A tournament of 91 names nothing in the ledger, and finds its winner."""
    A, B = small_table(np.random.default_rng(1), (91,))

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        tag = public_secret(party, VECTOR, np.arange(91))
        return [argmax(party, fractions(secrets[0], secrets[1], tag), stages).tag]

    evaluation = evaluate(participants, [Operand(wide(3), A), Operand(wide(3), B)], compute)

    assert evaluation.reveals == [()] * (participants + 1)
    same(evaluation.values[0], VECTOR, winners(A, B))


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS, n=st.integers(1, 30), pairs=st.booleans(), signed=st.booleans())
@example(seed=1, n=20, pairs=False, signed=False)
@example(seed=2, n=20, pairs=True, signed=False)
@example(seed=3, n=20, pairs=False, signed=True)
@example(seed=4, n=20, pairs=True, signed=True)
@PROPERTY
def test_invalid_candidates_do_not_win(participants: int, seed: int, n: int, pairs: bool, signed: bool) -> None:
    """Among those that a hidden bit calls valid the best wins, whatever the others are worth; as shares, too."""
    rng = np.random.default_rng(seed)
    stages = [Stage(2, 2)] * 5 if pairs else [Stage(3, 3), Stage(4, 1), Stage(3, 2)]
    A, B = integers(rng.integers(0, 3, (20, n)), (20, n)), integers(rng.integers(1, 5, (20, n)), (20, n))
    A -= 50 * signed  # below -1 / 1, all of them
    valid = rng.integers(0, 2, (20, n))
    valid[np.arange(20), rng.integers(0, n, 20)] = 1
    A[valid == 0], B[valid == 0] = 99, -7

    def compute(party: Party, secrets: list[Secret]) -> list[Secret | Shares]:
        tag = public_secret(party, VECTOR, np.arange(n)).broadcast_to((20, n))
        field = Fractions(stack(secrets[:2]), tag, 20, to_shares(party, secrets[2]), signed)
        best = argmax(party, field, stages)
        return [best.tag, best.value[0], best.value[1], winning_tags(party, field, stages)]

    found = evaluate(participants, [Operand(wide(2), A), Operand(wide(2), B), operand(BIT, valid)], compute).values

    right = winners(integers(np.where(valid, A, -100)), integers(np.where(valid, B, 1)))
    places = right.astype(np.int64)[..., None]
    same(found[0], VECTOR, right)
    same(found[1], wide(2), np.take_along_axis(A, places, -1)[..., 0])
    same(found[2], wide(2), np.take_along_axis(B, places, -1)[..., 0])
    same(found[3], VECTOR, right)


@STAGES
@pytest.mark.parametrize("participants", PARTICIPANTS)
def test_the_winner_names_its_owner(participants: int, stages: list[Stage]) -> None:
    """With blinded tags, each participant learns of its own winners only."""
    rng = np.random.default_rng(participants)
    counts = [(0, 1), *((m, 3) for m in range(1, participants + 1))]
    n = 1 + 3 * participants
    A, B = small_table(rng, (8, n))
    best = winners(A, B).tolist()

    def program(party: Party) -> tuple[list[int], list[int]]:
        tags = make_tags(party, (8,), counts)
        A_, B_ = (public_secret(party, wide(2), values) for values in (A, B))
        opened = open_tags(party, tags, argmax(party, fractions(A_, B_, tags.secret), stages).tag, unlisted("winner"))
        return opened.owner.tolist(), opened.local.tolist()

    for role, (owners, locals_) in enumerate(run_patiently(program, participants).results):
        assert owners == [-(-i // 3) for i in best]
        assert locals_ == [(i - 1) % 3 if role == -(-i // 3) and role else -1 for i in best]


def test_impossible_tournaments_are_refused() -> None:
    """Groups of one or too many, tournaments without a candidate or without an end, are refused by name."""

    def compute(party: Party, secrets: list[Secret], stages: list[Stage]) -> list[Secret]:
        x = secrets[0]
        valid = None if stages[0].rounds > 1 else to_shares(party, public_secret(party, BIT, [1, 1, 1]))
        return [argmax(party, Fractions(stack([x, x]), x, valid=valid), stages).tag]

    for size in (1, 11):
        with refused(UserError, "range", "size", size):
            Stage(size, 2)
    with refused(UserError, "range", "rounds", 0):
        Stage(2, 0)
    with refused(UserError, "few", "candidates", 0):
        evaluate(2, [operand(VECTOR, [])], lambda party, xs: compute(party, xs, [Stage(2, 2)]))
    with refused(UserError, "range", "stages", 3):
        evaluate(2, [operand(VECTOR, [1, 2, 3])], lambda party, xs: compute(party, xs, [Stage(2, 2)]))
    with refused(UserError, "range", "rounds"):
        evaluate(2, [operand(VECTOR, [1, 2, 3])], lambda party, xs: compute(party, xs, [Stage(3, 1)]))
