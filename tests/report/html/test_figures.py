"""Curves, bars and trees: everything that there is is drawn, at its place, and nothing else."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.report.html.page import environment
from mpfedxgb.report.html.pictures import (
    Bar,
    Bars,
    Curve,
    Names,
    TreePicture,
    bars,
    condition,
    curve,
    ticks,
    tree_picture,
)
from mpfedxgb.tree.nodes import Dummy, Leaf, Node, Split, Tree
from mpfedxgb.units import count
from support.pages import Element, parse
from support.reports import tree

NAMES = Names(("bank", "telecom"), {"city": ("Basel", "Quito")})


def html(found: Curve | Bars | TreePicture | None) -> str:
    """Return a drawing as it stands in a page."""
    macros: Any = environment().get_template("pictures.html").module
    if isinstance(found, TreePicture):
        return str(macros.tree_picture(found, "a tree"))
    return str(macros.curve(found) if isinstance(found, Curve) else macros.bars(found))


def svg(found: Curve | Bars | TreePicture | None) -> Element:
    """Return the drawing."""
    return parse(html(found)).all("svg")[0]


def points(drawing: Element) -> list[tuple[float, float]]:
    """Return the points of the first curve."""
    (path,) = [p for p in drawing.all("path") if "curve" in p.classes]
    return [(float(x), float(y)) for x, y in re.findall(r"[ML]([\d.]+) ([\d.]+)", path.attributes["d"] or "")]


# Curves


def test_a_curve_has_a_point_for_each_round() -> None:
    """From left to right, and more is higher up."""
    drawn = points(svg(curve("auc", {"validation_0": [0.7, 0.9, 0.8]})))
    assert [x for x, _ in drawn] == sorted({x for x, _ in drawn})
    assert drawn[0][1] > drawn[2][1] > drawn[1][1]


@pytest.mark.parametrize("values", [[0.5], [0.5, 0.5], [0.0, 0.0], [math.nan, 1.0], [-3.0, math.inf, 2.0]])
def test_difficult_curves(values: list[float]) -> None:
    """One round, a constant, and rounds without a finite value: all finite values are drawn, inside the picture."""
    drawn = points(svg(curve("m", {"validation_0": values})))
    assert len(drawn) == sum(map(math.isfinite, values))
    assert all(0 <= x <= 360 and 0 <= y <= 210 for x, y in drawn)


def test_no_finite_value_is_no_curve() -> None:
    """There is nothing to draw."""
    assert curve("m", {"validation_0": [math.nan]}) is None
    assert curve("m", {"validation_0": []}) is None


def test_long_curves_stay_small() -> None:
    """Ten thousand rounds take no more room than some hundred, and the last one is there."""
    values = [1 / (n + 1) for n in range(10_000)]
    made = curve("m", {"validation_0": values})
    assert len(html(made)) < 8_000
    assert "in round 10,000" not in html(made)
    assert len(points(svg(made))) < 300


def test_the_best_round_is_marked() -> None:
    """By a line, and in words with the metric of that round."""
    made = curve("auc", {"validation_0": [0.7, 0.9, 0.8]}, best=1)
    assert [line for line in svg(made).all("line") if "best" in line.classes]
    assert "0.9 in round 2" in parse(html(made)).words()


# Ticks


@given(st.floats(-1e12, 1e12), st.floats(1e-6, 1e12))
def test_ticks_are_round_and_inside(low: float, width: float) -> None:
    """They rise in equal steps, lie between the ends, and are few."""
    high = low + width
    if high - low < 1e-9 * max(abs(low), abs(high)):
        return
    found = ticks(low, high)
    assert 1 <= len(found) <= 7
    room = 1e-6 * (high - low) + 1e-9 * max(abs(low), abs(high))
    assert low - room <= found[0]
    assert found[-1] <= high + room
    assert found == sorted(found)


def test_no_width_is_one_tick() -> None:
    """A constant has one label."""
    assert ticks(0.5, 0.5) == [0.5]


# Bars


def test_bars_are_in_proportion() -> None:
    """The longest first, each with name and value, own ones in another colour."""
    made = bars("Splits", [Bar("telecom", 5, is_own=False), Bar("bank", 20)], count)
    rects = svg(made).all("rect")
    assert [r.classes for r in rects] == [{"own"}, {"other"}]
    long, short = (float(r.attributes["width"] or 0) for r in rects)
    assert long / short == pytest.approx(4, rel=0.01)
    assert [t.text for t in svg(made).all("text")] == ["bank", "20", "telecom", "5"]


def test_many_bars_are_cut() -> None:
    """The largest stay, and the caption says of how many."""
    made = bars("Splits", [Bar(f"c{n}", n) for n in range(50)], count)
    assert len(svg(made).all("rect")) == 20
    assert "(the first 20 of 50)" in parse(html(made)).words()
    assert bars("Splits", [], count) is None


# Trees


def boxes(drawing: Element) -> list[tuple[float, float, float, float]]:
    """Return left, right, top and bottom of every node."""
    found = []
    for group in drawing.all("g"):
        for rect in group.all("rect"):
            x, y, w, h = (float(rect.attributes[k] or 0) for k in ("x", "y", "width", "height"))
            found.append((x, x + w, y, y + h))
        for dot in group.all("circle"):
            x, y, r = (float(dot.attributes[k] or 0) for k in ("cx", "cy", "r"))
            found.append((x - r, x + r, y - r, y + r))
    return found


@st.composite
def random_trees(draw: st.DrawFn) -> Tree:
    """Return a tree of any shape, numbered level by level."""
    nodes: list[Node | None] = [None]
    for number in range(draw(st.integers(0, 12))):
        places = [n for n, node in enumerate(nodes) if node is None]
        del number
        place = draw(st.sampled_from(places))
        left = len(nodes)
        own = draw(st.booleans())
        flipped = draw(st.booleans())
        nodes[place] = Split("age", 1.0, None, False, flipped, left, left + 1) if own else Dummy(2, left, left + 1)
        nodes += [None, None]
    weight = draw(st.sampled_from([None, 1 << 31]))
    return tuple(Leaf(weight) if node is None else node for node in nodes)


@given(random_trees())
def test_nodes_do_not_touch(grown: Tree) -> None:
    """Whatever the shape: every node is drawn once, inside the picture, beside all others."""
    drawing = svg(tree_picture(grown, NAMES))
    found = boxes(drawing)
    assert len(found) == len(grown)
    width, height = (float(drawing.attributes[k] or 0) for k in ("width", "height"))
    assert all(min(left, top) >= 0 and right <= width and bottom <= height for left, right, top, bottom in found)
    for n, (left, right, top, bottom) in enumerate(found):
        for other in found[:n]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top


def test_own_splits_in_colour_the_others_in_grey() -> None:
    """Own ones with column and value, the others with their owner's name and nothing else."""
    drawing = svg(tree_picture(tree(2), NAMES))
    own = [g for g in drawing.all("g") if "o" in g.classes]
    grey = [g for g in drawing.all("g") if "g" in g.classes]
    leaves = [g for g in drawing.all("g") if "l" in g.classes]
    assert [[t.text for t in g.all("text")] for g in own] == [["age", "\u2264 40.5"], ["age", "\u2264 42.5"]]
    assert [[t.text for t in g.all("text")] for g in grey] == [["telecom"]]
    assert [g.all("text")[0].text for g in leaves] == ["\u22120.5", "\u22120.25", "+0", "+0.25"]


@pytest.mark.parametrize(
    ("split", "told"),
    [
        (Split("city", None, 1, False, False, 1, 2), ("city", "\u2260 Quito")),
        (Split("town", None, 1, False, False, 1, 2), ("town", "\u2260 category 1")),
        (Split("age", math.inf, None, False, False, 1, 2), ("age", "is present")),
        (Split("age", -math.inf, None, False, False, 1, 2), ("age", "is missing")),
        (Split("age", float(np.float32(0.1)), None, False, False, 1, 2), ("age", "\u2264 0.1")),
    ],
)
def test_conditions(split: Split, told: tuple[str, str]) -> None:
    """Categories by name where the names are known, and splits by presence."""
    assert condition(split, NAMES) == told


def test_the_condition_holds_on_the_left() -> None:
    """Whichever way the coin fell."""
    for flipped in (False, True):
        first, second = (2, 1) if flipped else (1, 2)
        grown: list[Node] = [Split("age", 1.0, None, False, flipped, 1, 2), Leaf(0), Leaf(0)]
        grown[first], grown[second] = Leaf(1 << 32), Leaf(-(1 << 32))
        leaves = [g for g in svg(tree_picture(tuple(grown), NAMES)).all("g") if "l" in g.classes]
        at = {g.all("text")[0].text: float(g.all("text")[0].attributes["x"] or 0) for g in leaves}
        assert at["+1"] < at["\u22121"]
