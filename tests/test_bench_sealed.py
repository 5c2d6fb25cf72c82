"""The benchmark of sealed trainings: both modes, on a small table."""

from __future__ import annotations

import bench_sealed


def test_both_modes_come_from_one_run() -> None:
    """The splits are the same, and the ratio is that of the times beside it."""
    result = bench_sealed.measure(rows=300, trees=2, repeat=1)
    assert result["same_splits"] is True
    assert result["largest_difference"] < 1e-5 * result["largest_margin"]
    assert result["slow_down"] == result["seconds"]["sealed"] / result["seconds"]["strict"]
    more = result["modes"]["sealed"]["rounds_per_tree"] - result["modes"]["strict"]["rounds_per_tree"]
    assert 0 < more <= 60
    assert "the same splits" in bench_sealed._page(result)


def test_counts() -> None:
    """Another objective, with labels that go with it."""
    result = bench_sealed.measure(rows=300, trees=2, repeat=1, objective="count:poisson")
    assert result["same_splits"]
    assert result["largest_difference"] < 1e-5 * result["largest_margin"]


def test_a_rare_class_that_weighs_more() -> None:
    """Fewer digits, but some; the weights count."""
    plain, heavy = (
        bench_sealed.measure(rows=1000, trees=2, repeat=1, positives=0.02, weight=weight) for weight in (1.0, 50.0)
    )
    for result in (plain, heavy):
        assert result["largest_difference"] < 1e-4 * result["largest_margin"]
    assert plain["largest_margin"] != heavy["largest_margin"]
