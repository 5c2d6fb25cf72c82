"""The benchmark of bounds of leaf weights: all ways, on a small table."""

from __future__ import annotations

import bench_bounds


def test_all_ways_come_from_one_run() -> None:
    """Ratios are those of the times beside them; bounds cost message rounds, and directions most."""
    result = bench_bounds.measure(rows=300, features=5, trees=1, repeat=1)
    plain = result["plain"]

    assert {r["ratio"] for r in result.values()} == {r["seconds"] / plain["seconds"] for r in result.values()}
    rounds = [result[name]["rounds_per_tree"] for name in ("plain", "reg_alpha", "max_delta_step", "monotone")]
    assert rounds == sorted(rounds)
    assert rounds[0] < rounds[1]
    assert "monotone and reg_alpha" in bench_bounds._page("all", result)
