"""The report of a simulated federation: a page for one participant, and the summary that notebooks show."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.report.html import page_html, summary_html
from mpfedxgb.report.html.facts import Facts, Metrics, of_simulation
from mpfedxgb.report.record import RunRecord
from mpfedxgb.report.versions import versions


def write_report(
    models: Sequence[PartialModel], run: RunRecord | None, metrics: Metrics, path: Path, participant: str | None
) -> Path:
    """Write the page of one participant, the active one if none is named, and return its path."""
    return write_page(_facts(models, run, metrics, participant), path)


def write_page(facts: Facts, path: Path) -> Path:
    """Write a page, for its owner only, and return its path."""
    try:
        write_file(path, page_html(facts))
    except OSError as error:
        raise UserError(f"cannot write {path}: {error.strerror}; give a file in a folder that exists") from None
    return path


def summary(models: Sequence[PartialModel], run: RunRecord | None, metrics: Metrics) -> str:
    """Return what a notebook shows: the active participant's summary."""
    return summary_html(_facts(models, run, metrics, None))


def _facts(models: Sequence[PartialModel], run: RunRecord | None, metrics: Metrics, participant: str | None) -> Facts:
    named = {model.name: model for model in models}
    model = models[0] if participant is None else named.get(participant)
    if model is None:
        raise SettingsError(
            f"participant={participant!r} took no part in the training; it is one of {', '.join(named)}"
        )
    return of_simulation(model, None if run is None else run.to_dict(), metrics, versions())
