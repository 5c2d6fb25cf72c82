"""What a long scoring session holds: memory, records and files after many small batches; none of it may grow.

All roles are threads of this process over the memory transport, each with settings, a state folder and a record of its
own, as in a federation. Every line shows bytes that this package has allocated and not given back (tracemalloc), the
process's anonymous memory, and the bytes of all records.

Run it with .venv/bin/python benchmarks/long_session.py --batches 20000, some minutes; it ends with 1 if memory grew.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import tempfile
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import mpfedxgb
from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.data.table import Table
from mpfedxgb.federation.lookup import TableLookup
from mpfedxgb.federation.programs import run_coordinator, run_scoring
from mpfedxgb.federation.record import AttemptRecord, read_record
from mpfedxgb.federation.scoring import Service
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.machine import anonymous_memory
from mpfedxgb.party.local import Outcome, run_role
from mpfedxgb.party.party import Party
from mpfedxgb.ring import kernels
from mpfedxgb.testing.trial import Trial
from mpfedxgb.transport.memory import MemoryHub

NAMES = ("bank", "telecom")
ROWS = 200
MOST_GROWTH = 4.0
"""Bytes a batch, of all roles together, in the second half of the session: below what any object takes."""


class Federation:
    """Roles with folders and a model, and the threads that run a scoring session."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(3)
        frames = {name: pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=list("abc")) for name in NAMES}
        y = pd.Series(np.hstack([frame.to_numpy() for frame in frames.values()]).sum(axis=1) > 0).astype(int)
        fitted = FedXGBClassifier(n_estimators=3, max_depth=2, max_bin=8, insecure_seed=1).fit(frames, y)
        self.parts: list[PartialModel] = list(fitted.partial_models_)
        self.tables = [Table.read(frames[part.name], part.name) for part in self.parts]
        self.ids = tuple(f"c-{i:04}" for i in range(ROWS))
        train = {name: frame.assign(person=self.ids) for name, frame in frames.items()}
        train["bank"] = train["bank"].assign(label=y)
        self.trial = Trial(folder, train, "label", "person", {"n_estimators": 3, "max_depth": 2, "num_class": 2})
        self.settings = [RoleSettings.from_toml(self.trial.settings(role)) for role in self.trial.roster.roles]
        self.services = [
            Service(part) if part.is_active else Service(part, TableLookup(self.ids, table))
            for part, table in zip(self.parts, self.tables, strict=True)
        ]
        self.outcomes: list[Outcome[Any]] = []

    def start(self) -> list[threading.Thread]:
        """Begin a session."""
        kernels.warm_up()
        roster = self.trial.roster
        hub = MemoryHub(roster.links(), 1 << 28)
        threads = [threading.Thread(target=self._run, args=(role, hub), daemon=True) for role in roster.roles]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, role: int, hub: MemoryHub) -> None:
        mine = self.settings[role]
        record = AttemptRecord(mine, 1)

        def program(party: Party) -> None:
            if role:
                run_scoring(party, self.services[role - 1])
            else:
                run_coordinator(party, self.parts[0].params)

        end, settings = hub.end(role), mine.session_settings(1)
        outcome = run_role(program, (), end, self.trial.roster, role, settings, observer=record)
        record.end(outcome.error)
        self.outcomes.append(outcome)
        if outcome.error is not None:
            self.services[0].fail(outcome.error)

    def record_bytes(self) -> int:
        """Return how much all roles have on record."""
        return sum(path.stat().st_size for mine in self.settings for path in mine.role.state.glob("record*"))


def measure(batches: int, looks: int) -> list[dict[str, float]]:
    """Return what is held at some moments of a session."""
    rows: list[dict[str, float]] = []
    ours = [tracemalloc.Filter(True, f"{Path(mpfedxgb.__file__).parent}/*")]
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder))
        table = Table("bank", federation.tables[0].columns, ROWS)
        ids = federation.ids
        one = [Table("bank", tuple(_row(column, i) for column in table.columns), 1) for i in range(ROWS)]
        tracemalloc.start()
        threads = federation.start()
        started = time.perf_counter()
        every = max(1, batches // looks)
        for batch in range(1, batches + 1):
            federation.services[0].score((ids[batch % ROWS],), one[batch % ROWS])
            if batch % every == 0:
                time.sleep(0.5)  # the other roles come to wait for the next batch too
                gc.collect()
                held = sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces(ours).traces)
                row = {
                    "batches": batch,
                    "seconds": time.perf_counter() - started,
                    "held_bytes": held,
                    "anonymous_bytes": anonymous_memory(),
                    "record_bytes": federation.record_bytes(),
                }
                rows.append(row)
        federation.services[0].end()
        for thread in threads:
            thread.join()
        assert [outcome.error for outcome in federation.outcomes] == [None] * 3
        for mine in federation.settings:
            found = read_record(mine)
            assert not found.problems
            assert found.attempts[0].content["batches"] == batches
    return rows


def _row(column: Any, i: int) -> Any:
    return type(column)(column.name, np.ascontiguousarray(column.values[i : i + 1]), column.categories)


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--looks", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args.batches, args.looks)
    first, last = rows[len(rows) // 2], rows[-1]  # what is made once is there by then
    growth = (last["held_bytes"] - first["held_bytes"]) / max(1, last["batches"] - first["batches"])
    if args.json:
        print(json.dumps({"rows": rows, "growth": growth}))
    else:
        for row in rows:
            print(
                f"{row['batches']:>7.0f} batches {row['seconds']:>7.1f} s: {row['held_bytes'] / 1e3:>8.1f} kB held, "
                f"{row['anonymous_bytes'] / 1e6:>6.1f} MB anonymous, {row['record_bytes'] / 1e3:>6.1f} kB of records"
            )
        print(f"{growth:.2f} bytes a batch in the second half, of all roles together")
    return int(growth > MOST_GROWTH)


if __name__ == "__main__":
    sys.exit(main())
