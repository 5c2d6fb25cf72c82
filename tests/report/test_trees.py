"""Partial trees as text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.report.trees import model_text
from mpfedxgb.tree.nodes import Dummy, Leaf, Split

BANK = PartialModel(
    training="c0ffee",
    participant=1,
    participants=("bank", "telecom"),
    params=TrainParams(n_estimators=2),
    features=(Feature("age"), Feature("city", ("Basel", "Quito"))),
    trees=(
        (
            Split("age", 40.5, None, False, True, 1, 2),
            Dummy(2, 3, 4),
            Split("city", None, 1, True, False, 5, 6),
            Leaf(-(2**31), 1.0),
            Leaf(2**32, 1.0),
            Leaf(0, 1.0),
            Leaf(3 << 32, 1.0),
        ),
        (Split("age", np.inf, None, False, False, 1, 2), Leaf(1 << 30, 1.0), Leaf(0, 1.0)),
    ),
    base_margin=(0.0,),
)


def test_own_splits_in_words() -> None:
    """Conditions, where missing values go, weights; the side that meets the condition comes first, coin or no coin."""
    assert model_text(BANK).splitlines() == [
        "bank (active), 2 trees, binary:logistic",
        "",
        "tree 0",
        "  0: age <= 40.5 (missing second)",
        "    2: city is not 'Quito' (missing first)",
        "      5: leaf +0",
        "      6: leaf +3",
        "    1: Dummy (split of telecom)",
        "      3: leaf -0.5",
        "      4: leaf +1",
        "",
        "tree 1",
        "  0: age is present",
        "    1: leaf +0.25",
        "    2: leaf +0",
    ]


def test_others_see_less() -> None:
    """An auxiliary's text has Dummy where it knows nothing, and no weights."""
    telecom = replace(
        BANK,
        participant=2,
        features=(Feature("calls"),),
        trees=((Split("calls", -np.inf, None, True, False, 1, 2), Leaf(None), Dummy(1, 3, 4), Leaf(None), Leaf(None)),),
        base_margin=None,
    )
    assert model_text(telecom).splitlines() == [
        "telecom (auxiliary), 1 trees, binary:logistic",
        "",
        "tree 0",
        "  0: calls is missing",
        "    1: leaf secret",
        "    2: Dummy (split of bank)",
        "      3: leaf secret",
        "      4: leaf secret",
    ]


def test_one_tree_per_class() -> None:
    """Trees of several classes are numbered by round and class."""
    leaf = (Leaf(0, 1.0),)
    several = replace(
        BANK,
        params=TrainParams(objective="multi:softprob", num_class=3),
        trees=(leaf,) * 6,
        base_margin=(0.0, 0.0, 0.0),
    )
    titles = [line for line in model_text(several).splitlines() if line.startswith("tree")]
    assert titles == [f"tree {t}, class {k}" for t in range(2) for k in range(3)]
