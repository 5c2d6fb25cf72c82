"""How many binary places g and h need: identical trees and leaf weights against xgboost (ours; not in the paper).

The secure trees equal the plaintext oracle on the same integers, always (tests/lossless), so the oracle is asked: it is
given g and h rounded to f binary places, for f from 4 to 24, and its trees are compared with those of `xgboost`
(tree_method hist) on the same bins.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from experiments.data import Labels, dataset1, dataset2
from experiments.output import INK, Result, Row
from experiments.setting import GAMMA, Setup, missing_extra
from mpfedxgb import reference
from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.data.binning import Bins, Candidates, bin_table
from mpfedxgb.data.table import Table
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.testing.parity import xgboost_parameters
from mpfedxgb.tree.leaf import WEIGHT_BITS

BITS = tuple(range(4, 25))
OURS = 24
"""What training uses."""

EXACT = 40
"""Binary places that stand for infinitely many."""

DEPTH = 5
ROWS = 10_000

Shape = tuple[int, int, "Shape", "Shape"] | None
"""A tree without its weights: column, bins that go left, left, right; None for a leaf."""


@dataclass(frozen=True, slots=True)
class Trees:
    """Shapes of trees, and the weights of their leaves from left to right."""

    shapes: tuple[Shape, ...]
    leaves: tuple[tuple[float, ...], ...]


def run(setup: Setup) -> Result:
    """Compare on both data sets."""
    params = TrainParams(
        n_estimators=3, max_depth=DEPTH, learning_rate=1.0, gamma=GAMMA, min_child_weight=0.0, binning="paper"
    )
    rows: list[Row] = []
    for split in (dataset1(setup.data, ROWS), dataset2(setup.data)):
        rows += measure(split.name, split.X_train, split.y_train, params, BITS, setup)
    return result(rows)


def measure(
    name: str, X: pd.DataFrame, y: Labels, params: TrainParams, bits: Sequence[int], setup: Setup
) -> Iterator[Row]:
    """Yield, by number of binary places, how many trees are identical and how far leaves are from xgboost's."""
    bins = bin_table(Table.read(X, "joined"), params.max_bin, params.binning)
    theirs = xgboost_trees(bins, y, params)
    exact = oracle_trees(bins, y, params, EXACT)
    of_xgboost = leaf_error(theirs, exact)
    for f in bits:
        setup.on_progress(f"{name}, {f} binary places")
        ours = oracle_trees(bins, y, params, f)
        yield {
            "dataset": name,
            "bits": f,
            "trees": len(ours.shapes),
            "identical_trees": identical(ours, theirs),
            "leaf_error_xgboost": leaf_error(ours, theirs),
            "leaf_error_exact": leaf_error(ours, exact),
            "leaf_error_of_xgboost": of_xgboost,
        }


def oracle_trees(bins: Bins, y: Labels, params: TrainParams, f: int) -> Trees:
    """Return the oracle's trees on g and h of f binary places, by the rules of the secure training."""
    candidates = Candidates(bins)
    columns = candidates.tile()
    public = scales.ScalePlan(4, 1 << f, 1 << (f - 2), 0, scales.gain_cap(len(y), 1 << f), f, f)
    scale = scales.scale(params, public, len(y), f, f)
    rules = reference.Rules(params.max_depth, scale.lam, scale.gam, scale.mcw, params.gamma <= scales.SMALLEST_GAMMA)
    margins = np.zeros(len(y))
    shapes, leaves = [], []
    for _ in range(params.n_estimators):
        g, h = params.loss.gradients(y.astype(np.float64), margins[None])
        root = reference.grow(columns, encode_fixed(g[0], f), encode_fixed(h[0], f), rules)
        weights: list[float] = []
        shapes.append(_take(root, candidates, scale, params, weights, margins))
        leaves.append(tuple(weights))
    return Trees(tuple(shapes), tuple(leaves))


def _take(
    node: reference.RefNode,
    candidates: Candidates,
    scale: scales.Scale,
    params: TrainParams,
    weights: list[float],
    margins: npt.NDArray[np.float64],
) -> Shape:
    """Return a tree's shape; list its leaf weights from left to right and add them to the margins."""
    if isinstance(node, reference.RefLeaf):
        w = reference.leaf_weight(node, scale.f_g, scale.f_h, params.reg_lambda, params.learning_rate, WEIGHT_BITS)
        weights.append(float(np.ldexp(float(w), -WEIGHT_BITS)))
        margins[list(node.rows)] += weights[-1]
        return None
    item = candidates.items[node.index]
    left, right = (_take(side, candidates, scale, params, weights, margins) for side in (node.left, node.right))
    return (item.feature, item.high, left, right)


def xgboost_trees(bins: Bins, y: Labels, params: TrainParams) -> Trees:
    """Return the trees of `xgboost` on the numbers of the bins."""
    try:
        import xgboost
    except ImportError:
        raise missing_extra("xgboost") from None
    settings = xgboost_parameters(params) | {"base_score": 0.5}
    data = xgboost.DMatrix(bins.codes.T.astype(np.float32), y)
    booster = xgboost.train(settings, data, params.n_estimators)
    content = json.loads(booster.save_raw("json").decode())["learner"]["gradient_booster"]["model"]["trees"]
    shapes, leaves = [], []
    for tree in content:
        weights: list[float] = []
        shapes.append(_read(tree, 0, weights))
        leaves.append(tuple(weights))
    return Trees(tuple(shapes), tuple(leaves))


def _read(tree: dict[str, Any], i: int, weights: list[float]) -> Shape:
    left, right = tree["left_children"][i], tree["right_children"][i]
    if left == -1:
        weights.append(tree["split_conditions"][i])
        return None
    bins = int(np.ceil(tree["split_conditions"][i]))
    sides = [_read(tree, child, weights) for child in (left, right)]
    return (tree["split_indices"][i], bins, sides[0], sides[1])


def identical(ours: Trees, theirs: Trees) -> int:
    """Return how many trees are the same, from the first on."""
    same = 0
    for a, b in zip(ours.shapes, theirs.shapes, strict=True):
        if a != b:
            break
        same += 1
    return same


def leaf_error(ours: Trees, theirs: Trees) -> float | None:
    """Return the largest difference of two leaf weights; None unless all trees are the same."""
    if identical(ours, theirs) < len(ours.shapes):
        return None
    pairs = zip(ours.leaves, theirs.leaves, strict=True)
    return max(abs(a - b) for mine, other in pairs for a, b in zip(mine, other, strict=True))


def start_of_losslessness(rows: Sequence[Row]) -> int | None:
    """Return the number of binary places from which on all trees are identical."""
    start = None
    for row in sorted(rows, key=lambda r: int(r["bits"]), reverse=True):
        if row["identical_trees"] < row["trees"]:
            break
        start = int(row["bits"])
    return start


def result(rows: Sequence[Row]) -> Result:
    """Return where losslessness starts."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    starts = {name: start_of_losslessness([row for row in rows if row["dataset"] == name]) for name in names}
    ours = [row for row in rows if row["bits"] == OURS and row["leaf_error_xgboost"] is not None]
    at_ours = " and ".join(
        f"{row['leaf_error_exact']:.1e} (xgboost's {row['leaf_error_of_xgboost']:.1e}) on {row['dataset']}"
        for row in ours
    )
    return Result(
        item="precision",
        title="Precision: binary places of g and h against identical trees",
        paper="Shares are floating-point numbers there, so the question does not come up; the paper calls the method "
        "lossless.",
        measured=f"Three trees of depth {DEPTH} are those of xgboost (hist, same bins) "
        + " and ".join(
            f"from {start} binary places on ({name})" if start else f"at no number of places ({name})"
            for name, start in starts.items()
        )
        + f". Each further place about halves the error of the leaf weights. At the {OURS} places of training they "
        f"are within {at_ours} of the exact ones: rows that shared a leaf have equal h, and g by label, in the next "
        "tree, so they are rounded alike and their errors add up, to about 2^-(f+1) / h. The secure trees equal "
        "the plaintext oracle's on the same integers, so the oracle was run, at f places instead of the fixed ones.",
        header=("dataset", "binary places", "identical trees", "leaf error, xgboost", "leaf error, exact"),
        cells=[
            [
                row["dataset"],
                str(row["bits"]),
                f"{row['identical_trees']} of {row['trees']}",
                _error(row["leaf_error_xgboost"]),
                _error(row["leaf_error_exact"]),
            ]
            for row in rows
        ],
        rows=rows,
        draw=lambda figure: _draw(figure, rows, names),
        size=(9.0, 4.2),
    )


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def _draw(figure: Any, rows: Sequence[Row], names: Sequence[str]) -> None:
    left, right = figure.subplots(1, 2)
    for k, name in enumerate(names):
        mine = [row for row in rows if row["dataset"] == name]
        left.step(
            [row["bits"] for row in mine],
            [row["identical_trees"] - 0.03 * k for row in mine],
            "o-",
            where="mid",
            ms=4,
            color=INK[k],
            label=name,
        )
        known = [row for row in mine if row["leaf_error_exact"]]
        places = [row["bits"] for row in known]
        right.semilogy(places, [row["leaf_error_exact"] for row in known], "o-", color=INK[k], label=name)
        if known:
            label = f"{name}: xgboost's own error"
            right.axhline(known[0]["leaf_error_of_xgboost"], ls=":", color=INK[k], label=label)
    left.set(
        xlabel="binary places of g and h", ylabel="trees identical with xgboost's", yticks=range(4), ylim=(-0.1, 3.3)
    )
    right.set(xlabel="binary places of g and h", ylabel="largest error of a leaf weight")
    for ax in (left, right):
        ax.axvline(OURS, color="grey", linewidth=0.8)
        ax.set_xticks(range(4, OURS + 1, 4))
        ax.legend(frameon=False, fontsize=8, loc="lower left" if ax is right else "lower right")
    figure.suptitle(f"Three trees of depth {DEPTH}; the grey line is what training uses")
