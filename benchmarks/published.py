"""The jobs that other systems have published, trained here, beside their figures.

    python benchmarks/published.py [--job NAME ...] [--trees T] [--json]

Their figures are seconds a tree in their own words and on their own machines; ours are of this machine, all roles
together as threads of one process. Trust is not the same: Squirrel and AnonGBDT have two parties and no
helper, and pay for that; XORBoost has a trusted dealer, as this package has a coordinator. Squirrel's figures are those
that AnonGBDT's paper (S&P 2026) plots.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from plain_table import table

HERE = Path(__file__).resolve().parent


class Job(NamedTuple):
    """A published job: its sizes, and seconds a tree by system, trust in brackets."""

    rows: int
    features: int
    bins: int
    depth: int
    theirs: str


JOBS = {
    "100k x 20": Job(100_000, 20, 16, 6, "Squirrel 18 LAN, 39 WAN (two parties, no helper)"),
    "100k x 200": Job(100_000, 200, 16, 5, "Squirrel 83 LAN (two parties, no helper)"),
    "1M x 20": Job(1_000_000, 20, 16, 5, "Squirrel 94, AnonGBDT 56 LAN (two parties, no helper)"),
    "25k x 300": Job(25_000, 300, 128, 4, "XORBoost below 90 (trusted dealer)"),
}


def main(words: Sequence[str] | None = None) -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--job", action="append", choices=list(JOBS), help="only this one; may be repeated")
    parser.add_argument("--trees", type=int, default=2, help="trees of each training (default 2)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(words)
    found = {name: measure(JOBS[name], args.trees) for name in args.job or JOBS}
    print(json.dumps(found) if args.json else _page(found))


def measure(job: Job, trees: int) -> dict[str, Any]:
    """Return seconds a tree, with and without the set-up, of a training in a process of its own."""
    options = ["--rows", job.rows, "--features", job.features, "--bins", job.bins, "--depth", job.depth]
    options += ["--participants", 2, "--trees", trees, "--repeat", 0, "--json"]
    command = [sys.executable, HERE / "bench_train.py", *options]
    done = subprocess.run([*map(str, command)], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 # ours
    result = json.loads(done.stdout)
    setup = result["seconds_by_phase"]["setup"]
    return {
        "seconds_a_tree": (result["seconds_warm"] - setup) / trees,
        "setup_seconds": setup,
        "bytes_a_tree": result["active_bytes_per_tree"] + result["bytes_per_participant_per_tree"],
        "peak_memory_mb": result["peak_memory_mb"],
        "same_trees": result["same_trees"],
        "theirs": job.theirs,
    }


def _page(found: dict[str, dict[str, Any]]) -> str:
    rows = [
        [
            name,
            f"{one['seconds_a_tree']:.1f}",
            f"{one['setup_seconds']:.1f}",
            f"{one['bytes_a_tree'] / 1e6:.0f}",
            f"{one['peak_memory_mb'] / 1e3:.1f}",
            str(one["same_trees"]),
            one["theirs"],
        ]
        for name, one in found.items()
    ]
    header = ["job", "s a tree", "set-up s", "MB a tree", "peak GB", "same trees", "published, s a tree"]
    return table("two participants and a coordinator, all on this machine", header, rows, left=(0, 6))


if __name__ == "__main__":
    main()
