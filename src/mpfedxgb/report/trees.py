"""Partial trees as text: own splits in words, Dummy for the others'."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Split, Tree


def model_text(model: PartialModel) -> str:
    """Return a participant's partial model as indented text."""
    role = "active" if model.is_active else "auxiliary"
    lines = [f"{model.name} ({role}), {len(model.trees)} trees, {model.params.objective}"]
    if model.params.facts.warning:
        lines.append(model.params.facts.warning)
    for number, tree in enumerate(model.trees):
        params, round_ = model.params, number // model.params.trees_per_round
        title = f"tree {number if params.num_parallel_tree > 1 else round_}"
        title += f", boosting round {round_}" if params.num_parallel_tree > 1 else ""
        title += f", class {params.output_of(number)}" if params.outputs > 1 else ""
        title += "" if model.tree_scales is None else f", times {model.tree_scales[number]:.6g}"
        lines += ["", title, *_lines(model, tree, 0, 1)]
    return "\n".join(lines)


def _lines(model: PartialModel, tree: Tree, number: int, depth: int) -> Iterator[str]:
    node, indent = tree[number], "  " * depth
    if isinstance(node, Leaf):
        weight = "secret" if node.share is None else "shared among all"
        if node.weight is not None:
            weight = f"{math.ldexp(node.weight, -WEIGHT_BITS):+.6g}"
        yield f"{indent}{number}: leaf {weight}"
        return
    if isinstance(node, Dummy):
        yield f"{indent}{number}: Dummy (split of {model.participants[node.owner - 1]})"
    else:
        yield f"{indent}{number}: {condition(model, node)}"
    for child in sides(node):
        yield from _lines(model, tree, child, depth + 1)


def sides(node: Split | Dummy) -> tuple[int, int]:
    """Return the children: of an own split first the side on which the condition holds."""
    flipped = isinstance(node, Split) and node.flipped
    return (node.right, node.left) if flipped else (node.left, node.right)


def condition(model: PartialModel, node: Split) -> str:
    """Return which rows go to the first child of a split of this participant, in words."""
    missing = "missing first" if node.missing_left else "missing second"
    if node.category is not None:
        feature = next(f for f in model.features if f.name == node.feature)
        assert feature.categories is not None
        return f"{node.feature} is not {feature.categories[node.category]!r} ({missing})"
    assert node.threshold is not None
    if math.isinf(node.threshold):
        return f"{node.feature} is {'present' if node.threshold > 0 else 'missing'}"
    return f"{node.feature} <= {node.threshold:.7g} ({missing})"
