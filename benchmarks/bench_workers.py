"""How row work grows with the workers of a Dask cluster: processor time and memory of each, and what passes to them.

    python benchmarks/bench_workers.py [--rows N] [--features J] [--bins K] [--depth D] [--workers 1 2 3]

A federation of two in this process, whose roles share one cluster of local worker processes of one thread each; the
first line is without workers. On a machine with fewer cores than processes the seconds of a fit say little: the
processor time of the busiest worker is what a fit would take there, with a core for each.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from mpfedxgb import FedXGBClassifier
from mpfedxgb.workers.cluster import Cluster, Lost


def main() -> None:
    """Train once for every number of workers, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=12)
    parser.add_argument("--bins", type=int, default=16)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 3])
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(args.rows, args.features)).astype(np.float32)
    y = (X[:, 0] + X[:, -1] > 0).astype(int)
    shape: dict[str, Any] = {"n_estimators": 1, "max_depth": args.depth, "max_bin": args.bins, "insecure_seed": 1}
    plain, seconds, own = fit(shape, X, y, None)
    print(
        f"{args.rows} x {args.features}, {args.bins} bins, depth {args.depth}; a tree without workers: {seconds:.1f} s"
    )
    print(
        f"{'workers':>8} {'fit s':>8} {'role cpu':>9} {'busiest worker cpu':>19} {'most memory MB':>15} {'sent MB':>8}"
    )
    print(f"{0:8d} {seconds:8.1f} {own:9.1f} {'-':>19} {'-':>15} {'-':>8}")
    for count in args.workers:
        with (
            LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=":0",
                silence_logs=logging.ERROR,
            ) as cluster,
            Client(cluster, set_as_default=False, direct_to_workers=True) as client,
        ):
            client.run(warm_up)
            before = client.run(usage)
            sent = count_sent()
            model, seconds, own = fit(shape, X, y, client)
            after = client.run(usage)
            assert [p.to_json() for p in model.partial_models_] == [p.to_json() for p in plain.partial_models_]
            busiest = max(after[w][0] - before[w][0] for w in after)
            memory = max(after[w][1] - before[w][1] for w in after)
            print(f"{count:8d} {seconds:8.1f} {own:9.1f} {busiest:19.1f} {memory:15.0f} {sum(sent) / 1e6:8.0f}")


def fit(shape: dict[str, Any], X: Any, y: Any, client: Any) -> tuple[FedXGBClassifier, float, float]:
    """Return a model, its seconds, and the processor seconds of this process."""
    started, worked = time.perf_counter(), time.process_time()
    model = FedXGBClassifier(participants=2, client=client, **shape).fit(X, y)
    return model, time.perf_counter() - started, time.process_time() - worked


def usage() -> tuple[float, float]:
    """Return the processor seconds and the peak of memory, in MB, of a worker."""
    status = Path("/proc/self/status").read_text()
    return time.process_time(), int(status.partition("VmHWM:")[2].split()[0]) / 1000


def warm_up() -> None:
    """Load the compiled kernels, which is no row work."""
    from mpfedxgb.ring import kernels

    kernels.warm_up()


def count_sent() -> list[int]:
    """Return a list that gets the bytes of everything that is handed to workers from now on."""
    sent: list[int] = []
    keep = _KEEP

    def counted(self: Cluster, worker: str, values: Sequence[Any]) -> list[Any] | Lost:
        sent.append(sum(a.nbytes for part in values for a in ([part] if isinstance(part, np.ndarray) else part)))
        return keep(self, worker, values)

    Cluster.keep = counted  # type: ignore[method-assign] # measured from outside
    return sent


_KEEP = Cluster.keep

if __name__ == "__main__":
    main()
