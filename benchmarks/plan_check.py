"""What `plan` says beside what a training takes: eleven shapes, each in a process of its own.

    python benchmarks/plan_check.py [--shape NAME ...] [--list] [--json]

Forecast seconds are those of all roles together in one process. Forecast *processor* seconds are what the same estimate
says of one core, whose rates are measured in processor seconds too, so that what else runs counts little; they stand
beside the processor seconds of `fit`. Forecast memory is that of the process with all roles; it stands beside the most
anonymous memory during the fit. A forecast is good if its processor seconds are within a factor of 1.6, and its memory
within 15 %; the exit code is 1 if a shape is beyond that. Wall seconds stand beside them for machines that are quiet.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from bench_train import make_table
from mpfedxgb import FedXGBClassifier
from mpfedxgb.costs.seconds import calibrate, estimate_seconds
from plain_table import scaled, table

SECONDS_FACTOR, MEMORY_PART = 1.6, 0.15
"""How far off a forecast may be."""


class Shape(NamedTuple):
    """The sizes of a training."""

    rows: int
    features: int
    bins: int
    depth: int
    trees: int
    participants: int
    security: str = "strict"
    constrained: bool = False


SHAPES = {
    "paper": Shape(10_000, 10, 10, 3, 3, 4),
    "small": Shape(1_000, 20, 32, 4, 20, 2),
    "deep": Shape(5_000, 20, 64, 6, 10, 3),
    "many trees": Shape(20_000, 23, 256, 6, 100, 3),
    "wide": Shape(30_000, 200, 10, 4, 3, 4),
    "few columns, many bins": Shape(10_000, 10, 256, 4, 10, 2),
    "rows": Shape(300_000, 28, 32, 5, 3, 2),
    "many participants": Shape(10_000, 32, 16, 3, 5, 8),
    "constrained": Shape(5_000, 20, 32, 4, 3, 3, constrained=True),
    "sealed": Shape(5_000, 20, 32, 3, 5, 3, "sealed"),
    "sealed, rows": Shape(50_000, 28, 32, 4, 3, 4, "sealed"),
}


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print a table or JSON, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=list(SHAPES), help="only this one; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the shapes and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(words)
    names = args.shape or list(SHAPES)
    if args.list:
        print("\n".join(f"{name:24}{shape}" for name, shape in SHAPES.items()))
        return 0
    if args.in_this_process:
        print(json.dumps(measure(SHAPES[names[0]])))
        return 0
    found = {}
    for name in names:
        command = [sys.executable, __file__, "--in-this-process", "--shape", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603 # this file
        found[name] = json.loads(done.stdout)
        if not args.json:
            print(f"{name}: done", file=sys.stderr)
    print(json.dumps(found) if args.json else _page(found))
    return int(not all(is_good(result) for result in found.values()))


def measure(shape: Shape) -> dict[str, Any]:
    """Return what was forecast for a training, and what it took."""
    X, y = make_table(shape.rows, shape.features)
    model = FedXGBClassifier(
        participants=shape.participants,
        n_estimators=shape.trees,
        max_depth=shape.depth,
        max_bin=shape.bins,
        learning_rate=0.3,
        security=shape.security,
        monotone_constraints=(1, 0, -1) if shape.constrained else None,
    )
    predicted = model.forecast(X, y)
    one_core = replace(calibrate(time.process_time), cores=1)
    used, started = time.process_time(), time.perf_counter()
    model.fit(X, y)
    wall, processor = time.perf_counter() - started, time.process_time() - used
    return {
        "forecast_seconds": predicted.seconds,
        "forecast_processor_seconds": estimate_seconds(predicted, one_core, together=True),
        "wall_seconds": wall,
        "processor_seconds": processor,
        "forecast_memory": predicted.together,
        "peak_memory": model.run_.peak_memory,
    }


def is_good(result: dict[str, Any]) -> bool:
    """Return whether a forecast is as near as it has to be."""
    seconds, memory = ratios(result)
    return 1 / SECONDS_FACTOR <= seconds <= SECONDS_FACTOR and abs(memory - 1) <= MEMORY_PART


def ratios(result: dict[str, Any]) -> tuple[float, float]:
    """Return forecast over measured: processor seconds and memory."""
    seconds = result["forecast_processor_seconds"] / result["processor_seconds"]
    return seconds, result["forecast_memory"] / result["peak_memory"]


def _page(found: dict[str, dict[str, Any]]) -> str:
    rows = []
    for name, one in found.items():
        seconds, memory = ratios(one)
        rows.append(
            [
                name,
                f"{one['forecast_seconds']:.2f}",
                f"{one['wall_seconds']:.2f}",
                f"{one['forecast_processor_seconds']:.2f}",
                f"{one['processor_seconds']:.2f}",
                f"{seconds:.2f}",
                scaled(one["forecast_memory"], "B"),
                scaled(one["peak_memory"], "B"),
                f"{memory:.2f}",
                "" if is_good(one) else "off",
            ]
        )
    header = ["shape", "forecast", "wall s", "forecast", "processor s", "ratio", "forecast", "peak", "ratio", ""]
    return table("plan beside a training", header, rows)


if __name__ == "__main__":
    sys.exit(main())
