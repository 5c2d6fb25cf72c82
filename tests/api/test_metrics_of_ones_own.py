"""Functions as metrics, in the estimators: what they are given, and what becomes of what they return."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.metrics import brier_score_loss, log_loss

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.errors import DataError
from support.refusals import refused
from support.toy_tables import QUICK, halves, labels, numbers, people


def test_scikit_learns_metrics() -> None:
    """Beside ours by name; one that ours knows too has the same values."""
    X, weights = people(), np.arange(70.0)
    y = labels(X, "binary")
    model = FedXGBClassifier(**QUICK, eval_metric=["logloss", log_loss, brier_score_loss])
    model.fit(halves(X), y, eval_set=[(halves(X), y)], sample_weight_eval_set=[weights])
    found = model.evals_result_["validation_0"]
    assert list(found) == ["logloss", "log_loss", "brier_score_loss"]
    assert found["log_loss"] == pytest.approx(found["logloss"], rel=1e-12)
    last = brier_score_loss(y == "yes", model.predict_proba(halves(X))[:, 1], sample_weight=weights)
    assert found["brier_score_loss"][-1] == pytest.approx(last, rel=1e-9)
    assert clone(model).eval_metric == model.eval_metric


def test_classes_have_columns() -> None:
    """Labels are places in classes_, predictions have a column for each class."""
    X = people()
    y = labels(X, "classes")
    seen: list[tuple[Any, Any]] = []

    def hit_rate(y_true: Any, y_pred: Any) -> float:
        seen.append((y_true, y_pred))
        return -float((y_pred.argmax(axis=1) == y_true).mean())

    model = FedXGBClassifier(**QUICK, eval_metric=hit_rate).fit(X, y, eval_set=[(X, y)])
    np.testing.assert_array_equal(model.classes_[seen[-1][0].astype(int)], y)
    np.testing.assert_allclose(seen[-1][1], model.predict_proba(X), rtol=1e-12)
    assert model.evals_result_["validation_0"]["hit_rate"][-1] == -model.score(X, y)


def test_it_decides_when_to_stop() -> None:
    """The last of the metrics does, and less is better."""
    X = numbers()
    values = iter([3.0, 1.0, 2.0, 2.0, 0.0])

    def falls(y_true: Any, y_pred: Any) -> float:
        return next(values)

    model = FedXGBRegressor(**QUICK | {"n_estimators": 9}, eval_metric=["rmse", falls], early_stopping_rounds=2)
    model.fit(X, X[:, 0], eval_set=[(X, X[:, 0])])
    assert (model.best_iteration_, model.run_.trees) == (1, 4)


def test_a_function_that_cannot_be_called_so() -> None:
    """The error says what a metric is called with, and the estimator is not fitted."""
    X = numbers()
    model = FedXGBRegressor(**QUICK, eval_metric=lambda y_true: 0.0)
    with refused(DataError, "type", "<lambda>"):
        model.fit(X, X[:, 0], eval_set=[(X, X[:, 0])])
    assert not hasattr(model, "partial_models_")
