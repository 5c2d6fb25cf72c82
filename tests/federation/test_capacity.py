"""A federation whose machines are too small, or large enough: refused by all before a matrix is sent, or forecast."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.costs import capacity
from mpfedxgb.errors import NoRoomError, PeerFailedError
from mpfedxgb.federation import role as roles
from mpfedxgb.federation.record import read_record
from mpfedxgb.federation.rows import read_rows
from mpfedxgb.federation.settings import RoleSettings
from mpfedxgb.training import memory
from mpfedxgb.tree.level import TableSizes
from support.switchboard import Organisations
from support.toy_tables import BANK, QUICK, TELECOM, labels, people

PEOPLE = people(90)
PERSONS = [f"p-{i}" for i in range(90)]
FULL = {**QUICK, "num_class": 2, "min_child_weight": 0.0, "gamma": 0.0, "max_depth": 2}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Organisations:
    """Return a federation of two with files to train on."""
    tables: dict[str, pd.DataFrame] = {
        "bank": PEOPLE[BANK].assign(person=PERSONS, label=labels(PEOPLE, "binary")),
        "telecom": PEOPLE[TELECOM].assign(person=PERSONS),
    }
    return Organisations(tmp_path, tables, monkeypatch, FULL)


def run_all(places: Organisations) -> list[Any]:
    """Let everybody train; return how each of them ended."""

    def train(settings: RoleSettings) -> object:
        return roles.train(settings, read_rows(settings, "train"))

    def coordinate(settings: RoleSettings) -> None:
        roles.coordinate(settings, once=True)

    calls = [places.start(role, train if role else coordinate) for role in places.roles]
    ended: list[Any] = []
    for call in calls:
        try:
            ended.append(call.result())
        except Exception as error:
            ended.append(error)
    return ended


@pytest.mark.parametrize("small", [0, 1, 2])
def test_one_machine_is_too_small(small: int, places: Organisations, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever it is, all end with the reason before a matrix is sent, and nothing is left but records."""

    def needed(role: int, params: TrainParams, sizes: TableSizes, in_spool: bool) -> int:
        return 1 << 50 if role == small else memory.peak_bytes(role, params, sizes, in_spool)

    monkeypatch.setattr(capacity, "peak_bytes", needed)
    name = places.trial.roster.name(small)

    ended = run_all(places)

    for role, error in enumerate(ended):
        if role == small:
            assert isinstance(error, NoRoomError)
            assert f"{name} would need 1125899.91 GB of memory" in str(error)
            assert "is what this machine has for it" in str(error)
            continue
        assert isinstance(error, PeerFailedError)
        assert (error.origin, error.kind) == (name, "NoRoomError")
        assert "1125899.91 GB" in error.reason
        assert "this machine has" not in error.reason
    for role in places.roles:
        (attempt,) = read_record(places.settings(role)).attempts
        assert attempt.content["forecast"]["memory"] > 0
        sent = attempt.content["phases"]["setup"]["payload_sent"]
        assert sum(sent.values()) < 200, "a tile of E has more"
        assert not list(places.home(role).rglob("*.mpfedxgb.json"))
        assert not list(places.home(role).rglob("*.checkpoint"))


def test_the_record_has_the_forecast_beside_what_it_was(places: Organisations) -> None:
    """Full trees cost what was forecast, besides the session's own rounds: kind, ids, labels, and how it ends."""
    ended = run_all(places)

    assert all(not isinstance(one, Exception) for one in ended), ended
    for role in places.roles[1:]:
        (attempt,) = read_record(places.settings(role)).attempts
        told, spent = attempt.content["forecast"], attempt.content
        splits = {entry[0]: entry[2] for entry in spent["ledger"]}["tree shape and split owners"]
        assert splits == FULL["n_estimators"] * 3, "the trees are not full"
        assert spent["rounds"] == told["rounds"] + 5
        assert 0 < spent["bytes_sent"] - told["bytes_sent"] < 400
