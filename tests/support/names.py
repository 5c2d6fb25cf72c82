"""Names of entries: of a kind of run, and for what tests reveal, which is on no ledger of the package."""

from __future__ import annotations

from typing import cast

from mpfedxgb.party.entries import Entry, Run


def unlisted(name: str) -> Entry:
    """Return a name that `Entry` does not declare, as if it did; code of the package has no way to."""
    return cast(Entry, name)


def entries_in(run: Run, column: str = "to") -> list[Entry]:
    """Return the names that somebody receives in a kind of run, by a column of its table."""
    place = run.columns.index(column)
    return [name for name in Entry if any(line.run is run and line.to[place] for line in name.lines)]
