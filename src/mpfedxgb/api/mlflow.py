"""A training as a run of MLflow: parameters, metrics of every round, costs, the record, and one participant's part.

What goes to a tracking server leaves the machine, perhaps the organisation: so it is never more than one participant
has, and metrics, which are the active participant's, only if that one logs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import mpfedxgb
from mpfedxgb.api.models import SUFFIX, part_of
from mpfedxgb.boosting.metrics import first_judged
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.federation.role import Trained


def log_training(trained: Any, participant: str | None = None) -> str:
    """Log a training to MLflow, in the active run or else in a new one, and return the run's id.

    Parameters
    ----------
    trained : fitted estimator, or what `Federation.train` returns
    participant : str or None
        Whose part of an estimator's model is logged; the active participant's if None.

    Returns
    -------
    str
        The id of the run. It has the parameters of the training, metrics per round as `validation_0-logloss`, costs,
        the artefact run.json, which says what was revealed to whom, and the participant's model file.
    """
    try:
        import mlflow
    except ImportError:
        raise UserError("log_training needs MLflow; pip install 'mpfedxgb[mlflow]'", "package", "mlflow") from None
    part = _part(trained, participant)
    record = _record(trained, part)
    with _run(mlflow) as run:
        role = "active" if part.is_active else "auxiliary"
        tags = {"version": mpfedxgb.__version__, "training": part.training, "participant": part.name, "role": role}
        mlflow.set_tags({f"mpfedxgb.{key}": value for key, value in tags.items()})
        mlflow.log_params(part.params.to_dict())
        mlflow.log_metrics({key: record[key] for key in ("seconds", "rounds", "bytes_sent")})
        if part.is_active:
            _log_metrics(mlflow, trained, part)
        mlflow.log_text(json.dumps(record, indent=1), "run.json")
        mlflow.log_text(part.to_json(), f"{_plain(part.name)}{SUFFIX}")
        return str(run.info.run_id)


@contextmanager
def _run(mlflow: Any) -> Iterator[Any]:
    """Let what happens inside be logged to the run that is active already, or else to a new one."""
    active = mlflow.active_run()
    if active is not None:
        yield active
        return
    with mlflow.start_run() as run:
        yield run


def _part(trained: Any, participant: str | None) -> PartialModel:
    parts = [trained.model] if isinstance(trained, Trained) else getattr(trained, "partial_models_", [])
    if not parts or not hasattr(trained, "meter" if isinstance(trained, Trained) else "run_"):
        text = f"a {type(trained).__name__} without a training cannot be logged; fit first"
        raise SettingsError(text, "type", "trained", type(trained).__name__)
    return part_of(parts, participant)


def _record(trained: Any, part: PartialModel) -> dict[str, Any]:
    """Return costs of the participant's own role, and what was revealed, which all roles know alike."""
    if isinstance(trained, Trained):
        spent, ledger, seconds = trained.meter.total(), trained.ledger, trained.seconds
    else:
        spent, ledger, seconds = trained.run_.roles[part.name], trained.run_.ledger, trained.run_.seconds
    return {
        "participant": part.name,
        "participants": list(part.participants),
        "trees": len(part.trees),
        "seconds": seconds,
        "rounds": spent.rounds,
        "bytes_sent": spent.bytes_sent,
        "counts": spent.to_dict(),
        "ledger": [asdict(r) for r in ledger],
    }


def _log_metrics(mlflow: Any, trained: Any, part: PartialModel) -> None:
    metrics = trained.metrics if isinstance(trained, Trained) else trained.evals_result_
    curves = {_plain(f"{on}-{name}"): v for on, found in metrics.items() for name, v in found.items()}
    for label, values in curves.items():
        for t, value in enumerate(values, first_judged(part, len(values))):
            mlflow.log_metric(label, value, step=t)
    if part.best_iteration is not None:
        mlflow.log_metric("best_iteration", part.best_iteration)


def _plain(name: str) -> str:
    """Return a name in letters that MLflow takes for metrics and files."""
    return re.sub(r"[^-.\w]", "_", name, flags=re.ASCII)
