"""Row and column samples: private choices of the participant that makes them, unknown to all others.

They come from a key of its own, or from a `random_state` where samples should repeat from run to run.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.party.keys import Keyring
from mpfedxgb.party.meter import Meter
from mpfedxgb.ring.prg import Stream, digest


class Participant(Protocol):
    """Who chooses: its name, its own keys, and what it has spent so far. A `Party` is one."""

    @property
    def name(self) -> str:
        """Name of this participant."""
        ...

    @property
    def keys(self) -> Keyring:
        """Its keys."""
        ...

    @property
    def meter(self) -> Meter:
        """Its counts."""
        ...


def row_sample(party: Participant, fraction: float, rows: int, key: str, t: int) -> Floats:
    """Return 1 for rows inside the sample of a round and 0 outside; each row is in with probability `fraction`."""
    words = _words(party, f"{t}/rows", rows, key)
    return (words < np.uint64(int(fraction * 2.0**63) * 2)).astype(np.float64)


def column_sample(
    party: Participant, params: TrainParams, candidates: Candidates, key: str, t: int
) -> npt.NDArray[np.uint8]:
    """Return which candidates take part in each tree of a round, (trees, candidates).

    The owner draws colsample_bytree of its own features, at least one.
    """
    features = len(candidates.bins.counts)
    count = max(1, round(params.colsample_bytree * features))
    bits = np.empty((params.trees_per_round, len(candidates)), np.uint8)
    for k in range(params.trees_per_round):
        chosen = np.argsort(_words(party, f"{t}/columns/{k}", features, key))[:count]
        bits[k] = np.isin([c.feature for c in candidates.items], chosen)
    return bits


def _words(party: Participant, label: str, count: int, key: str) -> npt.NDArray[np.uint64]:
    stream = (
        Stream(digest(key.encode(), party.name.encode(), label.encode())) if key else party.keys.private_stream(label)
    )
    return stream.octets(8 * count).view(np.uint64)
