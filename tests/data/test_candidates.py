"""Candidate splits: their order, their columns of bits, and the fast product with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data import Candidate, Candidates, Table, bin_table
from support.property_tests import examples

NAN = float("nan")


def candidates(frame: dict[str, Any], max_bin: int = 8) -> Candidates:
    """Return the candidates of a table."""
    return Candidates(bin_table(Table.read(pd.DataFrame(frame), "bank"), max_bin))


def sides(table: Candidates) -> list[str]:
    """Return each candidate's column as a word: which rows go left."""
    return ["".join("LR"[1 - bit] for bit in row) for row in table.tile().tolist()]


def random_frame(seed: int, rows: int, missing: bool) -> pd.DataFrame:
    """Return numbers, few and many distinct ones, a constant, nothing at all, categories, with or without gaps."""
    rng = np.random.default_rng(seed)
    frame: dict[str, Any] = {
        "normal": rng.normal(size=rows),
        "few": rng.integers(0, 3, rows).astype(float),
        "constant": np.full(rows, 2.0),
        "nothing": np.full(rows, NAN),
        "zeros": np.where(rng.random(rows) < 0.8, 0, rng.normal(size=rows)),
    }
    if missing:
        for name in ("normal", "few", "constant"):
            frame[name] = np.where(rng.random(rows) < 0.3, NAN, frame[name])
    codes = rng.integers(-1 if missing else 0, 3, rows)
    frame["category"] = pd.Categorical.from_codes(codes, pd.Index(["u", "v", "w", "never"]))
    return pd.DataFrame(frame)


FRAMES = st.builds(random_frame, st.integers(0, 2**32 - 1), st.integers(1, 40), st.booleans())


def test_thresholds_ascend_with_missing_right() -> None:
    """Without missing values: x <= edge goes left, edges ascending, missing values to the right."""
    table = candidates({"x": [3.0, 1.0, 2.0]})

    assert sides(table) == ["RLR", "RLL"]
    assert table.items == [Candidate(0, 0, 1, missing_left=False), Candidate(0, 0, 2, missing_left=False)]
    assert [table.threshold(i) for i in range(2)] == [1, 2]


def test_order_with_missing_values() -> None:
    """Ascending with missing right, present against missing, descending with missing left, missing against present."""
    table = candidates({"x": [1.0, 2.0, 3.0, NAN]})

    assert sides(table) == ["LRRR", "LLRR", "LLLR", "LLRL", "LRRL", "RRRL"]
    assert [table.threshold(i) for i in range(6)] == [1, 2, np.inf, 2, 1, -np.inf]
    assert [item.missing_left for item in table.items] == [False] * 3 + [True] * 3


def test_constant_with_missing_values() -> None:
    """A constant with gaps splits present from missing, either way round."""
    assert sides(candidates({"x": [5.0, NAN, 5.0]})) == ["LRL", "RLR"]


def test_categories_one_against_the_rest() -> None:
    """In category order, the one goes right; missing values left."""
    table = candidates({"x": pd.Categorical(["b", "a", "c"], categories=["c", "a", "b"])})

    assert sides(table) == ["LLR", "LRL", "RLL"]
    assert all(item.missing_left and item.is_categorical for item in table.items)


def test_categories_with_missing_values() -> None:
    """Each category twice: missing values left, then right."""
    table = candidates({"x": pd.Categorical(["b", None, "a"], categories=["a", "b"])})

    assert sides(table) == ["LLR", "LRR", "RLL", "RRL"]
    assert [(item.low, item.missing_left) for item in table.items] == [(0, True), (0, False), (1, True), (1, False)]


def test_features_in_order() -> None:
    """All candidates of a feature stand together, features in the table's order."""
    table = candidates({"x": [1.0, 2.0, 3.0], "y": pd.Categorical(["u", "v", "u"]), "z": [2.0, 1.0, NAN]})

    assert [item.feature for item in table.items] == [0] * 2 + [1] * 2 + [2] * 4


@pytest.mark.parametrize("column", [[4.0, 4.0], [NAN, NAN], pd.Categorical([None, None])])
def test_columns_without_candidates(column: Any) -> None:
    """Constants and columns without a present value bring none."""
    table = candidates({"x": column})

    assert len(table) == 0
    assert table.tile(slice(0, 0)).shape == (0, 2)
    assert table.times(np.ones((3, 2), np.uint64)).shape == (3, 0)


@given(FRAMES, st.integers(2, 9))
@examples(50)
def test_number_of_candidates(frame: pd.DataFrame, max_bin: int) -> None:
    """Numbers: a threshold per pair of neighbouring bins, twice that and two more with gaps; categories one or two."""
    table = Candidates(bin_table(Table.read(frame, "bank"), max_bin))
    bins = table.bins
    for j, column in enumerate(bins.table.columns):
        count, gaps = bins.counts[j], bins.has_missing[j]
        number = sum(item.feature == j for item in table.items)
        if column.is_categorical:
            assert number == count * (2 if gaps else 1)
        elif count == 0:
            assert number == 0
        else:
            assert number == (2 * count if gaps else count - 1)


@given(FRAMES, st.integers(2, 9))
@examples(50)
def test_columns_of_numbers_follow_their_thresholds(frame: pd.DataFrame, max_bin: int) -> None:
    """Every column of bits is what its threshold or category and its side for missing values say."""
    table = Candidates(bin_table(Table.read(frame, "bank"), max_bin))
    bits = table.tile()
    for i, item in enumerate(table.items):
        values = table.bins.table.columns[item.feature].values
        left = values != item.low if item.is_categorical else values <= table.threshold(i)
        np.testing.assert_array_equal(bits[i], np.where(np.isnan(values), item.missing_left, left))


@given(FRAMES, st.integers(2, 9), st.integers(1, 4), st.integers(0, 2**32 - 1))
@examples(50)
def test_fast_product_is_the_dense_product(frame: pd.DataFrame, max_bin: int, vectors: int, seed: int) -> None:
    """Histograms and prefix sums give the dense product with the columns, modulo 2^64."""
    table = Candidates(bin_table(Table.read(frame, "bank"), max_bin))
    x = np.random.default_rng(seed).integers(0, 1 << 64, (vectors, len(frame)), np.uint64, endpoint=False)
    dense = (x[:, None, :] * table.tile().astype(np.uint64)).sum(axis=2, dtype=np.uint64)

    np.testing.assert_array_equal(table.times(x), dense, strict=True)


@given(FRAMES, st.integers(2, 9))
@examples(60)
def test_tiles_and_single_columns(frame: pd.DataFrame, max_bin: int) -> None:
    """A tile is some of the columns; rows_left is one of them, from bins or from raw values alike."""
    table = Candidates(bin_table(Table.read(frame, "bank"), max_bin))
    bits = table.tile()

    for first in range(0, len(table), 3):
        np.testing.assert_array_equal(table.tile(slice(first, first + 3)), bits[first : first + 3])
    for i in range(len(table)):
        np.testing.assert_array_equal(table.rows_left(i), bits[i])
        np.testing.assert_array_equal(table.rows_left(i, table.bins.table), bits[i])


def other_rows(values: list[Any], kind: str) -> Table:
    """Return later rows of a table trained on the numbers 1, 2, 4 or the categories u and v."""
    if kind == "numbers":
        return Table.read({"x": values}, "bank").match(["x"], {})
    column = pd.Categorical(values, categories=["w", "v", "u"])
    return Table.read(pd.DataFrame({"x": column}), "bank").match(["x"], {"x": ("u", "v")})


def test_new_values_go_by_the_edge() -> None:
    """Values never seen go left up to the edge; missing ones right where training had none."""
    table = candidates({"x": [1.0, 2.0, 4.0]})
    later = other_rows([-9.0, 1.0, 1.5, 2.0, 3.0, 99.0, NAN], "numbers")

    assert table.rows_left(0, later).tolist() == [1, 1, 0, 0, 0, 0, 0]
    assert table.rows_left(1, later).tolist() == [1, 1, 1, 1, 0, 0, 0]


def test_new_values_where_all_present_ones_go_one_way() -> None:
    """Present against missing holds for values never seen, however large."""
    table = candidates({"x": [1.0, NAN]})
    later = other_rows([-3e38, 3e38, NAN], "numbers")

    assert [table.rows_left(i, later).tolist() for i in range(2)] == [[1, 1, 0], [0, 0, 1]]


def test_unseen_categories_go_with_the_rest() -> None:
    """A category that training did not know is not the one; missing values, where training had none, go left."""
    table = candidates({"x": pd.Categorical(["u", "v"], categories=["u", "v"])})
    later = other_rows(["u", "v", "w", None], "categories")

    assert table.rows_left(0, later).tolist() == [0, 1, 1, 1]
    assert table.rows_left(1, later).tolist() == [1, 0, 1, 1]


def test_no_more_than_a_number_is_shown() -> None:
    """The text of candidates tells how many there are."""
    assert repr(candidates({"x": [1.0, 2.0, 3.0], "y": [0.0, 0.0, 0.0]})) == "Candidates(2 of 2 features)"


def test_many_bins() -> None:
    """More bins than a byte counts."""
    values: npt.NDArray[np.float64] = np.random.default_rng(0).permutation(700).astype(np.float64)
    table = candidates({"x": values}, 1000)
    g = np.arange(700, dtype=np.uint64)[None]

    assert len(table) == 699
    np.testing.assert_array_equal(table.times(g)[0], (table.tile() * g).sum(axis=1, dtype=np.uint64))
