"""What one role of a federation is told: one TOML file, read once, checked before anything runs.

Nothing here opens a data file, a certificate or a connection; whether files are there, `doctor` looks.

[workers]: the Dask cluster of this role's own organisation, if its rows are to live there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from mpfedxgb.boosting.params import ALIASES, REFUSED, TrainParams
from mpfedxgb.config import Resources, SessionSettings
from mpfedxgb.data.ids import IdRule
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.settings.sections import (
    PASSPHRASES,
    Align,
    Data,
    Label,
    Log,
    Membership,
    Network,
    Role,
    Scoring,
    Session,
    Tls,
    read_limits,
    read_training,
)
from mpfedxgb.federation.settings.toml import Section, check_values, read_toml, shorten, suggestion
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.transport.transport import Address
from mpfedxgb.transport.transports import TRANSPORTS, ConnectionSettings


@dataclass(frozen=True, slots=True)
class Workers:
    """[workers]: where the scheduler is, and the files of the cluster's own TLS; without it, rows stay in the process.

    The cluster has an authority of its own. Its certificates have nothing to do with those of the federation.
    """

    scheduler: str
    ca: Path
    certificate: Path
    key: Path

    @classmethod
    def read(cls, table: Section) -> Workers:
        """Return the table, checked."""
        scheduler: str = table.text("scheduler")
        if not scheduler.startswith("tls://") or ":" not in scheduler.removeprefix("tls://"):
            remedy = "give the address of a Dask scheduler with TLS, such as tls://dask.bank.internal:8786"
            raise table.error("scheduler", "is no encrypted address", remedy)
        return cls(scheduler, table.path("ca"), table.path("certificate"), table.path("key"))


def _keys(part: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(part))


TABLES: dict[str, tuple[str, ...]] = {
    "federation": ("name", "participants", "coordinator"),
    "role": _keys(Role),
    "network": _keys(Network),
    "tls": _keys(Tls),
    "session": _keys(Session),
    "training": _keys(TrainParams),
    "data": _keys(Data),
    "align": _keys(Align),
    "label": _keys(Label),
    "scoring": _keys(Scoring),
    "limits": _keys(Resources),
    "workers": _keys(Workers),
    "log": _keys(Log),
}
"""Every table of a settings file with its keys."""

_RENAMED = {name: f"it is called {own} here" for name, own in ALIASES.items() if own in TABLES["training"]}
_ELSEWHERE = dict.fromkeys((*TABLES["limits"], "nthread"), "what a role may use is its own business; see [limits]")
_REFUSED = {"training": REFUSED | _RENAMED | _ELSEWHERE, "tls": PASSPHRASES}


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """Everything one role is told; what it has no use for is None: `tls` without certificates, `data`, `label`."""

    source: str
    federation: Membership
    role: Role
    network: Network
    tls: Tls | None
    session: Session
    training: TrainParams
    data: Data | None
    align: Align
    label: Label | None
    scoring: Scoring
    limits: Resources
    log: Log
    workers: Workers | None = None

    @classmethod
    def from_toml(cls, path: str | Path) -> RoleSettings:
        """Return the settings in a TOML file; relative paths in it begin at its folder.

        Raises
        ------
        SettingsError
            Naming file, table, key, value and remedy.
        """
        path = Path(path)
        return cls.from_dict(read_toml(path), path.absolute().parent, str(path))

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], folder: str | Path = ".", source: str = "the settings"
    ) -> RoleSettings:
        """Return settings from nested dictionaries, as a TOML file would hold them.

        Parameters
        ----------
        values : mapping of mappings
            Tables by name.
        folder : path
            Where relative paths begin.
        source : str
            What messages call the settings.
        """
        content = dict(values)
        for table in content:
            if table not in TABLES:
                hint = suggestion(table, TABLES, "the tables are")
                raise SettingsError(f"{source}: there is no table [{shorten(str(table))}]{hint}")
        check_values(source, content)
        settings = _read(_Reader(content, Path(folder).absolute(), source))
        settings._refuse_overwriting()
        return settings

    @property
    def roster(self) -> Roster:
        """All roles of the federation."""
        return self.federation.roster

    @property
    def number(self) -> int:
        """The role's number in the roster: 0 the coordinator, 1 the active participant, 2.. the auxiliaries."""
        return _number(self.roster, self.role.name)

    @property
    def is_coordinator(self) -> bool:
        """Whether this role deals masks and holds no data."""
        return self.number == COORDINATOR

    @property
    def is_active(self) -> bool:
        """Whether this role holds the label."""
        return self.number == ACTIVE

    @property
    def id_rule(self) -> IdRule | None:
        """What counts as the same id, if the participants find out which they have in common."""
        return self.align.rule if self.data is not None and self.data.align else None

    @property
    def session_name(self) -> str:
        """The session's name within its federation, the same at all roles."""
        return f"{self.federation.name}/{self.session.name}"

    def session_settings(self, attempt: int = 1) -> SessionSettings:
        """Return what the engine has to know of one attempt of the session."""
        return SessionSettings(
            session=self.session_name,
            attempt=attempt,
            parameters=self.training.to_json(),
            deadline=self.network.deadline,
            max_frame_bytes=self.network.max_frame_mb << 20,
            link=self.network.link,
            topology=self.network.topology,
        )

    def connection_settings(self, timeout: float, capacity: int) -> ConnectionSettings:
        """Return what a transport has to know; waits so many seconds, and lets so many bytes wait."""
        kind = TRANSPORTS[self.network.transport]
        return ConnectionSettings(
            role=self.number,
            names=(self.roster.coordinator, *self.roster.participants),
            federation=self.federation.name,
            listen=self.network.listen,
            addresses=self._dialled(),
            credentials=self.tls.credentials() if self.tls is not None and kind.has_certificates else None,
            timeout=timeout,
            capacity=capacity,
            max_block=self.network.max_frame_mb << 20,
            silence=self.session_settings().silence,
            topology=self.network.topology,
        )

    def peers(self) -> dict[str, Address]:
        """Return the roles that this one dials, and where."""
        return {self.roster.name(role): address for role, address in self._dialled().items()}

    def _dialled(self) -> dict[int, Address]:
        addresses = {COORDINATOR: self.network.coordinator, ACTIVE: self.network.active}
        addresses |= {_number(self.roster, name): address for name, address in self.network.peers.items()}
        return {role: address for role, address in addresses.items() if address is not None}

    def file_of(self, purpose: str) -> Path:
        """Return the data file for "train", "evaluate", "predict" or "predictions"; raise SettingsError if not set."""
        path: Path | None = None if self.data is None else getattr(self.data, purpose)
        if path is None:
            raise SettingsError(f"{self.source}: [data] {purpose} is missing; add the path of that file")
        return path

    def inputs(self) -> Iterator[tuple[str, Path]]:
        """Yield every file that this role reads: the key with its table, such as "[tls] ca", and the path."""
        for table, part, keys in (
            ("tls", self.tls, ("ca", "certificate", "key")),
            ("data", self.data, ("train", "evaluate", "predict")),
            ("workers", self.workers, ("ca", "certificate", "key")),
        ):
            for key in keys if part is not None else ():
                path = getattr(part, key)
                if path is not None:
                    yield f"[{table}] {key}", path

    def outputs(self) -> Iterator[tuple[str, Path]]:
        """Yield every file that this role writes: the key with its table, and the path."""
        for key, path in (
            ("[role] model", self.role.model),
            ("[data] predictions", None if self.data is None else self.data.predictions),
            ("[log] file", self.log.file),
        ):
            if path is not None:
                yield key, path

    def check_outputs(self) -> None:
        """Refuse, by table and key, results that would have no folder: before anybody works for them."""
        for key, path in self.outputs():
            if path.is_dir() or not path.parent.is_dir():
                what = f"{path} is a folder" if path.is_dir() else f"there is no folder {path.parent}"
                raise SettingsError(f"{self.source}: {key}: {what}; give a file in a folder that exists")

    def with_label(self, column: str) -> RoleSettings:
        """Return the same settings with another label column, at the active participant."""
        if self.label is None:
            raise SettingsError(f"{self.role.name} is not the active participant; only that one names a label")
        return replace(self, label=replace(self.label, column=column))

    def over_mpi(self) -> RoleSettings:
        """Return the same settings for a role that is a rank of an MPI program."""
        return replace(self, network=replace(self.network, transport="mpi"))

    def _refuse_overwriting(self) -> None:
        taken = {os.path.normpath(path): key for key, path in self.inputs()}
        taken[os.path.normpath(self.role.state)] = "[role] state"
        for key, path in self.outputs():
            other = taken.setdefault(os.path.normpath(path), key)
            if other != key:
                raise SettingsError(
                    f"{self.source}: {key}: {path} would overwrite {other}; give each a path of its own"
                )


class _Reader:
    """Hands out the tables of one file."""

    def __init__(self, content: dict[str, Any], folder: Path, source: str) -> None:
        self.content, self.folder, self.source = content, folder, source

    def section(self, name: str, why: str = "") -> Section:
        """Return a table; a missing one is refused if there is a reason `why` it has to be there, or else empty."""
        if why and name not in self.content:
            raise SettingsError(f"{self.source}: the table [{name}] is missing; {why}")
        content = self.content.get(name, {})
        return Section(self.source, name, content, TABLES[name], self.folder, _REFUSED.get(name))

    def refuse(self, name: str, why: str) -> None:
        """Refuse a table that this role cannot have."""
        if name in self.content:
            raise SettingsError(f"{self.source}: [{name}] does not belong here: {why}; take the table out")


def _read(file: _Reader) -> RoleSettings:
    federation = Membership.read(file.section("federation", "it names the federation and its participants"))
    role = Role.read(file.section("role", "it says which role this file is for"), federation.roster)
    number = _number(federation.roster, role.name)
    told = file.section("network", "it says where to listen and whom to dial")
    network = Network.read(told, federation.roster, number)
    tls = None
    if TRANSPORTS[network.transport].has_certificates or "tls" in file.content:
        tls = Tls.read(file.section("tls", "roles know each other by their certificates"))
    training = read_training(file.section("training"))
    data = label = None
    if number == COORDINATOR:
        file.refuse("data", f"{role.name} is the coordinator, which holds no data")
        file.refuse("align", f"{role.name} is the coordinator, which has no part in that")
    else:
        data = Data.read(file.section("data", "it names the files and the id column"), number)
    if number == ACTIVE:
        assert data is not None
        label = Label.read(file.section("label", f"{role.name} is the active participant"), data, training)
    else:
        file.refuse("label", f"only {federation.roster.name(ACTIVE)}, the active participant, holds the label")
    if number in (COORDINATOR, ACTIVE):
        file.refuse("scoring", "only auxiliary participants are asked for rows, and can limit that")
    session, log = Session.read(file.section("session")), Log.read(file.section("log"))
    scoring, align = Scoring.read(file.section("scoring")), Align.read(file.section("align"))
    limits, own = read_limits(file.section("limits")), file.section("workers")
    workers = Workers.read(own) if own.content else None
    return RoleSettings(
        file.source,
        federation,
        role,
        network,
        tls,
        session,
        training,
        data,
        align,
        label,
        scoring,
        limits,
        log,
        workers,
    )


def _number(roster: Roster, name: str) -> int:
    return COORDINATOR if name == roster.coordinator else roster.participants.index(name) + 1
