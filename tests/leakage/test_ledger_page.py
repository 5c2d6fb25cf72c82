"""The page for security reviews names everything that a federation's ledger can name, and to whom, mode by mode."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import pytest

from mpfedxgb.boosting import setup, train
from mpfedxgb.boosting.sealed import state as sealed_round
from mpfedxgb.federation import programs, scoring
from mpfedxgb.intersection import intersect
from mpfedxgb.party.ledger import Reveal
from mpfedxgb.protocols.reveal import OWN_SPLIT
from mpfedxgb.tree import leaf, nodes, predict
from support import sealed_trainings, small_trainings

PAGE = Path(__file__).parents[2] / "docs" / "what-each-party-sees.md"
NAMES = [
    setup.TABLE_SIZES,
    train.NUMBER_OF_TREES,
    train.ROUNDS_DONE,
    setup.CONTINUED,
    nodes.TREE_SHAPE,
    OWN_SPLIT,
    leaf.LEAF_MEMBERSHIP,
    leaf.OWN_PATH,
    sealed_round.EVALUATION_MARGINS,
    predict.PREDICTION,
    predict.ROWS_TO_SCORE,
    programs.KIND_OF_SESSION,
    programs.ID_DIGEST,
    programs.LABEL_COMMITMENT,
    programs.KEPT_AT_THE_END,
    intersect.SIZES,
    intersect.COMMON,
    scoring.BATCH,
    scoring.BATCH_IDS,
    scoring.NOT_FOUND,
    scoring.CLASSES,
    scoring.MODEL,
]


@pytest.mark.parametrize("name", NAMES)
def test_the_page_lists_every_entry(name: str) -> None:
    """In a row of its own, under the name that the ledger prints."""
    assert f"| `{name}` |" in PAGE.read_text(encoding="utf-8")


MODES = ("strict", "sealed", "paper")
PAPER_KINDS = ("binary", "squared error", "evaluation rows", "early stopping", "first layer masked")
ROW = re.compile(
    r"^\| `(?P<name>[^`]+)` \| (?P<strict>[^|]+) \| (?P<sealed>[^|]+) \| (?P<paper>[^|]+) \| [^|]+ \|$", re.M
)
RECEIVERS = {
    "participants": {"participants"},
    "C": {"coordinator"},
    "P_1": {"P1"},
    "P_2": {"P2"},
    "each owner": {"P1", "P2", "P3"},
    "each auxiliary": {"P2", "P3"},
    "-": set[str](),
}


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
        if entry.name != train.ROUNDS_DONE:
            found.setdefault(entry.name, set()).add(entry.receiver)
    return found


@pytest.mark.parametrize("security", MODES)
def test_the_columns_of_the_page_are_those_of_ledgers(security: str) -> None:
    """Whatever the option, nobody is told what its mode's column does not say; and what it says, somebody is told."""
    rows = {row["name"]: row[security] for row in ROW.finditer(PAGE.read_text(encoding="utf-8"))}
    column = {name: set().union(*(RECEIVERS[who] for who in cell.split(", "))) for name, cell in rows.items()}
    found = told(security)

    assert set(found) <= set(rows)
    for name, receivers in column.items():
        assert found.get(name, set()) <= receivers, name
        if name != leaf.OWN_PATH or security != "paper":  # no tree of these has such a leaf
            assert (name in found) == bool(receivers), name
        assert ("P1" in found.get(name, ())) == ("P1" in receivers), name
