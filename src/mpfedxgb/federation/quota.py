"""How many rows an auxiliary participant answers for in a day, in all scoring sessions together.

A small file counts the rows that were asked for. It is written before anything is answered, so that neither a restart
nor a failure in the middle of a batch gives an asker more. Days are UTC's.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import write_file
from mpfedxgb.errors import CheckpointError, RefusedError

_NAME = "rows-asked.json"


def _today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


class RowsPerDay:
    """At most so many rows a day, counted in a folder that is there."""

    def __init__(self, folder: Path, most: int, today: Callable[[], str] = _today) -> None:
        self._path, self._most, self._today = folder / _NAME, most, today

    def asked(self) -> int:
        """Return how many rows were asked for today."""
        return self._read()[1]

    def take(self, who: str, rows: int) -> None:
        """Count rows that are asked for; raises RefusedError, in the name of `who`, if they are too many."""
        day, asked = self._read()
        if asked + rows > self._most:
            raise RefusedError(
                f"{who} answers for at most {self._most} rows a day (UTC), {asked} were asked for today, and this "
                f"batch has {rows}; ask for fewer, or tomorrow"
            )
        try:
            write_file(self._path, json.dumps({"day": day, "rows": asked + rows}) + "\n")
        except OSError as error:
            raise CheckpointError(
                f"cannot count the rows that are asked for in {self._path}: {error.strerror}; make room, or take "
                "[scoring] max_rows_per_day out"
            ) from None

    def _read(self) -> tuple[str, int]:
        """Return the day that counts and its rows; a clock that was set back begins no new day."""
        today = self._today()
        try:
            found: Any = json.loads(self._path.read_bytes()) if self._path.exists() else {"day": today, "rows": 0}
            day, rows = found["day"], found["rows"]
            if type(rows) is not int or rows < 0 or dt.date.fromisoformat(day).isoformat() != day:
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError):
            raise CheckpointError(f"{self._path} is damaged; remove it to begin the day again") from None
        return (day, rows) if day >= today else (today, 0)
