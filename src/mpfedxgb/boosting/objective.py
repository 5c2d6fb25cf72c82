"""What an objective is: one frozen type that holds all that the rest of the project asks of a loss (section 3.2).

The active participant alone computes gradients and starting margins. The folder objectives/ has the losses themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.errors import DataError, SettingsError, UserError

Floats = npt.NDArray[np.float64]
Gradients = tuple[Floats, Floats]
CustomObjective = Callable[[Floats, Floats], Any]
Derivatives = Callable[..., Gradients]
"""Of labels (rows,) and margins (trees, rows); where a loss `averages`, of row weights (rows,) or None besides.

Where it takes a column `beside` the labels, of that first; where it `draws`, of random words (draws, rows) last.
"""


class Prediction(Enum):
    """What a metric judges, and an objective predicts."""

    NUMBER = "one number per row"
    PROBABILITY = "the probability of the second of two classes"
    PROBABILITIES = "the probability of every class"
    RANK = "a score by which the rows of a group are ranked"
    TIME = "the time of an event that is known to lie between two bounds"
    HAZARD = "how much likelier than others an event is at any time"


@dataclass(frozen=True, slots=True)
class ScalePolicy:
    """How g and h become the integers rint(g 2^f_g) and rint(h 2^f_h), and who knows their scales.

    A scale that is a number is public and serves all rounds; the loss has to promise that the integers keep within the
    caps. A scale of None is private: in each round the active participant takes the finest under which g, or h, keeps
    within its cap. Where `g_cap` is None, as it may be where f_g is, it becomes as large as the ring allows, and has up
    to `g_most` bits.

    A private scale of h is also held back by lambda: lambda~ has `lam_room` bits above h_cap, for lambda up to 1, or as
    many as the number of rows has. Where hessians are bounded a few serve: h far below lambda needs no finer scale,
    since H + lambda is what counts. A ring of 192 bits is taken where it leaves `g_bits` bits to g. In one of 256
    bits h has more bits than h_cap says, up to `h_most`, as long as g keeps some more than h (ADR 0027).

    Where `g_cap` is given and scales are private, both caps may be raised alike, by up to `raised` bits, as far as 256
    bits hold; a ring of 192 bits is taken where it leaves two thirds of them.

    In a constrained training leaf weights are held to four times g_cap / h_cap, and to 2^`weight_bits` as much where
    these caps do not tell how large weights are.
    """

    f_g: int | None = None
    f_h: int | None = None
    g_cap: int | None = None
    h_cap: int = 1 << 24
    lam_room: int | None = None
    g_bits: int = 32
    g_most: int = 62
    raised: int = 0
    h_most: int = 0
    weight_bits: int = 0

    def __post_init__(self) -> None:
        """Hold the policy to its two forms."""
        assert self.f_g is None or self.g_cap is not None, "a public scale of g needs a bound on g"
        assert self.f_g is None or self.f_h is not None, "h is not private where g is public"
        assert not self.raised or (self.g_cap is not None and self.f_h is None), "caps follow from public scales"


H_MOST = 30
"""Bits of h in a ring of 256 bits, if the rows leave room for them; XGBoost's float32 has 24."""

PRIVATE = ScalePolicy(h_most=H_MOST)
"""Both scales private, per round: for losses without bounds, and for all losses once rows have weights."""


@dataclass(frozen=True, slots=True)
class SealedForm:
    """How g and h are computed on secrets, with security="sealed": by the integer sigmoid, or as differences.

    With several classes it is the integer softmax, whose margins, g and h have the units and bounds of log-loss.
    Their scales, of rows without weights and with them; a private one serves all rounds. With a `power` p from 1 to 2
    they are those of Tweedie's deviance, of powers of the mean e^F: g = b - a and h = (2 - p) b + (p - 1) a for
    b = e^((2 - p) F) and a = y e^((1 - p) F). That is Poisson's loss for p = 1 and gamma's for p = 2. What is computed
    may be h over an `h_factor`, which all constants beside h then have, too.
    """

    is_logistic: bool
    scale: ScalePolicy
    weighted_scale: ScalePolicy
    power: float | None = None
    h_factor: float = 1.0

    @property
    def rates(self) -> tuple[float, float]:
        """The rates of the exponentials b and a, 2 - p and p - 1; 0 stands for none."""
        assert self.power is not None
        return 2 - self.power, self.power - 1


@dataclass(frozen=True, slots=True)
class LinkFunction:
    """How XGBoost's base_score becomes a margin, in float32 as there, and back; arrays of one value per tree."""

    to_margin: Callable[[npt.NDArray[Any]], Floats]
    to_score: Callable[[Floats], Floats]


@dataclass(frozen=True, slots=True)
class Origin:
    """How messages call labels or weights, and whether they may quote them: not where messages go to a log."""

    name: str
    shows_values: bool = True

    def holds(self, value: object, otherwise: str) -> str:
        """Return the beginning of a message about a value."""
        shown = f"{value:g}" if isinstance(value, float) else value
        return f"{self.name} holds {shown if self.shows_values else otherwise}"


def float32(values: npt.NDArray[Any]) -> Floats:
    """Return values rounded to float32, as XGBoost keeps what it starts from."""
    with np.errstate(over="ignore"):  # the caller refuses an infinite margin, in words
        return np.asarray(values.astype(np.float32), np.float64)


def as_text(value: float) -> str:
    """Return a parameter of a loss as XGBoost's model files have it; float32 there."""
    return f"{value:.9g}"


def unchanged(margins: Floats) -> Floats:
    """Return the margins as they are."""
    return margins


IDENTITY = LinkFunction(float32, unchanged)


def mean(y: Floats, weight: Floats | None, num_class: int) -> Floats:
    """Return the mean of the labels, as scores of one tree."""
    return np.array([float(np.average(y, weights=weight))])


_SMALLEST_SUM = 1e-6
"""XGBoost divides by no smaller sum of hessians when it looks for a start."""


def newton_step(loss: Derivatives, y: Floats, weight: Floats | None) -> Floats:
    """Return the margin of a single leaf over all rows, as XGBoost fits one from margins of 0."""
    g, h = loss(y, np.zeros(len(y)))
    w = np.ones(len(y)) if weight is None else weight
    return np.array([-(w * g).sum() / max((w * h).sum(), _SMALLEST_SUM)])


def any_number(y: Floats, origin: Origin, starts: bool) -> None:
    """Take all labels as they are."""


@dataclass(frozen=True, slots=True, eq=False)
class Objective:
    """All that is known of a loss.

    Parameters
    ----------
    name : str
        XGBoost's name.
    derivatives : callable (y, margins) -> (g, h)
        Labels (rows,) and margins (trees, rows) to two arrays (trees, rows), without row weights.
    default_metric : str
        A name of `METRICS`.
    scales_positives : bool
        Whether XGBoost's scale_pos_weight multiplies the weights of rows with a label of 1.
    averages : bool
        Whether a row's g and h hang on all rows: `derivatives` then takes row weights, or None, for an average.
    beside : "qid", "upper" or ""
        What the loss takes beside labels: the group of each row, as a number, or the upper bounds of labels.
    draws : int
        How many random words the loss takes for each row, anew in each boosting round.
    block : str
        Under which key XGBoost's model files keep the parameters of the loss; "" if it has none.
    block_parameters : mapping
        Those parameters, which `xgboost` also takes for training, beside num_class.
    classes : int or None
        How many classes the labels have: 1 for numbers, None for as many as num_class says, one tree for each.
    targets : tuple of str
        What is predicted for each row if the labels are numbers, by the names of columns of a file; a tree for each.
    predicts : set of Prediction
        Which metrics fit.
    transform : callable
        Margins (trees, rows) to predictions of the same shape.
    link : LinkFunction
        What base_score means.
    start : callable (y, weight, num_class) -> scores
        The base_score that XGBoost derives from labels when none is given.
    check_labels : callable (y, origin, starts)
        Raises DataError for labels that the loss does not take; `starts` says that the start is derived from them.
    scale : ScalePolicy
        Of rows without weights.
    paper_scale : ScalePolicy or None
        The same with security="paper", which does not cover the objective if None. There h has a public scale, and
        where g has none, h is 1 for all rows: the bound on leaf weights rests on that.
    sealed : SealedForm or None
        How security="sealed" computes it, which does not cover the objective if None.
    exported_as : str or None
        Another objective's name for XGBoost's model files, which do not know this one.
    is_custom : bool
        Whether the loss is a callable, which the active participant keeps to itself.
    """

    name: str
    derivatives: Derivatives
    default_metric: str
    scales_positives: bool = False
    averages: bool = False
    beside: str = ""
    draws: int = 0
    block: str = ""
    block_parameters: Mapping[str, str] = field(default_factory=dict)
    classes: int | None = 1
    targets: tuple[str, ...] = ("prediction",)
    predicts: frozenset[Prediction] = frozenset({Prediction.NUMBER})
    transform: Callable[[Floats], Floats] = unchanged
    link: LinkFunction = IDENTITY
    start: Callable[[Floats, Floats | None, int], Floats] = mean
    check_labels: Callable[[Floats, Origin, bool], None] = any_number
    scale: ScalePolicy = PRIVATE
    paper_scale: ScalePolicy | None = None
    sealed: SealedForm | None = None
    exported_as: str | None = None
    is_custom: bool = False

    @property
    def has_classes(self) -> bool:
        """Whether labels are classes; those of a callable may be either."""
        return self.classes != 1

    def takes_classes(self, count: int) -> bool:
        """Return whether a classifier may use the objective for `count` classes; two are the business of one tree."""
        return count > 2 if self.classes is None else self.has_classes and count == self.classes

    def outputs(self, num_class: int) -> int:
        """Return the number of margins of a row: one, or one per class or target."""
        return num_class if self.classes is None else len(self.targets)

    def unweighted_gradients(self, y: Floats, margins: Floats, weight: Floats | None) -> Gradients:
        """Return g and h, (trees, rows), that row weights have still to multiply."""
        return self.derivatives(y, margins, weight) if self.averages else self.derivatives(y, margins)

    def gradients(self, y: Floats, margins: Floats, weight: Floats | None = None) -> Gradients:
        """Return g and h of labels (rows,) and margins (trees, rows), times row weights: (trees, rows)."""
        g, h = self.unweighted_gradients(y, margins, weight)
        return (g, h) if weight is None else (g * weight, h * weight)

    def base_margin(
        self, y: Floats, weight: Floats | None, base_score: float | None, num_class: int, scaled: bool = False
    ) -> Floats:
        """Return the margin that boosting starts from, one or one per class, as XGBoost derives it from base_score.

        If weights are `scaled` by scale_pos_weight, XGBoost fits a leaf to them in place of its usual start.
        """
        if base_score is None:
            fitted = self.link.to_score(newton_step(self.derivatives, y, weight)) if scaled else None
            return self.link.to_margin(self.start(y, weight, num_class) if fitted is None else fitted)
        return self.link.to_margin(np.full(self.outputs(num_class), base_score))

    def probabilities(self, margins: Floats) -> Floats:
        """Return the probability of every class, (classes, rows), from the margins of a classifier."""
        p = self.transform(margins)
        return np.concatenate([1 - p, p]) if len(p) == 1 else p

    def scale_policy(self, weighted: bool) -> ScalePolicy:
        """Return how g and h are scaled where P_1 has them in the clear; weights of any size leave nothing bounded."""
        return PRIVATE if weighted else self.scale

    def xgboost_parameters(self, num_class: int) -> dict[str, str]:
        """Return the parameters of the loss as `xgboost` takes them, and keeps them in its model files."""
        classes = {"num_class": str(num_class)} if self.classes is None else {}
        return {**self.block_parameters, **classes}

    def with_beside(self, column: npt.NDArray[Any] | None) -> Objective:
        """Return the objective with what it takes beside the labels of some rows."""
        if not self.beside:
            return self
        assert column is not None, "it is read where labels are"
        return replace(self, derivatives=partial(self.derivatives, column))

    def with_draws(self, words: npt.NDArray[np.uint64]) -> Objective:
        """Return the objective with its random choices of a boosting round, (draws, rows)."""
        return replace(self, derivatives=partial(self.derivatives, words=words))

    def with_function(self, function: CustomObjective | None) -> Objective:
        """Return the objective with the callable that computes its gradients, if it is a custom one."""
        if not self.is_custom:
            return self
        assert function is not None
        return replace(self, derivatives=partial(_custom, function))


_OF_DMATRIX = ("get_label", "get_weight", "get_base_margin", "get_group", "num_row")


def _custom(function: CustomObjective, y: Floats, margins: Floats) -> Gradients:
    try:
        g, h = (np.asarray(part, np.float64).reshape(margins.shape) for part in function(y, margins[0]))
    except AttributeError as error:
        if error.name not in _OF_DMATRIX:
            raise
        text = (
            f"objective: the function asks for {error.name}, as one of (preds, dtrain) that xgboost.train takes; an "
            "estimator's takes (y, margin), or give yours to mpfedxgb.train(..., obj=function)"
        )
        raise SettingsError(text, "type", "objective") from None
    except (TypeError, ValueError) as error:
        # A foreign text may quote labels, so it stays with this role.
        raise DataError(
            f"a custom objective returns (g, h), one number each per row: {error}", "type", "objective"
        ) from error
    if not (np.isfinite(g).all() and np.isfinite(h).all()):
        raise UserError("the custom objective returned numbers that are not finite", "range", "objective", "gradients")
    if (h < 0).any():
        text = "the custom objective returned a negative hessian; the loss has to be convex"
        raise UserError(text, "range", "objective", "hessians")
    return g, h
