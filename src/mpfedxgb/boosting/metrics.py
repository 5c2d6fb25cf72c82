"""Evaluation metrics by their XGBoost names, or custom functions, computed by the active participant alone.

Which rounds of a model predict: XGBoost's iteration_range, chosen by the party that brings the leaf weights.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.model import PartialModel
from mpfedxgb.boosting.objective import Floats, Prediction, float32
from mpfedxgb.boosting.objectives import OBJECTIVES
from mpfedxgb.boosting.objectives.ranking import UNSAID_TOP, check_grades, mean_average_precision, ndcg, precision
from mpfedxgb.boosting.objectives.survival import aft_nloglik, cox_nloglik, interval_accuracy
from mpfedxgb.errors import DataError, SettingsError, UserError
from mpfedxgb.schema.training import BY_NAME, OF_OBJECTIVES, Kind, integer, number
from mpfedxgb.tree.nodes import Leaf, Tree

DEFAULTS = {name: BY_NAME[name].default for name in OF_OBJECTIVES}
"""Of the parameters that some metrics take."""

OwnMetric = Callable[..., Any]
"""Of labels and predictions, as scikit-learn's: metric(y_true, y_pred), with sample_weight= where rows have weights."""

NO_METRIC = (
    "nobody knows a metric of this training: there are no evaluation rows, and with security='sealed' nobody sees how "
    "a training row is predicted; score rows to judge the model"
)
"""What a sealed training without evaluation rows has to say."""


def _any_labels(y: Floats) -> None:
    """Take all labels as they are."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A function of labels (rows,), predictions (trees, rows) and weights (rows,), and what it judges.

    `judges` is None for a custom function, which goes with everything. What the function takes besides are
    parameters of the training by their names, a number within bounds that is written after @, as in error@0.7, and
    first, as a loss does, a column `beside` the labels; ranks do without groups too. Their metrics are `of_ranks`: a
    number after @ says how many of the first rows count, and a minus at the end that a group without relevant rows
    counts 0 instead of 1.
    """

    function: Callable[..., float]
    judges: frozenset[Prediction] | None
    grows: bool = False
    parameters: tuple[str, ...] = ()
    at: Kind | None = None
    needs_at: bool = False
    beside: str = ""
    of_ranks: bool = False
    check_labels: Callable[[Floats], None] = _any_labels

    def __call__(
        self, y: Floats, p: Floats, weight: Floats | None = None, beside: npt.NDArray[Any] | None = None
    ) -> float:
        """Return the value of the metric; without weights all rows count alike."""
        if weight is None and self.judges is not None:
            weight = np.ones(len(y))
        return self.function(beside, y, p, weight) if self.beside else self.function(y, p, weight)

    def is_better(self, new: float, old: float) -> bool:
        """Return whether a value improves on another."""
        return new > old if self.grows else new < old


def _mean(values: Floats, weight: Floats) -> float:
    return float(np.average(values, weights=weight)) if weight.sum() > 0 else float("nan")


def logloss(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of 0/1 labels."""
    q = np.clip(p[0], 1e-16, 1 - 1e-16)
    return _mean(-(y * np.log(q) + (1 - y) * np.log1p(-q)), weight)


def error(y: Floats, p: Floats, weight: Floats, threshold: float = 0.5) -> float:
    """Return the share of rows on the wrong side of a threshold."""
    return _mean(np.where(p[0] > threshold, 1 - y, y), weight)


def auc(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the area under the ROC curve; 0.5 for ties, NaN if a class is not there.

    Of more than two classes each is held against the rest, and counts by its weight.
    """
    areas, shares = _areas(_roc_area, y, p, weight)
    return float(areas[0] if len(areas) == 1 else np.average(areas, weights=shares))


def aucpr(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the area under the curve of precision over recall; NaN if a class is not there.

    Of more than two classes each is held against the rest, and all count alike, as in XGBoost.
    """
    areas, _ = _areas(_precision_area, y, p, weight)
    return float(np.mean(areas))


def _areas(
    area: Callable[[Floats, Floats], float], y: Floats, p: Floats, weight: Floats
) -> tuple[list[float], list[float]]:
    """Return the area of the second of two classes, or those of more classes, and the weights of the classes."""
    curves = [_curve(y == k, scores, weight) for k, scores in enumerate(p)] if len(p) > 1 else [_curve(y, p[0], weight)]
    shares = [float(tp[-1]) for tp, _ in curves]
    if not all(tp[-1] > 0 and fp[-1] > 0 for tp, fp in curves):
        return [math.nan] * len(curves), [1.0] * len(curves)
    return [area(tp, fp) for tp, fp in curves], shares


def _roc_area(tp: Floats, fp: Floats) -> float:
    areas = np.diff(fp) * (tp[:-1] + tp[1:]) * 0.5
    return min(float(np.cumsum(areas)[-1] / (fp[-1] * tp[-1])), 1.0)  # rounding may have made more of it


def _precision_area(tp: Floats, fp: Floats) -> float:
    """Return the area under the curve of precision over recall.

    Between two thresholds false positives grow in step with true ones, as in XGBoost (Davis and Goadrich, 2006). With
    FP = s TP + c there, the precision at recall r is r / (a r + b), a = 1 + s, b = c / P, which is integrated in closed
    form; P is the weight of all positives.
    """
    grows = np.diff(tp) > 0  # elsewhere recall stands still
    slope = np.diff(fp)[grows] / np.diff(tp)[grows]
    a, b = 1 + slope, (fp[:-1][grows] - slope * tp[:-1][grows]) / tp[-1]
    before, after = (tp[:-1] / tp[-1])[grows], (tp[1:] / tp[-1])[grows]
    bent = b != 0  # else a line through the origin
    bend = np.zeros_like(a)
    bend[bent] = (b / a)[bent] * (_logs((a * after + b)[bent]) - _logs((a * before + b)[bent]))
    return float(np.cumsum((after - before - bend) / a)[-1])


def _logs(values: Floats) -> Floats:
    """Return logarithms as the C library's, from which NumPy's differ in the last bit; NaN if rounding left no more."""
    return np.array([math.log(x) if x > 0 else math.nan for x in values.tolist()])


def _curve(y: npt.NDArray[Any], scores: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Return the weights of true and false positives from the highest threshold to the lowest, after a 0 each.

    XGBoost has scores and weights in float32 and adds in double precision, row after row. So does this: early stopping
    compares the areas of two rounds to the last bit, and other bits would be other rounds.
    """
    rounded = float32(weight)
    if np.isinf(rounded).any() or (rounded == 0).sum() > (weight == 0).sum():  # XGBoost cannot weigh these rows
        rounded = weight / weight.max()
    scores = float32(scores)
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.r_[scores[order][1:] != scores[order][:-1], True])
    tp, fp = (np.cumsum((rounded * part)[order])[ends] for part in (y, 1.0 - y))
    return np.r_[0.0, tp], np.r_[0.0, fp]


def rmse(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the root of the mean squared error."""
    return float(np.sqrt(_mean((y - p[0]) ** 2, weight)))


def mae(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean absolute error."""
    return _mean(np.abs(y - p[0]), weight)


def mphe(y: Floats, p: Floats, weight: Floats, huber_slope: float) -> float:
    """Return the mean pseudo-Huber error: about z^2 / 2 for small residuals z, slope |z| - slope^2 for large ones."""
    return _mean(huber_slope**2 * (np.hypot(1, (y - p[0]) / huber_slope) - 1), weight)


def rmsle(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the root of the mean squared difference of log(1 + label) and log(1 + prediction)."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of predictions of -1 or less
        return float(np.sqrt(_mean((np.log1p(y) - np.log1p(p[0])) ** 2, weight)))


def mape(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean error as a share of the label; infinite where a label is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return _mean(np.abs((y - p[0]) / y), weight)


def quantile(y: Floats, p: Floats, weight: Floats, quantile_alpha: float | Sequence[float]) -> float:
    """Return the mean pinball loss: alpha of what lies below the label, 1 - alpha of what lies above it."""
    below, alpha = y - p, np.reshape(quantile_alpha, (-1, 1))
    return _mean(np.maximum(alpha * below, (alpha - 1) * below).mean(axis=0), weight)


def mlogloss(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of classes."""
    return _mean(-np.log(np.maximum(p[y.astype(np.int64), np.arange(len(y))], 1e-16)), weight)


def merror(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the share of rows whose likeliest class is wrong."""
    return _mean(p.argmax(axis=0) != y, weight)


def poisson_nloglik(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of counts."""
    mean = np.maximum(p[0], 1e-16)
    of_labels = np.array([math.lgamma(count + 1) for count in y])
    return _mean(of_labels + mean - y * np.log(mean), weight)


def gamma_nloglik(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean negative log-likelihood of amounts, as of a gamma distribution of shape 1."""
    mean = np.maximum(p[0], _SMALLEST_AMOUNT)
    return _mean(y / mean + np.log(mean), weight)


def gamma_deviance(y: Floats, p: Floats, weight: Floats) -> float:
    """Return the mean deviance of a gamma distribution."""
    with np.errstate(invalid="ignore"):  # of predictions below 0
        label, mean = y + _SMALLEST_AMOUNT, p[0] + _SMALLEST_AMOUNT
        return 2 * _mean(np.log(mean / label) + label / mean - 1, weight)


def tweedie_nloglik(y: Floats, p: Floats, weight: Floats, power: float) -> float:
    """Return what of the mean negative log-likelihood of Tweedie's distribution hangs on predictions."""
    with np.errstate(divide="ignore", invalid="ignore"):  # of predictions of 0 or less
        if power == 1:
            return _mean(p[0] - y * np.log(p[0]), weight)
        return _mean(p[0] ** (2 - power) / (2 - power) - y * p[0] ** (1 - power) / (1 - power), weight)


_SMALLEST_AMOUNT = 1e-6
"""XGBoost adds this to amounts whose gamma deviance it computes, and takes no smaller mean for their likelihood."""

_NUMBER = frozenset({Prediction.NUMBER})
_PROBABILITY = frozenset({Prediction.PROBABILITY})
_PROBABILITIES = frozenset({Prediction.PROBABILITIES})
_RANK = frozenset({Prediction.RANK, Prediction.NUMBER, Prediction.PROBABILITY})
_TIME = frozenset({Prediction.TIME})
_HAZARD = frozenset({Prediction.HAZARD})
_of_ranks = partial(Metric, judges=_RANK, grows=True, at=integer(1, 4_294_967_294), beside="qid", of_ranks=True)

METRICS: dict[str, Metric] = {
    "logloss": Metric(logloss, _PROBABILITY),
    "error": Metric(error, _PROBABILITY, at=number()),
    "auc": Metric(auc, _PROBABILITY | _PROBABILITIES, grows=True),
    "aucpr": Metric(aucpr, _PROBABILITY | _PROBABILITIES, grows=True),
    "rmse": Metric(rmse, _NUMBER),
    "mae": Metric(mae, _NUMBER),
    "mphe": Metric(mphe, _NUMBER, parameters=("huber_slope",)),
    "rmsle": Metric(rmsle, _NUMBER),
    "mape": Metric(mape, _NUMBER),
    "quantile": Metric(quantile, _NUMBER, parameters=("quantile_alpha",)),
    "mlogloss": Metric(mlogloss, _PROBABILITIES),
    "merror": Metric(merror, _PROBABILITIES),
    "poisson-nloglik": Metric(poisson_nloglik, _NUMBER),
    "gamma-nloglik": Metric(gamma_nloglik, _NUMBER),
    "gamma-deviance": Metric(gamma_deviance, _NUMBER),
    "tweedie-nloglik": Metric(tweedie_nloglik, _NUMBER, at=BY_NAME["tweedie_variance_power"].kind, needs_at=True),
    "ndcg": _of_ranks(ndcg, parameters=("ndcg_exp_gain",)),
    "map": _of_ranks(mean_average_precision),
    "pre": _of_ranks(precision),
    "aft-nloglik": Metric(
        aft_nloglik, _TIME, parameters=("aft_loss_distribution", "aft_loss_distribution_scale"), beside="upper"
    ),
    "interval-regression-accuracy": Metric(interval_accuracy, _TIME, grows=True, beside="upper"),
    "cox-nloglik": Metric(cox_nloglik, _HAZARD),
}


def metric_of(name: str, values: Mapping[str, Any]) -> Metric:
    """Return a metric by its name, with what it takes of the training's parameters or after the @ of its name.

    Raises SettingsError for names of no metric.
    """
    known = name.removesuffix("-")
    base, has_at, at = known.partition("@")
    text = f"eval_metric={name!r}"
    if base not in METRICS or (known != name and not METRICS[base].of_ranks):
        raise SettingsError(f"{text} is not known; it is one of {', '.join(METRICS)}", "choice", "eval_metric", name)
    metric = METRICS[base]
    if metric.parameters:
        more = {parameter: values[parameter] for parameter in metric.parameters}
        metric = replace(metric, function=partial(metric.function, **more))
    number_at = _number_at(name, metric, base, at) if has_at or metric.needs_at else None
    if metric.of_ranks:
        top = UNSAID_TOP if number_at is None else int(number_at)
        check = partial(check_grades, base, ndcg_exp_gain=values["ndcg_exp_gain"])
        ranks = partial(metric.function, top=top, or_zero=known != name)
        return replace(metric, function=ranks, check_labels=check)
    if number_at is None:
        return metric
    function = metric.function
    return replace(metric, function=lambda y, p, weight: function(y, p, weight, number_at))


def _number_at(name: str, metric: Metric, base: str, at: str) -> float:
    """Return the number after the @ of a metric's name."""
    text = f"eval_metric={name!r}"
    if metric.at is None:
        raise SettingsError(f"{text} takes no number after @; write {base}", "value", "eval_metric", name)
    try:
        number_at = int(at) if metric.of_ranks else float(at)
    except ValueError:
        number_at = math.nan
    if metric.at.fault(number_at):
        bounds = "" if metric.at.bounds == metric.at.words else f" that is {metric.at.bounds}"
        example = 10 if metric.of_ranks else 1.5 if metric.needs_at else 0.7
        text = f"{text} needs a number{bounds} after @, as in {base}@{example}"
        raise SettingsError(text, "range", "eval_metric", name)
    return number_at


def named_metrics(given: Sequence[str | OwnMetric], values: Mapping[str, Any]) -> dict[str, Metric]:
    """Return metrics by name, in their order; a custom function is named after itself, and less of it is better.

    `values` are those of the training's parameters, which some metrics take. Raises SettingsError if two have one
    name: their values could not be distinguished.
    """
    named: dict[str, Metric] = {}
    for one in given:
        name = one if isinstance(one, str) else getattr(one, "__name__", type(one).__name__)
        if name in named:
            text = f"eval_metric has two metrics called {name}; leave one out, or rename the function"
            raise SettingsError(text, "duplicate", "eval_metric", name)
        named[name] = metric_of(one, values) if isinstance(one, str) else Metric(partial(_own, name, one), None)
    return named


def _own(name: str, function: OwnMetric, y: Floats, p: Floats, weight: Floats | None) -> float:
    """Return what a custom function makes of labels and predictions, (rows,) or (rows, classes)."""
    predictions = p[0] if len(p) == 1 else np.ascontiguousarray(p.T)
    weights = {} if weight is None else {"sample_weight": weight}
    try:
        return float(function(y, predictions, **weights))
    except (TypeError, ValueError) as error:
        # A foreign text may quote labels, so it stays with this role.
        text = "takes (y_true, y_pred), sample_weight too where evaluation rows have weights, and returns a number"
        raise DataError(f"the metric {name} {text}: {error}", "type", name) from error


def check_metrics(given: Sequence[str | OwnMetric], objective: str) -> None:
    """Refuse unknown metrics and those that do not go with the objective."""
    for name in given:
        if callable(name):
            continue
        judges = metric_of(name, DEFAULTS).judges
        if judges is not None and not judges & OBJECTIVES[objective].predicts:
            raise UserError(
                f"eval_metric={name!r} does not go with objective={objective!r}", "mismatch", "eval_metric", name
            )
    named_metrics(given, DEFAULTS)


Range = tuple[int, int]


def rounds_of(model: PartialModel) -> int:
    """Return how many rounds a model has."""
    return len(model.trees) // model.params.trees_per_round


def first_judged(model: PartialModel, values: int) -> int:
    """Return the boosting round of the first of `values` metric entries.

    Rounds of a model that was continued have none. A sealed model keeps the rounds up to the best only, and goes on
    from no other.
    """
    return 0 if model.params.facts.sums_only else rounds_of(model) - values


def read_range(iteration_range: Any, active: PartialModel) -> Range:
    """Return the first round in use and the one after the last, from iteration_range and the active participant's part.

    None is all rounds, after early stopping those up to the best. As in XGBoost (begin, 0) ends there too.
    """
    rounds = rounds_of(active)
    used = rounds if active.best_iteration is None else active.best_iteration + 1
    if iteration_range is None:
        return 0, used
    text = f"iteration_range={iteration_range!r}"
    if not isinstance(iteration_range, (tuple, list)) or len(iteration_range) != 2:
        text = f"{text} is not understood; give (begin, end), as in (0, 10) for the first ten rounds"
        raise SettingsError(text, "type", "iteration_range", iteration_range)
    if any(isinstance(n, bool) or not isinstance(n, numbers.Integral) for n in iteration_range):
        raise SettingsError(
            f"{text} does not hold two integers; give (begin, end)", "value", "iteration_range", iteration_range
        )
    begin, end = int(iteration_range[0]), int(iteration_range[1]) or used
    if active.params.facts.sums_only and (begin, end) != (0, rounds):
        text = (
            f"{text} does not go with security='sealed', which tells sums over all {rounds} trees only: the difference "
            "of two sums would give single trees away; leave it out"
        )
        raise SettingsError(text, "mode", "iteration_range", iteration_range)
    if not 0 <= begin < end <= rounds:
        text = f"{text} is not within the model's {rounds} rounds; 0 <= begin < end <= {rounds}"
        raise SettingsError(text, "range", "iteration_range", iteration_range)
    if active.params.drops_trees and (begin, end) not in ((0, used), (0, rounds)):
        text = (
            f"{text} is a part of a model with rate_drop, whose trees are scaled for all {rounds} boosting rounds "
            "together: a part of them is no model; leave it out, or train with fewer rounds"
        )
        raise SettingsError(text, "mode", "iteration_range", iteration_range)
    return begin, end


def limited_to(model: PartialModel, chosen: Range) -> PartialModel:
    """Return a part of a model that predicts with some rounds only.

    Later trees are not in use. Earlier ones stay, with leaves of weight 0: the active participant brings the weights,
    so it decides alone, and nobody else learns how many. In the paper's way everyone holds shares of them, so everyone
    has to.
    """
    begin, end = chosen
    idle = begin * model.params.trees_per_round
    trees = (*(_without_weight(tree) for tree in model.trees[:idle]), *model.trees[idle:])
    return replace(model, trees=trees, best_iteration=end - 1 if model.is_active else None)


def _without_weight(tree: Tree) -> Tree:
    return tuple(_idle(node) if isinstance(node, Leaf) else node for node in tree)


def _idle(leaf: Leaf) -> Leaf:
    return replace(leaf, weight=None if leaf.weight is None else 0, share=None if leaf.share is None else 0)
