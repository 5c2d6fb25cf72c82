"""The section of trees: the first few drawn at once, the others folded, and in words where there is no more room.

Which columns matter, as far as the reader may know: its own, and how many splits each participant has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from mpfedxgb.boosting.join import mean_gain, split_counts
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.markup import Content, Markup, count, counted, element, short
from mpfedxgb.report.html.pictures import Bar, Names, bars, condition, tree_picture
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree

_SHOWN = 3
_GROUP = 10
_ROOM = 1_600
"""Nodes that are drawn in all; a node takes some 150 bytes. Of trees beyond that, one line of words."""
_MOST_LINES, _MOST_WORDS = 400, 12
"""Trees that are told of at all, and own splits in one line; `mpfedxgb show` prints everything."""


def trees_section(facts: Facts) -> list[Content]:
    """Return the trees as the reader knows them."""
    if not facts.trees:
        return [element("p", "There is no tree yet.")]
    drawn = _drawn(facts.trees)
    shown = min(_SHOWN, drawn)
    parts: list[Content] = [element("p", _legend(facts)), [_figure(facts, n) for n in range(shown)]]
    told = min(len(facts.trees), max(drawn, _MOST_LINES))
    for first in range(shown, told, _GROUP):
        numbers = range(first, min(first + _GROUP, told))
        pictures = [_figure(facts, n) if n < drawn else _line(facts, n) for n in numbers]
        title = f"Trees {numbers[0] + 1} to {numbers[-1] + 1}" if len(numbers) > 1 else f"Tree {numbers[0] + 1}"
        parts.append(element("details", element("summary", title), _in_lists(pictures), id=f"trees-{numbers[0] + 1}"))
    if drawn < len(facts.trees):
        rest = f", and those after tree {count(told)} are left out" if told < len(facts.trees) else ""
        words = f"From tree {count(drawn + 1)} on, trees are in words, own splits only{rest}; mpfedxgb show prints all."
        parts.append(element("p", words, class_="quiet"))
    return parts


def first_tree(facts: Facts) -> Markup | None:
    """Return the drawing of the first tree; None where it is too large for one."""
    return _figure(facts, 0) if _drawn(facts.trees) else None


def names_of(facts: Facts) -> Names:
    """Return what drawings call things."""
    categories = {f.name: f.categories for f in facts.features if f.categories is not None}
    return Names(facts.participants, categories)


def _drawn(trees: Sequence[Tree]) -> int:
    """Return how many trees are drawn."""
    nodes = 0
    for number, tree in enumerate(trees):
        nodes += len(tree)
        if nodes > _ROOM:
            return number
    return len(trees)


def _legend(facts: Facts) -> list[Content]:
    others = " or ".join(name for name in facts.participants if name != facts.role)
    told: list[Content] = [
        "In ",
        element("b", "colour", class_="own-word"),
        f": splits on columns of {facts.role}, with column and value; left is where the condition holds. In ",
        element("b", "grey", class_="other-word"),
        f": splits of {others}; only the owner knows the column, the value, and which branch is which. ",
    ]
    if facts.shares_weights:
        return [*told, "Leaves are dots: their weights are shared among all, and nobody knows them."]
    if facts.is_active:
        return [*told, "Leaves carry their weight, which is added to the margin of the rows that end there."]
    return [*told, "Leaves are dots: their weights are the active participant\u2019s."]


def _title(facts: Facts, number: int) -> str:
    tree = facts.trees[number]
    splits = sum(not isinstance(node, Leaf) for node in tree)
    own = sum(isinstance(node, Split) for node in tree)
    round_, class_ = divmod(number, facts.trees_per_round)
    of_class = f", class {_class(facts, class_)}" if facts.trees_per_round > 1 else ""
    name = f"Tree {number + 1}" + (f" (round {round_ + 1}{of_class})" if of_class else "")
    unused = facts.best_iteration is not None and round_ > facts.best_iteration
    return (
        f"{name}: {counted(splits, 'split')}, {own} of {facts.role}; {counted(len(tree) - splits, 'leaf', 'leaves')}"
        + ("; after the best round, so not used in predictions" if unused else "")
    )


def _class(facts: Facts, number: int) -> str:
    classes = None if facts.model is None else facts.model.classes
    return str(number if classes is None else classes[number])


def _figure(facts: Facts, number: int) -> Markup:
    title = _title(facts, number)
    picture = tree_picture(facts.trees[number], names_of(facts), title)
    return element(
        "figure", element("div", picture, class_="scroll", tabindex="0"), element("figcaption", title), class_="wide"
    )


def _line(facts: Facts, number: int) -> Markup:
    names = names_of(facts)
    own = [" ".join(condition(node, names)) for node in facts.trees[number] if isinstance(node, Split)]
    more = f" and {count(len(own) - _MOST_WORDS)} more" if len(own) > _MOST_WORDS else ""
    return element("li", _title(facts, number), f": {', '.join(own[:_MOST_WORDS])}{more}" if own else None)


def _in_lists(parts: Sequence[Markup]) -> Iterator[Markup]:
    """Yield figures as they are, and lines as items of a list."""
    for is_line, some in groupby(parts, lambda part: part.startswith("<li")):
        found = list(some)
        yield from [element("ul", found, class_="plain")] if is_line else found


def importance_section(facts: Facts) -> list[Content]:
    """Return what the reader may know of the importance of columns."""
    if not facts.trees:
        return [element("p", "There is no tree yet.")]
    owners, own = splits_by_owner(facts), own_splits(facts)
    drawn: list[Content] = [bars("Splits by owner", owners, count), bars("Splits by own column", own, count)]
    gains = _gains(facts.model)
    if gains:
        drawn.append(bars("Mean gain by own column", gains, short))
    told = "Whose column splits a node is public among the roles; which column it is, only its owner knows."
    if not own:
        told += f" No column of {facts.role} has won a split."
    return [element("p", told), element("div", drawn, class_="cards")]


def splits_by_owner(facts: Facts) -> list[Bar]:
    """Return how many splits each participant has."""
    counts = dict.fromkeys(facts.participants, 0)
    for tree in facts.trees:
        for node in tree:
            if not isinstance(node, Leaf):
                counts[facts.participants[node.owner - 1] if isinstance(node, Dummy) else facts.role] += 1
    return [Bar(name, value, name == facts.role) for name, value in counts.items()]


def own_splits(facts: Facts) -> list[Bar]:
    """Return how many splits each of the reader's own columns has, for those that have any."""
    if facts.model is not None:
        return [Bar(str(name), value) for name, value in split_counts(facts.model).items() if value]
    counts: dict[str, int] = {}
    for tree in facts.trees:
        for node in tree:
            if isinstance(node, Split):
                counts[node.feature] = counts.get(node.feature, 0) + 1
    return [Bar(name, value) for name, value in counts.items()]


def _gains(model: PartialModel | None) -> list[Bar]:
    if model is None or not model.is_active or model.params.shares_weights:
        return []
    return [Bar(str(name), value) for name, value in mean_gain(model).items() if value]
