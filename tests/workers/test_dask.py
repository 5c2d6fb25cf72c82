"""Row work on the workers of a Dask cluster: the same model for any number of them, whatever happens to one."""

from __future__ import annotations

import itertools
import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from sklearn.base import clone

from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.join import join
from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.errors import DataError, MpfedxgbError, SettingsError, WorkersError
from mpfedxgb.protocols.row_blocks import RowLayout
from mpfedxgb.protocols.storage import LocalRows
from mpfedxgb.ring.prg import Stream
from mpfedxgb.workers import rows as worker_rows
from mpfedxgb.workers import tasks
from mpfedxgb.workers.cluster import Call, Cluster, Lost, refuse_open_traffic
from mpfedxgb.workers.rows import WorkerRows
from patience import patience
from support.dask_clusters import PATIENCE, end
from support.parquet_tables import both, people, written
from support.refusals import ANY, refused

ROWS = 13_000
"""Four blocks, the last one short."""


def local_cluster(workers: int) -> LocalCluster:
    """Return worker processes on this machine, without a page to look at."""
    return LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        dashboard_address=":0",
        silence_logs=logging.ERROR,
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Return a cluster that grows with the tests: they run in the order of this file."""
    made = local_cluster(1)
    try:
        yield made
    finally:
        end(made)


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[Client]:
    """Return a client of that cluster."""
    with Client(cluster, set_as_default=False) as made:
        yield made


def table(rows: int) -> tuple[pd.DataFrame, pd.Series[int]]:
    """Return numbers with gaps, words, and a label that depends on both."""
    rng = np.random.default_rng(7)
    X = pd.DataFrame(rng.normal(size=(rows, 3)).round(2), columns=["a", "b", "c"])
    X["city"] = pd.Categorical(rng.choice(["Bonn", "Ulm", "Kiel"], rows))
    X.loc[rng.random(rows) < 0.1, "b"] = np.nan
    return X, (X["a"] + X["c"].abs() + (X["city"] == "Ulm") > 0.8).astype(int)


def fitted(client: Client | None, rows: int = ROWS, **params: Any) -> FedXGBClassifier:
    """Return a model of two participants, whose masks and coins repeat."""
    X, y = table(rows)
    settings: dict[str, Any] = {"participants": 2, "n_estimators": 1, "max_depth": 2, "max_bin": 5, "insecure_seed": 3}
    return FedXGBClassifier(**settings | params, client=client, deadline=patience(PATIENCE)).fit(X, y)


def told(model: FedXGBClassifier) -> tuple[list[str], list[Any], list[Any]]:
    """Return all that other organisations could tell two runs apart by: models, bytes and rounds of roles, ledger."""
    run = model.run_.to_dict()
    roles = [{key: n for key, n in counts.items() if "second" not in key} for counts in run["roles"].values()]
    assert all(sum(counts["payload_sent"].values()) for counts in roles)
    return [part.to_json() for part in model.partial_models_], roles, run["ledger"]


@pytest.fixture(scope="module")
def expected() -> tuple[list[str], list[Any], list[Any]]:
    """Return what comes out without workers."""
    return told(fitted(None))


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_the_same_model_for_any_number_of_workers(
    cluster: LocalCluster, client: Client, expected: tuple[list[str], list[Any], list[Any]], workers: int
) -> None:
    """Models byte for byte, bytes and rounds between the roles, and the ledger are those of a run without workers."""
    cluster.scale(workers)
    client.wait_for_workers(workers, timeout=patience(PATIENCE))
    used: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_rows, "RUN_BLOCKS", 1)
        patch.setattr(Cluster, "call", noting_workers(Cluster.call, used))
        model = fitted(client)
    assert told(model) == expected
    assert len(used) == workers


def test_sealed_with_workers(cluster: LocalCluster, client: Client) -> None:
    """Nor does it matter where the rows live when nobody sees them: shares, bytes and ledger are the same."""
    cluster.scale(2)
    client.wait_for_workers(2, timeout=patience(PATIENCE))
    sealed: dict[str, Any] = {"security": "sealed", "n_estimators": 2, "max_depth": 1}
    assert told(fitted(client, **sealed)) == told(fitted(None, **sealed))


def test_a_coordinator_with_columns_and_workers(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its matrix is dealt to workers and multiplied by them, with the numbers of a run without."""
    monkeypatch.setattr(worker_rows, "RUN_BLOCKS", 1)
    three: dict[str, Any] = {"participants": 3, "coordinator": "P3", "topology": "mesh"}
    assert told(fitted(client, **three)) == told(fitted(None, **three))


def noting_workers(call: Callable[..., Any], used: set[str]) -> Callable[..., Any]:
    """Return `Cluster.call` that notes who is called."""

    def noted(self: Cluster, calls: list[Call]) -> list[Any]:
        used.update(one.worker for one in calls)
        return list(call(self, calls))

    return noted


def test_a_worker_that_is_killed_in_the_middle_of_a_level(
    cluster: LocalCluster,
    client: Client,
    expected: tuple[list[str], list[Any], list[Any]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While it computes, the process ends; others build its blocks again, and the model is the same to the byte."""
    cluster.scale(3)
    client.wait_for_workers(3, timeout=patience(PATIENCE))
    victim = sorted(client.nthreads())[0]
    pid = client.run(os.getpid, workers=[victim])[victim]
    asked_for = itertools.count(1)
    submit = client.submit

    def striking(function: Any, inner: Any, *rest: Any, **named: Any) -> Any:
        # not at the root; and what it is asked has to wait, so that it cannot have answered
        if inner is tasks.times_tiles and named["workers"] == [victim] and next(asked_for) == 2:
            busy = submit(time.sleep, 60, workers=[victim], pure=False, key="busy")
            asked = submit(function, inner, *rest, **named)
            os.kill(pid, signal.SIGKILL)
            busy.release()
            return asked
        return submit(function, inner, *rest, **named)

    with pytest.MonkeyPatch.context() as patch, caplog.at_level(logging.WARNING, "mpfedxgb.workers"):
        patch.setattr(client, "submit", striking)
        model = fitted(client)
    assert next(asked_for) > 2
    assert told(model) == expected
    assert f"the worker {victim} is lost; its rows go to others" in caplog.text


class TestRowBlocks:
    """Products, columns and published tiles are those of `LocalRows`."""

    @pytest.mark.parametrize("rows", [1, 4096, 9000])
    def test_all_that_is_asked(self, client: Client, rows: int) -> None:
        """Own bins, E of another and A of a stream, with vectors added and taken off."""
        candidates = Candidates(bin_table(Table.read(table(rows)[0], "bank"), 4))
        layout = RowLayout(len(candidates), rows)
        draw = Stream(bytes(range(32))).octets
        one, other = (draw(8 * 3 * rows).view(np.uint64).reshape(3, rows) for _ in range(2))
        answers = []
        for held in (LocalRows(), WorkerRows(Cluster.over(client, patience(PATIENCE)))):
            held.own(1, layout, candidates, Stream(b"a" * 32))
            tiles = list(held.published(1))
            held.receive(2, layout)
            for tile, values in zip(layout.all_tiles(), tiles, strict=True):
                held.put(2, tile, values)
            held.expand(3, layout, Stream(b"a" * 32), keep=True)
            products = [held.times(m, [one, other], [one]) for m in (1, 2, 3)]
            np.testing.assert_array_equal(products[0], products[1] + products[2])  # B = E + A
            bits = [held.column(1, index) for index in (0, len(candidates) - 1)]
            answers.append([*tiles, *products, *bits])
            held.close()
        for mine, theirs in zip(*answers, strict=True):
            np.testing.assert_array_equal(mine, theirs)
            assert mine.dtype == theirs.dtype


def test_workers_read_their_own_rows(client: Client, tmp_path: Path) -> None:
    """Sums and columns are those of bins in memory, and the role never has the bins of all rows."""
    inside, outside = both(written(tmp_path, people()))
    mine, theirs = (Candidates(bin_table(one.table, 5)) for one in (inside, outside))
    rows = inside.table.rows
    layout = RowLayout(len(mine), rows)
    vectors = Stream(bytes(32)).octets(8 * 2 * rows).view(np.uint64).reshape(2, rows)
    answers = []
    cluster = Cluster.over(client, patience(PATIENCE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Cluster, "keep", kept_small(Cluster.keep))
        for held, candidates in ((WorkerRows(cluster), mine), (LocalRows(), theirs)):
            held.own(1, layout, candidates, Stream(b"k" * 32))
            answers.append([*held.published(1), held.times(1, [vectors]), held.column(1, 3)])
            held.close()
    for one, other in zip(*answers, strict=True):
        np.testing.assert_array_equal(one, other)
    people(rows - 1).to_parquet(tmp_path / "t.parquet", index=False)
    with pytest.raises(DataError, match=r"t\.parquet has changed"):
        WorkerRows(cluster).own(1, layout, mine, Stream(b"k" * 32))


def kept_small(keep: Any) -> Any:
    """Return `Cluster.keep` that takes vectors, never bins: those have rows of bytes."""

    def checked(self: Cluster, worker: str, values: list[Any]) -> Any:
        assert all(array.dtype == np.uint64 for arrays in values for array in arrays)
        return keep(self, worker, values)

    return checked


class TestRefused:
    """What cannot work is refused by name, and what breaks ends with a reason."""

    def test_a_task_that_fails(self, client: Client) -> None:
        """The kind of an error is told, never what the task was given; memory has its remedy."""
        cluster = Cluster.over(client, patience(PATIENCE))
        worker = cluster.workers()[0]
        with refused(WorkersError, "failed", ANY, "TypeError"):
            cluster.call([Call(worker, tasks.times_stream, [b"secret"])])
        with refused(WorkersError, "room", ANY):
            cluster.call([Call(worker, np.zeros, [1 << 46])])

    @pytest.mark.parametrize("direct", [False, True])
    def test_a_worker_that_was_never_there(self, cluster: LocalCluster, direct: bool) -> None:
        """It counts as lost, for data and for calls, at once, whether data goes to workers directly or not."""
        with Client(cluster, set_as_default=False, direct_to_workers=direct, timeout=patience(PATIENCE)) as client:
            limit = patience(PATIENCE)
            own = Cluster.over(client, limit)
            there = own.workers()
            began = time.monotonic()
            assert own.keep("tcp://127.0.0.1:1", [np.zeros(3)]) == Lost("tcp://127.0.0.1:1")
            gone = Call("tcp://127.0.0.1:1", tasks.version, [])
            assert own.call([gone, Call(there[0], tasks.version, [])]) == [Lost(gone.worker), tasks.version()]
            assert time.monotonic() - began < limit / 2

    @pytest.mark.parametrize("address", ["tls://dask:8786", "tcp://127.0.0.1:1", "inproc://10.0.0.1/1/1"])
    def test_traffic_that_nobody_else_can_read(self, address: str) -> None:
        """Encrypted, or on this machine."""
        refuse_open_traffic(address)
        with refused(SettingsError, "secret", ANY):
            refuse_open_traffic("tcp://10.0.0.7:8786")

    def test_workers_that_are_elsewhere(self) -> None:
        """A scheduler on this machine is no reason to send keys to workers that are not, in the clear."""
        elsewhere = {"n_workers": 1, "processes": False, "protocol": "tcp", "dashboard_address": None}
        with (
            LocalCluster(**elsewhere, host="127.0.0.2", scheduler_kwargs={"host": "127.0.0.1"}) as made,
            Client(made.scheduler_address, set_as_default=False) as client,
        ):
            found = Cluster.over(client, patience(PATIENCE))
            with refused(WorkersError, "secret", ANY):
                found.workers(least=1)

    def test_no_client(self, client: Client) -> None:
        """Something else, or one that is closed."""
        with refused(SettingsError, "type", "client", "tcp://x"):
            FedXGBClassifier(client="tcp://x").fit(*table(20))
        other = Client(client.scheduler.address, set_as_default=False)
        other.close()
        with refused(SettingsError, "ended", "client", "closed"):
            FedXGBClassifier(client=other).fit(*table(20))

    def test_a_copy_has_the_same_client(self, client: Client) -> None:
        """A connection cannot be copied, and searches over parameters copy their estimator."""
        model = FedXGBClassifier(client=client, max_depth=2)
        assert clone(model).client is client
        assert clone(model).get_params() == model.get_params()

    def test_other_versions(self, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
        """Workers with another numpy could round differently, and are named."""
        cluster = Cluster.over(client, patience(PATIENCE))
        monkeypatch.setattr(np, "__version__", "1.0")  # here, not there
        with pytest.raises(
            WorkersError, match=r"has another environment .*, here mpfedxgb .*, numpy 1\.0, .*; install"
        ):
            cluster.workers()


def test_a_client_that_has_closed(client: Client) -> None:
    """A client closes itself when its scheduler goes, and has none then: what is asked of it ends with the reason."""
    cluster = Cluster.over(client, patience(PATIENCE))
    (worker, *_) = cluster.workers(least=1)
    client.close(timeout=patience(PATIENCE))
    for asked in (
        cluster.workers,
        lambda: cluster.keep(worker, [np.zeros(1)]),
        lambda: cluster.make(Call(worker, tasks.version, [])),
        lambda: cluster.call([Call(worker, tasks.version, [])]),
    ):
        with refused(WorkersError, "ended", ANY):
            asked()


def test_a_scheduler_that_dies_ends_the_run() -> None:
    """No role hangs; the reason is an error of its own, and the same estimator trains again without it."""
    made = local_cluster(1)
    client = Client(made, set_as_default=False)
    calls = 0
    real = Cluster.call

    def dying(self: Cluster, some: list[Call]) -> list[Any]:
        nonlocal calls
        calls += 1
        if calls == 4:
            end(made)
        return real(self, some)

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Cluster, "call", dying)
            with refused(WorkersError, "ended", ANY):
                fitted(client, rows=300)
    finally:
        client.close(timeout=10)
        end(made)
    assert isinstance(join(fitted(None, rows=300).partial_models_).trees, tuple | list)
    assert issubclass(WorkersError, MpfedxgbError)
