"""Checkpoints: whole or not at all, never of another training, and never with anything that hides a value."""

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

from mpfedxgb.boosting.checkpoint import (
    KEPT,
    MAGIC,
    Checkpoints,
    EvaluationState,
    State,
    forget_private_key,
    private_key,
)
from mpfedxgb.errors import CheckpointError
from mpfedxgb.tree import Dummy, Leaf, Split, Tree
from support.loopback import run_program
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


def state(rounds: int, judged: bool = False) -> State:
    """Return some state."""
    return State(rounds, False, (TREE,) * rounds, JUDGED if judged else None)


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
        State(1, True, (), replace(JUDGED, best_iteration=None, best_value=None, metrics={})),
        State(1, False, (), replace(JUDGED, margins=np.zeros((1, 0), np.int64))),
    ],
)
def test_what_is_saved_is_loaded(tmp_path: Path, one: State) -> None:
    """Every number to the last bit, at every kind of role; also by another process of the same role."""
    Checkpoints(tmp_path, MINE).save(one)
    again = Checkpoints(tmp_path, json.loads(json.dumps(MINE)))
    assert again.newest() == one.rounds
    assert plain(again.load(one.rounds)) == plain(one)


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
    (only,) = (tmp_path / "a" / "b").iterdir()
    assert stat.S_IMODE(only.stat().st_mode) == 0o600


def test_the_last_few_are_kept(tmp_path: Path) -> None:
    """Older ones go as new ones come."""
    made = Checkpoints(tmp_path, MINE)
    for rounds in range(1, 13):
        made.save(state(rounds))
        assert sorted(files(tmp_path)) == [f"{n:06}.checkpoint" for n in range(max(1, rounds - KEPT + 1), rounds + 1)]
    assert made.newest() == 12


def test_going_back_forgets_what_came_later(kept: Checkpoints) -> None:
    """Rounds beyond the one that all roles have are made again; their old states must not meet new ones."""
    assert kept.load(2).rounds == 2
    assert kept.newest() == 2
    kept.load(0)
    assert kept.newest() == 0
    assert files(kept.folder) == {}


def test_a_round_that_is_made_again_replaces_the_old_one(kept: Checkpoints) -> None:
    """And those beyond it, at a role that never loads."""
    kept.save(State(2, True))
    assert kept.newest() == 2
    assert kept.load(2).finished


def test_clearing(kept: Checkpoints) -> None:
    """Everything is forgotten, and nothing else in the folder is touched."""
    (kept.folder / "notes.txt").write_text("mine")
    kept.clear()
    assert kept.newest() == 0
    assert sorted(files(kept.folder)) == ["notes.txt"]


def test_a_round_that_is_not_there(kept: Checkpoints) -> None:
    """Who was asked for a round that it does not have says so, and what to do."""
    with pytest.raises(CheckpointError, match=r"the others are 7 rounds ahead and .* is not there; remove all roles'"):
        kept.load(7)


# What is in it


def test_a_checkpoint_holds_what_the_role_keeps_anyway(tmp_path: Path) -> None:
    """Trees; at the active participant margins, metrics and scale. No mask, no masked value, no E has a place in it."""
    made = Checkpoints(tmp_path, MINE)
    for rounds, judged in ((1, False), (2, True)):
        made.save(state(rounds, judged))
        content = (tmp_path / f"{rounds:06}.checkpoint").read_bytes()
        assert content.startswith(MAGIC)
        line, rest = content[len(MAGIC) : -32].split(b"\n", 1)
        mine = {"belongs_to", "rounds", "finished", "trees"}
        assert set(json.loads(line)) == (mine | {"margins", "metrics", "best", "scale"} if judged else mine)
        assert rest == (JUDGED.margins.tobytes() if judged else b"")
        assert json.loads(line)["belongs_to"] == MINE


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


def forged(content: dict[str, Any] | list[Any] | bytes, rest: bytes = b"") -> bytes:
    """Return a file whose digest is right but whose content is not."""
    line = content if isinstance(content, bytes) else json.dumps(content).encode()
    body = MAGIC + line + b"\n" + rest
    return body + hashlib.sha256(body).digest()


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda c: b"",
    "one byte": lambda c: c[:1],
    "magic only": lambda c: c[: len(MAGIC)],
    "cut in the middle": lambda c: c[: len(c) // 2],
    "last byte missing": lambda c: c[:-1],
    "digest missing": lambda c: c[:-32],
    "one byte more": lambda c: c + b"\0",
    **{f"bit flipped at {p}": lambda c, p=p: flip(c, p) for p in (0.0, 0.05, 0.3, 0.6, 0.95, 1.0)},  # type: ignore[misc]
    "zeros": lambda c: bytes(len(c)),
    "garbage": lambda c: bytes(range(256)) * 9,
    "text": lambda c: b"this was a checkpoint\n" * 50,
    "another version": lambda c: c.replace(b"checkpoint 1\n", b"checkpoint 2\n", 1),
    "forged: no JSON": lambda c: forged(b"not json"),
    "forged: no object": lambda c: forged([1, 2]),
    "forged: nothing in it": lambda c: forged({}),
    "forged: no trees": lambda c: forged({"belongs_to": MINE, "rounds": 3, "finished": False}),
    "forged: no such node": lambda c: forged({"belongs_to": MINE, "rounds": 3, "finished": False, "trees": [[{}]]}),
    "forged: margins": lambda c: forged(
        {"belongs_to": MINE, "rounds": 3, "finished": False, "trees": [], "margins": [2, 2], "metrics": {}}, bytes(7)
    ),
    "forged: deep": lambda c: forged(b"[" * 200_000),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_falls_back_to_an_older_one(kept: Checkpoints, damage: str, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning that names the file; the damaged one goes when the training goes on."""
    path = kept.folder / "000003.checkpoint"
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    with caplog.at_level(logging.WARNING, "mpfedxgb.checkpoint"):
        assert kept.newest() == 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"the checkpoint {path} is damaged" in caplog.text
    assert plain(kept.load(2)) == plain(state(2, judged=True))
    assert not path.exists()
    kept.save(state(3))
    assert kept.newest() == 3


@pytest.mark.parametrize("damage", ["empty", "cut in the middle", "garbage", "bit flipped at 0.3"])
def test_damage_to_all_is_an_error(kept: Checkpoints, damage: str) -> None:
    """Nothing is begun from the start without being told to; the message names file and folder, and nothing is lost."""
    for path in kept.folder.iterdir():
        path.write_bytes(DAMAGE[damage](path.read_bytes()))
    before = files(kept.folder)
    with pytest.raises(CheckpointError, match=r"is damaged; no older one can be used\. Remove the folder .* to begin"):
        kept.newest()
    assert files(kept.folder) == before


def test_a_file_under_another_name_is_damage(kept: Checkpoints) -> None:
    """The state of one round does not pass for another's."""
    shutil.copy(kept.folder / "000002.checkpoint", kept.folder / "000005.checkpoint")
    assert kept.newest() == 3
    with pytest.raises(CheckpointError, match="it holds 2 rounds"):
        kept.load(5)


@pytest.mark.parametrize("name", ["x.checkpoint", "-1.checkpoint", "3.tmp", "000009.checkpoint.tmp", "private.key"])
def test_other_files_do_not_count(kept: Checkpoints, name: str) -> None:
    """Whatever else lies in the folder, such as what a killed process left behind."""
    (kept.folder / name).write_bytes(b"x")
    assert kept.newest() == 3


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
        with pytest.raises(CheckpointError, match=f"is of another training: {named} changed since. Choose another"):
            act()
    assert files(kept.folder) == before
    assert kept.newest() == 3


# Writing that fails


def broken(*arguments: Any, **options: Any) -> Any:
    """Fail as a disk does."""
    raise OSError(5, "Input/output error")


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_a_failing_write_leaves_what_was_there(kept: Checkpoints, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever step fails, all old states stay usable, no half file is left, and the error says so."""
    before = files(kept.folder)
    with monkeypatch.context() as patched:
        patched.setattr(os, step, broken)
        for rounds in (3, 4):
            with pytest.raises(
                CheckpointError, match=f"cannot write the checkpoint .*{rounds:06}.* unchanged"
            ) as caught:
                kept.save(state(rounds))
            assert "Input/output error" in str(caught.value)
    assert files(kept.folder) == before
    assert plain(kept.load(3)) == plain(state(3, judged=True))


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
    large = State(4, False, (), replace(JUDGED, margins=np.zeros((2, 100_000), np.int64)))
    with (
        file_size_limit(200_000),
        pytest.raises(CheckpointError, match="File too large; what was there before is unch"),
    ):
        kept.save(large)
    assert files(kept.folder) == before
    kept.save(large)
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
    large = State(3, False, (), replace(JUDGED, margins=np.zeros((2, 5_000), np.int64)))
    for _ in range(2):
        with pytest.raises(CheckpointError, match=r"cannot write .*000003.*: No space left on device; what was there"):
            made.save(large)
        assert files(made.folder) == before
        assert made.newest() == 2
    (disk / "films").unlink()
    made.save(large)
    assert made.newest() == 3


def test_a_full_disk_and_a_new_key(disk: Path) -> None:
    """No half key is left; a key that is there already is read though nothing can be written."""
    key = private_key(disk / "old", os.urandom)
    for size in (65536, 4096):
        with suppress(OSError):
            for number in range(100):
                (disk / f"film {size} {number}").write_bytes(bytes(size))
    assert private_key(disk / "old", os.urandom) == key
    with pytest.raises(CheckpointError, match=r"cannot keep the private key .*No space left on device"):
        private_key(disk / "new", os.urandom)
    assert not list(disk.glob("new/*"))


def test_folders_that_cannot_be(tmp_path: Path) -> None:
    """A file where the folder should be is an error with a name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"cannot make the folder .*file: File exists"):
        Checkpoints(tmp_path / "file", MINE)
    with pytest.raises(CheckpointError, match=r"cannot keep the private key .*File exists"):
        private_key(tmp_path / "file", os.urandom)


WRITER = """
import numpy as np
from mpfedxgb.boosting.checkpoint import Checkpoints, EvaluationState, State
made = Checkpoints(Path(sys.argv[1]), {"session": "s"})
margins = np.arange(200_000, dtype=np.int64).reshape(1, -1)
print("ready", flush=True)
for rounds in range(1, 1_000_000):
    made.save(State(rounds, False, (), EvaluationState(margins + rounds, {}, None, None, (0, 0, 0, 0, rounds))))
"""


def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    """However often it is killed in the middle of writing, every file under its name is whole."""
    writer = run_program(WRITER, tmp_path / "state")
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    made = Checkpoints(tmp_path / "state", {"session": "s"})
    for _ in range(20):  # stopped at any moment, what is there can be read
        time.sleep(0.01)
        writer.send_signal(signal.SIGSTOP)
        for path in made.folder.glob("*.checkpoint"):
            found = made._read(int(path.stem))
            assert found.evaluation is not None
            assert found.evaluation.margins[0, 0] == found.rounds == found.evaluation.scale[4]
        writer.send_signal(signal.SIGCONT)
    writer.kill()
    writer.communicate()
    newest = made.newest()
    assert newest > 0
    (made.folder / f"{newest + 1:06}.tmp").write_bytes(b"half")
    made.save(State(newest + 1))
    assert made.newest() == newest + 1


# The private key


def test_the_private_key_is_made_once(tmp_path: Path) -> None:
    """It stays the same, and its file is for its owner only."""
    folder = tmp_path / "session"
    key = private_key(folder, os.urandom)
    assert len(key) == 32
    assert [private_key(folder, os.urandom) for _ in range(3)] == [key] * 3
    assert private_key(tmp_path / "another", os.urandom) != key
    (path,) = folder.iterdir()
    assert path.read_text() == key.hex()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_of_two_who_make_a_key_one_wins(tmp_path: Path) -> None:
    """Both go on with the key that is in the file."""
    inner: list[bytes] = []

    def make(count: int) -> bytes:
        inner.append(private_key(tmp_path, os.urandom))  # somebody else was faster
        return b"x" * count

    assert private_key(tmp_path, make) == inner[0] != b"x" * 32
    assert [path.name for path in tmp_path.iterdir()] == ["private.key"]


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"00" * 33, b"0" * 63, b"zz" * 32, b"\xff" * 64, bytes(32)])
def test_a_damaged_private_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """It is not replaced: the choices of earlier rounds would not fit later ones. The text does not quote it."""
    (tmp_path / "private.key").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"private\.key is damaged; put a copy back, or remove the fo") as caught:
        private_key(tmp_path, os.urandom)
    assert (tmp_path / "private.key").read_bytes() == content
    assert "zz" not in str(caught.value)


def test_a_forgotten_private_key_is_made_anew(tmp_path: Path) -> None:
    """For a training that begins again: its parts must not pass for parts of the last one."""
    key = private_key(tmp_path, os.urandom)
    forget_private_key(tmp_path)
    forget_private_key(tmp_path)
    assert private_key(tmp_path, os.urandom) != key
