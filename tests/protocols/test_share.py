"""SHR: one participant's value enters, masked by itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.errors import DoesNotFitError, FederationError
from mpfedxgb.party import ACTIVE, ALL, Party
from mpfedxgb.protocols import Secret, reveal, share
from mpfedxgb.protocols.share import share_each
from mpfedxgb.ring import BIT, PACKED, VECTOR, Ring, RingArray, wide
from mpfedxgb.ring.ring import Shape
from support.evaluation import (
    PARTICIPANTS,
    PROPERTY,
    RINGS,
    SEEDS,
    TINY,
    Integers,
    Operand,
    cases,
    check_masks,
    enter,
    evaluate,
    integers,
    residues,
    run_patiently,
    same,
)
from support.names import unlisted
from support.refusals import refused


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_shared_values_come_back(participants: int, seed: int) -> None:
    """Whoever shares, in whatever ring and shape, the value revealed is the value shared."""
    operands = [x for (x,) in cases(seed, (*RINGS, *TINY, BIT, PACKED))]

    def program(party: Party) -> tuple[list[Secret], list[Integers | None]]:
        secrets = [enter(party, 1 + i % participants, x) for i, x in enumerate(operands)]
        opened = [reveal(party, x, ALL, unlisted("value")) for x in secrets]
        return secrets, [None if x.is_hidden else integers(x.decode()) for x in opened]

    results = run_patiently(program, participants).results

    check_masks([secrets for secrets, _ in results])
    assert results[0][1] == [None] * len(operands)
    for _, views in results[1:]:
        for x, view in zip(operands, views, strict=True):
            assert view is not None
            same(view, x.ring, x.values)


@pytest.mark.parametrize("owner", [1, 2, 3])
def test_only_the_owner_and_the_coordinator_hold_the_mask(owner: int) -> None:
    """Everyone has the masked value, the owner and the coordinator the same mask, the others zero."""
    values = integers(range(100))

    secrets = run_patiently(lambda party: enter(party, owner, Operand(VECTOR, values)), 3).results

    for role in (1, 2, 3):
        expected = secrets[0].mask.data if role == owner else np.zeros(100, np.uint64)
        np.testing.assert_array_equal(secrets[role].mask.data, expected)
        same(integers((secrets[role].masked - secrets[0].mask).decode()), VECTOR, values)


def test_only_the_owners_values_count() -> None:
    """What other roles pass as values is not looked at."""

    def program(party: Party) -> RingArray:
        mine = RingArray.encode(VECTOR, [100 + party.role])
        return reveal(party, share(party, 2, VECTOR, (1,), mine), ALL, unlisted("value"))

    assert [x.decode().tolist() for x in run_patiently(program, 3).results[1:]] == [[102]] * 3


@pytest.mark.parametrize(
    "values",
    [None, RingArray.encode(VECTOR, [1, 2]), RingArray.encode(wide(2), [1, 2, 3])],
    ids=["nothing", "wrong shape", "wrong ring"],
)
def test_an_owner_has_to_bring_what_was_agreed(values: RingArray | None) -> None:
    """Missing values, another shape or another ring end the run with a named error."""
    with refused(DoesNotFitError, "mismatch", "P2"):
        run_patiently(lambda party: share(party, 2, VECTOR, (3,), values), 3)


def test_roles_must_agree_on_the_shape() -> None:
    """A receiver that expects another shape refuses the frame."""
    values = RingArray.encode(VECTOR, [1, 2, 3])

    def program(party: Party) -> Secret:
        return share(party, 1, VECTOR, (3,) if party.role != 2 else (4,), values)

    with refused(FederationError, "damaged", "share of P1", "P1"):
        run_patiently(program, 2)


@pytest.mark.parametrize("owners", [(1,), (2, 2), (1, 2), (3, 1, 2, 3, 1), (2, 3, 2), (1, 1)], ids=str)
@pytest.mark.parametrize("ring", [VECTOR, wide(3), BIT], ids=str)
def test_share_each_takes_one_round(ring: Ring, owners: tuple[int, ...]) -> None:
    """Arrays of several owners, in any order, come back stacked as listed, and took one round together."""
    rng = np.random.default_rng(1)
    for shape in ((), (0,), (5,), (2, 3)):
        values = [residues(rng, ring, shape) for _ in owners]

        def compute(
            party: Party, _: list[Secret], shape: Shape = shape, values: list[Integers] = values
        ) -> list[Secret]:
            mine = {i: RingArray.encode(ring, values[i]) for i, owner in enumerate(owners) if owner == party.role}
            return [share_each(party, owners, ring, shape, mine)]

        evaluation = evaluate(3, [], compute)

        hops = 1 if set(owners) == {ACTIVE} else 2  # by way of the active participant
        assert [(counts.rounds, counts.hops) for counts in evaluation.costs[1:]] == [(1, hops)] * 3
        same(evaluation.values[0], ring, np.stack(values))


def test_share_each_costs_what_each_owner_shares() -> None:
    """Owners send their entries once; the active participant sends each auxiliary what is not its own."""

    def compute(party: Party, _: list[Secret]) -> list[Secret]:
        mine = {i: RingArray.encode(VECTOR, [1, 2, 3]) for i, owner in enumerate((1, 2, 2, 3)) if owner == party.role}
        return [share_each(party, (1, 2, 2, 3), VECTOR, (3,), mine)]

    costs = evaluate(3, [], compute).costs

    assert [counts.payload_sent for counts in costs] == [{}, {"P2": 48, "P3": 72}, {"P1": 48}, {"P1": 24}]
