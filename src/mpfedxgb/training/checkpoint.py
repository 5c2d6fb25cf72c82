"""Checkpoints: after every round each participant writes down what it needs to go on from there.

A checkpoint holds what the participant keeps anyway - its partial trees, and at the active one margins and metrics. It
holds no masked value, no mask and no E: a resumed run is a new attempt with new keys. Since trees are exact functions
of the data, it ends in the same model, bit for bit.

File: a line of magic, a line that says whose it is, then one line per round, appended: what the round added. Lines are
chained by digest (`atomic`), so that a torn or damaged line ends what can be used, and no line passes for another. The
margins, which change as a whole, are in files of their own, the last few rounds': little-endian int64, held to a digest
in the line of their round. So a round costs the same however many there were before. Of a sealed training they are a
participant's additive shares of margins that nobody knows. With dart the active participant also keeps the leaf in
which each row is in the round's trees, in a file for every round: little-endian uint16.

Shares fit those that the others have of the same attempt only. So a line with shares has a mark of the attempts that
made it and all before it, which participants compare before they go on.

Beside them is the last boosting round that all participants had: no training goes back before it (`CommonRound`). A
participant that could make the others drop the rounds they have kept could train again and again, with other labels
or other candidates, and compare. So each one keeps, beside its checkpoints, the last round that all are known to have
and with which labels it was made, and goes on from nothing earlier unless its own people start it with --restart.

Honest roles can always go on, whichever of them is killed when. Let k_i be the rounds that participant i has on disk,
and c_i the common round that it keeps. Then c_i <= k_j for all i and j, always:

1. When an attempt begins, all tell k and c, and go on from r = min k >= max c. Each writes c_i = r to disk before it
   cuts its rounds down to r, and nobody cuts to less.
2. A line of round t + 1 says c_i = t. Participant i has finished round t + 1 with values that were opened in it, to
   which all have contributed (`train._common_after` names the one exception), and each contributes when its own line
   of round t is on disk: k_j >= t.
3. At the end of a training all tell that they have kept the last round, n, and only then each writes c_i = n.
4. Nothing else changes k or c. A line that a kill tears has been acknowledged to nobody.

Going on at r = min k >= max c is therefore possible after any number of kills. Only a disk that loses what it had
confirmed can break this. The loss of one line in the middle of a training is borne if the others know no more than that
all had the round before; otherwise it is refused, and nothing is cut off at anybody.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import HEX, append_to_file, chain_start, chained, cut_file, whole_lines, write_file
from mpfedxgb.boosting.callbacks import EvaluationState, State
from mpfedxgb.boosting.model import PartialModel, tree_from_json, tree_to_json
from mpfedxgb.boosting.params import UNNAMED
from mpfedxgb.errors import CheckpointError, as_checkpoint_error
from mpfedxgb.training.common_round import COMMON, CommonRound, read_common, write_common

MAGIC = b"mpfedxgb checkpoints 2\n"
KEPT = 3
"""Rounds whose margins stay on disk: roles are at most one round apart, and the newest file may be damaged."""

ROUNDS = "rounds.checkpoint"
_MARGINS, _LEAVES, _SUFFIX = "margins-", "leaves-", ".checkpoint"
_TYPES = {_MARGINS: "<i8", _LEAVES: "<u2"}
_Leaves = npt.NDArray[np.uint16]
_Kept = tuple[list[int], str]
"""Shape and SHA-256 of an array in a file of its own."""
_log = logging.getLogger("mpfedxgb.checkpoint")


@dataclass(frozen=True, slots=True)
class _Line:
    """One whole line of the file: the round that it tells of, the digest so far, and the length of the file up to it.

    The line that says whose the file is counts as round 0.
    """

    digest: bytes
    length: int
    rounds: int = 0
    trees: int = 0
    """How many there are, those of earlier rounds included."""
    added: State = field(default_factory=lambda: State(0), repr=False)
    margins: _Kept | None = None
    leaves: _Kept | None = None


class Checkpoints:
    """The checkpoints of one participant in one session, in a folder of their own.

    Parameters
    ----------
    folder : Path
        Created if it is not there, and so is the one around it, for their owner only.
    fingerprint : dict
        Plain values that name session, role, parameters and data; a file with others is foreign.
    """

    def __init__(self, folder: Path, fingerprint: dict[str, Any]) -> None:
        self.folder, self.fingerprint = folder, fingerprint
        self._path = folder / ROUNDS
        self._last: _Line | None = None
        self._labels = ""

        with as_checkpoint_error(f"cannot make the folder {folder}"):
            for path in (folder.parent, folder):  # the mode is for the last folder of a path only
                path.mkdir(parents=True, exist_ok=True, mode=0o700)

    def newest(self) -> int:
        """Return the newest usable rounds; a torn or damaged end is passed over with a warning.

        Raises CheckpointError if nothing is left before the damage, and for files of another training, which going
        on would overwrite, or of another format.
        """
        lines = self._read(warn=True)
        for line in lines[:0:-1]:
            try:
                self._margins(line)
                self._leaves(lines[: line.rounds + 1])
            except _DamagedError as error:
                _log.warning("%s", error)
            else:
                return line.rounds
        if lines:
            text = (
                f"the checkpoint {self._path} is damaged, and no boosting round in it can be used. Put a copy of it "
                "back; or begin again with --restart at every participant"
            )
            raise _DamagedError(text, "damaged", self._path.name, "rounds")
        return 0

    def common(self) -> int:
        """Return the last round that all participants are known to have kept (see `common_round`)."""
        lines = self._read()
        return max(read_common(self.folder, self.fingerprint).rounds, lines[-1].added.common if lines else 0)

    def all_have(self, rounds: int) -> None:
        """Note, to the disk, that all participants have kept a round; what is known already is not forgotten."""
        labels = self._labels or read_common(self.folder, self.fingerprint).labels
        common = CommonRound(max(rounds, self.common()), labels)
        with as_checkpoint_error(f"cannot write {self.folder / COMMON}"):
            write_common(self.folder, self.fingerprint, common)

    def finish(self, model: PartialModel) -> None:
        """Note that all participants have kept the last round; where the model goes is for others to say."""
        self.all_have(self.newest())

    def fits(self, labels: str) -> bool:
        """Return whether what is kept is of labels with this commitment, which is noted when a training goes on."""
        self._labels = labels
        return read_common(self.folder, self.fingerprint).labels in ("", labels)

    def load(self, rounds: int) -> State:
        """Return a state, checked, and cut off all later rounds; note before that that all participants have it.

        A later round is made again, with other shares where the paper's way keeps those. If it stayed here and that
        attempt failed in its turn, this role's shares of one attempt would meet the others' of another.
        """
        lines = self._read()
        last = self._line_of(lines, rounds)
        state = State(0)
        if rounds:
            added = [line.added for line in lines[1 : rounds + 1]]
            trees = tuple(tree for one in added for tree in one.trees)
            evaluation = _joined(added, *self._arrays_to_resume(lines[: rounds + 1]))
            state = replace(last.added, trees=trees, evaluation=evaluation)
        self.all_have(rounds)
        self._cut(last)
        return state

    def save(self, state: State) -> None:
        """Append what the last round of a state has added, to the disk. Margins of old rounds are removed after that.

        What an attempt that failed left of this round and later ones is deleted.
        """
        if self._last is None or self._last.rounds != state.rounds - 1:
            self._cut(self._line_of(self._read(), state.rounds - 1))
        last = self._last
        assert last is not None
        arrays = {} if state.evaluation is None else _arrays(state.evaluation, last.trees)
        line = chained(last.digest, _encode(state, last.trees, arrays))
        paths = {name: self._path_of(name, state.rounds) for name in arrays}
        what = f"cannot write the checkpoint of boosting round {state.rounds} in {self.folder}"
        try:
            for name, array in arrays.items():
                with as_checkpoint_error(what):
                    write_file(paths[name], array.tobytes())
            if last.rounds:
                with as_checkpoint_error(what):
                    append_to_file(self._path, line, last.length)
            else:
                first = MAGIC + chained(_START, _header(self.fingerprint)) + line
                with as_checkpoint_error(what):
                    write_file(self._path, first)
        except CheckpointError:  # not after a signal, which may come when the round is written already
            for path in paths.values():
                with suppress(OSError):
                    path.unlink(missing_ok=True)
            raise
        self._last = _Line(line[:HEX], last.length + len(line), state.rounds, len(state.trees))
        for number, old in self._files(_MARGINS):
            if number <= state.rounds - KEPT:
                with suppress(OSError):
                    old.unlink()

    def clear(self) -> None:
        """Forget everything, to begin again; files of older formats too."""
        self._last = None
        arrays = (path for name in (_MARGINS, _LEAVES) for _, path in self._files(name))
        paths = (self._path, self.folder / COMMON, *arrays, *self._older_files())
        for path in paths:
            with as_checkpoint_error(f"cannot remove {path}"):
                path.unlink(missing_ok=True)

    def _read(self, warn: bool = False) -> list[_Line]:
        """Return the lines up to the first that is torn or damaged; none if there is no file."""
        older = self._older_files()
        if older:
            text = (
                f"the checkpoint {older[0]} is of an older version of mpfedxgb; finish the training with that version, "
                "or begin again with --restart at every participant"
            )
            raise CheckpointError(text, "version", older[0].name)
        if not self._path.is_file():
            return []
        with as_checkpoint_error(f"cannot read the checkpoint {self._path}"):
            content = self._path.read_bytes()
        lines = list(_whole_lines(content, self._path, self.fingerprint))
        if warn and lines[-1].rounds and lines[-1].length < len(content):
            _log.warning("the checkpoint %s is torn or damaged after boosting round %d", self._path, lines[-1].rounds)
        return lines

    def _line_of(self, lines: Sequence[_Line], rounds: int) -> _Line:
        if rounds == 0:
            return _first_line(self.fingerprint)
        if rounds >= len(lines):
            text = (
                f"{rounds} boosting rounds are asked for and {self._path} holds {max(0, len(lines) - 1)}; begin again "
                "with --restart at every participant"
            )
            raise CheckpointError(text, "missing", self._path.name, rounds)
        return lines[rounds]

    def _cut(self, last: _Line) -> None:
        """Forget the rounds after a line."""
        if not last.rounds:
            with as_checkpoint_error(f"cannot remove {self._path}"):
                self._path.unlink(missing_ok=True)
        else:
            with as_checkpoint_error(f"cannot shorten {self._path}"):
                cut_file(self._path, last.length)
        for number, path in (*self._files(_MARGINS), *self._files(_LEAVES)):
            if number > last.rounds:
                with as_checkpoint_error(f"cannot remove {path}"):
                    path.unlink(missing_ok=True)
        self._last = last

    def _arrays_to_resume(self, lines: Sequence[_Line]) -> tuple[npt.NDArray[np.int64] | None, list[_Leaves]]:
        try:
            return self._margins(lines[-1]), self._leaves(lines)
        except _DamagedError as error:  # the others have nothing later, and here is nothing as old
            text = (
                f"{error}, and the participants have no later boosting round in common; put a copy of it back, or "
                "begin again with --restart at every participant"
            )
            raise _DamagedError(text, error.code, error.parameter) from None

    def _margins(self, line: _Line) -> npt.NDArray[np.int64] | None:
        """Return the margins after a round, checked; None if there are none."""
        return None if line.margins is None else self._array(_MARGINS, line.rounds, line.margins).astype(np.int64)

    def _leaves(self, lines: Sequence[_Line]) -> list[_Leaves]:
        """Return the leaves in which rows are, tree by tree, checked; none if none are kept."""
        kept = [self._array(_LEAVES, line.rounds, line.leaves) for line in lines if line.leaves is not None]
        return [own.astype(np.uint16) for of_round in kept for own in of_round]

    def _array(self, name: str, rounds: int, kept: _Kept) -> npt.NDArray[Any]:
        path, (shape, expected) = self._path_of(name, rounds), kept
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise _DamagedError(f"the checkpoint {path} is missing", "missing", path.name) from None
        except OSError as error:
            raise CheckpointError(f"cannot read the checkpoint {path}: {error.strerror}", "file", path.name) from None
        if hashlib.sha256(content).hexdigest() != expected:
            raise _DamagedError(f"the checkpoint {path} is damaged", "damaged", path.name)
        try:
            return np.frombuffer(content, _TYPES[name]).reshape(shape)
        except ValueError:
            raise _DamagedError(f"the checkpoint {path} is damaged", "damaged", path.name) from None

    def _path_of(self, name: str, rounds: int) -> Path:
        return self.folder / f"{name}{rounds:06}{_SUFFIX}"

    def _files(self, name: str) -> list[tuple[int, Path]]:
        found = [(path.stem.removeprefix(name), path) for path in self.folder.glob(f"{name}*{_SUFFIX}")]
        return [(int(number), path) for number, path in found if number.isdecimal()]

    def _older_files(self) -> list[Path]:
        """Return files of format 1, one for each round."""
        return sorted(path for path in self.folder.glob(f"*{_SUFFIX}") if path.stem.isdecimal())


def read_kept(folder: Path) -> State:
    """Return what the rounds in a folder of checkpoints add up to, whichever training's, for people to look at.

    Nothing is cut off, and the margins are left out: nobody can go on from this.
    """
    path = folder / ROUNDS
    if not path.is_file():
        return State(0)
    with as_checkpoint_error(f"cannot read the checkpoint {path}"):
        content = path.read_bytes()
    added = [line.added for line in _whole_lines(content, path, {})][1:]
    if not added:
        return State(0)
    trees = tuple(tree for one in added for tree in one.trees)
    return replace(added[-1], trees=trees, evaluation=_joined(added, np.empty(0, np.int64)))


class _DamagedError(CheckpointError):
    """A file that cannot be what was written."""


_START = chain_start(MAGIC)


def _header(fingerprint: dict[str, Any]) -> bytes:
    return json.dumps({"belongs_to": fingerprint}).encode()


def _first_line(fingerprint: dict[str, Any]) -> _Line:
    line = chained(_START, _header(fingerprint))
    return _Line(line[:HEX], len(MAGIC) + len(line))


def _arrays(evaluation: EvaluationState, earlier: int) -> dict[str, npt.NDArray[Any]]:
    """Return what goes to files of its own, of the leaves those of trees after the first `earlier`."""
    arrays = {_MARGINS: evaluation.margins}
    if evaluation.leaves:
        arrays[_LEAVES] = np.stack(evaluation.leaves[earlier:])
    return {name: array.astype(_TYPES[name]) for name, array in arrays.items()}


def _encode(state: State, earlier: int, arrays: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """Return the body of a round's line; the first `earlier` trees are in lines before it."""
    evaluation = state.evaluation
    content: dict[str, Any] = {
        "rounds": state.rounds,
        "finished": state.finished,
        "trees": [tree_to_json(tree) for tree in state.trees[earlier:]],
        "common": state.common,
    }
    if state.mark:
        content["mark"] = state.mark
    for name, array in arrays.items():
        content[name.rstrip("-")] = [list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
    if evaluation is not None:
        content["metrics"] = {on: {n: v[-1] for n, v in m.items()} for on, m in evaluation.metrics.items()}
        content["best"] = [evaluation.best_iteration, evaluation.best_value]
        content["scale"] = list(evaluation.scale)
        if evaluation.leaves:
            content["tree_scales"] = list(evaluation.tree_scales)
    return json.dumps(content).encode()


def _whole_lines(content: bytes, path: Path, fingerprint: dict[str, Any]) -> Iterator[_Line]:
    """Yield the line that says whose the file is, and those of its rounds, up to the first that is torn or damaged."""
    last = None
    bodies = whole_lines(content, _START, len(MAGIC)) if content.startswith(MAGIC) else ()
    for body, digest, length in bodies:
        foreign: list[str] = []
        try:
            plain = json.loads(body)
            if last is None:
                foreign = [key for key, value in fingerprint.items() if plain["belongs_to"].get(key) != value]
                last = _Line(digest, length)
            else:
                last = _decode(plain, last, digest, length)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            break
        if foreign:
            _check_rules(plain["belongs_to"], fingerprint, path)
            text = (
                f"the checkpoint {path} is of another training: {' and '.join(foreign)} changed since. Choose another "
                "session name, or begin again with --restart at every participant"
            )
            raise CheckpointError(text, "mismatch", path.name, foreign)
        yield last
    if last is None:
        text = (
            f"the checkpoint {path} is damaged from its beginning. Put a copy of it back; or begin again with "
            "--restart at every participant"
        )
        raise _DamagedError(text, "damaged", path.name, "beginning")


def _check_rules(theirs: dict[str, Any], mine: dict[str, Any], path: Path) -> None:
    """Raise CheckpointError if the rounds of another training follow rules that trainings here no longer follow."""
    parameters = [one.get("parameters") for one in (theirs, mine)]
    old, new = (one.get("xgboost_rules", UNNAMED) if isinstance(one, dict) else UNNAMED for one in parameters)
    if old != new:
        text = (
            f"the checkpoint {path} is of a training by the rules of XGBoost {old}, and this version of mpfedxgb goes "
            f"by those of {new}, so the other trees would follow other rules. Finish it with the version that began "
            "it, or begin again with --restart at every participant"
        )
        raise CheckpointError(text, "version", path.name, old)


def _decode(plain: dict[str, Any], before: _Line, digest: bytes, length: int) -> _Line:
    """Return the line of a round; raises ValueError, TypeError, KeyError and the like for one that is none."""
    trees = tuple(tree_from_json(tree) for tree in plain["trees"])
    if plain["rounds"] != before.rounds + 1:
        raise ValueError("the line of another round")
    evaluation, kept = None, {name: _kept(*plain[name]) for name in ("margins", "leaves") if name in plain}
    if "margins" in kept:
        metrics = {on: {name: [float(v)] for name, v in m.items()} for on, m in plain["metrics"].items()}
        best, value = plain["best"]
        scales = tuple(float(scale) for scale in plain.get("tree_scales", ()))
        evaluation = EvaluationState(np.empty(0, np.int64), metrics, best, value, _scale(*plain["scale"]), scales)
    mark, common = str(plain.get("mark", "")), int(plain.get("common", 0))
    added = State(before.rounds + 1, bool(plain["finished"]), trees, evaluation, mark, common)
    return _Line(digest, length, added.rounds, before.trees + len(trees), added, **kept)


def _kept(shape: Sequence[int], expected: str) -> _Kept:
    return [int(n) for n in shape], str(expected)


def _scale(f_g: int, f_h: int, lam: int, gam: int, mcw: int) -> tuple[int, int, int, int, int]:
    return f_g, f_h, lam, gam, mcw


def _joined(
    added: Sequence[State], margins: npt.NDArray[np.int64] | None, leaves: Sequence[_Leaves] = ()
) -> EvaluationState | None:
    """Return what the active participant remembers after some rounds, from what each has added."""
    last = added[-1].evaluation
    if last is None or margins is None:
        return None
    metrics: dict[str, dict[str, list[float]]] = {}
    for one in added:
        for on, values in (one.evaluation or last).metrics.items():
            for name, value in values.items():
                metrics.setdefault(on, {}).setdefault(name, []).extend(value)
    return replace(last, margins=margins, metrics=metrics, leaves=tuple(leaves))
