"""Which rounds predict: ranges as XGBoost takes them, and the parts of a model that predict with some rounds only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mpfedxgb.boosting import PartialModel
from mpfedxgb.boosting.metrics import first_judged, limited_to, read_range, rounds_of
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import Code, SettingsError
from mpfedxgb.tree.nodes import Dummy, Leaf
from support.refusals import refused

TREE = (Dummy(2, 1, 2, 0.5), Leaf(3, 1.0), Leaf(-4, 2.0))
PARAMS = TrainParams(objective="multi:softprob", num_class=3, n_estimators=4)
ACTIVE = PartialModel("t", 1, ("P1", "P2"), PARAMS, (), (TREE,) * 12, base_margin=(0.0, 0.0, 0.0))


@pytest.mark.parametrize(
    ("given", "best", "expected"),
    [
        (None, None, (0, 4)),
        (None, 1, (0, 2)),
        ((0, 0), None, (0, 4)),
        ((0, 0), 1, (0, 2)),
        ((1, 0), 2, (1, 3)),
        ((0, 4), 1, (0, 4)),
        ([2, 3], None, (2, 3)),
    ],
)
def test_ranges(given: Any, best: int | None, expected: tuple[int, int]) -> None:
    """All rounds, those up to the best, or those that are asked for."""
    assert rounds_of(ACTIVE) == 4
    assert read_range(given, replace(ACTIVE, best_iteration=best)) == expected


@pytest.mark.parametrize("given", [(0, 5), (2, 2), (3, 1), (-1, 2), (4, 0)])
def test_ranges_that_the_model_does_not_have(given: tuple[int, int]) -> None:
    """Are refused with what there is."""
    with refused(SettingsError, "range", "iteration_range"):
        read_range(given, ACTIVE)


@pytest.mark.parametrize(
    ("given", "code"),
    [(3, "type"), ((1,), "type"), ((0, 1, 2), "type"), ("ab", "type"), ((0, 1.5), "value"), ((True, 2), "value")],
)
def test_things_that_are_no_ranges(given: Any, code: Code) -> None:
    """Are refused with an example."""
    with refused(SettingsError, code, "iteration_range", given):
        read_range(given, ACTIVE)


def test_a_part_of_some_rounds() -> None:
    """Earlier leaves weigh nothing, later trees are not in use; shape, gains and covers are as they were."""
    part = limited_to(ACTIVE, (1, 3))
    assert part.best_iteration == 2
    assert part.trees[3:] == ACTIVE.trees[3:]
    assert set(part.trees[:3]) == {(TREE[0], Leaf(0, 1.0), Leaf(0, 2.0))}
    assert limited_to(ACTIVE, (0, 4)).trees == ACTIVE.trees


def test_parts_of_the_others() -> None:
    """An auxiliary has no weights, or in the paper's way shares, and never a best round."""
    other = replace(ACTIVE, participant=2, base_margin=None, trees=((Leaf(None),), (Leaf(None, share=7),)) * 6)
    part = limited_to(other, (2, 3))
    assert part.best_iteration is None
    assert part.trees[:6] == ((Leaf(None),), (Leaf(None, share=0),)) * 3
    assert part.trees[6:] == other.trees[6:]


def test_the_first_round_with_a_metric() -> None:
    """After those of a model that was continued; from 0 for a sealed one, which drops the rounds after the best."""
    assert first_judged(ACTIVE, 3) == 1
    sealed = TrainParams(n_estimators=20, security="sealed")
    assert first_judged(replace(ACTIVE, params=sealed), 17) == 0
