"""The note of the last round that all participants had: kept, never lowered, and refused where it is not whole."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from mpfedxgb.boosting.callbacks import State
from mpfedxgb.errors import CheckpointError
from mpfedxgb.training.checkpoint import Checkpoints
from mpfedxgb.training.common_round import COMMON, CommonRound, read_common, write_common
from support.refusals import refused

MINE = {"session": "trial/spring", "role": "bank", "parameters": {"max_depth": 3}}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """By its owner only; nothing at first, and nothing of another training by this role's own account."""
    assert read_common(tmp_path, MINE) == CommonRound(0, "")
    write_common(tmp_path, MINE, CommonRound(7, "ab"))
    assert read_common(tmp_path, MINE) == CommonRound(7, "ab")
    assert read_common(tmp_path, {**MINE, "role": "telecom"}) == CommonRound(0, "")
    assert stat.S_IMODE((tmp_path / COMMON).stat().st_mode) == 0o600


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    """Also one that makes it a lower round; a missing file is one that never was, since the folder may be removed."""
    write_common(tmp_path, MINE, CommonRound(7, "ab"))
    path = tmp_path / COMMON
    whole = path.read_bytes()
    for place in range(len(whole) - 1):  # the last is the end of the line
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with refused(CheckpointError, "damaged", "common-round.json"):
            read_common(tmp_path, MINE)
    for other in (b"", b"{}", b"[]", whole[:-2], json.dumps({"rounds": 1, "labels": "", "belongs_to": MINE}).encode()):
        path.write_bytes(other)
        with refused(CheckpointError, "damaged", "common-round.json"):
            read_common(tmp_path, MINE)


def test_a_true_in_place_of_a_round_is_none(tmp_path: Path) -> None:
    """JSON knows numbers that are none, and Python takes True for 1."""
    write_common(tmp_path, MINE, CommonRound(True, "ab"))
    with refused(CheckpointError, "damaged", "common-round.json"):
        read_common(tmp_path, MINE)


def test_a_folder_that_cannot_be_read(tmp_path: Path) -> None:
    """It is named, and not taken for one without a note."""
    (tmp_path / COMMON).mkdir()
    with refused(CheckpointError, "file", "common-round.json"):
        read_common(tmp_path, MINE)


def test_the_common_round_only_grows(tmp_path: Path) -> None:
    """By what all agree on, and by the line of a round that says what all had; until everything is forgotten."""
    made = Checkpoints(tmp_path, MINE)
    assert made.common() == 0
    for rounds in (1, 2, 3):
        made.save(State(rounds, common=rounds - 1))
        assert made.common() == rounds - 1
    made.load(2)
    assert (made.newest(), made.common()) == (2, 2), "the line of round 2 says 1, the note says more"
    made.load(1)
    assert Checkpoints(tmp_path, MINE).common() == 2, "who loads less than it should is not let off"
    made.all_have(1)
    assert made.common() == 2
    made.all_have(3)
    assert made.common() == 3
    made.clear()
    assert made.common() == 0


def test_labels_are_kept_once_a_training_goes_on(tmp_path: Path) -> None:
    """Until then any will do; after that those alone, also for another process of the role."""
    made = Checkpoints(tmp_path, MINE)
    assert made.fits("one")
    assert made.fits("two")
    made.load(0)
    again = Checkpoints(tmp_path, MINE)
    assert again.fits("two")
    assert not again.fits("one")
    Checkpoints(tmp_path, MINE).load(0)
    assert not Checkpoints(tmp_path, MINE).fits("one"), "who does not know the labels forgets none"
    assert Checkpoints(tmp_path, {**MINE, "parameters": {}}).fits("one"), "another training, by its own account"
