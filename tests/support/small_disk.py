"""A disk that is soon full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str = "16k") -> Iterator[Path]:
    """Make a folder that is a small disk of its own; skips the test where this machine does not allow it."""
    folder.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    command = [mount, "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, check=False)  # noqa: S603 # nothing of it is a stranger's
    if made.returncode:
        pytest.skip(f"this machine mounts no small disk: {made.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run([umount, str(folder)], check=True)  # noqa: S603
