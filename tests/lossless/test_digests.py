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
    "strict, log-loss, early stopping": "30e2e6e5fe38985b00272d511802beb7527dea7374d173c66e5b2ed6520942b2",
    "strict, softmax": "ad427453f4eb1a08f6c43de3bbd14d5084c21d3247d29c41d7dae5bfce921c01",
    "paper, squared error": "6d08067a7c638f991349d20f46b98060b6c0d27631a5eee92352d4bf77bf4ee9",
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
