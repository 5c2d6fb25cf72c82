"""`train` and `cv` beside XGBoost's: the same calls, the same results where nothing is drawn at random."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.model_selection import GroupKFold, KFold, StratifiedKFold, cross_val_score, train_test_split

import mpfedxgb
from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRegressor
from mpfedxgb.errors import DataError, SettingsError, UnknownParameterError
from support.toy_tables import numbers

X = pd.DataFrame(np.round(numbers(rows=90, columns=4), 1), columns=list("abcd"))
Y = (X["b"] + X["d"] > 0).astype(int) + (X["a"] > 1)
"""Three classes."""
PARTS: dict[str, Any] = {"bank": X[["a", "b"]], "telecom": X[["c", "d"]]}
BINARY = FederatedTable(PARTS, label=np.minimum(Y, 1))
THEIRS = xgboost.DMatrix(X, label=np.minimum(Y, 1))
PARAMS: dict[str, Any] = {"objective": "binary:logistic", "eta": 0.4, "max_depth": 2, "max_bin": 64, "lambda": 1.5}
METRICS: dict[str, Any] = {"eval_metric": ["error", "logloss", "auc"]}


@pytest.mark.parametrize("security", ["strict", "none"])
def test_train_is_xgboosts(security: str) -> None:
    """Its arguments by their names; results under the names that tables were given; the estimator that it means."""
    seen: dict[str, Any] = {}
    model = mpfedxgb.train(
        PARAMS | METRICS | {"security": security, "seed": 3, "nthread": 1},
        BINARY,
        5,
        evals=[(BINARY, "train"), (BINARY[:30], "first")],
        evals_result=seen,
        verbose_eval=False,
    )
    expected: dict[str, Any] = {}
    booster = xgboost.train(
        PARAMS | METRICS,
        THEIRS,
        5,
        evals=[(THEIRS, "train"), (THEIRS.slice(list(range(30))), "first")],
        evals_result=expected,
        verbose_eval=False,
    )
    assert isinstance(model, FedXGBClassifier)
    assert {name: list(own) for name, own in seen.items()} == {name: list(own) for name, own in expected.items()}
    for name, own in expected.items():
        for metric, values in own.items():
            np.testing.assert_allclose(seen[name][metric], values, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(BINARY)[:, 1], booster.predict(THEIRS), atol=1e-6)
    assert (model.get_params()["random_state"], model.get_params()["n_jobs"]) == (3, 1)


def test_train_goes_on_and_stops_early(capsys: pytest.CaptureFixture[str]) -> None:
    """xgb_model and early_stopping_rounds, and XGBoost's lines unless they are declined."""
    late = BINARY[60:]
    model = mpfedxgb.train(
        PARAMS | {"security": "none", "eta": 1.0}, BINARY[:60], 40, evals=[(late, "late")], early_stopping_rounds=2
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == model.best_iteration + 3 == model.run_.trees < 40
    assert lines[0].startswith("[0]\tlate-logloss:0.")
    more = mpfedxgb.train(PARAMS | {"security": "none"}, BINARY[:60], 2, xgb_model=model)
    assert more.run_.trees == model.run_.trees + 2
    assert not capsys.readouterr().out


def test_functions_of_predictions_and_labels() -> None:
    """`obj` and `custom_metric` in XGBoost's form; row weights count once."""

    def squares(preds: Any, dtrain: Any) -> Any:
        assert (dtrain.get_weight() == 1).all()
        return preds - dtrain.get_label(), np.ones(dtrain.num_row())

    def worst(preds: Any, dtrain: Any) -> tuple[str, float]:
        return "largest", float(np.abs(preds - dtrain.get_label()).max() + dtrain.get_weight().mean())

    y, weight = X["a"].to_numpy(), np.arange(90) % 3 + 1.0
    table = FederatedTable(PARTS, label=y, weight=weight)
    matrix = xgboost.DMatrix(X, label=y, weight=weight)
    seen, expected = {}, {}  # type: dict[str, Any], dict[str, Any]
    common: dict[str, Any] = {"max_depth": 2, "max_bin": 64, "base_score": 0.0, "eval_metric": "rmse"}
    model = mpfedxgb.train(
        common | {"security": "none"}, table, 4, obj=squares, custom_metric=worst, evals=[(table, "train")],
        evals_result=seen, verbose_eval=False,
    )  # fmt: skip
    weighted = lambda preds, dtrain: tuple(dtrain.get_weight() * part for part in (preds - y, np.ones(90)))  # noqa: E731
    booster = xgboost.train(
        common, matrix, 4, obj=weighted, custom_metric=worst, evals=[(matrix, "train")], evals_result=expected,
        verbose_eval=False,
    )  # fmt: skip
    assert isinstance(model, FedXGBRegressor)
    np.testing.assert_allclose(model.predict(table), booster.predict(matrix), atol=1e-5)
    assert list(seen["train"]) == ["rmse", "largest"]
    np.testing.assert_allclose(seen["train"]["largest"], expected["train"]["largest"], atol=1e-5)


CV: dict[str, dict[str, Any]] = {
    "folds are drawn": {"nfold": 4, "seed": 5},
    "in order": {"shuffle": False},
    "stratified": {"stratified": True, "seed": 2},
    "a splitter": {"folds": StratifiedKFold(3, shuffle=True, random_state=1)},
    "places": {"folds": [([*range(40)], [*range(40, 90)]), ([*range(50, 90)], [*range(50)])]},
    "metrics": {"metrics": ["auc", "error"]},
    "stops": {"num_boost_round": 30, "early_stopping_rounds": 2, "metrics": "error"},
}


@pytest.mark.parametrize("kind", CV)
def test_cv_has_xgboosts_frame(kind: str) -> None:
    """Folds, columns, rounds and values, of training rows and of test rows."""
    given = {"num_boost_round": 4} | CV[kind]
    ours = mpfedxgb.cv(PARAMS | METRICS | {"security": "none"}, BINARY, **given)
    theirs: Any = xgboost.cv(PARAMS | METRICS, THEIRS, **given)
    assert isinstance(ours, pd.DataFrame)
    assert list(ours.columns) == list(theirs.columns)
    inside = [name for name in ours if str(name).startswith("train")]
    pd.testing.assert_frame_equal(ours[inside], theirs[inside], atol=1e-5, check_exact=False)
    assert kind != "stops" or 3 < len(ours) < 30


def test_cv_of_classes_in_strict(capsys: pytest.CaptureFixture[str]) -> None:
    """As a dictionary, with lines in XGBoost's form; sealed rows that are trained on are judged by nobody."""
    table = FederatedTable(PARTS, label=Y)
    params = {"objective": "multi:softprob", "num_class": 3, "max_depth": 2, "max_bin": 8}
    ours = mpfedxgb.cv(params, table, 2, as_pandas=False, verbose_eval=True, folds=KFold(2))
    assert isinstance(ours, dict)
    assert list(ours) == [f"{rows}-mlogloss-{what}" for rows in ("train", "test") for what in ("mean", "std")]
    line = capsys.readouterr().out.splitlines()[1]
    mean, std = ours["test-mlogloss-mean"][1], ours["test-mlogloss-std"][1]
    assert line.startswith("[1]\ttrain-mlogloss:")
    assert line.endswith(f"\ttest-mlogloss:{mean:.5f}+{std:.5f}")
    sealed = mpfedxgb.cv(
        {"objective": "binary:logistic", "max_depth": 1, "max_bin": 3, "security": "sealed"}, BINARY, 1
    )
    assert list(sealed) == ["test-logloss-mean", "test-logloss-std"]


def test_what_cannot_be_trained_is_answered() -> None:
    """Names, values and remedies."""
    wrong: Any = PARTS
    for call, error, says in (
        (lambda: mpfedxgb.train(PARAMS, wrong), DataError, r"table is a dict; give mpfedxgb.FederatedTable\("),
        (lambda: mpfedxgb.train(PARAMS, FederatedTable(PARTS)), DataError, "table has no label"),
        (
            lambda: mpfedxgb.train(PARAMS | {"n_estimators": 3}, BINARY),
            SettingsError,
            "it is the argument num_boost_round",
        ),
        (lambda: mpfedxgb.train(PARAMS, BINARY, maximize=True), SettingsError, "return the negative value"),
        (lambda: mpfedxgb.train(PARAMS | {"num_class": 5}, BINARY), SettingsError, "the labels have 2 classes"),
        (lambda: mpfedxgb.train(PARAMS | {"eata": 1}, BINARY), UnknownParameterError, "no parameter eata"),
        (lambda: mpfedxgb.train({}, BINARY, evals=[(BINARY, "a")] * 2), SettingsError, "two tables of one name"),
        (lambda: mpfedxgb.cv(PARAMS, BINARY, nfold=1), SettingsError, "nfold=1 does not go with 90 rows"),
    ):
        with pytest.raises(error, match=says):
            call()


def test_scikit_learn_splits_federated_tables() -> None:
    """cross_val_score, its splitters with groups, and train_test_split: as one table that participants cut."""
    model = FedXGBClassifier(n_estimators=2, max_depth=2, max_bin=8, participants=[["a", "b"], ["c", "d"]])
    for params in ({"cv": 3}, {"cv": GroupKFold(2), "groups": np.arange(90) % 5, "scoring": "roc_auc"}):
        expected = cross_val_score(model, X, BINARY.label, **params)
        np.testing.assert_array_equal(cross_val_score(model, BINARY, BINARY.label, **params), expected)
    first, second, y_first, _ = train_test_split(BINARY, BINARY.label, random_state=0)
    np.testing.assert_array_equal(first.label, y_first)
    assert (len(first), len(second)) == (67, 23)
