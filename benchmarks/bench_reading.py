"""Peak memory of reading a participant's table, per file format: each in a process of its own.

python benchmarks/bench_reading.py --rows 1000000 --columns 28
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd


def write_tables(folder: Path, rows: int, columns: int) -> list[Path]:
    """Write one table as CSV and as Parquet: an id, a label and columns of numbers, the ids in no order."""
    rng = np.random.default_rng(1)
    data = {f"x{j}": rng.normal(size=rows).round(6) for j in range(columns)}
    frame = pd.DataFrame({"id": rng.permutation(rows) + 10_000_000, "y": rng.integers(0, 2, rows), **data})
    paths = [folder / "table.csv", folder / "table.parquet"]
    frame.to_csv(paths[0], index=False)
    frame.to_parquet(paths[1], index=False)
    return paths


def settings_of(path: Path) -> dict[str, object]:
    """Return the settings of an active participant whose table this is."""
    return {
        "federation": {"name": "bench", "participants": ["bank", "shop"]},
        "role": {"name": "bank"},
        "network": {"transport": "mpi"},
        "data": {"id": "id", "train": str(path)},
        "label": {"column": "y"},
    }


def measure(path: Path) -> dict[str, float]:
    """Read and bin a table in this process; return megabytes: at rest before, at most, and at most of its own."""
    from mpfedxgb.data.binning import bin_table
    from mpfedxgb.federation.rows import read_rows
    from mpfedxgb.federation.settings import RoleSettings

    settings = RoleSettings.from_dict(settings_of(path))
    before, anonymous, done = _status("VmRSS"), [0.0], threading.Event()

    def watch() -> None:
        while not done.wait(0.005):
            anonymous[0] = max(anonymous[0], _status("RssAnon"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    started = time.process_time()
    rows = read_rows(settings, "train")
    read = _status("VmHWM")
    bin_table(rows.table, 32)
    done.set()
    watcher.join()
    seconds = time.process_time() - started
    return {
        "before": before,
        "peak reading": read,
        "peak": _status("VmHWM"),
        "peak anonymous": anonymous[0],
        "seconds": seconds,
    }


def _status(key: str) -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1000
    raise SystemExit(f"this system does not tell {key}")


def main() -> None:
    """Measure both formats, each in a new process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--read", type=Path, help="measure this file in this process and print JSON")
    given = parser.parse_args()
    if given.read is not None:
        print(json.dumps(measure(given.read)))
        return
    with tempfile.TemporaryDirectory() as folder:
        for path in write_tables(Path(folder), given.rows, given.columns):
            told = subprocess.run(  # noqa: S603 # this file
                [sys.executable, __file__, "--read", str(path)], check=True, capture_output=True, text=True
            )
            found = json.loads(told.stdout)
            size = path.stat().st_size / 1e6
            listed = ", ".join(f"{key} {value:.0f}" for key, value in found.items())
            print(f"{path.suffix[1:]:8s} {given.rows} x {given.columns}, {size:.0f} MB on disk: {listed} (MB; s)")


if __name__ == "__main__":
    main()
