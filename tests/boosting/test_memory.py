"""What a training takes of a machine, by role."""

from __future__ import annotations

from dataclasses import replace

from mpfedxgb.boosting.memory import disk_bytes, margin_bytes, peak_bytes, simulation_bytes
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.tree.level import TableSizes

PARAMS = TrainParams(max_depth=5, n_estimators=10)
MILLION = TableSizes(1_000_000, 0, (434, 434))
SMALL = TableSizes(100, 0, (9, 9))


def test_needs_grow_with_the_sizes() -> None:
    """More rows, columns of others, depth or classes take more; a simulation takes less than its roles apart."""
    for role in (0, 1, 2):
        small, large = peak_bytes(role, PARAMS, SMALL), peak_bytes(role, PARAMS, MILLION)
        assert small < large
        assert peak_bytes(role, replace(PARAMS, max_depth=7), MILLION) > large
    assert peak_bytes(1, PARAMS, MILLION) > 8 * 1_000_000 * 434
    apart = sum(peak_bytes(role, PARAMS, replace(MILLION, columns=(217,) * 4)) for role in range(5))
    assert simulation_bytes(PARAMS, replace(MILLION, columns=(217,) * 4)) < apart
    assert disk_bytes(0, PARAMS, MILLION) == 0
    assert disk_bytes(1, PARAMS, MILLION) > margin_bytes(1, PARAMS, MILLION) == 32_000_000
    assert margin_bytes(2, PARAMS, MILLION) == 0
