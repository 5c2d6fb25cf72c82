"""Tables of pyarrow: what is read is what pandas' tables of the same values give."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mpfedxgb import FedXGBClassifier, join
from mpfedxgb.data import Table
from mpfedxgb.errors import DataError
from support.refusals import refused
from support.toy_tables import QUICK, halves, labels, people

PEOPLE = people()


def as_arrow(frame: pd.DataFrame) -> Any:
    """Return a pyarrow table with the same values, in two pieces whose dictionaries differ."""
    first, second = frame.iloc[:30], frame.iloc[30:]
    return pa.concat_tables(
        [
            pa.Table.from_pandas(f.assign(city=f["city"].cat.remove_unused_categories()), preserve_index=False)
            for f in (first, second)
        ]
    )


def test_the_columns_are_those_of_pandas() -> None:
    """Numbers, missing values and categories, whatever order the categories come in."""
    ours, theirs = Table.read(PEOPLE, "bank"), Table.read(as_arrow(PEOPLE), "bank")
    assert theirs.names == ours.names
    matched = theirs.match(ours.names, {c.name: c.categories for c in ours.columns if c.categories is not None})
    for mine, other in zip(ours.columns, matched.columns, strict=True):
        np.testing.assert_array_equal(mine.values, other.values)


def test_estimators_take_them() -> None:
    """As one table and as one per participant, to fit, evaluate and predict."""
    y = labels(PEOPLE, "binary")
    expected = FedXGBClassifier(**QUICK).fit(halves(PEOPLE), y)
    one = FedXGBClassifier(**QUICK).fit(as_arrow(PEOPLE), pa.array(y.tolist()), eval_set=[(as_arrow(PEOPLE), y)])
    tables = {name: as_arrow(PEOPLE).select(list(part.columns)) for name, part in halves(PEOPLE).items()}
    two = FedXGBClassifier(**QUICK).fit(tables, pa.chunked_array([y.tolist()]))
    for model, X in ((one, as_arrow(PEOPLE)), (two, tables), (two, as_arrow(PEOPLE))):
        np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(halves(PEOPLE)))
    assert join(two.partial_models_).trees == join(expected.partial_models_).trees
    assert one.feature_names_in_.tolist() == list(PEOPLE.columns)
    listed = FedXGBClassifier(**QUICK).fit(list(tables.values()), y)
    assert [part.name for part in listed.partial_models_] == ["P1", "P2"]
    with pytest.raises(ValueError, match="same order"):
        one.predict(as_arrow(PEOPLE).select(list(PEOPLE.columns[::-1])))


def test_every_kind_of_column() -> None:
    """Text, truth values, unsigned and large integers, nothing at all; null is missing."""
    table = pa.table(
        {
            "text": ["b", None, "a"],
            "truth": [True, None, False],
            "small": pa.array([1, 2, None], pa.uint8()),
            "large": pa.array([2**60, 0, 1], pa.int64()),
            "nothing": pa.nulls(3),
        }
    )
    read = {column.name: column for column in Table.read(table, "bank").columns}
    assert read["text"].categories == ("a", "b")
    np.testing.assert_array_equal(read["text"].values, [1, np.nan, 0])
    np.testing.assert_array_equal(read["truth"].values, [1, np.nan, 0])
    np.testing.assert_array_equal(read["small"].values, [1, 2, np.nan])
    np.testing.assert_array_equal(read["large"].values, np.array([2**60, 0, 1], np.float32))
    np.testing.assert_array_equal(read["nothing"].values, [np.nan] * 3)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"day": [datetime.date(2020, 1, 1)]}), ("type", "day")),
        (pa.table({"list": [[1, 2]]}), ("type", "list")),
        (pa.table([[1], [2]], names=["a", "a"]), ("duplicate", "bank")),
        (pa.table({"a": pa.array([], pa.float64())}), ("few", "bank")),
    ],
)
def test_what_is_refused(table: Any, message: tuple[Any, ...]) -> None:
    """With the words that pandas' tables are refused with."""
    with refused(DataError, *message):
        Table.read(table, "bank")
