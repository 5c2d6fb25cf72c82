"""The page for security reviews names everything that a federation's ledger can name."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpfedxgb.boosting import continuing, setup, train
from mpfedxgb.federation import closing, programs, scoring
from mpfedxgb.intersection import intersect
from mpfedxgb.protocols import tag
from mpfedxgb.tree import agreement, leaf, predict, split

PAGE = Path(__file__).parents[2] / "docs" / "what-each-party-sees.md"
NAMES = [
    setup.TABLE_SIZES,
    train.NUMBER_OF_TREES,
    train.ROUNDS_DONE,
    continuing.CONTINUED,
    split.TREE_SHAPE,
    tag.OWN_SPLIT,
    leaf.LEAF_MEMBERSHIP,
    leaf.OWN_PATH,
    predict.PREDICTION,
    agreement.ROWS_TO_SCORE,
    programs.KIND_OF_SESSION,
    programs.ID_DIGEST,
    closing.KEPT_AT_THE_END,
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
