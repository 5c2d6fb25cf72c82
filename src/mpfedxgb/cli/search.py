"""`search`: parameters by successive halving, within what all roles accept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from mpfedxgb.cli.roles import (
    JsonLogs,
    LogLevel,
    Settings,
    log_failure_and_exit,
    read_settings,
    read_tables,
    say_result,
)
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation import role
from mpfedxgb.federation.search import Result, Search
from mpfedxgb.report.record import reveals_table
from mpfedxgb.units import counted


def search(
    settings: Settings,
    tried: Annotated[
        list[str],
        typer.Option("--try", metavar="NAME=A,B", help="A parameter of [training] and its values; may be repeated."),
    ],
    factor: Annotated[
        int, typer.Option(min=2, help="One of FACTOR candidates goes on, for FACTOR times the boosting rounds.")
    ] = 3,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only say what it would reveal, and ask the others whether they accept it."),
    ] = False,
    json_logs: JsonLogs = False,
    log_level: LogLevel = None,
) -> None:
    r"""Search for parameters at the active participant: train many for a few boosting rounds, the best for more.

    Says first what all trainings together reveal, and asks the others, who run with --accept. Needs [data] evaluate;
    the last of [label] eval_metric decides. The best is trained whole, in the session of the settings.

    \b
    mpfedxgb search bank.toml --try max_depth=3,4,6 --try learning_rate=0.1,0.3,0.5
    """
    mine = read_settings(settings, json_logs, log_level)
    with log_failure_and_exit():
        plan = Search(mine, parse_space(tried), factor)
        rows, evaluation = read_tables(mine)
        rungs = ", then ".join(
            f"{counted(rung.candidates, 'candidate')} for {counted(rung.rounds, 'boosting round')}"
            for rung in plan.rungs
        )
        typer.echo(f"{counted(plan.trainings, 'training')}: {rungs}")
        typer.echo("\n".join(reveals_table("will be revealed in all, at most", plan.ledger(rows, evaluation))))
        plan.ask(rows)
        typer.echo("all roles accept that")
        if dry_run:
            return
        results = plan.run(rows, evaluation, tell=lambda result: typer.echo(result_line(result)))
        say_result(f"the best is {named(results[-1].chosen)}; its model is in {role.model_path(mine)}")


def result_line(result: Result) -> str:
    """Return what came of a training, for people."""
    rounds = counted(result.rounds, "boosting round")
    return f"{result.session:24}{result.metric} {result.value:.5f} after {rounds}: {named(result.chosen)}"


def named(chosen: Mapping[str, Any]) -> str:
    """Return what was chosen, as in --try."""
    return ", ".join(f"{name}={value}" for name, value in chosen.items())


def parse_space(tried: Sequence[str]) -> dict[str, list[Any]]:
    """Return the values of each parameter, from texts such as "max_depth=3,4"; numbers and true or false as such."""
    space: dict[str, list[Any]] = {}
    for text in tried:
        name, equals, values = text.partition("=")
        if not equals or not name or name in space:
            problem = "is given twice" if name in space else "has no values"
            raise SettingsError(f"--try {text} {problem}; write NAME=A,B, each parameter once", "value", "try", text)
        space[name] = [_value(value.strip()) for value in values.split(",") if value.strip()]
    return space


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
