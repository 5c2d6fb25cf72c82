"""What `make generate` writes: tables of pages that are made of declarations in the code, each between two marks."""

from __future__ import annotations

import re
from pathlib import Path

from mpfedxgb.party.entries import Entry, Receivers, Run

DOCS = Path(__file__).parents[1]
LEDGER_PAGE = DOCS / "what-each-party-sees.md"

_MARKED = re.compile(r"(?P<mark><!-- make generate: (?P<what>[^\n]+) -->\n).*?(?P<end><!-- end -->)", re.DOTALL)


def with_tables(page: str) -> str:
    """Return the ledger page with its tables as `Entry` declares them, one for each kind of run that it marks."""
    return _MARKED.sub(lambda found: f"{found['mark']}\n{table(Run(found['what']))}\n{found['end']}", page)


def table(run: Run) -> str:
    """Return a row for every name of a kind of run: who gets it, and what it is."""
    rows = [["name on the ledger", *run.columns, "what it is"], ["---"] * (len(run.columns) + 2)]
    for entry in Entry:
        rows += [[f"`{entry}`", *map(_cell, line.to), line.what] for line in entry.lines if line.run is run]
    head, rule, *others = (f"| {' | '.join(cells)} |\n" for cells in rows)
    return "".join([head, rule.replace(" ", ""), *others])


def _cell(to: Receivers) -> str:
    return ", ".join(to) or "-"


if __name__ == "__main__":
    LEDGER_PAGE.write_text(with_tables(LEDGER_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
