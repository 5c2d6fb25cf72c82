"""One process of XGBoost's federated vertical mode, for bench_unprotected.py.

    python unprotected_role.py probe
    python unprotected_role.py server FOLDER
    python unprotected_role.py worker FOLDER RANK

It runs in an environment of its own, with numpy, scipy and an xgboost that has the mode, so it imports nothing of this
project. FOLDER has job.json, certificates, a column block per worker and the labels; worker 0 leaves its times and
margins there. The labels are read by worker 0 alone, and everybody gets g, h and all thresholds in plain.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import xgboost
from xgboost import collective


def main(arguments: list[str]) -> None:
    """Run the role that the first argument names."""
    kind, *rest = arguments
    if kind == "probe":
        print(json.dumps({"version": xgboost.__version__, "federated": bool(xgboost.build_info()["USE_FEDERATED"])}))
        return
    folder = Path(rest[0])
    job = json.loads((folder / "job.json").read_text())
    signal.alarm(job["deadline"])  # whatever becomes of the process that started this one
    if kind == "server":
        serve(folder, job)
    else:
        work(folder, job, int(rest[1]))


def serve(folder: Path, job: dict[str, Any]) -> None:
    """Pass messages on among the workers; whoever started this process ends it."""
    from xgboost.federated import run_federated_server

    run_federated_server(
        n_workers=job["workers"],
        port=job["port"],
        server_key_path=str(folder / "localhost.key"),
        server_cert_path=str(folder / "localhost.crt"),
        client_cert_path=str(folder / "ca.crt"),
        timeout=job["deadline"],
    )


def work(folder: Path, job: dict[str, Any], rank: int) -> None:
    """Train with the columns of one worker; worker 0 writes result.json and margins.npy."""
    X = np.load(folder / f"x{rank}.npy", allow_pickle=False)
    y = np.load(folder / "y.npy", allow_pickle=False) if rank == 0 else None
    with collective.CommunicatorContext(
        dmlc_communicator="federated",
        federated_server_address=f"localhost:{job['port']}",
        federated_world_size=job["workers"],
        federated_rank=rank,
        federated_server_cert_path=str(folder / "ca.crt"),
        federated_client_key_path=str(folder / f"worker-{rank}.key"),
        federated_client_cert_path=str(folder / f"worker-{rank}.crt"),
    ):
        times: dict[str, list[float]] = {"matrix_seconds": [], "train_seconds": []}
        for _ in range(2):
            collective.allreduce(np.zeros(1), collective.Op.SUM)  # everybody is there: the clock starts
            started = time.perf_counter()
            data = xgboost.DMatrix(X, y, data_split_mode=xgboost.core.DataSplitMode.COL)
            ready = time.perf_counter()
            booster = xgboost.train(job["params"], data, job["trees"])
            times["train_seconds"].append(time.perf_counter() - ready)
            times["matrix_seconds"].append(ready - started)
        margins = booster.predict(data, output_margin=True)
    if rank == 0:
        np.save(folder / "margins.npy", margins)
        (folder / "result.json").write_text(json.dumps(times))


if __name__ == "__main__":
    main(sys.argv[1:])
