"""`plan`: what a training will cost, before it runs, from settings, from a table, or from sizes.

`doctor`: whether a role is ready to run, and what to mend if not.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting.objectives import FOR_NUMBERS, OBJECTIVES, RANKINGS
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.cli.simulate import COORDINATES, choose_objective, listed, parse_participants, read_labelled
from mpfedxgb.config import SessionSettings, link_of
from mpfedxgb.costs.capacity import check_limits, check_role, check_simulation
from mpfedxgb.costs.forecast import Forecast, forecast
from mpfedxgb.costs.seconds import timed
from mpfedxgb.data.binning import Candidates, bin_table
from mpfedxgb.data.csv_format import CsvFormat
from mpfedxgb.errors import NoRoomError, SettingsError
from mpfedxgb.federation.doctor import Finding, Severity, examine
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.modes.facts import check_for_real_tables
from mpfedxgb.party.roster import Roster
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.units import counted

EXIT_PROBLEMS = 2

_COLOURS = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "red"}


def doctor(
    settings: Annotated[Path, typer.Argument(help="Settings file of a role (.toml).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print all findings as one JSON object.")] = False,
) -> None:
    """Check a role before it runs: settings, data, certificate, clock, port, peers, versions; say what to mend.

    The exit code is 0 without problems, warnings or not, and 2 with problems.
    """
    findings: list[Finding] = []
    for finding in examine(settings):
        findings.append(finding)
        if not as_json:
            level = typer.style(f"{finding.level:8}", fg=_COLOURS[finding.level])
            typer.echo(f"{level}{finding.check:13}{finding.text}")
    counts = Counter(finding.level for finding in findings)
    if as_json:
        content = {
            "settings": str(settings),
            "problems": counts[Severity.PROBLEM],
            "warnings": counts[Severity.WARNING],
            "findings": [{"check": f.check, "level": str(f.level), "text": f.text} for f in findings],
        }
        typer.echo(json.dumps(content, indent=1))
    else:
        problems, warnings = counts[Severity.PROBLEM], counts[Severity.WARNING]
        typer.echo(f"\n{counted(problems, 'problem', none='no')}, {counted(warnings, 'warning', none='no')}")
    if counts[Severity.PROBLEM]:
        sys.exit(EXIT_PROBLEMS)


_OF_SETTINGS = frozenset({"settings", "rows", "evaluation_rows", "columns", "candidates", "as_json"})
"""Options that say something beside a settings file; the rest stands in it."""

_NOT_OF_TABLES = _OF_SETTINGS - {"as_json"} | {"classes", "weighted"}
"""Options that a table answers by itself."""

_OF_TABLES_ALONE = frozenset({"label", "drop", "categorical", "missing"})


@dataclass(frozen=True, slots=True)
class Asked:
    """Sizes, as they were asked for; None or empty if they were not."""

    rows: int | None
    evaluation_rows: int
    columns: str
    candidates: str


def plan(
    context: typer.Context,
    settings: Annotated[Path | None, typer.Argument(help="Settings file of a role (.toml).")] = None,
    table: Annotated[Path | None, typer.Option(help="CSV or Parquet file with all columns and the label.")] = None,
    label: Annotated[str, typer.Option(help="With --table, the label's column.")] = "",
    drop: Annotated[str, typer.Option(help="With --table, columns to leave out: a,b.")] = "",
    categorical: Annotated[str, typer.Option(help="With --table, columns to read as words: a,b.")] = "",
    missing: Annotated[str, typer.Option(help="With --table, texts that stand for missing values: n.a.,-.")] = "",
    rows: Annotated[int | None, typer.Option(help="Training rows.")] = None,
    evaluation_rows: Annotated[int, typer.Option(help="Evaluation rows.")] = 0,
    columns: Annotated[
        str,
        typer.Option(
            help="Columns of all participants together, or of each: 28, or 10,9,9. A column has bins - 1 "
            "candidates; one with gaps has about twice as many, for which give --candidates."
        ),
    ] = "",
    candidates: Annotated[str, typer.Option(help="Candidate columns of each participant: 310,279,279.")] = "",
    participants: Annotated[
        str, typer.Option(help="How many; with --table also fractions of the columns or column names, as in simulate.")
    ] = "2",
    coordinator: Annotated[str | None, typer.Option(help=COORDINATES)] = None,
    objective: Annotated[str, typer.Option(help="As in simulate; chosen by --classes or the label.")] = "",
    classes: Annotated[int, typer.Option(help="Classes of the label; with more than two, a tree each.")] = 2,
    weighted: Annotated[bool, typer.Option("--weighted", help="Rows have weights.")] = False,
    # generated: options
    trees: Annotated[int, typer.Option(help="Boosting rounds; each grows one tree, or one for each class.")] = 100,
    num_parallel_tree: Annotated[int, typer.Option(help="Trees of a boosting round, for each class.")] = 1,
    max_depth: Annotated[int, typer.Option("--max-depth", "--depth", help="Levels of splits of a tree.")] = 3,
    max_bin: Annotated[
        int, typer.Option("--max-bin", "--bins", help="Most bins of a column; each costs bytes and comparisons.")
    ] = 32,
    min_child_weight: Annotated[float, typer.Option(help="Least sum of hessians on either side of a split.")] = 1.0,
    colsample_bytree: Annotated[float, typer.Option(help="Share of columns in a tree.")] = 1.0,
    colsample_bylevel: Annotated[float, typer.Option(help="Share of the tree's columns in each of its levels.")] = 1.0,
    colsample_bynode: Annotated[float, typer.Option(help="Share of the level's columns in each of its nodes.")] = 1.0,
    reg_alpha: Annotated[float, typer.Option(help="L1 penalty on leaf weights.")] = 0.0,
    max_delta_step: Annotated[
        float | None, typer.Option(help="Most that a leaf may weigh before learning_rate; 0 for no bound.")
    ] = None,
    constrained: Annotated[
        bool, typer.Option(help="Whether columns have directions; each owner has its own in [data] monotone.")
    ] = False,
    first_layer_mask: Annotated[bool, typer.Option(help="Let only the active participant split the root.")] = False,
    security: Annotated[
        str,
        typer.Option(
            help='"sealed" shows nobody anything of a training row. One of strict, sealed.',
            autocompletion=lambda: ["strict", "sealed"],
        ),
    ] = "strict",
    link: Annotated[str, typer.Option(help="What to plan for: local, lan, wan, or ms/Mbit/s as in 20/100.")] = "local",
    topology: Annotated[
        str,
        typer.Option(
            help="How participants are connected: star, over the active one, or mesh, each with each.",
            autocompletion=lambda: ["star", "mesh"],
        ),
    ] = "star",
    # end of generated
    as_json: Annotated[bool, typer.Option("--json", help="Print the forecast as one JSON object.")] = False,
) -> None:
    r"""Tell what a training will cost: rounds, hops, bytes, memory and disk by role, what is revealed, and seconds.

    Counts hold for full trees and are then exact. Seconds are estimated from half a second of measuring here. Nothing
    is sent and nothing is written.

    \b
    mpfedxgb plan bank.toml                                  a role's settings, and its own table
    mpfedxgb plan --table credit.csv --label defaulted --participants 3
    mpfedxgb plan --rows 1000000 --columns 28 --participants 4 --max-depth 5 --trees 50 --link wan
    mpfedxgb plan --rows 50000 --columns 28 --participants 4 --security sealed      beside strict
    """
    if settings is not None and table is not None:
        raise SettingsError("give a settings file or --table, not both", "place", "table")
    _refuse_idle_options(context, settings, table)
    check_for_real_tables(security, "a plan")
    asked = Asked(rows, evaluation_rows, columns, candidates)
    chosen: dict[str, Any] = {
        # generated: planned
        "n_estimators": trees,
        "num_parallel_tree": num_parallel_tree,
        "max_depth": max_depth,
        "max_bin": max_bin,
        "min_child_weight": min_child_weight,
        "colsample_bytree": colsample_bytree,
        "colsample_bylevel": colsample_bylevel,
        "colsample_bynode": colsample_bynode,
        "reg_alpha": reg_alpha,
        "max_delta_step": max_delta_step,
        "constrained": constrained,
        "first_layer_mask": first_layer_mask,
        "security": security,
        # end of generated
    }
    params = TrainParams(
        objective=objective or ("multi:softprob" if classes > 2 else TrainParams().objective),
        num_class=classes if classes > 2 else 1,
        weighted=weighted,
        **chosen,
    )
    if settings is not None:
        predicted, verdict = _of_settings(settings, asked)
    elif table is not None:
        if not label:
            raise SettingsError("--table needs --label, the name of the label's column", "missing", "label")
        X, y = read_labelled(table, label, drop, categorical, CsvFormat(missing=tuple(listed(missing))))
        predicted, verdict = _of_table(
            X, y, participants, objective, {**chosen, "coordinator": coordinator, "link": link, "topology": topology}
        )
    else:
        predicted, verdict = _of_sizes(params, participants, coordinator, asked, link, topology)
    if as_json:
        typer.echo(json.dumps({**predicted.to_dict(), "room": verdict}, indent=1))
    else:
        typer.echo(f"{predicted}\n\n{verdict}")


def _refuse_idle_options(context: typer.Context, settings: Path | None, table: Path | None) -> None:
    """Raise SettingsError for an option that was given and would change nothing."""
    for option in context.command.params:
        name = option.name or ""
        source = context.get_parameter_source(name)
        if source is None or source.name != "COMMANDLINE":
            continue
        shown = option.opts[0]
        if settings is not None and name not in _OF_SETTINGS:
            raise SettingsError(
                f"{shown} goes with --table or sizes; here {settings} says it: change it there", "place", name
            )
        if table is not None and name in _NOT_OF_TABLES:
            raise SettingsError(f"{shown} goes with sizes; {table} says it by itself: leave it out", "place", name)
        if settings is None and table is None and name in _OF_TABLES_ALONE:
            raise SettingsError(f"{shown} goes with --table; name the table too", "place", name)


def _of_settings(path: Path, asked: Asked) -> tuple[Forecast, str]:
    """Return the forecast for a role: of the others' tables, only what was asked for is known."""
    mine = RoleSettings.from_toml(path)
    params, roster, rows, later, own = mine.training, mine.roster, asked.rows, asked.evaluation_rows, None
    if mine.data is not None and mine.data.train is not None:
        read = read_rows(mine, "train").table
        rows, own = read.rows, len(Candidates(bin_table(read, params.max_bin, params.binning)))
        if mine.data.evaluate is not None:
            later = read_rows(mine, "evaluate").table.rows
    if rows is None:
        raise SettingsError(f"{path} names no training table; give --rows and --columns", "missing", "rows")
    if asked.columns or asked.candidates:
        counts = _candidates(asked, len(roster.owners), params.max_bin)
    elif own is None:
        raise SettingsError(f"{path} names no training table; give --columns or --candidates", "missing", "columns")
    else:
        counts = (own,) * len(roster.owners)
        typer.echo(
            f"{own} candidate columns here, and as many assumed at each other participant (or --columns)", err=True
        )
    if own is not None:
        counts = tuple(own if m == mine.owner else count for m, count in enumerate(counts, 1))
    sizes = TableSizes(rows, later, counts, roster.coordinator_owns)
    predicted = forecast(params, sizes, roster, mine.session_settings(), keeps_rounds=True, beside_strict=True)
    predicted = timed(predicted, together=False)
    try:
        spooled = check_limits([mine.number], params, sizes, mine.limits)
        check_role(mine.role.name, mine.number, params, sizes, mine.role.state, in_spool=spooled)
    except NoRoomError as error:
        return predicted, f"no room here: {error}"
    return (
        predicted,
        f"this machine has room for {mine.role.name}{', and its spool for the matrices' if spooled else ''}",
    )


_AS_COSTLY = "reg:absoluteerror"
"""An objective that costs what those cost that take a column beside the label: no scale of theirs is public either."""


def _of_table(
    X: pd.DataFrame,
    y: pd.Series[Any],
    participants: str,
    objective: str,
    chosen: dict[str, Any],
) -> tuple[Forecast, str]:
    """Return the forecast of a simulation on a table."""
    objective, _ = choose_objective(y, objective)
    kind = FedXGBRegressor if objective in (*FOR_NUMBERS, *RANKINGS) else FedXGBClassifier
    if objective in OBJECTIVES and OBJECTIVES[objective].beside:  # groups and bounds are P_1's, and cost nothing
        objective, y = _AS_COSTLY, y * 0.0
    constrained, numbers = chosen.pop("constrained"), X.select_dtypes("number").columns
    if constrained and numbers.empty:
        raise SettingsError("--constrained needs a column of numbers, and the table has none", "place", "constrained")
    directions = {numbers[0]: 1} if constrained else None  # whichever it is costs the same
    model = kind(
        participants=parse_participants(participants),
        objective=objective,
        monotone_constraints=directions,
        **chosen,
    )
    predicted = model.forecast(X, y)
    return predicted, _room_for_all(predicted)


def _of_sizes(
    params: TrainParams, participants: str, coordinator: str | None, asked: Asked, link: str, topology: str
) -> tuple[Forecast, str]:
    """Return the forecast from sizes alone."""
    if asked.rows is None or not (asked.columns or asked.candidates):
        raise SettingsError(
            "say what to plan: a settings file, --table, or --rows with --columns or --candidates", "missing", "rows"
        )
    if asked.rows < 1 or asked.evaluation_rows < 0:
        text = f"--rows {asked.rows} and --evaluation-rows {asked.evaluation_rows} cannot be; count rows"
        raise SettingsError(text, "range", "rows", asked.rows)
    count = parse_participants(participants)
    if not isinstance(count, int):
        text = f"--participants {participants} needs a --table; without one give a number"
        raise SettingsError(text, "type", "participants", participants)
    roster, chosen = Roster.numbered(count), link_of(link)
    columns = dict(zip(roster.participants, _candidates(asked, count, params.max_bin), strict=True))
    if coordinator is not None:
        roster = Roster.coordinated_by(roster.participants, coordinator)
    own = tuple(columns[name] for name in roster.owner_names)
    sizes = TableSizes(asked.rows, asked.evaluation_rows, own, roster.coordinator_owns)
    settings = SessionSettings(parameters=params.to_json(), link=chosen, topology=topology)
    predicted = timed(forecast(params, sizes, roster, settings, beside_strict=True), together=link == "local")
    return predicted, _room_for_all(predicted)


def _room_for_all(predicted: Forecast) -> str:
    try:
        check_simulation(predicted.params, predicted.sizes)
    except NoRoomError as error:
        return f"no room here: {error}"
    return "this machine has room for all roles together"


def _candidates(asked: Asked, participants: int, bins: int) -> tuple[int, ...]:
    """Return the candidate columns of each participant."""
    if asked.candidates:
        return _numbers("--candidates", asked.candidates, participants)
    if "," in asked.columns:
        each = _numbers("--columns", asked.columns, participants)
    else:
        (whole,) = _numbers("--columns", asked.columns, 1)
        each = tuple(whole // participants + (m < whole % participants) for m in range(participants))
    return tuple(count * (bins - 1) for count in each)


def _numbers(option: str, text: str, count: int) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = (-1,)
    if len(numbers) != count or min(numbers) < 0:
        text = f"{option} {text} is not understood; give {count} whole numbers, with commas between"
        raise SettingsError(text, "value", option.lstrip("-"), text)
    return numbers
