"""Whether a machine has room for a training: refused with figures and remedies, of which others hear the half."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mpfedxgb import FedXGBRegressor
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.cli.exit_codes import ExitCode, exit_code
from mpfedxgb.config import Resources
from mpfedxgb.costs import capacity
from mpfedxgb.costs.capacity import check_limits, check_role, check_simulation
from mpfedxgb.errors import NoRoomError, PeerFailedError, kind_of, public_reason
from mpfedxgb.training.memory import BASE
from mpfedxgb.tree.level import TableSizes
from support.refusals import refused

PARAMS = TrainParams(max_depth=5, n_estimators=10)
MILLION = TableSizes(1_000_000, 0, (434, 434))
SMALL = TableSizes(100, 0, (9, 9))


def machine(patch: pytest.MonkeyPatch, memory: int | None = None, disk: int | None = None) -> None:
    """Let the machine have so much left."""
    patch.setattr(capacity, "free_memory", lambda: memory)
    patch.setattr(capacity, "used_memory", lambda: 0)
    patch.setattr(capacity, "free_disk", lambda folder: disk)


def refusal(check: Callable[..., Any], *arguments: Any, **named: Any) -> NoRoomError:
    """Return why a check refuses."""
    with pytest.raises(NoRoomError) as caught:
        check(*arguments, **named)
    return caught.value


def test_a_role_that_does_not_fit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The message has both figures and a max_bin that would do; with that, it is not refused."""
    machine(monkeypatch, memory=4_000_000_000)
    error = refusal(check_role, "bank", 1, PARAMS, MILLION, tmp_path)

    assert "bank would need 4.7" in str(error)
    assert "4.00 GB is what this machine has" in str(error)
    assert "max_bin, of which 24 would do" in str(error)
    check_role("bank", 1, PARAMS, replace(MILLION, columns=(24 * 14, 24 * 14)), tmp_path)
    assert exit_code(error) is ExitCode.MEMORY


def test_others_hear_what_is_needed_and_not_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a role needs follows from what all know; how large its machine is, is its own business."""
    machine(monkeypatch, memory=3_210_000_000)
    error = refusal(check_role, "bank", 1, PARAMS, MILLION, tmp_path)

    assert public_reason(error) == str(error).split(", and ")[0]
    assert "3.21" in str(error)
    assert "3.21" not in public_reason(error)
    assert str(tmp_path) not in public_reason(error)
    assert kind_of(error) == "NoRoomError"
    assert exit_code(PeerFailedError("bank", public_reason(error), kind_of(error))) is ExitCode.PEER_FAILED


def test_a_limit_of_ones_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """max_memory refuses what the machine would have room for, and is named."""
    machine(monkeypatch, memory=1 << 40)
    check_role("bank", 1, PARAMS, MILLION, tmp_path)

    assert "is what max_memory allows" in str(
        refusal(check_role, "bank", 1, PARAMS, MILLION, tmp_path, max_memory=10**9)
    )


def test_a_full_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Margins are kept round by round; a disk that cannot hold them is named, to its owner alone."""
    machine(monkeypatch, memory=1 << 40, disk=10_000_000)
    error = refusal(check_role, "bank", 1, PARAMS, MILLION, tmp_path)

    assert "of disk" in str(error)
    assert str(tmp_path) in str(error)
    assert "10.00 MB" not in public_reason(error)
    check_role("telecom", 2, PARAMS, MILLION, tmp_path)


def test_a_simulation_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """All roles of one process are counted together, and a machine that does not tell is not asked."""
    machine(monkeypatch, memory=6_000_000_000)
    assert "a simulation would need" in str(refusal(check_simulation, PARAMS, MILLION))
    check_simulation(PARAMS, SMALL)
    machine(monkeypatch, memory=None)
    check_simulation(PARAMS, MILLION)


def test_nothing_would_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no max_bin is small enough, none is recommended."""
    machine(monkeypatch, memory=200_000_000)

    assert "max_bin" not in str(refusal(check_simulation, PARAMS, replace(MILLION, columns=(40, 40))))


def test_categories_heed_no_max_bin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of candidates that are mostly categories no max_bin makes few; it is recommended for the others alone."""
    machine(monkeypatch, memory=6_000_000_000)
    few, many, unknown = (
        str(refusal(check_simulation, PARAMS, MILLION, of_categories=fixed)) for fixed in ((0, 0), (400, 420), None)
    )

    assert re.search(r"; lower max_bin, of which \d+ would do, train on", few)
    assert "max_bin, of which" not in many
    assert (
        "; group rare categories (820 candidate columns are categories, which max_bin does not limit), train on" in many
    )
    assert re.search(r"; lower max_bin, of which \d+ would do if all columns hold numbers, train on", unknown)


def test_many_categories_are_named_as_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation knows which candidates are categories, also where values are missing."""
    machine(monkeypatch, memory=BASE + 20_000_000)
    words = pd.Series([f"w{i}" for i in range(1999)] + [None], dtype="category")
    X = pd.DataFrame({"word": words, "age": np.arange(2000.0)})

    with refused(NoRoomError, "room", "a simulation", 350507760):
        FedXGBRegressor(n_estimators=1).fit(X, X["age"])


def test_a_spool_makes_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that is too small for the matrices is large enough beside a spool; a spool has to be there."""
    machine(monkeypatch, memory=2_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**10))
    limits = Resources(max_memory=1_500_000_000, spool=tmp_path)

    refusal(check_role, "bank", 1, PARAMS, MILLION, tmp_path)
    assert check_limits([1], PARAMS, SMALL, limits) is False
    assert check_limits([1], PARAMS, replace(MILLION, rows=100_000), Resources()) is False
    assert "name a folder with 3.47 GB" in str(refusal(check_limits, [1], PARAMS, MILLION, replace(limits, spool=None)))
    assert "does not exist" in str(
        refusal(check_limits, [1], PARAMS, MILLION, replace(limits, spool=tmp_path / "none"))
    )
    check_role("bank", 1, PARAMS, MILLION, tmp_path, in_spool=check_limits([1], PARAMS, MILLION, limits))
