"""Row and column samples: private choices of the participant that makes them, unknown to all others.

They come from a key of its own, or from a `random_state` where samples should repeat from run to run.

The key of a role's own choices - coins, samples - which a resumed training has to repeat. It masks nothing.

From the same key comes the salt under which the active participant commits to its labels.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import trying, write_file
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.binning import Candidates
from mpfedxgb.errors import CheckpointError
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.roster import Keyring
from mpfedxgb.ring.prg import Stream, digest

_KEY = "private.key"


def private_key(folder: Path, make: Callable[[int], bytes], count: int = 32) -> bytes:
    """Return the key of a role's own choices in a session: the one that the folder holds, or a new one."""
    path = folder / _KEY

    def read() -> bytes:
        if path.is_file():
            return path.read_bytes()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):  # of two who make one, the first decides
            write_file(path, make(count).hex(), overwrite=False)
        return path.read_bytes()

    kept = trying(read, f"cannot keep the private key {path}")
    try:
        key = bytes.fromhex(kept.decode())
    except ValueError:
        key = b""
    if len(key) != count:
        text = f"{path} is damaged; put a copy back, or begin again with --restart at every participant"
        raise CheckpointError(text, "damaged", path.name)
    return key


def private_randomness_key(key: bytes, fingerprint: dict[str, Any]) -> bytes:
    """Return the key of a role's own choices in one training: with other data or parameters it is another one."""
    return digest(b"choices of one training", key, json.dumps(fingerprint, sort_keys=True).encode())


def label_salt(key: bytes) -> bytes:
    """Return the 256 bits under which labels are committed to in a session. They tell nothing else of its key."""
    return digest(b"salt of the labels", key)


def label_commitment(salt: bytes, numbers: Sequence[npt.NDArray[Any] | None]) -> bytes:
    """Return a commitment to labels, and to whatever else the active participant alone brings: HMAC-SHA-256.

    Without the salt it tells nothing of them. With the salt and the numbers anybody can compute it, so that the active
    participant can show an auditor later which labels it trained with.
    """
    state = hmac.new(salt, b"mpfedxgb labels 1", hashlib.sha256)
    for array in numbers:
        state.update(b"none;" if array is None else f"{array.shape};".encode() + array.astype("<f8").tobytes())
    return state.digest()


def forget_private_key(folder: Path) -> None:
    """Let the next training have a key of its own."""
    trying(lambda: (folder / _KEY).unlink(missing_ok=True), f"cannot remove the private key in {folder}")


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


def row_sample(party: Participant, fraction: float, rows: int, key: str, t: int, tree: int = 0) -> Floats:
    """Return 1 for rows inside the sample of a round and 0 outside; each row is in with probability `fraction`.

    All classes have the same; of parallel trees each, counted from 0, has its own.
    """
    words = _words(party, f"{t}/rows/{tree}" if tree else f"{t}/rows", rows, key)
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
