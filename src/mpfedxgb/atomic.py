"""How this package writes a file: whole or not at all, for its owner only, and safe on the disk; and how it appends.

1. A new file beside the old one, with a name of its own, that only its owner can read.
2. Content, then the mode asked for, whatever the umask is; fsync of the file.
3. Rename over the old one, fsync of the folder: from here on a power failure leaves the new file, before it the old.

After a failure up to the rename, an interruption included, what was there before is there, and nothing beside it. Only
a process that is killed outright leaves a temporary file, `.NAME.*.tmp`, which only its owner can read.

Two exceptions carry digests, by which a reader notices what a crash has torn: a file that grows piece by piece
(`append_to_file`), and one of a few bytes that is written over again and again (`rewrite_file`). What several processes
must not write at once they lock (`lock_file`).
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
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

    Raises OSError where that cannot be, and a BlockingIOError, unless it `waits`, while another process has the lock.
    """
    try:
        import fcntl  # not on every system
    except ImportError:
        raise OSError(errno.ENOLCK, "this system has no fcntl.flock, by which a file is locked") from None
    fcntl.flock(file, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
