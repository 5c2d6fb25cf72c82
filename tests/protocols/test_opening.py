"""Openings under fresh masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.config import Link
from mpfedxgb.party import Party
from mpfedxgb.protocols import Secret, negative, open_masked, open_pending, to_shares
from mpfedxgb.protocols.opening import masking
from mpfedxgb.ring import BIT, PACKED, VECTOR, wide
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


CUT = {"topology": "mesh", "link": Link(0.0, 1e-6)}
"""A mesh over a link so narrow that every opening is cut into pieces."""


@pytest.mark.parametrize(
    ("participants", "settings", "hops"), [(2, CUT, 1), (3, {"topology": "mesh"}, 1), (3, CUT, 2), (5, CUT, 2)]
)
@given(seed=SEEDS)
@PROPERTY
def test_a_batch_is_opened_in_a_mesh(participants: int, settings: dict[str, Any], hops: int, seed: int) -> None:
    """The same values as over the star, in one hop, or in two if cut; of two participants, nothing would be saved."""
    operands = [x for (x,) in cases(seed, (*RINGS, *TINY, BIT, PACKED))]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        party.step("open")
        return open_pending(party, [masking(party, to_shares(party, x)) for x in secrets])

    evaluation = evaluate(participants, operands, compute, **settings)

    assert [(counts.rounds, counts.hops) for counts in evaluation.costs[1:]] == [(1, hops)] * participants
    for x, value in zip(operands, evaluation.values, strict=True):
        same(value, x.ring, x.values)


@pytest.mark.parametrize("participants", [3, 5])
def test_pieces_are_clipped_by_whom_they_are_added_up(participants: int) -> None:
    """Digits under narrow masks, cut between numbers: signs are right, and twice (M - 1) / M of them are sent."""
    x = operand(wide(3), np.arange(203) - 100)

    evaluation = evaluate(participants, [x], lambda party, xs: [negative(party, xs[0])], **CUT)

    same(evaluation.values[0], BIT, (np.arange(203) < 100).astype(int))
    assert sum(counts.bytes_sent for counts in evaluation.costs[1:]) == 2 * (participants - 1) * 48 * 203
    assert max(counts.bytes_sent for counts in evaluation.costs[1:]) < 1.05 * 2 * 48 * 203


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
