"""The benchmark of three organisations: with a fourth and without, on a small table."""

from __future__ import annotations

import bench_three


def test_both_come_from_one_run() -> None:
    """The trees are the same; the ratio is that of the times beside it; nobody sends what was not forecast."""
    result = bench_three.measure(rows=300, trees=1, repeat=1)
    assert result["same_trees"] is True
    assert result["slow_down"] == result["seconds"][bench_three.WITHOUT] / result["seconds"][bench_three.WITH]
    assert [sorted(result["roles"][kind]) for kind in bench_three.KINDS] == [
        ["P1", "P2", "P3", "coordinator"],
        ["P1", "P2", "P3"],
    ]
    sent = [(one["sent"], one["forecast_sent"]) for roles in result["roles"].values() for one in roles.values()]
    assert all(abs(was / forecast - 1) < 0.05 for was, forecast in sent)
    assert "the same trees" in bench_three._page(result)
