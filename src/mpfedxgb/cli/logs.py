"""What a role says while it runs: lines for people, or one JSON object per line for machines. Never a secret."""

from __future__ import annotations

import json
import logging
import sys
import time
from pathlib import Path

from mpfedxgb.errors import SettingsError

_SHORT = "%(asctime)s %(levelname)-7s %(message)s"


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


def start_logging(level: str, as_json: bool, file: Path | None = None) -> None:
    """Send this package's log to standard error and, if there is one, to a file."""
    logger = logging.getLogger("mpfedxgb")
    logger.setLevel(level.upper())
    logger.propagate = False
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if file is not None:
        try:
            handlers.append(logging.FileHandler(file, encoding="utf-8"))
        except OSError as error:
            raise SettingsError(f"cannot write the log {file}: {error.strerror}; correct [log] file") from None
    for old in list(logger.handlers):
        logger.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(JsonLines() if as_json else logging.Formatter(_SHORT, "%H:%M:%S"))
        logger.addHandler(handler)
