"""Lines of a CSV file: those with too few or too many values are refused, by the number that an editor shows."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data import chunks
from mpfedxgb.data.csv_format import CsvFormat, CsvLines
from mpfedxgb.data.files import read_table
from mpfedxgb.errors import DataError
from support.property_tests import examples
from support.refusals import Expected, refused


def write(folder: Path, text: str) -> Path:
    """Write a CSV file, line ends as they are."""
    path = folder / "t.csv"
    path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a,b\n1,2\n3\n4,5\n", ("mismatch", "t.csv", 3)),
        ("a,b,c\n1,2,3\n4,5\n6,7,8\n9\n", ("mismatch", "t.csv", 3)),
        ("a,b,c\n1,2,3\n4;5;6\n", ("mismatch", "t.csv", 3)),
        ("a;b\n1;2\n3,4\n", ("mismatch", "t.csv", 3)),
        ("a,b\n1,2\n3,4,5\n", ("mismatch", "t.csv", 3)),
        ("\n\na,b\n\n  \n1,2\n\n3\n", ("mismatch", "t.csv", 8)),
        ('a,b\n"1\n\n1",2\r\n3,"x\ny"\r4\n', ("mismatch", "t.csv", 7)),
        ('a,b\n"x,y",2\n5" pipe,3\n"say ""hi, ho""",4\n"q,r"\n', ("mismatch", "t.csv", 5)),
        ('a,b\n"x\ny",2\n3,4,5\n', ("mismatch", "t.csv", 4)),
        ("a,b,\n1,2\n3,4\n", ("mismatch", "t.csv", 2)),
        ("a,b\n" + "1\n" * 9, ("mismatch", "t.csv", 2)),
        ('a,b\n1,2\n3,"' + "x" * 140_000 + '"\n4,\n', ("damaged", "t.csv", 3)),
    ],
)
def test_uneven_lines(tmp_path: Path, text: str, expected: Expected) -> None:
    """Short lines are no missing values, and mixed separators no words; blank lines and quoted line ends count."""
    with refused(DataError, *expected):
        read_table(write(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,\n,2\n",
        "a,b\n1,2,\n3,,\n",
        "a\n1\n\n3\n",
        'a,b\n"x,y",\n"p\nq",2\n',
        "a\tb\n1\t\n\t\n \t2\n",
        "a,b\r\n1,\r\n  \r\n2,3\r\n\r\n",
    ],
)
def test_even_lines(tmp_path: Path, text: str) -> None:
    """Empty places, separators at all ends and blank lines are no errors, though the last value is missing."""
    frame = read_table(write(tmp_path, text))
    assert list(frame.columns) == ["a", "b"][: len(frame.columns)]
    assert len(frame) in (2, 3)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zip", None)],
)
def test_compressed_and_encoded(
    tmp_path: Path, suffix: str, compress: Callable[[bytes], bytes] | None, encoding: str
) -> None:
    """Lines are counted in what a file holds."""
    content = 'w,n\nK\u00f6ln,1\n"B\nonn",2\nUlm\n'.encode(encoding)
    path = tmp_path / f"t.csv{suffix}"
    if compress is None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            archive.writestr("t.csv", content)
        content = packed.getvalue()
    path.write_bytes(content if compress is None else compress(content))
    with refused(DataError, "mismatch", path.name, 5):
        read_table(path, csv=CsvFormat(encoding="cp1252" if encoding == "cp1252" else None))


CELL = st.sampled_from(["1", "2.5", "", "x", '"a,b"', '"two\nlines"', '"""q"""', "\u00e9", '"\r\n"', 'i"j'])
GAP = st.sampled_from(["", "", "\n", "  \n", "\n\n"])
END = st.sampled_from(["\n", "\r\n"])


@given(st.lists(st.tuples(GAP, CELL, CELL, END), min_size=1, max_size=12), st.integers(1, 4), st.data())
@examples(120)
def test_rows_begin_where_they_are_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, str, str]], size: int, data: st.DataObject
) -> None:
    """The line of every row, and of a short one put among them, is the one it begins at, wherever a chunk ends."""
    short = data.draw(st.integers(0, len(rows)), label="place of the short line")
    text, begins, where = "id,a,b\n", [], 0
    for i in range(len(rows) + 1):
        if i == short:
            where = lines_in(text) + 1
            text += "7,short\n"
        if i < len(rows):
            gap, one, other, end = rows[i]
            text += gap
            begins.append(lines_in(text) + 1)
            text += f"{i},{one},{other}{end}"
    folder = tmp_path_factory.mktemp("csv")
    path = write(folder, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_LEAST_ROWS", size)
        patch.setattr(chunks, "CHUNK_CELLS", 1)
        with refused(DataError, "mismatch", "t.csv", where):
            read_table(path, text_columns=["a", "b"])

    lines = CsvLines(path, "utf-8", ",")
    begins.insert(short, where)
    assert [lines.line_of(row) for row in range(len(begins))] == begins
    assert len(pd.read_csv(path)) == len(begins)


def lines_in(text: str) -> int:
    """Return how many lines end in a text."""
    return len(text.replace("\r\n", "\n").replace("\r", "\n").split("\n")) - 1
