"""Gains as exact fractions, of bounded weights too: candidates, "no split", and those that are not allowed."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given

from mpfedxgb.party import Party
from mpfedxgb.protocols import Bit, Secret, Shares, public_secret, to_shares
from mpfedxgb.ring import BIT, VECTOR, wide
from mpfedxgb.tree import Constants, TreeRules
from mpfedxgb.tree.bounded import bounded_gains
from mpfedxgb.tree.level import gains
from support.evaluation import PROPERTY, SEEDS, Evaluation, Integers, bulk, evaluate, integers, operand, same

NODES, COLUMNS = 3, 5


def node_sums(rng: np.random.Generator, bits: int) -> tuple[Integers, Integers]:
    """Return left sums (nodes, 2, columns) and totals (nodes, 2): any G, and H from no row to all of them."""
    G = bulk(rng, bits, (NODES, 1, COLUMNS + 1))
    H = abs(bulk(rng, bits - 1, (NODES, 1, COLUMNS + 1)))
    H[..., -1] = H[..., :-1].max(axis=-1) + abs(bulk(rng, bits - 1, (NODES, 1)))
    H[:, 0, 0], H[:, 0, 1] = 0, H[:, 0, -1]  # an empty side on the left, and one on the right
    both = np.concatenate([G, H], axis=1)
    return integers(both[..., :-1]), integers(both[..., -1])


def secure_gains(
    participants: int,
    sums: Integers,
    totals: Integers,
    constants: tuple[int, int, int],
    rules: TreeRules,
    allowed: Integers | None,
    alpha: int = 0,
    delta: int = 0,
) -> Evaluation:
    """Run the protocol on shared sums; returns A and B as one array (2, nodes, columns + 1), the tags, who is valid."""
    lam, gam, mcw = constants
    held = {name: value for name, value in (("alpha", alpha), ("delta", delta)) if value}
    operands = [operand(VECTOR, sums), operand(VECTOR, totals), operand(VECTOR, mcw)]
    operands += [operand(rules.ring, value) for value in (lam, gam, *held.values())]
    operands += [] if allowed is None else [operand(BIT, allowed)]

    def compute(party: Party, secrets: list[Secret]) -> list[Secret | Shares]:
        left, total, mcw_, lam_, gam_ = secrets[:5]
        permitted = None if allowed is None else Bit(secrets[-1])
        tags = public_secret(party, VECTOR, np.arange(COLUMNS + 1)).broadcast_to((NODES, COLUMNS + 1))
        constants = Constants(lam_, gam_, mcw_, **dict(zip(held, secrets[5:], strict=False)))
        of_level = bounded_gains if held else gains
        fractions = of_level(party, to_shares(party, left), total, constants, rules, permitted, tags)
        return [fractions.value, fractions.tag, *([] if fractions.valid is None else [fractions.valid])]

    return evaluate(participants, operands, compute)


def plain_gains(sums: Integers, totals: Integers, constants: tuple[int, int, int], rules: TreeRules) -> Integers:
    """Return what A and B should be, in Python integers."""
    lam, gam, _ = constants
    out = np.empty((2, NODES, COLUMNS + 1), object)
    first = 1 if rules.no_split_first else 0
    for i, (G, H) in enumerate(totals):
        out[:, i, 0 if first else -1] = G * G + gam * (H + lam), H + lam
        for j in range(COLUMNS):
            GL, HL = sums[i, :, j]
            GR, HR = G - GL, H - HL
            out[:, i, first + j] = GL**2 * (HR + lam) + GR**2 * (HL + lam), (HL + lam) * (HR + lam)
    return out


def valid_ones(sums: Integers, totals: Integers, mcw: int, rules: TreeRules, allowed: Integers | None) -> Integers:
    """Return which candidates are neither too light on a side nor left out; "no split" always takes part."""
    valid = np.ones((NODES, COLUMNS), int) if allowed is None else allowed.astype(int)
    if rules.checks_children:
        lighter = np.minimum(sums[:, 1], totals[:, 1:] - sums[:, 1])
        valid = valid * (lighter >= mcw).astype(int)
    always = np.ones((NODES, 1), int)
    return integers(np.concatenate([always, valid] if rules.no_split_first else [valid, always], axis=1))


@pytest.mark.parametrize(("checks", "samples", "first"), list(product([False, True], repeat=3)))
@given(seed=SEEDS)
@PROPERTY
def test_gains_are_exact_fractions(checks: bool, samples: bool, first: bool, seed: int) -> None:
    """Sums of up to 61 bits, any constants: A and B to the last bit; which candidates are valid, if some may not be."""
    rng = np.random.default_rng(seed)
    sums, totals = node_sums(rng, int(rng.integers(3, 62)))
    middle = int(np.sort(sums[:, 1].ravel())[sums[:, 1].size // 2])
    constants = (int(rng.integers(0, 1 << 40)), int(rng.integers(1, 1 << 62)), int(rng.choice([0, 1, middle])))
    rules = TreeRules(max_depth=3, ring=wide(4), checks_children=checks, no_split_first=first, first_layer_mask=False)
    allowed = integers(rng.integers(0, 2, (NODES, COLUMNS))) if samples else None

    found = secure_gains(int(rng.integers(2, 4)), sums, totals, constants, rules, allowed).values

    same(found[0], rules.ring, plain_gains(sums, totals, constants, rules))
    same(found[1], VECTOR, np.broadcast_to(np.arange(COLUMNS + 1), (NODES, COLUMNS + 1)))
    assert len(found) == 2 + (checks or samples)
    for valid in found[2:]:
        same(valid, BIT, valid_ones(sums, totals, constants[2], rules, allowed))


@pytest.mark.parametrize("mcw", [4, 5, 6])
def test_weight_of_a_child_at_the_limit(mcw: int) -> None:
    """Just heavy enough is enough, on either side; lambda does not count."""
    left = integers([[[1, 1, 1, 1, 1], [0, 4, 5, 6, 10]]] * NODES)
    totals = integers([[3, 10]] * NODES)
    rules = TreeRules(
        max_depth=3, ring=wide(3), checks_children=True, no_split_first=True, first_layer_mask=False, hessian_bits=5
    )
    valid = secure_gains(2, left, totals, (7, 1, mcw), rules, None).values[2]

    assert valid[0][1:].tolist() == [min(h, 10 - h) >= mcw for h in (0, 4, 5, 6, 10)]


@pytest.mark.parametrize(("checks", "samples"), list(product([False, True], repeat=2)))
def test_rounds_and_reveals(checks: bool, samples: bool) -> None:
    """As many rounds as the docstring says, and nothing on the ledger."""
    sums, totals = node_sums(np.random.default_rng(1), 20)
    rules = TreeRules(max_depth=3, ring=wide(3), checks_children=checks, no_split_first=True, first_layer_mask=False)
    allowed = integers(np.ones((NODES, COLUMNS), int)) if samples else None
    found = secure_gains(3, sums, totals, (1, 1, 1), rules, allowed)

    assert [counts.rounds for counts in found.costs] == [0] + [3] * 3
    assert found.reveals == [()] * 4


# Weights that an L1 penalty or bounds hold back


def bounded_numerator(G: int, D: int, alpha: int, delta: int, places: int) -> int:
    """Return D times what a side's weight takes off the loss, twice, times 2^(2 places)."""
    T = max(abs(G) - alpha, 0) << places
    step = delta * D
    return step * (2 * T - step) if delta and step < T else T * T


def bounded_fractions(
    sums: Integers, totals: Integers, constants: tuple[int, int, int], rules: TreeRules, alpha: int, delta: int
) -> Integers:
    """Return what A and B should be, in Python integers."""
    lam, gam, _ = constants
    out = np.empty((2, NODES, COLUMNS + 1), object)
    first = 1 if rules.no_split_first else 0

    def numerator(G: int, H: int) -> int:
        return bounded_numerator(G, H + lam, alpha, delta, rules.places)

    for i, (G, H) in enumerate(totals):
        out[:, i, 0 if first else -1] = numerator(G, H) + (gam * (H + lam) << 2 * rules.places), H + lam
        for j in range(COLUMNS):
            GL, HL = sums[i, :, j]
            GR, HR = G - GL, H - HL
            A = numerator(GL, HL) * (HR + lam) + numerator(GR, HR) * (HL + lam)
            out[:, i, first + j] = A, (HL + lam) * (HR + lam)
    return out


@pytest.mark.parametrize(("checks", "samples"), list(product([False, True], repeat=2)))
@pytest.mark.parametrize(("penalty", "bound"), [(True, False), (False, True), (True, True)])
@given(seed=SEEDS)
@PROPERTY
def test_bounded_gains_are_exact_fractions(penalty: bool, bound: bool, checks: bool, samples: bool, seed: int) -> None:
    """Thresholds and bounds that hold none of the sides back, some, or all: A and B to the last bit; who is valid."""
    rng = np.random.default_rng(seed)
    size, places = int(rng.integers(3, 36)), int(rng.choice([0, 3, 16])) if bound else 0
    sums, totals = node_sums(rng, size)
    G = np.concatenate([sums[:, 0].ravel(), (totals[:, :1] - sums[:, 0]).ravel()])
    alpha = int(abs(rng.choice(G))) + int(rng.integers(0, 2)) if penalty else 0
    least = int(rng.choice([0, 1, 1 << size // 2]))
    constants = (int(rng.integers(1, 1 << size)), int(rng.integers(1, 1 << 40)), least)
    delta = max(1, (int(abs(rng.choice(G))) << places) // int(rng.integers(1, 1 << size))) if bound else 0
    rules = TreeRules(
        max_depth=3, ring=wide(4), checks_children=checks, no_split_first=bool(seed % 2), first_layer_mask=False,
        alpha_bits=64 if penalty else 0, clip_bits=256 if bound else 0, places=places,
    )  # fmt: skip
    allowed = integers(rng.integers(0, 2, (NODES, COLUMNS))) if samples else None

    found = secure_gains(int(rng.integers(2, 4)), sums, totals, constants, rules, allowed, alpha, delta).values

    same(found[0], rules.ring, bounded_fractions(sums, totals, constants, rules, alpha, delta))
    assert len(found) == 2 + (checks or samples)
    for valid in found[2:]:
        same(valid, BIT, valid_ones(sums, totals, constants[2], rules, allowed))


@pytest.mark.parametrize(("alpha", "delta", "rounds"), [(3, 0, 6), (0, 3, 7), (3, 3, 7)])
@pytest.mark.parametrize("checks", [False, True])
def test_rounds_and_reveals_of_bounded_gains(alpha: int, delta: int, rounds: int, checks: bool) -> None:
    """As many rounds as the docstring says, and nothing on the ledger."""
    sums, totals = node_sums(np.random.default_rng(1), 20)
    rules = TreeRules(
        max_depth=3, ring=wide(4), checks_children=checks, no_split_first=True, first_layer_mask=False,
        alpha_bits=30, clip_bits=70, places=4,
    )  # fmt: skip
    found = secure_gains(3, sums, totals, (1, 1, 1), rules, None, alpha, delta)

    assert [counts.rounds for counts in found.costs] == [0] + [rounds] * 3
    assert found.reveals == [()] * 4
