"""Where a training goes on from a model: what it takes and tells, and parts that do not fit together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting import PartialModel, TrainData
from mpfedxgb.boosting.callbacks import State
from mpfedxgb.errors import UserError
from mpfedxgb.party import LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.training import secure_train
from mpfedxgb.training.setup import set_up, state_of_model
from mpfedxgb.tree.nodes import Scorer
from mpfedxgb.tree.predict import secure_predict
from support.refusals import refused
from support.small_trainings import Training, training_of


def grown(training: Training) -> list[PartialModel]:
    """Return everybody's part of a model of two rounds."""
    results = run_locally(secure_train, training.participants, training.private).results[1:]
    return [result.model for result in results if result is not None]


def inputs(training: Training, parts: list[PartialModel]) -> list[tuple[Any, ...]]:
    """Return what each role is called with to go on from these parts."""
    own = [replace(data, start=part) for (_, data), part in zip(training.private[1:], parts, strict=True) if data]
    return [(None,), *((data,) for data in own)]


def go_on(training: Training, parts: list[PartialModel]) -> LocalRun[Any]:
    """Let everybody find out where it goes on; returns state, margins, rounds taken and what was told there."""

    def program(party: Party, data: TrainData | None) -> tuple[State, Any, int, dict[str, int]]:
        setup = set_up(party, training.params, data)
        before, told = party.meter.total().rounds, {(e.name, e.receiver): e.count for e in party.ledger}
        state = state_of_model(party, setup)
        margins = None if setup.active is None else setup.active.margins
        new = {e.name: e.count - told.get((e.name, e.receiver), 0) for e in party.ledger if e.receiver != "C"}
        return state, margins, party.meter.total().rounds - before, {name: n for name, n in new.items() if n}

    return run_locally(program, training.participants, inputs(training, parts))


@pytest.mark.parametrize("kind", ["evaluation rows", "classes"])
def test_state_margins_rounds_and_reveals(kind: str) -> None:
    """All have the rounds and their trees, P_1 the margins of its own training; in the rounds that are promised."""
    training = training_of(kind, 3)
    parts = grown(training)
    run = go_on(training, parts)

    def score(party: Party, data: TrainData | None) -> Any:
        scorer = None
        if data is not None and data.start is not None:
            scorer = Scorer(data.start.trees, data.table.followed_by(data.evaluation))
        return secure_predict(party, training.params.outputs, scorer, None), party.meter.total().rounds

    scored = run_locally(score, training.participants, inputs(training, parts))
    (sums, rounds) = scored.results[1]
    for role, (state, margins, taken, told) in enumerate(run.results):
        assert state.rounds == len(parts[0].trees) // training.params.trees_per_round == 2
        assert tuple(state.trees) == (() if role == 0 else parts[role - 1].trees)
        assert role == 0 or taken == rounds + 1
        assert set(told) == {
            Entry.CONTINUED,
            Entry.ROWS_TO_SCORE,
            Entry.TREE_SHAPE,
            Entry.PREDICTION,
        }
        assert told[Entry.CONTINUED] == 3
        assert told[Entry.PREDICTION] == sums.size
        if role == 1:
            base = np.rint(np.array(parts[0].base_margin) * 2.0**32).astype(np.int64)
            np.testing.assert_array_equal(margins, base[:, None] + sums)


def test_parts_of_different_length() -> None:
    """Everybody is told who has how many rounds."""
    training = training_of("binary", 2)
    first, second = grown(training)
    with refused(UserError, "mismatch", "xgb_model"):
        go_on(training, [first, replace(second, trees=second.trees[:1])])
