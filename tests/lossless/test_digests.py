"""Moving code must not move a model: files and ledgers of three repeatable trainings, held to digests.

A change that alters models, files or reveals on purpose writes new digests here and says so in the changelog.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from support.small_trainings import Training, training_of

DIGESTS = {
    "strict, log-loss, early stopping": "ca4b6a0394f7c2dc21415c8b9473d326ff93bdd3188bff38f925b0f575dc32f5",
    "strict, softmax": "8390c2f015297c3bfafc3cdb0c7da6715b0cb96cba09826c9e9380be0db6bc74",
    "paper, squared error": "b2ce605462062d5f057ff7ebf43e1296fbaaf74c31f0685129ed96ac5bb55752",
}


def training_for(case: str) -> Training:
    """Return the training behind a digest."""
    if case == "strict, log-loss, early stopping":
        return training_of("early stopping", 3)
    if case == "strict, softmax":
        return training_of("classes", 4)
    training = training_of("squared error", 2)
    return replace(training, params=replace(training.params, security="paper", min_child_weight=0.0))


@pytest.mark.parametrize("case", DIGESTS)
def test_files_and_ledgers_stay_as_they_are(case: str, tmp_path: Path) -> None:
    """Everybody's model file, and everybody's ledger, are the bytes they have always been."""
    run = training_for(case).run(seed=11)
    whole = hashlib.sha256()
    for result, ledger in zip(run.results, run.ledgers, strict=True):
        whole.update(json.dumps([asdict(reveal) for reveal in ledger]).encode())
        if result is not None:
            result.model.save(tmp_path / "model.json")
            whole.update((tmp_path / "model.json").read_bytes())

    assert whole.hexdigest() == DIGESTS[case]
