"""A federation of processes on this machine, operated as its documents say: who ends with 3 or 5 is started again.

What a role does is a `Task`. Coordinator and serving auxiliaries stay; whoever has trained is done. Anything else is
trouble: another exit code, a serving role that ends, a traceback in a log, something that takes longer than its limit.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import asker
from mpfedxgb.boosting.join import join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import UserError
from mpfedxgb.federation.settings.template import ID, LABEL
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.testing.samples import sample_tables
from mpfedxgb.testing.trial import Trial, last_line
from nursery import Child, Nursery
from patience import patience

PARTICIPANTS = ("bank", "telecom", "retail")
SESSION = "trial"

LIMIT = 180.0
"""Seconds that a task may take, disturbed or not; longer on a busy machine, as is the next."""

STOPPING = 30.0
"""Seconds in which a process has to end once it is asked to, as TimeoutStopSec of the units."""

LOOK = 0.001
_RESTART = 0.5
"""Seconds after which a role that has ended is started again; the units wait longer."""

_AGAIN = (ExitCode.PEER_LOST, ExitCode.PEER_FAILED)
_STOPPED = (ExitCode.DONE, *_AGAIN, ExitCode.STOPPED, -signal.SIGTERM, -signal.SIGKILL)
"""How a process may end that is asked to; before it takes signals for itself, and as it ends, SIGTERM ends it."""


class Trouble(Exception):  # noqa: N818 # what the runs look for
    """Something that must not happen."""


class Hang(Trouble):
    """Something that takes longer than its limit."""


@dataclass(frozen=True, slots=True)
class Task:
    """What the participants do, and whether the auxiliaries stay afterwards.

    With `batches` the active participant's process is one that asks for so many, with a pause after each.
    """

    name: str
    active: str
    others: str
    batches: int = 0
    pause: float = 0.0

    @property
    def trains(self) -> bool:
        """Whether it is a training, which all participants have to finish; otherwise the active one's end counts."""
        return self.active == "--train"

    def stays(self, role: int, deals_only: bool) -> bool:
        """Return whether a role's process must not end."""
        return deals_only or (role != ACTIVE and self.others == "--serve")


TRAINING = Task("training", "--train", "--train")
SCORING = Task("scoring", "--predict", "--predict")
SERVING = Task("serving a file", "--predict", "--serve")
BATCHES = Task("serving batches", "", "--serve", batches=6)
PAUSES = Task("serving batches with pauses", "", "--serve", batches=4, pause=0.25)


class Federation:
    """All roles' folders and processes."""

    def __init__(
        self,
        folder: Path,
        nursery: Nursery | None,
        rows: int,
        training: dict[str, Any],
        network: dict[str, Any],
        topology: str = "star",
        coordinator: str | None = None,
    ) -> None:
        tables = {name: files["train"] for name, files in sample_tables(PARTICIPANTS).items()}
        chosen = set(tables[PARTICIPANTS[0]][ID].iloc[:rows])
        tables = {name: table[table[ID].isin(chosen)] for name, table in tables.items()}
        to_score = {name: files["score"] for name, files in sample_tables(PARTICIPANTS).items()}
        self.nursery, self.is_sealed = nursery, training.get("security") == "sealed"
        waiting = {**network, "reconnect": True}
        self.trial = Trial(folder, tables, LABEL, ID, training, waiting, to_score, topology, coordinator=coordinator)
        settings = self.trial.settings(ACTIVE)
        if training.get("constrained"):
            for role in self.trial.roster.roles:
                self._constrain(role, tables)
        predict = 'predict = "score.csv"\n'
        settings.write_text(settings.read_text().replace(predict, predict + 'predictions = "predictions.csv"\n'))
        self.roles = self.trial.roster.roles
        self.running: dict[int, Child | subprocess.Popen[bytes]] = {}
        self._task, self._ended, self._done = TRAINING, dict[int, float](), set[int]()

    def _constrain(self, role: int, tables: dict[str, pd.DataFrame]) -> None:
        """Give the columns of numbers of a role that has some directions, up and down by turns."""
        table = tables.get(self.trial.roster.name(role), pd.DataFrame()).drop(columns=[ID, LABEL], errors="ignore")
        numbers = table.select_dtypes("number").columns
        signs = ", ".join(f"{name} = {-1 if i % 2 else 1}" for i, name in enumerate(numbers))
        settings = self.trial.settings(role)
        settings.write_text(settings.read_text().replace("[data]\n", f"[data]\nmonotone = {{ {signs} }}\n"))

    def home(self, role: int) -> Path:
        """Return a role's folder."""
        return self.trial.settings(role).parent

    def log(self, role: int) -> str:
        """Return what a role has printed."""
        path = self.home(role) / "log"
        return path.read_text(errors="replace") if path.is_file() else ""

    # Files

    def clear(self, models: dict[str, bytes]) -> None:
        """Forget the last task, but for the private keys, and put models in their places."""
        for role in self.roles:
            home = self.home(role)
            for path in home.glob(f"state/{SESSION}/*"):
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != "private.key":
                    path.unlink()
            others = (home / "log", *home.glob("state/record*"), home / "predictions.csv")
            for path in (*others, *home.glob("batch-*.csv"), *home.glob("*.mpfedxgb.json"), *home.glob(".*.tmp")):
                path.unlink(missing_ok=True)
        for name, content in models.items():
            self.model_path(name).write_bytes(content)

    def set_reconnect(self, reconnect: bool) -> None:
        """Let roles wait for a lost peer, or end."""
        words = {False: "reconnect = false", True: "reconnect = true"}
        for role in self.roles:
            path = self.trial.settings(role)
            path.write_text(path.read_text().replace(words[not reconnect], words[reconnect]))

    def model_path(self, name: str) -> Path:
        """Return where a participant's part of the model is."""
        return self.trial.folder / name / f"{name}.mpfedxgb.json"

    def models(self) -> dict[str, bytes]:
        """Return every participant's file."""
        paths = {name: self.model_path(name) for name in PARTICIPANTS}
        return {name: path.read_bytes() if path.is_file() else b"" for name, path in paths.items()}

    def trained(self) -> object:
        """Return what all trainings have to end in: the files, or what they join to where they hold fresh shares."""
        models = self.models()
        if not self.is_sealed:
            return models
        try:
            return join([PartialModel.from_json(content.decode(), name) for name, content in models.items()])
        except UserError as error:
            return str(error)

    def predictions(self) -> list[str]:
        """Return the lines that the active participant has got; batches one after the other, under one heading."""
        home = self.home(ACTIVE)
        paths = [asker.answer_path(home, number) for number in range(self._task.batches)]
        lines: list[str] = []
        for path in paths or [home / "predictions.csv"]:
            lines += path.read_text().splitlines()[bool(lines) :] if path.is_file() else [f"{path.name} is missing"]
        return lines

    def rounds_kept(self, role: int) -> int:
        """Return how many rounds a participant's checkpoint has."""
        path = self.home(role) / "state" / SESSION / "checkpoints" / "rounds.checkpoint"
        return max(0, path.read_bytes().count(b"\n") - 2) if path.is_file() else 0

    def attempts(self) -> int:
        """Return the highest number of an attempt."""
        paths = [self.home(role) / "state" / SESSION / "attempt" for role in self.roles]
        return max((int(path.read_text()) for path in paths if path.is_file()), default=0)

    # Processes

    def begin(self, task: Task) -> None:
        """Start all roles."""
        self._task, self._ended, self._done = task, {}, set()
        for role in self.roles:
            self.start(role)

    def start(self, role: int) -> None:
        """Start a role."""
        self._ended.pop(role, None)
        task, settings, log = self._task, self.trial.settings(role), self.home(role) / "log"
        if role == ACTIVE and task.batches:
            module, arguments = "asker", [str(settings), str(task.batches), str(task.pause)]
        else:
            what = task.active if role == ACTIVE else task.others
            module = "mpfedxgb"
            dealing, taking_part = ["coordinator", str(settings)], ["participant", str(settings), what]
            arguments = dealing if self._deals_only(role) else taking_part
        if self.nursery is not None:
            self.running[role] = self.nursery.start(arguments, log, **({"module": module} if module == "asker" else {}))
            return
        with log.open("ab") as file:
            program = [sys.executable, *(["-m", module] if module == "mpfedxgb" else [asker.__file__]), *arguments]
            self.running[role] = subprocess.Popen(program, stdout=file, stderr=file)  # noqa: S603 # our own command

    def strike(self, role: int, number: signal.Signals) -> bool:
        """Send a role a signal; return whether that is what ended it, rather than its work being done."""
        child = self.running[role]
        child.send_signal(number)
        try:
            code = child.wait(patience(STOPPING))
        except subprocess.TimeoutExpired:
            raise Hang(f"{self._name(role)} did not end in time after {number.name}") from None
        if code in (ExitCode.DONE, *_AGAIN) and not self._stays(role):  # it had ended by itself, to be started again
            return False
        if code not in ((-signal.SIGKILL,) if number == signal.SIGKILL else (ExitCode.STOPPED, -signal.SIGTERM)):
            raise Trouble(self._how_it_ended(role, code))
        return True

    def is_over(self) -> bool:
        """Start again whoever has to be; return whether the task is done."""
        now = time.monotonic()
        for role, child in self.running.items():
            code = child.poll()
            if code is None or role in self._done:
                continue
            if self._stays(role) or code not in (ExitCode.DONE, *_AGAIN):
                raise Trouble(self._how_it_ended(role, code))
            if code == ExitCode.DONE and (self._task.trains or role == ACTIVE):
                self._done.add(role)
            elif now - self._ended.setdefault(role, now) > _RESTART:
                self.start(role)
        return len(self._done) == (len(PARTICIPANTS) if self._task.trains else 1)

    def finish(self) -> None:
        """Wait until the task is done."""
        limit = patience(LIMIT)
        end = time.monotonic() + limit
        while not self.is_over():
            if time.monotonic() > end:
                raise Hang(f"not done within {limit:g} seconds; {self._last_lines()}")
            time.sleep(LOOK)

    def stop(self) -> None:
        """End all processes that still run; raises Hang or Trouble if some did not end well, and leaves none behind."""
        children, self.running = self.running, {}
        for child in children.values():
            child.terminate()
        end = time.monotonic() + patience(STOPPING)
        late = []
        for role, child in children.items():
            try:
                child.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(self._name(role))
                child.kill()
                child.wait(patience(STOPPING))
        if late:
            raise Hang(f"{', '.join(late)} did not end in time after SIGTERM")
        for role, child in children.items():
            if child.poll() not in _STOPPED:
                raise Trouble(self._how_it_ended(role, child.poll()))
            _, traceback, told = self.log(role).partition("Traceback")
            if traceback:
                raise Trouble(f"there is a traceback in the log of {self._name(role)}: {told[:2000]}")

    def _stays(self, role: int) -> bool:
        return self._task.stays(role, self._deals_only(role))

    def _deals_only(self, role: int) -> bool:
        return not self.trial.roster.owner_of(role)

    def _name(self, role: int) -> str:
        return self.trial.roster.name(role)

    def _how_it_ended(self, role: int, code: int | None) -> str:
        return f"{self._name(role)} ended with exit code {code}: {last_line(self.home(role) / 'log')}"

    def _last_lines(self) -> str:
        return "; ".join(f"{self._name(role)}: {last_line(self.home(role) / 'log')}" for role in self.roles)
