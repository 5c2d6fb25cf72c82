"""What a participant keeps of a training: checkpoints, the model, and a note that all are done; and of which data."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.callbacks import State
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.data.table import Table
from mpfedxgb.errors import as_checkpoint_error
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.training.checkpoint import Checkpoints

_NAME = "finished.json"
_log = logging.getLogger("mpfedxgb.session")


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
            _log.info("%d boosting rounds of an earlier attempt are there", rounds)
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
            _log.info("going on after boosting round %d, the last that all participants have", rounds)
        return self.checkpoints.load(rounds)

    def save(self, state: State) -> None:
        """Keep a state (see Progress)."""
        self.finished.forget()
        self.checkpoints.save(state)
        _log.info("boosting round %d of %d is done and kept", state.rounds, self._rounds)

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
