"""Two pictures for docs/benchmarks.md: time by phase of the paper's job, and time against latency for star and mesh.

    python benchmarks/pictures.py --out docs/results            # measures and draws, some three minutes
    python benchmarks/pictures.py --out docs/results --draw     # draws again what was measured

Writes `pictures.json`, `phases.svg` and `latency.svg` into the folder. What is measured goes into the JSON at once, so
that a run that is interrupted goes on where it stopped; --again forgets it. By phase: the active participant's seconds,
all roles as threads of this process, the quickest of five fits. Against latency: processes over mutual TLS, with every
byte held back by a relay (relay.py), seconds of training after the handshake, tournaments planned for that latency; the
job is 10,000 rows x 10 columns, 10 bins, four participants, three trees of depth 3, in both.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench_federation import in_processes, paper_job
from bench_train import calibration_seconds
from experiments.output import INK, figure
from mpfedxgb import FedXGBClassifier
from mpfedxgb.atomic import PUBLIC, new_file, write_file
from mpfedxgb.config import TOPOLOGIES
from mpfedxgb.errors import FederationError

DELAYS = (0, 5, 10, 20, 40)
"""Milliseconds that every byte is held back, each way."""

ROWS, COLUMNS, TREES, DEPTH, BINS = 10_000, 10, 3, 3, 10
FITS = 5
TRIES = 3
"""Times that a federation of processes is started, on a machine that is busy with something else."""

Measured = dict[str, Any]


def measure_phases(rows: int = ROWS) -> Measured:
    """Return seconds by phase of the quickest of some fits, for either topology, alternating."""
    frames, y = paper_job(rows, COLUMNS)
    best: dict[str, Measured] = {}
    for number in range(FITS + 1):
        for topology in TOPOLOGIES:
            model = FedXGBClassifier(n_estimators=TREES, max_depth=DEPTH, max_bin=BINS, topology=topology)
            run = model.fit(frames, y).run_
            if number and (topology not in best or run.seconds < best[topology]["seconds"]):  # the first one compiles
                phases = {path: counts.seconds for path, counts in run.phases.items()}
                best[topology] = {"seconds": run.seconds, "phases": phases}
    return {"calibration_seconds": calibration_seconds(), **best}


def measure_delay(topology: str, delay: int, rows: int = ROWS) -> Measured:
    """Return seconds and hops of the job by processes that are so many milliseconds apart."""
    frames, y = paper_job(rows, COLUMNS)
    link = f"{delay}/1000" if delay else "lan"
    for left in reversed(range(TRIES)):
        try:
            done = in_processes(frames, y, TREES, DEPTH, BINS, delay / 1e3, topology, link)
        except FederationError as error:
            if not left:
                raise
            print(f"{topology}, {delay} ms: {error}; once more", file=sys.stderr)
            continue
        return {"topology": topology, "delay": delay, **{key: done[key] for key in ("seconds", "rounds", "hops")}}
    raise AssertionError("the last try returns or raises")


def measure(path: Path, again: bool, delays: Sequence[int] = DELAYS, rows: int = ROWS) -> Measured:
    """Return everything, from the file as far as it is there, and write the file after every measurement."""
    found: Measured = json.loads(path.read_text()) if path.is_file() and not again else {}
    if "phases" not in found:
        found["phases"] = measure_phases(rows)
        _save(path, found)
    known = {(one["topology"], one["delay"]) for one in found.setdefault("latency", [])}
    for delay in delays:
        for topology in TOPOLOGIES:
            if (topology, delay) not in known:
                found["latency"].append(measure_delay(topology, delay, rows))
                _save(path, found)
    return found


def _save(path: Path, found: Measured) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps(found, indent=1) + "\n", PUBLIC)


def draw_phases(found: Measured, canvas: Any) -> None:
    """Draw a bar for each phase, the two topologies side by side."""
    axes = canvas.subplots()
    names = sorted({path for t in TOPOLOGIES for path in found["phases"][t]["phases"]})
    height = 0.8 / len(TOPOLOGIES)
    for number, topology in enumerate(TOPOLOGIES):
        whole = found["phases"][topology]
        places = [place + height * number for place in range(len(names))]
        seconds = [1e3 * whole["phases"].get(name, 0.0) for name in names]
        axes.barh(places, seconds, height, color=INK[number], label=f"{topology}, {whole['seconds']:.2f} s in all")
    axes.set_yticks([place + height / 2 for place in range(len(names))], [name or "(between)" for name in names])
    axes.invert_yaxis()
    axes.set_xlabel("milliseconds of the active participant, three trees, all roles in one process")
    axes.legend(frameon=False)


def draw_latency(found: Measured, canvas: Any) -> None:
    """Draw a curve for each topology, with its hops."""
    axes = canvas.subplots()
    for number, topology in enumerate(TOPOLOGIES):
        points = sorted(
            (one["delay"], one["seconds"], one["hops"]) for one in found["latency"] if one["topology"] == topology
        )
        hops = f"{points[-1][2]} hops at {points[-1][0]} ms"
        axes.plot([p[0] for p in points], [p[1] for p in points], "o-", color=INK[number], label=f"{topology}, {hops}")
    axes.set_xlabel("milliseconds one way, by a relay between any two roles")
    axes.set_ylabel("seconds of training, five processes")
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)


def draw(found: Measured, folder: Path) -> list[Path]:
    """Write both pictures and return where they are."""
    import matplotlib

    written = []
    for name, drawing, size in (("phases", draw_phases, (7.0, 4.6)), ("latency", draw_latency, (7.0, 4.2))):
        canvas = figure(size)
        with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 9}):
            drawing(found, canvas)
            with new_file(folder / f"{name}.svg", PUBLIC) as file:
                canvas.savefig(file, format="svg", metadata={"Date": None})
        written.append(folder / f"{name}.svg")
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, draw, and say where."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for pictures.json, phases.svg and latency.svg")
    parser.add_argument("--draw", action="store_true", help="measure nothing")
    parser.add_argument("--again", action="store_true", help="measure everything anew")
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--delays", type=int, nargs="+", default=list(DELAYS), help="milliseconds one way")
    args = parser.parse_args(arguments)
    path = args.out / "pictures.json"
    if args.draw and not path.is_file():
        parser.error(f"{path} is not there; measure first, without --draw")
    found = json.loads(path.read_text()) if args.draw else measure(path, args.again, args.delays, args.rows)
    print("\n".join(map(str, draw(found, args.out))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
