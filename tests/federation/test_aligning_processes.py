"""Alignments of real processes over mutual TLS: from the command to the model, and one that is killed on the way."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from mpfedxgb.cli.exit_codes import ExitCode
from mpfedxgb.federation.alignment import alignment_path
from mpfedxgb.federation.settings import RoleSettings
from patience import patience
from support.role_processes import PERSONS, Place, place, tables

if TYPE_CHECKING:
    from nursery import Nursery


def tell_to_align(made: Place, strangers: int) -> None:
    """Give telecom people whom bank does not have, and tell both to align."""
    for role in (1, 2):
        made.edit(role, 'id = "person"', 'id = "person"\nalign = true')
    more = tables(slice(40, 41))["telecom"]
    many = more.loc[more.index.repeat(strangers)].assign(person=[f"stranger-{i}" for i in range(strangers)])
    pd.concat([tables(slice(5, 60))["telecom"], many]).to_csv(made.home(2) / "train.csv", index=False)


def start_aligning(made: Place) -> None:
    """Start the command at both participants."""
    for role in (1, 2):
        made.children[role] = made.nursery.start(["align", made.trial.settings(role)], made.home(role) / "log")


def test_align_train_and_score(tmp_path: Path, nursery: Nursery) -> None:
    """Three processes align; the same coordinator then deals for the training; scores come as ever; no id in a log."""
    with place(tmp_path, nursery) as made:
        tell_to_align(made, strangers=10)
        coordinator = made.start(0, "--once")
        start_aligning(made)
        assert [made.children[role].wait(patience(60)) for role in (1, 2)] == [0, 0], made.logs()
        assert made.last_line(1) == "bank: 35 of 40 training rows are in common"
        assert made.last_line(2) == "telecom: 35 of 65 training rows are in common"
        assert coordinator.poll() is None, "it stays for the training"
        for role in (1, 2):
            made.start(role, "--train")
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
        made.start_all("--predict")
        assert made.codes() == {0: 0, 1: 0, 2: 0}, made.logs()
        told = "".join(made.log(role) for role in (0, 1, 2))
        assert not [one for one in (*PERSONS, "stranger-1") if one in told]


def test_a_participant_is_killed(tmp_path: Path, nursery: Nursery) -> None:
    """The other is told, nothing is kept, and both can begin again."""
    with place(tmp_path, nursery) as made:
        tell_to_align(made, strangers=40_000)  # some seconds of work
        made.edit(1, "[data]", "[align]\nmax_rows = 50_000\n[data]")
        made.start(0, "--once")
        start_aligning(made)
        made.wait_for(2, "rows are compared")
        made.children[2].kill()
        assert made.children[1].wait(patience(60)) == ExitCode.PEER_LOST, made.logs()
        assert "telecom ended while bank" in made.last_line(1)
        made.children[0].terminate()  # it waits for what the alignment is for
        assert made.codes()[0] == ExitCode.STOPPED
        for role in (1, 2):
            assert not alignment_path(RoleSettings.from_toml(made.trial.settings(role))).exists()
