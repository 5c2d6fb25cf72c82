"""`report` on the folder of a simulation."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from mpfedxgb.cli.exit_codes import ExitCode
from support.commands import Shell
from support.pages import parse
from support.toy_tables import labels, people


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture
def models(shell: Shell, tmp_path: Path) -> Path:
    """Return the folder of a simulation of three."""
    X = people()
    X.assign(label=labels(X, "binary")).to_csv(tmp_path / "t.csv", index=False)
    words = ["--participants", "3", "--trees", "2", "--max-depth", "2", "--max-bin", "6", "--json"]
    assert shell.run("simulate", tmp_path / "t.csv", "--label", "label", "--out", tmp_path / "out", *words) == 0
    return tmp_path / "out"


def test_a_page_for_each_participant(shell: Shell, models: Path) -> None:
    """Beside the models, for its owner only; scores are in the active participant's alone."""
    assert shell.run("report", models) == ExitCode.DONE
    assert shell.out.splitlines() == [f"written to {models / f'P{m}.report.html'}" for m in (1, 2, 3)]
    pages = [parse((models / f"P{m}.report.html").read_text()) for m in (1, 2, 3)]
    assert [page.all("h1")[0].text for page in pages] == ["P1", "P2", "P3"]
    assert ["Scored together on 70 rows" in page.words() for page in pages] == [True, False, False]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in models.glob("*.html"))


def test_without_the_record(shell: Shell, models: Path, tmp_path: Path) -> None:
    """The trees are there all the same."""
    (models / "run.json").unlink()
    assert shell.run("report", models, "--out", tmp_path) == ExitCode.DONE
    page = parse((tmp_path / "P1.report.html").read_text())
    assert [one for one in page.all("svg") if "tree" in one.classes]
    assert "there is no record of it here" in page.words()


@pytest.mark.parametrize(
    "content",
    ["{", "[]", '{"ledger": [1]}', '{"roles": {"P1": {}}, "seconds": "x"}', '{"metrics": {"a": {"b": [[]]}}}'],
)
def test_a_damaged_record(shell: Shell, models: Path, content: str) -> None:
    """It is named, with the remedy, and no page is written."""
    (models / "run.json").write_text(content)
    assert shell.run("report", models) == ExitCode.USER
    assert "run.json is damaged" in shell.err
    assert "remove it to make the report without it" in shell.err
    assert list(models.glob("*.html")) == []


def test_a_record_of_another_training(shell: Shell, models: Path) -> None:
    """Its costs and reveals would be told of the wrong model."""
    path = models / "run.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "trees": 3}))
    assert shell.run("report", models) == ExitCode.USER
    assert "tells of 3 trees, and P1 has 2" in shell.err


def test_a_folder_of_nothing(shell: Shell, tmp_path: Path) -> None:
    """The message says what to give."""
    assert shell.run("report", tmp_path) == ExitCode.USER
    assert "no settings file belongs to it; give the folder of one role, or its settings file (.toml)" in shell.err
    assert shell.run("report", tmp_path, "--out", tmp_path / "none") == ExitCode.USER
