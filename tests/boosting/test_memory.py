"""The formula for a role's memory, beside what trainings really take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mpfedxgb.boosting.memory import bytes_besides, keeps_masks, peak_bytes
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.tree.level import TableSizes

MEASURE = """
import json, sys
import numpy as np
from mpfedxgb import FedXGBClassifier
from mpfedxgb.report.memory import anonymous_memory

rows, features, told, folder = int(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
rng = np.random.default_rng(1)
X = rng.normal(size=(rows, features)).astype(np.float32)
y = (X[:, 0] + X[:, -1] + rng.normal(size=rows) > 0).astype(int)
FedXGBClassifier(n_estimators=1, max_depth=2, max_bin=4).fit(X[:500], y[:500])  # what is imported and compiled once
before = anonymous_memory()
model = FedXGBClassifier(n_estimators=1, spool=folder, **told).fit(X, y)
columns = [sum(map(len, owner.values())) for owner in model.cut_points_.values()]
print(json.dumps([model.run_.peak_memory - before, columns]))
"""


def measured(rows: int, features: int, told: dict[str, object], folder: Path) -> tuple[int, list[int]]:
    """Return what a training takes in a process of its own, and the candidates of each participant."""
    command = [sys.executable, "-c", MEASURE, str(rows), str(features), json.dumps(told), str(folder)]
    done = subprocess.run(command, capture_output=True, check=True, text=True)  # noqa: S603 # our own
    taken, columns = json.loads(done.stdout)
    return taken, columns


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (60_000, {"participants": 2, "max_depth": 5, "max_bin": 64}),
        (50_000, {"participants": 4, "max_depth": 4, "max_bin": 64}),
        (50_000, {"participants": 3, "max_depth": 5, "max_bin": 64, "max_memory": "700 MB"}),
    ],
    ids=["two", "four", "spool"],
)
def test_the_formula_is_right_within_15_percent(rows: int, told: dict[str, object], tmp_path: Path) -> None:
    """For simulations of several sizes, in memory and in the spool."""
    taken, columns = measured(rows, 10, told, tmp_path)
    params = TrainParams(num_class=2, max_depth=int(str(told["max_depth"])))
    sizes = TableSizes(rows, 0, tuple(columns))
    forecast = peak_bytes(sizes, params, range(len(columns) + 1), in_spool="max_memory" in told)

    assert forecast == pytest.approx(taken, rel=0.15)


def test_what_the_formula_is_made_of() -> None:
    """Row vectors double with each level and grow with the trees of a round; E is everybody's but one's own."""
    sizes = TableSizes(1_000_000, 0, (100, 200, 0))
    five, six = (bytes_besides(sizes, TrainParams(num_class=2, max_depth=depth)) for depth in (5, 6))
    classes = bytes_besides(sizes, TrainParams(objective="multi:softprob", num_class=4, max_depth=5))
    u = 16 * 1_000_000 * 8
    for role, vectors in enumerate((6, 8, 7, 7)):
        assert five[role] == vectors * u + 12_000_000
        assert six[role] - five[role] == vectors * u
        assert classes[role] - five[role] == 3 * vectors * u
    params = TrainParams(num_class=2, max_depth=5)
    assert not keeps_masks(sizes)
    assert peak_bytes(sizes, params, [1]) == five[1] + 200 * 8_000_000
    assert peak_bytes(sizes, params, [3]) == five[3] + 300 * 8_000_000
    assert peak_bytes(sizes, params, [3], in_spool=True) == five[3]
    assert peak_bytes(sizes, params, [0]) == five[0]
    assert peak_bytes(sizes, params, range(4)) == sum(five.values()) + 300 * 8_000_000


def test_the_coordinator_keeps_small_masks() -> None:
    """Where all matrices take at most 256 MiB, their masks are kept, and count."""
    params = TrainParams(num_class=2, max_depth=1)
    small, large = TableSizes(1000, 0, (33_554,)), TableSizes(1000, 0, (33_555,))
    assert (keeps_masks(small), keeps_masks(large)) == (True, False)
    assert bytes_besides(small, params)[0] - bytes_besides(large, params)[0] == 33_554 * 8000
