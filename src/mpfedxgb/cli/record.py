"""`record`: everything that a role has ever taken part in, and what was revealed to whom."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.settings import RoleSettings


def record(
    settings: Annotated[Path, typer.Argument(help="Settings file of a role (.toml).")],
    session: Annotated[str | None, typer.Option("--session", help="Only the attempts of this session.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")] = False,
) -> None:
    """Print what was revealed to whom, in every attempt at a training or scoring so far and in total."""
    found = read_record(RoleSettings.from_toml(settings)).of_session(session)
    typer.echo(json.dumps(found.to_dict(), indent=1) if as_json else str(found))
