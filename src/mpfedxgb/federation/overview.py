"""What a role of a federation may know, from its own files: settings, record, model and checkpoints.

Nothing is sent and nothing is written, so a report can be made while the role runs, by the role itself or by another
process of the same organisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpfedxgb.boosting.callbacks import State
from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.errors import CheckpointError, SettingsError
from mpfedxgb.federation.own_training import read_judgement
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.machine import versions
from mpfedxgb.report.history import Attempt, History
from mpfedxgb.report.html.data import ReportData, cost_of
from mpfedxgb.training.checkpoint import read_kept
from mpfedxgb.tree.nodes import Tree

TRAINING = "training"


def overview(settings: RoleSettings, features: Sequence[Feature] = ()) -> ReportData:
    """Return what a role may know by now.

    `features` are its columns, for a training that has written no model yet: without them categories have numbers only.
    """
    history = read_record(settings)
    model = _model(settings)
    kept, notes = _kept(settings)
    if model is not None and kept.trees and not _is_of(model, kept.trees):
        model = None  # of an earlier training, and another one is under way
    evaluation = kept.evaluation if model is None or kept.trees else None
    trees, params = (kept.trees, settings.training) if model is None else (model.trees, model.params)
    attempts = _of_training(history, settings.session.name)
    judgement = read_judgement(settings) if model is not None else None
    return ReportData(
        role=settings.role.name,
        number=settings.owner,
        participants=settings.roster.owner_names,
        coordinator=settings.roster.coordinator,
        federation=settings.federation.name,
        parameters=params.to_dict(),
        spent=cost_of(attempts),
        ledger=tuple(history.total),
        model=model,
        trees=trees,
        trees_per_round=params.trees_per_round,
        features=features if model is None else model.features,
        is_whole=model is not None,
        metrics={} if evaluation is None else evaluation.metrics,
        best_iteration=None if model is None else model.best_iteration,
        judgement=judgement,
        history=history,
        forecast=next((a.content["forecast"] for a in reversed(attempts) if "forecast" in a.content), None),
        notes=notes,
        versions=versions(),
    )


def find_settings(path: Path) -> Path:
    """Return the settings file that is meant by itself, by the folder it is in, or by the role's state folder in that.

    Raises SettingsError if there is none, or more than one.
    """
    if path.is_file():
        return path
    if not path.is_dir():
        text = f"there is no file or folder {path}; give a role's folder, its settings file or its state"
        raise SettingsError(text, "missing", path.name)
    found = sorted(path.glob("*.toml"))
    if not found:
        beside = sorted(path.absolute().parent.glob("*.toml"))
        found = [file for file in beside if RoleSettings.from_toml(file).role.state.resolve() == path.resolve()]
    if len(found) != 1:
        text = f"{len(found)} settings files belong to it" if found else "no settings file belongs to it"
        roles = [str(file.parent) for file in sorted(path.glob("*/*.toml"))]
        which = f", one of {', '.join(roles)}" if roles and not found else ", or its settings file (.toml)"
        raise SettingsError(f"{path}: {text}; give the folder of one role{which}", "missing", path.name)
    return found[0]


def _is_of(model: PartialModel, kept: Sequence[Tree]) -> bool:
    """Return whether a model is of the training whose trees were kept; a sealed one has those up to the best round."""
    best = model.params.facts.sums_only and model.params.may_stop_early
    return tuple(kept[: len(model.trees)] if best else kept) == model.trees


def _model(settings: RoleSettings) -> PartialModel | None:
    path = settings.role.model
    if path is None or not path.is_file():
        return None
    model = PartialModel.load(path)
    if model.name != settings.role.name:
        text = f"{path} is the part of {model.name}, not of {settings.role.name}; correct [role] model"
        raise SettingsError(text, "place", "role.model")
    return model


def _kept(settings: RoleSettings) -> tuple[State, Sequence[str]]:
    """Return the rounds that a participant has kept, and what is to be said if they cannot be read."""
    if settings.is_coordinator:
        return State(0), ()
    try:
        return read_kept(settings.role.state / settings.session.name / "checkpoints"), ()
    except CheckpointError as error:
        return State(0), (f"The boosting rounds that were kept, and their metrics, are missing here: {error}.",)


def _of_training(history: History, session: str) -> list[Attempt]:
    """Return the attempts at the training of a session."""
    found = history.of_session(session).attempts
    return [attempt for attempt in found if attempt.content.get("kind") == TRAINING]
