"""The last boosting round that all participants had, in a file of its own: no training goes back before it.

`checkpoint.py` proves why that is possible after any number of kills. The file is JSON with a SHA-256 over its content.
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
    """The rounds that all participants had, and P_1's commitment to what they are made with, empty if unknown."""

    rounds: int = 0
    labels: str = ""


def read_common(folder: Path, fingerprint: dict[str, Any]) -> CommonRound:
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
        raise CheckpointError(f"cannot read {path}: {error.strerror}", "file", path.name) from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        text = (
            f"{path} is damaged, so that nobody knows which boosting round all participants had; put a copy of it "
            "back, or begin again with --restart at every participant"
        )
        raise CheckpointError(text, "damaged", path.name) from None
    return kept if content["belongs_to"] == fingerprint else CommonRound()


def write_common(folder: Path, fingerprint: dict[str, Any], kept: CommonRound) -> None:
    """Write it down, whole or not at all, to the disk; raises OSError."""
    write_file(folder / COMMON, json.dumps(_content(fingerprint, kept)) + "\n")


def _content(fingerprint: dict[str, Any], kept: CommonRound) -> dict[str, Any]:
    content = {"belongs_to": fingerprint, "rounds": kept.rounds, "labels": kept.labels}
    return {**content, "sha256": hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()}
