"""The ledger in plain words: what left this organisation, what arrived, and what was revealed to whom.

All roles keep the same ledger, an entry for everything that anybody learns. Here each entry gets a sentence, and the
side on which the reader stands: an entry *arrives* where the reader is its receiver, and it *leaves* where it tells
somebody else something that comes, alone or with others', from the reader.
"""

from __future__ import annotations

from collections.abc import Iterable

from mpfedxgb.party.entries import Entry, Source
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.report.html.data import ReportData

PARTICIPANTS = "participants"
"""The receiver of what all participants learn."""

_ENTRIES = {entry.value: entry for entry in Entry}


def meaning_of(name: str, hides_rows: bool = False) -> str:
    """Return what an entry is about, in words; one that nobody declared, of another version, keeps its name."""
    entry = _ENTRIES.get(name)
    if entry is None:
        return name
    return entry.sealed_meaning if hides_rows else entry.meaning


def source_of(name: str) -> Source:
    """Return from whom an entry comes; one that nobody declared counts as coming from everybody."""
    entry = _ENTRIES.get(name)
    return Source.ALL if entry is None else entry.source


def split_by_side(data: ReportData) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return what leaves the reader and what arrives: sentences, each with the number of values."""
    leaving: dict[str, list[Reveal]] = {}
    arriving: list[tuple[str, int]] = []
    for entry in data.ledger:
        if entry.receiver == data.role or (entry.receiver == PARTICIPANTS and data.number != COORDINATOR):
            line = meaning_of(entry.name, data.mode.hides_rows), entry.count
            if line not in arriving:  # a coordinator that brings columns is listed as the one and as the other
                arriving.append(line)
        if _comes_from(data, source_of(entry.name)) and entry.receiver != data.role:
            leaving.setdefault(entry.name, []).append(entry)
    left = []
    for name, entries in leaving.items():  # one sentence for several receivers, who all got the same
        receivers = ["the other participants" if e.receiver == PARTICIPANTS else e.receiver for e in entries]
        sentence = f"{meaning_of(name, data.mode.hides_rows)}: to {' and '.join(receivers)}"
        left.append((sentence, max(entry.count for entry in entries)))
    return left, arriving


def _comes_from(data: ReportData, source: Source) -> bool:
    if data.number == COORDINATOR or source is Source.RECEIVER:
        return False
    if source is Source.ACTIVE:
        return data.number == ACTIVE
    return source is not Source.AUXILIARIES or data.number != ACTIVE


def receivers_of(ledger: Iterable[Reveal]) -> dict[tuple[str, int], list[str]]:
    """Return who got what: receivers by the name and the number of values."""
    found: dict[tuple[str, int], list[str]] = {}
    for entry in ledger:
        found.setdefault((entry.name, entry.count), []).append(entry.receiver)
    return found
