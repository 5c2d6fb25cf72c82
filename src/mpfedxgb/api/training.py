"""One training in this process: every role as a thread or, with security="none", in the clear.

Before it runs: what it will cost, for which tables are binned and no more; and the model to go on from, if there is
one (`fit(..., xgb_model=...)`), whose trees come first, checked against what is trained now.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from mpfedxgb.api.models import load_models, match_model
from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.join import join
from mpfedxgb.boosting.metrics import rounds_of
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.parts import TrainData, TrainResult
from mpfedxgb.config import Resources, SessionSettings
from mpfedxgb.costs.capacity import check_simulation
from mpfedxgb.costs.forecast import Basis, Forecast, forecast, strict_basis
from mpfedxgb.costs.seconds import timed
from mpfedxgb.data.binning import Candidates, bin_table, count_of_categories
from mpfedxgb.data.table import Table
from mpfedxgb.errors import DataError, SettingsError
from mpfedxgb.machine import PeakMemory
from mpfedxgb.modes.none.labels import plain_train
from mpfedxgb.party.local import LocalRun, run_locally
from mpfedxgb.party.observer import Observer, Observers
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.protocols.storage import LocalRows, Storage
from mpfedxgb.report.record import RunRecord, record_run
from mpfedxgb.ring import kernels
from mpfedxgb.training.memory import goes_to_spool
from mpfedxgb.training.train import secure_train
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.workers.cluster import Cluster
from mpfedxgb.workers.rows import WorkerRows


def forecast_tables(
    tables: Mapping[str, Table], eval_rows: int, params: TrainParams, roster: Roster, settings: SessionSettings
) -> Forecast:
    """Return the forecast of a simulation on tables, with an estimate of its seconds on this machine."""
    rows = next(iter(tables.values())).rows
    columns = tuple(len(Candidates(bin_table(t, params.max_bin, params.binning))) for t in tables.values())
    predicted = forecast(params, TableSizes(rows, eval_rows, columns), roster, settings, beside_strict=True)
    return timed(predicted, together=True)


def read_start(xgb_model: Any) -> list[PartialModel] | None:
    """Return all participants' parts of the model to go on from: a fitted estimator's, a folder's, or as they are."""
    if xgb_model is None:
        return None
    if isinstance(xgb_model, (str, Path)):
        return load_models(Path(xgb_model))
    if hasattr(xgb_model, "load_model") and hasattr(xgb_model, "prediction_run"):
        check_is_fitted(xgb_model, "partial_models_")
        return list(xgb_model.partial_models_)
    parts = list(xgb_model) if isinstance(xgb_model, (list, tuple)) else []
    if not parts or not all(isinstance(part, PartialModel) for part in parts):
        remedy = "give a fitted estimator, a folder that save_model wrote, or the list of all participants' parts"
        text = f"xgb_model is a {type(xgb_model).__name__}, which does not say whose splits are whose; {remedy}"
        raise SettingsError(text, "type", "xgb_model", type(xgb_model).__name__)
    join(parts)
    return sorted(parts, key=lambda part: part.participant)


def go_on(
    start: Sequence[PartialModel], tables: dict[str, Table], params: TrainParams
) -> tuple[dict[str, Table], TrainParams]:
    """Return tables and parameters of a training that goes on from a model; refuses, by name, what does not fit.

    The categories of columns are the model's. n_estimators counts the model's rounds and the new ones.
    """
    active = start[0]
    for security in (active.params, params):
        if security.facts.shares_leaf_weights:
            text = (
                f"xgb_model does not go with security={security.security!r}, whose leaf weights nobody knows; train "
                "anew, or use security='strict' for both"
            )
            raise SettingsError(text, "mode", "xgb_model", security.security)
    # What was made in the clear never passes for protected.
    for name in ("objective", "num_class", "num_parallel_tree", "security"):
        old, new = getattr(active.params, name), getattr(params, name)
        if old != new:
            text = f"xgb_model was trained with {name}={old!r}, this is {name}={new!r}; make them the same"
            raise SettingsError(text, "mismatch", name, new)
    if active.params.xgboost_rules != params.xgboost_rules:
        text = (
            f"xgb_model was trained by the rules of XGBoost {active.params.xgboost_rules} and this version trains by "
            f"those of {params.xgboost_rules}, so the new trees would follow other rules; train anew, or go on with "
            "the version of mpfedxgb that trained it"
        )
        raise SettingsError(text, "version", "xgb_model", active.params.xgboost_rules)
    if tuple(tables) != active.participants:
        text = f"xgb_model is of {', '.join(active.participants)}, X of {', '.join(tables)}"
        raise DataError(f"{text}; give the same participants in the same order", "mismatch", "X", tuple(tables))
    matched = {part.name: _match(tables[part.name], part) for part in start}
    return matched, replace(params, n_estimators=rounds_of(active) + params.n_estimators)


def check_same_start(active: PartialModel, params: TrainParams, labels: Labels) -> None:
    """Refuse a base_score that is not the model's."""
    base = labels.base_score
    if base is None:
        return
    if not np.array_equal(labels.start(params.loss, params.num_class), np.array(active.base_margin)):
        text = f"base_score={base!r} is not where xgb_model started; leave it None to keep that"
        raise SettingsError(text, "mismatch", "base_score", base)


def _match(table: Table, part: PartialModel) -> Table:
    matched = match_model(table, part)
    for column in matched.columns:
        if column.categories is not None and (column.values >= len(column.categories)).any():
            text = f"{table.owner}: column {column.name!r} holds categories that xgb_model does not know"
            raise DataError(f"{text}; mark them as missing, or train anew", "unknown", column.name)
    return matched


_SMALL = 1 << 24
"""Rows times columns times bins up to which a simulation keeps to one core."""


@dataclass(frozen=True, slots=True, eq=False)
class TrainingJob:
    """What is to be trained: everybody's input, in the order of the roster, and how.

    `client` is a Dask cluster for the row work of all roles, or None; `continues` says that there is a model to go on
    from, in everybody's input.
    """

    params: TrainParams
    roster: Roster
    settings: SessionSettings
    data: Sequence[TrainData] = field(repr=False)
    resources: Resources
    client: Any = None
    continues: bool = False

    @property
    def is_small(self) -> bool:
        """Whether steps will be too short for the roles to compute beside each other with profit."""
        rows, columns = self.data[0].table.rows, sum(len(mine.table.columns) for mine in self.data)
        return rows * columns * self.params.max_bin <= _SMALL


class _Limits(Observer):
    """Refuses a training that this machine has no room for, with all roles in it; remembers how large it is."""

    def __init__(self, job: TrainingJob) -> None:
        self._job = job
        self.basis: Basis | None = None
        """What a forecast is made of. There is none of the scoring that a model to go on from needs."""

    def on_sizes(self, party: Party, params: TrainParams, sizes: TableSizes) -> None:
        """Check that there is room."""
        job = self._job
        in_spool = goes_to_spool(job.roster.roles, params, sizes, job.resources)
        of_categories = [count_of_categories(mine.table) for mine in job.data]
        check_simulation(params, sizes, in_spool=in_spool, of_categories=of_categories)
        if not job.continues:
            self.basis = Basis(params, sizes, job.roster, job.settings)


def train_here(job: TrainingJob, observer: Observer) -> tuple[list[TrainResult], RunRecord]:
    """Run a training, and return what each participant has then, and the record of the run.

    The `observer` looks on at the active participant.
    """
    params, roster, settings = job.params, job.roster, job.settings
    cluster = None if job.client is None else Cluster.over(job.client, settings.deadline)
    limits = _Limits(job)

    def program(party: Party, data: TrainData | None) -> TrainResult | None:
        with closing(LocalRows(storage) if cluster is None else WorkerRows(cluster, storage)) as held:
            return secure_train(party, params, data, held=held, continues=job.continues)

    with Storage(job.resources, roster.roles) as storage, PeakMemory() as memory:
        kernels.warm_up()  # before the clock starts: the first training of a process would look slow
        started = time.perf_counter()
        if not params.facts.runs_a_protocol:
            run: LocalRun[TrainResult | None] = plain_train(params, roster, job.data, settings, observer)
        else:
            private = [(mine,) for mine in roster.by_role(list(job.data), None)]
            observers = [Observer() for _ in roster.roles]
            observers[ACTIVE] = Observers(limits, observer)
            run = run_locally(program, roster, private, settings, one_core=job.is_small, observers=observers)
        seconds = time.perf_counter() - started
    results = [result for result in roster.by_owner(run.results) if result is not None]
    basis = limits.basis
    if not params.facts.runs_a_protocol and not job.continues and not roster.is_alone:
        basis = strict_basis(params, settings, roster, results, sum(table.rows for table in job.data[0].evaluation))
    return results, record_run("train", results[0].model, run, settings, seconds, memory.peak, basis)
