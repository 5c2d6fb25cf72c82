"""Trainings as runs of a real MLflow, in a folder; skipped where that is not installed."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mpfedxgb import FedXGBClassifier, PartialModel
from mpfedxgb.api.mlflow import log_training
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.federation.role import Trained
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.meter import Meter
from support.refusals import refused
from support.toy_tables import BANK, QUICK, halves, labels, people

pytestmark = pytest.mark.filterwarnings("ignore")  # MLflow's own
X = people()


def custom(y_true: Any, y_pred: Any) -> float:
    """Return a metric of one's own."""
    return float(abs(y_true - y_pred).mean())


custom.__name__ = "<lambda>"  # a name that MLflow does not take


@pytest.fixture(scope="module")
def model() -> FedXGBClassifier:
    """Train with evaluation rows."""
    y = labels(X, "binary")
    judged = FedXGBClassifier(**QUICK, eval_metric=["auc", custom])
    return judged.fit(halves(X), y, eval_set=[(halves(X), y)])


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Return a client of an MLflow that keeps its runs in a folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: pip install 'mpfedxgb[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(f"file://{tmp_path / 'runs'}")  # a folder that it makes itself
    yield SimpleNamespace(module=mlflow, client=mlflow.MlflowClient(), folder=tmp_path)
    while mlflow.active_run() is not None:
        mlflow.end_run()


def artefacts(client: Any, run_id: str) -> dict[str, str]:
    """Return the texts of a run's artefacts."""
    listed = [file.path for file in client.client.list_artifacts(run_id)]
    return {path: Path(client.client.download_artifacts(run_id, path)).read_text() for path in listed}


def test_the_active_participants_run(client: Any, model: FedXGBClassifier) -> None:
    """Parameters, every round's metrics, costs, the record and its own part; no file of another's."""
    run_id = log_training(model)
    run = client.client.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert run.data.params["max_depth"] == "2"
    assert run.data.tags["mpfedxgb.participant"] == "bank"
    for name, label in (("auc", "validation_0-auc"), ("<lambda>", "validation_0-_lambda_")):
        history = client.client.get_metric_history(run_id, label)
        assert [(m.step, m.value) for m in history] == list(enumerate(model.evals_result_["validation_0"][name]))
    assert run.data.metrics["bytes_sent"] == model.run_.roles["bank"].bytes_sent
    files = artefacts(client, run_id)
    assert set(files) == {"run.json", "bank.mpfedxgb.json"}
    assert PartialModel.from_json(files["bank.mpfedxgb.json"]) == model.partial_models_[0]
    assert json.loads(files["run.json"])["ledger"][0]["count"] == model.run_.ledger[0].count


def test_an_auxiliarys_run(client: Any, model: FedXGBClassifier) -> None:
    """Its own part and costs, in the run that is active; neither metrics nor anything of another's columns."""
    with client.module.start_run() as run:
        assert log_training(model, participant="telecom") == run.info.run_id
    found = client.client.get_run(run.info.run_id)
    assert set(found.data.metrics) == {"seconds", "rounds", "bytes_sent"}
    files = artefacts(client, run.info.run_id)
    assert set(files) == {"run.json", "telecom.mpfedxgb.json"}
    assert not any(f'"{name}"' in text for name in BANK for text in files.values())


def test_a_role_of_a_federation(client: Any, model: FedXGBClassifier) -> None:
    """What `Federation.train` returns is logged alike."""
    trained = Trained(model.partial_models_[0], model.evals_result_, Meter(), Ledger(), 1.5)
    run_id = log_training(trained)
    assert client.client.get_run(run_id).data.metrics["seconds"] == 1.5
    assert len(client.client.get_metric_history(run_id, "validation_0-auc")) == 3


def test_what_cannot_be_logged(client: Any, model: FedXGBClassifier, tmp_path: Path) -> None:
    """A loaded model has no training, and strangers have no part."""
    model.save_model(tmp_path / "models")
    with pytest.raises(SettingsError, match="a FedXGBClassifier without a training cannot be logged; fit first"):
        log_training(FedXGBClassifier().load_model(tmp_path / "models"))
    with pytest.raises(SettingsError, match="participant='shop' has no part here; it is one of bank, telecom"):
        log_training(model, "shop")


def test_without_mlflow(model: FedXGBClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever lacks it is told what to install."""
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with refused(UserError, "package", "mlflow"):
        log_training(model)
