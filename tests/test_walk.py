"""The counts of source files on the walks, and what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import walk
from mpfedxgb.errors import printable
from mpfedxgb.ring.prg import digest

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"


@pytest.fixture(scope="module")
def label_to_leaf() -> list[str]:
    """Return the files between a label and the first leaf weight."""
    return list(walk.from_a_label_to_a_leaf().files)


def test_walks_are_no_longer_than_is_said(label_to_leaf: list[str]) -> None:
    """CONTRIBUTING.md names both lengths, and neither has become longer."""
    said = re.search(
        r"column to its saved model through (\d+) files, from a label to the first\sleaf weight through (\d+)",
        CONTRIBUTING.read_text(),
    )
    assert said, "the lengths of the walks are not in CONTRIBUTING.md"
    column_to_model = list(walk.from_a_column_to_a_model().files)
    for most, files in zip(said.groups(), (column_to_model, label_to_leaf), strict=True):
        assert 40 < len(files) <= int(most), files


def test_a_walk_begins_at_the_estimator_and_ends_at_the_first_leaf_weight(label_to_leaf: list[str]) -> None:
    """What is called after the last function does not count, and neither does what is only imported."""
    files = label_to_leaf
    assert len(files) == len(set(files)) > 40
    assert "api/estimators.py" in files
    assert "tree/leaf.py" in files
    assert "federation/role.py" not in files, "an estimator needs no role of a deployment"
    assert "tree/predict.py" not in files, "nothing is scored before the first leaf"


def test_a_walk_that_has_ended_takes_nothing_more() -> None:
    """A function of the package counts up to the one that ends the walk, and none after it."""
    for last, expected in (("digest", ["ring/prg.py"]), ("", ["ring/prg.py", "errors.py"])):
        taken = walk.Walk(last)
        with taken.taken():
            digest(b"first")
            printable("second")
        assert list(taken.files) == expected
