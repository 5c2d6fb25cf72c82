"""A column of numbers in which few values are none is refused, with line, value and remedy; codes stay categories."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data import chunks
from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.data.files import read_table
from mpfedxgb.errors import DataError
from support.property_tests import examples
from support.refusals import refused

NUMBERS = [f"{i / 7:.3f}" for i in range(95)]


def write(folder: Path, values: list[str], name: str = "income") -> Path:
    """Write a column beside another one."""
    path = folder / "t.csv"
    path.write_text("\n".join([f"id,{name}", *(f"{i},{value}" for i, value in enumerate(values))]) + "\n")
    return path


def test_the_message_names_line_value_and_remedies(tmp_path: Path) -> None:
    """The first odd value with its line, the others without; what to set in a role's settings and on a command line."""
    path = write(tmp_path, [*NUMBERS, "n.a.", "-", "n.a."])
    with pytest.raises(DataError) as refused:
        read_table(path)
    assert str(refused.value) == (
        f"{path}: line 97: column 'income' holds 'n.a.', which is not a number (3 of 98 values; also '-'); correct "
        'them, or if they stand for missing values set [data] missing = ["-", "n.a."] (--missing \'-,n.a.\'), or if '
        "the column holds words name it in [data] categorical (--categorical)"
    )


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (['"1.234,0"'], r"'1\.234,0', which is not a number \(1 of 96 values\); write them as 1234\.5, or say which"),
        (['"1,5"', "x"], r"'1,5', .* \(2 of 97 values; also 'x'\); write them as 1234\.5, or .* missing = \[\"x\"\]"),
        (["1O5"], r"'1O5', which is not a number \(1 of 96 values\); correct them, or if they stand for missing"),
        ([f"w{i}" for i in range(10)], r"'w0', .* \(10 of 105 values; also 'w1', 'w2', 'w3', 'w4', 'w5', \.\.\.\)"),
        (["y" * 99], f"'{'y' * 40}...', which is not"),
        (["True"], "'True', which is not a number"),
    ],
)
def test_few_others_among_numbers(tmp_path: Path, values: list[str], says: str) -> None:
    """One in ten at most, and ten different words at most, are taken for mistakes."""
    with refused(DataError, "type", "income", 97):
        read_table(write(tmp_path, [*NUMBERS, *values]))


@pytest.mark.parametrize("separated", ['"1,5"', '"1.234,5"', "1'234.5", '"12345,6"'])
def test_numbers_in_another_notation_at_any_share(tmp_path: Path, separated: str) -> None:
    """They are no words however many there are: half, or all."""
    for values in ([separated] * 9, [*NUMBERS[:9], *[separated] * 9]):
        with refused(DataError, "type", "income"):
            read_table(write(tmp_path, values))


@pytest.mark.parametrize(
    "values",
    [
        ["A1", "12"] * 30,
        ["0", "1", "2", "3+"] * 20,
        [*NUMBERS[:9], "?", "x"],
        [*map(str, range(600)), *(f"V{i}" for i in range(11))],
        ["2024-01-01"] * 9,
        ["1", "2", "1,2,3"] * 9,
    ],
    ids=["codes", "and more", "more than one in ten", "eleven words", "dates", "lists"],
)
def test_columns_of_words(tmp_path: Path, values: list[str]) -> None:
    """Half text, rare codes of many kinds and all else that is meant stays a column of categories."""
    quoted = [f'"{value}"' for value in values]
    assert sorted(read_table(write(tmp_path, quoted))["income"].cat.categories) == sorted({*values})


def test_columns_that_are_meant_so(tmp_path: Path) -> None:
    """Columns of words, those that stay as they are written and those that may mix are not looked at."""
    path = write(tmp_path, [*NUMBERS, "n.a."])
    assert read_table(path, text_columns=["income"])["income"].iloc[-1] == "n.a."
    assert read_table(path, verbatim=["income"])["income"].iloc[-1] == "n.a."
    assert read_table(path, may_mix=["income"].__contains__)["income"].iloc[-1] == "n.a."


def test_labels_are_not_quoted(tmp_path: Path) -> None:
    """Of a column that is read exactly, as labels are, the line is named and no value."""
    path = write(tmp_path, [*NUMBERS, '"1.234,5"', "secret"])
    with refused(DataError, "type", "income", 97) as caught:
        read_table(path, exact=["income"])
    assert not re.search("1.234|secret|categorical =", str(caught.value))


class TestMissing:
    """Texts that stand for a missing value."""

    def test_csv(self, tmp_path: Path) -> None:
        """Numbers stay numbers beside them, words lose them, ids keep them."""
        path = tmp_path / "t.csv"
        path.write_text("id,n,w,k\n-,1.5,red,-999\n2,n.a.,-,4\n3,-,blue,-999.0\n")
        frame = read_table(path, verbatim=["id"], csv=CsvFormat(missing=("n.a.", "-", "-999")))
        assert frame["id"].tolist() == ["-", "2", "3"]
        np.testing.assert_array_equal(frame["n"], [1.5, np.nan, np.nan])
        np.testing.assert_array_equal(frame["k"], [np.nan, 4, np.nan])
        assert list(frame["w"].cat.categories) == ["blue", "red"]
        assert frame["w"].isna().tolist() == [False, True, False]

    def test_parquet(self, tmp_path: Path) -> None:
        """As in CSV: texts, categories and numbers; a column of text in which numbers are left needs `numbers`."""
        path = tmp_path / "t.parquet"
        frame = pd.DataFrame(
            {
                "id": ["-", "2", "3"],
                "n": ["1.5", "n.a.", "-"],
                "w": ["red", "-", "blue"],
                "c": pd.Categorical(["-", "u", "-"]),
                "k": [-999, 4, -999],
                "f": [-999.0, 0.1, None],
                "b": [True, False, True],
            }
        )
        frame.to_parquet(path)
        told = CsvFormat(missing=("n.a.", "-", "-999"))
        for exact in (None, ["k"]):
            found = read_table(path, numbers=["n"], verbatim=["id"], csv=told, exact=exact)
            assert found["id"].tolist() == ["-", "2", "3"]
            np.testing.assert_array_equal(found["n"], [1.5, np.nan, np.nan])
            np.testing.assert_array_equal(found["k"], [np.nan, 4, np.nan])
            assert found["f"].isna().tolist() == [True, False, True]
            assert [list(found[name].cat.categories) for name in ("w", "c")] == [["blue", "red"], ["u"]]
            assert found["b"].tolist() == [True, False, True]

    @given(
        st.lists(st.sampled_from(["1", "2.5", "n.a.", "", "-7", "x", "9" * 30, "NA"]), min_size=7, max_size=7),
        st.integers(1, 6),
    )
    @examples(60)
    def test_in_chunks(self, tmp_path_factory: pytest.TempPathFactory, values: list[str], rows: int) -> None:
        """Where a chunk ends does not matter: the column is that of the file read at once, with the texts left out."""
        folder = tmp_path_factory.mktemp("csv")
        told = CsvFormat(missing=("n.a.", "-7"))
        left_out = ["" if value in told.missing else value for value in values]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chunks, "_LEAST_ROWS", rows)
            patch.setattr(chunks, "CHUNK_CELLS", 1)
            found = read_table(write(folder, values), csv=told)["income"]
        pd.testing.assert_series_equal(found, read_table(write(folder, left_out))["income"])


@pytest.mark.parametrize("rows", [1, 7, 96, 1000])
def test_the_line_does_not_depend_on_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    """Blank lines, line ends in quotes and chunks before it do not move the line."""
    monkeypatch.setattr(chunks, "_LEAST_ROWS", rows)
    monkeypatch.setattr(chunks, "CHUNK_CELLS", 1)
    path = tmp_path / "t.csv"
    lines = [f'"t{i}\n",{i},{i % 3}' for i in range(40)]
    path.write_text("\nnote,n,k\n\n" + "\n".join(lines) + "\n\nu,n.a.,1\nv,?,2\n")
    with refused(DataError, "type", "n", 85):
        read_table(path)
