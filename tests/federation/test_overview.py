"""What a role's own files tell: after a training, in the middle of one, after scorings, and where files are missing."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from federation.test_record import organisations, score_all, stop_after, train_all
from mpfedxgb import Federation
from mpfedxgb.boosting.model import Feature
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.errors import SettingsError
from mpfedxgb.federation.overview import find_settings, overview
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.role import load_model
from mpfedxgb.report.html import page_html
from mpfedxgb.training.checkpoint import ROUNDS
from support.commands import Shell
from support.pages import parse
from support.refusals import ANY, refused
from support.switchboard import Organisations


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Organisations:
    """Return a federation after a training that was stopped once, its end, and a scoring."""
    with pytest.MonkeyPatch.context() as patch:
        made = organisations(tmp_path_factory.mktemp("federation"), patch)
        stopped = train_all(made, callback=stop_after(2))
        assert all(isinstance(error, BaseException) for error in stopped)
        for role in (1, 2):
            unfinished[role] = page_html(overview(made.settings(role)))
        assert not any(isinstance(one, BaseException) for one in train_all(made))
        assert not any(isinstance(one, BaseException) for one in score_all(made))
    return made


unfinished: dict[int, str] = {}
"""Pages from the middle of the training."""


def test_the_active_participant(places: Organisations) -> None:
    """Its model, the metrics of all rounds of both attempts, the cost of both, and the ledger of everything."""
    settings = places.settings(1)
    facts = overview(settings)
    assert facts.is_active
    assert facts.is_whole
    assert facts.model == load_model(settings)
    assert {name: len(values) for name, values in facts.metrics["validation_0"].items()} == {"logloss": 3}
    attempts = read_record(settings).attempts
    assert [a.content["kind"] for a in attempts] == ["training", "training", "scoring"]
    assert facts.spent.rounds == sum(a.content["rounds"] for a in attempts[:2])
    assert facts.spent_ever.rounds == sum(a.content["rounds"] for a in attempts)
    assert facts.spent.total.bytes_sent == facts.spent.bytes_sent
    assert facts.ledger == tuple(read_record(settings).total)
    assert facts.forecast is not None
    assert facts.forecast["rounds"] > 0
    assert 'id="forecast"' in page_html(facts)


def test_an_auxiliary(places: Organisations) -> None:
    """Its own part, and no metric."""
    facts = overview(places.settings(2))
    assert (facts.number, facts.role, facts.federation) == (2, "telecom", "trial")
    assert facts.model == load_model(places.settings(2))
    assert facts.metrics == {}


def test_the_coordinator(places: Organisations) -> None:
    """No model and no trees; its record, and a page of that."""
    facts = overview(places.settings(0))
    assert facts.is_coordinator
    assert (facts.model, tuple(facts.trees)) == (None, ())
    assert facts.spent_ever.bytes_sent > 0
    page = parse(page_html(facts))
    assert "no data and no part of the model" in page.words()
    found = [section.attributes["id"] for section in page.all("section")]
    assert found == ["ledger", "cost", "forecast", "attempts", "parameters"]


def test_in_the_middle_of_a_training(places: Organisations) -> None:
    """The rounds that are kept are there already: trees, and at the active participant metrics."""
    assert places
    for role, html in unfinished.items():
        page = parse(html)
        tiles = {d.all("dt")[0].text: d.all("dd")[0].text for d in page.all("dl")[0].inside}
        assert int(tiles["trees so far"]) >= 1
        assert ("logloss" in tiles) == (role == 1)


def test_categories_have_names_if_columns_are_told(places: Organisations, tmp_path: Path) -> None:
    """Without a model only the role itself knows what its categories are called."""
    settings = places.settings(1)
    model = load_model(settings)
    assert settings.role.model is not None
    aside = shutil.move(settings.role.model, tmp_path / "model")
    try:
        named = [Feature(f.name, f.categories) for f in model.features]
        told, untold = overview(settings, named), overview(settings)
    finally:
        shutil.move(aside, settings.role.model)
    assert (told.is_whole, tuple(told.trees)) == (False, model.trees)
    assert list(told.features) == named
    assert list(untold.features) == []
    assert page_html(untold)


def test_a_role_that_never_ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing to tell, and nothing is written."""
    places = organisations(tmp_path, monkeypatch)
    before = sorted(tmp_path.rglob("*"))
    for role in places.roles:
        assert not parse(page_html(overview(places.settings(role)))).all("figure")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_foreign_model_is_refused(places: Organisations, tmp_path: Path) -> None:
    """It would show another participant's thresholds."""
    home = shutil.copytree(places.home(1), tmp_path / "bank")
    shutil.copy(places.home(2) / "telecom.mpfedxgb.json", home / "bank.mpfedxgb.json")
    settings = Federation.from_toml(home / "bank.toml").settings
    with refused(SettingsError, "place", "role.model"):
        overview(settings)


# The command


def test_the_command_finds_the_role(
    places: Organisations, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """By its folder, its settings file or its state folder; the page is its owner's alone."""
    shell = Shell(monkeypatch, capsys)
    home = places.home(1)
    for given in (home, home / "bank.toml", home / "state"):
        page = home / "bank.report.html"
        assert shell.run("report", given) == ExitCode.DONE
        assert stat.S_IMODE(page.stat().st_mode) == 0o600
        assert parse(page.read_text()).all("h1")[0].text == "bank"
        page.unlink()
    assert shell.run("report", places.home(0), "--out", tmp_path) == ExitCode.DONE
    assert shell.out == f"written to {tmp_path / 'coordinator.report.html'}\n"


def test_from_python(places: Organisations, tmp_path: Path) -> None:
    """As a method of the role."""
    made = Federation(places.settings(2)).report(tmp_path / "mine.html")
    assert parse(made.read_text()).all("h1")[0].text == "telecom"


def test_folders_that_say_nothing(tmp_path: Path, places: Organisations) -> None:
    """None, several, or another role's: the message asks for the settings file."""
    with refused(SettingsError, "missing", "none"):
        find_settings(tmp_path / "none")
    with refused(SettingsError, "missing", tmp_path.name):
        find_settings(tmp_path)
    for role in (1, 2):
        shutil.copy(places.trial.settings(role), tmp_path)
    with refused(SettingsError, "missing", ANY):
        find_settings(tmp_path)
    with refused(SettingsError, "missing", "federation0"):
        find_settings(places.trial.folder)


def test_damaged_checkpoints_are_said(places: Organisations, tmp_path: Path) -> None:
    """The model is shown all the same, without the metrics."""
    home = shutil.copytree(places.home(1), tmp_path / "bank")
    (path,) = home.rglob(ROUNDS)
    path.write_bytes(b"what is this")
    facts = overview(Federation.from_toml(home / "bank.toml").settings)
    assert facts.is_whole
    assert facts.metrics == {}
    assert "are missing here: the checkpoint" in page_html(facts)
