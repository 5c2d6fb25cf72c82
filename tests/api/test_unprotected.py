"""`security="none"` as a data scientist uses it: grid searches, records, reports, exports; and where it is named."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.costs.known_rounds import KnownRounds
from mpfedxgb.modes.facts import NONE
from mpfedxgb.party.local import run_locally
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.report.record import RunRecord
from support.small_problems import small_problem
from support.toy_tables import QUICK, halves, labels, people

KINDS: dict[str, dict[str, Any]] = {
    "binary": {},
    "classes": {},
    "many participants": {"participants": 5},
    "first layer": {"first_layer_mask": True, "participants": 3},
    "samples": {"subsample": 0.7, "colsample_bytree": 0.6, "random_state": 4},
    "parallel trees": {"num_parallel_tree": 3, "subsample": 0.7, "random_state": 4},
    "mesh": {"topology": "mesh", "participants": 3},
    "another link": {"link": "wan", "max_depth": 3},
    "nothing to gain": {"gamma": 1e9},
    "rounds that are alike": {"n_estimators": 14, "max_depth": 1, "max_bin": 3, "participants": 3},
    "constrained": {"monotone_constraints": (1, -1), "participants": 3, "max_depth": 3},
    "constrained and held back": {"monotone_constraints": (1, -1), "reg_alpha": 0.5, "max_delta_step": 0.7},
    "samples of nodes": {"colsample_bylevel": 0.8, "colsample_bynode": 0.6, "random_state": 4},
    "trees left out": {"rate_drop": 0.5, "one_drop": True, "random_state": 4},
    "clipped weights": {"reg_alpha": 0.5, "max_delta_step": 0.3},
    "no least weight": {"min_child_weight": 0.0, "reg_lambda": 0.3},
}


def fit(security: str, kind: str, **params: Any) -> FedXGBClassifier:
    """Train on the same rows, with evaluation rows."""
    X = people()
    y = labels(X, "classes" if kind == "classes" else "binary")
    model = FedXGBClassifier(security=security, **QUICK | KINDS.get(kind, {}) | {"insecure_seed": 5} | params)
    return model.fit(X, y, eval_set=[(X[:30], y[:30])])


def without_time(record: RunRecord) -> dict[str, Any]:
    """Return what each role counted, but for seconds."""
    return {name: counts.to_dict() | {"seconds": 0} for name, counts in record.roles.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_forecast_is_what_strict_costs(kind: str) -> None:
    """Every counter of every role, the plans and the whole ledger: exactly those of the protocol's own run."""
    strict, model = fit("strict", kind).run_, fit("none", kind).run_
    told = model.forecast
    assert told is not None
    assert {name: counts.to_dict() | {"seconds": 0} for name, counts in told.roles.items()} == without_time(strict)
    assert sorted(map(str, told.ledger)) == sorted(map(str, strict.ledger))
    assert told.plans == strict.plans
    assert model.to_dict()["forecast_is_exact"] is True


def test_a_training_that_stops_early_is_forecast_as_far_as_it_went() -> None:
    """Rounds that were never grown cost nothing."""
    params = {"early_stopping_rounds": 1, "learning_rate": 1.0, "n_estimators": 12}
    strict, model = fit("strict", "binary", **params).run_, fit("none", "binary", **params).run_
    assert strict.trees == model.trees < 12
    assert model.forecast is not None
    assert (model.forecast.rounds, model.forecast.dealer_bytes) == (strict.rounds, strict.dealer_bytes)


def test_rounds_that_are_alike_are_rehearsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what comes of it is what all of them cost, one after the other."""
    basis = fit("none", "rounds that are alike", n_estimators=30).run_.basis
    assert basis is not None
    rehearsed: list[Any] = []
    monkeypatch.setattr(KnownRounds, "decide", spied(KnownRounds.decide, rehearsed))
    short = basis.costs(ACTIVE)
    seen = len(rehearsed)
    monkeypatch.setattr(KnownRounds, "_keys_of", lambda self, levels: (object(), object()))
    long = basis.costs(ACTIVE)
    assert (long.total, long.ledger, long.plans) == (short.total, short.ledger, short.plans)
    assert seen < 0.8 * (len(rehearsed) - seen) == 0.8 * len(basis.owners or ())


def spied(method: Callable[..., Any], calls: list[Any]) -> Callable[..., Any]:
    """Return a method that notes its calls."""

    def noted(*args: Any) -> Any:
        calls.append(args[1:])
        return method(*args)

    return noted


def test_very_long_trainings_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds and dealt bytes of full trees, which are at least theirs; nothing that is none is told."""
    monkeypatch.setattr("mpfedxgb.costs.forecast.MOST_LEVELS", 5)
    params: dict[str, Any] = {"gamma": 4.0, "max_depth": 3}
    strict, model = fit("strict", "binary", **params).run_, fit("none", "binary", **params).run_
    assert model.to_dict()["forecast_is_exact"] is False
    assert model.forecast is not None
    assert model.forecast.rounds >= strict.rounds
    assert model.forecast.dealer_bytes > strict.dealer_bytes
    told = str(model)
    assert "takes with full trees, and so at most," in told
    assert "would be revealed" not in told


def test_the_record_says_that_nothing_was_protected() -> None:
    """In words and as JSON; a protected run says nothing of the kind."""
    model, strict = fit("none", "binary"), fit("strict", "binary")
    scored = model.prediction_run(people())
    for record in (model.run_, scored):
        assert NONE.warning in str(record)
        content = json.loads(record.to_json())
        assert (content["protected"], content["params"]["security"], content["ledger"]) == (False, "none", [])
        assert content["rounds"] == 0
    assert "NOTHING WAS PROTECTED" not in str(strict.run_)
    assert json.loads(strict.run_.to_json())["protected"] is True


def test_the_model_and_everything_made_of_it_says_so(tmp_path: Path) -> None:
    """Files, report, notebook and exported model carry the word."""
    model = fit("none", "binary")
    for path in model.save_model(tmp_path):
        assert json.loads(path.read_text())["params"]["security"] == "none"
    for part in model.partial_models_:
        page = model.report(tmp_path / "page.html", part.name).read_text()
        assert page.count("NOTHING WAS PROTECTED") == 2  # above all, and where the ledger would be
        assert "only numbers under a random mask" not in page
    assert "NOTHING WAS PROTECTED" in model._repr_html_()
    assert model.to_xgboost().attr("security") == "none"
    assert fit("strict", "binary").to_xgboost().attr("security") is None
    loaded = FedXGBClassifier().load_model(tmp_path)
    np.testing.assert_array_equal(loaded.predict_proba(people()), model.predict_proba(people()))


def test_it_can_be_planned_too() -> None:
    """Before anything is trained: what strict would cost with full trees."""
    X = people()
    y = labels(X, "binary")
    told = [FedXGBClassifier(security=s, **QUICK).forecast(X, y) for s in ("strict", "none")]
    assert (told[0].rounds, told[0].roles, told[0].ledger) == (told[1].rounds, told[1].roles, told[1].ledger)


def test_no_role_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to train nor to score."""

    def refuse(*args: Any, **named: Any) -> Any:
        raise AssertionError("a role was started")

    monkeypatch.setattr("mpfedxgb.api.training.run_locally", refuse)
    monkeypatch.setattr("mpfedxgb.api.models.run_locally", refuse)
    model = fit("none", "binary")
    assert model.predict(people()).shape == (len(people()),)
    with pytest.raises(AssertionError, match="a role was started"):
        fit("strict", "binary")
    assert run_locally is not refuse


def test_grid_search_finds_what_strict_finds() -> None:
    """GridSearchCV over one table: scores, best parameters and best model are those of the protocol."""
    X = people()
    y = labels(X, "binary")
    grid = {"max_depth": [1, 2], "learning_rate": [0.1, 1.0]}
    searches = [
        GridSearchCV(FedXGBClassifier(security=security, n_estimators=2, max_bin=6), grid, cv=2).fit(X, y)
        for security in ("strict", "none")
    ]
    strict, model = searches
    assert model.best_params_ == strict.best_params_
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], strict.cv_results_["mean_test_score"])
    trees = [join(search.best_estimator_.partial_models_).trees for search in searches]
    assert trees[0] == trees[1]


def test_regression_scores_like_strict() -> None:
    """cross_val_score of a regressor, to the last bit."""
    problem = small_problem(11, "regression", rows=80)
    scores = [
        cross_val_score(FedXGBRegressor(security=s, n_estimators=2), problem.whole.select_dtypes("number"), problem.y)
        for s in ("strict", "none")
    ]
    np.testing.assert_array_equal(*scores)


def test_fitted_models_can_be_copied() -> None:
    """As scikit-learn's tools do, before and after the forecast was made."""
    X = people()
    model = FedXGBClassifier(security="none", **QUICK).fit(halves(X), labels(X, "binary"))
    twin = copy.deepcopy(model)
    assert twin.run_.forecast == model.run_.forecast
    np.testing.assert_array_equal(twin.predict(halves(X)), model.predict(halves(X)))
