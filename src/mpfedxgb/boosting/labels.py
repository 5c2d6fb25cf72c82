"""Labels and weights as training takes them; what cannot be used is refused, with the remedy.

Whoever calls has already made arrays of one value per row. `Origin` says what messages call them.
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
        raise DataError(f"{held}: {count} (Input {origin.name} contains NaN); drop those rows or fill them in")
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        held = origin.holds(labels[~np.isfinite(labels)][0], "infinity")
        raise DataError(f"{held} (Input {origin.name} contains infinity); drop those rows or rescale the labels")


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
        raise DataError(f"{origin.name} holds something that is not a number; a regression needs numbers") from None
    check_labels_present(numbers, origin)  # texts may have become infinity
    if np.abs(numbers).max(initial=0) >= LARGEST_LABEL:
        held = origin.holds(float(numbers[np.abs(numbers).argmax()]), "a number of 2^29 (5e8) or more")
        raise DataError(f"{held}; rescale labels to below 2^29 (5e8)")
    loss.check_labels(numbers, origin, starts)
    return numbers


def find_classes(labels: npt.NDArray[Any], origin: Origin) -> tuple[Class, ...]:
    """Return the classes among labels, in their order."""
    try:
        return tuple(class_name(value) for value in np.unique(labels).tolist())
    except TypeError:
        raise DataError(f"{origin.name} mixes texts and numbers; write all classes in one way") from None


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
        raise DataError(f"{origin.name} holds {len(unknown)} classes that no training row has{named}; drop those rows")
    return np.array([place[name] for name in names])


def read_weights(weights: npt.NDArray[Any], origin: Origin) -> Floats:
    """Return weights of rows: finite, 0 or more, not all of them 0."""
    try:
        array = np.where(pd.isna(weights), np.nan, weights).astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{origin.name} holds something that is not a number; give one weight per row") from None
    if not np.isfinite(array).all():
        held = origin.holds(float(array[~np.isfinite(array)][0]), "gaps or infinity")
        raise DataError(f"{held}; weights are finite numbers, one per row")
    if (array < 0).any():
        raise DataError(f"{origin.holds(float(array.min()), 'numbers below 0')}; weights are 0 or more")
    if not array.any():
        raise DataError(f"{origin.name} is zero for all rows; at least one row has to count")
    return array
