"""Which columns matter, as far as the reader may know: its own, and how many splits each participant has."""

from __future__ import annotations

from mpfedxgb.boosting.importance import mean_gain, split_counts
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.report.html.bars import Bar, bars
from mpfedxgb.report.html.facts import Facts
from mpfedxgb.report.html.markup import Content, element
from mpfedxgb.report.html.numbers import count, short
from mpfedxgb.tree.nodes import Dummy, Leaf, Split


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
