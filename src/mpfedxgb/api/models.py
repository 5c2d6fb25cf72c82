"""Models of a whole simulated federation: score, export, save, load and report all participants' parts."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import new_file, write_file
from mpfedxgb.boosting.join import Joined, join, joined_order
from mpfedxgb.boosting.metrics import Range
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.xgboost_json import to_xgboost_json, unreadable_categories
from mpfedxgb.config import SessionSettings
from mpfedxgb.data.table import Table
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.machine import PeakMemory, versions
from mpfedxgb.modes.none.labels import plain_leaves, plain_predict
from mpfedxgb.party.local import LocalRun, run_locally
from mpfedxgb.party.party import Party
from mpfedxgb.party.roster import ACTIVE, Roster
from mpfedxgb.report.html import page_html, summary_html
from mpfedxgb.report.html.data import Metrics, ReportData, of_simulation
from mpfedxgb.report.record import RunRecord, record_run
from mpfedxgb.ring.ring import decode_fixed
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_leaves, secure_predict

_SMALL = 1 << 15
"""Rows times trees up to which the roles of a simulation score on one core."""


def write_report(
    models: Sequence[PartialModel],
    run: RunRecord | None,
    metrics: Metrics,
    judgement: Mapping[str, Any] | None,
    path: Path,
    participant: str | None,
) -> Path:
    """Write the page of one participant, the active one if none is named, and return its path."""
    return write_page(_data(models, run, metrics, judgement, participant), path)


def write_page(data: ReportData, path: Path) -> Path:
    """Write a page, for its owner only, and return its path."""
    return save_text(page_html(data), path)


def save_text(text: str, path: Path) -> Path:
    """Write a text, for its owner only, and return its path."""
    try:
        write_file(path, text)
    except OSError as error:
        raise UserError(
            f"cannot write {path}: {error.strerror}; give a file in a folder that exists", "file", path.name
        ) from None
    return path


def summary(
    models: Sequence[PartialModel], run: RunRecord | None, metrics: Metrics, judgement: Mapping[str, Any] | None
) -> str:
    """Return what a notebook shows: the active participant's summary."""
    return summary_html(_data(models, run, metrics, judgement, None))


def _data(
    models: Sequence[PartialModel],
    run: RunRecord | None,
    metrics: Metrics,
    judgement: Mapping[str, Any] | None,
    participant: str | None,
) -> ReportData:
    named = {model.name: model for model in models}
    model = models[0] if participant is None else named.get(participant)
    if model is None:
        text = f"participant={participant!r} took no part in the training; it is one of {', '.join(named)}"
        raise SettingsError(text, "choice", "participant", participant)
    return of_simulation(model, None if run is None else run.to_dict(), metrics, versions(), judgement)


_log = logging.getLogger("mpfedxgb.model")
SUFFIX = ".mpfedxgb.json"


def predict_margins(
    models: Sequence[PartialModel],
    tables: dict[str, Table],
    settings: SessionSettings,
    start: Floats | None = None,
) -> tuple[Floats, RunRecord]:
    """Score tables with all participants' models in this process; return margins (classes, rows) and record.

    Rows begin at `start`, of that shape too, or at the model's own start if it is None.
    """
    active = models[0]
    rounds = None if active.best_iteration is None else active.best_iteration + 1
    plain = None if active.params.facts.runs_a_protocol else plain_predict
    sums, record = _score(models, tables, rounds, settings, plain, secure_predict)
    assert active.base_margin is not None
    return decode_fixed(sums, active.leaf_scale_bits) + (
        np.array(active.base_margin)[:, None] if start is None else start
    ), record


def predict_leaves(
    models: Sequence[PartialModel], tables: dict[str, Table], chosen: Range, settings: SessionSettings
) -> tuple[npt.NDArray[np.int64], RunRecord]:
    """Return the leaf of every row in every tree of some rounds, (rows, trees), numbered as when joined, and record."""
    active = models[0]
    if active.params.facts.shares_leaf_weights:
        text = (
            f"apply does not go with security={active.params.security!r}, where nobody may know which rows share a "
            "leaf; train with security='strict' if the active participant may"
        )
        raise SettingsError(text, "mode", "apply", active.params.security)
    plain = None if active.params.facts.runs_a_protocol else plain_leaves
    numbers, record = _score(models, tables, chosen[1], settings, plain, secure_leaves)
    per_round = active.params.trees_per_round
    leaves = []
    for i in range(chosen[0] * per_round, chosen[1] * per_round):
        order = np.array(joined_order([model.trees[i] for model in models]))
        leaves.append(np.argsort(order)[numbers[i]])
    return np.ascontiguousarray(np.array(leaves).T), record


def _score(
    models: Sequence[PartialModel],
    tables: dict[str, Table],
    rounds: int | None,
    settings: SessionSettings,
    plain: Callable[..., LocalRun[Any]] | None,
    secure: Callable[..., npt.NDArray[np.int64] | None],
) -> tuple[npt.NDArray[np.int64], RunRecord]:
    """Return what the active participant learns of scored rows, in the clear or by a protocol, and the record."""
    active = models[0]
    roster = roster_of(active.participants, active.coordinator)
    matched = [match_model(tables[model.name], model) for model in models]
    started = time.perf_counter()
    with PeakMemory() as memory:
        if plain is not None:
            run = plain(models, matched, rounds, roster)
        else:
            classes = active.params.outputs

            def program(party: Party, scorer: Scorer | None) -> npt.NDArray[np.int64] | None:
                return secure(party, classes, scorer, rounds if party.is_active else None)

            scorers = [m.scorer(table) for m, table in zip(models, matched, strict=True)]
            private = [(scorer,) for scorer in roster.by_role(scorers, None)]
            is_small = matched[0].rows * len(active.trees) <= _SMALL
            run = run_locally(program, roster, private, settings, one_core=is_small)
    seconds = time.perf_counter() - started
    result = run.results[ACTIVE]
    assert result is not None
    return result, record_run("predict", active, run, settings, seconds, memory.peak)


def match_model(table: Table, model: PartialModel) -> Table:
    """Return a participant's columns as its model knows them."""
    known = {f.name: f.categories for f in model.features if f.categories is not None}
    return table.match([f.name for f in model.features], known)


def part_of(parts: Sequence[PartialModel], participant: str | None) -> PartialModel:
    """Return the part of one participant, the active one if none is named."""
    named = {part.name: part for part in parts}
    if participant is not None and participant not in named:
        text = f"participant={participant!r} has no part here; it is one of {', '.join(named)}"
        raise SettingsError(text, "choice", "participant", participant)
    return parts[0] if participant is None else named[participant]


def to_booster(whole: Joined, codes: bool = False) -> Any:
    """Return the joined model as an `xgboost.Booster` of the trees in use, which matches categories or takes codes."""
    try:
        import xgboost
    except ImportError:
        raise UserError("to_xgboost needs the xgboost package; pip install xgboost", "package", "xgboost") from None
    major, minor, *_ = xgboost.__version__.split(".")
    reader = None if codes else (int(major), int(minor))
    unreadable = [] if reader is None else unreadable_categories(whole, reader)
    if unreadable:
        _log.warning(
            "xgboost %s cannot match categories that are not ASCII and will refuse them in %s; give their codes, which "
            "booster.attr('categories') lists, or use xgboost 3.4 or newer",
            xgboost.__version__,
            ", ".join(unreadable),
        )
    return xgboost.Booster(model_file=bytearray(to_xgboost_json(whole, reader).encode()))


def save_models(models: Sequence[PartialModel], folder: Path) -> list[Path]:
    """Write one file per participant into a folder and return their paths; parts of other participants are refused."""
    names = [model.name for model in models]
    refuse_other_parts(folder, names)
    paths = part_paths(folder, names)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as all_written:  # they get their names once all of them are there, so that parts never mix
            for model, path in zip(models, paths, strict=True):
                all_written.enter_context(new_file(path)).write(model.to_json().encode())
    except OSError as error:
        raise UserError(
            f"cannot write models to {folder}: {error.strerror}; give a folder", "file", folder.name
        ) from None
    return paths


def refuse_other_parts(folder: Path, participants: Sequence[str]) -> None:
    """Raise UserError if parts of other participants are in a folder: beside new ones they would belong to nothing."""
    others = sorted(set(folder.glob(f"*{SUFFIX}")) - set(part_paths(folder, participants)))
    if others:
        names = ", ".join(path.name for path in others[:5])
        text = f"{folder} holds parts of another training ({names}); give an empty folder or remove them"
        raise UserError(text, "mismatch", folder.name)


def part_paths(folder: Path, participants: Sequence[str]) -> list[Path]:
    """Return where parts of these participants are kept in a folder."""
    names = [_file_name(name) for name in participants]
    alike = [names.count(name) > 1 for name in names]  # such as "my bank" and "my_bank"
    return [folder / f"{n}{f'-{m}' if alike[m - 1] else ''}{SUFFIX}" for m, n in enumerate(names, 1)]


def load_models(folder: Path) -> list[PartialModel]:
    """Return all participants' models from a folder, the active one's first; raises UserError if they do not fit."""
    models = load_parts(folder)
    join(models)
    return models


def load_parts(folder: Path) -> list[PartialModel]:
    """Return the partial models that are in a folder, in the order of the participants."""
    paths = sorted(folder.glob(f"*{SUFFIX}")) if folder.is_dir() else []
    if not paths:
        text = f"there are no partial models (*{SUFFIX}) in {folder}; give a folder that a training wrote"
        raise UserError(text, "missing", folder.name)
    return sorted((PartialModel.load(path) for path in paths), key=lambda m: m.participant)


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "_" for c in name)


def roster_of(participants: Iterable[str], owner: str | None = None) -> Roster:
    """Return the roster of a simulation, whose coordinator has a name that no participant has, or is an `owner`."""
    names, coordinator = tuple(participants), "coordinator"
    if owner is not None:
        return Roster.coordinated_by(names, owner)
    while coordinator in names:
        coordinator = f"the {coordinator}"
    return Roster(names, coordinator=coordinator, is_alone=len(names) == 1)
