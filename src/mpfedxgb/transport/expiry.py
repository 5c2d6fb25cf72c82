"""A watch on the certificate that a role waits with.

A role may wait for weeks. It says that its certificate ends once a day from two weeks before. Once it has ended no
other role accepts it; the role waits on, and reads the files again and again until there is a new one.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable
from pathlib import Path

from mpfedxgb.errors import FederationError, SettingsError

SOON = dt.timedelta(days=14)
"""How long before its end a certificate is worth a warning."""

WARN_EVERY = dt.timedelta(days=1)

READ_EVERY = 1.0
"""Seconds after which files that could not be used are read again."""

Clock = Callable[[], dt.datetime]

_log = logging.getLogger("mpfedxgb.transport")
_warned: dict[tuple[Path, dt.datetime, bool], dt.datetime] = {}
"""When this process last warned that a certificate ends, or has ended: a role connects many times a day."""


def now_utc() -> dt.datetime:
    """Return the time by which certificates are judged."""
    return dt.datetime.now(dt.UTC)


class ExpiryWatch:
    """Looks after the certificate that a role waits with.

    Parameters
    ----------
    role : str
        Whose it is.
    path : Path
        Its file.
    expires : datetime
        When it ends, or something that it rests on.
    load : callable
        Reads all files as at the start of a role, and raises SettingsError if they cannot be used.
    clock : callable
        Returns the time.
    """

    def __init__(
        self, role: str, path: Path, expires: dt.datetime, load: Callable[[], object], clock: Clock = now_utc
    ) -> None:
        self._role, self._path, self._expires, self._load, self._clock = role, path, expires, load, clock
        self._next_read = 0.0

    @property
    def has_ended(self) -> bool:
        """Whether no role accepts the certificate any more."""
        return self._clock() > self._expires

    def look(self) -> bool:
        """Warn, if that is due; return whether the certificate has ended and there is one that can be used instead."""
        ended = self.has_ended
        if not ended:
            self._note_renewal()
            self._warn(ended)
            return False
        if time.monotonic() >= self._next_read:
            self._next_read = time.monotonic() + READ_EVERY
            try:
                self._load()
            except (SettingsError, FederationError):
                pass  # as it was, half of it replaced, or no descriptor left
            else:
                return True
        self._warn(ended)
        return False

    def _note_renewal(self) -> None:
        """Say so if this certificate takes the place of one that had ended."""
        for key in [key for key in _warned if key[0] == self._path and key[2]]:
            del _warned[key]
            _log.info(
                "the certificate %s of %s was renewed; it expires at %s UTC",
                *(self._path, self._role, f"{self._expires:%Y-%m-%d %H:%M}"),
            )

    def _warn(self, ended: bool) -> None:
        now, key = self._clock(), (self._path, self._expires, ended)
        if now < self._expires - SOON or now < _warned.get(key, now - WARN_EVERY) + WARN_EVERY:
            return
        _warned[key] = now
        if ended:
            _log.warning(
                "the certificate %s of %s expired at %s UTC, and no other role accepts it; put a new one in its place, "
                "with its key: it is read within seconds, and %s goes on",
                *(self._path, self._role, f"{self._expires:%Y-%m-%d %H:%M}", self._role),
            )
            return
        _log.warning(
            "the certificate %s of %s expires at %s UTC, in %d days; renew it soon",
            *(self._path, self._role, f"{self._expires:%Y-%m-%d %H:%M}", (self._expires - now).days),
        )
