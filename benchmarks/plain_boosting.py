"""The oracle's training loop: `reference.grow` tree after tree on the same integers, every table in the clear."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb import reference
from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting import scales
from mpfedxgb.boosting.join import JoinedSplit, JoinedTree
from mpfedxgb.boosting.labels import read_groups, weights_of_groups
from mpfedxgb.boosting.objective import Floats, Origin
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import coins_of, column_sample, drop_draws, node_sample, pair_words, row_sample
from mpfedxgb.data.binning import Candidates, bin_table
from mpfedxgb.data.directions import Directions, directions_of, directions_of_tables
from mpfedxgb.data.table import Table
from mpfedxgb.modes.choose import mode_of
from mpfedxgb.party.roster import Keyring
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.tree.grow import toss
from mpfedxgb.tree.nodes import Leaf

WEIGHT_BITS = 32


class PlainBoosting:
    """Everything in one place, in the order of the participants, whose samples need their keys unless they have one."""

    def __init__(
        self,
        tables: Sequence[Table],
        params: TrainParams,
        keys: Sequence[Keyring] | None = None,
        directions: Mapping[str, Directions] | None = None,
    ) -> None:
        self.tables, self.params, self.keys = tables, params, keys
        self.plan = mode_of(params).plan(params, tables[0].rows)
        self.candidates = [Candidates(bin_table(table, params.max_bin, params.binning)) for table in tables]
        self.bits = np.concatenate([c.tile() for c in self.candidates])
        self.places = [(m, i) for m, c in enumerate(self.candidates, 1) for i in range(len(c))]
        of_columns = [{} if directions is None else directions[table.owner] for table in tables]
        known = [directions_of(c, own).tolist() for c, own in zip(self.candidates, of_columns, strict=True)]
        self.directions = tuple(itertools.chain(*known))

    def train(
        self,
        y: Floats,
        weight: Floats | None,
        base_score: float | None,
        key: str,
        custom: Any = None,
        followed: Sequence[JoinedTree] | None = None,
        base_margin: Floats | None = None,
        beside: npt.NDArray[Any] | None = None,
    ) -> list[JoinedTree]:
        """Return the trees of all rounds; of as many as are `followed`, with the leaf weights of those in the margins.

        Rows begin at `base_margin`, (classes, rows), if that is given, and not at base_score. `beside` is what some
        objectives take beside labels.
        In the paper's way leaf weights are near the exact ones, and the next tree's integers come from them.
        """
        params, rows = self.params, self.tables[0].rows
        rounds = params.n_estimators if followed is None else len(followed) // params.trees_per_round
        plan = self.plan
        loss = params.loss.with_function(custom).with_beside(beside)
        start = base_margin
        if start is None:
            start = np.repeat(loss.base_margin(y, weight, base_score, params.num_class)[:, None], rows, axis=1)
        margins = encode_fixed(start, WEIGHT_BITS)
        trees: list[JoinedTree] = []
        alone: list[npt.NDArray[np.int64]] = []  # what every tree adds to its rows, before its scale
        self.tree_scales: list[float] = []
        scale = scales.Scale(0, 0, 0, 0, 0)
        for t in range(rounds):
            if params.drops_trees:
                margins = encode_fixed(start, WEIGHT_BITS)
                left_out = self._drop(margins, alone, key, t)
            if loss.draws:
                loss = loss.with_draws(pair_words(self._party(1), loss.draws, rows, key, t))
            g, h = loss.gradients(y, np.ldexp(margins.astype(np.float64), -WEIGHT_BITS), weight)
            every, parallel = (g, h), params.num_parallel_tree
            g, h = np.repeat(g, parallel, axis=0), np.repeat(h, parallel, axis=0)
            if params.subsample < 1:
                for k in range(len(g)):
                    inside = row_sample(self._party(1), params.subsample, rows, key, t, k % parallel)
                    g[k], h[k] = g[k] * inside, h[k] * inside
            g = np.where((h > 0).any(axis=1, keepdims=True), g, 0)  # a tree without any hessian weighs nothing
            if params.facts.is_exact:
                scale = scales.choose_scale(params, plan, g, h, rows)
            elif t == 0:
                scale = scales.choose_scale(params, plan, *every, rows, spare=1)
            g_int, h_int = encode_fixed(g, scale.f_g), scales.round_hessians(params, h, scale.f_h)
            for k in range(params.trees_per_round):
                root = self.growing(key, t, k)(self.bits, g_int[k], h_int[k], self._rules(scale))
                leader = None if followed is None else followed[len(trees)]
                alone.append(np.zeros(rows, np.int64))
                sums = alone[-1] if params.drops_trees else margins[k // parallel]
                trees.append(self._kept(root, scale, sums, leader))
            if params.drops_trees:
                self.tree_scales = self._dart.rescaled(self.tree_scales, left_out, params.trees_per_round)
        return trees

    @property
    def _dart(self) -> reference.RefDart:
        p = self.params
        kinds = p.sample_type == "weighted", p.normalize_type == "forest"
        return reference.RefDart(p.rate_drop, p.skip_drop, p.one_drop, *kinds, p.learning_rate)

    def _drop(self, margins: Any, alone: Sequence[Any], key: str, t: int) -> list[int]:
        """Add to the margins what trees add that a round does not leave out, and return which it leaves out."""
        scales = self.tree_scales
        left_out = self._dart.left_out(scales, drop_draws(self._party(1), len(scales), key, t).tolist())
        for i, scale in enumerate(scales):
            if i not in left_out:
                weights, of_row = np.unique(alone[i], return_inverse=True)
                scaled = np.array([reference.scaled_weight(w, scale) for w in weights.tolist()], np.int64)
                margins[self.params.output_of(i)] += scaled[of_row]
        return left_out

    def _rules(self, scale: scales.Scale) -> reference.Rules:
        first = slice(0, len(self.candidates[0])) if self.params.first_layer_mask else None
        no_split_first = self.params.gamma <= scales.SMALLEST_GAMMA
        penalties = scale.alpha, scale.delta, self.plan.places
        held = (self.directions, self.plan.coarse) if self.params.constrained else ()
        return reference.Rules(
            self.params.max_depth, scale.lam, scale.gam, scale.mcw, no_split_first, first, *penalties, *held
        )

    def growing(self, key: str, t: int, k: int = 0) -> reference.Grow:
        """Return how tree k of round t grows, with the samples of its columns."""
        params = self.params
        if not params.samples_columns:
            return reference.grow

        def drawn(draw: Any, *more: Any) -> Any:
            samples = [draw(self._party(m), params, c, key, t, *more) for m, c in enumerate(self.candidates, 1)]
            return np.concatenate(samples, axis=1)

        if params.colsample_bylevel == params.colsample_bynode == 1:
            return partial(reference.grow, allowed=drawn(column_sample)[k])
        if params.colsample_bynode == 1:
            return partial(reference.grow, allowed=lambda way: drawn(node_sample, len(way), [(k, 0)])[0])

        def coin(candidate: int, node: int) -> bool:
            party = self._party(self.places[candidate][0])
            return toss(coins_of(party, params, key), str(t), k, node)

        sample = lambda depth, node: drawn(node_sample, depth, [(k, node)])[0]  # noqa: E731
        return partial(reference.grow_numbered, sample=sample, coin=coin)

    def _party(self, m: int) -> Any:
        return SimpleNamespace(name=self.tables[m - 1].owner, keys=None if self.keys is None else self.keys[m - 1])

    def _kept(
        self, root: reference.RefNode, scale: scales.Scale, margins: Any, leader: JoinedTree | None
    ) -> JoinedTree:
        """Return a tree as `join` would list it, and add its leaf weights, or a followed tree's, to the margins."""
        params = self.params
        lam = math.ldexp(scale.lam, -scale.f_h) if not params.facts.is_exact else params.reg_lambda
        more = params.reg_alpha, params.largest_step

        rules = self._rules(scale)

        def leaf_of(node: reference.RefLeaf) -> Leaf:
            rate = params.learning_rate / params.num_parallel_tree
            if params.constrained:
                w = reference.held_leaf_weight(node, scale.f_g, scale.f_h, rules, rate, WEIGHT_BITS)
            else:
                w = reference.leaf_weight(node, scale.f_g, scale.f_h, lam, rate, WEIGHT_BITS, *more)
            return Leaf(w, float(np.ldexp(float(node.H), -scale.f_h)))

        def gain_of(node: reference.RefSplit) -> float | None:
            if not params.facts.is_exact:
                return None
            if params.constrained and any(reference.is_held(side, rules) for side in (node.left, node.right)):
                return None
            return reference.gain(node, scale.f_g, scale.f_h, lam, *more)

        tree = self.joined(root, leaf_of, gain_of)
        for number, (node, kept) in enumerate(zip(level_by_level(root), tree, strict=True)):
            twin = leader[number] if leader is not None and number < len(leader) else None
            if isinstance(node, reference.RefLeaf) and isinstance(kept, Leaf):
                margins[list(node.rows)] += twin.weight if isinstance(twin, Leaf) else kept.weight
        return tree

    def joined(
        self,
        root: reference.RefNode,
        leaf_of: Callable[[reference.RefLeaf], Leaf],
        gain_of: Callable[[reference.RefSplit], float | None],
    ) -> JoinedTree:
        """Return a tree as `join` would list it."""
        nodes: list[JoinedSplit | Leaf] = []
        place = 1
        for node in level_by_level(root):
            if isinstance(node, reference.RefLeaf):
                nodes.append(leaf_of(node))
                continue
            owner, index = self.places[node.index]
            mine = self.candidates[owner - 1]
            item = mine.items[index]
            feature = self.tables[owner - 1].columns[item.feature].name
            threshold = None if item.is_categorical else mine.threshold(index)
            category = item.low if item.is_categorical else None
            condition = (feature, threshold, category, item.missing_left)
            nodes.append(JoinedSplit(owner, *condition, place, place + 1, gain_of(node)))
            place += 2
        return tuple(nodes)


def level_by_level(root: reference.RefNode) -> list[reference.RefNode]:
    """Return the nodes of a tree in the order in which `join` numbers them."""
    nodes = [root]
    for node in nodes:  # grows while it is walked
        if isinstance(node, reference.RefSplit):
            nodes += [node.left, node.right]
    return nodes


def plain_trees(
    model: FedXGBClassifier | FedXGBRegressor,
    tables: dict[str, pd.DataFrame],
    y: Any,
    weight: Any = None,
    followed: Sequence[JoinedTree] | None = None,
    base_margin: Any = None,
    qid: Any = None,
) -> list[JoinedTree]:
    """Return the oracle's trees for the table, label and parameters that an estimator was fitted with."""
    params, beside = model.partial_models_[0].params, None
    if np.ndim(y) == 2:
        y, beside = np.asarray(y, np.float64).T
    labels, weights, start = as_numbers(model, y, weight, base_margin)
    if qid is not None:
        beside = read_groups(np.asarray(qid), Origin("qid"))
        weights = None if weights is None else weights_of_groups(weights, beside, Origin("weight"))
    read, directions = tables_of(model, tables)
    plain = PlainBoosting(read, params, directions=directions)
    key = "" if model.random_state is None else f"random_state {model.random_state}"
    custom = model.objective if callable(model.objective) else None
    trees = plain.train(labels, weights, model.base_score, key, custom, followed, start, beside)
    assert tuple(plain.tree_scales) == (model.partial_models_[0].tree_scales or ()), "trees have other scales"
    return trees


def tables_of(
    model: FedXGBClassifier | FedXGBRegressor, tables: dict[str, pd.DataFrame]
) -> tuple[list[Table], Mapping[str, Directions]]:
    """Return the tables that an estimator was fitted with, and the directions of their columns."""
    read = {name: Table.read(data, name) for name, data in tables.items()}
    given, columns = model.monotone_constraints, getattr(model, "_columns_", None)
    return list(read.values()), directions_of_tables(given, read, columns, "monotone_constraints")


def as_numbers(
    model: FedXGBClassifier | FedXGBRegressor, y: Any, weight: Any, base_margin: Any
) -> tuple[Floats, Floats | None, Floats | None]:
    """Return labels, row weights, and the margins that rows start from if it is not base_score, as training has them.

    With scale_pos_weight positives weigh more, and without base_score a leaf over all rows is what they start from.
    """
    params, scale = model.partial_models_[0].params, model.scale_pos_weight
    codes = np.searchsorted(model.classes_, y) if isinstance(model, FedXGBClassifier) else np.asarray(y)
    labels = codes.astype(np.float64)
    weights = None if weight is None or (np.asarray(weight) == 1).all() else np.asarray(weight, np.float64)
    start = None if base_margin is None else np.asarray(base_margin, np.float64).reshape(len(labels), -1).T
    if scale != 1:
        weights = (np.ones(len(labels)) if weights is None else weights) * np.where(labels == 1, scale, 1.0)
        if model.base_score is None and start is None:
            g, h = params.loss.gradients(labels, np.zeros((1, len(labels))), weights)
            link = params.loss.link
            margin = link.to_margin(link.to_score(np.array([-g.sum() / max(h.sum(), 1e-6)])))
            start = np.full((1, len(labels)), margin[0])
    return labels, weights, start
