"""`security="sealed"` beside "strict": what it costs that nobody sees a training row, from one run.

    python benchmarks/bench_sealed.py [--rows N] [--features D] [--bins B] [--participants M] [--depth D] [--trees T]
                                      [--repeat R] [--link local] [--topology star] [--positives SHARE] [--weight W]
                                      [--objective NAME] [--json]

Whole fits in turns, of which the least time of each counts; rounds, hops and bytes from the meter. By default the
paper's job: 10,000 x 10, 10 bins, depth 3, 3 trees, 4 participants. Both joined models must have the same splits, and
the largest difference of their margins is told. With --positives a class is rare, and with --weight each of its rows
weighs as much more. Objectives of numbers have labels that are drawn for them: counts, or amounts of which many are 0;
those of classes have three.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np

from bench_plain import in_turns
from bench_train import calibration_seconds, make_table
from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.tree.nodes import Leaf
from plain_table import table

MODES = ("strict", "sealed")


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 10_000), ("features", 10), ("bins", 10), ("participants", 4), ("depth", 3)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"(default {default})")
    parser.add_argument("--trees", type=int, default=3, help="(default 3)")
    parser.add_argument("--repeat", type=int, default=5, help="turns, of which the best count (default 5)")
    parser.add_argument("--link", default="local", help="what tournaments are planned for: local, lan, wan or 20/100")
    parser.add_argument("--topology", default="star", choices=["star", "mesh"], help="how participants are connected")
    parser.add_argument("--positives", type=float, default=0.5, help="share of the second class (default a half)")
    parser.add_argument("--weight", type=float, default=1.0, help="weight of a row of the second class (default 1)")
    parser.add_argument("--objective", default="binary:logistic", help="(default binary:logistic)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = measure(**{name: value for name, value in vars(args).items() if name != "json"})
    print(json.dumps(result) if args.json else _page(result))


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
    positives: float = 0.5,
    weight: float = 1.0,
    objective: str = "binary:logistic",
) -> dict[str, Any]:
    """Return times and counts of both modes, and how their models differ."""
    X, y = make_table(rows, features)
    has_classes = objective.startswith("multi:")
    if positives != 0.5 or has_classes:
        score = X.sum(axis=1) + np.random.default_rng(5).normal(size=rows)
        y = np.digitize(score, np.quantile(score, [1 / 3, 2 / 3] if has_classes else [1 - positives]))
    weights = None if weight == 1 else np.where(y == 1, weight, 1.0)
    make: Any = FedXGBClassifier if objective.startswith(("binary:", "multi:")) else FedXGBRegressor
    if make is FedXGBRegressor:
        y = _numbers(X, objective)
    models = {
        security: make(
            objective=objective,
            security=security,
            participants=participants,
            n_estimators=trees,
            max_depth=depth,
            max_bin=bins,
            link=link,
            topology=topology,
        )
        for security in MODES
    }
    seconds = in_turns(
        repeat, *(lambda model=model: model.fit(X, y, sample_weight=weights) for model in models.values())
    )
    margins = [model.predict(X, output_margin=True) for model in models.values()]
    return {
        "rows": rows,
        "trees": trees,
        "calibration_seconds": calibration_seconds(),
        "seconds": dict(zip(MODES, seconds, strict=True)),
        "slow_down": seconds[1] / seconds[0],
        "modes": {security: counts_of(model) for security, model in models.items()},
        "same_splits": _splits(models["strict"]) == _splits(models["sealed"]),
        "largest_difference": float(np.abs(margins[0] - margins[1]).max()),
        "largest_margin": float(np.abs(margins[0]).max()),
    }


def _numbers(X: Any, objective: str) -> Any:
    """Return labels that hang together with the table: counts, and for gamma's and Tweedie's loss amounts."""
    rng = np.random.default_rng(6)
    counts = rng.poisson(np.exp(X.mean(axis=1))).astype(np.float64)
    return (
        counts if objective == "count:poisson" else (counts + (objective == "reg:gamma")) * rng.gamma(2.0, size=len(X))
    )


def counts_of(model: Any) -> dict[str, float]:
    """Return message rounds, hops, bytes and memory of a fitted model's training."""
    run, trees = model.run_, model.run_.trees
    setup, aux = run.phases["setup"], [run.roles[name] for name in run.auxiliaries]
    return {
        "rounds_per_tree": (run.rounds - setup.rounds) / trees,
        "hops_per_tree": (run.roles[run.active].hops - setup.hops) / trees,
        "dealt_bytes": run.dealer_bytes,
        "auxiliary_bytes": sum(role.bytes_sent for role in aux) / len(aux),
        "peak_memory": run.peak_memory,
    }


def _splits(model: Any) -> list[Any]:
    """Return the joined trees without what only one of the modes has: gains and leaf weights."""
    trees = join(model.partial_models_).trees
    return [[None if isinstance(node, Leaf) else replace(node, gain=None) for node in tree] for tree in trees]


def _page(r: dict[str, Any]) -> str:
    modes = [r["modes"][security] for security in MODES]
    rows = [
        ["whole fit, warm", *(f"{r['seconds'][security]:.3f} s" for security in MODES)],
        ["rounds a tree (hops)", *(f"{m['rounds_per_tree']:.1f} ({m['hops_per_tree']:.0f})" for m in modes)],
        ["dealt by the coordinator in all", *(f"{m['dealt_bytes'] / 1e6:.1f} MB" for m in modes)],
        ["sent by an auxiliary in all", *(f"{m['auxiliary_bytes'] / 1e6:.1f} MB" for m in modes)],
        ["peak of anonymous memory, all roles", *(f"{m['peak_memory'] / 1e6:.0f} MB" for m in modes)],
    ]
    same = "the same splits" if r["same_splits"] else "OTHER SPLITS"
    difference = f"margins differ by {r['largest_difference']:.1e}, the largest is {r['largest_margin']:.2f}"
    title = f"{r['rows']} rows, {r['trees']} trees; calibration kernel {1e3 * r['calibration_seconds']:.1f} ms"
    text = table(title, ["", *MODES], rows, left=(0,))
    return f"{text}\nsealed / strict {r['slow_down']:.2f}; {same}, {difference}"


if __name__ == "__main__":
    main()
