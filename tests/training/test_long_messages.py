"""A training whose messages are longer than a frame may be."""

from __future__ import annotations

from typing import Any

import pytest

from mpfedxgb.config import SessionSettings
from mpfedxgb.party import run_locally
from mpfedxgb.training.train import secure_train
from mpfedxgb.transport import Kind
from support.small_trainings import models, training_of
from support.views import Recorder


@pytest.mark.parametrize("kind", ["binary", "classes"])
def test_they_are_cut(kind: str) -> None:
    """Matrices, gradients and histograms go in parts, and the model is the same."""
    training = training_of(kind, 3)
    found: list[Any] = []
    for limit in (1024, 1 << 30):
        recorder = Recorder()
        settings = SessionSettings(insecure_seed=5, max_frame_bytes=limit)
        run = run_locally(secure_train, training.participants, training.private, settings, recorder)
        frames = [frame for frames in recorder.links.values() for frame in frames]
        assert any(frame.kind is Kind.PART for frame in frames) == (limit == 1024)
        assert max(frame.payload_bytes for frame in frames) < limit
        found.append([model.trees for model in models(run)])
    assert found[0] == found[1]
