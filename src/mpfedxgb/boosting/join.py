"""The whole model: all participants' parts put together, with everybody's consent, coins undone.

How much features matter: what each participant may compute alone, from its own part of a model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pandas as pd

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Dummy, Leaf, Node, Split, Tree


@dataclass(frozen=True, slots=True)
class JoinedSplit:
    """A split of the whole model: owner and feature known, coins undone; its gain, if the active participant has it."""

    owner: int
    feature: str
    threshold: float | None
    category: int | None
    missing_left: bool
    left: int
    right: int
    gain: float | None = None


JoinedTree = tuple[JoinedSplit | Leaf, ...]


@dataclass(frozen=True, slots=True)
class Joined:
    """The whole model, put together with everybody's consent."""

    participants: tuple[str, ...]
    params: TrainParams
    features: tuple[tuple[int, Feature], ...]
    trees: tuple[JoinedTree, ...]
    base_margin: tuple[float, ...]
    best_iteration: int | None
    tree_scales: tuple[float, ...] | None = None

    @property
    def in_use(self) -> slice:
        """Which trees predict: those up to the best round, if early stopping found one."""
        return slice(None if self.best_iteration is None else (self.best_iteration + 1) * self.params.trees_per_round)

    @property
    def trees_in_use(self) -> tuple[JoinedTree, ...]:
        """The trees that predict."""
        return self.trees[self.in_use]


def join(models: Sequence[PartialModel]) -> Joined:
    """Return the whole model from all participants' parts, in any order; raises UserError if they do not fit."""
    parts = sorted(models, key=lambda m: m.participant)
    if not parts:
        raise UserError("there is nothing to join; give every participant's partial model", "few", "models")
    first = parts[0]
    for part in parts:
        if _training_of(part) != _training_of(first):
            text = f"the parts of {first.name} and {part.name} come from different trainings"
            raise UserError(text, "mismatch", "training", part.name)
    have = [part.participant for part in parts]
    if have != list(range(1, len(first.participants) + 1)):
        missing = [n for m, n in enumerate(first.participants, 1) if m not in have]
        what = f"the part of {', '.join(missing)} is missing" if missing else "a participant's part is there twice"
        raise UserError(f"cannot join: {what}", "missing" if missing else "duplicate", ", ".join(missing) or "models")
    assert first.base_margin is not None
    return Joined(
        first.participants,
        first.params,
        tuple((part.participant, f) for part in parts for f in part.features),
        tuple(_join_tree([part.trees[i] for part in parts], first.leaf_scale_bits) for i in range(len(first.trees))),
        first.base_margin,
        first.best_iteration,
        first.tree_scales,
    )


def _training_of(part: PartialModel) -> tuple[object, ...]:
    return part.training, part.participants, part.coordinator, part.params, len(part.trees)


def _join_leaf(views: Sequence[Node], leaf_scale_bits: int) -> Leaf:
    """Return a leaf with its weight in units of 2^-32: the active participant's, or the sum of everybody's shares."""
    leaves = [node for node in views if isinstance(node, Leaf)]
    if leaves[0].share is None:
        return leaves[0]
    total = sum(leaf.share or 0 for leaf in leaves) % (1 << 64)
    signed = total - (1 << 64) if total >> 63 else total
    return Leaf(round(Fraction(signed) * Fraction(2) ** (WEIGHT_BITS - leaf_scale_bits)))


def _join_tree(views: Sequence[Tree], leaf_scale_bits: int) -> JoinedTree:
    """Put the views of one tree together and renumber it level by level, real left first."""
    nodes: list[JoinedSplit | Leaf] = []
    order, following = joined_order(views), 1
    for number in order:
        owner, own = _owner(number, views)
        if own is None:
            nodes.append(_join_leaf([view[number] for view in views], leaf_scale_bits))
            continue
        own_view = views[ACTIVE - 1][number]
        gain = None if isinstance(own_view, Leaf) else own_view.gain
        condition = (own.feature, own.threshold, own.category, own.missing_left)
        nodes.append(JoinedSplit(owner, *condition, following, following + 1, gain))
        following += 2
    return tuple(nodes)


def joined_order(views: Sequence[Tree]) -> list[int]:
    """Return the numbers that the nodes of the joined tree, in its order, have in everybody's view of a tree."""
    if len({len(view) for view in views}) > 1:
        raise UserError("the parts do not fit together: their trees have different shapes", "damaged", "shapes")
    queue = [0]
    for number in queue:  # grows while it is walked
        _, own = _owner(number, views)
        if own is not None:
            queue += (own.right, own.left) if own.flipped else (own.left, own.right)
    return queue


def _owner(number: int, views: Sequence[Tree]) -> tuple[int, Split | None]:
    """Return the one participant that has a node's split, and the split; 0 and None if the node is everybody's leaf."""
    owners = {}
    for m, view in enumerate(views, 1):
        node = view[number]
        owners[m] = 0 if isinstance(node, Leaf) else node.owner if isinstance(node, Dummy) else m
    owner = owners[ACTIVE]
    if set(owners.values()) != {owner}:
        raise UserError(
            f"the parts do not fit together: they name different owners of node {number}", "damaged", "models", number
        )
    if not owner:
        return 0, None
    own = views[owner - 1][number]
    if not isinstance(own, Split):
        raise UserError(
            f"the parts do not fit together: the split of node {number} is nobody's", "damaged", "models", number
        )
    return owner, own


KINDS = ("weight", "gain", "cover")


def feature_importance(model: PartialModel, kind: str = "weight") -> pd.Series[float]:
    """Return what a participant may know of the importance of its own features.

    "weight" is the number of splits on each, which every owner knows; "gain" and "cover" are means over those splits,
    which the active participant alone can tell, from its own gradients.
    """
    if kind not in KINDS:
        raise SettingsError(
            f"kind={kind!r} is not known; it is {', '.join(KINDS[:-1])} or {KINDS[-1]}", "choice", "kind", kind
        )
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
        raise SettingsError(f"kind={kind!r} is not known; it is weight or total_gain", "choice", "kind", kind)
    if kind == "total_gain":
        _refuse_unknown(model, kind)
    totals = dict.fromkeys(model.participants, 0.0)
    for node in (node for tree in model.trees for node in tree if not isinstance(node, Leaf)):
        owner = node.owner if isinstance(node, Dummy) else model.participant
        totals[model.participants[owner - 1]] += 1 if kind == "weight" else _gain(node)
    return pd.Series(totals)


def column_importance(models: Sequence[PartialModel], columns: Sequence[str], kind: str = "gain") -> Floats:
    """Return the importance of the columns of one table, all participants' parts taken together, as shares of 1.

    As XGBoost's feature_importances_ by importance_type: of a column's splits the number, or the mean or total gain or
    cover; where nobody knows gains and covers, the number. A column that several participants have is one column.
    """
    totals, counts = dict.fromkeys(columns, 0.0), dict.fromkeys(columns, 0)
    active = models[ACTIVE - 1]
    takes_all = active.params.facts.shares_leaf_weights or not kind.endswith("gain")
    for number, known in enumerate(active.trees):
        worth_of = _covers(known) if kind.endswith("cover") else [_gain(node) for node in known]
        for tree in (model.trees[number] for model in models):
            for node, of_active, of_split in zip(tree, known, worth_of, strict=True):
                if isinstance(node, Split) and (takes_all or not _is_unknown(of_active)):
                    counts[node.feature] += 1
                    totals[node.feature] += of_split
    worth = np.array(list(counts.values()), np.float64)
    if kind != "weight" and not active.params.facts.shares_leaf_weights:
        worth = np.array(list(totals.values())) / (1 if kind.startswith("total_") else np.maximum(worth, 1))
    total = worth.sum()
    return np.asarray(worth / total if total else worth)


def _refuse_unknown(model: PartialModel, kind: str) -> None:
    if model.params.facts.shares_leaf_weights:
        text = (
            f"kind={kind!r} is not known to anybody with security={model.params.security!r}, where sums of gradients "
            "stay secret; use weight, the number of splits"
        )
        raise SettingsError(text, "mode", "kind", kind)
    if not model.is_active:
        active = model.participants[ACTIVE - 1]
        text = f"kind={kind!r} is known to {active} alone, from its gradients; {model.name} can use weight"
        raise SettingsError(text, "place", "kind", kind)


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
    return _mean(model, [[None if isinstance(node, Leaf) else node.gain for node in tree] for tree in model.trees])


def _is_unknown(node: Node) -> bool:
    """Return whether the gain of a split is not known to the active participant: a bound holds a leaf below it."""
    return not isinstance(node, Leaf) and node.gain is None


def _gain(node: Node) -> float:
    return 0.0 if isinstance(node, Leaf) or node.gain is None else node.gain


def _mean(model: PartialModel, worth: Sequence[Sequence[float | None]]) -> pd.Series[float]:
    """Return the mean worth, listed by tree and node, of the splits on each feature whose worth is known."""
    totals, counts = _zeros(model), _zeros(model)
    for tree, values in zip(model.trees, worth, strict=True):
        for node, value in zip(tree, values, strict=True):
            if isinstance(node, Split) and value is not None:
                totals[node.feature] += value
                counts[node.feature] += 1
    means: pd.Series[float] = totals / counts.clip(lower=1)
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
