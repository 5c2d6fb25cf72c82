"""How long a batch takes in a running scoring session: five roles as processes, mTLS on loopback.

Run it with .venv/bin/python benchmarks/bench_scoring.py; --scale 0.2 takes a fifth of the batches.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from bench_federation import PARTICIPANTS, paper_job
from mpfedxgb.federation import role
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.testing.trial import Trial

BATCHES = {1: 100, 100: 100, 10_000: 20}
"""Rows of a batch -> how often it is scored."""


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


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trees", type=int, default=3)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual number of batches")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = measure(args.trees, args.depth, args.scale)
    if args.json:
        print(json.dumps({"rows": rows}))
    else:
        for row in rows:
            print("{rows:>7} rows: p50 {p50_ms:.1f} ms, p99 {p99_ms:.1f} ms ({batches} batches)".format(**row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
