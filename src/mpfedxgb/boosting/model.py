"""Models: each participant's partial model, one versioned JSON file, and the join of all of them.

A partial model holds the structure of every tree, the participant's own splits, `Dummy` for the others', and at the
active participant the leaf weights. No file holds anything of another participant's columns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpfedxgb.config import TrainParams
from mpfedxgb.data.candidates import Candidates
from mpfedxgb.errors import SettingsError, UserError
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.tree.nodes import Dummy, GrownLeaf, GrownSplit, GrownTree, Leaf, Node, Split, Tree

FORMAT = "mpfedxgb partial model"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of the participant's own: its name, and its categories if it has any."""

    name: str
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartialModel:
    """What one participant keeps of a model.

    `training` is the same in all parts of one model; `participant` counts from 1, the active one. Trees are listed
    round by round, class by class. `base_margin`, `best_iteration` and leaf weights are the active participant's.
    """

    training: str
    participant: int
    participants: tuple[str, ...]
    params: TrainParams
    features: tuple[Feature, ...]
    trees: tuple[Tree, ...]
    base_margin: tuple[float, ...] | None = None
    best_iteration: int | None = None

    @property
    def name(self) -> str:
        """The participant's name."""
        return self.participants[self.participant - 1]

    @property
    def is_active(self) -> bool:
        """Whether this is the part with the leaf weights."""
        return self.participant == ACTIVE

    def to_json(self) -> str:
        """Return the model as JSON text."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            "training": self.training,
            "participant": self.participant,
            "participants": list(self.participants),
            "params": self.params.to_dict(),
            "features": [
                {"name": f.name} if f.categories is None else {"name": f.name, "categories": list(f.categories)}
                for f in self.features
            ],
            "base_margin": None if self.base_margin is None else list(self.base_margin),
            "best_iteration": self.best_iteration,
            "trees": [[_node_to_json(node) for node in tree] for tree in self.trees],
        }
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str = "the model") -> PartialModel:
        """Return a model from JSON text; anything damaged, foreign or newer is a UserError that says so."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(f"{where} is damaged: not JSON ({error.msg} at line {error.lineno})") from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise UserError(f"{where} is not a partial model of mpfedxgb")
        if content.get("version") != VERSION:
            raise UserError(
                f"{where} has format version {content.get('version')}, this mpfedxgb reads {VERSION}; "
                "use the version that wrote it or upgrade"
            )
        try:
            return cls._from_content(content)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            if isinstance(error, SettingsError):
                raise UserError(f"{where} is damaged: {error}") from None
            raise UserError(f"{where} is damaged: {type(error).__name__} while reading it ({error})") from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> PartialModel:
        features = tuple(
            Feature(str(f["name"]), tuple(f["categories"]) if "categories" in f else None) for f in content["features"]
        )
        base = content["base_margin"]
        model = cls(
            training=str(content["training"]),
            participant=int(content["participant"]),
            participants=tuple(str(name) for name in content["participants"]),
            params=TrainParams.from_dict(content["params"]),
            features=features,
            trees=tuple(tuple(_node_from_json(node) for node in tree) for tree in content["trees"]),
            base_margin=None if base is None else tuple(float(b) for b in base),
            best_iteration=content["best_iteration"],
        )
        model._check()
        return model

    def _check(self) -> None:
        if not 1 <= self.participant <= len(self.participants):
            raise ValueError(f"participant {self.participant} of {len(self.participants)}")
        if self.is_active and (self.base_margin is None or len(self.base_margin) != self.params.trees_per_round):
            raise ValueError("the active participant's base margin is missing")
        names = {f.name for f in self.features}
        for tree in self.trees:
            if not tree:
                raise ValueError("a tree has no nodes")
            for number, node in enumerate(tree):
                if isinstance(node, Leaf):
                    if (node.weight is not None) != self.is_active:
                        raise ValueError("leaf weights belong to the active participant, all of them")
                    continue
                if not (number < node.left < len(tree) and number < node.right < len(tree)):
                    raise ValueError("a split has children that do not follow it")
                if isinstance(node, Split) and node.feature not in names:
                    raise ValueError("a split uses a feature that is not listed")

    def save(self, path: Path) -> None:
        """Write the model to a file, whole or not at all."""
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(self.to_json(), encoding="utf-8")
        temporary.replace(path)

    @classmethod
    def load(cls, path: Path) -> PartialModel:
        """Return a model from a file."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise UserError(f"{path} is damaged: not text") from None
        return cls.from_json(text, str(path))


def keep_trees(
    role: int, grown: Sequence[GrownTree], candidates: Candidates | None, weights: Sequence[int] | None
) -> list[Tree]:
    """Return grown trees as this participant keeps them (Algorithm 3, lines 37-41); nothing at the coordinator."""
    if candidates is None:
        return []
    return [tuple(_keep(role, node, candidates, weights) for node in tree.nodes) for tree in grown]


def _keep(
    role: int, node: GrownSplit | GrownLeaf | None, candidates: Candidates, weights: Sequence[int] | None
) -> Node:
    assert node is not None, "every node of a finished tree is decided"
    if isinstance(node, GrownLeaf):
        return Leaf(None if weights is None else weights[node.place])
    if node.owner != role:
        return Dummy(node.owner, node.left, node.right)
    item = candidates.items[node.candidate]
    feature = candidates.bins.table.columns[item.feature].name
    threshold = None if item.is_categorical else candidates.threshold(node.candidate)
    category = item.low if item.is_categorical else None
    return Split(feature, threshold, category, item.missing_left, node.flipped, node.left, node.right)


def _node_to_json(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        return {"leaf": node.weight}
    if isinstance(node, Dummy):
        return {"dummy": node.owner, "left": node.left, "right": node.right}
    content: dict[str, Any] = {"feature": node.feature}
    if node.category is not None:
        content["category"] = node.category
    else:
        assert node.threshold is not None
        finite = math.isfinite(node.threshold)
        content["threshold"] = node.threshold if finite else ("all" if node.threshold > 0 else "none")
    return content | {
        "missing_left": node.missing_left,
        "flipped": node.flipped,
        "left": node.left,
        "right": node.right,
    }


def _node_from_json(content: dict[str, Any]) -> Node:
    if "leaf" in content:
        weight = content["leaf"]
        return Leaf(None if weight is None else int(weight))
    left, right = int(content["left"]), int(content["right"])
    if "dummy" in content:
        return Dummy(int(content["dummy"]), left, right)
    threshold = None
    if "category" not in content:
        told = content["threshold"]
        threshold = {"all": math.inf, "none": -math.inf}[told] if isinstance(told, str) else float(told)
    category = int(content["category"]) if "category" in content else None
    sides = (bool(content["missing_left"]), bool(content["flipped"]))
    return Split(str(content["feature"]), threshold, category, *sides, left, right)


@dataclass(frozen=True, slots=True)
class JoinedSplit:
    """A split of the whole model: owner and feature known, coins undone."""

    owner: int
    feature: str
    threshold: float | None
    category: int | None
    missing_left: bool
    left: int
    right: int


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
        tuple(_join_tree([part.trees[i] for part in parts]) for i in range(len(first.trees))),
        first.base_margin,
        first.best_iteration,
    )


def _join_tree(views: Sequence[Tree]) -> JoinedTree:
    """Put the views of one tree together and renumber it level by level, real left first."""
    nodes: list[JoinedSplit | Leaf] = []
    queue = [0]
    for number in queue:  # grows while it is walked
        node = views[0][number]
        if isinstance(node, Leaf):
            nodes.append(node)
            continue
        owner = node.owner if isinstance(node, Dummy) else ACTIVE
        own = views[owner - 1][number]
        if not isinstance(own, Split):
            raise UserError("the parts do not fit together: a split is nobody's")
        left, right = (own.right, own.left) if own.flipped else (own.left, own.right)
        place = len(queue)
        queue += [left, right]
        nodes.append(JoinedSplit(owner, own.feature, own.threshold, own.category, own.missing_left, place, place + 1))
    return tuple(nodes)
