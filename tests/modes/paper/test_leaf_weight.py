"""SecureLeafWeight: perturbed gradient descent, as near to -G / (H + lambda) as asked for (Eq. 8-11, Appendix A)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.errors import DoesNotFitError
from mpfedxgb.modes.paper.labels import leaf_rules, plan
from mpfedxgb.modes.paper.tree import MU, SPARE_BITS, LeafRules, leaf_bits, secure_leaf_weight, steps_needed, steps_of
from mpfedxgb.party import ACTIVE, COORDINATOR, LocalRun, Party, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.protocols import share
from mpfedxgb.ring import VECTOR, Ring, RingArray, wide
from mpfedxgb.tree.leaf import WEIGHT_BITS
from support.evaluation import SEEDS, integers
from support.property_tests import examples
from support.received import witnesses
from support.refusals import refused

PARTICIPANTS = pytest.mark.parametrize("participants", [2, 3, 4, 6])
EPSILONS = (1e-3, 1e-6, 1e-9)
WORST = 1e-14
"""a epsilon / b of Appendix A at its worst: 10^8 rows in one leaf, all of them wrong, and epsilon = 10^-6."""

Leaf = tuple[int, int]
"""G~ and H~ of a leaf."""


# How many steps


def test_bounds_of_appendix_a() -> None:
    """At most 47 steps up to v = 1, and 80 for any v, where v = 3/2 is the worst: both terms meet there."""
    small = [steps_needed(v, WORST) for v in np.linspace(0.5, 1, 201)]
    large = [steps_needed(v, WORST) for v in np.linspace(1, 6, 1001)]

    assert steps_needed(1.0, WORST, mu=2) == max(small) == 47
    assert steps_needed(1.5, WORST) == max(large) == 80
    assert small == sorted(small)
    assert large[100:] == sorted(large[100:], reverse=True)


def test_never_fewer_than_one_step() -> None:
    """A weight below epsilon, an exact step size, a leaf that dwarfs the perturbation: one step, not none."""
    for v in (0.5, 0.7, 1.0, 1.5, 1e9):
        assert [steps_needed(v, ratio) for ratio in (1.0, 1.5, 1e9)] == [1] * 3
    assert steps_needed(0.5, WORST) == 1
    assert steps_needed(1e20, WORST) == 1


@pytest.mark.parametrize("ratio", [0.9, 1e-3, 1e-6, WORST])
def test_second_term_counts_above_one_only(ratio: float) -> None:
    """Up to v = 1 it means nothing (its logarithm has the wrong sign), from v = (mu + 1) / mu on it is the smaller."""

    def first(v: float) -> int:
        return math.ceil(math.log(ratio) / math.log((2 * v - 1) / (2 * v)))

    def second(v: float) -> int:
        return math.ceil(math.log(ratio) / math.log(1 / v))

    for v in (0.51, 0.75, 0.999, 1.0, 1.001, 1.2, 1.49):
        assert steps_needed(v, ratio) == max(1, first(v))
    for v in (1.51, 2.0, 10.0, 1e3):
        assert steps_needed(v, ratio) == max(1, second(v)) <= max(1, first(v))


POSITIVE = st.integers(1, 10**6)


@given(
    lam=POSITIVE, h=st.integers(0, 10**7), part=st.fractions(0, 1), b=st.integers(-(10**9), 10**9), mu=st.integers(2, 4)
)
@examples(60)
def test_so_many_steps_are_enough(lam: int, h: int, part: Fraction, b: int, mu: int) -> None:
    """Eq. 11 in exact numbers, for any a, b and perturbation up to mu lambda: within epsilon after t_min steps."""
    a = lam + h
    sigma = max(part * mu * lam, Fraction(1, 1000))
    epsilon = Fraction(1, 10**6)
    steps = steps_needed(float((a + sigma) / (mu * lam)), float(a * epsilon / abs(b)) if b else math.inf, mu)
    w = Fraction(0)
    for _ in range(steps):
        w = (w - (a * w + b) / (a + sigma)).limit_denominator(10**30)

    assert abs(w + Fraction(b, a)) <= epsilon * (1 + Fraction(1, 10**9))


@given(lam=POSITIVE, h=st.integers(0, 10**7), b=POSITIVE)
@examples(60)
def test_fewer_steps_would_not_do(lam: int, h: int, b: int) -> None:
    """The bounds are met where there are no hessians, and where all perturbations are as large as they may be."""
    for a in {lam, lam + h}:
        sigma = MU * lam
        ratio = Fraction(a, b * 10**6)
        steps = steps_needed((a + sigma) / (MU * lam), float(ratio))
        assert steps == 1 or Fraction(sigma, a + sigma) ** (steps - 1) > ratio * (1 - Fraction(1, 10**9))


# On integers


@dataclass(frozen=True, slots=True)
class Task:
    """What is asked for: how many rows, whose rules, how near."""

    rows: int
    epsilon: float = 1e-6
    learning_rate: float = 1.0
    reg_lambda: float = 1.0
    objective: str = "binary:logistic"

    @property
    def params(self) -> TrainParams:
        """The parameters of a training."""
        return TrainParams(
            objective=self.objective,
            security="paper",
            min_child_weight=0.0,
            learning_rate=self.learning_rate,
            reg_lambda=self.reg_lambda,
            leaf_epsilon=self.epsilon,
        )

    @property
    def plan(self) -> scales.ScalePlan:
        """The widths of the training."""
        return plan(self.params, self.rows)

    @property
    def ring(self) -> Ring:
        """The ring of the descent."""
        return wide(self.plan.limbs)

    def rules(self, participants: int = 2) -> LeafRules:
        """Return the numbers of the descent."""
        return leaf_rules(self.params, self.plan, self.rows, participants)

    def within_epsilon(self, weight: int, leaf: Leaf) -> bool:
        """Tell whether a kept weight is the learning rate times -G / (H + lambda), within epsilon and a rounding.

        Where g has no bound, in regression, epsilon is in units of the largest |g|; that is above g_cap / 4.
        """
        rules = self.rules()
        G, H = leaf
        rate, one = Fraction(self.learning_rate), Fraction(1 << SPARE_BITS, 1 << rules.shift)  # one: in units of g~
        exact = -Fraction(G << rules.f_h, H + rules.lam) * one * rate
        return abs(weight - exact) <= rate * Fraction(rules.epsilon) * one + 1

    def extremes(self) -> list[Leaf]:
        """Return leaves at the edges: no hessian, one row, all rows, the largest sums of either sign, nothing."""
        g, h, n = self.plan.g_cap, self.plan.h_cap, self.rows
        if self.objective == "reg:squarederror":  # h = 1, and P_1 leaves a bit of g unused at first
            leaves = [(g // 4, h), (-g // 2, h), (n * (g // 2), n * h), (-n * (g // 2), n * h), (1, n * h), (-1, h)]
        else:
            leaves = [(g, 0), (-g, 1), (n * g, 0), (-n * g, 0), (n * g, n * h), (-n * g // 2, n * h), (-1, n * h)]
        return [*leaves, (0, 0), (0, n * h)]

    def random(self, rng: np.random.Generator, count: int) -> list[Leaf]:
        """Return leaves of one row to all of them."""
        leaves = []
        for _ in range(count):
            inside = int(self.rows ** rng.random())
            if self.objective == "reg:squarederror":
                H = inside * self.plan.h_cap
            else:
                H = int(rng.random() ** 3 * inside * self.plan.h_cap)
            leaves.append((int((2 * rng.random() - 1) * inside * (self.plan.g_cap // 2)), H))
        return leaves


def descend(rules: LeafRules, leaf: Leaf, sigma: int) -> Fraction:
    """Return a weight, in units of g~, by the steps of the protocol in plain integers."""
    a, b = leaf[1] + rules.lam, leaf[0] << (rules.f_h + SPARE_BITS)
    step = (1 << rules.step_bits) // (a + sigma)
    w = 0
    for _ in range(steps_of(rules, step)):
        w -= (step * (a * w + b)) >> rules.step_bits
    return Fraction(w, 1 << SPARE_BITS)


@pytest.mark.parametrize("heavy", [2, 40, 1000])
def test_steps_follow_from_the_largest_sum_over_what_a_leaf_has(heavy: int) -> None:
    """A bound on weights that is looser than G over the leaf's own H and lambda changes nothing."""
    rules = Task(1000).rules()
    step = (1 << rules.step_bits) // (heavy * rules.lam)
    loose = replace(rules, largest_weight=rules.largest_weight << 20)
    assert steps_of(loose, step) == steps_of(rules, step)
    tight = replace(rules, largest_weight=(rules.largest_sum << rules.f_h) // (rules.lam << 20))
    assert steps_of(tight, step) < steps_of(rules, step)


@given(
    seed=SEEDS,
    rows=st.sampled_from([1, 10, 1000, 30_000, 10**6]),
    epsilon=st.sampled_from(EPSILONS),
    reg_lambda=st.sampled_from([1e-3, 1.0, 40.0]),
    objective=st.sampled_from(["binary:logistic", "reg:squarederror"]),
)
@examples(25)
def test_integer_steps_are_enough(seed: int, rows: int, epsilon: float, reg_lambda: float, objective: str) -> None:
    """Step sizes rounded down and steps rounded to integers cost nothing beyond epsilon, at the largest leaves too."""
    task, rng = Task(rows, epsilon, reg_lambda=reg_lambda, objective=objective), np.random.default_rng(seed)
    rules = task.rules()
    for leaf in task.extremes() + task.random(rng, 8):
        for sigma in {2, 2 + int(rng.integers(0, MU * rules.lam - 1)), MU * rules.lam}:
            exact = -Fraction(leaf[0] << rules.f_h, leaf[1] + rules.lam)
            assert abs(descend(rules, leaf, sigma) - exact) <= Fraction(rules.epsilon) + Fraction(4, 1 << SPARE_BITS)
    assert leaf_bits(rules) <= task.ring.bits


# On shares


@dataclass(frozen=True, slots=True)
class Seen:
    """What a role has after the descent: its shares, and what it was shown."""

    shares: list[int] | None
    shown: list[tuple[str, Any]]


def run_descent(task: Task, participants: int, leaves: list[Leaf]) -> LocalRun[Seen]:
    """Compute the weights of leaves, all in one batch."""
    totals = RingArray.encode(VECTOR, integers(leaves))

    looking = witnesses(participants)

    def program(party: Party) -> Seen:
        x = share(party, ACTIVE, VECTOR, totals.shape, totals if party.is_active else None)
        shares = secure_leaf_weight(party, x, task.ring, task.rules(participants), "0")
        return Seen(None if party.is_coordinator else shares.part.decode().tolist(), looking[party.role].seen)

    return run_locally(program, participants, observers=looking)


def weights_of(run: LocalRun[Seen]) -> list[int]:
    """Return the weights from everybody's shares."""
    assert run.results[COORDINATOR].shares is None
    columns = zip(*(seen.shares for seen in run.results[1:] if seen.shares is not None), strict=True)
    return [(sum(column) + (1 << 63)) % (1 << 64) - (1 << 63) for column in columns]


@PARTICIPANTS
@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("objective", ["binary:logistic", "reg:squarederror"])
def test_weights_are_within_epsilon(objective: str, epsilon: float, participants: int) -> None:
    """Random leaves and the most extreme ones, against exact fractions; small and large rates of learning."""
    rate = {2: 1.0, 3: 0.3, 4: 1e-3, 6: 1.9}[participants]
    task = Task(5000, epsilon, rate, objective=objective)
    leaves = task.extremes() + task.random(np.random.default_rng(participants), 12)
    found = weights_of(run_descent(task, participants, leaves))

    assert [leaf for leaf, w in zip(leaves, found, strict=True) if not task.within_epsilon(w, leaf)] == []
    assert any(w < 0 for w in found)
    assert any(w > 0 for w in found)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("share", [0.86, 0.93, 0.99, 1.0])
def test_one_large_leaf_takes_as_many_steps_as_it_needs(share: float, epsilon: float) -> None:
    """Alone, without a smaller leaf that would make all take more steps; where its step size has the fewest bits."""
    task = Task(10**6, epsilon)
    leaf = (-(10**6) * task.plan.g_cap, int(share * 10**6 * task.plan.h_cap))
    (found,) = weights_of(run_descent(task, 2, [leaf]))

    assert task.within_epsilon(found, leaf)


def test_weight_of_a_known_leaf() -> None:
    """Three rows of p = 1/2 and y = 1: G = -3/2, H = 3/4, so w = 1.5 / 1.75 times the rate, in units of 2^-32."""
    (found,) = weights_of(run_descent(Task(3, 1e-9, 0.5), 2, [(-3 << 23, 3 << 22)]))

    assert abs(found - Fraction(3, 7) * 2**WEIGHT_BITS) <= 3


@PARTICIPANTS
@pytest.mark.parametrize("reg_lambda", [1.0, 1e-7])
def test_perturbations_are_positive_and_at_most_mu_lambda(reg_lambda: float, participants: int) -> None:
    """What P_1 restores is a plus all sigma_m; of that all others, and the coordinator, see the step size only."""
    task, count = Task(100, 1e-3, reg_lambda=reg_lambda), 60
    if reg_lambda < 1:
        task = Task(100, 1e-3, reg_lambda=1 / (1 << 24) * participants)  # as small as it may be, and a little more
    rules = task.rules(participants)
    leaves = [(0, 7 + i % 2) for i in range(count)]
    run = run_descent(task, participants, leaves)
    (first, restored), (second, steps) = run.results[ACTIVE].shown
    sigmas = [value - H - rules.lam for value, (_, H) in zip(restored, leaves, strict=True)]

    assert first == second == Entry.STEP_SIZE
    assert participants <= min(sigmas)
    assert max(sigmas) <= MU * rules.lam
    assert len(set(sigmas)) > (count // 2 if reg_lambda == 1 else 1), "drawn for every leaf anew"
    assert steps == [(1 << rules.step_bits) // value for value in restored]
    for role, seen in enumerate(run.results):
        if role != ACTIVE:
            assert seen.shown == [(Entry.STEP_SIZE, steps)]


def test_lambda_too_small_to_hide_anything() -> None:
    """With lambda~ = 1 two participants can still perturb, by one each; three cannot, and are told what to do."""
    task = Task(50, 1e-3, reg_lambda=1e-9)
    restored = run_descent(task, 2, [(5, 9)]).results[ACTIVE].shown[0][1]

    assert restored == [9 + 1 + 2]
    with refused(DoesNotFitError, "range", "reg_lambda", 1e-09):
        task.rules(3)


@PARTICIPANTS
def test_rounds_and_ledger(participants: int) -> None:
    """Four rounds a step and as many steps as the slowest leaf needs; the step sizes are on the ledger."""
    task = Task(100, 1e-6)
    leaves = [(5, 100 << 22)] + [(100 << 24, 0)] * 10  # of so many, one is perturbed enough to be slow
    run = run_descent(task, participants, leaves)
    steps = [steps_of(task.rules(participants), e) for e in run.results[COORDINATOR].shown[0][1]]

    assert steps[0] < max(steps)
    assert [meter.total("leaf weights").rounds for meter in run.meters[1:]] == [6 + 4 * max(steps)] * participants
    told = {(entry.name, entry.receiver): entry.count for entry in run.ledgers[ACTIVE]}
    assert told == {(Entry.STEP_SIZE, who): len(leaves) for who in ("P1", "participants", "coordinator")}
    assert all(ledger == run.ledgers[0] for ledger in run.ledgers)
