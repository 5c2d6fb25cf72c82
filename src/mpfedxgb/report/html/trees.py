"""Trees as a report shows them: small ones drawn, deep ones to fold from the root on, further ones in a line of words.

Which columns matter, as far as the reader may know: its own, and how many splits each participant has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from mpfedxgb.boosting.join import mean_gain, split_counts
from mpfedxgb.report.html.data import ReportData
from mpfedxgb.report.html.pictures import (
    Bar,
    Bars,
    Branch,
    Names,
    TreePicture,
    bars,
    condition,
    tree_outline,
    tree_picture,
)
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree
from mpfedxgb.units import count, short

_SHOWN = 3
_GROUP = 10
_MOST_LEAVES = 10
"""What a drawing has room for in a column of text."""
_BYTES_DRAWN, _BYTES_FOLDED, _MOST_BYTES = 150, 60, 240_000
"""Of a node, about, in either form; and of all of them. Trees beyond that get one line of words."""
_MOST_LINES, _MOST_WORDS = 400, 12
"""Trees that are listed at all, and own splits in one line; `mpfedxgb show` prints everything."""


@dataclass(frozen=True, slots=True)
class ShownTree:
    """A tree with what its title says, and one of `picture`, `outline` and `conditions` of own splits."""

    number: int
    round_: int
    class_: str
    has_others: bool
    """Whether its round has more trees."""
    splits: int
    own: int
    leaves: int
    is_unused: bool
    picture: TreePicture | None
    outline: Branch | None
    conditions: Sequence[str]
    more: int

    @property
    def is_drawn(self) -> bool:
        """Whether there is more than words."""
        return self.picture is not None or self.outline is not None


def shown_trees(data: ReportData) -> list[ShownTree]:
    """Return the trees that a report shows, as the reader knows them; those in words come last."""
    sizes, total = [], 0
    for tree in data.trees:
        total += len(tree) * (_BYTES_DRAWN if _is_small(tree) else _BYTES_FOLDED)
        sizes.append(total)
    drawn = sum(1 for _ in takewhile(lambda size: size <= _MOST_BYTES, sizes))
    return [_shown(data, n, n < drawn) for n in range(min(len(sizes), max(drawn, _MOST_LINES)))]


def groups(trees: Sequence[ShownTree]) -> tuple[Sequence[ShownTree], Sequence[Sequence[ShownTree]]]:
    """Return trees that are shown at once, and the others by the fold that they are in."""
    first = [tree for tree in trees[:_SHOWN] if tree.is_drawn]
    return first, [trees[n : n + _GROUP] for n in range(len(first), len(trees), _GROUP)]


def first_tree(data: ReportData) -> ShownTree | None:
    """Return the first tree; None if there is none, or if it is too large to show."""
    found = groups(shown_trees(data))[0]
    return found[0] if found else None


def _is_small(tree: Tree) -> bool:
    return sum(isinstance(node, Leaf) for node in tree) <= _MOST_LEAVES


def _shown(data: ReportData, number: int, is_drawn: bool) -> ShownTree:
    tree = data.trees[number]
    names = Names(data.participants, {f.name: f.categories for f in data.features if f.categories is not None})
    round_, place = divmod(number, data.trees_per_round)
    parallel = int(data.parameters.get("num_parallel_tree", 1))  # models of older versions do not say
    class_ = place // parallel
    classes = None if data.model is None else data.model.classes
    own = [node for node in tree if isinstance(node, Split)]
    leaves = sum(isinstance(node, Leaf) for node in tree)
    return ShownTree(
        number + 1,
        round_ + 1,
        "" if data.trees_per_round == parallel else str(class_ if classes is None else classes[class_]),
        data.trees_per_round > 1,
        len(tree) - leaves,
        len(own),
        leaves,
        data.best_iteration is not None and round_ > data.best_iteration,
        tree_picture(tree, names) if is_drawn and _is_small(tree) else None,
        tree_outline(tree, names) if is_drawn and not _is_small(tree) else None,
        [" ".join(condition(node, names)) for node in own[:_MOST_WORDS]],
        max(0, len(own) - _MOST_WORDS),
    )


def importance(data: ReportData) -> list[Bars]:
    """Return what the reader may know of the importance of columns, as drawings."""
    found = [
        bars("Splits by owner", splits_by_owner(data), count),
        bars("Splits by own column", own_splits(data), count),
        bars("Mean gain by own column", _gains(data), short),
    ]
    return [one for one in found if one is not None]


def splits_by_owner(data: ReportData) -> list[Bar]:
    """Return how many splits each participant has."""
    counts = dict.fromkeys(data.participants, 0)
    for tree in data.trees:
        for node in tree:
            if not isinstance(node, Leaf):
                counts[data.participants[node.owner - 1] if isinstance(node, Dummy) else data.role] += 1
    return [Bar(name, value, name == data.role) for name, value in counts.items()]


def own_splits(data: ReportData) -> list[Bar]:
    """Return how many splits each of the reader's own columns has, for those that have any."""
    if data.model is not None:
        return [Bar(str(name), value) for name, value in split_counts(data.model).items() if value]
    counts: dict[str, int] = {}
    for tree in data.trees:
        for node in tree:
            if isinstance(node, Split):
                counts[node.feature] = counts.get(node.feature, 0) + 1
    return [Bar(name, value) for name, value in counts.items()]


def _gains(data: ReportData) -> list[Bar]:
    model = data.model
    if model is None or not model.is_active or model.params.facts.shares_leaf_weights:
        return []
    return [Bar(str(name), value) for name, value in mean_gain(model).items() if value]
