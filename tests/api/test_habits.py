"""What users of XGBoost do out of habit, and what comes of it: the same, or an answer."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from scipy import sparse

from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRegressor, train
from mpfedxgb.api import settings
from mpfedxgb.errors import DataError, SettingsError
from support.refusals import refused
from support.toy_tables import QUICK, halves, labels, numbers, people

X = people()
Y = labels(X, "binary")
NUMBERS = numbers(rows=80)
ZERO_ONE = (NUMBERS[:, 1] + NUMBERS[:, 3] > 0).astype(int)


@pytest.mark.parametrize("security", ["strict", "none"])
@pytest.mark.parametrize("classes", [2, 3])
def test_leaves_are_those_of_the_exported_booster(security: str, classes: int) -> None:
    """`apply` gives every row's leaf in every tree; some rounds of it, and trees of a single leaf, too."""
    y = ZERO_ONE + (NUMBERS[:, 0] > 1 if classes == 3 else 0)
    model = FedXGBClassifier(
        **QUICK | {"n_estimators": 5, "max_depth": 3},
        gamma={2: 8.0, 3: 4.0}[classes],
        participants=3,
        security=security,
    ).fit(NUMBERS, y)
    assert min(len(tree) for tree in model.partial_models_[0].trees) == 1
    theirs = model.get_booster().predict(xgboost.DMatrix(NUMBERS), pred_leaf=True)
    np.testing.assert_array_equal(model.apply(NUMBERS), theirs)
    per_round = model.partial_models_[0].params.trees_per_round
    np.testing.assert_array_equal(model.apply(NUMBERS, (1, 2)), theirs[:, per_round : 2 * per_round])


@pytest.mark.parametrize("security", ["sealed", "paper"])
def test_leaves_that_nobody_may_know_are_refused(security: str) -> None:
    """Nobody has the weights there, and so nobody learns who shares a leaf."""
    model = FedXGBClassifier(n_estimators=1, max_depth=1, max_bin=3, security=security, min_child_weight=0)
    with refused(SettingsError, "mode", "apply", security):
        model.fit(NUMBERS[:12], ZERO_ONE[:12]).apply(NUMBERS)


def test_the_booster_has_the_columns_of_the_table() -> None:
    """In its order whoever holds them, or without names after an array; its margins and start are the estimator's."""
    columns = ["calls", "age", "visits", "income"]
    mixed = [["income", "calls"], ["visits", "age"]]
    model = FedXGBClassifier(**QUICK, participants=mixed, base_score=0.3).fit(X[columns], Y)
    booster = model.get_booster()
    assert booster.feature_names == columns
    assert set(booster.get_score()) <= set(columns)
    assert booster.num_boosted_rounds() == len(booster.get_dump()) == 3
    margins = booster.predict(xgboost.DMatrix(X[columns]), output_margin=True)
    np.testing.assert_allclose(model.predict(X[columns], output_margin=True), margins, atol=1e-6)
    assert (model.n_classes_, model.intercept_.tolist()) == (2, [np.float32(0.3)])
    of_array = FedXGBRegressor(**QUICK).fit(NUMBERS, NUMBERS[:, 0])
    assert of_array.get_booster().feature_names is None
    theirs = of_array.get_booster().predict(xgboost.DMatrix(NUMBERS))
    np.testing.assert_allclose(of_array.predict(NUMBERS, output_margin=True), theirs, atol=1e-6)
    for name in ("intercept_", "n_classes_"):
        assert not hasattr(FedXGBClassifier(), name)


@pytest.mark.parametrize("verbose", [False, True, 2, 3])
def test_lines_are_xgboosts(verbose: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The same lines on standard output, after the same rounds; none unless they are asked for."""
    common: dict[str, Any] = {"n_estimators": 6, "max_depth": 2, "eval_metric": ["error", "logloss"]}
    evaluated = [(NUMBERS[40:], ZERO_ONE[40:]), (NUMBERS[:40], ZERO_ONE[:40])]
    theirs = xgboost.XGBClassifier(**common).fit(NUMBERS, ZERO_ONE, eval_set=evaluated, verbose=verbose)
    expected = capsys.readouterr().out
    model = FedXGBClassifier(**common, max_bin=256, security="none")
    model.fit(NUMBERS, ZERO_ONE, eval_set=evaluated, verbose=verbose)
    assert capsys.readouterr().out == expected
    assert expected.count("\n") == {False: 0, True: 6, 2: 4, 3: 3}[verbose]
    assert set(model.evals_result_) == set(theirs.evals_result())
    model.fit(NUMBERS, ZERO_ONE, eval_set=evaluated)
    assert not capsys.readouterr().out
    with refused(SettingsError, "value", "verbose", "loud"):
        model.fit(NUMBERS, ZERO_ONE, verbose="loud")


def test_evaluation_sets_may_have_names() -> None:
    """A dictionary names them, in results as in lines."""
    model = FedXGBClassifier(**QUICK, security="none").fit(X, Y, eval_set={"train": (X, Y), "late": (X[:20], Y[:20])})
    assert list(model.evals_result()) == ["train", "late"]


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csc_matrix, sparse.coo_array, sparse.lil_matrix])
def test_what_a_sparse_matrix_does_not_store_is_missing(form: Any) -> None:
    """As XGBoost reads one: zeros that are stored are zeros, others are missing."""
    held = np.where(np.random.default_rng(4).random(NUMBERS.shape) < 0.5, NUMBERS, 0.0)
    dense = np.where(held == 0, np.nan, held)
    params: dict[str, Any] = {"n_estimators": 4, "max_depth": 3}
    ours = FedXGBClassifier(**params, max_bin=256, security="none").fit(form(held), ZERO_ONE)
    theirs = xgboost.XGBClassifier(**params).fit(sparse.csr_matrix(held), ZERO_ONE)
    np.testing.assert_allclose(ours.predict_proba(form(held)), theirs.predict_proba(sparse.csr_matrix(held)), atol=1e-6)
    np.testing.assert_array_equal(ours.predict_proba(dense), ours.predict_proba(form(held)))
    tables = {"bank": form(held[:, :2]), "telecom": form(held[:, 2:])}
    apart = FedXGBClassifier(**params, max_bin=256, security="none").fit(tables, ZERO_ONE)
    np.testing.assert_array_equal(apart.predict_proba(tables), ours.predict_proba(dense))


@pytest.mark.parametrize("mark", [-999.0, 0, np.inf, 0.1])
def test_a_number_may_stand_for_a_missing_value(mark: float) -> None:
    """As in XGBoost: beside NaN, compared as float32, in frames, arrays and sparse matrices, when scoring too."""
    rng = np.random.default_rng(5)
    held = np.where(rng.random(NUMBERS.shape) < 0.3, mark, np.where(rng.random(NUMBERS.shape) < 0.1, np.nan, NUMBERS))
    params: dict[str, Any] = {"n_estimators": 4, "max_depth": 3, "missing": mark}
    ours = FedXGBClassifier(**params, max_bin=256, security="none")
    theirs = xgboost.XGBClassifier(**params).fit(held, ZERO_ONE)
    np.testing.assert_allclose(ours.fit(held, ZERO_ONE).predict_proba(held), theirs.predict_proba(held), atol=1e-6)
    frame, filled = pd.DataFrame(held).add_prefix("f"), np.where(held == mark, np.nan, held)
    table = FederatedTable([frame[["f0", "f1"]], frame[["f2", "f3"]]], label=ZERO_ONE, missing=mark)
    params = {"max_depth": 3, "max_bin": 256, "security": "none", "objective": "binary:logistic"}
    model = train(params, table, 4, evals=[(table[:40], "some")], verbose_eval=False)
    for given in (table, table[:40]):
        np.testing.assert_array_equal(model.predict_proba(given), ours.predict_proba(filled)[: len(given)])
    stored = sparse.csr_matrix(np.where(np.isnan(filled), 0.0, held))
    zeros = stored.copy()
    zeros.data[:] = np.where(zeros.data > 1, mark, zeros.data)  # stored, and missing
    np.testing.assert_array_equal(
        ours.predict_proba(zeros), ours.predict_proba(np.where((filled > 1) | (filled == 0), np.nan, filled))
    )


def test_categories_are_no_numbers_that_may_be_missing() -> None:
    """XGBoost compares their codes, so that the first category of each column is missing where 0 is."""
    words = X[["age", "income", "city"]]
    model = FedXGBClassifier(**QUICK, security="none", missing=0)
    plain = FedXGBClassifier(**QUICK, security="none")
    assert (words.city.cat.codes == 0).any()
    np.testing.assert_array_equal(model.fit(words, Y).predict_proba(words), plain.fit(words, Y).predict_proba(words))


def test_a_stored_zero_is_a_zero() -> None:
    """Values in one place twice are added, as SciPy has it."""
    held = sparse.coo_matrix(([0.0, 1.0, 2.0, 5.0], ([0, 1, 1, 2], [0, 0, 0, 0])), shape=(4, 1))
    model = FedXGBRegressor(n_estimators=1, max_depth=2, learning_rate=1.0, reg_lambda=0.0, security="none")
    wide = sparse.hstack([held, held]).tocoo()
    model.fit(wide, [1.0, 2.0, 3.0, 4.0])
    assert model.predict(np.array([[0.0, 0], [3, 3], [5, 5], [np.nan, np.nan]])).tolist() == [1, 2, 3, 4]


def test_the_log_says_once_where_defaults_differ(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the first training that takes one of those defaults."""
    monkeypatch.setattr(settings, "_told_defaults", False)
    with caplog.at_level(logging.INFO, "mpfedxgb.training"):
        given: list[dict[str, Any]] = [{"max_depth": 2, "max_bin": 6}, {"max_depth": 2}, {}]
        for params in given:
            FedXGBClassifier(n_estimators=1, security="none", **params).fit(X, Y)
    told = [record.getMessage() for record in caplog.records if "defaults" in record.getMessage()]
    assert told == ["defaults that differ from XGBoost's: max_bin=32 (XGBoost: 256); each level and bin costs messages"]


def test_a_federated_table_is_split_by_rows() -> None:
    """Slices, places and truth values; labels, weights and every participant's table with them."""
    forms: list[Any] = [X[["age"]], X[["income"]].to_numpy(), sparse.csr_matrix(NUMBERS[:70])]
    table = FederatedTable(forms, label=Y, weight=np.arange(70))
    assert (len(table), table.shape, repr(table)) == (
        70,
        (70, 6),
        "FederatedTable(rows=70, participants=['P1', 'P2', 'P3'])",
    )
    for rows in (np.array([3, 1, 69]), slice(5, 20, 2), np.arange(70) % 3 == 0, [4, 4], (np.array([2]), ...)):
        places = np.arange(70)[rows[0] if isinstance(rows, tuple) else rows]
        some = table[rows]
        assert len(some) == len(places)
        np.testing.assert_array_equal(some.weight, places)
        np.testing.assert_array_equal(some.label, Y[places])
        np.testing.assert_array_equal(some.tables["P1"].index, places)
        np.testing.assert_array_equal(some.tables["P2"], X[["income"]].to_numpy()[places])
        np.testing.assert_array_equal(some.tables["P3"].toarray(), NUMBERS[places])
    for wrong in (3, np.int64(3)):
        with pytest.raises(TypeError, match=r"no single row; table\[\[3\]\]"):
            table[wrong]
    with refused(DataError, "type", "rows"):
        table[:, 1]
    with refused(DataError, "mismatch", "label", 69):
        FederatedTable(forms, label=Y[:-1])


def test_a_federated_table_is_what_its_tables_are() -> None:
    """Its own labels and weights serve `fit` and `score`, others on request; by ids its rows are put in one order."""
    weight = np.arange(70.0)
    table = FederatedTable(halves(X), label=Y, weight=weight)
    model = FedXGBClassifier(**QUICK, security="none").fit(table, eval_set=[(table, Y)])
    plain = FedXGBClassifier(**QUICK, security="none").fit(halves(X), Y, sample_weight=weight)
    np.testing.assert_array_equal(model.predict_proba(table), plain.predict_proba(halves(X)))
    assert model.score(table) == plain.score(halves(X), Y, weight) != plain.score(halves(X), Y)
    named = X.rename_axis("person")
    mixed = {"bank": halves(named)["bank"], "telecom": halves(named)["telecom"].sample(frac=1, random_state=1)}
    with refused(DataError, "mismatch", "telecom", "bank"):
        FederatedTable(mixed)
    aligned = FederatedTable(mixed, label=Y, weight=weight, id="person")
    same = FedXGBClassifier(**QUICK, security="none", id="person").fit(aligned)
    np.testing.assert_array_equal(same.predict_proba(aligned[:30]), model.predict_proba(table[:30]))


def test_generators_are_as_good_as_seeds() -> None:
    """random_state takes NumPy's, whose next number draws the samples, so that the same generator repeats them."""
    x = np.random.default_rng(3).normal(size=(60, 3))
    y = (x[:, 0] > 0).astype(int)

    def margins(random_state: Any) -> Any:
        model = FedXGBClassifier(n_estimators=3, subsample=0.5, security="none", random_state=random_state)
        return model.fit(x, y).decision_function(x)

    for make in (np.random.RandomState, np.random.default_rng):
        assert (margins(make(1)) == margins(make(1))).all()
        one = make(1)
        assert (margins(one) != margins(one)).any()
