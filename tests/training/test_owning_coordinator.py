"""Trainings with a coordinator that brings columns: the oracle's trees, exactly what the ledger says, in attempts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import FederatedTable, FedXGBClassifier, FedXGBRegressor, join, train
from mpfedxgb.api.fitted import FittedModel
from mpfedxgb.boosting import PartialModel
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import Code, SettingsError, StoppedError, UserError
from mpfedxgb.party import ACTIVE, COORDINATOR, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.party.roster import MAX_PARTICIPANTS, Roster
from mpfedxgb.training import secure_train
from mpfedxgb.transport.frame import Kind
from plain_boosting import plain_trees
from support.attempts import Site, comparable, training_for, uninterrupted
from support.chance import THRESHOLD, joint
from support.property_tests import examples
from support.received import operation, p_outside_ledger
from support.refusals import refused
from support.small_problems import Problem, small_problem
from support.small_trainings import KINDS, announcements, models, recorded, strict_ledger


def fit(problem: Problem, **params: Any) -> FittedModel:
    """Train the estimator that goes with a problem."""
    kind = FedXGBClassifier if problem.kind in ("binary", "classes") else FedXGBRegressor
    if problem.kind == "counts":
        params["objective"] = "count:poisson"
    return kind(**params).fit(problem.tables, problem.y, sample_weight=problem.weight)


@examples(12)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["binary", "regression", "counts", "classes"]),
    participants=st.integers(3, 5),
    place=st.integers(1, 4),
    max_depth=st.integers(1, 4),
    min_child_weight=st.sampled_from([0.0, 1.0]),
    max_bin=st.sampled_from([2, 5, 32]),
    first_layer_mask=st.booleans(),
    colsample_bytree=st.sampled_from([1.0, 0.6]),
    colsample_bylevel=st.sampled_from([1.0, 0.6]),
    colsample_bynode=st.sampled_from([1.0, 0.6]),
    subsample=st.sampled_from([1.0, 0.6]),
    topology=st.sampled_from(["star", "mesh"]),
)
def test_joined_trees_are_the_oracles(seed: int, kind: str, participants: int, place: int, **params: Any) -> None:
    """Whichever auxiliary coordinates, every split and leaf weight is the oracle's, on the columns in its order."""
    problem = small_problem(seed, kind, rows=60, participants=participants)
    params |= {"coordinator": f"P{1 + (place - 1) % (participants - 1) + 1}", "random_state": seed, "n_estimators": 2}
    model = fit(problem, **params)
    tables = {part.name: problem.tables[part.name] for part in model.partial_models_}

    assert list(tables)[-1] == params["coordinator"]
    assert list(join(model.partial_models_).trees) == list(plain_trees(model, tables, problem.y, problem.weight))


@pytest.mark.parametrize(("security", "labels"), [("strict", "binary"), ("sealed", "binary"), ("sealed", "classes")])
@pytest.mark.parametrize("topology", ["star", "mesh"])
def test_all_candidates_may_be_the_coordinators(security: str, labels: str, topology: str) -> None:
    """P_1 has nothing to split by, nor has P_2: the model is that of an independent coordinator, and predicts alike."""
    problem, nothing = small_problem(11, labels), pd.DataFrame({"constant": np.ones(120)})
    tables = {"bank": nothing, "shop": nothing, "retail": problem.whole}
    options: dict[str, Any] = {"n_estimators": 2, "security": security, "topology": topology, "insecure_seed": 3}
    model = FedXGBClassifier(coordinator="retail", **options).fit(tables, problem.y)
    other = FedXGBClassifier(**options).fit(tables, problem.y)

    assert max(len(tree) for tree in join(model.partial_models_).trees) > 1
    assert join(model.partial_models_).trees == join(other.partial_models_).trees
    np.testing.assert_array_equal(model.predict_proba(tables), other.predict_proba(tables))


@pytest.mark.parametrize(("security", "topology"), [("strict", "star"), ("sealed", "mesh")])
def test_its_columns_may_have_directions(security: str, topology: str) -> None:
    """Predictions keep to them as with an independent coordinator, and the model is the same."""
    problem = small_problem(11, "binary", participants=3)
    signs = {name: 1 for table in problem.tables.values() for name in table.select_dtypes("number").columns}
    options: dict[str, Any] = {"n_estimators": 2, "security": security, "topology": topology}
    free = fit(problem, coordinator="P3", **options)
    held = fit(problem, coordinator="P3", monotone_constraints=signs, **options)
    other = fit(problem, monotone_constraints=signs, **options)

    assert join(held.partial_models_).trees == join(other.partial_models_).trees
    assert join(held.partial_models_).trees != join(free.partial_models_).trees


@pytest.mark.parametrize("kind", KINDS)
def test_ledger_and_inbox_are_as_with_an_independent_coordinator(kind: str) -> None:
    """The strict column with the coordinator as the last owner; of its own winners it is told the blinded tags."""
    training, run, recorder = recorded(kind, 3, coordinator_owns=True)
    heard = [frame for frame in recorder.received(frozenset({COORDINATOR})) if frame.kind is not Kind.HELLO]
    told = [(operation(frame).removeprefix("announce "), frame.arrays[0].tolist()) for frame in heard if frame.arrays]

    for ledger in run.ledgers:
        assert {(entry.name, entry.receiver): entry.count for entry in ledger} == strict_ledger(training, run)
    assert {(frame.kind, frame.sender) for frame in heard} == {(Kind.ANNOUNCE, ACTIVE)}
    assert [one for one in told if one[0] != Entry.OWN_SPLIT] == announcements(training, run)
    owners = [numbers for name, numbers in told if name == Entry.TREE_SHAPE and 3 in numbers]
    assert [[tag & 255 for tag in tags] for name, tags in told if name == Entry.OWN_SPLIT] == [
        [owner if owner == 3 else 0 for owner in level] for level in owners
    ]
    assert [part.coordinator for part in models(run)] == ["P3"] * 3


@pytest.mark.parametrize("kind", ["binary", "column samples", "evaluation rows"])
def test_everything_outside_the_ledger_is_uniform(kind: str) -> None:
    """All that a participant receives, from the coordinator as an owner too, passes a chi-square test."""
    found = p_outside_ledger(recorded(kind, 3, coordinator_owns=True)[2], 2, (Entry.TREE_SHAPE,))

    assert joint([p for p, _ in found]) > THRESHOLD, min(found)
    assert any("matrix of P3" in what for _, what in found)


@pytest.mark.parametrize("kind", ["column samples", "sealed early stopping", "sealed classes"])
def test_stopped_after_every_round_by_every_role_in_turn(tmp_path: Path, kind: str) -> None:
    """The coordinator keeps its rounds, its key and its coins: the model is that of a training nobody stopped."""
    site = Site(replace(training_for(kind, 3), coordinator_owns=True), tmp_path / "stopped")
    whole = Site(site.training, tmp_path / "whole")
    expected, rounds = comparable(whole.finish()), whole.checkpoints(ACTIVE).newest()
    for number in range(1, rounds + 1):
        role = (number - 1) % 3
        others = [r for r in range(3) if r != role]

        def stop(who: int, reached: int, role: int = role, others: list[int] = others, number: int = number) -> None:
            if (who, reached) == (role, number):
                site.saved.wait_for(others, number)
                raise StoppedError("stopped by SIGTERM")

        outcomes = site.run(stop=stop)
        assert any(isinstance(outcome.error, StoppedError) for outcome in outcomes)
        assert site.loaded == [max(0, number - 2)] * 3

    assert comparable(site.finish()) == expected
    assert uninterrupted(kind, 3)[1] == rounds


def test_a_model_goes_on_is_saved_and_scores(tmp_path: Path) -> None:
    """Its own part of a model is the last one, by its name; files say who coordinated, and scoring goes by that."""
    problem = small_problem(5, "binary")
    table = FederatedTable(problem.tables, label=problem.y)
    model = train({"objective": "binary:logistic", "coordinator": "P2"}, table, 2, verbose_eval=False)
    model.save_model(tmp_path)
    loaded = FedXGBClassifier().load_model(tmp_path)
    longer = FedXGBClassifier(n_estimators=1, coordinator="P2").fit(table, xgb_model=loaded)

    assert [part.name for part in loaded.partial_models_] == ["P1", "P3", "P2"]
    assert (loaded.coordinator, PartialModel.load(tmp_path / "P2.mpfedxgb.json").coordinator) == ("P2", "P2")
    np.testing.assert_array_equal(loaded.predict_proba(table), model.predict_proba(table))
    assert loaded.prediction_run(table).coordinator == "P2"
    assert join(longer.partial_models_).trees[:2] == join(model.partial_models_).trees


@pytest.mark.parametrize(
    ("names", "coordinator", "code"),
    [("abc", "d", "unknown"), ("abc", "a", "place"), ("ab", "b", "few")],
    ids=["nobody", "the active one", "of two"],
)
def test_who_cannot_coordinate_is_told_why(names: str, coordinator: str, code: Code) -> None:
    """Somebody else, the active participant, one of two: refused before anything runs, with the reason."""
    tables = {name: pd.DataFrame({name: np.arange(9.0)}) for name in names}
    with refused(SettingsError, code, "coordinator", coordinator):
        FedXGBClassifier(coordinator=coordinator).fit(tables, np.arange(9) % 2)


def test_the_papers_way_is_refused() -> None:
    """From an estimator, and by the protocol itself."""
    tables = {name: pd.DataFrame({name: np.arange(9.0)}) for name in "abc"}
    options: dict[str, Any] = {"security": "paper", "min_child_weight": 0.0, "coordinator": "c"}
    with refused(SettingsError, "mode", "coordinator"):
        FedXGBClassifier(**options).fit(tables, np.arange(9) % 2)

    training = replace(training_for("paper binary", 3), coordinator_owns=True)
    with refused(SettingsError, "mode", "coordinator"):
        run_locally(secure_train, training.roster, training.private, SessionSettings())


def test_a_byte_holds_all_owners() -> None:
    """With a coordinator that brings columns there is one participant less."""
    names = tuple(f"P{m}" for m in range(MAX_PARTICIPANTS))
    assert (Roster(names).owning_coordinator, Roster(names).owner_of(COORDINATOR)) == (-1, 0)
    assert Roster(names[1:], coordinator_owns=True).owning_coordinator == MAX_PARTICIPANTS
    with refused(SettingsError, "range", "participants"):
        Roster(names, coordinator_owns=True)


def test_parts_of_other_trainings_do_not_fit() -> None:
    """A part says who coordinated: that of a training with an independent coordinator is none of the same."""
    problem = small_problem(5, "binary")
    parts = fit(problem, n_estimators=1, coordinator="P3").partial_models_
    with pytest.raises(UserError):
        join([replace(parts[0], coordinator=None), *parts[1:]])
