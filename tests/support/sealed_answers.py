"""What a sealed training of `small_trainings` must give: the oracle's trees, leaf weights and margins."""

from __future__ import annotations

from dataclasses import replace

from mpfedxgb.config import SessionSettings
from mpfedxgb.party import Roster
from mpfedxgb.party.roster import keys_of_choices
from plain_sealed import SealedAnswer, SealedBoosting
from support.small_trainings import Training


def sealed_answer(training: Training, seed: int | None = None, rounds: int | None = None) -> SealedAnswer:
    """Return the answer to a training, of all rounds or of the first so many.

    Samples of rows and columns are those of a run with this `insecure_seed`, and with the training's parameters as they
    are: the name of the security mode is part of what they are drawn from.
    """
    settings = SessionSettings(insecure_seed=seed, parameters=training.params.to_json())
    keys = keys_of_choices(Roster.numbered(training.participants), settings)
    tables = [replace(table, owner=f"P{m}") for m, table in enumerate(training.tables, 1)]
    names = {f"P{m}": own for m, own in enumerate(training.directions, 1)} or None
    boosting = SealedBoosting(tables, training.params, keys, names)
    return boosting.train_sealed(training.labels, training.evaluation, rounds=rounds)
