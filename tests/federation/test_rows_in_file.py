"""Tables that stay in their Parquet file: read part by part, they are what they would be in memory."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.data import bin_table
from mpfedxgb.errors import DataError
from mpfedxgb.federation.own_training import data_digest
from mpfedxgb.federation.rows import read_rows
from support.parquet_tables import ROWS, both, people, written


def test_what_stays_in_the_file_is_what_memory_would_have(tmp_path: Path) -> None:
    """Values, categories, labels, cuts, bins of any rows, and what tells one training from another."""
    inside, outside = both(written(tmp_path, people()))
    assert inside.table.file is not None
    assert outside.table.file is None
    assert inside.ids.keys == outside.ids.keys
    np.testing.assert_array_equal(inside.label, outside.label)
    for one, other in zip(inside.table.columns, outside.table.columns, strict=True):
        assert (one.name, one.categories) == (other.name, other.categories)
        np.testing.assert_array_equal(one.values.view(np.uint32), other.values.view(np.uint32))
    assert data_digest([inside.table], []) == data_digest([outside.table], [])
    bins, wanted = bin_table(inside.table, 8), bin_table(outside.table, 8)
    assert bins.codes.size == 0
    for rows in (slice(0, ROWS), slice(1_699, 1_701), slice(5_000, 8_999)):
        np.testing.assert_array_equal(bins.codes_of(rows), wanted.codes[:, rows])


@pytest.mark.parametrize(
    ("change", "named", "says"),
    [
        (lambda f: f.sample(frac=1, random_state=1), {}, "is not sorted by id"),
        (lambda f: f.assign(i=f["i"].astype("category")), {}, "is no Parquet file of plain columns"),
        (lambda f: f.assign(i=pd.Timestamp("2024-01-01")), {"drop": ["i"]}, "is no Parquet file of plain columns"),
        (lambda f: f, {"categorical": ["i"]}, "is no Parquet file of plain columns"),
    ],
)
def test_files_that_the_role_has_to_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, change: Any, named: dict[str, Any], says: str
) -> None:
    """Rows in another order, or columns that only the whole file explains; the log says which it is."""
    settings = written(tmp_path, change(people(50)), **named)
    with caplog.at_level(logging.INFO, "mpfedxgb.role"):
        rows = read_rows(settings, "train", stay_in_file=True)
    assert rows.table.file is None
    assert f"t.parquet {says}" in caplog.text


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda f: f.assign(f=np.inf), {}),
        (lambda f: f.assign(f=1e300), {}),
        (lambda f: f.assign(id=7), {}),
        (lambda f: f.iloc[:0], {}),
        (lambda f: f.drop(columns="y"), {}),
        (lambda f: f, {"features": ["height"]}),
        (lambda f: f, {"drop": ["height"]}),
        (lambda f: f.drop(columns="id"), {}),
    ],
)
def test_bad_tables_are_refused_with_the_same_words(tmp_path: Path, change: Any, named: dict[str, Any]) -> None:
    """Wherever the rows are."""
    settings = written(tmp_path, change(people(50)), **named)
    with pytest.raises(DataError) as whole:
        read_rows(settings, "train")
    with pytest.raises(DataError) as parts:
        read_rows(settings, "train", stay_in_file=True)
    assert str(parts.value) == str(whole.value)
