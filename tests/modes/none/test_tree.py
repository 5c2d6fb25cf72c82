"""Trees in the open against the oracle: integers of any size, ties, and scores that doubles cannot tell apart."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb import reference
from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.modes.none import tree as plain
from mpfedxgb.modes.none.tree import NO_SPLIT, PlainRules, PlainTable, _choose, grow_plain
from mpfedxgb.ring import kernels
from mpfedxgb.ring.plain_kernels import FEATURE
from mpfedxgb.tree.nodes import GrownLeaf, GrownSplit
from support.property_tests import examples

ROWS = 40


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    kernels.warm_up()


def columns_of(seed: int, participants: int) -> list[Candidates]:
    """Return everybody's candidates: numbers with gaps and ties, the same column twice, categories, nothing at all."""
    rng = np.random.default_rng(seed)
    same = np.round(rng.normal(size=ROWS), 1)
    out = []
    for m in range(participants):
        frame: dict[str, Any] = {"same": same, "flat": np.ones(ROWS)}
        if m % 2 == seed % 2:
            frame["gaps"] = np.where(rng.random(ROWS) < 0.3, np.nan, np.round(rng.normal(size=ROWS)))
            frame["words"] = pd.Categorical(rng.choice(np.array(["u", "v", "w", None], object), ROWS))
        if m == 1:
            frame = {"flat": np.ones(ROWS)}
        out.append(Candidates(bin_table(Table.read(pd.DataFrame(frame), f"P{m + 1}"), int(rng.integers(2, 9)))))
    return out


def as_reference(tree: Any, leaves: list[Any], g: Any, h: Any, first: list[int], number: int = 0) -> reference.RefNode:
    """Return a grown tree as the oracle writes it, without bounds: candidates of all participants, coins undone."""
    node = tree.nodes[number]
    if isinstance(node, GrownLeaf):
        rows = np.sort(leaves[node.place].rows)
        return reference.RefLeaf(tuple(rows.tolist()), int(g[rows].sum()), int(h[rows].sum()))
    assert isinstance(node, GrownSplit)
    left, right = (node.right, node.left) if node.flipped else (node.left, node.right)
    sides = [as_reference(tree, leaves, g, h, first, side) for side in (left, right)]
    return reference.RefSplit(first[node.owner - 1] + node.candidate, *sides)


@examples(120)
@given(
    seed=st.integers(0, 10**6),
    participants=st.integers(2, 4),
    max_depth=st.integers(1, 5),
    size=st.sampled_from([2, 2**20, 2**55]),
    lam=st.sampled_from([0, 1, 2**24, 2**84]),
    gam=st.sampled_from([1, 2**10, 2**60]),
    mcw=st.integers(0, 3),
    no_split_first=st.booleans(),
    first_layer_mask=st.booleans(),
    alpha=st.sampled_from([0, 0, 1, 3, 2**19, 2**56]),
    delta=st.sampled_from([None, None, 0, 1, 2**10, 2**17, 2**40]),
    places=st.sampled_from([0, 16]),
    coarse=st.sampled_from([None, None, 0, 3]),
    sampled=st.booleans(),
    at_once=st.sampled_from([1, 200, plain._AT_ONCE]),
)
def test_trees_are_the_oracles(
    seed: int, participants: int, size: int, sampled: bool, mcw: int, coarse: int | None, at_once: int, **rules: Any
) -> None:
    """Random columns, integers, constants and samples: the same splits, and the same rows in the same leaves.

    However many nodes have their sums kept at a time; with a number for `coarse` columns have directions.
    """
    rng = np.random.default_rng(seed)
    candidates = columns_of(seed, participants)
    g, h = rng.integers(-size, size + 1, ROWS), rng.integers(0, min(size, 2**24) + 1, ROWS)
    h[0] = 1
    mcw = max(mcw, rules["lam"] == 0)
    table = PlainTable.of(candidates, [()] * participants)
    directions = None
    if coarse is not None:
        rules["delta"] = 2**80 if rules["delta"] is None else rules["delta"] << coarse
        directions = rng.integers(-1, 2, table.items[-1, FEATURE] + 1 if len(table.items) else 0)[
            table.items[:, FEATURE]
        ]
    made = PlainRules(mcw=mcw, coarse=coarse or 0, directions=directions, **rules)
    allowed = (rng.random(len(table.items)) < 0.6).astype(np.uint8) if sampled else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_AT_ONCE", at_once)
        tree, leaves = grow_plain(table, np.stack([g, h]), made, allowed, lambda owner, node: bool((owner + node) % 2))

    first = slice(0, len(candidates[0])) if made.first_layer_mask else None
    oracle = reference.Rules(made.max_depth, made.lam, made.gam, mcw, made.no_split_first, first)
    oracle = replace(oracle, alpha=made.alpha, delta=made.delta, places=made.places, coarse=made.coarse)
    if directions is not None:
        oracle = replace(oracle, directions=tuple(directions.tolist()))
    bits = np.concatenate([own.tile() for own in candidates])
    expected = reference.grow(bits, g, h, oracle, allowed)
    starts = np.cumsum([0, *(len(own) for own in candidates)]).tolist()
    assert as_reference(tree, leaves, g, h, starts) == without_bounds(expected)
    for leaf, same in zip(leaves_of(tree), reference.leaves(expected), strict=True):
        weight = reference.weight(same.G, same.H, oracle, same.bounds)
        held = leaves[leaf.place].held
        assert (held is not None) == (directions is not None and reference.is_held(same, oracle))
        assert held is None or Fraction(held, 1 << made.places) == weight


def without_bounds(node: reference.RefNode) -> reference.RefNode:
    """Return a tree of the oracle without its leaves' bounds."""
    if isinstance(node, reference.RefLeaf):
        return replace(node, bounds=reference.Bounds())
    return replace(node, left=without_bounds(node.left), right=without_bounds(node.right))


def leaves_of(tree: Any, number: int = 0) -> list[GrownLeaf]:
    """Return a grown tree's leaves from left to right, coins undone."""
    node = tree.nodes[number]
    if isinstance(node, GrownLeaf):
        return [node]
    left, right = (node.right, node.left) if node.flipped else (node.left, node.right)
    return [*leaves_of(tree, left), *leaves_of(tree, right)]


def rules_of(**changes: Any) -> PlainRules:
    """Return rules of a tree of one level."""
    usual = {"max_depth": 1, "lam": 1, "gam": 1, "mcw": 0, "no_split_first": True, "first_layer_mask": False}
    return PlainRules(**usual | changes)


def score(G: int, H: int, GL: int, HL: int, lam: int) -> float:
    """Return a score as the kernel computes it."""
    return float(GL) ** 2 / (float(HL) + lam) + float(G - GL) ** 2 / (float(H - HL) + lam)


def oracles_choice(rules: PlainRules, G: int, H: int, left: list[tuple[int, int]]) -> int:
    """Return what the oracle takes."""
    oracle = reference.Rules(1, rules.lam, rules.gam, rules.mcw, rules.no_split_first)
    best = reference._best(left, G, H, oracle, np.ones(len(left), bool), range(len(left)))
    return NO_SPLIT if best is None else best


@examples(200)
@given(
    base=st.integers(2**40, 2**61),
    steps=st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), min_size=2, max_size=6),
    H=st.integers(2**30, 2**50),
    no_split_first=st.booleans(),
)
def test_neighbours_that_doubles_cannot_tell_apart(
    base: int, steps: list[tuple[int, int]], H: int, no_split_first: bool
) -> None:
    """Sums that differ by units of 2^61: an exact comparison finds the best, and of equal ones the first."""
    left = [(base + a, H // 2 + b) for a, b in steps]
    rules = rules_of(no_split_first=no_split_first)
    G = 3
    scores = np.array([score(G, H, *sums, rules.lam) for sums in left])
    assert scores.max() - scores.min() <= 1e-6 * scores.max()
    assert _choose(rules, G, H, np.array(left), scores) == oracles_choice(rules, G, H, left)


def test_such_neighbours_exist() -> None:
    """Two candidates whose doubles are equal, the second the better one by an integer: the comparison is exact."""
    G, H, rules = 3, 2**40, rules_of()
    left = [(2**60, 2**39), (2**60 + 1, 2**39)]
    scores = np.array([score(G, H, *sums, 1) for sums in left])
    assert scores[0] == scores[1]
    assert _choose(rules, G, H, np.array(left), scores) == 1
    assert _choose(rules, G, H, np.array(left[::-1]), scores) == 0


@pytest.mark.parametrize(("no_split_first", "best"), [(True, NO_SPLIT), (False, 0)])
def test_a_tie_with_no_split(no_split_first: bool, best: int) -> None:
    """Where a split gains exactly gamma, it depends on whether "no split" stands first."""
    G, H, left = 0, 2, [(-2, 1), (2, 1)]  # each side scores 4 / 2
    rules = rules_of(gam=4, no_split_first=no_split_first)
    scores = np.array([score(G, H, *sums, 1) for sums in left])
    assert scores.tolist() == [4.0, 4.0]
    assert _choose(rules, G, H, np.array(left), scores) == best == oracles_choice(rules, G, H, left)


def test_nobody_has_a_candidate() -> None:
    """A tree without columns to split by is one leaf of all rows."""
    flat = [Candidates(bin_table(Table.read(np.ones((ROWS, 1)), f"P{m}"), 4)) for m in (1, 2)]
    tree, leaves = grow_plain(
        PlainTable.of(flat, [(), ()]), np.ones((2, ROWS), np.int64), rules_of(), None, lambda owner, node: False
    )
    assert tree.nodes == [GrownLeaf(0)]
    assert leaves[0].rows.tolist() == list(range(ROWS))
