"""The count of source files between a label and a leaf."""

from __future__ import annotations

import walk
from mpfedxgb.errors import printable
from mpfedxgb.ring.prg import digest


def test_a_walk_begins_at_the_estimator_and_ends_at_the_first_leaf_weight() -> None:
    """What is called after the last function does not count, and neither does what is only imported."""
    files = list(walk.from_a_label_to_a_leaf().files)
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
