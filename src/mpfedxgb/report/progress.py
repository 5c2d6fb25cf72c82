"""A progress bar for long work: tree, level, metric, rounds, megabytes, time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.costs.forecast import Forecast
from mpfedxgb.units import bytes_text


class Watcher(Protocol):
    """What is told how a training goes on."""

    def round_done(self, report: RoundReport) -> None:
        """Take note of a finished round."""
        ...

    def on_progress(self, what: str) -> None:
        """Take note of a finer step."""
        ...

    def on_forecast(self, make: Callable[[], Forecast | None]) -> None:
        """Take note that the sizes are known, from which a forecast can be made."""
        ...


class Silent:
    """Shows nothing."""

    def round_done(self, report: RoundReport) -> None:
        """Show nothing."""

    def on_progress(self, what: str) -> None:
        """Show nothing."""

    def on_forecast(self, make: Callable[[], Forecast | None]) -> None:
        """Show nothing, and so make none."""


class ProgressBar:
    """A line on the terminal that is redrawn."""

    def __init__(self, progress: Progress, rounds: int) -> None:
        self._progress = progress
        self._task = progress.add_task("training", total=rounds, level="setup", metric="", cost="")

    def round_done(self, report: RoundReport) -> None:
        """Move the bar by one round."""
        metric = "  ".join(
            f"{name} {values[-1]:.5f}" for names in report.metrics.values() for name, values in names.items()
        )
        cost = f"{report.communication_rounds} rounds, {bytes_text(report.bytes_sent)}"
        self._progress.update(self._task, advance=1, metric=metric, cost=cost)

    def on_forecast(self, make: Callable[[], Forecast | None]) -> None:
        """Show what the training will cost, above the bar."""
        told = make()
        if told is not None:
            self._progress.console.print(told.summary, highlight=False, markup=False)

    def on_progress(self, what: str) -> None:
        """Show the level that is being grown."""
        self._progress.update(self._task, level=what)


@contextmanager
def watch_steps(description: str) -> Iterator[Callable[[int, int], None] | None]:
    """Show a bar that is told how many steps of how many are done; None where nobody looks at a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=40), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(description, total=None)
        yield lambda steps, of: progress.update(task, completed=steps, total=of)


@contextmanager
def watch(verbosity: int, rounds: int) -> Iterator[Watcher]:
    """Show a bar while a training runs, if `verbosity` is 1 or more; it goes to standard error."""
    if verbosity < 1:
        yield Silent()
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[level]}"),
        TextColumn("{task.fields[metric]}"),
        TextColumn("{task.fields[cost]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield ProgressBar(progress, rounds)
