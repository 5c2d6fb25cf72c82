"""The whole model: all participants' parts put together, with everybody's consent, coins undone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mpfedxgb.boosting.model import Feature, PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import UserError
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

    @property
    def trees_in_use(self) -> tuple[JoinedTree, ...]:
        """The trees that predict: those up to the best round, if early stopping found one."""
        rounds = None if self.best_iteration is None else self.best_iteration + 1
        return self.trees if rounds is None else self.trees[: rounds * self.params.trees_per_round]


def join(models: Sequence[PartialModel]) -> Joined:
    """Return the whole model from all participants' parts, in any order; raises UserError if they do not fit."""
    parts = sorted(models, key=lambda m: m.participant)
    if not parts:
        raise UserError("there is nothing to join; give every participant's partial model")
    first = parts[0]
    for part in parts:
        same = (part.training, part.participants, part.params, len(part.trees)) == (
            first.training,
            first.participants,
            first.params,
            len(first.trees),
        )
        if not same:
            raise UserError(f"the parts of {first.name} and {part.name} come from different trainings")
    have = [part.participant for part in parts]
    if have != list(range(1, len(first.participants) + 1)):
        missing = [n for m, n in enumerate(first.participants, 1) if m not in have]
        what = f"the part of {', '.join(missing)} is missing" if missing else "a participant's part is there twice"
        raise UserError(f"cannot join: {what}")
    assert first.base_margin is not None
    return Joined(
        first.participants,
        first.params,
        tuple((part.participant, f) for part in parts for f in part.features),
        tuple(_join_tree([part.trees[i] for part in parts], first.weight_bits) for i in range(len(first.trees))),
        first.base_margin,
        first.best_iteration,
    )


def _join_leaf(views: Sequence[Node], weight_bits: int) -> Leaf:
    """Return a leaf with its weight in units of 2^-32: the active participant's, or the sum of everybody's shares."""
    leaves = [node for node in views if isinstance(node, Leaf)]
    if leaves[0].share is None:
        return leaves[0]
    total = sum(leaf.share or 0 for leaf in leaves) % (1 << 64)
    signed = total - (1 << 64) if total >> 63 else total
    return Leaf(round(Fraction(signed) * Fraction(2) ** (WEIGHT_BITS - weight_bits)))


def _join_tree(views: Sequence[Tree], weight_bits: int) -> JoinedTree:
    """Put the views of one tree together and renumber it level by level, real left first."""
    if len({len(view) for view in views}) > 1:
        raise UserError("the parts do not fit together: their trees have different shapes")
    nodes: list[JoinedSplit | Leaf] = []
    queue = [0]
    for number in queue:  # grows while it is walked
        owner, own = _owner(number, views)
        if own is None:
            nodes.append(_join_leaf([view[number] for view in views], weight_bits))
            continue
        left, right = (own.right, own.left) if own.flipped else (own.left, own.right)
        place = len(queue)
        queue += [left, right]
        told = views[ACTIVE - 1][number]
        gain = None if isinstance(told, Leaf) else told.gain
        condition = (own.feature, own.threshold, own.category, own.missing_left)
        nodes.append(JoinedSplit(owner, *condition, place, place + 1, gain))
    return tuple(nodes)


def _owner(number: int, views: Sequence[Tree]) -> tuple[int, Split | None]:
    """Return the one participant that has a node's split, and the split; 0 and None if the node is everybody's leaf."""
    told = {}
    for m, view in enumerate(views, 1):
        node = view[number]
        told[m] = 0 if isinstance(node, Leaf) else node.owner if isinstance(node, Dummy) else m
    owner = told[ACTIVE]
    if set(told.values()) != {owner}:
        raise UserError(f"the parts do not fit together: they name different owners of node {number}")
    if not owner:
        return 0, None
    own = views[owner - 1][number]
    if not isinstance(own, Split):
        raise UserError(f"the parts do not fit together: the split of node {number} is nobody's")
    return owner, own
