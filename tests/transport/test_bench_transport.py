"""The benchmark of the transports runs and keeps its form."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def bench() -> Any:
    """Return the benchmark as a module."""
    return importlib.import_module("bench_transport")


def test_every_row_is_complete(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Threads and processes alike report round trips, latencies and throughput."""
    bench.main(["--json", "--quick", "--only", "memory,tls"])
    report = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in report["transports"]] == ["memory", "tls"]
    for row in report["transports"]:
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["round_trips_per_second"] > 0
        assert row["megabytes_per_second"] > 0
    text = bench.transport_table([bench.TransportRow(**row) for row in report["transports"]])
    assert [line.split()[0] for line in text.splitlines()[3:]] == ["memory", "tls"]


@pytest.mark.parametrize(("words", "message"), [(["--repeat", "0"], "not 0"), (["--only", "smoke"], "not smoke")])
def test_nonsense_is_refused(bench: Any, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message names the option and the value."""
    with pytest.raises(SystemExit):
        bench.main(words)
    assert message in capsys.readouterr().err
