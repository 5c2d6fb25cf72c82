"""Bars beside each other: how often something happened, how long it took, how much it weighs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mpfedxgb.report.html.markup import Markup, element
from mpfedxgb.report.html.numbers import shortened

_WIDTH, _ROW, _TOP = 360, 24, 4
_NAMES, _VALUES = 132, 64
_LETTERS = 18
"""How many letters of a name have room."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar; `is_own` if it is about the reader's own organisation."""

    name: str
    value: float
    is_own: bool = True


def bars(title: str, found: Sequence[Bar], written: Callable[[float], str], most: int = 20) -> Markup | None:
    """Return a drawing of the largest bars, each with its name and value; None where there are none."""
    shown = sorted(found, key=lambda bar: -bar.value)[:most]
    if not shown:
        return None
    longest = max(bar.value for bar in shown) or 1.0
    height = _TOP + _ROW * len(shown)
    drawn = []
    for row, bar in enumerate(shown):
        y = _TOP + _ROW * row
        width = max(1.0, round(bar.value / longest * (_WIDTH - _NAMES - _VALUES), 1))
        drawn += [
            element("text", shortened(bar.name, _LETTERS), x=_NAMES - 8, y=y + 14, class_="label end"),
            element("rect", x=_NAMES, y=y + 3, width=width, height=15, rx=2, class_="own" if bar.is_own else "other"),
            element("text", written(bar.value), x=_NAMES + width + 6, y=y + 14, class_="label value"),
        ]
    listed = ", ".join(f"{bar.name} {written(bar.value)}" for bar in shown)
    left_out = len(found) - len(shown)
    return element(
        "figure",
        element(
            "svg",
            element("title", f"{title}: {listed}"),
            drawn,
            viewBox=f"0 0 {_WIDTH} {height}",
            role="img",
            class_="chart",
        ),
        element("figcaption", element("b", title), f" (the first {most} of {len(found)})" if left_out else None),
        class_="card",
    )
