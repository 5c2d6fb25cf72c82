"""Early stopping beside xgboost's: the same metric values, hence the same best round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xgboost

from mpfedxgb import FedXGBClassifier

TRAINING, EVALUATION = 120, 25
"""Rows; so few evaluation rows are often ranked alike in many rounds."""

SETTINGS: dict[str, Any] = {"n_estimators": 25, "max_depth": 3, "max_bin": 256, "early_stopping_rounds": 4}


@pytest.mark.parametrize("seed", [6, 12, 26, 40, 46, 92])
@pytest.mark.parametrize("metric", ["auc", "aucpr"])
def test_areas_with_evaluation_weights_stop_where_xgboost_stops(metric: str, seed: int) -> None:
    """Rounds that rank the rows alike are no progress by a last bit that xgboost does not have."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.integers(0, 8, (TRAINING + EVALUATION, 4)).astype(float), columns=list("abcd"))
    y = (X["a"] + X["b"] / 2 + rng.normal(size=len(X)) > 5).astype(int)
    of_fit: dict[str, Any] = {
        "eval_set": [(X[TRAINING:], y[TRAINING:])],
        "sample_weight_eval_set": [rng.random(EVALUATION) + 0.1],
    }

    ours = FedXGBClassifier(security="none", learning_rate=0.3, eval_metric=metric, **SETTINGS)
    theirs = xgboost.XGBClassifier(learning_rate=0.3, eval_metric=metric, n_jobs=1, **SETTINGS)
    ours.fit(X[:TRAINING], y[:TRAINING], **of_fit)
    theirs.fit(X[:TRAINING], y[:TRAINING], verbose=False, **of_fit)

    assert ours.best_iteration == theirs.best_iteration
    expected = theirs.evals_result()["validation_0"][metric]
    assert ours.evals_result()["validation_0"][metric] == pytest.approx(expected, rel=1e-12)
