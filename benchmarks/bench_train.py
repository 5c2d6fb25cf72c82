"""What a training costs: seconds cold and warm, rounds, bytes, memory, beside plain xgboost on the same bins.

    python benchmarks/bench_train.py [--rows N] [--features J] [--bins K] [--participants M] [--depth D] [--trees T]
                                     [--security strict] [--link local] [--topology star] [--repeat R] [--json]
                                     [--jobs J] [--max-memory "6 GB"] [--spool FOLDER]

All roles are threads of this process, so seconds are those of all of them on this machine together. `seconds_cold` is
the first fit of the process, `seconds_warm` the best of R more; both are whole fits, binning included. Bytes per tree
leave out the set-up, in which every owner publishes its masked candidate columns once; `setup_bytes_per_participant`
has them. `peak_memory_mb` is the most anonymous memory of the process during the last fit; `forecast_memory_mb` is what
the formula of `mpfedxgb.training.memory` says that the roles take of it, more than was there before. The calibration
kernel's time tells how quiet the machine is: compare times only where it is alike.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.join import JoinedTree, join
from mpfedxgb.config import TOPOLOGIES, Resources
from mpfedxgb.machine import anonymous_memory
from mpfedxgb.testing.parity import compare_with_xgboost
from mpfedxgb.training.memory import goes_to_spool, training_bytes
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.tree.nodes import Leaf
from plain_table import scaled, table


def main() -> None:
    """Measure, and print a table or one JSON object."""
    args = _arguments()
    result = measure(args)
    if args.json:
        print(json.dumps(result))
        return
    print(_page(args, result))


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Return all figures of one setting."""
    X, y = make_table(args.rows, args.features)
    model = FedXGBClassifier(
        participants=args.participants,
        n_estimators=args.trees,
        max_depth=args.depth,
        max_bin=args.bins,
        learning_rate=0.3,
        security=args.security,
        link=args.link,
        n_jobs=args.jobs,
        max_memory=args.max_memory,
        spool=args.spool,
        topology=args.topology,
    )
    before = anonymous_memory()
    cold = _seconds(lambda: model.fit(X, y))
    calibration = calibration_seconds()
    fits = [_seconds(lambda: model.fit(X, y)) for _ in range(args.repeat)] or [cold]
    predict = min(_seconds(lambda: model.predict_proba(X)) for _ in range(2))
    parity = compare_with_xgboost(model, X, y)
    run, trees = model.run_, model.run_.trees
    candidates = sum(len(edges) for owner in model.cut_points_.values() for edges in owner.values())
    setup = run.phases["setup"]
    aux = [run.roles[name] for name in run.auxiliaries]
    setup_aux = mean(run.setup[name].bytes_sent for name in run.auxiliaries)
    return {
        "rows": args.rows,
        "features": args.features,
        "bins": args.bins,
        "participants": args.participants,
        "depth": args.depth,
        "trees": trees,
        "security": args.security,
        "link": args.link,
        "topology": args.topology,
        "plans": run.plans,
        "candidates": candidates,
        "seconds_cold": cold,
        "seconds_warm": min(fits),
        "seconds_by_phase": {path or "between": c.seconds for path, c in run.phases.items()},
        "calibration_seconds": calibration,
        "predict_seconds": predict,
        "rounds_per_tree": (run.rounds - setup.rounds) / trees,
        "hops_per_tree": (run.roles[run.active].hops - setup.hops) / trees,
        "bytes_per_participant_per_tree": (mean(c.bytes_sent for c in aux) - setup_aux) / trees,
        "active_bytes_per_tree": (run.roles[run.active].bytes_sent - run.setup[run.active].bytes_sent) / trees,
        "dealer_bytes_per_tree": run.dealer_bytes / trees,
        "dealer_bytes_of_participants": [run.roles[name].dealer_bytes for name in (run.active, *run.auxiliaries)],
        "dealer_bytes_per_candidate_and_node": run.dealer_bytes / max(1, candidates * _searched_nodes(model)),
        "setup_bytes_per_participant": setup_aux,
        "products_per_tree": run.roles[run.active].products / trees,
        "comparisons_per_tree": run.roles[run.active].comparisons / trees,
        "jobs": args.jobs,
        "max_memory": args.max_memory,
        "peak_memory_mb": run.peak_memory / 1e6,
        "memory_before_mb": before / 1e6,
        **_forecast(model, args.rows),
        "xgboost_seconds": _xgboost_seconds(model, X, y),
        "same_trees": parity.same_trees,
        "ties": parity.ties,
        "max_margin_difference": parity.max_margin_difference,
    }


def _forecast(model: FedXGBClassifier, rows: int) -> dict[str, Any]:
    """Return what the formula says of this training's memory, and whether E is kept in the spool."""
    columns = tuple(sum(map(len, owner.values())) for owner in model.cut_points_.values())
    sizes, params, here = TableSizes(rows, 0, columns), model.partial_models_[0].params, range(len(columns) + 1)
    spooled = goes_to_spool(here, params, sizes, Resources.read(None, model.max_memory, model.spool))
    return {"in_spool": spooled, "forecast_memory_mb": training_bytes(here, params, sizes, spooled) / 1e6}


def make_table(rows: int, features: int) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return a table of normal columns and a label that a few of them explain, always the same."""
    rng = np.random.default_rng(7)
    X = rng.normal(size=(rows, features)).astype(np.float32)
    weights = rng.normal(size=features) / np.sqrt(np.arange(1, features + 1))
    score = X @ weights + 0.5 * X[:, 0] * X[:, -1]
    y = (score + rng.logistic(size=rows) > 0).astype(int)
    return pd.DataFrame(X, columns=[f"f{j}" for j in range(features)]), y


def calibration_seconds() -> float:
    """Return the least time of five for a fixed amount of NumPy's arithmetic inside the cache: 64 M multiply-adds.

    None of it is ours, so that it tells of the machine alone, whatever becomes of our kernels.
    """
    return min(_seconds(_calibrate) for _ in range(5))


def _calibrate() -> None:
    a, product, out = (np.ones(1 << 14, np.uint64) for _ in range(3))
    for _ in range(1 << 12):
        np.multiply(a, out, out=product)
        np.add(out, product, out=out)


def _searched_nodes(model: FedXGBClassifier) -> int:
    """Return for how many nodes of all trees a split was looked for: all but the leaves of the lowest level."""

    def below(tree: JoinedTree, place: int, levels: int) -> int:
        if not levels:
            return 0
        node = tree[place]
        return 1 if isinstance(node, Leaf) else 1 + sum(below(tree, p, levels - 1) for p in (node.left, node.right))

    return sum(below(tree, 0, model.max_depth) for tree in join(model.partial_models_).trees)


def _xgboost_seconds(model: FedXGBClassifier, X: pd.DataFrame, y: np.ndarray[Any, Any]) -> float:
    import xgboost

    edges = {name: e for owner in model.cut_points_.values() for name, e in owner.items()}
    binned = pd.DataFrame({name: np.searchsorted(edges[name], X[name]) for name in X.columns})
    params = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_depth": model.max_depth,
        "eta": model.learning_rate,
        "nthread": 1,
    }
    data = xgboost.DMatrix(binned, y)
    return min(_seconds(lambda: xgboost.train(params, data, model.n_estimators)) for _ in range(3))


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _page(args: argparse.Namespace, r: dict[str, Any]) -> str:
    title = (
        f"{args.rows} rows x {args.features} features, {args.bins} bins ({r['candidates']} candidates), "
        f"{args.participants} participants, depth {args.depth}, {args.trees} trees, {args.security}, {args.topology}"
    )
    rows = [
        ["fit, cold / warm", f"{r['seconds_cold']:.3f} / {r['seconds_warm']:.3f} s"],
        ["calibration kernel", f"{r['calibration_seconds'] * 1e3:.1f} ms for 64 M multiply-adds"],
        ["joint prediction of all rows", f"{r['predict_seconds']:.3f} s"],
        ["rounds a tree (hops)", f"{r['rounds_per_tree']:.1f} ({r['hops_per_tree']:.1f})"],
        ["sent by an auxiliary a tree", scaled(r["bytes_per_participant_per_tree"], "B")],
        ["sent by the active one a tree", scaled(r["active_bytes_per_tree"], "B")],
        ["dealt by the coordinator a tree", scaled(r["dealer_bytes_per_tree"], "B")],
        ["dealt per candidate and node", scaled(r["dealer_bytes_per_candidate_and_node"], "B")],
        ["set-up, sent by an auxiliary once", scaled(r["setup_bytes_per_participant"], "B")],
        ["peak of anonymous memory, all roles", f"{r['peak_memory_mb']:.0f} MB, {r['memory_before_mb']:.0f} before"],
        ["forecast" + (", E in the spool" if r["in_spool"] else ""), f"{r['forecast_memory_mb']:.0f} MB more"],
        ["plain xgboost, one thread", f"{r['xgboost_seconds']:.4f} s"],
        ["same trees", str(r["same_trees"]) + (f", {len(r['ties'])} float32 ties" if r["ties"] else "")],
        ["largest margin difference", f"{r['max_margin_difference']:.1e}"],
    ]
    phases = [[path, f"{seconds:.3f}"] for path, seconds in r["seconds_by_phase"].items()]
    return table(title, ["figure", "value"], rows) + "\n\n" + table("seconds by phase", ["phase", "seconds"], phases)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure a training and compare it with xgboost.")
    for name, default, text in (
        ("rows", 10_000, "rows of the table"),
        ("features", 10, "columns, cut evenly among the participants"),
        ("bins", 10, "bins per column"),
        ("participants", 4, "number of participants"),
        ("depth", 3, "levels of splits"),
        ("trees", 3, "number of trees"),
        ("repeat", 5, "warm fits, of which the best counts"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})")
    parser.add_argument("--security", default="strict", help="strict")
    parser.add_argument("--link", default="local", help="what tournaments are planned for: local, lan, wan or 20/100")
    parser.add_argument("--jobs", type=int, help="threads of each role")
    parser.add_argument("--max-memory", help="what the training may take, such as '6 GB'; more goes to the spool")
    parser.add_argument("--spool", help="folder for what does not fit")
    parser.add_argument("--topology", default="star", choices=TOPOLOGIES, help="how participants are connected")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


if __name__ == "__main__":
    main()
