"""What one role does in its own organisation: read its files, run its part, write down what is its own."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.parts import TrainResult
from mpfedxgb.data.files import write_table
from mpfedxgb.data.table import Table, to_frame
from mpfedxgb.errors import FederationError, MissingPeerError, SettingsError
from mpfedxgb.federation import programs
from mpfedxgb.federation.accepting import (
    Tables,
    accepters_work,
    coordinators_work,
    proposed,
    servers_work,
    taking_over,
)
from mpfedxgb.federation.alignment import (
    LoggedSteps,
    Terms,
    alignment_path,
    keep_alignment,
    rows_in_common,
    take,
)
from mpfedxgb.federation.lookup import NewestTables, Watch, lookup_in
from mpfedxgb.federation.own_training import brought, keep_judgement
from mpfedxgb.federation.programs import ALIGNING, KINDS, TRAINING, run_aligning, run_scoring, run_training
from mpfedxgb.federation.quota import RowsPerDay
from mpfedxgb.federation.record import record_path
from mpfedxgb.federation.rows import (
    SCORING,
    Rows,
    arrange_rows,
    own_workers,
    read_rows,
    with_kinds_of,
    workers_in_session,
)
from mpfedxgb.federation.scoring import Service
from mpfedxgb.federation.session import (
    Stopper,
    locked_state,
    own_work,
    run_session,
    serve,
    state_folder,
    stopping_on_signals,
)
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.intersection.group import Edwards25519
from mpfedxgb.intersection.intersect import Marks
from mpfedxgb.party.ledger import Ledger
from mpfedxgb.party.local import Outcome
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.observer import Observer
from mpfedxgb.workers.cluster import Cluster

_AFTER_A_STOP = 5.0
"""Seconds that a session has to end once it was stopped; one that computes meanwhile is left to itself."""

_log = logging.getLogger("mpfedxgb.role")


@dataclass(frozen=True, slots=True)
class Trained:
    """A participant's outcome: its part of the model, the metrics at the active one, what it cost and revealed."""

    model: PartialModel
    metrics: dict[str, dict[str, list[float]]] = field(repr=False)
    meter: Meter = field(repr=False)
    ledger: Ledger = field(repr=False)
    seconds: float


def align(
    settings: RoleSettings,
    rows: Rows,
    evaluation: Rows | None = None,
    n_jobs: int | None = None,
    observer: Observer | None = None,
) -> dict[str, Rows]:
    """Find the rows that all participants have, together with the others, and keep which they are for trainings.

    Parameters
    ----------
    settings : RoleSettings
        Of a participant, with align = true in [data].
    rows, evaluation : Rows
        Of this participant, sorted by id, all of them.
    n_jobs : int or None
        Threads to compute with; as [align] n_jobs says if None, or else one per core.
    observer : Observer or None
        Shows how far it is; if None, the log says it.

    Returns
    -------
    dict
        By "train" and, with evaluation rows, "evaluate": the rows in common.
    """
    with locked_state(settings):
        return _align(settings, _tables(rows, evaluation), n_jobs, observer)


def _align(
    settings: RoleSettings, tables: dict[str, Rows], n_jobs: int | None = None, observer: Observer | None = None
) -> dict[str, Rows]:
    if settings.id_rule is None:
        text = (
            f"{settings.source}: [data] align is not true; set it at all participants, so that trainings take the rows "
            "that are found"
        )
        raise SettingsError(text, "place", "data.align")
    lists = {what: one.ids for what, one in tables.items()}
    terms = Terms(settings.id_rule, settings.align.min_rows, tuple(tables))
    group = Edwards25519(n_jobs or settings.align.n_jobs)
    with stopping_on_signals():
        watching = LoggedSteps(settings.role.name) if observer is None else observer  # lines would tear a bar
        own = own_work(settings, run_aligning, (terms, lists, group, settings.align.max_rows))
        prepare = taking_over(settings, ALIGNING, own)
        outcome: Outcome[dict[str, Marks]] = run_session(
            settings, prepare, proposed(settings, ALIGNING), observer=watching
        )
        assert outcome.result is not None
        keep_alignment(settings, lists, outcome.result)
    _log.info("which rows are in common is in %s", alignment_path(settings))
    return {what: take(one, outcome.result[what]) for what, one in tables.items()}


def _tables(rows: Rows, evaluation: Rows | None) -> dict[str, Rows]:
    return {"train": rows} if evaluation is None else {"train": rows, "evaluate": evaluation}


def train(
    settings: RoleSettings,
    rows: Rows,
    evaluation: Rows | None = None,
    restart: bool = False,
    observer: Observer | None = None,
    callback: Any = None,
    client: Any = None,
    is_trial: bool = False,
) -> Trained:
    """Take part in a training, go on where an earlier attempt stopped, and write this participant's model.

    With align = true in [data] it learns from the rows that all participants have, and finds those first if nobody has.

    Parameters
    ----------
    settings : RoleSettings
        Of a participant.
    rows, evaluation : Rows
        Of this participant, sorted by id.
    restart : bool
        Forget this role's checkpoints and begin again.
    observer : Observer or None
        Hears of every finer step, besides the record.
    callback : function, object in XGBoost's form, or None
        At the active participant, called after every boosting round.
    client : distributed.Client or None
        The Dask cluster that the rows live on; if None, that of [workers], if there is one.
    is_trial : bool
        Keep the model in the session's folder, instead of [role] model, at all participants.
    """
    if is_trial:
        settings = settings.for_trial()
        (state_folder(settings) / settings.session.name).mkdir(mode=0o700, exist_ok=True)
    with locked_state(settings), own_workers(settings, client) as cluster:
        return _train(settings, rows, evaluation, restart, observer, callback, cluster, is_trial)


def _train(
    settings: RoleSettings,
    rows: Rows,
    evaluation: Rows | None,
    restart: bool,
    observer: Observer | None,
    callback: Any,
    cluster: Cluster | None,
    is_trial: bool = False,
) -> Trained:
    settings.check_outputs()
    if settings.id_rule is not None:
        own = _tables(rows, evaluation)
        common = rows_in_common(settings, own) or _align(settings, own)
        rows, evaluation = common["train"], common.get("evaluate")
    mine = brought(settings, rows, evaluation, restart, callback, cluster)
    prepare = own_work(settings, run_training, (settings.training, mine.training), mine.fingerprint)
    started = time.perf_counter()
    try:
        with stopping_on_signals():
            proposal = proposed(settings, TRAINING, len(rows.ids), is_trial)
            outcome: Outcome[TrainResult] = run_session(settings, prepare, proposal, observer=observer)
    except MissingPeerError as error:  # not where a session has begun: then somebody may still need this role
        if not mine.files.finished.is_noted(model_path(settings)):
            raise
        _log.warning(
            "%s; the others may have ended: all have kept the last boosting round, and the model is there", error
        )
        kept = mine.files.checkpoints.load(mine.files.checkpoints.newest()).evaluation
        seconds = time.perf_counter() - started
        return Trained(load_model(settings), {} if kept is None else kept.metrics, Meter(), Ledger(), seconds)
    assert outcome.result is not None
    seconds = time.perf_counter() - started
    _log.info("the model is in %s, what was revealed in %s", model_path(settings), record_path(settings))
    keep_judgement(settings, outcome.result.judgement)
    model = mine.files.whole(outcome.result.model)
    return Trained(model, outcome.result.metrics, outcome.meter, outcome.ledger, seconds)


def accept_trainings(
    settings: RoleSettings,
    tables: Tables | None = None,
    once: bool = False,
    observer: Observer | None = None,
    client: Any = None,
) -> None:
    """Take part in the trainings that the active participant proposes, within [accept], until stopped.

    Parameters
    ----------
    settings : RoleSettings
        Of an auxiliary participant.
    tables : function or None
        Returns the rows to train and to evaluate on; if None, they are read from the files in [data], and again when
        those have changed.
    once : bool
        End after one training.
    observer, client
        As in `train`.
    """
    if settings.is_active or settings.is_coordinator:
        text = f"{settings.role.name} is no auxiliary participant; those accept what the active one proposes"
        raise SettingsError(text, "place", "accept")
    settings.check_outputs()
    with locked_state(settings), own_workers(settings, client) as cluster:
        prepare = accepters_work(settings, tables or NewestTables(settings), cluster)
        with stopping_on_signals():
            serve(settings, prepare, observer, once)


def coordinate(
    settings: RoleSettings, once: bool = False, client: Any = None, observer: Observer | None = None
) -> None:
    """Deal for one session after the other, until stopped; for one only, if `once`, and for alignments before it."""
    prepare = coordinators_work(settings, partial(workers_in_session, settings, client))
    with stopping_on_signals():
        if not once:
            serve(settings, prepare, observer)
        while run_session(settings, prepare, observer=observer).result in (None, KINDS[ALIGNING]):
            _log.info("%s had no part in an alignment or an inquiry; what it is for may follow", settings.role.name)


def serve_rows(settings: RoleSettings, table: Any = None, once: bool = False, observer: Observer | None = None) -> None:
    """Answer scoring sessions as an auxiliary participant, until stopped; one session only, if `once`.

    Rows are found in a table, by a function that takes ids and returns a DataFrame, or, if None, in [data] predict.
    Until it is stopped, that file and the model are read again when they change, and with SIGHUP.
    """
    most = settings.scoring.max_rows_per_day
    quota = None if most is None else RowsPerDay(state_folder(settings), most)

    def renew() -> Callable[[], None]:
        model = load_model(settings)
        lookup = lookup_in(settings, table, model)

        def take_up() -> None:
            since = "batch" if service.take_up(model, lookup) else "session"
            _log.info("%s has read its files again, for the next %s on", settings.role.name, since)

        return take_up

    observer = Observer() if observer is None else observer
    files = [model_path(settings), *([settings.file_of(SCORING)] if table is None else [])]
    watch = Watch(files, renew, observer.on_files)
    model = load_model(settings)
    service = Service(model, lookup_in(settings, table, model), quota)
    prepare = servers_work(settings, service)
    with stopping_on_signals(), locked_state(settings):
        if once:
            run_session(settings, prepare, observer=observer)
            return
        with watch.looking():
            serve(settings, prepare, observer)


class ScoringSession:
    """A running scoring session, at the active participant."""

    def __init__(self, settings: RoleSettings, service: Service) -> None:
        self._settings, self._service = settings, service

    def wait_until_ready(self, timeout: float) -> bool:
        """Return whether batches can be answered, at most `timeout` seconds from now; raises what ended the session."""
        return self._service.wait_until_ready(timeout)

    def score(self, keys: tuple[str, ...], table: Table, timeout: float, start: Floats | None = None) -> Floats:
        """Return the margins of some rows, (classes, rows); raises FederationError after the time-out.

        They begin at `start`, of that shape too, or where the model does if it is None.
        """
        return self._service.score(keys, table, timeout, start)

    def margins(self, rows: Rows) -> Floats:
        """Return the margins of rows, (classes, rows), in the order of their ids."""
        return self._service.score(rows.ids.keys, rows.table, start=rows.base_margin)

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return id and prediction of every row, in the order of the table; of a classifier also the probabilities."""
        model = self._service.model
        frame = to_frame(frame, self._settings.role.name)  # it may be a table of polars or pyarrow
        frame = with_kinds_of(self._settings, frame, model.features)
        rows = arrange_rows(self._settings, frame, SCORING, model.features)
        return predictions(model, rows, self.margins(rows), id_name(self._settings))


@contextmanager
def scoring(
    settings: RoleSettings, model: PartialModel, pause: float = math.inf, observer: Observer | None = None
) -> Iterator[ScoringSession]:
    """Open a scoring session as the active participant; the others have to be there, or come within connect_timeout.

    They hear that it is still there at least every `pause` seconds; it notices by then that one of them is not.
    """
    if not settings.is_active:
        text = f"{settings.role.name} is not the active participant; only that one asks for scores"
        raise SettingsError(text, "place", settings.role.name)
    service, stopper = Service(model, pause=pause), Stopper()
    ended: list[BaseException] = []

    def run() -> None:
        try:
            prepare = own_work(settings, run_scoring, (service,))
            run_session(settings, prepare, proposed(settings, programs.SCORING), stopper, observer)
            service.fail(FederationError("the scoring session has ended", "ended", "scoring"))
        except BaseException as error:
            ended.append(error)
            service.fail(error)

    thread = threading.Thread(target=run, name="scoring session", daemon=True)
    with locked_state(settings):
        try:
            thread.start()
            yield ScoringSession(settings, service)
            service.end()
            if service.begun.is_set():  # one that still waits for its peers ends as soon as it begins, without us
                thread.join(settings.network.deadline)
        except BaseException as error:  # what went wrong here, or a signal: the others end with it, and need not guess
            stopper.stop(error)
            service.end()  # it may be waiting for a batch
            if service.begun.is_set():
                thread.join(_AFTER_A_STOP)
            raise
    if ended and ended[0] is not service.reported:  # a program that caught it and goes on has decided
        raise ended[0]


def score_file(settings: RoleSettings, model: PartialModel, observer: Observer | None = None) -> pd.DataFrame:
    """Score the active participant's file of rows and write the predictions, in the file's order."""
    target = settings.file_of("predictions")
    settings.check_outputs()
    rows = read_rows(settings, SCORING, model.features)
    with stopping_on_signals(), scoring(settings, model, observer=observer) as session:
        table = predictions(model, rows, session.margins(rows), id_name(settings))
        write_table(table, target)  # before the others hear that all is done
    return table


def predictions(model: PartialModel, rows: Rows, margins: Floats, id_column: str) -> pd.DataFrame:
    """Return id and prediction of every row, in the order of the file; of a classifier also the probabilities."""
    margins = np.stack([rows.ids.to_file_order(m) for m in margins])
    written = np.empty(len(rows.ids), object)
    written[rows.ids.places] = np.array(rows.ids.written, object)
    return pd.DataFrame({id_column: written, **predicted(model, margins)})


def predicted(model: PartialModel, margins: Floats) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of predictions from margins (classes, rows), by name."""
    loss = model.params.loss
    if model.classes is None:
        return dict(zip(loss.targets, loss.transform(margins), strict=True))
    probabilities = loss.probabilities(margins)
    best = np.array(model.classes, object)[probabilities.argmax(axis=0)]
    names = [f"class_{name}" for name in model.classes]
    return {"prediction": best} | dict(zip(names, probabilities, strict=True))


def id_name(settings: RoleSettings) -> str:
    """Return the name of the id column."""
    assert settings.data is not None
    return settings.data.id


def load_model(settings: RoleSettings) -> PartialModel:
    """Return this participant's part of the trained model."""
    path = model_path(settings)
    if not path.is_file():
        raise SettingsError(f"there is no model {path} yet; train first, or correct [role] model", "missing", path.name)
    model = PartialModel.load(path)
    if model.name != settings.role.name:
        text = f"{path} is the part of {model.name}, not of {settings.role.name}; correct [role] model"
        raise SettingsError(text, "place", "role.model")
    if not model.params.facts.runs_a_protocol:
        text = (
            f"{path} was made with security='none', by somebody who had all participants' tables; a federation does "
            "not serve it. Train with security='strict', which gives the same model"
        )
        raise SettingsError(text, "mode", "security")
    return model


def model_path(settings: RoleSettings) -> Path:
    """Return where this participant's part of the model is kept."""
    if settings.role.model is None:
        raise SettingsError(
            f"{settings.role.name} is the coordinator, which keeps no model", "place", settings.role.name
        )
    return settings.role.model
