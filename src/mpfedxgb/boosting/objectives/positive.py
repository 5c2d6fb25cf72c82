"""Losses of positive means, whose margins are logarithms: Poisson, gamma, Tweedie."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mpfedxgb.boosting.objective import (
    Floats,
    Gradients,
    LinkFunction,
    Objective,
    Origin,
    ScalePolicy,
    SealedForm,
    as_text,
    float32,
)
from mpfedxgb.errors import DataError


def exp(margins: Floats) -> Floats:
    """Return exp(margin); infinite beyond float64."""
    with np.errstate(over="ignore"):  # the caller refuses infinite gradients, in words
        return np.exp(margins)


def _log(scores: npt.NDArray[Any]) -> Floats:
    means = float32(scores)
    if means[0] <= 0:
        raise DataError(f"base_score={scores[0]} is not a positive mean", "range", "base_score", scores[0])
    return np.log(means)


LOG_LINK = LinkFunction(_log, exp)
"""base_score is a positive mean, whose logarithm margins are."""


def _poisson(step: float, y: Floats, margins: Floats) -> Gradients:
    mean = exp(margins)
    return mean - y, mean if step == 0 else exp(margins + step)


def _gamma(y: Floats, margins: Floats) -> Gradients:
    ratio = y * exp(-margins)
    return 1 - ratio, ratio


def _tweedie(power: float, y: Floats, margins: Floats) -> Gradients:
    """Return what the deviance of a compound of Poisson and gamma has, but for a factor of 2."""
    a, b = y * exp((1 - power) * margins), exp((2 - power) * margins)
    return b - a, (2 - power) * b - (1 - power) * a


def _not_negative(name: str, what: str, y: Floats, origin: Origin, starts: bool) -> None:
    if (y < 0).any():
        raise DataError(
            f"{origin.holds(float(y.min()), 'numbers below 0')}; {name} takes {what}, 0 or more", "range", origin.name
        )
    if starts and not y.any():
        raise DataError(
            f"{origin.name} is zero everywhere; {name} needs a positive mean or a base_score", "range", origin.name
        )


def _above_0(y: Floats, origin: Origin, starts: bool) -> None:
    if (y <= 0).any():
        text = f"{origin.holds(float(y.min()), 'numbers of 0 or less')}; reg:gamma takes numbers above 0"
        raise DataError(text, "range", origin.name)


# e is below 2^10 and has up to 24 places; times weights of 26 bits, g and h keep within 60.
_SEALED_SCALE = ScalePolicy(g_cap=1 << 22, h_cap=1 << 22, raised=12, weight_bits=3)


_MOST_STEP = 100.0
"""Of a larger one sealed trainings need not know more than that they refuse it."""


def _sealed(power: float, step: float = 0.0) -> SealedForm | None:
    return SealedForm(False, _SEALED_SCALE, _SEALED_SCALE, power, math.exp(min(step, _MOST_STEP)))


GAMMA = Objective(
    name="reg:gamma",
    derivatives=_gamma,
    default_metric="gamma-deviance",
    scales_positives=True,
    block="reg_loss_param",
    block_parameters={"scale_pos_weight": "1"},
    transform=exp,
    link=LOG_LINK,
    check_labels=_above_0,
    sealed=_sealed(2.0),
)


def poisson(max_delta_step: float) -> Objective:
    """Return the loss of counts; its hessian is that of a mean which the largest step has raised."""
    step = float(np.float32(max_delta_step))
    return Objective(
        name="count:poisson",
        derivatives=partial(_poisson, step),
        default_metric="poisson-nloglik",
        block="poisson_regression_param",
        block_parameters={"max_delta_step": as_text(max_delta_step)},
        transform=exp,
        link=LOG_LINK,
        check_labels=partial(_not_negative, "count:poisson", "counts"),
        sealed=_sealed(1.0, step),
    )


def tweedie(tweedie_variance_power: float) -> Objective:
    """Return the loss of sums of a random number of positive amounts, such as claims; many labels are 0."""
    power, p = as_text(tweedie_variance_power), float(np.float32(tweedie_variance_power))
    return Objective(
        name="reg:tweedie",
        derivatives=partial(_tweedie, p),
        default_metric=f"tweedie-nloglik@{power}",
        block="tweedie_regression_param",
        block_parameters={"tweedie_variance_power": power},
        transform=exp,
        link=LOG_LINK,
        check_labels=partial(_not_negative, "reg:tweedie", "amounts"),
        sealed=_sealed(p),
    )
