"""Roles as processes over mutual TLS on loopback, for tests: started quickly, watched, and none left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb.testing.trial import Trial
from nursery import Child, Nursery
from patience import patience

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"

WAIT = 150.0
"""Seconds after which something that should happen has not; see `patience` for a busy machine."""

PERSONS = tuple(f"person-{number}" for number in range(52_000, 52_060))
"""Ids that are easy to find in a text."""

WORDS = ("repaid-4711", "defaulted-4711")
"""Labels that are easy to find."""


def make_nursery() -> Nursery:
    """Return something that starts processes quickly, for a `with` block."""
    return Nursery()


def tables(rows: slice = slice(0, 40), participants: Sequence[str] = ("bank", "telecom")) -> dict[str, pd.DataFrame]:
    """Return small tables; the first participant has the label."""
    draws = np.random.default_rng(8)
    values = {name: draws.normal(size=(len(PERSONS), 2)).round(6) for name in participants}
    chosen = np.asarray(WORDS)[(np.hstack(list(values.values())).sum(axis=1) > 0).astype(int)]
    found = {}
    for seed, name in enumerate(participants):
        frame = pd.DataFrame(values[name], columns=pd.Index([f"{name}_a", f"{name}_b"])).assign(person=PERSONS)
        if not seed:
            frame = frame.assign(label=chosen)
        found[name] = frame.iloc[rows].sample(frac=1, random_state=seed)
    return found


def train_in_processes(trial: Trial, nursery: Nursery) -> None:
    """Run a training as one process per role."""
    homes = {role: trial.settings(role).parent for role in trial.roster.roles}
    children = {}
    for role, home in homes.items():
        command, option = ("participant", "--train") if trial.roster.owner_of(role) else ("coordinator", "--once")
        children[role] = nursery.start([command, trial.settings(role), option], home / "log")
    end = time.monotonic() + patience(WAIT)
    try:
        while any(child.poll() is None for child in children.values()) and time.monotonic() < end:
            failed = [role for role, child in children.items() if child.poll()]
            assert not failed, {role: (homes[role] / "log").read_text(errors="replace") for role in failed}
            time.sleep(0.01)
        codes = {role: child.poll() for role, child in children.items()}
        assert set(codes.values()) == {0}, codes
    finally:
        for child in children.values():
            child.kill()


class Place:
    """A federation's folders, and the processes of its roles."""

    def __init__(
        self,
        folder: Path,
        nursery: Nursery,
        training: Mapping[str, Any] | None = None,
        network: Mapping[str, Any] | None = None,
        coordinator: str | None = None,
    ) -> None:
        names = ("bank", "telecom") if coordinator is None else ("bank", "telecom", coordinator)
        training = {"n_estimators": 2, "max_depth": 1, "max_bin": 4, "num_class": 2, **(training or {})}
        self.connect_timeout = patience(WAIT)
        network = {"deadline": patience(20.0), "connect_timeout": self.connect_timeout, **(network or {})}
        to_score = {name: t.drop(columns="label", errors="ignore") for name, t in tables(slice(40, 60), names).items()}
        self.nursery = nursery
        given = tables(participants=names)
        self.trial = Trial(folder, given, "label", "person", training, network, to_score, coordinator=coordinator)
        self.edit(1, 'predict = "score.csv"', 'predict = "score.csv"\npredictions = "predictions.csv"')
        self.children: dict[int, Child] = {}

    def home(self, role: int) -> Path:
        """Return a role's folder."""
        return self.trial.settings(role).parent

    def edit(self, role: int, old: str, new: str) -> None:
        """Change a role's settings file."""
        path = self.trial.settings(role)
        text = path.read_text()
        assert old in text, text
        path.write_text(text.replace(old, new, 1))

    def start(self, role: int, *options: str) -> Child:
        """Start a role; by default for a training."""
        deals_only = not self.trial.roster.owner_of(role)
        command = "coordinator" if deals_only else "participant"
        options = options or (("--once",) if deals_only else ("--train",))
        self.children[role] = self.nursery.start(
            [command, self.trial.settings(role), *options], self.home(role) / "log"
        )
        return self.children[role]

    def start_all(self, *options: str) -> None:
        """Start all roles."""
        for role in self.trial.roster.roles:
            self.start(role, *(("--once", *options[1:]) if role == 0 and options else options))

    def log(self, role: int) -> str:
        """Return what a role has printed so far."""
        path = self.home(role) / "log"
        return path.read_text(errors="replace") if path.is_file() else ""

    def last_line(self, role: int) -> str:
        """Return the last line that a role printed."""
        return (self.log(role).strip().splitlines() or [""])[-1]

    def wait_for(self, role: int, words: str) -> None:
        """Wait until a role has printed something."""
        end = time.monotonic() + patience(WAIT)
        while words not in self.log(role):
            assert time.monotonic() < end, f"{words!r} is not in the log:\n{self.log(role)}"
            time.sleep(0.01)

    def codes(self) -> dict[int, int]:
        """Return everybody's exit code; fails if somebody does not end in time."""
        end = time.monotonic() + patience(WAIT)
        return {role: child.wait(max(0.0, end - time.monotonic())) for role, child in self.children.items()}

    def secrets(self) -> list[str]:
        """Return texts that must be in no log: keys, ids, labels, values of columns."""
        found = [*PERSONS, *WORDS]
        for path in self.trial.folder.rglob("*"):
            if path.name == "private.key":
                found.append(path.read_text())
            elif path.suffix == ".key":
                found += [line for line in path.read_text().splitlines() if "---" not in line]
        for frame in tables().values():
            found += [str(abs(value)) for value in frame.select_dtypes("number").to_numpy().ravel()[:20] if value]
        return [text for text in found if len(text) > 6]

    def logs(self) -> str:
        """Return everything that all roles have printed."""
        return "".join(self.log(role) for role in self.trial.roster.roles)

    def stop(self) -> None:
        """End whoever still runs."""
        for child in self.children.values():
            child.send_signal(signal.SIGCONT)
            child.kill()
        self.codes()


@contextmanager
def place(folder: Path, nursery: Nursery, **options: Any) -> Iterator[Place]:
    """Prepare a federation; afterwards nobody is left, and no log holds a secret."""
    made = Place(folder, nursery, **options)
    try:
        yield made
    finally:
        left = [role for role, child in made.children.items() if child.poll() is None]
        made.stop()
    assert not left, f"roles {left} were left running"
    found = [text for text in made.secrets() if text in made.logs()]
    assert not found, f"{found} in the logs"


def processes_that_name(text: str) -> list[int]:
    """Return the processes of this machine whose command line names something."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes() and int(path.parent.name) != os.getpid():
                found.append(int(path.parent.name))
        except OSError:  # it has ended in the meantime
            continue
    return found
