"""The one writer of files: whole or not at all, private unless told, on the disk, and nothing left behind."""

from __future__ import annotations

import ast
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

import mpfedxgb
from mpfedxgb.atomic import PRIVATE, PUBLIC, append_to_file, cut_file, new_file, rewrite_file, write_file
from support.small_disk import small_disk


def mode(path: Path) -> int:
    """Return a file's permissions."""
    return stat.S_IMODE(path.stat().st_mode)


def contents(folder: Path) -> dict[str, bytes]:
    """Return everything in a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def identity(found: os.stat_result) -> tuple[int, int]:
    """Return what tells a file from all others."""
    return found.st_dev, found.st_ino


def open_descriptors() -> set[tuple[int, int]]:
    """Return which files and folders this process has open."""
    found = set()
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # such as the one that listed them
            found.add(identity(os.fstat(int(name))))
    return found


@contextmanager
def umask(mask: int) -> Iterator[None]:
    """Set this process's umask for a while."""
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


class TestContent:
    """What is in the file afterwards."""

    def test_bytes_and_text(self, tmp_path: Path) -> None:
        """Bytes as they are, text as UTF-8 with its line ends."""
        write_file(tmp_path / "a", b"\x00\xff")
        write_file(tmp_path / "b", "é\r\n\n")
        assert contents(tmp_path) == {"a": b"\x00\xff", "b": b"\xc3\xa9\r\n\n"}

    def test_a_library_writes(self, tmp_path: Path) -> None:
        """Nothing has the name before the block ends, and then all of it has."""
        path = tmp_path / "table.csv"
        write_file(path, "old")
        with new_file(path) as file:
            file.write(b"new ")
            file.flush()
            assert path.read_bytes() == b"old"
            file.write(b"table")
        assert contents(tmp_path) == {"table.csv": b"new table"}

    def test_long_names(self, tmp_path: Path) -> None:
        """A name as long as the file system takes leaves room for the temporary one."""
        for name in ("x" * 255, "é" * 127):
            write_file(tmp_path / name, "long")
            assert (tmp_path / name).read_text() == "long"

    def test_beside_one_that_is_there(self, tmp_path: Path) -> None:
        """Where overwriting is not allowed, the first stays, and the second learns of it."""
        path = tmp_path / "key"
        write_file(path, "first", overwrite=False)
        with pytest.raises(FileExistsError):
            write_file(path, "second", overwrite=False)
        assert contents(tmp_path) == {"key": b"first"}
        assert mode(path) == PRIVATE


class TestModes:
    """Private unless told, whatever the umask is and whatever was there."""

    @pytest.mark.parametrize("mask", [0o000, 0o022, 0o077, 0o277])
    @pytest.mark.parametrize("wanted", [PRIVATE, PUBLIC, 0o640])
    def test_the_umask_has_no_say(self, tmp_path: Path, mask: int, wanted: int) -> None:
        """Neither more nor less than asked for."""
        with umask(mask):
            write_file(tmp_path / "told", "x", wanted)
            write_file(tmp_path / "untold", "x")
        assert mode(tmp_path / "told") == wanted
        assert mode(tmp_path / "untold") == PRIVATE == 0o600

    def test_private_from_the_first_byte(self, tmp_path: Path) -> None:
        """Also a file for everybody is nobody else's until it is whole."""
        with umask(0), new_file(tmp_path / "page", PUBLIC):
            (temporary,) = tmp_path.iterdir()
            assert mode(temporary) == PRIVATE
        assert mode(tmp_path / "page") == PUBLIC == 0o644

    @pytest.mark.parametrize(("before", "after"), [(0o644, PRIVATE), (0o600, PUBLIC), (0o400, PRIVATE)])
    def test_the_new_mode_counts(self, tmp_path: Path, before: int, after: int) -> None:
        """A file that others could read does not hand that on to its successor."""
        (tmp_path / "model").write_text("old")
        (tmp_path / "model").chmod(before)
        write_file(tmp_path / "model", "new", after)
        assert mode(tmp_path / "model") == after


class TestOnTheDisk:
    """What a power failure may not take away."""

    def record(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, object]]:
        """Note what is synchronised and what is renamed, in order; all of it still happens."""
        done: list[tuple[str, object]] = []
        fsync, replace, link = os.fsync, os.replace, os.link

        def noted_fsync(descriptor: int) -> None:
            found = os.fstat(descriptor)
            done.append(("fsync", (found.st_ino, found.st_size if stat.S_ISREG(found.st_mode) else None)))
            fsync(descriptor)

        def noted(name: str, real: Callable[..., None]) -> Callable[..., None]:
            def act(source: Path, target: Path) -> None:
                done.append((name, target))
                real(source, target)

            return act

        monkeypatch.setattr(os, "fsync", noted_fsync)
        monkeypatch.setattr(os, "replace", noted("replace", replace))
        monkeypatch.setattr(os, "link", noted("link", link))
        return done

    @pytest.mark.parametrize("overwrite", [True, False])
    def test_file_then_name_then_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool) -> None:
        """The whole content is on the disk before it gets the name, and the name after that."""
        done, path = self.record(monkeypatch), tmp_path / "model"
        write_file(path, "x" * 100_000, overwrite=overwrite)
        assert done == [
            ("fsync", (path.stat().st_ino, 100_000)),
            ("replace" if overwrite else "link", path),
            ("fsync", (tmp_path.stat().st_ino, None)),
        ]

    @pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP, errno.EIO])
    def test_folders_without_fsync(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
        """A file system that knows no fsync of a folder is no failure; a disk that cannot do it is."""
        fsync = os.fsync

        def refuse(descriptor: int) -> None:
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(number, os.strerror(number))
            fsync(descriptor)

        monkeypatch.setattr(os, "fsync", refuse)
        if number == errno.EIO:
            with pytest.raises(OSError, match="Input/output error"):
                write_file(tmp_path / "model", "new")
        else:
            write_file(tmp_path / "model", "new")
        assert contents(tmp_path) == {"model": b"new"}

    def test_descriptors_are_given_back(self, tmp_path: Path) -> None:
        """Neither a write nor a failure leaves the file or its folder open."""
        path = tmp_path / "x"
        write_file(path, "new")
        with pytest.raises(FileExistsError):
            write_file(path, "new", overwrite=False)
        with pytest.raises(FileNotFoundError):
            write_file(tmp_path / "no" / "x", "new")
        assert not open_descriptors() & {identity(os.stat(found)) for found in (path, tmp_path)}
        with path.open("rb"):  # it would be noticed
            assert identity(os.stat(path)) in open_descriptors()


class TestFailures:
    """What was there stays, and nothing is beside it."""

    @pytest.mark.parametrize("there", [False, True])
    @pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "full"), ValueError("odd"), KeyboardInterrupt()])
    def test_in_the_middle_of_writing(self, tmp_path: Path, error: BaseException, there: bool) -> None:
        """Whoever writes fails or is interrupted after some bytes have reached the disk."""
        path = tmp_path / "model"
        if there:
            write_file(path, "old", PUBLIC)

        def write() -> None:
            with new_file(path) as file:
                file.write(bytes(100_000))
                file.flush()
                raise error

        with pytest.raises(type(error)):
            write()
        assert contents(tmp_path) == ({"model": b"old"} if there else {})
        assert not there or mode(path) == PUBLIC

    @pytest.mark.parametrize("step", ["open", "fchmod", "fsync", "replace"])
    @pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), KeyboardInterrupt()])
    def test_at_every_step(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
    ) -> None:
        """Each call that the operating system may refuse, or a signal may cut short."""
        write_file(tmp_path / "model", "old")

        def broken(*arguments: Any) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(os, step, broken)
            with pytest.raises(type(error)):
                write_file(tmp_path / "model", "new")
        assert contents(tmp_path) == {"model": b"old"}

    @pytest.mark.process
    def test_a_full_disk(self, tmp_path: Path) -> None:
        """What does not fit leaves no half of it, and the room is free again."""
        with small_disk(tmp_path / "disk", "64k") as disk:
            write_file(disk / "model", "old")
            for _ in range(2):
                with pytest.raises(OSError, match="No space left on device"):
                    write_file(disk / "model", bytes(100_000))
                assert contents(disk) == {"model": b"old"}
            write_file(disk / "model", bytes(30_000))

    def test_no_folder(self, tmp_path: Path) -> None:
        """None is made in passing."""
        with pytest.raises(FileNotFoundError):
            write_file(tmp_path / "no" / "model", "new")
        assert not list(tmp_path.iterdir())


class TestNamesThatAreTaken:
    """By something else than a file."""

    def test_a_link_is_replaced(self, tmp_path: Path) -> None:
        """Where it points to stays as it was; a link into nowhere is no different."""
        for target in ("elsewhere", "nowhere"):
            link = tmp_path / f"to {target}"
            link.symlink_to(tmp_path / target)
        (tmp_path / "elsewhere").write_text("of somebody else")
        (tmp_path / "elsewhere").chmod(0o644)
        for target in ("elsewhere", "nowhere"):
            link = tmp_path / f"to {target}"
            write_file(link, "new")
            assert not link.is_symlink()
            assert (link.read_text(), mode(link)) == ("new", PRIVATE)
        assert (tmp_path / "elsewhere").read_text() == "of somebody else"
        assert mode(tmp_path / "elsewhere") == 0o644
        assert not (tmp_path / "nowhere").exists()

    def test_folders_and_devices_are_refused(self, tmp_path: Path) -> None:
        """Renaming a file over a device would take it away from everybody."""
        (tmp_path / "folder").mkdir()
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "out").symlink_to("/dev/null")
        for name in ("folder", "pipe", "out"):
            with pytest.raises(OSError, match="something that is not a file has that name"):
                write_file(tmp_path / name, "new")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "out", "pipe"]


WRITERS = {"write_text", "write_bytes", "to_csv", "to_parquet", "savefig", "replace", "rename", "link", "mkstemp"}
WRITERS |= {"NamedTemporaryFile", "copyfile", "copytree", "move"}


def writing_calls(path: Path) -> list[str]:
    """Return the calls in a module that look as if they wrote a file by themselves."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        called, values = ast.unparse(node.func), [*node.args, *(keyword.value for keyword in node.keywords)]
        name = called.rpartition(".")[2]
        if name == "replace" and called != "os.replace" and (len(node.args) != 1 or node.keywords):
            continue  # of a text, or of a data class
        modes = [value.value for value in values if isinstance(value, ast.Constant)]
        to_write = any(isinstance(m, str) and m.strip("bt+") in ("w", "a", "x") for m in modes)
        if name in WRITERS or (name in ("open", "fdopen") and to_write):
            found.append(called)
    return found


def test_nobody_else_writes() -> None:
    """No module has a way of its own, except where a stream is written: a log, standard output, an open file."""
    root = Path(mpfedxgb.__file__).parent
    experiments = root.parents[1] / "experiments"
    found = {str(path.relative_to(root)): writing_calls(path) for path in sorted(root.rglob("*.py"))}
    found |= {str(path.relative_to(experiments.parent)): writing_calls(path) for path in experiments.rglob("*.py")}
    assert {name: calls for name, calls in found.items() if calls} == {
        "atomic.py": ["open", "os.replace", "os.link"],
        "cli/simulate.py": ["result.to_csv"],  # standard output
        "data/files.py": ["frame.to_parquet", "frame.to_csv"],  # into a new_file
        "experiments/output.py": ["canvas.savefig", "canvas.savefig"],  # into a new_file
        "testing/trial.py": ["log.open"],  # to append to
    }


class TestAppendingAtAPlace:
    """Files that grow piece by piece."""

    def test_pieces_follow_each_other(self, tmp_path: Path) -> None:
        """And go again; the mode stays."""
        path = tmp_path / "a"
        write_file(path, b"one")
        append_to_file(path, b"two" * 100_000, 3)
        append_to_file(path, b"", 300_003)
        assert path.read_bytes() == b"one" + b"two" * 100_000
        cut_file(path, 6)
        append_to_file(path, b"!", 6)
        assert path.read_bytes() == b"onetwo!"
        assert mode(path) == PRIVATE

    def test_writing_over(self, tmp_path: Path) -> None:
        """The same file, the same length; a link, another length or no file is an error, and stays as it is."""
        path = tmp_path / "a"
        write_file(path, b"one")
        before = identity(path.stat())
        rewrite_file(path, b"two")
        assert (path.read_bytes(), identity(path.stat()), mode(path)) == (b"two", before, PRIVATE)
        (tmp_path / "link").symlink_to(path)
        with pytest.raises(OSError, match="another process has written to it"):
            rewrite_file(path, b"three")
        for name in ("link", "none"):
            with pytest.raises(OSError, match=name):
                rewrite_file(tmp_path / name, b"new")
        assert contents(tmp_path) == {"a": b"two", "link": b"two"}

    def test_what_is_not_as_it_was_left(self, tmp_path: Path) -> None:
        """A longer or shorter file, a link, or none is an error, and stays as it is."""
        path = tmp_path / "a"
        write_file(path, b"one")
        (tmp_path / "link").symlink_to(path)
        for length in (0, 2, 4):
            with pytest.raises(OSError, match="another process has written to it"):
                append_to_file(path, b"two", length)
        for name in ("link", "none"):
            with pytest.raises(OSError, match=name):
                append_to_file(tmp_path / name, b"two", 3)
        assert contents(tmp_path) == {"a": b"one", "link": b"one"}

    @pytest.mark.parametrize("error", [OSError(5, "Input/output error"), KeyboardInterrupt()])
    def test_a_failure_leaves_what_was_there(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
    ) -> None:
        """An interruption too; no descriptor stays open."""
        path = tmp_path / "a"
        write_file(path, b"one")

        def fail(descriptor: int) -> None:
            raise error

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", fail)
            with pytest.raises(type(error)):
                append_to_file(path, b"two", 3)
        assert path.read_bytes() == b"one"
        assert identity(path.stat()) not in open_descriptors()
