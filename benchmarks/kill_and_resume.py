"""Strike a random role at a random moment, start it again, and compare with what undisturbed roles make.

    python benchmarks/kill_and_resume.py --runs 200 [--topology mesh] [--security sealed] [--seed S] [--minutes M]
                                         [--coordinator retail] [--constrained] [--keep FOLDER] [--fresh] [--json]

Every role is a process over mTLS on loopback. Processes are forked from one that has everything loaded (nursery.py),
which spares most of the time; with --fresh each is started as an organisation would. There are three participants
and a coordinator; with --coordinator one of the three is it. With --constrained columns of numbers have directions.

The runs take turns in four phases (disturbances.py): a training at any moment; its last round and its end; a scoring,
all participants with `--predict`; auxiliaries that serve, while the active participant scores a file, or asks batch
after batch in one session, with pauses or without. Each run strikes one role, of four with SIGKILL three times and with
SIGTERM once, with `reconnect` or without, and starts it again, at once or up to 1.5 seconds later. The others are
treated as the units in docs/deploy would treat them (operated.py).

A run wipes all checkpoints but keeps every role's private key, so that the training is the same and its files must be
too, byte for byte; predictions likewise. Of a sealed training the files hold fresh shares: there what they join to must
be the same, and so must predictions that are made with them after each training. Runs that had ended before the strike
do not count. Prints how many runs ended in equal files, per phase and role. Ends with 0 if all did, with 1 if something
differed or a role ended as it should not, and with 3 if something did not end in time.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from itertools import count, cycle
from pathlib import Path
from typing import TextIO

from disturbances import PHASES, Run, disturbed, draw, events, undisturbed
from mpfedxgb.config import TOPOLOGIES
from nursery import Nursery
from operated import PARTICIPANTS, Federation, Hang, Trouble

_MISSES = 50
"""Strikes in a row that may come too late before something must be wrong."""


def runs_of(federation: Federation, args: argparse.Namespace, seed: int) -> Iterator[Run]:
    """Yield one run after the other, the phases in turn; keep the folder of the first that goes wrong."""
    draws = random.Random(seed)  # noqa: S311 # who is struck when is no secret
    happened = events(args.trees)
    expected = undisturbed(federation, happened)
    end = time.monotonic() + 60 * (args.minutes or 0.0)
    kept = False
    for number, phase in zip(count(), cycle(PHASES), strict=False):
        if time.monotonic() > end if args.minutes else number == args.runs:
            return
        for _ in range(_MISSES):
            run = disturbed(federation, draw(phase, expected, federation, draws), expected, happened)
            if run is not None:
                break
        else:
            raise Trouble(f"{_MISSES} strikes in a row came after the end of a {phase}")
        if run.trouble and args.keep is not None and not kept:
            shutil.copytree(federation.trial.folder, args.keep)
            kept = True
        yield run


def told(run: Run) -> str:
    """Return a line about a run."""
    when = f"{run.delay:.3f} s after {run.event}"
    how = f"{run.attempts} attempts, {'reconnect' if run.reconnect else 'restart'}, {run.seconds:.1f} s"
    return f"{run.phase:10}  {run.role:11}  {run.signal}  {when}, {how}: {'equal' if run.equal else run.trouble}"


def summary(runs: Sequence[Run]) -> str:
    """Return the numbers of equal runs, per phase and role."""
    roles = sorted({run.role for run in runs})
    equal = Counter((run.phase, run.role) for run in runs if run.equal)
    every = Counter((run.phase, run.role) for run in runs)
    lines = ["".join(f"{word:>15}" for word in ("", *roles, "all"))]
    for phase in PHASES:
        ours = [(equal[phase, role], every[phase, role]) for role in roles]
        ours.append((sum(e for e, _ in ours), sum(n for _, n in ours)))
        lines.append(f"{phase:>15}" + "".join(f"{f'{e} of {n}':>15}" for e, n in ours))
    return "\n".join(lines)


def report(runs: Sequence[Run], seed: int, seconds: float) -> dict[str, object]:
    """Return everything as plain values."""
    return {
        "runs": len(runs),
        "equal": sum(run.equal for run in runs),
        "hung": sum(run.hung for run in runs),
        "seed": seed,
        "seconds": seconds,
        "phases": Counter(run.phase for run in runs),
        "roles": Counter(run.role for run in runs),
        "signals": Counter(run.signal for run in runs),
        "each": [asdict(run) for run in runs],
    }


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=None, help="as many runs as begin in that time, instead")
    parser.add_argument("--seed", type=int, default=None, help="repeats who is struck when")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--trees", type=int, default=6)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=20.0)
    parser.add_argument("--connect-timeout", type=float, default=12.0)
    parser.add_argument("--keep", type=Path, default=None, help="copy of the first run that goes wrong; not there yet")
    parser.add_argument("--topology", default="star", choices=TOPOLOGIES, help="how participants are connected")
    parser.add_argument("--security", default="strict", choices=("strict", "sealed"))
    parser.add_argument(
        "--coordinator", default=None, choices=PARTICIPANTS[1:], help="who coordinates beside its columns"
    )
    parser.add_argument("--constrained", action="store_true", help="train with directions and an L1 penalty")
    parser.add_argument("--fresh", action="store_true", help="let every process load everything itself")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    training = {"n_estimators": args.trees, "max_depth": args.depth, "max_bin": 8, "subsample": 0.8}
    training["security"] = args.security
    training |= {"constrained": True, "reg_alpha": 0.1} if args.constrained else {}
    network = {"deadline": args.deadline, "connect_timeout": args.connect_timeout}
    runs: list[Run] = []
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        nursery = None if args.fresh else stack.enter_context(Nursery())
        federation = Federation(Path(folder), nursery, args.rows, training, network, args.topology, args.coordinator)
        try:
            if not args.json:
                print(f"seed {seed}", file=out, flush=True)
            for run in runs_of(federation, args, seed):
                runs.append(run)
                if not args.json:
                    print(f"{len(runs):4}  {told(run)}", file=out, flush=True)
        except Trouble as error:  # without a disturbance
            print(f"seed {seed}: {error}", file=sys.stderr)
            return 3 if isinstance(error, Hang) else 1
        finally:
            with suppress(Trouble):
                federation.stop()
    seconds, equal = time.monotonic() - began, sum(run.equal for run in runs)
    if args.json:
        print(json.dumps(report(runs, seed, seconds)), file=out)
    else:
        print(summary(runs), file=out)
        print(f"{equal} of {len(runs)} runs ended in equal files (seed {seed}, {seconds:.0f} s)", file=out)
    if any(run.hung for run in runs):
        return 3
    return 0 if runs and equal == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
