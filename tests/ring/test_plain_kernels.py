"""The loops of trees in the open against NumPy and Python's integers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data import Candidates, Table, bin_table
from mpfedxgb.modes.none.tree import NEAR, PlainTable
from mpfedxgb.ring import kernels
from mpfedxgb.ring.plain_kernels import FEATURE, NOT_ALLOWED, part_rows, score_candidates, sum_bins
from support.property_tests import examples

ROWS = 70


@pytest.fixture(scope="module", autouse=True)
def _compiled() -> None:
    kernels.warm_up()


def candidates_of(seed: int, max_bin: int) -> Candidates:
    """Return candidates on numbers with gaps and on categories; with max_bin 300 codes have two bytes."""
    rng = np.random.default_rng(seed)
    rows = ROWS if max_bin < 300 else 10 * ROWS
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=rows),
            "gaps": np.where(rng.random(rows) < 0.3, np.nan, rng.integers(0, 5, rows)),
            "words": pd.Categorical(rng.choice(np.array(["u", "v", None], object), rows)),
        }
    )
    return Candidates(bin_table(Table.read(frame, "P1"), max_bin))


@examples(60)
@given(
    seed=st.integers(0, 10**6),
    max_bin=st.sampled_from([2, 3, 40, 300]),
    size=st.sampled_from([1, 2**30, 2**50]),
    lam=st.sampled_from([0, 1, 2**70]),
    nodes=st.integers(1, 4),
)
def test_sums_are_exact_and_scores_near(seed: int, max_bin: int, size: int, lam: int, nodes: int) -> None:
    """Left sums are those of the bit columns; a score is nearer to the fraction than a quarter of what is looked at."""
    rng = np.random.default_rng(seed)
    own = candidates_of(seed, max_bin)
    rows = own.bins.table.rows
    table = PlainTable.of([own], [()])
    gh = np.stack([rng.integers(-size, size + 1, rows), rng.integers(1, size + 1, rows)], axis=1)
    order = rng.permutation(rows)
    cuts = np.sort(rng.integers(0, rows + 1, nodes - 1))
    bounds = np.stack([np.r_[0, cuts], np.r_[cuts, rows]], axis=1).astype(np.int64)
    allowed = (rng.random(len(own)) < 0.8).astype(np.uint8)
    left, scores = np.zeros((nodes, len(own), 2), np.int64), np.zeros((nodes, len(own)))
    wanted = np.zeros(len(table.counts), np.uint8)
    wanted[table.items[allowed != 0, FEATURE]] = 1
    places = rng.permutation(nodes)
    sums = np.full((nodes, 1 + int((table.counts + 1).sum()), 2), 7, np.int64)

    sum_bins(table.codes, order, gh[order], np.c_[bounds, places], table.counts, wanted, sums)
    sums = sums[places]
    score_candidates(sums, table.items, table.counts, allowed, float(lam), 1, 0, math.inf, left, scores)
    totals = sums[:, 0]

    bits = own.tile().astype(np.int64)
    for n, (start, stop) in enumerate(bounds.tolist()):
        here = order[start:stop]
        assert totals[n].tolist() == gh[here].sum(axis=0).tolist()
        expected = bits[:, here] @ gh[here]
        G, H = totals[n].tolist()
        for c in range(len(own)):
            if not allowed[c]:
                assert scores[n, c] == NOT_ALLOWED
                continue
            GL, HL = expected[c].tolist()
            assert left[n, c].tolist() == [GL, HL]
            if min(HL, H - HL) < 1:
                assert scores[n, c] == NOT_ALLOWED
                continue
            exact = Fraction(GL**2, HL + lam) + Fraction((G - GL) ** 2, H - HL + lam)
            assert abs(Fraction(float(scores[n, c])) - exact) <= exact * Fraction(NEAR) / 4


@examples(40)
@given(seed=st.integers(0, 10**6), max_bin=st.sampled_from([2, 40, 300]))
def test_rows_go_to_their_sides(seed: int, max_bin: int) -> None:
    """Those that go left first, in the order they had, with their g and h; other nodes' rows stay."""
    rng = np.random.default_rng(seed)
    own = candidates_of(seed, max_bin)
    rows = own.bins.table.rows
    table, bits = PlainTable.of([own], [()]), own.tile().astype(bool)
    order = rng.permutation(rows)
    gh = np.stack([order * 3, order * 5], axis=1)
    before, third = order.copy(), rows // 3
    chosen = rng.integers(0, len(own), 2).tolist()
    splits = np.array([(0, third, chosen[0]), (2 * third, rows, chosen[1])], np.int64)
    middles = np.zeros(2, np.int64)

    part_rows(table.codes, table.items, table.counts, splits, order, gh, middles)

    for (start, stop, c), middle in zip(splits.tolist(), middles.tolist(), strict=True):
        here = before[start:stop]
        assert order[start:middle].tolist() == here[bits[c, here]].tolist()
        assert order[middle:stop].tolist() == here[~bits[c, here]].tolist()
    assert order[third : 2 * third].tolist() == before[third : 2 * third].tolist()
    np.testing.assert_array_equal(gh, np.stack([order * 3, order * 5], axis=1))
