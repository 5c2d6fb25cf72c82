"""Sealed trainings between organisations: who may be evaluated, what is kept and told, and roles as processes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from federation.test_record import PEOPLE, PERSONS, ROWS, score_all, train_all
from mpfedxgb import Federation
from mpfedxgb.boosting.join import join
from mpfedxgb.boosting.metrics import NO_METRIC
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.xgboost_json import to_xgboost_json
from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.data.ids import Ids, sort_by_id
from mpfedxgb.errors import UserError
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.overview import overview
from mpfedxgb.federation.programs import refuse_training_ids
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.role import load_model
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.party.entries import Entry
from mpfedxgb.report.html import page_html
from support.pages import parse
from support.refusals import refused
from support.role_processes import place, tables
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels

if TYPE_CHECKING:
    from nursery import Nursery

SEALED = {**QUICK, "num_class": 2, "security": "sealed"}


def federation(folder: Path, patch: pytest.MonkeyPatch, **training: Any) -> Organisations:
    """Return a federation of two; the last rows can be evaluated and scored, and their labels say the opposite."""
    whole = PEOPLE.assign(person=PERSONS, label=labels(PEOPLE, "binary"))
    train = {"bank": whole[[*BANK, "person", "label"]][:ROWS], "telecom": whole[[*TELECOM, "person"]][:ROWS]}
    score = {"bank": whole[[*BANK, "person"]][ROWS:], "telecom": whole[[*TELECOM, "person"]][ROWS:]}
    made = Organisations(folder, train, patch, SEALED | training, to_score=score)
    made.edit(1, 'predict = "score.csv"', 'predict = "score.csv"\npredictions = "out.csv"')
    opposite = np.where(whole["label"] == "yes", "no", "yes")
    whole.assign(label=opposite)[[*BANK, "person", "label"]][ROWS:].to_csv(made.home(1) / "evaluate.csv", index=False)
    score["telecom"].to_csv(made.home(2) / "evaluate.csv", index=False)
    return made


def evaluate(made: Organisations) -> None:
    """Let the settings name the rows to evaluate on."""
    for role in (1, 2):
        made.edit(role, "[data]", '[data]\nevaluate = "evaluate.csv"')


def ids(people: Sequence[object]) -> Ids:
    """Return ids as a table with these people has them."""
    return sort_by_id(pd.DataFrame({"person": people, "x": range(len(people))}), "person", "bank")[1]


@pytest.mark.parametrize(
    ("train", "evaluation", "common"),
    [
        (PERSONS[:9], PERSONS[7:12], 2),
        (PERSONS[:9], PERSONS[9:12], 0),
        (["007", "008"], ["7", "x"], 1),
        (["a7", "7"], ["007", "8"], 1),
    ],
)
def test_who_may_be_evaluated(train: list[str], evaluation: list[str], common: int) -> None:
    """Nobody who is trained on, however the id is written; the message counts and never names."""
    refuse_training_ids("bank", [ids(train)])
    if not common:
        refuse_training_ids("bank", [ids(train), ids(evaluation)])
        return
    with refused(UserError, "duplicate", "evaluation") as caught:
        refuse_training_ids("bank", [ids(train), ids(evaluation)])
    assert not any(person in str(caught.value) for person in PERSONS)


def test_training_rows_are_refused_at_every_role(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a file or a DataFrame; all roles are told how many and never who, before anything secret is computed."""
    made = federation(tmp_path, monkeypatch)
    known = {role: pd.read_csv(made.home(role) / "train.csv")[:3] for role in (1, 2)}
    calls = [made.start(0, lambda settings: roles.coordinate(settings, once=True))]
    calls += [
        made.start(role, lambda settings: Federation(settings).train(evaluation=known[settings.number]))
        for role in (1, 2)
    ]
    for call in calls:
        with pytest.raises(Exception, match="3 of 3 evaluation rows are training rows") as caught:
            call.result()
        assert not any(person in str(caught.value) for person in PERSONS)
    for role in made.roles:
        names = {reveal.name for reveal in read_record(made.settings(role)).total}
        assert Entry.TREE_SHAPE not in names
        assert Entry.PREDICTION not in names


def test_early_stopping_and_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody keeps the rounds up to the best; the page knows the model, its metrics and what was told."""
    made = federation(tmp_path, monkeypatch, may_stop_early=True, n_estimators=8)
    evaluate(made)
    made.edit(1, "[label]", "[label]\nearly_stopping_rounds = 1")
    assert [str(one) for one in train_all(made) if isinstance(one, BaseException)] == []
    assert [str(one) for one in score_all(made) if isinstance(one, BaseException)] == []

    facts = overview(made.settings(1))
    assert facts.model == load_model(made.settings(1))
    judged = facts.metrics["validation_0"]["logloss"]
    assert facts.best_iteration == int(np.argmin(judged))
    assert len(facts.trees) == facts.best_iteration + 1 < len(judged)
    told = {(r.name, r.receiver) for r in facts.ledger}
    assert {(Entry.EVALUATION_MARGINS, "bank"), (Entry.PREDICTION, "bank")} <= told
    assert Entry.LEAF_MEMBERSHIP not in {name for name, _ in told}
    words = parse(page_html(facts)).words()
    assert "learned anything about any training row" in words
    assert "the margin of each evaluation row after every round" in words
    assert "the prediction of each scored row, a sum over all trees at once" in words
    assert "Leaves are dots: their weights are shared among all" in words
    assert NO_METRIC not in str(read_record(made.settings(1)))
    with (
        refused(UserError, "mode", "iteration_range"),
        Federation(made.settings(1)).scoring(iteration_range=(0, len(facts.trees) - 1 or 9)),
    ):
        pass


def test_without_rows_to_evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody knows a metric: log, record and page of the active participant say so."""
    caplog.set_level(logging.INFO)
    made = federation(tmp_path, monkeypatch)
    calls = [made.start(0, lambda settings: roles.coordinate(settings, once=True))]
    calls += [made.start(m, lambda settings: roles.train(settings, read_rows(settings, "train"))) for m in (1, 2)]
    for call in calls:
        call.result()
    assert caplog.messages.count(NO_METRIC) == 1
    assert str(read_record(made.settings(1))).count(NO_METRIC) == 1
    assert NO_METRIC[1:] in parse(page_html(overview(made.settings(1)))).words()


def test_roles_as_processes(tmp_path: Path, nursery: Nursery) -> None:
    """Over mutual TLS, from settings files: train, score, and the whole model that all parts make predicts the same."""
    with place(tmp_path, nursery, training={"security": "sealed"}) as made:
        made.start_all()
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
        assert NO_METRIC in made.log(1)
        made.start_all("--predict")
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
        parts = [PartialModel.load(made.home(m) / f"{made.trial.roster.name(m)}.mpfedxgb.json") for m in (1, 2)]
        found = pd.read_csv(made.home(1) / "predictions.csv", index_col="person")
        for role in (1, 2):  # evaluate on people who are trained on
            train = made.home(role) / "train.csv"
            (made.home(role) / "evaluate.csv").write_text(train.read_text())
            made.edit(role, "[data]", '[data]\nevaluate = "evaluate.csv"')
        made.start_all()
        codes = made.codes()
        assert codes[1] == ExitCode.USER or codes[2] == ExitCode.USER, made.logs()
        assert 0 not in codes.values()
        assert all("40 of 40 evaluation rows are training rows" in made.log(role) for role in (0, 1, 2)), made.logs()
    rows = [
        table.set_index("person").drop(columns="label", errors="ignore") for table in tables(slice(40, 60)).values()
    ]
    booster = xgboost.Booster(model_file=bytearray(to_xgboost_json(join(parts)).encode()))
    expected = booster.predict(xgboost.DMatrix(pd.concat([table.loc[found.index] for table in rows], axis=1)))
    np.testing.assert_allclose(found[f"class_{parts[0].classes[1]}"], expected, rtol=0, atol=1e-6)  # type: ignore[index]
