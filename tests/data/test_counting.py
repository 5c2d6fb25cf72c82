"""Counts of values: exact while they fit, and else by leading bits, whoever counts which rows in which order."""

from __future__ import annotations

import logging

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data import Table, binning
from mpfedxgb.data.binning import ValueCounts, add_counts, bin_table, count_values
from support.property_tests import examples

VALUES = st.lists(
    st.floats(width=32, allow_nan=True, allow_infinity=False) | st.integers(-4, 4).map(float), min_size=1, max_size=60
)


def as_lists(found: ValueCounts) -> tuple[list[float], list[int], bool, int]:
    """Return counts in a form that compares."""
    return found.values.tolist(), found.counts.tolist(), found.has_missing, found.shift


@given(VALUES, st.integers(2, 80), st.randoms(use_true_random=False))
@examples(150)
def test_counts_of_parts_add_up(values: list[float], most: int, order: object) -> None:
    """Any cut into parts, in any order, gives the counts of the whole, exact or not."""
    column = np.array(values, np.float32)
    whole = count_values(column, most)
    shuffled = column[np.random.default_rng(len(values)).permutation(len(column))]
    cut = len(values) // 3

    parts = [count_values(part, most) for part in (shuffled[cut:], shuffled[:cut]) if len(part)]

    assert as_lists(add_counts(parts, most)) == as_lists(whole)


@given(VALUES, st.integers(2, 80))
@examples(150)
def test_exact_while_it_fits(values: list[float], most: int) -> None:
    """Up to the limit every value is counted; beyond, neighbours are, and no row is lost."""
    column = np.array(values, np.float32)
    found = count_values(column, most)
    different, counts = np.unique(column[~np.isnan(column)], return_counts=True)

    assert found.is_exact == (len(different) <= most)
    assert len(found.values) <= most
    assert found.counts.sum() == counts.sum()
    assert np.isin(found.values, different).all()
    assert found.has_missing == bool(np.isnan(column).any())
    if found.is_exact:
        assert found.values.tolist() == different.tolist()
        assert found.counts.tolist() == counts.tolist()
    elif len(different):
        assert found.values[-1] == different[-1]
        assert _spread(found, column) < 1 << found.shift


def _spread(found: ValueCounts, column: npt.NDArray[np.float32]) -> int:
    """Return how many steps of float32 lie between any value and the one that it is counted for."""
    present = column[~np.isnan(column)] + np.float32(0)
    places = [binning._ordered(x).astype(np.int64) for x in (present, found.values)]
    return int((places[1][np.searchsorted(found.values, present)] - places[0]).max())


def test_a_column_beyond_the_limit_is_said_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its bins are nearly of equal frequency all the same, and the log names it."""
    values = np.random.default_rng(5).normal(size=5000).astype(np.float32)
    table = Table.read({"x": values, "few": values > 0}, "bank")
    exact = bin_table(table, 8)
    assert not caplog.records
    monkeypatch.setattr(binning, "count_values", lambda column: count_values(column, 1000))

    with caplog.at_level(logging.WARNING, "mpfedxgb.data"):
        sketched = bin_table(table, 8)

    assert [r.getMessage() for r in caplog.records] == [
        "column 'x' has too many different values to count them one by one; its bins are cut by the first "
        f"{32 - count_values(values, 1000).shift} bits of float32"
    ]
    assert sketched.counts == exact.counts == (8, 2)
    assert np.isin(sketched.edges[0], values).all()
    np.testing.assert_allclose(np.bincount(sketched.codes[0]) / 5000, 1 / 8, atol=0.005)
