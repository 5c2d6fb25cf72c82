"""Leaves: which rows share one is told to the active participant alone, and it divides exactly."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.modes.strict.tree import reveal_leaves
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, Reveal, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.tree import Grown, GrownTree, TableSizes
from mpfedxgb.tree.leaf import WEIGHT_BITS, Penalties, leaf_weight, split_gain
from support.property_tests import examples
from support.small_trees import Bits, share_members

SHAPE = TableSizes(rows=19, eval_rows=6, columns=(1, 1))


def trees_of(owners: list[list[int]]) -> list[GrownTree]:
    """Return trees whose right child is split again and again, by the owners given from the root down."""
    trees, place = [], 0
    for path in owners:
        tree, node = GrownTree(), 0
        for owner in path:
            left, node = tree.split(node, owner, -1, False)
            tree.close(left, place)
            place += 1
        tree.close(node, place)
        place += 1
        trees.append(tree)
    return trees


def reveal_to_active(participants: int, owners: list[list[int]], members: Bits) -> LocalRun[Bits | None]:
    """Reveal the rows of all leaves of some trees."""

    def program(party: Party) -> Bits | None:
        return reveal_leaves(party, Grown(trees_of(owners), share_members(party, members)), SHAPE)

    return run_locally(program, participants)


@pytest.mark.parametrize("participants", [2, 3])
def test_rows_of_leaves_are_told_to_the_active_participant_only(participants: int) -> None:
    """It gets one bit per row, training and evaluation, and leaf; the others and the coordinator get nothing."""
    members = np.random.default_rng(1).integers(0, 2, (5, SHAPE.all_rows)).astype(np.uint8)
    run = reveal_to_active(participants, [[1, 2], [2]], members)

    for role, found in enumerate(run.results):
        if role == ACTIVE:
            np.testing.assert_array_equal(found, members, strict=True)
        else:
            assert found is None
    assert [meter.total("leaves").rounds for meter in run.meters] == [0] + [1] * participants
    assert run.meters[ACTIVE].total("leaves").bytes_sent == 0
    assert {meter.total("leaves").bytes_sent for meter in run.meters[2:]} == {5 * SHAPE.packed}
    assert list(run.meters[COORDINATOR].total("leaves").payload_sent.values()) == [5 * SHAPE.packed]


@pytest.mark.parametrize(
    ("owners", "own_paths"),
    [
        ([[1, 2], [2]], {"P2": 2}),
        ([[2, 1, 2]], {"P2": 1}),
        ([[2, 2, 3], [3]], {"P2": 2, "P3": 2}),
        ([[1, 2, 3], [1]], {}),
        ([[], []], {}),
    ],
)
def test_ledger_of_leaves(owners: list[list[int]], own_paths: dict[str, int]) -> None:
    """A row of each tree per count; and, for auxiliaries who own every split above a leaf, that they know its rows."""
    leaves = sum(len(path) + 1 for path in owners)
    run = reveal_to_active(3, owners, np.ones((leaves, SHAPE.all_rows), np.uint8))
    expected = {Reveal(Entry.LEAF_MEMBERSHIP, "P1", len(owners) * SHAPE.all_rows)}
    expected |= {Reveal(Entry.OWN_PATH, name, count) for name, count in own_paths.items()}

    assert [set(ledger) for ledger in run.ledgers] == [expected] * 4


INTEGERS = st.integers(-(1 << 62), 1 << 62)
SCALES = st.integers(-40, 60)
NO_LAMBDA = Penalties(0.0)


NEARNESS = st.sampled_from([0.0, 0.5, 0.999, 1.0, 1.001, 3.0])
"""Where alpha and the largest step lie: at such a share of |G|, and of the weight."""


@given(
    INTEGERS,
    st.integers(0, 1 << 62),
    SCALES,
    SCALES,
    st.sampled_from([0.0, 1e-9, 0.4, 1.0, 1e9]),
    st.floats(1e-3, 10),
    NEARNESS,
    NEARNESS,
)
@examples(300)
def test_weight_is_rounded_once(
    G: int, H: int, f_g: int, f_h: int, reg_lambda: float, rate: float, alpha_share: float, step_share: float
) -> None:
    """The weight is -T / (H + lambda) within its bounds times the learning rate, to the nearest 2^-32, as the oracle's.

    So is what a split of the node into halves gains, to the nearest double.
    """
    D = Fraction(H) / Fraction(2) ** f_h + Fraction(reg_lambda)
    alpha = alpha_share * float(abs(G) / Fraction(2) ** f_g)
    T = max(abs(Fraction(G) / Fraction(2) ** f_g) - Fraction(alpha), Fraction(0))
    step = step_share * float(T / D) if D else step_share
    penalties = Penalties(reg_lambda, alpha, step)

    w = leaf_weight(G, H, f_g, f_h, penalties, rate)

    leaf = reference.RefLeaf((), G, H)
    assert w == reference.leaf_weight(leaf, f_g, f_h, reg_lambda, rate, WEIGHT_BITS, alpha, step)
    if D:
        exact = T / D if step == 0 else min(T / D, Fraction(step))
        assert abs(abs(Fraction(w, 1 << WEIGHT_BITS)) - exact * Fraction(rate)) <= Fraction(1, 1 << (WEIGHT_BITS + 1))
        sides = (G // 3, H // 2), (G - G // 3, H - H // 2)
        split = reference.RefSplit(0, *(reference.RefLeaf((), *side) for side in sides))
        assert split_gain(*sides, f_g, f_h, penalties) == reference.gain(split, f_g, f_h, reg_lambda, alpha, step)


def test_empty_leaf_without_lambda_weighs_nothing() -> None:
    """Where there is nothing to divide by, the weight is zero."""
    assert leaf_weight(0, 0, 24, 24, NO_LAMBDA, 0.3) == 0
    assert leaf_weight(5, 0, 24, 24, NO_LAMBDA, 0.3) == 0


def test_weight_of_a_known_leaf() -> None:
    """Three rows of p = 1/2 and y = 1: G = -3/2, H = 3/4, so w = 1.5 / 1.75 times the rate."""
    G, H = -3 << 23, 3 << 22

    assert leaf_weight(G, H, 24, 24, Penalties(1.0), 0.5) == round(Fraction(3, 7) * (1 << 32))


def test_between_two_weights_the_even_one_is_taken() -> None:
    """-G / 2 in units of 2^-32, for G = -1, -3, -5 and the same on the other side of zero."""
    halves = [leaf_weight(G, 1, WEIGHT_BITS, 0, Penalties(1.0), 1.0) for G in (-1, -3, -5, 1, 3, 5)]
    assert halves == [
        0,
        2,
        2,
        0,
        -2,
        -2,
    ]


def test_gain_of_a_known_split() -> None:
    """G = -3/2 and 1, H = 3/4 and 1/2, lambda 1: 9/4 / (7/4) + 1 / (3/2) - 1/4 / (9/4); scales of g and h differ."""
    exact = Fraction(9, 7) + Fraction(2, 3) - Fraction(1, 9)
    assert split_gain((-3 << 19, 3 << 22), (1 << 20, 1 << 23), 20, 24, Penalties(1.0)) == float(exact)
    assert split_gain((1 << 20, 1 << 23), (-3 << 19, 3 << 22), 20, 24, Penalties(1.0)) == float(exact)


def test_a_side_without_hessians_scores_nothing() -> None:
    """Without lambda there is nothing to divide by: the other side's score is all there is."""
    assert split_gain((1, 0), (2, 4), 0, 0, NO_LAMBDA) == 1.0 - 9 / 4
    assert split_gain((0, 0), (0, 0), 0, 0, NO_LAMBDA) == 0.0
