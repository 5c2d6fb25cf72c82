"""Numbers for people say what they count, in units that fit."""

from __future__ import annotations

import pytest

from mpfedxgb.units import bytes_text, counted, duration_text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (47_690_000, "47.69 MB"), (3.2e11, "320.00 GB")],
)
def test_bytes(count: float, text: str) -> None:
    """The largest unit of which there is one."""
    assert bytes_text(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.04, "0.0 s"), (119.9, "119.9 s"), (120, "2 minutes"), (7200, "2.0 hours")]
)
def test_durations(seconds: float, text: str) -> None:
    """Seconds up to two minutes, minutes up to two hours."""
    assert duration_text(seconds) == text


def test_counts() -> None:
    """One is singular; zero may have a word of its own."""
    assert [counted(n, "warning") for n in (0, 1, 2)] == ["0 warnings", "1 warning", "2 warnings"]
    assert counted(0, "problem", "no") == "no problems"
