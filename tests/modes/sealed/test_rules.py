"""The bounds of a sealed training: nothing that can come of its numbers is beyond them, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import DoesNotFitError, UserError
from mpfedxgb.exponential import exponential
from mpfedxgb.modes.sealed.encoding import SealedRules, encode_labels, plain_gradients, sealed_rules
from mpfedxgb.sigmoid import LIMIT, PLACES
from mpfedxgb.softmax import top
from support.property_tests import examples

RULES = reference.Rules(max_depth=1, lam=1, gam=1, mcw=0, no_split_first=True)
OBJECTIVES = ("binary:logistic", "reg:squarederror")
MEANS = ("count:poisson", "reg:gamma", "reg:tweedie")


def params_of(objective: str = "binary:logistic", **options: Any) -> TrainParams:
    """Return the parameters of a sealed training."""
    return TrainParams(objective=objective, security="sealed", **options)


def rules_of(params: TrainParams, rows: int) -> tuple[SealedRules, scales.ScalePlan]:
    """Return the rules and the plan that they are made from."""
    plan = scales.plan(params, rows)
    return sealed_rules(params, plan, rows), plan


@st.composite
def trainings(
    draw: st.DrawFn, objectives: tuple[str, ...] = OBJECTIVES
) -> tuple[TrainParams, int, SealedRules, scales.ScalePlan]:
    """Draw parameters and a number of rows that are not refused."""
    params = params_of(
        draw(st.sampled_from(objectives)),
        weighted=draw(st.booleans()),
        n_estimators=draw(st.sampled_from([1, 20, 1000])),
        learning_rate=draw(st.sampled_from([1e-9, 1e-3, 0.3, 1.0, 3.0, 1e3])),
        reg_lambda=draw(st.sampled_from([1e-6, 0.01, 1.0, 1e4])),
    )
    rows = draw(st.sampled_from([1, 2, 50, 3000]))
    try:
        rules, plan = rules_of(params, rows)
    except DoesNotFitError:
        assume(False)
    return params, rows, rules, plan


@st.composite
def leaves(draw: st.DrawFn) -> tuple[int, int, int, int, tuple[TrainParams, int, SealedRules, scales.ScalePlan]]:
    """Draw G and H of a leaf, the largest there are among them, lambda~, and the largest lambda~, for a training."""
    params, rows, rules, plan = training = draw(trainings())
    one = rules.weight_places
    inside = draw(st.sampled_from([1, rows]))
    kinds = draw(st.integers(1, min(3, inside)))  # of rows that are alike
    counts = [inside // kinds] * (kinds - 1) + [inside - (kinds - 1) * (inside // kinds)]
    weights = None
    if params.weighted:
        drawn = [draw(st.sampled_from([0, 1, (1 << one) - 1, 1 << one]) | st.integers(0, 1 << one)) for _ in counts]
        weights = np.array(drawn, np.int64)
    far = (1 << (rules.margin_bits - 2)) * draw(st.sampled_from([-1, 1]))
    margins = np.array([draw(st.sampled_from([0, 1, far])) for _ in counts], np.int64)
    labels = [0, 1 << PLACES] if rules.is_logistic else [-(rules.g_cap // 4), 0, rules.g_cap // 4]
    y = np.array([draw(st.sampled_from(labels)) for _ in counts], np.int64)
    gh = plain_gradients(rules, margins, y, weights)
    G, H = (int(np.dot(part.astype(object), np.array(counts, object))) for part in gh)
    lam = draw(st.sampled_from([rules.least_lambda, plan.lam_cap])) if params.weighted else plan.lam_cap
    return G, H, lam, plan.lam_cap, training


@examples(150)
@given(leaves())
def test_no_leaf_outgrows_its_bounds(
    leaf: tuple[int, int, int, int, tuple[TrainParams, int, SealedRules, scales.ScalePlan]],
) -> None:
    """Sums, divisors and weights of any leaf keep within what the division is told, and within its ring."""
    G, H, lam, most_lambda, (params, _, rules, plan) = leaf
    division = rules.division
    places = rules.h_whole.bit_length() - 1
    sealed = reference.RefSealed(rules.is_logistic, 1, params.learning_rate, h_places=places)
    w = reference.sealed_weight(reference.RefLeaf((), G, H), sealed, lam)

    assert abs(G) <= division.largest_sum
    assert H + lam <= H + most_lambda <= division.largest_divisor
    assert abs(w) <= division.largest_weight
    assert abs(G) * division.factor < 1 << (division.ring.bits - 2)
    assert (H + lam) << division.shift < 1 << division.divisor_bits
    assert division.ring.bits <= 64 * plan.limbs
    exact = Fraction(float(np.float32(params.learning_rate))) * G * rules.h_whole / (H + lam)
    assert Fraction(G * division.factor, (H + lam) << division.shift) == exact


@examples(150)
@given(
    training=trainings(MEANS),
    seed=st.integers(0, 10**6),
    size=st.sampled_from([1e-9, 1e-3, 1.0, 1e3, 1e9]),
    spread=st.sampled_from([0.0, 1.0, 6.0]),
    far=st.sampled_from([1e-3, 1.0, 30.0, 1e6]),
)
def test_no_leaf_of_positive_means_outgrows_its_bounds(
    training: tuple[TrainParams, int, SealedRules, scales.ScalePlan], seed: int, size: float, spread: float, far: float
) -> None:
    """Whatever margins are and whichever rows a leaf has: what could go beyond is refused when labels are encoded."""
    params, rows, rules, plan = training
    rng = np.random.default_rng(seed)
    y = size * rng.lognormal(0, spread, rows)
    y[1:] *= 1 if params.objective == "reg:gamma" else rng.integers(0, 2, rows - 1)
    weight = rng.choice([0.0, 1e-6, 1.0, 1e3], rows) if params.weighted else None
    if weight is not None:
        weight[0] = 1.0
    try:
        labels = encode_labels(params, plan, rules, y, weight, np.full(rows, np.log(y.mean())), rows)
    except UserError:
        assume(False)
    margins = labels.start + (far * rng.normal(size=rows) * 2**PLACES).astype(np.int64)
    gh = plain_gradients(rules, margins, labels.y, labels.weights)
    sealed, division = reference.RefSealed(False, 1, params.learning_rate / params.h_factor), rules.division
    for inside in (rng.random(rows) < 0.5, gh[0] > 0, gh[0] < 0, np.ones(rows, bool)):
        G, H = (int(part[inside].astype(object).sum()) for part in gh)
        assert np.abs(gh[:, inside]).max(initial=0) <= plan.g_cap
        assert abs(G) <= division.largest_sum
        assert H >= 0
        assert H + labels.scale.lam <= division.largest_divisor
        assert abs(reference.sealed_weight(reference.RefLeaf((), G, H), sealed, labels.scale.lam)) <= (
            division.largest_weight
        )


@examples(60)
@given(trainings((*OBJECTIVES, *MEANS)), st.sampled_from([-1, 1]))
def test_margins_never_outgrow_their_bits(
    training: tuple[TrainParams, int, SealedRules, scales.ScalePlan], sign: int
) -> None:
    """After all rounds of the largest weights, from the farthest start, what is compared has its sign within the bits.

    The farthest start is that of a base_score of float32's smallest number.
    """
    params, _, rules, _ = training
    start = int(104 * 2**PLACES) if rules.is_logistic else 0
    F = sign * (params.n_estimators * rules.division.largest_weight + start)
    compared = [F + LIMIT, -F - LIMIT + 2 * LIMIT - 1]
    if not rules.is_logistic:
        x = F + sign * (rules.g_cap // 4)
        compared = [x + rules.g_cap, -x + rules.g_cap]

    if rules.rates is not None:  # and from the farthest label, beside that of the logarithm of 0
        F = sign * (params.n_estimators * rules.division.largest_weight + (1 << 42))
        tables = [exponential(rate) for rate in rules.rates if rate]
        ends = [end for f in tables for end in (-f.low, f.low + f.width)]
        compared = [y - F + end for y in (-(1 << 42), 0, 1 << 42, rules.no_label) for end in ends]
        assert rules.no_label - F < min(f.low for f in tables)
        compared += [F + end for end in ends]

    assert max(map(abs, compared)) < 1 << (rules.margin_bits - 1)
    assert rules.margin_bits <= 62


@examples(60)
@given(
    training=trainings(("multi:softprob",)),
    classes=st.sampled_from([1, 2, 3, 256]),
    seed=st.integers(0, 10**6),
    far=st.sampled_from([0.0, 1e-3, 1.0, 30.0, 1e6]),
)
def test_nothing_of_several_classes_outgrows_its_bounds(
    training: tuple[TrainParams, int, SealedRules, scales.ScalePlan], classes: int, seed: int, far: float
) -> None:
    """Gradients, sums of leaves, their weights, and differences of margins after all rounds of the largest weights."""
    params, rows, *_ = training
    params = replace(params, num_class=classes)
    rules, plan = rules_of(params, rows)
    rng = np.random.default_rng(seed)
    one = 1 << rules.weight_places
    weights = rng.choice([0, 1, one - 1, one], rows) if params.weighted else None
    hit = (rng.integers(0, classes, rows) == np.arange(classes)[:, None]).astype(np.int64) << PLACES
    gh = plain_gradients(rules, (far * rng.normal(size=(classes, rows)) * 2**PLACES).astype(np.int64), hit, weights)
    lam = rules.least_lambda if params.weighted else plan.lam_cap
    sealed, division = reference.RefSealed(True, 1, params.learning_rate), rules.division
    for g, h in gh:
        assert np.abs(g).max() <= plan.g_cap
        assert 0 <= h.min() <= h.max() <= plan.h_cap
        for inside in (g > 0, g < 0, rng.random(rows) < 0.5):
            G, H = (int(part[inside].astype(object).sum()) for part in (g, h))
            assert abs(reference.sealed_weight(reference.RefLeaf((), G, H), sealed, lam)) <= division.largest_weight
            assert abs(G) <= division.largest_sum
            assert H + plan.lam_cap <= division.largest_divisor
    apart = 2 * (params.n_estimators * division.largest_weight + (128 << PLACES))
    f = exponential(1.0)
    assert apart + top(classes) - f.low < 1 << (rules.margin_bits - 1)
    assert rules.margin_bits <= 62


def test_the_rate_is_that_of_float32() -> None:
    """0.3 is 10066330 2^-25 there, whose power of two goes to the factor, or to the divisor where it is too small."""
    rules, _ = rules_of(params_of(learning_rate=0.3), 10)
    assert (rules.division.factor, rules.division.shift) == (5033165, 0)
    rules, _ = rules_of(params_of("reg:squarederror", learning_rate=0.3), 10)
    assert (rules.division.factor, rules.division.shift) == (5033165, 8)
    rules, _ = rules_of(params_of("reg:squarederror", learning_rate=0.5), 10)
    assert (rules.division.factor, rules.division.shift) == (1 << 15, 0)


@pytest.mark.parametrize(
    ("options", "rows", "told"),
    [
        (
            {"objective": "multi:softprob", "num_class": 257},
            10,
            ["num_class=257", "the 256 that", "use security='strict'"],
        ),
        (
            {"reg_lambda": 1e-6, "learning_rate": 2.0, "n_estimators": 100_000},
            10_000,
            ["10000 rows", "reg_lambda=1e-06", "learning_rate=2", "100000 leaf weights", "raise reg_lambda"],
        ),
        ({"learning_rate": 1e-50}, 10, ["learning_rate=1e-50 is zero as a float32", "raise it"]),
        (
            {"reg_lambda": 1e-6, "learning_rate": 1e-37},
            6,
            ["learning_rate=1e-37 makes divisions of 192 bits with 6 rows", "has 128", "raise it"],
        ),
    ],
)
def test_what_has_no_room_is_refused_with_figures(options: dict[str, Any], rows: int, told: list[str]) -> None:
    """Parameter, value and remedy; nothing is computed that could wrap."""
    with pytest.raises(DoesNotFitError) as refused:
        rules_of(params_of(**options), rows)
    assert all(text in str(refused.value) for text in told), refused.value
