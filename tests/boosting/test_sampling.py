"""Row and column samples: as large as asked for, repeatable by key, private and different without one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from scipy import stats

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import column_sample, node_sample, row_sample
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.party import Party, run_locally

ROWS = 4000
Bits = npt.NDArray[np.uint8]


def rows_of_all(share: float, key: str, rounds: int = 1, seed: int | None = None) -> npt.NDArray[np.float64]:
    """Return the samples that every role would draw, (roles, rounds, rows)."""

    def program(party: Party) -> list[npt.NDArray[np.float64]]:
        return [row_sample(party, share, ROWS, key, t) for t in range(rounds)]

    return np.array(run_locally(program, 2, settings=SessionSettings(insecure_seed=seed)).results)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 1 - 2**-53])
def test_row_sample_has_its_share(share: float) -> None:
    """Each row is in with the given probability, and counts as 1 or 0."""
    sample = row_sample_of_key(share)

    assert set(np.unique(sample).tolist()) <= {0.0, 1.0}
    assert stats.binomtest(int(sample.sum()), ROWS, share).pvalue > 1e-6


def row_sample_of_key(share: float) -> npt.NDArray[np.float64]:
    """Return the active participant's sample by a fixed key."""
    sample: npt.NDArray[np.float64] = rows_of_all(share, "a key")[1][0]
    return sample


def test_samples_by_key_repeat() -> None:
    """The same key gives the same samples in another run; they differ by round and by participant."""
    one, two = rows_of_all(0.5, "a key", rounds=2), rows_of_all(0.5, "a key", rounds=2)

    np.testing.assert_array_equal(one, two)
    assert alike(one[1][0], one[1][1]) < 0.6
    assert alike(one[1][0], one[2][0]) < 0.6
    assert alike(one[1][0], rows_of_all(0.5, "another key")[1][0]) < 0.6


def test_samples_without_a_key_are_private() -> None:
    """They differ from run to run and from role to role, the coordinator's among them; a fixed seed repeats them."""
    one, two = rows_of_all(0.5, ""), rows_of_all(0.5, "")

    for a, b in ((one[1], two[1]), (one[1], one[2]), (one[1], one[0])):
        assert alike(a, b) < 0.6
    np.testing.assert_array_equal(rows_of_all(0.5, "", seed=3), rows_of_all(0.5, "", seed=3))


def alike(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Return the share of rows on which two samples agree."""
    return float((a == b).mean())


def table(features: int) -> Candidates:
    """Return candidates of some features, one of them with missing values, one categorical."""
    rng = np.random.default_rng(0)
    frame: dict[str, object] = {f"f{i}": rng.normal(size=20) for i in range(features)}
    if features > 2:
        frame["f1"] = np.where(rng.random(20) < 0.3, np.nan, rng.normal(size=20))
        frame["f2"] = pd.Categorical(["u", "v"] * 10)
    return Candidates(bin_table(Table.read(pd.DataFrame(frame), "bank"), 4))


def columns_of_all(candidates: Candidates, share: float, key: str = "k", t: int = 0, classes: int = 1) -> list[Bits]:
    """Return the samples that every role would draw."""
    objective = "multi:softprob" if classes > 1 else "binary:logistic"
    params = TrainParams(objective=objective, num_class=classes, colsample_bytree=share)
    return run_locally(lambda party: column_sample(party, params, candidates, key, t), 2).results


@pytest.mark.parametrize(
    ("features", "share", "count"), [(8, 0.5, 4), (8, 0.01, 1), (8, 0.99, 8), (1, 0.3, 1), (5, 0.3, 2)]
)
def test_column_sample_has_its_share(features: int, share: float, count: int) -> None:
    """A rounded share of the owner's features, at least one: all candidates of some features, none of the others."""
    candidates = table(features)
    of = np.array([item.feature for item in candidates.items], np.int64)
    for t in range(6):
        bits = columns_of_all(candidates, share, t=t)[1]
        assert bits.shape == (1, len(candidates))
        chosen = set(of[bits[0] == 1].tolist())
        assert (np.isin(of, list(chosen)) == bits[0]).all()
        assert len(chosen) == count


def test_column_samples_differ() -> None:
    """By class, by round, by participant; by key they repeat, without one they do not."""
    candidates = table(30)
    one, two = (columns_of_all(candidates, 0.5, classes=2) for _ in range(2))

    np.testing.assert_array_equal(one, two)
    assert (one[1][0] != one[1][1]).any()
    assert (one[1] != one[2]).any()
    assert (one[1] != columns_of_all(candidates, 0.5, t=1, classes=2)[1]).any()
    assert (columns_of_all(candidates, 0.5, key="")[1] != columns_of_all(candidates, 0.5, key="")[1]).any()


def test_samples_of_levels_and_nodes_are_nested() -> None:
    """Half of a tree's features in a level, and half of those in a node: no other, and others in other places."""
    candidates, nodes = table(16), [(0, 1), (0, 2), (0, 3), (1, 1)]
    of_levels = TrainParams(objective="multi:softprob", num_class=3, colsample_bytree=0.5, colsample_bylevel=0.5)
    of_nodes = replace(of_levels, colsample_bynode=0.5)

    def program(party: Party) -> list[Bits]:
        trees = column_sample(party, of_levels, candidates, "k", 0)
        samples = [node_sample(party, params, candidates, "k", 0, 1, nodes) for params in (of_levels, of_nodes)]
        return [
            trees[[tree for tree, _ in nodes]],
            *samples,
            node_sample(party, of_levels, candidates, "k", 0, 2, nodes),
        ]

    trees, level, node, below = run_locally(program, 2).results[1]
    features = np.array([item.feature for item in candidates.items])
    counts = [[len(set(features[bits == 1])) for bits in sample] for sample in (trees, level, node)]
    assert counts == [[8] * 4, [4] * 4, [2] * 4]
    assert (node <= level).all()
    assert (level <= trees).all()
    assert (level[0] == level[1]).all()
    assert len({bits.tobytes() for bits in (level[0], below[0], level[3], *node)}) == 7
