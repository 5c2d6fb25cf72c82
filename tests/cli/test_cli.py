"""The command line: what it prints, what it writes, and how it fails."""

from __future__ import annotations

import json
import re
import runpy
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss, roc_auc_score
from typer.testing import CliRunner

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.cli.main import COMMANDS, make_app
from mpfedxgb.cli.simulate import parse_participants
from mpfedxgb.errors import CheckpointError, PeerTimeoutError, SettingsError
from mpfedxgb.testing.parity import Parity, compare_with_xgboost
from support.commands import Shell
from support.refusals import refused
from support.toy_tables import labels, people

MODULE = sys.modules["mpfedxgb.cli.main"]  # the package has a function of the same name
APP = make_app(list(COMMANDS))
QUICK = ["--trees", "2", "--max-depth", "2", "--max-bin", "6"]


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell."""
    return Shell(monkeypatch, capsys)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write tables with labels of every kind, as CSV, and return their folder."""
    folder = tmp_path_factory.mktemp("tables")
    X = people()
    for kind in ("binary", "classes", "regression", "counts"):
        X.assign(label=labels(X, kind)).to_csv(folder / f"{kind}.csv", index=False)
    X.assign(label=labels(X, "binary")).to_csv(folder / "binary.csv.gz", index=False)
    X.to_csv(folder / "people.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def models(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulate a federation by the command line and return the folder of its models."""
    folder = tmp_path_factory.mktemp("models") / "out"
    words = ["simulate", files / "binary.csv", "--label", "label", "--out", folder, *QUICK, "--json"]
    assert CliRunner().invoke(APP, [str(word) for word in words]).exit_code == 0
    return folder


class TestSimulate:
    """`simulate`: from a table to a folder of models."""

    def test_writes_models_and_record(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """A file per participant and the record of the run; the screen shows the record, progress goes to stderr."""
        out = tmp_path / "deep" / "out"
        assert shell.run("simulate", files / "binary.csv", "--label", "label", "--out", out, *QUICK) == 0
        assert sorted(p.name for p in out.iterdir()) == ["P1.mpfedxgb.json", "P2.mpfedxgb.json", "run.json"]
        assert {stat.S_IMODE(p.stat().st_mode) for p in out.iterdir()} == {0o600}
        record = json.loads((out / "run.json").read_text())
        assert record["trees"] == 2
        assert shell.out.startswith("objective binary:logistic: the label has 2 classes\n")
        assert "columns: 5 of numbers, 1 of words (city)" in shell.out
        assert "train: 2 trees" in shell.out
        assert "own split" in shell.out
        assert f"written to {out}: P1.mpfedxgb.json, P2.mpfedxgb.json, run.json" in shell.out
        assert "2/2" in shell.err

    def test_json_is_one_object(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """With --json standard output is one JSON object, the record that is also written, and nothing else."""
        words = ["simulate", files / "binary.csv.gz", "--label", "label", "--out", tmp_path, *QUICK]
        assert shell.run(*words, "--json", "--insecure-seed", 3) == 0
        record = json.loads(shell.out)
        assert isinstance(record, dict)
        assert record == json.loads((tmp_path / "run.json").read_text())
        assert record["insecure_seed"] is True
        assert shell.err == ""

    @pytest.mark.parametrize(
        ("participants", "dealt"),
        [
            ("3", [["age", "income"], ["city", "calls"], ["visits", "idle"]]),
            ("0.2,0.3,0.5", [["age"], ["income", "city"], ["calls", "visits", "idle"]]),
            ("age,calls,idle;visits, city,income", [["age", "calls", "idle"], ["visits", "city", "income"]]),
            ("age,income,city;;calls,visits,idle", [["age", "income", "city"], [], ["calls", "visits", "idle"]]),
        ],
    )
    def test_participants(
        self, shell: Shell, files: Path, tmp_path: Path, participants: str, dealt: list[list[str]]
    ) -> None:
        """A number, fractions, or groups of column names, which may be empty."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path, *QUICK, "--json"]
        assert shell.run(*words, "--participants", participants) == 0
        parts = [PartialModel.load(path) for path in sorted(tmp_path.glob("P*.json"))]
        assert [[f.name for f in part.features] for part in parts] == dealt

    @pytest.mark.parametrize(
        ("table", "options", "objective"),
        [
            ("binary", [], "binary:logistic"),
            ("classes", [], "multi:softprob"),
            ("regression", [], "reg:squarederror"),
            ("counts", ["--objective", "count:poisson"], "count:poisson"),
            ("counts", ["--objective", "reg:squarederror"], "reg:squarederror"),
        ],
    )
    def test_objective(
        self, shell: Shell, files: Path, tmp_path: Path, table: str, options: list[str], objective: str
    ) -> None:
        """The label decides, unless it is told."""
        words = ["simulate", files / f"{table}.csv", "--label", "label", "--out", tmp_path, *QUICK, "--json"]
        assert shell.run(*words, *options) == 0
        assert json.loads(shell.out)["params"]["objective"] == objective

    def test_options_arrive(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """Every option ends in the parameter of its name."""
        options = {
            "max_depth": 1,
            "max_bin": 5,
            "learning_rate": 0.5,
            "reg_lambda": 2.5,
            "gamma": 0.25,
            "min_child_weight": 0.75,
            "subsample": 0.9,
            "colsample_bytree": 0.8,
            "security": "strict",
        }
        words: list[object] = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path, "--json"]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}", value]
        assert shell.run(*words, "--trees", 1, "--first-layer-mask") == 0
        params = json.loads(shell.out)["params"]
        assert {name: params[name] for name in options} == options
        assert (params["n_estimators"], params["first_layer_mask"]) == (1, True)

    def test_the_model_is_the_estimators(self, shell: Shell, files: Path, models: Path) -> None:
        """The command line trains what Python trains."""
        X = people()
        expected = FedXGBClassifier(n_estimators=2, max_depth=2, max_bin=6).fit(X, labels(X, "binary"))
        loaded = FedXGBClassifier().load_model(models)
        np.testing.assert_array_equal(loaded.predict_proba(X), expected.predict_proba(X))

    def test_an_evaluation_table_is_watched_and_scored(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """Its rows ride along, may stop the training, and the end tells the metrics by name, as Python has them."""
        X = people()
        y = labels(X, "binary")
        wrong = np.where(np.arange(len(y)) % 3 == 0, np.where(y == "yes", "no", "yes"), y)
        X.assign(label=wrong).to_csv(tmp_path / "later.csv", index=False)
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path / "out", "--max-depth", 2]
        words += ["--max-bin", 6, "--learning-rate", 1.0, "--trees", 30, "--evaluate", tmp_path / "later.csv"]
        assert shell.run(*words, "--early-stopping-rounds", 2, "--eval-metric", "error,logloss") == 0

        twin = FedXGBClassifier(
            n_estimators=30,
            max_depth=2,
            max_bin=6,
            learning_rate=1.0,
            early_stopping_rounds=2,
            eval_metric=["error", "logloss"],
        ).fit(X, y, eval_set=[(X, wrong)])
        assert twin.best_iteration_ is not None
        found = {name: values[twin.best_iteration_] for name, values in twin.evals_result_["validation_0"].items()}
        told = ", ".join(f"{name} {value:.4f}" for name, value in found.items())
        where = f"the {len(y)} rows of {tmp_path / 'later.csv'}"
        assert re.search(rf"score: {re.escape(told)}, auc 0\.\d{{4}} on {re.escape(where)}\n", shell.out)
        trained = len(twin.partial_models_[0].trees)
        assert f"best boosting round: {twin.best_iteration_ + 1} of {trained}; the model predicts with" in shell.out
        record = json.loads((tmp_path / "out" / "run.json").read_text())
        assert record["metrics"] == twin.evals_result_
        assert record["score"]["error"] == pytest.approx(found["error"])
        assert f"pages to look at: mpfedxgb report {tmp_path / 'out'}" in shell.out

    def test_rows_kept_back_can_stop_a_training(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """With --holdout there is something to watch too."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path, "--json", "--max-depth", 1]
        assert shell.run(*words, "--holdout", 0.5, "--early-stopping-rounds", 1, "--trees", 60) == 0
        record = json.loads(shell.out)
        assert record["params"]["may_stop_early"] is True
        assert len(record["metrics"]["validation_0"]["logloss"]) == record["trees"] < 60
        assert record["score"]["kept_back"] is True

    def test_in_the_open(self, shell: Shell, files: Path, models: Path, tmp_path: Path) -> None:
        """With --security none: the model of strict, and every output says that nothing was protected."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path, *QUICK]
        assert shell.run(*words, "--security", "none") == 0
        assert shell.err.startswith("mpfedxgb: NOTHING WAS PROTECTED")
        assert "NOTHING WAS PROTECTED" in shell.out
        assert 'The same model under security="strict" takes exactly' in shell.out
        assert "would be revealed" in shell.out
        record = json.loads((tmp_path / "run.json").read_text())
        assert (record["protected"], record["params"]["security"]) == (False, "none")
        assert (record["rounds"], record["ledger"]) == (0, [])
        strict = json.loads((models / "run.json").read_text())
        assert strict["protected"] is True
        for figure in ("rounds", "dealer_bytes", "bytes_sent", "ledger", "plans"):
            assert record["forecast"][figure] == strict[figure]
        parts = [[PartialModel.load(path) for path in sorted(folder.glob("P*.json"))] for folder in (tmp_path, models)]
        assert [join(own).trees for own in parts] == [join(parts[1]).trees] * 2
        assert shell.run("show", tmp_path) == 0
        assert shell.out.count("NOTHING WAS PROTECTED") == 2
        for command, name in (("join", "whole.json"), ("export-xgboost", "theirs.json")):
            assert shell.run(command, tmp_path, "--out", tmp_path / name) == 0
            assert shell.err.startswith("mpfedxgb: NOTHING WAS PROTECTED")
        X = people()
        X.to_csv(tmp_path / "people.csv", index=False)
        assert shell.run("predict", tmp_path, tmp_path / "people.csv") == 0
        assert shell.err.startswith("mpfedxgb: NOTHING WAS PROTECTED")
        in_the_open = shell.out
        assert shell.run("predict", models, tmp_path / "people.csv") == 0
        assert (shell.out, shell.err) == (in_the_open, "")

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--early-stopping-rounds", "3"], "--early-stopping-rounds needs rows to watch; name a file (--evaluate)"),
            (["--evaluate", "no.csv"], "no.csv"),
            (["--eval-metric", "auroc"], "eval_metric='auroc' is not known"),
            (["--label", "target"], "binary.csv has no column 'target', the label; the columns are age, income"),
            (["--participants", "1"], "at least two"),
            (["--participants", "many"], "--participants many is not understood; give a number such as 4"),
            (["--participants", "0.5,half"], "fractions such as"),
            (["--participants", "0.5,0.2"], "add up to 1"),
            (["--participants", "age;height"], "'height'"),
            (["--participants", "age,income,calls;visits"], "participants leaves out columns of X: city, idle"),
            (["--drop", "height"], "--drop: there is no column 'height'; the columns are age, income"),
            (["--holdout", "1"], "--holdout 1.0 is out of range"),
            (["--delimiter", "::"], "delimiter='::' is not one character"),
            (["--encoding", "utf-9"], "encoding='utf-9' is not known"),
            (["--max-depth", "0"], "max_depth=0"),
            (["--reg-lambda", "-1"], "reg_lambda=-1.0"),
            (["--objective", "reg:expectileerror"], "objective='reg:expectileerror'"),
            (["--security", "some"], "security='some'"),
            (["--label", "visits"], "y holds nan"),
        ],
    )
    def test_mistakes(self, shell: Shell, files: Path, tmp_path: Path, options: list[str], says: str) -> None:
        """One clear line on standard error, exit code 2, and nothing written."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path / "out", *QUICK]
        assert shell.run(*words, *options) == 2
        assert says in shell.err
        assert shell.err.startswith("mpfedxgb: ")
        assert shell.err.count("\n") == 1
        assert shell.out == ""
        assert not (tmp_path / "out").exists()

    def test_an_objective_for_other_labels(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """Three classes are too many for log-loss; the message names what fits."""
        words = ["simulate", files / "classes.csv", "--label", "label", "--out", tmp_path / "out"]
        assert shell.run(*words, "--objective", "binary:logistic") == 2
        assert "objective='binary:logistic' does not go with 3 classes; use 'multi:softprob'" in shell.err

    @pytest.mark.parametrize(
        ("table", "objective", "because"),
        [
            ("classes", "multi:softprob", "the label has 3 classes"),
            ("regression", "reg:squarederror", "the label holds 70 different numbers"),
            ("counts", "count:poisson", "as --objective says"),
        ],
    )
    def test_says_which_objective_and_why(
        self, shell: Shell, files: Path, tmp_path: Path, table: str, objective: str, because: str
    ) -> None:
        """What the label was taken for is the first line, and in the record."""
        asked = ["--objective", objective] if table == "counts" else []
        words = ["simulate", files / f"{table}.csv", "--label", "label", "--out", tmp_path, *QUICK, *asked]
        assert shell.run(*words) == 0
        assert shell.out.startswith(f"objective {objective}: {because}\n")
        assert json.loads((tmp_path / "run.json").read_text())["objective_because"] == because

    def test_many_whole_numbers_are_not_taken_for_classes(self, shell: Shell, tmp_path: Path) -> None:
        """Amounts written without decimals would become hundreds of classes; the objective has to be said."""
        frame = pd.DataFrame({"a": np.arange(300), "b": np.arange(300) % 7, "label": np.arange(300) // 2})
        frame.to_csv(tmp_path / "t.csv", index=False)
        words = ["simulate", tmp_path / "t.csv", "--label", "label", "--out", tmp_path / "out", *QUICK, "--json"]
        assert shell.run(*words) == 2
        assert "the label holds 150 different whole numbers" in shell.err
        assert "say --objective, one of multi:softprob, reg:squarederror" in shell.err
        assert not (tmp_path / "out").exists()
        assert shell.run(*words, "--objective", "reg:squarederror") == 0

    @pytest.mark.parametrize(
        ("table", "names"),
        [
            ("binary", ["logloss", "auc"]),
            ("classes", ["mlogloss", "merror"]),
            ("regression", ["rmse", "mae"]),
            ("counts", ["poisson-nloglik", "rmse"]),
        ],
    )
    def test_score(self, shell: Shell, files: Path, tmp_path: Path, table: str, names: list[str]) -> None:
        """The metrics of the rows it learnt from, or of those that were kept back, as the models' predictions give."""
        words = ["simulate", files / f"{table}.csv", "--label", "label", "--out", tmp_path, *QUICK]
        words += ["--objective", "count:poisson"] if table == "counts" else []
        assert shell.run(*words) == 0
        told = json.loads((tmp_path / "run.json").read_text())["score"]
        assert list(told) == ["rows", "kept_back", *names]
        assert (told["rows"], told["kept_back"]) == (70, False)
        y = pd.read_csv(files / f"{table}.csv")["label"]
        if table in ("binary", "classes"):
            model = FedXGBClassifier().load_model(tmp_path)
            p = model.predict_proba(people())
            assert told[names[0]] == pytest.approx(log_loss(y, p))
            if table == "binary":
                assert told["auc"] == pytest.approx(roc_auc_score(y, p[:, 1]))
        else:
            predicted = FedXGBRegressor().load_model(tmp_path).predict(people())
            assert told["rmse"] == pytest.approx(np.sqrt(np.mean((predicted - y) ** 2)))
        assert f"score: {names[0]} {told[names[0]]:.4f}, {names[1]} {told[names[1]]:.4f} on the 70 rows" in shell.out
        assert shell.run(*words, "--holdout", 0.2) == 0
        assert "on 14 rows that were kept back" in shell.out
        told = json.loads((tmp_path / "run.json").read_text())["score"]
        assert (told["rows"], told["kept_back"]) == (14, True)

    def test_parts_of_two_trainings_never_mix(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """A folder with a part that would stay behind is refused before training; its own parts are replaced."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path, *QUICK, "--json"]
        assert shell.run(*words, "--participants", 3) == 0
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert shell.run(*words, "--participants", 2) == 2
        assert f"{tmp_path} holds parts of another training (P3.mpfedxgb.json)" in shell.err
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
        assert shell.run(*words, "--participants", 3) == 0
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(before)
        assert shell.run("predict", tmp_path, files / "people.csv") == 0

    def test_columns_to_drop_and_words(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """--drop leaves columns out, --categorical takes numbers for words."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path, *QUICK]
        assert shell.run(*words, "--drop", "idle, income", "--categorical", "visits") == 0
        assert "columns: 2 of numbers, 2 of words (city, visits)" in shell.out

    def test_texts_that_stand_for_missing_values(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """A text among numbers is refused by line; --missing takes it for a missing value, here and for new rows."""
        frame = pd.read_csv(files / "binary.csv").astype({"income": object})
        frame.loc[5, "income"] = "n.a."
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame["income"] = frame["income"].replace("n.a.", None)
        frame.to_csv(tmp_path / "empty.csv", index=False)
        told = ["--label", "label", *QUICK, "--json", "--insecure-seed", 1]
        assert shell.run("simulate", tmp_path / "t.csv", "--out", tmp_path / "a", *told) == 2
        assert "t.csv: line 7: column 'income' holds 'n.a.', which is not a number" in shell.err
        assert "--missing 'n.a.'" in shell.err
        assert shell.run("simulate", tmp_path / "t.csv", "--out", tmp_path / "a", "--missing", "n.a.,-", *told) == 0
        assert shell.run("simulate", tmp_path / "empty.csv", "--out", tmp_path / "b", *told) == 0
        name = "P1.mpfedxgb.json"
        assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()
        assert shell.run("predict", tmp_path / "a", tmp_path / "t.csv", "--drop", "label") == 2
        assert "t.csv: line 7: column 'income' holds 'n.a.'" in shell.err
        assert shell.run("predict", tmp_path / "a", tmp_path / "t.csv", "--drop", "label", "--missing", "n.a.") == 0
        plan = ["plan", "--table", tmp_path / "t.csv", "--label", "label"]
        assert shell.run(*plan) == 2
        assert shell.run(*plan, "--missing", "n.a.") == 0
        assert shell.run(*plan, "--categorical", "income") == 0
        assert shell.run(*plan, "--drop", "income") == 0

    def test_evaluation_tables_of_other_columns(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """They are refused by name, before there is any model to speak of; the order of columns does not matter."""
        frame = pd.read_csv(files / "binary.csv")
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path / "out", *QUICK]
        words += ["--evaluate", tmp_path / "e.csv"]
        for changed, says in (
            (frame.drop(columns="income"), "lacks income"),
            (frame.assign(more=1), "has more besides"),
            (frame.rename(columns={"income": "Income"}), "lacks income and has Income besides"),
            (frame.assign(city=1), "column 'city' holds numbers here and categories in the training table"),
        ):
            changed.to_csv(tmp_path / "e.csv", index=False)
            assert shell.run(*words) == 2
            assert says in shell.err
            assert "model" not in shell.err
            assert "trained" not in shell.err
        frame[frame.columns[::-1]].to_csv(tmp_path / "e.csv", index=False)
        assert shell.run(*words) == 0

    def test_csv_of_another_country(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """Semicolons, decimal commas and an encoding of old: the same model, and the same scores."""
        frame = pd.read_csv(files / "binary.csv").replace("Quito", "Zürich")
        frame.to_csv(tmp_path / "comma.csv", index=False)
        frame.to_csv(tmp_path / "semicolon.csv", index=False, sep=";", decimal=",", encoding="cp1252")
        told = ["--label", "label", *QUICK, "--json", "--insecure-seed", 1]
        assert shell.run("simulate", tmp_path / "comma.csv", "--out", tmp_path / "a", *told) == 0
        assert shell.run("simulate", tmp_path / "semicolon.csv", "--out", tmp_path / "b", *told) == 2
        assert "is not written in utf-8" in shell.err
        told += ["--encoding", "cp1252"]
        assert shell.run("simulate", tmp_path / "semicolon.csv", "--out", tmp_path / "b", *told) == 0
        for part in ("P1", "P2"):
            name = f"{part}.mpfedxgb.json"
            assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()
        form = ["--encoding", "cp1252", "--delimiter", ";", "--decimal", ",", "--drop", "label"]
        assert shell.run("predict", tmp_path / "b", tmp_path / "semicolon.csv", *form) == 0
        scores = shell.out
        assert shell.run("predict", tmp_path / "a", tmp_path / "comma.csv", "--drop", "label") == 0
        assert shell.out == scores

    def test_all_wrong_options_are_named_at_once(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """In one line, each with its value and what it may be."""
        words = ["simulate", files / "binary.csv", "--label", "label", "--out", tmp_path / "out"]
        wrong = ["--max-depth", 17, "--subsample", 0, "--binning", "fine", "--link", "moon"]
        assert shell.run(*words, *wrong) == 2
        assert shell.err.startswith("mpfedxgb: (1) max_depth=17 is out of range; it is an integer from 1 to 16; (2) ")
        assert all(text in shell.err for text in ("subsample=0.0", "binning='fine'", "(4) link='moon'"))
        assert not (tmp_path / "out").exists()

    def test_out_that_is_a_file(self, shell: Shell, files: Path, tmp_path: Path) -> None:
        """Nothing is trained if there is nowhere to write."""
        taken = tmp_path / "taken"
        taken.write_text("here")
        assert shell.run("simulate", files / "binary.csv", "--label", "label", "--out", taken) == 2
        assert "is a file; give a folder" in shell.err
        assert taken.read_text() == "here"


class TestTables:
    """Files with tables, good and bad."""

    def test_parquet(self, shell: Shell, models: Path, tmp_path: Path) -> None:
        """Parquet is read where pyarrow is installed, and otherwise the message says what to install."""
        path = tmp_path / "people.parquet"
        try:
            people().to_parquet(path)
        except ImportError:
            path.write_bytes(b"PAR1")
            assert shell.run("predict", models, path) == 2
            assert "pip install pyarrow" in shell.err
        else:
            assert shell.run("predict", models, path) == 0
            assert shell.out.startswith("prediction,")

    @pytest.mark.parametrize(
        ("name", "content", "says"),
        [
            ("empty.csv", b"", "as a table"),
            ("ragged.csv", b"a,b\n1,2\n1,2,3\n", "line 3 has 3 values"),
            ("bytes.csv", b"a,b\n\xff\xfe,1\n", "as a table"),
            ("fake.csv.gz", b"a,b\n1,2\n", "as a table"),
            ("cut.csv.gz", b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03K", "as a table"),
            ("header.csv", b"a,label\n", "no rows"),
        ],
    )
    def test_files_that_are_no_tables(self, shell: Shell, tmp_path: Path, name: str, content: bytes, says: str) -> None:
        """Whatever is in a file, the answer is one line that names the file or the participant."""
        (tmp_path / name).write_bytes(content)
        assert shell.run("simulate", tmp_path / name, "--label", "label", "--out", tmp_path / "out") == 2
        assert says in shell.err
        assert not (tmp_path / "out").exists()

    def test_no_file(self, shell: Shell, models: Path, tmp_path: Path) -> None:
        """A file that is not there is named."""
        assert shell.run("simulate", tmp_path / "gone.csv", "--label", "label", "--out", tmp_path) == 2
        assert f"there is no file {tmp_path / 'gone.csv'}" in shell.err
        assert shell.run("predict", models, tmp_path / "gone.csv") == 2
        assert "gone.csv" in shell.err


class TestPredict:
    """`predict`: from models and a table to predictions."""

    def test_two_classes(self, shell: Shell, files: Path, models: Path, tmp_path: Path) -> None:
        """A prediction and the probability of every class per row, to a file or to standard output."""
        words = ["predict", models, files / "binary.csv", "--out", tmp_path / "scores.csv"]
        assert shell.run(*words, "--drop", "label") == 0
        assert shell.out == f"{len(people())} predictions are in {tmp_path / 'scores.csv'}\n"
        assert stat.S_IMODE((tmp_path / "scores.csv").stat().st_mode) == 0o600
        scores = pd.read_csv(tmp_path / "scores.csv")
        assert list(scores.columns) == ["prediction", "class_no", "class_yes"]
        model = FedXGBClassifier().load_model(models)
        np.testing.assert_array_equal(scores["prediction"], model.predict(people()))
        np.testing.assert_allclose(scores[["class_no", "class_yes"]], model.predict_proba(people()), rtol=1e-12)
        assert shell.run("predict", models, files / "people.csv") == 0
        assert shell.out.replace("\r\n", "\n") == (tmp_path / "scores.csv").read_text()

    @pytest.mark.parametrize("kind", ["classes", "regression", "counts"])
    def test_other_labels(self, shell: Shell, files: Path, tmp_path: Path, kind: str) -> None:
        """Classes by name, numbers as numbers: those of the estimator that loads the same models."""
        words = ["simulate", files / f"{kind}.csv", "--label", "label", "--out", tmp_path, *QUICK, "--json"]
        assert shell.run(*words, *(["--objective", "count:poisson"] if kind == "counts" else [])) == 0
        assert shell.run("predict", tmp_path, files / "people.csv", "--out", tmp_path / "scores.csv") == 0
        scores = pd.read_csv(tmp_path / "scores.csv")
        if kind == "classes":
            assert list(scores.columns) == ["prediction", "class_low", "class_middle", "class_top"]
            expected: Any = FedXGBClassifier().load_model(tmp_path).predict(people())
            np.testing.assert_array_equal(scores["prediction"], expected)
        else:
            assert list(scores.columns) == ["prediction"]
            expected = FedXGBRegressor().load_model(tmp_path).predict(people())
            np.testing.assert_allclose(scores["prediction"], expected, rtol=1e-12)

    def test_words_that_look_like_numbers(self, shell: Shell, tmp_path: Path) -> None:
        """A column of words stays one, even if all words of the table to score are digits, or there are none."""
        X = people()
        X["city"] = X["city"].cat.rename_categories({"Lagos": "3", "Quito": "007"})
        X.assign(label=labels(people(), "binary")).to_csv(tmp_path / "train.csv", index=False)
        words = ["simulate", tmp_path / "train.csv", "--label", "label", "--out", tmp_path / "m", *QUICK, "--json"]
        assert shell.run(*words) == 0
        model = FedXGBClassifier().load_model(tmp_path / "m")
        for some in (X[X["city"] == "3"], X[X["city"].isin(["3", "007"])], X[X["city"].isna()]):
            some.to_csv(tmp_path / "score.csv", index=False)
            assert shell.run("predict", tmp_path / "m", tmp_path / "score.csv", "--out", tmp_path / "s.csv") == 0
            np.testing.assert_array_equal(pd.read_csv(tmp_path / "s.csv")["prediction"], model.predict(some))

    def test_mistakes(self, shell: Shell, files: Path, models: Path, tmp_path: Path) -> None:
        """Missing columns, missing models, a folder that is not there: exit code 2 and the reason."""
        people().drop(columns=["age", "calls"]).to_csv(tmp_path / "few.csv", index=False)
        assert shell.run("predict", models, tmp_path / "few.csv") == 2
        assert "P1: the table lacks age" in shell.err
        assert shell.run("predict", models, files / "binary.csv") == 2
        assert "unknown columns, label; leave them out (--drop)" in shell.err
        assert shell.run("predict", tmp_path, files / "people.csv") == 2
        assert "no partial models" in shell.err
        assert shell.run("predict", models, files / "people.csv", "--out", tmp_path / "no" / "such" / "x.csv") == 2
        assert "x.csv: No such file or directory" in shell.err


class TestShow:
    """`show`: partial trees as text."""

    def test_own_splits_and_dummies(self, shell: Shell, models: Path) -> None:
        """Every participant's trees in turn: its own conditions, Dummy for the others', weights at the active one."""
        assert shell.run("show", models) == 0
        first, second = shell.out.split("P2 (auxiliary), 2 trees")
        assert first.startswith("P1 (active), 2 trees, binary:logistic\n\ntree 0\n  0: ")
        for text, own, others, owner in (
            (first, ("age", "income", "city"), ("calls", "visits"), "P2"),
            (second, ("calls", "visits"), ("age", "income", "city"), "P1"),
        ):
            assert any(f": {name} " in text for name in own)
            assert not any(name in text for name in others)
            assert f"Dummy (split of {owner})" in text
        assert "leaf secret" not in first
        assert "leaf secret" in second
        assert "leaf +" not in second

    def test_a_part_alone(self, shell: Shell, models: Path, tmp_path: Path) -> None:
        """A participant can look at its own part without the others'."""
        PartialModel.load(models / "P2.mpfedxgb.json").save(tmp_path / "mine.mpfedxgb.json")
        assert shell.run("show", tmp_path) == 0
        assert shell.out.startswith("P2 (auxiliary)")
        assert shell.run("predict", tmp_path, tmp_path) == 2
        assert "the part of P1 is missing" in shell.err

    def test_a_damaged_part(self, shell: Shell, tmp_path: Path) -> None:
        """A damaged file is named."""
        (tmp_path / "P1.mpfedxgb.json").write_text('{"format": "mpfedxgb partial model"')
        assert shell.run("show", tmp_path) == 2
        assert "P1.mpfedxgb.json is damaged" in shell.err


class TestDemo:
    """`demo`: the first command of a newcomer."""

    def test_ends_in_same_trees(self, shell: Shell, tmp_path: Path) -> None:
        """It trains four participants, compares with xgboost, shows costs and reveals, and writes the models."""
        assert shell.run("demo", "--trees", 1, "--max-depth", 2, "--out", tmp_path / "models") == 0
        assert shell.out.rstrip().endswith("same trees")
        for word in ("bank", "telecom", "retail", "hospital", "coordinator", "test AUC", "leaf membership"):
            assert word in shell.out
        names = sorted(path.name for path in (tmp_path / "models").iterdir())
        owners = ("bank", "telecom", "retail", "hospital")
        assert names == sorted(f"{owner}.{kind}" for owner in owners for kind in ("mpfedxgb.json", "report.html"))
        for owner in owners:
            page = tmp_path / "models" / f"{owner}.report.html"
            assert page.as_uri() in shell.out
            assert f"<h1>{owner}</h1>" in page.read_text()
        assert shell.run("show", tmp_path / "models") == 0

    def test_fails_if_trees_differ(self, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The exit code tells a script."""

        def differing(*arguments: Any) -> Parity:
            return replace(compare_with_xgboost(*arguments), difference="tree 0, node 0")

        monkeypatch.setattr("mpfedxgb.cli.demo.compare_with_xgboost", differing)
        assert shell.run("demo", "--trees", 1, "--max-depth", 1, "--out", tmp_path) == 1
        assert "DIFFERENT TREES: tree 0, node 0" in shell.out
        assert "same trees" not in shell.out

    def test_without_xgboost(self, shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Where the xgboost package is missing all else is there, and a line says what to install for the rest."""
        monkeypatch.setitem(sys.modules, "xgboost", None)
        assert shell.run("demo", "--trees", 1, "--max-depth", 1, "--out", tmp_path / "models") == 0
        assert "On 143 rows that were kept back: AUC 0." in shell.out
        assert "leaf membership" in shell.out
        assert (tmp_path / "models" / "bank.report.html").as_uri() in shell.out
        assert shell.out.rstrip().endswith("so nothing was compared with it: pip install xgboost")
        assert "same trees" not in shell.out


class TestHelp:
    """The commands teach how to use them."""

    @pytest.mark.parametrize(
        ("command", "words"),
        [
            ("", ["demo", "simulate", "predict", "show", "federated XGBoost", "Begin with"]),
            ("demo", ["--out", "--trees", "--max-depth", "xgboost"]),
            (
                "simulate",
                [
                    "table",
                    "--label",
                    "--participants",
                    "0.1,0.2,0.3,0.4",
                    "--out",
                    "--json",
                    "--insecure-seed",
                    "Never",
                ],
            ),
            ("predict", ["models", "table", "--out", "standard output"]),
            ("show", ["models", "Dummy"]),
        ],
    )
    def test_help(self, command: str, words: list[str]) -> None:
        """Arguments and options are named and explained."""
        result = CliRunner().invoke(APP, [*([command] if command else []), "--help"])
        assert result.exit_code == 0
        for word in words:
            assert word.lower() in result.stdout.lower()

    def test_every_option_has_help(self) -> None:
        """No option without a sentence."""
        import typer.main

        group: Any = typer.main.get_command(APP)
        for command in group.commands.values():
            assert command.help
            for option in command.params:
                assert option.name == "help" or option.help, f"{command.name} {option.name}"

    def test_no_arguments(self, shell: Shell) -> None:
        """Without a command there is help, and a word of usage for a wrong one."""
        assert shell.run() == 2
        assert "Commands" in shell.out + shell.err
        assert shell.run("fly") == 2
        assert "fly" in shell.err
        assert shell.run("simulate") == 2
        assert "Missing" in shell.err


class TestMain:
    """Errors become one line and an exit code."""

    @pytest.mark.parametrize(
        ("error", "code"),
        [
            (SettingsError("max_depth=0 is out of range"), 2),
            (PeerTimeoutError("P2 did not answer"), 3),
            (CheckpointError("disk full"), 7),
            (PermissionError(13, "Permission denied", "out"), 2),
        ],
    )
    def test_exit_codes(self, shell: Shell, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int) -> None:
        """Every kind of error has its code, which `mpfedxgb exit-codes` explains."""

        def fail() -> None:
            raise error

        monkeypatch.setattr(MODULE, "make_app", lambda names: fail)
        assert shell.run("show", "x") == code
        assert shell.err == f"mpfedxgb: {error}\n"
        assert shell.out == ""

    def test_messages_are_not_markup(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """Brackets in a message stay, however long it is; nothing is wrapped."""
        message = "column [red] holds " + "x" * 300

        def fail() -> None:
            raise SettingsError(message)

        monkeypatch.setattr(MODULE, "make_app", lambda names: fail)
        assert shell.run() == 2
        assert shell.err == f"mpfedxgb: {message}\n"

    def test_bugs_are_not_hidden(self, shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
        """An error that is not ours keeps its traceback."""

        def fail() -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(MODULE, "make_app", lambda names: fail)
        with pytest.raises(ZeroDivisionError):
            shell.run("show", "x")

    def test_python_dash_m(self, shell: Shell, models: Path, tmp_path: Path) -> None:
        """`python -m mpfedxgb` is the same command, with the same exit codes."""
        shell.monkeypatch.setattr(sys, "argv", ["mpfedxgb", "show", str(models)])
        with pytest.raises(SystemExit) as left:
            runpy.run_module("mpfedxgb", run_name="__main__")
        assert not left.value.code
        assert shell.capsys.readouterr().out.startswith("P1 (active)")
        command = [sys.executable, "-m", "mpfedxgb", "show", str(tmp_path)]
        bad = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 # our own command
        assert (bad.returncode, bad.stdout) == (2, "")
        assert bad.stderr.startswith("mpfedxgb: there are no partial models")
        assert "Traceback" not in bad.stderr


def test_parse_participants() -> None:
    """What --participants may be."""
    assert parse_participants("4") == 4
    assert parse_participants("0.25,0.75") == [0.25, 0.75]
    assert parse_participants("a, b;c") == [["a", "b"], ["c"]]
    for text in ("", "x", "1.5", "a,b"):
        with refused(SettingsError, "value", "participants"):
            parse_participants(text)
