"""A table of small whole numbers, for scripts whose results have to be xgboost's on rows that no model was trained on.

Every part of it has all values of a column, so that nothing is asked between two values, where cut points differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

VALUES = 12


def whole_numbers(kind: str, rows: int = 144, classes: int = 2) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """Return five columns, and labels that hang on three of them: `classes` of them, or positive numbers."""
    rng = np.random.default_rng(8)
    X = pd.DataFrame({name: rng.permutation(np.arange(rows) % VALUES) for name in "abcde"})
    signal = 0.3 * X["a"] - 0.2 * X["e"] + (X["c"] > 6) * 1.5 + rng.normal(size=rows)
    if kind == "numbers":
        return X, np.exp(0.3 * (signal - signal.mean())).round(3)
    return X, pd.qcut(signal, classes, labels=False)
