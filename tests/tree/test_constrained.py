"""Bounds of leaf weights on secrets against Python's integers: gains, validity, bounds of children, held weights."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb import reference
from mpfedxgb.party import Party
from mpfedxgb.protocols import Bit, Secret, Shares, long_division, public_secret, to_shares
from mpfedxgb.ring import BIT, VECTOR, wide
from mpfedxgb.tree import Constants, TreeRules
from mpfedxgb.tree.constrained import (
    bounds_of_children,
    constrained_gains,
    held_offset,
    held_weights,
    root_bounds,
    weights_within,
)
from support.evaluation import PROPERTY, SEEDS, Evaluation, Integers, evaluate, integers, operand, same

NODES, COLUMNS = 3, 5
PLACES, COARSE, LARGEST = 6, 2, 1 << 14
RULES = TreeRules(
    max_depth=3, ring=wide(4), checks_children=False, no_split_first=True, first_layer_mask=False, alpha_bits=40,
    clip_bits=80, places=PLACES, constrained=True, coarse=COARSE, bound_bits=LARGEST.bit_length() + 1,
    largest_step=LARGEST >> COARSE, divisor_bits=40, order_bits=80,
)  # fmt: skip

Case = dict[str, Any]


def case_of(seed: int, penalty: bool) -> Case:
    """Return sums, bounds and directions: of few units, so that bounds hold some sides and ties are met."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([4, 30, 1 << 20]))
    G = rng.integers(-size, size + 1, (NODES, COLUMNS + 1)).astype(object)
    H = rng.integers(0, size + 1, (NODES, COLUMNS)).astype(object)
    total = H.max(axis=1, keepdims=True) + rng.integers(0, size + 1, (NODES, 1)).astype(object)
    ends = np.sort(rng.integers(-200, 201, (NODES, 2)), axis=1).astype(object) << COARSE
    ends[0] = -LARGEST, LARGEST
    if seed % 3 == 0:
        ends[1, 0] = ends[1, 1]
    return {
        "sums": np.stack([G[:, :-1], H], axis=1),
        "totals": np.stack([G[:, -1], total[:, 0]], axis=1),
        "bounds": ends,
        "sigma": rng.integers(-1, 2, COLUMNS).astype(object),
        "lam": int(rng.integers(1, size + 2)),
        "gam": int(rng.integers(1, size + 2)),
        "mcw": int(rng.choice([0, 1, size // 3])),
        "alpha": int(abs(rng.choice(G.ravel()))) + 1 if penalty else 0,
        "allowed": rng.integers(0, 2, (NODES, COLUMNS)).astype(object),
    }


def plain_rules(case: Case) -> reference.Rules:
    """Return the oracle's rules."""
    return reference.Rules(
        3, case["lam"], case["gam"], case["mcw"], no_split_first=True, alpha=case["alpha"], delta=LARGEST,
        places=PLACES, directions=tuple(case["sigma"].tolist()), coarse=COARSE,
    )  # fmt: skip


def run(case: Case, names: str, compute: Any, participants: int = 3) -> Evaluation:
    """Share some of a case, by name, with the constants; `compute` gets a dict of secrets and the constants."""
    rings = {"sums": VECTOR, "totals": VECTOR, "mcw": VECTOR, "allowed": BIT}
    wanted = ["lam", "gam", "mcw", *(["alpha"] if case["alpha"] else []), *names.split()]

    def with_constants(party: Party, secrets: list[Secret]) -> list[Secret | Shares]:
        of = dict(zip(wanted, secrets, strict=True))
        constants = Constants(of["lam"], of["gam"], of["mcw"], of.get("alpha"))
        found: list[Secret | Shares] = compute(party, of, constants)
        return found

    return evaluate(
        participants, [operand(rings.get(name, RULES.ring), integers(case[name])) for name in wanted], with_constants
    )


def gains_of(case: Case, rules: TreeRules, samples: bool, participants: int = 3) -> Evaluation:
    """Return A and B, and who is valid, of a case."""

    def compute(party: Party, of: dict[str, Secret], constants: Constants) -> list[Secret | Shares]:
        tags = public_secret(party, VECTOR, np.arange(COLUMNS + 1)).broadcast_to((NODES, COLUMNS + 1))
        allowed = Bit(of["allowed"]) if samples else None
        numbers = of["bounds"], of["sigma"], constants, rules, allowed, tags
        found = constrained_gains(party, to_shares(party, of["sums"]), of["totals"], *numbers)
        assert found.signed
        assert found.valid is not None
        return [found.value, found.valid]

    return run(case, "sums totals bounds sigma" + " allowed" * samples, compute, participants)


@pytest.mark.parametrize("penalty", [False, True])
@pytest.mark.parametrize(("checks", "samples"), [(False, False), (True, False), (False, True), (True, True)])
@given(seed=SEEDS)
@PROPERTY
def test_gains_within_bounds_are_the_oracles(penalty: bool, checks: bool, samples: bool, seed: int) -> None:
    """Scores of either sign, as exact fractions, and which candidates keep to their columns' directions."""
    case, first = case_of(seed, penalty), bool(seed % 2)
    rules = replace(RULES, checks_children=checks, no_split_first=first)
    plain = plain_rules(case)
    (A, B), valid = gains_of(case, rules, samples, 2 + seed % 2).values

    for i, (G, H) in enumerate(case["totals"].tolist()):
        bounds = reference.Bounds(*case["bounds"][i].tolist())
        none, *columns = (0, *range(1, COLUMNS + 1)) if first else (-1, *range(COLUMNS))
        unit = 1 << 2 * PLACES
        right = (reference.score(G, H, plain, bounds) + case["gam"]) * unit
        assert (A[i, none], B[i, none], valid[i, none]) == (right * (H + case["lam"]), H + case["lam"], 1)
        for j, place in enumerate(columns):
            GL, HL = case["sums"][i, :, j].tolist()
            sides = (GL, HL), (G - GL, H - HL)
            score = sum(reference.score(*side, plain, bounds) for side in sides)
            assert B[i, place] == (HL + case["lam"]) * (H - HL + case["lam"])
            assert A[i, place] == score * unit * B[i, place]
            keeps = reference.keeps_to(case["sigma"][j], *sides, plain)
            heavy = not checks or min(HL, H - HL) >= case["mcw"]
            assert valid[i, place] == (keeps and heavy and (not samples or case["allowed"][i, j] == 1))


@pytest.mark.parametrize("penalty", [False, True])
@given(seed=SEEDS)
@PROPERTY
def test_bounds_of_children_are_the_oracles(penalty: bool, seed: int) -> None:
    """Parted in the middle of rounded weights, one way or the other, or as their parents'."""
    case = case_of(seed, penalty)
    case["sigma"] = np.array([1, -1, 0, 0, 0])
    sides = [(case["sums"][i, :, 0], case["totals"][i] - case["sums"][i, :, 0]) for i in range(NODES)]
    case["sums"] = np.stack([pair[k] for k in (0, 1) for pair in sides])
    case["sides"] = np.array([[sign > 0, sign < 0] for sign in case["sigma"][:NODES]], object).astype(int)

    def compute(party: Party, of: dict[str, Secret], constants: Constants) -> list[Secret | Shares]:
        sides = Bit(public_secret(party, BIT, case["sides"]))
        return [bounds_of_children(party, of["sums"], of["bounds"], sides, constants, RULES)]

    (found,) = run(case, "sums bounds", compute, 2 + seed % 2).values

    for i, (left, right) in enumerate(sides):
        numbers = (int(left[0]), int(left[1])), (int(right[0]), int(right[1]))
        parent = reference.Bounds(*case["bounds"][i].tolist())
        expected = reference.bounds_of_sides(int(case["sigma"][i]), *numbers, plain_rules(case), parent)
        assert [tuple(found[i]), tuple(found[NODES + i])] == [(one.lo, one.hi) for one in expected]


@pytest.mark.parametrize("penalty", [False, True])
@given(seed=SEEDS)
@PROPERTY
def test_held_weights_are_the_oracles(penalty: bool, seed: int) -> None:
    """The bound that holds a weight, 0 for those within theirs, in shares; and all weights as fractions."""
    case = case_of(seed, penalty)
    case["sums"] = case["totals"]

    def compute(party: Party, of: dict[str, Secret], constants: Constants) -> list[Secret | Shares]:
        numbers = of["sums"], of["bounds"], constants, RULES
        return [held_weights(party, *numbers), *weights_within(party, *numbers)]

    held, numerator, D = run(case, "sums bounds", compute, 2 + seed % 2).values

    for i, (G, H) in enumerate(case["sums"].tolist()):
        bounds, plain = reference.Bounds(*case["bounds"][i].tolist()), plain_rules(case)
        w = reference.weight(G, H, plain, bounds)
        free = w == reference.weight(G, H, plain, reference.Bounds())
        assert held[i] == (0 if free else w * (1 << PLACES) + held_offset(RULES))
        assert (numerator[i], D[i]) == (w * (H + case["lam"]) * (1 << PLACES), H + case["lam"])


@pytest.mark.parametrize("penalty", [False, True])
def test_rounds_and_reveals(penalty: bool) -> None:
    """As many rounds as the docstrings say, and nothing on the ledger."""
    case, more = case_of(1, penalty), 2 * penalty
    case["sides"] = np.zeros((NODES, 2), int)

    def compute(party: Party, of: dict[str, Secret], constants: Constants) -> list[Secret | Shares]:
        return [held_weights(party, of["totals"], of["bounds"], constants, RULES)]

    def of_children(party: Party, of: dict[str, Secret], constants: Constants) -> list[Secret | Shares]:
        sums = of["totals"].broadcast_to((2, NODES, 2)).reshape(2 * NODES, 2)
        sides = Bit(public_secret(party, BIT, case["sides"]))
        return [bounds_of_children(party, sums, of["bounds"], sides, constants, RULES)]

    bits = RULES.largest_step.bit_length() + 1
    division = long_division(2 * NODES, RULES.ring, bits, RULES.divisor_bits + COARSE + 1, 3)
    found = {
        7 + more: gains_of(case, RULES, samples=True),
        5 + more: run(case, "totals bounds", compute),
        9 + more + len(division.opened_bytes()): run(case, "totals bounds", of_children),
    }

    for rounds, evaluation in found.items():
        assert [counts.rounds for counts in evaluation.costs] == [0] + [rounds] * 3
        assert evaluation.reveals == [()] * 4


def test_bounds_of_roots() -> None:
    """Weights of roots are held to delta on both sides."""

    def compute(party: Party, secrets: list[Secret]) -> list[Secret]:
        zero = public_secret(party, RULES.ring, 0)
        return [root_bounds(Constants(zero, zero, zero, delta=secrets[0]), 2)]

    values: Integers = evaluate(2, [operand(RULES.ring, 7)], compute).values[0]
    same(values, RULES.ring, integers([[-7, 7]] * 2))
