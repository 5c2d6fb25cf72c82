"""Files that are read in chunks come out as if they had been read at once, and take little more than the table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench_reading import settings_of
from mpfedxgb.data import Table, bin_table, chunks, files
from mpfedxgb.data.files import read_table
from mpfedxgb.errors import DataError
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings import RoleSettings
from patience import patience
from support.property_tests import examples

NUMBERS = ["0", "1", "-3", "007", "2.5", "1e3", "-0.1", "16777217", "0.30000001192092896", "1e-46", ""]
LEAST = "-9223372036854775808" if tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1) else "-9223372036854775807"
"""Before 3.1 pandas itself takes -2^63 for missing in a column of integers in which others are."""

LARGE = ["9007199254740993", LEAST, "9223372036854775808", "1" * 30, "1e39", "inf", "nan", "1e400"]
OTHERS = ["True", "false", "x", "NA", "Ärger", "1_0", "1;5", " 4 ", '"q"', '"1,5"', '""']
CELLS = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS + LARGE), st.sampled_from(NUMBERS + LARGE + OTHERS))
COLUMN = st.lists(CELLS, min_size=7, max_size=7) | st.sampled_from([NUMBERS[:7], OTHERS[2:9], ["True"] * 7, [""] * 7])
COLUMNS = st.lists(COLUMN, min_size=1, max_size=4)


def in_chunks(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Let chunks have so many rows of CSV, and one column of Parquet."""
    monkeypatch.setattr(chunks, "_LEAST_ROWS", rows)
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 1)
    monkeypatch.setattr(files, "CHUNK_CELLS", 1)


def outcome(path: Path, **told: Any) -> pd.DataFrame | str:
    """Return the table of a file, or how it is refused."""
    try:
        return read_table(path, **told)
    except DataError as error:
        return str(error)


def columns_of(frame: pd.DataFrame) -> Table | str:
    """Return the columns of a participant, or how they are refused."""
    try:
        return Table.read(frame, "bank")
    except DataError as error:
        return str(error)


@pytest.mark.parametrize("rows", [1, 4, 6, 100])
def test_missing_beside_integers_beyond_all_types(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """It is missing wherever a chunk ends, and no category."""
    path = tmp_path / "t.csv"
    path.write_text(
        "\n".join(["id,c", *(f"{i},{c}" for i, c in enumerate(["0", "0", "0", "0", "1" * 30, "2.5", "nan"]))])
    )
    in_chunks(monkeypatch, rows)
    column = read_table(path)["c"]
    assert list(column.cat.categories) == ["0", "1" * 30, "2.5"]
    assert column.isna().tolist() == [False] * 6 + [True]


@given(COLUMNS, st.integers(1, 6), st.sampled_from([{}, {"text_columns": ["c0"]}, {"numbers": ["c0"]}]))
@examples(80)
def test_a_csv_file_in_chunks_is_the_file(
    tmp_path_factory: pytest.TempPathFactory, columns: list[list[str]], rows: int, told: dict[str, Any]
) -> None:
    """Types, categories, missing values and messages do not depend on where a chunk ends."""
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    lines = [",".join(cells) for cells in zip(range7(), *columns, strict=True)]
    path.write_text("\n".join([",".join(["id", *(f"c{j}" for j in range(len(columns)))]), *lines]) + "\n")
    whole = outcome(path, verbatim=["id"], **told)

    with pytest.MonkeyPatch.context() as patch:
        in_chunks(patch, rows)
        parts = outcome(path, verbatim=["id"], **told)

    assert type(parts) is type(whole)
    if isinstance(whole, pd.DataFrame) and isinstance(parts, pd.DataFrame):
        pd.testing.assert_frame_equal(parts, whole)
    else:
        assert parts == whole


@pytest.mark.parametrize("missing", ["", "NA", "null", "n/a", "<NA>", "-nan", "None"])
def test_missing_values_beside_integers_that_are_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """They are no words where a chunk ends between them and the word that makes words of the column."""
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["c0", "0", "0", "0", "True", "0", "9223372036854775808", f'"{missing}"']) + "\n")
    whole = read_table(path)["c0"]
    in_chunks(monkeypatch, 4)
    pd.testing.assert_series_equal(read_table(path)["c0"], whole)
    assert whole.isna().tolist() == [False] * 6 + [True]


def range7() -> list[str]:
    """Return ids that are no numbers to everybody."""
    return ["007", "NA", "", "x", "2", "1.0", "1"]


@given(COLUMNS, st.integers(1, 6))
@examples(60)
def test_float32_from_the_start_is_float32_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, columns: list[list[str]], rows: int
) -> None:
    """A participant's columns are bit for bit those of a table in double precision, and refused with the same words."""
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    header = ",".join(f"c{j}" for j in range(len(columns)))
    path.write_text("\n".join([header, *(",".join(cells) for cells in zip(*columns, strict=True))]) + "\n")
    double = outcome(path)

    with pytest.MonkeyPatch.context() as patch:
        in_chunks(patch, rows)
        single = outcome(path, exact=["c1"])

    assert type(single) is type(double)
    if isinstance(double, str) or isinstance(single, str):
        assert isinstance(single, str)
        assert isinstance(double, str)
        if "column 'c1' holds" in double:  # of a column that is named as exact, such as labels, no value is quoted
            single, double = (text.partition(" holds ")[0] for text in (single, double))
        assert single == double
        return
    if "c1" in double:
        pd.testing.assert_series_equal(single["c1"], double["c1"])
    ours, theirs = columns_of(single), columns_of(double)
    if isinstance(ours, str) or isinstance(theirs, str):
        assert ours == theirs
        return
    for one, other in zip(ours.columns, theirs.columns, strict=True):
        assert (one.name, one.categories) == (other.name, other.categories)
        np.testing.assert_array_equal(one.values.view(np.uint32), other.values.view(np.uint32))


def test_a_parquet_file_by_columns_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kind of column that pandas writes comes back, with or without a named index, whatever is read at once."""
    frame = pd.DataFrame(
        {
            "f": [1.5, None, -0.0],
            "i": [1, 2, 2**60 + 1],
            "u": np.array([1, 2, 2**64 - 1], np.uint64),
            "small": np.array([1, 2, 3], np.int8),
            "nullable": pd.array([1, None, 3], "Int64"),
            "b": [True, False, True],
            "maybe": [True, None, False],
            "words": ["x", None, "y"],
            "kept": ["01", "2", None],
            "c": pd.Categorical(["u", None, "v"], ["w", "v", "u"]),
            "day": pd.to_datetime(["2024-01-01", "2024-03-01", "2024-01-02"]),
            "beyond": [1e39, 1.0, None],
        }
    )
    for index in (None, "id", "words"):
        path = tmp_path / "t.parquet"
        (frame if index is None else frame.set_index(frame["kept"].rename(index))).to_parquet(path)
        if index == "words":  # two columns of one name, which is refused later
            frame.drop(columns="words").set_index(frame["kept"].rename(index)).to_parquet(path)
        at_once = read_table(path, verbatim=["kept"])
        with monkeypatch.context() as patch:
            in_chunks(patch, 1)
            by_column = read_table(path, verbatim=["kept"])
            narrow = read_table(path, verbatim=["kept"], exact=["i"])
        pd.testing.assert_frame_equal(by_column, at_once)
        assert list(narrow.columns) == list(at_once.columns)
        pd.testing.assert_series_equal(narrow["i"], at_once["i"])
        assert {narrow[name].dtype.name for name in ("f", "u", "small")} == {"float32"}
        assert narrow["beyond"].dtype == np.float64
        for name in ("f", "u", "small", "nullable", "b"):
            ours, theirs = (Table.read(table[[name]], "bank").columns[0].values for table in (narrow, at_once))
            np.testing.assert_array_equal(ours.view(np.uint32), theirs.view(np.uint32))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_bins_and_labels_are_those_of_double_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """What a role reads from its file is what pandas reads in double precision: columns, cuts, and labels exactly."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "id": [f"p{i:03d}" for i in rng.permutation(90)],
            "y": rng.normal(size=90) / 3,
            "a": rng.normal(size=90),
            "city": rng.choice(["Bonn", "Ulm"], 90),
            "n": rng.integers(0, 5, 90),
        }
    )
    frame.loc[70, "a"] = np.nan
    path = tmp_path / f"t.{suffix}"
    frame.to_csv(path, index=False) if suffix == "csv" else frame.to_parquet(path, index=False)
    told = settings_of(path) | {"training": {"objective": "reg:squarederror"}}
    in_chunks(monkeypatch, 16)

    rows = read_rows(RoleSettings.from_dict(told), "train")

    wanted = frame.sort_values("id", ignore_index=True)
    table = Table.read(wanted[["a", "city", "n"]], "bank")
    assert rows.ids.keys == tuple(wanted["id"])
    assert rows.label is not None
    np.testing.assert_array_equal(rows.label, wanted["y"].to_numpy())
    for one, other in zip(bin_table(rows.table, 8).edges, bin_table(table, 8).edges, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(bin_table(rows.table, 8).codes, bin_table(table, 8).codes)
    assert [c.categories for c in rows.table.columns] == [c.categories for c in table.columns]


READING = """
import sys
from pathlib import Path
from bench_reading import measure
print(measure(Path(sys.argv[1]))["peak"])
"""


@pytest.mark.process
def test_a_row_takes_little_memory(tmp_path: Path) -> None:
    """Reading takes less than 700 bytes a row of 28 numbers and an id; as a whole frame of doubles it took 830."""
    peaks = {}
    for rows in (20_000, 120_000):
        path = tmp_path / f"{rows}.csv"
        values = [",".join(f"{v:.6f}" for v in row) for row in np.random.default_rng(1).normal(size=(500, 28))]
        lines = (f"{10_000_000 + i * 7919 % rows},{i % 2},{values[i % 500]}\n" for i in range(rows))
        path.write_text(f"id,y,{','.join(f'x{j}' for j in range(28))}\n" + "".join(lines))
        told = subprocess.run(  # noqa: S603 # this test's own program
            [sys.executable, "-c", READING, str(path)],
            cwd=Path(__file__).parents[2] / "benchmarks",
            check=True,
            capture_output=True,
            text=True,
            timeout=patience(250),
        )
        peaks[rows] = float(told.stdout) * 1e6
    assert (peaks[120_000] - peaks[20_000]) / 100_000 < 700
