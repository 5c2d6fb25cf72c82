"""`mpfedxgb --version`: what matters of an installation, without importing any of it."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import mpfedxgb
from mpfedxgb.config import PROTOCOLS
from mpfedxgb.machine import version_of

_PACKAGES = ("numpy", "numba", "pandas", "scikit-learn", "cryptography", "grpcio")


def version_text() -> str:
    """Return package, protocol, Python, the packages that matter, xgboost if there, and the state of the kernels."""
    spoken = ", ".join(str(number) for number in PROTOCOLS)
    packages = ", ".join(f"{name} {version_of(name) or 'missing'}" for name in _PACKAGES)
    xgboost = version_of("xgboost") or "not installed (needed for to_xgboost and comparisons only)"
    return "\n".join(
        [
            f"mpfedxgb {mpfedxgb.__version__}",
            f"protocol {spoken} (the roles of a federation need one in common)",
            f"Python {platform.python_version()} on {platform.system()} {platform.machine()}",
            f"with {packages}",
            f"xgboost {xgboost}",
            f"kernels {'compiled' if _are_compiled() else 'to be compiled by the first training, once'}",
        ]
    )


def _are_compiled() -> bool:
    """Return whether numba has kept the kernels where it keeps them: beside the package, or where it was told to."""
    folders = [Path(mpfedxgb.__file__).parent / "ring" / "__pycache__"]
    told = os.environ.get("NUMBA_CACHE_DIR")
    return any(next(folder.rglob("kernels.*.nbi"), None) for folder in [*folders, *([Path(told)] if told else [])])
