"""Real data sets: whole files from a folder of the user's or, without them, the samples of this repository.

The folder is named by MPFEDXGB_DATA; by default it is ../shared/data beside the project, if there is one. An empty
MPFEDXGB_DATA means no folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

VARIABLE = "MPFEDXGB_DATA"
SAMPLES = Path(__file__).resolve().parents[1] / "data_samples"
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"


def data_folder() -> Path | None:
    """Return where whole data sets are, if anywhere; a folder that is named must be there."""
    named = os.environ.get(VARIABLE)
    if named is None:
        return _BESIDE if _BESIDE.is_dir() else None
    if not named:
        return None
    folder = Path(named)
    if not folder.is_dir():
        pytest.fail(f"{VARIABLE}={named} is no folder; name the one that holds the data sets, or leave it empty")
    return folder


def whole_data(name: str) -> Path:
    """Return the path of a whole data set, or skip the test."""
    folder = data_folder()
    if folder is None or not (folder / name).is_file():
        pytest.skip(f"{name} is not at hand; set {VARIABLE} to a folder that holds it")
    return folder / name


def data_or_sample(name: str) -> Path:
    """Return the path of a whole data set, or that of its sample."""
    folder = data_folder()
    if folder is not None and (folder / name).is_file():
        return folder / name
    return SAMPLES / name
