"""Tables from files: kinds of columns, and files that are no tables."""

from __future__ import annotations

import gzip
import stat
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.data.files import read_table, write_table
from mpfedxgb.errors import Code, DataError, SettingsError
from support.refusals import ANY, Expected, refused


def csv(folder: Path, text: str) -> Path:
    """Write a CSV file."""
    path = folder / "table.csv"
    path.write_text(text)
    return path


class TestColumns:
    """Numbers stay numbers, words become categories, unless told otherwise."""

    def test_by_themselves(self, tmp_path: Path) -> None:
        """Without instructions the content decides."""
        frame = read_table(csv(tmp_path, "n,w,b\n1.5,red,True\n,blue,False\n"))
        assert frame["n"].dtype.kind == "f"
        assert frame["b"].dtype.kind == "b"
        assert list(frame["w"].cat.categories) == ["blue", "red"]

    def test_words(self, tmp_path: Path) -> None:
        """Digits can be words, with their zeros; missing ones stay missing."""
        frame = read_table(csv(tmp_path, "zip,x\n007,1\n,2\n12,3\n"), text_columns=["zip"])
        assert list(frame["zip"].cat.categories) == ["007", "12"]
        assert frame["zip"].isna().tolist() == [False, True, False]

    def test_words_in_parquet(self, tmp_path: Path) -> None:
        """Codes are written as CSV would write them, though a missing value made them floats."""
        path = tmp_path / "t.parquet"
        pd.DataFrame({"code": [3.0, None, 12.0], "share": [0.5, 1.0, None]}).to_parquet(path)
        frame = read_table(path, text_columns=["code", "share"])
        assert list(frame["code"].cat.categories) == ["12", "3"]
        assert list(frame["share"].cat.categories) == ["0.5", "1.0"]

    def test_numbers(self, tmp_path: Path) -> None:
        """Numbers in quotes, or among categories, are taken; anything else is named."""
        path = tmp_path / "t.parquet"
        pd.DataFrame({"a": ["1", "2.5"], "b": pd.Categorical(["3", None])}).to_parquet(path)
        frame = read_table(path, numbers=["a", "b"])
        assert frame["a"].tolist() == [1.0, 2.5]
        assert frame["b"].isna().tolist() == [False, True]
        with refused(DataError, "type", "x", 3):
            read_table(csv(tmp_path, "x\n1\nmany\nfew\n"), numbers=["x"])
        pd.DataFrame({"x": ["1", "many", "few"]}).to_parquet(path)
        with refused(DataError, "type", "x", "many"):
            read_table(path, numbers=["x"])

    def test_verbatim(self, tmp_path: Path) -> None:
        """An id is what is written: zeros in front, and NA is a text."""
        frame = read_table(csv(tmp_path, "id,x\n007,NA\nNA,1\n,2\n"), verbatim=["id"])
        assert frame["id"].tolist() == ["007", "NA", ""]
        assert frame["x"].isna().tolist() == [True, False, False]

    def test_columns_that_are_not_there(self, tmp_path: Path) -> None:
        """Whoever named them finds out."""
        frame = read_table(csv(tmp_path, "x\n1\n"), text_columns=["w"], numbers=["n"], verbatim=["id"])
        assert list(frame.columns) == ["x"]

    def test_dates_are_left_for_a_better_message(self, tmp_path: Path) -> None:
        """A date is no category; the participant's table says what to do."""
        path = tmp_path / "t.parquet"
        pd.DataFrame({"day": pd.to_datetime(["2024-01-01", "2024-01-02"])}).to_parquet(path)
        assert read_table(path)["day"].dtype.kind == "M"
        with refused(DataError, "type", "day"):
            read_table(path, numbers=["day"])

    def test_row_names_of_parquet(self, tmp_path: Path) -> None:
        """A named index is a column; one without a name is nothing."""
        path = tmp_path / "t.parquet"
        frame = pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index(["b", "a"], name="id"))
        frame.to_parquet(path)
        assert list(read_table(path).columns) == ["id", "x"]
        frame.rename_axis(None).to_parquet(path)
        assert list(read_table(path).columns) == ["x"]


class TestFormats:
    """CSV as the world writes it: what is not told is found out, and what can be read in two ways is refused."""

    @pytest.mark.parametrize(
        "content",
        [
            b"n,w,i\n1.5,red,2\n-2.25,blue,3\n",
            b"n;w;i\n1,5;red;2\n-2,25;blue;3\n",
            b"n;w;i\r\n1.5;red;2\r\n-2.25;blue;3\r\n",
            b"n\tw\ti\n1,5\tred\t2\n-2,25\tblue\t3\n",
            b'"n"|"w"|"i"\n1.5|"red"|2\n-2.25|"blue"|3\n',
            b"\xef\xbb\xbfn;w;i\n1,5;red;2\n-2,25;blue;3\n",
            "n;w;i\n1,5;red;2\n-2,25;blue;3\n".encode("utf-16"),
            gzip.compress(b"n;w;i\n1,5;red;2\n-2,25;blue;3\n"),
        ],
        ids=["comma", "semicolon", "points", "tab", "bar", "mark", "utf-16", "gz"],
    )
    def test_found_out(self, tmp_path: Path, content: bytes) -> None:
        """One table, however it is written."""
        path = tmp_path / ("t.csv.gz" if content.startswith(b"\x1f\x8b") else "t.csv")
        path.write_bytes(content)
        frame = read_table(path)
        assert list(frame.columns) == ["n", "w", "i"]
        assert (frame["n"].tolist(), frame["w"].tolist(), frame["i"].tolist()) == (
            [1.5, -2.25],
            ["red", "blue"],
            [2, 3],
        )

    @pytest.mark.parametrize("told", [CsvFormat(";"), CsvFormat(";", "cp1252"), CsvFormat(None, "latin-1", ",")])
    def test_told(self, tmp_path: Path, told: CsvFormat) -> None:
        """What is told is not looked for; ids are read by the same rules."""
        path = tmp_path / "t.csv"
        path.write_bytes("id;n;w\n07;1,5;Köln\n".encode(told.encoding or "utf-8"))
        frame = read_table(path, verbatim=["id"], csv=told)
        assert frame.to_numpy().tolist() == [["07", 1.5, "Köln"]]

    @pytest.mark.parametrize(
        ("content", "expected"),
        [
            ("w\nKöln\n".encode("cp1252"), ("value", "encoding", "utf-8")),
            (b"a;b,c\n1;2,3\n", ("value", "delimiter", ANY)),
            (b"a;b\n1.5;x\n2,5;y\n", ("value", "decimal", None)),
            (b"a;b\n1.234,5;x\n2,5;y\n", ("type", "a", 2)),
            (b'a,b\n"1,5",x\n"2,5",y\n', ("type", "a", 2)),
        ],
    )
    def test_never_guessed(self, tmp_path: Path, content: bytes, expected: Expected) -> None:
        """Two readings, or none: refused, with the way to say what is meant."""
        path = tmp_path / "t.csv"
        path.write_bytes(content)
        with refused(DataError, *expected):
            read_table(path)

    def test_numbers_that_are_meant_as_words(self, tmp_path: Path) -> None:
        """What looks like numbers with separators can be told to be words."""
        frame = read_table(csv(tmp_path, 'a,b\n"1,5",x\n"2,5",y\n'), text_columns=["a"])
        assert frame["a"].tolist() == ["1,5", "2,5"]

    @pytest.mark.parametrize(
        ("bad", "code"),
        [
            ({"delimiter": ""}, "value"),
            ({"delimiter": '"'}, "value"),
            ({"encoding": "hex"}, "choice"),
            ({"decimal": ";"}, "choice"),
        ],
    )
    def test_impossible(self, bad: dict[str, Any], code: Code) -> None:
        """What cannot be a format is refused by name."""
        ((name, value),) = bad.items()
        with refused(SettingsError, code, name, value):
            CsvFormat(**bad)


class TestRefused:
    """Files that are no tables."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("", ("file", "table.csv", None)),
            ("a,b,a\n1,2,3\n", ("duplicate", "table.csv", ANY)),
            ("a,b\n1,2,3\n4,5,6\n", ("mismatch", "table.csv", 2)),
            ("a,b\n1,2\n1,2,3\n", ("mismatch", "table.csv", 3)),
            ('a,b\n1,"2\n3,4\n', ("file", "table.csv", None)),
        ],
    )
    def test_csv(self, tmp_path: Path, text: str, expected: Expected) -> None:
        """Each is refused with the file's name."""
        with refused(DataError, *expected):
            read_table(csv(tmp_path, text))

    def test_parquet(self, tmp_path: Path) -> None:
        """A file that only looks like Parquet."""
        (tmp_path / "t.parquet").write_bytes(b"PAR1 and more")
        with refused(DataError, "file", "t.parquet"):
            read_table(tmp_path / "t.parquet")

    @pytest.mark.parametrize("name", ["t.xlsx", "t.XLS", "t.csv"])
    @pytest.mark.parametrize("kind", ["new", "old"])
    def test_excel(self, tmp_path: Path, name: str, kind: str) -> None:
        """A workbook is called one, also by another name, with the way out of it."""
        path = tmp_path / name
        if kind == "new":
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("xl/workbook.xml", "<workbook/>")
        else:
            path.write_bytes(bytes.fromhex("d0cf11e0a1b11ae1") + bytes(504))
        with refused(DataError, "type", name) as caught:
            read_table(path)
        assert "Excel workbook; export its sheet as CSV" in str(caught.value)

    @pytest.mark.parametrize(
        "name", ["t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zip", "t.tar", "t.tar.gz", "t.csv.zst"]
    )
    def test_damaged_and_archives(self, tmp_path: Path, name: str) -> None:
        """What cannot be unpacked is refused with the file's name."""
        (tmp_path / name).write_bytes(b"PK\x03\x04 and more")
        with refused(DataError, "type" if "tar" in name or "zst" in name else "file", name):
            read_table(tmp_path / name)

    def test_nothing_there(self, tmp_path: Path) -> None:
        """Neither a file nor a folder in its place."""
        for path in (tmp_path / "gone.csv", tmp_path):
            with refused(DataError, "missing", path.name):
                read_table(path)


class TestWritten:
    """What a table becomes: whole, private, in the form that its name says."""

    @pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.csv.bz2", "t.csv.xz", "t.csv.zip", "t.parquet", "t"])
    def test_it_can_be_read_again(self, tmp_path: Path, name: str) -> None:
        """For its owner only, and with nothing beside it."""
        frame = pd.DataFrame({"id": ["007", "é,"], "prediction": [0.1 + 0.2, -1.0]})
        write_table(frame, tmp_path / name)
        again = read_table(tmp_path / name, verbatim=["id"])
        assert again["id"].tolist() == frame["id"].tolist()
        assert again["prediction"].tolist() == frame["prediction"].tolist()
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_the_name_decides_about_compression(self, tmp_path: Path) -> None:
        """A .gz is one."""
        write_table(pd.DataFrame({"x": [1]}), tmp_path / "t.csv.gz")
        assert gzip.decompress((tmp_path / "t.csv.gz").read_bytes()) == b"x\n1\n"

    @pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
    def test_no_place_to_write(self, tmp_path: Path, name: str) -> None:
        """A missing folder, or a folder of that name, is named."""
        with pytest.raises(DataError, match=f"cannot write .*{name}: No such file or directory; what was there"):
            write_table(pd.DataFrame({"x": [1]}), tmp_path / "no" / name)
        (tmp_path / name).mkdir()
        with pytest.raises(DataError, match=f"cannot write .*{name}: something that is not a file has that name"):
            write_table(pd.DataFrame({"x": [1]}), tmp_path / name)
        assert [path.name for path in tmp_path.iterdir()] == [name]

    def test_a_table_that_cannot_be_written(self, tmp_path: Path) -> None:
        """What was there stays, and no half of the new one is left."""
        write_table(pd.DataFrame({"x": [1]}), tmp_path / "t.parquet")
        with pytest.raises(Exception, match="mixed"):  # the library's own
            write_table(pd.DataFrame({"mixed": [1, "a", object()]}), tmp_path / "t.parquet")
        assert read_table(tmp_path / "t.parquet")["x"].tolist() == [1]
        assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]
