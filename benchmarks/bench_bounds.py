"""reg_alpha, max_delta_step and monotone_constraints beside none of them: what bounds of leaf weights cost.

    python benchmarks/bench_bounds.py [--rows N] [--features D] [--bins B] [--participants M] [--depth D] [--trees T]
                                      [--repeat R] [--link local] [--topology star] [--security strict] [--json]

Whole fits in turns, of which the least processor time of each counts, that of all roles, which are threads of this
process; rounds, hops and bytes from the meter. By default the paper's job: 10,000 x 10, 10 bins, depth 3, 3 trees, 4
participants. Directions are those of three columns of two owners.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from typing import Any

from bench_sealed import counts_of
from bench_train import make_table
from mpfedxgb import FedXGBClassifier
from plain_table import table

DIRECTIONS = {"f0": 1, "f1": -1, "f3": 1}
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "reg_alpha": {"reg_alpha": 1.0},
    "max_delta_step": {"max_delta_step": 0.7},
    "both": {"reg_alpha": 1.0, "max_delta_step": 0.7},
    "monotone": {"monotone_constraints": DIRECTIONS},
    "monotone and reg_alpha": {"monotone_constraints": DIRECTIONS, "reg_alpha": 1.0},
}


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 10_000), ("features", 10), ("bins", 10), ("participants", 4), ("depth", 3)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"(default {default})")
    parser.add_argument("--trees", type=int, default=3, help="(default 3)")
    parser.add_argument("--repeat", type=int, default=5, help="turns, of which the best count (default 5)")
    parser.add_argument("--link", default="local", help="what tournaments are planned for: local, lan, wan or 20/100")
    parser.add_argument("--topology", default="star", choices=["star", "mesh"], help="how participants are connected")
    parser.add_argument("--security", default="strict", choices=["strict", "sealed"])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = measure(**{name: value for name, value in vars(args).items() if name != "json"})
    title = f"{args.rows} rows x {args.features} features, {args.trees} trees, {args.security}, {args.topology}"
    print(json.dumps(result) if args.json else _page(title, result))


def measure(
    rows: int = 10_000,
    features: int = 10,
    bins: int = 10,
    participants: int = 4,
    depth: int = 3,
    trees: int = 3,
    repeat: int = 5,
    link: str = "local",
    topology: str = "star",
    security: str = "strict",
) -> dict[str, dict[str, float]]:
    """Return seconds, their ratio to those of a training without bounds, and counts of every way."""
    X, y = make_table(rows, features)
    shape: dict[str, Any] = {"participants": participants, "n_estimators": trees, "max_depth": depth, "max_bin": bins}
    models = {
        name: FedXGBClassifier(security=security, link=link, topology=topology, **shape, **more)
        for name, more in WAYS.items()
    }
    seconds = dict.fromkeys(models, math.inf)
    for _ in range(repeat):
        for name, model in models.items():
            started = time.process_time()
            model.fit(X, y)
            seconds[name] = min(seconds[name], time.process_time() - started)
    return {
        name: {"seconds": seconds[name], "ratio": seconds[name] / seconds["plain"], **counts_of(model)}
        for name, model in models.items()
    }


def _page(title: str, result: dict[str, dict[str, float]]) -> str:
    rows = [
        [
            name,
            f"{r['seconds']:.3f} s",
            f"{r['ratio']:.2f}",
            f"{r['rounds_per_tree']:.0f} ({r['hops_per_tree']:.0f})",
            f"{r['dealt_bytes'] / 1e6:.1f} MB",
            f"{r['auxiliary_bytes'] / 1e6:.1f} MB",
        ]
        for name, r in result.items()
    ]
    return table(
        title, ["", "processor time", "ratio", "rounds a tree (hops)", "dealt in all", "sent by an auxiliary"], rows
    )


if __name__ == "__main__":
    main()
