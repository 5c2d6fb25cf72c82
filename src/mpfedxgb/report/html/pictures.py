"""A metric over the rounds of a training, as a drawing: one line for each set of evaluation rows.

Bars beside each other: how often something happened, how long it took, how much it weighs.

A tree as one participant knows it, as a drawing (the paper's Figure 1): own splits in colour, the others' in grey.

Every leaf has a slot; a split stands above the middle of its two children. At a split of one's own the left branch is
the one on which the condition holds; of somebody else's split nobody knows which is which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mpfedxgb.report.html.markup import Markup, count, element, short, shortened, signed, ticks
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree

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


_BAR_WIDTH, _ROW, _BAR_TOP = 360, 24, 4
_NAMES, _VALUES = 132, 64
_BAR_LETTERS = 18
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
    height = _BAR_TOP + _ROW * len(shown)
    drawn = []
    for row, bar in enumerate(shown):
        y = _BAR_TOP + _ROW * row
        width = max(1.0, round(bar.value / longest * (_BAR_WIDTH - _NAMES - _VALUES), 1))
        drawn += [
            element("text", shortened(bar.name, _BAR_LETTERS), x=_NAMES - 8, y=y + 14, class_="label end"),
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
            viewBox=f"0 0 {_BAR_WIDTH} {height}",
            role="img",
            class_="chart",
        ),
        element("figcaption", element("b", title), f" (the first {most} of {len(found)})" if left_out else None),
        class_="card",
    )


_SLOT, _LEVEL = 58, 66
_BOX, _BOX_HEIGHT, _LEAF, _LEAF_HEIGHT = 110, 36, 52, 22
_MARGIN = 8
_LETTERS = 15
"""How many letters of a name have room in a box."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a drawing calls things: participants by their number, and the categories of the reader's own columns."""

    participants: Sequence[str]
    categories: Mapping[str, Sequence[str]]


def tree_picture(tree: Tree, names: Names, title: str) -> Markup:
    """Return the drawing of a tree."""
    places = _places(tree)
    slots = sum(isinstance(node, Leaf) for node in tree)
    depth = max(level for _, level in places.values())
    width = round(2 * _MARGIN + max(_SLOT * slots, _BOX))
    height = _LEVEL * depth + _BOX_HEIGHT + 8
    at = {n: (_x(slot, slots), 4 + _LEVEL * level) for n, (slot, level) in places.items()}
    edges, words = _edges(tree, at)
    return element(
        "svg",
        element("title", title),
        element("path", d=edges, class_="edge"),
        words,
        [_node(tree[n], *at[n], names) for n in range(len(tree))],
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="img",
        class_="tree small" if width <= 600 else "tree",
    )


def condition(split: Split, names: Names) -> tuple[str, str]:
    """Return the column of a split, and which of its values go to the first side."""
    if split.category is not None:
        known = names.categories.get(split.feature)
        named = f"category {split.category}" if known is None else known[split.category]
        return split.feature, f"\N{NOT EQUAL TO} {named}"
    assert split.threshold is not None
    if math.isinf(split.threshold):
        return split.feature, "is present" if split.threshold > 0 else "is missing"
    return split.feature, f"\N{LESS-THAN OR EQUAL TO} {short(split.threshold)}"


def sides(node: Split | Dummy) -> tuple[int, int]:
    """Return the children: of one's own split the side first on which the condition holds."""
    flipped = isinstance(node, Split) and node.flipped
    return (node.right, node.left) if flipped else (node.left, node.right)


def _places(tree: Tree) -> dict[int, tuple[float, int]]:
    """Return slot and level of every node: leaves from left to right, splits in the middle above their children."""
    levels, order, waiting = {0: 0}, [], [0]
    while waiting:
        number = waiting.pop()
        order.append(number)
        node = tree[number]
        if not isinstance(node, Leaf):
            first, second = sides(node)
            levels[first] = levels[second] = levels[number] + 1
            waiting += [second, first]
    leaves = [number for number in order if isinstance(tree[number], Leaf)]
    slots: dict[int, float] = {number: slot for slot, number in enumerate(leaves)}
    for number in reversed(order):
        node = tree[number]
        if not isinstance(node, Leaf):
            slots[number] = (slots[node.left] + slots[node.right]) / 2
    return {number: (slots[number], levels[number]) for number in range(len(tree))}


def _x(slot: float, slots: int) -> float:
    spare = max(0, _BOX - _SLOT * slots) / 2  # a tree of one leaf is narrower than a box
    return round(_MARGIN + spare + _SLOT * (slot + 0.5), 1)


def _edges(tree: Tree, at: Mapping[int, tuple[float, float]]) -> tuple[str, list[Markup]]:
    """Return all edges as one path, and the words beside those of own splits."""
    path, words = [], []
    for number, node in enumerate(tree):
        if isinstance(node, Leaf):
            continue
        x, y = at[number]
        for word, child in zip(("yes", "no"), sides(node), strict=True):
            to_x, to_y = at[child]
            path.append(f"M{x:g} {y + _BOX_HEIGHT:g}L{to_x:g} {to_y:g}")
            if isinstance(node, Split):
                beside = (x + to_x) / 2 + (-5 if word == "yes" else 5)
                side = "end" if word == "yes" else "start"
                words.append(
                    element(
                        "text", word, x=f"{beside:g}", y=f"{(y + _BOX_HEIGHT + to_y) / 2 + 2:g}", class_=f"e {side}"
                    )
                )
    return "".join(path), words


def _node(node: Leaf | Split | Dummy, x: float, y: float, names: Names) -> Markup:
    if isinstance(node, Leaf):
        return _leaf(node, x, y)
    if isinstance(node, Dummy):
        owner = names.participants[node.owner - 1]
        told = f"a split of {owner}; only {owner} knows its column and threshold"
        if node.gain is not None:
            told += f"; gain {short(node.gain)}"
        drawn = [_text(shortened(owner, _LETTERS), x, y + 22)]
        return _box("g", x, y, told, drawn)
    feature, rest = condition(node, names)
    missing = "first" if node.missing_left else "second"
    exact = f" (exactly {node.threshold!r})" if node.threshold is not None and math.isfinite(node.threshold) else ""
    told = f"{feature} {rest}{exact}; missing values go to the {missing} side"
    if node.gain is not None:
        told += f"; gain {short(node.gain)}"
    drawn = [_text(shortened(feature, _LETTERS), x, y + 15), _text(shortened(rest, _LETTERS), x, y + 29)]
    return _box("o", x, y, told, drawn)


def _leaf(leaf: Leaf, x: float, y: float) -> Markup:
    if leaf.weight is None:
        told = None if leaf.share is None else element("title", "a leaf; its weight is shared among all")
        dot = element("circle", cx=f"{x:g}", cy=f"{y + 8:g}", r=7)
        return element("g", told, dot, class_="l")
    value = signed(math.ldexp(leaf.weight, -WEIGHT_BITS))
    pill = element("rect", x=f"{x - _LEAF / 2:g}", y=f"{y:g}", width=_LEAF, height=_LEAF_HEIGHT, rx=11)
    return element("g", pill, _text(value, x, y + 15), class_="l")


def _box(kind: str, x: float, y: float, told: str, drawn: Sequence[Markup]) -> Markup:
    rect = element("rect", x=f"{x - _BOX / 2:g}", y=f"{y:g}", width=_BOX, height=_BOX_HEIGHT, rx=5)
    return element("g", element("title", told), rect, drawn, class_=kind)


def _text(words: str, x: float, y: float) -> Markup:
    return element("text", words, x=f"{x:g}", y=f"{y:g}")
