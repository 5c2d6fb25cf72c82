"""CSV as the world writes it: which character parts the values, which one the decimals, and in what encoding.

What is not told is detected, from the first lines; what can be read in two ways is refused, never guessed. A file is
read in chunks, and comes out as if it had been read at once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection
from csv import QUOTE_NONE
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mpfedxgb.data.chunks import ColumnParts, as_categories, rows_per_chunk
from mpfedxgb.data.table import is_text
from mpfedxgb.errors import DataError, SettingsError

TAB = "tab"
DELIMITERS = (",", ";", "\t", "|")
_SAMPLE = 200
_MARKS = (("\xef\xbb\xbf", "utf-8-sig"), ("\xff\xfe", "utf-16"), ("\xfe\xff", "utf-16"))  # byte order marks, as Latin-1
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?", re.ASCII)
_NOTHING: pd.Series[Any] = pd.Series(dtype="float64")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([.,' \u00a0\u202f][0-9]{3})*([.,][0-9]+)?", re.ASCII)

_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_NEAREST: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
"""Before 3.1 pandas does not always take the double that is nearest to what is written, unless it is told to."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How a CSV file is written; None is detected: one of `DELIMITERS`, UTF-8 or UTF-16, a point or a comma.

    The delimiter is one character, or the word tab.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot work."""
        given = "," if self.delimiter is None else self.delimiter
        if given != TAB and (len(given) != 1 or given in '"\r\n'):
            raise SettingsError(
                f"delimiter={self.delimiter!r} is not one character; give one such as ; or the word tab"
            )
        if self.decimal not in (None, ".", ","):
            raise SettingsError(f"decimal={self.decimal!r} is not known; it is . or ,")
        if self.decimal == self.delimiter == ",":
            raise SettingsError("decimal and delimiter are both a comma; one of them is something else")
        try:
            "".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise SettingsError(f"encoding={self.encoding!r} is not known; give one such as utf-8 or cp1252") from None


def read_csv(
    path: Path,
    told: CsvFormat,
    text_columns: Collection[str] = (),
    verbatim: Collection[str] = (),
    exact: Collection[str] | None = None,
) -> pd.DataFrame:
    """Return a CSV file, also a compressed one, as pandas reads it, but for words, which are categories.

    `text_columns` hold words and `verbatim` ones stay text. Where `exact` columns are named, the numbers of all others
    are float32, as far as they fit it.
    """
    encoding = told.encoding or _encoding(path)
    try:
        return _read(path, told, encoding, text_columns, verbatim, exact)
    except UnicodeDecodeError:
        raise DataError(
            f"cannot read {path} as a table: it is not written in {encoding}; save it as UTF-8, or say its encoding, "
            "such as encoding cp1252"
        ) from None


def _read(
    path: Path,
    told: CsvFormat,
    encoding: str,
    text_columns: Collection[str],
    verbatim: Collection[str],
    exact: Collection[str] | None,
) -> pd.DataFrame:
    lines = _first_lines(path, encoding, _SAMPLE)
    delimiter = "\t" if told.delimiter == TAB else told.delimiter or _delimiter(path, lines)
    form: dict[str, Any] = {
        "sep": delimiter,
        "encoding": encoding,
        "decimal": told.decimal or _decimal(path, lines, delimiter),
        "index_col": False,
        **_NEAREST,
    }
    names = pd.read_csv(path, header=None, nrows=1, dtype="str", **form).iloc[0].dropna().tolist()
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: column names occur twice: {', '.join(repeated)}; rename or drop one of each")
    kept = [name for name in names if name in verbatim]
    form["chunksize"] = rows_per_chunk(len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            columns = _in_chunks(path, form, dict.fromkeys(text_columns, "str"), kept, exact)
        except pd.errors.ParserWarning:  # or else the first values would be taken for row names
            raise DataError(f"{path}: rows have more values than there are column names; repair the file") from None
    _refuse_odd_numbers(path, columns, {*text_columns, *kept})
    if kept:  # read on their own, since only for a whole file can pandas be kept from taking the text NA for missing
        texts = [*pd.read_csv(path, usecols=kept, dtype="str", keep_default_na=False, **form)]
        columns |= {name: pd.concat([chunk[name] for chunk in texts], ignore_index=True) for name in kept}
    return pd.DataFrame(columns, copy=False)


def _in_chunks(
    path: Path, form: dict[str, Any], types: dict[str, str], kept: Collection[str], exact: Collection[str] | None
) -> dict[str, pd.Series[Any]]:
    """Return the columns of a file, read chunk by chunk; those whose chunks disagree are read again, at once.

    Of the `kept` ones, which are read on their own, only the places.
    """
    parts: dict[str, ColumnParts] = {}
    for chunk in pd.read_csv(path, dtype=types, low_memory=False, **form):
        for name in chunk.columns:
            found = parts.setdefault(name, ColumnParts(exact is None or name in exact))
            if name not in kept:
                found.add(chunk[name])
    columns = {name: None if name in kept else found.whole() for name, found in parts.items()}
    odd = [name for name, column in columns.items() if column is None and name not in kept]
    if odd:
        at_once = {key: value for key, value in form.items() if key != "chunksize"}
        again = pd.read_csv(path, usecols=odd, dtype=types, low_memory=False, **at_once)
        columns |= {name: as_categories(again[name]) if is_text(again[name]) else again[name] for name in odd}
    return {name: _NOTHING if column is None else column for name, column in columns.items()}


def _first_lines(path: Path, encoding: str, count: int) -> list[str]:
    """Return the first lines as they are, whatever the file is compressed with."""
    raw = pd.read_csv(
        path,
        sep="\x01",
        header=None,
        nrows=count,
        dtype="str",
        quoting=QUOTE_NONE,
        keep_default_na=False,
        encoding=encoding,
        on_bad_lines="skip",
    )
    return [str(line) for line in raw.iloc[:, 0]]


def _encoding(path: Path) -> str:
    """Return the encoding that a byte order mark tells, and else UTF-8, which shows when it is something else."""
    start = _first_lines(path, "latin-1", 1)[0]
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "utf-8")


def _delimiter(path: Path, lines: list[str]) -> str:
    """Return what parts the names in the first line; of two candidates, the one that also parts the other lines."""
    plain = [_QUOTED.sub("", line) for line in lines]
    counts = {character: plain[0].count(character) for character in DELIMITERS if character in plain[0]}
    if not counts:
        return ","  # a single column
    fitting = {c: sum(line.count(c) == n for line in plain) for c, n in counts.items()}
    best = [c for c in counts if (fitting[c], counts[c]) == max((fitting[d], counts[d]) for d in counts)]
    if len(best) > 1:
        raise DataError(f"{path}: values may be parted by {' or '.join(map(repr, best))}; say the delimiter")
    return best[0]


def _decimal(path: Path, lines: list[str], delimiter: str) -> str:
    """Return the decimal point or comma that the numbers in the first lines have."""
    if delimiter == ",":
        return "."
    values = [value.strip(' "') for line in lines[1:] for value in line.split(delimiter)]
    commas, points = (any(form.fullmatch(value) for value in values) for form in (_COMMA, _POINT))
    if commas and points:
        raise DataError(f"{path}: some numbers have a decimal comma, others a point; say which with decimal")
    return "," if commas else "."


def _refuse_odd_numbers(path: Path, columns: dict[str, pd.Series[Any]], as_they_are: Collection[str]) -> None:
    """Refuse columns of numbers that are written so that they would be taken for words, and then for categories."""
    for name, column in columns.items():
        if name in as_they_are or not isinstance(column.dtype, pd.CategoricalDtype):
            continue
        words = pd.Series(column.cat.categories)
        if len(words) and words.str.strip().str.fullmatch(_GROUPED.pattern).all():
            raise DataError(
                f"{path}: column {name!r} holds numbers such as {column.dropna().iloc[0]!r}, with a decimal comma or "
                "separated thousands; write 1234.5, say which mark is the decimal's, or name the column as one of words"
            )
