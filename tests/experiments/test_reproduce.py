"""The command `reproduce`: what it prints, what it writes, how it fails."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import mpfedxgb
from experiments import items
from experiments.output import Result, Row
from experiments.setting import Setup
from mpfedxgb.cli import main, reproduce

Output = pytest.CaptureFixture[str]


def _draw(figure: Any) -> None:
    figure.subplots().plot([1, 2])


def _instead_of(name: str) -> Any:
    def run(setup: Setup) -> Result:
        setup.on_progress("working")
        rows: list[Row] = [{"x": 1, "y": None}, {"x": 2, "y": 0.5}]
        return Result(name, f"Title of {name}", "says", "found", ("x", "y"), [["1", "-"], ["2", "0.5"]], rows, _draw)

    return run


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let there be three items that take no time."""
    monkeypatch.setattr(items, "ITEMS", {name: _instead_of(name) for name in ("table2", "fig5", "table3")})


def run(monkeypatch: pytest.MonkeyPatch, *words: object) -> int:
    """Run a command as the installed script does; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["mpfedxgb", "reproduce", *map(str, words)])
    try:
        main()
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    return 0


@pytest.mark.usefixtures("quick")
def test_json_is_one_object_and_nothing_else(monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path) -> None:
    """Rows on standard output, progress on standard error, files in the folder."""
    assert run(monkeypatch, "table3", "--json", "--out", tmp_path / "results") == 0

    out, err = capsys.readouterr()
    assert json.loads(out) == {"rows": [{"x": 1, "y": None}, {"x": 2, "y": 0.5}]}
    assert "table3: working" in err
    written = {path.name for path in (tmp_path / "results").iterdir()}
    assert written == {f"table3.{kind}" for kind in ("csv", "png", "svg", "md")}


@pytest.mark.usefixtures("quick")
def test_table_for_readers(monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path) -> None:
    """Title, aligned table, the paper's words and ours, and where to look next."""
    assert run(monkeypatch, "fig5", "--out", tmp_path) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "Title of fig5"
    assert lines[2:6] == ["x    y", "-  ---", "1    -", "2  0.5"]
    assert "The paper: says" in lines
    assert lines[-1].endswith("fig5.md")


@pytest.mark.usefixtures("quick")
def test_all_writes_an_index(monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path) -> None:
    """Every item's files, the index page, and rows that say which item they are of."""
    assert run(monkeypatch, "all", "--json", "--out", tmp_path) == 0

    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [row["item"] for row in rows[::2]] == list(items.ITEMS)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    for name in items.ITEMS:
        assert f'src="{name}.svg"' in page
        assert (tmp_path / f"{name}.svg").is_file()


def test_help_teaches(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    """Every item with a line of its own, and examples."""
    assert run(monkeypatch, "--help") == 0

    out = capsys.readouterr().out
    for name in (*items.ITEMS, "all"):
        assert f"\n  {name} " in out
    assert "mpfedxgb reproduce all --data DIR" in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing"], "nothing"),
        (["table2", "--out", "FILE"], "is a file; give a folder"),
        (["table2", "--data", "FILE"], "is not a folder; give the folder that holds the CSV files"),
        (["table3", "--data", "FOLDER", "--out", "OUT"], "has no give_me_some_credit.csv.gz; put it there"),
    ],
)
def test_mistakes(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path
) -> None:
    """Exit code 2, one clear line, nothing on standard output."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    places = {"FILE": tmp_path / "file", "FOLDER": tmp_path, "OUT": tmp_path / "out"}

    assert run(monkeypatch, *[places.get(word, word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert message in " ".join(err.split())
    assert out == ""
    assert not (tmp_path / "out").exists()


def test_the_choices_are_the_items() -> None:
    """The command names them itself, since it is part of the package and they are not."""
    assert [item.value for item in reproduce.Item] == [*items.ITEMS, items.ALL]


def test_without_a_checkout(monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path) -> None:
    """An installed package says where the experiments are."""
    monkeypatch.setattr(mpfedxgb, "__file__", str(tmp_path / "lib" / "mpfedxgb" / "__init__.py"))

    assert run(monkeypatch, "table2", "--out", tmp_path / "out") == 2
    out, err = capsys.readouterr()
    assert "reproduce runs from a checkout of the project" in " ".join(err.split())
    assert out == ""
    assert not (tmp_path / "out").exists()
