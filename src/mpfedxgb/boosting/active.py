"""What the active participant does alone between the secure steps: gradients, leaf weights, metrics, stopping."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.callbacks import Callbacks, EvaluationState, RoundReport
from mpfedxgb.boosting.dart import Dropout
from mpfedxgb.boosting.metrics import OwnMetric, named_metrics
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import CustomObjective, Floats, Gradients, Objective, Prediction, unchanged
from mpfedxgb.boosting.params import TrainParams, gradients_that_count
from mpfedxgb.boosting.sampling import Participant, drop_draws, pair_words, row_sample
from mpfedxgb.errors import UserError
from mpfedxgb.ring.ring import decode_fixed, encode_fixed
from mpfedxgb.tree.leaf import WEIGHT_BITS, Penalties, leaf_weight, split_gain, times_rate
from mpfedxgb.tree.level import TableSizes
from mpfedxgb.tree.nodes import GrownLeaf, GrownTree, Leaf, Tree

_LARGEST_MARGIN = 1 << 62
_NO_SCALE = 1e-6
"""As near to 1, scale_pos_weight leaves XGBoost's start as it is."""

_SMALLEST_SPREAD = 2.0**-12
"""Labels nearer than this to where training starts leave a leaf weight fewer than 20 bits, six digits."""

_log = logging.getLogger("mpfedxgb.training")


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """What only the active participant has: labels, weights, and how it judges progress.

    `base_margin`, (classes, rows), is where rows start in place of base_score, and `eval_base_margin` where those of
    each evaluation set do; None for all at base_score. `beside` is what some losses take beside labels, (rows,): the
    number of each row's group, or upper bounds; `eval_beside` that of each evaluation set.
    """

    y: Floats
    weight: Floats | None = None
    eval_y: Sequence[Floats] = ()
    eval_weight: Sequence[Floats | None] = ()
    eval_names: Sequence[str] = ()
    eval_metrics: Sequence[str | OwnMetric] = ()
    early_stopping_rounds: int | None = None
    base_score: float | None = None
    custom: CustomObjective | None = None
    callbacks: Callbacks = field(default_factory=Callbacks)
    scale_pos_weight: float = 1.0
    base_margin: Floats | None = None
    eval_base_margin: Sequence[Floats | None] = ()
    beside: npt.NDArray[Any] | None = None
    eval_beside: Sequence[npt.NDArray[Any] | None] = ()

    def __repr__(self) -> str:
        return f"Labels(rows={len(self.y)})"

    @property
    def row_weights(self) -> Floats | None:
        """What rows weigh: their weights, times scale_pos_weight for a label of 1; None if all weigh 1."""
        if self.scale_pos_weight == 1:
            return self.weight
        scaled = np.where(self.y.astype(np.float32) == 1, self.scale_pos_weight, 1.0)
        return scaled if self.weight is None else self.weight * scaled

    def start(self, loss: Objective, num_class: int) -> Floats:
        """Return the margin that rows without a base_margin start from, one or one per class."""
        scaled = abs(np.float32(self.scale_pos_weight) - 1) > _NO_SCALE
        return loss.base_margin(self.y, self.row_weights, self.base_score, num_class, bool(scaled))

    def starting_margins(self, base: Floats, eval_rows: int) -> Floats:
        """Return the margins (classes, all rows) before the first tree; `base` is that of rows without base_margin."""
        margins = np.repeat(base[:, None], len(self.y) + eval_rows, axis=1)
        first = 0
        for y, own in zip((self.y, *self.eval_y), (self.base_margin, *self.eval_base_margin), strict=False):
            if own is not None:
                margins[:, first : first + len(y)] = own
            first += len(y)
        return margins


ChooseScale = Callable[["Active", int, Gradients, Gradients], scales.Scale]
"""From the round and gradients, inside the sample and of all rows, to the scale of the round."""


class Active:
    """The active participant between rounds: margins, gradients, weights, metrics, early stopping."""

    def __init__(
        self,
        party: Participant,
        params: TrainParams,
        plan: scales.ScalePlan,
        labels: Labels,
        sizes: TableSizes,
        sample_key: str,
    ) -> None:
        self.party, self.params, self.plan, self.labels, self.sizes = party, params, plan, labels, sizes
        self.sample_key = sample_key
        self.loss = params.loss.with_function(labels.custom).with_beside(labels.beside)
        self.weight = labels.row_weights
        self.base = labels.start(self.loss, params.num_class)
        self.start = labels.starting_margins(self.base, sizes.eval_rows)
        self._tell_few_digits()
        self.margins = encode_fixed(self.start, WEIGHT_BITS)
        self.dropout = Dropout(params) if params.drops_trees else None
        self.scale = scales.UNKNOWN
        self.metrics: dict[str, dict[str, list[float]]] = {}
        self.best_iteration: int | None = None
        self._best = float("nan")
        self._judged: tuple[Floats, Floats, Floats | None] | None = None
        self._gh: npt.NDArray[np.int64] = np.empty((params.trees_per_round, 2, 0), np.int64)
        self.judges = named_metrics(labels.eval_metrics or [self.loss.default_metric], params.of_objectives)
        for metric in self.judges.values():
            for y in labels.eval_y:
                metric.check_labels(y)

    def _tell_few_digits(self) -> None:
        """Say so where margins are in the units of labels that are small beside the steps of leaf weights."""
        if self.params.facts.hides_rows:  # there the steps are as fine as the labels ask for
            return
        in_units_of_labels = self.loss.transform is unchanged and Prediction.NUMBER in self.loss.predicts
        in_units_of_labels = in_units_of_labels and not self.loss.is_custom
        if not in_units_of_labels:
            return
        if 0 < np.abs(self.labels.y - self.start[:, : self.sizes.rows]).max() < _SMALLEST_SPREAD:
            _log.warning(
                "the labels differ by less than %.1g, and leaf weights are kept in steps of 2^-%d, which leaves fewer "
                "than six digits; multiply the labels by a constant and divide the predictions by it",
                _SMALLEST_SPREAD,
                WEIGHT_BITS,
            )

    def evaluation(self) -> EvaluationState:
        """Return what has to be remembered to go on after this round."""
        scale, dropout = self.scale, self.dropout
        return EvaluationState(
            self.margins,
            self.metrics,
            self.best_iteration,
            self.best_score,
            (scale.f_g, scale.f_h, scale.lam, scale.gam, scale.mcw),
            *(() if dropout is None else (dropout.scales, tuple(dropout.leaves))),
        )

    def resume(self, evaluation: EvaluationState, trees: Sequence[Tree] = ()) -> None:
        """Go on from what was remembered."""
        self.margins = evaluation.margins.copy()
        if self.dropout is not None:
            self.dropout.resume(evaluation.tree_scales, evaluation.leaves, trees)
        self.metrics = evaluation.metrics
        self.best_iteration, self.scale = evaluation.best_iteration, scales.Scale(*evaluation.scale)
        self._best = float("nan") if evaluation.best_value is None else evaluation.best_value

    def judgement(self) -> dict[str, Any] | None:
        """Return what the last evaluation rows look like in the best round, or else in the last one (see `judge`).

        None for other labels than two classes, and after the best round was made by an attempt that ended.
        """
        return None if self._judged is None else judge(*self._judged)

    @property
    def best_score(self) -> float | None:
        """The metric that decides, in the best round."""
        return None if self.best_iteration is None else self._best

    def start_from(self, base_margin: Sequence[float], sums: npt.NDArray[np.int64]) -> None:
        """Begin where a model ends: at its base margin and the sums of its leaf weights, (classes, rows)."""
        self.base = np.array(base_margin)
        self.start = self.labels.starting_margins(self.base, self.sizes.eval_rows)
        self.margins = encode_fixed(self.start, WEIGHT_BITS) + sums
        self._check_margins()

    def integers(self, t: int, choose: ChooseScale | None = None) -> npt.NDArray[np.int64]:
        """Return g~ and h~ of the round, (trees, 2, rows): the single rounding of the whole training.

        At the finest scale, or at one that is chosen from the gradients inside the sample and those of all rows.
        """
        sums = self.margins[:, : self.sizes.rows]
        if self.dropout is not None:
            drawn = drop_draws(self.party, len(self.dropout.scales), self.sample_key, t)
            sums = self.dropout.leave_out(drawn, sums)
        margins, loss = decode_fixed(sums, WEIGHT_BITS), self.loss
        if loss.draws:
            loss = loss.with_draws(pair_words(self.party, loss.draws, self.sizes.rows, self.sample_key, t))
        g, h = loss.gradients(self.labels.y, margins, self.weight)
        every = g, h
        parallel = self.params.num_parallel_tree  # the trees of a round that a class has
        g, h = np.repeat(g, parallel, axis=0), np.repeat(h, parallel, axis=0)
        if self.params.subsample < 1:
            draw = partial(row_sample, self.party, self.params.subsample, self.sizes.rows, self.sample_key, t)
            inside = np.tile([draw(tree) for tree in range(parallel)], (self.params.outputs, 1))
            g, h = g * inside, h * inside
        if not (np.isfinite(g).all() and np.isfinite(h).all()):
            text = "the gradients are no longer finite; lower the learning rate or rescale the labels"
            raise UserError(text, "range", "gradients")
        g = gradients_that_count(g, h)
        if choose is not None:
            self.scale = choose(self, t, (g, h), every)
        else:
            self.scale = scales.choose_scale(self.params, self.plan, g, h, self.sizes.rows)
        g_int = encode_fixed(g, self.scale.f_g, self.plan.g_cap)
        h_int = scales.round_hessians(self.params, h, self.scale.f_h, self.plan.h_cap)
        if self.scale.lam == 0 and (h_int.sum(axis=1) < 1).any():
            text = "all hessians have become zero and reg_lambda=0; set reg_lambda or train fewer rounds"
            raise UserError(text, "range", "hessians")
        self._gh = np.stack([g_int, h_int], axis=1)
        return self._gh

    def update(
        self,
        trees: Sequence[GrownTree],
        rows: Sequence[npt.NDArray[np.int64]],
        held: Sequence[int | None] | None = None,
    ) -> tuple[list[Leaf], list[list[float | None]]]:
        """Return weight and cover of every leaf, by place, and each tree's gains, by node; update the margins.

        `rows` are those inside each leaf, by place; evaluation rows are counted behind training rows. Their margins
        grow by the leaf's weight. A leaf's gain is 0. In a constrained training `held` says, by place, at which bound a
        weight is held, None for those within their bounds. Gains are those without bounds, and None above a held leaf.
        """
        leaves = [Leaf(0, 0.0)] * len(rows)
        gains = []
        f_g, f_h, params = self.scale.f_g, self.scale.f_h, self.params
        penalties = Penalties(params.reg_lambda, params.reg_alpha, params.largest_step)
        for k, tree in enumerate(trees):
            sums, own_gains = [(0, 0)] * len(tree.nodes), list[float | None]([0.0] * len(tree.nodes))
            is_held = [False] * len(tree.nodes)
            for number, node in reversed(list(enumerate(tree.nodes))):  # children follow their parents
                if isinstance(node, GrownLeaf):
                    inside = rows[node.place]
                    own = inside[inside < self.sizes.rows] if self.sizes.eval_rows else inside
                    G, H = self._gh[k, 0].take(own).sum().item(), self._gh[k, 1].take(own).sum().item()
                    if held is None:
                        w = leaf_weight(G, H, f_g, f_h, penalties, params.tree_rate)
                    else:
                        w = self._weight_within_bounds(G, H, held[node.place])
                        is_held[number] = held[node.place] is not None
                    if abs(w) > _LARGEST_MARGIN:
                        text = "a leaf weight is beyond 2^30; rescale the labels or raise reg_lambda"
                        raise UserError(text, "range", "leaf weight")
                    leaves[node.place] = Leaf(w, float(np.ldexp(float(H), -f_h)))
                    if self.dropout is None:
                        self.margins[self.params.output_of(k), inside] += w
                    sums[number] = G, H
                elif node is not None:
                    left, right = sums[node.left], sums[node.right]
                    sums[number] = left[0] + right[0], left[1] + right[1]
                    known = not (is_held[node.left] or is_held[node.right])
                    own_gains[number] = split_gain(left, right, f_g, f_h, penalties) if known else None
            gains.append(own_gains)
        if self.dropout is not None:
            self.dropout.close_round(trees, rows, leaves, self.margins)
        self._check_margins()
        self._tell_largest_weights(held or ())
        return leaves, gains

    def _tell_largest_weights(self, held: Sequence[int | None]) -> None:
        """Say so if a leaf is held at W, which XGBoost does not know."""
        if any(b is not None and abs(b) == self.plan.weight_cap for b in held):
            _log.warning(
                "a leaf weighs as much as any may beside monotone_constraints, and less than in XGBoost; raise "
                "reg_lambda, or set max_delta_step"
            )

    def _weight_within_bounds(self, G: int, H: int, held: int | None) -> int:
        """Return the weight of a leaf of a constrained tree: the bound that it is held at, or as its integers have it.

        Were lambda and alpha not those that bounds are compared by, a weight could be a hair beyond them.
        """
        scale, rate = self.scale, self.params.tree_rate
        above, below = (held, 1 << self.plan.places) if held is not None else scale.step(G, H)
        return times_rate(above, below, rate, scale.f_h - scale.f_g)

    def add(self, predictions: npt.NDArray[np.int64], leaf_scale_bits: int) -> None:
        """Add what trees predict for every row, (trees, rows) in units of 2^-leaf_scale_bits (Algorithm 1, line 9)."""
        self.margins += _margins_of(predictions, leaf_scale_bits)
        self._check_margins()

    def see_evaluation(self, sums: npt.NDArray[np.int64], leaf_scale_bits: int) -> None:
        """Take what the trees so far add up to in evaluation rows, in units of 2^-leaf_scale_bits (sealed)."""
        start = encode_fixed(self.start[:, self.sizes.rows :], WEIGHT_BITS)
        self.margins[:, self.sizes.rows :] = start + _margins_of(sums, leaf_scale_bits)
        self._check_margins()

    def _check_margins(self) -> None:
        if np.abs(self.margins).max() > _LARGEST_MARGIN:
            raise _margin_beyond_range()

    def report(self, t: int, model: PartialModel | None = None) -> bool:
        """Evaluate, tell the callbacks, and return whether another round should follow."""
        self._evaluate(t)
        spent = self.party.meter.total()
        done = RoundReport(t, self.params.n_estimators, self.metrics, spent.rounds, spent.bytes_sent, model)
        if self.labels.callbacks.after(done) or self._is_out_of_patience(t):
            return False
        is_last = t + 1 == self.params.n_estimators
        return is_last or not self.labels.callbacks.before(model, t + 1, self.metrics)

    def _eval_name(self, i: int) -> str:
        return self.labels.eval_names[i] if self.labels.eval_names else f"validation_{i}"

    def _is_out_of_patience(self, t: int) -> bool:
        patience = self.labels.early_stopping_rounds
        return patience is not None and self.best_iteration is not None and t - self.best_iteration >= patience

    def _evaluate(self, t: int) -> None:
        if not self.labels.eval_y:
            return
        first = self.sizes.rows
        for i, y in enumerate(self.labels.eval_y):
            rows = slice(first, first + len(y))
            margins = decode_fixed(self.margins[:, rows], WEIGHT_BITS)
            predictions = self.loss.transform(margins)
            weight = self.labels.eval_weight[i] if self.labels.eval_weight else None
            beside = self.labels.eval_beside[i] if self.labels.eval_beside else None
            for name, metric in self.judges.items():
                value = metric(y, predictions, weight, beside)
                self.metrics.setdefault(self._eval_name(i), {}).setdefault(name, []).append(value)
            first += len(y)
        # As XGBoost does, the last metric of the last evaluation set decides.
        stops_early = self.labels.early_stopping_rounds is not None
        if stops_early and (self.best_iteration is None or metric.is_better(value, self._best)):
            self.best_iteration, self._best = t, value
        if self.loss.has_classes and len(predictions) == 1 and (self.best_iteration == t or not stops_early):
            self._judged = y, predictions[0], weight


# How well probabilities tell two classes apart: ROC, gains, calibration, distribution of scores, and KS. Everything is
# counts and shares over all rows; nothing names a row. Rows with equal scores count together, so that no order among
# them is invented.

BINS = 10
"""Groups of rows of a calibration, and of gains."""
BARS = 20
MOST_POINTS = 200
"""Of a curve; more lie on top of each other."""


def judge(y: Floats, p: Floats, weight: Floats | None = None) -> dict[str, Any] | None:
    """Return curves of labels 0 and 1 and probabilities as plain numbers; None if one of the classes is not there.

    "roc" are shares of negatives and of positives above each score, "gains" the shares of all rows and of positives,
    "calibration" mean score, share of positives and rows in tenths of the rows, "scores" the shares of negatives and of
    positives in twentieths of [0, 1], "ks" the largest distance between the two classes and the score where it is.
    """
    w = np.ones(len(y)) if weight is None else weight
    order = np.argsort(-p, kind="stable")
    y, p, w = y[order], p[order], w[order]
    positives, negatives = np.cumsum(w * y), np.cumsum(w * (1 - y))
    if not len(y) or positives[-1] <= 0 or negatives[-1] <= 0:
        return None
    last = np.append(np.flatnonzero(np.diff(p)), len(p) - 1)  # of each score
    x, z = np.append(0.0, negatives[last]) / negatives[-1], np.append(0.0, positives[last]) / positives[-1]
    share = np.append(0.0, (positives + negatives)[last]) / (positives + negatives)[-1]
    widest = int(np.argmax(z - x))
    groups = [g for g in np.array_split(np.arange(len(p))[::-1], BINS) if len(g)]
    bars = np.clip((p * BARS).astype(np.int64), 0, BARS - 1)
    return {
        "rows": len(y),
        "auc": float(np.sum((x[1:] - x[:-1]) * (z[1:] + z[:-1]) / 2)),
        "ks": [float(z[widest] - x[widest]), float(p[last[widest - 1]]) if widest else 1.0],
        "roc": _thinned(x, z),
        "gains": _thinned(share, z),
        "calibration": [
            [float(np.average(p[g], weights=w[g])), float(np.average(y[g], weights=w[g])), len(g)]
            for g in groups
            if w[g].sum() > 0
        ],
        "scores": [
            (np.bincount(bars, weights=w * one, minlength=BARS) / (w * one).sum()).tolist() for one in (1 - y, y)
        ],
    }


def _thinned(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> list[list[float]]:
    places = np.unique(np.linspace(0, len(x) - 1, min(len(x), MOST_POINTS)).astype(np.int64))
    return [[float(a), float(b)] for a, b in zip(x[places], y[places], strict=True)]


def _margins_of(sums: npt.NDArray[np.int64], leaf_scale_bits: int) -> npt.NDArray[np.int64]:
    """Return sums of leaf weights in units of margins; raises UserError if one is beyond what margins may be."""
    values = decode_fixed(sums, leaf_scale_bits)
    if np.abs(values).max(initial=0) > _LARGEST_MARGIN / 2**WEIGHT_BITS:
        raise _margin_beyond_range()
    return encode_fixed(values, WEIGHT_BITS)


def _margin_beyond_range() -> UserError:
    return UserError("a margin is beyond 2^30; rescale the labels or lower the learning rate", "range", "margin")
