"""The benchmark of trainings in the open: both pairs, on small tables."""

from __future__ import annotations

import bench_plain


def test_both_ratios_come_from_one_run() -> None:
    """The first pair has the same trees, and each ratio is that of the times beside it."""
    result = bench_plain.measure(1, 500)
    assert result["same_trees"] is True
    assert result["speed_up"] == result["strict_seconds"] / result["none_seconds"]
    assert result["slow_down"] == result["none_large_seconds"] / result["xgboost_seconds"]
    assert min(result["none_accuracy"], result["xgboost_accuracy"]) > 0.7


def test_the_page_names_the_promises() -> None:
    """At least 20 times as fast as the protocol, at most 30 times as slow as xgboost."""
    page = bench_plain._page(bench_plain.measure(1, 200))
    assert "(at least 20)" in page
    assert "(at most 30)" in page
    assert "the same trees" in page
