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
    "strict, log-loss, early stopping": "3218cfd53b1654d65d9f749f235c106d4dda46df3ae3882150971e5bca6e23f4",
    "strict, softmax": "9722f4c9a3d553ec632baba872f9dac20b45595f29c2d37f7585b99677223fba",
    "paper, squared error": "1a689354288f1f24b998574f1a024c7df85b10dcde0a5893e6916e8f5c056399",
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
