"""`report` and the summary in notebooks, of estimators that were fitted, loaded, or neither."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from sklearn.exceptions import NotFittedError

from mpfedxgb import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.units import bytes_text
from support.pages import parse
from support.refusals import ANY, refused
from support.toy_tables import QUICK, halves, labels, people


@pytest.fixture(scope="module")
def fitted() -> FedXGBClassifier:
    """Return a model of three classes, with an evaluation set."""
    X = people()
    tables, y = halves(X), labels(X, "classes")
    return FedXGBClassifier(**QUICK).fit(tables, y, eval_set=[(tables, y)])


def test_a_page_for_everybody(fitted: FedXGBClassifier, tmp_path: Path) -> None:
    """The active participant's unless another is named; only its owner can read it."""
    page = fitted.report(str(tmp_path / "a.html"))
    assert page == tmp_path / "a.html"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert parse(page.read_text()).all("h1")[0].text == "bank"
    other = fitted.report(tmp_path / "b.html", participant="telecom")
    assert parse(other.read_text()).all("h1")[0].text == "telecom"
    assert [path.name for path in sorted(tmp_path.iterdir())] == ["a.html", "b.html"]


def test_the_forecast_is_beside_what_it_was(fitted: FedXGBClassifier, tmp_path: Path) -> None:
    """For each participant its own, as the record of the run has it."""
    told = fitted.run_.forecast
    assert told is not None
    for name in ("bank", "telecom"):
        page = parse(fitted.report(tmp_path / f"{name}.html", name).read_text())
        (section,) = (one for one in page.all("section") if one.attributes["id"] == "forecast")
        rows = {row.inside[0].text: [cell.text for cell in row.inside[1:]] for row in section.all("tr")[1:]}
        assert rows["message rounds"][:2] == [f"{told.rounds:,}", f"{fitted.run_.rounds:,}"]
        assert rows["bytes sent"][:2] == [bytes_text(c.bytes_sent) for c in (told.roles[name], fitted.run_.roles[name])]
        assert rows["memory"] == [bytes_text(told.memory[name]), "", ""]


def test_of_a_loaded_model(fitted: FedXGBClassifier, tmp_path: Path) -> None:
    """Trees, columns and parameters are there; what the training cost and revealed is not known any more."""
    fitted.save_model(tmp_path / "models")
    again = FedXGBClassifier().load_model(tmp_path / "models")
    page = parse(again.report(tmp_path / "a.html").read_text())
    drawn = [one for one in page.all("svg") if "tree" in one.classes]
    assert len(drawn) == len(fitted.partial_models_[0].trees)
    assert "there is no record of it here" in page.words()
    assert again._repr_html_()


@pytest.mark.parametrize(
    ("path", "participant", "error", "said"),
    [
        (
            "a.html",
            "shop",
            SettingsError,
            ("choice", "participant"),
        ),
        ("none/a.html", None, UserError, ("file", "a.html")),
        (".", None, UserError, ("file", ANY)),
    ],
)
def test_mistakes(
    fitted: FedXGBClassifier,
    tmp_path: Path,
    path: str,
    participant: str | None,
    error: type[UserError],
    said: tuple[Any, ...],
) -> None:
    """Each names the remedy, and nothing is written."""
    with refused(error, *said):
        fitted.report(tmp_path / path, participant)
    assert list(tmp_path.iterdir()) == []


def test_before_fit(tmp_path: Path) -> None:
    """There is no report; a notebook shows scikit-learn's diagram."""
    with pytest.raises(NotFittedError):
        FedXGBRegressor().report(tmp_path / "a.html")
    assert "FedXGBRegressor" in FedXGBRegressor()._repr_html_()
    assert "sk-top-container" in FedXGBRegressor()._repr_mimebundle_()["text/html"]


def test_the_summary_of_a_notebook(fitted: FedXGBClassifier) -> None:
    """Drawings and a few numbers, for the active participant; no script, and nothing outside its own element."""
    bundle = fitted._repr_mimebundle_()
    assert bundle["text/plain"] == repr(fitted)
    (summary,) = parse(bundle["text/html"]).inside
    assert summary.classes == {"mpfedxgb-summary"}
    assert len(summary.all("figure")) >= 4
    assert summary.all("script") == []
    assert all(rule.startswith(".mpfedxgb-summary") for rule in summary.all("style")[0].text.strip().splitlines())
    assert len(bundle["text/html"]) < 60_000
