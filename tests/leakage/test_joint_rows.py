"""No two row arrays that anybody received hang together: same secrets, other masks, all pairs (support/joint_rows.py).

Each array is uniform by other tests, and stays so if its mask also hides something else. That shows in pairs only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.boosting import Labels, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.data import Table
from mpfedxgb.party import ACTIVE
from mpfedxgb.party.roster import MakeSource
from mpfedxgb.ring import VECTOR, Ring, RingArray
from mpfedxgb.ring.prg import Source, Stream, digest
from mpfedxgb.ring.ring import Shape
from support.joint_rows import LIMIT, RowArrays, hang_together, other_masks, row_arrays
from support.sealed_trainings import run_sealed
from support.small_scorings import serve
from support.small_trainings import Training, models
from support.streams import Spoilt
from support.views import Recorder

ROWS, PARTICIPANTS = 512, 3
SETTINGS = SessionSettings(insecure_seed=11)
PARAMS = TrainParams(n_estimators=3, max_depth=2, max_bin=4, learning_rate=0.5)

KINDS: dict[str, dict[str, Any]] = {
    "strict": {},
    "strict with samples and weights": {"subsample": 0.6, "weighted": True},
    "sealed with samples": {"security": "sealed", "subsample": 0.6},
    "sealed with samples and weights": {"security": "sealed", "subsample": 0.6, "weighted": True},
    "nobody else": {"subsample": 0.6},
    "nobody else, sealed": {"security": "sealed", "subsample": 0.6},
}
"""With nobody else the last of the three is the coordinator."""

Streams = Callable[[int], MakeSource]
"""From the number of a run to everybody's streams in it."""


def training_of(kind: str) -> Training:
    """Return a training of three participants, two columns each."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(ROWS, 2 * PARTICIPANTS))
    y = (X.sum(axis=1) + rng.normal(size=ROWS) > 0).astype(np.float64)
    tables = [Table.read(X[:, 2 * m : 2 * m + 2], f"P{m + 1}") for m in range(PARTICIPANTS)]
    params = replace(PARAMS, **KINDS[kind])
    labels = Labels(y, weight=np.linspace(0.5, 2, ROWS) if params.weighted else None)
    return Training(params, tables, labels, coordinator_owns=kind.startswith("nobody else"))


@cache
def train(kind: str, run: int, streams: Streams = other_masks) -> tuple[RowArrays, Sequence[PartialModel]]:
    """Train, and return what was received and everybody's partial model."""
    recorder = Recorder()
    done, _, _ = run_sealed(training_of(kind), SETTINGS, recorder, streams(run))
    return row_arrays(recorder, ROWS), models(done)


def score(kind: str, run: int, streams: Streams = other_masks) -> RowArrays:
    """Score the training rows in two batches with the model of the first run."""
    recorder = Recorder()
    parts = train(kind, 1)[1]
    serve(parts, training_of(kind).tables, [range(ROWS)] * 2, SETTINGS, recorder, streams(run))
    return row_arrays(recorder, ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_no_row_arrays_of_a_training_hang_together(kind: str) -> None:
    """Of all pairs, none has a difference or XOR that is the same in both runs more often than chance has it."""
    one, two = (train(kind, run)[0] for run in (1, 2))

    assert hang_together(one, two) == []
    assert len(one.octets) > 30
    assert len(one.bits) > 30


@pytest.mark.parametrize("kind", ["strict", "sealed with samples", "nobody else"])
def test_no_row_arrays_of_a_scoring_hang_together(kind: str) -> None:
    """The same rows in two batches of a session, under masks of their own."""
    one, two = (score(kind, run) for run in (1, 2))

    assert hang_together(one, two) == []
    assert len(one.octets) + len(one.bits) > 10


# Negative controls: leaks that leave every single array uniform.


class SharedBits:
    """A stream whose draws of one step share their lowest ten bits with the first of them."""

    def __init__(self, stream: Source) -> None:
        self.stream = stream
        self.low: npt.NDArray[np.uint64] | None = None

    def elements(self, ring: Ring, shape: Shape) -> RingArray:
        """Return the next elements."""
        drawn = self.stream.elements(ring, shape)
        if self.low is None or ring != VECTOR:
            self.low = drawn.data.astype(np.uint64)  # a copy: who draws may write over what it got
            return drawn
        ten = np.uint64(1023)
        return RingArray(VECTOR, (drawn.data & ~ten) | (self.low & ten))

    def again(self, start: int = 0) -> SharedBits:
        """Return the same stream from its beginning."""
        return SharedBits(self.stream.again(start))


def segment_and_rest(run: int) -> Spoilt:
    """Return streams under which the masks of a margin's segment and of its rest agree in ten bits."""
    return Spoilt(
        other_masks(run),
        lambda participant, label, sound: SharedBits(sound) if label.endswith("gradients/look up") else None,
    )


def one_mask(step: str, run: int) -> Spoilt:
    """Return streams under which P_1 has one mask for all steps of a name."""
    always = digest(b"always the same", str(run).encode())
    return Spoilt(
        other_masks(run),
        lambda participant, label, sound: Stream(always) if step in label and participant == ACTIVE else None,
    )


SAMPLE, MARKS = "gradients/share of P1", "predict/share each"
"""Where P_1 shares the sample of a round, or the weights of rows inside it; and the leaves that its splits leave."""

INJECTED: dict[str, tuple[str, Callable[[int], Spoilt], str, float]] = {
    "segment and rest share ten bits": ("sealed with samples", segment_and_rest, "look up", 300.0),
    "one mask for all samples": ("sealed with samples", partial(one_mask, SAMPLE), SAMPLE, 22.0),
    "one mask for all weights of samples": (
        "sealed with samples and weights",
        partial(one_mask, SAMPLE),
        SAMPLE,
        300.0,
    ),
}
"""Per leak: a training, its streams, where it must be found, and how clearly, in standard deviations."""


@pytest.mark.parametrize("leak", INJECTED)
def test_masks_that_hang_together_are_found(leak: str) -> None:
    """A leak that no test of single arrays sees is found in the pair of arrays that it is in, and in no other step."""
    kind, streams, step, clearly = INJECTED[leak]
    runs = [streams(run) for run in (1, 2)]
    one, two = (train(kind, run, lambda run: runs[run - 1])[0] for run in (1, 2))
    found = hang_together(one, two)

    assert all(spoilt.count > 1 for spoilt in runs), "no step of this name draws anything: name the steps that do"
    assert found
    assert found[0][0] > clearly > LIMIT
    assert all(where.count(step) == 2 for _, where in found), found


def test_one_mask_for_two_batches_is_found() -> None:
    """The same of a scoring: what P_1 shares of the same rows in two batches, under one mask."""
    one, two = (score("strict", run, partial(one_mask, MARKS)) for run in (1, 2))
    found = hang_together(one, two)

    assert found
    assert found[0][0] > 22.0
    assert all(where.count(MARKS) == 2 for _, where in found), found
