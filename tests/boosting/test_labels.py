"""Labels and weights as they come in: what is taken, what is refused, and what a refusal may quote."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mpfedxgb.boosting.labels import (
    check_labels_present,
    class_name,
    encode_classes,
    find_classes,
    read_numbers,
    read_weights,
)
from mpfedxgb.boosting.objective import Origin
from mpfedxgb.boosting.objectives import OBJECTIVES
from mpfedxgb.errors import DataError
from support.refusals import Expected, refused

OPEN, SILENT = Origin("y"), Origin("the label of bank", shows_values=False)
SQUARED, COUNTS = OBJECTIVES["reg:squarederror"], OBJECTIVES["count:poisson"]


def mixed(*values: Any) -> np.ndarray[Any, Any]:
    """Return values of any kind as an array."""
    return np.array(values, object)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_numbers_keep_below_two_to_the_29(sign: float) -> None:
    """The last number below the limit is taken, the limit is not, on either side."""
    below = np.nextafter(2.0**29, 0) * sign
    assert read_numbers(np.array([0.0, below]), SQUARED, OPEN, True).tolist() == [0.0, below]
    with refused(DataError, "range", "y"):
        read_numbers(np.array([1.0, sign * 2.0**29]), SQUARED, OPEN, True)
    with refused(DataError, "range", "the label of bank"):
        read_numbers(np.array([1.0, sign * 2.0**29]), SQUARED, SILENT, True)


def test_numbers_of_any_type() -> None:
    """Integers, truth values and texts of numbers are numbers; no rows are none."""
    assert read_numbers(np.array([3, -4]), SQUARED, OPEN, True).tolist() == [3.0, -4.0]
    assert read_numbers(np.array([True, False]), SQUARED, OPEN, True).dtype == np.float64
    assert read_numbers(mixed("1.5", 2), SQUARED, OPEN, True).tolist() == [1.5, 2.0]
    assert read_numbers(np.array([]), SQUARED, OPEN, True).tolist() == []


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([1.0, np.nan, np.nan]), ("missing", "y", None)),
        (mixed("a", None), ("missing", "y", None)),
        (np.array([1.0, -np.inf]), ("value", "y", None)),
    ],
)
def test_missing_and_infinite_labels(labels: Any, expected: Expected) -> None:
    """Refused by the first of them, or without it where values stay silent."""
    with refused(DataError, *expected):
        check_labels_present(labels, OPEN)
    with refused(DataError, expected[0], "the label of bank"):
        check_labels_present(labels, SILENT)


def test_texts_that_are_no_finite_numbers() -> None:
    """One that is none, and one that becomes infinity."""
    with refused(DataError, "type", "y"):
        read_numbers(mixed("1", "many"), SQUARED, OPEN, True)
    with refused(DataError, "value", "y"):
        read_numbers(mixed("1", "inf"), SQUARED, OPEN, True)


def test_an_objective_may_ask_for_more() -> None:
    """Counts are not negative."""
    assert read_numbers(np.array([0, 2]), COUNTS, OPEN, True).tolist() == [0.0, 2.0]
    with refused(DataError, "range", "y"):
        read_numbers(np.array([0, -2]), COUNTS, OPEN, True)


def test_classes_are_found_and_encoded() -> None:
    """In their order, under the names that a model file keeps; dates and the like by their text."""
    labels = mixed("b", "a", "c", "a")
    assert find_classes(labels, OPEN) == ("a", "b", "c")
    assert encode_classes(labels, ("a", "b", "c"), OPEN).tolist() == [1.0, 0.0, 2.0, 0.0]
    assert find_classes(np.array([2.5, 1, 2.5]), OPEN) == (1.0, 2.5)
    dates = np.array(["2020-01-02", "2020-01-01"], "datetime64[D]")
    assert find_classes(dates, OPEN) == ("2020-01-01", "2020-01-02")
    assert encode_classes(dates, ("2020-01-01", "2020-01-02"), OPEN).tolist() == [1.0, 0.0]
    assert [class_name(value) for value in ("x", 1, 1.5, None)] == ["x", 1, 1.5, "None"]
    with refused(DataError, "mismatch", "y"):
        find_classes(mixed("a", 1), OPEN)


def test_classes_that_no_training_row_has() -> None:
    """Up to five are named, once each, unless values stay silent."""
    labels = mixed(*"zyxwvuzz", "a")
    with refused(DataError, "unknown", "y", 6):
        encode_classes(labels, ("a",), OPEN)
    with refused(DataError, "unknown", "the label of bank", 6):
        encode_classes(labels, ("a",), SILENT)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (np.array([1.0, np.nan]), ("value", "w", None)),
        (mixed(1, None), ("value", "w", None)),
        (np.array([1.0, np.inf]), ("value", "w", None)),
        (mixed(1, "heavy"), ("type", "w", None)),
        (np.array([1.0, -0.5, -2.0]), ("range", "w", None)),
        (np.zeros(3), ("few", "w", None)),
    ],
)
def test_refused_weights(weights: Any, expected: Expected) -> None:
    """Each by what is wrong with it."""
    with refused(DataError, *expected):
        read_weights(weights, Origin("w"))


def test_weights_of_zero_are_weights() -> None:
    """As long as one row counts; integers are numbers too."""
    assert read_weights(np.array([0, 0, 3]), Origin("w")).tolist() == [0.0, 0.0, 3.0]


@pytest.mark.parametrize(
    ("objective", "labels", "message"),
    [
        ("count:poisson", [1.0, -1.0], "y holds -1; count:poisson takes counts, 0 or more"),
        ("reg:tweedie", [1.0, -1.0], "y holds -1; reg:tweedie takes amounts, 0 or more"),
        ("reg:tweedie", [0.0, 0.0], "y is zero everywhere; reg:tweedie needs a positive mean or a base_score"),
        ("reg:gamma", [1.0, 0.0], "y holds 0; reg:gamma takes numbers above 0"),
        ("reg:squaredlogerror", [1.0, -1.0], "y holds -1; reg:squaredlogerror takes numbers above -1"),
        ("reg:logistic", [0.5, 1.5], "y holds 1.5; reg:logistic takes shares from 0 to 1"),
        ("reg:logistic", [0.5, -0.5], "y holds -0.5; reg:logistic takes shares"),
        ("reg:logistic", [1.0, 1.0], "y is all 0 or all 1; reg:logistic needs a mean between 0 and 1, or a base_score"),
        ("reg:logistic", [0.0, 0.0], "y is all 0 or all 1"),
    ],
)
def test_labels_that_an_objective_does_not_take(objective: str, labels: list[float], message: str) -> None:
    """Each by what is wrong with it; where messages go to a log they quote no label."""
    with pytest.raises(DataError, match=message):
        read_numbers(np.array(labels), OBJECTIVES[objective], Origin("y"), starts=True)
    with pytest.raises(DataError) as caught:
        read_numbers(np.array(labels), OBJECTIVES[objective], Origin("y", shows_values=False), starts=True)
    assert "holds -" not in str(caught.value)
    assert "1.5" not in str(caught.value)
