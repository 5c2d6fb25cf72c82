"""Requests for scores while an auxiliary is restarted again and again and another one's table changes.

    nice -n 10 .venv/bin/python benchmarks/soak.py --requests 10000

Three participants as processes, mTLS on loopback, clients over HTTP. Every answer is held to what the joined model says
of the row, with the tables as they were: the version that was last taken up before the request, or a newer one that was
written before the answer. The last object that is printed says which claims hold; ends with 1 unless all do.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from bench_scoring import ORGANISATIONS, ServedTrial, served
from mpfedxgb import FedXGBClassifier
from mpfedxgb.atomic import write_file
from mpfedxgb.data.files import write_table
from mpfedxgb.party.roster import ACTIVE
from patience import patience

LATE = 15.0
"""Seconds by which a restart may be late, while a table changes or the role stops."""
PEOPLE, TREES, DEPTH = 500, 20, 4
RESTARTED, CHANGED = 2, 3
"""The auxiliary that is restarted, and the one whose table changes."""
MOST_GROWTH = 16e6
"""Bytes by which the memory of a role may grow from the end of the first quarter on: below 2 kB of 10,000 requests."""


class Truth:
    """What the joined model says of every row, for every version of the table that changes."""

    def __init__(self, made: ServedTrial, versions: int) -> None:
        self.model = FedXGBClassifier.from_parts(made.trial.models())
        self.tables, self.name = made.tables, ORGANISATIONS[CHANGED - 1]
        draws = np.random.default_rng(7)
        own = self.tables[self.name]
        columns = [name for name in own.columns if name != "customer"]
        shuffled = [own[columns].iloc[draws.permutation(PEOPLE)].reset_index(drop=True) for _ in range(versions)]
        self.versions = [own, *(table.assign(customer=own["customer"]) for table in shuffled)]
        self.scores = [self._scores(table) for table in self.versions]
        self.taken_up = self.written = 0

    def _scores(self, changed: pd.DataFrame) -> Any:
        tables = self.tables | {self.name: changed}
        frames = {name: table.drop(columns="customer") for name, table in tables.items()}
        return self.model.predict_proba(frames)[:, 1]

    def holds(self, row: int, score: float, oldest: int) -> bool:
        """Return whether a score is that of the row in some version from the oldest on that was written by now."""
        return any(abs(self.scores[v][row] - score) < 1e-9 for v in range(oldest, self.written + 1))


class Clients:
    """Threads that ask for a row each, until there were enough requests and all has happened meanwhile."""

    def __init__(self, made: ServedTrial, truth: Truth, count: int, requests: int) -> None:
        self.all_happened = threading.Event()
        self.host, self.truth, self.left = made.host(ACTIVE), truth, requests
        self.bodies = [json.dumps({"dataframe_records": [row]}).encode() for row in made.rows()]
        self.milliseconds: list[float] = []
        self.wrong: Counter[str] = Counter()
        self.unanswered: Counter[str] = Counter()
        self._taking = threading.Lock()
        self.threads = [threading.Thread(target=self._ask, args=(13 * i,), daemon=True) for i in range(count)]

    def _ask(self, row: int) -> None:
        connection = http.client.HTTPConnection(self.host, timeout=600.0)
        while self._one_more():
            row = (row + 1) % PEOPLE
            oldest, began = self.truth.taken_up, time.perf_counter()
            try:
                connection.request("POST", "/invocations", self.bodies[row], {"Content-Type": "application/json"})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException) as error:
                self.unanswered[type(error).__name__] += 1
                connection.close()
                continue
            self.milliseconds.append(1000 * (time.perf_counter() - began))
            if answer.status != 200:
                self.unanswered[f"{answer.status} {text[:160].decode(errors='replace')}"] += 1
                continue
            (found,) = json.loads(text)["predictions"]
            score = found.get("probability")
            if score is None:
                self.unanswered[json.dumps(found)[:160]] += 1
            elif not self.truth.holds(row, score, oldest):
                self.wrong[json.dumps(found)[:160]] += 1
        connection.close()

    def _one_more(self) -> bool:
        with self._taking:
            self.left -= 1
            return self.left >= 0 or not self.all_happened.is_set()


def change_table(made: ServedTrial, truth: Truth) -> None:
    """Write the next version, and wait until it is taken up."""
    path = made.trial.settings(CHANGED).parent / "score.csv"
    new = path.with_name("new.csv")
    write_table(truth.versions[truth.written + 1], new)
    truth.written += 1
    write_file(path, new.read_bytes())
    end = time.monotonic() + patience(60.0)
    while f'mpfedxgb_files_read_total{{how="taken up"}} {truth.written}.0' not in made.get(CHANGED, "/metrics")[1]:
        if time.monotonic() > end:
            raise TimeoutError(f"version {truth.written} of a table is not taken up")
        time.sleep(0.1)
    time.sleep(2.0)  # a batch that was under way has looked its rows up before
    truth.taken_up = truth.written


def restart(made: ServedTrial, process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Stop an auxiliary and start it again."""
    process.terminate()
    process.wait(patience(60.0))
    return made.trial.start(RESTARTED, ["--serve", "--http", "0"])


def soak(made: ServedTrial, requests: int, clients: int, every: float, changes: int) -> dict[str, Any]:
    """Ask, restart, change; return what came of it."""
    truth = Truth(made, changes)
    asking = Clients(made, truth, clients, requests)
    watched = [m for m in made.trial.roster.roles if m != RESTARTED]
    memory: dict[int, list[float]] = {m: [] for m in watched}
    process, restarts, began = made.processes[RESTARTED], 0, time.monotonic()
    for thread in asking.threads:
        thread.start()
    last = began
    while any(thread.is_alive() for thread in asking.threads):
        time.sleep(2.0)
        for m in watched:
            memory[m].append(made.metric(m, "process_resident_memory_bytes"))
        if time.monotonic() - last > every:
            process, restarts, last = restart(made, process), restarts + 1, time.monotonic()
        done = requests - max(0, asking.left)
        if truth.written < changes and done > requests * (truth.written + 1) / (changes + 2):
            change_table(made, truth)
        if restarts and truth.taken_up == changes:
            asking.all_happened.set()
    name = made.trial.roster.name
    return {
        "requests": requests - asking.left - clients,
        "seconds": time.monotonic() - began,
        "restarts": restarts,
        "changes": truth.written,
        "wrong": dict(asking.wrong),
        "unanswered": dict(asking.unanswered),
        "p50_ms": float(np.percentile(asking.milliseconds, 50)),
        "p99_ms": float(np.percentile(asking.milliseconds, 99)),
        "longest_ms": max(asking.milliseconds),
        "memory": {name(m): [seen[len(seen) // 4], seen[-1], max(seen)] for m, seen in memory.items()},
    }


def main() -> int:
    """Soak, print, and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10_000, help="at least")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--every", type=float, default=60.0, help="seconds between two restarts")
    parser.add_argument("--changes", type=int, default=5, help="of a table")
    parser.add_argument("--topology", default="mesh")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with served(args.topology, 0.0, TREES, DEPTH, PEOPLE, serve={"timeout": 300.0}) as made:
        found = soak(made, args.requests, args.clients, args.every, args.changes)
    memory = {name: [round(b / 1e6, 1) for b in bytes_] for name, bytes_ in found.pop("memory").items()}
    print(json.dumps({"load": load, **found, "memory_mb": memory}, indent=1))
    claims = {
        f"none of {found['requests']} scores is wrong": not found["wrong"],
        "no request is without a score": not found["unanswered"],
        f"an auxiliary was restarted every {args.every:g} s, and tables changed {args.changes} times": (
            found["restarts"] >= max(1, found["seconds"] // (args.every + LATE)) and found["changes"] == args.changes
        ),
        "memory is flat": all(last - quarter <= MOST_GROWTH / 1e6 for quarter, last, _ in memory.values()),
    }
    print(json.dumps(claims, indent=1))
    return int(not all(claims.values()))


if __name__ == "__main__":
    sys.exit(main())
