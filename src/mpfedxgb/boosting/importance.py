"""How much features matter: what each participant may compute alone, from its own part of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.errors import SettingsError
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.tree.nodes import Dummy, Leaf, Node, Split, Tree

KINDS = ("weight", "gain", "cover")


def feature_importance(model: PartialModel, kind: str = "weight") -> pd.Series[float]:
    """Return what a participant may know of the importance of its own features.

    "weight" is the number of splits on each, which every owner knows; "gain" and "cover" are means over those splits,
    which the active participant alone can tell, from its own gradients.
    """
    if kind not in KINDS:
        raise SettingsError(f"kind={kind!r} is not known; it is {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if kind == "weight":
        return split_counts(model)
    _refuse_unknown(model, kind)
    return mean_gain(model) if kind == "gain" else mean_cover(model)


def owner_importance(model: PartialModel, kind: str = "weight") -> pd.Series[float]:
    """Return how much each participant's columns matter, as any one of them may compute it alone.

    "weight" is the number of splits of each owner, which is in everybody's part; "total_gain" the sum of their gains,
    which is in the active participant's.
    """
    if kind not in ("weight", "total_gain"):
        raise SettingsError(f"kind={kind!r} is not known; it is weight or total_gain")
    if kind == "total_gain":
        _refuse_unknown(model, kind)
    totals = dict.fromkeys(model.participants, 0.0)
    for node in (node for tree in model.trees for node in tree if not isinstance(node, Leaf)):
        owner = node.owner if isinstance(node, Dummy) else model.participant
        totals[model.participants[owner - 1]] += 1 if kind == "weight" else _gain(node)
    return pd.Series(totals)


def column_importance(models: Sequence[PartialModel], columns: Sequence[str]) -> Floats:
    """Return the importance of the columns of one table, all participants' parts taken together, as shares of 1.

    As XGBoost's feature_importances_: the mean gain of a column's splits; where nobody knows gains, the number of
    splits. A column that several participants have is one column.
    """
    gains, counts = dict.fromkeys(columns, 0.0), dict.fromkeys(columns, 0)
    for model in models:
        for tree, told in zip(model.trees, models[ACTIVE - 1].trees, strict=True):
            for node, known in zip(tree, told, strict=True):
                if isinstance(node, Split):
                    counts[node.feature] += 1
                    gains[node.feature] += _gain(known)
    splits = np.array(list(counts.values()), np.float64)
    worth = splits if models[0].params.shares_weights else np.array(list(gains.values())) / np.maximum(splits, 1)
    total = worth.sum()
    return np.asarray(worth / total if total else worth)


def _refuse_unknown(model: PartialModel, kind: str) -> None:
    if model.params.shares_weights:
        raise SettingsError(
            f"kind={kind!r} is not known to anybody with security={model.params.security!r}, where sums of gradients "
            "stay secret; use weight, the number of splits"
        )
    if not model.is_active:
        active = model.participants[ACTIVE - 1]
        raise SettingsError(
            f"kind={kind!r} is known to {active} alone, from its gradients; {model.name} can use weight"
        )


def split_counts(model: PartialModel) -> pd.Series[float]:
    """Return how many splits use each feature of a participant."""
    counts = _zeros(model)
    for tree in model.trees:
        for node in tree:
            if isinstance(node, Split):
                counts[node.feature] += 1
    return counts


def mean_cover(model: PartialModel) -> pd.Series[float]:
    """Return the mean sum of hessians in the nodes that each of the active participant's features splits."""
    return _mean(model, [_covers(tree) for tree in model.trees])


def mean_gain(model: PartialModel) -> pd.Series[float]:
    """Return the mean gain of the splits on each of the active participant's features."""
    return _mean(model, [[_gain(node) for node in tree] for tree in model.trees])


def _gain(node: Node) -> float:
    return 0.0 if isinstance(node, Leaf) or node.gain is None else node.gain


def _mean(model: PartialModel, worth: list[list[float]]) -> pd.Series[float]:
    """Return the mean worth, listed by tree and node, of the splits on each feature."""
    totals = _zeros(model)
    for tree, values in zip(model.trees, worth, strict=True):
        for node, value in zip(tree, values, strict=True):
            if isinstance(node, Split):
                totals[node.feature] += value
    means: pd.Series[float] = totals / split_counts(model).clip(lower=1)
    return means


def _covers(tree: Tree) -> list[float]:
    """Return the sum of hessians of every node, from those of the leaves; children follow their parents."""
    covers = [0.0] * len(tree)
    for number in reversed(range(len(tree))):
        node = tree[number]
        if isinstance(node, Leaf):
            covers[number] = node.cover or 0.0
        else:
            covers[number] = covers[node.left] + covers[node.right]
    return covers


def _zeros(model: PartialModel) -> pd.Series[float]:
    return pd.Series(0.0, index=[feature.name for feature in model.features])
