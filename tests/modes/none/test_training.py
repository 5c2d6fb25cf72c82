"""`security="none"`: the files that `strict` would write, without a protocol; and what refuses to be without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuzz import fit as fit_random
from mpfedxgb import FedXGBClassifier, FedXGBRegressor, join
from mpfedxgb.boosting import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.errors import SettingsError
from mpfedxgb.modes.none.labels import plain_train
from mpfedxgb.party import Roster
from mpfedxgb.party.observer import Observer
from mpfedxgb.party.roster import keys_of_choices
from plain_boosting import plain_trees
from random_trainings import random_training
from support.property_tests import examples
from support.refusals import refused
from support.small_problems import Problem, small_problem
from support.small_trainings import KINDS, Training, models, recorded

SEED = 7
"""The one that recorded trainings have."""


def in_the_open(training: Training, seed: int | None = SEED) -> Any:
    """Run a training without a protocol, as a simulation would."""
    params = replace(training.params, security="none")
    data = [mine for _, mine in training.private if mine is not None]
    settings = SessionSettings(insecure_seed=seed, parameters=params.to_json())
    return plain_train(params, Roster.numbered(training.participants), data, settings, Observer())


def as_strict(parts: Sequence[PartialModel]) -> list[str]:
    """Return model files that say strict whatever they were trained with."""
    return [replace(part, params=replace(part.params, security="strict")).to_json() for part in parts]


@pytest.mark.parametrize("participants", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_those_of_strict(kind: str, participants: int) -> None:
    """Of every objective and option, coins and samples included, byte for byte but for the word that says none."""
    training, strict, _ = recorded(kind, participants)

    run = in_the_open(training)

    assert as_strict(models(run)) == as_strict(models(strict))
    assert {part.params.security for part in models(run)} == {"none"}
    assert [repr(result and result.metrics) for result in run.results] == [
        repr(result and result.metrics) for result in strict.results
    ]


def test_nobody_sends_and_nothing_is_on_the_ledger() -> None:
    """There is no protocol to count rounds and bytes of, or reveals."""
    training, strict, _ = recorded("evaluation rows", 3)
    run = in_the_open(training)
    assert [(meter.total().rounds, meter.total().bytes_sent) for meter in run.meters] == [(0, 0)] * 4
    assert [len(ledger) for ledger in run.ledgers] == [0] * 4
    assert len(strict.ledgers[0]) > 0


def test_without_a_seed_coins_differ_from_run_to_run() -> None:
    """As in a federation: which child is called left says nothing, and the joined models are the same."""
    training, _, _ = recorded("squared error", 3)
    runs = [models(in_the_open(training, None)) for _ in range(4)]
    assert len({tuple(as_strict(run)) for run in runs}) == 4
    assert len({run[0].training for run in runs}) == 4
    assert [join(run).trees for run in runs] == [join(runs[0]).trees] * 4


def test_keys_of_choices_repeat_with_the_seed_only() -> None:
    """With insecure_seed the same coins come again; other parameters or another seed bring others."""
    roster = Roster.numbered(3)

    def drawn(seed: int | None, parameters: str = "") -> list[bytes]:
        keys = keys_of_choices(roster, SessionSettings(insecure_seed=seed, parameters=parameters))
        return [own.private_stream("coin").octets(16).tobytes() for own in keys]

    assert drawn(1) == drawn(1)
    assert len(set(drawn(1)) | set(drawn(2)) | set(drawn(1, "other")) | set(drawn(None)) | set(drawn(None))) == 15


Model = FedXGBClassifier | FedXGBRegressor


def fit(problem: Problem, **params: Any) -> Model:
    """Train the estimator that goes with a problem, in the open."""
    kind = FedXGBClassifier if problem.kind in ("binary", "classes") else FedXGBRegressor
    if problem.kind == "counts":
        params["objective"] = "count:poisson"
        if params.get("reg_lambda") == 1e8:
            params["max_delta_step"] = 0.0  # beside such a lambda bounds of weights have no room
    model: Model = kind(security="none", **params)
    return model.fit(problem.tables, problem.y, sample_weight=problem.weight)


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["binary", "regression", "counts", "classes"]),
    participants=st.integers(2, 5),
    weighted=st.booleans(),
    max_depth=st.integers(1, 6),
    gamma=st.sampled_from([0.0, 1e-6, 0.3, 1.0]),
    reg_lambda=st.sampled_from([0.0, 1e-6, 0.4, 1.0, 1e8]),
    min_child_weight=st.sampled_from([0.0, 1.0, 3.0]),
    max_bin=st.sampled_from([2, 5, 32, 300]),
    first_layer_mask=st.booleans(),
    binning=st.sampled_from(["quantile", "paper"]),
    samples=st.sampled_from([(1.0, 1.0), (0.7, 1.0), (1.0, 0.5), (0.6, 0.6)]),
)
def test_joined_trees_are_the_oracles(
    seed: int, kind: str, participants: int, weighted: bool, samples: tuple[float, float], **params: Any
) -> None:
    """Random tables, objectives and options: every split, gain, cover and leaf weight is the oracle's."""
    problem = small_problem(seed, kind, rows=60, participants=participants, weighted=weighted)
    subsample, colsample = samples
    model = fit(problem, n_estimators=3, subsample=subsample, colsample_bytree=colsample, random_state=seed, **params)
    assert list(join(model.partial_models_).trees) == plain_trees(model, problem.tables, problem.y, problem.weight)


@pytest.mark.parametrize("seed", [2, 38, 43, 81])
def test_random_trainings_are_those_of_strict(seed: int) -> None:
    """As `make fuzz` draws them, with callables, categories that come later, ids, evaluation weights: same files."""
    training = random_training(seed)
    assert "security" not in training.params
    strict = fit_random(training)
    model = fit_random(replace(training, params=training.params | {"security": "none"}))
    assert as_strict(model.partial_models_) == as_strict(strict.partial_models_)
    assert (model.evals_result_, model.best_iteration_) == (strict.evals_result_, strict.best_iteration_)
    tables = training.as_passed(training.tables)
    np.testing.assert_array_equal(model.predict(tables), strict.predict(tables))


@pytest.mark.parametrize("kind", ["binary", "regression", "counts", "classes"])
def test_predictions_are_those_of_joint_scoring(kind: str) -> None:
    """The same margins to the last bit, from a model whose leaves and flipped splits are the same."""
    problem = small_problem(3, kind, participants=3)
    model = fit(problem, n_estimators=3, insecure_seed=1)
    strict = [replace(part, params=replace(part.params, security="strict")) for part in model.partial_models_]
    twin = type(model).from_parts(strict, **model.get_params() | {"security": "strict"})
    assert any(
        node.flipped for part in model.partial_models_ for t in part.trees for node in t if hasattr(node, "flipped")
    )
    np.testing.assert_array_equal(model._margins(problem.tables), twin._margins(problem.tables))


def test_only_trees_up_to_the_best_round_predict() -> None:
    """After early stopping, as joint scoring has it."""
    problem = small_problem(4, "binary", rows=80)
    wrong = np.where(np.arange(80) % 3 == 0, 1 - problem.y, problem.y)
    models_ = [
        FedXGBClassifier(
            security=security, n_estimators=30, learning_rate=1.0, early_stopping_rounds=2, insecure_seed=1
        ).fit(problem.tables, problem.y, eval_set=[(problem.tables, wrong)])
        for security in ("strict", "none")
    ]
    strict, model = models_
    assert model.best_iteration_ == strict.best_iteration_
    assert model.best_iteration_ is not None
    assert model.best_iteration_ < len(model.partial_models_[0].trees) - 1
    np.testing.assert_array_equal(model.predict_proba(problem.tables), strict.predict_proba(problem.tables))


def test_a_callback_ends_a_training_and_sees_no_traffic() -> None:
    """Reports have the metrics; rounds and bytes are 0, for there are none."""
    problem = small_problem(5, "binary", rows=60)
    told: list[tuple[int, int, int]] = []

    def stop(report: Any) -> bool:
        told.append((report.iteration, report.communication_rounds, report.bytes_sent))
        return len(told) == 2

    model = FedXGBClassifier(security="none", n_estimators=9, callbacks=[stop]).fit(problem.tables, problem.y)
    assert told == [(0, 0, 0), (1, 0, 0)]
    assert len(model.partial_models_[0].trees) == 2


def test_no_protocol_runs_without_protection() -> None:
    """Whoever asks a party to train with security="none" is refused, before anything is sent."""
    training, _, _ = recorded("binary", 2)
    unprotected = replace(training, params=replace(training.params, security="none"))
    with refused(SettingsError, "mode", "security", "none"):
        unprotected.run()
    with refused(SettingsError, "choice", "security", "nothing"):
        TrainParams(security="nothing")
