"""`report`: one HTML page for each participant of a simulation, or for the role of a federation that keeps a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from mpfedxgb.api.models import SUFFIX, load_parts, part_paths
from mpfedxgb.atomic import write_file
from mpfedxgb.cli.simulate import RECORD
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.federation.dashboard import find_settings, overview
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.report.html import page_html
from mpfedxgb.report.html.data import of_simulation
from mpfedxgb.report.versions import versions

_WITHOUT = "remove it to make the report without it, or simulate again"


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A role's folder, settings file or state folder; or a folder of partial models, as simulate writes it."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="Folder for the pages; where the models or settings are, if not given.")
    ] = None,
) -> None:
    """Write a page to look at for each role that has its files here: curves, trees, costs, and what was revealed.

    A page is one HTML file that needs nothing else and loads nothing. It holds what its role may know, also the
    thresholds of its own splits, and only its owner can read the file.
    """
    settings = _settings(folder)
    target = out or (folder if settings is None else settings.parent)
    if not target.is_dir():
        raise SettingsError(f"--out {target} is no folder; give one that exists")
    if settings is None:
        pages = list(_of_models(folder))
    else:
        data = overview(RoleSettings.from_toml(settings))
        pages = [(data.role, page_html(data))]
    for name, page in pages:
        path = target / f"{name}.report.html"
        try:
            write_file(path, page)
        except OSError as error:
            raise UserError(f"cannot write {path}: {error.strerror}") from None
        typer.echo(f"written to {path}")


def _settings(folder: Path) -> Path | None:
    """Return the settings file that belongs to a path; None where it is a folder of models of several participants."""
    if folder.is_dir() and any(folder.glob(f"*{SUFFIX}")) and not any(folder.glob("*.toml")):
        return None
    return find_settings(folder)


def _of_models(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and page of every participant whose part is in a folder."""
    path = folder / RECORD
    run = _read_run(path)
    for part in load_parts(folder):
        if run is not None and run.get("trees", len(part.trees)) != len(part.trees):
            told = f"{path} tells of {run['trees']} trees, and {part.name} has {len(part.trees)}"
            raise UserError(f"{told}; it is of another training, so {_WITHOUT}")
        own = part_paths(folder, part.participants)[part.participant - 1]
        try:
            yield own.name.removesuffix(SUFFIX), page_html(of_simulation(part, run, versions=versions()))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if run is None:
                raise
            raise UserError(f"{path} is damaged ({error!r}); {_WITHOUT}") from None


def _read_run(path: Path) -> dict[str, Any] | None:
    """Return the record of a simulation, if it is there; a damaged one is refused."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged; {_WITHOUT}")
    return content
