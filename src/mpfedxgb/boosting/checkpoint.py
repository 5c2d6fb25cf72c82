"""Checkpoints: after every round each role writes down what it needs to go on from there, whole or not at all.

A checkpoint holds what the role keeps anyway - its partial trees, and at the active participant margins and metrics. It
holds no masked value, no mask and no E: a resumed run is a new attempt with new keys. Since trees are exact functions
of the data, it ends in the same model, bit for bit.

File: a line of magic, a line of JSON, the margins as little-endian int64, then the SHA-256 of all that.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.model import tree_from_json, tree_to_json
from mpfedxgb.errors import CheckpointError
from mpfedxgb.ring.prg import digest
from mpfedxgb.tree.nodes import Tree

T = TypeVar("T")

MAGIC = b"mpfedxgb checkpoint 1\n"
KEPT = 3
"""Rounds that stay on disk: roles are at most one round apart, and the newest file may be damaged."""

_SUFFIX = ".checkpoint"
_KEY = "private.key"
_DIGEST_BYTES = 32
_log = logging.getLogger("mpfedxgb.checkpoint")


@dataclass(frozen=True, slots=True)
class EvaluationState:
    """What the active participant remembers besides the trees: margins, metrics, and the scale of the first tree."""

    margins: npt.NDArray[np.int64] = field(repr=False)
    metrics: dict[str, dict[str, list[float]]] = field(repr=False)
    best_iteration: int | None
    best_value: float | None
    scale: tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class State:
    """Where a role is after some rounds; `finished` if the active participant has decided to stop there."""

    rounds: int
    finished: bool = False
    trees: tuple[Tree, ...] = field(default=(), repr=False)
    evaluation: EvaluationState | None = None


class Progress(Protocol):
    """Where a training keeps its states."""

    def newest(self) -> int:
        """Return the number of rounds of the newest state that can be used; 0 if there is none."""
        ...

    def load(self, rounds: int) -> State:
        """Return the state after that many rounds, and forget later ones: they will be made again."""
        ...

    def save(self, state: State) -> None:
        """Keep a state."""
        ...


class Checkpoints:
    """The checkpoints of one role in one session, in a folder of their own.

    Parameters
    ----------
    folder : Path
        Created if it is not there, and so is the one around it, for their owner only.
    belongs_to : dict
        Plain values that name session, role, parameters and data; a file with others is foreign.
    """

    def __init__(self, folder: Path, belongs_to: dict[str, Any]) -> None:
        self.folder, self.belongs_to = folder, belongs_to

        def make() -> None:
            for path in (folder.parent, folder):  # the mode is for the last folder of a path only
                path.mkdir(parents=True, exist_ok=True, mode=0o700)

        _trying(make, f"cannot make the folder {folder}")

    def newest(self) -> int:
        """Return the newest usable rounds; damaged files are passed over with a warning, and refused if none is left.

        Raises CheckpointError for files of another training, which going on would overwrite.
        """
        damaged = []
        for rounds in sorted(self._rounds(), reverse=True):
            try:
                self._read(rounds)
            except _DamagedError as error:
                _log.warning("%s", error)
                damaged.append(str(error))
            else:
                return rounds
        if damaged:
            raise CheckpointError(
                f"{damaged[0]}; no older one can be used. Remove the folder {self.folder} to begin again, or put a "
                "copy of it back"
            )
        return 0

    def load(self, rounds: int) -> State:
        """Return a state, checked, and forget later ones.

        A later round is made again, with other shares where the paper's way keeps those. If it stayed here and that
        attempt failed in its turn, this role's shares of one attempt would meet the others' of another.
        """
        state = self._read(rounds)
        for later in self._rounds():
            if later > rounds:
                _trying(self._path(later).unlink, f"cannot remove {self._path(later)}")
        return state

    def _read(self, rounds: int) -> State:
        if rounds == 0:
            return State(0)
        path = self._path(rounds)
        if not path.is_file():
            raise CheckpointError(
                f"the others are {rounds} rounds ahead and {path} is not there; remove all roles' checkpoints of this "
                "session to begin again"
            )
        content = _trying(path.read_bytes, f"cannot read the checkpoint {path}")
        state = _decode(content, path, self.belongs_to)
        if state.rounds != rounds:
            raise _DamagedError(f"the checkpoint {path} is damaged: it holds {state.rounds} rounds")
        return state

    def save(self, state: State) -> None:
        """Write a state, whole and to the disk. Older ones are removed after that."""
        path = self._path(state.rounds)
        content = _encode(state, self.belongs_to)
        _trying(lambda: write_file(path, content), f"cannot write the checkpoint {path}")
        for old in self._rounds():
            # Later ones are the coordinator's, which loads none, of an attempt that went further than some other role.
            if old <= state.rounds - KEPT or old > state.rounds:
                with suppress(OSError):
                    self._path(old).unlink()

    def clear(self) -> None:
        """Forget everything, to begin again."""
        for rounds in self._rounds():
            _trying(self._path(rounds).unlink, f"cannot remove {self._path(rounds)}")

    def _rounds(self) -> list[int]:
        names = [path.stem for path in self.folder.glob(f"*{_SUFFIX}")]
        return [int(name) for name in names if name.isdecimal()]

    def _path(self, rounds: int) -> Path:
        return self.folder / f"{rounds:06}{_SUFFIX}"


def private_key(folder: Path, make: Callable[[int], bytes], count: int = 32) -> bytes:
    """Return the key of a role's own choices in a session: the one that the folder holds, or a new one."""
    path = folder / _KEY

    def read() -> bytes:
        if path.is_file():
            return path.read_bytes()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):  # of two who make one, the first decides
            write_file(path, make(count).hex(), overwrite=False)
        return path.read_bytes()

    text = _trying(read, f"cannot keep the private key {path}")
    try:
        key = bytes.fromhex(text.decode())
    except ValueError:
        key = b""
    if len(key) != count:
        raise CheckpointError(f"{path} is damaged; put a copy back, or remove the folder {folder} to begin again")
    return key


def key_of_choices(key: bytes, belongs_to: dict[str, Any]) -> bytes:
    """Return the key of a role's own choices in one training: with other data or parameters it is another one."""
    return digest(b"choices of one training", key, json.dumps(belongs_to, sort_keys=True).encode())


def forget_private_key(folder: Path) -> None:
    """Let the next training have a key of its own."""
    _trying(lambda: (folder / _KEY).unlink(missing_ok=True), f"cannot remove the private key in {folder}")


class _DamagedError(CheckpointError):
    """A file that cannot be what was written."""


def _trying(action: Callable[[], T], what: str) -> T:
    try:
        return action()
    except OSError as error:
        raise CheckpointError(
            f"{what}: {error.strerror or type(error).__name__}; what was there before is unchanged"
        ) from None


def _encode(state: State, belongs_to: dict[str, Any]) -> bytes:
    evaluation = state.evaluation
    content: dict[str, Any] = {
        "belongs_to": belongs_to,
        "rounds": state.rounds,
        "finished": state.finished,
        "trees": [tree_to_json(tree) for tree in state.trees],
    }
    margins = b""
    if evaluation is not None:
        content["margins"] = list(evaluation.margins.shape)
        content["metrics"] = evaluation.metrics
        content["best"] = [evaluation.best_iteration, evaluation.best_value]
        content["scale"] = list(evaluation.scale)
        margins = evaluation.margins.astype("<i8").tobytes()
    body = MAGIC + json.dumps(content).encode() + b"\n" + margins
    return body + hashlib.sha256(body).digest()


def _decode(content: bytes, path: Path, belongs_to: dict[str, Any]) -> State:
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if not content.startswith(MAGIC) or hashlib.sha256(body).digest() != digest:
        raise _DamagedError(f"the checkpoint {path} is damaged")
    line, _, margins = body[len(MAGIC) :].partition(b"\n")
    try:
        plain = json.loads(line)
        foreign = [key for key, value in belongs_to.items() if plain["belongs_to"].get(key) != value]
        trees = tuple(tree_from_json(tree) for tree in plain["trees"])
        evaluation = None
        if "margins" in plain:
            evaluation = EvaluationState(
                np.frombuffer(margins, "<i8").astype(np.int64).reshape(plain["margins"]),
                plain["metrics"],
                plain["best"][0],
                plain["best"][1],
                tuple(plain["scale"]),
            )
        state = State(int(plain["rounds"]), bool(plain["finished"]), trees, evaluation)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise _DamagedError(f"the checkpoint {path} is damaged") from None
    if foreign:
        raise CheckpointError(
            f"the checkpoint {path} is of another training: {_listed(foreign)} changed since. Choose another "
            "session name, or remove the folder"
        )
    return state


def _listed(names: Sequence[str]) -> str:
    return " and ".join(names)
