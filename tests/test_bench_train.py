"""What the benchmark of a training counts, not what it times."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import FedXGBClassifier


@pytest.fixture(scope="module")
def bench() -> Any:
    """Return the benchmark as a module."""
    return importlib.import_module("bench_train")


def test_dealt_bytes_per_candidate_and_node(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two full trees of depth 2 have three nodes each for which a split is looked for."""
    words = "--rows 300 --features 4 --bins 4 --participants 2 --depth 2 --trees 2 --repeat 1"
    monkeypatch.setattr("sys.argv", ["bench_train.py", *words.split()])
    args = bench._arguments()
    result = bench.measure(args)
    assert result["same_trees"]
    assert result["candidates"] == 12
    assert result["dealer_bytes_per_candidate_and_node"] == pytest.approx(result["dealer_bytes_per_tree"] / 12 / 3)
    assert "dealt per candidate and node" in bench._page(args, result)


def test_nodes_that_close_early_count_and_their_missing_children_do_not(bench: Any) -> None:
    """One column with two values: the root splits, and its two children look for a split in vain."""
    X = pd.DataFrame({"a": np.tile([0.0, 1.0], 20), "b": np.zeros(40)})
    model = FedXGBClassifier(participants=2, n_estimators=1, max_depth=3).fit(X, X["a"].astype(int))
    assert bench._searched_nodes(model) == 3
