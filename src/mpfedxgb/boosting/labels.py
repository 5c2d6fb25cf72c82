"""Labels, weights and groups of rows as training takes them; what cannot be used is refused, with the remedy.

Callers have already made arrays of one value per row. `Origin` says what messages call them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from mpfedxgb.boosting.objective import Floats, Objective, Origin
from mpfedxgb.errors import DataError

LARGEST_LABEL = 2.0**29
"""Labels and starting margins keep below this, so that margins have room to grow up to 2^30."""

Class = str | int | float
"""What a class may be called: a text or a number, as a model file keeps it."""


def check_labels_present(labels: npt.NDArray[Any], origin: Origin) -> None:
    """Refuse labels that are missing or infinite, whatever their type."""
    missing = pd.isna(labels)
    if missing.any():
        held = origin.holds(labels[missing][0], "gaps")
        count = f"{int(missing.sum())} of {len(labels)} labels are missing"
        text = f"{held}: {count} (Input {origin.name} contains NaN); drop those rows or fill them in"
        raise DataError(text, "missing", origin.name)
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        held = origin.holds(labels[~np.isfinite(labels)][0], "infinity")
        text = f"{held} (Input {origin.name} contains infinity); drop those rows or rescale the labels"
        raise DataError(text, "value", origin.name)


def read_numbers(labels: npt.NDArray[Any], loss: Objective, origin: Origin, starts: bool) -> Floats:
    """Return labels that are numbers.

    Parameters
    ----------
    labels : array (rows,)
    loss : Objective
        May ask for more, such as counts.
    origin : Origin
    starts : bool
        Whether training starts from what these labels say: they are its own, and no base_score is given.
    """
    check_labels_present(labels, origin)
    try:
        numbers = labels.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{origin.name} holds something that is not a number; a regression needs numbers", "type", origin.name
        ) from None
    check_labels_present(numbers, origin)  # texts may have become infinity
    if np.abs(numbers).max(initial=0) >= LARGEST_LABEL:
        held = origin.holds(float(numbers[np.abs(numbers).argmax()]), "a number of 2^29 (5e8) or more")
        raise DataError(f"{held}; rescale labels to below 2^29 (5e8)", "range", origin.name)
    loss.check_labels(numbers, origin, starts)
    return numbers


def find_classes(labels: npt.NDArray[Any], origin: Origin) -> tuple[Class, ...]:
    """Return the classes among labels, in their order."""
    try:
        return tuple(class_name(value) for value in np.unique(labels).tolist())
    except TypeError:
        raise DataError(
            f"{origin.name} mixes texts and numbers; write all classes in one way", "mismatch", origin.name
        ) from None


def class_name(value: Any) -> Class:
    """Return a class as a model file keeps it."""
    return value if isinstance(value, (str, int, float)) else str(value)


def encode_classes(labels: npt.NDArray[Any], classes: Sequence[Class], origin: Origin) -> Floats:
    """Return the place of every label among the classes of the training rows."""
    place = {name: float(code) for code, name in enumerate(classes)}
    names = [class_name(value) for value in labels.tolist()]
    unknown = sorted({str(name) for name in names if name not in place})
    if unknown:
        named = f": {', '.join(unknown[:5])}" if origin.shows_values else ""
        text = f"{origin.name} holds {len(unknown)} classes that no training row has{named}; drop those rows"
        raise DataError(text, "unknown", origin.name, len(unknown))
    return np.array([place[name] for name in names])


def read_weights(weights: npt.NDArray[Any], origin: Origin) -> Floats:
    """Return weights of rows: finite, 0 or more, not all of them 0."""
    try:
        array = np.where(pd.isna(weights), np.nan, weights).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{origin.name} holds something that is not a number; give one weight per row", "type", origin.name
        ) from None
    if not np.isfinite(array).all():
        held = origin.holds(float(array[~np.isfinite(array)][0]), "gaps or infinity")
        raise DataError(f"{held}; weights are finite numbers, one per row", "value", origin.name)
    if (array < 0).any():
        raise DataError(
            f"{origin.holds(float(array.min()), 'numbers below 0')}; weights are 0 or more", "range", origin.name
        )
    if not array.any():
        raise DataError(f"{origin.name} is zero for all rows; at least one row has to count", "few", origin.name)
    return array


def read_groups(groups: npt.NDArray[Any], origin: Origin) -> npt.NDArray[np.int64]:
    """Return the number of the group of each row, (rows,), from its names: numbers or words without gaps."""
    if pd.isna(groups).any():
        raise DataError(f"{origin.name} has gaps; say of each row which group it is in", "missing", origin.name)
    try:
        return np.unique(groups, return_inverse=True)[1].reshape(-1)
    except TypeError:
        text = f"{origin.name} mixes words and numbers; name all groups in one way"
        raise DataError(text, "mismatch", origin.name) from None


def weights_of_groups(weights: Floats, groups: npt.NDArray[np.int64], origin: Origin) -> Floats:
    """Return weights (rows,) so that groups weigh 1 on average, as XGBoost has them; all rows of one weigh the same."""
    _, first = np.unique(groups, return_index=True)
    if (weights != weights[first][groups]).any():
        text = f"{origin.name} differs within a group; groups are weighed as a whole: give each group's rows one weight"
        raise DataError(text, "mismatch", origin.name)
    return np.asarray(weights * (len(first) / weights[first].sum()))


def read_base_margin(margins: npt.NDArray[Any], classes: int, origin: Origin) -> Floats:
    """Return the margins (classes, rows) that rows start from: finite, one per row, or one per row and class.

    Parameters
    ----------
    margins : array (rows,) or (rows, classes)
    classes : int
        How many margins a row has: 1, or one for each class.
    origin : Origin
    """
    columns = margins.reshape(-1, 1) if margins.ndim == 1 else margins
    if columns.ndim != 2 or columns.shape[1] != classes:
        wanted = "one per row" if classes == 1 else f"one per row and class or quantile, (rows, {classes})"
        raise DataError(
            f"{origin.name} has shape {margins.shape}; give {wanted}", "mismatch", origin.name, margins.shape
        )
    try:
        array = np.where(pd.isna(columns), np.nan, columns).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{origin.name} holds something that is not a number; give {MARGINS}", "type", origin.name
        ) from None
    if not np.isfinite(array).all():
        held = origin.holds(float(array[~np.isfinite(array)][0]), "gaps or infinity")
        raise DataError(f"{held}; give {MARGINS}", "value", origin.name)
    if np.abs(array).max(initial=0) >= LARGEST_LABEL:
        text = f"{origin.holds(float(np.abs(array).max()), 'a number of 2^29 (5e8) or more')}; rescale it"
        raise DataError(text, "range", origin.name)
    return np.ascontiguousarray(array.T)


MARGINS = "finite numbers, in the units of margins (log-odds, or logarithms of means, as the objective has them)"
