"""How long participants take to find the rows they have in common: a process per role, mTLS on loopback.

Run it with .venv/bin/python benchmarks/bench_align.py; 1,000,000 ids each take

    .venv/bin/python benchmarks/bench_align.py --rows 1000000 --n-jobs 1

Every participant has as many ids, of which half are everybody's. `--n-jobs` is that of each participant: on one machine
they share its cores.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.testing.trial import Trial

PARTICIPANTS = ("bank", "telecom", "retail", "clinic", "city")
DEADLINE = 3600.0


def tables(participants: int, rows: int) -> dict[str, pd.DataFrame]:
    """Return tables of one feature; half of the ids are everybody's, the others their owner's alone."""
    draws = np.random.default_rng(0)
    found = {}
    for m, name in enumerate(PARTICIPANTS[:participants]):
        numbers = np.arange(rows)
        numbers[rows // 2 :] += (m + 1) * rows
        ids = [f"person-{number:09}" for number in draws.permutation(numbers)]
        found[name] = pd.DataFrame({"person": ids, f"{name}_x": draws.normal(size=rows).round(3)})
    found[PARTICIPANTS[0]]["label"] = draws.integers(0, 2, rows)
    return found


def measure(participants: int, rows: int, n_jobs: int) -> dict[str, Any]:
    """Return seconds in all, and seconds of the processor, memory and bytes of every participant."""
    with tempfile.TemporaryDirectory() as name:
        network = {"deadline": DEADLINE, "connect_timeout": DEADLINE}
        trial = Trial(Path(name), tables(participants, rows), "label", "person", {"num_class": 2}, network)
        for m in trial.roster.roles[1:]:
            path = trial.settings(m)
            path.write_text(path.read_text().replace("[data]", "[data]\nalign = true"))
        command, quiet = [sys.executable, "-m", "mpfedxgb"], subprocess.DEVNULL
        coordinator = subprocess.Popen(  # noqa: S603 # ours
            [*command, "coordinator", str(trial.settings(0))], stdout=quiet, stderr=quiet
        )
        started = time.perf_counter()
        try:
            running = [
                subprocess.Popen(  # noqa: S603 # ours
                    [*command, "align", str(trial.settings(m)), "--n-jobs", str(n_jobs)], stdout=quiet, stderr=quiet
                )
                for m in trial.roster.roles[1:]
            ]
            ended = [os.wait4(process.pid, 0) for process in running]
            seconds = time.perf_counter() - started
        finally:
            coordinator.terminate()
            coordinator.wait()
        roles = []
        for m, (_, status, used) in enumerate(ended, start=1):
            if status:
                raise SystemExit(f"{trial.roster.name(m)} ended with {os.waitstatus_to_exitcode(status)}")
            attempt = read_record(RoleSettings.from_toml(trial.settings(m))).attempts[-1].content
            processor = used.ru_utime + used.ru_stime
            roles.append(
                {
                    "role": trial.roster.name(m),
                    "aligning_seconds": attempt["seconds"],
                    "processor_seconds": round(processor, 1),
                    "microseconds_per_id": round(processor / rows * 1e6),
                    "max_memory_mb": round(used.ru_maxrss / 1024),
                    "megabytes_sent": round(attempt["bytes_sent"] / 1e6, 1),
                    "rounds": attempt["rounds"],
                }
            )
        return {
            "participants": participants,
            "rows": rows,
            "n_jobs": n_jobs,
            "seconds": round(seconds, 1),
            "roles": roles,
        }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000, help="ids of each participant")
    parser.add_argument("--participants", type=int, default=2, choices=range(2, 6))
    parser.add_argument("--n-jobs", type=int, default=1, help="threads of each participant")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    asked = parser.parse_args()
    found = measure(asked.participants, asked.rows, asked.n_jobs)
    found["load"] = [round(one, 1) for one in os.getloadavg()]
    if asked.json:
        print(json.dumps(found))
        return
    size = f"{found['rows']} ids at each of {found['participants']} participants"
    print(f"{size}: {found['seconds']} s, load {found['load']}")
    for one in found["roles"]:
        print("  " + ", ".join(f"{key} {value}" for key, value in one.items()))


if __name__ == "__main__":
    main()
