"""`importance`: how much columns matter, as the owner of a partial model may compute it alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from mpfedxgb.api.models import load_parts
from mpfedxgb.boosting.importance import feature_importance, owner_importance
from mpfedxgb.boosting.model import PartialModel


def importance(
    model: Annotated[Path, typer.Argument(help="A participant's partial model, or a folder of several.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell how much a participant's own features matter, and how often each participant's columns split.

    A part of a model is enough: every participant may know the splits of its own features and who owns each split.
    Gains and covers are known to the active participant alone, and after a sealed training to nobody. A folder of parts
    is told part by part.
    """
    parts = load_parts(model) if model.is_dir() else [PartialModel.load(model)]
    if as_json:
        typer.echo(json.dumps({part.name: _content(part) for part in parts}, indent=1, ensure_ascii=False))
        return
    for number, part in enumerate(parts):
        typer.echo(("\n" if number else "") + _page(part))


def _knows_gains(part: PartialModel) -> bool:
    return part.is_active and not part.params.shares_weights


def _features(part: PartialModel) -> pd.DataFrame:
    """Return a row for each of the participant's features, the most used first."""
    table = pd.DataFrame({"splits": feature_importance(part).astype(int)})
    if _knows_gains(part):
        table = table.assign(gain=feature_importance(part, "gain"), cover=feature_importance(part, "cover"))
    return table.sort_values("splits", ascending=False, kind="stable")


def _owners(part: PartialModel) -> pd.DataFrame:
    table = pd.DataFrame({"splits": owner_importance(part).astype(int)})
    return table.assign(total_gain=owner_importance(part, "total_gain")) if _knows_gains(part) else table


def _content(part: PartialModel) -> dict[str, Any]:
    return {"features": _features(part).to_dict("index"), "owners": _owners(part).to_dict("index")}


def _page(part: PartialModel) -> str:
    role = "active" if part.is_active else "auxiliary"
    lines = [f"{part.name} ({role}), {len(part.trees)} trees, {part.params.objective}", ""]
    for title, table in (("own feature", _features(part)), ("owner", _owners(part))):
        width = max(len(title), *(len(str(name)) for name in table.index), 0) if len(table) else len(title)
        lines.append(f"{title:{width}}" + "".join(f"{name:>12}" for name in table.columns))
        for name, row in table.iterrows():
            lines.append(f"{name!s:{width}}" + "".join(_cell(column, row[column]) for column in table.columns))
        lines.append("")
    return "\n".join(lines[:-1])


def _cell(column: str, value: float) -> str:
    return f"{int(value):>12}" if column == "splits" else f"{value:>12.4g}"
