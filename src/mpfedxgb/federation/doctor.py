"""What can be checked before a session: settings, tables, certificate, clock, port, peers, versions, disk.

Nothing is written, and nothing is sent but a greeting of TLS to the peers that are dialled anyway.
"""

from __future__ import annotations

import datetime as dt
import enum
import errno
import os
import platform
import shutil
import socket
import stat
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.costs.capacity import check_limits, check_role
from mpfedxgb.data.binning import Candidates, bin_table
from mpfedxgb.data.ids import Ids
from mpfedxgb.data.table import Table, identifier_columns
from mpfedxgb.errors import (
    CheckpointError,
    DataError,
    FederationError,
    NoRoomError,
    SettingsError,
    UserError,
    WorkersError,
)
from mpfedxgb.federation.alignment import NAMES, alignment_path, rows_in_common
from mpfedxgb.federation.programs import refuse_training_ids
from mpfedxgb.federation.quota import RowsPerDay
from mpfedxgb.federation.rows import Rows, own_workers, read_labelled, read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.intersection.group import check_available
from mpfedxgb.machine import readers_beside_owner, version_of
from mpfedxgb.training.memory import peak_bytes
from mpfedxgb.transport.expiry import SOON
from mpfedxgb.transport.transport import Address
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.units import bytes_text

if TYPE_CHECKING:
    from mpfedxgb.transport.tls.identity import Identity

SOON_DAYS = SOON.days
"""A certificate that ends earlier is a warning."""

LITTLE_DISK = 1 << 30
"""Bytes of free space below which there is a warning."""

TIMEOUT = 3.0
"""Seconds that a peer has for an answer."""

_PACKAGES = ("numpy", "pandas", "cryptography")


class Severity(enum.StrEnum):
    """How bad something is."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a report: what was looked at, how it is, and what to do about it."""

    check: str
    level: Severity
    text: str


def examine(path: Path, timeout: float = TIMEOUT) -> Iterator[Finding]:
    """Yield what is found about the role of a settings file, from the file itself to the peers."""
    try:
        settings = RoleSettings.from_toml(path)
    except SettingsError as error:
        yield _problem("settings", error)
        yield from _versions()
        return
    kind = "the coordinator" if settings.is_coordinator else "active" if settings.is_active else "auxiliary"
    kind += " and the coordinator" if settings.roster.coordinating_owner == settings.role.name else ""
    text = f"{settings.role.name} ({kind}) of the federation {settings.federation.name}"
    yield _ok("settings", f"{path} is for {text}, session {settings.session.name}")
    yield from _clock(settings, path)
    yield from _tables(settings)
    yield from _alignment(settings)
    yield from _model(settings)
    yield from _limits(settings)
    yield from _folders(settings)
    yield from _workers(settings, timeout)
    identity = yield from _certificate(settings)
    yield from _port(settings)
    yield from _peers(settings, identity, timeout)
    yield from _versions()


def _ok(check: str, text: str) -> Finding:
    return Finding(check, Severity.OK, text)


def _warning(check: str, text: str) -> Finding:
    return Finding(check, Severity.WARNING, text)


def _problem(check: str, text: object) -> Finding:
    return Finding(check, Severity.PROBLEM, " ".join(str(text).split()))


def _workers(settings: RoleSettings, timeout: float) -> Iterator[Finding]:
    """Yield what there is to say about the role's own cluster; its workers are asked for their versions."""
    if settings.workers is None:
        return
    impatient = replace(settings, network=replace(settings.network, deadline=10 * timeout))
    try:
        with own_workers(impatient) as cluster:
            assert cluster is not None
            count = len(cluster.workers(least=1))
    except (SettingsError, WorkersError) as error:
        yield _problem("workers", error)
    else:
        yield _ok("workers", f"{count} at {settings.workers.scheduler}, with the versions of this role")


def _clock(settings: RoleSettings, path: Path) -> Iterator[Finding]:
    now = dt.datetime.now(dt.UTC)
    files = [path, *(file for _, file in settings.inputs() if file.exists())]
    newest = max(dt.datetime.fromtimestamp(file.stat().st_mtime, dt.UTC) for file in files)
    if newest > now + dt.timedelta(days=1):
        yield _warning("clock", f"it is {now:%Y-%m-%d %H:%M} UTC here, and a file is from later; set the clock right")
    else:
        yield _ok("clock", f"it is {now:%Y-%m-%d %H:%M} UTC here")


def _tables(settings: RoleSettings) -> Iterator[Finding]:
    """Yield what there is to say about the data files: read as a session would read them."""
    if settings.data is None:
        return
    known: list[Feature] | None = None
    classes: tuple[str | int | float, ...] | None = None
    ids: list[Ids] = []
    for purpose in ("train", "evaluate", "predict"):
        if getattr(settings.data, purpose) is None:
            if purpose == "train":
                yield _warning("data", "[data] train is not set; this role can only score")
            continue
        file = settings.file_of(purpose)
        try:
            rows = read_rows(settings, purpose, known)
            if rows.label is not None and settings.label is not None:
                evaluates = purpose != "train"
                given, base = classes if evaluates else None, settings.label.base_score
                classes = read_labelled(rows, settings.training, settings.role.name, given, base, evaluates).classes
        except (DataError, SettingsError) as error:
            yield _problem("data", f"{purpose} ({file.name}): {error}")
            continue
        yield _ok("data", _described(rows, purpose, file, classes))
        ids.append(rows.ids)
        if purpose == "evaluate" and settings.training.facts.hides_rows:
            yield from _evaluation_rows(settings, ids)
        if purpose == "train":
            yield _room(settings, rows.table)
            known = [Feature(column.name, column.categories) for column in rows.table.columns]
            yield from _columns(rows.table)


def _evaluation_rows(settings: RoleSettings, ids: list[Ids]) -> Iterator[Finding]:
    """Yield training rows among those to evaluate a sealed training on; an alignment may still leave them out."""
    try:
        refuse_training_ids(settings.role.name, ids)
    except UserError as error:
        aligns = settings.data is not None and settings.data.align
        yield _warning("data", str(error)) if aligns else _problem("data", error)


def _room(settings: RoleSettings, table: Table) -> Finding:
    """Return whether this machine has room for a training, if the others bring as many candidates as this role."""
    params = settings.training
    own = len(Candidates(bin_table(table, params.max_bin, params.binning)))
    sizes = TableSizes(table.rows, 0, (own,) * len(settings.roster.owners), settings.roster.coordinator_owns)
    assumed = f"for {own} candidate columns here and as many at each of the others"
    try:
        spooled = check_limits([settings.number], params, sizes, settings.limits)
        check_role(settings.role.name, settings.number, params, sizes, settings.role.state, in_spool=spooled)
    except NoRoomError as error:
        return _warning("room", f"{assumed}: {error}")
    needed = bytes_text(peak_bytes(settings.number, params, sizes, spooled))
    where = " beside its spool" if spooled else ""
    return _ok("room", f"{assumed}, a training takes {needed} of memory{where}, which is there")


def _alignment(settings: RoleSettings) -> Iterator[Finding]:
    """Yield whether rows in common can be found, and whether those that were found fit the tables that there are."""
    if settings.data is None or not settings.data.align:
        return
    try:
        check_available()
        purposes = [what for what in NAMES if getattr(settings.data, what) is not None]
        tables = {what: read_rows(settings, what) for what in purposes}
        common = rows_in_common(settings, tables)
    except SettingsError as error:
        yield _problem("align", error)
        return
    except (DataError, CheckpointError) as error:
        if alignment_path(settings).exists():  # otherwise it is about a table, of which there is a line above
            yield _problem("align", error)
        return
    if settings.align.ids == "text" and all(one.ids.are_whole_numbers() for one in tables.values()):
        remedy = 'if 7, 007 and 7.0 are one id, set [align] ids = "integer" at all participants'
        yield _warning("align", f"all ids are whole numbers, and are compared as texts; {remedy}")
    if common is None:
        yield _ok("align", "a training finds the rows that all participants have first; so does mpfedxgb align")
        return
    counts = (f"{len(common[what].ids)} of {len(tables[what].ids)} {NAMES[what]} rows" for what in tables)
    yield _ok("align", f"{' and '.join(counts)} are in common, as was found before")


def _described(rows: Rows, purpose: str, file: Path, classes: tuple[object, ...] | None) -> str:
    text_columns = sum(column.is_categorical for column in rows.table.columns)
    text = f"{purpose} ({file.name}): {rows.table.rows} rows with ids of their own, {len(rows.table.columns)} features"
    text += f" ({text_columns} of words)" if text_columns else ""
    if rows.label is not None:
        text += f", a label of {len(classes)} classes" if classes is not None else ", a label of numbers"
    return text + (", weights" if rows.weight is not None else "")


def _columns(table: Table) -> Iterator[Finding]:
    """Yield warnings about columns that a model would hardly want."""
    if not table.columns:
        yield _warning("data", "there is no column to learn from; check [data] features and drop")
    identifiers = identifier_columns(table)
    for column in table.columns:
        values = column.values[~np.isnan(column.values)]
        different = len(np.unique(values))
        if different < 2:
            what = "the same value" if different else "no value"
            yield _warning("data", f"column {column.name!r} has {what} in all rows; drop it")
        elif column.name in identifiers:
            yield _warning("data", f"column {column.name!r} has {different} words for {table.rows} rows; drop it")
        elif column.name.startswith("Unnamed: "):
            yield _warning("data", f"column {column.name!r} has no name in the file; is it a row number? then drop it")


def _model(settings: RoleSettings) -> Iterator[Finding]:
    path = settings.role.model
    if path is None or not path.exists():
        return
    try:
        model = PartialModel.load(path)
    except UserError as error:
        yield _problem("model", f"{error}; train again, or set [role] model to another file")
        return
    mine = (settings.roster.owner_names, settings.owner)
    if (model.participants, model.participant) != mine:
        theirs = f"{model.name} among {', '.join(model.participants)}"
        yield _problem("model", f"{path.name} is the part of {theirs}; set [role] model to this role's own file")
    else:
        yield _ok("model", f"{path.name} has {len(model.trees)} trees; training again replaces it")


def _limits(settings: RoleSettings) -> Iterator[Finding]:
    """Yield how much the active participant may ask of this role."""
    if settings.is_coordinator or settings.is_active:
        return
    most = settings.scoring.max_rows_per_day
    if most is None:
        yield _ok("scoring", "rows to score are not limited; [scoring] max_rows_per_day would")
        return
    try:
        asked = RowsPerDay(settings.role.state, most).asked()
    except CheckpointError as error:
        yield _problem("scoring", error)
    else:
        text = f"answers for at most {most} rows a day (UTC); {asked} were asked for today"
        yield _ok("scoring", text) if asked < most else _warning("scoring", f"{text}, so no more are answered")


def _folders(settings: RoleSettings) -> Iterator[Finding]:
    """Yield whether what has to be written can be; the coordinator writes nothing."""
    state = settings.role.state
    there = next(folder for folder in (state, *state.parents) if folder.exists())
    if settings.is_coordinator:
        return
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        yield _problem("state", f"[role] state: {state} cannot be written to; correct the path or its permissions")
    else:
        free = shutil.disk_usage(there).free
        text = f"{state} {'is' if there == state else 'will be made and is'} writable, {bytes_text(free)} free"
        yield _ok("state", text) if free >= LITTLE_DISK else _warning("state", f"{text}; make room for checkpoints")
    for key, path in settings.outputs():
        folder = path.parent
        if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
            yield _problem("output", f"{key}: {path} cannot be written; give a file in a folder of this role's own")


def _certificate(settings: RoleSettings) -> Generator[Finding, None, Identity | None]:
    """Yield what there is to say about the certificate; return the identity if it can be used."""
    if settings.tls is None:
        yield _ok("certificate", f"none is needed over {settings.network.transport}")
        return None
    from mpfedxgb.transport.tls.identity import Identity

    tls, usable = settings.tls, None
    try:
        identity = Identity.of(settings.role.name, tls.credentials())
        identity.check_usage(listens=settings.network.listen is not None, dials=bool(settings.peers()))
    except SettingsError as error:
        yield _problem("certificate", error)
    else:
        days = (identity.expires - dt.datetime.now(dt.UTC)).days
        text = f"{tls.certificate.name} is for {identity.name}, fits its key and authority, valid for {days} more days"
        yield _ok("certificate", text) if days >= SOON_DAYS else _warning("certificate", f"{text}; renew it soon")
        usable = identity
    if os.name == "posix" and tls.key.exists():
        mode = stat.S_IMODE(tls.key.stat().st_mode)
        if who := readers_beside_owner(tls.key.stat()):
            yield _warning("key", f"{tls.key} is open to {who} (mode {mode:o}); chmod 600 keeps it to yourself")
        else:
            yield _ok("key", f"{tls.key.name} is readable by its owner only (mode {mode:o})")
    return usable


def _port(settings: RoleSettings) -> Iterator[Finding]:
    address = settings.network.listen
    if address is None:
        return
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that just ended is no obstacle
            probe.bind((address.host, address.port))
            probe.listen()  # two sockets may be bound to one port, but only one listens
    except OSError as error:
        remedies = {
            errno.EADDRINUSE: "another program listens there; is this role running already? If not, take another port",
            errno.EACCES: "ports below 1024 need special rights; take a higher one",
            errno.EADDRNOTAVAIL: "it is no address of this machine; 0.0.0.0 listens on all of them",
        }
        reason = remedies.get(error.errno or 0, f"{error.strerror or error}; take another address")
        yield _problem("port", f"[network] listen: {address} cannot be listened on: {reason}")
    else:
        yield _ok("port", f"{address} is free to listen on; firewalls have to let the others through to it")


def _peers(settings: RoleSettings, identity: Identity | None, timeout: float) -> Iterator[Finding]:
    from mpfedxgb.transport.tls.calls import probe

    for name, address in settings.peers().items():
        finding = _reach(name, address, timeout)
        if finding.level is Severity.OK and identity is not None:
            try:
                probe(identity, address, name, timeout)
            except FederationError as error:
                finding = _problem("peers", error)
            else:
                finding = _ok("peers", f"{name} answers at {address}, and the certificates are accepted")
        yield finding


def _reach(name: str, address: Address, timeout: float) -> Finding:
    """Return whether anybody listens at an address."""
    try:
        with closing(socket.create_connection((address.host, address.port), timeout)):
            return _ok("peers", f"{name} answers at {address}; without a usable certificate that is all to be seen")
    except socket.gaierror:
        return _problem("peers", f"{name}: the host {address.host} is not known; correct the address in [network]")
    except ConnectionRefusedError:
        return _warning("peers", f"{name}: nobody listens at {address} yet; start {name} or correct the address")
    except TimeoutError:
        return _warning(
            "peers", f"{name}: no answer from {address} in {timeout:g} seconds; a firewall may be in between"
        )
    except (OSError, UnicodeError) as error:
        return _warning("peers", f"{name} cannot be reached at {address}: {getattr(error, 'strerror', None) or error}")


def _versions() -> Iterator[Finding]:
    found = [f"mpfedxgb {version_of('mpfedxgb')}", f"Python {platform.python_version()}"]
    found += [f"{package} {version_of(package)}" for package in _PACKAGES]
    xgboost = version_of("xgboost")
    found.append(f"xgboost {xgboost}" if xgboost else "no xgboost (only comparisons need it)")
    yield _ok("versions", ", ".join(found) + "; mpfedxgb has to be the same at all roles")
