"""The estimators inside scikit-learn: its own checks, searches, pipelines, clones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.inspection import permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.errors import SettingsError
from support.refusals import refused
from support.toy_tables import QUICK, labels, numbers, people

CHECKED = (
    FedXGBClassifier(n_estimators=1, max_depth=2, learning_rate=1.0),
    FedXGBRegressor(n_estimators=1, max_depth=2, learning_rate=1.0),
)


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return the checks that an estimator cannot pass, and why."""
    if isinstance(estimator, FedXGBRegressor):
        return {}
    rounding = "weights come with another scale of the integers, so that leaves agree to 24 bits, not to 1e-9"
    return {f"check_sample_weight_equivalence_on_{form}_data": rounding for form in ("dense", "sparse")}


@parametrize_with_checks(list(CHECKED), expected_failed_checks=expected_failures)  # type: ignore[untyped-decorator] # scikit-learn ships no types
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    """Everything scikit-learn asks of an estimator."""
    check(estimator)


def test_grid_search() -> None:
    """GridSearchCV over max_depth finds that a column which decides between two others needs depth."""
    X = numbers(rows=120)
    y = np.where(X[:, 0] > 0, X[:, 3] > 0, X[:, 1] > 0)
    search = GridSearchCV(FedXGBClassifier(n_estimators=3, max_bin=12), {"max_depth": [1, 3]}, cv=2).fit(X, y)
    assert search.best_params_ == {"max_depth": 3}
    assert search.best_score_ > search.cv_results_["mean_test_score"][0] + 0.05
    assert search.best_estimator_.partial_models_[0].params.max_depth == 3
    assert search.score(X, y) > 0.9


def test_a_grid_of_participants_scores_the_same() -> None:
    """However many participants hold the columns, the model is the same, and so is every score."""
    X = numbers()
    model = FedXGBRegressor(**QUICK)
    search = GridSearchCV(model, {"participants": [2, 4, [0.9, 0.1]]}, cv=2, refit=False).fit(X, X[:, 0] * X[:, 2])
    scores = search.cv_results_["mean_test_score"]
    assert scores[0] == scores[1] == scores[2]


def test_an_impossible_grid_says_so() -> None:
    """With error_score="raise" a search passes on our message."""
    X = numbers()
    search = GridSearchCV(FedXGBRegressor(**QUICK), {"max_depth": [0]}, cv=2, error_score="raise")
    with refused(SettingsError, "range", "max_depth", 0):
        search.fit(X, X[:, 0])


def test_cross_validation() -> None:
    """Scores and out-of-fold predictions, with weights and labels of strings."""
    X = people()
    y = labels(X, "binary")
    model = FedXGBClassifier(**QUICK)
    scores = cross_val_score(model, X, y, cv=3)
    assert scores.shape == (3,)
    assert scores.mean() > 0.6
    weighted = cross_val_score(model, X, y, cv=3, scoring="roc_auc", params={"sample_weight": np.arange(len(X))})
    assert np.isfinite(weighted).all()
    assert set(cross_val_predict(model, X, y, cv=2)) == {"no", "yes"}


def test_pipelines() -> None:
    """Arrays from a transformer, or a table of one's own; the participants cut what comes out of it."""
    X = people()
    y = labels(X, "binary")
    encode = ColumnTransformer([("words", OneHotEncoder(sparse_output=False), ["city"])], remainder=StandardScaler())
    pipeline = make_pipeline(encode, FedXGBClassifier(**QUICK, participants=3))
    pipeline.fit(X, y)
    assert pipeline.score(X, y) > 0.7
    assert [len(m.features) for m in pipeline[-1].partial_models_] == [3, 3, 3]
    frames = clone(encode).set_output(transform="pandas")
    named = make_pipeline(frames, FedXGBClassifier(**QUICK, participants=3)).fit(X, y)
    assert named[-1].partial_models_[0].features[0].name.startswith("words__city_")
    np.testing.assert_array_equal(named.predict(X), pipeline.predict(X))


def test_features_are_selected() -> None:
    """SelectFromModel and RFE keep the columns that decide, alone and in a pipeline under a search."""
    X = pd.DataFrame(numbers(rows=120, columns=6), columns=list("abcdef"))
    y = X["b"] + X["e"] > 0
    model = FedXGBClassifier(**QUICK, participants=3)
    assert SelectFromModel(model).fit(X, y).get_feature_names_out().tolist() == ["b", "e"]
    assert RFE(model, n_features_to_select=2, step=2).fit(X, y).get_feature_names_out().tolist() == ["b", "e"]
    pipeline = make_pipeline(SelectFromModel(model).set_output(transform="pandas"), FedXGBClassifier(**QUICK))
    search = GridSearchCV(pipeline, {"selectfrommodel__max_features": [1, 2]}, cv=2).fit(X, y)
    assert search.best_params_ == {"selectfrommodel__max_features": 2}
    assert [f.name for part in search.best_estimator_[-1].partial_models_ for f in part.features] == ["b", "e"]


def test_permutation_importance() -> None:
    """scikit-learn shuffles a column, scores jointly, and finds the columns that decide."""
    X = pd.DataFrame(numbers(columns=4), columns=list("abcd"))
    y = X["b"] + 0.5 * X["d"]
    model = FedXGBRegressor(**QUICK | {"n_estimators": 6}).fit(X, y)
    found = permutation_importance(model, X, y, n_repeats=2, random_state=0).importances_mean
    assert X.columns[np.argsort(-found)[:2]].tolist() == ["b", "d"]
    assert found[0] < found[3]


def test_parameters() -> None:
    """Parameters can be read, set, and cloned; a clone is not fitted."""
    model = FedXGBClassifier(participants=[["a"], ["b"]], gamma=0.5)
    assert model.get_params()["gamma"] == 0.5
    assert model.set_params(gamma=1.5, max_depth=4) is model
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert (copy.gamma, copy.max_depth) == (1.5, 4)
    X = pd.DataFrame(numbers()[:, :2], columns=["a", "b"])
    model.set_params(**QUICK).fit(X, X["a"] > 0)
    assert not hasattr(clone(model), "partial_models_")
    with refused(SettingsError, "refused", "max_leaves"):
        model.set_params(max_leaves=8)


def test_what_they_are() -> None:
    """One is a classifier, one a regressor, and both take missing values."""
    assert is_classifier(FedXGBClassifier())
    assert is_regressor(FedXGBRegressor())
    for estimator in CHECKED:
        assert estimator.__sklearn_tags__().input_tags.allow_nan
    assert repr(FedXGBRegressor(gamma=2.0)) == "FedXGBRegressor(gamma=2.0)"


def test_defaults_follow_xgboost() -> None:
    """Names and defaults are XGBoost's but for the documented ones."""
    params = FedXGBClassifier().get_params()
    assert {name: params[name] for name in ("max_depth", "max_bin", "n_estimators")} == {
        "max_depth": 3,
        "max_bin": 32,
        "n_estimators": 100,
    }
    as_xgboost = {"learning_rate": 0.3, "reg_lambda": 1.0, "gamma": 0.0, "min_child_weight": 1.0, "subsample": 1.0}
    assert {name: params[name] for name in as_xgboost} == as_xgboost
    assert params == FedXGBRegressor().get_params()
