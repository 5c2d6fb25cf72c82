"""Equal-frequency bins with a bin of its own for every heavy value, and the sketch of the paper's experiments."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpfedxgb.data import Bins, Column, Table, bin_table, cut_points
from support.property_tests import examples

Values = list[float]
NAN = float("nan")

FEW = st.integers(-3, 3).map(float)
ANY = st.floats(-(2.0**127), 2.0**127, width=32)
COLUMNS = st.lists(st.one_of(FEW, ANY, st.just(NAN)), min_size=1, max_size=80)
"""Columns of numbers, some heavy, some missing."""


def column(values: Values | npt.NDArray[np.float64]) -> Column:
    """Return a column of numbers."""
    return Column("x", np.asarray(values, np.float32))


def binned(values: Values | npt.NDArray[np.float64], max_bin: int) -> Bins:
    """Return the bins of a table of one column."""
    return bin_table(Table("bank", (column(values),), len(values)), max_bin)


def present(values: Values) -> npt.NDArray[np.float32]:
    """Return the distinct values that are there, sorted."""
    array = np.asarray(values, np.float32)
    return np.unique(array[~np.isnan(array)])


@given(COLUMNS, st.integers(2, 40))
@examples(120)
def test_few_bins_all_of_them_used(values: Values, max_bin: int) -> None:
    """At most max_bin bins, and every one of them holds a training row."""
    bins = binned(values, max_bin)
    codes = bins.codes[0][~np.isnan(np.array(values))]

    assert bins.counts[0] <= max_bin
    assert sorted(set(codes.tolist())) == list(range(bins.counts[0]))


@given(COLUMNS, st.integers(2, 40))
@examples(120)
def test_value_up_to_an_edge_goes_left(values: Values, max_bin: int) -> None:
    """Edges are training values in strict order, the largest of their bins; missing values have a code of their own."""
    bins = binned(values, max_bin)
    edges, codes, count = bins.edges[0], bins.codes[0], bins.counts[0]

    assert len(edges) == max(0, count - 1)
    assert (np.diff(edges) > 0).all()
    assert np.isin(edges, present(values)).all()
    for k, edge in enumerate(edges):
        np.testing.assert_array_equal(codes <= k, np.asarray(values, np.float32) <= edge)
    np.testing.assert_array_equal(codes == count, np.isnan(np.asarray(values)) | (count == 0))
    assert bins.has_missing == (bool(np.isnan(np.asarray(values)).any()),)


@given(COLUMNS, st.integers(2, 40))
@examples(100)
def test_few_distinct_values_have_a_bin_each(values: Values, max_bin: int) -> None:
    """Up to max_bin distinct values: one bin each. Beyond: more than one bin."""
    distinct = present(values)
    bins = binned(values, max_bin)

    if len(distinct) <= max_bin:
        np.testing.assert_array_equal(bins.edges[0], distinct[:-1])
    else:
        assert bins.counts[0] > 1


@given(COLUMNS, st.integers(2, 40))
@examples(50)
def test_order_of_rows_does_not_matter(values: Values, max_bin: int) -> None:
    """Cut points are a function of which values there are, and how often."""
    shuffled = np.random.default_rng(len(values)).permutation(np.array(values))

    np.testing.assert_array_equal(cut_points(column(values), max_bin), cut_points(column(shuffled), max_bin))


@given(st.lists(st.integers(1, 30), min_size=2, max_size=60), st.integers(2, 20))
@examples(120)
def test_heavier_than_its_share_alone_in_its_bin(counts: list[int], max_bin: int) -> None:
    """The heaviest value, if it fills a bin and its neighbours leave room, shares its bin with nobody."""
    values = np.repeat(np.arange(len(counts), dtype=np.float64), counts)
    heaviest = int(np.argmax(counts))
    bins = binned(values, max_bin)
    same_bin = {
        int(v) for v, code in zip(values, bins.codes[0], strict=True) if code == bins.codes[0][values == heaviest][0]
    }

    neighbours = (heaviest > 0) + (heaviest < len(counts) - 1)
    if counts[heaviest] * max_bin >= sum(counts) and neighbours < max_bin:
        assert same_bin == {heaviest}


@given(st.integers(100, 400), st.integers(4, 32))
@examples(50)
def test_without_heavy_values_bins_are_of_equal_frequency(rows: int, max_bin: int) -> None:
    """Distinct values: as many bins as allowed, whose sizes differ by one row."""
    values = np.random.default_rng(rows).permutation(rows).astype(np.float64)
    sizes = np.bincount(binned(values, max_bin).codes[0])

    assert len(sizes) == max_bin
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("zeros", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("sign", [1, -1])
def test_mostly_zero_column_keeps_its_resolution(zeros: float, sign: int) -> None:
    """Zero has its own bin; the others are spread over all that remain, in equal numbers."""
    rng = np.random.default_rng(1)
    rest = sign * (1 + rng.permutation(4000))
    values = np.concatenate([np.zeros(int(4000 * zeros / (1 - zeros))), rest]).astype(np.float64)
    bins = binned(values, 32)
    sizes = np.bincount(bins.codes[0])
    of_zero = int(bins.codes[0][0])

    assert len(sizes) == 32
    assert sizes[of_zero] == (values == 0).sum()
    others = np.delete(sizes, of_zero)
    assert others.max() - others.min() <= 1


def test_heavy_value_between_light_ones() -> None:
    """A heavy value in the middle has its own bin, and the light ones on both sides share what remains evenly."""
    values = np.concatenate([np.arange(-600, 0), np.zeros(5000), np.arange(1, 201)]).astype(np.float64)
    bins = binned(values, 10)
    sizes = np.bincount(bins.codes[0])

    assert sizes.tolist() == [100] * 6 + [5000] + [100] * 2


def test_several_heavy_values() -> None:
    """Each of them has its own bin, also beside one another."""
    values = np.concatenate([np.repeat([3.0, 4.0, 50.0], 1000), np.arange(100, 200)])
    bins = binned(values, 8)
    sizes = np.bincount(bins.codes[0])

    assert sizes[:3].tolist() == [1000, 1000, 1000]
    assert len(sizes) == 8


@pytest.mark.parametrize("values", [[5.0] * 9, [5.0, NAN, 5.0], [NAN, NAN]])
def test_constant_and_empty_columns_have_no_edge(values: Values) -> None:
    """A constant is one bin, a column without a present value none."""
    bins = binned(values, 4)

    assert len(bins.edges[0]) == 0
    assert bins.counts == (0 if np.isnan(values).all() else 1,)
    assert bins.has_missing == (bool(np.isnan(values).any()),)


def test_values_that_float32_cannot_tell_apart_share_a_bin() -> None:
    """Columns are rounded to float32 first: 16,777,216 and 16,777,217 are one value, 0.1 is not the double 0.1."""
    bins = bin_table(Table.read({"x": [16777216, 16777217, 16777218], "y": [0.1, 0.2, 0.3]}, "bank"), 8)

    assert bins.counts == (2, 3)
    assert bins.codes[0].tolist() == [0, 0, 1]
    assert bins.edges[1].tolist() == [float(np.float32(0.1)), float(np.float32(0.2))]


def test_cut_points_come_from_training_rows_only() -> None:
    """Edges are among the values given to bin_table; there is no other input they could come from."""
    train = np.random.default_rng(0).normal(size=500)
    edges = binned(train, 16).edges[0]

    assert np.isin(edges, train.astype(np.float32)).all()
    assert (edges < train.astype(np.float32).max()).all()


def test_zero_has_no_sign() -> None:
    """Zero and minus zero are one value."""
    assert binned([0.0, -0.0, 1.0], 4).counts == (2,)


def test_categories_are_bins() -> None:
    """A categorical column has one bin per category, used or not, and no edges."""
    table = Table.read(pd.DataFrame({"a": pd.Categorical(["x", None, "y"], categories=["q", "y", "x"])}), "bank")
    bins = bin_table(table, 2)

    assert (bins.counts, bins.has_missing, len(bins.edges[0])) == ((3,), (True,), 0)
    assert bins.codes[0].tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("distinct", "kind"), [(254, np.uint8), (255, np.uint16), (65534, np.uint16), (65535, np.uint32)]
)
def test_codes_have_room_for_missing(distinct: int, kind: type) -> None:
    """The code behind the last bin still fits."""
    bins = binned(np.append(np.arange(distinct, dtype=np.float64), NAN), 70_000)

    assert bins.codes.dtype == kind
    assert bins.codes[0][-1] == distinct == bins.counts[0]


def test_table_without_columns() -> None:
    """No columns, no bins."""
    bins = bin_table(Table("bank", (), 5), 4)

    assert (bins.counts, bins.codes.shape) == ((), (0, 5))


class TestSketch:
    """`binning="paper"`: the greedy sketch with eps = 0.1 of the paper's experiments."""

    @pytest.mark.parametrize(
        ("counts", "edges"),
        [
            # Nine values, one row each: every one is more than a tenth, and right after the last cut.
            ([1] * 9, [0, 1, 2, 3, 4, 5, 6, 7]),
            # 19 rows: (0, 2] is full, so the cut is at 1, and 2 is not tested again: (1, 3] is, and cuts at 2, and
            # so on, until 18 ends the last bucket.
            ([1] * 19, list(range(18))),
            # 29 rows: (0, 3] is the first full bucket; cut at 2. (2, 5] cuts at 4, and so on.
            ([1] * 29, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26]),
            # Two values: the smallest is the only edge, whatever the shares.
            ([3, 1], [0]),
            ([1, 99], [0]),
            # The last bucket may be any size, and its end is no edge.
            ([1, 97, 1, 1], [0, 1]),
            # 0 | 1: 50 rows, right after the last cut | 2..5 are too few together with the end.
            ([20, 50, 2, 2, 2, 2, 22], [0, 1, 5]),
            # The heavy value 3 closes the bucket before itself (cut at 2) and is not tested again: 4 is, and cuts at 3.
            ([20, 2, 2, 50, 2, 2, 22], [0, 2, 3, 5]),
            ([89, 5, 6], [0, 1]),
            ([91, 5, 4], [0]),
            # Exactly a tenth is full where doubles say so: 0.2 - 0.1 is, 0.3 - 0.2 is not.
            ([2, 1, 1, 1, 15], [0, 1, 2, 3]),
            ([4, 1, 1, 1, 13], [0, 2, 3]),
        ],
    )
    def test_by_hand(self, counts: list[int], edges: list[int]) -> None:
        """Values 0, 1, ... with so many rows each; and the edges, worked out on paper."""
        values = np.repeat(np.arange(len(counts), dtype=np.float64), counts)

        assert bin_table(Table("bank", (column(values),), len(values)), 8, "paper").edges[0].tolist() == edges

    @given(COLUMNS, st.integers(2, 40))
    @examples(120)
    def test_as_the_walk_says(self, values: Values, max_bin: int) -> None:
        """Step by step through all distinct values: the same edges; max_bin has no say."""
        table = Table("bank", (column(values),), len(values))

        assert bin_table(table, max_bin, "paper").edges[0].tolist() == _walk(values)

    @given(COLUMNS)
    @examples(60)
    def test_every_bucket_holds_rows_and_they_are_few(self, values: Values) -> None:
        """A bucket and the value behind it fill a tenth, so there are at most two for every tenth, and the two ends."""
        bins = bin_table(Table("bank", (column(values),), len(values)), 8, "paper")
        codes = bins.codes[0][~np.isnan(np.array(values))]

        assert bins.counts[0] <= 22
        assert sorted(set(codes.tolist())) == list(range(bins.counts[0]))

    def test_indicators_and_categories_are_cut_as_ever(self) -> None:
        """Zeros and ones have one edge, categories none."""
        frame = pd.DataFrame({"flag": [0.0, 1.0, 1.0], "word": pd.Categorical(["x", "y", "x"])})
        bins = bin_table(Table.read(frame, "bank"), 8, "paper")

        assert [e.tolist() for e in bins.edges] == [[0.0], []]
        assert bins.counts == (2, 2)


def _walk(values: Values) -> Values:
    """Return the sketch's edges by walking through the distinct values one at a time."""
    distinct = present(values).tolist()
    rows = [v for v in np.asarray(values, np.float32).tolist() if v == v]
    if not distinct:
        return []
    cuts = [0]
    for i in range(1, len(distinct)):
        last = cuts[-1]
        up_to_last, up_to_value = (sum(v <= distinct[k] for v in rows) / len(rows) for k in (last, i))
        if not up_to_value - up_to_last < 0.1:
            cuts.append(i if i == last + 1 else i - 1)
    return [distinct[c] for c in cuts if c < len(distinct) - 1]
