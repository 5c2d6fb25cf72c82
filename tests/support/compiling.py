"""Kernels compiled once for all processes of a test run; as a program, before the first of them needs any."""

from __future__ import annotations

import os
from pathlib import Path

from mpfedxgb.atomic import lock_file
from mpfedxgb.ring import kernels, plain_kernels, row_kernels  # noqa: F401 (what is imported is compiled)


def compile_once() -> None:
    """Compile or load all kernels, one process after the other: those that come later find what the first has kept."""
    folder = Path(kernels.__file__).with_name("__pycache__")
    folder.mkdir(exist_ok=True)
    file = os.open(folder / "compiling.lock", os.O_CREAT | os.O_RDWR)
    try:
        lock_file(file, waits=True)
        kernels.warm_up()
    finally:
        os.close(file)


if __name__ == "__main__":
    compile_once()
