"""Row and column samples: private choices of the participant that makes them, unknown to all others.

They come from a key of its own, or from a `random_state` where samples should repeat from run to run.

The key of a role's own choices - coins, samples - which a resumed training has to repeat. It masks nothing.

From the same key comes the salt under which the active participant commits to its labels and its table.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.binning import Candidates
from mpfedxgb.errors import CheckpointError, as_checkpoint_error
from mpfedxgb.party.meter import Meter
from mpfedxgb.party.roster import Keyring
from mpfedxgb.ring.prg import Stream, digest
from mpfedxgb.tree.grow import Choices
from mpfedxgb.tree.level import Nodes

Bits = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_KEY = "private.key"


def private_key(folder: Path, make: Callable[[int], bytes], count: int = 32) -> bytes:
    """Return the key of a role's own choices in a session: the one that the folder holds, or a new one."""
    path = folder / _KEY

    with as_checkpoint_error(f"cannot keep the private key {path}"):
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileExistsError):  # of two who make one, the first decides
                write_file(path, make(count).hex(), overwrite=False)
        kept = path.read_bytes()
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


def label_commitment(salt: bytes, numbers: Sequence[npt.NDArray[Any] | None], data: str) -> bytes:
    """Return a commitment to labels, and to all else that the active participant alone brings: HMAC-SHA-256.

    `data` is the digest of all its tables. Without the salt it tells nothing of them. With the salt, the numbers and
    the digest anybody can compute it, so that the active participant can show an auditor later which labels it trained
    with; and by the tables, which.
    """
    state = hmac.new(salt, b"mpfedxgb labels 2" + bytes.fromhex(data), hashlib.sha256)
    for array in numbers:
        state.update(b"none;" if array is None else f"{array.shape};".encode() + array.astype("<f8").tobytes())
    return state.digest()


def forget_private_key(folder: Path) -> None:
    """Let the next training have a key of its own."""
    with as_checkpoint_error(f"cannot remove the private key in {folder}"):
        (folder / _KEY).unlink(missing_ok=True)


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


def pair_words(party: Participant, draws: int, rows: int, key: str, t: int) -> npt.NDArray[np.uint64]:
    """Return the random words of a round, (draws, rows), by which rows of a group are paired."""
    return _words(party, f"{t}/pairs", draws * rows, key).reshape(draws, rows)


def drop_draws(party: Participant, trees: int, key: str, t: int) -> Floats:
    """Return the numbers in [0, 1) by which a boosting round leaves out some of the trees before it (`dart`)."""
    words = _words(party, f"{t}/drops", trees + 2, key)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def column_sample(party: Participant, params: TrainParams, candidates: Candidates, key: str, t: int) -> Bits:
    """Return which candidates take part in each tree of a round, (trees, candidates).

    The owner draws colsample_bytree of its own features, at least one.
    """
    chosen = [_of_tree(party, params, candidates, key, f"{t}/columns/{k}") for k in range(params.trees_per_round)]
    return _marks(candidates, chosen)


def node_sample(
    party: Participant, params: TrainParams, candidates: Candidates, key: str, t: int, depth: int, nodes: Nodes
) -> Bits:
    """Return which candidates take part in each node of a level, (nodes, candidates).

    Of a tree's features the owner draws colsample_bylevel for each level, and of those colsample_bynode for each node.
    """
    chosen = []
    for tree, node in nodes:
        label = f"{t}/columns/{tree}"
        features = _of_tree(party, params, candidates, key, label)
        features = _drawn(party, features, params.colsample_bylevel, f"{label}/level/{depth}", key)
        chosen.append(_drawn(party, features, params.colsample_bynode, f"{label}/node/{node}", key))
    return _marks(candidates, chosen)


def _of_tree(party: Participant, params: TrainParams, candidates: Candidates, key: str, label: str) -> Ints:
    return _drawn(party, np.arange(len(candidates.bins.counts)), params.colsample_bytree, label, key)


def _drawn(party: Participant, features: Ints, share: float, label: str, key: str) -> Ints:
    if share == 1:
        return features
    words = _words(party, label, len(features), key)
    return features[np.argsort(words)[: max(1, round(share * len(features)))]]


def _marks(candidates: Candidates, chosen: Sequence[Ints]) -> Bits:
    of = candidates.features
    return np.array([np.isin(of, features) for features in chosen], np.uint8).reshape(len(chosen), len(candidates))


@dataclass(frozen=True, slots=True)
class KeyedChoices:
    """The choices of a participant by name that repeat with a key."""

    key: str = field(repr=False)
    name: str

    def private_stream(self, label: str) -> Stream:
        """Return the choices of a label."""
        return Stream(digest(self.key.encode(), self.name.encode(), label.encode()))


def choices_of(party: Participant, key: str) -> Choices:
    """Return where a participant's choices come from: the key if there is one, or else its own keys."""
    return KeyedChoices(key, party.name) if key else party.keys


def coins_of(party: Participant, params: TrainParams, key: str) -> Choices:
    """Return where a participant's coins come from: its own keys.

    Where nodes have samples of their own, a key repeats coins too: nodes are numbered by them. Only simulations have
    a key, in which all roles are in one process.
    """
    return choices_of(party, key if params.colsample_bynode < 1 else "")


def _words(party: Participant, label: str, count: int, key: str) -> npt.NDArray[np.uint64]:
    return choices_of(party, key).private_stream(label).octets(8 * count).view(np.uint64)
