"""Threads, a limit on memory and a spool: the same model, byte for byte, and a clear word where room is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings, Tuning
from mpfedxgb.data.spool import Spool
from mpfedxgb.errors import NoRoomError
from mpfedxgb.protocols.storage import SpoolTileStore

ROWS, FEATURES = 600, 6
ABOUT: dict[str, Any] = {"n_estimators": 2, "max_depth": 3, "participants": 3, "insecure_seed": 5}


@pytest.fixture(scope="module")
def table() -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return a table with gaps, and labels."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(ROWS, FEATURES)).astype(np.float32)
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, np.nansum(X * [3, -2, 1, 1, 0, 2], axis=1) + rng.normal(size=ROWS)


class InSmallBlocks(FedXGBRegressor):
    """A regressor that works in blocks so small that there are many."""

    def _settings(self, params: TrainParams | None = None) -> SessionSettings:
        small = Tuning(block_rows=16, tile_bytes=1 << 12, split_elements=1 << 8)
        return replace(super()._settings(params), tuning=small)


def models(table: Any, **more: Any) -> list[str]:
    """Return what a training leaves at each participant, but for the identity of the training."""
    made = InSmallBlocks(**ABOUT, **more).fit(*table)
    return [model.to_json() for model in made.partial_models_]


@pytest.mark.parametrize(("n_jobs", "security"), [(2, "strict"), (3, "strict"), (-1, "strict"), (3, "sealed")])
def test_threads_change_nothing(table: Any, n_jobs: int, security: str) -> None:
    """Any number of threads gives the same partial models, to the last digit."""
    assert models(table, n_jobs=n_jobs, security=security) == models(table, security=security)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_spool_changes_nothing_and_is_gone_afterwards(
    table: Any, tmp_path: Path, n_jobs: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """E in a file below the folder gives the same partial models."""
    wanted = models(table)
    monkeypatch.setattr("mpfedxgb.training.memory._WORKING", 0)
    monkeypatch.setattr("mpfedxgb.training.memory.candidate_bytes", lambda role, params, roles: 0)
    made = []
    plain = SpoolTileStore.__init__

    def noted(store: SpoolTileStore, spool: Spool, *args: Any) -> None:
        made.append((spool, len(list(tmp_path.iterdir()))))
        plain(store, spool, *args)

    monkeypatch.setattr(SpoolTileStore, "__init__", noted)

    assert models(table, max_memory="3 MB", spool=tmp_path, n_jobs=n_jobs) == wanted
    ((spool, there),) = made
    assert there == 1
    assert spool.octets > 600 * 8 * 100
    assert list(tmp_path.iterdir()) == []


def test_a_training_that_fails_leaves_no_spool(table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends it."""
    monkeypatch.setattr("mpfedxgb.training.memory._WORKING", 0)
    monkeypatch.setattr("mpfedxgb.training.memory.candidate_bytes", lambda role, params, roles: 0)

    def stop(report: object) -> None:
        assert len(list(tmp_path.iterdir())) == 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        models(table, max_memory="3 MB", spool=tmp_path, callbacks=[stop])
    assert list(tmp_path.iterdir()) == []


def test_a_training_that_does_not_fit_is_refused_with_figures(table: Any, tmp_path: Path) -> None:
    """Without a spool, with one that is missing, and where no spool helps; a fitted estimator stays as it was."""
    X, y = table
    model = FedXGBClassifier(n_estimators=1, max_depth=2).fit(X, y > 0)
    before = model.predict_proba(X)
    for more, reason in (
        ({"max_memory": "1 MB"}, r"takes \d+\.?\d* MB of memory, and max_memory is 1\.00 MB.*no spool can take"),
        ({"max_memory": "40 MB", "max_bin": 256}, r"name a folder with 14\.\d+ MB free in spool"),
        ({"max_memory": "40 MB", "max_bin": 256, "spool": tmp_path / "none"}, "none does not exist; make it"),
    ):
        with pytest.raises(NoRoomError, match=reason):
            model.set_params(max_memory=None, spool=None).set_params(**more).fit(X, y > 0)
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_the_record_has_the_peak(table: Any) -> None:
    """Of training and of scoring, in bytes."""
    X, y = table
    model = FedXGBRegressor(n_estimators=1, max_depth=1).fit(X, y)
    assert model.run_.peak_memory > 10_000_000
    assert model.prediction_run(X).peak_memory > 10_000_000
    assert "peak memory" in str(model.run_)
