"""The edge rules of XGBoost 3.4: which sides are checked, what is the least hessian, which trees weigh nothing."""

from __future__ import annotations

import numpy as np
import pytest

from mpfedxgb.boosting.params import (
    RULES,
    UNNAMED,
    TrainParams,
    checks_sides,
    gradients_that_count,
    least_hessian,
    tells_zero_hessians,
)
from mpfedxgb.boosting.scales import round_hessians
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import SettingsError
from mpfedxgb.modes.none.labels import plain_train
from mpfedxgb.party import Roster
from mpfedxgb.party.observer import Observer
from mpfedxgb.training.train import secure_train
from support.refusals import refused

CASES: list[tuple[dict[str, object], bool, bool]] = [
    ({}, True, False),
    ({"min_child_weight": 1e-9}, True, False),
    ({"min_child_weight": 0.0}, False, False),
    ({"min_child_weight": 0.0, "weighted": True, "subsample": 0.5}, False, False),
    ({"reg_lambda": 0.0}, True, True),
    ({"reg_lambda": 0.0, "min_child_weight": 0.0}, True, True),
    ({"objective": "custom"}, True, False),
    ({"objective": "custom", "min_child_weight": 0.0}, True, True),
    ({"objective": "count:poisson", "min_child_weight": 0.0}, False, False),
    ({"security": "sealed", "min_child_weight": 0.0}, False, False),
    ({"security": "paper", "min_child_weight": 0.0}, False, False),
]


@pytest.mark.parametrize(("changes", "checks", "tells_zero"), CASES)
def test_sides_are_checked_only_if_one_of_no_hessian_could_win(
    changes: dict[str, object], checks: bool, tells_zero: bool
) -> None:
    """With min_child_weight, without lambda, and with custom losses; others need no check and have no 0 to tell."""
    params = TrainParams(**changes)  # type: ignore[arg-type] # of any parameter
    assert checks_sides(params) == checks
    assert tells_zero_hessians(params) == tells_zero
    assert [least_hessian(params, mcw) for mcw in (0, 1, 7)] == [int(tells_zero), 1, 7]
    assert round_hessians(params, np.array([[0.0, 1e-16, 0.25]]), 24).tolist() == [[0, int(tells_zero), 1 << 22]]


def test_a_tree_without_any_hessian_has_no_gradients() -> None:
    """One row is enough, however small its hessian; trees of a round are told apart."""
    g, h = np.ones((3, 4)), np.zeros((3, 4))
    h[1, 2] = 1e-300
    h[2] = 1.0
    assert gradients_that_count(g, h).tolist() == [[0.0] * 4, [1.0] * 4, [1.0] * 4]


def test_trainings_follow_the_newest_rules_only() -> None:
    """Those of older models are for scoring: nobody trains by them, in the clear or under secret sharing."""
    assert TrainParams().xgboost_rules == RULES
    old = TrainParams(xgboost_rules=UNNAMED)
    with refused(SettingsError, "version", "xgboost_rules", "3.3"):
        secure_train(None, old, None)  # type: ignore[arg-type] # refused before anybody is asked
    with refused(SettingsError, "version", "xgboost_rules", "3.3"):
        plain_train(old, Roster.numbered(2), [], SessionSettings(), Observer())
