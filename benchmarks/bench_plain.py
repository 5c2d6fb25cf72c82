"""`security="none"` beside the protocol and beside plain xgboost: two ratios, from one run.

    python benchmarks/bench_plain.py [--repeat R] [--json]

1. The paper's job, as bench_train.py has it by default (10,000 x 10, 10 bins, depth 3, 3 trees, 4 participants): whole
   fits with security="strict" and "none" in turns.
2. 10 trees of depth 5 on 100,000 x 28 with 32 bins: whole fits with security="none", and `xgboost` (hist, one thread,
   32 bins) with the building of its matrix, in turns.

The least time of each counts. Both pairs are compared: the joined models of the first must be equal; of the second the
accuracy on the training rows is told, since the two choose their bins each in its own way.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xgboost

from bench_train import make_table
from mpfedxgb import FedXGBClassifier, join
from plain_table import table

PAPERS_JOB: dict[str, Any] = {"participants": 4, "n_estimators": 3, "max_depth": 3, "max_bin": 10}
LARGE_JOB: dict[str, Any] = {"participants": 4, "n_estimators": 10, "max_depth": 5, "max_bin": 32}
LEAST_SPEED_UP, MOST_SLOW_DOWN = 20, 30


def main() -> None:
    """Measure, and print a table or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7, help="turns, of which the best count (default 7)")
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the second job (default 100000)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    result = measure(args.repeat, args.rows)
    print(json.dumps(result) if args.json else _page(result))


def measure(repeat: int, rows: int) -> dict[str, Any]:
    """Return both pairs of times and their ratios."""
    X, y = make_table(10_000, 10)
    strict, plain = (FedXGBClassifier(security=security, **PAPERS_JOB) for security in ("strict", "none"))
    first = in_turns(repeat, lambda: strict.fit(X, y), lambda: plain.fit(X, y))
    same = join(strict.partial_models_).trees == join(plain.partial_models_).trees
    X, y = make_table(rows, 28)
    large, boosters = FedXGBClassifier(security="none", **LARGE_JOB), list[Any]()
    second = in_turns(repeat, lambda: large.fit(X, y), lambda: boosters.append(xgboost_fit(X, y)))
    theirs = boosters[-1].predict(xgboost.DMatrix(X)) > 0.5
    return {
        "strict_seconds": first[0],
        "none_seconds": first[1],
        "speed_up": first[0] / first[1],
        "same_trees": same,
        "rows": rows,
        "none_large_seconds": second[0],
        "xgboost_seconds": second[1],
        "slow_down": second[0] / second[1],
        "none_accuracy": float(np.mean(large.predict(X) == y)),
        "xgboost_accuracy": float(np.mean(theirs == y)),
    }


def in_turns(repeat: int, *work: Callable[[], object]) -> list[float]:
    """Return the least seconds of each, after one turn that does not count."""
    best = [float("inf")] * len(work)
    for turn in range(repeat + 1):
        for i, one in enumerate(work):
            started = time.perf_counter()
            one()
            if turn:
                best[i] = min(best[i], time.perf_counter() - started)
    return best


def xgboost_fit(X: pd.DataFrame, y: np.ndarray[Any, Any]) -> Any:
    """Return xgboost's model of the large job, its matrix built anew."""
    params = {
        "objective": "binary:logistic",
        "tree_method": "hist",
        "max_depth": LARGE_JOB["max_depth"],
        "max_bin": LARGE_JOB["max_bin"],
        "eta": 0.3,
        "nthread": 1,
    }
    data = xgboost.QuantileDMatrix(X, y, max_bin=LARGE_JOB["max_bin"], nthread=1)
    return xgboost.train(params, data, LARGE_JOB["n_estimators"])


def _page(r: dict[str, Any]) -> str:
    rows = [
        ["strict, the paper's job", f"{r['strict_seconds'] * 1e3:.1f} ms"],
        ["none", f"{r['none_seconds'] * 1e3:.1f} ms, {'the same trees' if r['same_trees'] else 'OTHER TREES'}"],
        ["strict / none", f"{r['speed_up']:.1f} (at least {LEAST_SPEED_UP})"],
        [f"none, {r['rows']} x 28", f"{r['none_large_seconds']:.3f} s, accuracy {r['none_accuracy']:.4f}"],
        ["xgboost, one thread", f"{r['xgboost_seconds']:.3f} s, accuracy {r['xgboost_accuracy']:.4f}"],
        ["none / xgboost", f"{r['slow_down']:.1f} (at most {MOST_SLOW_DOWN})"],
    ]
    return table("In the open, least times of whole fits", ["", "value"], rows, left=(0, 1))


if __name__ == "__main__":
    main()
