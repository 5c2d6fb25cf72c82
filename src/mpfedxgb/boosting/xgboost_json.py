"""A joined model as an XGBoost model: JSON that the `xgboost` package loads and that predicts the same."""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any

import numpy as np

from mpfedxgb.boosting.join import Joined, JoinedSplit, JoinedTree
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

_NO_PARENT = 2147483647
_VERSION = [3, 0, 0]


def feature_names(model: Joined) -> list[str]:
    """Return one name per column, no two alike.

    A name that several participants use gets its owner in front, as in bank.age. Should that be another column's name,
    all columns get the number of their participant in front, as in 1.age.
    """
    plain = Counter(feature.name for _, feature in model.features)
    names = [
        f"{model.participants[owner - 1]}.{feature.name}" if plain[feature.name] > 1 else feature.name
        for owner, feature in model.features
    ]
    return names if len(set(names)) == len(names) else [f"{owner}.{f.name}" for owner, f in model.features]


def category_codes(model: Joined) -> dict[str, list[str]]:
    """Return, per exported column of categories, what its codes 0, 1, ... stand for."""
    return {
        name: list(feature.categories)
        for name, (_, feature) in zip(feature_names(model), model.features, strict=True)
        if feature.categories is not None
    }


def to_xgboost_json(model: Joined) -> str:
    """Return the trees in use in XGBoost's JSON format, columns in the participants' order.

    XGBoost goes left on x < t, so t is the next float32 above our edge. What codes of categories stand for is kept in
    the attribute "categories", as JSON.
    """
    trees = model.trees_in_use
    place = {(owner, feature.name): i for i, (owner, feature) in enumerate(model.features)}
    per_round = model.params.trees_per_round
    loss = model.params.loss
    learner = {
        "attributes": _attributes(model),
        "feature_names": feature_names(model),
        "feature_types": ["float" if feature.categories is None else "c" for _, feature in model.features],
        "gradient_booster": {
            "model": {
                "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                "iteration_indptr": list(range(0, len(trees) + 1, per_round)),
                "tree_info": [i % per_round for i in range(len(trees))],
                "trees": [_tree(i, tree, place) for i, tree in enumerate(trees)],
            },
            "name": "gbtree",
        },
        "learner_model_param": {
            "base_score": _numbers(loss.link.to_score(np.array(model.base_margin))),
            "boost_from_average": "1",
            "num_class": str(per_round if per_round > 1 else 0),
            "num_feature": str(len(model.features)),
            "num_target": "1",
        },
        "objective": {
            "name": loss.exported_as or loss.name,
            loss.block: loss.xgboost_parameters(model.params.num_class),
        },
    }
    # Names go out as they are: XGBoost's reader does not understand \uXXXX.
    return json.dumps({"learner": learner, "version": _VERSION}, ensure_ascii=False)


def _attributes(model: Joined) -> dict[str, str]:
    best = {} if model.best_iteration is None else {"best_iteration": str(model.best_iteration)}
    codes = category_codes(model)
    open_ = {"security": model.params.security} if model.params.is_unprotected else {}
    return best | open_ | ({"categories": json.dumps(codes, ensure_ascii=False)} if codes else {})


def _numbers(values: Floats) -> str:
    return "[" + ",".join(repr(float(v)) for v in values) + "]"


def _tree(number: int, tree: JoinedTree, place: dict[tuple[int, str], int]) -> dict[str, Any]:
    count = len(tree)
    parents = [_NO_PARENT] * count
    out: dict[str, Any] = {
        "base_weights": [0.0] * count,
        "categories": [],
        "categories_nodes": [],
        "categories_segments": [],
        "categories_sizes": [],
        "default_left": [0] * count,
        "id": number,
        "left_children": [-1] * count,
        "loss_changes": [0.0] * count,
        "parents": parents,
        "right_children": [-1] * count,
        "split_conditions": [0.0] * count,
        "split_indices": [0] * count,
        "split_type": [0] * count,
        "sum_hessian": [0.0] * count,
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(len(place)),
            "num_nodes": str(count),
            "size_leaf_vector": "1",
        },
    }
    for i, node in enumerate(tree):
        if isinstance(node, Leaf):
            assert node.weight is not None
            out["split_conditions"][i] = out["base_weights"][i] = math.ldexp(node.weight, -WEIGHT_BITS)
            out["sum_hessian"][i] = node.cover or 0.0  # nobody knows cover and gain in the paper's way
            continue
        parents[node.left] = parents[node.right] = i
        out["left_children"][i], out["right_children"][i] = node.left, node.right
        out["default_left"][i] = int(node.missing_left)
        out["loss_changes"][i] = node.gain or 0.0
        out["split_indices"][i] = place[node.owner, node.feature]
        _condition(out, i, node)
    for i in reversed(range(1, count)):  # children follow their parents
        out["sum_hessian"][parents[i]] += out["sum_hessian"][i]
    return out


def _condition(out: dict[str, Any], i: int, node: JoinedSplit) -> None:
    if node.category is not None:
        out["split_type"][i] = 1
        out["categories_nodes"].append(i)
        out["categories_segments"].append(len(out["categories"]))
        out["categories_sizes"].append(1)
        out["categories"].append(node.category)
        return
    assert node.threshold is not None
    if math.isinf(node.threshold):  # all present values on one side, the largest float32 too
        out["split_conditions"][i] = node.threshold  # Infinity, as XGBoost writes it
    else:
        out["split_conditions"][i] = float(np.nextafter(np.float32(node.threshold), np.float32(np.inf)))
