"""What each participant may compute of importance alone, from its own part of a model."""

from __future__ import annotations

import pytest

from mpfedxgb import FedXGBClassifier, join
from mpfedxgb.boosting.join import JoinedSplit, feature_importance, owner_importance
from mpfedxgb.errors import SettingsError
from support.refusals import refused
from support.toy_tables import QUICK, halves, labels, people


@pytest.fixture(scope="module")
def model() -> FedXGBClassifier:
    """Train a model of three classes."""
    X = people()
    return FedXGBClassifier(**QUICK).fit(halves(X), labels(X, "classes"))


def test_everybody_counts_the_same_splits_of_all(model: FedXGBClassifier) -> None:
    """Whose columns split how often is in every part; the joined model agrees."""
    splits = [node for tree in join(model.partial_models_).trees for node in tree if isinstance(node, JoinedSplit)]
    expected = {name: sum(node.owner == m for node in splits) for m, name in enumerate(("bank", "telecom"), 1)}
    assert min(expected.values()) > 0
    for part in model.partial_models_:
        assert owner_importance(part).to_dict() == expected
        assert feature_importance(part).sum() == expected[part.name]


def test_gains_are_the_active_participants(model: FedXGBClassifier) -> None:
    """Its part has the gain of every split, whoever owns it; the others are told to whom it is known."""
    bank, telecom = model.partial_models_
    splits = [node for tree in join(model.partial_models_).trees for node in tree if isinstance(node, JoinedSplit)]
    total = sum(node.gain or 0.0 for node in splits)
    assert owner_importance(bank, "total_gain").sum() == pytest.approx(total)
    for kind, function in (
        ("total_gain", owner_importance),
        ("gain", feature_importance),
        ("cover", feature_importance),
    ):
        with refused(SettingsError, "place", "kind", kind):
            function(telecom, kind)


def test_other_kinds(model: FedXGBClassifier) -> None:
    """Are refused with those that there are."""
    with refused(SettingsError, "choice", "kind", "cover"):
        owner_importance(model.partial_models_[0], "cover")
