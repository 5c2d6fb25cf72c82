"""Whose rows an auxiliary answers for: of a table, by a function, and of files that are taken up when they change."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.boosting.model import Feature
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError
from mpfedxgb.federation.lookup import StoreLookup, TableLookup, Watch
from mpfedxgb.federation.settings import RoleSettings
from patience import patience
from support.refusals import refused
from support.role_files import least, write

WAIT = 30.0
FEATURES = [Feature("age", None), Feature("city", ("Bonn", "Ulm"))]
PEOPLE = pd.DataFrame({"customer": ["7", "8", "x-9"], "age": [1.0, 2.0, 3.0], "city": ["Ulm", "Bonn", "Kiel"]})


def numbers(table: Table | None) -> list[list[float]]:
    """Return the values of a table's rows."""
    assert table is not None
    return [[float(column.values[i]) for column in table.columns] for i in range(table.rows)]


def test_rows_of_a_table() -> None:
    """In the order asked for; none if any is not there."""
    lookup = TableLookup(["a", "b", "c"], Table.read(np.array([[1.0], [2.0], [3.0]]), "telecom", ["age"]))
    table, missing = lookup.find(["c", "a"])
    assert (numbers(table), missing) == ([[3.0], [1.0]], 0)
    assert lookup.find(["c", "z", "a", "y"]) == (None, 2)


@pytest.fixture
def settings(tmp_path: Path) -> RoleSettings:
    """Return an auxiliary's settings."""
    return RoleSettings.from_toml(write(tmp_path, least("telecom")))


def store_of(settings: RoleSettings, answer: Callable[[list[str]], Any]) -> StoreLookup:
    """Return a lookup by a function."""
    return StoreLookup(settings, answer, FEATURES)


def test_rows_of_a_feature_store(settings: RoleSettings) -> None:
    """Asked once a batch; what it returns may be in any order, have rows more or less, and ids of another type."""
    asked: list[list[str]] = []

    def answer(ids: list[str]) -> pd.DataFrame:
        asked.append(ids)
        return PEOPLE[PEOPLE["customer"].isin([*ids, "8"])].iloc[::-1]

    lookup = store_of(settings, answer)
    table, missing = lookup.find(["x-9", "7"])
    assert (numbers(table)[1], missing) == ([1.0, 1.0], 0)
    assert numbers(table)[0][0] == 3.0
    assert lookup.find(["7", "nobody", "nothing"]) == (None, 2)
    assert asked == [["x-9", "7"], ["7", "nobody", "nothing"]]
    whole = PEOPLE.iloc[:1].assign(customer=[7])
    assert store_of(settings, lambda ids: whole).find(["7", "x-9"]) == (None, 1)
    zeros = PEOPLE.iloc[:2].assign(customer=["007", "8"])
    assert store_of(settings, lambda ids: zeros).find(["007", "x-9"]) == (None, 1)
    assert numbers(store_of(settings, lambda ids: whole).find(["7"])[0]) == [[1.0, 1.0]]
    assert store_of(settings, lambda ids: None).find(["7"]) == (None, 1)
    assert store_of(settings, lambda ids: PEOPLE.iloc[:0]).find(["7"]) == (None, 1)


def test_a_feature_store_that_fails(settings: RoleSettings) -> None:
    """Its text stays where it is, for it may name people."""

    def fail(ids: list[str]) -> pd.DataFrame:
        raise KeyError(ids[0])

    with refused(DataError, "failed", "telecom") as caught:
        store_of(settings, fail).find(["c-1001"])
    assert "c-1001" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (PEOPLE.drop(columns="age"), ("unknown", "age")),
        (PEOPLE.drop(columns="customer"), ("unknown", "customer")),
        (PEOPLE.assign(more=1), ("unknown", "data.features")),
        (pd.concat([PEOPLE, PEOPLE]), ("duplicate", "customer")),
        (5, ("type", "telecom")),
    ],
)
def test_answers_that_are_no_table_of_the_model(settings: RoleSettings, answer: Any, said: tuple[Any, ...]) -> None:
    """They are refused as a file would be."""
    with refused(DataError, *said):
        store_of(settings, lambda ids: answer).find(["7"])


class Reader:
    """Reads a file, which must not hold "bad"."""

    def __init__(self, path: Path) -> None:
        self.path, self.taken = path, list[str]()
        self.meanwhile: Callable[[], object] = lambda: None

    def __call__(self) -> Callable[[], None]:
        """Read."""
        text = self.path.read_text()
        self.meanwhile()
        if text == "bad":
            raise DataError("the file is bad; correct it")
        return lambda: self.taken.append(text)


def test_files_that_change(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """They are read once they stay the same, and once; what is wrong is said once, and changes nothing."""
    path = tmp_path / "table.csv"
    path.write_text("old")
    read = Reader(path)
    told: list[bool] = []
    watch = Watch([path], read, told.append)

    def looks(times: int = 3) -> list[str]:
        for _ in range(times):
            watch.look()
        return read.taken

    assert looks() == []
    path.write_text("new one")
    assert looks(1) == [], "it may still be written to"
    assert looks() == ["new one"]
    path.write_text("bad")
    assert looks(5) == ["new one"]
    assert caplog.text.count("the file is bad; correct it; what was read before stays in use") == 1
    path.unlink()
    assert looks() == ["new one"]
    assert "No such file" in caplog.text
    (tmp_path / "other").write_text("by renaming")
    (tmp_path / "other").rename(path)
    assert looks() == ["new one", "by renaming"]
    assert told == [True, False, False, True]

    def write_on() -> None:
        read.meanwhile = lambda: None
        path.write_text("whole")

    path.write_text("half")
    read.meanwhile = write_on
    assert looks(6) == ["new one", "by renaming", "whole"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="this system has no SIGHUP")
def test_hangups(tmp_path: Path) -> None:
    """SIGHUP reads them again though nothing has changed; afterwards it does what it did before."""
    path = tmp_path / "table.csv"
    path.write_text("same")
    read = Reader(path)
    before = signal.getsignal(signal.SIGHUP)
    with Watch([path], read, lambda is_taken_up: None).looking():
        os.kill(os.getpid(), signal.SIGHUP)
        end = time.monotonic() + patience(WAIT)
        while not read.taken:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert read.taken == ["same"]
    assert signal.getsignal(signal.SIGHUP) == before
