"""A large file for the time of one run, written piece by piece and read through a memory map.

It lies in a folder of its own, which only its owner can enter, below the one that the settings name. The process that
made it holds a lock on the file as long as it lives; the system takes the lock away from a dead one, however it died.
So the next process can tell what was left behind, and deletes it; and nobody deletes what is in use. Beginning and
deleting happen under a lock of the named folder, so that no new file is taken for an old one.
"""

from __future__ import annotations

import contextlib
import logging
import mmap
import os
import shutil
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import lock_file
from mpfedxgb.errors import NoRoomError, is_full_disk
from mpfedxgb.units import bytes_text

_PREFIX = "mpfedxgb-spool-"
_FILE = "E"
_NONE = "a spool cannot be made"
_PATIENCE = 60.0
"""Seconds to wait while other processes make or delete spools in the same folder."""

_PAUSE = 0.02
_log = logging.getLogger("mpfedxgb.spool")


def check_spool(folder: Path, octets: int) -> None:
    """Raise NoRoomError, with the figures, unless a spool of `octets` bytes can be made in a folder. Makes nothing."""
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise NoRoomError(
            _NONE, f": the folder {folder} {what}; make it, or name another one", code="missing", parameter=folder.name
        )
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise NoRoomError(
            _NONE,
            f": the folder {folder} cannot be written to; allow it, or name another one",
            code="file",
            parameter=folder.name,
            value="write",
        )
    free = shutil.disk_usage(folder).free
    if octets > free:
        raise _full(folder, octets, free)


class Spool:
    """A file of `octets` bytes, gone when it is closed; at the latest when the process ends."""

    def __init__(self, folder: Path, octets: int) -> None:
        self.octets = octets
        self._map: mmap.mmap | bytes = b""
        with _alone(folder):
            _delete_stale(folder)
            check_spool(folder, octets)
            self._place = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=folder))  # mode 700
            self._gone = weakref.finalize(self, shutil.rmtree, self._place, ignore_errors=True)
            self._file = os.open(self._place / _FILE, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            _lock(self._file, folder)
        try:
            self._take(folder)
        except BaseException:
            self.close()
            raise

    def _take(self, folder: Path) -> None:
        """Take the whole room now, so that a full disk is noticed before anybody sends anything."""
        try:
            os.truncate(self._file, self.octets)
            if self.octets and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(self._file, 0, self.octets)
        except OSError as error:
            if is_full_disk(error):
                raise _full(folder, self.octets, shutil.disk_usage(folder).free) from None
            raise NoRoomError(
                _NONE,
                f" in the folder {folder}: {error.strerror}; name another one",
                code="file",
                parameter=folder.name,
            ) from None
        if self.octets:
            self._map = mmap.mmap(self._file, self.octets, access=mmap.ACCESS_READ)

    def __repr__(self) -> str:
        return f"Spool({self.octets} bytes)"

    def write(self, start: int, values: npt.NDArray[np.uint64]) -> None:
        """Write words from a place on."""
        left = np.ascontiguousarray(values).data.cast("B")
        try:
            while left:
                done = os.pwrite(self._file, left, start)
                left, start = left[done:], start + done
        except OSError as error:  # the room was taken, but a disk may fail, and some file systems promise nothing
            raise NoRoomError(
                "a spool cannot be written", f" in {self._place}: {error.strerror}", code="file", parameter="spool"
            ) from None

    def read(self, start: int, shape: tuple[int, int]) -> npt.NDArray[np.uint64]:
        """Return words from a place on, as a view of the mapped file that nobody can write to."""
        return np.frombuffer(self._map, np.uint64, shape[0] * shape[1], start).reshape(shape)

    def close(self) -> None:
        """Delete the file; its content stays readable for those who still have views of it."""
        if self._gone.detach() is not None:
            shutil.rmtree(self._place, ignore_errors=True)
            os.close(self._file)
            if isinstance(self._map, mmap.mmap):
                with contextlib.suppress(BufferError):
                    self._map.close()


def tidy(folder: Path) -> None:
    """Delete what dead processes have left in a folder, if it is one; making a spool does so too."""
    with contextlib.suppress(NoRoomError), _alone(folder):
        _delete_stale(folder)


def _delete_stale(folder: Path) -> None:
    """Delete what dead processes have left in a folder; the caller holds its lock."""
    for place in sorted(folder.glob(f"{_PREFIX}*")):
        if place.is_symlink() or not place.is_dir():
            continue
        with contextlib.suppress(OSError):  # somebody else's, or gone meanwhile
            if _is_dead(place / _FILE):
                shutil.rmtree(place)
                _log.info("deleted a spool that an earlier process left behind in %s", folder)


def _is_dead(path: Path) -> bool:
    """Return whether nobody holds the lock of a spool's file; one that was never made has nobody either."""
    try:
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    try:
        lock_file(file)
    except BlockingIOError:
        return False
    finally:
        os.close(file)
    return True


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let one process at a time begin or delete spools in a folder."""
    check_spool(folder, 0)
    opened = os.open(folder, os.O_RDONLY)
    try:
        _lock(opened, folder)
        yield
    finally:
        os.close(opened)


def _lock(opened: int, folder: Path) -> None:
    """Lock something open, in a folder, as long as this process has it open."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            lock_file(opened)
            return
        except BlockingIOError:
            if time.monotonic() >= end:
                text = f": the folder {folder} has been locked by others for {_PATIENCE:g} seconds; name another one"
                raise NoRoomError(_NONE, text, code="busy", parameter=folder.name) from None
        except OSError as error:
            text = f": nothing can be locked in the folder {folder}: {error.strerror}; name one on a local disk"
            raise NoRoomError(_NONE, text, code="file", parameter=folder.name, value="lock") from None
        time.sleep(_PAUSE)


def _full(folder: Path, octets: int, free: int) -> NoRoomError:
    there = f", and {bytes_text(free)} are free in the folder {folder}; make room, or name one on another disk"
    return NoRoomError(f"a spool needs {bytes_text(octets)} of disk", there, parameter=folder.name, value=octets)
