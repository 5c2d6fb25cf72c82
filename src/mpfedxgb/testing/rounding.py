"""What rounding makes of one training in two ways: integers in the federation, float32 in `xgboost`.

Each model is held to its own numbers: g and h at the margins that it has reached itself. The federation rounds them
once, by the largest of the round, to integers that can be computed again, and is exact from there on. XGBoost keeps
margins, labels, g and h in float32, and what it takes from 1 it knows to float32's epsilon: first-order bounds, row by
row. So what sets the two apart is computed, not allowed for. Sealed trainings have integers of their own, at one scale
for all rounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.objective import Floats, Objective, Prediction, unchanged
from mpfedxgb.boosting.objectives.classes import sigmoid
from mpfedxgb.boosting.params import TrainParams, gradients_that_count
from mpfedxgb.modes.sealed.encoding import encode_labels, plain_gradients, sealed_rules
from mpfedxgb.ring.ring import encode_fixed
from mpfedxgb.tree.leaf import WEIGHT_BITS

FLOAT32 = 2.0**-23
"""Float32's epsilon."""

_STEP = 2.0**-21
"""The coarsest step of g and h that docs/parameters.md promises, as a share of the round's largest or of lambda."""

_DOUBLE = 2.0**-50
"""More than the relative error of some double additions."""

_OF_OTHER_ROWS = (Prediction.RANK, Prediction.HAZARD)
"""Where g and h of a row hang on how far other rows' margins are from its own."""

_ADDED = 8
"""How many epsilons a float32 sum over the pairs of a row may be off."""

_SMALLEST_FLOAT32 = float(np.finfo(np.float32).tiny)
_LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
_SMALLEST = 1e-30
_HUGE = 1e100


@dataclass(frozen=True, slots=True)
class Held:
    """What weights of a node are held to, and how far these bounds may be off."""

    lo: float = -math.inf
    hi: float = math.inf
    off_lo: float = 0.0
    off_hi: float = 0.0

    def parted(self, direction: int, left: tuple[float, float], right: tuple[float, float]) -> tuple[Held, Held]:
        """Return the bounds of both sides of a split on a column with a direction, given their weights and errors."""
        if not direction:
            return self, self
        middle, off = (left[0] + right[0]) / 2, (left[1] + right[1]) / 2
        upper, lower = replace(self, hi=middle, off_hi=off), replace(self, lo=middle, off_lo=off)
        return (upper, lower) if direction > 0 else (lower, upper)


FREE = Held()


class Scored(NamedTuple):
    """A score, the least and the most that it may be, and the sum of the sizes of its terms."""

    value: float
    least: float
    most: float
    size: float


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """G and H of some rows, and how far they may be off."""

    G: float
    H: float
    off_g: float
    off_h: float

    def score(self, reg_lambda: float, reg_alpha: float = 0.0, held: Held = FREE) -> Scored:
        """Return -(2 G w + (H + lambda) w^2 + 2 alpha |w|) for the best weight within bounds; T^2 / (H + lambda)."""
        D, lo, hi = self.H + reg_lambda, held.lo, held.hi
        value, size = _score(self.G, D, reg_alpha, lo, hi)
        ends = self.G - self.off_g, self.G + self.off_g
        wide = held.lo - held.off_lo, held.hi + held.off_hi
        most = max(_score(G, D - self.off_h, reg_alpha, *wide)[0] for G in ends)  # convex in G
        narrow = min(lo + held.off_lo, hi), max(hi - held.off_hi, lo)
        lowest = ends[1] if lo > 0 else ends[0] if hi < 0 else min(max(0.0, ends[0]), ends[1])
        return Scored(value, min(value, _score(lowest, D + self.off_h, reg_alpha, *narrow)[0]), most, size)

    def weight(self, reg_lambda: float, reg_alpha: float, held: Held) -> tuple[float, float]:
        """Return the weight of a node of these rows, without the learning rate, and how far it may be off."""
        if self.H + reg_lambda == 0:
            return 0.0, 0.0
        weight = -_threshold(self.G, reg_alpha) / max(self.H + reg_lambda, _SMALLEST)
        error = (self.off_g + abs(weight) * self.off_h) / max(self.H + reg_lambda - self.off_h, _SMALLEST)
        if weight < held.lo + error or weight > held.hi - error:
            error = max(error, held.off_lo if weight < held.lo + error else held.off_hi)
        return max(held.lo, min(held.hi, weight)), min(error, _HUGE)

    def leaf(self, params: TrainParams, held: Held = FREE) -> tuple[float, float]:
        """Return the weight of a leaf of these rows, and how far it may be off."""
        weight, error = self.weight(params.reg_lambda, params.reg_alpha, held)
        return params.tree_rate * weight, min(params.tree_rate * error, _HUGE)


def _threshold(G: float, alpha: float) -> float:
    return math.copysign(max(abs(G) - alpha, 0.0), G)


def _score(G: float, D: float, alpha: float, lo: float, hi: float) -> tuple[float, float]:
    """Return a score and the sum of the sizes of its terms."""
    D = max(D, _SMALLEST)
    T = _threshold(G, alpha)
    if lo <= -T / D <= hi:
        return T * T / D, T * T / D
    w = max(lo, min(hi, -T / D))
    terms = -2 * G * w, -D * w * w, -2 * alpha * abs(w)
    return sum(terms), sum(map(abs, terms))


@dataclass(frozen=True, slots=True, eq=False)
class RoundedGradients:
    """g and h of all trees of a round as one model has them, weights included, and bounds on their errors.

    Arrays are (trees, rows). Scores have this reg_lambda and gamma. XGBoost takes the sums of one side from those of
    both, in double precision, so that a hessian may be lost beside the others of its tree; `lost_h` bounds that. The
    federation's leaf weights come in steps of `leaf_step`, bounds of weights in steps of `bound_step`, and with
    constraints no weight is beyond the `largest`.
    """

    g: Floats
    h: Floats
    error_g: Floats
    error_h: Floats
    reg_lambda: float
    gamma: float
    lost_h: Floats
    fit_float32: bool = True
    leaf_step: float = 2.0**-WEIGHT_BITS
    bound_step: float = 0.0
    largest: float = math.inf

    def sums(self, tree: int, rows: npt.NDArray[np.bool_]) -> Sums:
        """Return the sums of one tree's g and h over rows."""
        G, H, off_g, off_h = (float(part[tree, rows].sum()) for part in (self.g, self.h, self.error_g, self.error_h))
        return Sums(G, H, off_g, off_h + float(self.lost_h[tree]))


def integer_gradients(
    params: TrainParams, loss: Objective, y: Floats, weight: Floats | None, margins: Floats
) -> RoundedGradients:
    """Return g and h as the federation has them at margins (trees, rows): the integers of the round, exactly."""
    g, h = loss.gradients(y, margins, weight)
    g = gradients_that_count(g, h)
    reg_lambda, gamma, step = params.reg_lambda, max(params.gamma, scales.SMALLEST_GAMMA), 0.0
    most = math.inf
    off_g, off_h = _DOUBLE * np.abs(g), np.zeros_like(h)
    if not params.facts.is_exact:  # one scale for all rounds, and leaf weights that are only near the exact ones
        off_g, off_h = FLOAT32 * np.abs(g), FLOAT32 * h
    else:
        rows = len(y)
        plan = scales.plan(params, rows)
        scale = scales.choose_scale(params, plan, g, h, rows)
        exact_g, exact_h = g, h
        g = np.ldexp(encode_fixed(g, scale.f_g).astype(np.float64), -scale.f_g)
        h = np.ldexp(scales.round_hessians(params, h, scale.f_h).astype(np.float64), -scale.f_h)
        assert np.abs(g - exact_g).max() <= _STEP / 2 * np.abs(exact_g).max(), "g is coarser than promised"
        largest = max(exact_h.max(), params.reg_lambda)
        assert np.abs(h - exact_h).max() <= _STEP * largest, "h is coarser than promised"
        reg_lambda, gamma = _lambda_and_gamma(scale)
        step, most = _bounds(scale, plan)
    lost = np.zeros(len(h))
    return RoundedGradients(g, h, off_g, off_h, reg_lambda, gamma, lost_h=lost, bound_step=step, largest=most)


def _bounds(scale: scales.Scale, plan: scales.ScalePlan) -> tuple[float, float]:
    """Return the step of bounds of weights, and the largest, as the numbers that they stand for."""
    unit = scale.f_h - scale.f_g - plan.places
    return math.ldexp(1.0, unit + plan.coarse), math.ldexp(plan.weight_cap, unit) if plan.weight_cap else math.inf


def _lambda_and_gamma(scale: scales.Scale) -> tuple[float, float]:
    """Return lambda~ and gamma~ of a round's integers as the numbers that they stand for."""
    return float(np.ldexp(float(scale.lam), -scale.f_h)), float(np.ldexp(float(scale.gam), scale.f_h - 2 * scale.f_g))


def integer_gradients_of_sealed(
    params: TrainParams, y: Floats, weight: Floats | None, start: Floats, sums: npt.NDArray[np.int64], trees: int
) -> RoundedGradients:
    """Return g and h of a round as a sealed federation has them, where `trees` trees add up to sums (classes, rows).

    Margins were `start`, as many, before the first of them.
    Sums are those of a joined model, in units of 2^-32. Where a training's are finer, each tree has been rounded once.
    """
    rows = len(y)
    plan = scales.plan(params, rows)
    rules = sealed_rules(params, plan, rows)
    labels = encode_labels(params, plan, rules, y, weight, start if rules.classes else start[0], rows)
    added = np.rint(np.ldexp(sums.astype(np.float64), labels.places - WEIGHT_BITS)).astype(np.int64)
    scale = labels.scale
    gradients = plain_gradients(rules, labels.start + (added if rules.classes else added[0]), labels.y, labels.weights)
    g, h = gradients.reshape(-1, 2, rows).transpose(1, 0, 2)
    w = np.ones(rows) if weight is None else weight
    off_g = w * np.full_like(
        sums, trees * 2.0 ** -(WEIGHT_BITS + 1) if labels.places > WEIGHT_BITS else 0.0, np.float64
    )
    factor = params.h_factor
    reg_lambda, gamma = _lambda_and_gamma(scale)
    step, most = _bounds(scale, plan)
    return RoundedGradients(
        np.ldexp(g.astype(np.float64), -scale.f_g),
        np.ldexp(factor * h, -scale.f_h),
        off_g,
        np.zeros(g.shape),
        factor * reg_lambda,
        gamma / factor,
        lost_h=np.zeros(len(g)),
        leaf_step=2.0 ** -min(WEIGHT_BITS, labels.places),
        bound_step=step / factor,
        largest=most / factor,
    )


def float32_gradients(
    params: TrainParams, loss: Objective, y: Floats, weight: Floats | None, margins: Floats, error: Floats
) -> RoundedGradients:
    """Return g and h as XGBoost has them at margins (trees, rows) that may be off by `error`, and how near that is."""
    g, h = loss.unweighted_gradients(y, margins, weight)
    w = np.ones(len(y)) if weight is None else weight
    # A custom loss is computed in double precision there too; the labels of others are float32, classes exactly so.
    compares = not loss.predicts.isdisjoint(_OF_OTHER_ROWS)
    rounds_labels = loss.beside or compares  # both sides take them in float32
    label = np.zeros(len(y)) if loss.is_custom or loss.has_classes or rounds_labels else FLOAT32 * np.abs(y)
    is_of_residuals = loss.transform is unchanged
    squares = 0.0  # XGBoost's Huber loss squares residuals on the way to g and h
    if is_of_residuals and not loss.is_custom:
        squares = float(np.square(margins - y).max())
    if not loss.is_custom:  # differences of margins, from each other or from labels, are float32
        error = error + FLOAT32 * np.abs(margins) + label * is_of_residuals
    if compares:
        error = _apart(margins) * error.max()
    moved_g, moved_h = (w * moved for moved in _moved(loss, y, weight, margins, error, (g, h)))
    if Prediction.RANK in loss.predicts:  # sums of many pulls both ways, none above this beside its curvature
        moved_g += w * _ADDED * FLOAT32 * h * (1 + np.exp(min(np.ptp(margins), _ADDED))) / 2
    if loss.averages:  # a difference of tanh from a number is known to float32's epsilon of the largest
        moved_g = moved_g + w * FLOAT32 * np.abs(g).max()
    g, h = gradients_that_count(g * w, h * w), h * w
    # 1 - p is known to the epsilon of 1 for rows whose class it is; p (1 - p) to that of p for all. Of several classes
    # p takes a sum and a division besides, twice as much, and h is 2 p (1 - p).
    steps = min(2, len(margins))
    from_one = w * (g < 0) if loss.has_classes else np.zeros_like(g)
    probability = np.abs(g) + from_one if loss.has_classes else np.zeros_like(g)
    if loss.transform is sigmoid and not loss.has_classes and not loss.is_custom:
        probability = w * loss.transform(margins)
    float_g, float_h = 2 * np.abs(g) + steps * from_one, 2 * h + steps**2 * probability
    error_g = moved_g + w * label * (not is_of_residuals) + FLOAT32 * float_g + _SMALLEST_FLOAT32
    error_h = moved_h + FLOAT32 * float_h + _SMALLEST_FLOAT32 * (h > 0)
    error_g, error_h = (np.nan_to_num(e, nan=_HUGE, posinf=_HUGE) for e in (error_g, error_h))
    return RoundedGradients(
        g,
        h,
        error_g,
        error_h,
        params.reg_lambda,
        max(params.gamma, scales.SMALLEST_GAMMA),
        lost_h=_DOUBLE * h.sum(axis=1),
        fit_float32=bool(max(np.abs(g).max(), h.max(), squares) < _LARGEST_FLOAT32),
    )


def _apart(margins: Floats) -> Floats:
    """Return 1 or -1 for each row, the same where margins are equal, the opposite where they are next to each other."""
    places = np.unique(margins, return_inverse=True)[1].reshape(margins.shape)
    return np.where(places % 2, 1.0, -1.0)


def _moved(
    loss: Objective, y: Floats, weight: Floats | None, margins: Floats, error: Floats, unmoved: tuple[Floats, Floats]
) -> tuple[Floats, Floats]:
    """Return how far g and h move with the margins."""
    g, h = unmoved
    if loss.has_classes and len(margins) > 1:  # one may move up and the others down
        most = error.max(axis=0)
        return h * most, 2 * h * most
    ways = [loss.unweighted_gradients(y, margins + sign * error, weight) for sign in (-1, 1)]
    return np.max([np.abs(way[0] - g) for way in ways], axis=0), np.max([np.abs(way[1] - h) for way in ways], axis=0)
