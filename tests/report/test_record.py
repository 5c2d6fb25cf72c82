"""The record of a run: what was asked for, what it cost, what was revealed."""

from __future__ import annotations

import json

import pytest

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import SessionSettings
from mpfedxgb.party import Ledger, LocalRun, Meter, Roster
from mpfedxgb.report.record import RunRecord, record_run
from support.reports import model

ROSTER = Roster(("bank", "telecom", "shop"), coordinator="dealer")


def meters() -> list[Meter]:
    """Return what four roles counted, the coordinator first."""
    dealer, bank, telecom, shop = (Meter() for _ in range(4))
    with dealer.phase("setup"):
        dealer.sent("bank", 64, 100)
    with dealer.phase("train"):
        dealer.sent("bank", 3_000_000, 3_000_100)
        dealer.now.dealer_bytes += 3_000_000
    with bank.phase("setup"):
        bank.sent("telecom", 1_000_000, 1_000_050)
        bank.now.rounds += 3
        with bank.phase("bins"):
            bank.sent("shop", 500_000, 500_050)
    with bank.phase("train"):
        bank.sent("shop", 2_500_000, 2_500_040)
        bank.received("telecom", 250_000, 250_040)
        bank.now.rounds += 10
        bank.now.products += 7
        bank.now.comparisons += 5
        bank.now.dealer_bytes += 3_000_000
    with telecom.phase("train"):
        telecom.sent("bank", 250_000, 250_040)
    return [dealer, bank, telecom, shop]


def counted(meters: list[Meter], ledger: Ledger) -> LocalRun[None]:
    """Return a run that left these counts."""
    return LocalRun(ROSTER, [], meters, [ledger])


@pytest.fixture
def record() -> RunRecord:
    """Return the record of a run that was counted by hand."""
    ledger = Ledger()
    ledger.record("own split", "bank", 7)
    ledger.record("tree shape", "participants", 21)
    return record_run("train", model(count=4), counted(meters(), ledger), SessionSettings(), 1.25, 1_500_000_000)


def test_figures(record: RunRecord) -> None:
    """Rounds, dealer bytes and products are the active participant's; bytes are each role's own."""
    plain = record.to_dict()
    assert (plain["kind"], plain["trees"], plain["seconds"], plain["params"]) == (
        "train",
        4,
        1.25,
        TrainParams(n_estimators=4).to_dict(),
    )
    assert record.rounds == plain["rounds"] == 13
    assert record.dealer_bytes == plain["dealer_bytes"] == 3_000_000
    assert (plain["products"], plain["comparisons"]) == (7, 5)
    assert plain["peak_memory"] == 1_500_000_000
    assert plain["bytes_sent"] == {"dealer": 3_000_064, "bank": 4_000_000, "telecom": 250_000, "shop": 0}
    assert plain["setup_bytes_sent"] == {"dealer": 64, "bank": 1_500_000, "telecom": 0, "shop": 0}
    assert plain["messages"] == {"dealer": 2, "bank": 3, "telecom": 1, "shop": 0}
    assert plain["insecure_seed"] is False
    assert (record.active, record.coordinator, record.auxiliaries) == ("bank", "dealer", ["telecom", "shop"])


def test_phases_are_the_active_participants(record: RunRecord) -> None:
    """By path, in the order of their first appearance; together they are its total."""
    plain = record.to_dict()
    assert list(plain["phases"]) == ["", "setup", "setup/bins", "train"]
    assert sum(phase["rounds"] for phase in plain["phases"].values()) == 13
    assert plain["roles"]["bank"]["payload_sent"] == {"telecom": 1_000_000, "shop": 3_000_000}


def test_ledger(record: RunRecord) -> None:
    """Every reveal, with its receiver and its count."""
    assert record.to_dict()["ledger"] == [
        {"name": "own split", "receiver": "bank", "count": 7},
        {"name": "tree shape", "receiver": "participants", "count": 21},
    ]


def test_json(record: RunRecord) -> None:
    """The text is JSON of the dictionary."""
    assert json.loads(record.to_json()) == record.to_dict()


def test_page(record: RunRecord) -> None:
    """A page of text: one line of summary, then roles, phases and reveals in columns."""
    lines = str(record).splitlines()
    assert lines[0] == "train: 4 trees in 1.25 s, 13 message rounds, 3.00 MB from the coordinator, peak memory 1.50 GB"
    table = {line.split()[0]: line.split()[1:] for line in lines[1:] if line}
    assert table["bank"] == ["3", "4.00", "MB", "250.00", "kB"]
    assert table["shop"] == ["0", "0", "B", "0", "B"]
    assert table["train"][1:] == ["10", "7", "5"]
    assert "(between)" in table
    assert lines[-2].split() == ["own", "split", "bank", "7"]
    assert lines[-1].split() == ["tree", "shape", "participants", "21"]
    assert "INSECURE" not in str(record)


def test_tournaments_are_summed_up() -> None:
    """The page has one line for all of them, however many there are; the record has each."""
    planned = meters()
    planned[1].plans |= {f"{nodes} x 91": f"plan {nodes}" for nodes in (2, 1, 16, 8)}
    record = record_run("train", model(), counted(planned, Ledger()), SessionSettings(), 0.1, 0)
    assert len(record.to_dict()["plans"]) == 4
    (line,) = (line for line in str(record).splitlines() if "tournaments" in line)
    assert line.startswith("tournaments of 1 x 91 to 16 x 91 nodes x candidates, planned for a star, ")
    assert "plan 8" not in str(record)


def test_a_seed_is_announced() -> None:
    """A repeatable run is insecure, and the page says so right below the summary."""
    settings = SessionSettings(insecure_seed=0)
    record = record_run("predict", model(), counted(meters(), Ledger()), settings, 0.1, 0)
    assert record.insecure_seed
    assert record.to_dict()["insecure_seed"] is True
    assert str(record).splitlines()[1].startswith("INSECURE: ")


def test_the_seed_itself_is_not_in_the_record() -> None:
    """Whoever reads the record of a demonstration does not get its masks."""
    settings = SessionSettings(insecure_seed=987654321)
    record = record_run("train", model(), counted(meters(), Ledger()), settings, 0.1, 0)
    assert "987654321" not in record.to_json() + str(record) + repr(record)
