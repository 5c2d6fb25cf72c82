"""The paper's job as five processes over mTLS on loopback, beside the same job in one process; and with delay.

    .venv/bin/python benchmarks/bench_federation.py --repeat 5
    .venv/bin/python benchmarks/bench_federation.py --repeat 3 --delay 0.02 --link 20/10000 --topology mesh

Seconds are those of training after the handshake, runs alternate, and the least of each kind counts. With --delay every
byte is held back that long in each direction by a relay (relay.py), and the time is set beside
dependent hops * delay + the undelayed time.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb import FedXGBClassifier
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.schema.settings import NETWORK
from mpfedxgb.testing.trial import Trial
from mpfedxgb.transport.transport import STAR
from relay import Relay

PARTICIPANTS = ("bank", "telecom", "retail", "hospital")


def paper_job(rows: int, columns: int) -> tuple[dict[str, pd.DataFrame], pd.Series[int]]:
    """Return tables of four participants, 10/20/30/40 % of the columns, and labels."""
    draws = np.random.default_rng(1)
    X = draws.normal(size=(rows, columns)).astype(np.float32)
    y = pd.Series((X @ draws.normal(size=columns) + draws.normal(size=rows) > 0).astype(int))
    ends = np.round(np.cumsum([0.1, 0.2, 0.3, 0.4]) * columns).astype(int)
    parts = np.split(np.arange(columns), ends[:-1])
    frames = {
        name: pd.DataFrame(X[:, part], columns=pd.Index([f"x{j}" for j in part]))
        for name, part in zip(PARTICIPANTS, parts, strict=True)
    }
    return frames, y


def in_one_process(
    frames: dict[str, pd.DataFrame], y: pd.Series[int], trees: int, depth: int, bins: int
) -> dict[str, Any]:
    """Train by threads and return seconds after the handshake."""
    model = FedXGBClassifier(n_estimators=trees, max_depth=depth, max_bin=bins).fit(frames, y)
    phases = model.run_.phases
    return {"seconds": sum(c.seconds for name, c in phases.items() if name), "model": model.partial_models_}


def in_processes(
    frames: dict[str, pd.DataFrame],
    y: pd.Series[int],
    trees: int,
    depth: int,
    bins: int,
    delay: float,
    topology: str = STAR,
    link: str = NETWORK["link"].default,
) -> dict[str, Any]:
    """Train by processes, and return seconds after the handshake, rounds and hops of the active participant.

    With `delay`, every byte between two roles is held back that long: all that a role dials is dialled at the relay.
    """
    tables = {name: frame.assign(person=np.arange(len(frame))) for name, frame in frames.items()}
    tables[PARTICIPANTS[0]] = tables[PARTICIPANTS[0]].assign(label=y.to_numpy())
    training = {"n_estimators": trees, "max_depth": depth, "max_bin": bins, "num_class": 2}
    with (
        tempfile.TemporaryDirectory() as folder,
        Trial(Path(folder), tables, "label", "person", training, topology=topology, link=link) as trial,
    ):
        if delay:
            with Relay(trial.listen, delay) as relay:
                trial.dial = dict(relay.ports)
                trial.write_settings()
                models = trial.train()
        else:
            models = trial.train()
        phases = trial.record()["phases"]
    inside = [c for name, c in phases.items() if name]
    return {
        "seconds": sum(c["seconds"] for c in inside),
        "rounds": sum(c["rounds"] for c in inside),
        "hops": sum(c["hops"] for c in inside),
        "model": models,
    }


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--columns", type=int, default=10)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--bins", type=int, default=32, help="bins per column")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds that each direction is held back")
    parser.add_argument("--topology", default=STAR, choices=TOPOLOGIES, help="how participants are connected")
    parser.add_argument("--link", default=NETWORK["link"].default, help="what to plan for: lan, wan or 20/100")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    frames, y = paper_job(args.rows, args.columns)
    job = (frames, y, args.trees, args.depth, args.bins)
    in_one_process(*job)
    inside, outside, slow = [], [], []
    for _ in range(args.repeat):
        inside.append(in_one_process(*job)["seconds"])
        outside.append(in_processes(*job, 0.0, args.topology, args.link))
        if args.delay:
            slow.append(in_processes(*job, args.delay, args.topology, args.link))
    best, plain = min(inside), min(o["seconds"] for o in outside)
    result = {
        "in_process_seconds": best,
        "processes_seconds": plain,
        "ratio": plain / best,
        "rounds": outside[0]["rounds"],
        "hops": outside[0]["hops"],
        "topology": args.topology,
        "link": args.link,
    }
    if slow:
        measured = min(s["seconds"] for s in slow)
        explained = slow[0]["hops"] * args.delay + plain
        result |= {
            "delay": args.delay,
            "delayed_seconds": measured,
            "explained_seconds": explained,
            "measured_over_explained": measured / explained,
        }
    if args.json:
        print(json.dumps(result))
    else:
        for name, value in result.items():
            print(f"{name:24} {value if isinstance(value, str) else format(value, '.4g')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
