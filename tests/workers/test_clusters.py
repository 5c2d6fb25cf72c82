"""Every role with a Dask cluster of its own over TLS, all as real processes: the same files as without workers."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from distributed import LocalCluster, Security

from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import SettingsError, WorkersError
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.trial import Trial, free_ports
from mpfedxgb.federation.workers import own_workers
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.transport.certificates import Authority

KEYS = {name: bytes([i]) * 32 for i, name in enumerate(("coordinator", "bank", "telecom"))}
PATIENCE = 200.0
TREES = 4


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
    network = {"deadline": PATIENCE, "connect_timeout": PATIENCE}
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
        for role, port in zip(trial.roster.roles, free_ports(len(KEYS)), strict=True):
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
    clusters[name].close(timeout=PATIENCE)


@pytest.fixture(scope="module")
def expected(trial: Trial) -> list[bytes]:
    """Return the files of a training without workers."""
    reset(trial)
    with trial:
        trial.train(PATIENCE)
    return written(trial)


def test_each_role_with_its_own_cluster(trial: Trial, expected: list[bytes], clusters: dict[str, LocalCluster]) -> None:
    """Three roles over mutual TLS, each with workers behind a TLS of its own, write the same files to the byte."""
    assert all(cluster.scheduler_address.startswith("tls://") for cluster in clusters.values())
    reset(trial)
    with trial:
        trial.train(PATIENCE)
    assert written(trial) == expected
    logs = [(trial.folder / name / "log").read_text() for name in KEYS]
    assert "work on 90 rows is done by 1 workers" in logs[0]
    assert all("work on 90 rows is done by 1 workers" in log and "of a masked matrix are on" in log for log in logs[1:])


def test_a_scheduler_that_dies_and_resuming(
    trial: Trial, expected: list[bytes], clusters: dict[str, LocalCluster]
) -> None:
    """The role ends with a code and a reason of its own, the others hear of it; started again, they go on."""
    reset(trial)
    log = trial.folder / "bank" / "log"
    port = int(clusters["bank"].scheduler_address.rpartition(":")[2])
    with trial:
        coordinator, bank, telecom = (trial.start(role) for role in trial.roster.roles)
        wait_for_line(log, "round 1 of")
        bank.send_signal(signal.SIGSTOP)  # so that it is in the middle, however slow this machine is
        clusters["bank"].close(timeout=PATIENCE)
        bank.send_signal(signal.SIGCONT)
        assert bank.wait(PATIENCE) == ExitCode.WORKERS
        assert telecom.wait(PATIENCE) == ExitCode.PEER_FAILED
        assert coordinator.wait(PATIENCE) == ExitCode.PEER_FAILED
        trial.stop()
        assert "the Dask scheduler at tls://127.0.0.1" in log.read_text()
        theirs = (trial.folder / "telecom" / "log").read_text()
        assert "the workers of that role cannot be used any more; the log there says why" in theirs
        assert str(port) not in theirs
        clusters["bank"] = cluster_of(trial, "bank", port)
        trial.train(PATIENCE)
    assert "going on after round" in log.read_text()
    assert written(trial) == expected


def wait_for_line(log: Path, text: str) -> None:
    """Wait until a log has a text."""
    end = time.monotonic() + PATIENCE
    while not (log.exists() and text in log.read_text()):
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.01)


def test_who_is_not_let_in(trial: Trial, clusters: dict[str, LocalCluster], tmp_path: Path) -> None:
    """Neither the certificate of another cluster, nor the files that are not there."""
    settings = RoleSettings.from_toml(trial.settings(ACTIVE))
    assert settings.workers is not None
    other = RoleSettings.from_toml(trial.settings(COORDINATOR)).workers
    assert other is not None
    values = {"ca": other.ca, "certificate": other.certificate, "key": other.key}
    wrong = with_workers(settings, deadline=3.0, **values)
    with pytest.raises(WorkersError, match=r"no Dask scheduler at tls://.*, or it does not take this certificate"):
        own_workers(wrong).__enter__()
    gone = with_workers(settings, deadline=3.0, ca=tmp_path / "gone")
    with pytest.raises(SettingsError, match=r"\[workers\]: there is no file .*gone"):
        own_workers(gone).__enter__()


def with_workers(settings: RoleSettings, deadline: float, **values: Any) -> RoleSettings:
    """Return settings with other files of TLS, and less patience."""
    assert settings.workers is not None
    network = replace(settings.network, deadline=deadline)
    return replace(settings, network=network, workers=replace(settings.workers, **values))
