"""Gradients on secrets: those in the clear, at any margin; what they cost; chunks of rows; rehearsals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.boosting import scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.config import TOPOLOGIES, SessionSettings, Tuning
from mpfedxgb.exponential import exponential
from mpfedxgb.modes.sealed.encoding import SealedRules, plain_gradients, sealed_rules
from mpfedxgb.modes.sealed.gradients import END_HESSIAN, GradientRows, secure_gradients
from mpfedxgb.party import Counts, Party, Roster, run_locally
from mpfedxgb.party.dry_run import DryRunParty
from mpfedxgb.protocols import Bit, Secret, Shares, share, share_bit
from mpfedxgb.ring import BIT, VECTOR, RingArray
from mpfedxgb.sigmoid import LIMIT, PLACES, sigmoid
from mpfedxgb.softmax import top
from patience import patience
from support.evaluation import Evaluation, evaluate, operand
from support.property_tests import examples

GATES = ("none", "weights", "sample")
COSTS = {
    "binary:logistic": (16, 83),
    "reg:squarederror": (3, 7),
    "count:poisson": (14, 79),
    "reg:gamma": (14, 79),
    "reg:tweedie": (18, 174),
    "multi:softprob": (44, 430),
}
"""Rounds, and bytes a row by each auxiliary; of three classes."""

OBJECTIVES = tuple(COSTS)

MORE_ROUNDS, MORE_BYTES = 6, 54
"""Where rows have weights."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Margins and labels of some rows, in the clear, and what gates them."""

    rules: SealedRules
    margins: Any
    y: Any
    gate: str
    gates: Any

    @property
    def expected(self) -> Any:
        """G and h as the active participant would compute them."""
        weights = {"none": None, "weights": self.gates, "sample": self.gates << self.rules.rounding}[self.gate]
        return plain_gradients(self.rules, self.margins, self.y, weights)

    def evaluated(self, participants: int = 3, **settings: Any) -> Evaluation:
        """Compute on secrets."""
        operands = [operand(VECTOR, self.margins), operand(VECTOR, self.y)]
        if self.gate != "none":
            operands.append(operand(BIT if self.gate == "sample" else VECTOR, self.gates))

        def compute(party: Party, secrets: list[Secret]) -> list[Shares]:
            margins, labels, *gates = secrets
            weights = gates[0] if self.gate == "weights" else None
            inside = Bit(gates[0]) if self.gate == "sample" else None
            return [secure_gradients(party, GradientRows(margins, labels, weights, inside), self.rules)]

        return evaluate(participants, operands, compute, **settings)


def rules_of(objective: str, gate: str, **options: Any) -> SealedRules:
    """Return the rules of a sealed training."""
    if objective == "multi:softprob":
        options = {"num_class": 3} | options
    params = TrainParams(objective=objective, security="sealed", weighted=gate == "weights", **options)
    return sealed_rules(params, scales.plan(params, 100), 100)


def problem(seed: int, objective: str, gate: str, count: int, **options: Any) -> Problem:
    """Return rows: margins of any size there can be, ends of ranges and of segments, and labels of both kinds."""
    rng, rules = np.random.default_rng(seed), rules_of(objective, gate, **options)
    shape = rules.shape(count)
    most = (1 << (rules.margin_bits - 1)) - 1 - 2 * LIMIT - 2 * rules.g_cap
    if rules.rates is not None:
        f = exponential(max(rules.rates))
        most = -rules.no_label
        y = (
            rng.integers(0, 1 << (rules.e_places + 8), count)
            if not rules.rates[1]
            else rng.integers(-(1 << 28), 1 << 28, count)
        )
        if min(rules.rates) > 0:
            y[rng.random(count) < 0.2] = rules.no_label
        ends = [0, f.low, f.low - 1, f.low + f.width, f.low + f.width - 1, most, -most, -f.low - f.width, -f.low]
        bits = 29
    elif rules.classes:
        most = (1 << (rules.margin_bits - 2)) - (1 << 30)
        y = (rng.integers(0, rules.classes, count) == np.arange(rules.classes)[:, None]).astype(np.int64) << PLACES
        f = exponential(1.0)
        ends = [0, 1, -1, f.low, f.low - top(rules.classes), f.low - top(rules.classes) - 1, most, -most, 1 << 18]
        bits = 28
    elif rules.is_logistic:
        y = rng.integers(0, 2, count) << PLACES
        ends = [0, LIMIT, LIMIT - 1, -LIMIT, -LIMIT - 1, most, -most, 1 << 19, (1 << 19) - 1, -(1 << 19), 1 << 18]
        bits = 29
    else:
        y = rng.integers(-(rules.g_cap // 4), rules.g_cap // 4 + 1, count)
        cap = rules.g_cap
        ends = [0, 1, -1, cap, -cap, cap + 1, -cap - 1, cap - 1, most, -most]
        bits = cap.bit_length()
    near = rng.integers(-(1 << bits), 1 << bits, shape)
    far = (rng.choice([-1, 1], shape) * np.exp2(rng.uniform(0, np.log2(float(most)), shape))).astype(np.int64)
    kinds = [near, np.clip(far, -most, most), rng.choice(ends, shape)]
    margins = np.choose(rng.integers(0, 3, count), kinds)
    far = far.reshape(-1, count)[0]
    gates = rng.integers(0, 2, count)
    if gate == "weights":
        one = 1 << rules.weight_places
        gates = np.choose(rng.integers(0, 2, count), [rng.choice([0, 1, one >> 1, one - 1, one], count), far])
        gates = np.clip(gates, 0, one)
    return Problem(rules, margins, y, gate, gates)


@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("objective", OBJECTIVES)
@examples(5)
@given(seed=st.integers(0, 10**6), participants=st.integers(2, 4))
def test_secrets_give_what_the_clear_gives(objective: str, gate: str, seed: int, participants: int) -> None:
    """Bit for bit: at the ends of the range and beyond, of every weight, in the sample and outside it."""
    some = problem(seed, objective, gate, 300)
    np.testing.assert_array_equal(some.evaluated(participants).values[0].astype(np.int64), some.expected, strict=True)


def test_beyond_the_range_is_its_end() -> None:
    """P is u or 1 - u there, and h = u, for the smallest h is no 0."""
    rules = rules_of("binary:logistic", "none")
    most = 1 << (rules.margin_bits - 2)
    margins = np.array([-LIMIT - 1, LIMIT, -most, most])
    some = Problem(rules, margins, np.array([0, 0, 1 << PLACES, 1 << PLACES]), "none", None)
    one = 1 << PLACES
    found = some.evaluated().values[0].tolist()
    assert found == [[1, one - 1, 1 - one, -1], [END_HESSIAN] * 4]
    assert sigmoid(np.array([-LIMIT, LIMIT])).tolist() == [1, one - 1]


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_costs_are_those_of_the_docstring(objective: str, gate: str, topology: str) -> None:
    """Rounds exactly, bytes to two a row, for margins of a usual size; nothing is revealed."""
    rows = 160
    found = problem(1, objective, gate, rows).evaluated(topology=topology)
    rounds, sent = COSTS[objective]
    if gate == "weights":
        rounds, sent = rounds + MORE_ROUNDS, sent + MORE_BYTES * (3 if objective == "multi:softprob" else 1)
    assert [cost.rounds for cost in found.costs[1:]] == [rounds] * 3
    for cost in found.costs[2:]:
        assert cost.payload_sent["P1"] / rows == pytest.approx(sent, abs=2)
    assert set(found.reveals) == {()}


def test_the_docstring_says_so() -> None:
    """Rounds and bytes, in words."""
    said = " ".join((secure_gradients.__doc__ or "").split())
    assert COSTS["count:poisson"] == COSTS["reg:gamma"]
    for (log_loss, squares, one, _, two, _), unit, more in (
        ([rounds for rounds, _ in COSTS.values()], "", MORE_ROUNDS),
        ([sent for _, sent in COSTS.values()], " bytes a row", MORE_BYTES),
    ):
        listed = f"{squares}{unit} for squared error, {log_loss} for log-loss, {one} for one exponential and {two}"
        assert f"{listed} for two, and {more} more where rows have weights" in said
    rounds, sent = COSTS["multi:softprob"]
    assert f"Of K classes {rounds - 8} rounds for every 2^17 / K rows, and 4 more for every doubling" in said
    assert f"{round(sent / 3)} bytes a row for each of three" in said


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_chunks_of_rows_are_worked_on_one_after_the_other(objective: str) -> None:
    """The same integers, for the rounds of each chunk, the last and shorter one's too."""
    some = problem(5, objective, "sample", 37)
    found = some.evaluated(tuning=Tuning(gradient_rows=48 if some.rules.classes else 16))
    np.testing.assert_array_equal(found.values[0].astype(np.int64), some.expected)
    assert {cost.rounds for cost in found.costs[1:]} == {3 * COSTS[objective][0]}


@pytest.mark.parametrize(("classes", "doublings"), [(1, 0), (2, 1), (4, 2), (5, 3), (9, 4), (20, 5)])
def test_any_number_of_classes(classes: int, doublings: int) -> None:
    """Bit for bit, for 4 rounds more with every doubling."""
    some = problem(classes, "multi:softprob", "none", 150, num_class=classes)
    found = some.evaluated()
    np.testing.assert_array_equal(found.values[0].astype(np.int64), some.expected, strict=True)
    assert {cost.rounds for cost in found.costs[1:]} == {36 + 4 * doublings}
    h = found.values[0].astype(np.int64)[:, 1]
    assert (h == 0).any()
    assert (h > 1 << 10).any() == (classes > 1)


def program(party: Party, some: Problem) -> Counts:
    """Share rows as a training does, compute, and return what it cost."""
    count = (some.y.shape[-1],)
    margins, labels = (
        share(party, 1, VECTOR, some.y.shape, RingArray.encode(VECTOR, x) if party.is_active else None)
        for x in (some.margins, some.y)
    )
    weights = inside = None
    if some.gate == "weights":
        values = RingArray.encode(VECTOR, some.gates) if party.is_active else None
        weights = share(party, 1, VECTOR, count, values)
    elif some.gate == "sample":
        inside = share_bit(party, 1, count, RingArray.encode(BIT, some.gates) if party.is_active else None)
    shares = secure_gradients(party, GradientRows(margins, labels, weights, inside), some.rules)
    assert shares.shape == some.rules.shape(2, *count)
    return party.meter.total()


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("gate", GATES)
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_rehearsal_costs_what_the_run_costs(objective: str, gate: str, topology: str) -> None:
    """Rounds and bytes of all roles, in chunks of rows of two sizes, of which it goes through some."""
    settings = SessionSettings(topology=topology, deadline=patience(60.0), tuning=Tuning(gradient_rows=8))
    some = problem(3, objective, gate, 8 * 7 + 3)
    run = run_locally(program, 3, [(some,)] * 4, settings)
    for role, cost in enumerate(run.results):
        party = DryRunParty(Roster.numbered(3), role, settings, {}, lambda name, shape: np.zeros(shape, np.int64))
        assert replace(program(party, some), seconds=0.0) == replace(cost, seconds=0.0)
