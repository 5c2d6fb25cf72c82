"""What the active participant encodes alone: labels, weights and the start, as the oracle has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.boosting import Labels, scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import UserError
from mpfedxgb.exponential import TOP_BITS
from mpfedxgb.modes.sealed.encoding import SealedLabels, SealedRules, encode_labels, plain_gradients, sealed_rules
from mpfedxgb.sigmoid import LIMIT
from plain_sealed import encode
from support.property_tests import examples

OBJECTIVES = ("binary:logistic", "reg:squarederror")
MEANS: dict[str, dict[str, Any]] = {
    "count:poisson": {"max_delta_step": 0.0},
    "reg:gamma": {},
    "reg:tweedie": {},
    "reg:tweedie of 1.2": {"objective": "reg:tweedie", "tweedie_variance_power": 1.2},
}
"""The losses of positive means, with what makes them."""


def encoded(params: TrainParams, y: Any, weight: Any = None) -> tuple[SealedRules, SealedLabels]:
    """Return the rules, and the labels as the active participant encodes them."""
    rows = len(y)
    plan = scales.plan(params, rows)
    rules = sealed_rules(params, plan, rows)
    (base,) = params.loss.base_margin(y, weight, None, 1)
    return rules, encode_labels(params, plan, rules, y, weight, np.full(rows, base), rows)


def of_oracle(rules: SealedRules) -> reference.RefSealed:
    """Return what the oracle is told of a training with these rules."""
    places = rules.h_whole.bit_length() - 1
    power = None if rules.rates is None else 2 - rules.rates[0]
    return reference.RefSealed(
        rules.is_logistic,
        1,
        0.3,
        g_cap=rules.g_cap,
        h_places=places,
        rounding=rules.rounding,
        power=power,
        e_places=rules.e_places,
    )


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    objective=st.sampled_from(OBJECTIVES),
    rows=st.sampled_from([2, 3, 40]),
    size=st.sampled_from([0.0, 1e-300, 1e-6, 1.0, 1e8]),
    weighted=st.sampled_from([None, 1e-9, 1.0, 1e3]),
    reg_lambda=st.sampled_from([1.0, 40.0, 1e6]),
    options=st.sampled_from([{}, {"gamma": 0.3, "min_child_weight": 2.0}, {"min_child_weight": 1e9}]),
)
def test_everything_is_encoded_as_the_oracle_does(
    seed: int, objective: str, rows: int, size: float, weighted: float | None, **options: Any
) -> None:
    """Labels and weights of any size, at the finest scales that fit; constants at those scales."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, rows).astype(np.float64)
    y[:2] = 0, 1
    if objective == "reg:squarederror":
        y = size * rng.normal(size=rows)
    weight = None if weighted is None else weighted * rng.choice([1.0, 0.5, 1e-6, 0.0], rows)
    if weight is not None:
        weight[:2] = weighted
    more = options.pop("options")
    params = TrainParams(objective=objective, security="sealed", weighted=weight is not None, **options, **more)

    _, labels = encoded(params, y, weight)

    expected = encode(params, Labels(y, weight))
    np.testing.assert_array_equal(labels.y, expected.y)
    assert (labels.weights is None) == (expected.weights is None)
    if labels.weights is not None and expected.weights is not None:
        np.testing.assert_array_equal(labels.weights, expected.weights)
    assert (labels.places, labels.scale) == (expected.places, expected.scale)
    np.testing.assert_array_equal(labels.start, expected.sealed.start)


def of_means(
    rng: np.random.Generator, named: str, rows: int, size: float, weights: str, **options: Any
) -> tuple[TrainParams, Any, Any]:
    """Return parameters, labels and row weights of a loss of positive means; labels of 0 where it takes them."""
    y = size * rng.gamma(1.0, size=rows)
    if named != "reg:gamma":
        y[rng.random(rows) < 0.3] = 0
    y[0] = size
    drawn = {"none": None, "light": 1e-9 * rng.random(rows) + 1e-12, "usual": rng.choice([0.0, 0.5, 1.0, 7.0], rows)}
    weight = drawn[weights]
    if weight is not None:
        weight[0] = weight.max() or 1.0
    known: dict[str, Any] = {"objective": named} | MEANS[named] | options
    return TrainParams(**known, security="sealed", weighted=weight is not None), y, weight


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    named=st.sampled_from(list(MEANS)),
    rows=st.sampled_from([2, 3, 40, 3000]),
    size=st.sampled_from([1e-30, 1e-6, 1.0, 30.0, 1e4]),
    weights=st.sampled_from(["none", "light", "usual"]),
    reg_lambda=st.sampled_from([0.1, 1.0, 1e6]),
)
def test_positive_means_are_encoded_as_the_oracle_does(
    seed: int, named: str, rows: int, size: float, weights: str, reg_lambda: float
) -> None:
    """In units of their own, the same as the oracle's; g and h of the first round are as near as these units allow."""
    rng = np.random.default_rng(seed)
    params, y, weight = of_means(rng, named, rows, size, weights, reg_lambda=reg_lambda)
    expected = encode(params, Labels(y, weight))
    rules, labels = encoded(params, y, weight)

    known = labels.y != rules.no_label
    assert known.all() or (y[~known] == 0).all()
    np.testing.assert_array_equal(labels.y[known], expected.y[known])
    assert (labels.weights is None) == (expected.weights is None)
    if labels.weights is not None and expected.weights is not None:
        np.testing.assert_array_equal(labels.weights, expected.weights)
    assert (labels.places, labels.scale) == (expected.places, expected.scale)
    np.testing.assert_array_equal(labels.start, expected.sealed.start)
    g, h = plain_gradients(rules, labels.start, labels.y, None)
    assert np.abs(g).max() < 1 << (rules.e_places + TOP_BITS)
    assert (h >= 0).all()
    np.testing.assert_array_equal([g, h], reference.sealed_gradients(of_oracle(rules), labels.start, labels.y))
    if weight is None:
        start = np.full((1, rows), params.loss.base_margin(y, weight, None, 1)[0])
        exact = np.ldexp(np.concatenate(params.loss.gradients(y, start)), labels.scale.f_g)
        np.testing.assert_allclose([g, h], exact, rtol=0, atol=2 + 2.0**-20 * np.abs(exact).max())


@pytest.mark.parametrize("named", list(MEANS))
def test_labels_that_are_too_large_beside_lambda_are_refused(named: str) -> None:
    """With parameter and remedy, and without a label; Tweedie's and gamma's leaf weights are bounded anyway."""
    params, y, _ = of_means(np.random.default_rng(1), named, 1000, 1e9, "none")
    if named != "count:poisson":
        encoded(params, y)
        return
    with pytest.raises(UserError) as refused:
        encoded(params, y)
    assert (refused.value.parameter, refused.value.code) == ("reg_lambda", "range")
    assert "raise reg_lambda, or divide labels or weights by a constant" in str(refused.value)
    assert "e+09" not in str(refused.value)


def test_starts_that_are_too_far_are_refused() -> None:
    """Base margins of a loss of means are logarithms, too."""
    params, y, _ = of_means(np.random.default_rng(1), "reg:gamma", 5, 1.0, "none")
    plan = scales.plan(params, 5)
    with pytest.raises(UserError) as refused:
        encode_labels(params, plan, sealed_rules(params, plan, 5), y, None, np.array([0.0, 129.0, 0, 0, 0]), 5)
    assert (refused.value.parameter, refused.value.code) == ("base_margin", "range")


def test_equal_labels_have_nothing_to_hold() -> None:
    """All residuals are 0, at any scale."""
    _, labels = encoded(TrainParams(objective="reg:squarederror", security="sealed"), np.full(5, 2.5))
    assert labels.y.tolist() == [0] * 5


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_weights_are_held_beside_lambda(objective: str) -> None:
    """Up to 2,048 times lambda, or more by luck of powers of two; refused with the remedy, and without the weight."""
    y = np.array([0.0, 1.0, 1.0])
    for reg_lambda, most in ((0.25, 1024.0), (0.4999, 1024.0)):
        params = TrainParams(objective=objective, security="sealed", weighted=True, reg_lambda=reg_lambda)
        encoded(params, y, np.array([most, 3.0, 0.0]))
        with pytest.raises(UserError) as refused:
            encoded(params, y, np.array([most + 1, 3.0, 0.0]))
        assert f"a sample weight is more than 2048 times reg_lambda={reg_lambda}" in str(refused.value)
        assert "divide the weights by a constant, or raise reg_lambda" in str(refused.value)
        assert "1025" not in str(refused.value)


@pytest.mark.parametrize(
    ("objective", "rows", "heavy", "light", "bits"),
    [
        ("binary:logistic", 60, 1000.0, 1.0, 22),
        ("binary:logistic", 20_000, 1000.0, 1.0, 24),
        ("binary:logistic", 1_000_000, 1000.0, 1.0, 20),
        ("binary:logistic", 20_000, 1e-6, 1e-6, 24),
        ("reg:squarederror", 20_000, 1e-6, 1e-6, 17),
    ],
)
def test_light_rows_keep_their_digits(objective: str, rows: int, heavy: float, light: float, bits: int) -> None:
    """A class that weighs a thousand times the other, or weights far below lambda, leave no row a blunt number."""
    y = np.zeros(rows)
    y[:: rows // 20] = 1.0
    weight = np.where(y == 1, heavy, light) / 1.1
    _, labels = encoded(TrainParams(objective=objective, security="sealed", weighted=True), y, weight)
    assert labels.weights is not None
    ratio = labels.weights.min() / labels.weights.max()
    assert ratio == pytest.approx(light / heavy, rel=2.0**-bits)
    assert labels.weights.max() >= 1 << bits
    assert 2.0**-labels.scale.f_g <= light * 2.0**-bits


def far_and_near(seed: int, rows: int) -> Any:
    """Return margins of all sizes, the ends of the sigmoid's range and of segments among them."""
    rng = np.random.default_rng(seed)
    ends = [0, -1, 1, LIMIT, -LIMIT, LIMIT - 1, -LIMIT - 1, (1 << 60), -(1 << 60), 1 << 19, (1 << 19) - 1]
    sizes = np.sign(rng.normal(size=rows)) * np.exp2(rng.uniform(0, 60, rows))
    return np.where(rng.random(rows) < 0.3, rng.choice(ends, rows), sizes.astype(np.int64))


@examples(40)
@given(
    seed=st.integers(0, 10**6),
    objective=st.sampled_from((*OBJECTIVES, "reg:logistic", *MEANS)),
    weighted=st.booleans(),
    sampled=st.booleans(),
)
def test_gradients_in_the_clear_are_the_oracles(seed: int, objective: str, weighted: bool, sampled: bool) -> None:
    """At any margin, with weights and samples; the first round's are those at the start."""
    rng = np.random.default_rng(seed)
    rows = 30
    y = rng.integers(0, 2, rows).astype(np.float64) if objective == "binary:logistic" else rng.random(rows)
    y[:2] = 0, 1
    if objective == "reg:gamma":
        y += 1e-3
    weight = rng.choice([1.0, 1e-7, 0.3, 0.0], rows) if weighted else None
    if weight is not None:
        weight[:2] = 1.0
    options: dict[str, Any] = {"objective": objective} | MEANS.get(objective, {})
    params = TrainParams(**options, security="sealed", weighted=weighted)
    rules, labels = encoded(params, y, weight)
    margins = far_and_near(seed, rows)

    found = plain_gradients(rules, margins, labels.y, labels.weights)
    expected = reference.sealed_gradients(of_oracle(rules), margins, labels.y, labels.weights)
    np.testing.assert_array_equal(found, np.stack(expected))

    inside = rng.integers(0, 2, rows).astype(np.uint8) if sampled else None
    first = labels.first_gradients(rules, inside)
    start = labels.start
    expected = reference.sealed_gradients(of_oracle(rules), start, labels.y, labels.weights, inside)
    np.testing.assert_array_equal(first, np.stack(expected))


def test_labels_tell_nothing_in_text() -> None:
    """Neither labels, weights, scales nor the start."""
    _, labels = encoded(TrainParams(objective="reg:squarederror", security="sealed"), np.array([7.0, 8.0, 42.0]))
    assert repr(labels) == "SealedLabels()"
