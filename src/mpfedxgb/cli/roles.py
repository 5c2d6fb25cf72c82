"""`coordinator`, `participant` and `mpi-run`: one role of a federation, in a process of its own.

`align`: find the rows that all participants have, before a training.

`record`: everything that a role has ever taken part in, and what was revealed to whom.

While a role runs it says lines for people, or one JSON object per line for machines; never a secret. Neither a log nor
standard output is what a role works for: if one of them cannot be written, the work goes on.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from mpfedxgb.boosting.model import Feature
from mpfedxgb.cli.exit_codes import exit_code
from mpfedxgb.errors import CheckpointError, MpfedxgbError, SettingsError, StoppedError, UserError, own_reason
from mpfedxgb.federation import role
from mpfedxgb.federation.alignment import NAMES
from mpfedxgb.federation.log_context import log_context
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.rows import Rows, read_rows
from mpfedxgb.federation.session import ignore_stops, stopping_on_signals
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.observer import Observer, Observers
from mpfedxgb.report.history import History
from mpfedxgb.report.progress import watch_steps
from mpfedxgb.schema.settings import LOG
from mpfedxgb.units import bytes_text

if TYPE_CHECKING:
    from mpfedxgb.federation.dashboard import Dashboard
    from mpfedxgb.federation.monitor import Monitor


def align(
    settings: Settings,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", min=1, help="Threads to compute with; one per core if not given.")
    ] = None,
    json_logs: JsonLogs = False,
    log_level: LogLevel = None,
) -> None:
    """Find the rows that all participants have, without showing each other the rest; trainings then take those.

    All participants run it together, the coordinator is started as for a training and sees nothing of it. Needs
    align = true in [data] and the extra mpfedxgb[align]. A training does the same if it has not been done.
    """
    mine = read_settings(settings, json_logs, log_level)
    if mine.is_coordinator:
        raise SettingsError(
            f"{settings} is for the coordinator; run: mpfedxgb coordinator {settings}", "place", settings.name
        )
    with log_failure_and_exit():
        rows, evaluation = read_tables(mine)
        before = {"train": rows, "evaluate": evaluation}
        with watch_steps(f"{mine.role.name}: comparing ids") as bar:
            found = role.align(mine, rows, evaluation, n_jobs, bar)
        for what, common in found.items():
            of = before[what]
            assert of is not None
            say_result(f"{mine.role.name}: {len(common.ids)} of {len(of.ids)} {NAMES[what]} rows are in common")


def record(
    settings: Annotated[Path, typer.Argument(help="Settings file of a role (.toml).")],
    session: Annotated[str | None, typer.Option("--session", help="Only the attempts of this session.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only check that every line is there and as it was written; 7 if not.")
    ] = False,
) -> None:
    """Print what was revealed to whom, in every attempt at a training or scoring so far and in total."""
    mine = RoleSettings.from_toml(settings)
    found = read_record(mine)
    if verify:
        typer.echo(_verdict(found, mine.role.state))
        return
    found = found.of_session(session)
    typer.echo(json.dumps(found.to_dict(), indent=1) if as_json else str(found))


def _verdict(found: History, folder: Path) -> str:
    """Return that a record is as it was written; raises CheckpointError, which names the first bad place, if not."""
    if found.problems:
        more = f"; and {len(found.problems) - 1} more" if len(found.problems) > 1 else ""
        text = (
            f"the record in {folder} is not as it was written: {found.problems[0]}{more}. Keep it as it is, and "
            "compare it with a backup"
        )
        raise CheckpointError(text, "damaged", "record")
    if not found.chained:
        what = "is not chained, since an earlier version wrote it" if found.unchained else "is not there"
        raise UserError(f"the record in {folder} {what}; there is nothing to verify", "missing", "record")
    return "\n".join([f"ok: {found.chained} lines, all as they were written; digest {found.digest}", *found.warnings()])


_log = logging.getLogger("mpfedxgb.role")

Settings = Annotated[Path, typer.Argument(help="This role's settings file (TOML), as `mpfedxgb init` writes it.")]
JsonLogs = Annotated[bool, typer.Option("--json-logs", help="Log one JSON object per line, for machines.")]
LogLevel = Annotated[str | None, typer.Option("--log-level", help="debug, info, warning or error.")]
Restart = Annotated[
    bool,
    typer.Option(
        "--restart/--resume",
        help="Forget this role's checkpoints and begin again, which takes --restart at every participant; or go on "
        "after the last boosting round that all of them have.",
    ),
]

LiveView = Annotated[
    str | None,
    typer.Option(
        "--dashboard",
        metavar="[HOST:]PORT",
        help="Show this role's page live in a browser; on this machine only, unless a host is given. 0: a free port.",
    ),
]


Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="[HOST:]PORT",
        help="Answer /healthz, /readyz and /metrics there and, with --serve at the active participant, requests for "
        "scores; on this machine only, unless a host is given. 0: a free port.",
    ),
]


Session = Annotated[
    str | None, typer.Option("--session", help="Name of this training's session, instead of the one in [session].")
]


def coordinator(
    settings: Settings,
    once: Annotated[bool, typer.Option("--once", help="End after one session.")] = False,
    http: Http = None,
    dashboard: LiveView = None,
    json_logs: JsonLogs = False,
    log_level: LogLevel = None,
) -> None:
    """Be the coordinator: deal random numbers for one session after the other, until stopped. Sees no data."""
    mine = read_settings(settings, json_logs, log_level)
    if not mine.is_coordinator:
        does = ", which deals as it takes part" if mine.roster.coordinating_owner == mine.role.name else ""
        text = f"{settings} is for {mine.role.name}{does}; run: mpfedxgb participant {settings} --train"
        raise SettingsError(text, "place", settings.name)
    with log_failure_and_exit(), _live_view(mine, dashboard), _monitored(mine, http) as monitor:
        role.coordinate(mine, once, observer=monitor)


def participant(
    settings: Settings,
    train: Annotated[bool, typer.Option("--train", help="Take part in a training and keep this part of it.")] = False,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Stay, and take part in the trainings that the active participant proposes."),
    ] = False,
    predict: Annotated[
        bool, typer.Option("--predict", help="Score a file of rows, together with the others, and end.")
    ] = False,
    serve: Annotated[
        bool,
        typer.Option(
            "--serve",
            help="Stay: auxiliaries answer scoring sessions, the active participant requests for scores (--http).",
        ),
    ] = False,
    session: Session = None,
    http: Http = None,
    restart: Restart = False,
    dashboard: LiveView = None,
    json_logs: JsonLogs = False,
    log_level: LogLevel = None,
) -> None:
    """Be a participant: train, or score. All participants are started with the same option, the coordinator first.

    Or the auxiliaries stay with --accept: then the active one says with --train what is trained, within their [accept].
    """
    if [train, accept, predict, serve].count(True) != 1:
        raise SettingsError("say what to do: one of --train, --accept, --predict and --serve", "missing", "train")
    mine = read_settings(settings, json_logs, log_level)
    if session is not None:
        if not train:
            raise SettingsError("--session names what --train trains; leave it out", "place", "session")
        mine = mine.for_session(session)
    if mine.is_coordinator:
        raise SettingsError(
            f"{settings} is for the coordinator; run: mpfedxgb coordinator {settings}", "place", settings.name
        )
    if serve and mine.is_active:
        if http is None:
            text = (
                f"{mine.role.name} is the active participant, which asks for scores: use --predict, or add --http PORT "
                "to --serve, to answer with scores over HTTP"
            )
            raise SettingsError(text, "place", "serve")
        with log_failure_and_exit(), _live_view(mine, dashboard):
            _serve_http(mine, http)
        return
    with log_failure_and_exit(), _live_view(mine, dashboard) as view, _monitored(mine, http) as monitor:
        if train:
            train_from_files(mine, restart, view, monitor)
        elif accept:
            role.accept_trainings(mine, observer=Observers(view, monitor))
        elif mine.is_active:
            table = role.score_file(mine, role.load_model(mine), monitor)
            say_result(f"{len(table)} predictions are in {mine.file_of('predictions')}")
        else:
            role.serve_rows(mine, once=predict, observer=monitor)
            say_result(f"{mine.role.name}: the scoring session has ended; the predictions are {mine.roster.name(1)}'s")


def _serve_http(mine: RoleSettings, where: str) -> None:
    """Answer requests for scores until stopped, which is how this is meant to end."""
    from mpfedxgb.federation.serving.app import serve_http  # an extra, which few need
    from mpfedxgb.federation.web import read_address

    serve_http(mine, role.load_model(mine), read_address(where, "--http"))
    say_result(f"{mine.role.name}: no more requests are answered")


def read_tables(mine: RoleSettings) -> tuple[Rows, Rows | None]:
    """Return the rows to train on and, if there is a file of them, those to evaluate on."""
    has_evaluation = mine.data is not None and mine.data.evaluate is not None
    return read_rows(mine, "train", stay_in_file=mine.workers is not None), read_rows(
        mine, "evaluate"
    ) if has_evaluation else None


def train_from_files(
    mine: RoleSettings, restart: bool, view: Dashboard | None = None, monitor: Observer | None = None
) -> None:
    """Take part in a training with the files that the settings name, and say what came of it."""
    rows, evaluation = read_tables(mine)
    if view is not None:
        view.know([Feature(column.name, column.categories) for column in rows.table.columns])
    done = role.train(mine, rows, evaluation, restart, Observers(view, monitor))
    total = done.meter.total()
    say_result(
        f"{mine.role.name}: {len(done.model.trees)} trees in {done.seconds:.2f} s, {total.rounds} message rounds, "
        f"{bytes_text(total.bytes_sent)} sent; the model is in {role.model_path(mine)}"
    )


def mpi_run(
    folder: Annotated[Path, typer.Argument(help="Folder that `mpfedxgb init` wrote, readable on all ranks.")],
    restart: Restart = False,
    json_logs: JsonLogs = False,
    log_level: LogLevel = None,
) -> None:
    """Train over MPI, as in the paper: rank 0 is the coordinator, rank m is participant m.

    Start it with mpiexec -n 5 python -m mpfedxgb mpi-run FOLDER, one rank per role. Each rank reads its own role's
    settings in the folder; their addresses and certificates are not used.
    """
    mine = _of_rank(folder)
    _start_logging(mine, json_logs, log_level)
    with log_failure_and_exit():
        if mine.is_coordinator:
            role.coordinate(mine, once=True)
        else:
            train_from_files(mine, restart)


@contextmanager
def _live_view(mine: RoleSettings, where: str | None) -> Iterator[Dashboard | None]:
    """Have a live view inside the block, if one was asked for."""
    if where is None:
        yield None
        return
    from mpfedxgb.federation.dashboard import live_view  # an extra, which few need
    from mpfedxgb.federation.web import read_address

    with live_view(mine, read_address(where, "--dashboard")) as view:
        yield view


@contextmanager
def _monitored(mine: RoleSettings, where: str | None) -> Iterator[Monitor | None]:
    """Answer with health and metrics inside the block, if that was asked for."""
    if where is None:
        yield None
        return
    from mpfedxgb.federation.status import status_over_http  # an extra, which few need
    from mpfedxgb.federation.web import read_address

    with status_over_http(mine, read_address(where, "--http")) as monitor:
        yield monitor


@contextmanager
def log_failure_and_exit() -> Iterator[None]:
    """Let the log say why this role ended, in the form that was asked for, and end with the code of the error."""
    try:
        with stopping_on_signals(to_the_end=True):
            yield
            ignore_stops()
    except (MpfedxgbError, StoppedError, OSError, MemoryError) as error:
        _log.error("%s", own_reason(error))
        raise typer.Exit(exit_code(error)) from None


def _of_rank(folder: Path) -> RoleSettings:
    """Return the settings of the role that this rank is."""
    from mpfedxgb.transport.mpi import world_rank

    rank, size = world_rank()
    found = {}
    for path in sorted(folder.glob("*/*.toml")):
        mine = RoleSettings.from_toml(path)
        found[mine.number] = mine
    if rank not in found:
        raise SettingsError(
            f"there are settings for {len(found)} roles in {folder}, and this is rank {rank}", "mismatch", "rank", rank
        )
    if size != found[rank].roster.size + 1:
        text = f"mpiexec started {size} ranks for {found[rank].roster.size + 1} roles; use one per role"
        raise SettingsError(text, "mismatch", "ranks", size)
    return found[rank].over_mpi()


def read_settings(path: Path, json_logs: bool, log_level: str | None) -> RoleSettings:
    """Return a role's settings, and begin its log as they say."""
    mine = RoleSettings.from_toml(path)
    _start_logging(mine, json_logs, log_level)
    return mine


def _start_logging(mine: RoleSettings, json_logs: bool, log_level: str | None) -> None:
    level = log_level or mine.log.level
    if fault := LOG["level"].fault(level):
        raise SettingsError(f"--log-level {level} {fault.problem}; {fault.remedy}", fault.code, "log_level", level)
    start_logging(level, json_logs or mine.log.json, mine.log.file)


_SHORT, _WHEN = "%(asctime)s %(levelname)-7s %(message)s", "%Y-%m-%d %H:%M:%S"


class JsonLines(logging.Formatter):
    """One JSON object per line: time in UTC, level, logger, message, and session, attempt and request if known."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as a line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z"
        line = {
            "time": stamp,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **log_context(),
        }
        return json.dumps(line, ensure_ascii=False)


class _StandardError(logging.StreamHandler[TextIO]):
    """Lines on standard error; those that it does not take, since a pipe is closed or a disk is full, are lost."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Go on without a traceback, for which there is no room either."""


class _LogFile(logging.handlers.WatchedFileHandler):
    """Lines in a file, which is opened again after somebody has renamed or removed it, as logrotate does."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, encoding="utf-8")
        self._said = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; say once when that begins to fail."""
        try:
            super().emit(record)
        except OSError:  # the folder may be gone, so that it cannot be opened again
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:
        """Say on standard error that lines are lost, without a traceback for each."""
        error = sys.exc_info()[1]
        if not self._said:
            self._said = True
            reason = error.strerror if isinstance(error, OSError) else type(error).__name__
            with suppress(OSError, AttributeError, ValueError):  # there may be no standard error, or it is closed
                sys.stderr.write(f"cannot write the log {self.baseFilename}: {reason}; lines are lost until it can\n")


def say_result(text: str) -> None:
    """Say on standard output what came of the work, which is done: from here on no signal and no pipe makes it undone.

    Python would flush standard output once more at the end, and end with an error of its own; so where it cannot be
    written, it goes nowhere.
    """
    ignore_stops()
    try:
        typer.echo(text)
    except OSError as error:
        _log.warning("cannot write to standard output: %s; it would have said: %s", error.strerror, text)
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def start_logging(level: str, as_json: bool, file: Path | None = None) -> None:
    """Send this package's log to standard error and, if there is one, to a file."""
    logger = logging.getLogger("mpfedxgb")
    logger.setLevel(level.upper())
    logger.propagate = False
    handlers: list[logging.Handler] = [_StandardError(sys.stderr)]
    if file is not None:
        try:
            handlers.append(_LogFile(file))
        except OSError as error:
            raise SettingsError(
                f"cannot write the log {file}: {error.strerror}; correct [log] file", "file", "log.file", file
            ) from None
    for old in list(logger.handlers):
        logger.removeHandler(old)
        with suppress(OSError):  # what it could not write it cannot write now
            old.close()
    for handler in handlers:
        handler.setFormatter(JsonLines() if as_json else logging.Formatter(_SHORT, _WHEN))
        logger.addHandler(handler)
