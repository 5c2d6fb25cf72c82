"""Three organisations with a coordinator beside them, and without: time, bytes and memory of every role, in turns.

    python benchmarks/bench_three.py [--rows N] [--features D] [--bins B] [--participants M] [--depth D] [--trees T]
                                     [--repeat R] [--security strict] [--link local] [--topology star] [--processes]
                                     [--json]

By default the paper's job with three participants: 10,000 x 10, 10 bins, depth 3, 3 trees. Whole fits of all roles as
threads of this process, of which the least wall and the least processor seconds count. Both joined models must have the
same trees. What a role sends hangs on whose columns split, which no forecast knows: how far it is off is told. With
--processes every role is a process besides, over mutual TLS, whose record tells the most memory that it had.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench_train import calibration_seconds, make_table
from mpfedxgb import FedXGBClassifier, join
from mpfedxgb.testing.trial import Trial
from mpfedxgb.units import bytes_text
from plain_table import table

WITH, WITHOUT = KINDS = ("a fourth", "nobody else")


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 10_000), ("features", 10), ("bins", 10), ("participants", 3), ("depth", 3)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"(default {default})")
    parser.add_argument("--trees", type=int, default=3, help="(default 3)")
    parser.add_argument("--repeat", type=int, default=5, help="turns, of which the best count (default 5)")
    parser.add_argument("--security", default="strict", choices=["strict", "sealed"])
    parser.add_argument("--link", default="local", help="what tournaments are planned for: local, lan, wan or 20/100")
    parser.add_argument("--topology", default="star", choices=["star", "mesh"], help="how participants are connected")
    parser.add_argument("--processes", action="store_true", help="measure the memory of roles that are processes")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = measure(**{name: value for name, value in vars(args).items() if name != "json"})
    print(json.dumps(result) if args.json else _page(result))


def measure(
    rows: int = 10_000,
    features: int = 10,
    bins: int = 10,
    participants: int = 3,
    depth: int = 3,
    trees: int = 3,
    repeat: int = 5,
    security: str = "strict",
    link: str = "local",
    topology: str = "star",
    processes: bool = False,
) -> dict[str, Any]:
    """Return times, bytes and memory of both, and whether their models are the same."""
    X, y = make_table(rows, features)
    options: dict[str, Any] = {"n_estimators": trees, "max_depth": depth, "max_bin": bins, "security": security}
    options |= {"participants": participants, "link": link, "topology": topology}
    last = f"P{participants}"
    models = {
        kind: FedXGBClassifier(**options, coordinator=owner) for kind, owner in zip(KINDS, (None, last), strict=True)
    }
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for turn in range(repeat + 1):
        for kind, model in models.items():
            spent = _spent(partial(model.fit, X, y))
            if turn or repeat == 0:  # kernels are compiled and memory is fetched in the first
                found[kind].append(spent)
    wall, processor = ({kind: min(one[i] for one in found[kind]) for kind in KINDS} for i in (0, 1))
    return {
        "rows": rows,
        "trees": trees,
        "security": security,
        "calibration_seconds": calibration_seconds(),
        "seconds": wall,
        "processor_seconds": processor,
        "slow_down": wall[WITHOUT] / wall[WITH],
        "processor_ratio": processor[WITHOUT] / processor[WITH],
        "roles": {kind: _roles(model, X, y) for kind, model in models.items()},
        "peak_memory": {kind: model.run_.peak_memory for kind, model in models.items()},
        "process_memory": {
            kind: _as_processes(X, y, participants, owner, options) if processes else {}
            for kind, owner in zip(KINDS, (None, last), strict=True)
        },
        "same_trees": join(models[WITH].partial_models_).trees == join(models[WITHOUT].partial_models_).trees,
    }


def _spent(work: Callable[[], object]) -> tuple[float, float]:
    began, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - used


def _roles(model: FedXGBClassifier, X: pd.DataFrame, y: np.ndarray[Any, Any]) -> dict[str, dict[str, float]]:
    """Return what each role sent, and what was forecast for its bytes and memory."""
    told = model.forecast(X, y).to_dict()
    return {
        name: {
            "sent": counts.bytes_sent,
            "forecast_sent": told["bytes_sent"][name],
            "forecast_memory": told["memory"][name],
        }
        for name, counts in model.run_.roles.items()
    }


def _as_processes(
    X: pd.DataFrame, y: np.ndarray[Any, Any], participants: int, coordinator: str | None, options: dict[str, Any]
) -> dict[str, int]:
    """Return the most memory that each role's process had, by its record."""
    parts = np.array_split(np.arange(X.shape[1]), participants)
    tables = {f"P{m}".lower(): X.iloc[:, part].assign(row=X.index) for m, part in enumerate(parts, 1)}
    tables["p1"] = tables["p1"].assign(label=y)
    training = {name: options[name] for name in ("n_estimators", "max_depth", "max_bin", "security")}
    owner = None if coordinator is None else coordinator.lower()
    with tempfile.TemporaryDirectory() as folder, Trial(
        Path(folder), tables, "label", "row", {**training, "num_class": 2}, topology=options["topology"],
        link=options["link"], coordinator=owner,
    ) as trial:  # fmt: skip
        trial.train()
        roster = trial.roster
        return {roster.name(role).upper(): int(trial.record(role)["peak_memory"]) for role in roster.roles}


def _page(r: dict[str, Any]) -> str:
    rows = [
        ["whole fit, wall", *(f"{r['seconds'][kind]:.3f} s" for kind in KINDS)],
        ["whole fit, processor", *(f"{r['processor_seconds'][kind]:.3f} s" for kind in KINDS)],
        ["peak of anonymous memory, all roles", *(bytes_text(r["peak_memory"][kind]) for kind in KINDS)],
    ]
    for name in dict.fromkeys(name for kind in KINDS for name in r["roles"][kind]):
        both = [r["roles"][kind].get(name) for kind in KINDS]
        rows.append([f"sent by {name}", *("" if one is None else bytes_text(one["sent"]) for one in both)])
        rows.append(
            [f"memory forecast, {name}", *("" if one is None else bytes_text(one["forecast_memory"]) for one in both)]
        )
        if r["process_memory"][WITH]:
            measured = [r["process_memory"][kind].get(name.upper()) for kind in KINDS]
            rows.append([f"memory of its process, {name}", *("" if m is None else bytes_text(m) for m in measured)])
    every = [one for kind in KINDS for one in r["roles"][kind].values()]
    apart = max(abs(one["sent"] / one["forecast_sent"] - 1) for one in every)
    same = "the same trees" if r["same_trees"] else "OTHER TREES"
    title = (
        f"{r['rows']} rows, {r['trees']} trees, {r['security']}; calibration {1e3 * r['calibration_seconds']:.1f} ms"
    )
    text = table(title, ["", *KINDS], rows, left=(0,))
    ratios = f"wall {r['slow_down']:.2f}, processor {r['processor_ratio']:.2f}"
    return f"{text}\n{ratios}; {same}, bytes within {100 * apart:.1f} % of the forecast"


if __name__ == "__main__":
    main()
