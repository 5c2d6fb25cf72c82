"""One round of a sealed training on secrets: what is shared first, gradients, margins; and what each step costs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from mpfedxgb.boosting import Labels, scales
from mpfedxgb.boosting.params import TrainParams
from mpfedxgb.boosting.sampling import row_sample
from mpfedxgb.config import TOPOLOGIES, SessionSettings
from mpfedxgb.modes.sealed.encoding import SealedLabels, SealedRules, encode_labels, plain_gradients, sealed_rules
from mpfedxgb.modes.sealed.gradients import secure_gradients
from mpfedxgb.modes.sealed.labels import Sealed, add_leaves, seal, sealed_gradients
from mpfedxgb.party import ACTIVE, Counts, LocalRun, Party, Reveal, run_locally
from mpfedxgb.party.entries import Entry
from mpfedxgb.protocols import share
from mpfedxgb.ring import VECTOR, RingArray, wide
from mpfedxgb.tree import Grown, TableSizes
from patience import patience
from support.small_trees import opened, share_members

ROWS, EVAL_ROWS = 24, 9
WEIGHTS = np.array([-(1 << 24), 5, 1 << 25])
RATE, KEY = 0.6, "a key of the test's"
LEAF = np.random.default_rng(4).integers(0, 3, ROWS + EVAL_ROWS)
MEMBERS = (np.arange(3)[:, None] == LEAF).astype(np.uint8)
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Seen:
    """What one role has seen: gradients of two rounds, margins, what evaluation rows add up to; and the costs."""

    first: Any
    second: Any
    margins: Any
    told: Any
    kept: Any
    costs: dict[str, Counts]
    private: SealedLabels | None


def rules_and_labels(objective: str, weighted: bool) -> tuple[TrainParams, scales.ScalePlan, SealedRules, SealedLabels]:
    """Return the numbers of a small training."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, ROWS).astype(np.float64)
    if objective != "binary:logistic":
        y = rng.normal(size=ROWS) if objective == "reg:squarederror" else y * rng.gamma(1.0, size=ROWS)
    labels = Labels(y, rng.choice([0.0, 0.5, 1.0], ROWS) if weighted else None)
    params = TrainParams(objective=objective, security="sealed", weighted=weighted)
    plan = scales.plan(params, ROWS)
    rules = sealed_rules(params, plan, ROWS)
    start = np.full(ROWS + EVAL_ROWS, params.loss.base_margin(labels.y, labels.weight, None, 1)[0])
    return params, plan, rules, encode_labels(params, plan, rules, labels.y, labels.weight, start, ROWS)


def program(party: Party, objective: str, weighted: bool, subsample: float, eval_rows: int) -> Seen:
    """Seal, compute gradients, add a tree's leaves, keep the margins and take them up again; gradients once more."""
    params, plan, rules, labels = rules_and_labels(objective, weighted)
    sizes = TableSizes(ROWS, eval_rows, (1, 1))
    private = replace(labels, start=labels.start[: sizes.all_rows]) if party.is_active else None
    with party.phase("seal"):
        sealed: Sealed = seal(party, params, plan, rules, wide(plan.limbs), sizes, private)
    with party.phase("first"):
        first, _ = sealed_gradients(party, sealed, subsample, KEY, 0)
    values = RingArray.encode(VECTOR, WEIGHTS) if party.is_active else None
    grown = Grown([], share_members(party, MEMBERS[:, : sizes.all_rows]))
    weights = share(party, ACTIVE, VECTOR, (3,), values)
    with party.phase("leaves"):
        told = add_leaves(party, sealed, grown, weights)
    ledger = tuple(party.ledger)
    kept = sealed.margin_shares_to_save(party)
    with party.phase("take up"):
        sealed.resume_from_shares(party, kept)
    with party.phase("second"):
        second, _ = sealed_gradients(party, sealed, subsample, KEY, 1)
    assert tuple(party.ledger) == ledger, "nothing is revealed but what evaluation rows add up to"
    costs = {name: party.meter.total(name) for name in ("seal", "first", "leaves", "take up", "second")}
    assert sealed.margins is not None
    gradients = opened(party, first), opened(party, second)
    return Seen(*gradients, opened(party, sealed.margins), told, kept, costs, private)


def run(
    objective: str = "binary:logistic", weighted: bool = False, subsample: float = 1.0, eval_rows: int = EVAL_ROWS,
    topology: str = "star",
) -> LocalRun[Seen]:  # fmt: skip
    """Run one and a half rounds with three participants."""
    settings = SessionSettings(topology=topology, deadline=patience(60.0))
    return run_locally(program, 3, [(objective, weighted, subsample, eval_rows)] * 4, settings)


OPTIONS = [
    (objective, weighted, subsample)
    for objective in ("binary:logistic", "reg:squarederror", "reg:tweedie")
    for weighted in (False, True)
    for subsample in (1.0, RATE)
]


@pytest.mark.parametrize(("objective", "weighted", "subsample"), OPTIONS)
def test_a_round_computes_what_the_clear_does(objective: str, weighted: bool, subsample: float) -> None:
    """First gradients, margins after a tree, gradients from these; samples are other rows in each round."""
    found = run(objective, weighted, subsample)
    active = found.results[ACTIVE]
    named: Any = SimpleNamespace(name="P1", keys=None)  # who draws samples by a key
    _, _, rules, labels = rules_and_labels(objective, weighted)
    margins = labels.start + WEIGHTS[LEAF]
    np.testing.assert_array_equal(active.margins, margins)
    np.testing.assert_array_equal(active.told, (margins - labels.start)[ROWS:])
    for t, (gh, at) in enumerate([(active.first, labels.start[:ROWS]), (active.second, margins[:ROWS])]):
        inside = np.ones(ROWS, np.int64)
        if subsample < 1:
            inside = row_sample(named, subsample, ROWS, KEY, t).astype(np.int64)
            assert 0 < inside.sum() < ROWS
        expected = plain_gradients(rules, at, labels.y, labels.weights) * inside
        np.testing.assert_array_equal(gh, expected[None])


def test_evaluation_rows_are_told_to_the_active_participant_alone() -> None:
    """By name and count on everybody's ledger; without such rows, nothing."""
    found = run()
    assert [seen.told is not None for seen in found.results] == [False, True, False, False]
    reveal = Reveal(Entry.EVALUATION_MARGINS, "P1", EVAL_ROWS)
    assert all(reveal in set(ledger) for ledger in found.ledgers)
    without = run(eval_rows=0)
    assert all(seen.told is None for seen in without.results)
    assert not any(reveal.name == Entry.EVALUATION_MARGINS for ledger in without.ledgers for reveal in ledger)


def test_kept_shares_add_up_to_the_margins() -> None:
    """Each participant keeps a share of every row's margin, which alone is no margin; the coordinator none."""
    found = run()
    coordinator, *parts = (seen.kept for seen in found.results)
    assert coordinator is None
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(np.sum(parts, axis=0)[0], found.results[ACTIVE].margins)
    for part in parts:
        assert part.shape == (1, ROWS + EVAL_ROWS)
        assert len(np.unique(part)) == ROWS + EVAL_ROWS  # margins are three different numbers


@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize(("objective", "weighted", "subsample"), OPTIONS)
def test_costs_are_those_of_the_docstrings(objective: str, weighted: bool, subsample: float, topology: str) -> None:
    """Rounds of each step, and the bytes of those that send little."""
    found = run(objective, weighted, subsample, topology=topology)
    gradients = {"binary:logistic": 16, "reg:squarederror": 3, "reg:tweedie": 18}[objective] + 6 * weighted
    rounds = {"seal": 1, "first": 1, "leaves": 2, "take up": 1, "second": 1 + gradients + (subsample < 1)}
    for seen in found.results[1:]:
        assert {name: cost.rounds for name, cost in seen.costs.items()} == rounds
    every = ROWS + EVAL_ROWS
    secret = 0 if (objective, weighted) == ("binary:logistic", False) else 8 + 2 * rules_ring(objective, weighted)
    sent = found.results[ACTIVE].costs["seal"].payload_sent
    assert sent == dict.fromkeys(("P2", "P3"), 8 * ROWS * (1 + weighted) + secret)
    for role in (2, 3):
        costs = found.results[role].costs
        to = ["P1"] if topology == "star" else [name for name in ("P1", "P2", "P3") if name != f"P{role}"]
        assert costs["take up"].payload_sent == dict.fromkeys(to, 8 * every)
        assert costs["leaves"].payload_sent["P1"] == 8 * every + 8 * EVAL_ROWS
        assert costs["seal"].bytes_sent == costs["first"].bytes_sent == 0


def rules_ring(objective: str, weighted: bool) -> int:
    """Return the bytes of an element of the ring that gains are computed in."""
    _, plan, _, _ = rules_and_labels(objective, weighted)
    return 8 * plan.limbs


def test_docstrings_say_so() -> None:
    """In words."""
    said = {f: " ".join((f.__doc__ or "").split()) for f in (seal, sealed_gradients, add_leaves, secure_gradients)}
    assert "Rounds: 1. Sent: 8 bytes per row by the active participant, 16 where rows have weights" in said[seal]
    assert (
        "Rounds: 1 in the first round; later 1 and those of `secure_gradients`, and 1 for a sample"
        in (said[sealed_gradients])
    )
    assert "Rounds: 1, and 1 for evaluation rows. Sent: one element per row by each auxiliary" in said[add_leaves]
