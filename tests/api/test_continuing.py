"""Going on from a model: 5 + 5 rounds are 10 rounds, to the last byte; what does not fit is refused by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, PartialModel, join
from mpfedxgb.boosting.xgboost_json import to_xgboost_json
from mpfedxgb.errors import MpfedxgbError
from mpfedxgb.party.entries import Entry
from support.refusals import refused
from support.toy_tables import QUICK, halves, labels, numbers, people

Model = FedXGBClassifier | FedXGBRegressor
KINDS: dict[str, dict[str, Any]] = {
    "binary": {},
    "classes": {"n_estimators": 2, "num_parallel_tree": 2, "subsample": 0.7, "random_state": 3},
    "regression": {"subsample": 0.7, "colsample_bytree": 0.6, "random_state": 3},
    "counts": {"objective": "count:poisson", "first_layer_mask": True, "base_score": 1.5},
}


def estimator(kind: str, rounds: int, **params: Any) -> Model:
    """Return the estimator of a kind of label."""
    params = {"max_depth": 2, "max_bin": 6} | KINDS[kind] | {"n_estimators": rounds} | params
    return FedXGBClassifier(**params) if kind in ("binary", "classes") else FedXGBRegressor(**params)


@pytest.mark.parametrize("security", ["strict", "none"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_halves_are_the_whole(kind: str, security: str) -> None:
    """The joined trees of 5 + 5 rounds are those of 10, byte for byte, and so are metrics and predictions."""
    X = people()
    y, half = labels(X, kind), 2 if kind == "classes" else 5
    weight = np.linspace(0.5, 2, len(X)) if kind == "counts" else None
    evaluation = [(halves(X), y)]
    whole = estimator(kind, 2 * half, security=security).fit(halves(X), y, weight, eval_set=evaluation)
    first = estimator(kind, half, security=security).fit(halves(X), y, weight)
    second = estimator(kind, half, security=security).fit(halves(X), y, weight, eval_set=evaluation, xgb_model=first)
    assert to_xgboost_json(join(second.partial_models_)) == to_xgboost_json(join(whole.partial_models_))
    assert [part.params for part in second.partial_models_] == [part.params for part in whole.partial_models_]
    for part, old in zip(second.partial_models_, first.partial_models_, strict=True):
        assert part.trees[: len(old.trees)] == old.trees
    ((name, values),) = whole.evals_result_["validation_0"].items()
    assert second.evals_result_ == {"validation_0": {name: values[half:]}}
    np.testing.assert_array_equal(second.predict(halves(X)), whole.predict(halves(X)))
    assert len(first.partial_models_[0].trees) * 2 == len(second.partial_models_[0].trees)


def test_every_file_is_the_same_byte_for_byte(tmp_path: Path) -> None:
    """With the coins of one seed, also what each participant keeps: stopped after 5 of 10 rounds, then continued."""
    X = people()
    y = labels(X, "binary")

    def trained(rounds: int, stop: int, **more: Any) -> list[str]:
        model = estimator("binary", rounds, callbacks=[lambda report: report.iteration == stop], insecure_seed=1)
        model.fit(halves(X), y, **more).save_model(tmp_path)
        return [path.read_text() for path in sorted(tmp_path.iterdir())]

    whole, half = trained(10, 99), trained(10, 4)
    assert whole != half
    assert trained(5, 99, xgb_model=str(tmp_path)) == whole


def test_from_a_folder_parts_or_an_estimator(tmp_path: Path) -> None:
    """However the model is handed over; other parameters and other rows are no obstacle, fewer classes neither."""
    X = people()
    y = labels(X, "classes")
    first = estimator("classes", 1).fit(halves(X), y)
    first.save_model(tmp_path)
    few = np.flatnonzero(y != "top")
    models = [
        estimator("classes", 1, max_depth=1, learning_rate=0.1).fit(halves(X.iloc[few]), y[few], xgb_model=start)
        for start in (first, tmp_path, first.partial_models_[::-1])
    ]
    for model in models:
        assert model.classes_.tolist() == ["low", "middle", "top"]
        assert len(join(model.partial_models_).trees) == 2 * 6
        assert join(model.partial_models_).trees == join(models[0].partial_models_).trees


def test_the_ledger_says_so() -> None:
    """P_1 gets a prediction of every row of the training and of the evaluation, and everybody the sizes."""
    X = people()
    y = labels(X, "binary")
    first = estimator("binary", 2).fit(halves(X), y)
    later = estimator("binary", 1).fit(halves(X), y, eval_set=[(halves(X[:9]), y[:9])], xgb_model=first)
    once = estimator("binary", 1).fit(halves(X), y, eval_set=[(halves(X[:9]), y[:9])])
    told = {(entry.name, entry.receiver): entry.count for entry in later.run_.ledger}
    added = {
        entry: count
        for entry, count in told.items()
        if entry[0] in (Entry.CONTINUED, Entry.ROWS_TO_SCORE, Entry.PREDICTION)
    }
    assert added == {
        (Entry.CONTINUED, "coordinator"): 2,
        (Entry.CONTINUED, "participants"): 2,
        (Entry.ROWS_TO_SCORE, "coordinator"): 10,
        (Entry.ROWS_TO_SCORE, "participants"): 10,
        (Entry.PREDICTION, "bank"): 79,
    }
    assert {name for name, _ in told.keys() - added.keys()} == {entry.name for entry in once.run_.ledger}


def test_early_stopping_counts_all_rounds() -> None:
    """The best round is counted from the first of the model that is continued; its score is told."""
    X = people()
    y = labels(X, "binary")
    wrong = np.where(np.arange(len(y)) % 3 == 0, np.where(y == "yes", "no", "yes"), y)
    options = {"learning_rate": 0.4, "early_stopping_rounds": 2}
    whole = estimator("binary", 30, **options).fit(halves(X), y, eval_set=[(halves(X), wrong)])
    first = estimator("binary", 1, learning_rate=0.4).fit(halves(X), y)
    later = estimator("binary", 29, **options).fit(halves(X), y, eval_set=[(halves(X), wrong)], xgb_model=first)
    assert whole.best_iteration > 0
    assert (later.best_iteration, later.best_score) == (whole.best_iteration, whole.best_score)
    assert whole.best_score_ == min(whole.evals_result()["validation_0"]["logloss"])
    assert later.partial_models_[0].best_iteration == whole.best_iteration
    with pytest.raises(AttributeError, match="best_score is there after a fit with early_stopping_rounds only"):
        _ = first.best_score
    assert first.best_score_ is None


X = people()
OTHERS = numbers()


@pytest.mark.parametrize(
    ("params", "arguments", "message"),
    [
        ({"security": "paper", "min_child_weight": 0.0}, {}, "xgb_model does not go with security='paper'"),
        ({"security": "none"}, {}, "trained with security='strict', this is security='none'; make them the same"),
        ({"base_score": 0.25}, {}, "base_score=0.25 is not where xgb_model started; leave it None"),
        ({}, {"X": {"shop": X[["age"]], "telecom": X[["calls"]]}}, "xgb_model is of bank, telecom, X of shop, telecom"),
        (
            {},
            {"X": {"bank": X[["age", "city"]], "telecom": X[["calls", "visits", "idle"]]}},
            "bank: the table lacks income",
        ),
        (
            {},
            {"X": halves(X.assign(city=pd.Categorical(["Oslo"] * len(X))))},
            "bank: column 'city' holds categories that xgb_model does not know; mark them as missing",
        ),
        ({}, {"y": np.arange(len(X)) % 2}, "y holds"),
        ({}, {"xgb_model": "nowhere"}, "there are no partial models"),
        ({}, {"xgb_model": xgboost.Booster()}, "xgb_model is a Booster, which does not say whose splits are whose"),
        ({}, {"xgb_model": FedXGBClassifier()}, "not fitted"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_does_not_fit(
    fitted: FedXGBClassifier, params: dict[str, Any], arguments: dict[str, Any], message: str
) -> None:
    """By its name, before anything runs; the estimator is as it was."""
    model = estimator("binary", 1, **params)
    with pytest.raises((MpfedxgbError, ValueError), match=message):
        model.fit(**{"X": halves(X), "y": labels(X, "binary"), "xgb_model": fitted} | arguments)
    assert not hasattr(model, "partial_models_")


def test_a_model_of_older_rules(fitted: FedXGBClassifier) -> None:
    """It is scored as it is, and not continued: its further trees would follow other rules."""
    old = [replace(part, params=replace(part.params, xgboost_rules="3.3")) for part in fitted.partial_models_]
    with refused(MpfedxgbError, "version", "xgb_model", "3.3"):
        estimator("binary", 1).fit(halves(X), labels(X, "binary"), xgb_model=old)

    scored = FedXGBClassifier.from_parts(old)
    np.testing.assert_array_equal(scored._margins(halves(X)), fitted._margins(halves(X)))


def test_another_objective(fitted: FedXGBClassifier) -> None:
    """A model of classes is not continued with numbers, nor a model of means with counts."""
    with refused(MpfedxgbError, "mismatch", "objective", "reg:squarederror"):
        FedXGBRegressor(**QUICK).fit(halves(X), X["age"], xgb_model=fitted)
    numbers_ = FedXGBRegressor(**QUICK).fit(OTHERS, OTHERS[:, 0])
    with refused(MpfedxgbError, "mismatch", "objective", "reg:squarederror"):
        FedXGBClassifier(**QUICK).fit(OTHERS, OTHERS[:, 0] > 0, xgb_model=numbers_)


def test_parts_that_do_not_fit_together(fitted: FedXGBClassifier) -> None:
    """A part is missing, or what is given are no parts."""
    nothing: list[PartialModel] = []
    with refused(MpfedxgbError, "missing", "telecom"):
        estimator("binary", 1).fit(halves(X), labels(X, "binary"), xgb_model=fitted.partial_models_[:1])
    with refused(MpfedxgbError, "type", "xgb_model", "list"):
        estimator("binary", 1).fit(halves(X), labels(X, "binary"), xgb_model=nothing)


@pytest.fixture(scope="module")
def fitted() -> FedXGBClassifier:
    """Train a model to go on from."""
    return FedXGBClassifier(**QUICK).fit(halves(X), labels(X, "binary"))
