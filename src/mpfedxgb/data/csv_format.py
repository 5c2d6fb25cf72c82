"""CSV as the world writes it: which character parts the values, which one the decimals, and in what encoding.

What no setting names is detected, from the first lines; what can be read in two ways is refused, never guessed. A file
is read in chunks, and comes out as if it had been read at once.

Lines of a CSV file: at which one a row begins, and which have too few or too many values.

pandas fills a short line with missing values, and its line numbers count no line ends inside quotes. The lines here are
those that an editor shows, from 1.

Columns of numbers in a CSV file in which some values are none: refused with line, value and remedy.

pandas makes words of a whole column if a single value is no number, and words are categories here. A column is taken
for one of numbers if nine of ten values are, and no more than `FEW_WORDS` different words are not. Numbers in another
notation, such as 1.234,5, are no words: if nothing else is beside numbers, their share does not matter.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import warnings
import zipfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.data.chunks import ColumnParts, as_categories, rows_per_chunk
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
            text = f"delimiter={self.delimiter!r} is not one character; give one such as ; or the word tab"
            raise SettingsError(text, "value", "delimiter", self.delimiter)
        if self.decimal not in (None, ".", ","):
            raise SettingsError(
                f"decimal={self.decimal!r} is not known; it is . or ,", "choice", "decimal", self.decimal
            )
        if self.decimal == self.delimiter == ",":
            text = "decimal and delimiter are both a comma; one of them is something else"
            raise SettingsError(text, "mismatch", "decimal", self.decimal)
        try:
            "".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            text = f"encoding={self.encoding!r} is not known; give one such as utf-8 or cp1252"
            raise SettingsError(text, "choice", "encoding", self.encoding) from None


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


def read_csv(path: Path, given: CsvFormat, kinds: ColumnKinds) -> pd.DataFrame:
    """Return a CSV file, also a compressed one, as pandas reads it, but for words, which are categories."""
    encoding = given.encoding or _encoding(path)
    try:
        return _read(path, given, encoding, kinds)
    except UnicodeDecodeError:
        text = (
            f"cannot read {path} as a table: it is not written in {encoding}; save it as UTF-8, or say its encoding, "
            "such as encoding cp1252"
        )
        raise DataError(text, "value", "encoding", encoding) from None


def _read(path: Path, given: CsvFormat, encoding: str, kinds: ColumnKinds) -> pd.DataFrame:
    first = first_lines(path, encoding, _SAMPLE)
    delimiter = "\t" if given.delimiter == TAB else given.delimiter or _delimiter(path, first)
    lines = CsvLines(path, encoding, delimiter)
    form: dict[str, Any] = {
        "sep": delimiter,
        "encoding": encoding,
        "decimal": given.decimal or _decimal(path, first, delimiter),
        "index_col": False,
        **_NEAREST,
    }
    names = pd.read_csv(path, header=None, nrows=1, dtype="str", **form).iloc[0].dropna().tolist()
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        text = f"{path}: column names occur twice: {', '.join(repeated)}; rename or drop one of each"
        raise DataError(text, "duplicate", path.name, list(repeated))
    kept = [name for name in names if name in kinds.verbatim]
    form["chunksize"] = rows_per_chunk(len(names))
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            columns, may_be_short = _in_chunks(path, form, given.missing, kinds, kept)
        except pd.errors.ParserWarning:  # or else the first values would be taken for row names
            lines.refuse_uneven()
            raise DataError(
                f"{path}: rows have more values than there are column names; repair the file", "mismatch", path.name
            ) from None
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
        text = f"{path}: values may be parted by {' or '.join(map(repr, best))}; say the delimiter"
        raise DataError(text, "value", "delimiter", best)
    return best[0]


def _decimal(path: Path, lines: list[str], delimiter: str) -> str:
    """Return the decimal point or comma that the numbers in the first lines have."""
    if delimiter == ",":
        return "."
    values = [value.strip(' "') for line in lines[1:] for value in line.split(delimiter)]
    commas, points = (any(form.fullmatch(value) for value in values) for form in (_COMMA, _POINT))
    if commas and points:
        raise DataError(
            f"{path}: some numbers have a decimal comma, others a point; say which with decimal", "value", "decimal"
        )
    return "," if commas else "."


DELIMITERS = (",", ";", "\t", "|")
_LISTED = 5
_ARCHIVES = {".tar", ".zst"}
_OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


@contextmanager
def open_lines(path: Path, encoding: str) -> Iterator[Iterator[str]]:
    """Open a file for its lines, blank ones too, each with its end; it is compressed as pandas takes it from its name.

    Only archives of several files are refused, and what needs packages that pandas does not bring.
    """
    suffix = path.suffix.lower()
    if suffix in _ARCHIVES or path.stem.lower().endswith(".tar"):
        text = f"{path} is an archive that is not read; unpack it, or compress it with gzip, bz2, xz or zip"
        raise DataError(text, "type", path.name)
    if suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(archive.namelist()[0]) as file:
            yield io.TextIOWrapper(file, encoding)
        return
    with _OPENERS.get(suffix, open)(path, "rt", encoding=encoding) as lines:
        yield lines


def first_lines(path: Path, encoding: str, count: int) -> list[str]:
    """Return those of the first lines that are not blank."""
    with open_lines(path, encoding) as lines:
        return [line.rstrip("\n") for line in islice(lines, count) if line.strip()]


@dataclass(frozen=True, slots=True)
class CsvLines:
    """The lines of one CSV file, read anew whenever they are asked for."""

    path: Path
    encoding: str
    delimiter: str

    def records(self) -> Iterator[tuple[int, int, str]]:
        """Yield line number, number of values and first line of all that pandas takes for a row, the header first."""
        blank = " \t\n".replace(self.delimiter, "")
        with open_lines(self.path, self.encoding) as opened:
            lines = enumerate(opened, 1)
            for number, line in lines:
                values = line.count(self.delimiter) + 1
                if '"' in line:
                    values = self._quoted(number, chain([line], (text for _, text in lines)))
                elif values == 1 and not line.strip(blank):
                    continue
                yield number, values, line

    def _quoted(self, number: int, lines: Iterator[str]) -> int:
        """Return how many values there are in the next lines, as many of them as quotes enclose."""
        try:
            return len(next(csv.reader(lines, delimiter=self.delimiter)))
        except csv.Error as error:
            text = f"{self.path}: line {number} has a value that does not end ({error})"
            raise DataError(f"{text}; close its quotes", "damaged", self.path.name, number) from None

    def line_of(self, row: int) -> int:
        """Return the line at which a row of the table begins; the first row is 0."""
        return next(islice(self.records(), row + 1, None))[0]

    def refuse_uneven(self) -> None:
        """Raise DataError if a line has fewer values than there are column names, or more that are not empty."""
        records = self.records()
        names = next(records)[1]
        uneven = [(n, v, text) for n, v, text in records if v != names and not self._only_ends_longer(v, text, names)]
        if not uneven:
            return
        line, values, text = uneven[0]
        others = [str(number) for number, _, _ in uneven[1 : _LISTED + 1]]
        more = len(uneven) - 1 - len(others)
        also = f" (likewise: {', '.join(others)}{f' and {more} more' if more else ''})"
        counted = f"{values} value{'' if values == 1 else 's'}"
        text = (
            f"{self.path}: line {line} has {counted} for the {names} column names of the header"
            f"{also if others else ''}; {self._remedy(values, text, names)}"
        )
        raise DataError(text, "mismatch", self.path.name, line)

    def _only_ends_longer(self, values: int, text: str, names: int) -> bool:
        """Return whether all that a line has beyond the names is empty, as programs write that end each value."""
        return values > names and text.rstrip("\n").rstrip(self.delimiter).count(self.delimiter) < names

    def _remedy(self, values: int, text: str, names: int) -> str:
        other = next((c for c in DELIMITERS if c != self.delimiter and text.count(c) == names - 1), None)
        if other is not None and values < names:
            return f"its values are separated by {other!r}, those of the header by {self.delimiter!r}: use one of them"
        if values < names:
            return "complete or delete the line; a missing value leaves its place between two separators empty"
        return f"put values that contain {self.delimiter!r} into quotes, or repair the line"


ONE_IN = 10
"""A column of numbers has at most one other value in this many, missing ones aside."""

FEW_WORDS = 10
"""The most different words that a column of numbers has by mistake: a column with more of them holds codes."""

_LONGEST = 40
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([.,' \u00a0\u202f][0-9]{3})*([.,][0-9]+)?|[+-]?[0-9]+[.,][0-9]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """What decides whether the words of a column are refused."""

    lines: CsvLines
    decimal: str
    numbers: Collection[str]
    unquoted: Collection[str]

    def refuse_words(self, columns: dict[str, pd.Series[Any]]) -> None:
        """Raise DataError for a column of numbers that holds words, or numbers in another notation."""
        for name, column in columns.items():
            if isinstance(column.dtype, pd.CategoricalDtype):
                self._refuse(name, column)

    def _refuse(self, name: str, column: pd.Series[Any]) -> None:
        must = name in self.numbers
        number = re.compile(
            rf"\s*[+-]?([0-9]+({re.escape(self.decimal)}[0-9]*)?|{re.escape(self.decimal)}[0-9]+)([eE][+-]?[0-9]+)?\s*"
            r"|\s*[+-]?(inf|infinity)\s*",
            re.ASCII | re.IGNORECASE,
        )
        odd, words = [], []
        for code, text in enumerate(column.cat.categories):
            if number.fullmatch(text):
                continue
            odd.append(code)
            if not _GROUPED.fullmatch(text.strip()):
                words.append(text)
                if len(words) > FEW_WORDS and not must:
                    return
        if not odd:
            return
        codes = column.cat.codes.to_numpy()
        places = np.flatnonzero(np.isin(codes, odd))
        present = int((codes >= 0).sum())
        if words and not must and ONE_IN * len(places) > present:
            return
        first = column.cat.categories[codes[places[0]]]
        shown = [first, *(text for text in column.cat.categories[odd] if text != first)]
        line = self.lines.line_of(int(places[0]))
        text = self._conflict(
            name, line, [*map(_short, shown)], [*map(_short, words)], f"{len(places)} of {present} values"
        )
        raise DataError(text, "type", name, line)

    def _conflict(self, name: str, line: int, odd: list[str], words: list[str], counted: str) -> str:
        others = ", ".join(map(repr, odd[1 : _LISTED + 1])) + (", ..." if len(odd) > _LISTED + 1 else "")
        holds, also = f"holds {odd[0]!r}", f"; also {others}" if others else ""
        remedies, as_words = ["correct them"], "if the column holds words name it in [data] categorical (--categorical)"
        if len(words) < len(odd):
            decimal = "say which mark is the decimal's: [data] decimal (--decimal)"
            remedies = [f"write them as 1234{self.decimal}5", decimal]
        if name in self.unquoted:
            holds, also, words = "holds something", "", ["n.a."] if words else []
            as_words = "if they are names of classes name the column with --categorical"
        if words:
            listed, option = json.dumps(words[:_LISTED], ensure_ascii=False), ",".join(words[:_LISTED])
            remedies.append(f"if they stand for missing values set [data] missing = {listed} (--missing {option!r})")
        return (
            f"{self.lines.path}: line {line}: column {name!r} {holds}, which is not a number ({counted}{also}); "
            f"{', or '.join([*remedies, as_words])}"
        )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
