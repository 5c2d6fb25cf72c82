"""Participants' tables in Parquet files, sorted by id, with every kind of column that may stay in its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench_reading import settings_of
from mpfedxgb.federation.rows import Rows, read_rows
from mpfedxgb.federation.settings import RoleSettings

ROWS = 9_000


def people(rows: int = ROWS) -> pd.DataFrame:
    """Return rows in the order of their ids, with every kind of column that may stay in a file."""
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "id": np.arange(rows) + 10,
            "y": rng.normal(size=rows) / 3,
            "f": rng.normal(size=rows),
            "i": rng.integers(0, 9, rows),
            "large": rng.integers(0, 2**60, rows),
            "b": rng.random(rows) < 0.5,
            "maybe": pd.Series([[True, False, None][i] for i in rng.integers(0, 3, rows)], dtype="object"),
            "city": pd.Series([["Ulm", "Bonn", "Ärmel", None][i] for i in rng.integers(0, 4, rows)], dtype="str"),
        }
    )
    frame.loc[rng.random(rows) < 0.1, "f"] = np.nan
    return frame


def written(folder: Path, frame: pd.DataFrame, **named: Any) -> RoleSettings:
    """Write a table in row groups that end anywhere, and return the settings of its owner."""
    path = folder / "t.parquet"
    frame.to_parquet(path, index=False, row_group_size=1_700)
    told: dict[str, Any] = settings_of(path) | {"training": {"objective": "reg:squarederror"}}
    return RoleSettings.from_dict(told | {"data": {"id": "id", "train": str(path), **named}})


def both(settings: RoleSettings) -> tuple[Rows, Rows]:
    """Return rows that stay in their file, and the same in memory."""
    return read_rows(settings, "train", stay_in_file=True), read_rows(settings, "train")
