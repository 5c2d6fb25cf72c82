"""Kill a random role at a random moment, start it again, and compare the models with those of an undisturbed training.

    python benchmarks/kill_and_resume.py --runs 50 [--seed S] [--fresh] [--json]

Every role is a process over mTLS on loopback, with `reconnect` set. Processes are forked from one that has everything
loaded (nursery.py), which spares most of the time; with --fresh each is started as an organisation would.

A run wipes all checkpoints but keeps every role's private key, so that the training is the same and its files must be
too, byte for byte. It kills one role with SIGKILL, uniformly over the time that a training takes from its start, and
starts it again. Runs that had ended by then do not count. Where participants had finished before the killed one was
back, they are started again as well, as the exit code's help says. Prints how many of the runs ended in equal models;
exits with 1 unless all did.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from mpfedxgb.federation.samples import ID, LABEL, sample_tables
from mpfedxgb.federation.trial import Trial, last_line
from mpfedxgb.party.roster import COORDINATOR
from nursery import Child, Nursery

PARTICIPANTS = ("bank", "telecom", "retail")
_LOOK = 0.02
_GRACE = 1.0
"""Seconds after which participants that have finished are started again for one that has not."""

_LIMIT = 180.0
"""Seconds that a run may take."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run: who was killed when, how many attempts it took, and whether all models were equal."""

    role: str
    moment: float
    attempts: int
    seconds: float
    equal: bool
    trouble: str = ""


class Federation:
    """All roles' processes, in one folder."""

    def __init__(
        self, folder: Path, nursery: Nursery | None, rows: int, training: dict[str, Any], deadline: float
    ) -> None:
        self.nursery = nursery
        network = {"deadline": deadline, "connect_timeout": 60.0, "reconnect": True}
        self.trial = Trial(folder, _tables(rows), LABEL, ID, training, network)
        self.roles = self.trial.roster.roles
        self.running: dict[int, Child | subprocess.Popen[bytes]] = {}

    def home(self, role: int) -> Path:
        """Return a role's folder."""
        return self.trial.settings(role).parent

    def start(self, role: int) -> None:
        """Start a role."""
        what = ["coordinator"] if role == COORDINATOR else ["participant", "--train"]
        arguments = [what[0], str(self.trial.settings(role)), *what[1:]]
        log = self.home(role) / "log"
        if self.nursery is not None:
            self.running[role] = self.nursery.start(arguments, log)
            return
        with log.open("ab") as file:
            program = [sys.executable, "-m", "mpfedxgb", *arguments]
            self.running[role] = subprocess.Popen(program, stdout=file, stderr=file)  # noqa: S603 # our own command

    def wipe(self) -> None:
        """Forget the last run, but for the private keys."""
        for role in self.roles:
            for path in self.home(role).glob("state/trial/*"):
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != "private.key":
                    path.unlink()
            for path in (self.home(role) / "log", *self.home(role).glob("*.mpfedxgb.json")):
                path.unlink(missing_ok=True)

    def stop(self) -> None:
        """End all processes that still run."""
        for child in self.running.values():
            child.terminate()
        for child in self.running.values():
            try:
                child.wait(20.0)
            except subprocess.TimeoutExpired:
                child.kill()
        self.running = {}

    def finish(self) -> str:
        """Wait until every participant has finished once; return what went wrong, if anything."""
        finished: dict[int, float] = {}
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end:
            time.sleep(_LOOK)
            for role, child in self.running.items():
                code = child.poll()
                if code is not None and (code or role == COORDINATOR):
                    return f"{self.home(role).name} ended with exit code {code}: {last_line(self.home(role) / 'log')}"
                if code is not None:
                    finished.setdefault(role, time.monotonic())
            if len(finished) == len(self.roles) - 1:
                return ""
            for role, since in finished.items():  # somebody may need them who has not finished
                if self.running[role].poll() is not None and time.monotonic() - since > _GRACE:
                    self.start(role)
        return f"did not end within {_LIMIT:g} seconds"

    def models(self) -> list[bytes]:
        """Return every participant's file."""
        names = [self.home(role).name for role in self.roles if role != COORDINATOR]
        paths = [self.trial.folder / name / f"{name}.mpfedxgb.json" for name in names]
        return [path.read_bytes() if path.is_file() else b"" for path in paths]

    def attempts(self) -> int:
        """Return the highest number of an attempt."""
        paths = [self.home(role) / "state" / "trial" / "attempt" for role in self.roles]
        return max(int(path.read_text()) for path in paths if path.is_file())


def undisturbed(federation: Federation) -> tuple[list[bytes], float]:
    """Train without a disturbance, twice; return the models and how long a training takes."""
    models: list[list[bytes]] = []
    seconds = []
    for _ in range(2):
        federation.wipe()
        began = time.monotonic()
        for role in federation.roles:
            federation.start(role)
        trouble = federation.finish()
        seconds.append(time.monotonic() - began)
        federation.stop()
        if trouble:
            raise SystemExit(f"the undisturbed training failed: {trouble}")
        models.append(federation.models())
    if models[0] != models[1]:
        raise SystemExit("two undisturbed trainings with the same private keys differ")
    return models[0], min(seconds)


def disturbed(federation: Federation, expected: list[bytes], duration: float, draws: random.Random) -> Run | None:
    """Train, kill one role and start it again; None if it, or the training, had ended before its time came."""
    role, moment = draws.choice(federation.roles), draws.uniform(0.0, duration)
    federation.wipe()
    began = time.monotonic()
    for other in federation.roles:
        federation.start(other)
    time.sleep(max(0.0, began + moment - time.monotonic()))
    done = all(child.poll() is not None for other, child in federation.running.items() if other != COORDINATOR)
    victim = federation.running[role]
    victim.kill()
    if victim.wait(20.0) != -signal.SIGKILL or done:
        federation.stop()
        return None
    federation.start(role)
    trouble = federation.finish()
    federation.stop()
    found = federation.models()
    return Run(
        federation.home(role).name,
        round(moment, 3),
        federation.attempts(),
        round(time.monotonic() - began, 3),
        found == expected and not trouble,
        trouble or ("" if found == expected else "the models differ"),
    )


def _tables(rows: int) -> dict[str, pd.DataFrame]:
    tables = {name: purposes["train"] for name, purposes in sample_tables(PARTICIPANTS).items()}
    chosen = set(tables[PARTICIPANTS[0]][ID].iloc[:rows])
    return {name: table[table[ID].isin(chosen)] for name, table in tables.items()}


def main(arguments: Sequence[str] | None = None, out: TextIO = sys.stdout) -> int:
    """Run, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None, help="repeats who is killed when")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--trees", type=int, default=6)
    parser.add_argument("--depth", type=int, default=3)
    parser.add_argument("--deadline", type=float, default=5.0)
    parser.add_argument("--fresh", action="store_true", help="let every process load everything itself")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args(arguments)
    seed = random.SystemRandom().randrange(1 << 32) if args.seed is None else args.seed
    draws = random.Random(seed)  # noqa: S311 # who is killed when is no secret
    training = {"n_estimators": args.trees, "max_depth": args.depth, "max_bin": 8, "subsample": 0.8}
    runs: list[Run] = []
    began = time.monotonic()
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        nursery = None if args.fresh else stack.enter_context(Nursery())
        federation = Federation(Path(folder), nursery, args.rows, training, args.deadline)
        stack.callback(federation.stop)
        expected, duration = undisturbed(federation)
        while len(runs) < args.runs:
            run = disturbed(federation, expected, duration, draws)
            if run is None:
                continue
            runs.append(run)
            if not args.json:
                what = f"{run.role} killed after {run.moment:.2f} s, {run.attempts} attempts, {run.seconds:.1f} s"
                print(f"{len(runs):3}  {what}: {'equal' if run.equal else run.trouble}", file=out, flush=True)
    equal = sum(run.equal for run in runs)
    if args.json:
        figures = {"runs": len(runs), "equal": equal, "seed": seed, "duration": duration}
        figures |= {"seconds": time.monotonic() - began}
        print(json.dumps({**figures, "each": [asdict(run) for run in runs]}), file=out)
    else:
        print(f"{equal} of {len(runs)} models equal (seed {seed}, {time.monotonic() - began:.0f} s)", file=out)
    return 0 if equal == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
