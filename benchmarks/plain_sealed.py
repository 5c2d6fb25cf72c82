"""The oracle's sealed training: labels encoded, `reference.train_sealed` on every table in the clear, trees joined."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb import reference
from mpfedxgb.api.estimators import FedXGBClassifier, FedXGBRegressor
from mpfedxgb.boosting import scales
from mpfedxgb.boosting.active import Labels
from mpfedxgb.boosting.join import JoinedTree, join
from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import row_sample
from mpfedxgb.data.table import Table
from mpfedxgb.sigmoid import PLACES
from mpfedxgb.tree.nodes import Leaf
from plain_boosting import WEIGHT_BITS, PlainBoosting, as_numbers, level_by_level, tables_of

Ints = npt.NDArray[np.int64]

SHARE_OF_LABELS = 4
"""The largest residual of the first round takes this part of what |g| may be."""

LARGEST_G = 1 << 36
"""No cap on |g| is larger: times a row's weight, of 24 bits, it keeps well within 64."""


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """What the active participant brings, as integers: labels, row weights, the start of margins and their places."""

    y: Ints
    weights: Ints | None
    sealed: reference.RefSealed
    places: int
    scale: scales.Scale


def encode(params: TrainParams, labels: Labels, rounds: int | None = None, eval_rows: int = 0) -> Encoded:
    """Return labels and row weights as integers, at the finest scales that fit."""
    form = params.loss.sealed
    assert form is not None
    rows, is_logistic = len(labels.y), form.is_logistic
    plan = scales.plan(params, rows)
    classes = params.num_class if params.loss.classes is None else 0
    start_of = params.loss.base_margin(labels.y, labels.weight, labels.base_score, max(1, classes))
    base = np.repeat(start_of[:, None], rows + eval_rows, axis=1)
    if labels.base_margin is not None:
        base[:, :rows] = labels.base_margin
    own = [margins for margins in labels.eval_base_margin if margins is not None]
    if own:
        base[:, rows:] = np.concatenate(own, axis=1)
    if classes:
        labels = replace(labels, y=(labels.y == np.arange(classes)[:, None]).astype(np.float64))
    else:
        base = base[0]
    if form.power is not None:
        return _encode_means(params, labels, base, form.power, params.n_estimators if rounds is None else rounds)
    g_cap = min(plan.g_cap, LARGEST_G)
    places = PLACES if is_logistic else _finest(np.abs(labels.y - base[:rows]).max(), g_cap // SHARE_OF_LABELS)
    weights, more, rounding = None, 0, 36 if is_logistic else 24
    if labels.weight is not None:
        largest = 1 << rounding  # times |g|, 2^60
        if is_logistic:  # as much finer as the plan allows
            rounding -= plan.g_cap.bit_length() - 1 - PLACES
        f_w = min(_finest(labels.weight.max(), largest), _finest(params.reg_lambda, plan.lam_cap) - PLACES + rounding)
        weights, more = _times_power(labels.weight, f_w), f_w - rounding
    h_places = PLACES if is_logistic or weights is not None else 16
    scale = scales.scale(params, plan, rows, places + more, h_places + more)
    start = _times_power(base if is_logistic else np.zeros(len(base)), places)
    y = _times_power(labels.y if is_logistic else labels.y - base[:rows], places)  # one and zero, or of all classes
    count = params.n_estimators if rounds is None else rounds
    most = None
    if params.largest_step:
        step = Fraction(float(np.float32(params.learning_rate))) * Fraction(params.largest_step) * Fraction(2) ** places
        most = math.floor(step + Fraction(1, 2))
    sealed = reference.RefSealed(
        is_logistic, count, params.learning_rate, start, g_cap, h_places, rounding, most, classes=classes
    )
    return Encoded(y, weights, sealed, places, scale)


def _encode_means(params: TrainParams, labels: Labels, base: Any, p: float, rounds: int) -> Encoded:
    """Return the same for a loss of positive means: e^((2 - p) F) and y e^((1 - p) F) of the first round fit 2^8."""
    y, rows = labels.y, len(labels.y)
    plan = scales.plan(params, rows)
    held, lam_bits = plan.g_cap.bit_length() - 1, _finest(params.reg_lambda, plan.lam_cap)
    places = PLACES if params.weighted else held - 10
    unit = places
    if p < 2:
        largest = max(np.exp((2 - p) * base[:rows]).max(), (y * np.exp((1 - p) * base[:rows])).max())
        unit = min(_finest(largest, 1 << (places + 8)), lam_bits)
    factor = (places - unit) * math.log(2.0)
    moved = factor / (2 - p) if p < 2 else 0.0
    start = _times_power(base - moved, PLACES)
    if p == 1:
        numbers = _times_power(y, unit)
    else:
        with np.errstate(divide="ignore"):
            logs = (np.log(y) - factor) / (p - 1) - moved
        numbers = _times_power(np.where(y > 0, logs, -(2.0**30)), PLACES)  # e^-(2^30) is 0 enough
    weights, more, rounding = None, 0, 26
    if labels.weight is not None:
        rounding += 34 - held
        f_w = min(_finest(labels.weight.max(), 1 << 26), lam_bits - unit + rounding)
        weights, more = _times_power(labels.weight, f_w), f_w - rounding
    scale = scales.scale(params, plan, rows, unit + more, unit + more)
    most, rate = None, params.learning_rate
    if params.largest_step:
        step = Fraction(float(np.float32(rate))) * Fraction(params.largest_step) * Fraction(2) ** PLACES
        most = math.floor(step + Fraction(1, 2))
        if p == 1:  # h is e^(F + step), of which e^F is computed
            rate /= math.exp(float(np.float32(params.largest_step)))
    sealed = reference.RefSealed(False, rounds, rate, start, rounding=rounding, largest=most, power=p, e_places=places)
    return Encoded(numbers, weights, sealed, PLACES, scale)


def _finest(largest: float, cap: int) -> int:
    """Return the largest f with largest 2^f <= cap; 0 if nothing is to be held."""
    if largest == 0:
        return 0
    f = math.floor(math.log2(cap) - math.log2(largest)) + 2
    while Fraction(float(largest)) * Fraction(2) ** f > cap:
        f -= 1
    return f


def _times_power(values: Any, places: int) -> Ints:
    return np.rint(np.ldexp(np.asarray(values, np.float64), places)).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class SealedAnswer:
    """What a sealed training must give.

    `trees` are the joined ones, in whose order `weights` has each tree's leaf weights, in units of 2^-places; `margins`
    (rounds, rows and evaluation rows), or (rounds, classes, ...), are in these units, too.
    """

    trees: list[JoinedTree]
    weights: list[list[int]]
    margins: Ints
    encoded: Encoded

    def evaluated(self, rows: int) -> Ints:
        """Return what the trees add up to in evaluation rows, round by round; there are `rows` training rows."""
        return np.asarray(self.margins - self.encoded.sealed.start)[..., rows:]


class SealedBoosting(PlainBoosting):
    """Everything in one place, in the order of the participants, with evaluation tables for each of them."""

    def train_sealed(
        self,
        labels: Labels,
        evaluation: Sequence[Sequence[Table]] = (),
        key: str = "",
        rounds: int | None = None,
    ) -> SealedAnswer:
        """Return the answer of all rounds or of the first so many; `evaluation` has every set's tables."""
        encoded = encode(self.params, labels, rounds, sum(tables[0].rows for tables in evaluation))
        sealed, rules = encoded.sealed, self._rules(encoded.scale)
        bits = np.concatenate([self.bits, *(self._evaluation_bits(tables) for tables in evaluation)], axis=1)
        count, inside = len(labels.y), None
        if self.params.subsample < 1:
            samples = [row_sample(self._party(1), self.params.subsample, count, key, t) for t in range(sealed.rounds)]
            inside = np.array(samples).astype(np.uint8)
        growing = partial(self.growing, key)
        roots, margins = reference.train_sealed(bits, encoded.y, rules, sealed, encoded.weights, inside, growing)
        unit = Fraction(2) ** (WEIGHT_BITS - encoded.places)

        def weight_of(leaf: reference.RefLeaf) -> int:
            return reference.sealed_weight(leaf, sealed, rules.lam, rules.alpha, rules.places)

        trees = [self.joined(root, lambda leaf: Leaf(round(weight_of(leaf) * unit)), lambda _: None) for root in roots]
        weights = [[weight_of(n) for n in level_by_level(r) if isinstance(n, reference.RefLeaf)] for r in roots]
        return SealedAnswer(trees, weights, np.array(margins), encoded)

    def _evaluation_bits(self, tables: Sequence[Table]) -> npt.NDArray[np.uint8]:
        """Return which rows of one evaluation set go left by every candidate, (candidates, rows)."""
        left = [
            own.rows_left(i, table) for own, table in zip(self.candidates, tables, strict=True) for i in range(len(own))
        ]
        return np.array(left, np.uint8).reshape(len(left), tables[0].rows)


def answer_to(
    model: FedXGBClassifier | FedXGBRegressor,
    tables: dict[str, pd.DataFrame],
    y: Any,
    weight: Any = None,
    evaluation: dict[str, pd.DataFrame] | None = None,
    rounds: int | None = None,
    base_margin: Any = None,
    evaluation_margin: Any = None,
) -> SealedAnswer:
    """Return what a sealed training must give, for the tables, labels and parameters that an estimator was fitted with.

    Of as many rounds as its model has, or as are given.
    """
    part = model.partial_models_[0]
    labels, weights, start = as_numbers(model, y, weight, base_margin)
    read, directions = tables_of(model, tables)
    plain = SealedBoosting(read, part.params, directions=directions)
    key = "" if model.random_state is None else f"random_state {model.random_state}"
    known = Labels(labels, weights, base_score=model.base_score, base_margin=start)
    rows = [] if evaluation is None else [[_like(plain, m, data) for m, data in enumerate(evaluation.values())]]
    if rows and start is not None:  # that of scale_pos_weight is the same for all
        count = rows[0][0].rows
        same = np.repeat(start[:, :1], count, axis=1)
        later = same if evaluation_margin is None else np.asarray(evaluation_margin).reshape(count, -1).T
        known = replace(known, eval_base_margin=[later])
    done = len(part.trees) // part.params.trees_per_round
    return plain.train_sealed(known, rows, key, done if rounds is None else rounds)


def _like(plain: PlainBoosting, m: int, data: pd.DataFrame) -> Table:
    """Return other rows with the columns, and the codes of categories, of a participant's training table."""
    own = plain.tables[m]
    known = {column.name: column.categories for column in own.columns if column.categories is not None}
    return Table.read(data, own.owner).match([column.name for column in own.columns], known)


def joined_weights(parts: Sequence[PartialModel]) -> list[list[int]]:
    """Return every tree's leaf weights as integers in the units of the active participant, in the order of `join`."""
    whole = join([replace(part, leaf_scale_bits=WEIGHT_BITS) for part in parts])  # as if these were its own units
    return [[node.weight or 0 for node in tree if isinstance(node, Leaf)] for tree in whole.trees]
