"""The last boosting round that all participants had, as each of them keeps it: no training goes back before it.

A participant that could make the others drop the rounds they have kept could train again and again, with other labels
or other candidates, and compare. So each one keeps, beside its checkpoints, the last round that all are known to have
and with which labels it was made, and goes on from nothing earlier unless its own people start it with --restart.

Honest roles can always go on, whichever of them is killed when. Let k_i be the rounds that participant i has on disk,
and c_i the common round that it keeps. Then c_i <= k_j for all i and j, always:

1. When an attempt begins, all tell k and c, and go on from r = min k >= max c. Each writes c_i = r to disk before it
   cuts its rounds down to r, and nobody cuts to less.
2. A line of round t + 1 says c_i = t. Participant i has finished round t + 1 with values that were opened in it, to
   which all have contributed (`train._common_after` names the one exception), and each contributes when its own line
   of round t is on disk: k_j >= t.
3. At the end of a training all tell that they have kept the last round, n, and only then each writes c_i = n.
4. Nothing else changes k or c. A line that a kill tears has been acknowledged to nobody.

Going on at r = min k >= max c is therefore possible after any number of kills. Only a disk that loses what it had
confirmed can break this. The loss of one line in the middle of a training is borne if the others know no more than that
all had the round before; otherwise it is refused, and nothing is cut off at anybody.

File: JSON with a SHA-256 over its content.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import write_file
from mpfedxgb.errors import CheckpointError

COMMON = "common-round.json"


@dataclass(frozen=True, slots=True)
class CommonRound:
    """The rounds that all participants had, and P_1's commitment to the labels they are made with, empty if unknown."""

    rounds: int = 0
    labels: str = ""


def read_common(folder: Path, belongs_to: dict[str, Any]) -> CommonRound:
    """Return what a folder of checkpoints keeps; that of another training, by this role's own account, does not count.

    If rounds of that one are there, `Checkpoints` refuses them.
    """
    path = folder / COMMON
    try:
        content = json.loads(path.read_bytes())
        kept = CommonRound(content["rounds"], content["labels"])
        if content != _content(content["belongs_to"], kept) or type(kept.rounds) is not int:
            raise ValueError("another digest")
    except FileNotFoundError:
        return CommonRound()
    except OSError as error:
        raise CheckpointError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise CheckpointError(
            f"{path} is damaged, so that nobody knows which round all participants had; put a copy of it back, or "
            "begin again with --restart at every participant"
        ) from None
    return kept if content["belongs_to"] == belongs_to else CommonRound()


def write_common(folder: Path, belongs_to: dict[str, Any], kept: CommonRound) -> None:
    """Write it down, whole or not at all, to the disk; raises OSError."""
    write_file(folder / COMMON, json.dumps(_content(belongs_to, kept)) + "\n")


def _content(belongs_to: dict[str, Any], kept: CommonRound) -> dict[str, Any]:
    content = {"belongs_to": belongs_to, "rounds": kept.rounds, "labels": kept.labels}
    return {**content, "sha256": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}
