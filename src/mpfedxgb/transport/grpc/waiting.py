"""What a role says while it waits: to its own log for whom, and to those who are there already the same."""

from __future__ import annotations

import time
from contextlib import suppress

from mpfedxgb.errors import FederationError
from mpfedxgb.transport.grpc.rendezvous import Rendezvous, log
from mpfedxgb.transport.grpc.stream import PeerStream
from mpfedxgb.transport.transports import InterimMessages

SAY_EVERY = 10.0
"""Seconds between two lines in the log."""


class Waiting:
    """Says for whom a role waits: at once, every ten seconds, and after `timeout` seconds every `timeout` seconds.

    The longer pause is for roles that serve, for whom waiting is what they do.
    """

    def __init__(self, rendezvous: Rendezvous, interim: InterimMessages | None, timeout: float) -> None:
        self._rendezvous, self._interim, self._timeout = rendezvous, interim, timeout
        self._began = self._next = time.monotonic()
        self._told: dict[PeerStream, list[int]] = {}

    def say(self) -> None:
        """Say what is due by now; call it often."""
        missing, now = self._rendezvous.missing(), time.monotonic()
        if not missing:
            return
        if now >= self._next:
            log.info("%s waits for %s", self._rendezvous.me.name, self._rendezvous.who_is_missing())
            self._next = now + (SAY_EVERY if now < self._began + self._timeout else max(SAY_EVERY, self._timeout))
        if self._interim is None:
            return
        for stream in [stream for stream in list(self._rendezvous.streams.values()) if stream.alive]:
            if self._told.get(stream) != missing:  # only news: what is not read must not pile up
                self._told[stream] = missing
                with suppress(FederationError):  # it has no room, or has gone
                    stream.send(self._interim.waiting([self._rendezvous.names[role] for role in missing]), 0)
        self._told = {stream: told for stream, told in self._told.items() if stream.alive}
