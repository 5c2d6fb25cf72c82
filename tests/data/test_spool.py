"""A spool is its owner's alone, is gone at the end whatever happens, and takes its room before anything is sent."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mpfedxgb.config import Resources
from mpfedxgb.data import spool
from mpfedxgb.data.spool import Spool, check_spool
from mpfedxgb.errors import NoRoomError, public_reason
from mpfedxgb.protocols.storage import Storage
from support.refusals import ANY, refused
from support.small_disk import small_disk

WORDS = np.arange(24, dtype=np.uint64).reshape(4, 6)

CHILD = """
import sys, time
from pathlib import Path
from mpfedxgb.data.spool import Spool
spool = Spool(Path(sys.argv[1]), 4096)
print("made", flush=True)
sys.stdin.read()
"""


def child(folder: Path) -> subprocess.Popen[bytes]:
    """Return another process that has made a spool and waits."""
    command = [sys.executable, "-c", CHILD, str(folder)]
    made = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 # our own
    assert made.stdout is not None
    assert made.stdout.readline() == b"made\n"
    return made


def end(process: subprocess.Popen[bytes], how: int = signal.SIGKILL) -> None:
    """End a process."""
    process.send_signal(how)
    process.communicate()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """In any order, at any place; what is read cannot be changed."""
    made = Spool(tmp_path, 1000 * 8)
    made.write(8 * 500, WORDS)
    made.write(0, WORDS[:1])

    np.testing.assert_array_equal(made.read(8 * 500, (4, 6)), WORDS, strict=True)
    np.testing.assert_array_equal(made.read(8 * 502, (1, 3)), [[2, 3, 4]])
    np.testing.assert_array_equal(made.read(0, (1, 6)), WORDS[:1])
    assert not made.read(0, (4, 6)).flags.writeable
    assert repr(made) == "Spool(8000 bytes)"
    made.close()


def test_only_its_owner_can_read_it_and_it_is_gone_at_the_end(tmp_path: Path) -> None:
    """A folder of mode 700 with a file of mode 600, whatever the umask; nothing of them once it is closed."""
    before = os.umask(0)
    try:
        made = Spool(tmp_path, 4096)
    finally:
        os.umask(before)
    (folder,) = tmp_path.iterdir()
    (file,) = folder.iterdir()
    view = made.read(0, (1, 6))

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.stat().st_size == 4096
    made.close()
    made.close()
    assert list(tmp_path.iterdir()) == []
    assert view.sum() == 0  # whoever still looks at it can


def test_an_empty_spool(tmp_path: Path) -> None:
    """No bytes are no trouble."""
    made = Spool(tmp_path, 0)
    assert made.read(0, (0, 5)).shape == (0, 5)
    made.close()


def test_the_next_start_deletes_what_a_killed_process_left_and_nothing_else(tmp_path: Path) -> None:
    """After SIGKILL a spool stays until somebody begins another; one that is in use stays, and so do other files."""
    (tmp_path / "other").mkdir()
    (tmp_path / "mpfedxgb-spool-notes").write_text("not a spool")
    alive, dead = child(tmp_path), child(tmp_path)
    end(dead)
    left = {path.name for path in tmp_path.iterdir()}
    mine = Spool(tmp_path, 8)
    later = {path.name for path in tmp_path.iterdir()}

    assert len(left) == 4
    assert len(later & left) == 3
    assert len(later) == 4
    mine.close()
    end(alive)
    Spool(tmp_path, 8).close()
    assert {path.name for path in tmp_path.iterdir()} == {"other", "mpfedxgb-spool-notes"}


def test_a_start_that_needs_no_spool_tidies_up_too(tmp_path: Path) -> None:
    """What a killed process left is gone after any run that names the folder; who is alive keeps its own."""
    alive, dead = child(tmp_path), child(tmp_path)
    end(dead)
    with Storage(Resources(spool=tmp_path)):
        assert len(list(tmp_path.iterdir())) == 1
    end(alive)
    with Storage(Resources(spool=tmp_path)), Storage(Resources(spool=tmp_path / "missing")):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("how", [signal.SIGINT, None])
def test_a_process_that_ends_by_itself_leaves_nothing(tmp_path: Path, how: int | None) -> None:
    """Also one that forgot to close it, or that somebody interrupted."""
    process = child(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1
    if how is not None:
        process.send_signal(how)
    process.communicate()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_has_to_be_there(tmp_path: Path) -> None:
    """A missing folder, and a file in its place, are named with the remedy; others are not told where it is."""
    (tmp_path / "file").write_text("")
    for name in ("missing", "file"):
        with refused(NoRoomError, "missing", name) as caught:
            Spool(tmp_path / name, 8)
        assert str(tmp_path) in str(caught.value)
        assert public_reason(caught.value) == "a spool cannot be made"


def test_a_folder_has_to_take_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that cannot be written to is refused (root may write anywhere, so the answer is the system's, given here)."""
    monkeypatch.setattr(os, "access", lambda *args: False)
    with refused(NoRoomError, "file", ANY, "write"):
        check_spool(tmp_path, 8)


def test_a_disk_that_is_too_small_is_refused_with_figures(tmp_path: Path) -> None:
    """Before anything is made."""
    with refused(NoRoomError, "room", ANY, 1000000000000000000) as caught:
        Spool(tmp_path, 10**18)
    assert public_reason(caught.value) == "a spool needs 1000000000.00 GB of disk"
    assert list(tmp_path.iterdir()) == []


def test_the_room_is_taken_at_once(tmp_path: Path) -> None:
    """Two spools that fit one after the other do not fit together: the second one is refused when it is made."""
    with small_disk(tmp_path / "disk", "1m") as folder:
        first = Spool(folder, 700_000)
        with refused(NoRoomError, "room", "disk", 700000):
            Spool(folder, 700_000)
        first.close()
        Spool(folder, 700_000).close()
        assert list(folder.iterdir()) == []


def test_a_disk_that_fills_up_behind_the_check_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever takes the last room between looking and taking is no reason for half-made files."""
    with small_disk(tmp_path / "disk", "100k") as folder:
        monkeypatch.setattr(spool, "check_spool", lambda folder, octets: None)
        with refused(NoRoomError, "room", "disk", 700000):
            Spool(folder, 700_000)
        assert list(folder.iterdir()) == []


def test_a_write_that_fails_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some disks fail though the room was taken."""

    def fail(*args: object) -> int:
        raise OSError(5, "Input/output error")

    made = Spool(tmp_path, 4096)
    monkeypatch.setattr(os, "pwrite", fail)
    with refused(NoRoomError, "file", "spool"):
        made.write(0, WORDS)
    made.close()


def test_a_folder_that_others_keep_locked_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for ever."""
    monkeypatch.setattr(spool, "_PATIENCE", 0.05)
    with spool._alone(tmp_path), refused(NoRoomError, "busy", ANY):
        Spool(tmp_path, 8)


def test_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A system without fcntl has no spools, and says so by name; nothing is left."""
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with refused(NoRoomError, "file", ANY, "lock"):
        Spool(tmp_path, 8)
    assert not list(tmp_path.iterdir())
