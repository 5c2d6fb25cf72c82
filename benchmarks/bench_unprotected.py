"""The yardstick: the paper's job with XGBoost's own vertical mode, which protects nothing, beside ours.

    make yardstick
    .venv/bin/python benchmarks/bench_unprotected.py [--python PATH] [--repeat R] [--json]

XGBoost's mode runs as five processes, a server and four workers, over mutual TLS (its server listens on all interfaces,
but nobody gets in without a certificate); ours as threads of one process and as five processes over mutual TLS on
loopback. They take turns, and the least of each kind counts. All get the same bins, and all margins are compared with
those of plain `xgboost` on the joined table; the exit code is 1 if they differ, or if XGBoost's mode fails.

Every kind starts new processes each turn, which train twice: a first session, when nothing is planned yet or laid out,
and a second one of the same processes. A ratio is that of first sessions, or of second ones. Seconds of XGBoost's mode
are those of `xgboost.train` alone; the exchange before it, while the matrix is made, stands beside them, and its
processes stay connected between the two. Ours are whole fits as threads, binning and set-up included, and everything
after the handshake as processes. So the ratios rather flatter XGBoost.

Releases 3.0 to 3.3 of `xgboost` have the mode; 3.4 and `xgboost-cpu` lack it, so it gets an environment of its own,
which `make yardstick` makes. Where there is none, or --python (or MPFEDXGB_YARDSTICK) names one without the mode,
nothing is measured: the reason is printed, and the exit code is 0.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from bench_federation import PARTICIPANTS, paper_job
from bench_train import calibration_seconds
from mpfedxgb import FedXGBClassifier
from mpfedxgb.api.models import to_booster
from mpfedxgb.boosting.join import join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.testing.parity import xgboost_parameters
from mpfedxgb.testing.trial import Trial, hold_ports, last_line
from mpfedxgb.transport.certificates import Authority
from plain_table import table
from trained_twice import SESSIONS

ROOT = Path(__file__).parents[1]
ROLE, TWICE = (Path(__file__).with_name(name) for name in ("unprotected_role.py", "trained_twice.py"))
ENVIRONMENT = ROOT / "build" / "yardstick" / "bin" / "python"
"""The interpreter that `make yardstick` prepares."""

DEADLINE = 120
"""Seconds after which a training of XGBoost's mode is given up."""

AGREE = 1e-4
"""Margins that differ by more come from other trees; parity.py has the same limit."""

_LOOK = 0.005
_STOPPING = 10.0

Floats = npt.NDArray[np.float32]


class YardstickError(Exception):
    """XGBoost's mode did not do its part."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print, or say why nothing is measured."""
    args = _arguments(argv)
    if args.fit_twice:
        print(json.dumps(fit_twice(args)))
        return 0
    version, reason = probe(args.python)
    if reason:
        print(json.dumps({"skipped": reason}) if args.json else f"skipped: {reason}")
        return 0
    try:
        result = measure(args) | {"xgboost": version}
    except YardstickError as error:
        print(f"XGBoost's mode (xgboost {version} of {args.python}) failed: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result) if args.json else _page(args, result))
    differences = {name: result[name] for name in result if name.endswith("_difference")}
    if max(differences.values()) > AGREE:
        print(f"margins differ by more than {AGREE:g} from those of plain xgboost: {differences}", file=sys.stderr)
        return 1
    return 0


def probe(python: Path) -> tuple[str, str]:
    """Return the version of the xgboost that an interpreter has, and why it cannot serve, or an empty text."""
    remedy = "make one with `make yardstick`, or name one with --python or MPFEDXGB_YARDSTICK (xgboost>=3.0,<3.4)"
    try:
        done = subprocess.run(  # noqa: S603 # the interpreter that the user names, and our own file
            [python, ROLE, "probe"], capture_output=True, text=True, timeout=DEADLINE, check=True
        )
    except OSError as error:
        return "", f"cannot run {python}: {error.strerror}; {remedy}"
    except subprocess.TimeoutExpired:
        return "", f"{python} did not answer within {DEADLINE} seconds; {remedy}"
    except subprocess.CalledProcessError as error:
        words = error.stderr.strip().splitlines() or ["nothing was written"]
        return "", f"{python} cannot import what is needed: {words[-1]}; {remedy}"
    found = json.loads(done.stdout)
    if not found["federated"]:
        return found["version"], f"xgboost {found['version']} of {python} has no federated mode; {remedy}"
    return found["version"], ""


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Return the least times of each kind, their ratios, and how far margins are from plain xgboost's."""
    frames, y = paper_job(args.rows, args.columns)
    model = _fit(args, frames, y)
    edges = {name: cuts for owner in model.cut_points_.values() for name, cuts in owner.items()}
    blocks = [_codes(frame, edges) for frame in frames.values()]
    params = xgboost_parameters(join(model.partial_models_).params)
    plain = _plain_margins(np.hstack(blocks), y, params, args.trees)
    joined = pd.concat(frames.values(), axis=1)
    load = os.getloadavg()[0]
    calibration, theirs, apart, ours_apart = [], [], [], [np.abs(_margins(model.partial_models_, joined) - plain).max()]
    seconds: dict[str, list[Sequence[float]]] = {"threads": [], "processes": [], "unprotected": []}
    for _ in range(args.repeat):
        calibration.append(calibration_seconds())
        seconds["threads"].append(_in_a_new_process(args))
        trained, models = in_processes_twice(frames, y, args)
        seconds["processes"].append(trained)
        times, margins = unprotected(args.python, blocks, y, params, args.trees)
        theirs.append(times)
        seconds["unprotected"].append(times["train_seconds"])
        apart.append(np.abs(margins - plain).max())
        ours_apart.append(np.abs(_margins(models, joined) - plain).max())
    least = {kind: [min(session) for session in zip(*turns, strict=True)] for kind, turns in seconds.items()}
    return {
        "repeat": args.repeat,
        "load": load,
        "calibration_seconds": min(calibration),
        "unprotected_matrix_seconds": min(min(times["matrix_seconds"]) for times in theirs),
        **{f"{kind}_seconds": sessions for kind, sessions in least.items()},
        **{
            f"{kind}_over_unprotected": [a / b for a, b in zip(least[kind], least["unprotected"], strict=True)]
            for kind in ("threads", "processes")
        },
        "unprotected_margin_difference": float(max(apart)),
        "our_margin_difference": float(max(ours_apart)),
    }


def _fit(args: argparse.Namespace, frames: dict[str, pd.DataFrame], y: pd.Series[int]) -> FedXGBClassifier:
    return FedXGBClassifier(n_estimators=args.trees, max_depth=args.depth, max_bin=args.bins).fit(frames, y)


def fit_twice(args: argparse.Namespace) -> list[float]:
    """Return the seconds of the first two fits of this process."""
    frames, y = paper_job(args.rows, args.columns)
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        _fit(args, frames, y)
        seconds.append(time.perf_counter() - started)
    return seconds


def _in_a_new_process(args: argparse.Namespace) -> list[float]:
    sizes = [f"--{name}={getattr(args, name)}" for name in ("rows", "columns", "bins", "trees", "depth")]
    done = subprocess.run([sys.executable, __file__, "--fit-twice", *sizes], check=True, stdout=subprocess.PIPE)  # noqa: S603 # this file
    return list(json.loads(done.stdout))


def in_processes_twice(
    frames: dict[str, pd.DataFrame], y: pd.Series[int], args: argparse.Namespace
) -> tuple[list[float], list[PartialModel]]:
    """Return seconds after the handshake of two sessions of the same five processes, and the second one's models."""
    tables = {name: frame.assign(person=np.arange(len(frame))) for name, frame in frames.items()}
    tables[PARTICIPANTS[0]] = tables[PARTICIPANTS[0]].assign(label=y.to_numpy())
    training = {"n_estimators": args.trees, "max_depth": args.depth, "max_bin": args.bins, "num_class": 2}
    with (
        tempfile.TemporaryDirectory() as folder,
        Trial(Path(folder), tables, "label", "person", training) as trial,
    ):
        roster = trial.roster
        roles = {roster.name(role): [str(TWICE), str(trial.settings(role))] for role in roster.roles}
        _run(Path(sys.executable), Path(folder), roles, until=set(roles))
        records = [trial.record(session=session)["phases"] for session in SESSIONS]
        models = trial.models()
    return [sum(c["seconds"] for name, c in phases.items() if name) for phases in records], models


def unprotected(
    python: Path, blocks: Sequence[Floats], y: pd.Series[int], params: dict[str, Any], trees: int
) -> tuple[dict[str, list[float]], Floats]:
    """Train twice with XGBoost's vertical mode, a worker per block of columns, and return its times and margins."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority = Authority.create(folder / "ca", "yardstick")
        for role in ("localhost", *(f"worker-{rank}" for rank in range(len(blocks)))):  # workers look for that host
            authority.issue(folder, role, overwrite=True)
        for rank, block in enumerate(blocks):
            np.save(folder / f"x{rank}.npy", block)
        np.save(folder / "y.npy", y.to_numpy())
        (held,) = hold_ports(1)
        job = {
            "port": held.getsockname()[1],
            "workers": len(blocks),
            "deadline": DEADLINE + 10,
            "params": params,
            "trees": trees,
        }
        (folder / "job.json").write_text(json.dumps(job))
        workers = {f"worker{rank}": [str(ROLE), "worker", str(folder), str(rank)] for rank in range(len(blocks))}
        with held:
            _run(python, folder, {"server": [str(ROLE), "server", str(folder)], **workers}, until=set(workers))
        return json.loads((folder / "result.json").read_text()), np.load(folder / "margins.npy", allow_pickle=False)


def _run(python: Path, folder: Path, scripts: dict[str, list[str]], until: set[str]) -> None:
    """Run scripts by name until some of them have ended; no process outlives the call."""
    running: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name, words in scripts.items():
            with (folder / f"{name}.log").open("wb") as file:
                running[name] = subprocess.Popen(  # noqa: S603 # the interpreter that the user names, and our own files
                    [python, *words], stdin=subprocess.DEVNULL, stdout=file, stderr=file
                )
        _wait(folder, running, until)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            try:
                process.wait(_STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(folder: Path, running: dict[str, subprocess.Popen[bytes]], until: set[str]) -> None:
    """Wait for some of the processes; raise YardstickError if any process fails, or they are late."""
    end = time.monotonic() + DEADLINE
    while True:
        working = any(running[name].poll() is None for name in until)
        for name, process in running.items():
            if process.poll():
                complaint = _complaint(folder / f"{name}.log")
                raise YardstickError(f"{name} ended with exit code {process.returncode}: {complaint}")
        if not working:
            return
        if time.monotonic() > end:
            raise YardstickError(f"the processes did not end within {DEADLINE} seconds")
        time.sleep(_LOOK)


def _complaint(log: Path) -> str:
    """Return the last line of a log that names an error; XGBoost writes addresses of its stack below it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line for line in reversed(lines) if "Error" in line), last_line(log))


def _codes(frame: pd.DataFrame, edges: dict[str, Floats]) -> Floats:
    """Return the columns of one participant as numbers of their bins."""
    columns = [np.searchsorted(edges[name], frame[name].to_numpy(np.float32), side="left") for name in map(str, frame)]
    return np.column_stack(columns).astype(np.float32)


def _plain_margins(codes: Floats, y: pd.Series[int], params: dict[str, Any], trees: int) -> Floats:
    """Return the margins of plain xgboost on the joined table."""
    import xgboost

    data = xgboost.DMatrix(codes, y.to_numpy())
    return np.asarray(xgboost.train(params, data, trees).predict(data, output_margin=True))


def _margins(models: Sequence[PartialModel], joined: pd.DataFrame) -> Floats:
    """Return the margins of one of our models, put together."""
    import xgboost

    return np.asarray(to_booster(join(models)).predict(xgboost.DMatrix(joined), output_margin=True))


def _page(args: argparse.Namespace, r: dict[str, Any]) -> str:
    title = (
        f"{args.rows} rows x {args.columns} columns, {args.bins} bins, 4 participants, depth {args.depth}, "
        f"{args.trees} trees; least of {args.repeat}, xgboost {r['xgboost']}"
    )
    rows = [
        ["load before", f"{r['load']:.1f}"],
        ["calibration kernel", f"{r['calibration_seconds'] * 1e3:.1f} ms for 64 M multiply-adds"],
        ["XGBoost's unprotected mode, five processes", _pair(r["unprotected_seconds"], ".3f", " s")],
        ["  before it, making the matrix", f"{r['unprotected_matrix_seconds']:.3f} s"],
        ["ours, threads", _pair(r["threads_seconds"], ".3f", " s")],
        ["ours, five processes", _pair(r["processes_seconds"], ".3f", " s")],
        ["threads / unprotected", _pair(r["threads_over_unprotected"], ".2f")],
        ["five processes / unprotected", _pair(r["processes_over_unprotected"], ".2f")],
        ["margins, unprotected against plain xgboost", f"{r['unprotected_margin_difference']:.1e}"],
        ["margins, ours against plain xgboost", f"{r['our_margin_difference']:.1e}"],
    ]
    return table(title, ["figure", "first / second session"], rows)


def _pair(sessions: Sequence[float], form: str, unit: str = "") -> str:
    return " / ".join(format(value, form) for value in sessions) + unit


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--python",
        type=Path,
        default=Path(os.environ.get("MPFEDXGB_YARDSTICK", ENVIRONMENT)),
        help="interpreter with numpy, scipy and xgboost>=3.0,<3.4 (default: the one of make yardstick)",
    )
    for name, default, text in (
        ("rows", 10_000, "rows of the table"),
        ("columns", 10, "columns, cut 10/20/30/40 %% among the participants"),
        ("bins", 10, "bins per column"),
        ("trees", 3, "number of trees"),
        ("depth", 3, "levels of splits"),
        ("repeat", 5, "runs of each kind, of which the best counts"),
    ):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"{text} (default {default})")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--fit-twice", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.repeat < 1:
        parser.error(f"--repeat must be 1 or more, not {args.repeat}")
    return args


if __name__ == "__main__":
    sys.exit(main())
