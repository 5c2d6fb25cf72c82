"""Phases in which a role is struck, the moments of each, and one run: strike, start again, compare.

A moment is an event at some participant and a delay after it, at most the time that is left then in undisturbed runs.
Delays are uniform; but the end of a training takes milliseconds, and the end of its processes much longer, so that
short delays are drawn more often there.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from mpfedxgb.party.roster import ACTIVE
from operated import (
    BATCHES,
    LIMIT,
    LOOK,
    PAUSES,
    SCORING,
    SERVING,
    SESSION,
    TRAINING,
    Federation,
    Hang,
    Task,
    Trouble,
)
from patience import patience

Happened = Callable[[Federation, int], bool]


def _answered(federation: Federation, role: int) -> bool:
    return any((federation.home(role) / name).is_file() for name in ("predictions.csv", "batch-0.csv"))


def _noted(federation: Federation, role: int) -> bool:
    return (federation.home(role) / "state" / SESSION / "finished.json").is_file()


def events(trees: int) -> dict[str, Happened]:
    """Return what moments are counted from: whether it has happened at a participant."""
    return {
        "start": lambda federation, role: True,
        "connected": lambda federation, role: "is connected with its peers" in federation.log(role),
        "last round begun": lambda federation, role: federation.rounds_kept(role) >= trees - 1,
        "last round kept": lambda federation, role: federation.rounds_kept(role) >= trees,
        "model written": lambda federation, role: federation.model_path(federation.home(role).name).is_file(),
        "end noted": _noted,
        "answered": _answered,
    }


PHASES: dict[str, tuple[tuple[Task, str], ...]] = {
    "training": ((TRAINING, "start"),),
    "last round": (
        *[(TRAINING, "last round begun")] * 3,
        (TRAINING, "last round kept"),
        (TRAINING, "model written"),
        (TRAINING, "end noted"),
    ),
    "scoring": ((SCORING, "start"), *[(SCORING, "connected")] * 2),
    "serving": tuple((task, event) for task in (SERVING, BATCHES, PAUSES) for event in ("connected", "answered")),
}
"""Per phase the tasks and events, one of which is drawn for each run."""

_SHORT = ("last round kept", "model written", "end noted")


@dataclass(frozen=True, slots=True)
class Expected:
    """What undisturbed runs have made: models, lines of predictions, and the seconds left after each event.

    `trained` is what other trainings have to end in (see `Federation.trained`).
    """

    models: dict[str, bytes]
    trained: object
    predictions: list[str]
    left: dict[tuple[str, str], float]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to happen in a run. `delay` counts from the event at the participant `watched`, `pause` from the end."""

    phase: str
    task: Task
    role: int
    signal: signal.Signals
    event: str
    watched: int
    delay: float
    pause: float
    reconnect: bool


@dataclass(frozen=True, slots=True)
class Run:
    """What has happened in a run."""

    phase: str
    task: str
    role: str
    signal: str
    event: str
    delay: float
    reconnect: bool
    attempts: int
    seconds: float
    equal: bool
    hung: bool = False
    trouble: str = ""


def undisturbed(federation: Federation, happened: dict[str, Happened]) -> Expected:
    """Train twice and score in all ways without a disturbance; raises Trouble where anything differs."""
    left: dict[tuple[str, str], float] = {}
    models: dict[str, bytes] = {}
    trained: object = None
    for _ in range(2):
        federation.clear({})
        _watch(federation, TRAINING, happened, left)
        if models and federation.trained() != trained:
            raise Trouble("two undisturbed trainings with the same private keys differ")
        models, trained = federation.models(), federation.trained()
    predictions: list[str] = []
    for task in (SCORING, SERVING, BATCHES, PAUSES):
        federation.clear(models)
        _watch(federation, task, happened, left)
        if predictions and federation.predictions() != predictions:
            raise Trouble(f"the predictions of {task.name} differ from those of {SCORING.name}")
        predictions = federation.predictions()
    return Expected(models, trained, predictions, left)


def _watch(
    federation: Federation, task: Task, happened: dict[str, Happened], left: dict[tuple[str, str], float]
) -> None:
    """Do a task and note for how long it goes on after each event at the active participant."""
    first: dict[str, float] = {}
    federation.begin(task)
    limit = patience(LIMIT)
    end = time.monotonic() + limit
    while not federation.is_over():
        now = time.monotonic()
        if now > end:
            raise Hang(f"an undisturbed {task.name} was not done within {limit:g} seconds")
        for name, has in happened.items():
            if name not in first and has(federation, ACTIVE):
                first[name] = now
        time.sleep(LOOK)
    for name, since in first.items():
        left[task.name, name] = max(left.get((task.name, name), 0.0), time.monotonic() - since)
    federation.stop()


def draw(phase: str, expected: Expected, federation: Federation, draws: random.Random) -> Plan:
    """Return what is to happen in a run of a phase."""
    task, event = draws.choice(PHASES[phase])
    part = draws.random() ** (4 if event in _SHORT else 1)
    return Plan(
        phase,
        task,
        role=draws.choice(federation.roles),
        signal=signal.SIGKILL if draws.random() < 0.75 else signal.SIGTERM,
        event=event,
        watched=draws.choice([r for r in federation.roles if federation.trial.roster.owner_of(r)])
        if task.trains
        else ACTIVE,
        delay=part * expected.left[task.name, event],
        pause=draws.choice([0.0, draws.uniform(0.0, 1.5)]),
        reconnect=draws.random() < 0.5,
    )


def disturbed(federation: Federation, plan: Plan, expected: Expected, happened: dict[str, Happened]) -> Run | None:
    """Do a task, strike one role and start it again; None if it, or the task, had ended before its time came."""
    task, began = plan.task, time.monotonic()
    federation.clear({} if task.trains else expected.models)
    federation.set_reconnect(plan.reconnect)
    struck, trouble, hung = True, "", False
    try:
        federation.begin(task)
        struck = _strike_in_time(federation, plan, happened[plan.event])
        if struck:
            time.sleep(plan.pause)
            federation.start(plan.role)
            federation.finish()
    except Trouble as error:
        trouble, hung = str(error), isinstance(error, Hang)
    try:
        federation.stop()
    except Trouble as error:
        trouble, hung = trouble or str(error), hung or isinstance(error, Hang)
    if not struck and not trouble:
        return None
    if not trouble:
        trouble, hung = _differs(federation, task, expected)
    return Run(
        plan.phase,
        task.name,
        federation.home(plan.role).name,
        plan.signal.name,
        f"{plan.event} at {federation.home(plan.watched).name}",
        round(plan.delay, 4),
        plan.reconnect,
        federation.attempts(),
        round(time.monotonic() - began, 3),
        equal=not trouble,
        hung=hung,
        trouble=trouble,
    )


def _differs(federation: Federation, task: Task, expected: Expected) -> tuple[str, bool]:
    """Return what differs after a run, if anything, and whether looking for it did not end in time.

    Where fresh shares were made, rows are scored with them too: they have to fit together.
    """
    same = federation.trained() == expected.trained if task.trains else federation.models() == expected.models
    if not same:
        return "the models differ", False
    if task.trains and not federation.is_sealed:
        return "", False
    if task.trains:
        try:
            federation.begin(SCORING)
            federation.finish()
            federation.stop()
        except Trouble as error:
            with suppress(Trouble):
                federation.stop()
            return f"scoring afterwards: {error}", isinstance(error, Hang)
    return ("" if federation.predictions() == expected.predictions else "the predictions differ"), False


def _strike_in_time(federation: Federation, plan: Plan, has_happened: Callable[[Federation, int], bool]) -> bool:
    """Wait for the moment and strike; return False if it, or the task, had ended before."""
    limit = patience(LIMIT)
    end = time.monotonic() + limit
    while not has_happened(federation, plan.watched):
        if time.monotonic() > end:
            raise Hang(f"{plan.event} was not reached within {limit:g} seconds")
        if federation.is_over():
            return False
        time.sleep(LOOK)
    time.sleep(plan.delay)
    return not federation.is_over() and federation.strike(plan.role, plan.signal)
