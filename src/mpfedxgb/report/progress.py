"""A progress bar for long work: tree, level, metric, rounds, megabytes, time left."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Column

from mpfedxgb.boosting.callbacks import Metrics, RoundReport
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.costs.forecast import Basis, cached_forecast
from mpfedxgb.costs.seconds import estimate_seconds, seconds_at_start
from mpfedxgb.errors import SettingsError
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.party import Party
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.units import bytes_text


class Silent(Observer):
    """Shows nothing of a training."""

    def round_done(self, report: RoundReport) -> None:
        """Show nothing of a finished round; a callback."""


class ProgressBar(Silent):
    """A line on the terminal that is redrawn."""

    def __init__(self, progress: Progress, rounds: int, shows_forecast: bool) -> None:
        self._progress, self._shows_forecast = progress, shows_forecast
        self._task = progress.add_task("training", total=rounds, level="setup", metric="", cost="")

    def round_done(self, report: RoundReport) -> None:
        """Move the bar by one round."""
        metric = "  ".join(
            f"{name} {values[-1]:.5f}" for names in report.metrics.values() for name, values in names.items()
        )
        cost = f"{report.communication_rounds} rounds, {bytes_text(report.bytes_sent)}"
        self._progress.update(self._task, advance=1, metric=metric, cost=cost)

    def on_sizes(self, party: Party, params: TrainParams, sizes: TableSizes) -> None:
        """Show what the training will cost, above the bar."""
        basis = Basis(params, sizes, party.roster, party.settings)
        predicted = cached_forecast(basis) if self._shows_forecast else None
        if predicted is not None:
            seconds = seconds_at_start(partial(estimate_seconds, predicted, together=True))
            self._progress.console.print(replace(predicted, seconds=seconds).summary, highlight=False, markup=False)

    def on_progress(self, what: str) -> None:
        """Show the level that is being grown."""
        self._progress.update(self._task, level=what)


class EvaluationLines:
    """Prints metrics of evaluation rows on standard output, in XGBoost's form; a callback of XGBoost's kind."""

    def __init__(self, every: int) -> None:
        self._every, self._skipped = every, ""

    @classmethod
    def read(cls, verbose: object) -> EvaluationLines | None:
        """Return what `fit(verbose=)` asks for: a line each round if True, every n-th if a number, none otherwise."""
        if not isinstance(verbose, (bool, int, np.integer, type(None))) or (verbose or 0) < 0:
            text = f"verbose={verbose!r} is not understood; give True, False, or a number of boosting rounds"
            raise SettingsError(text, "value", "verbose", verbose)
        return cls(int(verbose)) if verbose else None

    def after_iteration(self, model: object, epoch: int, metrics: Metrics) -> bool:
        """Print the line of a round, or keep it in case that round is the last."""
        values = [f"\t{name}-{metric}:{own[-1]:.5f}" for name, one in metrics.items() for metric, own in one.items()]
        line = f"[{epoch}]{''.join(values)}" if values else ""
        self._skipped = line if epoch % self._every else ""
        if line and not self._skipped:
            self._write(line)
        return False

    def after_training(self, model: object) -> None:
        """Print the line of the last round if it was kept back."""
        if self._skipped:
            self._write(self._skipped)

    def print_summary(self, summary: Mapping[str, Sequence[float]], show_std: bool) -> None:
        """Print the rounds of a cross-validation: its means by name, with standard deviations if they are wanted."""
        names = [name.removesuffix("-mean") for name in summary if name.endswith("-mean")]
        rounds = len(summary[f"{names[0]}-mean"])
        for t in range(rounds):
            if t % self._every == 0 or t == rounds - 1:
                values = []
                for name in names:
                    std = f"+{summary[f'{name}-std'][t]:.5f}" if show_std else ""
                    values.append(f"\t{name}:{summary[f'{name}-mean'][t]:.5f}{std}")
                self._write(f"[{t}]{''.join(values)}")

    @staticmethod
    def _write(line: str) -> None:
        sys.stdout.write(f"{line}\n")


class StepBar(Observer):
    """A bar of the steps of a comparison of ids, for each table from the beginning."""

    def __init__(self, progress: Progress, description: str) -> None:
        self._progress, self._task = progress, progress.add_task(description, total=None)

    def on_steps(self, what: str, done: int, of: int) -> None:
        """Show how many steps are done."""
        self._progress.update(self._task, completed=done, total=of)


@contextmanager
def watch_steps(description: str) -> Iterator[StepBar | None]:
    """Show a bar of steps inside the block; None if nobody looks at a terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=40), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        yield StepBar(progress, description)


def _what_is_left() -> Column:
    """Return a column that takes the width which others leave, and is cut where that is too little."""
    return Column(no_wrap=True, overflow="ellipsis", ratio=1)


@contextmanager
def watch(verbosity: int, rounds: int, shows_forecast: bool = True) -> Iterator[Silent]:
    """Show a bar while a training runs, if `verbosity` is 1 or more; it goes to standard error.

    Above it stands what the training will cost, if `shows_forecast`.
    """
    if verbosity < 1:
        yield Silent()
        return
    columns = (
        SpinnerColumn(),
        BarColumn(bar_width=16),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[level]}"),
        *(TextColumn(f"{{task.fields[{name}]}}", table_column=_what_is_left()) for name in ("metric", "cost")),
    )
    with Progress(*columns, console=Console(stderr=True), expand=True) as progress:
        yield ProgressBar(progress, rounds, shows_forecast)
