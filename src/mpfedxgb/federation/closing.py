"""How a training ends: nobody ends well while somebody else could not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import write_file
from mpfedxgb.errors import CheckpointError
from mpfedxgb.party.party import Party

KEPT_AT_THE_END = "last round kept, model written"
_ROUND_KEPT, _MODEL_WRITTEN = 1, 2
_NAME = "finished.json"


def close_training(party: Party, write_model: Callable[[], object] | None) -> None:
    """End a training together, after the last round was kept; the coordinator listens.

    1. Everyone tells that it has kept the last round: nobody will have to make it again.
    2. Everyone writes its model and notes that (1) has happened (`Finished`), and tells so.

    A role that is lost before (1) is waited for by all, who go on from their checkpoints. A role that is lost after (1)
    finds the others waiting too, unless they have heard (2) from all, this one included: then it has its model and the
    note, and needs nobody. Rounds: 2. Reveals: KEPT_AT_THE_END to everyone.
    """
    party.tell_everyone(KEPT_AT_THE_END, None if party.is_coordinator else [_ROUND_KEPT])
    if write_model is not None:
        write_model()
    party.tell_everyone(KEPT_AT_THE_END, None if party.is_coordinator else [_MODEL_WRITTEN])


class Finished:
    """A note beside a participant's checkpoints: all have kept the last round, and this is the model."""

    def __init__(self, folder: Path, belongs_to: Mapping[str, Any]) -> None:
        self._path, self._belongs_to = folder / _NAME, dict(belongs_to)

    def note(self, model: Path) -> None:
        """Write the note, once the model is there."""
        try:
            write_file(self._path, json.dumps({"belongs_to": self._belongs_to, "model": _digest(model)}) + "\n")
        except OSError as error:
            raise CheckpointError(f"cannot write {self._path}: {error.strerror}") from None

    def is_noted(self, model: Path) -> bool:
        """Return whether the file is the model of this very training, and everybody has theirs or can get it."""
        try:
            noted = json.loads(self._path.read_bytes())
            return bool(noted == {"belongs_to": self._belongs_to, "model": _digest(model)})
        except (OSError, ValueError):
            return False

    def forget(self) -> None:
        """Remove the note: some round is made again."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise CheckpointError(f"cannot remove {self._path}: {error.strerror}") from None


def _digest(model: Path) -> str:
    return hashlib.sha256(model.read_bytes()).hexdigest()
