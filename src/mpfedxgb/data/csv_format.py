"""CSV as the world writes it: which character parts the values, which one the decimals, and in what encoding.

What is not told is detected, from the first lines; what can be read in two ways is refused, never guessed. A file is
read in chunks, and comes out as if it had been read at once.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from mpfedxgb.data.chunks import ColumnParts, as_categories, rows_per_chunk
from mpfedxgb.data.csv_lines import DELIMITERS, CsvLines, first_lines, open_lines
from mpfedxgb.data.csv_numbers import NumberCheck
from mpfedxgb.data.table import is_text
from mpfedxgb.errors import DataError, SettingsError

TAB = "tab"
_SAMPLE = 200
_MARKS = (("\xef\xbb\xbf", "utf-8-sig"), ("\xff\xfe", "utf-16"), ("\xfe\xff", "utf-16"))  # byte order marks, as Latin-1
_QUOTED = re.compile(r'"(?:[^"]|"")*"')
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?", re.ASCII)
_NOTHING: pd.Series[Any] = pd.Series(dtype="float64")

_PANDAS = tuple(int(part) for part in pd.__version__.split(".")[:2])
_NEAREST: dict[str, Any] = {} if _PANDAS >= (3, 1) else {"float_precision": "round_trip"}
"""Before 3.1 pandas does not always take the double that is nearest to what is written, unless it is told to."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    """How a CSV file is written; None is detected: one of `DELIMITERS`, UTF-8 or UTF-16, a point or a comma.

    The delimiter is one character, or the word tab. Texts that stand for `missing` values do so beside an empty place
    and what pandas takes for one, in all columns but verbatim ones; -999 is also -999.0.
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str | None = None
    missing: tuple[str, ...] = ()

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


def never(name: str) -> bool:
    """Return False, for every column."""
    return False


@dataclass(frozen=True, slots=True)
class ColumnKinds:
    """What is known of a file's columns: `words`, `numbers`, and those that stay as they are written, `verbatim`.

    If `exact` columns are named, the numbers of all others are float32, as far as they fit it; values of the named
    ones, such as labels, are not quoted in messages. Columns that `may_mix` numbers and words are those that are not
    used, and classes.
    """

    words: Collection[str] = ()
    numbers: Collection[str] = ()
    verbatim: Collection[str] = ()
    exact: Collection[str] | None = None
    may_mix: Callable[[str], bool] = never


def read_csv(path: Path, told: CsvFormat, kinds: ColumnKinds) -> pd.DataFrame:
    """Return a CSV file, also a compressed one, as pandas reads it, but for words, which are categories."""
    encoding = told.encoding or _encoding(path)
    try:
        return _read(path, told, encoding, kinds)
    except UnicodeDecodeError:
        raise DataError(
            f"cannot read {path} as a table: it is not written in {encoding}; save it as UTF-8, or say its encoding, "
            "such as encoding cp1252"
        ) from None


def _read(path: Path, told: CsvFormat, encoding: str, kinds: ColumnKinds) -> pd.DataFrame:
    first = first_lines(path, encoding, _SAMPLE)
    delimiter = "\t" if told.delimiter == TAB else told.delimiter or _delimiter(path, first)
    lines = CsvLines(path, encoding, delimiter)
    form: dict[str, Any] = {
        "sep": delimiter,
        "encoding": encoding,
        "decimal": told.decimal or _decimal(path, first, delimiter),
        "index_col": False,
        **_NEAREST,
    }
    names = pd.read_csv(path, header=None, nrows=1, dtype="str", **form).iloc[0].dropna().tolist()
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise DataError(f"{path}: column names occur twice: {', '.join(repeated)}; rename or drop one of each")
    kept = [name for name in names if name in kinds.verbatim]
    form["chunksize"] = rows_per_chunk(len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            columns, may_be_short = _in_chunks(path, form, told.missing, kinds, kept)
        except pd.errors.ParserWarning:  # or else the first values would be taken for row names
            lines.refuse_uneven()
            raise DataError(f"{path}: rows have more values than there are column names; repair the file") from None
        except pd.errors.ParserError:
            lines.refuse_uneven()
            raise
    if may_be_short:
        lines.refuse_uneven()
    check = NumberCheck(lines, form["decimal"], kinds.numbers, kinds.exact or ())
    as_they_are = {*kinds.words, *kept}
    check.refuse_words({n: c for n, c in columns.items() if n not in as_they_are and not kinds.may_mix(n)})
    if kept:  # read on their own, since only for a whole file can pandas be kept from taking the text NA for missing
        texts = [*pd.read_csv(path, usecols=kept, dtype="str", keep_default_na=False, **form)]
        columns |= {name: pd.concat([chunk[name] for chunk in texts], ignore_index=True) for name in kept}
    return pd.DataFrame(columns, copy=False)


def _in_chunks(
    path: Path, form: dict[str, Any], missing: tuple[str, ...], kinds: ColumnKinds, kept: Collection[str]
) -> tuple[dict[str, pd.Series[Any]], bool]:
    """Return the columns of a file, read chunk by chunk, and whether lines may be short: the last value is missing.

    Columns whose chunks disagree are read again, at once. Of the `kept` ones, which are read on their own, only the
    places are returned.
    """
    parts: dict[str, ColumnParts] = {}
    may_be_short = False
    types = dict.fromkeys(kinds.words, "str")
    form = {**form, "na_values": list(missing)}
    for chunk in pd.read_csv(path, dtype=types, low_memory=False, **form):
        may_be_short |= bool(chunk.iloc[:, -1].isna().any())
        for name in chunk.columns:
            found = parts.setdefault(name, ColumnParts(kinds.exact is None or name in kinds.exact, missing))
            if name not in kept:
                found.add(chunk[name])
    columns = {name: None if name in kept else found.whole() for name, found in parts.items()}
    odd = [name for name, column in columns.items() if column is None and name not in kept]
    if odd:
        at_once = {key: value for key, value in form.items() if key != "chunksize"}
        again = pd.read_csv(path, usecols=odd, dtype=types, low_memory=False, **at_once)
        columns |= {name: as_categories(again[name], missing) if is_text(again[name]) else again[name] for name in odd}
    return {name: _NOTHING if column is None else column for name, column in columns.items()}, may_be_short


def _encoding(path: Path) -> str:
    """Return the encoding that a byte order mark tells, and else UTF-8, which shows when it is something else."""
    with open_lines(path, "latin-1") as lines:
        start = next(lines, "")
    return next((encoding for mark, encoding in _MARKS if start.startswith(mark)), "utf-8")


def _delimiter(path: Path, lines: list[str]) -> str:
    """Return what parts the names in the first line; of two candidates, the one that also parts the other lines."""
    plain = [_QUOTED.sub("", line) for line in lines] or [""]
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
