"""Real data sets that may lie beside the project; tests that need them are skipped, saying so, where they do not."""

from __future__ import annotations

from pathlib import Path

import pytest

_FOLDER = Path(__file__).resolve().parents[3] / "shared" / "data"


def shared_data(name: str) -> Path:
    """Return the path of a data set, or skip the test."""
    path = _FOLDER / name
    if not path.is_file():
        pytest.skip(f"{name} is not beside the project (../shared/data)")
    return path
