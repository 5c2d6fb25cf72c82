"""The ledger in plain words: a sentence for every entry, and for every role the side on which it stands."""

from __future__ import annotations

import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.report.html import page_html
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.report.html.page import split_by_side
from support.pages import Element, parse
from support.reports import facts, model

SHAPE = "the shape of every tree, and whose column each split uses"
WON = "which of the receiver\u2019s own columns won a split, and at which value"
LEAVES = "which rows share a leaf, in every tree"


def ledger_of(data: ReportData) -> Element:
    """Return the section of the ledger."""
    (section,) = (one for one in parse(page_html(data)).all("section") if one.attributes["id"] == "ledger")
    return section


@pytest.mark.parametrize(
    ("role", "number", "left", "arrived"),
    [
        ("bank", 1, [(f"{SHAPE}: to the other participants and dealer", 6)], [(SHAPE, 6), (WON, 4), (LEAVES, 160)]),
        (
            "telecom",
            2,
            [(f"{SHAPE}: to the other participants and dealer", 6), (f"{LEAVES}: to bank", 160)],
            [(SHAPE, 6), (WON, 2)],
        ),
        ("dealer", 0, [], [(SHAPE, 6)]),
    ],
)
def test_the_side_of_every_role(
    role: str, number: int, left: list[tuple[str, int]], arrived: list[tuple[str, int]]
) -> None:
    """What arrives at the one leaves the other; what an owner learns of its own columns leaves nobody."""
    assert split_by_side(facts(role=role, number=number)) == (left, arrived)


def test_sources() -> None:
    """Ids of rows leave the active participant, digests of ids the auxiliaries."""
    ledger = (Reveal("ids of the rows to score", "telecom", 20), Reveal("salted digest of the row ids", "bank", 2))
    of_bank = split_by_side(facts(ledger=ledger))
    of_telecom = split_by_side(facts(role="telecom", number=2, ledger=ledger))
    assert [values for _, values in of_bank[0]] == [values for _, values in of_telecom[1]] == [20]
    assert [values for _, values in of_telecom[0]] == [values for _, values in of_bank[1]] == [2]


def test_an_unknown_entry_keeps_its_name() -> None:
    """And counts as coming from everybody."""
    told = facts(ledger=(Reveal("something new", "telecom", 3),))
    assert split_by_side(told) == ([("something new: to telecom", 3)], [])


def test_the_section_has_the_whole_ledger_and_the_bytes() -> None:
    """Every entry under its name on the ledger, and what travelled in all attempts, the failed one too."""
    told = facts()
    page = ledger_of(told)
    rows = [[cell.text for cell in row.inside] for row in page.all("tr")][1:]
    listed = [(name, to, int(values)) for name, receivers, values in rows for to in receivers.split(", ")]
    assert listed == [(r.name, r.receiver, r.count) for r in told.ledger]
    assert "12.00 MB left (12.00 MB to telecom, 1.00 kB to dealer)" in page.words()
    assert "6.00 MB arrived (6.00 MB from dealer)" in page.words()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], ""),
        ([Entry.EVALUATION_MARGINS], "Evaluation rows took no part in it"),
        ([Entry.LEAF_MEMBERSHIP], "An earlier training was not sealed"),
    ],
)
def test_a_sealed_training(more: list[str], told: str) -> None:
    """It says that nobody learned anything about a training row, and what of the ledger is about something else."""
    sealed = model(params=TrainParams(n_estimators=2, security="sealed"))
    ledger = tuple(Reveal(name, "bank", 5) for name in (Entry.PREDICTION, *more))
    words = ledger_of(facts(sealed, ledger=ledger)).words()
    assert "nobody, the active participant included, learned anything about any training row" in words
    assert told in words
    assert "a sum over all trees at once" in words
    assert "from which its leaves may be worked out" not in words
    assert ("Evaluation rows took no part" in words) == (Entry.EVALUATION_MARGINS in more)
    assert ("An earlier training" in words) == (Entry.LEAF_MEMBERSHIP in more)
    assert "sealed" not in ledger_of(facts(ledger=ledger)).words()


def test_an_empty_ledger_says_so() -> None:
    """Before anything has happened."""
    assert "Nothing was revealed so far" in ledger_of(facts(ledger=())).words()
