"""The formula for a role's memory, beside what trainings really take."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import Resources
from mpfedxgb.modes.sealed.gradients import working
from mpfedxgb.testing.trial import Trial
from mpfedxgb.training.memory import (
    BASE,
    bytes_besides,
    candidate_bytes,
    disk_bytes,
    goes_to_spool,
    keeps_masks,
    margin_bytes,
    peak_bytes,
    simulation_bytes,
    training_bytes,
)
from mpfedxgb.tree.level import TableSizes
from support.role_processes import make_nursery, train_in_processes

PARAMS = TrainParams(max_depth=5, n_estimators=10)
MILLION = TableSizes(1_000_000, 0, (434, 434))
SMALL = TableSizes(100, 0, (9, 9))

MEASURE = """
import json, os, sys
import numpy as np
from mpfedxgb import FedXGBClassifier
from mpfedxgb.machine import anonymous_memory
from mpfedxgb.ring import kernels, plain_kernels, row_kernels

def made(rows, features, classes):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    score = X[:, 0] + X[:, -1] + rng.normal(size=rows)
    return X, np.digitize(score, np.quantile(score, np.arange(1, classes) / classes))

kernels.warm_up()  # and no training: of threads that are just ending a child would inherit locks, for ever held
for line in sys.stdin:
    rows, features, told, folder = json.loads(line)
    child = os.fork()
    if child:
        if os.waitpid(child, 0)[1]:
            sys.exit("a training failed")
        continue
    few = {"security": told.get("security", "strict"), "n_estimators": told.get("n_estimators", 1)}
    FedXGBClassifier(max_depth=2, max_bin=4, **few).fit(*made(500, 10, 2))  # what else is imported and loaded once
    X, y = made(rows, features, told.pop("classes", 2))
    before = anonymous_memory()
    model = FedXGBClassifier(spool=folder, **{"n_estimators": 1, **told}).fit(X, y)
    columns = [sum(map(len, owner.values())) for owner in model.cut_points_.values()]
    print(json.dumps([model.run_.peak_memory - before, columns]), flush=True)
    os._exit(0)
"""

Measured = Callable[[int, int, dict[str, object], Path], tuple[int, list[int]]]


@pytest.fixture(scope="module")
def measured() -> Iterator[Measured]:
    """Return what measures a training in a process of its own: its memory, and the candidates of each participant."""
    with subprocess.Popen(  # noqa: S603 # our own
        [sys.executable, "-c", MEASURE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        asking, answers = program.stdin, program.stdout
        assert asking is not None
        assert answers is not None

        def measure(rows: int, features: int, told: dict[str, object], folder: Path) -> tuple[int, list[int]]:
            print(json.dumps([rows, features, told, str(folder)]), file=asking, flush=True)
            taken, columns = json.loads(answers.readline())
            return taken, columns

        yield measure
        asking.close()


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (60_000, {"participants": 2, "max_depth": 5, "max_bin": 64}),
        (50_000, {"participants": 4, "max_depth": 4, "max_bin": 64, "n_estimators": 3}),
        (60_000, {"participants": 3, "max_depth": 5, "max_bin": 64, "coordinator": "P3"}),
        (50_000, {"participants": 3, "max_depth": 5, "max_bin": 64, "max_memory": "700 MB"}),
        (70_000, {"participants": 3, "max_depth": 2, "max_bin": 32, "security": "sealed", "n_estimators": 2}),
        (
            40_000,
            {"participants": 3, "max_depth": 2, "max_bin": 32, "security": "sealed", "n_estimators": 2, "classes": 3},
        ),
        (20_000, {"participants": 3, "max_depth": 5, "max_bin": 64, "monotone_constraints": [1, 0, -1]}),
    ],
    ids=["two", "four", "nobody else", "spool", "sealed", "sealed classes", "constrained"],
)
def test_the_formula_is_right_within_15_percent(
    rows: int, told: dict[str, object], tmp_path: Path, measured: Measured
) -> None:
    """For simulations of several sizes, in memory and in the spool."""
    taken, columns = measured(rows, 10, told, tmp_path)
    security = str(told.get("security", "strict"))
    classes, constrained = int(str(told.get("classes", 2))), "monotone_constraints" in told
    loss = "multi:softprob" if classes > 2 else "binary:logistic"
    depth, trees = (int(str(told.get(key, 1))) for key in ("max_depth", "n_estimators"))
    params = TrainParams(loss, classes, n_estimators=trees, max_depth=depth, security=security, constrained=constrained)
    owns = "coordinator" in told
    sizes = TableSizes(rows, 0, tuple(columns), owns)
    forecast = training_bytes(range(len(columns) + 1 - owns), params, sizes, in_spool="max_memory" in told)

    assert forecast == pytest.approx(taken, rel=0.15)


@pytest.mark.parametrize(
    ("coordinator", "constrained"), [("p3", False), (None, True)], ids=["nobody else", "a fourth, constrained"]
)
def test_so_it_is_where_each_role_is_a_process(coordinator: str | None, constrained: bool, tmp_path: Path) -> None:
    """Each takes more for candidates than beside others, whose worst moments are not its own."""
    tables = toy_tables(rows=1000, features=30 if constrained else 60)
    training = {"n_estimators": 1, "max_depth": 5, "max_bin": 64, "min_child_weight": 0.0, "num_class": 2}
    training["constrained"] = constrained
    trial = Trial(tmp_path, tables, "label", "row", training, coordinator=coordinator)
    with make_nursery() as nursery:
        train_in_processes(trial, nursery)
    records = {trial.roster.name(role): trial.record(role) for role in trial.roster.roles}

    for name, record in records.items():
        assert record["forecast"]["memory"] == pytest.approx(record["peak_memory"], rel=0.15), name


def toy_tables(rows: int, features: int) -> dict[str, pd.DataFrame]:
    """Return tables of three participants, of as many columns."""
    draws = np.random.default_rng(1)
    whole = pd.DataFrame(draws.normal(size=(rows, features))).add_prefix("x")
    label = (whole["x0"] + whole[f"x{features - 1}"] + draws.normal(size=rows) > 0).astype(int)
    parts = np.split(whole.to_numpy(), 3, axis=1)
    tables = {f"p{m}": pd.DataFrame(part).add_prefix("x").assign(row=whole.index) for m, part in enumerate(parts, 1)}
    return tables | {"p1": tables["p1"].assign(label=label)}


def by_role(params: TrainParams, sizes: TableSizes) -> dict[int, int]:
    """Return what every role takes besides E in a process of its own."""
    return {role: bytes_besides(params, sizes, [role]) for role in range(sizes.participants + 1)}


def test_what_the_formula_is_made_of() -> None:
    """Row vectors double with each level and grow with the trees of a round; E is everybody's but one's own."""
    sizes = TableSizes(1_000_000, 0, (310, 620, 0))
    params = TrainParams(num_class=2, max_depth=5)
    five = by_role(params, sizes)
    six, classes = (
        by_role(replace(params, max_depth=6), sizes),
        by_role(TrainParams(objective="multi:softprob", num_class=4, max_depth=5), sizes),
    )
    u, members = 16 * 1_000_000 * 8, 4 * 32 * 125_000
    for role, (vectors, features) in enumerate(((6, 0), (8, 10), (7, 20), (7, 0))):
        gains = candidate_bytes(role, params, roles=1) * 16 * 930
        assert five[role] == vectors * u + members + gains + features * 5_000_000 + 3_000_000
        assert six[role] - five[role] == vectors * u + members + gains
        assert classes[role] - five[role] == 3 * (vectors * u + members + gains)
    assert not keeps_masks(sizes)
    assert peak_bytes(1, params, sizes) == BASE + five[1] + 620 * 8_000_000
    assert peak_bytes(3, params, sizes) == BASE + five[3] + 930 * 8_000_000
    assert peak_bytes(3, params, sizes, in_spool=True) == BASE + five[3]
    assert peak_bytes(0, params, sizes) == BASE + five[0]
    together = bytes_besides(params, sizes, range(4))
    besides = simulation_bytes(params, sizes, in_spool=True) - together
    assert BASE < besides < 1.5 * BASE
    assert simulation_bytes(params, sizes) == besides + together + 930 * 8_000_000
    saved = sum(candidate_bytes(role, params, 1) - candidate_bytes(role, params, 4) for role in range(4))
    assert sum(five.values()) - together == saved * 16 * 930 > 0


def test_what_sealed_trainings_take_besides() -> None:
    """Margins, labels and weights stay; beside chunks of up to 2^17 rows, what levels took, too; shares are on disk."""
    sizes = TableSizes(1_000_000, 1000, (310, 620))
    flat, deep = (TrainParams(num_class=2, max_depth=depth, security="sealed") for depth in (1, 7))
    paper = replace(deep, security="paper", min_child_weight=0.0)  # whose levels are as wide
    for role, carried in enumerate((8, 16, 16)):
        kept = carried * 2_001_000 + working(role, deep, sizes).gradients
        assert bytes_besides(deep, sizes, [role]) - bytes_besides(paper, sizes, [role]) == kept
        weighted = bytes_besides(replace(deep, weighted=True), sizes, [role])
        assert weighted - bytes_besides(deep, sizes, [role]) == carried * 1_000_000
        one_tree = bytes_besides(replace(deep, n_estimators=1), sizes, [role])
        assert one_tree - bytes_besides(replace(paper, n_estimators=1), sizes, [role]) == carried * 2_001_000
        assert margin_bytes(role, flat, sizes) == (4 * 8 * 1_001_000 if role else 0)
    few, most, more = (replace(sizes, rows=rows, eval_rows=0, columns=(9, 9)) for rows in (1 << 16, 1 << 17, 1 << 18))
    taken = [bytes_besides(replace(flat, n_estimators=1), one, [0]) - 18 * 8 * one.rows for one in (few, most, more)]
    assert taken[1] - taken[0] > 3 * (taken[2] - taken[1])
    frames = [peak_bytes(1, flat, one) - BASE - training_bytes([1], flat, one) for one in (few, most, more)]
    assert frames[0] * 2 == frames[1] == frames[2] > 0
    classes = replace(deep, objective="multi:softprob", num_class=3, weighted=True)
    for role, carried in enumerate((8, 16, 16)):
        assert working(role, classes, sizes).carried == carried * (3 * 2_001_000 + 1_000_000)
    squares = replace(flat, objective="reg:squarederror", num_class=1)
    assert peak_bytes(1, squares, most) == BASE + training_bytes([1], squares, most)


def test_the_coordinator_keeps_small_masks() -> None:
    """Where all matrices take at most 256 MiB, their masks are kept, and count."""
    params = TrainParams(num_class=2, max_depth=1)
    small, large = TableSizes(1000, 0, (33_554,)), TableSizes(1000, 0, (33_555,))
    assert (keeps_masks(small), keeps_masks(large)) == (True, False)
    least, more = bytes_besides(params, small, [0]), bytes_besides(params, large, [0])
    assert least - more == 33_554 * 8000 - candidate_bytes(0, params, roles=1)


def test_the_spool_is_foretold() -> None:
    """It takes a limit that is not kept, and a folder."""
    taken = training_bytes([1], PARAMS, MILLION)
    folder = Path("folder")
    assert goes_to_spool([1], PARAMS, MILLION, Resources(max_memory=taken - 1, spool=folder))
    assert not goes_to_spool([1], PARAMS, MILLION, Resources(max_memory=taken, spool=folder))
    assert not goes_to_spool([1], PARAMS, MILLION, Resources(max_memory=taken - 1))
    assert not goes_to_spool([1], PARAMS, MILLION, Resources(spool=folder))


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
