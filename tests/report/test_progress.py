"""The progress bar."""

from __future__ import annotations

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
