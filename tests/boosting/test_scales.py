"""The integers of a training: widths that hold every product, scales that fit, constants by the rules."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.scales import (
    SMALLEST_GAMMA,
    ScalePlan,
    bits_needed,
    bits_of_constrained,
    choose_scale,
    hessian_bits,
    largest_weight,
    scale,
    units_of_bounds,
)
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.modes.choose import mode_of
from mpfedxgb.modes.paper.labels import leaf_rules
from mpfedxgb.modes.paper.tree import SPARE_BITS
from mpfedxgb.ring.ring import encode_fixed
from support.property_tests import examples
from support.refusals import refused


def plan(params: TrainParams, rows: int) -> ScalePlan:
    """Return the widths of a training, as its mode has them."""
    return mode_of(params).plan(params, rows)


OBJECTIVES: dict[str, dict[str, Any]] = {
    "log-loss": {"objective": "binary:logistic"},
    "softmax": {"objective": "multi:softprob", "num_class": 3},
    "squared error": {"objective": "reg:squarederror"},
    "poisson": {"objective": "count:poisson", "max_delta_step": 0.0},
    "pseudo-Huber": {"objective": "reg:pseudohubererror"},
    "hinge": {"objective": "binary:hinge"},
    "shares": {"objective": "reg:logistic"},
    "gamma": {"objective": "reg:gamma"},
    "quantile": {"objective": "reg:quantileerror", "quantile_alpha": 0.9},
    "ranks": {"objective": "rank:ndcg"},
    "times": {"objective": "survival:aft"},
    "custom": {"objective": "custom"},
    "weighted log-loss": {"objective": "binary:logistic", "weighted": True},
    "weighted squared error": {"objective": "reg:squarederror", "weighted": True},
}
LAMBDAS = (0.0, 1e-9, 1.0, 1e9)


@st.composite
def nodes(draw: st.DrawFn) -> tuple[list[tuple[int, int]], tuple[int, int, int, int, int]]:
    """Draw fractions A / B of one node, "no split" and an invalid candidate among them, and the bounds they obey."""
    rows = draw(st.integers(1, 9))
    g_cap, h_cap = 1 << draw(st.integers(0, 30)), 1 << draw(st.integers(0, 30))
    lam, gam = draw(st.integers(0, 1 << draw(st.integers(0, 60)))), draw(st.integers(1, 1 << draw(st.integers(0, 90))))
    g = [draw(st.sampled_from([-g_cap, 0, g_cap]) | st.integers(-g_cap, g_cap)) for _ in range(rows)]
    h = [draw(st.sampled_from([0, 1, h_cap]) | st.integers(0, h_cap)) for _ in range(rows)]
    here = draw(st.lists(st.booleans(), min_size=rows, max_size=rows)) if draw(st.booleans()) else [True] * rows
    inside = [i for i in range(rows) if here[i]]
    G, H = sum(g[i] for i in inside), sum(h[i] for i in inside)
    fractions = [(0, 1), (G * G + gam * (H + lam), H + lam)]
    for _ in range(draw(st.integers(1, 3))):
        left = [i for i in inside if draw(st.booleans())]
        GL, HL = sum(g[i] for i in left), sum(h[i] for i in left)
        GR, HR = G - GL, H - HL
        fractions.append((GL**2 * (HR + lam) + GR**2 * (HL + lam), (HL + lam) * (HR + lam)))
    return fractions, (rows, g_cap, h_cap, lam, gam)


@st.composite
def held_nodes(draw: st.DrawFn) -> tuple[list[tuple[int, int]], tuple[Any, ...]]:
    """Draw fractions of one constrained node, weights free or at a bound of either sign, and the bounds they obey."""
    rows = draw(st.integers(1, 9))
    g_cap, h_cap = 1 << draw(st.integers(0, 30)), 1 << draw(st.integers(0, 30))
    lam, gam = draw(st.integers(0, 1 << draw(st.integers(0, 60)))), draw(st.integers(1, 1 << draw(st.integers(0, 90))))
    units = units_of_bounds(g_cap, h_cap, draw(st.sampled_from([16, 24])))
    alpha, unit = draw(st.integers(0, rows * g_cap)), 1 << units.places
    ends = [-units.largest, 0, 1 << units.coarse, units.largest]

    def numerator(G: int, D: int) -> int:
        b = draw(st.sampled_from([None, *ends]) | st.integers(-units.largest, units.largest))
        if b is None:
            return (max(abs(G) - alpha, 0) * unit) ** 2
        return -(D * b) * (2 * (G + (alpha if b > 0 else -alpha)) * unit + D * b)

    def sums() -> list[tuple[int, int]]:
        share = draw(st.integers(0, rows))
        counts = share, rows - share
        return [
            (draw(st.sampled_from([-n * g_cap, 0, n * g_cap])), draw(st.sampled_from([0, n * h_cap]))) for n in counts
        ]

    fractions = [(0, 1)]
    for _ in range(draw(st.integers(1, 3))):
        (GL, HL), (GR, HR) = sums()
        left, right, both = HL + lam, HR + lam, HL + HR + lam
        fractions.append((numerator(GL, left) * right + numerator(GR, right) * left, left * right))
        fractions.append((numerator(GL + GR, both) + gam * both * unit**2, both))
    return fractions, (rows, g_cap, h_cap, lam, gam, units)


@given(held_nodes())
@examples(250)
def test_width_holds_every_constrained_comparison(node: tuple[list[tuple[int, int]], tuple[Any, ...]]) -> None:
    """Numerators of either sign, up to W: every cross product and difference has room, sign included."""
    fractions, bounds = node
    limit = 1 << (bits_of_constrained(*bounds) - 1)

    for (a, b), (c, d) in product(fractions, fractions):
        assert max(abs(a), abs(b), abs(a * d), abs(c * b)) < limit
        assert abs(a * d - c * b) < limit


@pytest.mark.parametrize("name", ["log-loss", "squared error", "weighted log-loss"])
def test_bounds_have_24_digits_where_the_ring_has_room(name: str) -> None:
    """W is 2^28 steps, 16 in log-loss; beyond 200,000 rows fewer, and with fewer than 16 digits none."""
    params = TrainParams(**OBJECTIVES[name], constrained=True, security="none")
    found = plan(params, 20_000)

    assert found.weight_cap == 1 << (28 + found.coarse)
    assert found.weight_cap << found.coarse == 4 * (found.g_cap << found.places + found.coarse) // found.h_cap
    assert found.bits(20_000) <= 64 * found.limbs
    with refused(DoesNotFitError, "range", "constrained"):
        plan(params, 30_000_000 if name != "squared error" else 10**12)


@pytest.mark.parametrize("reg_lambda", [0.0, 0.3, 1.0])
@given(seed=st.integers(0, 10**6))
@examples(20)
def test_no_node_weighs_more_than_the_largest(reg_lambda: float, seed: int) -> None:
    """Of all subsets of rows the largest |G| / (H + lambda) is found, and the scale of a round leaves W above it."""
    rng = np.random.default_rng(seed)
    g, h = rng.normal(size=8) * 10.0 ** rng.uniform(-6, 0), rng.uniform(0.01, 1, 8) * 10.0 ** rng.uniform(-4, 0)
    subsets = np.array(list(product([0, 1], repeat=8)))[1:]
    exact = np.abs(subsets @ g) / (subsets @ h + reg_lambda)
    assert largest_weight(g, h, reg_lambda) == pytest.approx(exact.max())

    params = TrainParams(constrained=True, security="none", reg_lambda=reg_lambda)
    public = plan(params, 8)
    chosen = choose_scale(params, public, g[None], h[None], 8)
    assert chosen.delta == public.weight_cap
    assert exact.max() * 2.0 ** (chosen.f_g - chosen.f_h + public.places) <= public.weight_cap


def test_a_bound_too_small_beside_the_gradients_is_refused() -> None:
    """With constraints its steps are those of the gradients: 0.7 is nothing beside residuals of 10^12."""
    params = TrainParams(
        objective="reg:squarederror", constrained=True, max_delta_step=0.7, security="none", reg_lambda=1.0
    )
    public = plan(params, 20)
    g = np.full((1, 20), 3.0)
    assert choose_scale(params, public, g, np.ones((1, 20)), 20).delta < public.weight_cap  # type: ignore[operator]
    with refused(DoesNotFitError, "range", "max_delta_step"):
        choose_scale(params, public, 1e12 * g, np.ones((1, 20)), 20)


@given(nodes())
@examples(250)
def test_width_holds_every_comparison(node: tuple[list[tuple[int, int]], tuple[int, int, int, int, int]]) -> None:
    """Whatever g and h, every numerator, denominator and cross product of two candidates has room, sign included."""
    fractions, bounds = node
    limit = 1 << (bits_needed(*bounds) - 1)

    for (a, b), (c, d) in product(fractions, fractions):
        assert max(a, b, a * d, c * b) < limit
        assert abs(a * d - c * b) < limit


@pytest.mark.parametrize("rows", [2, 10, 1000, 20_000])
@pytest.mark.parametrize("lam", [0, 1, 1 << 24])
def test_width_is_not_wasted(rows: int, lam: int) -> None:
    """Two even halves of the largest g and h come within three bits of the width."""
    g, h = 1 << 24, 1 << 22
    A = 2 * (rows // 2 * g) ** 2 * (rows // 2 * h + lam)
    B = (rows // 2 * h + lam) ** 2

    assert bits_needed(rows, g, h, lam, 17) - 3 <= (A * B).bit_length() < bits_needed(rows, g, h, lam, 17)


@pytest.mark.parametrize("name", ["log-loss", "softmax"])
def test_probabilities_fit_192_bits_up_to_99_thousand_rows(name: str) -> None:
    """As the decision record says: 192 bits up to 99,330 rows, 256 beyond, up to 700 million."""
    params = TrainParams(**OBJECTIVES[name], reg_lambda=1.0, gamma=0.0)

    assert [plan(params, rows).limbs for rows in (75_000, 99_330, 99_331, 708_405_411)] == [3, 3, 4, 4]
    assert [plan(params, rows).g_cap for rows in (10_000, 30_000, 99_330)] == [1 << 30, 1 << 26, 1 << 22]
    assert [plan(params, rows).h_cap for rows in (10_000, 30_000, 99_330)] == [1 << 22] * 3


@pytest.mark.parametrize("name", ["log-loss", "softmax", "weighted log-loss", "poisson"])
def test_h_has_a_share_of_256_bits(name: str) -> None:
    """As the decision record says: 30 bits beside 36 to 40 of g up to 300,000 rows, fewer of both beyond."""
    params = TrainParams(**OBJECTIVES[name])
    bounded = name in ("log-loss", "softmax")
    found = {rows: plan(params, rows) for rows in (99_331, 145_751, 300_000, 1_000_000, 10_000_000)}
    widths = [(one.g_cap.bit_length() - 1, one.h_cap.bit_length() - 1) for one in found.values()]

    assert {one.limbs for one in found.values()} == {4}
    several = [(40, 30), (40, 30), (37, 30), (36, 28), (32, 25)]
    assert widths == (several if bounded else [(40, 30), (38, 30), (36, 30), (35, 28), (31, 25)])
    for rows, one in found.items():
        assert bits_needed(rows, one.g_cap, one.h_cap, one.lam_cap, one.gam_cap) <= 256
        assert one.lam_cap >= rows * one.h_cap >> 3
        assert hessian_bits(one, rows) <= 64


def test_sealed_trainings_have_widths_of_their_own() -> None:
    """What they compute on secrets is bounded by them; g of 24 places and h of 22 bits, 36 and 16 in regression."""
    for objective, widths in (("binary:logistic", (24, 22)), ("reg:squarederror", (36, 16))):
        found = plan(TrainParams(objective=objective, security="sealed"), 1_000_000)
        assert (found.g_cap, found.h_cap) == (1 << widths[0], 1 << widths[1])


@pytest.mark.parametrize("reg_lambda", [0.0, 1e-6, 1.0, 1e3])
def test_small_gradients_use_all_their_bits(reg_lambda: float) -> None:
    """Whatever their size, the largest |g~| fills its cap to the last bit; so does h~, or lambda~ fills its own."""
    params = TrainParams(reg_lambda=reg_lambda)
    public = plan(params, 10_000)
    for size in (1.0, 1e-3, 1e-9, 1e-100):
        g, h = np.array([[size, -size / 3]]), np.array([[size / 4, size * size / 4]])
        chosen = choose_scale(params, public, g, h, 10_000)

        assert public.g_cap // 2 < round(size * 2.0**chosen.f_g) <= public.g_cap
        largest = round(size / 4 * 2.0**chosen.f_h)
        assert largest <= public.h_cap
        assert chosen.lam <= public.lam_cap
        assert largest > public.h_cap // 2 or chosen.lam > public.lam_cap // 2


def test_squared_error_has_about_37_bits_at_20_thousand_rows() -> None:
    """Within 192 bits; and never fewer than 24."""
    params = TrainParams(objective="reg:squarederror")
    found = plan(params, 20_000)

    assert (found.limbs, found.f_h) == (3, 16)
    assert abs(found.g_cap.bit_length() - 1 - 37) <= 1
    assert all(plan(params, rows).g_cap >= 1 << 24 for rows in (1, 10, 1000, 10**6, 10**9))


@pytest.mark.parametrize("gamma", [0.0, 1e30])
@pytest.mark.parametrize("reg_lambda", LAMBDAS)
@pytest.mark.parametrize("name", OBJECTIVES)
def test_plan_keeps_within_its_ring(name: str, reg_lambda: float, gamma: float) -> None:
    """The caps of a plan need no more bits than its ring has, and sums of g and h stay below 2^62."""
    params = TrainParams(**OBJECTIVES[name], reg_lambda=reg_lambda, gamma=gamma)
    for rows in (1, 2, 37, 500):
        found = plan(params, rows)

        assert found.limbs in (2, 3, 4)
        assert bits_needed(rows, found.g_cap, found.h_cap, found.lam_cap, found.gam_cap) <= 64 * found.limbs
        assert rows * max(found.g_cap, found.h_cap) < 1 << 62
        assert found.f_g is None


@pytest.mark.parametrize("name", ["log-loss", "squared error"])
@pytest.mark.parametrize("reg_lambda", [1e-9, 1e-3, 1.0, 1e6])
@pytest.mark.parametrize("learning_rate", [0.3, 1e6])
def test_plan_holds_what_the_paper_computes(name: str, reg_lambda: float, learning_rate: float) -> None:
    """Four sums of hessians in one denominator, and every step of the descent to a leaf weight, fit the ring."""
    params = TrainParams(
        **OBJECTIVES[name], security="paper", min_child_weight=0.0, reg_lambda=reg_lambda, learning_rate=learning_rate
    )
    for rows in (2, 37, 5000, 10**5):
        try:
            found = plan(params, rows)
        except DoesNotFitError:
            assert reg_lambda > 1
            continue
        # A weight of rows / lambda, or of the largest residual in 44 bits, times the rate.
        lam = found.lam_cap / 2 ** (found.f_h or 0)
        bound, most = (min(1, rows / lam), 2**19) if name == "squared error" else (rows / lam, 2**30)
        if learning_rate * bound >= most:
            with refused(DoesNotFitError, "range", "reg_lambda"):
                leaf_rules(params, found, rows, participants=2)
            continue
        rules = leaf_rules(params, found, rows, participants=2)
        half, limit = (rows // 2) * found.h_cap + found.lam_cap, 1 << (64 * found.limbs - 1)
        largest = (found.g_cap * rows << (rules.f_h + SPARE_BITS)) // rules.lam  # the weight of a leaf without hessians

        assert half**4 < limit
        assert bits_needed(rows, found.g_cap, found.h_cap, found.lam_cap, found.gam_cap) <= 64 * found.limbs
        assert 4 * (rules.lam * largest) * ((1 << rules.step_bits) // rules.lam) < limit
        assert 4 * largest * round(Fraction(learning_rate) * (1 << 56)) < limit
        assert (1 << rules.step_bits) // (rows * found.h_cap + 3 * rules.lam) >= 8
        assert rules.step_bits < 62


def test_public_scales() -> None:
    """Log-loss has 24 bits for g and h in the paper's way, h at most 1/4; squared error has 16 for h, which is 1."""
    paper: dict[str, Any] = {"security": "paper", "min_child_weight": 0.0}
    caps = {name: plan(TrainParams(**OBJECTIVES[name], **paper), 100) for name in ("log-loss", "squared error")}

    assert {name: (p.f_g, p.f_h, p.h_cap) for name, p in caps.items()} == {
        "log-loss": (24, 24, 1 << 22),
        "squared error": (None, 16, 1 << 16),
    }


EXTREME = st.one_of(
    st.just(0.0),
    st.sampled_from([1e-12, 1e-6, 0.25, 1.0, 2.0, 1e6, 1e12]),
    st.floats(1e-300, 1e300),
)


@pytest.mark.parametrize("reg_lambda", LAMBDAS)
@pytest.mark.parametrize("name", OBJECTIVES)
@given(
    g=st.lists(st.tuples(EXTREME, st.booleans()), min_size=1, max_size=20),
    weights=st.lists(EXTREME, min_size=1, max_size=20),
)
@examples(15)
def test_scales_fit_their_caps(name: str, reg_lambda: float, g: list[tuple[float, bool]], weights: list[float]) -> None:
    """However large or small g and the weights, the integers fit, the constants fit, and g has no bit to spare."""
    params = TrainParams(**OBJECTIVES[name], reg_lambda=reg_lambda, gamma=0.3, min_child_weight=1e-3)
    rows = len(g)
    gradients = np.array([-size if negative else size for size, negative in g])
    hessians = np.resize(weights, rows).astype(np.float64)
    public = plan(params, rows)
    if public.f_h is not None:
        hessians = np.ones(rows)
    chosen = choose_scale(params, public, gradients, hessians, rows)

    assert np.abs(encode_fixed(gradients, chosen.f_g, public.g_cap)).max() <= public.g_cap
    assert encode_fixed(hessians, chosen.f_h, public.h_cap).max() <= public.h_cap
    assert (chosen.lam > 0) == (reg_lambda > 0)
    assert chosen.lam <= public.lam_cap
    assert 1 <= chosen.gam <= public.gam_cap
    assert 0 <= chosen.mcw <= rows * public.h_cap + 1
    if gradients.any():
        assert Fraction(float(np.abs(gradients).max())) * Fraction(2) ** (chosen.f_g + 1) > public.g_cap


@pytest.mark.parametrize("reg_lambda", LAMBDAS)
@pytest.mark.parametrize("weight", [1e-12, 1.0, 1e12])
def test_scale_of_weighted_rows(weight: float, reg_lambda: float) -> None:
    """Hessians keep 24 bits, unless a much larger lambda leaves no room and no need for them."""
    params = TrainParams(weighted=True, reg_lambda=reg_lambda)
    rows = 100
    public = plan(params, rows)
    h = np.full(rows, 0.2 * weight)
    chosen = choose_scale(params, public, h, h, rows)
    H = Fraction(int(encode_fixed(h, chosen.f_h, public.h_cap).sum())) / Fraction(2) ** chosen.f_h

    exact = Fraction(float(h[0])) * rows
    assert abs(H - exact) <= (exact + Fraction(reg_lambda)) / (1 << 23)


def test_scale_of_tiny_lambda_does_not_vanish() -> None:
    """A lambda below the smallest unit counts as one unit, in the plan's caps too."""
    for name in OBJECTIVES:
        params = TrainParams(**OBJECTIVES[name], reg_lambda=1e-9)
        public = plan(params, 10)
        assert scale(params, public, 10, 20, 8).lam == 1
        assert public.lam_cap >= 1


GAMMAS = [
    (0.0, 24, 24, 17),
    (1e-6, 24, 24, 17),
    (2e-6, 24, 24, 34),
    (0.5, 24, 24, 1 << 23),
    (0.0, 0, 24, 1),
    (1.0, 30, 16, 1 << 44),
]


@pytest.mark.parametrize(("gamma", "f_g", "f_h", "expected"), GAMMAS)
def test_gamma_rule(gamma: float, f_g: int, f_h: int, expected: int) -> None:
    """gamma~ = max(1, rint(max(gamma, 1e-6) 2^(2 f_g - f_h))): what it is worth in units of g^2 / h."""
    public = ScalePlan(3, 1 << 30, 1 << 24, 1 << 30, 1 << 90, None, None)
    params = TrainParams(gamma=gamma)

    assert scale(params, public, 1000, f_g, f_h).gam == expected
    assert SMALLEST_GAMMA == 1e-6


def test_gamma_is_clamped_above_every_gain() -> None:
    """A gamma that no gain can reach is just above the largest possible one."""
    rows = 50
    params = TrainParams(gamma=1e30)
    public = plan(params, rows)
    largest = (rows * public.g_cap) ** 2  # all of g on one side, over the smallest denominator

    assert scale(params, public, rows, 24, 24).gam == public.gam_cap == largest + 1


@pytest.mark.parametrize(
    ("min_child_weight", "reg_lambda", "expected"),
    [(0.0, 1.0, 0), (0.0, 0.0, 1), (1.0, 1.0, 1 << 24), (1e-9, 1.0, 1), (1 / 3, 1.0, math.ceil((1 << 24) / 3))],
)
def test_min_child_weight_is_rounded_up(min_child_weight: float, reg_lambda: float, expected: int) -> None:
    """Up, so that H >= min_child_weight is decided as on real numbers; at least 1 without lambda."""
    params = TrainParams(min_child_weight=min_child_weight, reg_lambda=reg_lambda)

    assert scale(params, plan(params, 10), 10, 24, 24).mcw == expected


def test_min_child_weight_is_clamped_above_every_sum() -> None:
    """One that no node can reach still fits the vector ring."""
    params = TrainParams(min_child_weight=1e30)

    assert scale(params, plan(params, 10), 10, 24, 24).mcw == 10 * (1 << 22) + 1


@pytest.mark.parametrize(
    ("name", "reg_lambda", "rows"),
    [("log-loss", 1.0, 1 << 40), ("squared error", 1.0, 1 << 40), ("weighted log-loss", 1e9, 10_000)],
)
def test_tables_that_no_ring_holds_are_refused(name: str, reg_lambda: float, rows: int) -> None:
    """The refusal names rows, reg_lambda and the remedy."""
    params = TrainParams(**OBJECTIVES[name], reg_lambda=reg_lambda)
    with refused(DoesNotFitError, "range", "rows") as caught:
        plan(params, rows)

    assert f"{rows} rows with reg_lambda={reg_lambda:g}" in str(caught.value)
