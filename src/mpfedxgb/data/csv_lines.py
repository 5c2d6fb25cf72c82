"""Lines of a CSV file: at which one a row begins, and which have too few or too many values.

pandas fills a short line with missing values, and its line numbers count no line ends inside quotes. The lines here are
those that an editor shows, from 1.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from mpfedxgb.errors import DataError

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
        raise DataError(f"{path} is an archive that is not read; unpack it, or compress it with gzip, bz2, xz or zip")
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
            told = f"{self.path}: line {number} has a value that does not end ({error})"
            raise DataError(f"{told}; close its quotes") from None

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
        raise DataError(
            f"{self.path}: line {line} has {counted} for the {names} column names of the header"
            f"{also if others else ''}; {self._remedy(values, text, names)}"
        )

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
