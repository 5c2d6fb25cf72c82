"""Exported models and tables with other categories: xgboost matches them by what is written, or refuses them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FedXGBRegressor

ROWS = 200
WORDS = ["b", "dd", "f", "fa"]
INTEGERS = [-3, 2, 4, 60]
UMLAUTS = ["b", "z", "ä", "öx"]
KINDS: dict[str, list[Any]] = {"words": WORDS, "integers": INTEGERS, "umlauts": UMLAUTS}
VERSION = tuple(int(part) for part in xgboost.__version__.split(".")[:2])
READS_UTF8, REFUSES_UNKNOWN = VERSION >= (3, 4), VERSION >= (3, 3)


def table(kind: str) -> tuple[pd.DataFrame, pd.Series[float]]:
    """Return a table with a column of categories, and labels that depend on them."""
    rng = np.random.default_rng(7)
    codes = rng.integers(0, 4, ROWS)
    column = pd.Categorical.from_codes(codes, pd.Index(KINDS[kind]))
    X = pd.DataFrame({"group": column, "age": rng.random(ROWS)})
    return X, pd.Series(np.array([3.0, 0.0, 7.0, 1.0])[codes] + X["age"])


@pytest.fixture(scope="module", params=KINDS)
def trained(request: pytest.FixtureRequest) -> tuple[str, FedXGBRegressor, Any]:
    """Return a kind of categories, a model of them and its export."""
    model = FedXGBRegressor(security="none", n_estimators=5).fit(*table(request.param))
    return request.param, model, model.to_xgboost()


def scores_alike(model: FedXGBRegressor, booster: Any, X: pd.DataFrame) -> bool:
    """Return whether xgboost scores rows as our model does, from a DMatrix and in place; False if it refuses both."""
    ours, refusals = model.predict(X), 0
    for predict in (lambda X: booster.predict(xgboost.DMatrix(X, enable_categorical=True)), booster.inplace_predict):
        try:
            np.testing.assert_allclose(predict(X), ours, rtol=1e-5, atol=1e-5)
        except xgboost.core.XGBoostError:
            refusals += 1
    assert refusals in (0, 2)
    return refusals == 0


def with_categories(X: pd.DataFrame, categories: list[Any]) -> pd.DataFrame:
    """Return rows with their categories listed in another way."""
    return X.assign(group=X["group"].cat.set_categories(categories))


def test_categories_in_another_order_or_fewer_score_the_same(trained: tuple[str, FedXGBRegressor, Any]) -> None:
    """Words are looked up as they are written; an xgboost that cannot read all of them refuses them instead."""
    kind, model, booster = trained
    X, known = table(kind)[0], KINDS[kind]
    is_read = kind != "umlauts" or READS_UTF8

    assert scores_alike(model, booster, X) == is_read
    assert scores_alike(model, booster, with_categories(X, known[::-1])) == is_read
    for left_out in known:
        fewer = [one for one in known if one != left_out]
        assert scores_alike(model, booster, with_categories(X[X["group"] != left_out], fewer)) == is_read


UNKNOWN: dict[str, list[Any]] = {
    "words": ["", "A", "a", "c", "d", "dd ", "e", "f~", "g"],
    "integers": [-9, -4, -2, 0, 3, 5, 59, 61],
    "umlauts": ["a", "y", "ö", "ß"],
}


def test_unknown_categories_score_as_no_known_one_or_are_refused(trained: tuple[str, FedXGBRegressor, Any]) -> None:
    """In no version are they taken for another category, wherever they stand among the sorted ones."""
    kind, model, booster = trained
    for unknown in UNKNOWN[kind]:
        X = with_categories(table(kind)[0], sorted([*KINDS[kind], unknown]))
        X.iloc[:20, 0] = unknown
        assert not scores_alike(model, booster, X) or not REFUSES_UNKNOWN


def test_saved_models_match_categories_too(trained: tuple[str, FedXGBRegressor, Any]) -> None:
    """What was exported is still there after xgboost has saved and loaded the model."""
    kind, model, booster = trained
    again = xgboost.Booster(model_file=booster.save_raw("ubj"))

    assert scores_alike(model, again, with_categories(table(kind)[0], KINDS[kind][::-1])) == (
        kind != "umlauts" or READS_UTF8
    )


def test_codes_are_taken_by_every_version(trained: tuple[str, FedXGBRegressor, Any]) -> None:
    """A table of numbers, with the codes of the attribute "categories", is scored as before."""
    kind, model, booster = trained
    X = table(kind)[0]
    codes = xgboost.DMatrix(X.assign(group=X["group"].cat.codes).to_numpy(), feature_types=["c", "float"])
    codes.feature_names = list(X.columns)

    np.testing.assert_allclose(booster.predict(codes), model.predict(X), rtol=1e-5, atol=1e-5)


def test_a_model_of_codes_is_trained_on_by_every_version(trained: tuple[str, FedXGBRegressor, Any]) -> None:
    """Without a word of what codes stand for, xgboost takes those of the table, and its categories."""
    kind, model, _ = trained
    X, y = table(kind)
    data = xgboost.DMatrix(X, label=y, enable_categorical=True)
    booster = model.to_xgboost(codes=True)

    np.testing.assert_allclose(booster.predict(data), model.predict(X), rtol=1e-5, atol=1e-5)
    more = xgboost.train({"objective": "reg:squarederror"}, data, 2, xgb_model=booster)
    assert more.num_boosted_rounds() == booster.num_boosted_rounds() + 2


def test_an_xgboost_that_cannot_read_words_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Before 3.4 it refuses words that are not ASCII, so the export says which columns need codes."""
    model = FedXGBRegressor(security="none", n_estimators=1).fit(*table("umlauts"))
    with caplog.at_level("WARNING", "mpfedxgb.model"):
        model.to_xgboost()

    told = [r.getMessage() for r in caplog.records if "not ASCII" in r.getMessage()]
    assert len(told) == (0 if READS_UTF8 else 1)
    assert all("refuse them in group; give their codes" in text for text in told)
