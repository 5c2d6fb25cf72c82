"""`join` and `export-xgboost`: the whole model from all participants' parts, if all of them agree to that.

`importance`: how much columns matter, as the owner of a partial model may compute it alone.

`report`: one HTML page for each participant of a simulation, or for the role of a federation that keeps a folder.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import typer

from mpfedxgb.api.models import SUFFIX, load_parts, part_paths
from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.join import Joined, JoinedSplit, JoinedTree, feature_importance, owner_importance
from mpfedxgb.boosting.join import join as join_parts
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.xgboost_json import category_codes, feature_names, to_xgboost_json
from mpfedxgb.cli.simulate import RECORD
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.federation.overview import find_settings, overview
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.machine import versions
from mpfedxgb.report.html import page_html
from mpfedxgb.report.html.data import of_simulation
from mpfedxgb.tree.leaf import WEIGHT_BITS


def importance(
    model: Annotated[Path, typer.Argument(help="A participant's partial model, or a folder of several.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Tell how much a participant's own features matter, and how often each participant's columns split.

    A part of a model is enough: every participant may know the splits of its own features and who owns each split.
    Gains and covers are known to the active participant alone, and after a sealed training to nobody. A folder of parts
    is printed part by part.
    """
    parts = load_parts(model) if model.is_dir() else [PartialModel.load(model)]
    if as_json:
        typer.echo(json.dumps({part.name: _importance_content(part) for part in parts}, indent=1, ensure_ascii=False))
        return
    for number, part in enumerate(parts):
        typer.echo(("\n" if number else "") + _page(part))


def _knows_gains(part: PartialModel) -> bool:
    return part.is_active and not part.params.facts.shares_leaf_weights


def _features(part: PartialModel) -> pd.DataFrame:
    """Return a row for each of the participant's features, the most used first."""
    table = pd.DataFrame({"splits": feature_importance(part).astype(int)})
    if _knows_gains(part):
        table = table.assign(gain=feature_importance(part, "gain"), cover=feature_importance(part, "cover"))
    return table.sort_values("splits", ascending=False, kind="stable")


def _owners(part: PartialModel) -> pd.DataFrame:
    table = pd.DataFrame({"splits": owner_importance(part).astype(int)})
    return table.assign(total_gain=owner_importance(part, "total_gain")) if _knows_gains(part) else table


def _importance_content(part: PartialModel) -> dict[str, Any]:
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


FORMAT = "mpfedxgb joined model"
VERSION = 1

_Models = Annotated[
    list[Path], typer.Argument(help="Every participant's partial model, or a folder that holds them all.")
]


def join(models: _Models, out: Annotated[Path, typer.Option(help="JSON file for the whole model.")]) -> None:
    """Join the partial models of all participants into the whole model, as JSON to read: who splits on what, and where.

    Anyone who has this file knows all participants' splits and thresholds, so all of them have to agree.
    """
    parts = _load(models)
    whole = join_parts(parts)
    _write(out, json.dumps(_content(whole, parts), indent=1, ensure_ascii=False) + "\n", models)
    owners = ", ".join(whole.participants)
    typer.echo(f"{len(whole.trees)} trees of {owners} written to {out}")


def export_xgboost(
    models: _Models, out: Annotated[Path, typer.Option(help="File for the XGBoost model; its name ends in .json.")]
) -> None:
    """Join the partial models of all participants into a model that the xgboost package loads and scores with.

    It has the trees that predict, so after early stopping those up to the best round. What the codes of categories
    stand for is written beside it.
    """
    if out.suffix != ".json":
        raise SettingsError(
            f"--out {out} does not end in .json, by which xgboost tells the format; name it so", "value", "out", out
        )
    whole = join_parts(_load(models))
    _write(out, to_xgboost_json(whole), models)
    typer.echo(f"{len(whole.trees_in_use)} trees written to {out}: xgboost.Booster(model_file={str(out)!r})")
    typer.echo(f"Its columns, in this order: {', '.join(feature_names(whole))}")
    codes = category_codes(whole)
    for name, words in codes.items():
        typer.echo(f"Codes of {name}: {', '.join(f'{word} = {code}' for code, word in enumerate(words))}")
    if codes:
        beside = out.with_name(f"{out.stem}.categories.json")
        _write(beside, json.dumps(codes, indent=1, ensure_ascii=False) + "\n", models)
        typer.echo(f"The codes are in {beside} too, the first category of a column being 0")


def _load(paths: Sequence[Path]) -> list[PartialModel]:
    """Return partial models from files and folders."""
    parts: list[PartialModel] = []
    for path in paths:
        parts += load_parts(path) if path.is_dir() else [PartialModel.load(path)]
    for warning in {p.params.facts.warning for p in parts if not p.params.facts.runs_a_protocol}:
        typer.echo(f"mpfedxgb: {warning}", err=True)
    return parts


def _content(whole: Joined, parts: Sequence[PartialModel]) -> dict[str, Any]:
    """Return the whole model as nested plain values."""
    per_round = whole.params.trees_per_round
    classes = next(part.classes for part in parts if part.is_active)
    return {
        "format": FORMAT,
        "version": VERSION,
        "participants": list(whole.participants),
        "params": whole.params.to_dict(),
        "classes": None if classes is None else list(classes),
        "base_margin": list(whole.base_margin),
        "best_iteration": whole.best_iteration,
        "features": [
            {"owner": whole.participants[owner - 1], "name": feature.name}
            | ({} if feature.categories is None else {"categories": list(feature.categories)})
            for owner, feature in whole.features
        ],
        "trees": [
            {"round": number // per_round}
            | ({"class": whole.params.output_of(number)} if whole.params.outputs > 1 else {})
            | ({} if whole.tree_scales is None else {"scale": whole.tree_scales[number]})
            | {"root": _node(whole, tree, 0)}
            for number, tree in enumerate(whole.trees)
        ],
    }


def _node(whole: Joined, tree: JoinedTree, number: int) -> dict[str, Any]:
    node = tree[number]
    if not isinstance(node, JoinedSplit):
        assert node.weight is not None
        return {"leaf": math.ldexp(node.weight, -WEIGHT_BITS), "cover": node.cover}
    return {
        "owner": whole.participants[node.owner - 1],
        "feature": node.feature,
        "left_if": _condition(whole, node),
        "missing": "left" if node.missing_left else "right",
        "gain": node.gain,
        "left": _node(whole, tree, node.left),
        "right": _node(whole, tree, node.right),
    }


def _condition(whole: Joined, node: JoinedSplit) -> dict[str, Any]:
    """Return which present values go left."""
    if node.category is not None:
        feature = next(f for owner, f in whole.features if (owner, f.name) == (node.owner, node.feature))
        assert feature.categories is not None
        return {"is_not": feature.categories[node.category]}
    assert node.threshold is not None
    if math.isinf(node.threshold):
        return {"is_present": node.threshold > 0}
    return {"at_most": node.threshold}


def _write(out: Path, text: str, inputs: Sequence[Path]) -> None:
    """Write a file, whole or not at all, and never over a partial model."""
    if out.is_dir() or any(out.resolve() == path.resolve() for path in inputs):
        what = "a folder" if out.is_dir() else "one of the partial models"
        raise SettingsError(f"--out {out} is {what}; give another file", "file", "out", out)
    try:
        write_file(out, text)
    except OSError as error:
        raise UserError(
            f"cannot write {out}: {error.strerror}; give a file in a folder that exists", "file", out.name
        ) from None


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
        raise SettingsError(f"--out {target} is no folder; give one that exists", "file", "out", target)
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
            raise UserError(f"cannot write {path}: {error.strerror}", "file", path.name) from None
        typer.echo(f"written to {path}")


def _settings(folder: Path) -> Path | None:
    """Return the settings file that belongs to a path; None if it is a folder of models of several participants."""
    if folder.is_dir() and any(folder.glob(f"*{SUFFIX}")) and not any(folder.glob("*.toml")):
        return None
    return find_settings(folder)


def _of_models(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the name and page of every participant whose part is in a folder."""
    path = folder / RECORD
    run = _read_run(path)
    for part in load_parts(folder):
        if run is not None and run.get("trees", len(part.trees)) != len(part.trees):
            text = f"{path} tells of {run['trees']} trees, and {part.name} has {len(part.trees)}"
            raise UserError(f"{text}; it is of another training, so {_WITHOUT}", "mismatch", path.name)
        own = part_paths(folder, part.participants)[part.participant - 1]
        try:
            yield own.name.removesuffix(SUFFIX), page_html(of_simulation(part, run, versions=versions()))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            if run is None:
                raise
            raise UserError(f"{path} is damaged ({error!r}); {_WITHOUT}", "damaged", path.name) from None


def _read_run(path: Path) -> dict[str, Any] | None:
    """Return the record of a simulation, if it is there; a damaged one is refused."""
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged; {_WITHOUT}", "damaged", path.name)
    return content
