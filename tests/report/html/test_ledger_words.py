"""The ledger in plain words: a sentence for every entry, and for every role the side on which it stands."""

from __future__ import annotations

import pytest

from leakage.test_ledger_page import NAMES
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.report.html.ledger_words import WORDS, ledger_section, split_by_side
from mpfedxgb.report.html.markup import join
from mpfedxgb.tree.paper import argmax, leaf, split
from support.pages import parse
from support.reports import facts

PAPER = [
    split.FEATURE_SIZES,
    split.FEATURE_INDEX,
    split.SPLIT_INDEX,
    leaf.STEP_SIZE,
    argmax.NUMERATOR,
    argmax.DENOMINATOR,
    argmax.COMPARISON,
    argmax.BEST,
]
SHAPE = "the shape of every tree, and whose column each split uses"
WON = "which of the receiver\u2019s own columns won a split, and at which value"
LEAVES = "which rows share a leaf, in every tree"


@pytest.mark.parametrize("name", [*NAMES, *PAPER])
def test_every_entry_has_words(name: str) -> None:
    """Of a training, a scoring, a federation, and the paper's way."""
    assert WORDS[name].what


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
    page = parse(join(ledger_section(told)))
    rows = [[cell.text for cell in row.inside] for row in page.all("tr")][1:]
    listed = [(name, to, int(values)) for name, receivers, values in rows for to in receivers.split(", ")]
    assert listed == [(r.name, r.receiver, r.count) for r in told.ledger]
    assert "12.0 MB left (12.0 MB to telecom, 1.0 kB to dealer)" in page.words()
    assert "6.0 MB arrived (6.0 MB from dealer)" in page.words()


def test_an_empty_ledger_says_so() -> None:
    """Before anything has happened."""
    assert "Nothing was revealed so far" in parse(join(ledger_section(facts(ledger=())))).words()
