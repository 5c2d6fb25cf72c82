"""Alone or together: the active participant alone in mode none, and what the others' columns bring, fold by fold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost
from typer.testing import CliRunner

import mpfedxgb
from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRegressor
from mpfedxgb.cli.main import make_app
from mpfedxgb.errors import DataError, SettingsError, UserError
from mpfedxgb.testing.parity import compare_with_xgboost
from support.refusals import refused

ROWS = 80
SMALL: dict[str, Any] = {"max_depth": 2, "max_bin": 8}
RNG = np.random.default_rng(4)
BANK = pd.DataFrame(RNG.normal(size=(ROWS, 2)), columns=["income", "age"])
TELECOM = pd.DataFrame(RNG.normal(size=(ROWS, 2)), columns=["calls", "visits"])
Y = (BANK["income"] + 2 * TELECOM["calls"] + 0.3 * RNG.normal(size=ROWS) > 0).astype(int).to_numpy()
TABLE = FederatedTable({"bank": BANK, "telecom": TELECOM}, Y)


def test_alone_is_xgboost_on_the_own_columns(tmp_path: Path) -> None:
    """In any form of table; also sampled, kept in files, loaded, gone on from, shown as a page."""
    model = FedXGBClassifier(participants=1, security="none", n_estimators=4, **SMALL).fit(BANK, Y)
    parity = compare_with_xgboost(model, BANK, Y)
    assert parity.same_trees, parity.difference
    assert not parity.ties
    named = FedXGBClassifier(security="none", n_estimators=4, **SMALL).fit({"bank": BANK}, Y)
    assert (named.predict_proba({"bank": BANK}) == model.predict_proba(BANK)).all()
    assert named.partial_models_[0].participants == ("bank",)

    model.save_model(tmp_path)
    assert (FedXGBClassifier().load_model(tmp_path).predict_proba(BANK) == model.predict_proba(BANK)).all()
    more = FedXGBClassifier(participants=1, security="none", n_estimators=1, **SMALL).fit(BANK, Y, xgb_model=model)
    assert len(more.partial_models_[0].trees) == 5
    assert "alone" in model.report(tmp_path / "page.html").read_text()
    assert "NOTHING WAS PROTECTED" in str(model.run_)
    margins = model.to_xgboost().predict(xgboost.DMatrix(BANK), output_margin=True)
    np.testing.assert_allclose(margins, model.decision_function(BANK), atol=1e-5)


@pytest.mark.parametrize("security", ["strict", "sealed", "paper"])
def test_a_protocol_takes_two(security: str) -> None:
    """Refused as before, with mode none as a remedy; and nobody is no participant anywhere."""
    for X in (BANK, {"bank": BANK}):
        with refused(DataError, "few", "participants", 1):
            FedXGBClassifier(participants=1, security=security).fit(X, Y)
    with refused(DataError, "few", "participants", 0):
        FedXGBClassifier(participants=0, security="none").fit(BANK, Y)


def test_numbers_are_those_of_cross_validations() -> None:
    """On the same folds: means of both sides are cv's, differences and spread follow from the folds."""
    params = {**SMALL, "objective": "binary:logistic", "eval_metric": ["logloss", "auc"]}
    found = mpfedxgb.uplift(params, TABLE, 3, nfold=4, seed=2)
    none = params | {"security": "none"}
    both, alone = (
        pd.DataFrame(mpfedxgb.cv(none, table, 3, nfold=4, seed=2)).iloc[-1]
        for table in (TABLE, FederatedTable({"bank": BANK}, Y))
    )
    frame: Any = found.frame
    summary = found.summary
    assert list(summary.index) == found.metrics == ["logloss", "auc"]
    for name in found.metrics:
        own = frame[name]
        assert own["together"].mean() == pytest.approx(both[f"test-{name}-mean"])
        assert own["alone"].mean() == pytest.approx(alone[f"test-{name}-mean"])
        assert (own["difference"] == own["together"] - own["alone"]).all()
        assert summary.loc[name, "spread"] == pytest.approx(np.std(own["difference"], ddof=1))
    assert summary.loc["auc", "better"] == (frame["auc", "difference"] > 0).sum() > 0
    assert summary.loc["logloss", "better"] == (frame["logloss", "difference"] < 0).sum() > 0
    assert [curve.metric for curve in found.curves()] == ["logloss", "auc"]
    last = [line.values[-1] for line in found.curves()[1].lines]
    assert last == pytest.approx([summary.loc["auc", "alone"], summary.loc["auc", "together"]])


def test_columns_that_say_nothing_bring_nothing() -> None:
    """Constant columns leave every fold as it is."""
    table = FederatedTable({"bank": BANK, "shop": pd.DataFrame({"same": np.ones(ROWS)})}, BANK["income"])
    found = mpfedxgb.uplift(SMALL, table, 3)
    frame: Any = found.frame
    assert (frame["rmse", "difference"] == 0).all()
    assert (found.summary[["difference", "spread", "better"]] == 0).to_numpy().all()


def test_a_page_and_numbers_as_files(tmp_path: Path) -> None:
    """The page has a drawing of each metric and every fold's numbers; names are never markup."""
    table = FederatedTable({"<b>bank": BANK, "telecom": TELECOM}, Y)
    found = mpfedxgb.uplift({**SMALL, "objective": "binary:logistic"}, table, 2, nfold=3)
    page = found.report(tmp_path / "page.html").read_text()
    assert page.count("<svg") >= 1
    assert "&lt;b&gt;bank" in page
    assert "<b>bank" not in page
    assert page.count('<th scope="row">') == 3 + 1
    assert json.loads(json.dumps(found.to_dict()))["metrics"]["logloss"]["better"] in range(4)
    assert str(found).count("fold ") == 3


@pytest.mark.parametrize(
    ("params", "table", "more", "expected"),
    [
        ({"security": "strict"}, TABLE, {}, (SettingsError, "mode", "security")),
        ({}, FederatedTable({"bank": BANK}, Y), {}, (DataError, "few", "participants")),
        ({}, TABLE, {"nfold": 1}, (SettingsError, "range", "nfold")),
        ({}, TABLE, {"nfold": 1, "stratified": True}, (SettingsError, "range", "nfold")),
        ({}, FederatedTable({"bank": BANK, "telecom": TELECOM}), {}, (DataError, "missing", "table")),
        ({"early_stopping_rounds": 2}, TABLE, {}, (SettingsError, "place", "early_stopping_rounds")),
    ],
)
def test_what_cannot_be_compared(params: Any, table: Any, more: Any, expected: Any) -> None:
    """Refused by name."""
    with refused(*expected):
        mpfedxgb.uplift(params, table, 2, **more)


def test_the_command(tmp_path: Path) -> None:
    """It prints the numbers, and writes them and the page; what does not go with it is refused."""
    table = BANK.join(TELECOM).assign(defaulted=np.where(Y, "yes", "no"))
    table.to_csv(tmp_path / "table.csv", index=False)
    out = tmp_path / "found"
    base = ["simulate", str(tmp_path / "table.csv"), "--label", "defaulted", "--out", str(out), "--trees", "2"]
    base += ["--participants", "income,age;calls,visits", "--uplift", "--folds", "3"]
    app = make_app(["simulate"])
    done = CliRunner().invoke(app, [*base, "--eval-metric", "auc"])
    assert done.exit_code == 0, done.output
    assert "together is better in" in done.output
    numbers = json.loads((out / "uplift.json").read_text())
    assert len(numbers["metrics"]["auc"]["folds"]["alone"]) == 3
    assert "auc" in (out / "uplift.html").read_text()
    assert not list(out.glob("*.mpfedxgb.json"))
    for wrong in (["--holdout", "0.2"], ["--security", "sealed"], ["--participants", "1"], ["--folds", "1"]):
        assert isinstance(CliRunner().invoke(app, [*base, *wrong]).exception, UserError)


def test_regression_alone() -> None:
    """Numbers too, by the function that trains on one table."""
    model = mpfedxgb.train({**SMALL, "security": "none"}, FederatedTable({"bank": BANK}, BANK["income"]), 3)
    assert isinstance(model, FedXGBRegressor)
    assert np.abs(model.predict({"bank": BANK}) - BANK["income"]).mean() < 0.6
