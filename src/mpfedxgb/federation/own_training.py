"""What a participant brings to a training, what makes the training another one, and what it keeps of it.

Rows and labels are brought; checkpoints, the model and a note that all are done are kept; a digest names the data.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.callbacks import Callbacks, RoundReport, State
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.parts import TrainData
from mpfedxgb.boosting.sampling import forget_private_key, label_commitment, label_salt, private_key
from mpfedxgb.data.directions import Directions, check_directions
from mpfedxgb.data.table import Table
from mpfedxgb.errors import SettingsError, as_checkpoint_error
from mpfedxgb.federation.programs import Training
from mpfedxgb.federation.rows import Rows, read_labelled
from mpfedxgb.federation.session import state_folder
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.ring.prg import os_entropy
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.workers.cluster import Cluster

_NAME = "finished.json"
_session_log = logging.getLogger("mpfedxgb.session")
_log = logging.getLogger("mpfedxgb.role")


class TrainingFiles:
    """Progress (see there) in files, of which the log tells: checkpoints, at the end the model, and the note of it.

    `rounds` are those of the whole training. The model gets the names of the classes, which P_1 alone has.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        finished: Finished,
        model: Path,
        rounds: int,
        classes: tuple[str | int | float, ...] | None = None,
    ) -> None:
        self.checkpoints, self.finished = checkpoints, finished
        self._model, self._rounds, self._classes = model, rounds, classes

    def newest(self) -> int:
        """Return the newest usable rounds (see Progress)."""
        rounds = self.checkpoints.newest()
        if rounds:
            _session_log.info("%d boosting rounds of an earlier attempt are there", rounds)
        return rounds

    def common(self) -> int:
        """Return the last round that all participants had (see Progress)."""
        return self.checkpoints.common()

    def fits(self, labels: str) -> bool:
        """Return whether what is kept is of these labels (see Progress)."""
        return self.checkpoints.fits(labels)

    def load(self, rounds: int) -> State:
        """Return a state (see Progress)."""
        if rounds:
            _session_log.info("going on after boosting round %d, the last that all participants have", rounds)
        return self.checkpoints.load(rounds)

    def save(self, state: State) -> None:
        """Keep a state (see Progress)."""
        self.finished.forget()
        self.checkpoints.save(state)
        _session_log.info("boosting round %d of %d is done and kept", state.rounds, self._rounds)

    def finish(self, model: PartialModel) -> None:
        """Write the model, and the note that it is this training's and that all have kept the last round."""
        self.checkpoints.finish(model)
        self.whole(model).save(self._model)
        self.finished.note(self._model)

    def whole(self, model: PartialModel) -> PartialModel:
        """Return the model with the names of its classes."""
        return model if self._classes is None else replace(model, classes=self._classes)


_JUDGEMENT = "judgement.json"


def keep_judgement(settings: RoleSettings, judgement: Mapping[str, Any] | None) -> None:
    """Write down, for the active participant's reports, how the model does on evaluation rows; counts and shares."""
    if judgement is not None:
        path = settings.role.state / settings.session.name / _JUDGEMENT
        with as_checkpoint_error(f"cannot write {path}"):
            write_file(path, json.dumps(judgement) + "\n")


def read_judgement(settings: RoleSettings) -> dict[str, Any] | None:
    """Return what was written down of the session's training; None without it."""
    path = settings.role.state / settings.session.name / _JUDGEMENT
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


class Finished:
    """A note beside a participant's checkpoints: all have kept the last round, and this is the model."""

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any]) -> None:
        self._path, self._fingerprint = folder / _NAME, dict(fingerprint)

    def note(self, model: Path) -> None:
        """Write the note, once the model is there."""
        with as_checkpoint_error(f"cannot write {self._path}"):
            write_file(self._path, json.dumps({"belongs_to": self._fingerprint, "model": _digest(model)}) + "\n")

    def is_noted(self, model: Path) -> bool:
        """Return whether the file is the model of this very training, and everybody has theirs or can get it."""
        try:
            noted = json.loads(self._path.read_bytes())
            return bool(noted == {"belongs_to": self._fingerprint, "model": _digest(model)})
        except (OSError, ValueError):
            return False

    def forget(self) -> None:
        """Remove the note: some round is made again."""
        with as_checkpoint_error(f"cannot remove {self._path}"):
            self._path.unlink(missing_ok=True)


def _digest(model: Path) -> str:
    return hashlib.sha256(model.read_bytes()).hexdigest()


def data_digest(tables: Sequence[Table], numbers: Sequence[npt.NDArray[Any] | None]) -> str:
    """Return what tells the data of one training from another's, for this role's own checkpoints."""
    state = hashlib.sha256()
    for table in tables:
        for column in table.columns:
            state.update(repr((column.name, column.categories, table.rows)).encode())
            state.update(np.ascontiguousarray(column.values).tobytes())
    for array in numbers:
        state.update(b"none" if array is None else repr(array.shape).encode() + np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


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
