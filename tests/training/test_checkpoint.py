"""Checkpoints: round by round, whole or cut off, never of another training, never with anything that hides a value."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import resource
import shutil
import signal
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpfedxgb.atomic import append_to_file, write_file
from mpfedxgb.boosting.callbacks import EvaluationState, State
from mpfedxgb.boosting.sampling import private_key
from mpfedxgb.errors import CheckpointError
from mpfedxgb.training import checkpoint
from mpfedxgb.training.checkpoint import KEPT, MAGIC, ROUNDS, Checkpoints, read_kept
from mpfedxgb.training.common_round import COMMON
from mpfedxgb.tree import Dummy, Leaf, Split, Tree
from support.loopback import run_program
from support.refusals import refused
from support.small_disk import small_disk

MINE: dict[str, Any] = {
    "session": "trial/spring",
    "role": "bank",
    "participants": ["bank", "telecom"],
    "parameters": {"max_depth": 3, "learning_rate": 0.1, "security": "strict"},
    "data": "7f" * 32,
}

TREE: Tree = (
    Split("age", 41.5, None, True, True, 1, 2),
    Dummy(2, 3, 4),
    Leaf(-(1 << 61), 12.25),
    Leaf((1 << 40) + 1, 0.1),
    Leaf(0, 3.0),
)
AUXILIARY: Tree = (Dummy(1, 1, 2), Split("tariff", None, 3, False, False, 3, 4), *[Leaf(None)] * 3)
SHARES: Tree = (Dummy(1, 1, 2), Leaf(None, share=-(1 << 63)), Leaf(None, share=(1 << 63) - 1))

JUDGED = EvaluationState(
    np.array([[1, -(1 << 62), 3], [4, 5, (1 << 62)]], np.int64),
    {"validation_0": {"logloss": [0.1, 1 / 3, float("inf")], "auc": [0.5, 0.6, 0.7]}},
    1,
    1 / 3,
    (24, 24, 1 << 24, 1 << 100, 7),
)


def judged_after(rounds: int) -> EvaluationState:
    """Return what the active participant remembers after some rounds; every one of them changed it."""
    cycle = JUDGED.metrics["validation_0"]
    metrics = {name: [values[i % 3] for i in range(rounds)] for name, values in cycle.items()}
    return replace(
        JUDGED,
        margins=JUDGED.margins + rounds - 3,
        metrics={"validation_0": metrics},
        best_iteration=rounds // 2,
        scale=(24, rounds, 1 << 24, 1 << 100, 7),
    )


def state(rounds: int, judged: bool = False, finished: bool = False) -> State:
    """Return some state."""
    trees = tuple((*TREE[:-1], Leaf(number, 3.0)) for number in range(rounds))
    return State(rounds, finished, trees, judged_after(rounds) if judged else None)


def in_rounds(made: Checkpoints, one: State) -> None:
    """Keep every round up to a state, as a training does."""
    per_round = len(one.trees) // one.rounds
    for rounds in range(1, one.rounds + 1):
        j = one.evaluation
        if j is not None:
            cut = {on: {name: v[:rounds] for name, v in m.items()} for on, m in j.metrics.items()}
            j = replace(j, metrics=cut)
        made.save(State(rounds, one.finished and rounds == one.rounds, one.trees[: rounds * per_round], j))


def plain(one: State) -> tuple[Any, ...]:
    """Return a state as something that can be compared."""
    j = one.evaluation
    judged = (
        None if j is None else (j.margins.dtype, j.margins.tolist(), j.metrics, j.best_iteration, j.best_value, j.scale)
    )
    return one.rounds, one.finished, one.trees, judged


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its content."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    """Return checkpoints of three rounds."""
    made = Checkpoints(tmp_path / "state", MINE)
    for rounds in (1, 2, 3):
        made.save(state(rounds, judged=True))
    return made


# There and back


@pytest.mark.parametrize(
    "one",
    [
        State(1),
        State(2, True, (TREE, TREE)),
        State(1, False, (AUXILIARY, SHARES)),
        State(3, False, (TREE,) * 3, JUDGED),
        State(4, False, (AUXILIARY, SHARES) * 4),
        State(1, True, (), replace(JUDGED, best_iteration=None, best_value=None, metrics={})),
        State(1, False, (), replace(judged_after(1), margins=np.zeros((1, 0), np.int64))),
    ],
)
def test_what_is_saved_is_loaded(tmp_path: Path, one: State) -> None:
    """Every number to the last bit, at every kind of role; also by another process of the same role."""
    in_rounds(Checkpoints(tmp_path, MINE), one)
    again = Checkpoints(tmp_path, json.loads(json.dumps(MINE)))
    assert again.newest() == one.rounds
    assert plain(again.load(one.rounds)) == plain(one)


def test_every_round_that_has_margins_can_be_gone_back_to(tmp_path: Path) -> None:
    """To the last bit, metrics as they were then; and from there rounds are made again, by this process or another."""
    for back in range(1, KEPT):
        made = Checkpoints(tmp_path / str(back), MINE)
        for rounds in range(1, 10):
            made.save(state(rounds, judged=True))
        assert plain(made.load(9 - back)) == plain(state(9 - back, judged=True))
        for rounds in range(10 - back, 13):
            made.save(state(rounds, judged=True))
            made = made if rounds % 2 else Checkpoints(made.folder, MINE)
        assert plain(made.load(12)) == plain(state(12, judged=True))


def written(rounds: int, tmp_path: Path, patch: pytest.MonkeyPatch) -> int:
    """Return how many bytes it takes to keep one more round after some."""
    made = Checkpoints(tmp_path / str(rounds), MINE)
    in_rounds(made, state(rounds, judged=True))
    count = [0]
    write, append = write_file, append_to_file

    def note(path: Path, content: bytes, *rest: Any) -> None:
        count[0] += len(content)
        (append if rest else write)(path, content, *rest)

    with patch.context() as patched:
        patched.setattr(checkpoint, "write_file", note)
        patched.setattr(checkpoint, "append_to_file", note)
        made.save(state(rounds + 1, judged=True))
    return count[0]


def test_a_round_costs_the_same_however_many_there_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written is the round's own trees and metrics, and the margins; only numbers may get longer."""
    assert abs(written(200, tmp_path, monkeypatch) - written(2, tmp_path, monkeypatch)) < 20


def test_margins_may_be_changed_after_loading(kept: Checkpoints) -> None:
    """They are no view of the file's bytes."""
    judged = kept.load(3).evaluation
    assert judged is not None
    judged.margins[0, 0] += 1


def test_nothing_is_there_at_first(tmp_path: Path) -> None:
    """A new folder has no rounds; the state after none is empty. Folder and files are for their owner only."""
    made = Checkpoints(tmp_path / "a" / "b", MINE)
    assert made.newest() == 0
    assert made.load(0) == State(0)
    made.save(state(1))
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    made.save(state(2, judged=True))
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a" / "b").iterdir()}
    assert modes == {ROUNDS: 0o600, COMMON: 0o600, "margins-000002.checkpoint": 0o600}


def test_the_last_few_margins_are_kept(tmp_path: Path) -> None:
    """Older ones go as new ones come."""
    made = Checkpoints(tmp_path, MINE)
    for rounds in range(1, 13):
        made.save(state(rounds, judged=True))
        kept = [f"margins-{n:06}.checkpoint" for n in range(max(1, rounds - KEPT + 1), rounds + 1)]
        assert sorted(files(tmp_path)) == [*kept, ROUNDS]
    assert made.newest() == 12


def test_going_back_forgets_what_came_later(kept: Checkpoints) -> None:
    """Rounds beyond the one that all roles have are made again; their old states must not meet new ones."""
    assert kept.load(2).rounds == 2
    assert kept.newest() == 2
    kept.load(0)
    assert kept.newest() == 0
    assert set(files(kept.folder)) == {COMMON}


def test_a_round_that_is_made_again_replaces_the_old_one(kept: Checkpoints) -> None:
    """And those beyond it, at a role that never loads."""
    kept.save(state(2, judged=True, finished=True))
    assert kept.newest() == 2
    assert kept.load(2).finished
    kept.save(state(1, finished=True))
    assert plain(kept.load(1)) == plain(state(1, finished=True))
    assert set(files(kept.folder)) == {ROUNDS, COMMON}


def test_two_who_write_are_noticed(kept: Checkpoints) -> None:
    """A round is not appended to what somebody else has written meanwhile."""
    kept.load(3)
    Checkpoints(kept.folder, MINE).save(state(4, judged=True))
    before = (kept.folder / ROUNDS).read_bytes()
    with refused(CheckpointError, "file", value=16):
        kept.save(state(4))
    assert (kept.folder / ROUNDS).read_bytes() == before


def test_clearing(kept: Checkpoints) -> None:
    """Everything is forgotten, and nothing else in the folder is touched."""
    (kept.folder / "notes.txt").write_text("mine")
    kept.clear()
    assert kept.newest() == 0
    assert sorted(files(kept.folder)) == ["notes.txt"]


def test_a_round_that_is_not_there(kept: Checkpoints) -> None:
    """Who was asked for a round that it does not have says so, and what to do."""
    with refused(CheckpointError, "missing", "rounds.checkpoint"):
        kept.load(7)


# What is in it


def test_a_checkpoint_holds_what_the_role_keeps_anyway(tmp_path: Path) -> None:
    """Trees; at the active participant margins, metrics and scale. No mask, no masked value, no E has a place in it."""
    made = Checkpoints(tmp_path, MINE)
    made.save(state(1))
    made.save(state(2, judged=True))
    content = (tmp_path / ROUNDS).read_bytes()
    assert content.startswith(MAGIC)
    header, first, second = [json.loads(line[65:]) for line in content[len(MAGIC) :].splitlines()]
    assert header == {"belongs_to": MINE}
    assert set(first) == {"rounds", "finished", "trees", "common"}
    assert set(second) == set(first) | {"margins", "metrics", "best", "scale"}
    assert [len(first["trees"]), len(second["trees"])] == [1, 1]
    assert second["metrics"] == {"validation_0": {"logloss": 1 / 3, "auc": 0.6}}
    assert (tmp_path / "margins-000002.checkpoint").read_bytes() == judged_after(2).margins.tobytes()


def test_states_do_not_print_what_they_hold() -> None:
    """Trees, margins and metrics stay out of logs and tracebacks."""
    text = repr(state(2, judged=True))
    assert "age" not in text
    assert "logloss" not in text
    assert str(1 << 62) not in text


# Damage


def flip(content: bytes, place: float) -> bytes:
    """Return the content with one bit flipped."""
    at = int(place * (len(content) - 1))
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]


def chain(*bodies: bytes) -> bytes:
    """Return a file whose digests are right, whatever it says."""
    content, digest = MAGIC, hashlib.sha256(MAGIC).hexdigest()
    for body in bodies:
        digest = hashlib.sha256(digest.encode() + body).hexdigest()
        content += digest.encode() + b" " + body + b"\n"
    return content


def forged(content: Any) -> Callable[[bytes], bytes]:
    """Return what puts something else in the place of the last line of a file, with the digest that fits."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda c: chain(*(line[65:] for line in c[len(MAGIC) :].splitlines()[:-1]), body)


def last_line(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return what changes the last line of a file."""

    def changed(content: bytes) -> bytes:
        *lines, last = content.splitlines(keepends=True)
        return b"".join(lines) + change(last)

    return changed


ROUND = {"rounds": 3, "finished": False, "trees": []}

TORN: dict[str, Callable[[bytes], bytes]] = {
    "one byte of it": last_line(lambda c: c[:1]),
    "half of it": last_line(lambda c: c[: len(c) // 2]),
    "all but a byte": last_line(lambda c: c[:-1]),
    "all but two": last_line(lambda c: c[:-2]),
    "zeros": last_line(lambda c: bytes(len(c))),
    "zeros at its beginning": last_line(lambda c: bytes(100) + c[100:]),
    "zeros at its end": last_line(lambda c: c[:100] + bytes(len(c) - 100)),
    "an empty line": last_line(lambda c: b"\n"),
    "garbage": last_line(lambda c: bytes(range(256)) * 9),
    **{f"bit flipped at {p}": last_line(lambda c, p=p: flip(c, p)) for p in (0.0, 0.05, 0.3, 0.6, 0.95, 1.0)},  # type: ignore[misc]
    "the line before again": lambda c: b"".join([*(lines := c.splitlines(keepends=True))[:-1], lines[-2]]),
    "forged: no JSON": forged(b"not json"),
    "forged: no object": forged([1, 2]),
    "forged: nothing in it": forged({}),
    "forged: no trees": forged({"rounds": 3, "finished": False}),
    "forged: no such node": forged(ROUND | {"trees": [[{}]]}),
    "forged: another round": forged(ROUND | {"rounds": 4}),
    "forged: margins": forged(ROUND | {"margins": [2, 2], "metrics": {}}),
    "forged: scale": forged(ROUND | {"margins": [[1], ""], "metrics": {}, "best": [None, None], "scale": [1]}),
    "forged: deep": forged(b"[" * 200_000),
}


@pytest.mark.parametrize("damage", TORN)
def test_a_torn_or_damaged_last_round_is_cut_off(
    kept: Checkpoints, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """With a warning that names the file; the training goes on from the round before, and its next one is whole."""
    path = kept.folder / ROUNDS
    whole = path.read_bytes()
    path.write_bytes(TORN[damage](whole))
    again = Checkpoints(kept.folder, MINE)
    with caplog.at_level(logging.WARNING, "mpfedxgb.checkpoint"):
        assert again.newest() == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"the checkpoint {path} is torn or damaged after boosting round 2" in caplog.text
    assert plain(again.load(2)) == plain(state(2, judged=True))
    again.save(state(3, judged=True))
    assert path.read_bytes() == whole


def test_a_file_that_ends_anywhere(tmp_path: Path) -> None:
    """Whatever length a crash has left: the whole rounds count, and of the first one there is never a part."""
    made = Checkpoints(tmp_path, MINE)
    in_rounds(made, state(3))
    path = tmp_path / ROUNDS
    whole = path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")][2:]
    for length in range(ends[0], len(whole)):
        path.write_bytes(whole[:length])
        expected = sum(end <= length for end in ends)
        assert made.newest() == expected
        assert plain(made.load(expected)) == plain(state(expected))
        assert path.stat().st_size == ends[expected - 1]


def test_damage_in_the_middle(kept: Checkpoints) -> None:
    """What follows it cannot be used either, however whole."""
    kept.save(state(4))
    path = kept.folder / ROUNDS
    lines = path.read_bytes().splitlines(keepends=True)
    lines[4] = flip(lines[4], 0.5)
    path.write_bytes(b"".join(lines))
    assert kept.newest() == 2


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda c: b"",
    "one byte": lambda c: c[:1],
    "magic only": lambda c: c[: len(MAGIC)],
    "no round": lambda c: b"".join(c.splitlines(keepends=True)[:2]),
    "half a round": lambda c: b"".join(c.splitlines(keepends=True)[:3])[:-9],
    "garbage": lambda c: bytes(range(256)) * 9,
    "text": lambda c: b"this was a checkpoint\n" * 50,
    "bit flipped at the beginning": lambda c: flip(c, 0.001),
    "bit flipped in whose it is": lambda c: flip(c, (len(MAGIC) + 100) / len(c)),
    "another version": lambda c: c.replace(b"checkpoints 2\n", b"checkpoints 3\n", 1),
    "forged: not whose it is": lambda c: chain(b"{}"),
    "forged: nobody's": lambda c: chain(b'{"belongs_to": 3}'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_to_all_is_an_error(kept: Checkpoints, damage: str) -> None:
    """Nothing is begun from the start without being told to; the message names file and folder, and nothing is lost."""
    path = kept.folder / ROUNDS
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    before = files(kept.folder)
    with refused(CheckpointError, "damaged", "rounds.checkpoint"):
        kept.newest()
    assert files(kept.folder) == before


@pytest.mark.parametrize("damage", ["gone", "empty", "cut", "flipped", "another round's"])
def test_damaged_margins(kept: Checkpoints, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """Those of the round before serve; if none do, that is an error."""
    paths = sorted(kept.folder.glob("margins-*"))
    contents = [path.read_bytes() for path in paths]

    def break_one(number: int) -> None:
        changed = {
            "empty": b"",
            "cut": contents[number][:-1],
            "flipped": flip(contents[number], 0.5),
            "another round's": contents[number - 1],
        }
        if damage == "gone":
            paths[number].unlink()
        else:
            paths[number].write_bytes(changed[damage])

    break_one(2)
    with caplog.at_level(logging.WARNING, "mpfedxgb.checkpoint"):
        assert kept.newest() == 2
    assert f"the checkpoint {paths[2]} is {'missing' if damage == 'gone' else 'damaged'}" in caplog.text
    break_one(1)
    break_one(0)
    with refused(CheckpointError, "damaged", "rounds.checkpoint", "rounds"):
        kept.newest()


def test_checkpoints_of_an_older_version(kept: Checkpoints) -> None:
    """One file per round, as they were: refused by name, and gone with `clear`."""
    old = kept.folder / "000003.checkpoint"
    old.write_bytes(b"mpfedxgb checkpoint 1\n{}\n" + bytes(32))
    before = files(kept.folder)
    for act in (kept.newest, lambda: kept.load(3)):
        with refused(CheckpointError, "version", "000003.checkpoint"):
            act()
    assert files(kept.folder) == before
    kept.clear()
    assert files(kept.folder) == {}
    assert kept.newest() == 0


@pytest.mark.parametrize(
    "name", ["x.checkpoint", "-1.checkpoint", "3.tmp", "000009.checkpoint.tmp", "margins-x.checkpoint", "private.key"]
)
def test_other_files_do_not_count(kept: Checkpoints, name: str) -> None:
    """Whatever else lies in the folder, such as what a killed process left behind."""
    (kept.folder / name).write_bytes(b"x")
    assert kept.newest() == 3
    kept.load(0)
    assert set(files(kept.folder)) == {name, COMMON}


# Other trainings


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"session": "trial/summer"}, "session"),
        ({"role": "telecom"}, "role"),
        ({"participants": ["bank", "retail"]}, "participants"),
        ({"parameters": {**MINE["parameters"], "max_depth": 4}}, "parameters"),
        ({"data": "00" * 32}, "data"),
        ({"data": "00" * 32, "role": "telecom"}, "role and data"),
    ],
)
def test_checkpoints_of_another_training(kept: Checkpoints, changes: dict[str, Any], named: str) -> None:
    """What changed is named, nothing is touched, and no older one is tried."""
    other, before = Checkpoints(kept.folder, {**MINE, **changes}), files(kept.folder)
    for act in (other.newest, lambda: other.load(3)):
        with refused(CheckpointError, "mismatch", "rounds.checkpoint"):
            act()
    assert files(kept.folder) == before
    assert kept.newest() == 3


def test_checkpoints_of_older_rules(tmp_path: Path) -> None:
    """Of a training by XGBoost's rules 3.3, which had no name then, no round is gone on from: the reason is told."""
    kept = Checkpoints(tmp_path / "session" / "checkpoints", MINE)
    kept.save(State(1, trees=(TREE,), evaluation=judged_after(1)))
    before = files(kept.folder)
    now = {**MINE, "parameters": {**MINE["parameters"], "xgboost_rules": "3.4"}}
    other = Checkpoints(kept.folder, now)
    for act in (other.newest, lambda: other.load(1)):
        with refused(CheckpointError, "version", "rounds.checkpoint", "3.3"):
            act()
    assert files(kept.folder) == before
    other.clear()
    assert other.newest() == 0


# Writing that fails


def broken(*arguments: Any, **options: Any) -> Any:
    """Fail as a disk does."""
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("step", ["open", "fsync"])
def test_a_failing_write_leaves_what_was_there(kept: Checkpoints, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever step fails, all old states stay usable, no half file is left, and the error says so."""
    before = files(kept.folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, broken)
        for judged in (False, True):
            with refused(CheckpointError, "file", value=5) as caught:
                kept.save(state(4, judged))
            assert "Input/output error" in str(caught.value)
    assert files(kept.folder) == before
    assert plain(kept.load(3)) == plain(state(3, judged=True))


def test_margins_without_their_round_are_not_left(kept: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they could be written, and the line after them could not."""
    before = files(kept.folder)
    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "append_to_file", broken)
        with refused(CheckpointError, "file", value=5):
            kept.save(state(4, judged=True))
    assert files(kept.folder) == before
    kept.save(state(4, judged=True))
    assert kept.newest() == 4


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond a size."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_that_may_not_grow(kept: Checkpoints) -> None:
    """A write that stops in the middle, as a quota makes it."""
    before = files(kept.folder)
    margins = State(4, False, state(4).trees, replace(judged_after(4), margins=np.zeros((2, 100_000), np.int64)))
    trees = State(4, False, (*state(3).trees, TREE * 2_000))
    for large in (margins, trees):
        with (
            file_size_limit(200_000),
            pytest.raises(CheckpointError, match="File too large; what was there before is unch"),
        ):
            kept.save(large)
        assert files(kept.folder) == before
    kept.save(margins)
    assert kept.newest() == 4


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder on a disk of 256 KB."""
    with small_disk(tmp_path / "disk", "256k") as folder:
        yield folder


def test_a_full_disk(disk: Path) -> None:
    """Old states stay; when there is room again, so does the new one."""
    made = Checkpoints(disk / "state", MINE)
    for rounds in (1, 2):
        made.save(state(rounds, judged=True))
    (disk / "films").write_bytes(bytes(200_000))
    before = files(made.folder)
    margins = State(3, False, state(3).trees, replace(judged_after(3), margins=np.zeros((2, 5_000), np.int64)))
    trees = State(3, False, (*state(2).trees, TREE * 500), judged_after(3))
    for large in (margins, trees) * 2:
        with refused(CheckpointError, "file", value=28):
            made.save(large)
        assert files(made.folder) == before
        assert made.newest() == 2
    (disk / "films").unlink()
    made.save(trees)
    assert made.newest() == 3


def test_a_full_disk_and_a_new_key(disk: Path) -> None:
    """No half key is left; a key that is there already is read though nothing can be written."""
    key = private_key(disk / "old", os.urandom)
    for size in (65536, 4096):
        with suppress(OSError):
            for number in range(100):
                (disk / f"film {size} {number}").write_bytes(bytes(size))
    assert private_key(disk / "old", os.urandom) == key
    with refused(CheckpointError, "file", value=28):
        private_key(disk / "new", os.urandom)
    assert not list(disk.glob("new/*"))


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    """A file where the folder should be is an error with a name."""
    (tmp_path / "file").write_text("")
    with refused(CheckpointError, "file", value=17):
        Checkpoints(tmp_path / "file", MINE)
    with refused(CheckpointError, "file", value=17):
        private_key(tmp_path / "file", os.urandom)


WRITER = """
import numpy as np
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.boosting.callbacks import EvaluationState, State
from mpfedxgb.tree.nodes import Leaf
made = Checkpoints(Path(sys.argv[1]), {"session": "s"})
margins = np.arange(100_000, dtype=np.int64).reshape(1, -1)
tree = (Leaf(None),) * 1_000
trees = []
for rounds in range(1, 1_000_000):
    trees.append(tree)
    judged = EvaluationState(margins + rounds, {"v": {"rmse": [float(rounds)]}}, None, None, (0, 0, 0, 0, rounds))
    made.save(State(rounds, False, trees, judged))
    if rounds == 1:
        print("ready", flush=True)
"""


def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    """However often it is killed in the middle of writing, the rounds before are there, to the last bit."""
    writer = run_program(WRITER, tmp_path / "state")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    for number in range(8):  # stopped at any moment, what a crash would leave can be read
        time.sleep(0.01)
        writer.send_signal(signal.SIGSTOP)
        shutil.copytree(tmp_path / "state", tmp_path / f"crash {number}")
        writer.send_signal(signal.SIGCONT)
    writer.kill()
    writer.communicate()
    for folder in (*tmp_path.glob("crash *"), tmp_path / "state"):
        made = Checkpoints(folder, {"session": "s"})
        newest = made.newest()
        found = made.load(newest)
        assert len(found.trees) == newest
        if newest:
            assert found.evaluation is not None
            assert found.evaluation.margins[0, 0] == newest == found.evaluation.scale[4]
            assert found.evaluation.metrics == {"v": {"rmse": [float(i) for i in range(1, newest + 1)]}}
        made.save(State(newest + 1))
        assert made.newest() == newest + 1
    assert newest > 0


# For people to look at


def test_looking_changes_nothing(tmp_path: Path) -> None:
    """Whoever looks needs not know which training it is, nor the margins; a torn end is left out, and left there."""
    assert read_kept(tmp_path / "none") == State(0)
    checkpoints = Checkpoints(tmp_path / "c", MINE)
    for rounds in (1, 2, 3):
        checkpoints.save(state(rounds, judged=True))
    for path in (tmp_path / "c").glob("margins-*"):
        path.unlink()
    with (tmp_path / "c" / ROUNDS).open("ab") as file:
        file.write(b"torn")
    before = (tmp_path / "c" / ROUNDS).read_bytes()
    seen, last = read_kept(tmp_path / "c"), state(3, judged=True)
    assert seen.evaluation is not None
    assert last.evaluation is not None
    assert (seen.rounds, tuple(seen.trees)) == (3, tuple(last.trees))
    assert seen.evaluation.metrics == last.evaluation.metrics
    assert (tmp_path / "c" / ROUNDS).read_bytes() == before


def test_looking_at_damage(tmp_path: Path) -> None:
    """What is no checkpoint is said to be none."""
    (tmp_path / ROUNDS).write_bytes(b"what is this")
    with refused(CheckpointError, "damaged", "rounds.checkpoint", "beginning"):
        read_kept(tmp_path)
