"""Openings under fresh masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.party import Party
from mpfedxgb.protocols import Secret, open_masked, open_pending, to_shares
from mpfedxgb.protocols.opening import masking
from mpfedxgb.ring import BIT, PACKED, VECTOR
from support.evaluation import PARTICIPANTS, PROPERTY, RINGS, SEEDS, TINY, cases, evaluate, operand, same


@pytest.mark.parametrize("participants", PARTICIPANTS)
@given(seed=SEEDS)
@PROPERTY
def test_a_batch_of_any_rings_and_shapes_is_opened_in_one_round(participants: int, seed: int) -> None:
    """Shares become masked secrets of the same values, all of a batch in one round."""
    operands = [x for (x,) in cases(seed, (*RINGS, *TINY, BIT, PACKED))]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        party.step("open")
        return open_pending(party, [masking(party, to_shares(party, x)) for x in secrets])

    evaluation = evaluate(participants, operands, compute)

    assert [counts.rounds for counts in evaluation.costs[1:]] == [1] * participants
    for x, value in zip(operands, evaluation.values, strict=True):
        same(value, x.ring, x.values)


def test_every_opening_has_a_fresh_mask() -> None:
    """The same shares opened twice, in one step or in two, give masked values that have nothing in common."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        shares = to_shares(party, secrets[0])
        party.step("open")
        first, second = open_masked(party, shares), open_masked(party, shares)
        party.step("open")
        opened = [first, second, open_masked(party, shares)]
        if not party.is_coordinator:
            words = np.concatenate([x.masked.data for x in opened])
            assert len(np.unique(words)) == len(words)
        return opened

    values = evaluate(3, [operand(VECTOR, [5] * 20)], compute).values

    for value in values:
        same(value, VECTOR, [5] * 20)
