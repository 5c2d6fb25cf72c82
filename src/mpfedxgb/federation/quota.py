"""What a role does for others in a day at most: rows that it answers for, trainings that it accepts.

A small file in its state folder counts, over all sessions, whatever they are called. It is written before anything is
answered, so that neither a restart nor a failure in the middle gives an asker more. Days are UTC's.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from mpfedxgb.atomic import write_file
from mpfedxgb.errors import CheckpointError, RefusedError


def _today() -> str:
    return dt.datetime.now(dt.UTC).date().isoformat()


class PerDay:
    """A limit per day, counted in a folder that is there."""

    file: ClassVar[str]
    what: ClassVar[str]
    """What is counted."""
    key: ClassVar[str]
    """The key of settings files that sets the limit."""

    def __init__(self, folder: Path, most: int, today: Callable[[], str] = _today) -> None:
        self._path, self._most, self._today = folder / self.file, most, today

    def asked(self) -> int:
        """Return how many were asked for today."""
        return self._read()[1]

    def check(self, who: str, more: int) -> None:
        """Raise RefusedError, in the name of `who`, if these would be too many."""
        asked = self.asked()
        if asked + more > self._most:
            raise RefusedError(
                self._refusal(who, asked, more), code="range", parameter=self.key.partition(".")[2], value=more
            )

    def take(self, who: str, more: int) -> None:
        """Count what is asked for; raises RefusedError, in the name of `who`, if it is too much."""
        self.check(who, more)
        day, asked = self._read()
        try:
            write_file(self._path, json.dumps({"day": day, self.what: asked + more}) + "\n")
        except OSError as error:
            table, _, key = self.key.partition(".")
            text = (
                f"cannot count the {self.what} that are asked for in {self._path}: {error.strerror}; make room, or "
                f"take [{table}] {key} out"
            )
            raise CheckpointError(text, "file", self._path.name) from None

    def _refusal(self, who: str, asked: int, more: int) -> str:
        raise NotImplementedError

    def _read(self) -> tuple[str, int]:
        """Return the day that counts and how many were asked for; a clock that was set back begins no new day."""
        today = self._today()
        try:
            found: Any = json.loads(self._path.read_bytes()) if self._path.exists() else {"day": today, self.what: 0}
            day, asked = found["day"], found[self.what]
            if type(asked) is not int or asked < 0 or dt.date.fromisoformat(day).isoformat() != day:
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError):
            raise CheckpointError(
                f"{self._path} is damaged; remove it to begin the day again", "damaged", self._path.name
            ) from None
        return (day, asked) if day >= today else (today, 0)


class RowsPerDay(PerDay):
    """How many rows an auxiliary participant answers for, in all scoring sessions together."""

    file, what, key = "rows-asked.json", "rows", "scoring.max_rows_per_day"

    def _refusal(self, who: str, asked: int, more: int) -> str:
        return (
            f"{who} answers for at most {self._most} rows a day (UTC), {asked} were asked for today, and this "
            f"batch has {more}; ask for fewer, or tomorrow"
        )


class TrainingsPerDay(PerDay):
    """How many new trainings a role accepts, under whatever names."""

    file, what, key = "trainings-accepted.json", "trainings", "accept.trainings_per_day"

    def _refusal(self, who: str, asked: int, more: int) -> str:
        return (
            f"{who} accepts at most {self._most} new trainings a day (UTC), by its [accept] trainings_per_day; "
            f"{asked} were begun today, and {more} more proposed: propose fewer, or tomorrow"
        )
