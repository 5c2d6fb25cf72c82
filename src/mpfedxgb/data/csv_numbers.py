"""Columns of numbers in a CSV file in which some values are none: refused with line, value and remedy.

pandas makes words of a whole column if a single value is no number, and words are categories here. A column is taken
for one of numbers if nine of ten values are, and no more than `FEW_WORDS` different words are not. Numbers in another
notation, such as 1.234,5, are no words: if nothing else is beside numbers, their share does not matter.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.data.csv_lines import CsvLines
from mpfedxgb.errors import DataError

ONE_IN = 10
"""A column of numbers has at most one other value in this many, missing ones aside."""

FEW_WORDS = 10
"""The most different words that a column of numbers has by mistake: a column with more of them holds codes."""

_LISTED = 5
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
        raise DataError(
            self._told(name, line, [*map(_short, shown)], [*map(_short, words)], f"{len(places)} of {present} values")
        )

    def _told(self, name: str, line: int, odd: list[str], words: list[str], counted: str) -> str:
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
