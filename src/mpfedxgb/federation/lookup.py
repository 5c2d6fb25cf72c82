"""The rows that an auxiliary participant answers for: of a table, or of its own feature store; and newer ones.

While a participant serves, its files are watched. A table that has changed answers from the next batch on, a model from
the next session on, for all participants take up a model together. What cannot be used is logged, and changes nothing.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.data.table import Table, to_frame
from mpfedxgb.errors import DataError, MpfedxgbError
from mpfedxgb.federation.rows import SCORING, Rows, arrange_rows, read_rows, with_kinds_of
from mpfedxgb.federation.settings import RoleSettings

FeatureStore = Callable[[list[str]], Any]
"""Takes ids and returns a DataFrame with the rows that are there, the id column among them, in any order."""

_LOOK = 0.5
"""Seconds between two looks at files; what has changed is read once it stays the same from one look to the next."""
_log = logging.getLogger("mpfedxgb.role")


class Lookup(Protocol):
    """Finds rows by their ids."""

    def find(self, keys: Sequence[str]) -> tuple[Table | None, int]:
        """Return the rows in the order of their ids, and how many are not there; None if any is not."""
        ...


class TableLookup:
    """Finds rows in a table."""

    def __init__(self, keys: Sequence[str], table: Table) -> None:
        self._table = table
        self._place = {key: i for i, key in enumerate(keys)}

    def __len__(self) -> int:
        return len(self._place)

    def find(self, keys: Sequence[str]) -> tuple[Table | None, int]:
        """Return the rows in the order of their ids, and how many are not there; None if any is not."""
        places = [self._place[key] for key in keys if key in self._place]
        missing = len(keys) - len(places)
        return (None if missing else self._table.take(np.array(places, np.int64))), missing


class StoreLookup:
    """Finds rows by asking a function, batch by batch."""

    def __init__(self, settings: RoleSettings, store: FeatureStore, features: Sequence[Feature]) -> None:
        self._settings, self._store, self._features = settings, store, features

    def find(self, keys: Sequence[str]) -> tuple[Table | None, int]:
        """Return the rows in the order of their ids, and how many are not there; None if any is not.

        Raises DataError if the function fails, or returns what is no table of these columns.
        """
        owner = self._settings.role.name
        try:
            found = self._store(list(keys))
        except Exception as error:  # its text may name people, and is the function's own to log
            raise DataError(
                f"{owner}: the function that looks rows up raised {type(error).__name__}", "failed", owner
            ) from None
        frame = to_frame(found, owner) if found is not None else pd.DataFrame()
        if not len(frame):
            return None, len(keys)
        rows = _of_frame(self._settings, frame, self._features)
        spelled = TableLookup(rows.ids.keys, rows.table).find(keys)
        # Which ids are numbers follows from a whole list, and the answer may hold fewer than the question.
        return TableLookup([str(key) for key in rows.ids.written], rows.table).find(keys) if spelled[1] else spelled


def _of_frame(settings: RoleSettings, frame: pd.DataFrame, features: Sequence[Feature]) -> Rows:
    return arrange_rows(settings, with_kinds_of(settings, frame, features), SCORING, features)


def lookup_in(settings: RoleSettings, table: Any, model: PartialModel) -> Lookup:
    """Return how rows are found for a model: in a DataFrame, by a function, or, if None, in [data] predict."""
    if callable(table):
        return StoreLookup(settings, table, model.features)
    if table is None:
        rows = read_rows(settings, SCORING, model.features)
    else:
        rows = _of_frame(settings, to_frame(table, settings.role.name), model.features)
    return TableLookup(rows.ids.keys, rows.table)


Stamp = tuple[int, int, int] | None
"""What a file was at a moment: inode, size, time of its last change; None if it was not there."""


class Watch:
    """Looks whether files have changed, or somebody asks to read them anew with SIGHUP, and has that done.

    Parameters
    ----------
    files : sequence of Path
    renew : function
        Reads the files and returns what to do with what was read; it raises what is wrong with them.
    tell : function
        Called at every change, with whether it was taken up.
    """

    def __init__(
        self, files: Sequence[Path], renew: Callable[[], Callable[[], None]], tell: Callable[[bool], None]
    ) -> None:
        self._files, self._renew, self._tell = files, renew, tell
        self._seen = self._last = self._stamps()
        self._is_asked = False

    @contextmanager
    def looking(self) -> Iterator[None]:
        """Look from a thread of its own inside the block."""
        over = threading.Event()

        def run() -> None:
            while not over.wait(_LOOK):
                self.look()

        thread = threading.Thread(target=run, name="files", daemon=True)
        hangup = getattr(signal, "SIGHUP", None)
        is_main = threading.current_thread() is threading.main_thread()
        before = signal.signal(hangup, self._on_hangup) if is_main and hangup is not None else None
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            if before is not None and hangup is not None:
                signal.signal(hangup, before)

    def _on_hangup(self, number: int, frame: object) -> None:
        self._is_asked = True

    def look(self) -> None:
        """Take files up that have changed and do not change any more."""
        now, before = self._stamps(), self._last
        self._last = now
        if now != before or (now == self._seen and not self._is_asked):
            return
        self._is_asked = False
        try:
            take_up = self._renew()
        except (MpfedxgbError, OSError, MemoryError) as error:
            if self._stamps() == now:
                self._seen = now
                self._tell(False)
                _log.error("%s; what was read before stays in use", error)
            return
        if self._stamps() == now:  # else it was read while somebody wrote it, and is read again
            self._seen = now
            take_up()
            self._tell(True)

    def _stamps(self) -> list[Stamp]:
        return [_stamp(path) for path in self._files]


class NewestTables:
    """The rows of a participant's training and evaluation files, read again when these have changed."""

    def __init__(self, settings: RoleSettings) -> None:
        assert settings.data is not None, "the coordinator has no files"
        self._settings = settings
        self._files = {"train": settings.file_of("train")}
        if settings.data.evaluate is not None:
            self._files["evaluate"] = settings.data.evaluate
        self._read: tuple[list[Stamp], list[Rows]] | None = None
        self()  # what is wrong with them is said at once

    def __call__(self) -> tuple[Rows, Rows | None]:
        """Return the rows to train and to evaluate on."""
        now = [_stamp(path) for path in self._files.values()]
        if self._read is None or self._read[0] != now:
            stay = {"train": self._settings.workers is not None}
            rows = [read_rows(self._settings, what, stay_in_file=stay.get(what, False)) for what in self._files]
            self._read = now, rows
        train, *others = self._read[1]
        return train, others[0] if others else None


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
