"""What a role says while it runs: lines for people, or one JSON object per line for machines. Never a secret.

Neither a log nor standard output is what a role works for: if one of them cannot be written, the work goes on.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import typer

from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.stopping import ignore_stops

_SHORT, _WHEN = "%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S"
_log = logging.getLogger("mpfedxgb.role")


class JsonLines(logging.Formatter):
    """One JSON object per line: time in UTC, level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {
            "time": stamp,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return json.dumps(line, ensure_ascii=False)


class _StandardError(logging.StreamHandler[TextIO]):
    """Lines on standard error; those that it does not take, since a pipe is closed or a disk is full, are lost."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Go on without a traceback, for which there is no room either."""


class _LogFile(logging.handlers.WatchedFileHandler):
    """Lines in a file, which is opened again after somebody has renamed or removed it, as logrotate does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._said = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; say once when that begins to fail."""
        try:
            super().emit(record)
        except OSError:  # the folder may be gone, so that it cannot be opened again
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Say on standard error that lines are lost, without a traceback for each."""
        error = sys.exc_info()[1]
        if not self._said:
            self._said = True
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            with suppress(OSError, AttributeError, ValueError):  # there may be no standard error, or it is closed
                sys.stderr.write(f"cannot write the log {self.baseFilename}: {reason}; lines are lost until it can\n")


def say_result(text: str) -> None:
    """Say on standard output what came of the work, which is done: from here on no signal and no pipe makes it undone.

    Python would flush standard output once more at the end, and end with an error of its own; so where it cannot be
    written, it goes nowhere.
    """
    ignore_stops()
    try:
        typer.echo(text)
    except OSError as error:
        _log.warning("cannot write to standard output: %s; it would have said: %s", error.strerror, text)
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def start_logging(level: str, as_json: bool, file: Path | None = None) -> None:
    """Send this package's log to standard error and, if there is one, to a file."""
    logger = logging.getLogger("mpfedxgb")
    logger.setLevel(level.upper())
    logger.propagate = False
    handlers: list[logging.Handler] = [_StandardError(sys.stderr)]
    if file is not None:
        try:
            handlers.append(_LogFile(file))
        except OSError as error:
            raise SettingsError(f"cannot write the log {file}: {error.strerror}; correct [log] file") from None
    for old in list(logger.handlers):
        logger.removeHandler(old)
        with suppress(OSError):  # what it could not write it cannot write now
            old.close()
    for handler in handlers:
        handler.setFormatter(JsonLines() if as_json else logging.Formatter(_SHORT, _WHEN))
        logger.addHandler(handler)
