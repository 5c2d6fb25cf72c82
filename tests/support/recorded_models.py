"""Models that XGBoost 3.4.1 trained on small tables, as files: the same second opinion under every Python.

A record holds a table with its cuts, labels, row weights, parameters, and xgboost's trees over the numbers of the bins.
A tree is a leaf weight, or [column, bins, category, missing left, left, right]: rows in the first `bins` bins go left,
or, if a category is given, rows of any other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from mpfedxgb import FedXGBClassifier, FedXGBRanker, FedXGBRegressor, join
from mpfedxgb.boosting.join import JoinedTree
from mpfedxgb.boosting.xgboost_json import feature_names
from mpfedxgb.tree import Leaf
from mpfedxgb.tree.leaf import WEIGHT_BITS

MODELS = Path(__file__).parents[1] / "lossless" / "xgboost_34" / "models.jsonl"

Model = FedXGBClassifier | FedXGBRegressor


def huber(y: Any, margin: Any) -> Any:
    """Return g and h of a loss without curvature far from the label."""
    return np.clip(margin - y, -1, 1), (np.abs(margin - y) < 1).astype(float)


def flat(y: Any, margin: Any) -> Any:
    """Return g and h of a loss without any curvature."""
    return np.sign(margin - y), np.zeros_like(margin)


def partly_flat(y: Any, margin: Any) -> Any:
    """Return g and h of squared error, h = 0 in every second row whatever its g."""
    return margin - y, (np.arange(len(y)) % 2).astype(float)


def steep(y: Any, margin: Any) -> Any:
    """Return g and h of squared error, h = 1e-12 for labels below 0."""
    return margin - y, np.where(y < 0, 1e-12, 1.0)


LOSSES: dict[str, Callable[[Any, Any], Any]] = {one.__name__: one for one in (huber, flat, partly_flat, steep)}
"""Custom losses by the name that a record has for them."""


@dataclass(frozen=True)
class Recorded:
    """One model; `rule` names the rule by which XGBoost before 3.4 grows other trees, if it does."""

    name: str
    rule: str
    objective: str
    params: dict[str, Any]
    columns: dict[str, list[Any]]
    y: list[Any]
    weight: list[float] | None
    cuts: dict[str, list[float]]
    trees: list[Any]
    qid: list[int] | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The table; words are categories."""
        frame = pd.DataFrame(self.columns)
        return frame.astype(dict.fromkeys(frame.columns.intersection(["w"]), "category"))

    @property
    def labels(self) -> Any:
        """The labels; a bound that is not there is infinite, which a record cannot hold."""
        if self.objective != "survival:aft":
            return np.array(self.y)
        return np.array([[low, np.inf if high is None else high] for low, high in self.y])

    def fit(self, **params: Any) -> Model:
        """Return the model that the federation trains, its columns dealt to two participants in turns."""
        options: dict[str, Any] = self.params | params
        model: Model
        if self.objective.startswith(("binary:", "multi:")):
            model = FedXGBClassifier(objective=self.objective, **options)
        elif self.qid is not None:
            model = FedXGBRanker(objective=self.objective, **options)
        else:
            model = FedXGBRegressor(objective=LOSSES.get(self.objective, self.objective), **options)
        table = self.table
        half = -(-table.shape[1] // 2)
        tables = {"bank": table.iloc[:, :half], "shop": table.iloc[:, half:]}
        weight = None if self.weight is None else np.array(self.weight)
        groups: dict[str, Any] = {} if self.qid is None else {"qid": self.qid}
        return model.fit(tables, self.labels, sample_weight=weight, **groups)


def read_models(path: Path = MODELS) -> list[Recorded]:
    """Return all records."""
    return [Recorded(**json.loads(line)) for line in path.read_text().splitlines()]


def write_models(models: Sequence[Recorded], path: Path = MODELS) -> None:
    """Write records, one in a line."""
    kept = [{key: value for key, value in asdict(one).items() if key != "qid" or value is not None} for one in models]
    lines = [json.dumps(one, separators=(",", ":"), allow_nan=False) for one in kept]
    path.write_text("\n".join(lines) + "\n")


def cuts_of(model: Model) -> dict[str, list[float]]:
    """Return the cuts of all columns of numbers, by name."""
    joined = join(model.partial_models_)
    return {
        name: model.cut_points_[joined.participants[owner - 1]][f.name].tolist()
        for name, (owner, f) in zip(feature_names(joined), joined.features, strict=True)
        if f.categories is None
    }


def our_trees(model: Model, table: pd.DataFrame) -> list[Any]:
    """Return a model's trees as a record has them."""
    joined, cuts = join(model.partial_models_), cuts_of(model)
    columns = [f.name for _, f in joined.features]

    def nested(tree: JoinedTree, i: int) -> Any:
        node = tree[i]
        if isinstance(node, Leaf):
            assert node.weight is not None
            return float(np.ldexp(float(node.weight), -WEIGHT_BITS))
        bins = 0
        if node.category is None:
            edges = cuts[node.feature]
            assert node.threshold is not None
            bins = len(edges) + 1
            if not np.isposinf(node.threshold):
                bins = int(np.searchsorted(edges, np.float32(node.threshold), side="right"))
        missing_left = bool(node.missing_left and table[node.feature].isna().any())
        sides = nested(tree, node.left), nested(tree, node.right)
        return [columns.index(node.feature), bins, node.category, missing_left, *sides]

    return [nested(tree, 0) for tree in joined.trees]


def their_trees(booster: Any, table: pd.DataFrame, cuts: Mapping[str, Sequence[float]]) -> list[Any]:
    """Return the trees of a Booster, trained on the numbers of the bins, as a record has them."""
    names = list(table)

    def nested(tree: dict[str, Any], j: int) -> Any:
        if tree["left_children"][j] == -1:
            return float(tree["split_conditions"][j])
        column, category, bins = tree["split_indices"][j], None, 0
        if tree["split_type"][j]:
            at = tree["categories_nodes"].index(j)
            category = tree["categories"][tree["categories_segments"][at]]
        else:
            bins = int(np.ceil(np.clip(tree["split_conditions"][j], 0, len(cuts[names[column]]) + 1)))
        missing_left = bool(tree["default_left"][j] and table[names[column]].isna().any())
        sides = nested(tree, tree["left_children"][j]), nested(tree, tree["right_children"][j])
        return [column, bins, category, missing_left, *sides]

    trees = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    return [nested(tree, 0) for tree in trees]


def splits_of(tree: Any) -> Any:
    """Return a recorded tree without its leaf weights."""
    return None if isinstance(tree, float) else [*tree[:4], *map(splits_of, tree[4:])]


def leaves_of(tree: Any) -> list[float]:
    """Return the leaf weights of a recorded tree, from left to right."""
    return [tree] if isinstance(tree, float) else [leaf for side in tree[4:] for leaf in leaves_of(side)]
