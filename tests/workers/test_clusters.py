"""Every role with a Dask cluster of its own over TLS, as real processes: the same files as without workers."""

from __future__ import annotations

import logging
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import LocalCluster, Security

from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.errors import PeerFailedError, SettingsError, WorkersError, public_reason
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.doctor import Severity, examine
from mpfedxgb.federation.rows import own_workers, read_rows, workers_in_session
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.testing.trial import Trial
from mpfedxgb.transport.certificates import Authority
from patience import patience
from support.dask_clusters import end
from support.loopback import reserved_ports
from support.refusals import ANY, refused

KEYS = {name: bytes([i]) * 32 for i, name in enumerate(("coordinator", "bank", "telecom"))}
PATIENCE = 200.0
TREES = 2


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Return a small federation whose private keys are known, so that coins repeat, and an authority per cluster."""
    draws = np.random.default_rng(5)
    tables = {
        name: pd.DataFrame(draws.normal(size=(90, 2)), columns=[f"{name}_0", f"{name}_1"]).assign(
            person=draws.permutation(90)
        )
        for name in ("bank", "telecom")
    }
    tables["bank"]["label"] = draws.integers(0, 2, 90)
    training = {"n_estimators": TREES, "max_depth": 2, "max_bin": 8}
    network = {"deadline": patience(PATIENCE), "connect_timeout": patience(PATIENCE)}
    made = Trial(tmp_path_factory.mktemp("trial"), tables, "label", "person", training, network)
    for name in KEYS:
        authority = Authority.create(made.folder / name / "dask-ca", f"dask-{name}")
        for who in ("scheduler", "client"):
            authority.issue(made.folder / name / "dask" / who, who)
    return made


def reset(trial: Trial) -> None:
    """Forget earlier runs, but for the private keys."""
    for name, key in KEYS.items():
        state = trial.folder / name / "state"
        shutil.rmtree(state, ignore_errors=True)
        (state / "trial").mkdir(parents=True)
        (state / "trial" / "private.key").write_text(key.hex())
        (trial.folder / name / f"{name}.mpfedxgb.json").unlink(missing_ok=True)
        (trial.folder / name / "log").unlink(missing_ok=True)


def written(trial: Trial) -> list[bytes]:
    """Return the model files as they are."""
    return [(trial.folder / n / f"{n}.mpfedxgb.json").read_bytes() for n in trial.roster.participants]


def security_of(trial: Trial, name: str) -> Security:
    """Return the TLS of a role's cluster: mutual, under an authority that no other role knows."""
    files = trial.folder / name / "dask" / "scheduler"
    parts = {
        f"tls_{part}_{what}": str(files / f"scheduler.{end}")
        for part in ("scheduler", "worker", "client")
        for what, end in (("cert", "crt"), ("key", "key"))
    }
    return Security(tls_ca_file=str(files / "ca.crt"), require_encryption=True, **parts)


def cluster_of(trial: Trial, name: str, port: int) -> LocalCluster:
    """Return the cluster of one role: one worker process behind a port of loopback."""
    return LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        scheduler_port=port,
        dashboard_address=":0",
        protocol="tls",
        security=security_of(trial, name),
        silence_logs=50,
    )


@pytest.fixture(scope="module")
def clusters(trial: Trial) -> Iterator[dict[str, LocalCluster]]:
    """Return a cluster for each role, and let the settings name it."""
    made: dict[str, LocalCluster] = {}
    with ExitStack() as stack:
        for role, port in zip(trial.roster.roles, stack.enter_context(reserved_ports(len(KEYS))), strict=True):
            name = trial.roster.name(role)
            made[name] = cluster_of(trial, name, port)
            stack.callback(close, made, name)
            text = trial.settings(role).read_text()
            keys = {"scheduler": made[name].scheduler_address, "ca": "dask/client/ca.crt"}
            keys |= {"certificate": "dask/client/client.crt", "key": "dask/client/client.key"}
            table = "".join(f'{key} = "{value}"\n' for key, value in keys.items())
            trial.settings(role).write_text(f"{text}[workers]\n{table}")
        yield made


def close(clusters: dict[str, LocalCluster], name: str) -> None:
    """End the cluster that a role has by now."""
    end(clusters[name])


def train_here(trial: Trial, callback: Callable[[RoundReport], Any] | None = None) -> list[BaseException | None]:
    """Run a training with every role as a thread of this process, over the transport of its settings."""
    errors: list[BaseException | None] = [None] * len(trial.roster.roles)

    def run(role: int) -> None:
        settings = RoleSettings.from_toml(trial.settings(role))
        try:
            if role == COORDINATOR:
                roles.coordinate(settings, once=True)
            else:
                rows = read_rows(settings, "train")
                roles.train(settings, rows, callback=callback if role == ACTIVE else None)
        except BaseException as error:
            errors[role] = error

    threads = [threading.Thread(target=run, args=(role,), daemon=True) for role in trial.roster.roles]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(patience(PATIENCE))
    assert not any(thread.is_alive() for thread in threads)
    return errors


@pytest.fixture(scope="module")
def expected(trial: Trial) -> list[bytes]:
    """Return the files of a training without workers."""
    reset(trial)
    assert train_here(trial) == [None] * 3
    return written(trial)


def test_each_role_with_its_own_cluster(trial: Trial, expected: list[bytes], clusters: dict[str, LocalCluster]) -> None:
    """Three processes over mutual TLS, each with workers behind a TLS of its own, write the same files to the byte."""
    assert all(cluster.scheduler_address.startswith("tls://") for cluster in clusters.values())
    reset(trial)
    with trial:
        trial.train(patience(PATIENCE))
    assert written(trial) == expected
    logs = [(trial.folder / name / "log").read_text() for name in KEYS]
    assert "work on 90 rows is done by 1 workers" in logs[0]
    assert all("work on 90 rows is done by 1 workers" in log and "of a masked matrix are on" in log for log in logs[1:])


def test_a_scheduler_that_dies_and_resuming(
    trial: Trial, expected: list[bytes], clusters: dict[str, LocalCluster], caplog: pytest.LogCaptureFixture
) -> None:
    """The role ends with an error of its own, the others hear that, not where; started again, all of them go on."""
    reset(trial)
    port = int(clusters["bank"].scheduler_address.rpartition(":")[2])

    def close_once(report: RoundReport) -> None:
        if report.iteration == 0:
            close(clusters, "bank")

    others, bank, telecom = train_here(trial, close_once)
    assert isinstance(bank, WorkersError)
    assert f"the Dask scheduler at tls://127.0.0.1:{port} is gone" in str(bank)
    assert exit_code(bank) == ExitCode.WORKERS
    for told in (others, telecom):
        assert isinstance(told, PeerFailedError)
        assert "the workers of that role cannot be used any more; the log there says why" in str(told)
        assert str(port) not in str(told)
    clusters["bank"] = cluster_of(trial, "bank", port)
    with caplog.at_level(logging.INFO, "mpfedxgb.session"):
        assert train_here(trial) == [None] * 3
    assert "going on after boosting round 1, the last that all participants have" in caplog.text
    assert written(trial) == expected


def test_the_doctor_looks(trial: Trial, clusters: dict[str, LocalCluster]) -> None:
    """How many workers there are, and what is wrong if nobody is found."""
    path = trial.settings(ACTIVE)
    found = [f for f in examine(path, timeout=20.0) if f.check == "workers"]
    address = clusters["bank"].scheduler_address
    assert [f.text for f in found] == [f"1 at {address}, with the versions of this role"]
    wrong = path.with_name("wrong.toml")
    wrong.write_text(path.read_text().replace(address, "tls://127.0.0.1:1"))
    (problem,) = [f for f in examine(wrong, timeout=0.05) if f.check == "workers"]
    assert problem.level == Severity.PROBLEM
    assert "there is no Dask scheduler at tls://127.0.0.1:1" in problem.text


def test_who_is_not_let_in(trial: Trial, clusters: dict[str, LocalCluster], tmp_path: Path) -> None:
    """Neither the certificate of another cluster, nor the files that are not there."""
    settings = RoleSettings.from_toml(trial.settings(ACTIVE))
    assert settings.workers is not None
    other = RoleSettings.from_toml(trial.settings(COORDINATOR)).workers
    assert other is not None
    values = {"ca": other.ca, "certificate": other.certificate, "key": other.key}
    wrong = with_workers(settings, deadline=5.0, **values)
    with refused(WorkersError, "late", ANY):
        own_workers(wrong).__enter__()
    gone = with_workers(settings, deadline=5.0, ca=tmp_path / "gone")
    with refused(SettingsError, "missing", "workers"):
        own_workers(gone).__enter__()
    with refused(WorkersError, "file", "workers") as caught:
        workers_in_session(gone).__enter__()
    assert "gone" not in public_reason(caught.value)


def with_workers(settings: RoleSettings, deadline: float, **values: Any) -> RoleSettings:
    """Return settings with other files of TLS, and less patience."""
    assert settings.workers is not None
    network = replace(settings.network, deadline=deadline)
    return replace(settings, network=network, workers=replace(settings.workers, **values))
