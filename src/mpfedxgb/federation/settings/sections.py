"""The tables of a settings file, one frozen class each: what it may say, and what of it cannot work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mpfedxgb.boosting.metrics import check_metrics
from mpfedxgb.boosting.objectives import CUSTOM, OBJECTIVES
from mpfedxgb.boosting.params import TrainParams, check_scale_pos_weight
from mpfedxgb.config import Link, Resources
from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.data.ids import IdRule
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.federation.settings.toml import Section, shown
from mpfedxgb.modes.facts import FACTS, check_runs_a_protocol
from mpfedxgb.party.roster import ACTIVE, COORDINATOR, Roster
from mpfedxgb.schema.settings import Key, Table
from mpfedxgb.schema.training import ADDRESS, suggestion
from mpfedxgb.transport.transport import MESH, STAR, Address
from mpfedxgb.transport.transports import TRANSPORTS, Credentials

OUTPUTS = (".csv", ".parquet")

_SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class Membership:
    """[federation]: its name and who takes part; the same at all roles."""

    name: str
    roster: Roster

    @classmethod
    def read(cls, table: Section) -> Membership:
        """Return the table, checked."""
        values = table.values
        names, coordinator = values["participants"], values["coordinator"]
        if coordinator in names:
            try:
                return cls(values["name"], Roster.coordinated_by(names, coordinator))
            except SettingsError as error:
                text = f"[{table.table.name}] {error}"
                raise SettingsError(text, error.code, f"{table.table.name}.{error.parameter}", error.value) from None
        try:
            return cls(values["name"], Roster(names, coordinator))
        except SettingsError as error:
            raise table.error("participants", f"cannot work: {error}") from None


@dataclass(frozen=True, slots=True)
class Role:
    """[role]: which role this is, and where it keeps its state and its part of the model."""

    # generated: role
    name: str
    state: Path
    model: Path | None
    # end of generated

    @classmethod
    def read(cls, table: Section, roster: Roster, number: int) -> Role:
        """Return the table of the role with this number."""
        return cls(**table.values | ({} if roster.owner_of(number) else {"model": None}))


def kind_of(roster: Roster, number: int) -> str:
    """Return what a role is, in the words of the schema."""
    if number == COORDINATOR:
        return "coordinating" if roster.coordinator_owns else "coordinator"
    return "active" if number == ACTIVE else "auxiliary"


def number_of(table: Section, roster: Roster) -> int:
    """Return the number of the role that [role] names."""
    roles = [roster.coordinator, *roster.participants]
    name = table.values["name"]
    if name not in roles:
        raise table.error("name", f"is no role of this federation; {suggestion(name, roles, 'its roles are')}")
    return roles.index(name)


@dataclass(frozen=True, slots=True)
class Network:
    """[network]: where this role listens, whom it dials, how long it waits.

    `peers` are the other auxiliaries that this one dials, by name: in a mesh, those before it in the list.
    """

    # generated: network
    topology: str
    listen: Address | None
    coordinator: Address | None
    active: Address | None
    peers: Mapping[str, Address]
    link: Link
    deadline: float
    connect_timeout: float
    reconnect: bool
    max_frame_mb: int
    transport: str
    # end of generated

    @classmethod
    def read(cls, table: Section, roster: Roster, number: int) -> Network:
        """Return the table of the role with this number, checked."""
        known = TRANSPORTS.get(table.values["transport"])
        if known is None:
            hint = f"is not known; {suggestion(table.values['transport'], TRANSPORTS, 'it is one of')}"
            if table.values["transport"] == "grpc":
                hint = 'was replaced; write transport = "tls", the default, at all roles'
            table.check([table.error("transport", hint, code="choice")])
        peers = _peers(table, roster, number)
        table.check(_wrong_addresses(table, peers, roster, number, known is None or known.has_addresses))
        table.check(peers.faults)
        return cls(**table.values | {"peers": {k: v for k, v in peers.values.items() if v is not None}})


def listens(roster: Roster, number: int, topology: str) -> bool:
    """Return whether a role is dialled by others: of two that are connected, the one with the higher number dials."""
    return any(peer > number for peer in roster.neighbours(number, topology))


def _dials(roster: Roster, number: int, topology: str) -> list[str]:
    """Return the auxiliaries that a role dials: all that are connected with it and have a lower number."""
    if number in (COORDINATOR, ACTIVE):
        return []
    earlier = [m for m in roster.neighbours(number, topology) if m not in (COORDINATOR, ACTIVE) and m < number]
    return [roster.name(m) for m in earlier]


def _peers(table: Section, roster: Roster, number: int) -> Section:
    """Return [network.peers], with an address for each name."""
    dialled, own = _dials(roster, number, table.values["topology"]), roster.name(number)
    refused = {
        name: f"{own} is not to dial {name}: of two auxiliaries, the one that comes later in [federation] participants "
        "dials; coordinator and active are keys of [network]; take the key out"
        for name in map(roster.name, roster.roles)
        if name not in dialled
    }
    keys = tuple(Key(name, ADDRESS, None, "") for name in dialled)
    return Section(Table("network.peers", keys, refused=refused), table.values["peers"] or {}, table.folder)


def _wrong_addresses(
    table: Section, peers: Section, roster: Roster, number: int, has_addresses: bool
) -> Iterator[SettingsError]:
    """Yield what is wrong with where a role listens and whom it dials."""
    topology = table.values["topology"]
    never = "auxiliary participants dial out and never listen"
    if topology == MESH:
        never = f"{roster.name(number)} is the last participant, dials all others and never listens"
    needed = {"listen": listens(roster, number, topology)}
    needed |= {"coordinator": number != COORDINATOR, "active": number not in (COORDINATOR, ACTIVE)}
    if "listen" in table and not needed["listen"]:
        yield table.misplaced("listen", never)
    for key in needed:
        if key not in table and needed[key] and has_addresses:
            yield table.error(key, "is missing", f"add it under [{table.table.name}]", "missing")
        if key != "listen":
            yield from _anywhere(table, key)
    if "peers" in table and (topology == STAR or number in (COORDINATOR, ACTIVE)):
        why_not = "only auxiliary participants of a mesh dial each other"
        remedy = f"{why_not}; take [network.peers] out{', or set topology = mesh' if topology == STAR else ''}"
        yield table.error("peers", "does not belong here", remedy, "place")
    missing = [name for name in _dials(roster, number, topology) if name not in peers]
    if missing and has_addresses:
        remedy = f'in a mesh {roster.name(number)} dials them: add {missing[0]} = "host:port" below [network.peers]'
        yield table.error("peers", f"lacks {', '.join(missing)}", remedy, "missing", show=False)
    for name in peers.values:
        yield from _anywhere(peers, name)


def _anywhere(table: Section, key: str) -> Iterator[SettingsError]:
    address = table.values[key]
    if address is not None and address.is_anywhere:
        yield table.error(key, "cannot be dialled", "give the name or address of that role's machine")


@dataclass(frozen=True, slots=True)
class Tls:
    """[tls]: the files that prove who this role is; a passphrase comes from the environment, never from the file."""

    # generated: tls
    ca: Path
    certificate: Path
    key: Path
    passphrase_env: str | None
    # end of generated

    def passphrase(self) -> str | None:
        """Return the passphrase of the private key from the environment, or None if the key has none."""
        if self.passphrase_env is None:
            return None
        value = os.environ.get(self.passphrase_env)
        if not value:
            text = (
                f"[tls] passphrase_env names the environment variable {self.passphrase_env}, which is not set; "
                "set it to the passphrase of the private key"
            )
            raise SettingsError(text, "missing", "tls.passphrase_env", self.passphrase_env)
        return value

    def credentials(self) -> Credentials:
        """Return the files, with the passphrase."""
        passphrase = self.passphrase()
        return Credentials(self.ca, self.certificate, self.key, None if passphrase is None else passphrase.encode())


@dataclass(frozen=True, slots=True)
class Session:
    """[session]: what this run is called; a run of the same name goes on where it stopped."""

    # generated: session
    name: str
    # end of generated

    @classmethod
    def read(cls, table: Section) -> Session:
        """Return the table, checked: the name is also a folder's."""
        if not _SESSION_NAME.fullmatch(table.values["name"] or ""):
            remedy = "use up to 100 letters, digits and . - _, a letter or digit first"
            table.check([table.error("name", "is not a session's name", remedy)])
        return cls(**table.values)


def read_training(table: Section) -> TrainParams:
    """Return [training], the parameters that all roles know; the defaults, if something is wrong."""
    values = {key: value for key, value in table.values.items() if key in table}
    objective, wrong = table.values["objective"], None
    if objective == CUSTOM.name:
        wrong = table.error("objective", "is a Python function, which a settings file cannot hold", "use a named one")
    elif objective not in OBJECTIVES:
        hint = suggestion(objective, OBJECTIVES, "it is one of")
        wrong = table.error("objective", f"is not known; {hint}", code="choice")
    else:
        implied, given = OBJECTIVES[objective].classes, values.get("num_class")
        if implied is None and (given is None or given < 2):
            remedy = "give the number of classes, 2 or more"
            wrong = table.error("num_class", f"is needed for {objective}", remedy, "missing")
        elif implied is not None and given not in (None, implied):
            remedy = f"it is {implied}; leave the key out"
            wrong = table.error("num_class", f"does not go with objective {objective}", remedy)
        values["num_class"] = implied or given
    if wrong is not None:
        table.check([wrong])
    if table.faults:
        return TrainParams()
    try:
        params = TrainParams.from_dict(values)
        check_runs_a_protocol(params.facts)
        params.check_rules()
    except SettingsError as error:
        table.check(SettingsError(f"[training] {e}", e.code, f"training.{e.parameter}", e.value) for e in error.faults)
        return TrainParams()
    return params


@dataclass(frozen=True, slots=True)
class Accept:
    """[accept]: which trainings a role takes part in that the active participant proposes."""

    # generated: accept
    security: tuple[str, ...]
    max_depth: int
    max_trees: int
    max_bin: int
    min_rows: int
    max_rows: int | None
    trainings_per_day: int
    # end of generated

    @classmethod
    def read(cls, table: Section) -> Accept:
        """Return the table, checked."""
        for name in table.values["security"] or ():
            if name not in FACTS or not FACTS[name].runs_a_protocol:
                known = ", ".join(mode for mode, facts in FACTS.items() if facts.runs_a_protocol)
                table.check([table.error("security", f"names {shown(name)}", f"the modes are {known}", "choice")])
        return cls(**table.values)


@dataclass(frozen=True, slots=True)
class Data:
    """[data]: this participant's files and how their columns are read."""

    # generated: data
    id: str
    align: bool
    train: Path | None
    evaluate: Path | None
    predict: Path | None
    predictions: Path | None
    features: tuple[str, ...] | None
    drop: tuple[str, ...]
    categorical: tuple[str, ...]
    numeric: tuple[str, ...]
    monotone: Mapping[str, int]
    delimiter: str | None
    encoding: str | None
    decimal: str | None
    missing: tuple[str, ...]
    # end of generated

    @classmethod
    def read(cls, table: Section, training: TrainParams) -> Data:
        """Return the table, checked."""
        data = cls(**table.values)
        table.check(data._faults(table))
        if data.monotone and not training.constrained:
            remedy = "set it at all roles, who have to know that columns have directions"
            table.check([table.error("monotone", "needs constrained = true in [training]", remedy)])
        return data

    @property
    def csv(self) -> CsvFormat:
        """How CSV files are written, as far as the settings say."""
        return CsvFormat(self.delimiter, self.encoding, self.decimal, self.missing)

    def _faults(self, table: Section) -> Iterator[SettingsError]:
        try:
            self.csv  # noqa: B018 # for its checks
        except SettingsError as error:
            yield SettingsError(f"[data] {error}", error.code, f"data.{error.parameter}", error.value)
        if self.predictions is not None and self.predictions.suffix not in OUTPUTS:
            yield table.error("predictions", "is neither CSV nor Parquet", f"let it end in {' or '.join(OUTPUTS)}")
        if self.features is not None and self.drop:
            yield table.error("drop", "does not go with features", "name the columns to take or those to leave out")
        for key in ("features", "drop", "categorical", "numeric", "monotone"):
            if self.id in (getattr(self, key) or ()):
                yield table.error(key, f"names the id column {shown(self.id)}", "an id is never a feature; take it out")
        both = [name for name in self.categorical if name in self.numeric]
        if both:
            yield table.error("numeric", f"names {shown(both[0])}, and so does categorical", "decide for one of them")
        if unordered := [name for name in self.categorical if name in self.monotone]:
            yield table.error(
                "monotone", f"names {shown(unordered[0])}, which is categorical", "categories have no order"
            )
        for key in ("categorical", "numeric", "monotone"):
            for name in getattr(self, key):
                if name in self.drop or (self.features is not None and name not in self.features):
                    yield table.error(key, f"names {shown(name)}, which is not among the features", "take it out")


@dataclass(frozen=True, slots=True)
class Align:
    """[align]: how the participants find the rows that they have in common.

    The same at all, but for `max_rows`, twice the participant's own list if None, and `n_jobs`.
    """

    # generated: align
    ids: str
    case: str
    spaces: str
    unicode: str
    min_rows: int
    max_rows: int | None
    n_jobs: int | None
    # end of generated

    @property
    def rule(self) -> IdRule:
        """What counts as the same id."""
        return IdRule(self.ids, self.case, self.spaces, self.unicode)


@dataclass(frozen=True, slots=True)
class Label:
    """[label]: what the active participant predicts, and how it judges progress."""

    # generated: label
    column: str
    eval_metric: tuple[str, ...]
    weight: str | None
    qid: str | None
    upper: str | None
    scale_pos_weight: float
    base_margin: tuple[str, ...]
    early_stopping_rounds: int | None
    base_score: float | None
    # end of generated

    @classmethod
    def read(cls, table: Section, data: Data, training: TrainParams) -> Label:
        """Return the table, checked against the active participant's data and the training's parameters."""
        label = cls(**table.values)
        table.check([*label._wrong_columns(table, data), *label._wrong_training(table, data, training)])
        return label

    def _wrong_columns(self, table: Section, data: Data) -> Iterator[SettingsError]:
        if self.weight == self.column:
            yield table.error("weight", "is the label's own column", "give another column or take the key out")
        own = [(key, name) for key in ("column", "weight", "qid", "upper") if (name := getattr(self, key)) is not None]
        for i, (key, name) in enumerate(own):
            for other, earlier in own[:i] if key not in ("column", "weight") else ():
                if name == earlier:
                    remedy = "give another column or take the key out"
                    yield table.error(key, f"is also named by [label] {other}", remedy)
        if {name for _, name in own} & {*self.base_margin}:
            remedy = "give another column or take the key out"
            yield table.error("base_margin", "names a column that another key of [label] names", remedy)
        taken = {"id": (data.id,), "features": data.features or ()}
        taken |= {key: getattr(data, key) for key in ("drop", "categorical", "numeric", "monotone")}
        for key, name in [*own, *(("base_margin", name) for name in self.base_margin)]:
            for other, names in taken.items():
                if name in names:
                    remedy = "the columns of [label] are no features; take the name out there"
                    yield table.error(key, f"is also named by [data] {other}", remedy)

    def _wrong_training(self, table: Section, data: Data, training: TrainParams) -> Iterator[SettingsError]:
        try:
            check_metrics(list(self.eval_metric), training.objective)
        except UserError as error:
            yield table.error("eval_metric", f"cannot be used: {error}")
        yield from self._wrong_beside(table, training)
        yield from self._wrong_weights(table, training)
        count = training.outputs
        if self.base_margin and len(self.base_margin) != count:
            remedy = f"{training.objective} has {count} margins for each row; name {count} columns"
            yield table.error("base_margin", f"names {len(self.base_margin)} columns", remedy)
        if self.early_stopping_rounds is None:
            return
        if not training.may_stop_early:
            remedy = "set it at all roles, who will see the number of trees"
            yield table.error("early_stopping_rounds", "needs may_stop_early = true in [training]", remedy)
        if data.evaluate is None:
            remedy = "give [data] evaluate at all participants"
            yield table.error("early_stopping_rounds", "needs rows to watch", remedy)

    def _wrong_beside(self, table: Section, training: TrainParams) -> Iterator[SettingsError]:
        """Yield what an objective takes beside labels and the settings do not name, or the other way round."""
        for key in ("qid", "upper"):
            wanted = training.loss.beside == key
            if wanted and getattr(self, key) is None:
                yield table.error(key, "is missing", f"{training.objective} needs the column", "missing")
            elif not wanted and getattr(self, key) is not None:
                yield table.error(key, f"does not go with {training.objective}", "take the key out")

    def _wrong_weights(self, table: Section, training: TrainParams) -> Iterator[SettingsError]:
        if self.weight is not None and not training.weighted:
            yield table.error("weight", "needs weighted = true in [training]", "set it at all roles, who have to know")
        if self.scale_pos_weight != 1 and not training.weighted:
            remedy = "set it at all roles, who have to know that rows have weights"
            yield table.error("scale_pos_weight", "needs weighted = true in [training]", remedy)
        try:
            check_scale_pos_weight(training.loss, self.scale_pos_weight)
        except SettingsError as error:
            yield SettingsError(f"[label] {error}", error.code, "label.scale_pos_weight", error.value)
        if self.weight is None and self.scale_pos_weight == 1 and training.weighted:
            remedy = "name the weight column, or set scale_pos_weight"
            yield table.error("weight", "is missing, though [training] has weighted = true", remedy, "missing")


@dataclass(frozen=True, slots=True)
class Scoring:
    """[scoring]: what an auxiliary participant answers at most, in all scoring sessions together."""

    # generated: scoring
    max_rows_per_day: int | None


# end of generated


@dataclass(frozen=True, slots=True)
class Serve:
    """[serve]: how the active participant answers over HTTP."""

    # generated: serve
    token_file: Path | None
    max_batch: int
    max_wait_ms: float
    max_waiting: int
    max_body_mb: int
    timeout: float


# end of generated


def read_limits(table: Section) -> Resources:
    """Return [limits], what this role's process may use: threads, memory, and a folder for what does not fit."""
    try:
        return Resources.read(*(table.values[key] for key in ("n_jobs", "max_memory", "spool")))
    except SettingsError as error:
        table.check([SettingsError(f"[limits] {error}", error.code, f"limits.{error.parameter}", error.value)])
        return Resources()


@dataclass(frozen=True, slots=True)
class Workers:
    """[workers]: where the scheduler is, and the files of the cluster's own TLS; without it, rows stay in the process.

    The cluster has an authority of its own. Its certificates have nothing to do with those of the federation.
    """

    # generated: workers
    scheduler: str
    ca: Path
    certificate: Path
    key: Path
    # end of generated

    @classmethod
    def read(cls, table: Section) -> Workers | None:
        """Return the table, checked; None without one."""
        if not table.content:
            return None
        scheduler: str = table.values["scheduler"] or ""
        if not scheduler.startswith("tls://") or ":" not in scheduler.removeprefix("tls://"):
            remedy = "give the address of a Dask scheduler with TLS, such as tls://dask.bank.internal:8786"
            table.check([table.error("scheduler", "is no encrypted address", remedy)])
        return cls(**table.values)


@dataclass(frozen=True, slots=True)
class Log:
    """[log]: what is logged, where, and in which form."""

    # generated: log
    level: str
    file: Path | None
    json: bool


# end of generated
