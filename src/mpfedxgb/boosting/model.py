"""Models: each participant's partial model, one versioned JSON file; join.py puts them together.

A partial model holds the structure of every tree, the participant's own splits, `Dummy` for the others', and at the
active participant the leaf weights and the gains. No file holds anything of another participant's columns.

A file carries a digest of its content, against damage and against a change by mistake. There is no key in it:
anyone who changes a file on purpose can write the digest that fits.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mpfedxgb.atomic import write_file
from mpfedxgb.boosting.params import UNNAMED, TrainParams
from mpfedxgb.data.binning import Candidates
from mpfedxgb.data.table import Table
from mpfedxgb.errors import CheckpointError, UserError, is_full_disk
from mpfedxgb.party.roster import ACTIVE
from mpfedxgb.tree.leaf import WEIGHT_BITS, scaled_weight
from mpfedxgb.tree.nodes import Dummy, GrownLeaf, GrownSplit, GrownTree, Leaf, Node, Scorer, Split, Tree

FORMAT = "mpfedxgb partial model"
VERSION = 2
WITHOUT_DIGEST = 1
"""The version whose files say nothing by which a change could be noticed."""
_DIGEST = "digest"
_RULES = "xgboost_rules"
_LARGEST_WEIGHT = 1 << 62
_WEIGHT_BITS = (-64, 1200)
"""Beyond these no scale goes: labels below 2^29, and above the smallest float."""
_log = logging.getLogger("mpfedxgb.model")


@dataclass(frozen=True, slots=True)
class Feature:
    """A column of the participant's own: its name, and its categories if it has any."""

    name: str
    categories: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartialModel:
    """What one participant keeps of a model.

    `training` is the same in all parts of one model; `participant` counts from 1, the active one, and the `coordinator`
    is the last of them if it brought columns, which its name says then. Trees are listed
    round by round, class by class, the parallel ones of a class side by side. `base_margin`, `best_iteration`,
    `classes` (what the labels of a classifier are called), leaf weights and gains are the active participant's. In the
    sealed way and the paper's every participant has shares of the leaf weights, in units of 2^-leaf_scale_bits, which
    the active participant knows, and nobody gains. A sealed model is scored with all its trees, always. With dart the
    active participant has the scales of the trees, by which leaf weights are multiplied when rows are scored.
    """

    training: str
    participant: int
    participants: tuple[str, ...]
    params: TrainParams
    features: tuple[Feature, ...]
    trees: tuple[Tree, ...]
    base_margin: tuple[float, ...] | None = None
    best_iteration: int | None = None
    classes: tuple[str | int | float, ...] | None = None
    leaf_scale_bits: int = WEIGHT_BITS
    coordinator: str | None = None
    tree_scales: tuple[float, ...] | None = None

    @property
    def scaled_trees(self) -> tuple[Tree, ...]:
        """The trees with the leaf weights that rows add up."""
        if self.tree_scales is None:
            return self.trees
        return tuple(_scaled(tree, scale) for tree, scale in zip(self.trees, self.tree_scales, strict=True))

    @property
    def holds_shares(self) -> bool:
        """Whether this part has shares of the leaf weights: all have where nobody knows them, but a coordinator's."""
        return self.params.facts.shares_leaf_weights and self.name != self.coordinator

    @property
    def name(self) -> str:
        """The participant's name."""
        return self.participants[self.participant - 1]

    @property
    def is_active(self) -> bool:
        """Whether this is the part with the leaf weights."""
        return self.participant == ACTIVE

    @property
    def digest(self) -> str:
        """The digest that a file of this model carries."""
        return content_digest(self._content())

    def to_json(self) -> str:
        """Return the model as JSON text."""
        content = self._content()
        return json.dumps(content | {_DIGEST: content_digest(content)}, indent=1, allow_nan=False) + "\n"

    def _content(self) -> dict[str, Any]:
        params = self.params.to_dict()
        rules = params.pop(_RULES)  # beside the parameters, so that older versions read the file and score by it
        return {
            "format": FORMAT,
            "version": VERSION,
            **({} if rules == UNNAMED else {_RULES: rules}),
            "training": self.training,
            "participant": self.participant,
            "participants": list(self.participants),
            **({} if self.coordinator is None else {"coordinator": self.coordinator}),
            "params": params,
            "features": [
                {"name": f.name} if f.categories is None else {"name": f.name, "categories": list(f.categories)}
                for f in self.features
            ],
            "base_margin": None if self.base_margin is None else list(self.base_margin),
            "best_iteration": self.best_iteration,
            "classes": None if self.classes is None else list(self.classes),
            "weight_bits": self.leaf_scale_bits,
            **({} if self.tree_scales is None else {"tree_scales": list(self.tree_scales)}),
            "trees": [tree_to_json(tree) for tree in self.trees],
        }

    @classmethod
    def from_json(cls, text: str, where: str = "the model") -> PartialModel:
        """Return a model from JSON text; anything damaged, foreign or newer is a UserError that says so."""
        try:
            content = json.loads(text, parse_constant=_no_constant)
        except json.JSONDecodeError as error:
            raise UserError(
                f"{where} is damaged: not JSON ({error.msg} at line {error.lineno})", "damaged", Path(where).name
            ) from None
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where} is damaged: not JSON of a model ({error})", "damaged", Path(where).name) from None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise UserError(f"{where} is not a partial model of mpfedxgb", "type", Path(where).name)
        version = content.get("version")
        if type(version) is not int or version not in (WITHOUT_DIGEST, VERSION):
            text = (
                f"{where} has format version {version}, this mpfedxgb reads {WITHOUT_DIGEST} and {VERSION}; "
                "use the version that wrote it or upgrade"
            )
            raise UserError(text, "version", Path(where).name, version)
        try:
            model = cls._from_content(content)
            if version == WITHOUT_DIGEST and _DIGEST not in content:
                _log.warning("%s is of format 1, without a digest: a change to it would not be noticed", where)
            else:
                _check_digest(content)
            return model
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise UserError(f"{where} is damaged: {reason}", "damaged", Path(where).name) from None

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> PartialModel:
        base, best, classes = content["base_margin"], content["best_iteration"], content["classes"]
        model = cls(
            training=_typed(content, "training", str),
            participant=_typed(content, "participant", int),
            participants=tuple(_each(content, "participants", str)),
            params=TrainParams.from_dict(_typed(content, "params", dict) | {_RULES: content.get(_RULES, UNNAMED)}),
            features=tuple(_feature_from_json(feature) for feature in _each(content, "features", dict)),
            trees=tuple(tree_from_json(tree) for tree in _each(content, "trees", list)),
            base_margin=None if base is None else tuple(_each(content, "base_margin", float)),
            best_iteration=None if best is None else _typed(content, "best_iteration", int),
            classes=None if classes is None else tuple(_each(content, "classes", str, int, float, bool)),
            leaf_scale_bits=_typed({"weight_bits": WEIGHT_BITS} | content, "weight_bits", int),
            coordinator=_typed(content, "coordinator", str) if "coordinator" in content else None,
            tree_scales=tuple(_each(content, "tree_scales", float)) if "tree_scales" in content else None,
        )
        model._check()
        return model

    def _check(self) -> None:
        """Raise ValueError unless all numbers fit together, so that nobody stumbles over them later."""
        names, classes = self.participants, self.classes
        _require(1 <= self.participant <= len(names), f"participant {self.participant} of {len(names)}")
        _require(len(set(names)) == len(names), "two participants have the same name")
        last = names[-1] if len(names) > 2 else ""
        _require(self.coordinator in (None, last), "a coordinator that brought columns is the last of three or more")
        self._check_rounds()
        _require(
            self.leaf_scale_bits == WEIGHT_BITS or (self.is_active and self.params.facts.shares_leaf_weights),
            "the scale of leaf weights is the active participant's, where everyone holds shares of them",
        )
        _require(_WEIGHT_BITS[0] <= self.leaf_scale_bits <= _WEIGHT_BITS[1], "weight_bits is no scale of leaf weights")
        if classes is not None:
            wanted = self.params.num_class
            _require(len(set(classes)) == wanted, f"{len(classes)} classes are listed for a model of {wanted}")
        _require(
            self.is_active or (self.best_iteration, classes) == (None, None),
            "best_iteration and classes are the active participant's",
        )
        features = {f.name: f for f in self.features}
        _require(len(features) == len(self.features), "a feature is listed twice")
        for tree in self.trees:
            self._check_tree(tree, features)

    def _check_rounds(self) -> None:
        per_round, best = self.params.trees_per_round, self.best_iteration
        margins = None if self.base_margin is None else len(self.base_margin)
        _require(
            margins == (self.params.outputs if self.is_active else None),
            "the base margin is the active participant's, one number, or one per class",
        )
        scaled = None if self.tree_scales is None else len(self.tree_scales)
        _require(
            scaled == (len(self.trees) if self.is_active and self.params.drops_trees else None),
            "tree_scales are the active participant's, where trees are left out, one for each",
        )
        _require(all(0 <= scale <= 1 for scale in self.tree_scales or ()), "tree_scales are from 0 to 1")
        rounds, rest = divmod(len(self.trees), per_round)
        _require(rounds > 0 and rest == 0, f"{len(self.trees)} trees are not whole rounds of {per_round}")
        _require(best is None or 0 <= best < rounds, f"best_iteration {best} is none of the rounds")

    def _check_tree(self, tree: Tree, features: dict[str, Feature]) -> None:
        following = 1  # children are numbered two by two in the order of their parents
        for node in tree:
            if isinstance(node, Leaf):
                self._check_leaf(node)
                continue
            _require(
                (node.left, node.right) == (following, following + 1),
                f"a split has the children {node.left} and {node.right}, not the two that follow",
            )
            following += 2
            _require(
                node.gain is None or (self.is_active and not self.params.facts.shares_leaf_weights),
                "gains belong to the active participant, and to nobody where leaf weights are shared",
            )
            if isinstance(node, Split):
                _check_split(node, features)
            else:
                _require(
                    1 <= node.owner <= len(self.participants) and node.owner != self.participant,
                    f"a split of somebody else belongs to participant {node.owner}",
                )
        _require(following == len(tree), f"a tree of {len(tree)} nodes has children up to number {following - 1}")

    def _check_leaf(self, leaf: Leaf) -> None:
        shared = self.params.facts.shares_leaf_weights
        _require(
            (leaf.weight is not None) == (self.is_active and not shared),
            "leaf weights belong to the active participant, all of them",
        )
        _require(
            (leaf.share is not None) == self.holds_shares,
            "shares of leaf weights are kept where nobody knows the weights, all of them, and only there",
        )

    def scorer(self, table: Table) -> Scorer:
        """Return what the participant computes with when the rows of a table are scored."""
        facts, parallel = self.params.facts, self.params.num_parallel_tree
        return Scorer(self.scaled_trees, table, facts.shares_leaf_weights, facts.sums_only, parallel)

    def save(self, path: Path) -> None:
        """Write the model to a file, whole or not at all."""
        try:
            write_file(path, self.to_json())
        except OSError as error:
            kind = CheckpointError if is_full_disk(error) else UserError
            raise kind(f"cannot write {path}: {error.strerror}; what was there before is unchanged") from None

    @classmethod
    def load(cls, path: Path) -> PartialModel:
        """Return a model from a file."""
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}", "file", path.name) from None
        except UnicodeDecodeError:
            raise UserError(f"{path} is damaged: not text", "damaged", path.name) from None
        return cls.from_json(text, str(path))


def _scaled(tree: Tree, scale: float) -> Tree:
    return tuple(
        replace(node, weight=scaled_weight(node.weight or 0, scale)) if isinstance(node, Leaf) else node
        for node in tree
    )


def content_digest(content: dict[str, Any]) -> str:
    """Return the SHA-256 of a file's values but for the digest itself, however the file writes them down."""
    plain = {key: value for key, value in content.items() if key != _DIGEST}
    canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _check_digest(content: dict[str, Any]) -> None:
    _require(
        _typed(content, _DIGEST, str) == content_digest(content),
        "its content is not what was written (the digest differs); put a copy back, or train again",
    )


def keep_trees(
    role: int,
    grown: Sequence[GrownTree],
    candidates: Candidates | None,
    leaves: Sequence[Leaf] | None,
    gains: Sequence[Sequence[float | None]] | None = None,
) -> list[Tree]:
    """Return grown trees as this participant keeps them (Algorithm 3, lines 37-41); nothing at the coordinator.

    `leaves` by their place, and `gains` by tree and node, are what the active participant knows.
    """
    if candidates is None:
        return []
    return [
        tuple(
            _keep(role, node, candidates, leaves, None if gains is None else gains[k][number])
            for number, node in enumerate(tree.nodes)
        )
        for k, tree in enumerate(grown)
    ]


def _keep(
    role: int,
    node: GrownSplit | GrownLeaf | None,
    candidates: Candidates,
    leaves: Sequence[Leaf] | None,
    gain: float | None,
) -> Node:
    assert node is not None, "every node of a finished tree is decided"
    if isinstance(node, GrownLeaf):
        return Leaf(None) if leaves is None else leaves[node.place]
    if node.owner != role:
        return Dummy(node.owner, node.left, node.right, gain)
    item = candidates.items[node.candidate]
    feature = candidates.bins.table.columns[item.feature].name
    threshold = None if item.is_categorical else candidates.threshold(node.candidate)
    category = item.low if item.is_categorical else None
    return Split(feature, threshold, category, item.missing_left, node.flipped, node.left, node.right, gain)


def tree_to_json(tree: Tree) -> list[dict[str, Any]]:
    """Return a kept tree as plain values."""
    return [_node_to_json(node) for node in tree]


def tree_from_json(content: Sequence[Any]) -> Tree:
    """Return a kept tree from plain values; raises ValueError, TypeError or KeyError if they are none."""
    return tuple(_node_from_json(_checked("a node", node, dict)) for node in content)


def _node_to_json(node: Node) -> dict[str, Any]:
    if isinstance(node, Leaf):
        if node.share is not None:
            return {"share": node.share}
        return {"leaf": None} if node.weight is None else {"leaf": node.weight, "cover": node.cover}
    gain = {} if node.gain is None else {"gain": node.gain}
    if isinstance(node, Dummy):
        return {"dummy": node.owner, "left": node.left, "right": node.right} | gain
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
        **gain,
    }


def _node_from_json(content: dict[str, Any]) -> Node:
    if "share" in content:
        share = _typed(content, "share", int)
        if not -(1 << 63) <= share < 1 << 63:
            raise ValueError("a share of a leaf weight has more than 64 bits")
        return Leaf(None, share=share)
    if "leaf" in content:
        if content["leaf"] is None:
            return Leaf(None)
        weight = _typed(content, "leaf", int)
        if abs(weight) > _LARGEST_WEIGHT:
            raise ValueError("a leaf weight is beyond 2^30")
        return Leaf(weight, _typed(content, "cover", float))
    left, right = _typed(content, "left", int), _typed(content, "right", int)
    gain = _typed(content, "gain", float) if "gain" in content else None
    if "dummy" in content:
        return Dummy(_typed(content, "dummy", int), left, right, gain)
    threshold, category = None, None
    if "category" in content:
        category = _typed(content, "category", int)
    elif isinstance(content["threshold"], str):
        threshold = {"all": math.inf, "none": -math.inf}[content["threshold"]]
    else:
        threshold = _checked("threshold", content["threshold"], float)
    sides = (_typed(content, "missing_left", bool), _typed(content, "flipped", bool))
    return Split(_typed(content, "feature", str), threshold, category, *sides, left, right, gain)


def _feature_from_json(content: dict[str, Any]) -> Feature:
    categories = tuple(_each(content, "categories", str)) if "categories" in content else None
    return Feature(_typed(content, "name", str), categories)


def _check_split(node: Split, features: dict[str, Feature]) -> None:
    _require(node.feature in features, "a split uses a feature that is not listed")
    categories = features[node.feature].categories
    _require(
        (categories is None) == (node.category is None), f"a split on {node.feature!r} mixes up numbers and categories"
    )
    if categories is not None:
        _require(
            node.category in range(len(categories)),
            f"a split on {node.feature!r} names category {node.category} of {len(categories)}",
        )


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)


def _typed(content: dict[str, Any], key: str, *kinds: type) -> Any:
    return _checked(key, content[key], *kinds)


def _each(content: dict[str, Any], key: str, *kinds: type) -> list[Any]:
    return [_checked(key, value, *kinds) for value in _checked(key, content[key], list)]


def _checked(what: str, value: Any, *kinds: type) -> Any:
    """Return a value if it is exactly of one of the kinds: in Python True is an integer, in a model it is not."""
    if type(value) not in kinds:
        raise TypeError(f"{what} is {type(value).__name__}, not {' or '.join(kind.__name__ for kind in kinds)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{what} is not a finite number")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number")
