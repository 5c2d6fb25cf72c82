"""Where everything in a drawing lies: metrics over the rounds, bars beside each other, trees (the paper's Figure 1).

Of a tree, every leaf has a slot; a split stands above the middle of its two children. At an own split the left branch
is the one on which the condition holds; of somebody else's split nobody knows which is which.
`templates/pictures.html` draws what is computed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mpfedxgb.report.trees import sides
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Node, Split, Tree
from mpfedxgb.units import count, short, shortened, signed

COLOURS = 4
_MOST_POINTS = 240
"""More would only lie on top of each other."""


@dataclass(frozen=True, slots=True)
class Line:
    """The values of a metric on some rows; where one is not finite, the path breaks. `end` is the last point of it."""

    rows: str
    values: Sequence[float]
    path: str
    end: tuple[float, float] | None
    colour: int


@dataclass(frozen=True, slots=True)
class Curve:
    """A metric over the boosting rounds; `best` is the round, counted from 0, that is marked."""

    metric: str
    rounds: int
    best: int | None
    best_x: float
    heights: Sequence[tuple[float, str]]
    places: Sequence[tuple[float, str]]
    lines: Sequence[Line]
    width: ClassVar = 360
    height: ClassVar = 210
    left: ClassVar = 48
    right: ClassVar = 346
    top: ClassVar = 14
    bottom: ClassVar = 176


def curve(metric: str, lines: Mapping[str, Sequence[float]], best: int | None = None) -> Curve | None:
    """Return a metric as a drawing, `lines` by the name of their rows; None if there is no finite value."""
    finite = [v for values in lines.values() for v in values if math.isfinite(v)]
    if not finite:
        return None
    rounds = max(len(values) for values in lines.values())
    space = 0.06 * (max(finite) - min(finite)) or abs(max(finite)) * 0.05 or 1.0
    low, high, last = min(finite) - space, max(finite) + space, max(rounds, 2)

    def x(round_: float) -> float:
        return round(Curve.left + (round_ - 1) / (last - 1) * (Curve.right - Curve.left), 1)

    def y(value: float) -> float:
        return round(Curve.bottom - (value - low) / (high - low) * (Curve.bottom - Curve.top), 1)

    marks = [v for v in ticks(1, last, 5) if v == round(v)]
    if x(marks[0]) - x(1) > 24:
        marks.insert(0, 1)
    return Curve(
        metric,
        rounds,
        best,
        x((best or 0) + 1),
        [(y(value), short(value)) for value in ticks(low, high)],
        [(x(mark), count(mark)) for mark in marks],
        [_line(rows, values, number % COLOURS + 1, x, y) for number, (rows, values) in enumerate(lines.items())],
    )


def _line(
    rows: str, values: Sequence[float], colour: int, x: Callable[[float], float], y: Callable[[float], float]
) -> Line:
    step = max(1, math.ceil(len(values) / _MOST_POINTS))
    path, is_down, end = "", False, None
    for number, value in enumerate(values):
        if number % step and number != len(values) - 1:
            continue
        if math.isfinite(value):
            end = x(number + 1), y(value)
            path += f"{'L' if is_down else 'M'}{end[0]} {end[1]}"
        is_down = math.isfinite(value)
    return Line(rows, values, path, end, colour)


@dataclass(frozen=True, slots=True)
class Shares:
    """A drawing over the unit square: paths with what each is, the diagonal if that means something, bars if any."""

    title: str
    across: str
    up: str
    what: str
    top_value: float
    lines: Sequence[tuple[str, str]]
    has_diagonal: bool = False
    bars: Sequence[tuple[float, float, float, int]] = ()
    bar_width: float = 0.0
    dots: Sequence[tuple[float, float]] = ()
    width: ClassVar = 360
    height: ClassVar = 260
    left: ClassVar = 48
    right: ClassVar = 346
    top: ClassVar = 14
    bottom: ClassVar = 224

    @property
    def marks(self) -> list[tuple[float, float, str, str]]:
        """Where the marks of both axes are, and what they say."""
        return [(*_in_square(m / 4, m / 4), short(m / 4), short(m / 4 * self.top_value)) for m in range(5)]


def _in_square(x: float, y: float) -> tuple[float, float]:
    wide, high = Shares.right - Shares.left, Shares.bottom - Shares.top
    return round(Shares.left + x * wide, 1), round(Shares.bottom - y * high, 1)


def shares(judgement: Mapping[str, Any]) -> list[Shares]:
    """Return drawings of a judgement (`boosting.judgement`): ROC, gains, calibration, scores of both classes."""

    def path(points: Sequence[Sequence[float]]) -> str:
        return "".join(f"{'L' if n else 'M'}{x:g} {y:g}" for n, (x, y) in enumerate(_in_square(*p) for p in points))

    ks, at = judgement["ks"]
    groups = [(mean, rate) for mean, rate, _ in judgement["calibration"]]
    found, kinds = judgement["scores"], ("negatives", "positives")
    most = math.ceil(25 * max(max(one) for one in found)) / 25  # so that its quarters have two digits
    step = 1 / len(found[0])
    bars = []
    for kind, one in enumerate(found):
        for number, share in enumerate(one):
            x, y = _in_square((number + kind / 2) * step, share / most)
            bars.append((x, y, round(Shares.bottom - y, 1), kind + 1))
    tenth = next((up for share, up in judgement["gains"] if share >= 0.1 - 1e-9), 1.0)
    return [
        Shares("ROC", "share of negatives above a score", "share of positives above a score",
               f"AUC {short(judgement['auc'])}", 1.0, [("", path(judgement["roc"]))],
               has_diagonal=True),
        Shares("Gains", "share of rows, best scores first", "share of positives among them",
               f"the first tenth has {short(tenth)} of the positives, a lift of {short(10 * tenth)}", 1.0,
               [("", path(judgement["gains"]))], has_diagonal=True),
        Shares("Calibration", "mean score of a tenth of the rows", "share of positives in it",
               "on the diagonal, scores are probabilities", 1.0, [("", path(groups))], has_diagonal=True,
               dots=[_in_square(*group) for group in groups]),
        Shares("Scores", "score", "share of the rows of a class", f"KS {short(ks)} at a score of {short(at)}", most,
               [(kind, "") for kind in kinds], bars=bars, bar_width=round(step / 2 * (Shares.right - Shares.left), 1)),
    ]  # fmt: skip


def ticks(low: float, high: float, about: int = 4) -> list[float]:
    """Return round numbers between two, some `about` many: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    return [step * k for k in range(first, math.floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Bar:
    """A named value; `is_own` if it is about the reader's own organisation."""

    name: str
    value: float
    is_own: bool = True


@dataclass(frozen=True, slots=True)
class Bars:
    """The largest of some bars: each with its width, its name as it fits, and its value in words."""

    title: str
    total: int
    drawn: Sequence[tuple[Bar, float, str, str]]
    row: ClassVar = 24
    width: ClassVar = 360
    names: ClassVar = 132
    values: ClassVar = 64


def bars(title: str, found: Sequence[Bar], written: Callable[[float], str], most: int = 20) -> Bars | None:
    """Return the largest bars as a drawing; None if there are none."""
    shown = sorted(found, key=lambda bar: -bar.value)[:most]
    if not shown:
        return None
    scale = (Bars.width - Bars.names - Bars.values) / (shown[0].value or 1.0)
    drawn = [(b, max(1.0, round(b.value * scale, 1)), shortened(b.name, 18), written(b.value)) for b in shown]
    return Bars(title, len(found), drawn)


_SLOT, _LEVEL, _MARGIN = 58, 66, 8
_LETTERS = 15
"""How many letters of a name have room in a box."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a drawing calls things: participants by their number, and the categories of the reader's own columns."""

    participants: Sequence[str]
    categories: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class NodeWords:
    """A node in words: `kind` is own (o), somebody else's (g) or a leaf (l); `notes` is what a box has no room for."""

    kind: str
    lines: tuple[str, ...]
    title: str = ""
    notes: str = ""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node at its place, the middle of its upper edge."""

    words: NodeWords
    x: float
    y: float

    @property
    def lines(self) -> list[tuple[str, float]]:
        """Its words as they fit, each with its baseline."""
        first = 15 if self.words.kind == "l" or len(self.words.lines) > 1 else 22
        return [(shortened(line, _LETTERS), self.y + first + 14 * n) for n, line in enumerate(self.words.lines)]


@dataclass(frozen=True, slots=True)
class TreePicture:
    """A tree as a drawing: all edges as one path, the words beside those of own splits, and the nodes."""

    width: int
    height: int
    edges: str
    answers: Sequence[tuple[str, float, float]]
    nodes: Sequence[DrawnNode]
    box: ClassVar = 110
    box_height: ClassVar = 36
    leaf: ClassVar = 52
    leaf_height: ClassVar = 22


def tree_picture(tree: Tree, names: Names) -> TreePicture:
    """Return the drawing of a tree as one participant knows it."""
    nodes = places(tree)
    slots = sum(isinstance(node, Leaf) for node in tree)
    margin = _MARGIN + max(0, TreePicture.box - _SLOT * slots) / 2  # a tree of one leaf is narrower than a box
    at = {n: (round(margin + _SLOT * (slot + 0.5), 1), 4 + _LEVEL * level) for n, (slot, level) in nodes.items()}
    path, answers = "", []
    for number, node in enumerate(tree):
        if isinstance(node, Leaf):
            continue
        x, y = at[number][0], at[number][1] + TreePicture.box_height
        for word, child, beside in zip(("yes", "no"), sides(node), (-5, 5), strict=True):
            to_x, to_y = at[child]
            path += f"M{x:g} {y:g}L{to_x:g} {to_y:g}"
            if isinstance(node, Split):
                answers.append((word, round((x + to_x) / 2 + beside, 1), (y + to_y) / 2 + 2))
    return TreePicture(
        round(2 * _MARGIN + max(_SLOT * slots, TreePicture.box)),
        _LEVEL * max(level for _, level in nodes.values()) + TreePicture.box_height + 8,
        path,
        answers,
        [DrawnNode(node_words(tree[n], names), *at[n]) for n in range(len(tree))],
    )


def places(tree: Tree) -> dict[int, tuple[float, int]]:
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


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of a tree that folds, with what is below it; `answer` is yes or no below an own split."""

    words: NodeWords
    answer: str
    below: Sequence[Branch]


def tree_outline(tree: Tree, names: Names, number: int = 0, answer: str = "") -> Branch:
    """Return a tree that folds, from its root on."""
    node = tree[number]
    below: list[Branch] = []
    if not isinstance(node, Leaf):
        answers = ("yes", "no") if isinstance(node, Split) else ("", "")
        below = [tree_outline(tree, names, child, a) for child, a in zip(sides(node), answers, strict=True)]
    return Branch(node_words(node, names), answer, below)


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


def node_words(node: Node, names: Names) -> NodeWords:
    """Return what a participant knows of a node."""
    if isinstance(node, Leaf):
        if node.weight is not None:
            return NodeWords("l", (signed(math.ldexp(node.weight, -WEIGHT_BITS)),))
        return NodeWords("l", (), "" if node.share is None else "a leaf; its weight is shared among all")
    gain = "" if node.gain is None else f"gain {short(node.gain)}"
    if isinstance(node, Dummy):
        owner = names.participants[node.owner - 1]
        title = f"a split of {owner}; only {owner} knows its column and threshold"
        return NodeWords("g", (owner,), f"{title}; {gain}" if gain else title, gain)
    feature, rest = condition(node, names)
    exact = f" (exactly {node.threshold!r})" if node.threshold is not None and math.isfinite(node.threshold) else ""
    title = f"{feature} {rest}{exact}; missing values go to the {'first' if node.missing_left else 'second'} side"
    notes = [f"missing: {'yes' if node.missing_left else 'no'}", gain]
    return NodeWords("o", (feature, rest), f"{title}; {gain}" if gain else title, ", ".join(filter(None, notes)))
