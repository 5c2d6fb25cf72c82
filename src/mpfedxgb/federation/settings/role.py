"""The settings of one role of a federation: one TOML file, read once, checked before anything runs.

Nothing here opens a data file, a certificate or a connection; whether files are there, `doctor` looks.

[workers]: the Dask cluster of this role's own organisation, if its rows are to live there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import Resources, SessionSettings
from mpfedxgb.data.ids import IdRule
from mpfedxgb.errors import SettingsError, raise_all
from mpfedxgb.federation.settings.sections import (
    Accept,
    Align,
    Data,
    Label,
    Log,
    Membership,
    Network,
    Role,
    Scoring,
    Serve,
    Session,
    Tls,
    Workers,
    kind_of,
    number_of,
    read_limits,
    read_training,
)
from mpfedxgb.federation.settings.toml import Section, check_values, read_toml, shorten
from mpfedxgb.modes.facts import check_coordinator
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.schema.settings import ALL, TABLES, TLS
from mpfedxgb.schema.training import suggestion
from mpfedxgb.transport.transport import NAME, Address
from mpfedxgb.transport.transports import TRANSPORTS, ConnectionSettings


@dataclass(frozen=True, slots=True)
class RoleSettings:
    """All settings of one role; what it has no use for is None: `tls` without certificates, `data`, `label`."""

    source: str
    federation: Membership
    role: Role
    network: Network
    tls: Tls | None
    session: Session
    training: TrainParams
    accept: Accept
    data: Data | None
    align: Align
    label: Label | None
    scoring: Scoring
    serve: Serve
    limits: Resources
    log: Log
    workers: Workers | None = None
    has_training: bool = True
    """Whether the file says which training it is; if not, a role may take over what is proposed."""
    aligned_as: str = ""
    """The session in which the rows in common were found."""

    @classmethod
    def from_toml(cls, path: str | Path) -> RoleSettings:
        """Return the settings in a TOML file; relative paths in it begin at its folder.

        Raises
        ------
        SettingsError
            Naming file, table, key, value and remedy of all that is wrong.
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
        check_values(source, content)
        settings = _read(content, Path(folder).absolute(), source)
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
    def owner(self) -> int:
        """The role's number as an owner of columns, as in models: 1 the active participant, 0 if it has none."""
        return self.roster.owner_of(self.number)

    @property
    def is_coordinator(self) -> bool:
        """Whether this role deals masks and holds no data; one that does both is a participant that coordinates."""
        return not self.owner

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
        """Return what a transport has to know; `timeout` in seconds, `capacity` in waiting bytes."""
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
            raise SettingsError(
                f"{self.source}: [data] {purpose} is missing; add the path of that file", "missing", f"data.{purpose}"
            )
        return path

    def inputs(self) -> Iterator[tuple[str, Path]]:
        """Yield every file that this role reads: the key with its table, such as "[tls] ca", and the path."""
        for table, part, keys in (
            ("tls", self.tls, ("ca", "certificate", "key")),
            ("data", self.data, ("train", "evaluate", "predict")),
            ("serve", self.serve, ("token_file",)),
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
                raise SettingsError(
                    f"{self.source}: {key}: {what}; give a file in a folder that exists", "file", key, what
                )

    def with_label(self, column: str) -> RoleSettings:
        """Return the same settings with another label column, at the active participant."""
        if self.label is None:
            raise SettingsError(
                f"{self.role.name} is not the active participant; only that one names a label", "place", self.role.name
            )
        return replace(self, label=replace(self.label, column=column))

    def for_session(self, name: str, training: TrainParams | None = None) -> RoleSettings:
        """Return the same settings for a session of another name, and with other parameters if they are given.

        Rows in common stay those of the file's session.
        """
        section = Section(TABLES["session"], {"name": name}, Path())
        session = Session.read(section)
        raise_all(section.faults)
        return replace(self, session=session, training=self.training if training is None else training)

    def for_trial(self) -> RoleSettings:
        """Return the same settings with the model in the session's folder, where it takes no other's place."""
        assert self.role.model is not None, "participants keep models"
        model = self.role.state / self.session.name / self.role.model.name
        return replace(self, role=replace(self.role, model=model))

    def over_mpi(self) -> RoleSettings:
        """Return the same settings for a role that is a rank of an MPI program."""
        return replace(self, network=replace(self.network, transport="mpi"))

    def _refuse_overwriting(self) -> None:
        taken = {os.path.normpath(path): key for key, path in self.inputs()}
        taken[os.path.normpath(self.role.state)] = "[role] state"
        for key, path in self.outputs():
            other = taken.setdefault(os.path.normpath(path), key)
            if other != key:
                text = f"{self.source}: {key}: {path} would overwrite {other}; give each a path of its own"
                raise SettingsError(text, "duplicate", key)


def _read(content: dict[str, Any], folder: Path, source: str) -> RoleSettings:
    """Return the settings of a role: first every key of every table is checked, then what they say together."""
    unknown = [table for table in content if table not in TABLES]
    texts = {table: f"[{shorten(str(table))}]; {suggestion(table, TABLES, 'the tables are')}" for table in unknown}
    faults = [SettingsError(f"there is no table {texts[table]}", "unknown", str(table)) for table in unknown]
    own = content.get("role")
    name = own["name"] if isinstance(own, dict) and isinstance(own.get("name"), str) else ""
    name = name if NAME.fullmatch(name) else "role"  # for the defaults of paths
    federation = who = None
    number = COORDINATOR
    first, second = (Section(TABLES[table], content.get(table, {}), folder, name) for table in ("federation", "role"))
    if not first.faults and not second.faults:
        try:
            federation = Membership.read(first)
            number = number_of(second, federation.roster)
            who = kind_of(federation.roster, number)
        except SettingsError as error:
            faults.append(error)
    sections: dict[str, Section] = {}
    for table in TABLES.values():
        is_there, others, needed = table.name in content, table.others, table.needed
        if who is not None and federation is not None:
            names = {"coordinator": federation.roster.coordinator, "active": federation.roster.name(ACTIVE)}
            others, needed = others.format(**names), needed.format(**names)
        elif table.who != ALL:
            needed = ""  # it is not known whether this role may have it
        if table is TLS and _has_certificates(sections["network"]):
            needed = "roles know each other by their certificates"
        if who is not None and who not in table.who:
            text = f"[{table.name}] does not belong here: {others}; take the table out"
            faults += [SettingsError(text, "place", table.name)] if is_there else []
        elif needed and not is_there:
            faults.append(SettingsError(f"the table [{table.name}] is missing; {needed}", "missing", table.name))
        elif is_there or who is not None or table.who == ALL:
            sections[table.name] = Section(table, content.get(table.name, {}), folder, name, who)
    raise_all([*faults, *(fault for section in sections.values() for fault in section.faults)], source)
    assert federation is not None  # or else something is wrong with it
    settings = _together(source, federation, number, sections, folder)
    raise_all((fault for section in sections.values() for fault in section.faults), source)
    return settings


def _has_certificates(network: Section) -> bool:
    kind = TRANSPORTS.get(network.values["transport"] or "")
    return kind is None or kind.has_certificates


def _together(
    source: str, federation: Membership, number: int, sections: dict[str, Section], folder: Path
) -> RoleSettings:
    """Return the settings of a role whose tables are right one by one; their sections keep what is wrong together."""

    def values(table: str) -> dict[str, Any]:
        return sections[table].values if table in sections else Section(TABLES[table], {}, folder).values

    training = read_training(sections["training"])
    try:
        check_coordinator(training.facts, federation.roster.coordinating_owner)
    except SettingsError as error:
        sections["federation"].check([SettingsError(str(error), error.code, "federation.coordinator", error.value)])
    data = Data.read(sections["data"], training) if "data" in sections else None
    return RoleSettings(
        source=source,
        federation=federation,
        role=Role.read(sections["role"], federation.roster, number),
        network=Network.read(sections["network"], federation.roster, number),
        tls=Tls(**values("tls")) if sections["tls"].content else None,
        session=Session.read(sections["session"]),
        training=training,
        accept=Accept.read(sections["accept"]) if "accept" in sections else Accept(**values("accept")),
        data=data,
        align=Align(**values("align")),
        label=Label.read(sections["label"], data, training) if data is not None and "label" in sections else None,
        scoring=Scoring(**values("scoring")),
        serve=Serve(**values("serve")),
        limits=read_limits(sections["limits"]),
        log=Log(**values("log")),
        workers=Workers.read(sections["workers"]),
        has_training=bool(sections["training"].content),
        aligned_as=sections["session"].values["name"] or "",
    )


def _number(roster: Roster, name: str) -> int:
    return [roster.coordinator, *roster.participants].index(name)
