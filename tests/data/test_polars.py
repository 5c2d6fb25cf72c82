"""Tables of polars, where it is installed: what is read is what pandas' tables of the same values give.

polars is left out of the development tools for its size (170 MB); tests/data/test_arrow.py holds the protocol that it
speaks to pyarrow's tables.
"""

from __future__ import annotations

import datetime
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.data import Table
from mpfedxgb.errors import DataError
from support.toy_tables import QUICK, halves, labels, people

pl = pytest.importorskip("polars", reason="polars is not installed")

PEOPLE = people()


def as_polars(frame: pd.DataFrame) -> Any:
    """Return a table of polars with the same values: null where one is missing, categories as an Enum."""
    words = pl.Series("city", [None if pd.isna(c) else c for c in frame["city"]], pl.Enum(["Basel", "Lagos", "Quito"]))
    numbers = {name: frame[name].to_numpy() for name in frame.columns if name != "city"}
    table = pl.DataFrame(numbers, nan_to_null=True).with_columns(words)
    return table.select(list(frame.columns))


def test_the_columns_are_those_of_pandas() -> None:
    """Numbers, missing values and categories, whatever order the categories come in."""
    ours, theirs = Table.read(PEOPLE, "bank"), Table.read(as_polars(PEOPLE), "bank")
    assert theirs.names == ours.names
    matched = theirs.match(ours.names, {c.name: c.categories for c in ours.columns if c.categories is not None})
    for mine, other in zip(ours.columns, matched.columns, strict=True):
        np.testing.assert_array_equal(mine.values, other.values)


def test_every_kind_of_column() -> None:
    """Text, truth values, unsigned and large integers, decimals, nothing at all; null is missing."""
    table = pl.DataFrame(
        {
            "text": ["b", None, "a"],
            "category": pl.Series(["x", "y", None], dtype=pl.Categorical),
            "truth": [True, None, False],
            "small": pl.Series([1, 2, None], dtype=pl.UInt8),
            "large": [2**60, 0, 1],
            "nothing": [None, None, None],
        }
    )
    read = {column.name: column for column in Table.read(table, "bank").columns}
    assert read["text"].categories == ("a", "b")
    np.testing.assert_array_equal(read["text"].values, [1, np.nan, 0])
    assert read["category"].categories == ("x", "y")
    np.testing.assert_array_equal(read["category"].values, [0, 1, np.nan])
    np.testing.assert_array_equal(read["truth"].values, [1, np.nan, 0])
    np.testing.assert_array_equal(read["small"].values, [1, 2, np.nan])
    np.testing.assert_array_equal(read["large"].values, np.array([2**60, 0, 1], np.float32))
    np.testing.assert_array_equal(read["nothing"].values, [np.nan] * 3)


def test_estimators_take_them() -> None:
    """As one table and as one per participant; labels may be a Series of polars."""
    y, table = labels(PEOPLE, "binary"), as_polars(PEOPLE)
    expected = FedXGBClassifier(**QUICK).fit(halves(PEOPLE), y).predict_proba(halves(PEOPLE))
    one = FedXGBClassifier(**QUICK).fit(table, pl.Series(y), eval_set=[(table, y)])
    tables = {name: table.select(list(part.columns)) for name, part in halves(PEOPLE).items()}
    two = FedXGBClassifier(**QUICK).fit(tables, y)
    for model, X in ((one, table), (two, tables), (two, table)):
        np.testing.assert_array_equal(model.predict_proba(X), expected)


def test_scikit_learn_and_ids() -> None:
    """Folds of a polars table are scored; an id column puts tables in order that polars lists in another."""
    table, y = as_polars(PEOPLE), PEOPLE["age"].to_numpy(np.float64)
    assert cross_val_score(FedXGBRegressor(**QUICK), table, y, cv=2).shape == (2,)
    bank = table.select("age", "income").with_columns(person=np.arange(70))
    telecom = table.select("calls").with_columns(person=np.arange(70)).reverse()
    model = FedXGBRegressor(**QUICK, id="person").fit({"bank": bank, "telecom": telecom}, y)
    straight = FedXGBRegressor(**QUICK).fit([bank.drop("person"), telecom.drop("person").reverse()], y)
    np.testing.assert_array_equal(
        model.predict({"bank": bank, "telecom": telecom}),
        straight.predict([bank.drop("person"), telecom.drop("person").reverse()]),
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pl.DataFrame({"a": [1]}).lazy(), r"bank: a LazyFrame has no rows yet; give what its collect\(\) returns"),
        (
            pl.DataFrame({"day": [datetime.date(2020, 1, 1)]}),
            "bank: column 'day' holds datetime.date|dates or durations",
        ),
        (pl.DataFrame({"list": [[1, 2]]}), "which is not a number"),
        (pl.DataFrame({"a": []}, schema={"a": pl.Float64}), "the table has no rows"),
    ],
)
def test_what_is_refused(table: Any, message: str) -> None:
    """With the words that pandas' tables are refused with."""
    with pytest.raises(DataError, match=message):
        Table.read(table, "bank")


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lacks it is told what to install."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        DataError, match=r"bank: a polars DataFrame is read by pyarrow; pip install 'mpfedxgb\[arrow\]'"
    ):
        Table.read(pl.DataFrame({"a": [1]}), "bank")
