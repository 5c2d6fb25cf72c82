"""The page for security reviews is made of `Entry`, which is what ledgers have, and for whom, mode by mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

import pytest

from mpfedxgb.party.entries import Entry, Run, To
from mpfedxgb.party.ledger import Reveal
from support import sealed_trainings, small_trainings
from support.names import entries_in
from support.small_scorings import KINDS
from tools.generate import GENERATED, ROOT, generated

MODES = Run.TRAINING.columns
PAPER_KINDS = ("binary", "squared error", "evaluation rows", "early stopping", "first layer masked")
RECEIVERS = {
    To.PARTICIPANTS: {"participants"},
    To.COORDINATOR: {"coordinator"},
    To.P_1: {"P1"},
    To.P_2: {"P2"},
    To.OWNERS: {"P1", "P2", "P3"},
    To.AUXILIARIES: {"P2", "P3"},
}


def test_the_page_is_generated() -> None:
    """Its tables are those of the declaration, all of them; `make generate` writes them anew."""
    path = ROOT / "docs" / "what-each-party-sees.md"
    page = path.read_text(encoding="utf-8")
    assert generated()[path] == page
    assert all(page.count(f"<!-- generated: {run} -->") == 1 for run in Run)
    assert page.count("| name on the ledger |") == len(Run)


@pytest.mark.parametrize("run", Run)
def test_a_table_that_differs_is_written_anew(run: Run) -> None:
    """Not one of its rows can say something else, and none can be missing."""
    (part,) = (part for part in GENERATED if part.name == run)
    page = (ROOT / part.path).read_text(encoding="utf-8")
    for row in list(part.lines())[2:]:  # without its head, which other tables have too
        assert page.count(f"{row}\n")
        assert part.put_into(page.replace(f"{row}\n", "| `a name` | nobody | something else |\n")) == page
        assert part.put_into(page.replace(f"{row}\n", "")) == page


@pytest.mark.parametrize("entry", Entry)
def test_every_entry_is_declared_for_some_run(entry: Entry) -> None:
    """With receivers for each column; but the one of an experiment, which no training has."""
    assert bool(entry.lines) == (entry is not Entry.BEST)
    assert all(len(line.to) == len(line.run.columns) and any(line.to) and line.what for line in entry.lines)
    assert entry.meaning
    assert entry.sealed_meaning


def entries(security: str) -> Iterator[Reveal]:
    """Yield what the ledgers of small trainings have, of every kind that a mode knows; three participants."""
    if security == "strict":
        for kind in small_trainings.KINDS:
            yield from small_trainings.recorded(kind, 3)[1].ledgers[0]
    elif security == "sealed":
        for kind in sealed_trainings.KINDS:
            yield from sealed_trainings.recorded(kind, 3).run.ledgers[0]
    else:
        for kind in PAPER_KINDS:
            training = small_trainings.training_of(kind, 3)
            params = replace(training.params, security=security, min_child_weight=0.0)
            yield from replace(training, params=params).run(1).ledgers[0]


@lru_cache(maxsize=3)
def told(security: str) -> dict[str, set[str]]:
    """Return to whom each value is told in a mode, but for what keeping rounds adds."""
    found: dict[str, set[str]] = {}
    for entry in entries(security):
        if entry.name != Entry.ROUNDS_DONE:
            found.setdefault(entry.name, set()).add(entry.receiver)
    return found


@pytest.mark.parametrize("security", MODES)
def test_what_is_declared_of_a_training_is_what_ledgers_have(security: str) -> None:
    """Whatever the option, nobody is told what its mode's column does not say; and what it says, somebody is told."""
    found, place = told(security), MODES.index(security)
    column = {
        entry.value: set[str]().union(*(RECEIVERS[who] for who in line.to[place]))
        for entry in Entry
        for line in entry.lines
        if line.run is Run.TRAINING
    }

    assert set(found) <= set(column)
    for name, receivers in column.items():
        assert found.get(name, set()) <= receivers, name
        if name != Entry.OWN_PATH or security != "paper":  # no tree of these has such a leaf
            assert (name in found) == bool(receivers), name
        assert ("P1" in found.get(name, ())) == ("P1" in receivers), name


def test_what_is_declared_of_a_scoring_run_is_what_its_ledger_has() -> None:
    """The same names, each for the same receivers."""
    names = entries_in(Run.SCORING)
    declared = {
        (name.value, receiver)
        for name in names
        for line in name.lines
        if line.run is Run.SCORING
        for who in line.to[0]
        for receiver in RECEIVERS[who]
    }
    scoring = KINDS["random rows"](3)
    runs = scoring.run(1), scoring.run_leaves(1)
    assert {(entry.name, entry.receiver) for run in runs for entry in run.ledgers[0]} == declared
