"""`align`: find the rows that all participants have, before a training."""

from __future__ import annotations

from typing import Annotated

import typer

from mpfedxgb.cli.logs import say_result
from mpfedxgb.cli.roles import JsonLogs, LogLevel, Settings, last_line_in_the_log, read_settings, read_tables
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation import role
from mpfedxgb.federation.aligning import NAMES
from mpfedxgb.report.progress import watch_steps


def align(
    settings: Settings,
    n_jobs: Annotated[
        int | None, typer.Option("--n-jobs", min=1, help="Threads to compute with; one per core if not given.")
    ] = None,
    json_logs: JsonLogs = False,
    log_level: LogLevel = None,
) -> None:
    """Find the rows that all participants have, without showing each other the rest; trainings then take those.

    All participants run it together, the coordinator is started as for a training and sees nothing of it. Needs
    align = true in [data] and the extra mpfedxgb[align]. A training does the same if it has not been done.
    """
    mine = read_settings(settings, json_logs, log_level)
    if mine.is_coordinator:
        raise SettingsError(f"{settings} is for the coordinator; run: mpfedxgb coordinator {settings}")
    with last_line_in_the_log():
        rows, evaluation = read_tables(mine)
        before = {"train": rows, "evaluate": evaluation}
        with watch_steps(f"{mine.role.name}: comparing ids") as on_progress:
            found = role.align(mine, rows, evaluation, n_jobs, on_progress)
        for what, common in found.items():
            of = before[what]
            assert of is not None
            say_result(f"{mine.role.name}: {len(common.ids)} of {len(of.ids)} {NAMES[what]} rows are in common")
