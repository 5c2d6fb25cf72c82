"""The key of a role's own choices: kept for the attempts of one training, another one for every other training."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from mpfedxgb.boosting.sampling import forget_private_key, private_key, private_randomness_key
from mpfedxgb.errors import CheckpointError
from support.refusals import refused

MINE: dict[str, Any] = {
    "session": "trial/spring",
    "role": "bank",
    "participants": ["bank", "telecom"],
    "parameters": {"max_depth": 3, "learning_rate": 0.1, "security": "strict"},
    "data": "7f" * 32,
}


def test_the_private_key_is_made_once(tmp_path: Path) -> None:
    """It stays the same, and its file is for its owner only."""
    folder = tmp_path / "session"
    key = private_key(folder, os.urandom)
    assert len(key) == 32
    assert [private_key(folder, os.urandom) for _ in range(3)] == [key] * 3
    assert private_key(tmp_path / "another", os.urandom) != key
    (path,) = folder.iterdir()
    assert path.read_text() == key.hex()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_of_two_who_make_a_key_one_wins(tmp_path: Path) -> None:
    """Both go on with the key that is in the file."""
    inner: list[bytes] = []

    def make(count: int) -> bytes:
        inner.append(private_key(tmp_path, os.urandom))  # somebody else was faster
        return b"x" * count

    assert private_key(tmp_path, make) == inner[0] != b"x" * 32
    assert [path.name for path in tmp_path.iterdir()] == ["private.key"]


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"00" * 33, b"0" * 63, b"zz" * 32, b"\xff" * 64, bytes(32)])
def test_a_damaged_private_key_is_refused(tmp_path: Path, content: bytes) -> None:
    """It is not replaced: the choices of earlier rounds would not fit later ones. The text does not quote it."""
    (tmp_path / "private.key").write_bytes(content)
    with refused(CheckpointError, "damaged", "private.key") as caught:
        private_key(tmp_path, os.urandom)
    assert (tmp_path / "private.key").read_bytes() == content
    assert "zz" not in str(caught.value)


def test_a_forgotten_private_key_is_made_anew(tmp_path: Path) -> None:
    """For a training that begins again: its parts must not pass for parts of the last one."""
    key = private_key(tmp_path, os.urandom)
    forget_private_key(tmp_path)
    forget_private_key(tmp_path)
    assert private_key(tmp_path, os.urandom) != key


def test_the_private_randomness_key_is_of_one_training() -> None:
    """Whatever changes of what a training belongs to, and whichever key it is: the choices are others."""
    found = {private_randomness_key(b"k" * 32, MINE), private_randomness_key(b"x" * 32, MINE)}
    for name in MINE:
        found.add(private_randomness_key(b"k" * 32, MINE | {name: "changed"}))
    assert len(found) == 2 + len(MINE)
    assert private_randomness_key(b"k" * 32, dict(reversed(MINE.items()))) in found
