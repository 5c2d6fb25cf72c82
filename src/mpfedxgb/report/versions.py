"""Which versions are installed: part of every report on a machine."""

from __future__ import annotations

from importlib import metadata

_DISTRIBUTIONS = {"xgboost": ("xgboost", "xgboost-cpu")}
"""Packages that come under several names; the second is the same module without the libraries for GPUs."""


def version_of(package: str) -> str:
    """Return a package's installed version; empty if there is none."""
    for name in _DISTRIBUTIONS.get(package, (package,)):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""
