"""The progress bar."""

from __future__ import annotations

import re

import pytest

from mpfedxgb.boosting.callbacks import RoundReport
from mpfedxgb.report.progress import Silent, watch, watch_steps


def report(iteration: int, metrics: dict[str, dict[str, list[float]]] | None = None) -> RoundReport:
    """Return what callbacks are told after a round."""
    return RoundReport(iteration, 3, metrics or {}, 120 * (iteration + 1), 1_500_000 * (iteration + 1))


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """With verbosity 0 nothing is shown."""
    with watch(0, 3) as watcher:
        assert isinstance(watcher, Silent)
        watcher.on_progress("level 1 of 3")
        watcher.round_done(report(0))
    assert capsys.readouterr() == ("", "")


def test_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds done, the level, the last metrics, communication rounds and megabytes; on standard error."""
    monkeypatch.setenv("COLUMNS", "160")
    with watch(1, 3) as watcher:
        watcher.on_progress("level 1 of 3")
        watcher.round_done(report(0, {"validation_0": {"auc": [0.5]}}))
        watcher.on_progress("level 2 of 3")
        watcher.round_done(report(1, {"validation_0": {"auc": [0.5, 0.75]}, "validation_1": {"error": [0.2, 0.125]}}))
    shown = capsys.readouterr()
    assert shown.out == ""
    for words in ("2/3", "level 2 of 3", "auc 0.75000", "error 0.12500", "240 rounds", "3.00 MB"):
        assert words in shown.err


def test_the_time_left_fits_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In 80 columns it is there in full, whatever metrics and costs there are: these are cut; and it is one line."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    metrics = {f"validation_{k}": {"auc": [0.5], "logloss": [0.25]} for k in range(3)}
    with watch(1, 1000) as watcher:
        for t in range(3):
            watcher.on_progress("level 10 of 10")
            watcher.round_done(report(10**6 + t, metrics))
    lines = [strip(line) for line in capsys.readouterr().err.splitlines()]
    (shown,) = {line for line in lines if "3/1000" in line}
    assert len(shown) <= 80
    assert re.search(r"3/1000 +\d+:\d\d:\d\d +level 10 of 10 +auc", shown)
    assert "…" in shown


def strip(line: str) -> str:
    """Return a line of a terminal without its codes."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).split("\r")[-1]


def test_callbacks_of_the_bar_never_stop() -> None:
    """What the bar returns is not taken for a wish to stop."""
    with watch(1, 3) as watcher:
        assert not watcher.round_done(report(0))  # type: ignore[func-returns-value] # that is the point


def test_the_bar_is_closed_after_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A failing training leaves a tidy terminal, and another bar can be shown."""
    with pytest.raises(ZeroDivisionError), watch(1, 3):
        _ = 1 // 0
    with watch(1, 2) as watcher:
        watcher.round_done(report(0))
    assert "1/2" in capsys.readouterr().err


def test_steps(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A bar of steps on a terminal, and nothing to tell where there is none."""
    with watch_steps("bank: comparing ids") as nobody:
        assert nobody is None
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with watch_steps("bank: comparing ids") as told:
        assert told is not None
        told.on_steps("20 training rows", 3, 8)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "bank: comparing ids" in shown.err
    assert "3/8" in shown.err
