"""Tables as participants bring them: what is read, what is refused and how, and categories of another time."""

from __future__ import annotations

import datetime
import decimal
import fractions
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mpfedxgb.data import Column, Table
from mpfedxgb.errors import DataError, UserError, public_reason
from support.property_tests import examples
from support.refusals import ANY, Expected, refused

NAN = float("nan")
READ: dict[str, tuple[Any, list[float]]] = {
    "int": ([1, 2], [1, 2]),
    "float": ([1.5, NAN], [1.5, NAN]),
    "bool": ([True, False], [1, 0]),
    "nullable integer": (pd.array([7, None], dtype="Int64"), [7, NAN]),
    "nullable float": (pd.array([0.5, None], dtype="Float32"), [0.5, NAN]),
    "nullable boolean": (pd.array([True, None], dtype="boolean"), [1, NAN]),
    "booleans and None": (pd.Series([True, None], dtype=object), [1, NAN]),
    "fraction": ([fractions.Fraction(1, 2), 2], [0.5, 2]),
    "decimal": ([decimal.Decimal("1.5"), None], [1.5, NAN]),
    "sparse column": (pd.arrays.SparseArray([0.0, 4.0]), [0, 4]),
    "half precision": (np.array([1, 2], np.float16), [1, 2]),
    "unsigned": (np.array([0, 255], np.uint8), [0, 255]),
    "nothing": ([None, None], [NAN, NAN]),
    "largest": ([float(np.finfo(np.float32).max), -1e-45], [float(np.finfo(np.float32).max), -1e-45]),
}
"""What a column may hold, and the numbers it stands for."""

REFUSED: dict[str, tuple[Any, str]] = {
    "word among numbers": ([1, "red"], r"'red', which is not a number.*astype\('category'\)"),
    "number that is text": (["1", 2], "'1', which is not a number but text; convert the column or make it categorical"),
    "text with an underscore": ([1, "1_0"], "'1_0', which is not a number but text"),
    "bytes": ([b"7", b"8"], r"b'7', which is not a number but bytes; decode the column \(str.decode"),
    "complex among numbers": (pd.Series([2, 1j], dtype=object), "1j, which is not a number"),
    "months": (pd.period_range("2020-01", periods=2, freq="M"), "dates or durations; turn them into numbers"),
    "not a time": (pd.Series([1, pd.NaT], dtype=object), "NaT, which is not a number"),
    "list": ([[1], [2]], r"\[1\], which is not a number"),
    "interval": (pd.interval_range(0, 2), "Interval.*which is not a number"),
    "date": ([datetime.date(2020, 1, 1), None], "datetime.date.*which is not a number"),
    "dates": (pd.date_range("2020", periods=2), "dates or durations; turn them into numbers"),
    "dates of a zone": (pd.date_range("2020", periods=2, tz="UTC"), "dates or durations"),
    "durations": (pd.to_timedelta([1, 2]), "dates or durations"),
    "infinite": ([1.0, -np.inf], "infinity, which has no place in a bin; cap the values"),
    "beyond float32": ([1.0, 1e39], r"1e\+39, beyond float32 \(3.4e38\); rescale"),
    "beyond float64": (pd.Series([1, 10**400], dtype=object), "beyond float32 .*; rescale"),
    "complex": ([1j, 2], "complex numbers; split it into real columns"),
    "categories that read alike": (pd.Categorical([1, "1"]), "two categories written '1'; rename"),
}
"""What a column may not hold, and what is said about it."""


def values(table: Table, column: int = 0) -> list[float]:
    """Return a column's numbers."""
    numbers: list[float] = table.columns[column].values.tolist()
    return numbers


@pytest.mark.parametrize("kind", READ)
def test_column_types(kind: str) -> None:
    """Numbers of every kind pandas knows become float32, gaps become NaN."""
    given_, expected = READ[kind]
    table = Table.read(pd.DataFrame({"a": given_}), "bank")

    assert table.columns[0].values.dtype == np.float32
    assert not table.columns[0].is_categorical
    np.testing.assert_array_equal(values(table), np.array(expected, np.float32))


@pytest.mark.parametrize(
    "texts",
    [
        ["red", None, "007"],
        pd.array(["red", None, "007"], dtype="string"),
        pd.Series(["red", None, "007"], dtype="str"),
    ],
    ids=["objects", "string", "str"],
)
def test_text_is_categories(texts: Any) -> None:
    """However pandas keeps text, it is categories, in the order of the words; what looks like a number stays a word."""
    table = Table.read(pd.DataFrame({"a": texts}), "bank")

    assert table.columns[0].categories == ("007", "red")
    np.testing.assert_array_equal(values(table), [1, NAN, 0])
    assert Table.read(pd.DataFrame({"a": ["1", "2.5"]}), "bank").columns[0].categories == ("1", "2.5")


@pytest.mark.parametrize("array", [np.array([["1", "2.5"]]), np.array([["1", 2.5]], object), [["1", 2.5]]])
def test_text_in_arrays_is_numbers_or_refused(array: Any) -> None:
    """An array has one type for all its columns, so its text says nothing of one: numbers are read, words refused."""
    table = Table.read(array, "bank")
    assert [values(table, 0), values(table, 1)] == [[1], [2.5]]
    with refused(DataError, "type", "f1", "red"):
        Table.read([[1, "red"]], "bank")
    with refused(DataError, "type", "f0", "1_0"):
        Table.read(np.array([["2"], ["1_0"]]), "bank")
    with refused(DataError, "type", "f0", "1"):
        Table.read(np.array([[2], ["1"]], object), "bank")


@pytest.mark.parametrize("kind", REFUSED)
def test_refused_columns(kind: str) -> None:
    """A refusal names owner, column, value and remedy, is a ValueError, and stays with its role."""
    given_, message = REFUSED[kind]
    with pytest.raises(DataError, match=rf"^bank: column 'income' (holds|has) .*{message}") as caught:
        Table.read(pd.DataFrame({"age": [1, 2], "income": given_}), "bank")

    assert isinstance(caught.value, ValueError)
    assert public_reason(caught.value) == public_reason(DataError(""))


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (np.array([[1, 2], [3, 4]]), ["f0", "f1"]),
        ([[1, 2], [3, 4]], ["f0", "f1"]),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["x", "y"]), ["x", "y"]),
        (pd.DataFrame([[1, 2], [3, 4]]), ["0", "1"]),
        ({"x": [1, 3], "y": [2, 4]}, ["x", "y"]),
        (pd.DataFrame([[1, 2], [3, 4]], columns=["x", 7], index=[9, 9]), ["x", "7"]),
    ],
)
def test_forms_of_tables(data: Any, names: list[str]) -> None:
    """Arrays, lists, frames and dictionaries; names are kept as text, or made up."""
    table = Table.read(data, "bank")

    assert (table.owner, table.rows, table.names) == ("bank", 2, names)
    assert (values(table, 0), values(table, 1)) == ([1, 3], [2, 4])


def test_names_are_given_to_data_without_any() -> None:
    """An array takes the names it is given; a frame keeps its own; a series is one column."""
    array = np.array([[1, 2]])

    assert Table.read(array, "bank", ["u", "v"]).names == ["u", "v"]
    assert Table.read(pd.DataFrame(array, columns=["x", "y"]), "bank", ["u", "v"]).names == ["x", "y"]
    assert Table.read(pd.Series([1, 2], name="z"), "bank").names == ["z"]


def test_masked_values_are_missing() -> None:
    """A masked array's masked values are missing, not what lies beneath the mask."""
    table = Table.read(np.ma.array([[1, 2], [3, 4]], mask=[[True, False], [False, False]]), "bank")

    np.testing.assert_array_equal(values(table), [NAN, 3])


def test_table_without_columns_has_rows() -> None:
    """A participant may bring rows and no columns."""
    assert (Table.read(np.empty((3, 0)), "bank").rows, Table.read(np.empty((3, 0)), "bank").names) == (3, [])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (pd.DataFrame({"a": []}), ("few", "bank", 0)),
        (np.empty((0, 3)), ("few", "bank", 0)),
        (np.array([1, 2]), ("type", "bank", 1)),
        (None, ("type", "bank", 0)),
        (np.array([[1j]]), ("type", "bank", None)),
        (sparse.csr_matrix([[1j]]), ("type", "bank", None)),
        (sparse.coo_array([1.0, 2.0]), ("type", "bank", 1)),
        (pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]), ("duplicate", "bank", ANY)),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), ("duplicate", "bank", ANY)),
        (
            pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            ("type", "bank", None),
        ),
        ([[1, 2], [3]], ("mismatch", "bank", None)),
        ({"a": [1, 2], "b": [1]}, ("mismatch", "bank", None)),
    ],
)
def test_refused_tables(data: Any, expected: Expected) -> None:
    """What is not a table is refused with its owner's name and a remedy."""
    with refused(DataError, *expected):
        Table.read(data, "bank")


@given(st.lists(st.floats(-3e38, 3e38), min_size=1, max_size=20))
@examples(30)
def test_numbers_are_rounded_once(numbers: list[float]) -> None:
    """Columns hold the nearest float32, as XGBoost's do."""
    table = Table.read(pd.DataFrame({"a": numbers}), "bank")

    np.testing.assert_array_equal(table.columns[0].values, np.array(numbers).astype(np.float32))


def test_categories_are_codes_in_their_order() -> None:
    """A categorical column holds codes in the order of its categories, NaN where missing; unused ones are kept."""
    column = pd.Categorical(["x", None, "y", "x"], categories=["y", "x", "q"])
    table = Table.read(pd.DataFrame({"a": column}), "bank")

    assert table.columns[0].is_categorical
    assert table.columns[0].categories == ("y", "x", "q")
    np.testing.assert_array_equal(values(table), [1, NAN, 0, 1])


def categorical(entries: list[str | None], categories: list[str]) -> Table:
    """Return a table of one categorical column."""
    return Table.read(pd.DataFrame({"a": pd.Categorical(entries, categories=categories)}), "bank")


@given(
    st.permutations(["u", "v", "w", "x"]),
    st.integers(1, 4),
    st.lists(st.sampled_from(["u", "v", "w", "x", None]), min_size=1, max_size=12),
    st.permutations(["u", "v", "w", "x"]),
)
@examples(40)
def test_recoding_keeps_meaning(order: list[str], known: int, entries: list[str | None], later: list[str]) -> None:
    """However the categories are ordered later, each entry gets the model's code; unseen ones a code of their own."""
    model = tuple(order[:known])
    table = categorical(entries, later).match(["a"], {"a": model})
    expected = [NAN if e is None else model.index(e) if e in model else len(model) for e in entries]

    assert table.columns[0].categories == model
    np.testing.assert_array_equal(values(table), expected)


@pytest.mark.parametrize(
    ("trained", "later", "codes"),
    [
        ([1, 2, 3], [2.0, NAN, 1.0, 4.0], [1, NAN, 0, 3]),  # pandas makes integers floats once a value is missing
        ([1.0, 2.5, NAN], [1, 2, 1], [0, 2, 0]),
        ([1, 2], ["2", "1", "1.0", "one"], [1, 0, 0, 2]),
        (["1", "2", "1.0"], [1, 2.0], [1, 2]),  # 1 among floats is 1.0, which is a category of its own
        ([True, False], [1.0, NAN, 0.0, 2.0], [1, NAN, 0, 2]),
        ([0, 1], [True, None, False], [1, NAN, 0]),
        (["True", "False"], [False, True], [0, 1]),
        ([2**60, 2**60 + 1], [2**60 + 1], [1]),
        (["007", "7"], [7, 8], [1, 2]),
        (["a", "1"], ["b", "01x"], [2, 2]),
    ],
)
def test_categories_are_matched_by_value(trained: list[Any], later: list[Any], codes: list[float]) -> None:
    """Numbers and truth values are the same category however pandas came to write them; others are unseen."""
    model = Table.read(pd.DataFrame({"a": pd.Categorical(trained)}), "bank").columns[0].categories
    assert model is not None
    table = Table.read(pd.DataFrame({"a": pd.Categorical(later)}), "bank").match(["a"], {"a": model})

    np.testing.assert_array_equal(values(table), codes)


@pytest.mark.parametrize(("trained", "later"), [(["007", "010"], [7]), (["7", "8"], ["007"]), (["1", "1.0"], ["1.00"])])
def test_categories_whose_writing_counts_are_refused(trained: list[str], later: list[Any]) -> None:
    """Where zeros were lost on the way, or two known categories have the value, nobody guesses."""
    table = Table.read(pd.DataFrame({"a": pd.Categorical(later)}), "bank")

    with refused(DataError, "mismatch", "bank: column 'a'"):
        table.match(["a"], {"a": tuple(trained)})


def test_match_orders_columns() -> None:
    """The columns a model knows come in its order."""
    table = Table.read({"x": [1], "y": [2], "z": [3]}, "bank").match(["z", "x", "y"], {})

    assert (table.names, [values(table, i) for i in range(3)]) == (["z", "x", "y"], [[3], [1], [2]])


@pytest.mark.parametrize(
    ("names", "categories", "expected"),
    [
        (["x", "y", "age"], {}, ("mismatch", "bank", None)),
        (["x"], {}, ("mismatch", "bank", None)),
        (["x", "age", "sex"], {}, ("mismatch", "bank", None)),
        (
            ["x", "y"],
            {"y": ("a",)},
            ("mismatch", "y", "numbers"),
        ),
    ],
)
def test_match_refuses_other_columns(
    names: list[str], categories: dict[str, tuple[str, ...]], expected: Expected
) -> None:
    """Missing and unknown columns, and numbers instead of categories, are named."""
    with refused(DataError, *expected):
        Table.read({"x": [1], "y": [2]}, "bank").match(names, categories)


def test_rows_follow_each_other() -> None:
    """The rows of one table and then of others, column by column; names, owner and categories are the first one's."""
    first = Table.read(pd.DataFrame({"x": [1.0, NAN], "c": pd.Categorical(["u", "v"], ["u", "v"])}), "bank")
    others = [
        Table.read(pd.DataFrame({"x": [float(i)] * i, "c": pd.Categorical(["v"] * i, ["u", "v"])}), f"later {i}")
        for i in (1, 2)
    ]
    both = first.followed_by(others)

    assert (both.owner, both.rows, both.names) == ("bank", 5, ["x", "c"])
    assert values(both) == pytest.approx([1, NAN, 1, 2, 2], nan_ok=True)
    assert values(both, 1) == [0, 1, 1, 1, 1]
    assert both.columns[1].categories == ("u", "v")
    assert both.columns[0].values.dtype == np.float32
    assert (first.rows, len(first.columns[0].values)) == (2, 2)
    alone = first.followed_by([])
    assert alone.rows == 2
    assert values(alone) == pytest.approx(values(first), nan_ok=True)


def test_match_refuses_categories_for_numbers() -> None:
    """A column trained on numbers does not take categories."""
    with refused(UserError, "mismatch", "a", "categories"):
        categorical(["u"], ["u"]).match(["a"], {})


def test_tables_and_columns_are_shown_without_content() -> None:
    """The text of a table says how large it is; that of a column its name."""
    table = Table.read({"x": [123.5, 2]}, "bank")

    assert repr(table) == "Table(owner='bank', rows=2, columns=1)"
    assert repr(Column("x", table.columns[0].values, ("secret",))) == "Column(name='x')"
