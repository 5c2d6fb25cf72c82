"""`record`: everything that a role has ever taken part in, and what was revealed to whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mpfedxgb.errors import CheckpointError, UserError
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.report.history import History


def record(
    settings: Annotated[Path, typer.Argument(help="Settings file of a role (.toml).")],
    session: Annotated[str | None, typer.Option("--session", help="Only the attempts of this session.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Only check that every line is there and as it was written; 7 if not.")
    ] = False,
) -> None:
    """Print what was revealed to whom, in every attempt at a training or scoring so far and in total."""
    mine = RoleSettings.from_toml(settings)
    found = read_record(mine)
    if verify:
        typer.echo(_verdict(found, mine.role.state))
        return
    found = found.of_session(session)
    typer.echo(json.dumps(found.to_dict(), indent=1) if as_json else str(found))


def _verdict(found: History, folder: Path) -> str:
    """Return that a record is as it was written; raises CheckpointError, which names the first bad place, if not."""
    if found.problems:
        more = f"; and {len(found.problems) - 1} more" if len(found.problems) > 1 else ""
        raise CheckpointError(
            f"the record in {folder} is not as it was written: {found.problems[0]}{more}. Keep it as it is, and "
            "compare it with a backup"
        )
    if not found.chained:
        what = "is not chained, since an earlier version wrote it" if found.unchained else "is not there"
        raise UserError(f"the record in {folder} {what}; there is nothing to verify")
    return "\n".join([f"ok: {found.chained} lines, all as they were written; digest {found.digest}", *found.warnings()])
