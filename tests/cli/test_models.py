"""`join` and `export-xgboost`: the whole model from its parts."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import FedXGBClassifier
from mpfedxgb.boosting.model import PartialModel
from support.commands import Shell
from support.toy_tables import QUICK, halves, labels, people


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """Train and return the files of models with two and with three classes."""
    X = people()
    return {
        kind: FedXGBClassifier(**QUICK)
        .fit(halves(X), labels(X, kind))
        .save_model(tmp_path_factory.mktemp("models") / kind)
        for kind in ("binary", "classes")
    }


def walk(node: dict[str, Any], rows: dict[str, Any]) -> float:
    """Return the leaf of a row, going down a joined tree as it is written."""
    while "leaf" not in node:
        value, rule = rows[node["owner"]][node["feature"]], node["left_if"]
        if pd.isna(value):
            left = node["missing"] == "left"
        elif "at_most" in rule:
            left = bool(np.float32(value) <= np.float32(rule["at_most"]))
        elif "is_not" in rule:
            left = value != rule["is_not"]
        else:
            left = rule["is_present"]
        node = node["left" if left else "right"]
    return float(node["leaf"])


class TestJoin:
    """One readable file."""

    @pytest.mark.parametrize("kind", ["binary", "classes"])
    def test_it_is_the_model(self, shell: Shell, parts: dict[str, list[Path]], tmp_path: Path, kind: str) -> None:
        """Walking down what the file says gives the margins that the federation computes."""
        out = tmp_path / "joined.json"
        assert shell.run("join", *reversed(parts[kind]), "--out", out) == 0
        assert stat.S_IMODE(out.stat().st_mode) == 0o600  # everybody's thresholds
        content = json.loads(out.read_text())
        assert content["format"] == "mpfedxgb joined model"
        assert content["participants"] == ["bank", "telecom"]
        assert content["classes"] == sorted(set(labels(people(), kind)))
        X = people()
        tables = halves(X)
        margins = np.zeros((len(X), len(content["base_margin"]))) + content["base_margin"]
        for row in range(len(X)):
            rows = {owner: table.iloc[row].to_dict() for owner, table in tables.items()}
            for tree in content["trees"]:
                margins[row, tree.get("class", 0)] += walk(tree["root"], rows)
        expected = FedXGBClassifier().load_model(parts[kind][0].parent).decision_function(tables)
        np.testing.assert_allclose(margins.squeeze(), expected, rtol=1e-12)
        assert "trees of bank, telecom written to" in shell.out

    def test_a_folder(self, shell: Shell, parts: dict[str, list[Path]], tmp_path: Path) -> None:
        """All parts of a folder are taken."""
        assert shell.run("join", parts["binary"][0].parent, "--out", tmp_path / "a.json") == 0
        assert shell.run("join", *parts["binary"], "--out", tmp_path / "b.json") == 0
        assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


class TestExport:
    """A model for the xgboost package."""

    @pytest.mark.parametrize("kind", ["binary", "classes"])
    def test_xgboost_predicts_the_same(
        self, shell: Shell, parts: dict[str, list[Path]], tmp_path: Path, kind: str
    ) -> None:
        """The file is loaded by name, and scores as the federation does; columns and codes are told."""
        xgboost = pytest.importorskip("xgboost")
        out = tmp_path / "model.json"
        assert shell.run("export-xgboost", *parts[kind], "--out", out) == 0
        assert stat.S_IMODE(out.stat().st_mode) == 0o600
        assert "age, income, city, calls, visits, idle" in shell.out
        assert "Codes of city: Basel = 0, Lagos = 1, Quito = 2" in shell.out
        assert json.loads((tmp_path / "model.categories.json").read_text()) == {"city": ["Basel", "Lagos", "Quito"]}
        X = people()
        data = xgboost.DMatrix(X, enable_categorical=True)
        theirs = xgboost.Booster(model_file=str(out)).predict(data)
        ours = FedXGBClassifier().load_model(parts[kind][0].parent).predict_proba(halves(X))
        np.testing.assert_allclose(theirs, ours[:, 1] if kind == "binary" else ours, atol=1e-6)

    def test_the_name_tells_the_format(self, shell: Shell, parts: dict[str, list[Path]], tmp_path: Path) -> None:
        """Xgboost goes by the ending."""
        assert shell.run("export-xgboost", *parts["binary"], "--out", tmp_path / "model.bin") == 2
        assert "does not end in .json" in shell.err
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["join", "export-xgboost"])
class TestRefused:
    """One line, exit code 2, nothing written."""

    def test_parts_that_do_not_fit(
        self, shell: Shell, parts: dict[str, list[Path]], tmp_path: Path, command: str
    ) -> None:
        """A part that is missing, there twice, of another training, or no part at all."""
        bank, telecom = parts["binary"]
        (tmp_path / "no.json").write_text("{}")
        for models, says in (
            ([bank], "the part of telecom is missing"),
            ([telecom, telecom], "different trainings|twice|missing"),
            ([bank, bank, telecom], "twice"),
            ([bank, parts["classes"][1]], "different trainings"),
            ([bank, tmp_path / "no.json"], "is not a partial model"),
            ([bank, tmp_path / "gone.json"], "cannot read"),
            ([tmp_path], "there are no partial models"),
        ):
            assert shell.run(command, *models, "--out", tmp_path / "out.json") == 2
            assert any(word in shell.err for word in says.split("|")), shell.err
            assert shell.err.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["no.json"]

    def test_places_to_write(self, shell: Shell, parts: dict[str, list[Path]], tmp_path: Path, command: str) -> None:
        """A folder that is not there, a folder instead of a file, and above all a partial model."""
        bank, telecom = parts["binary"]
        before = bank.read_bytes()
        (tmp_path / "x.json").mkdir()
        for out, says in (
            (tmp_path / "no" / "out.json", "in a folder that exists"),
            (tmp_path / "x.json", "is a folder"),
            (bank, "is one of the partial models"),
        ):
            assert shell.run(command, bank, telecom, "--out", out) == 2
            assert says in shell.err
        assert bank.read_bytes() == before
        PartialModel.load(bank)
