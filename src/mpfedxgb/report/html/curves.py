"""A metric over the rounds of a training, as a drawing: one line for each set of evaluation rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mpfedxgb.report.html.markup import Markup, element
from mpfedxgb.report.html.numbers import count, short, ticks

_WIDTH, _HEIGHT = 360, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 14, 34
_MOST_POINTS = 240
"""More would only lie on top of each other."""
COLOURS = 4


def curve(metric: str, lines: Mapping[str, Sequence[float]], best: int | None = None) -> Markup | None:
    """Return the drawing of a metric, `lines` by the name of their rows; None where there is no finite value.

    `best` is the round, counted from 0, that predictions stop at.
    """
    finite = [v for values in lines.values() for v in values if math.isfinite(v)]
    if not finite:
        return None
    rounds = max(len(values) for values in lines.values())
    low, high = min(finite), max(finite)
    room = 0.06 * (high - low) or abs(high) * 0.05 or 1.0
    area = _Area(1, max(rounds, 2), low - room, high + room)
    drawn = [area.grid(), area.best(best)]
    for number, values in enumerate(lines.values()):
        drawn += area.line(values, f"c{number % COLOURS + 1}")
    told = "; ".join(f"{name} from {short(v[0])} to {short(v[-1])}" for name, v in lines.items() if v)
    return element(
        "figure",
        element(
            "svg",
            element("title", f"{metric} over {count(rounds)} rounds: {told}"),
            drawn,
            viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
            role="img",
            class_="chart",
        ),
        element("figcaption", element("b", metric), _legend(lines, best)),
        class_="card",
    )


class _Area:
    """The rectangle that values are drawn in."""

    def __init__(self, first: float, last: float, low: float, high: float) -> None:
        self.first, self.last, self.low, self.high = first, last, low, high

    def x(self, round_: float) -> float:
        """Return where a round, counted from 1, lies."""
        return _LEFT + (round_ - self.first) / (self.last - self.first) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        """Return where a value lies; more is higher."""
        return _HEIGHT - _BOTTOM - (value - self.low) / (self.high - self.low) * (_HEIGHT - _TOP - _BOTTOM)

    def grid(self) -> list[Markup]:
        """Return lines and labels of both axes."""
        drawn = []
        for value in ticks(self.low, self.high):
            y = round(self.y(value), 1)
            drawn.append(element("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
            drawn.append(element("text", short(value), x=_LEFT - 6, y=round(y + 3.5, 1), class_="tick end"))
        marks = [v for v in ticks(self.first, self.last, 5) if v == round(v)]
        if self.x(marks[0]) - self.x(self.first) > 24:
            marks.insert(0, self.first)
        for value in marks:
            x = round(self.x(value), 1)
            drawn.append(element("text", count(value), x=x, y=_HEIGHT - _BOTTOM + 15, class_="tick mid"))
        middle = (_LEFT + _WIDTH - _RIGHT) / 2
        drawn.append(element("text", "round", x=middle, y=_HEIGHT - 4, class_="tick mid"))
        return drawn

    def best(self, best: int | None) -> Markup | None:
        """Return the mark of the round that predictions stop at."""
        if best is None:
            return None
        x = round(self.x(best + 1), 1)
        return element("line", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="best")

    def line(self, values: Sequence[float], colour: str) -> list[Markup]:
        """Return a line through the values and a dot at the last one; where a value is not finite, the line breaks."""
        step = max(1, math.ceil(len(values) / _MOST_POINTS))
        path, is_down, last = [], False, None
        for number, value in enumerate(values):
            if number % step and number != len(values) - 1:
                continue
            if not math.isfinite(value):
                is_down = False
                continue
            last = round(self.x(number + 1), 1), round(self.y(value), 1)
            path.append(f"{'L' if is_down else 'M'}{last[0]} {last[1]}")
            is_down = True
        if last is None:
            return []
        return [
            element("path", d="".join(path), class_=f"curve {colour}"),
            element("circle", cx=last[0], cy=last[1], r=3, class_=f"dot {colour}"),
        ]


def _legend(lines: Mapping[str, Sequence[float]], best: int | None) -> Markup:
    items = []
    for number, (name, values) in enumerate(lines.items()):
        told = f" {short(values[-1])}" if values else ""
        if values and best is not None and best < len(values):
            told = f" {short(values[best])} in round {count(best + 1)}, the one that predictions stop at"
        items.append(element("li", _swatch(f"c{number % COLOURS + 1}"), f"{name}:{told}"))
    return element("ul", items, class_="legend")


def _swatch(colour: str) -> Markup:
    dot = element("line", x1=0, x2=18, y1=5, y2=5, class_=f"curve {colour}")
    return element("svg", dot, viewBox="0 0 18 10", class_="swatch", aria_hidden="true")
