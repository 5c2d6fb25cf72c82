"""How this package writes a file: whole or not at all, or line by line, chained by digest; for its owner only.

1. A new file beside the old one, with a name of its own, that only its owner can read.
2. Content, then the mode asked for, whatever the umask is; fsync of the file.
3. Rename over the old one, fsync of the folder: from here on a power failure leaves the new file, before it the old.

After a failure up to the rename, an interruption included, what was there before is there, and nothing beside it. Only
a process that is killed outright leaves a temporary file, `.NAME.*.tmp`, which only its owner can read.

Two exceptions carry digests, by which a reader notices what a crash has torn: a file that grows piece by piece
(`append_to_file`), and one of a few bytes that is written over again and again (`rewrite_file`). What several processes
must not write at once they lock (`lock_file`).

Of lines chained by digest a reader notices every one that was changed, torn, moved or taken out. A line is a digest in
hex, a space and a body. The digest is SHA-256 over the digest of the line before and the body, so each stands for all
lines before it. Checkpoints are such a file; a role's record is a row of them (`ChainedFiles`).

Nothing of it is secret. Anyone who can write the files can also compute the digests of another story: the chain shows
accidents and careless edits by itself, and forgeries to those who were given a digest at the time.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import BinaryIO

PRIVATE = 0o600
"""For everything that is nobody else's business: models, predictions, checkpoints, keys, records of a run."""
PUBLIC = 0o644
"""For what is meant for others: certificates, pages, results of experiments."""

SECTOR = 512
"""Bytes that every disk writes at once."""

_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)


def write_file(path: Path, content: bytes | str, mode: int = PRIVATE, overwrite: bool = True) -> None:
    """Write a file, text as UTF-8 (see `new_file`)."""
    with new_file(path, mode, overwrite) as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def new_file(path: Path, mode: int = PRIVATE, overwrite: bool = True) -> Iterator[BinaryIO]:
    """Open a file for a library to write into; it gets its name when the block ends, and goes if the block fails.

    Parameters
    ----------
    path : Path
        In a folder that exists. A link of that name is replaced, not followed: nobody who can place a link decides
        where this process writes. A folder or a device of that name is refused.
    mode : int
        The file's permissions, also where it replaces one that had others.
    overwrite : bool
        Whether a file that is there is replaced; otherwise it is a FileExistsError.

    Raises
    ------
    OSError
        As the operating system has it; callers say what could not be written, and what to do.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "something that is not a file has that name", str(path))
    temporary = path.parent / f".{path.name[:40]}.{uuid.uuid4().hex[:16]}.tmp"
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE), "wb") as file:
            yield file
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        if overwrite:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)
        _sync_folder(folder)
    finally:
        with suppress(OSError):
            os.unlink(temporary)
        os.close(folder)


def append_to_file(path: Path, content: bytes, length: int) -> None:
    """Write content after the first `length` bytes of a file, to the disk; after a failure the file ends there again.

    Raises OSError also where the file is a link, or is not as long as it should be: then somebody else has written to
    it. Only where the process or the machine dies on the way, part of the content may be there.
    """
    with _open_to_change(path) as file:
        if file.seek(0, os.SEEK_END) != length:
            raise OSError(errno.EBUSY, "another process has written to it", str(path))
        try:
            _write_all(file, content)
        except BaseException:
            with suppress(OSError):
                file.truncate(length)
                os.fsync(file.fileno())
            raise


def rewrite_file(path: Path, content: bytes) -> None:
    """Write over a file of the same length, in place, to the disk, for less than a new file costs.

    For content that a disk writes at once or not at all, as it does with some hundred bytes at the beginning of a file;
    and a reader has to notice if one did not. Raises OSError, also if the file is a link or has another length.
    """
    assert len(content) <= SECTOR, "more may be torn"
    with _open_to_change(path) as file:
        if file.seek(0, os.SEEK_END) != len(content):
            raise OSError(errno.EBUSY, "another process has written to it", str(path))
        file.seek(0)
        _write_all(file, content)


def cut_file(path: Path, length: int) -> None:
    """Leave only the first `length` bytes of a file, and that on the disk."""
    with _open_to_change(path) as file:
        file.truncate(length)
        os.fsync(file.fileno())


def _open_to_change(path: Path) -> FileIO:
    return open(os.open(path, os.O_RDWR | os.O_NOFOLLOW), "r+b", buffering=0)


def _write_all(file: FileIO, content: bytes) -> None:
    left = memoryview(content)
    while left:  # a disk may take less than it is given
        left = left[file.write(left) :]
    os.fsync(file.fileno())


def _sync_folder(folder: int) -> None:
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:  # some network file systems know no such thing
            raise


def lock_file(file: int, waits: bool = False) -> None:
    """Lock an open file for as long as this process has it open.

    Raises OSError if that cannot be, and a BlockingIOError, unless it `waits`, while another process has the lock.
    """
    try:
        import fcntl  # not on every system
    except ImportError:
        raise OSError(errno.ENOLCK, "this system has no fcntl.flock, by which a file is locked") from None
    fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))


HEX = 64
"""Characters of a digest."""

MOST_BYTES = 8 << 20
"""Of one file of several."""

_DIGEST = re.compile(rb"[0-9a-f]{64}")
_log = logging.getLogger("mpfedxgb.atomic")


def chain_start(content: bytes) -> bytes:
    """Return the digest that a chain begins with."""
    return hashlib.sha256(content).hexdigest().encode()


def chained(before: bytes, body: bytes) -> bytes:
    """Return a line: the digest of its body and of all before it, and the body."""
    return hashlib.sha256(before + body).hexdigest().encode() + b" " + body + b"\n"


def whole_lines(content: bytes, digest: bytes, start: int = 0) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield body, digest and end of every line whose digest is right, up to the first that is not."""
    while (end := content.find(b"\n", start)) >= 0:
        body = content[start + HEX + 1 : end]
        line = chained(digest, body)
        if line != content[start : end + 1]:
            return
        digest, start = line[:HEX], end + 1
        yield body, digest, start


def read_alone(content: bytes, start: bytes) -> bytes:
    """Return the body of a file of one line; raises ValueError for anything else."""
    found = list(whole_lines(content, start))
    if len(found) != 1 or found[0][2] != len(content):
        raise ValueError("not one whole line")
    return found[0][0]


@dataclass(frozen=True, slots=True)
class Found:
    """What chained files hold: places and bodies of whole lines, places of others, and what is wrong with the chain."""

    lines: tuple[tuple[str, bytes], ...]
    damaged: tuple[str, ...]
    problems: tuple[str, ...]
    files: int
    digest: str
    """Of the last line."""


@dataclass(frozen=True, slots=True)
class _End:
    """The newest file: its number, its length up to its last whole line, and that line's digest."""

    number: int
    length: int
    digest: bytes


class ChainedFiles:
    """A chain over files STEM-0001.chain, STEM-0002.chain and so on, of which the newest is added to.

    The first line of each says which file it is and which digest it continues. STEM.last holds the digest of the last
    line: without it nobody could tell that lines are missing at the end.

    Parameters
    ----------
    folder : Path
        Where the files are; made by the caller.
    stem : str
        What their names begin with.
    predecessor : Path or None
        A file from before there was a chain, which its digest continues.
    most_bytes : int
        A line that would make a file longer begins the next one.
    """

    def __init__(self, folder: Path, stem: str, predecessor: Path | None = None, most_bytes: int = MOST_BYTES) -> None:
        self._folder, self._stem, self._predecessor, self._most_bytes = folder, stem, predecessor, most_bytes
        self.start = chain_start(f"mpfedxgb {stem}\n".encode())
        self._last_path = folder / f"{stem}.last"
        self._end: _End | None = None

    def path(self, number: int) -> Path:
        """Return where a file is."""
        return self._folder / f"{self._stem}-{number:04}.chain"

    def numbers(self) -> list[int]:
        """Return which files are there."""
        found = (path.stem.removeprefix(f"{self._stem}-") for path in self._folder.glob(f"{self._stem}-*.chain"))
        return sorted(int(number) for number in found if number.isdecimal())

    def append(self, body: bytes) -> None:
        """Add a line; when this returns, it is on the disk. After a failure what was there before is unchanged.

        Two processes may do so at a time. Raises OSError; also if a name is that of a link, which is not followed.
        """
        assert b"\n" not in body, "one line"
        while True:
            numbers = self.numbers()
            if not numbers:
                try:
                    self._begin(1, self._before_the_first(), body)
                except FileExistsError:  # another process was faster
                    continue
                return
            with self._locked(self.path(numbers[-1])):
                if self.numbers()[-1] == numbers[-1]:
                    self._append(numbers[-1], body)
                    return

    def _append(self, number: int, body: bytes) -> None:
        path = self.path(number)
        size = path.stat().st_size
        end = self._end
        if end is None or (end.number, end.length) != (number, size):
            end = self._find_end(number, path.read_bytes())
        line = chained(end.digest, body)
        if end.number > number or end.length + len(line) > self._most_bytes:
            self._begin(number + 1, end.digest, body)
            return
        append_to_file(path, line, end.length)
        self._remember(_End(number, end.length + len(line), line[:HEX]))

    def _find_end(self, number: int, content: bytes) -> _End:
        """Return where to go on; after a damage, which stays as it is for people to look at, in the next file."""
        continued = _continued(content) or b""
        lines = list(whole_lines(content, continued))
        digests = {continued, *(digest for _, digest, _ in lines)}
        last = self._read_last()
        is_known = last is None or last in digests or self._is_in_older_files(last, number)
        length = lines[-1][2] if lines else 0
        if not lines or not is_known or b"\n" in content[length:]:
            _log.warning("%s is damaged and stays as it is; the next file goes on", self.path(number))
            return _End(number + 1, 0, last or (lines[-1][1] if lines else self.start))
        if length < len(content):  # never acknowledged, or STEM.last would name it
            cut_file(self.path(number), length)
            _log.warning("%s ended with %d bytes of a torn line", self.path(number), len(content) - length)
        return _End(number, length, lines[-1][1])

    def _is_in_older_files(self, digest: bytes, number: int) -> bool:
        """Return whether STEM.last was not written for a while, as where a disk had room for lines only."""
        return any(digest in self.path(older).read_bytes() for older in self.numbers() if older < number)

    def _begin(self, number: int, before: bytes, body: bytes) -> None:
        """Write the next file, with its first line and another one."""
        head = chained(before, json.dumps({"file": number, "continues": before.decode()}).encode())
        content = head + chained(head[:HEX], body)
        write_file(self.path(number), content, overwrite=False)
        self._remember(_End(number, len(content), content[len(head) : len(head) + HEX]))

    def _remember(self, end: _End) -> None:
        self._end = end
        content = chained(self.start, end.digest)
        try:
            rewrite_file(self._last_path, content)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.EBUSY, errno.ELOOP):
                raise
            write_file(self._last_path, content)  # it was not there, or was not what it should have been

    def _read_last(self) -> bytes | None:
        """Return the digest that STEM.last names; None if there is none to trust."""
        with suppress(OSError, ValueError):
            return read_alone(self._last_path.read_bytes(), self.start)
        return None

    def _before_the_first(self) -> bytes:
        """Return what the first file continues: the digest of what was there before, if anything was."""
        if self._predecessor is not None and self._predecessor.is_file():
            return chain_start(self._predecessor.read_bytes())
        return self.start

    @contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                raise OSError(errno.EEXIST, "something that is not a file has that name", str(path))
            with suppress(OSError):  # some network file systems know no locks; then there is one process at a time
                lock_file(file, waits=True)
            yield
        finally:
            os.close(file)  # and the lock goes with it

    def read(self) -> Found:
        """Return all lines, and what is wrong with them, which may pass if a role is writing. Raises OSError."""
        last = self._read_last()  # first: a role that runs may add lines meanwhile
        reader = _Reader(self._before_the_first())
        numbers = self.numbers()
        for number in numbers:
            path, before = self.path(number), self.path(number - 1)
            if number > 1 and number - 1 not in numbers:
                reader.problems.append(f"{path.name} is there, and {before.name} before it is missing")
            reader.read(path.name, path.read_bytes(), number)
        if numbers and last is None:
            reader.problems.append(f"{self._last_path.name} is missing or damaged: lines may be missing at the end")
        elif last is not None and last not in reader.digests:
            reader.problems.append(f"lines are missing at the end: the last one was {last.decode()}")
        return Found(
            tuple(reader.lines), tuple(reader.damaged), tuple(reader.problems), len(numbers), reader.digest.decode()
        )


class _Reader:
    """Goes through files in their order; after a line that does not fit, goes on from the digest that it claims."""

    def __init__(self, start: bytes) -> None:
        self.digest = start
        self.digests: set[bytes] = set()
        self.lines: list[tuple[str, bytes]] = []
        self.damaged: list[str] = []
        self.problems: list[str] = []

    def read(self, name: str, content: bytes, number: int) -> None:
        """Take a file in."""
        claimed = _continued(content)
        if claimed is not None and claimed != self.digest:
            self.problems.append(f"{name} does not continue what is before it: that was changed, or is not all there")
            self.digest = claimed
        *whole, torn = content.split(b"\n")
        for count, line in enumerate(whole, start=1):
            self._take(f"{name}:{count}", line, is_head=count == 1, number=number)
        if torn or not whole:
            self._refuse(f"{name}:{len(whole) + 1}", "is torn: a crash or a full disk has cut it short")

    def _take(self, place: str, line: bytes, is_head: bool, number: int) -> None:
        body = line[HEX + 1 :]
        fits = chained(self.digest, body) == line + b"\n"
        if is_head and fits:
            fits = _head(body) == (number, self.digest)
        if not fits:
            self._refuse(place, "does not fit the lines before it: it was changed, or lines were removed or added")
        elif not is_head:
            self.lines.append((place, body))
        if _DIGEST.fullmatch(line[:HEX]):
            self.digest = line[:HEX]
            if fits:
                self.digests.add(self.digest)

    def _refuse(self, place: str, why: str) -> None:
        self.damaged.append(place)
        self.problems.append(f"{place} {why}")


def _continued(content: bytes) -> bytes | None:
    """Return the digest that a file says it continues; None if its first line says none."""
    found = _head(content.partition(b"\n")[0][HEX + 1 :])
    return None if found is None else found[1]


def _head(body: bytes) -> tuple[int, bytes] | None:
    try:
        found = json.loads(body)
        number, digest = found["file"], found["continues"].encode()
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return (number, digest) if type(number) is int and _DIGEST.fullmatch(digest) else None
