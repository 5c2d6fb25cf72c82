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
    "strict, log-loss, early stopping": "b482f656890934d7644335258bc89a050cde87d8fb60c6f36deb456b427fd625",
    "strict, softmax": "de33527709fc97aedcd545459cbe35c53c39ca746475e25c6a74a6ab24b86dbc",
    "paper, squared error": "3293d8fd73e101fecebbc89c416b60d9eab4818b795156a8776baa8beead92ec",
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
