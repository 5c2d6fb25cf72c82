"""What a participant brings to a training, and what makes the training another one: labels, fingerprint, files."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.callbacks import Callbacks, RoundReport
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.boosting.sampling import forget_private_key, label_commitment, label_salt, private_key
from mpfedxgb.data.directions import Directions, check_directions
from mpfedxgb.data.table import Table
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.programs import Training
from mpfedxgb.federation.rows import Rows, read_labelled
from mpfedxgb.federation.session import state_folder
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.training_files import Finished, TrainingFiles, data_digest
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.workers.cluster import Cluster

_log = logging.getLogger("mpfedxgb.role")


@dataclass(frozen=True, slots=True, eq=False)
class Brought:
    """A participant's part of a training that can begin, or go on: data, files, and what names it at this role."""

    training: Training
    files: TrainingFiles
    fingerprint: dict[str, Any] = field(repr=False)


def brought(
    settings: RoleSettings,
    rows: Rows,
    evaluation: Rows | None,
    restart: bool = False,
    callback: Any = None,
    cluster: Cluster | None = None,
) -> Brought:
    """Return what a participant brings; with `restart` it forgets what it has kept of the session."""
    labels, classes = labels_of(settings, rows, evaluation, callback)
    others = [] if evaluation is None else [evaluation]
    tables = [r.table.match(rows.table.names, rows.table.categories) for r in others]
    directions = _directions_of(settings, rows)
    fingerprint = training_fingerprint(settings, [rows.table, *tables], labels, directions)
    files = _files(settings, fingerprint, restart, classes)
    commitment = None
    if labels is not None:
        key = private_key(state_folder(settings) / settings.session.name, os_entropy)
        commitment = label_commitment(label_salt(key), numbers_of(labels), fingerprint["data"])
    ids = [rows.ids, *(r.ids for r in others)]
    data = TrainData(rows.table, tables, labels, directions=directions)
    return Brought(Training(data, ids, files, settings.limits, cluster, commitment), files, fingerprint)


def labels_of(
    settings: RoleSettings, rows: Rows, evaluation: Rows | None, callback: Any
) -> tuple[Labels | None, tuple[str | int | float, ...] | None]:
    """Return what only the active participant has, and the names of its classes."""
    if settings.label is None:
        return None, None
    label, params, owner = settings.label, settings.training, settings.role.name
    if rows.label is None:
        raise SettingsError(f"{owner} is the active participant and has to bring the label", "missing", "label")
    known = read_labelled(rows, params, owner, base_score=label.base_score)
    judged = [] if evaluation is None else [read_labelled(evaluation, params, owner, known.classes, evaluates=True)]
    labels = Labels(
        y=known.y,
        weight=known.weight if params.weighted else None,
        eval_y=[one.y for one in judged],
        eval_weight=[one.weight for one in judged],
        eval_metrics=label.eval_metric,
        early_stopping_rounds=label.early_stopping_rounds,
        base_score=label.base_score,
        scale_pos_weight=label.scale_pos_weight,
        base_margin=rows.base_margin,
        eval_base_margin=[None if evaluation is None else evaluation.base_margin] * len(judged),
        callbacks=Callbacks.read([_log_round, *([] if callback is None else [callback])]),
        beside=known.beside,
        eval_beside=[one.beside for one in judged],
    )
    return labels, known.classes


def _log_round(report: RoundReport) -> None:
    text = "  ".join(f"{name} {v[-1]:.5f}" for names in report.metrics.values() for name, v in names.items())
    _log.info(
        "boosting round %d of %d: %s%d message rounds, %.1f MB sent so far",
        report.iteration + 1,
        report.iterations,
        f"{text}; " if text else "",
        report.communication_rounds,
        report.bytes_sent / 1e6,
    )


def _directions_of(settings: RoleSettings, rows: Rows) -> Directions:
    """Return the directions of this participant's columns, checked against its table."""
    assert settings.data is not None
    check_directions(rows.table, settings.data.monotone, f"{settings.role.name}: [data] monotone")
    return settings.data.monotone


def training_fingerprint(
    settings: RoleSettings, tables: Sequence[Table], labels: Labels | None, directions: Directions | None = None
) -> dict[str, Any]:
    """Return what makes a training another one at this role: if any of it changes, so do checkpoints and choices."""
    own = [] if labels is None else numbers_of(labels)
    if directions:
        own.append(np.array([directions.get(name, 0) for name in tables[0].names], np.float64))
    coordinator = settings.roster.coordinating_owner
    return {
        "session": settings.session_name,
        "role": settings.role.name,
        "participants": list(settings.roster.owner_names),
        **({} if coordinator is None else {"coordinator": coordinator}),
        "parameters": settings.training.to_dict(),
        "data": data_digest(tables, own),
    }


def numbers_of(labels: Labels) -> list[Floats | None]:
    """Return what the active participant alone brings to a training: labels, weights, where rows start."""
    base = None if labels.base_score is None else np.array([labels.base_score])
    numbers = [labels.y, labels.weight, *labels.eval_y, *labels.eval_weight, base]
    if labels.scale_pos_weight != 1:
        numbers.append(np.array([labels.scale_pos_weight]))
    if labels.base_margin is not None:
        numbers += [labels.base_margin, *labels.eval_base_margin]
    if labels.beside is not None:
        numbers += [labels.beside, *labels.eval_beside]
    return numbers


def _files(
    settings: RoleSettings, training: dict[str, Any], restart: bool, classes: tuple[str | int | float, ...] | None
) -> TrainingFiles:
    session = state_folder(settings) / settings.session.name
    session.mkdir(mode=0o700, exist_ok=True)
    folder = session / "checkpoints"
    checkpoints, finished = Checkpoints(folder, training), Finished(session, training)
    if restart:
        finished.forget()
        checkpoints.clear()
        forget_private_key(folder.parent)  # another training: its parts must not pass for parts of the last one
    assert settings.role.model is not None, "participants keep models"
    return TrainingFiles(checkpoints, finished, settings.role.model, settings.training.n_estimators, classes)
