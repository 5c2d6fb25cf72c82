"""One process at a time in a participant's state folder.

The lock is the system's own (flock), so that it goes with the process that holds it, however that ends; the file stays,
and says who holds it, or held it last. Commands that only read, such as record, report and doctor, do not take it.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mpfedxgb.atomic import PRIVATE
from mpfedxgb.errors import CheckpointError
from mpfedxgb.federation.session import state_folder
from mpfedxgb.federation.settings import RoleSettings

_NAME = "lock"
_HELD = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def locked_state(settings: RoleSettings) -> Iterator[None]:
    """Hold the lock of this participant's state folder inside the block.

    Raises
    ------
    CheckpointError
        If another process holds it, which is named, or this one by another call; nothing is changed then.
    """
    path = state_folder(settings) / _NAME
    file = _open(path)
    try:
        _lock(file, path, settings.role.name)
        with suppress(OSError):  # who holds it is for people only, and the disk may be full
            os.truncate(file, 0)
            os.pwrite(file, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(file)


def _open(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, PRIVATE)
    except OSError as error:
        raise CheckpointError(f"cannot open the lock {path}: {error.strerror}") from None


def _lock(file: int, path: Path, name: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _HELD:
            raise CheckpointError(
                f"{path} cannot be locked: {error.strerror}; give [role] state a folder on a local disk"
            ) from None
        pid = os.pread(file, 32, 0).strip()
        holder = f"process {int(pid)}" if pid.isdigit() else "another process"
        raise CheckpointError(
            f"{name}: {holder} is at work with the state folder {path.parent}; nothing was changed. Wait until it has "
            "ended, or stop it; for two at a time give each a [role] state of its own"
        ) from None
