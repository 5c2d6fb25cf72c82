"""One training over all transports: threads in memory, processes over TLS, ranks over MPI. Every file is the same."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb.boosting.join import Joined, join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.boosting.sampling import label_commitment, label_salt, private_randomness_key
from mpfedxgb.config import Resources
from mpfedxgb.data.spool import Spool
from mpfedxgb.federation.own_training import labels_of, numbers_of, training_fingerprint
from mpfedxgb.federation.programs import Training, run_coordinator, run_training
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.local import Outcome, run_role
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.protocols import storage
from mpfedxgb.ring import kernels
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.sigmoid import PLACES
from mpfedxgb.testing.trial import Trial
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.transport.memory import MemoryHub
from nursery import Nursery
from patience import patience
from support.role_processes import make_nursery, train_in_processes
from support.truths import margins_kept, truths_of

BETWEEN = 450_000
"""Bytes of memory that a role takes with its matrices in a spool, and that do not hold them as well."""
KEYS = {name: bytes([i]) * 32 for i, name in enumerate(("coordinator", "bank", "telecom", "retail"))}


def federation(folder: Path, topology: str, security: str = "strict", coordinator: str | None = None) -> Trial:
    """Return a small federation whose private keys are known, so that coins repeat."""
    draws = np.random.default_rng(5)
    tables = {
        name: pd.DataFrame(draws.normal(size=(120, 2)), columns=[f"{name}_0", f"{name}_1"]).assign(
            person=draws.permutation(120)
        )
        for name in ("bank", "telecom", "retail")
    }
    tables["bank"]["label"] = draws.integers(0, 2, 120)
    training: dict[str, Any] = {"n_estimators": 2, "max_depth": 2, "num_class": 2, "security": security}
    training["subsample"] = 0.8 if security == "strict" else 1.0
    network = {"deadline": patience(60.0), "connect_timeout": patience(60.0)}
    made = Trial(folder, tables, "label", "person", training, network, topology=topology, coordinator=coordinator)
    reset(made)
    return made


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Return a federation whose participants talk over the active one."""
    return federation(tmp_path_factory.mktemp("trial"), "star")


def reset(trial: Trial) -> None:
    """Forget earlier runs, but for the private keys."""
    for name, key in KEYS.items():
        state = trial.folder / name / "state"
        shutil.rmtree(state, ignore_errors=True)
        (state / "trial").mkdir(parents=True)
        (state / "trial" / "private.key").write_text(key.hex())
        (trial.folder / name / f"{name}.mpfedxgb.json").unlink(missing_ok=True)


def in_memory(trial: Trial, limits: Resources | None = None) -> list[str]:
    """Return the models of a training by threads, from the same files, within limits of those who compute."""
    kernels.warm_up()
    all_settings = [RoleSettings.from_toml(trial.settings(role)) for role in trial.roster.roles]
    hub = MemoryHub(trial.roster.links(all_settings[0].session_settings().topology), 1 << 28)
    outcomes: dict[int, Outcome[object]] = {}
    classes: dict[int, Any] = {}

    def run(settings: RoleSettings) -> None:
        key = KEYS[settings.role.name]
        if settings.is_coordinator:
            program, private = run_coordinator, (settings.training,)
        else:
            rows = read_rows(settings, "train")
            labels, classes[settings.number] = labels_of(settings, rows, None, None)
            fingerprint = training_fingerprint(settings, [rows.table], labels)
            data, salt = fingerprint["data"], label_salt(key)
            commitment = None if labels is None else label_commitment(salt, numbers_of(labels), data)
            key = private_randomness_key(key, fingerprint)
            checkpoints = Checkpoints(trial.folder / "memory" / settings.role.name, {})
            limited = settings.limits if limits is None or not settings.number else limits
            mine = Training(TrainData(rows.table, (), labels), [rows.ids], checkpoints, limited, commitment=commitment)
            program, private = run_training, (settings.training, mine)  # type: ignore[assignment] # either program
        outcomes[settings.number] = run_role(
            program,
            private,
            hub.end(settings.number),
            trial.roster,
            settings.number,
            settings.session_settings(),
            private_key=key,
        )

    threads = [threading.Thread(target=run, args=(settings,)) for settings in all_settings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    models = []
    for role in map(trial.roster.role_of, trial.roster.owners):
        error = outcomes[role].error
        if error is not None:
            raise error
        model = outcomes[role].result.model  # type: ignore[attr-defined]
        models.append(replace(model, classes=classes[role]).to_json())  # as the role does after a training
    return models


def written(trial: Trial) -> list[str]:
    """Return the model files as they are."""
    return [(trial.folder / n / f"{n}.mpfedxgb.json").read_text() for n in trial.roster.owner_names]


@pytest.fixture(scope="module")
def expected(trial: Trial) -> list[str]:
    """Return the models over memory."""
    return in_memory(trial)


@pytest.fixture
def spools(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the spools that are made."""
    monkeypatch.setattr("mpfedxgb.training.memory._WORKING", 0)
    made: list[int] = []

    class Noted(Spool):
        def __init__(self, folder: Path, octets: int) -> None:
            super().__init__(folder, octets)
            made.append(octets)

    monkeypatch.setattr(storage, "Spool", Noted)
    return made


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """Return what starts the processes."""
    with make_nursery() as made:
        yield made


def test_within_limits(trial: Trial, expected: list[str], tmp_path: Path, spools: list[int]) -> None:
    """Roles whose matrices do not fit, each with a spool of its own in one folder and two threads, train the same."""
    reset(trial)

    assert in_memory(trial, Resources(2, BETWEEN, tmp_path)) == expected
    assert spools == [8 * 120 * 2 * 62] * 3
    assert list(tmp_path.iterdir()) == []


def test_tls(trial: Trial, expected: list[str], nursery: Nursery) -> None:
    """Four processes over mutual TLS write the files that threads in memory would write."""
    reset(trial)
    train_in_processes(trial, nursery)
    assert written(trial) == expected


def test_tls_in_a_mesh(tmp_path: Path, expected: list[str], nursery: Nursery) -> None:
    """So do processes that are connected each with each."""
    meshed = federation(tmp_path / "mesh", "mesh")
    train_in_processes(meshed, nursery)
    sent = meshed.record(role=2)["phases"]
    assert written(meshed) == expected
    assert any(counts["payload_sent"].get("retail") for counts in sent.values())


def over_mpi(trial: Trial) -> list[str]:
    """Return the files of a rank for each role."""
    mpiexec = Path(sys.executable).parent / "mpiexec"
    if not mpiexec.is_file():
        pytest.skip("there is no mpiexec beside this Python; pip install mpich")
    reset(trial)
    command = [
        str(mpiexec),
        "-n",
        str(len(trial.roster.roles)),
        sys.executable,
        "-m",
        "mpfedxgb",
        "mpi-run",
        str(trial.folder),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(120), check=False)  # noqa: S603 # our own
    assert done.returncode == 0, done.stderr[-2000:]
    return written(trial)


def test_mpi(trial: Trial, expected: list[str]) -> None:
    """Four ranks over MPI do so too."""
    assert over_mpi(trial) == expected


def test_three_organisations(tmp_path: Path, spools: list[int], nursery: Nursery) -> None:
    """Where one participant deals: with spools, as processes over mutual TLS, over MPI; its coins are its own too."""
    three = federation(tmp_path / "three", "star", coordinator="retail")
    wanted = in_memory(three)
    reset(three)
    shutil.rmtree(three.folder / "memory")
    assert in_memory(three, Resources(2, BETWEEN, tmp_path)) == wanted
    assert spools == [8 * 120 * 2 * 62] * 2, "shares of retail's columns beside the other's masked ones"
    reset(three)
    train_in_processes(three, nursery)
    assert written(three) == wanted == over_mpi(three)


# Where nobody sees a row, files hold fresh shares, and what they add up to is the same


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Trial:
    """Return a federation that trains without anybody seeing a row."""
    return federation(tmp_path_factory.mktemp("sealed"), "star", "sealed")


def joined(models: list[str]) -> Joined:
    """Return what parts join to."""
    return join([PartialModel.from_json(text) for text in models])


@pytest.fixture(scope="module")
def whole(sealed: Trial) -> Joined:
    """Return the model over memory."""
    return joined(in_memory(sealed))


def test_sealed_in_a_mesh(tmp_path: Path, whole: Joined) -> None:
    """Threads in memory, connected each with each, keep other shares of the same model."""
    assert joined(in_memory(federation(tmp_path, "mesh", "sealed"))) == whole


def test_sealed_within_limits(sealed: Trial, whole: Joined, tmp_path: Path, spools: list[int]) -> None:
    """So do roles with spools and two threads."""
    shutil.rmtree(sealed.folder / "memory")
    assert joined(in_memory(sealed, Resources(2, BETWEEN, tmp_path))) == whole
    assert len(spools) == 3


def test_sealed_over_tls(sealed: Trial, whole: Joined, nursery: Nursery) -> None:
    """So do four processes over mutual TLS; and no file of one role tells a weight, margin, gradient, sum or gain."""
    reset(sealed)
    train_in_processes(sealed, nursery)
    assert joined(written(sealed)) == whole
    settings = RoleSettings.from_toml(sealed.settings(ACTIVE))
    labels, _ = labels_of(settings, read_rows(settings, "train"), None, None)
    assert labels is not None
    homes = {name: sealed.folder / name for name in KEYS}
    kept = [homes[name] / "state" / "trial" / "checkpoints" for name in sealed.roster.participants]
    start = np.full(len(labels.y), encode_fixed(whole.base_margin[0], PLACES), np.int64)
    truths = truths_of(whole, labels.y, [start, *(margins_kept(kept, rounds) for rounds in (1, 2))])
    assert len(truths.integers) > 50
    assert len(truths.gains) > 3
    for name, home in homes.items():
        paths = [path for path in home.rglob("*") if path.is_file() and path.suffix != ".csv"]
        assert len(paths) > 3, name
        for path in paths:
            assert not truths.found_in(path.read_bytes()), path
    together = margins_kept(kept, 2)
    for told in (together.tobytes(), str(whole), repr(together.tolist()), repr((together * 2.0**-PLACES).tolist())):
        assert truths.found_in(told if isinstance(told, bytes) else told.encode()), "the search finds what is there"


def test_sealed_over_mpi(sealed: Trial, whole: Joined) -> None:
    """So do four ranks over MPI."""
    assert joined(over_mpi(sealed)) == whole
