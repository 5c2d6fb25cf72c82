"""Rows in the order of their ids, so that all participants' tables list the same people in the same order.

What counts as the same id, in every file and for every reader:

- Spaces around an id do not count, nor does which of Unicode's spellings of a letter was used (NFC). Capitals do.
- A column in which every id is a whole number holds numbers: 7, 007, +7 and 7.0 are one id, since spreadsheets and
  data frames drop zeros in front and add them behind. Numbers are sorted by size.
- A column with any other id in it holds texts, and then 007 and 7 are two ids. Texts are sorted by code point.

Both cases can be told from the list alone, so two participants with the same people decide alike. Anyone who has people
that differ only in zeros in front gets a DataError about repeated ids, and can put a letter before every id.

Participants whose lists differ, and who want to find what they have in common, agree on an `IdRule` instead.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.errors import DataError

SALT_BYTES = 16
"""The least length of a salt."""

_PURPOSE = b"mpfedxgb row ids 1"
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}(\.0*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class IdRule:
    """What counts as the same id among participants whose lists differ, as agreed in [align] of settings files."""

    ids: str = "text"
    case: str = "exact"
    spaces: str = "trim"
    unicode: str = "NFC"

    def normalise(self, text: str) -> str:
        """Return a text in the spelling that is compared."""
        text = unicodedata.normalize(self.unicode, text)  # type: ignore[arg-type] # one of these
        if self.case == "ignore":
            text = unicodedata.normalize(self.unicode, text.casefold())  # type: ignore[arg-type] # one of these
        return "".join(text.split()) if self.spaces == "remove" else text.strip()


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """The ids of a table's rows, in order.

    `keys` are in the one spelling that participants compare, `written` as the file has them, and `places[i]` is where
    row i of the sorted table was in the file.
    """

    keys: tuple[str, ...] = field(repr=False)
    written: tuple[Any, ...] = field(repr=False)
    places: npt.NDArray[np.int64] = field(repr=False)

    def __repr__(self) -> str:
        return f"Ids(rows={len(self.keys)})"

    def __len__(self) -> int:
        return len(self.keys)

    def digest(self, salt: bytes) -> bytes:
        """Return 32 bytes that are the same for the same ids in the same order, and say nothing without the salt.

        HMAC-SHA-256 under the salt, of the number of ids and every id with its length before it, so that no two lists
        have one encoding. The salt is fresh and known to the participants of one session only: then a digest of one
        session tells nothing about another's, and nobody else can try out lists of people.
        """
        if len(salt) < SALT_BYTES:
            raise ValueError(f"a salt has at least {SALT_BYTES} bytes, not {len(salt)}")
        return hmac.digest(salt, encode_ids(self.keys), hashlib.sha256)

    def take(self, marks: npt.NDArray[np.bool_]) -> Ids:
        """Return some of the ids; `places` stay those in the file."""
        kept = np.flatnonzero(marks).tolist()
        return Ids(tuple(self.keys[i] for i in kept), tuple(self.written[i] for i in kept), self.places[marks])

    def are_whole_numbers(self) -> bool:
        """Return whether every id is written as a whole number, such as 7, 007 or 7.0."""
        return all(_WHOLE.fullmatch(key) for key in self.keys)

    def to_file_order(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values, one per sorted row, in the order that the rows have in the file."""
        out = np.empty_like(values)
        out[self.places] = values
        return out


def count_common(first: Ids, second: Ids) -> int:
    """Return how many ids two tables of one owner have in common.

    Each list says by itself whether it holds numbers. Where only one does, ids of the other that are whole numbers
    count as such: 007 of a list with words in it may be the 7 of a list without.
    """
    one, other = set(first.keys), set(second.keys)
    if first.are_whole_numbers() != second.are_whole_numbers():
        one, other = ({_as_number(key) for key in keys} for keys in (one, other))
    return len(one & other)


def _as_number(key: str) -> str:
    return str(int(key.partition(".")[0])) if _WHOLE.fullmatch(key) else key


def encode_ids(keys: Sequence[str]) -> bytes:
    """Return a list of texts as bytes that no other list has."""
    parts = [_PURPOSE, len(keys).to_bytes(8, "little")]
    for key in keys:
        octets = key.encode()
        parts += [len(octets).to_bytes(8, "little"), octets]
    return b"".join(parts)


def id_as_column(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return a table whose ids are a column, also if they are its index."""
    if name in frame.index.names and name not in frame.columns:
        return frame.reset_index(level=name)
    return frame


def sort_by_id(frame: pd.DataFrame, column: str, owner: str, rule: IdRule | None = None) -> tuple[pd.DataFrame, Ids]:
    """Return a table without its id column, sorted by it, and the ids.

    Parameters
    ----------
    frame : DataFrame
    column : str
        Name of the id column.
    owner : str
        The participant, for messages.
    rule : IdRule or None
        What counts as the same id; what the list itself tells if None.

    Raises
    ------
    DataError
        If ids are missing, repeated or of a kind that cannot be compared; it says how many, never which.
    """
    if column not in frame.columns:
        there = ", ".join(map(str, frame.columns[:20]))
        raise DataError(f"{owner}: there is no id column {column!r}; the columns are {there}", "unknown", column)
    ids = ids_in_order(frame[column].tolist(), column, owner, rule)
    return frame.drop(columns=column).iloc[ids.places].reset_index(drop=True), ids


def ids_in_order(written: Sequence[Any], column: str, owner: str, rule: IdRule | None = None) -> Ids:
    """Return ids in order, from a column as it was read; raises DataError as `sort_by_id` does."""
    texts = [_text(value, owner, column) for value in written]
    if rule is not None:
        texts = [rule.normalise(text) for text in texts]
    missing = sum(not text for text in texts)
    if missing:
        text = (
            f"{owner}: {missing} of {len(texts)} rows have no id in column {column!r}; drop those rows or give them ids"
        )
        raise DataError(text, "missing", column, missing)
    broken = sum(not _is_unicode(text) for text in texts)
    if broken:
        text = (
            f"{owner}: {broken} of {len(texts)} ids of column {column!r} are no text that can be written as UTF-8; "
            "correct how the table was read"
        )
        raise DataError(text, "value", column, broken)
    keys, order = _sorted(texts, _are_numbers(texts, owner, column, rule))
    repeated = sum(a == b for a, b in pairwise(keys))
    if repeated:
        alike = " (007, 7 and 7.0 are one id; a letter in front keeps them apart)"
        hint = "" if len(set(texts)) < len(texts) else alike
        if rule is not None and len({str(value) for value in written}) == len(texts):
            hint = " once they are spelled as [align] says"
        text = f"{owner}: {repeated} of {len(texts)} rows repeat an id of column {column!r}{hint}; keep one row per id"
        raise DataError(text, "duplicate", column, repeated)
    return Ids(tuple(keys), tuple(written[i] for i in order), np.array(order, np.int64))


def _are_numbers(texts: Sequence[str], owner: str, column: str, rule: IdRule | None) -> bool:
    """Return whether ids are whole numbers: as the rule says, or else as all of them look."""
    if rule is not None and rule.ids == "text":
        return False
    others = sum(not _WHOLE.fullmatch(text) for text in texts)
    if others and rule is not None:
        text = (
            f"{owner}: {others} of {len(texts)} ids of column {column!r} are no whole numbers; correct them, or set "
            '[align] ids = "text" at all participants'
        )
        raise DataError(text, "type", column, others)
    return not others


def _sorted(texts: Sequence[str], are_numbers: bool) -> tuple[list[str], list[int]]:
    """Return ids in their common spelling, in order, and where they were."""
    if are_numbers:
        numbers = [int(text.partition(".")[0]) for text in texts]
        order = sorted(range(len(texts)), key=numbers.__getitem__)
        return [str(numbers[i]) for i in order], order
    order = sorted(range(len(texts)), key=texts.__getitem__)
    return [texts[i] for i in order], order


def _is_unicode(text: str) -> bool:
    """Return whether a text can be compared byte by byte: halves of characters, of a table read wrongly, cannot."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _text(value: Any, owner: str, column: str) -> str:
    """Return an id as text, empty if it is missing."""
    if isinstance(value, str):
        text = value.strip()
        return text if text.isascii() else unicodedata.normalize("NFC", text)
    if value is None or value is pd.NA or value is pd.NaT:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, (float, Decimal)):
        if value != value:  # NaN
            return ""
        if abs(float(value)) < 2**53 and value == int(value):
            return str(int(value))
        text = (
            f"{owner}: id column {column!r} holds numbers with fractions or beyond 2^53, which are not exact; "
            "store ids as whole numbers or as text"
        )
        raise DataError(text, "range", column)
    text = (
        f"{owner}: id column {column!r} holds values of type {type(value).__name__}; store ids as whole numbers or as "
        "text"
    )
    raise DataError(text, "type", column, type(value).__name__)
