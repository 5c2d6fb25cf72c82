"""Leaf weights that nobody sees: exact division of the sums in the leaves, and what a row's leaf weighs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.config import TOPOLOGIES, SessionSettings, Tuning
from mpfedxgb.modes.sealed.tree import Division, secure_leaf_weights, sum_of_leaves
from mpfedxgb.party import Counts, Party, Roster, run_locally
from mpfedxgb.party.dry_run import DryRunParty
from mpfedxgb.protocols import Secret, Shares, long_division, share
from mpfedxgb.ring import VECTOR, RingArray
from mpfedxgb.tree import Grown, TreeRules
from patience import patience
from support.evaluation import Evaluation, evaluate, operand
from support.property_tests import examples
from support.small_trees import WIDE, constants, share_members

RATES = (1e-9, 1e-3, 0.3, 1.0, 3.0)
H_PLACES = 16
ROWS, G_CAP = 40, 1 << 30
RULES = TreeRules(
    max_depth=1, ring=WIDE, checks_children=False, no_split_first=True, first_layer_mask=False, alpha_bits=64
)


def division_of(rate: float, lam: int) -> Division:
    """Return the numbers of a division whose leaves have up to ROWS rows of |g| up to G_CAP and h up to 1."""
    numerator, denominator = float(np.float32(rate)).as_integer_ratio()
    shift = H_PLACES - (denominator.bit_length() - 1)
    return Division(
        factor=numerator << max(0, shift),
        shift=max(0, -shift),
        largest_sum=ROWS * G_CAP,
        largest_divisor=(ROWS << H_PLACES) + lam,
        largest_weight=numerator * (ROWS * G_CAP << H_PLACES) // (denominator * lam) + 2,
    )


def weights_of(
    sums: Any,
    rate: float,
    lam: int,
    participants: int = 3,
    mcw: int = 0,
    alpha: int = 0,
    largest: int | None = None,
    **settings: Any,
) -> Evaluation:
    """Divide the sums (leaves, 2) of one tree's leaves."""
    division = division_of(rate, lam)
    held = [] if largest is None else [operand(VECTOR, largest)]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        numbers = constants(party, lam, 1, mcw)
        if alpha:
            numbers = replace(numbers, alpha=secrets[1])
        grown = Grown([], secrets[0], secrets[0])
        return [secure_leaf_weights(party, grown, numbers, division, RULES, *secrets[2:])]

    return evaluate(participants, [operand(VECTOR, sums), operand(WIDE, alpha), *held], compute, **settings)


@st.composite
def sums(draw: st.DrawFn, leaves: int) -> Any:
    """Draw G and H of some leaves: empty ones, one row, and the most that there can be."""
    G = [
        draw(st.sampled_from([0, 1, -1, ROWS * G_CAP, -ROWS * G_CAP]) | st.integers(-G_CAP, G_CAP))
        for _ in range(leaves)
    ]
    H = [draw(st.sampled_from([0, 1, ROWS << H_PLACES]) | st.integers(0, ROWS << H_PLACES)) for _ in range(leaves)]
    return np.array([G, H], object).T


def expected(of: Any, rate: float, lam: int) -> list[int]:
    """Return the oracle's weights."""
    sealed = reference.RefSealed(False, 1, rate, h_places=H_PLACES)
    return [reference.sealed_weight(reference.RefLeaf((), int(G), int(H)), sealed, lam) for G, H in of]


@examples(12)
@given(
    of=sums(5), rate=st.sampled_from(RATES), lam=st.sampled_from([1, 65536, 3 << 20]), participants=st.integers(2, 4)
)
def test_weights_are_the_oracles(of: Any, rate: float, lam: int, participants: int) -> None:
    """To the unit, halves up before the sign, at rates whose power of two goes above and below the line."""
    assert weights_of(of, rate, lam, participants).values[0].tolist() == expected(of, rate, lam)


@examples(12)
@given(
    of=sums(4),
    alpha=st.sampled_from([0, 1, G_CAP, ROWS * G_CAP]),
    largest=st.sampled_from([None, 0, 1, 1 << 20, 1 << 40]),
    participants=st.integers(2, 4),
)
def test_weights_are_held_back(of: Any, alpha: int, largest: int | None, participants: int) -> None:
    """By an L1 penalty before they are divided, and by a bound afterwards."""
    sealed = reference.RefSealed(False, 1, 0.3, h_places=H_PLACES, largest=largest)
    right = [reference.sealed_weight(reference.RefLeaf((), int(G), int(H)), sealed, 65536, alpha) for G, H in of]
    held = None if largest is None else min(largest, division_of(0.3, 65536).largest_weight)

    assert weights_of(of, 0.3, 65536, participants, alpha=alpha, largest=held).values[0].tolist() == right


@examples(10)
@given(of=sums(1), mcw=st.sampled_from([0, 1, 2, ROWS << H_PLACES, (ROWS << H_PLACES) + 1]))
def test_a_tree_of_one_leaf_is_not_held_to_min_child_weight(of: Any, mcw: int) -> None:
    """By XGBoost's rules 3.4 min_child_weight is about the sides of splits, and a light root weighs what it weighs."""
    assert weights_of(of, 0.3, 65536, mcw=mcw).values[0].tolist() == expected(of, 0.3, 65536)


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(("count", "alpha", "largest"), [(4, 0, None), (1, 0, None), (4, 3, None), (4, 3, 9)])
def test_costs_of_the_weights(count: int, alpha: int, largest: int | None, topology: str) -> None:
    """One round for the lift, and those of the division as planned, for a single leaf too; 4 for each penalty."""
    found = weights_of(
        np.array([[7, 9]] * count, object), 0.3, 65536, mcw=1, alpha=alpha, largest=largest, topology=topology
    )
    division = division_of(0.3, 65536)
    bits = division.largest_weight.bit_length() + 1
    opened = long_division(count, division.ring, bits, division.divisor_bits + 1, 3, topology).opened_bytes()
    more = 4 * bool(alpha) + 4 * (largest is not None)
    assert [cost.rounds for cost in found.costs[1:]] == [1 + len(opened) + more] * 3
    said = "1 for the lift and those of `rounded_quotient`; 4 more with an L1 penalty, and 4 with a bound."
    assert said in (secure_leaf_weights.__doc__ or "")
    assert set(found.reveals) == {()}


# What a row's leaf weighs


def members_of(seed: int, count: int, rows: int) -> Any:
    """Return of which leaf each row is, as bits (leaves, rows)."""
    return np.random.default_rng(seed).integers(0, count, rows) == np.arange(count)[:, None]


def program(party: Party, members: Any, weights: Any) -> tuple[Counts, Shares]:
    """Share members and weights, and return what it costs to add them up, and the sums as shares."""
    count, rows = members.shape
    inside = share_members(party, members.astype(np.uint8))
    values = RingArray.encode(VECTOR, weights) if party.is_active else None
    secret = share(party, 1, VECTOR, (count,), values)
    with party.phase("sum"):
        shares = sum_of_leaves(party, Grown([], inside), secret, rows)
    return party.meter.total("sum"), shares


@pytest.mark.parametrize("tuning", [Tuning(), Tuning(leaf_elements=48)], ids=["whole", "chunks"])
@examples(5)
@given(
    seed=st.integers(0, 10**6),
    count=st.sampled_from([1, 2, 6]),
    rows=st.sampled_from([1, 7, 8, 100]),
    topology=st.sampled_from(TOPOLOGIES),
)
def test_rows_get_the_weight_of_their_leaf(tuning: Tuning, seed: int, count: int, rows: int, topology: str) -> None:
    """In chunks of eight rows or more as in one; for 16 bytes dealt per row and leaf, without a word said.

    A rehearsal, which has no content, counts the same.
    """
    members = members_of(seed, count, rows)
    weights = np.random.default_rng(seed).integers(-(1 << 60), 1 << 60, count)
    settings = SessionSettings(topology=topology, deadline=patience(60.0), tuning=tuning)
    run = run_locally(program, 3, [(members, weights)] * 4, settings)
    total = np.sum([shares.part.decode().astype(object) for _, shares in run.results[1:]], axis=0)
    assert [(int(x) + (1 << 63)) % (1 << 64) - (1 << 63) for x in total] == weights[members.argmax(axis=0)].tolist()
    for role, (cost, _) in enumerate(run.results):
        party = DryRunParty(Roster.numbered(3), role, settings, {}, lambda name, shape: np.zeros(shape, np.int64))
        rehearsed, _ = program(party, members, weights)
        assert replace(rehearsed, seconds=0.0) == replace(cost, seconds=0.0)
    assert {(cost.rounds, cost.bytes_sent) for cost, _ in run.results[1:]} == {(0, 0)}
    dealt = sum(run.results[0][0].payload_sent.values())
    assert dealt == 16 * rows * count
