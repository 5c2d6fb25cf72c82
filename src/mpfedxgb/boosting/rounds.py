"""Which rounds of a model predict: XGBoost's iteration_range, chosen by whoever brings the leaf weights."""

from __future__ import annotations

import numbers
from dataclasses import replace
from typing import Any

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.errors import SettingsError
from mpfedxgb.tree.nodes import Leaf, Tree

Range = tuple[int, int]


def rounds_of(model: PartialModel) -> int:
    """Return how many rounds a model has."""
    return len(model.trees) // model.params.trees_per_round


def first_judged(model: PartialModel, values: int) -> int:
    """Return the round of the first of so many values of a metric.

    Rounds of a model that was continued have none. A sealed model keeps the rounds up to the best only, and goes on
    from no other.
    """
    return 0 if model.params.is_sealed else rounds_of(model) - values


def read_range(iteration_range: Any, active: PartialModel) -> Range:
    """Return the first round in use and the one after the last, from iteration_range and the active participant's part.

    None is all rounds, after early stopping those up to the best. As in XGBoost (begin, 0) ends there too.
    """
    rounds = rounds_of(active)
    used = rounds if active.best_iteration is None else active.best_iteration + 1
    if iteration_range is None:
        return 0, used
    told = f"iteration_range={iteration_range!r}"
    if not isinstance(iteration_range, (tuple, list)) or len(iteration_range) != 2:
        raise SettingsError(f"{told} is not understood; give (begin, end), as in (0, 10) for the first ten rounds")
    if any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in iteration_range):
        raise SettingsError(f"{told} does not hold two integers; give (begin, end)")
    begin, end = int(iteration_range[0]), int(iteration_range[1]) or used
    if active.params.is_sealed and (begin, end) != (0, rounds):
        raise SettingsError(
            f"{told} does not go with security='sealed', which tells sums over all {rounds} trees only: the difference "
            "of two sums would give single trees away; leave it out"
        )
    if not 0 <= begin < end <= rounds:
        raise SettingsError(f"{told} is not within the model's {rounds} rounds; 0 <= begin < end <= {rounds}")
    return begin, end


def limited_to(model: PartialModel, chosen: Range) -> PartialModel:
    """Return a part of a model that predicts with some rounds only.

    Later trees are not in use. Earlier ones stay, with leaves of weight 0: the active participant brings the weights,
    so it decides alone, and nobody else learns how many. In the paper's way everyone holds shares of them, so everyone
    has to.
    """
    begin, end = chosen
    idle = begin * model.params.trees_per_round
    trees = (*(_without_weight(tree) for tree in model.trees[:idle]), *model.trees[idle:])
    return replace(model, trees=trees, best_iteration=end - 1 if model.is_active else None)


def _without_weight(tree: Tree) -> Tree:
    return tuple(_idle(node) if isinstance(node, Leaf) else node for node in tree)


def _idle(leaf: Leaf) -> Leaf:
    return replace(leaf, weight=None if leaf.weight is None else 0, share=None if leaf.share is None else 0)
