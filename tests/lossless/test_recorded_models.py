"""Trees are those of XGBoost 3.4.1 as recorded (xgboost_34/), whichever xgboost is installed."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mpfedxgb.testing.comparison import LIGHT_ROOT, NO_HESSIAN
from mpfedxgb.testing.parity import compare_with_xgboost
from support.recorded_models import Model, Recorded, cuts_of, leaves_of, our_trees, read_models, splits_of
from support.xgboost_versions import IS_3_4

RECORDED = {one.name: one for one in read_models()}
SEALED = [name for name, one in RECORDED.items() if one.objective in ("binary:logistic", "reg:squarederror")]
SEALED = [name for name in SEALED if RECORDED[name].params.get("reg_lambda") != 0]
SEALED = [name for name in SEALED if RECORDED[name].params.get("num_parallel_tree", 1) == 1]
EVERYWHERE = [name for name in RECORDED if name.endswith(", 0")]
"""One of each family, which is enough for trainings under secret sharing: they have the trees of security="none"."""


def assert_recorded(one: Recorded, model: Model, tolerance: float) -> None:
    """Hold a model to a record: the same cuts and splits, and leaf weights as near as float32 comes."""
    assert cuts_of(model) == one.cuts
    found = our_trees(model, one.table)
    assert [splits_of(tree) for tree in found] == [splits_of(tree) for tree in one.trees]
    for ours, theirs in zip(found, one.trees, strict=True):
        np.testing.assert_allclose(leaves_of(ours), leaves_of(theirs), rtol=tolerance, atol=tolerance / 100)


@pytest.mark.parametrize("name", RECORDED)
def test_trees_are_the_recorded_ones(name: str) -> None:
    """Light roots, sides of no hessian, row weights of 0, no lambda, categories, missing values, all objectives."""
    assert_recorded(RECORDED[name], RECORDED[name].fit(security="none"), 1e-5)


@pytest.mark.parametrize("name", EVERYWHERE)
def test_they_are_under_secret_sharing(name: str) -> None:
    """One of each kind by the protocols themselves."""
    assert_recorded(RECORDED[name], RECORDED[name].fit(), 1e-5)


@pytest.mark.parametrize("name", [name for name in EVERYWHERE if name in SEALED])
def test_they_are_sealed(name: str) -> None:
    """Of the losses that sealed trainings know, where lambda is above 0; leaves have some places less."""
    assert_recorded(RECORDED[name], RECORDED[name].fit(security="sealed"), 1e-4)


def test_both_rules_are_among_them() -> None:
    """More than a hundred models, and of each rule that is new in 3.4 several."""
    assert len(RECORDED) == 120
    rules = Counter(one.rule for one in RECORDED.values())
    assert min(rules[LIGHT_ROOT], rules[NO_HESSIAN]) >= 7


@pytest.mark.parametrize("name", [name for name, one in RECORDED.items() if one.rule])
def test_an_older_xgboost_parts_by_the_rule_and_the_installed_one_says_so(name: str) -> None:
    """The comparison names the rule; from 3.4 on there is nothing to explain."""
    one = RECORDED[name]
    weight = None if one.weight is None else np.array(one.weight)
    parity = compare_with_xgboost(one.fit(security="none"), one.table, np.array(one.y), weight)

    assert parity.same_trees, parity.difference
    assert len(parity.ties) >= (not IS_3_4)
    assert all(tie.endswith(one.rule) for tie in parity.ties)
