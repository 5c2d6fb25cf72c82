"""The benchmark keeps its form, and what it counts (not what it times) keeps the engine's promises."""

from __future__ import annotations

import importlib
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PROTOCOL_FIELDS = {"name", "elements", "participants", "rounds", "bytes_per_participant", "dealer_bytes", "seconds"}
KERNEL_FIELDS = {"name", "rate", "unit", "ratio_to_numpy", "ratio_to_numpy_best_layout", "share_of_limit"}

Report = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def bench() -> Any:
    """Return the benchmark as a module."""
    return importlib.import_module("bench_protocols")


@pytest.fixture(scope="module")
def report(bench: Any) -> Report:
    """Return the one object that a quick run prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        bench.main(["--json", "--quick"])
    parsed: Report = json.loads(out.getvalue())
    return parsed


def rows(report: Report, name: str) -> list[dict[str, Any]]:
    """Return the rows of one protocol, of which there must be one for each number of participants."""
    found = [row for row in report["protocols"] if row["name"] == name]
    assert {row["participants"] for row in found} == {2, 4}, name
    return found


def test_the_object_has_the_fields_and_names_that_others_rely_on(report: Report) -> None:
    """Every row is complete, and the rows that other documents quote are there."""
    assert all(row.keys() >= PROTOCOL_FIELDS for row in report["protocols"])
    assert all(row.keys() >= KERNEL_FIELDS for row in report["kernels"])
    assert {"multiply", "sign192", "argmax91_binary", "argmax91_fan4", "private_matrix"} <= {
        row["name"] for row in report["protocols"]
    }
    units = {row["name"]: row["unit"] for row in report["kernels"]}
    assert units["prg"] == "GB/s"
    assert units["dense"] == "G multiply-adds/s"
    assert all(row["seconds"] > 0 for row in report["protocols"])
    assert all(row["rate"] > 0 for row in report["kernels"])


def test_multiply_takes_one_round_and_eight_bytes(report: Report) -> None:
    """MUL in the vector ring opens one element per product: 8 bytes by each auxiliary, 8 by the dealer."""
    for row in rows(report, "multiply"):
        assert row["rounds"] == 1
        assert row["bytes_per_participant"] == 8 * row["elements"]
        assert row["active_bytes"] == 8 * row["elements"] * (row["participants"] - 1)
        assert row["dealer_bytes"] == 8 * row["elements"]


@pytest.mark.parametrize(("name", "rounds", "sent", "dealt"), [("look_up", 1, 8, 128), ("bits_to_ring", 1, 7, 53 * 8)])
def test_look_ups_take_one_round_and_few_bytes(report: Report, name: str, rounds: int, sent: int, dealt: int) -> None:
    """A place is opened in a word, and 1,024 bits are dealt for it; of 53 bits each is dealt as an element."""
    for row in rows(report, name):
        assert row["rounds"] == rounds
        assert row["bytes_per_participant"] == sent * row["elements"]
        assert row["dealer_bytes"] == dealt * row["elements"]


def test_a_sign_takes_at_most_three_rounds(report: Report) -> None:
    """The sign of 192 bits includes the masked opening before and the opened bit after the comparison."""
    for row in rows(report, "sign192"):
        assert row["rounds"] <= 3
        assert row["comparisons"] == row["elements"]


@pytest.mark.parametrize(("name", "rounds", "most"), [("sign192_bits2", 2, 320), ("sign192_bits3", 3, 145)])
def test_a_sign_on_bits_takes_few_bytes(report: Report, name: str, rounds: int, most: int) -> None:
    """Beside the masked opening before and the opened bit after it, the comparison has its rounds and its bytes."""
    for row in rows(report, name):
        assert row["rounds"] <= 1 + rounds + 1
        assert row["dealer_bytes"] <= most * row["elements"]
        assert row["comparisons"] == row["elements"]


@pytest.mark.parametrize(("name", "most"), [("argmax91_binary", 28), ("argmax91_fan4", 18)])
def test_a_tournament_of_91_keeps_to_its_rounds(report: Report, name: str, most: int) -> None:
    """Rounds grow with the stages, not with the number of tournaments or participants."""
    for row in rows(report, name):
        assert row["rounds"] <= most


def test_python_between_the_rounds_of_a_tournament_is_counted(report: Any) -> None:
    """About sixty calls into ring/ and NumPy per role and round; some compiled work for each of them."""
    calls = report["argmax_calls_per_round"]
    assert calls.keys() == {"coordinator", "active", "auxiliary"}
    assert all(10 < count < 70 for count in calls.values()), calls


def test_a_matrix_product_takes_no_round(report: Report) -> None:
    """After setup nobody but the dealer sends anything."""
    for row in rows(report, "private_matrix"):
        assert row["rounds"] == row["bytes_per_participant"] == row["active_bytes"] == 0
        assert row["dealer_bytes"] > 0


def test_rounds_and_bytes_do_not_depend_on_the_number_of_participants(report: Report) -> None:
    """What an auxiliary sends and what the dealer sends is the same for M = 2 and M = 4, where no one owner speaks."""
    owned = {"share", "matrix_setup"}
    for name in {row["name"] for row in report["protocols"]} - owned:
        two, four = rows(report, name)
        for field in ("rounds", "hops", "bytes_per_participant", "dealer_bytes", "products", "comparisons"):
            assert two[field] == four[field], (name, field)


def test_the_tables_are_readable(bench: Any, report: Report) -> None:
    """Every row of the report appears as one aligned line."""
    text = bench.protocol_table([bench.ProtocolRow(**row) for row in report["protocols"]])
    _title, header, rule, *lines = text.splitlines()
    assert len(lines) == len(report["protocols"])
    assert all(len(line) == len(rule) for line in lines)
    assert "rounds" in header


def test_a_nonsensical_repeat_is_refused(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option and the value."""
    with pytest.raises(SystemExit):
        bench.main(["--repeat", "0"])
    assert "--repeat must be 1 or more, not 0" in capsys.readouterr().err
