"""The paper's data sets: same numbers from every source, and a clear message where there is none."""

from __future__ import annotations

import gzip
import io
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

from experiments import data
from experiments.data import dataset1, dataset2, repeat_columns
from mpfedxgb.errors import DataError
from support.data_sets import whole_data

CREDIT, ADULT, ONEHOT = "give_me_some_credit.csv.gz", "adult.data.csv.gz", "adult_onehot108.csv.gz"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Forget data sets that other tests have read."""
    data._load.cache_clear()
    yield
    data._load.cache_clear()


@pytest.mark.parametrize(("rows", "counts"), [(5_000, (4_653, 347)), (10_000, (9_306, 694)), (30_000, (27_916, 2_084))])
def test_dataset1(rows: int, counts: tuple[int, int]) -> None:
    """Training rows keep the mix of classes, the test rows follow them in the file; columns end at 1."""
    split = dataset1(whole_data(CREDIT).parent, rows)

    assert tuple(np.bincount(split.y_train)) == counts
    assert tuple(np.bincount(split.y_test)) == (6_979, 521)
    assert split.X_train.shape == (rows, 10)
    assert not set(split.X_train.index) & set(split.X_test.index)
    assert split.X_train.max().max() <= 1


def test_dataset2() -> None:
    """Four of five rows of each class train; every row is used."""
    split = dataset2(whole_data(ONEHOT).parent)

    assert tuple(np.bincount(split.y_train)) == (19_777, 6_272)
    assert tuple(np.bincount(split.y_test)) == (4_943, 1_569)
    assert split.X_train.shape[1] == 108


def test_adult_from_its_words(tmp_path: Path) -> None:
    """The file with words gives the same numbers as the one-hot file, which the checksum enforces."""
    shutil.copy(whole_data(ADULT), tmp_path)

    assert dataset2(tmp_path).X_train.shape == (26_049, 108)


def test_unpacked_file_is_as_good(tmp_path: Path) -> None:
    """What counts is the content, not how it is compressed."""
    (tmp_path / "give_me_some_credit.csv").write_bytes(gzip.decompress(whole_data(CREDIT).read_bytes()))

    assert len(dataset1(tmp_path, 5_000).y_train) == 5_000


def test_other_file_of_that_name(tmp_path: Path) -> None:
    """A changed file is refused by its checksum, a damaged one by its compression."""
    (tmp_path / CREDIT).write_bytes(gzip.compress(b"a,b\n1,2\n"))
    with pytest.raises(DataError, match=r"not the expected file.*SHA-256.*get Give Me Some Credit again"):
        dataset1(tmp_path)

    (tmp_path / CREDIT).write_bytes(b"not gzip at all")
    with pytest.raises(DataError, match="cannot read"):
        dataset1(tmp_path)


def test_folder_without_the_file(tmp_path: Path) -> None:
    """The message names the files that would do, and the other way."""
    with pytest.raises(DataError, match=r"has no adult_onehot108.csv.gz or adult.data.csv.gz; put it there, or leave"):
        dataset2(tmp_path)


def test_neither_folder_nor_network(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a network the real fetch fails at once, and the message says what to do; the time-out is put back."""

    def no_network(*_: Any, **__: Any) -> Any:
        raise OSError("there is no network")

    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    monkeypatch.setattr(socket, "getaddrinfo", no_network)
    before = socket.getdefaulttimeout()

    with pytest.raises(DataError, match=r"no --data folder was given.*there is no network.*Give --data DIR with give_"):
        dataset1(None)
    assert socket.getdefaulttimeout() == before


def _openml_credit() -> pd.DataFrame:
    frame = pd.read_csv(whole_data(CREDIT), index_col=0)
    label = pd.Series(np.where(frame.pop("SeriousDlqin2yrs") == 1, "Yes", "No"), frame.index, dtype="category")
    return frame.assign(FinancialDistressNextTwoYears=label)


def _openml_adult() -> pd.DataFrame:
    """Return the rows of adult.test before those of adult.data, as OpenML has them, with words as categories."""
    test = gzip.decompress(whole_data("adult.test.csv.gz").read_bytes()).split(b"\n", 1)[1]
    train = gzip.decompress(whole_data(ADULT).read_bytes())
    frames = [
        pd.read_csv(
            io.BytesIO(content),
            header=None,
            names=list(data.ADULT_COLUMNS),
            skipinitialspace=True,
            na_values="?",
        )
        for content in (test, train)
    ]
    frame = pd.concat(frames, ignore_index=True)
    return frame.assign(**{name: frame[name].astype("category") for name in data.ADULT_WORDS})


@pytest.mark.parametrize(("load", "table"), [(dataset1, _openml_credit), (dataset2, _openml_adult)])
def test_fetched_table_must_give_the_same_numbers(load: Any, table: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in OpenML's spelling gives the same arrays; one with its rows in another order is refused."""
    frame = table()
    monkeypatch.setattr(sklearn.datasets, "fetch_openml", lambda **_: SimpleNamespace(frame=frame))
    fetched, local = load(None), load(whole_data(CREDIT).parent)
    np.testing.assert_array_equal(fetched.X_train.to_numpy(), local.X_train.to_numpy())
    np.testing.assert_array_equal(fetched.y_test, local.y_test)

    frame = frame.iloc[::-1]
    data._load.cache_clear()
    with pytest.raises(DataError, match="other rows or another order"):
        load(None)


def test_repeated_columns() -> None:
    """Columns come again in their order, under names of their own."""
    frame = repeat_columns(pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), 5)

    assert list(frame.columns) == ["a 1", "b 1", "a 2", "b 2", "a 3"]
    assert frame.iloc[0].tolist() == [1, 3, 1, 3, 1]
