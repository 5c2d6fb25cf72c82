"""A tree as one participant knows it, as a drawing (the paper's Figure 1): own splits in colour, the others' in grey.

Every leaf has a slot; a split stands above the middle of its two children. At a split of one's own the left branch is
the one on which the condition holds; of somebody else's split nobody knows which is which.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpfedxgb.report.html.markup import Markup, element
from mpfedxgb.report.html.numbers import short, shortened, signed
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree

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
