"""Roles of a real federation, with settings files and folders of their own, connected inside this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from contracts.transport_contract import Call
from mpfedxgb.errors import MissingPeerError, StoppedError
from mpfedxgb.federation import session
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.testing.trial import Trial
from mpfedxgb.transport import MemoryHub, Transport
from mpfedxgb.transport.memory import Tap
from patience import patience


class Switchboard:
    """Connects the roles that ask for it as soon as all of them do, again and again."""

    def __init__(self, roles: int, tap: Tap | None = None) -> None:
        self.roles, self.tap = roles, tap
        self.meetings = 0
        self._asking: set[int] = set()
        self._hub: MemoryHub | None = None
        self._closed = False
        self._changed = threading.Condition()

    def open(self, settings: RoleSettings, timeout: float, serves: bool = False, again: bool = False) -> Transport:
        """Stand in for `session.open_transport`."""
        with self._changed:
            self._asking.add(settings.number)
            before = self.meetings
            if len(self._asking) == self.roles:
                self._hub = MemoryHub(settings.roster.links(settings.network.topology), 1 << 28, self.tap)
                self._asking.clear()
                self.meetings += 1
                self._changed.notify_all()
            came = self._changed.wait_for(lambda: self._closed or self.meetings > before, timeout)
            if self._closed:
                raise StoppedError("the switchboard is closed")
            if not came:
                self._asking.discard(settings.number)
                raise MissingPeerError(f"not all roles came within {timeout:g} seconds")
            assert self._hub is not None
            return self._hub.end(settings.number)

    def close(self) -> None:
        """End the waiting of roles that serve."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def reopen(self) -> None:
        """Connect roles again, after `close` and when all that waited have ended."""
        with self._changed:
            self._closed = False
            self._asking.clear()


class Organisations:
    """Everybody's settings and folders; what they run is connected by a switchboard."""

    def __init__(
        self,
        folder: Path,
        tables: Mapping[str, pd.DataFrame],
        patch: pytest.MonkeyPatch,
        training: Mapping[str, Any],
        network: Mapping[str, Any] | None = None,
        to_score: Mapping[str, pd.DataFrame] | None = None,
        label: str = "label",
        topology: str = "star",
        coordinator: str | None = None,
    ) -> None:
        network = {"deadline": patience(20.0), "connect_timeout": patience(20.0), **(network or {})}
        names = label, "person"
        self.trial = Trial(folder, tables, *names, training, network, to_score, topology, coordinator=coordinator)
        self.board = Switchboard(len(self.trial.roster.roles))
        self._started: list[Call] = []
        patch.setattr(session, "open_transport", self.board.open)

    @property
    def roles(self) -> range:
        """All roles."""
        return self.trial.roster.roles

    def settings(self, role: int) -> RoleSettings:
        """Return a role's settings, from its file."""
        return RoleSettings.from_toml(self.trial.settings(role))

    def edit(self, role: int, old: str, new: str) -> None:
        """Change a role's settings file."""
        path = self.trial.settings(role)
        text = path.read_text()
        assert old in text, text
        path.write_text(text.replace(old, new, 1))

    def home(self, role: int) -> Path:
        """Return a role's folder."""
        return self.trial.settings(role).parent

    def state(self, role: int) -> Path:
        """Return the folder of a role's session."""
        settings = self.settings(role)
        return settings.role.state / settings.session.name

    def start(self, role: int, run: Callable[[RoleSettings], Any]) -> Call:
        """Run something as a role, in a thread of its own."""
        self._started.append(Call(run, self.settings(role)))
        return self._started[-1]

    def close(self) -> None:
        """End all that was started: a role that came late would take its place at the switchboard of the next test."""
        self.board.close()
        for call in self._started:
            with suppress(Exception, StoppedError):  # how it ended is its test's business
                call.result()
