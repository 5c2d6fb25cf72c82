"""One training in this process: every role as a thread or, with security="none", in the open."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from mpfedxgb.boosting.forecast import Basis, foretold
from mpfedxgb.boosting.memory import goes_to_spool
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.plain import plain_train, strict_basis
from mpfedxgb.boosting.room import check_simulation
from mpfedxgb.boosting.setup import TrainData
from mpfedxgb.boosting.train import TrainResult, secure_train
from mpfedxgb.config import Resources, SessionSettings
from mpfedxgb.data.candidates import count_of_categories
from mpfedxgb.party.local import LocalRun, run_locally
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import Roster
from mpfedxgb.protocols.local_rows import LocalRows
from mpfedxgb.protocols.storage import Storage
from mpfedxgb.report.memory import PeakMemory
from mpfedxgb.report.progress import Watcher
from mpfedxgb.report.record import RunRecord, record_run
from mpfedxgb.ring import kernels
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.workers.cluster import Cluster
from mpfedxgb.workers.rows import WorkerRows

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


def train_here(job: TrainingJob, watcher: Watcher) -> tuple[list[TrainResult], RunRecord]:
    """Run a training, and return what each participant has then, and the record of the run."""
    params, roster, settings = job.params, job.roster, job.settings
    cluster = None if job.client is None else Cluster.over(job.client, settings.deadline)
    basis: Basis | None = None

    def on_sizes(sizes: TableSizes) -> None:
        nonlocal basis
        in_spool = goes_to_spool(roster.roles, params, sizes, job.resources)
        of_categories = [count_of_categories(mine.table) for mine in job.data]
        check_simulation(params, sizes, in_spool=in_spool, of_categories=of_categories)
        if not job.continues:  # nobody has rehearsed the scoring that a model to go on from needs
            basis = Basis(params, sizes, roster, settings)
            watcher.on_forecast(lambda: foretold(basis))

    def program(party: Party, data: TrainData | None) -> TrainResult | None:
        if party.is_active:
            party.on_progress, party.on_sizes = watcher.on_progress, on_sizes
        with closing(LocalRows(storage) if cluster is None else WorkerRows(cluster, storage)) as held:
            return secure_train(party, params, data, held=held, continues=job.continues)

    with Storage(job.resources, roster.roles) as storage, PeakMemory() as memory:
        kernels.warm_up()  # before the clock starts: the first training of a process would look slow
        started = time.perf_counter()
        if params.is_unprotected:
            run: LocalRun[TrainResult | None] = plain_train(params, roster, job.data, settings, watcher.on_progress)
        else:
            private = [(None,), *((mine,) for mine in job.data)]
            run = run_locally(program, roster, private, settings, one_core=job.is_small)
        seconds = time.perf_counter() - started
    results = [result for result in run.results[1:] if result is not None]
    if params.is_unprotected and not job.continues:
        basis = strict_basis(params, settings, roster, results, sum(table.rows for table in job.data[0].evaluation))
    trees, ledger = len(results[0].model.trees), run.ledgers[0]
    record = record_run(
        "train", params.to_dict(), seconds, trees, settings, roster, run.meters, ledger, memory.peak, basis
    )
    return results, record
