"""What each column adds to a prediction: the joined model's SHAP values are those of xgboost's own training."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.testing.parity import compare_with_xgboost
from support.toy_tables import QUICK, halves, labels, people


@pytest.mark.parametrize("kind", ["binary", "classes", "regression"])
def test_contributions(kind: str) -> None:
    """With categories, missing values and several classes, column by column; they add up to the margin."""
    X = people()
    y = labels(X, kind)
    model: Any = FedXGBRegressor(**QUICK) if kind == "regression" else FedXGBClassifier(**QUICK)
    model.fit(halves(X), y)
    parity = compare_with_xgboost(model, X, y)
    assert parity.same_trees
    assert not parity.ties
    booster = model.to_xgboost()
    rows = xgboost.DMatrix(X[booster.feature_names], enable_categorical=True)
    ours = booster.predict(rows, pred_contribs=True)
    np.testing.assert_allclose(ours, parity.predict(X, pred_contribs=True), rtol=1e-4, atol=1e-4)
    assert np.abs(ours[..., :-1]).max() > 0.1
    margins = model._margins(halves(X)).T
    np.testing.assert_allclose(ours.sum(axis=-1).reshape(margins.shape), margins, rtol=1e-4, atol=1e-4)
