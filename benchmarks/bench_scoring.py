"""How long a batch takes in a running scoring session, and a request over HTTP: roles as processes, mTLS on loopback.

    .venv/bin/python benchmarks/bench_scoring.py                    # batches from Python, the paper's four participants
    .venv/bin/python benchmarks/bench_scoring.py --http             # requests, three participants, 100 trees of depth 6
    .venv/bin/python benchmarks/bench_scoring.py --http --topology mesh --delay 0.02 --clients 1

--scale 0.2 takes a fifth of the batches or of the seconds. With --delay every byte between two roles is held back that
many seconds in each direction (relay.py). Clients are a process of their own (asking_http.py), whose processor time is
told beside that of the roles. A busy machine is several times slower than a quiet one: its load is told first.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench_federation import PARTICIPANTS, paper_job
from mpfedxgb import FedXGBClassifier
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.federation import role
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.roster import ACTIVE, COORDINATOR
from mpfedxgb.testing.trial import Trial
from patience import patience
from relay import Relay

BATCHES = {1: 100, 100: 100, 10_000: 20}
"""Rows of a batch -> how often it is scored."""
ORGANISATIONS = ("bank", "telecom", "retail")
CLIENTS = (1, 8, 64)
ROWS = (1, 100, 10_000)
SECONDS = 10.0
"""How long clients ask."""


def measure(trees: int, depth: int, scale: float) -> list[dict[str, float]]:
    """Return p50 and p99 in milliseconds per size of batch."""
    frames, y = paper_job(10_000, 10)
    tables = {name: frame.assign(person=np.arange(len(frame))) for name, frame in frames.items()}
    train = dict(tables) | {PARTICIPANTS[0]: tables[PARTICIPANTS[0]].assign(label=y.to_numpy())}
    training = {"n_estimators": trees, "max_depth": depth, "num_class": 2}
    rows: list[dict[str, float]] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        Trial(Path(folder), train, "label", "person", training, to_score=tables) as trial,
    ):
        trial.train()
        for m in trial.roster.roles:
            if m != ACTIVE:
                trial.start(m, ["--serve"])
        settings = RoleSettings.from_toml(trial.settings(ACTIVE))
        with role.scoring(settings, role.load_model(settings)) as session:
            mine: pd.DataFrame = tables[PARTICIPANTS[0]]
            for size, times in BATCHES.items():
                took = []
                for i in range(max(5, int(times * scale)) + 2):
                    batch = mine.iloc[(np.arange(size) + 37 * i) % len(mine)]
                    started = time.perf_counter()
                    session.predict(batch)
                    took.append(1000 * (time.perf_counter() - started))
                p50, p99 = np.percentile(took[2:], [50, 99])  # the first two warm up
                rows.append({"rows": size, "batches": len(took) - 2, "p50_ms": float(p50), "p99_ms": float(p99)})
    return rows


class ServedTrial:
    """A federation that answers requests for scores, and what its roles tell of themselves; see `served`."""

    def __init__(self, trial: Trial, tables: dict[str, pd.DataFrame]) -> None:
        self.trial, self.tables = trial, tables
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    def host(self, of: int) -> str:
        """Return where a role answers, once its log says so."""
        log = self.trial.settings(of).parent / "log"
        end = time.monotonic() + patience(120.0)
        while not (found := re.findall(r" on http://(\S+)/", log.read_text() if log.is_file() else "")):
            if time.monotonic() > end:
                raise TimeoutError(f"{log} names no address")
            time.sleep(0.05)
        return str(found[-1])

    def get(self, of: int, path: str) -> tuple[int, str]:
        """Return status and text of what a role answers."""
        connection = http.client.HTTPConnection(self.host(of), timeout=30.0)
        connection.request("GET", path)
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def score(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return what rows are answered with."""
        connection = http.client.HTTPConnection(self.host(ACTIVE), timeout=120.0)
        body = json.dumps({"dataframe_records": rows})
        connection.request("POST", "/invocations", body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(text)
        return list(json.loads(text)["predictions"])

    def wait_until_ready(self) -> None:
        """Wait until scores are answered."""
        end = time.monotonic() + patience(120.0)
        while self.get(ACTIVE, "/readyz")[0] != 200:
            if time.monotonic() > end:
                raise TimeoutError(self.get(ACTIVE, "/readyz")[1])
            time.sleep(0.1)

    def metric(self, of: int, name: str) -> float:
        """Return a metric without labels of a role."""
        found = re.search(rf"^{name} (\S+)$", self.get(of, "/metrics")[1], re.MULTILINE)
        return float(found[1]) if found else 0.0

    def rows(self) -> list[dict[str, Any]]:
        """Return the active participant's rows, as requests bring them."""
        return [{str(k): v for k, v in row.items()} for row in self.tables[ORGANISATIONS[0]].to_dict("records")]


@contextmanager
def served(
    topology: str,
    delay: float,
    trees: int,
    depth: int,
    people: int = 10_000,
    roles: Sequence[int] = (0, 1, 2, 3),
    serve: Mapping[str, Any] | None = None,
) -> Iterator[ServedTrial]:
    """Have a federation of three participants that answers; the model is made in one process, by nobody's protocol.

    `serve` are more keys of the active participant's [serve].
    """
    draws = np.random.default_rng(5)
    X = draws.normal(size=(people, 30)).astype(np.float32)
    y = pd.Series((X @ draws.normal(size=30) + draws.normal(size=people) > 0).astype(int))
    frames = {
        name: pd.DataFrame(X[:, 10 * i : 10 * i + 10], columns=pd.Index([f"x{10 * i + j}" for j in range(10)]))
        for i, name in enumerate(ORGANISATIONS)
    }
    training = {"n_estimators": trees, "max_depth": depth, "num_class": 2}
    model = FedXGBClassifier(n_estimators=trees, max_depth=depth, security="none").fit(frames, y)
    tables = {name: frame.assign(customer=[f"c-{i}" for i in range(people)]) for name, frame in frames.items()}
    train = tables | {ORGANISATIONS[0]: tables[ORGANISATIONS[0]].assign(label=y)}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trial = Trial(folder, train, "label", "customer", training, to_score=tables, topology=topology)
        if delay:
            relay = stack.enter_context(Relay(trial.listen, delay))
            trial.dial = dict(relay.ports)
            trial.write_settings()
        stack.enter_context(trial)
        for part in model.partial_models_:
            own = replace(part, params=replace(part.params, security="strict"))
            own.save(folder / part.name / f"{part.name}.mpfedxgb.json")
        made = ServedTrial(trial, tables)
        with trial.settings(ACTIVE).open("a") as file:
            file.write("[serve]\n" + "".join(f"{key} = {value}\n" for key, value in (serve or {}).items()))
        for m in roles:
            options = ["--http", "0"] if m == COORDINATOR else ["--serve", "--http", "0"]
            made.processes[m] = trial.start(m, options)
        made.wait_until_ready()
        yield made


def measure_http(made: ServedTrial, clients: int, size: int, seconds: float) -> dict[str, Any]:
    """Let clients ask for a while, and return milliseconds, requests a second and processor seconds a request."""
    command = [sys.executable, str(Path(__file__).with_name("asking_http.py")), made.host(ACTIVE)]
    content = json.dumps(made.rows())
    roles = made.trial.roster.roles
    before = {m: made.metric(m, "process_cpu_seconds_total") for m in roles}
    batches = made.metric(ACTIVE, "mpfedxgb_batches_total")
    done = subprocess.run(  # noqa: S603 # our own
        [*command, str(clients), str(size), str(seconds)], input=content, capture_output=True, text=True, check=True
    )
    found = json.loads(done.stdout)
    if found["failed"]:
        raise RuntimeError(f"{len(found['failed'])} requests were not answered with scores: {found['failed'][0]}")
    requests = len(found["ms"])
    p50, p99 = np.percentile(found["ms"], [50, 99])
    used = {m: made.metric(m, "process_cpu_seconds_total") - before[m] for m in roles}
    return {
        "clients": clients,
        "rows": size,
        "requests": requests,
        "p50_ms": float(p50),
        "p99_ms": float(p99),
        "per_second": requests / found["seconds"],
        "requests_per_batch": requests / max(1.0, made.metric(ACTIVE, "mpfedxgb_batches_total") - batches),
        "clients_cpu": found["cpu"] / found["seconds"],
        "roles_cpu_ms": {made.trial.roster.name(m): 1000 * used[m] / requests for m in roles},
    }


_HEAD = """
| topology | each way | clients | rows | p50 | p99 | requests/s | a batch | clients' CPU | CPU ms a request: {} |
|---|---|---|---|---|---|---|---|---|---|"""
_LINE = (
    "| {topology} | {delay_ms:g} ms | {clients} | {rows:,} | {p50_ms:.1f} ms | {p99_ms:.1f} ms | {per_second:.1f} | "
    "{requests_per_batch:.1f} | {clients_cpu:.2f} | {roles} |"
)
"""Clients' CPU is in processors."""


def as_table(rows: list[dict[str, Any]]) -> str:
    """Return p50 / p99 in milliseconds, and requests a second, a line for each network, as documents have them."""
    cells: dict[tuple[str, float], dict[str, str]] = {}
    for row in rows:
        what = f"{row['rows']:,} rows" if row["rows"] > 1 else f"{row['clients']} client{'s' * (row['clients'] > 1)}"
        rate = f", {row['per_second']:.0f}/s" if row["clients"] > 1 else ""
        cells.setdefault((row["topology"], row["delay_ms"]), {})[what] = (
            f"{row['p50_ms']:.0f} / {row['p99_ms']:.0f}{rate}"
        )
    heads = list(dict.fromkeys(what for line in cells.values() for what in line))
    lines = [["topology", "each way", *heads], ["---"] * (2 + len(heads))]
    lines += [[name, f"{ms:g} ms", *(line.get(what, "") for what in heads)] for (name, ms), line in cells.items()]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def over_http(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure all combinations that are asked for."""
    rows = []
    if not args.json:
        print(_HEAD.format(" / ".join(("coordinator", *ORGANISATIONS))))
    for topology in args.topology or TOPOLOGIES:
        for delay in args.delay:
            with served(topology, delay, args.trees or 100, args.depth or 6) as made:
                for size in args.rows:
                    for clients in args.clients if size == 1 else [1]:
                        measure_http(made, clients, size, 1.0)  # warms up
                        row = {"topology": topology, "delay_ms": 1000 * delay}
                        row |= measure_http(made, clients, size, SECONDS * args.scale)
                        rows.append(row)
                        if not args.json:
                            print(
                                _LINE.format(
                                    **row, roles=" / ".join(f"{ms:.1f}" for ms in row["roles_cpu_ms"].values())
                                ),
                                flush=True,
                            )
    return rows


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, help="3, or 100 with --http")
    parser.add_argument("--depth", type=int, help="3, or 6 with --http")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual number of batches, or of seconds")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--http", action="store_true", help="ask over HTTP")
    parser.add_argument("--topology", action="append", choices=TOPOLOGIES, help="with --http; both if not given")
    parser.add_argument("--delay", type=float, nargs="+", default=[0.0], help="seconds each way, with --http")
    parser.add_argument("--clients", type=int, nargs="+", default=CLIENTS, help="that ask for one row at a time")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="of a request, with --http")
    args = parser.parse_args()
    if not args.json:
        print(f"load when this began: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    rows: list[dict[str, Any]] = (
        over_http(args) if args.http else [*measure(args.trees or 3, args.depth or 3, args.scale)]
    )
    if args.json:
        print(json.dumps({"load": os.getloadavg()[0], "rows": rows}))
    elif args.http:
        print(f"\n{as_table(rows)}")
    else:
        for row in rows:
            print("{rows:>7} rows: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms ({batches} batches)".format(**row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
