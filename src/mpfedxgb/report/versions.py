"""Which versions are installed: part of every report on a machine."""

from __future__ import annotations

import platform
from importlib import metadata

_DISTRIBUTIONS = {"xgboost": ("xgboost", "xgboost-cpu")}
"""Packages that come under several names; the second is the same module without the libraries for GPUs."""
_IN_REPORTS = ("mpfedxgb", "numpy", "numba", "cryptography")


def versions() -> dict[str, str]:
    """Return what a report says of the machine that it was made on: Python, and the packages that matter most."""
    return {"Python": platform.python_version()} | {name: version_of(name) for name in _IN_REPORTS}


def version_of(package: str) -> str:
    """Return a package's installed version; empty if there is none."""
    for name in _DISTRIBUTIONS.get(package, (package,)):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""
