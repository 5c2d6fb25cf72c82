"""The tables of a settings file, one frozen class each: what it may say, and what of it cannot work."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mpfedxgb.boosting.metrics import check_metrics
from mpfedxgb.boosting.objectives import CUSTOM, OBJECTIVES
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TOPOLOGIES, Link, Resources, link_of
from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.data.ids import RULES, IdRule
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.federation.settings.toml import REQUIRED, Section, shown, suggestion
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.transport.transport import MESH, STAR, Address
from mpfedxgb.transport.transports import TRANSPORTS, Credentials

LOG_LEVELS = ("debug", "info", "warning", "error")
OUTPUTS = (".csv", ".parquet")

DEFAULT_LINK = "lan"
"""What organisations plan for if they do not say otherwise: a wrong guess costs time, never the result."""

ALL_CORES = -1
"""How many threads a role takes if it does not say otherwise: its machine is its own, unlike in a simulation."""

LEAST_ROWS = 20
"""Rows that participants have in common, unless they agree on another number, or else nothing is kept."""

PASSPHRASES = dict.fromkeys(
    ("passphrase", "password", "key_passphrase", "key_password", "secret"),
    "a passphrase in a file is soon in a backup or a mail; put it into an environment variable and the name of that "
    "variable into passphrase_env",
)
"""Keys that would hold a passphrase, and why they must not."""

_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_LARGEST_BASE = 2.0**29


@dataclass(frozen=True, slots=True)
class Membership:
    """[federation]: its name and who takes part; the same at all roles."""

    name: str
    roster: Roster

    @classmethod
    def read(cls, table: Section) -> Membership:
        """Return the table, checked."""
        name = table.name_of("name")
        participants = table.texts("participants", REQUIRED)
        for participant in participants:
            table.check_name("participants", participant)
        coordinator = table.name_of("coordinator", "coordinator")
        try:
            return cls(name, Roster(participants, coordinator))
        except SettingsError as error:
            raise table.error("participants", f"cannot work: {error}") from None


@dataclass(frozen=True, slots=True)
class Role:
    """[role]: which role this is, and where it keeps its state and its part of the model."""

    name: str
    state: Path
    model: Path | None

    @classmethod
    def read(cls, table: Section, roster: Roster) -> Role:
        """Return the table, checked."""
        name = table.name_of("name")
        roles = [*roster.participants, roster.coordinator]
        if name not in roles:
            raise table.error("name", f"is no role of this federation{suggestion(name, roles, 'its roles are')}")
        if name == roster.coordinator and "model" in table:
            raise table.error("model", "does not belong here", "the coordinator keeps no model; take the key out")
        model = None if name == roster.coordinator else table.path("model", f"{name}.mpfedxgb.json")
        return cls(name, table.path("state", "state"), model)


@dataclass(frozen=True, slots=True)
class Network:
    """[network]: where this role listens, whom it dials, how long it waits.

    `peers` are the other auxiliaries that this one dials, by name: in a mesh, those before it in the list.
    """

    topology: str
    listen: Address | None
    coordinator: Address | None
    active: Address | None
    peers: Mapping[str, Address]
    deadline: float
    connect_timeout: float
    reconnect: bool
    max_frame_mb: int
    transport: str
    link: Link

    @classmethod
    def read(cls, table: Section, roster: Roster, number: int) -> Network:
        """Return the table of the role with this number, checked."""
        if table.content.get("transport") == "grpc":
            raise table.error("transport", "was replaced", 'write transport = "tls", the default, at all roles')
        transport = table.choice("transport", tuple(TRANSPORTS), next(iter(TRANSPORTS)))
        topology = table.choice("topology", TOPOLOGIES, STAR)
        has_addresses = TRANSPORTS[transport].has_addresses
        addresses: dict[str, Address | None] = {}
        never = "auxiliary participants dial out and never listen"
        if topology == MESH:
            never = f"{roster.name(number)} is the last participant, dials all others and never listens"
        for key, needed, why_not in (
            ("listen", listens(roster, number, topology), never),
            ("coordinator", number != COORDINATOR, "the coordinator dials nobody"),
            ("active", number not in (COORDINATOR, ACTIVE), "only auxiliary participants dial the active one"),
        ):
            if key in table and not needed:
                raise table.error(key, "does not belong here", f"{why_not}; take the key out")
            address = table.address(key, REQUIRED if needed and has_addresses else None)
            if key != "listen":
                _refuse_anywhere(table, key, address)
            addresses[key] = address
        if "link" in table and number != ACTIVE:
            raise table.error("link", "does not belong here", "the active participant announces it; take the key out")
        try:
            link = link_of(table.text("link", DEFAULT_LINK))
        except SettingsError as error:
            raise table.error("link", "cannot work", str(error)) from None
        return cls(
            topology=topology,
            **addresses,
            peers=_read_peers(table, roster, number, topology, has_addresses),
            deadline=table.number("deadline", 0.0, 1e6, 600.0, above=True),
            connect_timeout=table.number("connect_timeout", 0.0, 1e6, 300.0, above=True),
            reconnect=table.flag("reconnect", False),
            max_frame_mb=table.integer("max_frame_mb", 1, 65_536, 1024),
            transport=transport,
            link=link,
        )


def listens(roster: Roster, number: int, topology: str) -> bool:
    """Return whether a role is dialled by others: of two that are connected, the one with the higher number dials."""
    return any(peer > number for peer in roster.neighbours(number, topology))


def _read_peers(table: Section, roster: Roster, number: int, topology: str, has_addresses: bool) -> dict[str, Address]:
    """Return where a role dials other auxiliaries: all that are connected with it and have a lower number."""
    if "peers" in table and (topology == STAR or number in (COORDINATOR, ACTIVE)):
        why_not = "only auxiliary participants of a mesh dial each other"
        remedy = f"{why_not}; take [network.peers] out{', or set topology = mesh' if topology == STAR else ''}"
        raise table.error("peers", "does not belong here", remedy)
    dialled = [m for m in roster.neighbours(number, topology) if m not in (COORDINATOR, ACTIVE) and m < number]
    names = [roster.name(m) for m in dialled] if number not in (COORDINATOR, ACTIVE) else []
    refused = {
        roster.name(
            m
        ): f"{roster.name(number)} is not to dial {roster.name(m)}: of two auxiliaries, the one that comes "
        "later in [federation] participants dials; coordinator and active are keys of [network]; take the key out"
        for m in roster.roles
        if m not in dialled
    }
    inner = table.table("peers", names, refused)
    missing = [name for name in names if name not in inner]
    if missing and has_addresses:
        raise table.error(
            "peers",
            f"lacks {', '.join(missing)}",
            f'in a mesh {roster.name(number)} dials them: add {missing[0]} = "host:port" below [network.peers]',
            show=False,
        )
    found = {name: inner.address(name) for name in names if name in inner}
    for name, address in found.items():
        _refuse_anywhere(inner, name, address)
    return found


def _refuse_anywhere(table: Section, key: str, address: Address | None) -> None:
    if address is not None and address.is_anywhere:
        raise table.error(key, "cannot be dialled", "give the name or address of that role's machine")


@dataclass(frozen=True, slots=True)
class Tls:
    """[tls]: the files that prove who this role is; a passphrase comes from the environment, never from the file."""

    ca: Path
    certificate: Path
    key: Path
    passphrase_env: str | None

    @classmethod
    def read(cls, table: Section) -> Tls:
        """Return the table, checked."""
        variable = table.content.get("passphrase_env")
        if variable is not None and not (isinstance(variable, str) and _VARIABLE.fullmatch(variable)):
            raise table.error(
                "passphrase_env",
                "is not the name of an environment variable",
                "it holds the variable's name, such as BANK_KEY_PASSPHRASE, never the passphrase",
                show=False,  # it may be the passphrase
            )
        return cls(table.path("ca"), table.path("certificate"), table.path("key"), table.text("passphrase_env", None))

    def passphrase(self) -> str | None:
        """Return the passphrase of the private key from the environment, or None if the key has none."""
        if self.passphrase_env is None:
            return None
        value = os.environ.get(self.passphrase_env)
        if not value:
            raise SettingsError(
                f"[tls] passphrase_env names the environment variable {self.passphrase_env}, which is not set; "
                "set it to the passphrase of the private key"
            )
        return value

    def credentials(self) -> Credentials:
        """Return the files, with the passphrase."""
        passphrase = self.passphrase()
        return Credentials(self.ca, self.certificate, self.key, None if passphrase is None else passphrase.encode())


@dataclass(frozen=True, slots=True)
class Session:
    """[session]: what this run is called; a run of the same name goes on where it stopped."""

    name: str

    @classmethod
    def read(cls, table: Section) -> Session:
        """Return the table, checked: the name is also a folder's."""
        name: str = table.text("name", "training")
        if not _SESSION_NAME.fullmatch(name):
            remedy = "use up to 100 letters, digits and . - _, a letter or digit first"
            raise table.error("name", "is not a session's name", remedy)
        return cls(name)


def read_training(table: Section) -> TrainParams:
    """Return [training], the parameters that all roles know."""
    if table.content.get("objective") == CUSTOM.name:
        raise table.error("objective", "is a Python function, which a settings file cannot hold", "use a named one")
    objective = table.choice("objective", tuple(OBJECTIVES), TrainParams().objective)
    values: dict[str, Any] = {}
    for parameter in fields(TrainParams):
        key, default = parameter.name, parameter.default
        if key not in table:
            continue
        if isinstance(default, bool):
            values[key] = table.flag(key, default)
        elif isinstance(default, str):
            values[key] = table.text(key)
        elif isinstance(default, int):
            values[key] = table.integer(key, -(1 << 63), 1 << 63, default)
        else:
            values[key] = table.number(key, -1e308, 1e308, 0.0) + 0.0  # 1 and 1.0, 0.0 and -0.0 have one digest
    values["num_class"] = _classes(table, objective)
    try:
        params = TrainParams.from_dict(values)
        params.check_protected()
        params.check_rules()
        return params
    except SettingsError as error:
        raise SettingsError(f"{table.place}: [training] {error}") from None


def _classes(table: Section, objective: str) -> int:
    """Return the number of classes, which follows from every objective but those of any number."""
    given = table.integer("num_class", 1, 10_000, None)
    implied = OBJECTIVES[objective].classes
    if implied is None:
        if given is None or given < 2:
            raise table.error("num_class", f"is needed for {objective}", "give the number of classes, 2 or more")
        return int(given)
    if given not in (None, implied):
        raise table.error("num_class", f"does not go with objective {objective}", f"it is {implied}; leave the key out")
    return implied


@dataclass(frozen=True, slots=True)
class Data:
    """[data]: this participant's files and how their columns are read."""

    train: Path | None
    evaluate: Path | None
    predict: Path | None
    predictions: Path | None
    id: str
    align: bool
    features: tuple[str, ...] | None
    drop: tuple[str, ...]
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    delimiter: str | None
    encoding: str | None
    decimal: str | None
    missing: tuple[str, ...]

    @classmethod
    def read(cls, table: Section, number: int) -> Data:
        """Return the table of the role with this number, checked."""
        if "predictions" in table and number != ACTIVE:
            remedy = "only the active participant learns predictions; take the key out"
            raise table.error("predictions", "does not belong here", remedy)
        data = cls(
            train=table.path("train", None),
            evaluate=table.path("evaluate", None),
            predict=table.path("predict", None),
            predictions=table.path("predictions", None),
            id=table.text("id"),
            align=table.flag("align", False),
            features=table.texts("features", None),
            drop=table.texts("drop"),
            categorical=table.texts("categorical"),
            numeric=table.texts("numeric"),
            delimiter=table.text("delimiter", None),
            encoding=table.text("encoding", None),
            decimal=table.text("decimal", None),
            missing=table.texts("missing"),
        )
        try:
            data.csv  # noqa: B018 # for its checks
        except SettingsError as error:
            raise SettingsError(f"{table.place}: [data] {error}") from None
        if data.predictions is not None and data.predictions.suffix not in OUTPUTS:
            raise table.error("predictions", "is neither CSV nor Parquet", f"let it end in {' or '.join(OUTPUTS)}")
        data._check_columns(table)
        return data

    @property
    def csv(self) -> CsvFormat:
        """How CSV files are written, as far as the settings say."""
        return CsvFormat(self.delimiter, self.encoding, self.decimal, self.missing)

    def _check_columns(self, table: Section) -> None:
        if self.features is not None and self.drop:
            raise table.error("drop", "does not go with features", "name the columns to take or those to leave out")
        for key in ("features", "drop", "categorical", "numeric"):
            if self.id in (getattr(self, key) or ()):
                raise table.error(key, f"names the id column {shown(self.id)}", "an id is never a feature; take it out")
        both = [name for name in self.categorical if name in self.numeric]
        if both:
            raise table.error("numeric", f"names {shown(both[0])}, and so does categorical", "decide for one of them")
        for key in ("categorical", "numeric"):
            for name in getattr(self, key):
                if name in self.drop or (self.features is not None and name not in self.features):
                    raise table.error(key, f"names {shown(name)}, which is not among the features", "take it out")


@dataclass(frozen=True, slots=True)
class Align:
    """[align]: how the participants find the rows that they have in common.

    The same at all, but for `max_rows`, twice the participant's own list if None, and `n_jobs`.
    """

    ids: str
    case: str
    spaces: str
    unicode: str
    min_rows: int
    max_rows: int | None
    n_jobs: int | None

    @classmethod
    def read(cls, table: Section) -> Align:
        """Return the table, checked."""
        words = {key: table.choice(key, choices, choices[0]) for key, choices in RULES.items()}
        return cls(
            **words,
            min_rows=table.integer("min_rows", 1, 1 << 26, LEAST_ROWS),
            max_rows=table.integer("max_rows", 1, 1 << 26, None),
            n_jobs=table.integer("n_jobs", 1, 1024, None),
        )

    @property
    def rule(self) -> IdRule:
        """What counts as the same id."""
        return IdRule(self.ids, self.case, self.spaces, self.unicode)


@dataclass(frozen=True, slots=True)
class Label:
    """[label]: what the active participant predicts, and how it judges progress."""

    column: str
    weight: str | None
    eval_metric: tuple[str, ...]
    early_stopping_rounds: int | None
    base_score: float | None

    @classmethod
    def read(cls, table: Section, data: Data, training: TrainParams) -> Label:
        """Return the table, checked against the active participant's data and the training's parameters."""
        one = isinstance(table.content.get("eval_metric"), str)
        label = cls(
            column=table.text("column"),
            weight=table.text("weight", None),
            eval_metric=(table.text("eval_metric"),) if one else table.texts("eval_metric"),
            early_stopping_rounds=table.integer("early_stopping_rounds", 1, 1_000_000, None),
            base_score=table.number("base_score", -_LARGEST_BASE, _LARGEST_BASE, None, above=True),
        )
        label._check_columns(table, data)
        label._check_training(table, data, training)
        return label

    def _check_columns(self, table: Section, data: Data) -> None:
        if self.weight == self.column:
            raise table.error("weight", "is the label's own column", "give another column or take the key out")
        taken = {
            "id": (data.id,),
            "features": data.features or (),
            "drop": data.drop,
            "categorical": data.categorical,
            "numeric": data.numeric,
        }
        for key, name in (("column", self.column), ("weight", self.weight)):
            for other, names in taken.items():
                if name in names:
                    remedy = "label and weight are no features; take the name out there"
                    raise table.error(key, f"is also named by [data] {other}", remedy)

    def _check_training(self, table: Section, data: Data, training: TrainParams) -> None:
        try:
            check_metrics(list(self.eval_metric), training.objective)
        except UserError as error:
            raise table.error("eval_metric", f"cannot be used: {error}") from None
        if self.weight is not None and not training.weighted:
            raise table.error("weight", "needs weighted = true in [training]", "set it at all roles, who have to know")
        if self.weight is None and training.weighted:
            raise table.error("weight", "is missing, though [training] has weighted = true", "name the weight column")
        if self.early_stopping_rounds is None:
            return
        if not training.may_stop_early:
            remedy = "set it at all roles, who will see the number of trees"
            raise table.error("early_stopping_rounds", "needs may_stop_early = true in [training]", remedy)
        if data.evaluate is None:
            remedy = "give [data] evaluate at all participants"
            raise table.error("early_stopping_rounds", "needs rows to watch", remedy)


@dataclass(frozen=True, slots=True)
class Scoring:
    """[scoring]: what an auxiliary participant answers at most, in all scoring sessions together."""

    max_rows_per_day: int | None

    @classmethod
    def read(cls, table: Section) -> Scoring:
        """Return the table, checked."""
        return cls(table.integer("max_rows_per_day", 1, 1 << 40, None))


def read_limits(table: Section) -> Resources:
    """Return [limits], what this role's process may use: threads, memory, and a folder for what does not fit."""
    threads, memory = table.integer("n_jobs", -4096, 4096, ALL_CORES), table.text("max_memory", None)
    try:
        return Resources.read(threads, memory, table.path("spool", None))
    except SettingsError as error:
        raise SettingsError(f"{table.place}: [limits] {error}") from None


@dataclass(frozen=True, slots=True)
class Log:
    """[log]: how much is told, where, and in which form."""

    level: str
    file: Path | None
    json: bool

    @classmethod
    def read(cls, table: Section) -> Log:
        """Return the table, checked."""
        return cls(table.choice("level", LOG_LEVELS, "info"), table.path("file", None), table.flag("json", False))
