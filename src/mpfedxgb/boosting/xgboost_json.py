"""A joined model as an XGBoost model: JSON that the `xgboost` package loads and that predicts the same."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from mpfedxgb.boosting.join import Joined, JoinedSplit, JoinedTree
from mpfedxgb.boosting.objective import Floats
from mpfedxgb.tree.leaf import WEIGHT_BITS
from mpfedxgb.tree.nodes import Leaf

_NO_PARENT = 2147483647
_VERSION = [3, 0, 0]

Version = tuple[int, int]

OLDEST: Version = (3, 2)
"""The oldest XGBoost that is supported; what is written for it is read alike by all others."""

_REFUSES_UNKNOWN: Version = (3, 3)
_READS_UTF8: Version = (3, 4)

_INTEGER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_INT64 = 15
"""XGBoost's number of the type."""

_HIGHEST_BYTE = b"\x7f"
"""XGBoost compares words byte by byte, and bytes have a sign."""


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


def unreadable_categories(model: Joined, reader: Version) -> list[str]:
    """Return the columns whose categories a version of XGBoost cannot match: it takes their codes alone."""
    return [name for name, own in category_codes(model).items() if not _is_readable(own, reader)]


def _is_readable(categories: Sequence[str], reader: Version) -> bool:
    return reader >= _READS_UTF8 or all(category.isascii() for category in categories)


def to_xgboost_json(model: Joined, reader: Version | None = OLDEST) -> str:
    """Return the trees in use in XGBoost's JSON format, columns in the participants' order.

    XGBoost goes left on x < t, so t is the next float32 above our edge. Categories are written where XGBoost looks up
    those of a table, so that their order there does not matter; also into the attribute "categories", as JSON. `reader`
    is the version of XGBoost that will look them up, or None for tools that take codes alone.
    """
    trees = model.trees_in_use
    place = {(owner, feature.name): i for i, (owner, feature) in enumerate(model.features)}
    params, per_round = model.params, model.params.trees_per_round
    loss = model.params.loss
    booster = {
        "model": {
            "cats": _NO_CATEGORIES if reader is None else _matched_categories(model, reader),
            "gbtree_model_param": {"num_parallel_tree": str(params.num_parallel_tree), "num_trees": str(len(trees))},
            "iteration_indptr": list(range(0, len(trees) + 1, per_round)),
            "tree_info": [params.output_of(i) for i in range(len(trees))],
            "trees": [_tree(i, tree, place) for i, tree in enumerate(trees)],
        },
        "name": "gbtree",
    }
    learner = {
        "attributes": _attributes(model),
        "feature_names": feature_names(model),
        "feature_types": ["float" if feature.categories is None else "c" for _, feature in model.features],
        "gradient_booster": booster if model.tree_scales is None else _dart(booster, model.tree_scales[model.in_use]),
        "learner_model_param": {
            "base_score": _numbers(loss.link.to_score(np.array(model.base_margin))),
            "boost_from_average": "1",
            "num_class": str(params.outputs if loss.has_classes and params.outputs > 1 else 0),
            "num_feature": str(len(model.features)),
            "num_target": str(len(loss.targets)),
        },
        "objective": {
            "name": loss.exported_as or loss.name,
            **({loss.block: loss.xgboost_parameters(model.params.num_class)} if loss.block else {}),
        },
    }
    # Names go out as they are: XGBoost's reader does not understand \uXXXX.
    return json.dumps({"learner": learner, "version": _VERSION}, ensure_ascii=False)


def _dart(booster: dict[str, Any], scales: Sequence[float]) -> dict[str, Any]:
    """Return a booster whose trees have scales."""
    return {"gbtree": booster, "name": "dart", "weight_drop": list(scales)}


def _attributes(model: Joined) -> dict[str, str]:
    best = {} if model.best_iteration is None else {"best_iteration": str(model.best_iteration)}
    codes = category_codes(model)
    open_ = {} if model.params.facts.runs_a_protocol else {"security": model.params.security}
    return best | open_ | ({"categories": json.dumps(codes, ensure_ascii=False)} if codes else {})


def _matched_categories(model: Joined, reader: Version) -> dict[str, Any]:
    """Return the categories of all columns, and for each the order of its sorted categories, by which XGBoost searches.

    Integers are written as such: a table has them as pandas' category of int64, and XGBoost does not compare them with
    words. Two errors of XGBoost are worked around. Up to 3.3 it cuts words by characters instead of bytes; so columns
    that have others than ASCII's get their codes as categories, which refuses a table of words. Before 3.3 it takes an
    unknown category for the next one; so an entry that no table has is put right below each, with a code of its own.
    """
    encodings: list[dict[str, Any]] = []
    segments, orders = [0], []
    for _, feature in model.features:
        categories = feature.categories or ()
        words: list[Any] = [category.encode() for category in categories]
        is_integer = bool(categories) and all(_INTEGER.fullmatch(category) for category in categories)
        if not _is_readable(categories, reader):
            words, is_integer = list(range(len(words))), True
        elif is_integer:
            words = [int(category) for category in categories]
        if reader < _REFUSES_UNKNOWN:
            below = [word - 1 if is_integer else _just_below(word) for word in words if word != b""]
            words += sorted(set(below) - set(words))
        encodings.append({"type": _INT64, "values": words} if is_integer else _strings(words))
        segments.append(segments[-1] + len(words))
        orders += sorted(range(len(words)), key=lambda i: words[i] if is_integer else _signed(words[i]))
    return {"enc": encodings, "feature_segments": segments, "sorted_idx": orders} if segments[-1] else _NO_CATEGORIES


_NO_CATEGORIES: dict[str, Any] = {"enc": [], "feature_segments": [], "sorted_idx": []}


def _strings(words: Sequence[bytes]) -> dict[str, Any]:
    offsets = np.cumsum([0, *map(len, words)]).tolist() if words else []
    return {"offsets": offsets, "values": _signed(b"".join(words))}


def _signed(word: bytes) -> list[int]:
    return [byte - 256 if byte > 127 else byte for byte in word]


def _just_below(word: bytes) -> bytes:
    """Return a word between one of at least a byte and all that are less, in the order of signed bytes."""
    start, last = word[:-1], word[-1]
    return start if last == 0x80 else start + bytes([(last - 1) % 256]) + 4 * _HIGHEST_BYTE


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
