"""[label] qid and upper between organisations, and several quantiles: the models of simulations."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from federation.test_record import PEOPLE, PERSONS, ROWS, score_all, stop_after, train_all
from mpfedxgb import FedXGBRanker, FedXGBRegressor
from mpfedxgb.boosting.join import join
from mpfedxgb.errors import DataError, SettingsError, StoppedError
from mpfedxgb.federation.role import load_model
from mpfedxgb.federation.rows import read_labelled, read_rows
from support.refusals import refused
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM

RNG = np.random.default_rng(7)
GROUPS = RNG.integers(0, 6, len(PEOPLE))
"""In no order, as in files that are sorted by their ids."""

GRADES = RNG.integers(0, 4, len(PEOPLE))
UPPER = np.where(RNG.random(len(PEOPLE)) < 0.3, np.inf, GRADES + 1.0)
KNOWN = {"bank": PEOPLE[BANK][:ROWS], "telecom": PEOPLE[TELECOM][:ROWS]}


def federation(folder: Path, patch: pytest.MonkeyPatch, key: str = "", **training: Any) -> Organisations:
    """Return a federation of two that trains on grades and evaluates the same rows; `key` is one of [label]."""
    whole = PEOPLE.assign(person=PERSONS, label=GRADES, group=[f"g{one}" for one in GROUPS], most=UPPER)
    more = {"qid": ["group"], "upper": ["most"]}.get(key, [])
    train = {"bank": whole[[*BANK, "person", "label", *more]][:ROWS], "telecom": whole[[*TELECOM, "person"]][:ROWS]}
    score = {"bank": whole[[*BANK, "person"]][ROWS:], "telecom": whole[[*TELECOM, "person"]][ROWS:]}
    made = Organisations(folder, train, patch, {**QUICK, **training}, to_score=score)
    made.edit(1, 'predict = "score.csv"', 'predict = "score.csv"\npredictions = "out.csv"')
    for role in (1, 2):
        shutil.copy(made.home(role) / "train.csv", made.home(role) / "evaluate.csv")
        made.edit(role, "[data]", '[data]\nevaluate = "evaluate.csv"')
    if more:
        made.edit(1, "[label]", f'[label]\n{key} = "{more[0]}"')
    return made


def assert_trained_as(made: Organisations, model: Any) -> pd.DataFrame:
    """Train and score with all roles, compare with a simulation, and return what was scored."""
    trained = train_all(made)[1]
    assert not isinstance(trained, BaseException), trained
    assert join([load_model(made.settings(role)) for role in (1, 2)]).trees == join(model.partial_models_).trees
    assert trained.metrics == model.evals_result_
    assert not [error for error in score_all(made) if isinstance(error, Exception)]
    later = {"bank": PEOPLE[BANK][ROWS:], "telecom": PEOPLE[TELECOM][ROWS:]}
    scored = pd.read_csv(made.home(1) / "out.csv")
    np.testing.assert_allclose(np.squeeze(scored.iloc[:, 1:].to_numpy()), model.predict(later), rtol=0, atol=1e-12)
    return scored


def test_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups in any order and by any name; other groups are another training, which does not go on from this one."""
    made = federation(tmp_path, monkeypatch, "qid", objective="rank:ndcg")
    assert isinstance(train_all(made, callback=stop_after(1))[1], StoppedError)
    table = made.home(1) / "train.csv"
    text = table.read_text()
    pd.read_csv(table).assign(group="g0").to_csv(table, index=False)
    assert "bank brings other labels" in str(train_all(made)[1])
    table.write_text(text)

    order = np.argsort(GROUPS[:ROWS], kind="stable")
    known = {name: frame.iloc[order].reset_index(drop=True) for name, frame in KNOWN.items()}
    y, qid = GRADES[:ROWS][order], GROUPS[:ROWS][order]
    model = FedXGBRanker(**QUICK).fit(known, y, qid=qid, eval_set=[(known, y)], eval_qid=[qid])
    assert_trained_as(made, model)


def test_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The label is the lower bound."""
    made = federation(tmp_path, monkeypatch, "upper", objective="survival:aft")
    y = np.stack([GRADES, UPPER], axis=1)[:ROWS]
    assert_trained_as(made, FedXGBRegressor(objective="survival:aft", **QUICK).fit(KNOWN, y, eval_set=[(KNOWN, y)]))


def test_quantiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of predictions for each."""
    made = federation(tmp_path, monkeypatch, objective="reg:quantileerror", quantile_alpha=[0.25, 0.75])
    model = FedXGBRegressor(objective="reg:quantileerror", quantile_alpha=[0.25, 0.75], **QUICK)
    scored = assert_trained_as(made, model.fit(KNOWN, GRADES[:ROWS], eval_set=[(KNOWN, GRADES[:ROWS])]))
    assert list(scored)[1:] == ["quantile_0.25", "quantile_0.75"]


@pytest.mark.parametrize(
    ("key", "objective", "code", "parameter"),
    [
        ("", "rank:ndcg", "missing", "label.qid"),
        ("", "survival:aft", "missing", "label.upper"),
        ("upper", "rank:ndcg", "missing", "label.qid"),
        ("qid", "reg:squarederror", "value", "label.qid"),
    ],
)
def test_settings_say_what_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str, objective: str, code: Any, parameter: str
) -> None:
    """The column that an objective takes beside labels, and no other."""
    made = federation(tmp_path, monkeypatch, key, objective=objective)
    with pytest.raises(SettingsError) as caught:
        made.settings(1)
    assert (code, parameter) in [(fault.code, fault.parameter) for fault in caught.value.faults]


@pytest.mark.parametrize("column", ["label", "person"])
def test_a_column_is_one_thing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: str) -> None:
    """The label or the id is no group."""
    made = federation(tmp_path, monkeypatch, "qid", objective="rank:ndcg")
    made.edit(1, '"group"', f'"{column}"')
    with refused(SettingsError, "value", "label.qid"):
        made.settings(1)


def test_bad_columns_are_not_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaps, and bounds below the times; the log of a role has neither."""
    made = federation(tmp_path, monkeypatch, "upper", objective="survival:aft")
    table = made.home(1) / "train.csv"
    for value, code in ((-7.5, "range"), (np.nan, "missing")):
        frame = pd.read_csv(table)
        frame.assign(most=[value, *frame["most"][1:]]).to_csv(made.home(1) / "evaluate.csv", index=False)
        settings = made.settings(1)
        with pytest.raises(DataError) as caught:
            read_labelled(read_rows(settings, "evaluate"), settings.training, "bank", evaluates=True)
        assert caught.value.code == code
        assert "7.5" not in str(caught.value)
