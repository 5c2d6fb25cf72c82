"""All roles of a federation as processes of this machine, over mTLS on loopback: for demonstrations and measurements.

Every process is started as an organisation would start it, with a settings file of its own; none outlives the trial.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pandas as pd

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.data.files import write_table
from mpfedxgb.errors import FederationError
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.federation.settings.sections import listens
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.transport.certificates import Authority
from mpfedxgb.transport.transport import STAR

_STOPPING = 10.0
_LOOK = 0.02


@dataclass(slots=True)
class _Process:
    name: str
    process: subprocess.Popen[bytes]
    log: Path


class Trial:
    """A federation in one folder; use it in a `with` block, which ends all its processes.

    Parameters
    ----------
    folder : Path
        Empty; gets a folder per role with settings, certificate, table and log.
    tables : dict of DataFrame
        Per participant, the active one first, training rows with the id column; the active one's with the label.
    label, id_column : str
        Names of columns.
    training : dict
        The table [training] of the settings.
    network : dict
        More keys of the table [network], such as deadline and reconnect.
    to_score : dict of DataFrame or None
        Per participant, rows to score with the id column.
    topology : str
        How participants are connected.
    link : str or None
        What the active participant announces to plan for; if None, the default.
    coordinator : str or None
        The participant that is the coordinator too; a role without columns if None.
    """

    def __init__(
        self,
        folder: Path,
        tables: Mapping[str, pd.DataFrame],
        label: str,
        id_column: str,
        training: Mapping[str, Any],
        network: Mapping[str, Any] | None = None,
        to_score: Mapping[str, pd.DataFrame] | None = None,
        topology: str = STAR,
        link: str | None = None,
        coordinator: str | None = None,
    ) -> None:
        names = tuple(tables)
        self.roster = Roster(names) if coordinator is None else Roster.coordinated_by(names, coordinator)
        self.folder, self._topology, self._link = folder, topology, link
        listening = [role for role in self.roster.roles if listens(self.roster, role, topology)]
        held = hold_ports(len(listening))
        weakref.finalize(self, _let_go, held)
        self.listen = {role: int(port.getsockname()[1]) for role, port in zip(listening, held, strict=True)}
        self.dial = dict(self.listen)
        """Ports at which those who listen are found; others than those they listen on for a relay."""
        self._label, self._id, self._scores = label, id_column, to_score is not None
        self._training, self._network = dict(training), {"deadline": 60.0, "connect_timeout": 60.0, **(network or {})}
        self._running: list[_Process] = []
        authority = Authority.create(folder / "ca", "trial")
        for role in self.roster.roles:
            name = self.roster.name(role)
            home = folder / name
            authority.issue(home, name)
            if self.roster.owner_of(role):
                write_table(tables[name], home / "train.csv")
                if to_score is not None:
                    write_table(to_score[name], home / "score.csv")
        self.write_settings()

    def write_settings(self, session: str = "trial") -> None:
        """Write every role's settings file."""
        for role in self.roster.roles:
            write_file(self.settings(role), self._toml(role, session))

    def settings(self, role: int) -> Path:
        """Return a role's settings file."""
        name = self.roster.name(role)
        return self.folder / name / f"{name}.toml"

    def _toml(self, role: int, session: str) -> str:
        name = self.roster.name(role)
        network: dict[str, Any] = {"topology": self._topology, **self._network}
        if role in self.listen:
            network["listen"] = f"127.0.0.1:{self.listen[role]}"
        if role == ACTIVE and self._link is not None:
            network["link"] = self._link
        if role != COORDINATOR:
            network["coordinator"] = f"127.0.0.1:{self.dial[COORDINATOR]}"
        if role > ACTIVE:
            network["active"] = f"127.0.0.1:{self.dial[ACTIVE]}"
        peers = [m for m in self.roster.auxiliaries if m < role and m in self.dial]
        network |= {f"peers.{self.roster.name(m)}": f"127.0.0.1:{self.dial[m]}" for m in peers}
        content: dict[str, dict[str, Any]] = {
            "federation": {
                "name": "trial",
                "participants": list(self.roster.owner_names),
                "coordinator": self.roster.coordinator,
            },
            "role": {"name": name},
            "network": network,
            "tls": {"ca": "ca.crt", "certificate": f"{name}.crt", "key": f"{name}.key"},
            "session": {"name": session},
            "training": self._training,
        }
        if self.roster.owner_of(role):
            content["data"] = {"train": "train.csv", "id": self._id}
            if self._scores:
                content["data"] |= {"predict": "score.csv"}
        if role == ACTIVE:
            content["label"] = {"column": self._label}
        return "".join(
            f"[{table}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()) + "\n"
            for table, keys in content.items()
        )

    def start(self, role: int, arguments: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        """Start one role's process; by default for a training."""
        name = self.roster.name(role)
        deals_only = not self.roster.owner_of(role)
        command = ["coordinator", "--once"] if deals_only else ["participant", "--train"]
        if deals_only and "--serve" in arguments:  # it always serves, unless told to do so once
            command, arguments = ["coordinator"], ()
        log = self.folder / name / "log"
        with log.open("ab") as file:
            process = subprocess.Popen(  # noqa: S603 # our own command and our own files
                [sys.executable, "-m", "mpfedxgb", command[0], str(self.settings(role)), *(arguments or command[1:])],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        self._running.append(_Process(name, process, log))
        return process

    def train(self, timeout: float = 600.0) -> list[PartialModel]:
        """Run a training as one process per role and return the participants' models."""
        for role in self.roster.roles:
            self.start(role)
        self.wait(timeout)
        return self.models()

    def wait(self, timeout: float) -> None:
        """Wait until all processes have ended; raise FederationError with the last words of the first that failed."""
        end = time.monotonic() + timeout
        while any(p.process.poll() is None for p in self._running):
            failed = [p for p in self._running if p.process.poll()]
            if failed or time.monotonic() > end:
                break
            time.sleep(_LOOK)
        late = [p for p in self._running if p.process.poll() is None]
        failed = [p for p in self._running if p.process.poll()]
        self.stop()
        if failed:
            text = f"{failed[0].name} ended with exit code {failed[0].process.returncode}: {last_line(failed[0].log)}"
            raise FederationError(text, "failed", failed[0].name, failed[0].process.returncode)
        if late:
            raise FederationError(
                f"{late[0].name} did not end within {timeout:g} seconds", "late", late[0].name, timeout
            )

    def models(self) -> list[PartialModel]:
        """Return all participants' models."""
        return [PartialModel.load(self.folder / n / f"{n}.mpfedxgb.json") for n in self.roster.owner_names]

    def record(self, role: int = ACTIVE, session: str = "trial") -> dict[str, Any]:
        """Return what a role's record says of its last attempt."""
        found = read_record(RoleSettings.from_toml(self.settings(role))).of_session(session)
        return found.attempts[-1].to_dict()

    def stop(self) -> None:
        """End every process: ask, wait, and then make it."""
        for p in self._running:
            if p.process.poll() is None:
                p.process.terminate()
        for p in self._running:
            try:
                p.process.wait(_STOPPING)
            except subprocess.TimeoutExpired:
                p.process.kill()
                p.process.wait()
        self._running = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()


def hold_ports(count: int) -> list[socket.socket]:
    """Return free ports of loopback: bound, so that nobody else is given them; not listening, so that a role can."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind(("127.0.0.1", 0))
    return held


def _let_go(held: Sequence[socket.socket]) -> None:
    for one in held:
        one.close()


def last_line(log: Path) -> str:
    """Return the last line that a process wrote."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing was written"
